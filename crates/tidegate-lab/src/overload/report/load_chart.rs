//! Figures of each design over the offered load, as lines.

use tidegate_sim::kit::chart::{LineChart, NamePlaces, PlotArea, PlottedLine, ValueUnit};
use tidegate_sim::kit::report::{escaped, figure};
use tidegate_sim::overload::report::run_story::line_class;
use tidegate_sim::overload::{OverloadDesign, VariantClient, VariantDesign, VariantSummary};

/// The values of one design, one for each load; what is not finite is left out.
#[derive(Clone, Debug)]
struct LoadLine {
    design: OverloadDesign,
    values: Vec<f64>,
}

/// Goodput, and the success and the p99 of the first client, over the load.
pub(super) fn load_charts(html: &mut String, variants: &[&VariantSummary]) {
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
        figure(html, &chart, &escaped(&caption));
    }
}

/// A chart with one position for each load, at equal distances.
fn load_chart(label: &str, loads: &[&str], lines: &[LoadLine], unit: &'static str) -> String {
    let last = loads.len().saturating_sub(1).max(1) as f64;
    let area = PlotArea { seconds: last, ..PlotArea::WIDE };
    let line = |line: &LoadLine| {
        let points = (0_u32..).map(f64::from).zip(line.values.iter().copied());
        PlottedLine {
            class: line_class(line.design),
            name_class: format!("f{}", line.design.place),
            name: line.design.name.to_owned(),
            points: points.filter(|(_, value)| value.is_finite()).collect(),
            end: line.values.last().copied().filter(|value| value.is_finite()),
        }
    };
    let chart = LineChart {
        label,
        area,
        end_min: 1.05e-3,
        parts: 6.0,
        unit: ValueUnit::Number(unit),
        places: loads,
        shaded: Vec::new(),
        events: Vec::new(),
        lines: lines.iter().map(line).collect(),
        names: NamePlaces::AtEnds(12.0),
    };
    chart.draw()
}
