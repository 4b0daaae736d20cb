//! The limits of a descriptor: the peer's one, or several of ours.

use tidegate_core::algorithm::{Bucket, Calendar, CivilUnit, Fixed, Rolling, WindowStart};
use tidegate_core::rate::format_span;
use tidegate_core::{Algorithm, Rate};

use super::values::{boolean, elsewhere, leaf, list, mapping, scalar, text};
use crate::envoy::Unit;
use crate::envoy::limit::Limit;
use crate::envoy::scalar::ScalarKind;
use crate::measure::span;
use crate::path::Path;
use crate::printable::shown;
use crate::problem::Report;
use crate::suggestion::{listed, nearest};
use crate::tree::Node;

/// The most limits on one descriptor.
const LIMITS_MAX: usize = 16;

/// Limits, or none of them with the names that an unlimited descriptor takes the place of.
type LimitsOrReplaced = (Vec<Limit>, Vec<Box<str>>);

/// Reads `rate_limit`; `None` after a problem has been reported.
pub(super) fn single(node: &Node, path: &Path, report: &mut Report<'_>) -> Option<LimitsOrReplaced> {
    let form = WrittenLimit::read(node, path, report)?;
    if !form.unlimited {
        let limit = form.limit(path, report)?;
        return Some((vec![limit], Vec::new()));
    }
    match form.unit.as_deref() {
        Some(unit) if Unit::from_name(unit).is_some() => {
            let what = "a limit that is unlimited has a unit";
            report.value(&path.key("unit"), what, "remove `unit`, or `unlimited`");
        }
        Some(_) => report.warn(&path.key("unit"), "unit has no effect beside unlimited", "remove it"),
        None => {}
    }
    for (key, is_given) in form.own() {
        if is_given {
            let what = format!("{key} has no meaning beside unlimited");
            report.key(&path.key(key), what, "remove one of the two");
        }
    }
    Some((Vec::new(), form.replaces))
}

/// Reads `rate_limits`; `None` after a problem has been reported.
pub(super) fn several(node: &Node, path: &Path, report: &mut Report<'_>) -> Option<LimitsOrReplaced> {
    let items = list(node, path, report)?;
    if items.is_empty() || items.len() > LIMITS_MAX {
        let what = format!("{} limits on one descriptor", items.len());
        report.value(path, what, format!("list 1 to {LIMITS_MAX}"));
        return None;
    }
    let mut limits: Vec<Limit> = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let at = path.index(index);
        let Some(form) = WrittenLimit::read(item, &at, report) else { continue };
        if form.unlimited {
            let what = "an unlimited limit beside others";
            report.key(&at.key("unlimited"), what, "remove it, or use `rate_limit: { unlimited: true }`");
            continue;
        }
        let Some(limit) = form.limit(&at, report) else { continue };
        if let Some(twin) = limits.iter().position(|other| other.identity == limit.identity) {
            let what = format!("it counts over the same windows as rate_limits[{twin}]");
            report.value(&at, what, "keep the lower of the two, or give one another unit");
        }
        limits.push(limit);
    }
    Some((limits, Vec::new()))
}

/// A limit as it is written.
#[derive(Default)]
struct WrittenLimit {
    unit: Option<Box<str>>,
    requests_per_unit: u32,
    unlimited: bool,
    name: Box<str>,
    replaces: Vec<Box<str>>,
    algorithm: Option<Box<str>>,
    window: Option<Box<str>>,
    burst: Option<u32>,
}

