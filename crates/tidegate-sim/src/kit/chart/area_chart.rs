//! Stacked areas over time, with thresholds and a line above, as one SVG file that is readable on a
//! light and on a dark page.

use core::error::Error;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::plot_area::round_step;
use super::{ChartError, ChartEvent};
use crate::kit::report::escaped;

/// Width of the picture, its height without notes, and the height of a note.
const WIDTH: u32 = 940;
const HEIGHT: u32 = 464;
const NOTE_HEIGHT: u32 = 18;

/// The picture is drawn so many times larger, because plotters knows whole pixels only.
const SCALE: f64 = 4.0;

/// Left and right ends of the areas, and the tops and bottoms of the line above and of the areas.
const LEFT: f64 = 56.0;
const RIGHT: f64 = 724.0;
const ABOVE: (f64, f64) = (70.0, 112.0);
const AREAS: (f64, f64) = (146.0, 430.0);

/// The middles of the two lines for the names of events, the upper one first; the room between
/// names; and the width of a letter, about.
const EVENT_LINES: [f64; 2] = [122.0, 136.0];
const EVENT_GAP: f64 = 10.0;
const EVENT_LETTER: f64 = 6.4;

const PAPER: RGBColor = RGBColor(255, 255, 255);
const HALO: RGBColor = RGBColor(255, 255, 254);
const INK: RGBColor = RGBColor(31, 35, 40);
const FAINT: RGBColor = RGBColor(89, 99, 110);
const GRID: RGBColor = RGBColor(209, 217, 224);
const FRAME: RGBColor = RGBColor(129, 139, 152);
const SOFT: RGBColor = RGBColor(154, 103, 0);
const HARD: RGBColor = RGBColor(207, 34, 46);
const REFUSED: RGBColor = RGBColor(130, 80, 223);
const EVENT: RGBColor = RGBColor(9, 105, 218);
const IDLE: RGBColor = RGBColor(200, 206, 213);
const REST: RGBColor = RGBColor(145, 152, 161);
const OWN: [RGBColor; 6] = [
    RGBColor(62, 124, 189),
    RGBColor(236, 145, 56),
    RGBColor(88, 166, 92),
    RGBColor(191, 92, 142),
    RGBColor(77, 176, 176),
    RGBColor(222, 190, 68),
];

