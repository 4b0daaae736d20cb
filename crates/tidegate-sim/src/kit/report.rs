//! The parts that reports of comparisons share, as text and as one HTML page.

use core::fmt::{self, Write as _};

use super::gate_line::{GateLine, GateOutcome};
use super::markup::escaped;

const STYLE: &str = include_str!("report.css");

/// A page with its title and its heading, to be closed by [`close_page`]. `style` is added to the
/// style that all pages have.
pub(crate) fn open_page(title: &str, heading: &str, style: &str) -> String {
    let mut html = String::with_capacity(1 << 20);
    let _ = write!(
        html,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>{title}</title><style>\n{STYLE}{style}</style></head><body>\n\
         <h1>{heading}</h1>\n"
    );
    html
}

/// Ends a page.
pub(crate) fn close_page(html: &mut String) {
    html.push_str("</body></html>\n");
}

/// How many of the lines have an outcome.
pub(crate) fn count_of<'a>(lines: impl IntoIterator<Item = &'a GateLine>, outcome: GateOutcome) -> usize {
    lines.into_iter().filter(|line| line.outcome == outcome).count()
}

/// Whether the gate passes, with the numbers of its lines.
pub(crate) fn verdict(html: &mut String, lines: &[GateLine]) {
    let [pass, fail, open] = counts(lines);
    let (class, word) = if fail == 0 { ("pass", "Nothing failed") } else { ("fail", "The gate fails") };
    let _ = writeln!(
        html,
        "<p><b class=\"{class}\">{word}:</b> {pass} lines of the gate pass, {fail} fail, {open} are not judged. <a \
         href=\"#gate\">All lines</a></p>"
    );
}

/// An experiment in the list of a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListedExperiment {
    /// Its name in links, which its lines of the gate have as their group.
    pub(crate) id: &'static str,
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
}

/// The experiments, and how many of their lines pass; nothing without experiments. `about` is said
/// first.
pub(crate) fn list_experiments(html: &mut String, about: &str, all: &[ListedExperiment], lines: &[GateLine]) {
    if all.is_empty() {
        return;
    }
    let _ = writeln!(
        html,
        "<h2>Experiments</h2>\n{about}<table><tr><th>experiment<th>what is tried<th class=\"n\">lines that \
         pass<th class=\"n\">lines that fail</tr>"
    );
    for ListedExperiment { id, name, title } in all.iter().copied() {
        let of_it = || lines.iter().filter(|line| line.group == Some(id));
        let (pass, fail) = (count_of(of_it(), GateOutcome::Pass), count_of(of_it(), GateOutcome::Fail));
        let class = if fail == 0 { "pass" } else { "fail" };
        let _ = writeln!(
            html,
            "<tr><td><a href=\"#{id}\">{name}</a><td>{title}<td class=\"n\">{pass}<td class=\"n \
             {class}\">{fail}</tr>"
        );
    }
    html.push_str("</table>\n");
}

/// All lines of the gate.
pub(crate) fn gate(html: &mut String, lines: &[GateLine]) {
    html.push_str("<h2 id=\"gate\">Gate</h2>\n");
    gate_table(html, lines.iter());
}

/// Lines of the gate as a table.
pub(crate) fn gate_table<'a>(html: &mut String, lines: impl Iterator<Item = &'a GateLine>) {
    html.push_str(
        "<div class=\"scroll\"><table><tr><th>outcome<th>experiment<th>what is \
         judged<th>figure<th>bound</tr>\n",
    );
    for line in lines {
        let class = match line.outcome {
            GateOutcome::Pass => "pass",
            GateOutcome::Fail => "fail",
            GateOutcome::NotJudged => "open",
        };
        let _ = writeln!(
            html,
            "<tr><td class=\"{class}\">{}<td>{}<td>{}<td>{}<td>{}</tr>",
            line.outcome.word(),
            line.experiment,
            escaped(&line.what),
            escaped(&line.figure),
            escaped(&line.bound)
        );
    }
    html.push_str("</table></div>\n");
}

/// The lines of the gate as text, with `width` columns for the names of experiments.
pub(crate) fn fmt_gate(f: &mut fmt::Formatter<'_>, lines: &[GateLine], width: usize) -> fmt::Result {
    writeln!(f, "\ngate")?;
    for GateLine { experiment, what, figure, bound, outcome, .. } in lines {
        writeln!(f, "  {:<10}  {experiment:<width$}  {what}: {figure} ({bound})", outcome.word())?;
    }
    Ok(())
}

/// The last line of a text: how many lines of the gate pass.
pub(crate) fn fmt_counts(f: &mut fmt::Formatter<'_>, lines: &[GateLine]) -> fmt::Result {
    let [pass, fail, open] = counts(lines);
    writeln!(f, "{pass} lines pass, {fail} fail, {open} are not judged")
}

/// The lines that pass, those that fail, and those that are not judged.
fn counts(lines: &[GateLine]) -> [usize; 3] {
    [GateOutcome::Pass, GateOutcome::Fail, GateOutcome::NotJudged].map(|outcome| count_of(lines, outcome))
}

/// Seeds in order, each once.
pub(crate) fn sorted_seeds(seeds: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut seeds: Vec<u64> = seeds.collect();
    seeds.sort_unstable();
    seeds.dedup();
    seeds
}

/// `seed 1`, or `5 seeds from 1 to 5`.
pub(crate) fn seeds_in_words(seeds: &[u64]) -> String {
    match seeds {
        [one] => format!("seed {one}"),
        [first, .., last] => format!("{} seeds from {first} to {last}", seeds.len()),
        [] => String::new(),
    }
}
