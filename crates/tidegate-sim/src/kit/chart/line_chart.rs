//! Lines over time or over names, as a picture in a page whose style sheet has their colours.

use core::fmt::Write as _;

use super::ChartEvent;
use super::plot_area::{PlotArea, round_step};
use crate::kit::report::escaped;

/// A line.
#[derive(Clone, Debug)]
pub struct PlottedLine {
    /// Its class in the style sheet.
    pub class: String,
    /// The class of its name.
    pub name_class: String,
    /// Its name.
    pub name: String,
    /// Its points: seconds, or the place among the names, and the value.
    pub points: Vec<(f64, f64)>,
    /// The value at which its name stands beside its end; `None`: it has no name there.
    pub end: Option<f64>,
}

/// A span that is shaded.
#[derive(Clone, Copy, Debug)]
pub struct ShadedSpan {
    /// Where it begins, in seconds.
    pub from: f64,
    /// Where it ends.
    pub until: f64,
    /// The text on it.
    pub note: Option<&'static str>,
}

/// The unit of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueUnit {
    /// Parts of one, which are shown in hundredths.
    Share,
    /// Numbers, with what is written behind them.
    Number(&'static str),
}

/// Where the names of lines stand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NamePlaces {
    /// Beside the ends of the lines. Where ends meet, names are set one above the other, so many
    /// pixels apart.
    AtEnds(f64),
    /// The same, the last line lowest.
    AtEndsLastLowest(f64),
    /// In a column.
    InColumn,
}

/// A picture of lines.
#[derive(Clone, Debug)]
pub struct LineChart<'a> {
    /// It is read aloud in place of the picture.
    pub label: &'a str,
    /// Where the lines are.
    pub area: PlotArea,
    /// The least value that the axis of values ends at. It begins at 0.
    pub end_min: f64,
    /// The most parts that the axis of values is cut into.
    pub parts: f64,
    /// The unit of values.
    pub unit: ValueUnit,
    /// The names on the horizontal axis, at equal distances; seconds if there are none.
    pub places: &'a [&'a str],
    /// The spans that are shaded.
    pub shaded: Vec<ShadedSpan>,
    /// The instants that are marked, in order.
    pub events: Vec<ChartEvent>,
    /// The lines; later ones are drawn over earlier ones.
    pub lines: Vec<PlottedLine>,
    /// Where their names stand.
    pub names: NamePlaces,
}

