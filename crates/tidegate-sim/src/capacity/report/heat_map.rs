//! Requests over time and over the order of the keys, as a heat map.

use core::fmt::Write as _;

use crate::capacity::tally::HeatCounts;
use crate::kit::chart::PlotArea;

/// Shades of a heat map.
pub(super) const LEVELS: u32 = 7;

/// The area of the small pictures over the order of the keys.
pub(super) fn small_area(seconds: u32) -> PlotArea {
    PlotArea {
        width: 440.0,
        height: 226.0,
        left: 56.0,
        right: 16.0,
        top: 6.0,
        bottom: 24.0,
        seconds: f64::from(seconds),
    }
}

/// The heat map of `counts`; `most` requests in a cell have the darkest shade. `class` is the class
/// of its cells, `label` is read aloud.
pub(super) fn heat_map(counts: &HeatCounts, seconds: u32, most: u32, class: &str, label: &str) -> String {
    let area = small_area(seconds);
    let mut svg = String::new();
    area.open(&mut svg, label);
    let part = |row: usize| row as f64 / HeatCounts::ROWS as f64;
    let height = area.y(0.0) - area.y(part(1));
    let mut paths = vec![String::new(); LEVELS as usize];
    for row in 0..HeatCounts::ROWS {
        // The first keys are above.
        let y = area.y(1.0 - part(row));
        let mut column = 0;
        while column < counts.columns() {
            let level = level_of(counts.at(column, row), most);
            let mut until = column + 1;
            while until < counts.columns() && level_of(counts.at(until, row), most) == level {
                until += 1;
            }
            if level > 0 {
                let second = |column: u32| f64::from((column * counts.seconds_per_column()).min(seconds));
                let (from, to) = (area.x(second(column)), area.x(second(until)));
                let path = &mut paths[level as usize - 1];
                let _ = write!(path, "M{from:.1} {y:.1}H{to:.1}v{height:.1}H{from:.1}z");
            }
            column = until;
        }
    }
    for (path, level) in paths.iter().zip(1..).filter(|(path, _)| !path.is_empty()) {
        let _ = write!(svg, "<path class=\"{class} l{level}\" d=\"{path}\"/>");
    }
    key_axis(&mut svg, &area);
    area.time_axis(&mut svg);
    svg.push_str("</svg>");
    svg
}

/// The axis of the keys.
pub(super) fn key_axis(svg: &mut String, area: &PlotArea) {
    let x = area.left;
    let _ = write!(
        svg,
        "<path class=\"axis\" d=\"M{x:.1} {:.1}V{:.1}\"/><text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">first \
         key</text><text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">last key</text>",
        area.y(0.0),
        area.y(1.0),
        x - 5.0,
        area.y(1.0) + 9.0,
        x - 5.0,
        area.y(0.0)
    );
}

/// The shade of a cell: 0 for nothing, [`LEVELS`] for the most. The square root lets few requests
/// be seen beside many.
fn level_of(count: u32, most: u32) -> u32 {
    if count == 0 || most == 0 {
        return 0;
    }
    let part = libm::sqrt(f64::from(count) / f64::from(most));
    let level = libm::ceil(part * f64::from(LEVELS)) as u32;
    level.clamp(1, LEVELS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::SECOND;

    #[test]
    fn cells_of_the_same_shade_are_drawn_as_one_and_empty_ones_not_at_all() {
        let mut counts = HeatCounts::new(60);
        for second in 10..20 {
            counts.add(second * SECOND, 0);
        }
        let svg = heat_map(&counts, 60, counts.most(), "hot", "");
        assert_eq!(svg.matches("<path class=\"hot").count(), 1);
        assert_eq!(svg.matches('z').count(), 1);
        assert!(svg.contains("class=\"hot l7\""));
        assert_eq!(heat_map(&HeatCounts::new(60), 60, 0, "hot", "").matches("\"hot").count(), 0);
    }

    #[test]
    fn shades_rise_with_the_count() {
        let levels: Vec<u32> = [0, 1, 10, 50, 100].map(|count| level_of(count, 100)).to_vec();
        assert_eq!(levels, [0, 1, 3, 5, 7]);
    }
}
