//! The picture of a resource as an SVG file.

use tidegate_sim::kit::ChartError;
use tidegate_sim::kit::chart::{AreaChart, ChartEvent, StackedArea};

use super::picture::{HistoryPicture, PictureChange};
use crate::local_time::LocalTime;

/// How many columns a file has: one for two pixels, or for each ten seconds of an hour.
pub(super) const COLUMNS: usize = 344;

/// How many marks of time fit.
const MARKS_MAX: usize = 10;

pub(super) fn svg(picture: &HistoryPicture, zone: &LocalTime) -> Result<String, ChartError> {
    let (from, until) = picture.span;
    let span = zone.span(from, until);
    let areas = picture.areas.iter().map(|area| StackedArea {
        name: area.name.clone(),
        note: format!("{:.0} %", area.part * 100.0),
        shade: area.shade,
        heights: area.heights.clone(),
    });
    let marks = zone.marks(picture.span, MARKS_MAX).into_iter();
    #[expect(clippy::cast_precision_loss, reason = "milliseconds of a day")]
    let part = |at: i64| (at - from) as f64 / (until - from) as f64;
    let names: Vec<&str> = picture.areas.iter().map(|area| area.name.as_str()).collect();
    let mut description = format!(
        "Pressure of the resource over time, {span}, {}: {}. The level soft is entered at {:.2}, hard at {:.2}.",
        picture.measure,
        names.join(", "),
        picture.soft,
        picture.hard
    );
    for note in &picture.notes {
        description.push(' ');
        description.push_str(note);
    }
    let chart = AreaChart {
        title: picture.title(),
        subtitle: format!("{span}, {}", picture.measure),
        description,
        is_known: picture.is_known.clone(),
        areas: areas.collect(),
        top: picture.top,
        soft: picture.soft,
        hard: picture.hard,
        above_name: "refused units".to_owned(),
        above: picture.refused.clone(),
        events: picture.changes.iter().map(event).collect(),
        marks: marks.map(|(at, text)| (part(at), text)).collect(),
        notes: picture.notes.clone(),
    };
    chart.draw()
}

fn event(change: &PictureChange) -> ChartEvent {
    ChartEvent { at: change.part, name: format!("{} {}", change.sign(), change.name) }
}
