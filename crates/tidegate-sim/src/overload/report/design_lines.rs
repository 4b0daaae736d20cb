//! Lines and chips of designs and clients in the charts of a run.

use crate::kit::chart::PlottedLine;
use crate::kit::report::chip;
use crate::overload::design::OverloadDesign;
use crate::overload::tally::step_at;

/// The most points of a line over time.
const POINTS_MAX: usize = 350;

/// Colours that differ: those of tidegate, codel, dagor and others.
pub(super) const COLORS: [usize; 6] = [10, 3, 5, 6, 8, 9];

/// The chip of a design.
pub(super) fn design_chip(design: OverloadDesign) -> String {
    chip(design.place, None, design.name)
}

/// A line of a value for each tenth of a second of `seconds`.
pub(super) fn line_of(class: String, color: usize, name: &str, values: &[f64], seconds: u32) -> PlottedLine {
    let in_run = values.len().min(step_at(f64::from(seconds)));
    let per_point = in_run.div_ceil(POINTS_MAX).max(1);
    let chunks = values[..in_run].chunks(per_point).enumerate();
    let point = |(place, chunk): (usize, &[f64])| {
        let at = (place * per_point) as f64 / 10.0 + chunk.len() as f64 / 20.0;
        (at, chunk.iter().sum::<f64>() / chunk.len() as f64)
    };
    let points = chunks.map(point).collect();
    let (name_class, name) = (format!("f{color}"), name.to_owned());
    PlottedLine { class, name_class, name, points, end: None }
}
