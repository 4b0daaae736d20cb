//! The throttled share of each design over time, as lines.

use crate::capacity::run::{CapacityRun, DesignResult};
use crate::capacity::tally::SecondCount;
use crate::capacity::tally::table_tally::share_of;
use crate::kit::chart::{LineChart, NamePlaces, PlotArea, PlottedLine, ShadedSpan, ValueUnit};

/// The most points of a line.
const POINTS_MAX: usize = 150;

/// The chart of one table of a run.
pub(super) fn share_chart(run: &CapacityRun, table: usize) -> String {
    let seconds = run.scenario.seconds;
    let area =
        PlotArea { height: 250.0, left: 52.0, right: 36.0, seconds: f64::from(seconds), ..PlotArea::WIDE };
    let per_point = (seconds as usize).div_ceil(POINTS_MAX).max(2);
    let line = |design: &DesignResult| {
        let letters = design.design.letters();
        let points = points(&design.tables[table].seconds, per_point);
        PlottedLine {
            class: format!("c{letters}"),
            name_class: format!("t{letters}"),
            name: letters.to_owned(),
            end: Some(points.last().map_or(0.0, |(_, share)| *share)),
            points,
        }
    };
    let chart = LineChart {
        label: "Throttled share of requests over time, one line for each design",
        area,
        end_min: 0.01,
        parts: 5.0,
        unit: ValueUnit::Share,
        places: &[],
        shaded: beyond(run, table),
        events: Vec::new(),
        lines: run.designs.iter().map(line).collect(),
        names: NamePlaces::AtEndsLastLowest(13.0),
    };
    chart.draw()
}

/// The share of each so many seconds, at their middle.
fn points(seconds: &[SecondCount], per_point: usize) -> Vec<(f64, f64)> {
    let chunks = seconds.chunks(per_point).enumerate();
    let point = |(index, chunk): (usize, &[SecondCount])| {
        let at = (index * per_point) as f64 + chunk.len() as f64 / 2.0;
        (at, share_of(chunk.iter()).unwrap_or(0.0))
    };
    chunks.map(point).collect()
}

/// The time in which more is asked for than the table has, unless it follows its demand.
fn beyond(run: &CapacityRun, table: usize) -> Vec<ShadedSpan> {
    if run.scenario.growth(table).is_some() {
        return Vec::new();
    }
    let spec = &run.scenario.tables[table];
    let rate = spec.units_per_second as f64;
    let phases = &spec.demand.phases;
    let over = phases.iter().enumerate().filter(|(_, phase)| phase.units_per_second > rate);
    let span = |(index, phase): (usize, &crate::capacity::Phase)| ShadedSpan {
        from: phase.from,
        until: phases.get(index + 1).map_or(f64::from(run.scenario.seconds), |next| next.from),
        note: Some("more is asked for than the table has"),
    };
    over.map(span).collect()
}
