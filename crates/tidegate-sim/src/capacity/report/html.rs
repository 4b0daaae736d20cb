//! The report as one HTML file, for a reader who has seen nothing of it before: first the verdict
//! and how to read the rest, then each workload with who was throttled, when and why.

use core::fmt::Write as _;

use super::CapacityReport;
use super::chip::chip;
use super::experiment_section::experiment_section;
use super::heat_map::LEVELS;
use super::line_chart::line_chart;
use super::table_story::{maps, plans, victims};
use crate::capacity::design::Design;
use crate::capacity::experiment_note::ExperimentNote;
use crate::capacity::invariant::JUDGED;
use crate::capacity::run::CapacityRun;
use crate::capacity::summary::TableSummary;
use crate::kit::markup::{escaped, thousands};
use crate::kit::report::{close_page, gate, list_experiments, open_page, verdict};

const ABOUT_EXPERIMENTS: &str =
    "<p>Each is a world of its own, made for one claim, with rates and a length of its own.</p>\n";

impl CapacityReport {
    /// The report as one HTML file with pictures.
    pub fn to_html(&self) -> String {
        page(self)
    }
}

/// The whole page.
fn page(report: &CapacityReport) -> String {
    let (title, heading) = ("Tidegate: capacity designs compared", "Capacity designs compared");
    let mut html = open_page(title, heading, "");
    summary(&mut html, report);
    verdict(&mut html, &report.gate);
    how_to_read(&mut html, report);
    if !report.tables.is_empty() {
        shares(&mut html, report);
    }
    let experiments: Vec<_> =
        report.shown().iter().filter_map(|run| run.scenario.experiment).map(ExperimentNote::listed).collect();
    list_experiments(&mut html, ABOUT_EXPERIMENTS, &experiments, &report.gate);
    for run in report.shown() {
        if let Some(experiment) = run.scenario.experiment {
            experiment_section(&mut html, report, run, experiment);
            continue;
        }
        for (index, table) in run.compared().enumerate() {
            section(&mut html, run, table, index);
        }
    }
    gate(&mut html, &report.gate);
    checkers(&mut html, report);
    close_page(&mut html);
    html
}

/// The seeds, the time and the number of requests.
fn summary(html: &mut String, report: &CapacityReport) {
    let seeds = report.seeds();
    let seeds = match seeds.as_slice() {
        [one] => format!("Seed {one}"),
        [first, .., last] => format!("{} seeds, {first} to {last}; the pictures show the first", seeds.len()),
        [] => String::new(),
    };
    let scale = match report.divisor {
        Some(1) => " at full rates".to_owned(),
        Some(divisor) => format!(" at 1/{divisor} of the reference rates"),
        None => String::new(),
    };
    let seconds = report
        .compared()
        .next()
        .map_or(String::new(), |run| format!(" {} simulated seconds{scale},", run.scenario.seconds));
    let _ = writeln!(
        html,
        "<p class=\"dim\">{seeds}.{seconds} {} requests decided over all designs.</p>",
        thousands(report.decisions)
    );
}

fn how_to_read(html: &mut String, report: &CapacityReport) {
    html.push_str(
        "<h2>How to read this</h2>\n<p>A partitioned store divides the throughput that a table has bought over its \
         partitions, which lie on nodes. Requests are not spread as evenly, so some are <b>throttled</b>, that is \
         refused, although the table as a whole has throughput left. Each design below is a way to avoid that. Every \
         design is asked the same requests at the same instants; what it refuses is counted. Partitions, buckets and \
         decisions are those of the product; clients and time are simulated.</p>\n<table><tr><th>design<th>what it \
         does</tr>\n",
    );
    for design in Design::ALL {
        let simulated = report.designs().contains(&design);
        let note = if simulated { "" } else { " <span class=\"open\">(not simulated here)</span>" };
        let _ = writeln!(html, "<tr><td>{}<td>{}{note}</tr>", chip(design), design.description());
    }
    html.push_str("</table>\n");
}

fn shares(html: &mut String, report: &CapacityReport) {
    html.push_str(
        "<h2>Throttled share</h2>\n<p>Hundredths of all requests that were throttled while no more was asked for than \
         the table has. Below each value: the <span class=\"dim\">reference</span>, which the specification computed \
         for full rates over 900 s with other keys, and the <span class=\"dim\">model</span>, a fluid model of the \
         keys of this run. The <b>floor</b> is what no design can serve: the part of single keys, or of a moving \
         tail, beyond the ceiling of one partition.</p>\n<div class=\"scroll\"><table><tr><th>workload",
    );
    for design in report.designs() {
        let _ = write!(html, "<th class=\"n\">{}", chip(*design));
    }
    html.push_str("<th class=\"n\">floor</tr>\n");
    let has_seeds = report.seeds().len() > 1;
    for summary in &report.tables {
        let (id, title) = name_of(summary);
        let _ = write!(html, "<tr><td><a href=\"#{id}\">{id}</a> <span class=\"dim\">{title}</span>");
        for design in &summary.designs {
            let worst = if has_seeds {
                format!("<small>worst {:.2}</small>", design.worst * 100.0)
            } else {
                String::new()
            };
            let reference = summary
                .workload
                .and_then(|workload| workload.reference_percent(design.design))
                .map_or(String::new(), |value| format!("<small>ref. {value}</small>"));
            let model = model_of(summary, design.design)
                .map_or(String::new(), |share| format!("<small>model {:.2}</small>", share * 100.0));
            let _ = write!(html, "<td class=\"n\">{:.2} %{worst}{reference}{model}", design.median * 100.0);
        }
        let _ = writeln!(html, "<td class=\"n\">{:.2} %</tr>", summary.fluid.floor * 100.0);
    }
    html.push_str("</table></div>\n");
}

