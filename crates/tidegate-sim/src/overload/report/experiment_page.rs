//! The section of an experiment in the HTML report: its claim, its lines of the gate, its figures,
//! and who was refused, when and why.

use core::fmt::Write as _;

use super::OverloadReport;
use super::design_chip::design_chip;
use super::load_chart::{LoadLine, line_class, load_chart};
use super::text::SHOWN_MAX;
use super::timeline::{TimeLine, timeline};
use crate::kit::markup::{escaped, thousands};
use crate::kit::report::gate_table;
use crate::overload::design::OverloadDesign;
use crate::overload::experiment_note::OverloadExperimentNote;
use crate::overload::run::{OverloadResult, OverloadRun};
use crate::overload::scenario::OverloadScenario;
use crate::overload::summary::{VariantClient, VariantDesign, VariantSummary};
use crate::overload::tally::ServiceStep;

/// The most designs that are all shown over time, so that lines can be told apart.
const ON_TIMELINES_MAX: usize = 4;

/// The section of an experiment, or of a scenario of one's own.
pub(super) fn experiment_page(
    html: &mut String,
    report: &OverloadReport,
    experiment: Option<&'static OverloadExperimentNote>,
) {
    match experiment {
        Some(one) => {
            let OverloadExperimentNote { name, title, description, .. } = *one;
            let _ = writeln!(html, "<h2 id=\"{name}\">{name}: {title}</h2>\n<p>{description}</p>");
            gate_table(html, report.gate.iter().filter(|line| line.experiment == name));
        }
        None => html.push_str("<h2 id=\"scenario\">Scenario</h2>\n"),
    }
    let variants: Vec<&VariantSummary> =
        report.variants.iter().filter(|variant| variant.experiment == experiment).collect();
    if experiment.is_some_and(|one| one.is_over_loads) {
        load_charts(html, &variants);
    }
    figures(html, &variants);
    for run in report.shown(experiment).take(SHOWN_MAX) {
        one_run(html, run, experiment);
    }
}

/// Goodput, and the success and the p99 of the first client, over the load.
fn load_charts(html: &mut String, variants: &[&VariantSummary]) {
    let loads: Vec<&str> = variants.iter().map(|variant| variant.variant.as_str()).collect();
    let Some(first) = variants.first() else { return };
    let client = first.designs.first().and_then(|design| design.clients.first());
    let client = client.map_or("", |client| client.client.as_str());
    let lines = |value: &dyn Fn(&VariantDesign) -> f64| -> Vec<LoadLine> {
        let line = |design: &VariantDesign| LoadLine {
            design: design.design,
            values: variants
                .iter()
                .map(|variant| {
                    variant.designs.iter().find(|one| one.design == design.design).map_or(f64::NAN, value)
                })
                .collect(),
        };
        first.designs.iter().map(line).collect()
    };
    let of_first = |value: fn(&VariantClient) -> f64| {
        move |design: &VariantDesign| design.clients.first().map_or(f64::NAN, value)
    };
    let answered = |client: &VariantClient| if client.success > 0.0 { client.p99_ms } else { f64::NAN };
    let charts = [
        (
            "Work answered in time, as a part of the capacity, over the load.",
            lines(&|design| design.goodput),
            "",
        ),
        (
            "Success of the first client, which is the important one, over the load, in %.",
            lines(&of_first(|client| client.success * 100.0)),
            " %",
        ),
        (
            "p99 of the latency of its answered requests over the load. Designs without an answer have no point.",
            lines(&of_first(answered)),
            " ms",
        ),
    ];
    for (caption, lines, unit) in charts {
        let chart = load_chart(caption, &loads, &lines, unit);
        let caption =
            caption.replace("the first client", client).replace(", which is the important one,", "");
        let _ = writeln!(html, "<figure>{chart}<figcaption>{}</figcaption></figure>", escaped(&caption));
    }
}

/// The figures of all variants and designs.
fn figures(html: &mut String, variants: &[&VariantSummary]) {
    html.push_str("<h3>Figures</h3>\n<p class=\"dim\">Median over the seeds, and the worst below it.</p>\n");
    for variant in variants.iter().take(SHOWN_MAX) {
        let _ = write!(
            html,
            "<div class=\"scroll\"><table><tr><th>{}<th class=\"n\">goodput",
            escaped(if variant.variant.is_empty() { "design" } else { &variant.variant })
        );
        for client in variant.designs.iter().take(1).flat_map(|design| &design.clients) {
            let name = escaped(&client.client);
            let _ = write!(html, "<th class=\"n\">{name}: success<th class=\"n\">{name}: p99");
        }
        html.push_str("</tr>\n");
        for design in &variant.designs {
            let own = if design.design == OverloadDesign::TIDEGATE { " class=\"own\"" } else { "" };
            let _ = write!(
                html,
                "<tr{own}><td>{}<td class=\"n\">{:.3}<small>{:.3}</small>",
                design_chip(design.design),
                design.goodput,
                design.goodput_worst
            );
            for client in &design.clients {
                let ms =
                    |value: f64| if client.success > 0.0 { format!("{value:.0} ms") } else { "-".to_owned() };
                let _ = write!(
                    html,
                    "<td class=\"n\">{:.2} %<small>{:.2} %</small><td class=\"n\">{}<small>{}</small>",
                    client.success * 100.0,
                    client.success_worst * 100.0,
                    ms(client.p99_ms),
                    ms(client.p99_ms_worst)
                );
            }
            html.push_str("</tr>\n");
        }
        html.push_str("</table></div>\n");
    }
    if variants.len() > SHOWN_MAX {
        let _ = writeln!(
            html,
            "<p class=\"dim\">The other {} variants are not shown; the gate judges them.</p>",
            variants.len() - SHOWN_MAX
        );
    }
}

