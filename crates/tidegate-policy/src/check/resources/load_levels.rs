//! Checks the load levels of a resource.

use tidegate_overload::LevelThresholds;

use crate::check::bounded_span::between;
use crate::path::Path;
use crate::problem::Report;
use crate::raw::resources::LoadLevelsForm;

/// A number of the levels, and whether it is written or a default.
#[derive(Clone, Copy)]
struct LevelNumber {
    key: &'static str,
    value: f64,
    is_written: bool,
}

impl LevelNumber {
    fn new(key: &'static str, written: Option<f64>, default: f64) -> Self {
        Self { key, value: written.unwrap_or(default), is_written: written.is_some() }
    }

    /// The value and its key, for messages.
    fn in_words(self) -> String {
        let Self { key, value, is_written } = self;
        if is_written {
            format!("{value} of `{key}`")
        } else {
            format!("{value} that `{key}` has by default")
        }
    }
}

pub(in crate::check) fn levels(
    raw: Option<&LoadLevelsForm>,
    path: &Path,
    report: &mut Report<'_>,
) -> LevelThresholds {
    let default = LevelThresholds::DEFAULT;
    let Some(raw) = raw else { return default };
    let bounds = (LevelThresholds::SETTLE_MIN, LevelThresholds::SETTLE_MAX);
    let settle = between(("settle", raw.settle.as_ref()), default.settle, bounds, path, report);
    let soft = LevelNumber::new("soft", raw.soft, default.soft);
    let brownout = LevelNumber::new("brownout", raw.brownout, default.brownout);
    let hard = LevelNumber::new("hard", raw.hard, default.hard);
    let emergency = LevelNumber::new("emergency", raw.emergency, default.emergency);
    let margin = LevelNumber::new("margin", raw.margin, default.margin);
    // A number that was not understood says nothing about the others.
    if !report.is_misshapen(path) {
        if soft.value > 0.0 {
            ascending(margin, soft, path, report);
        } else {
            let what = format!("soft {} is not above 0", soft.value);
            report.value(&path.key("soft"), what, "use the pressure at which the level is entered, as 0.7");
        }
        for (lower, higher) in [(soft, brownout), (brownout, hard), (hard, emergency)] {
            ascending(lower, higher, path, report);
        }
    }
    LevelThresholds {
        soft: soft.value,
        brownout: brownout.value,
        hard: hard.value,
        emergency: emergency.value,
        margin: margin.value,
        settle,
    }
}

/// Reports a number that is not below the next one, at one that is written.
fn ascending(lower: LevelNumber, higher: LevelNumber, path: &Path, report: &mut Report<'_>) {
    if lower.value < higher.value {
        return;
    }
    let (wrong, relation, other, way, inverse) = if higher.is_written {
        (higher, "above", lower, "more", "lower")
    } else {
        (lower, "below", higher, "less", "higher")
    };
    let what = format!("{} {} is not {relation} the {}", wrong.key, wrong.value, other.in_words());
    report.value(&path.key(wrong.key), what, format!("use {way}, or write a {inverse} `{}`", other.key));
}
