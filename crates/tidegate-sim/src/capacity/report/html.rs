//! The report as one HTML file, for a reader who has seen nothing of it before: first the verdict
//! and how to read the rest, then each workload with who was throttled, when and why.

use core::fmt::Write as _;

use super::CapacityReport;
use super::heat_map::LEVELS;
use super::table_story::{chip_of, maps, plans, share_figure, victims};
use crate::capacity::design::Design;
use crate::capacity::judge::invariant::{Invariant, judged};
use crate::capacity::run::CapacityRun;
use crate::capacity::summary::TableSummary;
use crate::kit::report::{
    DESIGN_COLUMNS, HtmlTable, checks, close_page, escaped, gate, how_to_read, open_page, thousands, verdict,
};

impl CapacityReport {
    /// The report as one HTML file with pictures.
    pub fn to_html(&self) -> String {
        let mut html = self.open_page();
        for run in self.shown() {
            table_sections(&mut html, run);
        }
        self.close_page(&mut html);
        html
    }

    /// The page up to the sections of runs: the verdict, how to read the rest, and the shares.
    pub fn open_page(&self) -> String {
        let (title, heading) = ("Tidegate: capacity designs compared", "Capacity designs compared");
        let mut html = open_page(title, heading, "");
        summary(&mut html, self);
        verdict(&mut html, &self.gate);
        how_to_read(&mut html, ABOUT);
        designs(&mut html, self);
        if !self.tables.is_empty() {
            shares(&mut html, self);
        }
        html
    }

    /// The page from the sections of runs on: the gate and the checkers.
    pub fn close_page(&self, html: &mut String) {
        gate(html, &self.gate);
        checkers(html, self);
        close_page(html);
    }
}

/// The section of each table of a run that is compared.
pub fn table_sections(html: &mut String, run: &CapacityRun) {
    for (index, table) in run.compared().enumerate() {
        section(html, run, table, index);
    }
}

const ABOUT: &str = "A partitioned store divides the throughput that a table has bought over its partitions, which \
    lie on nodes. Requests are not spread as evenly, so some are <b>throttled</b>, that is refused, although the table \
    as a whole has throughput left. Each design below is a way to avoid that. Every design is asked the same requests \
    at the same instants; what it refuses is counted. Partitions, buckets and decisions are those of the product; \
    clients and time are simulated.";

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

fn designs(html: &mut String, report: &CapacityReport) {
    let mut table = HtmlTable::open(html, DESIGN_COLUMNS);
    for design in Design::ALL {
        let simulated = report.designs().contains(&design);
        let note = if simulated { "" } else { " <span class=\"open\">(not simulated here)</span>" };
        table.row([chip_of(design), format!("{}{note}", design.description())]);
    }
    table.close();
}

fn shares(html: &mut String, report: &CapacityReport) {
    html.push_str(
        "<h2>Throttled share</h2>\n<p>Hundredths of all requests that were throttled while no more was asked for than \
         the table has. Below each value: the <span class=\"dim\">reference</span>, which the specification computed \
         for full rates over 900 s with other keys, and the <span class=\"dim\">model</span>, a fluid model of the \
         keys of this run. The <b>floor</b> is what no design can serve: the part of single keys, or of a moving \
         tail, beyond the ceiling of one partition.</p>\n",
    );
    let chips: Vec<String> = report.designs().iter().map(|design| chip_of(*design)).collect();
    let columns: Vec<&str> = chips.iter().map(String::as_str).chain(["floor"]).collect();
    let mut table = HtmlTable::open_wide(html, [&["workload"], &columns, &[]]);
    let has_seeds = report.seeds().len() > 1;
    for summary in &report.tables {
        let (id, title) = name_of(summary);
        let small =
            |value: Option<String>| value.map_or(String::new(), |value| format!("<small>{value}</small>"));
        let cells = summary.designs.iter().map(|design| {
            let worst = has_seeds.then(|| format!("worst {:.2}", design.worst * 100.0));
            let reference = summary.workload.and_then(|workload| workload.reference_percent(design.design));
            let reference = reference.map(|value| format!("ref. {value}"));
            let model = model_of(summary, design.design).map(|share| format!("model {:.2}", share * 100.0));
            let (worst, reference, model) = (small(worst), small(reference), small(model));
            format!("{:.2} %{worst}{reference}{model}", design.median * 100.0)
        });
        let name = format!("<a href=\"#{id}\">{id}</a> <span class=\"dim\">{title}</span>");
        let floor = format!("{:.2} %", summary.fluid.floor * 100.0);
        table.row(core::iter::once(name).chain(cells).chain([floor]));
    }
    table.close();
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
    html.push_str("<h3>Throttled share over time</h3>\n");
    share_figure(html, run, table, None);
    html.push_str("<h3>Who was throttled, when and why</h3>\n");
    for design in &run.designs {
        victims(html, run, design, &design.tables[table]);
    }
    plans(html, run, table);
    numbers(html, run, table);
    maps(html, run, table);
}

/// The figures of each design.
fn numbers(html: &mut String, run: &CapacityRun, table: usize) {
    html.push_str("<h3>Figures</h3>\n");
    let numbers = [
        "throttled within the table's throughput",
        "beyond it",
        "in the last minute",
        "recovery",
        "splits, merges, moves",
    ];
    let mut figures = HtmlTable::open_wide(html, [&["design"], &numbers, &["refused by"]]);
    for design in &run.designs {
        let result = &design.tables[table];
        let beyond = result.share_beyond.map_or("-".to_owned(), |share| format!("{:.2} %", share * 100.0));
        let recovery = result.recovery_seconds.map_or("never".to_owned(), |seconds| format!("{seconds} s"));
        let bounds: Vec<String> =
            result.by_bound.iter().map(|(bound, count)| format!("{bound}: {}", thousands(*count))).collect();
        let changes = result.changes;
        figures.row([
            chip_of(design.design),
            format!("{:.2} %", result.share_within * 100.0),
            beyond,
            format!("{:.2} %", result.share_at_end * 100.0),
            recovery,
            format!("{}, {}, {}", changes.splits, changes.merges, changes.moves),
            if bounds.is_empty() { "nothing".to_owned() } else { bounds.join(", ") },
        ]);
    }
    figures.close();
    html.push_str(
        "<p class=\"dim\">Recovery: from the onset of the trouble to the end of the first ten seconds \
         with less than 1 % throttled.</p>\n",
    );
}

fn checkers(html: &mut String, report: &CapacityReport) {
    html.push_str(
        "<h2>Checkers</h2>\n<p>Checkers see what clients see and keep levels of their own. They judge every decision \
         of every design.</p>\n",
    );
    let designs = || report.runs.iter().flat_map(|run| &run.designs);
    let row = |invariant: Invariant| {
        let breaches = designs().filter_map(|design| design.breach_counts.get(&invariant)).sum();
        ([invariant.id(), invariant.claim()], breaches)
    };
    checks(html, ["invariant", "what must hold"], "breaches", judged().map(row), report.findings());
    let _ = writeln!(
        html,
        "<p class=\"dim\">Heat maps have {LEVELS} shades, by the square root of the count.</p>"
    );
}
