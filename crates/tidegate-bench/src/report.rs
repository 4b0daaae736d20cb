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
    let (mut summary, mut sections) = (String::new(), String::new());
    for named in chosen {
        eprintln!("measuring {}", named.name);
        let scenario = (named.make)();
        let both = [1, 2].map(|threads| measure(&scenario, threads, extent.effort));
        summary += &summary_of(&scenario, &both);
        sections += &section(&scenario, &both, extent.effort);
    }
    text += "\n### Budgets\n\n| what | threads | budget ns | ours | best rival in this run | ratio | |\n\
             |---|---|---|---|---|---|---|\n";
    text += &summary;
    text += &sections;
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

/// A line for each figure that has a budget or a rival: budget, ours, the best rival, and whether
/// we hold up.
fn summary_of(scenario: &Scenario, both: &[Vec<Figures>; 2]) -> String {
    let mut text = String::new();
    for (threads, figures) in (1..).zip(both) {
        let best = best_rival(scenario, figures);
        for (candidate, figures) in scenario.candidates.iter().zip(figures) {
            let budget = candidate.budgets[threads - 1];
            if candidate.side != Side::Ours || (budget.is_none() && best.is_none()) {
                continue;
            }
            let ours = figures.median;
            let verdicts = [
                budget.filter(|budget| ours > *budget).map(|_| "**over budget**"),
                best.filter(|(_, rival)| ours > *rival).map(|_| "**slower than the rival**"),
            ];
            let verdict = verdicts.into_iter().flatten().collect::<Vec<_>>().join(", ");
            text += &format!(
                "| {}: {} | {threads} | {} | {ours:.1} | {} | {} | {verdict} |\n",
                scenario.title,
                candidate.name,
                budget.map_or(String::new(), |ns| format!("{ns}")),
                best.map_or(String::new(), |(name, ns)| format!("{name}: {ns:.1}")),
                best.map_or(String::new(), |(_, ns)| format!("{:.2}", ours / ns)),
            );
        }
    }
    text
}

/// One scenario with one thread and two.
fn section(scenario: &Scenario, both: &[Vec<Figures>; 2], effort: Effort) -> String {
    let mut text = format!(
        "\n### {}\n\nNanoseconds a decision and thread: least of {} medians of {} repetitions (least to most of that \
         round).\n\n| | 1 thread | to best rival | 2 threads | to best rival |\n|---|---|---|---|---|\n",
        scenario.title, effort.rounds, effort.repetitions
    );
    for (index, candidate) in scenario.candidates.iter().enumerate() {
        text += &format!("| {} ", candidate.name);
        for figures in both {
            let Figures { median, least, most } = figures[index];
            let ratio = match best_rival(scenario, figures) {
                Some((_, best)) if candidate.side == Side::Ours => format!("{:.2}", median / best),
                _ => String::new(),
            };
            text += &format!("| {median:.1} ({least:.1} to {most:.1}) | {ratio} ");
        }
        text += "|\n";
    }
    text
}

fn best_rival<'s>(scenario: &'s Scenario, figures: &[Figures]) -> Option<(&'s str, f64)> {
    let rivals = scenario.candidates.iter().zip(figures).filter(|(one, _)| one.side == Side::Rival);
    let named = rivals.map(|(one, figures)| (one.name.as_str(), figures.median));
    named.min_by(|(_, one), (_, other)| one.total_cmp(other))
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