impl WrittenLimit {
    fn read(node: &Node, path: &Path, report: &mut Report<'_>) -> Option<Self> {
        const HERE: [&str; 8] =
            ["unit", "requests_per_unit", "unlimited", "name", "replaces", "algorithm", "window", "burst"];
        let mut form = Self::default();
        for field in mapping(node, path, "a limit", report)? {
            let at = path.key(field.key);
            match field.key {
                "unit" => form.unit = text(field.value, &at, report),
                "requests_per_unit" => form.requests_per_unit = count(field.value, &at, report).unwrap_or(0),
                "unlimited" => form.unlimited = boolean(field.value, &at, report),
                "name" => form.name = text(field.value, &at, report).unwrap_or_default(),
                "replaces" => form.replaces = replaces(field.value, &at, report),
                "algorithm" => form.algorithm = text(field.value, &at, report),
                "window" => form.window = text(field.value, &at, report),
                "burst" => form.burst = count(field.value, &at, report),
                _ => elsewhere(&field, &at, &HERE, report),
            }
        }
        if let Some(index) = form.replaces.iter().position(|name| *name == form.name && !name.is_empty()) {
            let what = format!("limit \"{}\" takes its own place", shown(&form.name));
            report.value(&path.key("replaces").index(index), what, "name another limit");
        }
        Some(form)
    }

