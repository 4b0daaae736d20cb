//! Lines of the gate as an HTML table.

use core::fmt::Write as _;

use super::gate_line::{GateLine, GateOutcome};
use super::markup::escaped;

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
