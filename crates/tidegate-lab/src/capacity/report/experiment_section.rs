//! The section of an experiment in the HTML report: its claim, its lines of the gate, its requests,
//! and what became of its tables.

use core::fmt::{self, Write as _};

use tidegate_capacity::AccessOperation;

use tidegate_sim::capacity::report::table_story::{chip_of, maps, plans, share_figure, victims};
use tidegate_sim::capacity::{CapacityReport, CapacityRun, DesignResult, StreamResult};
use tidegate_sim::kit::report::{ExperimentNote, HtmlTable, escaped, gate_table, thousands};
use tidegate_sim::kit::{Chart, ChartLine, GateLine, Shade};

/// The tables that are shown of an experiment.
const SHOWN_MAX: usize = 4;

/// The most points of a line.
const POINTS_MAX: usize = 300;

/// The section of the experiment of a run.
pub(super) fn experiment_section(
    html: &mut String,
    report: &CapacityReport,
    run: &CapacityRun,
    experiment: &ExperimentNote,
) {
    let ExperimentNote { id, name, title, description } = *experiment;
    let _ = writeln!(html, "<h2 id=\"{id}\">{name}: {title}</h2>\n<p>{description}</p>");
    let is_of_it = |line: &&GateLine| line.experiment == name && line.group.is_none_or(|group| group == id);
    gate_table(html, report.gate.iter().filter(is_of_it));
    requests(html, run);
    reloads(html, run);
    let tables: Vec<usize> = run.compared().collect();
    for &table in tables.iter().take(SHOWN_MAX) {
        one_table(html, run, table);
    }
    if tables.len() > SHOWN_MAX {
        let _ = writeln!(
            html,
            "<p class=\"dim\">The other {} tables are not shown.</p>",
            tables.len() - SHOWN_MAX
        );
    }
}

/// The requests of each kind under each design.
fn requests(html: &mut String, run: &CapacityRun) {
    html.push_str("<h3>Requests</h3>\n");
    let numbers = ["asked", "throttled", "units admitted a second"];
    let mut table = HtmlTable::open_wide(html, [&["design", "requests"], &numbers, &["refused by"]]);
    for design in &run.designs {
        for stream in shown_streams(run, design) {
            table.row([
                chip_of(design.design),
                escaped(&name_of(stream)),
                thousands(stream.offered),
                format!("{:.3} %", stream.throttled_share() * 100.0),
                format!("{:.1}", stream.units_admitted / f64::from(run.scenario.seconds)),
                refused_by(stream),
            ]);
        }
    }
    table.close();
}

/// The requests of an experiment's run as text; nothing for the run of a workload.
pub(super) fn fmt_experiment(f: &mut fmt::Formatter<'_>, run: &CapacityRun) -> fmt::Result {
    let Some(experiment) = run.scenario.experiment else { return Ok(()) };
    writeln!(f, "\n{}: {}, {} s", experiment.name, experiment.title, run.scenario.seconds)?;
    for design in &run.designs {
        for stream in shown_streams(run, design) {
            writeln!(
                f,
                "  {:<3} {:<28} {:>9} asked {:>8.3} % throttled   refused by {}",
                design.design.letters(),
                name_of(stream),
                stream.offered,
                stream.throttled_share() * 100.0,
                refused_by(stream)
            )?;
        }
    }
    Ok(())
}

/// The requests that are shown: those of a few tables.
fn shown_streams<'a>(
    run: &'a CapacityRun,
    design: &'a DesignResult,
) -> impl Iterator<Item = &'a StreamResult> {
    let names: Vec<&str> =
        run.compared().take(SHOWN_MAX).map(|table| run.scenario.tables[table].name.as_str()).collect();
    design.streams.iter().filter(move |stream| names.contains(&stream.table.as_str()))
}

/// `orders, writes of 4`.
fn name_of(stream: &StreamResult) -> String {
    let of = if stream.request_units > 1 { format!(" of {}", stream.request_units) } else { String::new() };
    format!("{}, {}{of}", stream.table, stream.kind.title())
}

/// The buckets that refused, with their counts.
fn refused_by(stream: &StreamResult) -> String {
    if stream.by_bound.is_empty() {
        return "nothing".to_owned();
    }
    let bounds = stream.by_bound.iter().map(|(bound, count)| format!("{bound} {count}"));
    bounds.collect::<Vec<_>>().join(", ")
}