fn name_of(summary: &TableSummary) -> (String, String) {
    let title = summary.workload.map_or("", |workload| workload.title);
    (escaped(&summary.id), escaped(title))
}

fn model_of(summary: &TableSummary, design: Design) -> Option<f64> {
    match design {
        Design::Static => Some(summary.fluid.static_shares),
        Design::Burst => Some(summary.fluid.burst),
        Design::Global => Some(summary.fluid.global),
        _ => None,
    }
}

/// One workload, or one table.
fn section(html: &mut String, run: &CapacityRun, table: usize, index: usize) {
    let spec = &run.scenario.tables[table];
    let id = run.scenario.workload.map_or_else(|| escaped(&spec.name), |workload| workload.id.to_owned());
    let title = run.scenario.workload.map_or(String::new(), |workload| format!(": {}", workload.title));
    let _ = writeln!(html, "<h2 id=\"{id}\">{id}{title}</h2>");
    if let Some(workload) = run.scenario.workload {
        let _ = writeln!(html, "<p>{}</p>", workload.description);
    }
    let _ = writeln!(
        html,
        "<p class=\"dim\">Table {}: {} units a second, {} partitions with a ceiling of {} each, on {} nodes. Model: S \
         {:.2} %, B {:.2} %, G {:.2} %, floor {:.2} %.</p>",
        escaped(&spec.name),
        spec.units_per_second,
        spec.partitions,
        spec.ceiling,
        spec.nodes.len(),
        run.fluid[index].static_shares * 100.0,
        run.fluid[index].burst * 100.0,
        run.fluid[index].global * 100.0,
        run.fluid[index].floor * 100.0
    );
    html.push_str("<h3>Throttled share over time</h3>\n<figure>");
    html.push_str(&line_chart(run, table));
    html.push_str("</figure>\n<h3>Who was throttled, when and why</h3>\n");
    for design in &run.designs {
        victims(html, run, design, &design.tables[table]);
    }
    plans(html, run, table);
    numbers(html, run, table);
    maps(html, run, table);
}

/// The figures of each design.
fn numbers(html: &mut String, run: &CapacityRun, table: usize) {
    html.push_str(
        "<h3>Figures</h3>\n<div class=\"scroll\"><table><tr><th>design<th class=\"n\">throttled within the table's \
         throughput<th class=\"n\">beyond it<th class=\"n\">in the last minute<th class=\"n\">recovery<th \
         class=\"n\">splits, merges, moves<th>refused by</tr>\n",
    );
    for design in &run.designs {
        let result = &design.tables[table];
        let beyond = result.share_beyond.map_or("-".to_owned(), |share| format!("{:.2} %", share * 100.0));
        let recovery = result.recovery_seconds.map_or("never".to_owned(), |seconds| format!("{seconds} s"));
        let bounds: Vec<String> =
            result.by_bound.iter().map(|(bound, count)| format!("{bound}: {}", thousands(*count))).collect();
        let bounds = if bounds.is_empty() { "nothing".to_owned() } else { bounds.join(", ") };
        let _ = writeln!(
            html,
            "<tr><td>{}<td class=\"n\">{:.2} %<td class=\"n\">{beyond}<td class=\"n\">{:.2} %<td \
             class=\"n\">{recovery}<td class=\"n\">{}, {}, {}<td>{bounds}</tr>",
            chip(design.design),
            result.share_within * 100.0,
            result.share_at_end * 100.0,
            result.changes.splits,
            result.changes.merges,
            result.changes.moves
        );
    }
    html.push_str(
        "</table></div>\n<p class=\"dim\">Recovery: from the onset of the trouble to the end of the first ten seconds \
         with less than 1 % throttled.</p>\n",
    );
}

fn checkers(html: &mut String, report: &CapacityReport) {
    html.push_str(
        "<h2>Checkers</h2>\n<p>Checkers see what clients see and keep levels of their own. They judge every decision \
         of every design.</p>\n<table><tr><th>invariant<th>what must hold<th class=\"n\">breaches</tr>\n",
    );
    let designs = || report.runs.iter().flat_map(|run| &run.designs);
    for invariant in JUDGED {
        let breaches: u64 = designs().filter_map(|design| design.breach_counts.get(&invariant)).sum();
        let class = if breaches == 0 { "pass" } else { "fail" };
        let _ = writeln!(
            html,
            "<tr><td>{}<td>{}<td class=\"n {class}\">{breaches}</tr>",
            invariant.id(),
            invariant.claim()
        );
    }
    html.push_str("</table>\n");
    for (design, breach) in designs().flat_map(|design| design.breaches.iter().map(move |one| (design, one)))
    {
        let _ = writeln!(
            html,
            "<p class=\"fail\">{} under {}, seed {}, {} ms, table {}: {}</p>",
            breach.invariant.id(),
            design.design.letters(),
            breach.seed,
            breach.at_ms,
            escaped(&breach.table),
            escaped(&breach.what)
        );
    }
    let _ = writeln!(
        html,
        "<p class=\"dim\">Heat maps have {LEVELS} shades, by the square root of the count.</p>"
    );
}
