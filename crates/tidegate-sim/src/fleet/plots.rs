//! Pictures of a report, for people who would rather look than read.

use core::error::Error;

use plotters::prelude::*;

use crate::fleet::report::Report;
use crate::fleet::scenario::Numbers;

/// Width and height in pixels.
const SIZE: (u32, u32) = (1000, 420);

const ADMITTED: RGBColor = RGBColor(0, 114, 178);
const OFFERED: RGBColor = RGBColor(150, 150, 150);
const LIMIT: RGBColor = RGBColor(213, 94, 0);
const TROUBLE: RGBColor = RGBColor(240, 228, 66);

/// A picture could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("the picture could not be drawn")]
pub struct PlotError(#[source] Box<dyn Error + Send + Sync>);

/// A picture.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Plot {
    /// A name for its file.
    pub name: &'static str,
    /// The picture, as SVG.
    pub svg: String,
}

/// The admitted units of the hottest key beside its limit, and the units lent to its members, over
/// time. Troubles are shaded yellow. A scenario of one second is a single point.
pub fn plots(report: &Report) -> Result<Vec<Plot>, PlotError> {
    let per_second = report.scenario.limit.rate();
    let over_time = |pick: fn(&crate::fleet::report::Second) -> u64| -> Vec<(f64, f64)> {
        let seconds = (1..).zip(&report.series);
        seconds.map(|(at, second)| (f64::from(at), number(pick(second)))).collect()
    };
    let end = f64::from(report.scenario.seconds);
    let admitted = Picture {
        title: "Units a second, hottest key",
        lines: vec![
            Line { name: "asked for", color: OFFERED, points: over_time(|second| second.hot_offered) },
            Line { name: "limit", color: LIMIT, points: vec![(0.0, per_second), (end, per_second)] },
            Line { name: "admitted", color: ADMITTED, points: over_time(|second| second.hot_admitted) },
        ],
    };
    let most = match report.scenario.limit {
        Numbers::Bucket { burst, .. } => {
            f64::from(burst) + per_second * tidegate::lease::Terms::PERIOD.as_secs_f64()
        }
        Numbers::Window { units, .. } => f64::from(units),
    };
    let lent = Picture {
        title: "Units lent and not spent, hottest key",
        lines: vec![
            Line { name: "most", color: LIMIT, points: vec![(0.0, most), (end, most)] },
            Line { name: "lent", color: ADMITTED, points: over_time(|second| second.hot_lent) },
        ],
    };
    let calls = Picture {
        title: "Store calls a second, all keys",
        lines: vec![Line { name: "calls", color: ADMITTED, points: over_time(|second| second.calls) }],
    };
    [("admitted", admitted), ("lent", lent), ("calls", calls)]
        .into_iter()
        .map(|(name, picture)| Ok(Plot { name, svg: picture.draw(report)? }))
        .collect()
}

struct Line {
    name: &'static str,
    color: RGBColor,
    points: Vec<(f64, f64)>,
}

struct Picture {
    title: &'static str,
    lines: Vec<Line>,
}

impl Picture {
    fn draw(self, report: &Report) -> Result<String, PlotError> {
        let mut svg = String::new();
        self.draw_on(report, &mut svg).map_err(PlotError)?;
        Ok(svg)
    }

    fn draw_on(self, report: &Report, svg: &mut String) -> Result<(), Box<dyn Error + Send + Sync>> {
        let end = f64::from(report.scenario.seconds);
        let points = self.lines.iter().flat_map(|line| &line.points);
        let top = points.map(|(_, units)| *units).fold(1.0, f64::max) * 1.08;
        let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        let plain = |error: DrawingAreaErrorKind<_>| format!("{error}");
        root.fill(&WHITE).map_err(plain)?;
        let mut chart = ChartBuilder::on(&root)
            .caption(format!("{} (seed {})", self.title, report.scenario.seed), ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(80)
            .build_cartesian_2d(0.0..end, 0.0..top)
            .map_err(plain)?;
        for one in &report.recoveries {
            let corners = [(seconds(one.from_ms), 0.0), (seconds(one.until_ms), top)];
            chart.draw_series([Rectangle::new(corners, TROUBLE.mix(0.5).filled())]).map_err(plain)?;
        }
        let mut mesh = chart.configure_mesh();
        let label = |value: &f64| format!("{value:.0}");
        mesh.x_desc("seconds")
            .max_light_lines(0)
            .bold_line_style(BLACK.mix(0.15))
            .x_label_formatter(&label)
            .y_label_formatter(&label);
        mesh.draw().map_err(plain)?;
        for Line { name, color, points } in self.lines {
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
            .border_style(OFFERED)
            .position(SeriesLabelPosition::UpperRight);
        labels.draw().map_err(plain)?;
        root.present().map_err(plain)?;
        Ok(())
    }
}

#[expect(clippy::cast_precision_loss, reason = "a pixel is coarser")]
fn number(units: u64) -> f64 {
    units as f64
}

#[expect(clippy::cast_precision_loss, reason = "a pixel is coarser")]
fn seconds(ms: u64) -> f64 {
    ms as f64 / 1000.0
}
