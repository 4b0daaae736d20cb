//! The list of the experiments of a page.

use core::fmt::Write as _;

use tidegate_sim::kit::report::{ExperimentNote, HtmlTable, count_of, mark_of};
use tidegate_sim::kit::{GateLine, GateOutcome};

/// The experiments, and how many of their lines pass; nothing without experiments. `about` is said
/// first.
pub(crate) fn list_experiments(html: &mut String, about: &str, all: &[&ExperimentNote], lines: &[GateLine]) {
    if all.is_empty() {
        return;
    }
    let _ = write!(html, "<h2>Experiments</h2>\n{about}");
    let numbers = ["lines that pass", "lines that fail"];
    let mut table = HtmlTable::open(html, [&["experiment", "what is tried"], &numbers, &[]]);
    for ExperimentNote { id, name, title, .. } in all {
        let of_it = || lines.iter().filter(|line| line.group == Some(id));
        let (pass, fail) = (count_of(of_it(), GateOutcome::Pass), count_of(of_it(), GateOutcome::Fail));
        let link = format!("<a href=\"#{id}\">{name}</a>");
        let row = [link.as_str(), title, &pass.to_string(), &fail.to_string()];
        table.marked_row((3, mark_of(fail as u64)), row);
    }
    table.close();
}
