//! A figure over time, as lines, with spans of trouble shaded.

use core::fmt::Write as _;

use super::load_chart::value_axis;
use crate::kit::markup::escaped;
use crate::kit::plot_area::{PlotArea, round_step};
use crate::overload::tally::step_at;

/// One line: its class in the style sheet, its name, and a value for each tenth of a second.
#[derive(Clone, Debug)]
pub(super) struct TimeLine {
    pub(super) class: String,
    /// The class of its name.
    pub(super) fill: usize,
    pub(super) name: String,
    pub(super) values: Vec<f64>,
}

/// The most points of a line.
const POINTS_MAX: usize = 350;

/// A chart of lines over `seconds`; `shaded` are spans in seconds.
pub(super) fn timeline(label: &str, seconds: u32, lines: &[TimeLine], shaded: &[(f64, f64)]) -> String {
    let seconds = f64::from(seconds);
    let area =
        PlotArea { width: 900.0, height: 170.0, left: 56.0, right: 84.0, top: 12.0, bottom: 24.0, seconds };
    let lines: Vec<(&TimeLine, Vec<(f64, f64)>)> =
        lines.iter().map(|line| (line, points(line, seconds))).collect();
    let most = lines.iter().flat_map(|(_, points)| points).map(|(_, value)| *value).fold(0.0, f64::max);
    let most = most.max(1e-3) * 1.05;
    let step = round_step(most, 4.0);
    let top = libm::ceil(most / step) * step;
    let mut svg = String::new();
    area.open(&mut svg, &escaped(label));
    for (from, until) in shaded {
        let (x, width) = (area.x(*from), area.x(*until) - area.x(*from));
        let (y, height) = (area.y(1.0), area.y(0.0) - area.y(1.0));
        let _ = write!(
            svg,
            "<rect class=\"beyond\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"
        );
    }
    value_axis(&mut svg, &area, top, step, "");
    area.time_axis(&mut svg);
    let mut labels = Vec::new();
    for (line, points) in &lines {
        let mut path = String::new();
        for (at, value) in points {
            let command = if path.is_empty() { 'M' } else { 'L' };
            let _ = write!(path, "{command}{:.1} {:.1}", area.x(*at), area.y(value / top));
        }
        let _ = write!(svg, "<path class=\"line {}\" d=\"{path}\"/>", line.class);
        labels.push((line.fill, &line.name));
    }
    for (place, (fill, name)) in labels.into_iter().enumerate() {
        #[expect(clippy::cast_precision_loss, reason = "there are few lines")]
        let y = area.top + 12.0 + 13.0 * place as f64;
        let x = area.width - area.right + 6.0;
        let _ =
            write!(svg, "<text class=\"name f{fill}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escaped(name));
    }
    svg.push_str("</svg>");
    svg
}

/// The means of so many tenths of a second that the line has few points.
#[expect(clippy::cast_precision_loss, reason = "a pixel is coarser")]
fn points(line: &TimeLine, seconds: f64) -> Vec<(f64, f64)> {
    let in_run = line.values.len().min(step_at(seconds));
    let per_point = in_run.div_ceil(POINTS_MAX).max(1);
    let chunks = line.values[..in_run].chunks(per_point).enumerate();
    let point = |(place, chunk): (usize, &[f64])| {
        let at = (place * per_point) as f64 / 10.0 + chunk.len() as f64 / 20.0;
        (at, chunk.iter().sum::<f64>() / chunk.len() as f64)
    };
    chunks.map(point).collect()
}
