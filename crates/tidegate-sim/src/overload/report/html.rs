//! The report as one HTML file, for a reader who has seen nothing of it before: first the verdict
//! and how to read the rest, then each experiment with who was refused, when and why.

use core::fmt::Write as _;

use super::OverloadReport;
use super::design_chip::design_chip;
use super::experiment_page::experiment_page;
use crate::kit::markup::{escaped, thousands};
use crate::kit::report::{close_page, gate, list_experiments, open_page, seeds_in_words, verdict};
use crate::overload::design::OverloadDesign;
use crate::overload::experiment_note::OverloadExperimentNote;
use crate::overload::ledger::OverloadRule;

const OWN_STYLE: &str = include_str!("style.css");

impl OverloadReport {
    /// The report as one HTML file with pictures.
    pub fn to_html(&self) -> String {
        let (title, heading) =
            ("Tidegate: designs under overload compared", "Designs under overload compared");
        let mut html = open_page(title, heading, OWN_STYLE);
        summary(&mut html, self);
        verdict(&mut html, &self.gate);
        how_to_read(&mut html, self);
        let experiments: Vec<_> =
            self.experiments().into_iter().flatten().map(OverloadExperimentNote::listed).collect();
        list_experiments(&mut html, "", &experiments, &self.gate);
        for experiment in self.experiments() {
            experiment_page(&mut html, self, experiment);
        }
        gate(&mut html, &self.gate);
        checks(&mut html, self);
        close_page(&mut html);
        html
    }
}

/// The seeds and the number of requests.
fn summary(html: &mut String, report: &OverloadReport) {
    let _ = writeln!(
        html,
        "<p class=\"dim\">{}; the pictures over time show the first. {} requests over all designs, retries \
         included.</p>",
        seeds_in_words(&report.seeds()),
        thousands(report.requests)
    );
}

fn how_to_read(html: &mut String, report: &OverloadReport) {
    html.push_str(
        "<h2>How to read this</h2>\n<p>A service has workers, and each request takes one of them for some time. When \
         more is asked than the workers can do, something has to wait or to be refused: a queue that only grows answers \
         everybody too late. Each design below decides which requests wait, in which order, and which are refused. Every \
         design is asked the same operations at the same instants. An operation <b>succeeds</b> if it is answered before \
         its deadline; <b>goodput</b> is the work that is answered in time, as a part of what the workers can do; a \
         <b>rejection</b> takes a worker some time as well. The design <b>tidegate</b> is the engine of the product, the \
         others are simplified baselines; clients, services and time are simulated. In pictures over time, the \
         yellow spans are those in which more is asked than the service can do.</p>\n<div class=\"scroll\"><table><tr><th>design<th>what it does</tr>\n",
    );
    let mut designs: Vec<OverloadDesign> =
        report.runs.iter().flat_map(|run| &run.designs).map(|result| result.design).collect();
    designs.sort_unstable();
    designs.dedup();
    for design in designs {
        let _ = writeln!(html, "<tr><td>{}<td>{}</tr>", design_chip(design), escaped(design.description));
    }
    html.push_str("</table></div>\n");
}

fn checks(html: &mut String, report: &OverloadReport) {
    html.push_str(
        "<h2>Checks</h2>\n<p>The world keeps a ledger of its own and compares it with what each design \
         says.</p>\n<table><tr><th>what must hold<th class=\"n\">violations</tr>\n",
    );
    let results = || report.runs.iter().flat_map(|run| &run.designs);
    for rule in OverloadRule::ALL {
        let count: u64 = results().filter_map(|result| result.violation_counts.get(&rule)).sum();
        let class = if count == 0 { "pass" } else { "fail" };
        let _ = writeln!(html, "<tr><td>{}<td class=\"n {class}\">{count}</tr>", escaped(rule.claim()));
    }
    html.push_str("</table>\n");
    for violation in results().flat_map(|result| &result.violations) {
        let _ = writeln!(
            html,
            "<p class=\"fail\">{:?}, seed {}, {} ms, service {}: {}</p>",
            violation.rule,
            violation.seed,
            violation.at_ms,
            escaped(&violation.service),
            escaped(&violation.what)
        );
    }
}
