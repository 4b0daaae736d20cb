//! The parts that reports share, as text and as one HTML page.
//!
//! A page is a text that grows from [`open_page`] to [`close_page`]; each part writes its section.

mod experiment_note;
mod gate_line;
mod html_table;
mod markup;

use core::fmt::{self, Display, Write as _};

pub use experiment_note::ExperimentNote;
pub use gate_line::{GateLine, GateOutcome};
pub use html_table::{Columns, HtmlTable, mark_of};
pub(crate) use markup::word_of;
pub use markup::{escaped, share, thousands};

const STYLE: &str = include_str!("report/report.css");

/// A page with its title and its heading, to be closed by [`close_page`]. `style` is added to the
/// style that all pages have.
pub fn open_page(title: &str, heading: &str, style: &str) -> String {
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
pub fn close_page(html: &mut String) {
    html.push_str("</body></html>\n");
}

/// A design in its colour. `class` is the class of the colour, `title` is shown to a pointer.
pub fn chip(class: impl Display, title: Option<&str>, name: &str) -> String {
    let title = title.map_or(String::new(), |title| format!(" title=\"{title}\""));
    format!("<span class=\"chip b{class}\"{title}>{name}</span>")
}

/// A picture with the text below it; no text if it is empty.
pub fn figure(html: &mut String, picture: &str, caption: &str) {
    let _ = writeln!(html, "<figure>{picture}<figcaption>{caption}</figcaption></figure>");
}

/// Whether the gate passes, with the numbers of its lines.
pub fn verdict(html: &mut String, lines: &[GateLine]) {
    let [pass, fail, open] = counts(lines);
    let (class, word) = if fail == 0 { ("pass", "Nothing failed") } else { ("fail", "The gate fails") };
    let _ = writeln!(
        html,
        "<p><b class=\"{class}\">{word}:</b> {pass} lines of the gate pass, {fail} fail, {open} are not judged. <a \
         href=\"#gate\">All lines</a></p>"
    );
}

/// The opening section for a reader who has seen nothing of the page before. A table of the designs
/// follows it.
pub fn how_to_read(html: &mut String, about: &str) {
    let _ = writeln!(html, "<h2>How to read this</h2>\n<p>{about}</p>");
}

/// The columns of the table of designs.
pub const DESIGN_COLUMNS: Columns<'static> = [&["design", "what it does"], &[], &[]];

/// All lines of the gate.
pub fn gate(html: &mut String, lines: &[GateLine]) {
    html.push_str("<h2 id=\"gate\">Gate</h2>\n");
    gate_table(html, lines.iter());
}

/// Lines of the gate as a table.
pub fn gate_table<'a>(html: &mut String, lines: impl Iterator<Item = &'a GateLine>) {
    let columns = ["outcome", "experiment", "what is judged", "figure", "bound"];
    let mut table = HtmlTable::open_wide(html, [&columns, &[], &[]]);
    for line in lines {
        let class = match line.outcome {
            GateOutcome::Pass => "pass",
            GateOutcome::Fail => "fail",
            GateOutcome::NotJudged => "open",
        };
        let (what, figure, bound) = (escaped(&line.what), escaped(&line.figure), escaped(&line.bound));
        table.marked_row((0, class), [line.outcome.word(), line.experiment, &what, &figure, &bound]);
    }
    table.close();
}

/// The checks of a world: what must hold, how often it did not, and the findings, a sentence each.
/// A row has as many cells as there are `columns`, and the count.
pub fn checks<'a, const N: usize>(
    html: &mut String,
    columns: [&'a str; N],
    count: &str,
    rows: impl Iterator<Item = ([&'a str; N], u64)>,
    findings: impl Iterator<Item = String>,
) {
    let mut table = HtmlTable::open(html, [&columns, &[count], &[]]);
    for (cells, count) in rows {
        let cells = cells.map(escaped).into_iter().chain([count.to_string()]);
        table.marked_row((N, mark_of(count)), cells);
    }
    table.close();
    for sentence in findings {
        let _ = writeln!(html, "<p class=\"fail\">{}</p>", escaped(&sentence));
    }
}

/// The end of a text: the lines of the gate with `width` columns for the names of experiments, what
/// checkers found, and how many lines pass.
pub fn fmt_gate(
    f: &mut fmt::Formatter<'_>,
    lines: &[GateLine],
    width: usize,
    findings: impl Iterator<Item = String>,
) -> fmt::Result {
    writeln!(f, "\ngate")?;
    for GateLine { experiment, what, figure, bound, outcome, .. } in lines {
        writeln!(f, "  {:<10}  {experiment:<width$}  {what}: {figure} ({bound})", outcome.word())?;
    }
    for finding in findings {
        writeln!(f, "  {finding}")?;
    }
    let [pass, fail, open] = counts(lines);
    writeln!(f, "{pass} lines pass, {fail} fail, {open} are not judged")
}

/// How many of the lines have an outcome.
pub fn count_of<'a>(lines: impl IntoIterator<Item = &'a GateLine>, outcome: GateOutcome) -> usize {
    lines.into_iter().filter(|line| line.outcome == outcome).count()
}

/// The lines that pass, those that fail, and those that are not judged.
fn counts(lines: &[GateLine]) -> [usize; 3] {
    [GateOutcome::Pass, GateOutcome::Fail, GateOutcome::NotJudged].map(|outcome| count_of(lines, outcome))
}

/// The runs of each group, in the order in which groups first come.
pub(crate) fn grouped<'a, R, G: PartialEq>(runs: &'a [R], group: impl Fn(&'a R) -> G) -> Vec<Vec<&'a R>> {
    let mut groups: Vec<Vec<&R>> = Vec::new();
    for run in runs {
        match groups.iter_mut().find(|other| group(other[0]) == group(run)) {
            Some(of_it) => of_it.push(run),
            None => groups.push(vec![run]),
        }
    }
    groups
}

/// The lower median; 0 of none.
pub(crate) fn lower_median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(0.0)
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
