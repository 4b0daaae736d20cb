//! An algorithm with its numbers as notes keep it, and as people read it.

use core::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_core::algorithm::{
    AlgorithmError, Bucket, Calendar, CivilUnit, Concurrency, Fixed, Rolling, SlidingCounter, WindowStart,
};
use tidegate_core::rate::format_span;
use tidegate_core::{Algorithm, Rate, RateError};

/// The stored form. Its names are promises: a variant or a field is never renamed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Numbers {
    Rate { units: u64, per_ns: u64, burst: u64, debt: u64 },
    Rolling { limit: u64, window_ns: u64 },
    Approximate { limit: u64, window_ns: u64 },
    Fixed { limit: u64, window_ns: u64, from_first_hit: bool },
    Calendar { limit: u64, unit: String, zone: String, week_start: String },
    Concurrency { limit: u64, hold_ns: u64 },
}

/// Why stored numbers make no algorithm.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NumbersError {
    #[error(transparent)]
    Algorithm(#[from] AlgorithmError),
    #[error(transparent)]
    Rate(#[from] RateError),
}

impl Numbers {
    /// The stored form of an algorithm; `None` for one that this version cannot store.
    pub(crate) fn from_algorithm(algorithm: &Algorithm) -> Option<Self> {
        // Windows and holds are at most 366 days, which fit.
        let nanos = |span: Duration| span.as_nanos() as u64;
        Some(match algorithm {
            Algorithm::Bucket(bucket) => Self::Rate {
                units: bucket.rate().units(),
                per_ns: bucket.rate().per_ns(),
                burst: bucket.burst(),
                debt: bucket.debt(),
            },
            Algorithm::Rolling(one) => Self::Rolling { limit: one.limit(), window_ns: nanos(one.window()) },
            Algorithm::SlidingCounter(one) => {
                Self::Approximate { limit: one.limit(), window_ns: nanos(one.window()) }
            }
            Algorithm::Fixed(one) => Self::Fixed {
                limit: one.limit(),
                window_ns: nanos(one.window()),
                from_first_hit: one.start() == WindowStart::FirstHit,
            },
            Algorithm::Calendar(one) => Self::Calendar {
                limit: one.limit(),
                unit: one.unit().as_str().to_owned(),
                zone: one.zone().to_owned(),
                week_start: one.week_start().as_str().to_owned(),
            },
            Algorithm::Concurrency(one) => {
                Self::Concurrency { limit: one.limit(), hold_ns: nanos(one.hold()) }
            }
            _ => return None,
        })
    }

    /// The algorithm with these numbers, checked anew.
    pub(crate) fn algorithm(&self) -> Result<Algorithm, NumbersError> {
        let span = |nanos: &u64| Duration::from_nanos(*nanos);
        Ok(match self {
            Self::Rate { units, per_ns, burst, debt } => {
                let bucket = Bucket::new(Rate::new(*units, span(per_ns))?, *burst)?;
                Algorithm::Bucket(bucket.with_debt(*debt)?)
            }
            Self::Rolling { limit, window_ns } => Algorithm::Rolling(Rolling::new(*limit, span(window_ns))?),
            Self::Approximate { limit, window_ns } => {
                Algorithm::SlidingCounter(SlidingCounter::new(*limit, span(window_ns))?)
            }
            Self::Fixed { limit, window_ns, from_first_hit } => {
                let start = if *from_first_hit { WindowStart::FirstHit } else { WindowStart::Epoch };
                Algorithm::Fixed(Fixed::new(*limit, span(window_ns), start)?)
            }
            Self::Calendar { limit, unit, zone, week_start } => {
                let calendar = Calendar::new(*limit, unit.parse()?, zone)?;
                Algorithm::Calendar(calendar.with_week_start(week_start.parse()?))
            }
            Self::Concurrency { limit, hold_ns } => {
                Algorithm::Concurrency(Concurrency::new(*limit, span(hold_ns))?)
            }
        })
    }
}

/// The numbers of an algorithm in a line for people: `rate 100/s, burst 200`.
pub fn in_words(algorithm: &Algorithm) -> String {
    match algorithm {
        Algorithm::Bucket(one) if one.debt() > 0 => {
            format!("rate {}, burst {}, debt {}", one.rate(), one.burst(), one.debt())
        }
        Algorithm::Bucket(one) => format!("rate {}, burst {}", one.rate(), one.burst()),
        Algorithm::Rolling(one) => format!("rolling {} in {}", one.limit(), format_span(one.window())),
        Algorithm::SlidingCounter(one) => {
            format!("rolling about {} in {}", one.limit(), format_span(one.window()))
        }
        Algorithm::Fixed(one) if one.start() == WindowStart::FirstHit => {
            format!("fixed {} in {} from the first hit", one.limit(), format_span(one.window()))
        }
        Algorithm::Fixed(one) => format!("fixed {} in {}", one.limit(), format_span(one.window())),
        Algorithm::Calendar(one) => {
            let (limit, zone) = (one.limit(), one.zone());
            match one.unit() {
                CivilUnit::Hour => format!("calendar {limit} an hour in {zone}"),
                CivilUnit::Week => {
                    format!("calendar {limit} a week in {zone}, weeks from {}", one.week_start().name())
                }
                unit => format!("calendar {limit} a {unit} in {zone}"),
            }
        }
        Algorithm::Concurrency(one) => {
            format!("concurrency {}, hold {}", one.limit(), format_span(one.hold()))
        }
        other => format!("{} {}", other.name(), other.limit()),
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_is_read_back_as_it_was_stored() {
        let hour = Duration::from_hours(1);
        let bucket = Bucket::new(Rate::new(7, Duration::from_secs(3)).unwrap(), 20).unwrap();
        let calendar = Calendar::new(10, "week".parse().unwrap(), "Europe/Berlin").unwrap();
        for algorithm in [
            Algorithm::Bucket(bucket.with_debt(5).unwrap()),
            Algorithm::Rolling(Rolling::new(9, hour).unwrap()),
            Algorithm::SlidingCounter(SlidingCounter::new(9, hour).unwrap()),
            Algorithm::Fixed(Fixed::new(9, hour, WindowStart::Epoch).unwrap()),
            Algorithm::Fixed(Fixed::new(9, hour, WindowStart::FirstHit).unwrap()),
            Algorithm::Calendar(calendar.with_week_start("sunday".parse().unwrap())),
            Algorithm::Concurrency(Concurrency::new(3, hour).unwrap()),
        ] {
            let stored = serde_json::to_string(&Numbers::from_algorithm(&algorithm).unwrap()).unwrap();
            let read: Numbers = serde_json::from_str(&stored).unwrap();
            assert_eq!(read.algorithm().unwrap(), algorithm, "{stored}");
        }
    }

    #[test]
    fn only_weeks_begin_on_a_day() {
        let shown = |unit: &str| {
            in_words(&Algorithm::Calendar(Calendar::new(5, unit.parse().unwrap(), "UTC").unwrap()))
        };
        assert_eq!(shown("day"), "calendar 5 a day in UTC");
        assert_eq!(shown("hour"), "calendar 5 an hour in UTC");
        assert_eq!(shown("week"), "calendar 5 a week in UTC, weeks from Monday");
    }

    #[test]
    fn numbers_that_make_no_algorithm_are_an_error() {
        let stored = r#"{"rate":{"units":0,"per_ns":1,"burst":1,"debt":0}}"#;
        assert!(serde_json::from_str::<Numbers>(stored).unwrap().algorithm().is_err());
        let zone = r#"{"calendar":{"limit":1,"unit":"day","zone":"Mars/Olympus","week_start":"monday"}}"#;
        assert!(serde_json::from_str::<Numbers>(zone).unwrap().algorithm().is_err());
    }
}
