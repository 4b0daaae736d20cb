//! The report as one HTML file, for a reader who has seen nothing of it before: first the verdict
//! and how to read the rest, then each workload with who was throttled, when and why.

use core::fmt::Write as _;

use super::CapacityReport;
use super::heat_map::{LEVELS, heat_map};
use super::line_chart::line_chart;
use super::partition_map::{NODE_COLORS, partition_map};
use crate::capacity::design::Design;
use crate::capacity::gate::GateOutcome;
use crate::capacity::invariant::JUDGED;
use crate::capacity::reference::reference_percent;
use crate::capacity::run::{CapacityRun, DesignResult, TableResult, Victim};
use crate::capacity::summary::TableSummary;

const STYLE: &str = include_str!("style.css");

/// The victims that are named of each design.
const NAMED_MAX: usize = 3;

/// The plans that are told of each design.
const PLANS_MAX: usize = 12;

impl CapacityReport {
    /// The report as one HTML file with pictures.
    pub fn to_html(&self) -> String {
        page(self)
    }
}

/// The whole page.
fn page(report: &CapacityReport) -> String {
    let mut html = String::with_capacity(1 << 20);
    html.push_str(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>Tidegate: capacity designs compared</title><style>\n",
    );
    html.push_str(STYLE);
    html.push_str("</style></head><body>\n<h1>Capacity designs compared</h1>\n");
    verdict(&mut html, report);
    how_to_read(&mut html, report);
    shares(&mut html, report);
    for run in report.shown() {
        for (index, table) in run.compared().enumerate() {
            section(&mut html, run, table, index);
        }
    }
    gate(&mut html, report);
    checkers(&mut html, report);
    html.push_str("</body></html>\n");
    html
}