impl LineChart<'_> {
    /// The picture as SVG.
    pub fn draw(&self) -> String {
        let area = &self.area;
        let values = self.lines.iter().flat_map(|line| &line.points).map(|(_, value)| *value);
        let end = (values.fold(0.0, f64::max) * 1.05).max(self.end_min);
        let step = round_step(end, self.parts);
        let top = libm::ceil(end / step) * step;
        let mut svg = String::new();
        area.open(&mut svg, &escaped(self.label));
        self.shaded.iter().for_each(|span| self.shade(&mut svg, *span));
        self.value_axis(&mut svg, top, step);
        match self.places {
            [] => area.time_axis(&mut svg),
            places => area.name_axis(&mut svg, places),
        }
        self.events.iter().for_each(|event| self.draw_event(&mut svg, event));
        for line in &self.lines {
            let mut path = String::new();
            for (at, value) in &line.points {
                let command = if path.is_empty() { 'M' } else { 'L' };
                let _ = write!(path, "{command}{:.1} {:.1}", area.x(*at), area.y(value / top));
            }
            let _ = write!(svg, "<path class=\"line {}\" d=\"{path}\"/>", line.class);
        }
        self.write_names(&mut svg, top);
        svg.push_str("</svg>");
        svg
    }

    fn shade(&self, svg: &mut String, span: ShadedSpan) {
        let area = &self.area;
        let (x, width) = (area.x(span.from), area.x(span.until) - area.x(span.from));
        let (y, height) = (area.y(1.0), area.y(0.0) - area.y(1.0));
        let _ = write!(
            svg,
            "<rect class=\"beyond\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"
        );
        if let Some(note) = span.note {
            let (x, y) = (x + width / 2.0, y + 14.0);
            let _ = write!(svg, "<text class=\"note mid\" x=\"{x:.1}\" y=\"{y:.1}\">{note}</text>");
        }
    }

    fn draw_event(&self, svg: &mut String, event: &ChartEvent) {
        let (x, top, bottom) = (self.area.x(event.at), self.area.y(1.0), self.area.y(0.0));
        let (text, y) = (escaped(&event.name), top + 12.0);
        let _ = write!(
            svg,
            "<path class=\"mark\" d=\"M{x:.1} {top:.1}V{bottom:.1}\"/><text class=\"note\" x=\"{:.1}\" \
             y=\"{y:.1}\">{text}</text>",
            x + 4.0
        );
    }

    /// The grid and the values beside it, from 0 to `top`.
    fn value_axis(&self, svg: &mut String, top: f64, step: f64) {
        let (from, until) = (self.area.left, self.area.width - self.area.right);
        let mut at = 0.0;
        while at <= top + 1e-9 {
            let y = self.area.y(at / top);
            let value = self.unit.write(at, step);
            let _ = write!(
                svg,
                "<path class=\"grid\" d=\"M{from:.1} {y:.1}H{until:.1}\"/><text class=\"end\" x=\"{:.1}\" \
                 y=\"{:.1}\">{value}</text>",
                from - 6.0,
                y + 4.0
            );
            at += step;
        }
    }

    fn write_names(&self, svg: &mut String, top: f64) {
        let x = self.area.width - self.area.right + 6.0;
        let mut write = |line: &PlottedLine, y: f64| {
            let (class, name) = (&line.name_class, escaped(&line.name));
            let _ = write!(svg, "<text class=\"name {class}\" x=\"{x:.1}\" y=\"{y:.1}\">{name}</text>");
        };
        let ends = self.lines.iter().filter_map(|line| Some((self.area.y(line.end? / top), line)));
        let mut ends: Vec<(f64, &PlottedLine)> = ends.collect();
        let apart = match self.names {
            NamePlaces::InColumn => {
                for (place, line) in (0_u32..).zip(&self.lines) {
                    write(line, self.area.top + 12.0 + 13.0 * f64::from(place));
                }
                return;
            }
            NamePlaces::AtEnds(apart) => apart,
            NamePlaces::AtEndsLastLowest(apart) => {
                ends.reverse();
                apart
            }
        };
        ends.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut lowest = f64::MAX;
        for (y, line) in ends {
            lowest = y.min(lowest - apart);
            write(line, lowest + 4.0);
        }
    }
}

impl ValueUnit {
    /// A value of an axis with marks at each `step`.
    fn write(self, value: f64, step: f64) -> String {
        match self {
            Self::Share => format!("{:.digits$} %", value * 100.0, digits = usize::from(step < 0.01)),
            Self::Number(unit) => {
                let digits = if step < 0.1 { 2 } else { usize::from(step < 1.0) };
                format!("{value:.digits$}{unit}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_at_ends_that_meet_stand_one_above_the_other() {
        let line = |name: &str| PlottedLine {
            class: name.to_owned(),
            name_class: name.to_owned(),
            name: name.to_owned(),
            points: vec![(0.0, 0.5), (10.0, 1.0)],
            end: Some(1.0),
        };
        let area = PlotArea {
            width: 100.0,
            height: 100.0,
            left: 10.0,
            right: 10.0,
            top: 0.0,
            bottom: 0.0,
            seconds: 10.0,
        };
        let chart = |names| LineChart {
            label: "",
            area,
            end_min: 0.0,
            parts: 5.0,
            unit: ValueUnit::Share,
            places: &[],
            shaded: Vec::new(),
            events: Vec::new(),
            lines: vec![line("first"), line("last")],
            names,
        };
        let height_of = |names, name: &str| {
            let svg = chart(names).draw();
            let (_, rest) = svg.split_once(&format!("\"name {name}\" x=\"96.0\" y=\"")).unwrap();
            rest.split_once('"').unwrap().0.parse::<f64>().unwrap()
        };
        let first = height_of(NamePlaces::AtEnds(12.0), "first");
        assert!((first - height_of(NamePlaces::AtEnds(12.0), "last") - 12.0).abs() < 0.2);
        assert!((height_of(NamePlaces::AtEndsLastLowest(12.0), "last") - first).abs() < 0.01);
    }
}
