//! Spans of time within bounds.

use core::time::Duration;

use tidegate_core::rate::format_span;

use crate::measure::span;
use crate::path::Path;
use crate::printable::shown;
use crate::problem::Report;

pub(super) const MILLI: Duration = Duration::from_millis(1);
pub(super) const HOUR: Duration = Duration::from_hours(1);
pub(super) const DAY: Duration = Duration::from_hours(24);
pub(super) const WEEK: Duration = Duration::from_hours(168);

/// A span within bounds, or `default` where none is given or it is wrong.
pub(super) fn between(
    (name, text): (&str, Option<&String>),
    default: Duration,
    (least, most): (Duration, Duration),
    path: &Path,
    report: &mut Report<'_>,
) -> Duration {
    let Some(text) = text else { return default };
    match span(name, text) {
        Ok(given) if (least..=most).contains(&given) => {
            report.effective(&path.key(name), format_span(given));
            return given;
        }
        Ok(_) => {
            let what = format!("{name} \"{}\" is out of range", shown(text));
            let fix = format!("use a span from {} to {}", format_span(least), format_span(most));
            report.value(&path.key(name), what, fix);
        }
        Err((what, fix)) => report.value(&path.key(name), what, fix),
    }
    default
}