fn verdict(html: &mut String, report: &CapacityReport) {
    let Some(first) = report.runs.first() else { return };
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
    let _ = writeln!(
        html,
        "<p class=\"dim\">{seeds}. {} simulated seconds{scale}, {} requests decided over all designs.</p>",
        first.scenario.seconds,
        thousands(report.decisions)
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
                .and_then(|workload| reference_percent(workload, design.design))
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
    let title = summary.workload.map_or("", |workload| workload.title());
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
    let id = run.scenario.workload.map_or_else(|| escaped(&spec.name), |workload| workload.id().to_owned());
    let title = run.scenario.workload.map_or(String::new(), |workload| format!(": {}", workload.title()));
    let _ = writeln!(html, "<h2 id=\"{id}\">{id}{title}</h2>");
    if let Some(workload) = run.scenario.workload {
        let _ = writeln!(html, "<p>{}</p>", workload.description());
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

/// The story of one design: the partitions that were throttled most.
fn victims(html: &mut String, run: &CapacityRun, design: &DesignResult, result: &TableResult) {
    let name = chip(design.design);
    if result.throttled == 0 {
        let _ = writeln!(html, "<p>{name} throttled none of {} requests.</p>", thousands(result.offered));
        return;
    }
    let share = share(result.throttled, result.offered);
    let _ = write!(
        html,
        "<p>{name} throttled {share:.2} % of {} requests: {}.",
        thousands(result.offered),
        thousands(result.throttled)
    );
    let by_table: u64 = result.by_bound.get("table tokens").copied().unwrap_or(0);
    if by_table > 0 {
        let _ = write!(
            html,
            " Of these, {} because the whole table was asked for more than its {} units a second.",
            thousands(by_table),
            run.scenario
                .tables
                .iter()
                .find(|spec| spec.name == result.table)
                .map_or(0, |spec| spec.units_per_second)
        );
    }
    html.push_str("</p>\n");
    let named: Vec<&Victim> = result.victims.iter().filter(|victim| victim.bound != "table tokens").collect();
    if named.is_empty() {
        return;
    }
    html.push_str("<ul>\n");
    for victim in named.iter().take(NAMED_MAX) {
        let _ = writeln!(
            html,
            "<li>Partition {} on {} (keys <code>{}</code>): {} requests, in {} of the {} seconds from {} s to {} s, \
             because {}.<br><span class=\"dim\">First refusal {}.</span></li>",
            victim.partition,
            escaped(&victim.node),
            escaped(&victim.range),
            thousands(victim.requests),
            victim.seconds,
            victim.last_second - victim.first_second + 1,
            victim.first_second,
            victim.last_second + 1,
            cause(victim),
            escaped(&victim.example)
        );
    }
    if named.len() > NAMED_MAX {
        let others: u64 = named[NAMED_MAX..].iter().map(|victim| victim.requests).sum();
        let _ = writeln!(
            html,
            "<li class=\"dim\">and {} more, with {} requests together.</li>",
            named.len() - NAMED_MAX,
            thousands(others)
        );
    }
    html.push_str("</ul>\n");
}

/// Why a bucket refused, in words.
fn cause(victim: &Victim) -> String {
    let limit = victim.limit;
    match victim.bound {
        "partition share" => {
            format!("its share of {limit} units a second was used up, and this design gives it no more")
        }
        "burst credit" => "its share and its burst credit were used up".to_owned(),
        "partition ceiling" => {
            format!("more was asked of it than one partition may serve: {limit} units a second")
        }
        "node" | "replica node" => {
            format!("beyond its share it needs room on its node, whose {limit} units a second were used")
        }
        "move" => "it was being moved to another node".to_owned(),
        other => format!("the bucket \"{other}\" was short"),
    }
}

/// The changes of partitions that control loops made, and the verdicts against cuts.
fn plans(html: &mut String, run: &CapacityRun, table: usize) {
    let results = || run.designs.iter().map(|design| (design.design, &design.tables[table]));
    if results().all(|(_, result)| result.plans.is_empty() && result.verdicts.is_empty()) {
        return;
    }
    html.push_str("<h3>What the control loops did</h3>\n");
    for (design, result) in results() {
        if result.plans.is_empty() && result.verdicts.is_empty() {
            continue;
        }
        let _ = write!(html, "<p>{}</p><ul>", chip(design));
        for plan in result.plans.iter().take(PLANS_MAX) {
            let benefit = if plan.benefit > 0.0 {
                format!("; predicted to let {:.0} units a second more through", plan.benefit)
            } else {
                String::new()
            };
            let _ = writeln!(
                html,
                "<li>At {} s {}: {}{benefit}.</li>",
                plan.second,
                escaped(&plan.what),
                escaped(plan.reason)
            );
        }
        if result.plans.len() > PLANS_MAX {
            let _ = writeln!(html, "<li class=\"dim\">and {} more.</li>", result.plans.len() - PLANS_MAX);
        }
        for verdict in &result.verdicts {
            let _ = writeln!(
                html,
                "<li>At {} s partition {} was found to be {}: {}.</li>",
                verdict.second,
                verdict.partition,
                verdict.verdict,
                verdict_meaning(verdict.verdict)
            );
        }
        html.push_str("</ul>\n");
    }
}

/// The reason for which a verdict stands against a cut.
fn verdict_meaning(verdict: &str) -> &'static str {
    match verdict {
        "HOT_KEY" => "one key alone is asked for more than the ceiling, and no cut parts a key",
        "SEQUENTIAL" => "requests move on to ever higher keys, and a cut would always be behind them",
        "MOVING" => "the load moves, and a cut would come too late",
        "SCAN" => "most requests read ranges, which a cut would part",
        _ => "no cut would lessen the refusals by a fifth",
    }
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

/// Heat maps of what was asked for and what was throttled, and the partitions over time.
fn maps(html: &mut String, run: &CapacityRun, table: usize) {
    let seconds = run.scenario.seconds;
    let asked = &run.offered[table];
    html.push_str("<h3>Keys over time</h3>\n<div class=\"grid2\">\n");
    let per_second = |count: u32| f64::from(count) / f64::from(asked.seconds_per_column());
    let _ = writeln!(
        html,
        "<figure>{}<figcaption>Asked for: each cell is a 64th of the key order. Darkest: {:.0} requests a \
         second.</figcaption></figure>",
        heat_map(asked, seconds, asked.most(), "ask", "Requests by time and key"),
        per_second(asked.most())
    );
    let most = run.designs.iter().map(|design| design.tables[table].heat.most()).max().unwrap_or(0);
    let throttled = run.designs.iter().filter(|design| design.tables[table].throttled > 0);
    for (heat, designs) in alike(throttled, |design| &design.tables[table].heat) {
        let _ = writeln!(
            html,
            "<figure>{}<figcaption>{designs} throttled. Darkest: {:.0} requests a second, in all of these \
             maps.</figcaption></figure>",
            heat_map(heat, seconds, most, "hot", "Throttled requests by time and key"),
            per_second(most)
        );
    }
    for (spans, designs) in alike(run.designs.iter(), |design| &design.tables[table].spans) {
        let _ = writeln!(
            html,
            "<figure>{}<figcaption>Partitions under {designs} by node; each range that there ever was has the same \
             height.{}</figcaption></figure>",
            partition_map(spans, seconds),
            nodes(run)
        );
    }
    html.push_str("</div>\n");
}

/// The values that designs have, each once, with the chips of the designs that have it.
fn alike<'a, V: PartialEq>(
    designs: impl Iterator<Item = &'a DesignResult>,
    value: impl Fn(&'a DesignResult) -> &'a V,
) -> Vec<(&'a V, String)> {
    let mut shown: Vec<(&V, String)> = Vec::new();
    for design in designs {
        let (value, name) = (value(design), chip(design.design));
        match shown.iter_mut().find(|(other, _)| *other == value) {
            Some((_, names)) => *names = format!("{names} {name}"),
            None => shown.push((value, name)),
        }
    }
    shown
}

/// The legend of the nodes.
fn nodes(run: &CapacityRun) -> String {
    let boxes = run.scenario.nodes.iter().enumerate().take(2 * NODE_COLORS).map(|(index, node)| {
        format!("<i class=\"box n{}\"></i>{}", index % NODE_COLORS, escaped(&node.name))
    });
    boxes.collect()
}

fn gate(html: &mut String, report: &CapacityReport) {
    html.push_str(
        "<h2 id=\"gate\">Gate</h2>\n<div class=\"scroll\"><table><tr><th>outcome<th>experiment<th>what is \
         judged<th>figure<th>bound</tr>\n",
    );
    for line in &report.gate {
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

fn chip(design: Design) -> String {
    let letters = design.letters();
    format!("<span class=\"chip b{letters}\" title=\"{}\">{letters}</span>", design.title())
}

#[expect(clippy::cast_precision_loss, reason = "shown with two digits")]
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 * 100.0 }
}

/// `1 234 567` with thin spaces that do not break.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() * 2);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

/// Text as it stands in HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_outside_are_escaped_and_numbers_are_grouped() {
        assert_eq!(escaped("<a & \"b\">"), "&lt;a &amp; &quot;b&quot;&gt;");
        assert_eq!(thousands(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!(thousands(12), "12");
    }
}
