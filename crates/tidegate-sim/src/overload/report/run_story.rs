//! The figures of variants, and the story of a run: who was refused, when and why.

use core::fmt::Write as _;

use super::SHOWN_MAX;
use super::design_lines::{COLORS, design_chip, line_of};
use super::feature_story::{by_feature, feature_cells, feature_changes, feature_columns, feature_events};
use crate::kit::chart::{ChartEvent, LineChart, NamePlaces, PlotArea, PlottedLine, ShadedSpan, ValueUnit};
use crate::kit::report::{Columns, HtmlTable, escaped, figure, thousands};
use crate::overload::design::OverloadDesign;
use crate::overload::run::{OverloadResult, OverloadRun};
use crate::overload::scenario::OverloadScenario;
use crate::overload::summary::{VariantClient, VariantSummary};
use crate::overload::tally::{ClientResult, ClientStep, ServiceStep};

/// The most designs that are all shown over time, so that lines can be told apart.
const ON_TIMELINES_MAX: usize = 4;

/// The class of a design's line; that of the product is thicker.
pub fn line_class(design: OverloadDesign) -> String {
    let own = if design == OverloadDesign::TIDEGATE { " own" } else { "" };
    format!("s{}{own}", design.place)
}

/// The figures of all variants and designs.
pub fn figures(html: &mut String, variants: &[&VariantSummary]) {
    html.push_str("<h3>Figures</h3>\n<p class=\"dim\">Median over the seeds, and the worst below it.</p>\n");
    for variant in variants.iter().take(SHOWN_MAX) {
        variant_figures(html, variant);
    }
    if variants.len() > SHOWN_MAX {
        let _ = writeln!(
            html,
            "<p class=\"dim\">The other {} variants are not shown; the gate judges them.</p>",
            variants.len() - SHOWN_MAX
        );
    }
}

fn variant_figures(html: &mut String, variant: &VariantSummary) {
    let name = escaped(if variant.variant.is_empty() { "design" } else { &variant.variant });
    let clients = variant.designs.iter().take(1).flat_map(|design| &design.clients);
    let of_clients: Vec<String> = clients
        .flat_map(|client| ["success", "p99"].map(|what| format!("{}: {what}", escaped(&client.client))))
        .collect();
    let of_features: Vec<String> = feature_columns(variant);
    let of_both = of_clients.iter().chain(&of_features).map(String::as_str);
    let numbers: Vec<&str> = core::iter::once("goodput").chain(of_both).collect();
    let mut table = HtmlTable::open_wide(html, [&[&name], &numbers, &[]]);
    for design in &variant.designs {
        let goodput = format!("{:.3}<small>{:.3}</small>", design.goodput, design.goodput_worst);
        let cells = [design_chip(design.design), goodput].into_iter();
        let cells = cells.chain(design.clients.iter().flat_map(client_cells)).chain(feature_cells(design));
        table.row_of(design.design == OverloadDesign::TIDEGATE, cells);
    }
    table.close();
}

/// The success and the p99 of a client.
fn client_cells(client: &VariantClient) -> [String; 2] {
    let ms = |value: f64| if client.success > 0.0 { format!("{value:.0} ms") } else { "-".to_owned() };
    let (success, worst) = (client.success * 100.0, client.success_worst * 100.0);
    [
        format!("{success:.2} %<small>{worst:.2} %</small>"),
        format!("{}<small>{}</small>", ms(client.p99_ms), ms(client.p99_ms_worst)),
    ]
}

/// Timelines of one run, and who was refused and why. They are shown at once, or when a reader asks
/// to.
pub fn run_story(html: &mut String, run: &OverloadRun, is_open: bool) {
    let scenario = &run.scenario;
    let _ = writeln!(html, "<details{}>", if is_open { " open" } else { "" });
    let name = if scenario.variant.is_empty() { "Over time" } else { &scenario.variant };
    let _ =
        writeln!(html, "<summary><b>{}</b>: over time, and who was refused and why</summary>", escaped(name));
    refusals(html, run);
    feature_changes(html, run);
    let events = feature_events(run);
    let shaded = overloaded_spans(scenario);
    let mut chart_with_events = |caption: &str, lines: Vec<PlottedLine>, events: &[ChartEvent]| {
        if lines.iter().any(|line| !line.points.is_empty()) {
            let drawn = timeline(caption, scenario.seconds, lines, shaded.clone(), events.to_vec());
            figure(html, &drawn, &escaped(caption));
        }
    };
    if let Some(own) = run.of(OverloadDesign::TIDEGATE) {
        if !own.features.is_empty() {
            chart_with_events(
                "Smoothed pressure of the first service. At T1 a feature of tidegate is degraded, at T2 all have \
                 their best level again.",
                by_design(run, |step| step.pressure),
                &events,
            );
            chart_with_events(
                "tidegate: level of each feature, 0 is the best.",
                by_feature(run, own),
                &events,
            );
        }
        chart_with_events(
            "tidegate: requests refused a second, by client.",
            by_client(run, own, |step| f64::from(step.refused) * 10.0),
            &events,
        );
        chart_with_events(
            "tidegate: units of work answered in time a second, by client.",
            by_client(run, own, |step| f64::from(step.good_units) * 10.0),
            &events,
        );
    }
    let mut chart = |caption: &str, lines| chart_with_events(caption, lines, &[]);
    let of_step = |value: fn(&ServiceStep) -> Option<f64>| by_design(run, value);
    chart(
        "Requests that wait for the first service. The axis ends at 300.",
        of_step(|step| Some(f64::from(step.queued.min(300)))),
    );
    chart(
        "Requests refused a second at the first service.",
        of_step(|step| Some(f64::from(step.refused) * 10.0)),
    );
    chart("Position of the admission cursor: 0 is open, 1 closed.", of_step(|step| step.cursor));
    chart("Limit of requests in flight.", of_step(|step| Some(step.limit)));
    chart("Load level: 0 normal to 4 emergency.", of_step(|step| step.level.map(f64::from)));
    html.push_str("</details>\n");
}

