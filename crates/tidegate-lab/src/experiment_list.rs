//! The list of the experiments of a page.

use core::fmt::Write as _;

use tidegate_sim::kit::report::{
    ExperimentNote, GateLine, GateOutcome, HtmlTable, NUMBER, count_of, number, text, zero,
};

/// The experiments, and how many of their lines pass; nothing without experiments. `about` is said
/// first.
pub(crate) fn list_experiments(html: &mut String, about: &str, all: &[&ExperimentNote], lines: &[GateLine]) {
    if all.is_empty() {
        return;
    }
    let _ = write!(html, "<h2>Experiments</h2>\n{about}");
    let columns =
        [("", "experiment"), ("", "what is tried"), (NUMBER, "lines that pass"), (NUMBER, "lines that fail")];
    let mut table = HtmlTable::open(html, columns);
    for ExperimentNote { id, name, title, .. } in all {
        let of_it = || lines.iter().filter(|line| line.group == Some(id));
        let (pass, fail) = (count_of(of_it(), GateOutcome::Pass), count_of(of_it(), GateOutcome::Fail));
        let link = text(format!("<a href=\"#{id}\">{name}</a>"));
        table.row([link, text(*title), number(pass.to_string()), zero(fail as u64)]);
    }
    table.close();
}