    /// Which of the keys that only we have are given.
    fn own(&self) -> [(&'static str, bool); 3] {
        [
            ("algorithm", self.algorithm.is_some()),
            ("window", self.window.is_some()),
            ("burst", self.burst.is_some()),
        ]
    }

    /// The limit it makes; what makes none is reported.
    fn limit(self, path: &Path, report: &mut Report<'_>) -> Option<Limit> {
        const ALGORITHMS: [&str; 4] = ["fixed", "rate", "rolling", "calendar"];
        let algorithm = self.algorithm.as_deref().unwrap_or("fixed");
        if !ALGORITHMS.contains(&algorithm) {
            let what = format!("unknown algorithm \"{}\"", shown(algorithm));
            let fix = match nearest(algorithm, ALGORITHMS) {
                Some(meant) => format!("did you mean {meant}?"),
                None => format!("use {}", listed(ALGORITHMS, "or")),
            };
            report.value(&path.key("algorithm"), what, fix);
            return None;
        }
        if self.burst.is_some() && algorithm != "rate" {
            let what = "burst belongs to `algorithm: rate`";
            report.key(&path.key("burst"), what, "add `algorithm: rate`, or remove `burst`");
            return None;
        }
        let mut limit = if self.window.is_some() {
            self.of_window(algorithm, path, report)?
        } else {
            self.of_unit(algorithm, path, report)?
        };
        limit.name = self.name;
        limit.replaces = self.replaces;
        Some(limit)
    }

    fn of_unit(&self, algorithm: &str, path: &Path, report: &mut Report<'_>) -> Option<Limit> {
        let written = self.unit.as_deref().unwrap_or_default();
        let Some(unit) = Unit::from_name(written) else {
            let units = listed(Unit::ALL.map(Unit::name), "or");
            let (what, fix) = match nearest(written, Unit::ALL.map(Unit::name)) {
                _ if written.is_empty() => {
                    ("the limit has no unit".to_owned(), format!("add `unit:` with {units}"))
                }
                Some(meant) => {
                    (format!("unknown unit \"{}\"", shown(written)), format!("did you mean {meant}?"))
                }
                None => (format!("unknown unit \"{}\"", shown(written)), format!("use {units}")),
            };
            report.value(&path.key("unit"), what, fix);
            return None;
        };
        if algorithm == "fixed" {
            let limit = Limit::per_unit(self.requests_per_unit, unit);
            let counted = limit.algorithm.limit();
            if counted < u64::from(self.requests_per_unit) {
                let what = format!("{} a {} counts as {counted}", self.requests_per_unit, unit.name());
                report.warn(&path.key("requests_per_unit"), what, "use a lower number, or `unlimited: true`");
            }
            return Some(limit);
        }
        let algorithm = self.algorithm(algorithm, unit.length(), Some(unit), path, report)?;
        Some(Limit::new(self.requests_per_unit, Some(unit), algorithm, unit.length()))
    }

    fn of_window(&self, algorithm: &str, path: &Path, report: &mut Report<'_>) -> Option<Limit> {
        if self.unit.is_some() {
            report.key(&path.key("window"), "unit and window stand on one limit", "keep one of the two");
            return None;
        }
        let at = path.key("window");
        let length = match span("window", self.window.as_deref().unwrap_or_default()) {
            Ok(length) => length,
            Err((what, fix)) => {
                report.value(&at, what, fix);
                return None;
            }
        };
        let algorithm = self.algorithm(algorithm, length, None, path, report)?;
        Some(Limit::new(self.requests_per_unit, Unit::from_length(length), algorithm, length))
    }

    fn algorithm(
        &self,
        name: &str,
        length: core::time::Duration,
        unit: Option<Unit>,
        path: &Path,
        report: &mut Report<'_>,
    ) -> Option<Algorithm> {
        let requests = u64::from(self.requests_per_unit);
        let made = match name {
            "rate" => {
                let rate = match Rate::new(requests, length) {
                    Ok(rate) => rate,
                    Err(error) => {
                        report.error(path, &error);
                        return None;
                    }
                };
                Bucket::new(rate, self.burst.map_or(requests, u64::from)).map(Algorithm::Bucket)
            }
            "rolling" => Rolling::new(requests, length).map(Algorithm::Rolling),
            "calendar" => {
                let Some(civil) = unit.and_then(civil) else {
                    let what = format!("a calendar has no windows of {}", format_span(length));
                    let fix = "use `unit:` with minute, hour, day, week, month or year";
                    report.value(path, what, fix);
                    return None;
                };
                Calendar::new(requests, civil, "UTC").map(Algorithm::Calendar)
            }
            _ => Fixed::new(requests, length, WindowStart::Epoch).map(Algorithm::Fixed),
        };
        made.map_err(|error| report.error(path, &error)).ok()
    }
}

fn civil(unit: Unit) -> Option<CivilUnit> {
    Some(match unit {
        Unit::Second => return None,
        Unit::Minute => CivilUnit::Minute,
        Unit::Hour => CivilUnit::Hour,
        Unit::Day => CivilUnit::Day,
        Unit::Week => CivilUnit::Week,
        Unit::Month => CivilUnit::Month,
        Unit::Year => CivilUnit::Year,
    })
}

/// A whole number of 32 bits; `None` for no value, and for what is a problem.
fn count(node: &Node, path: &Path, report: &mut Report<'_>) -> Option<u32> {
    let scalar = scalar(node, path, "a whole number", report)?;
    let (what, fix) = match leaf(scalar, node, path, report)? {
        ScalarKind::Null => return None,
        ScalarKind::Int(number) => match u32::try_from(number) {
            Ok(number) => return Some(number),
            Err(_) => (format!("{number} is out of range"), format!("use 0 to {}", u32::MAX)),
        },
        _ => {
            let fix = if scalar.quoted { "remove the quotes" } else { "write a whole number" };
            (format!("expected a whole number, found \"{}\"", shown(&scalar.text)), fix.to_owned())
        }
    };
    report.shape(path, (node.at, Some(&scalar.text)), what, fix);
    None
}

fn replaces(node: &Node, path: &Path, report: &mut Report<'_>) -> Vec<Box<str>> {
    let mut names = Vec::new();
    for (index, item) in list(node, path, report).unwrap_or_default().iter().enumerate() {
        let at = path.index(index);
        let mut name: Box<str> = "".into();
        let Some(fields) = mapping(item, &at, "an entry of replaces", report) else { continue };
        for field in fields {
            let inner = at.key(field.key);
            if field.key == "name" {
                name = text(field.value, &inner, report).unwrap_or_default();
            } else {
                elsewhere(&field, &inner, &["name"], report);
            }
        }
        if name.is_empty() {
            report.value(&at, "the name to take the place of is empty", "add `name:`, or remove the entry");
        }
        names.push(name);
    }
    names
}