/// A chart of lines over `seconds`; later ones are drawn over earlier ones.
fn timeline(
    label: &str,
    seconds: u32,
    lines: Vec<PlottedLine>,
    shaded: Vec<ShadedSpan>,
    events: Vec<ChartEvent>,
) -> String {
    let chart = LineChart {
        label,
        area: PlotArea { height: 170.0, bottom: 24.0, seconds: seconds.into(), ..PlotArea::WIDE },
        end_min: 1.05e-3,
        parts: 4.0,
        unit: ValueUnit::Number(""),
        places: &[],
        shaded,
        events,
        lines,
        names: NamePlaces::InColumn,
    };
    chart.draw()
}

/// The spans in which more is asked of the first service than it can do.
fn overloaded_spans(scenario: &OverloadScenario) -> Vec<ShadedSpan> {
    let clients = || scenario.clients.iter().filter(|client| client.service == 0);
    let mut changes: Vec<f64> = clients().flat_map(|client| &client.phases).map(|phase| phase.from).collect();
    changes.extend(scenario.services[0].phases.iter().map(|phase| phase.from));
    changes.extend([0.0, f64::from(scenario.seconds)]);
    changes.sort_by(f64::total_cmp);
    changes.dedup();
    let is_over = |from: f64| {
        let asked: f64 = clients()
            .map(|client| client.rate_at(from) * f64::from(client.calls) * f64::from(client.cost))
            .sum();
        let phase = scenario.services[0].phases.iter().rev().find(|phase| phase.from <= from);
        let slowed = phase.map_or(1.0, |phase| phase.factor);
        asked > scenario.services[0].capacity() / slowed
            || phase.is_some_and(|phase| phase.failing_ms.is_some())
    };
    let end = f64::from(scenario.seconds);
    let spans = changes.windows(2).map(|span| (span[0], span[1].min(end)));
    let over = spans.filter(|(from, until)| from < until && is_over(*from));
    over.map(|(from, until)| ShadedSpan { from, until, note: None }).collect()
}

/// One line for each client.
fn by_client(run: &OverloadRun, result: &OverloadResult, value: fn(&ClientStep) -> f64) -> Vec<PlottedLine> {
    let line = |(place, client): (usize, &ClientResult)| {
        let color = COLORS[place % COLORS.len()];
        let values: Vec<f64> = client.steps.iter().map(value).collect();
        line_of(format!("s{color}"), color, &client.client, &values, run.scenario.seconds)
    };
    result.clients.iter().enumerate().map(line).collect()
}

/// One line for each design that is shown and has the value.
fn by_design(run: &OverloadRun, value: fn(&ServiceStep) -> Option<f64>) -> Vec<PlottedLine> {
    let is_shown =
        |result: &&OverloadResult| result.design.is_on_timelines || run.designs.len() <= ON_TIMELINES_MAX;
    let line = |result: &OverloadResult| {
        let values: Vec<f64> = result.services[0].steps.iter().filter_map(value).collect();
        let OverloadDesign { place, name, .. } = result.design;
        line_of(line_class(result.design), place, name, &values, run.scenario.seconds)
    };
    let lines = run.designs.iter().filter(is_shown).map(line);
    lines.filter(|line| !line.points.is_empty()).collect()
}

/// The refused operations of each client after the warm-up, with the causes.
fn refusals(html: &mut String, run: &OverloadRun) {
    let numbers = ["operations", "succeeded", "late", "refused"];
    let columns: Columns<'_> = [&["design", "client", "class"], &numbers, &["attempts refused, by cause"]];
    let mut table = HtmlTable::open_wide(html, columns);
    for result in &run.designs {
        for (client, spec) in result.clients.iter().zip(&run.scenario.clients) {
            let causes = client.causes.iter();
            let causes: Vec<String> =
                causes.map(|(cause, count)| format!("{}: {}", cause.title(), thousands(*count))).collect();
            let cells = [
                design_chip(result.design),
                escaped(&client.client),
                spec.class.to_string(),
                thousands(client.operations),
                thousands(client.succeeded),
                thousands(client.late),
                thousands(client.refused),
                if causes.is_empty() { "none".to_owned() } else { causes.join(", ") },
            ];
            table.row_of(result.design == OverloadDesign::TIDEGATE, cells);
        }
    }
    table.close();
}
