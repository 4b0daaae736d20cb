//! The throttled share of each design over time, as lines.

use core::fmt::Write as _;

use crate::capacity::run::CapacityRun;
use crate::capacity::tally::SecondCount;
use crate::kit::plot_area::{PlotArea, round_step};

/// The most points of a line.
const POINTS_MAX: usize = 150;

/// The chart of one table of a run.
pub(super) fn line_chart(run: &CapacityRun, table: usize) -> String {
    let seconds = run.scenario.seconds;
    let area = PlotArea {
        width: 900.0,
        height: 250.0,
        left: 52.0,
        right: 36.0,
        top: 12.0,
        bottom: 26.0,
        seconds: f64::from(seconds),
    };
    let per_point = (seconds as usize).div_ceil(POINTS_MAX).max(2);
    let lines: Vec<Vec<(f64, f64)>> =
        run.designs.iter().map(|design| points(&design.tables[table].seconds, per_point)).collect();
    let most = lines.iter().flatten().map(|(_, share)| *share).fold(0.0, f64::max);
    let step = round_step((most * 1.05).max(0.01), 5.0);
    let top = libm::ceil((most * 1.05).max(0.01) / step) * step;
    let mut svg = String::new();
    area.open(&mut svg, "Throttled share of requests over time, one line for each design");
    beyond(&mut svg, &area, run, table);
    let mut at = 0.0;
    while at <= top + 1e-9 {
        let y = area.y(at / top);
        let digits = usize::from(step < 0.01);
        let _ = write!(
            svg,
            "<path class=\"grid\" d=\"M{:.1} {y:.1}H{:.1}\"/><text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{:.digits$} %</text>",
            area.left,
            area.width - area.right,
            area.left - 6.0,
            y + 4.0,
            at * 100.0
        );
        at += step;
    }
    area.time_axis(&mut svg);
    let mut labels: Vec<(f64, &str)> = Vec::new();
    for (design, line) in run.designs.iter().zip(&lines) {
        let letters = design.design.letters();
        let mut path = String::new();
        for (at, share) in line {
            let command = if path.is_empty() { 'M' } else { 'L' };
            let _ = write!(path, "{command}{:.1} {:.1}", area.x(*at), area.y(share / top));
        }
        let _ = write!(svg, "<path class=\"line c{letters}\" d=\"{path}\"/>");
        labels.push((area.y(line.last().map_or(0.0, |(_, share)| share / top)), letters));
    }
    // Labels at the ends of lines that meet are set one above the other.
    labels.reverse();
    labels.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut lowest = f64::MAX;
    for (y, letters) in labels {
        let y = y.min(lowest - 13.0);
        lowest = y;
        let x = area.width - area.right + 6.0;
        let _ =
            write!(svg, "<text class=\"name t{letters}\" x=\"{x:.1}\" y=\"{:.1}\">{letters}</text>", y + 4.0);
    }
    svg.push_str("</svg>");
    svg
}

/// The share of each so many seconds, at their middle.
fn points(seconds: &[SecondCount], per_point: usize) -> Vec<(f64, f64)> {
    let chunks = seconds.chunks(per_point).enumerate();
    let point = |(index, chunk): (usize, &[SecondCount])| {
        let offered: u64 = chunk.iter().map(|count| u64::from(count.offered)).sum();
        let throttled: u64 = chunk.iter().map(|count| u64::from(count.throttled)).sum();
        #[expect(clippy::cast_precision_loss, reason = "a pixel is coarser")]
        let (at, share) = (
            (index * per_point) as f64 + chunk.len() as f64 / 2.0,
            if offered > 0 { throttled as f64 / offered as f64 } else { 0.0 },
        );
        (at, share)
    };
    chunks.map(point).collect()
}

/// Shades the time in which more is asked for than the table has, unless it follows its demand.
fn beyond(svg: &mut String, area: &PlotArea, run: &CapacityRun, table: usize) {
    if run.scenario.growth(table).is_some() {
        return;
    }
    let spec = &run.scenario.tables[table];
    #[expect(clippy::cast_precision_loss, reason = "a pixel is coarser")]
    let rate = spec.units_per_second as f64;
    let phases = &spec.demand.phases;
    for (index, phase) in phases.iter().enumerate().filter(|(_, phase)| phase.units_per_second > rate) {
        let until = phases.get(index + 1).map_or(area.seconds, |next| next.from);
        let (x, width) = (area.x(phase.from), area.x(until) - area.x(phase.from));
        let _ = write!(
            svg,
            "<rect class=\"beyond\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{:.1}\"/><text class=\"note \
             mid\" x=\"{:.1}\" y=\"{:.1}\">more is asked for than the table has</text>",
            area.y(1.0),
            area.y(0.0) - area.y(1.0),
            x + width / 2.0,
            area.y(1.0) + 14.0
        );
    }
}