/// Timelines of one run, and who was refused and why.
fn one_run(html: &mut String, run: &OverloadRun, experiment: Option<&'static OverloadExperimentNote>) {
    let scenario = &run.scenario;
    let _ = writeln!(html, "<details{}>", if opens(scenario, experiment) { " open" } else { "" });
    let name = if scenario.variant.is_empty() { "Over time" } else { &scenario.variant };
    let _ =
        writeln!(html, "<summary><b>{}</b>: over time, and who was refused and why</summary>", escaped(name));
    refusals(html, run);
    let shaded = overloaded_spans(scenario);
    let mut chart = |caption: &str, lines: Vec<TimeLine>| {
        if lines.iter().all(|line| line.values.is_empty()) {
            return;
        }
        let drawn = timeline(caption, scenario.seconds, &lines, &shaded);
        let _ = writeln!(html, "<figure>{drawn}<figcaption>{}</figcaption></figure>", escaped(caption));
    };
    if let Some(own) = run.of(OverloadDesign::TIDEGATE) {
        chart(
            "tidegate: requests refused a second, by client.",
            by_client(own, |step| f64::from(step.refused) * 10.0),
        );
        chart(
            "tidegate: units of work answered in time a second, by client.",
            by_client(own, |step| f64::from(step.good_units) * 10.0),
        );
    }
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

/// Whether the details of a run are shown at once.
fn opens(scenario: &OverloadScenario, experiment: Option<&'static OverloadExperimentNote>) -> bool {
    experiment.is_none_or(|one| one.opened.contains(&scenario.variant))
}

/// The spans in which more is asked of the first service than it can do.
fn overloaded_spans(scenario: &OverloadScenario) -> Vec<(f64, f64)> {
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
    spans.filter(|(from, until)| from < until && is_over(*from)).collect()
}

/// One line for each client.
fn by_client(result: &OverloadResult, value: fn(&crate::overload::ClientStep) -> f64) -> Vec<TimeLine> {
    // Colours that differ: those of tidegate, codel, dagor and others.
    const COLORS: [usize; 6] = [10, 3, 5, 6, 8, 9];
    let line = |(place, client): (usize, &crate::overload::ClientResult)| TimeLine {
        class: format!("s{}", COLORS[place % COLORS.len()]),
        fill: COLORS[place % COLORS.len()],
        name: client.client.clone(),
        values: client.steps.iter().map(value).collect(),
    };
    result.clients.iter().enumerate().map(line).collect()
}

/// One line for each design that is shown and has the value.
fn by_design(run: &OverloadRun, value: fn(&ServiceStep) -> Option<f64>) -> Vec<TimeLine> {
    let is_shown =
        |result: &&OverloadResult| result.design.is_on_timelines || run.designs.len() <= ON_TIMELINES_MAX;
    let line = |result: &OverloadResult| TimeLine {
        class: line_class(result.design),
        fill: result.design.place,
        name: result.design.name.to_owned(),
        values: result.services[0].steps.iter().filter_map(value).collect(),
    };
    run.designs.iter().filter(is_shown).map(line).filter(|line| !line.values.is_empty()).collect()
}

/// The refused operations of each client after the warm-up, with the causes.
fn refusals(html: &mut String, run: &OverloadRun) {
    html.push_str(
        "<div class=\"scroll\"><table><tr><th>design<th>client<th>class<th class=\"n\">operations<th \
         class=\"n\">succeeded<th class=\"n\">late<th class=\"n\">refused<th>attempts refused, by cause</tr>\n",
    );
    for result in &run.designs {
        let own = if result.design == OverloadDesign::TIDEGATE { " class=\"own\"" } else { "" };
        for (client, spec) in result.clients.iter().zip(&run.scenario.clients) {
            let causes = client
                .causes
                .iter()
                .map(|(cause, count)| format!("{}: {}", cause.title(), thousands(*count)));
            let causes: Vec<String> = causes.collect();
            let causes = if causes.is_empty() { "none".to_owned() } else { causes.join(", ") };
            let _ = writeln!(
                html,
                "<tr{own}><td>{}<td>{}<td>{}<td class=\"n\">{}<td class=\"n\">{}<td class=\"n\">{}<td \
                 class=\"n\">{}<td>{causes}</tr>",
                design_chip(result.design),
                escaped(&client.client),
                spec.class,
                thousands(client.operations),
                thousands(client.succeeded),
                thousands(client.late),
                thousands(client.refused)
            );
        }
    }
    html.push_str("</table></div>\n");
}
