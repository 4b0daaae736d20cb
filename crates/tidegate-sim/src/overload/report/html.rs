//! The report as one HTML file, for a reader who has seen nothing of it before: first the verdict
//! and how to read the rest, then each experiment with who was refused, when and why.

use core::fmt::Write as _;

use super::OverloadReport;
use super::design_chip::design_chip;
use super::experiment_page::experiment_page;
use super::text::seeds_in_words;
use crate::kit::GateOutcome;
use crate::kit::gate_table::gate_table;
use crate::kit::markup::{escaped, thousands};
use crate::overload::design::OverloadDesign;
use crate::overload::ledger::OverloadRule;

const STYLE: &str = include_str!("../../kit/report.css");
const OWN_STYLE: &str = include_str!("style.css");

impl OverloadReport {
    /// The report as one HTML file with pictures.
    pub fn to_html(&self) -> String {
        let mut html = String::with_capacity(1 << 20);
        html.push_str(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
             content=\"width=device-width\"><title>Tidegate: designs under overload compared</title><style>\n",
        );
        html.push_str(STYLE);
        html.push_str(OWN_STYLE);
        html.push_str("</style></head><body>\n<h1>Designs under overload compared</h1>\n");
        verdict(&mut html, self);
        how_to_read(&mut html, self);
        contents(&mut html, self);
        for experiment in self.experiments() {
            experiment_page(&mut html, self, experiment);
        }
        html.push_str("<h2 id=\"gate\">Gate</h2>\n");
        gate_table(&mut html, self.gate.iter());
        checks(&mut html, self);
        html.push_str("</body></html>\n");
        html
    }
}

fn verdict(html: &mut String, report: &OverloadReport) {
    let _ = writeln!(
        html,
        "<p class=\"dim\">{}; the pictures over time show the first. {} requests over all designs, retries \
         included.</p>",
        seeds_in_words(&report.seeds()),
        thousands(report.requests)
    );
    let (pass, fail, open) = (
        report.count(GateOutcome::Pass),
        report.count(GateOutcome::Fail),
        report.count(GateOutcome::NotJudged),
    );
    let (class, word) = if fail == 0 { ("pass", "Nothing failed") } else { ("fail", "The gate fails") };
    let _ = writeln!(
        html,
        "<p><b class=\"{class}\">{word}:</b> {pass} lines of the gate pass, {fail} fail, {open} are not judged. <a \
         href=\"#gate\">All lines</a></p>"
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

/// The experiments, and how many of their lines pass.
fn contents(html: &mut String, report: &OverloadReport) {
    if report.experiments().iter().all(Option::is_none) {
        return;
    }
    html.push_str(
        "<h2>Experiments</h2>\n<table><tr><th>experiment<th>what is tried<th class=\"n\">lines that pass<th \
         class=\"n\">lines that fail</tr>\n",
    );
    for experiment in report.experiments().into_iter().flatten() {
        let (name, title) = (experiment.name, experiment.title);
        let lines = || report.gate.iter().filter(|line| line.experiment == name);
        let count = |outcome| lines().filter(|line| line.outcome == outcome).count();
        let fails = count(GateOutcome::Fail);
        let class = if fails == 0 { "pass" } else { "fail" };
        let _ = writeln!(
            html,
            "<tr><td><a href=\"#{name}\">{name}</a><td>{title}<td class=\"n\">{}<td class=\"n {class}\">{fails}</tr>",
            count(GateOutcome::Pass)
        );
    }
    html.push_str("</table>\n");
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
