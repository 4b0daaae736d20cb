//! A chart of lines over time, as SVG, for people who would rather look than read.

mod area_chart;
mod line_chart;
mod plot_area;

use core::error::Error;

pub use area_chart::{AreaChart, AreaShade, StackedArea};
pub use line_chart::{LineChart, NamePlaces, PlottedLine, ShadedSpan, ValueUnit};
pub use plot_area::PlotArea;
use plotters::prelude::*;

/// Width and height in pixels.
const SIZE: (u32, u32) = (1000, 420);

const SHADED: RGBColor = RGBColor(240, 228, 66);

/// A chart could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("the picture could not be drawn")]
pub struct ChartError(#[source] Box<dyn Error + Send + Sync>);

/// Something that happened at an instant, as a line across the chart with its name.
#[derive(Clone, Debug)]
pub struct ChartEvent {
    /// Its place: a second, or for areas a part of the width.
    pub at: f64,
    /// Its name.
    pub name: String,
}

/// The colour of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shade {
    /// Blue: the measured thing.
    Measured,
    /// Grey: what was asked for.
    Offered,
    /// Orange: a bound.
    Bound,
}

impl Shade {
    const fn color(self) -> RGBColor {
        match self {
            Self::Measured => RGBColor(0, 114, 178),
            Self::Offered => RGBColor(150, 150, 150),
            Self::Bound => RGBColor(213, 94, 0),
        }
    }
}

/// A line of a chart.
#[derive(Clone, Debug)]
pub struct ChartLine {
    /// Its name in the legend.
    pub name: &'static str,
    /// Its colour.
    pub shade: Shade,
    /// Seconds and values.
    pub points: Vec<(f64, f64)>,
}

/// A chart from second 0 to `end`.
#[derive(Clone, Debug)]
pub struct Chart {
    /// The text above it.
    pub title: String,
    /// Where it ends, in seconds.
    pub end: f64,
    /// Its lines; later ones are drawn over earlier ones.
    pub lines: Vec<ChartLine>,
    /// Spans in seconds that are shaded yellow: troubles.
    pub shaded: Vec<(f64, f64)>,
}

impl Chart {
    /// The chart as SVG.
    pub fn draw(self) -> Result<String, ChartError> {
        let mut svg = String::new();
        self.draw_on(&mut svg).map_err(ChartError)?;
        Ok(svg)
    }

    fn draw_on(self, svg: &mut String) -> Result<(), Box<dyn Error + Send + Sync>> {
        let points = self.lines.iter().flat_map(|line| &line.points);
        let top = points.map(|(_, value)| *value).fold(1.0, f64::max) * 1.08;
        let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        let plain = |error: DrawingAreaErrorKind<_>| format!("{error}");
        root.fill(&WHITE).map_err(plain)?;
        let mut chart = ChartBuilder::on(&root)
            .caption(self.title, ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(80)
            .build_cartesian_2d(0.0..self.end, 0.0..top)
            .map_err(plain)?;
        for (from, until) in self.shaded {
            let corners = [(from, 0.0), (until, top)];
            chart.draw_series([Rectangle::new(corners, SHADED.mix(0.5).filled())]).map_err(plain)?;
        }
        let mut mesh = chart.configure_mesh();
        let label = |value: &f64| format!("{value:.0}");
        mesh.x_desc("seconds")
            .max_light_lines(0)
            .bold_line_style(BLACK.mix(0.15))
            .x_label_formatter(&label)
            .y_label_formatter(&label);
        mesh.draw().map_err(plain)?;
        for ChartLine { name, shade, points } in self.lines {
            let color = shade.color();
            let line = LineSeries::new(points, color.stroke_width(2));
            chart
                .draw_series(line)
                .map_err(plain)?
                .label(name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], color.stroke_width(2)));
        }
        let mut labels = chart.configure_series_labels();
        labels
            .background_style(WHITE.mix(0.8))
            .border_style(Shade::Offered.color())
            .position(SeriesLabelPosition::UpperRight);
        labels.draw().map_err(plain)?;
        root.present().map_err(plain)?;
        Ok(())
    }
}
