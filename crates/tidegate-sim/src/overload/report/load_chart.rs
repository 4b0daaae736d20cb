//! A figure of each design over the offered load, as lines.

use core::fmt::Write as _;

use crate::kit::plot_area::{PlotArea, round_step};
use crate::overload::design::OverloadDesign;

/// The values of one design, one for each load; what is not finite is left out.
#[derive(Clone, Debug)]
pub(super) struct LoadLine {
    pub(super) design: OverloadDesign,
    pub(super) values: Vec<f64>,
}

/// A chart with one position for each load, at equal distances.
pub(super) fn load_chart(label: &str, loads: &[&str], lines: &[LoadLine], unit: &str) -> String {
    #[expect(clippy::cast_precision_loss, reason = "there are few loads")]
    let last = loads.len().saturating_sub(1).max(1) as f64;
    let area = PlotArea {
        width: 900.0,
        height: 300.0,
        left: 56.0,
        right: 84.0,
        top: 12.0,
        bottom: 26.0,
        seconds: last,
    };
    let finite = lines.iter().flat_map(|line| &line.values).filter(|value| value.is_finite());
    let most = finite.copied().fold(0.0, f64::max).max(1e-3) * 1.05;
    let step = round_step(most, 6.0);
    let top = libm::ceil(most / step) * step;
    let mut svg = String::new();
    area.open(&mut svg, label);
    value_axis(&mut svg, &area, top, step, unit);
    for (place, load) in loads.iter().enumerate() {
        #[expect(clippy::cast_precision_loss, reason = "there are few loads")]
        let x = area.x(place as f64);
        let y = area.height - area.bottom + 16.0;
        let _ = write!(svg, "<text class=\"mid\" x=\"{x:.1}\" y=\"{y:.1}\">{load}</text>");
    }
    let mut labels: Vec<(f64, OverloadDesign)> = Vec::new();
    for line in lines {
        let mut path = String::new();
        for (place, value) in line.values.iter().enumerate().filter(|(_, value)| value.is_finite()) {
            let command = if path.is_empty() { 'M' } else { 'L' };
            #[expect(clippy::cast_precision_loss, reason = "there are few loads")]
            let _ = write!(path, "{command}{:.1} {:.1}", area.x(place as f64), area.y(value / top));
        }
        let _ = write!(svg, "<path class=\"line {}\" d=\"{path}\"/>", line_class(line.design));
        if let Some(end) = line.values.last().filter(|value| value.is_finite()) {
            labels.push((area.y(end / top), line.design));
        }
    }
    // Labels at the ends of lines that meet are set one above the other.
    labels.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut lowest = f64::MAX;
    for (y, design) in labels {
        let y = y.min(lowest - 12.0);
        lowest = y;
        let (x, position) = (area.width - area.right + 6.0, design.place);
        let name = design.name;
        let _ =
            write!(svg, "<text class=\"name f{position}\" x=\"{x:.1}\" y=\"{:.1}\">{name}</text>", y + 4.0);
    }
    svg.push_str("</svg>");
    svg
}

/// The class of a design's line; that of the product is thicker.
pub(super) fn line_class(design: OverloadDesign) -> String {
    let own = if design == OverloadDesign::TIDEGATE { " own" } else { "" };
    format!("s{}{own}", design.place)
}

/// The grid and the values beside it, from 0 to `top`.
pub(super) fn value_axis(svg: &mut String, area: &PlotArea, top: f64, step: f64, unit: &str) {
    let digits = if step < 0.1 { 2 } else { usize::from(step < 1.0) };
    let mut at = 0.0;
    while at <= top + 1e-9 {
        let (y, from, until) = (area.y(at / top), area.left, area.width - area.right);
        let _ = write!(
            svg,
            "<path class=\"grid\" d=\"M{from:.1} {y:.1}H{until:.1}\"/><text class=\"end\" x=\"{:.1}\" \
             y=\"{:.1}\">{at:.digits$}{unit}</text>",
            from - 6.0,
            y + 4.0
        );
        at += step;
    }
}
