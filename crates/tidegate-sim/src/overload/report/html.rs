//! The report as one HTML file, for a reader who has seen nothing of it before: first the verdict
//! and how to read the rest, then who was refused, when and why.

use core::fmt::Write as _;

use super::OverloadReport;
use super::design_lines::design_chip;
use super::run_story::{figures, run_story};
use crate::kit::report::{
    self, DESIGN_COLUMNS, HtmlTable, close_page, escaped, gate, how_to_read, open_page, seeds_in_words,
    thousands, verdict,
};
use crate::overload::design::OverloadDesign;
use crate::overload::ledger::OverloadRule;

const OWN_STYLE: &str = include_str!("style.css");

const ABOUT: &str = "A service has workers, and each request takes one of them for some time. When more is asked than \
    the workers can do, something has to wait or to be refused: a queue that only grows answers everybody too late. \
    Each design below decides which requests wait, in which order, and which are refused. Every design is asked the \
    same operations at the same instants. An operation <b>succeeds</b> if it is answered before its deadline; \
    <b>goodput</b> is the work that is answered in time, as a part of what the workers can do; a <b>rejection</b> \
    takes a worker some time as well. The design <b>tidegate</b> is the engine of the product, the others are \
    simplified baselines; clients, services and time are simulated. In pictures over time, the yellow spans are those \
    in which more is asked than the service can do.";

impl OverloadReport {
    /// The report as one HTML file with pictures.
    pub fn to_html(&self) -> String {
        let mut html = self.open_page();
        self.scenario_section(&mut html);
        self.close_page(&mut html);
        html
    }

    /// The page up to the sections of scenarios: the verdict, and how to read the rest.
    pub fn open_page(&self) -> String {
        let (title, heading) =
            ("Tidegate: designs under overload compared", "Designs under overload compared");
        let mut html = open_page(title, heading, OWN_STYLE);
        summary(&mut html, self);
        verdict(&mut html, &self.gate);
        how_to_read(&mut html, ABOUT);
        designs(&mut html, self);
        html
    }

    /// The section of a scenario of one's own.
    pub fn scenario_section(&self, html: &mut String) {
        html.push_str("<h2 id=\"scenario\">Scenario</h2>\n");
        figures(html, &self.variants_of(None));
        for run in self.shown(None) {
            run_story(html, run, true);
        }
    }

    /// The page from the sections of scenarios on: the gate and the checks.
    pub fn close_page(&self, html: &mut String) {
        gate(html, &self.gate);
        checks(html, self);
        close_page(html);
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

fn designs(html: &mut String, report: &OverloadReport) {
    let mut designs: Vec<OverloadDesign> =
        report.runs.iter().flat_map(|run| &run.designs).map(|result| result.design).collect();
    designs.sort_unstable();
    designs.dedup();
    let mut table = HtmlTable::open_wide(html, DESIGN_COLUMNS);
    for design in designs {
        table.row([design_chip(design), escaped(design.description)]);
    }
    table.close();
}

fn checks(html: &mut String, report: &OverloadReport) {
    html.push_str(
        "<h2>Checks</h2>\n<p>The world keeps a ledger of its own and compares it with what each design says.</p>\n",
    );
    let results = || report.runs.iter().flat_map(|run| &run.designs);
    let row = |rule: OverloadRule| {
        let count = results().filter_map(|result| result.violation_counts.get(&rule)).sum();
        ([rule.claim()], count)
    };
    let rows = OverloadRule::ALL.into_iter().map(row);
    report::checks(html, ["what must hold"], "violations", rows, report.findings());
}
