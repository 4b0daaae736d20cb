//! The partitions of a table over time, coloured by their nodes.

use core::fmt::Write as _;

use super::heat_map::{key_axis, small_area};
use crate::capacity::run::PartitionSpan;

/// Colours of nodes; more nodes begin again.
pub(super) const NODE_COLORS: usize = 6;

/// Below this height in pixels a partition has no border, which would hide it.
const THIN: f64 = 2.5;

/// The least height and width in pixels of a partition whose number is written on it.
const NUMBERED: (f64, f64) = (9.0, 26.0);

/// The map of the partitions of one table over `seconds` seconds.
pub(super) fn partition_map(spans: &[PartitionSpan], seconds: u32) -> String {
    let area = small_area(seconds);
    let mut svg = String::new();
    area.open(&mut svg, "Partitions over time, coloured by their nodes");
    let edges = edges_of(spans);
    for span in spans {
        // The first keys are above.
        let y = |key| area.y(1.0 - place_of(&edges, key));
        let (top, bottom) = (y(span.keys.0), y(span.keys.1));
        let (from, until) = (area.x(span.seconds.0), area.x(span.seconds.1));
        let (width, height) = (until - from, bottom - top);
        let node = span.node % NODE_COLORS;
        let thin = if height < THIN { " thin" } else { "" };
        let _ = write!(
            svg,
            "<rect class=\"part n{node}{thin}\" x=\"{from:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"
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

/// The ends of all partitions, in order. Drawn at equal distances, so that the parts of a narrow
/// range can be seen.
fn edges_of(spans: &[PartitionSpan]) -> Vec<f64> {
    let mut edges: Vec<f64> = spans.iter().flat_map(|span| [span.keys.0, span.keys.1]).collect();
    edges.sort_by(f64::total_cmp);
    edges.dedup();
    edges
}

/// The place of an edge, 0 to 1.
fn place_of(edges: &[f64], key: f64) -> f64 {
    let place = edges.partition_point(|edge| *edge < key);
    place as f64 / edges.len().saturating_sub(1).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_narrow_range_are_as_high_as_the_others() {
        let span = |partition, from, until| PartitionSpan {
            partition,
            keys: (from, until),
            seconds: (0.0, 60.0),
            node: 0,
        };
        let spans = [span(0, 0.0, 0.001), span(1, 0.001, 0.002), span(2, 0.002, 1.0)];
        let edges = edges_of(&spans);
        let heights: Vec<f64> =
            spans.iter().map(|one| place_of(&edges, one.keys.1) - place_of(&edges, one.keys.0)).collect();
        assert!(heights.iter().all(|height| (height - 1.0 / 3.0).abs() < 1e-9), "{heights:?}");
    }
}
