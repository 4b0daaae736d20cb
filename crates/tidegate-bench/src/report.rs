//! The figures as Markdown, and where they go.

use std::fs;
use std::path::Path;

use crate::scenario::many_keys_wait::ManyKeys;
use crate::timing::{Effort, Figures, Scenario, Side, measure};
use crate::{instructions, machine, memory, scenario};

/// The line after which the generated part of a document begins.
pub const BEGIN: &str = "<!-- measured: begin (written by `tidegate-bench compare --write`) -->";
/// The line at which it ends.
pub const END: &str = "<!-- measured: end -->";

/// The parts to leave out of a report.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// How often to repeat.
    pub effort: Effort,
    /// Whether to measure memory and the worst call, which takes minutes.
    pub with_memory: bool,
    /// Whether to count instructions.
    pub with_instructions: bool,
}

/// Measures the scenarios of these names, or all, and writes them as Markdown.
pub fn compare(names: &[String], extent: Extent) -> Result<String, String> {
    if let Some(unknown) = names.iter().find(|name| scenario::ALL.iter().all(|known| known.name != **name)) {
        let known: Vec<&str> = scenario::ALL.iter().map(|known| known.name).collect();
        return Err(format!("no scenario \"{unknown}\"; use one of {}", known.join(", ")));
    }
    let mut text = machine::description();
    if !cfg!(feature = "rivals") {
        text += "- built without `--features rivals`: no rivals beside\n";
    }
    let chosen =
        scenario::ALL.iter().filter(|one| names.is_empty() || names.iter().any(|name| name == one.name));
    text += &format!(
        "\nNanoseconds a decision and thread: least of {} medians of {} repetitions, and the ratio to the best\nrival. \
         In brackets the least and most of that round, where they are more than 5 % apart. In bold:\nslower than the \
         rival, or over budget.\n",
        extent.effort.rounds, extent.effort.repetitions
    );
    let mut title = String::new();
    for named in chosen {
        eprintln!("measuring {}", named.name);
        let scenario = (named.make)();
        let both = [1, 2].map(|threads| measure(&scenario, threads, extent.effort));
        if scenario.title != title {
            text += &heading(&scenario);
            title.clone_from(&scenario.title);
        }
        text += &rows(&scenario, &both);
    }
    if extent.with_memory {
        eprintln!("measuring memory");
        text += &memory::table(10_000_000)?;
    }
    if extent.with_instructions {
        eprintln!("counting instructions");
        text += &instructions::table();
    }
    Ok(text)
}

/// Measures checks among many keys by one thread, as a table.
pub fn many_keys(many: ManyKeys, effort: Effort) -> String {
    let scenario = many.scenario();
    let figures = measure(&scenario, 1, effort);
    let mib = |bytes: u64| bytes >> 20;
    let mut text = format!(
        "{}; {} MiB in memory, {} MiB of them in huge pages\n\n| | ns (least to most) |\n|---|---|\n",
        scenario.title,
        mib(machine::resident_bytes()),
        mib(machine::huge_page_bytes())
    );
    for (candidate, Figures { median, least, most }) in scenario.candidates.iter().zip(figures) {
        text += &format!("| {} | {median:.1} ({least:.1} to {most:.1}) |\n", candidate.name);
    }
    text
}

/// The least and the most of a round are written when they are further apart than this.
const APART: f64 = 1.05;

/// The title of a scenario and the head of its table, without ratios if it has no rival.
fn heading(scenario: &Scenario) -> String {
    let columns = if has_rival(scenario) {
        "| | 1 thread | ratio | 2 threads | ratio |\n|---|---|---|---|---|"
    } else {
        "| | 1 thread | 2 threads |\n|---|---|---|"
    };
    format!("\n### {}\n\n{columns}\n", scenario.title)
}

/// A row for each candidate of a scenario, with one thread and two.
fn rows(scenario: &Scenario, both: &[Vec<Figures>; 2]) -> String {
    let has_rival = has_rival(scenario);
    let mut text = String::new();
    for (index, candidate) in scenario.candidates.iter().enumerate() {
        text += &format!("| {} ", candidate.name);
        for (figures, budget) in both.iter().zip(candidate.budgets) {
            let Figures { median, least, most } = figures[index];
            let budget = match budget {
                Some(ns) if median > ns => format!(", **budget {ns}**"),
                Some(ns) => format!(", budget {ns}"),
                None => String::new(),
            };
            let is_apart = most > least * APART;
            let range = if is_apart { format!(" ({least:.1}-{most:.1})") } else { String::new() };
            text += &format!("| {median:.1}{range}{budget} ");
            if has_rival {
                let ratio = match best_rival(scenario, figures) {
                    Some(best) if candidate.side == Side::Ours && median > best => {
                        format!("**{:.2}** ", median / best)
                    }
                    Some(best) if candidate.side == Side::Ours => format!("{:.2} ", median / best),
                    _ => String::new(),
                };
                text += &format!("| {ratio}");
            }
        }
        text += "|\n";
    }
    text
}

fn has_rival(scenario: &Scenario) -> bool {
    scenario.candidates.iter().any(|one| one.side == Side::Rival)
}

/// The median of the quickest rival.
fn best_rival(scenario: &Scenario, figures: &[Figures]) -> Option<f64> {
    let rivals = scenario.candidates.iter().zip(figures).filter(|(one, _)| one.side == Side::Rival);
    rivals.map(|(_, figures)| figures.median).min_by(f64::total_cmp)
}

/// Replaces what stands between the markers of a document.
pub fn write_between_markers(path: &Path, text: &str) -> Result<(), String> {
    let replaced = replaced_in(path, text)?;
    fs::write(path, replaced).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// The document with this text between its markers. An error is known before minutes of measuring.
pub fn replaced_in(path: &Path, text: &str) -> Result<String, String> {
    let shown = path.display();
    let document = fs::read_to_string(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
    replace_between_markers(&document, text)
        .ok_or_else(|| format!("{shown} lacks the lines \"{BEGIN}\" and \"{END}\"; add them"))
}

fn replace_between_markers(document: &str, text: &str) -> Option<String> {
    let (before, rest) = document.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{}\n\n{END}{after}", text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_between_the_markers_is_replaced() {
        let document = format!("# Title\n\n{BEGIN}\nold\n{END}\n\nlast\n");
        let replaced = replace_between_markers(&document, "new\n").unwrap();
        assert_eq!(replaced, format!("# Title\n\n{BEGIN}\n\nnew\n\n{END}\n\nlast\n"));
        assert_eq!(replace_between_markers("no markers", "new"), None);
    }
}