/// The reloads that the scenario made.
fn reloads(html: &mut String, run: &CapacityRun) {
    for design in run.designs.iter().filter(|design| !design.reloads.is_empty()) {
        let _ = write!(html, "<p>{} Reloads:</p><ul>", chip_of(design.design));
        for reload in &design.reloads {
            let _ = writeln!(
                html,
                "<li>At {} s {} goes on with: {}. {}</li>",
                reload.second,
                escaped(&reload.table),
                escaped(&reload.what),
                reload.error.as_ref().map_or_else(
                    || format!(
                        "{} partitions had more than their share before, {} afterwards.",
                        reload.rates_above_base_before, reload.rates_above_base
                    ),
                    |error| format!("The plane refused: {}", escaped(error))
                )
            );
        }
        html.push_str("</ul>\n");
    }
}

fn one_table(html: &mut String, run: &CapacityRun, table: usize) {
    let spec = &run.scenario.tables[table];
    let _ = writeln!(
        html,
        "<h3>Table {}</h3>\n<p class=\"dim\">{} partitions at first, {} replicas of each, on {} nodes. {}.</p>",
        escaped(&spec.name),
        spec.partitions,
        spec.replicas,
        run.scenario.nodes.len(),
        throughput(run, table)
    );
    if run.scenario.growth(table).is_some() {
        for design in &run.designs {
            growth_charts(html, run, design, table);
        }
    }
    if run.designs.iter().any(|design| design.tables[table].throttled > 0) {
        let caption = "Throttled share over time, one line for each design.";
        share_figure(html, run, table, Some(caption));
    }
    for design in &run.designs {
        victims(html, run, design, &design.tables[table]);
    }
    plans(html, run, table);
    maps(html, run, table);
}

/// The throughput of each direction that is asked for, in words.
fn throughput(run: &CapacityRun, table: usize) -> String {
    let streams = run.scenario.streams(table);
    let directions = [(AccessOperation::Read, "Reads"), (AccessOperation::Write, "Writes")];
    let asked = directions
        .into_iter()
        .filter(|(operation, _)| streams.iter().any(|stream| stream.kind.operation() == *operation));
    let told = asked.map(|(operation, name)| {
        let has = run.scenario.throughput(table, operation);
        format!(
            "{name}: {} units a second, at most {} of one partition's member",
            has.units_per_second, has.ceiling
        )
    });
    told.collect::<Vec<_>>().join(". ")
}

/// Limit, demand and partitions of a table that follows its demand.
fn growth_charts(html: &mut String, run: &CapacityRun, design: &DesignResult, table: usize) {
    let result = &design.tables[table];
    let per_point = result.seconds.len().div_ceil(POINTS_MAX).max(1);
    let units = f64::from(run.scenario.tables[table].demand.units);
    let points = |values: Vec<f64>| -> Vec<(f64, f64)> {
        let chunks = values.chunks(per_point).enumerate();
        let point = |(index, chunk): (usize, &[f64])| {
            ((index * per_point) as f64, chunk.iter().sum::<f64>() / chunk.len() as f64)
        };
        chunks.map(point).collect()
    };
    let line = |name, shade, values| ChartLine { name, shade, points: points(values) };
    let asked = result.seconds.iter().map(|count| f64::from(count.offered) * units);
    let admitted = result.seconds.iter().map(|count| f64::from(count.offered - count.throttled) * units);
    let limits = result.growth.limits.iter().map(|limit| *limit as f64 / 1000.0);
    let partitions = result.growth.partitions.iter().map(|count| f64::from(*count));
    let letters = design.design.letters();
    let charts = [
        (
            format!("{letters}: units a second"),
            vec![
                line("may be used", Shade::Bound, limits.collect()),
                line("asked for", Shade::Offered, asked.collect()),
                line("admitted", Shade::Measured, admitted.collect()),
            ],
        ),
        (
            format!("{letters}: number of partitions"),
            vec![line("partitions", Shade::Measured, partitions.collect())],
        ),
    ];
    for (title, lines) in charts {
        let end = f64::from(run.scenario.seconds);
        let drawn = Chart { title, end, lines, shaded: Vec::new() }.draw();
        let drawn = drawn.unwrap_or_else(|error| escaped(&error.to_string()));
        let _ = writeln!(html, "<figure class=\"plot\">{drawn}</figure>");
    }
}
