//! The partitions of a table over time, coloured by their nodes.

use core::fmt::Write as _;

use super::heat_map::{key_axis, small_area};
use crate::capacity::run::PartitionSpan;

/// Colours of nodes; more nodes begin again.
pub(super) const NODE_COLORS: usize = 6;

/// The least height and width in pixels of a partition whose number is written on it.
const NUMBERED: (f64, f64) = (9.0, 26.0);

/// The map of the partitions of one table over `seconds` seconds.
pub(super) fn partition_map(spans: &[PartitionSpan], seconds: u32) -> String {
    let area = small_area(seconds);
    let mut svg = String::new();
    area.open(&mut svg, "Partitions over time, coloured by their nodes");
    for span in spans {
        // The first keys are above.
        let (top, bottom) = (area.y(1.0 - span.keys.0), area.y(1.0 - span.keys.1));
        let (from, until) = (area.x(span.seconds.0), area.x(span.seconds.1));
        let (width, height) = (until - from, bottom - top);
        let node = span.node % NODE_COLORS;
        let _ = write!(
            svg,
            "<rect class=\"part n{node}\" x=\"{from:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"
        );
        if height >= NUMBERED.0 && width >= NUMBERED.1 {
            let _ = write!(
                svg,
                "<text class=\"num\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                from + 3.0,
                top + height / 2.0 + 3.5,
                span.partition
            );
        }
    }
    key_axis(&mut svg, &area);
    area.time_axis(&mut svg);
    svg.push_str("</svg>");
    svg
}