/// The colours of a dark page, and how lines are dashed. Attributes of the file have the colours of
/// a light one, for a viewer that knows no style sheets.
const STYLE: &str = r##"
  svg { color-scheme: light dark }
  text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; white-space: pre }
  polygon { stroke: #ffffff; stroke-width: 3; stroke-linejoin: round }
  polygon[fill="#8250DF"] { stroke: none }
  polyline { stroke-linejoin: round }
  [stroke="#9A6700"] { stroke-dasharray: 32 20 } [stroke="#0969DA"] { stroke-dasharray: 12 12 }
  @media (prefers-color-scheme: dark) {
    [fill="#FFFFFF"] { fill: #0d1117 } [stroke="#FFFFFE"] { stroke: #0d1117 } polygon { stroke: #0d1117 }
    [fill="#1F2328"] { fill: #f0f6fc } [fill="#59636E"] { fill: #9198a1 }
    [stroke="#D1D9E0"] { stroke: #30363d } [stroke="#818B98"] { stroke: #656c76 }
    [fill="#C8CED5"] { fill: #3d444d } [fill="#9198A1"] { fill: #656c76 }
    [stroke="#9A6700"] { stroke: #e3b341 } [fill="#9A6700"] { fill: #e3b341 }
    [stroke="#CF222E"] { stroke: #ff7b72 } [fill="#CF222E"] { fill: #ff7b72 }
    [stroke="#0969DA"] { stroke: #58a6ff } [fill="#0969DA"] { fill: #58a6ff }
    [stroke="#8250DF"] { stroke: #d2a8ff } [fill="#8250DF"] { fill: #d2a8ff }
  }
"##;

/// The colour of an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AreaShade {
    /// One of six colours; a higher number begins again.
    Own(usize),
    /// Grey: all that have no colour of their own.
    Rest,
    /// Light grey: nobody's.
    Idle,
}

impl AreaShade {
    fn color(self) -> RGBColor {
        match self {
            Self::Own(index) => OWN[index % OWN.len()],
            Self::Rest => REST,
            Self::Idle => IDLE,
        }
    }
}

/// An area of the stack.
#[derive(Clone, Debug)]
pub struct StackedArea {
    /// Its name in the legend.
    pub name: String,
    /// A few words behind its name.
    pub note: String,
    /// Its colour.
    pub shade: AreaShade,
    /// Its height in each column; 0 where it has none.
    pub heights: Vec<f64>,
}

/// A picture of areas that are stacked on each other, in columns of equal widths.
#[derive(Clone, Debug)]
pub struct AreaChart {
    /// The headline.
    pub title: String,
    /// The line below it.
    pub subtitle: String,
    /// It is read aloud in place of the picture.
    pub description: String,
    /// Which columns have areas; the others are a gap.
    pub is_known: Vec<bool>,
    /// The areas, the lowest first.
    pub areas: Vec<StackedArea>,
    /// The value at the top; higher ones are cut off.
    pub top: f64,
    /// The lower threshold, a dashed line.
    pub soft: f64,
    /// The upper threshold, a solid line.
    pub hard: f64,
    /// The name of the line above the areas.
    pub above_name: String,
    /// Its value in each column.
    pub above: Vec<f64>,
    /// Events, in the order of time.
    pub events: Vec<ChartEvent>,
    /// Marks of time: the part of the width, and the text.
    pub marks: Vec<(f64, String)>,
    /// Sentences below the picture.
    pub notes: Vec<String>,
}

type Drawing<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Drawn = Result<(), Box<dyn Error + Send + Sync>>;

impl AreaChart {
    /// The picture as an SVG file.
    pub fn draw(&self) -> Result<String, ChartError> {
        let mut svg = String::new();
        self.draw_on(&mut svg).map_err(ChartError)?;
        // The drawn file begins with the element of the picture, on a line of its own.
        let (_, drawn) = svg.split_once('\n').unwrap_or_default();
        let (width, height) = self.size();
        let (inner_width, inner_height) = self.scaled_size();
        Ok(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {inner_width} {inner_height}\" \
             width=\"{width}\" height=\"{height}\" role=\"img\" aria-labelledby=\"t d\">\n<title \
             id=\"t\">{}</title>\n<desc id=\"d\">{}</desc>\n<style>{STYLE}</style>\n{drawn}",
            escaped(&self.title),
            escaped(&self.description)
        ))
    }

    fn draw_on(&self, svg: &mut String) -> Drawn {
        let root = SVGBackend::with_string(svg, self.scaled_size()).into_drawing_area();
        root.fill(&PAPER)?;
        write(&root, &self.title, (LEFT, 28.0), (19.0, INK), HPos::Left)?;
        write(&root, &self.subtitle, (LEFT, 48.0), (12.5, FAINT), HPos::Left)?;
        self.draw_above(&root)?;
        self.draw_axes(&root)?;
        self.draw_areas(&root)?;
        self.draw_threshold(&root, ("soft", self.soft), SOFT, 1.8)?;
        self.draw_threshold(&root, ("hard", self.hard), HARD, 2.2)?;
        self.draw_events(&root)?;
        self.draw_legend(&root)?;
        let mut y = f64::from(HEIGHT);
        for note in &self.notes {
            write(&root, note, (LEFT, y), (12.0, FAINT), HPos::Left)?;
            y += f64::from(NOTE_HEIGHT);
        }
        Ok(root.present()?)
    }

    /// Width and height.
    fn size(&self) -> (u32, u32) {
        let notes = u32::try_from(self.notes.len()).unwrap_or(u32::MAX);
        (WIDTH, HEIGHT.saturating_add(NOTE_HEIGHT.saturating_mul(notes)))
    }

    fn scaled_size(&self) -> (u32, u32) {
        let (width, height) = self.size();
        (width.saturating_mul(SCALE as u32), height.saturating_mul(SCALE as u32))
    }

    /// The horizontal pixel of the middle of a column.
    fn x(&self, column: usize) -> f64 {
        LEFT + (RIGHT - LEFT) * (column as f64 + 0.5) / self.is_known.len().max(1) as f64
    }

    fn y(&self, value: f64) -> f64 {
        AREAS.1 - (AREAS.1 - AREAS.0) * (value / self.top).clamp(0.0, 1.0)
    }

    /// The runs of columns without a gap, from the first to the one after the last.
    fn runs(&self) -> Vec<(usize, usize)> {
        let mut runs = Vec::new();
        let mut from = None;
        for (column, is_known) in self.is_known.iter().copied().chain([false]).enumerate() {
            match (from, is_known) {
                (None, true) => from = Some(column),
                (Some(begin), false) => {
                    runs.push((begin, column));
                    from = None;
                }
                _ => {}
            }
        }
        runs
    }

    /// The points of a line over a run of columns, from its left to its right edge.
    fn points(&self, (from, until): (usize, usize), y: impl Fn(usize) -> f64) -> Vec<(i32, i32)> {
        let half = (RIGHT - LEFT) / self.is_known.len().max(1) as f64 / 2.0;
        let first = (self.x(from) - half, y(from));
        let last = (self.x(until - 1) + half, y(until - 1));
        let middles = (from..until).map(|column| (self.x(column), y(column)));
        let points = core::iter::once(first).chain(middles).chain([last]).map(at);
        let mut points: Vec<(i32, i32)> = points.collect();
        // Points on a level line add nothing.
        let mut index = 1;
        while index + 1 < points.len() {
            if points[index - 1].1 == points[index].1 && points[index].1 == points[index + 1].1 {
                points.remove(index);
            } else {
                index += 1;
            }
        }
        points
    }

    fn draw_areas(&self, root: &Drawing<'_>) -> Drawn {
        for run in self.runs() {
            let mut below = vec![0.0; self.is_known.len()];
            for area in &self.areas {
                let above: Vec<f64> = below.iter().zip(&area.heights).map(|(a, b)| a + b).collect();
                if (run.0..run.1).any(|column| self.y(above[column]) < self.y(below[column]) - 0.05) {
                    let mut points = self.points(run, |column| self.y(above[column]));
                    points.extend(self.points(run, |column| self.y(below[column])).into_iter().rev());
                    root.draw(&Polygon::new(points, area.shade.color().filled()))?;
                }
                below = above;
            }
        }
        line(root, [(LEFT, AREAS.1), (RIGHT, AREAS.1)], FRAME, 1.2)
    }

    fn draw_axes(&self, root: &Drawing<'_>) -> Drawn {
        let step = round_step(self.top, 6.0);
        let mut value = 0.0;
        while value <= self.top + 1e-9 {
            let y = self.y(value);
            line(root, [(LEFT, y), (RIGHT, y)], GRID, 1.0)?;
            write(root, &format!("{value:.1}"), (LEFT - 8.0, y), (12.0, FAINT), HPos::Right)?;
            value += step;
        }
        for (part, text) in &self.marks {
            let x = LEFT + (RIGHT - LEFT) * part;
            line(root, [(x, AREAS.1), (x, AREAS.1 + 5.0)], FRAME, 1.2)?;
            write(root, text, (x, AREAS.1 + 17.0), (12.0, FAINT), HPos::Center)?;
        }
        Ok(())
    }

    fn draw_threshold(
        &self,
        root: &Drawing<'_>,
        (name, value): (&str, f64),
        color: RGBColor,
        width: f64,
    ) -> Drawn {
        if value > self.top {
            return Ok(());
        }
        let y = self.y(value);
        line(root, [(LEFT, y), (RIGHT, y)], HALO, width + 2.4)?;
        line(root, [(LEFT, y), (RIGHT, y)], color, width)?;
        write(root, &format!("{name} {value:.2}"), (RIGHT + 8.0, y), (12.5, color), HPos::Left)
    }

    /// A line for each event, and its name between the line above and the areas, on one of two
    /// lines; a name that fits on neither is left out.
    fn draw_events(&self, root: &Drawing<'_>) -> Drawn {
        // The right ends of the names of each line, and the line that was drawn last from the upper
        // one down: it crosses no name of the lower one.
        let mut ends = [LEFT - EVENT_GAP; 2];
        let mut crossing = LEFT - EVENT_GAP;
        for event in &self.events {
            let x = LEFT + (RIGHT - LEFT) * event.at.clamp(0.0, 1.0);
            let width = event.name.chars().count() as f64 * EVENT_LETTER;
            let begin = (x - 4.0).min(RIGHT - width).max(LEFT);
            let is_free = [
                ends[0] + EVENT_GAP <= begin && ends[1] <= x,
                ends[1] + EVENT_GAP <= begin && crossing + EVENT_GAP / 2.0 <= begin,
            ];
            let free = is_free.iter().position(|is_free| *is_free);
            let top = EVENT_LINES[free.unwrap_or(1)];
            line(root, [(x, top + 8.0), (x, AREAS.1)], HALO, 3.6)?;
            line(root, [(x, top + 8.0), (x, AREAS.1)], EVENT, 1.4)?;
            if let Some(row) = free {
                ends[row] = begin + width;
                if row == 0 {
                    crossing = x;
                }
                write(root, &event.name, (begin, top), (12.0, EVENT), HPos::Left)?;
            }
        }
        Ok(())
    }

    fn draw_above(&self, root: &Drawing<'_>) -> Drawn {
        let most = self.above.iter().copied().fold(0.0, f64::max);
        let (top, bottom) = ABOVE;
        line(root, [(LEFT, bottom), (RIGHT, bottom)], GRID, 1.0)?;
        let y = |column: usize| {
            let part = if most > 0.0 { self.above[column] / most } else { 0.0 };
            bottom - (bottom - top) * part
        };
        for run in self.runs().into_iter().filter(|_| most > 0.0) {
            let line = self.points(run, y);
            let mut filled = line.clone();
            let ends = [line.last(), line.first()];
            filled.extend(ends.into_iter().flatten().map(|(x, _)| (*x, at((0.0, bottom)).1)));
            root.draw(&Polygon::new(filled, REFUSED.mix(0.18).filled()))?;
            root.draw(&PathElement::new(line, REFUSED.stroke_width(stroke(1.8))))?;
        }
        write(root, &self.above_name, (RIGHT + 8.0, bottom - 26.0), (12.5, REFUSED), HPos::Left)?;
        let peak = if most > 0.0 { format!("most {}/s", figure(most)) } else { "none".to_owned() };
        write(root, &peak, (RIGHT + 8.0, bottom - 9.0), (12.0, FAINT), HPos::Left)
    }

    /// The names of the areas in the order of the stack, below the names of the thresholds.
    fn draw_legend(&self, root: &Drawing<'_>) -> Drawn {
        let shown = self.areas.len() as f64;
        let mut y = (self.y(self.soft) + 30.0).min(AREAS.1 - 22.0 * shown + 14.0).max(AREAS.0);
        for area in self.areas.iter().rev() {
            let corners = [at((RIGHT + 8.0, y - 6.5)), at((RIGHT + 21.0, y + 6.5))];
            root.draw(&Rectangle::new(corners, area.shade.color().filled()))?;
            let text = format!("{}  {}", area.name, area.note);
            write(root, &text, (RIGHT + 28.0, y), (12.5, INK), HPos::Left)?;
            y += 22.0;
        }
        Ok(())
    }
}

/// A number with three digits, or with all of them if it has more.
fn figure(value: f64) -> String {
    match value {
        0.0..1.0 => format!("{value:.2}"),
        1.0..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

fn at((x, y): (f64, f64)) -> (i32, i32) {
    (libm::round(x * SCALE) as i32, libm::round(y * SCALE) as i32)
}

fn stroke(width: f64) -> u32 {
    libm::round(width * SCALE) as u32
}

fn line(root: &Drawing<'_>, ends: [(f64, f64); 2], color: RGBColor, width: f64) -> Drawn {
    let path = PathElement::new(ends.map(at), color.stroke_width(stroke(width)));
    Ok(root.draw(&path)?)
}

fn write(
    root: &Drawing<'_>,
    text: &str,
    place: (f64, f64),
    (size, color): (f64, RGBColor),
    to: HPos,
) -> Drawn {
    let style = ("sans-serif", size * SCALE).into_font().color(&color).pos(Pos::new(to, VPos::Center));
    Ok(root.draw(&Text::new(text, at(place), style))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(is_known: &[bool], heights: &[f64]) -> AreaChart {
        AreaChart {
            title: "app <1>".to_owned(),
            subtitle: String::new(),
            description: "described".to_owned(),
            is_known: is_known.to_vec(),
            areas: vec![StackedArea {
                name: "search".to_owned(),
                note: "60 %".to_owned(),
                shade: AreaShade::Own(0),
                heights: heights.to_vec(),
            }],
            top: 1.0,
            soft: 0.7,
            hard: 0.9,
            above_name: "refused".to_owned(),
            above: vec![0.0; is_known.len()],
            events: vec![ChartEvent { at: 0.5, name: "search off".to_owned() }],
            marks: vec![(0.5, "12:00".to_owned())],
            notes: vec!["No samples.".to_owned()],
        }
    }

    #[test]
    fn a_gap_cuts_the_areas_in_two() {
        let polygons = |known: &[bool]| chart(known, &[0.5; 5]).draw().unwrap().matches("<polygon").count();
        assert_eq!(polygons(&[true; 5]), 1);
        assert_eq!(polygons(&[true, true, false, true, true]), 2);
        assert_eq!(polygons(&[false; 5]), 0);
    }

    #[test]
    fn names_of_events_that_meet_stand_on_two_lines_and_a_third_has_its_line_alone() {
        let names = |parts: &[f64]| {
            let mut chart = chart(&[true; 3], &[0.2; 3]);
            let event =
                |(index, part): (usize, &f64)| ChartEvent { at: *part, name: format!("event {index}") };
            chart.events = parts.iter().enumerate().map(event).collect();
            let svg = chart.draw().unwrap();
            (svg.matches("event ").count(), svg.matches("stroke=\"#0969DA\"").count())
        };
        // One line of the style sheet names the colour, too.
        let lines = |count: usize| count + names(&[]).1;
        assert_eq!(names(&[0.1, 0.5, 0.9]), (3, lines(3)));
        assert_eq!(names(&[0.5, 0.53]), (2, lines(2)));
        assert_eq!(names(&[0.5, 0.51, 0.52]), (2, lines(3)));
        assert_eq!(names(&[f64::NAN, -1.0, 2.0]).1, lines(3));
    }

    #[test]
    fn a_picture_has_a_title_thresholds_a_legend_and_colours_for_dark_pages() {
        let svg = chart(&[true; 3], &[0.2, 0.4, f64::MAX]).draw().unwrap();
        let parts = [
            "<title id=\"t\">app &lt;1&gt;</title>",
            "<desc id=\"d\">described</desc>",
            "prefers-color-scheme: dark",
            "soft 0.70",
            "hard 0.90",
            "search  60 %",
            "search off",
            "12:00",
            "No samples.",
        ];
        for part in parts {
            assert!(svg.contains(part), "{part} is missing in {svg}");
        }
    }
}
