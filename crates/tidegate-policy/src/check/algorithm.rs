//! From the numbers of a limit, or of an override, to an algorithm.

use core::time::Duration;

use tidegate_core::algorithm::{
    Bucket, Calendar, CivilUnit, Concurrency, Fixed, Rolling, SlidingCounter, Weekday, WindowStart,
};
use tidegate_core::rate::format_span;
use tidegate_core::{Algorithm, AlgorithmError, Limit, Rate};

use super::zone;
use crate::measure::span;
use crate::path::Path;
use crate::printable::shown;
use crate::problem::Report;
use crate::raw::limit::{
    AccuracyConfig, CivilUnitConfig, ConsistencyConfig, LimitConfig, NumbersConfig, WeekdayConfig,
    WindowStartConfig,
};
use crate::suggestion::listed;

/// An algorithm, without its numbers.
#[derive(Clone, Copy, Debug)]
enum AlgorithmKind<'a> {
    Bucket,
    Rolling { accuracy: AccuracyConfig },
    Fixed { start: WindowStart },
    Calendar { unit: CivilUnit, zone: &'a str, week_start: Weekday },
    Concurrency,
}

/// A number and where it stands.
type Located<T> = (T, Path);

/// The numbers of an algorithm, each where it stands.
#[derive(Clone, Debug, Default)]
struct WrittenNumbers<'a> {
    rate: Option<Located<&'a str>>,
    burst: Option<Located<u64>>,
    debt: Option<Located<u64>>,
    limit: Option<Located<u64>>,
    window: Option<Located<&'a str>>,
    hold: Option<Located<&'a str>>,
}

/// The numbers of a checked algorithm that are written as text.
#[derive(Clone, Debug, Default)]
pub(super) struct SpelledNumbers {
    rate: String,
    window: String,
    hold: String,
}

impl SpelledNumbers {
    pub(super) fn from_algorithm(algorithm: &Algorithm) -> Self {
        match algorithm {
            Algorithm::Bucket(bucket) => Self { rate: bucket.rate().to_string(), ..Self::default() },
            Algorithm::Concurrency(slots) => Self { hold: format_span(slots.hold()), ..Self::default() },
            other => Self { window: other.window().map(format_span).unwrap_or_default(), ..Self::default() },
        }
    }
}

/// An algorithm with its numbers as they are written.
#[derive(Clone, Debug)]
pub(super) struct WrittenAlgorithm<'a> {
    kind: AlgorithmKind<'a>,
    numbers: WrittenNumbers<'a>,
    /// This member's share is one of so many; at least 1.
    pub(super) share: u32,
    /// Where the limit or the override stands.
    path: Path,
}

/// A problem with one of the numbers; told as `(what, fix)`.
struct NumberProblem {
    path: Path,
    what: String,
    fix: String,
}

/// The part of a policy that changes numbers of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangedBy {
    Override,
    /// A plan, which does not change the time zone.
    Plan,
}

impl ChangedBy {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Override => "the override",
            Self::Plan => "the plan",
        }
    }
}

impl<'a> WrittenAlgorithm<'a> {
    /// The algorithm of a limit, if it has exactly one.
    pub(super) fn new(raw: &'a LimitConfig, path: &Path, report: &mut Report<'_>) -> Option<Self> {
        let mut given: Vec<(&str, AlgorithmKind<'a>, WrittenNumbers<'a>)> = Vec::new();
        let top = |name: &str| path.key(name);
        if let Some(rate) = &raw.rate {
            let numbers = WrittenNumbers {
                rate: Some((rate, top("rate"))),
                burst: raw.burst.map(|burst| (burst, top("burst"))),
                debt: raw.debt.map(|debt| (debt, top("debt"))),
                ..WrittenNumbers::default()
            };
            given.push(("rate", AlgorithmKind::Bucket, numbers));
        }
        let windowed = |name: &str, limit: u64, window: &'a str| WrittenNumbers {
            limit: Some((limit, top(name).key("limit"))),
            window: Some((window, top(name).key("window"))),
            ..WrittenNumbers::default()
        };
        if let Some(rolling) = &raw.rolling {
            let kind = AlgorithmKind::Rolling { accuracy: rolling.accuracy.unwrap_or_default() };
            given.push(("rolling", kind, windowed("rolling", rolling.limit, &rolling.window)));
        }
        if let Some(fixed) = &raw.fixed {
            let start = match fixed.start.unwrap_or_default() {
                WindowStartConfig::Epoch => WindowStart::Epoch,
                WindowStartConfig::FirstHit => WindowStart::FirstHit,
            };
            given.push((
                "fixed",
                AlgorithmKind::Fixed { start },
                windowed("fixed", fixed.limit, &fixed.window),
            ));
        }
        if let Some(calendar) = &raw.calendar {
            let within = top("calendar");
            if calendar.week_start.is_some() && calendar.unit != CivilUnitConfig::Week {
                let what = "`week_start` belongs to `unit: week`";
                report.value(&within.key("week_start"), what, "remove it, or count by week");
            }
            let kind = AlgorithmKind::Calendar {
                unit: civil_unit(calendar.unit),
                zone: calendar.zone.as_deref().unwrap_or("UTC"),
                week_start: weekday(calendar.week_start.unwrap_or_default()),
            };
            let limit = Some((calendar.limit, within.key("limit")));
            given.push(("calendar", kind, WrittenNumbers { limit, ..WrittenNumbers::default() }));
        }
        if let Some(concurrency) = &raw.concurrency {
            let within = top("concurrency");
            let numbers = WrittenNumbers {
                limit: Some((concurrency.limit, within.key("limit"))),
                hold: Some((&concurrency.hold, within.key("hold"))),
                ..WrittenNumbers::default()
            };
            given.push(("concurrency", AlgorithmKind::Concurrency, numbers));
        }
        if raw.rate.is_none() {
            for (name, number) in [("burst", raw.burst), ("debt", raw.debt)] {
                if number.is_some() {
                    report.value(
                        &top(name),
                        format!("`{name}` belongs to `rate`"),
                        "remove it, or give a `rate`",
                    );
                }
            }
        }
        let mut given = given.into_iter();
        let Some((first, kind, numbers)) = given.next() else {
            if raw.burst.is_some() || raw.debt.is_some() {
                return None;
            }
            let fix = "add one of `rate`, `rolling`, `fixed`, `calendar` and `concurrency`";
            report.value(path, format!("limit \"{}\" has no algorithm", shown(&raw.name)), fix);
            return None;
        };
        for (name, ..) in given {
            let what = format!("`{name}` stands beside `{first}`, and a limit has one algorithm");
            report.key(&path.key(name), what, "keep one, and make the other a limit of its own");
        }
        Some(Self { kind, numbers, share: 1, path: path.clone() })
    }

    /// The algorithm of a checked limit as it would be written; `None` for one that policies do not
    /// have.
    pub(super) fn from_limit(limit: &'a Limit, texts: &'a SpelledNumbers) -> Option<Self> {
        let algorithm = &limit.algorithm;
        let top = |name: &str| Path::default().key(name);
        let windowed = |limit: u64| WrittenNumbers {
            limit: Some((limit, top("limit"))),
            window: Some((texts.window.as_str(), top("window"))),
            ..WrittenNumbers::default()
        };
        let (kind, numbers) = match algorithm {
            Algorithm::Bucket(bucket) => {
                let numbers = WrittenNumbers {
                    rate: Some((texts.rate.as_str(), top("rate"))),
                    burst: Some((bucket.burst(), top("burst"))).filter(|_| !limit.has_default_burst),
                    debt: Some((bucket.debt(), top("debt"))).filter(|(debt, _)| *debt > 0),
                    ..WrittenNumbers::default()
                };
                (AlgorithmKind::Bucket, numbers)
            }
            Algorithm::Rolling(rolling) => {
                (AlgorithmKind::Rolling { accuracy: AccuracyConfig::Exact }, windowed(rolling.limit()))
            }
            Algorithm::SlidingCounter(counter) => {
                (AlgorithmKind::Rolling { accuracy: AccuracyConfig::Approximate }, windowed(counter.limit()))
            }
            Algorithm::Fixed(fixed) => {
                (AlgorithmKind::Fixed { start: fixed.start() }, windowed(fixed.limit()))
            }
            Algorithm::Calendar(calendar) => {
                let kind = AlgorithmKind::Calendar {
                    unit: calendar.unit(),
                    zone: calendar.zone(),
                    week_start: calendar.week_start(),
                };
                (
                    kind,
                    WrittenNumbers {
                        limit: Some((calendar.limit(), top("limit"))),
                        ..WrittenNumbers::default()
                    },
                )
            }
            Algorithm::Concurrency(slots) => {
                let numbers = WrittenNumbers {
                    limit: Some((slots.limit(), top("limit"))),
                    hold: Some((texts.hold.as_str(), top("hold"))),
                    ..WrittenNumbers::default()
                };
                (AlgorithmKind::Concurrency, numbers)
            }
            _ => return None,
        };
        Some(Self { kind, numbers, share: 1, path: Path::default() })
    }

    /// The zone of a calendar, as it is written.
    pub(super) fn zone(&self) -> Option<&'a str> {
        match self.kind {
            AlgorithmKind::Calendar { zone, .. } => Some(zone),
            _ => None,
        }
    }

    /// The name of the algorithm in policies.
    pub(super) fn name(&self) -> &'static str {
        match self.kind {
            AlgorithmKind::Bucket => "rate",
            AlgorithmKind::Rolling { .. } => "rolling",
            AlgorithmKind::Fixed { .. } => "fixed",
            AlgorithmKind::Calendar { .. } => "calendar",
            AlgorithmKind::Concurrency => "concurrency",
        }
    }

    /// Where limits with this algorithm may be decided: the matrix of the documentation.
    pub(super) fn consistencies(&self) -> &'static [ConsistencyConfig] {
        use ConsistencyConfig::{Exact, Leased, Local};
        match self.kind {
            AlgorithmKind::Bucket | AlgorithmKind::Fixed { .. } | AlgorithmKind::Calendar { .. } => {
                &[Local, Exact, Leased]
            }
            AlgorithmKind::Rolling { .. } | AlgorithmKind::Concurrency => &[Local, Exact],
        }
    }

    /// The numbers an override may change.
    fn changeable(&self) -> &'static [&'static str] {
        match self.kind {
            AlgorithmKind::Bucket => &["rate", "burst", "debt"],
            AlgorithmKind::Rolling { .. } | AlgorithmKind::Fixed { .. } => &["limit", "window"],
            AlgorithmKind::Calendar { .. } => &["limit", "zone"],
            AlgorithmKind::Concurrency => &["limit", "hold"],
        }
    }

    /// The same algorithm with what `raw` changes; reports numbers the algorithm does not have.
    pub(super) fn overridden<'b>(
        &'b self,
        raw: &'b NumbersConfig,
        zone: Option<&'b str>,
        changed_by: ChangedBy,
        path: &Path,
        report: &mut Report<'_>,
    ) -> Option<WrittenAlgorithm<'b>> {
        let zone = zone.or(raw.zone.as_deref());
        let given = [
            ("zone", zone.is_some()),
            ("rate", raw.rate.is_some()),
            ("burst", raw.burst.is_some()),
            ("debt", raw.debt.is_some()),
            ("limit", raw.limit.is_some()),
            ("window", raw.window.is_some()),
            ("hold", raw.hold.is_some()),
        ];
        let changeable = self.changeable();
        let is_ours = |name: &&str| changed_by == ChangedBy::Override || *name != "zone";
        let can = || format!("change {}", listed(changeable.iter().copied().filter(is_ours), "or"));
        let mut fits = true;
        for (name, _) in given.iter().filter(|(name, given)| *given && !changeable.contains(name)) {
            fits = false;
            let what = format!("a limit with `{}` has no `{name}`", self.name());
            report.key(&path.key(name), what, can());
        }
        if !given.iter().any(|(_, given)| *given) {
            report.value(path, format!("{} changes no number", changed_by.as_str()), can());
            return None;
        }
        if !fits {
            return None;
        }
        let old = &self.numbers;
        let numbers = WrittenNumbers {
            rate: or(raw.rate.as_deref(), path.key("rate"), old.rate.as_ref()),
            burst: match (raw.rate.as_deref(), raw.burst) {
                (Some(rate), None) => self.burst_of(rate, path),
                _ => or(raw.burst, path.key("burst"), old.burst.as_ref()),
            },
            debt: or(raw.debt, path.key("debt"), old.debt.as_ref()),
            limit: or(raw.limit, path.key("limit"), old.limit.as_ref()),
            window: or(raw.window.as_deref(), path.key("window"), old.window.as_ref()),
            hold: or(raw.hold.as_deref(), path.key("hold"), old.hold.as_ref()),
        };
        let kind = match (self.kind, zone) {
            (AlgorithmKind::Calendar { unit, week_start, .. }, Some(zone)) => {
                AlgorithmKind::Calendar { unit, zone, week_start }
            }
            (kind, _) => kind,
        };
        Some(WrittenAlgorithm { kind, numbers, share: self.share, path: path.clone() })
    }

    /// The burst of this limit at another rate: as long as it was, at least one unit. `None` where
    /// none is written, and the units of the new rate count.
    fn burst_of(&self, rate: &str, path: &Path) -> Option<Located<u64>> {
        let (burst, written_at) = self.numbers.burst.as_ref()?;
        let before = self.numbers.rate.as_ref().and_then(|(rate, _)| rate.parse::<Rate>().ok());
        let (Some(before), Ok(now)) = (before, rate.parse::<Rate>()) else {
            // The rate is told when it is built.
            return Some((*burst, written_at.clone()));
        };
        Some((before.burst_at(now, *burst), path.key("rate")))
    }

    /// The algorithm of numbers that change those of `before`, or what is wrong with them. A higher
    /// rate with a smaller burst is probably not meant.
    pub(super) fn build_changed(
        &self,
        before: Option<&WrittenAlgorithm<'_>>,
        report: &mut Report<'_>,
    ) -> Option<Algorithm> {
        let changed = self.build(report)?;
        if let (Algorithm::Bucket(changed), Some(Ok(Algorithm::Bucket(of_limit)))) =
            (&changed, before.map(WrittenAlgorithm::try_build))
            && is_higher(changed.rate(), of_limit.rate())
            && changed.burst() < of_limit.burst()
        {
            let what = format!(
                "rate {} is higher than that of the limit, {}, and its burst of {} smaller than {}",
                changed.rate(),
                of_limit.rate(),
                changed.burst(),
                of_limit.burst()
            );
            report.warn(&self.path, what, "write a `burst` beside it, unless that is meant");
        }
        Some(changed)
    }

    /// The algorithm, or what is wrong with its numbers.
    pub(super) fn build(&self, report: &mut Report<'_>) -> Option<Algorithm> {
        match self.try_build() {
            Ok(algorithm) => Some(algorithm),
            Err(NumberProblem { path, what, fix }) => {
                report.value(&path, what, fix);
                None
            }
        }
    }

    fn try_build(&self) -> Result<Algorithm, NumberProblem> {
        let numbers = &self.numbers;
        match self.kind {
            AlgorithmKind::Bucket => self.bucket(),
            AlgorithmKind::Rolling { accuracy } => {
                let (limit, window) = (self.limit()?, self.span(numbers.window.as_ref(), "window")?);
                match accuracy {
                    AccuracyConfig::Exact => Rolling::new(limit, window).map(Algorithm::Rolling),
                    AccuracyConfig::Approximate => {
                        SlidingCounter::new(limit, window).map(Algorithm::SlidingCounter)
                    }
                }
                .map_err(|error| self.wrong(&error))
            }
            AlgorithmKind::Fixed { start } => {
                let (limit, window) = (self.limit()?, self.span(numbers.window.as_ref(), "window")?);
                Fixed::new(limit, window, start).map(Algorithm::Fixed).map_err(|error| self.wrong(&error))
            }
            AlgorithmKind::Calendar { unit, zone, week_start } => Calendar::new(self.limit()?, unit, zone)
                .map(|calendar| Algorithm::Calendar(calendar.with_week_start(week_start)))
                .map_err(|error| self.wrong(&error)),
            AlgorithmKind::Concurrency => {
                let (limit, hold) = (self.limit()?, self.span(numbers.hold.as_ref(), "hold")?);
                Concurrency::new(limit, hold).map(Algorithm::Concurrency).map_err(|error| self.wrong(&error))
            }
        }
    }

    fn bucket(&self) -> Result<Algorithm, NumberProblem> {
        let (text, path) = self.given(self.numbers.rate.as_ref())?;
        let whole: Rate = text.parse().map_err(|error| wrong_at(path, &error))?;
        let burst = match &self.numbers.burst {
            Some((burst, path)) => self.part(*burst, "burst", path)?,
            // This member's share of the default burst is at least one unit, because a burst of 0
            // admits nothing.
            None => (whole.units() / u64::from(self.share)).max(1),
        };
        let rate = if self.share == 1 {
            whole
        } else {
            whole
                .per()
                .checked_mul(self.share)
                .and_then(|per| Rate::new(whole.units(), per).ok())
                .ok_or_else(|| NumberProblem {
                    path: path.clone(),
                    what: format!("share 1/{} of rate {whole} is less than one unit in 365d", self.share),
                    fix: "raise the rate, or the share".to_owned(),
                })?
        };
        let bucket = Bucket::new(rate, burst).map_err(|error| self.wrong(&error))?;
        let bucket = match self.numbers.debt {
            Some((debt, _)) => bucket.with_debt(debt).map_err(|error| self.wrong(&error))?,
            None => bucket,
        };
        Ok(Algorithm::Bucket(bucket))
    }

    fn limit(&self) -> Result<u64, NumberProblem> {
        let (limit, path) = self.given(self.numbers.limit.as_ref())?;
        self.part(*limit, "limit", path)
    }

    /// This member's share of a number, rounded down so that all members together stay within it.
    fn part(&self, whole: u64, name: &str, path: &Path) -> Result<u64, NumberProblem> {
        let part = whole / u64::from(self.share);
        if part == 0 && whole > 0 {
            return Err(NumberProblem {
                path: path.clone(),
                what: format!("share 1/{} of {name} {whole} leaves nothing", self.share),
                fix: format!("raise it to at least {}", self.share),
            });
        }
        Ok(part)
    }

    fn span(&self, written: Option<&Located<&'a str>>, name: &str) -> Result<Duration, NumberProblem> {
        let (text, path) = self.given(written)?;
        span(name, text).map_err(|(what, fix)| NumberProblem { path: path.clone(), what, fix })
    }

    fn given<'b, T>(&self, number: Option<&'b Located<T>>) -> Result<&'b Located<T>, NumberProblem> {
        // The schema asks for every number an algorithm cannot do without, so this is not reached.
        number.ok_or_else(|| NumberProblem {
            path: self.path.clone(),
            what: "a number is missing".to_owned(),
            fix: "see the configuration reference".to_owned(),
        })
    }

    /// Puts an error of the algorithm where the number stands that it speaks of.
    fn wrong(&self, error: &AlgorithmError) -> NumberProblem {
        let numbers = &self.numbers;
        let path = match error {
            AlgorithmError::DrainTooLong { .. } => place(numbers.debt.as_ref())
                .filter(|_| numbers.debt.as_ref().is_some_and(|(debt, _)| *debt > 0))
                .or(place(numbers.burst.as_ref()))
                .or(place(numbers.rate.as_ref())),
            AlgorithmError::BurstZero => place(numbers.burst.as_ref()),
            AlgorithmError::LimitTooLarge { .. } => place(numbers.limit.as_ref()),
            AlgorithmError::Hold(_) => place(numbers.hold.as_ref()),
            AlgorithmError::Window(_) => place(numbers.window.as_ref()),
            AlgorithmError::Zone(zone) => return self.no_zone(zone, error),
            _ => None,
        };
        wrong_at(path.unwrap_or(&self.path), error)
    }

    fn no_zone(&self, zone: &str, error: &AlgorithmError) -> NumberProblem {
        let mut wrong = wrong_at(&self.path.key("calendar").key("zone"), error);
        wrong.what = format!("time zone \"{}\" does not exist", shown(zone));
        wrong.fix = zone::meant(zone).unwrap_or(wrong.fix);
        wrong
    }
}

fn is_higher(rate: Rate, than: Rate) -> bool {
    u128::from(rate.units()) * u128::from(than.per_ns())
        > u128::from(than.units()) * u128::from(rate.per_ns())
}

/// The number of the override, or else the number of the limit.
fn or<T: Copy>(new: Option<T>, path: Path, old: Option<&Located<T>>) -> Option<Located<T>> {
    new.map(|new| (new, path)).or_else(|| old.cloned())
}

fn place<T>(number: Option<&Located<T>>) -> Option<&Path> {
    number.map(|(_, path)| path)
}

fn wrong_at(path: &Path, error: &impl core::fmt::Display) -> NumberProblem {
    let message = error.to_string();
    let (what, fix) = crate::problem::split(&message);
    NumberProblem { path: path.clone(), what: what.to_owned(), fix: fix.to_owned() }
}

fn civil_unit(unit: CivilUnitConfig) -> CivilUnit {
    match unit {
        CivilUnitConfig::Minute => CivilUnit::Minute,
        CivilUnitConfig::Hour => CivilUnit::Hour,
        CivilUnitConfig::Day => CivilUnit::Day,
        CivilUnitConfig::Week => CivilUnit::Week,
        CivilUnitConfig::Month => CivilUnit::Month,
        CivilUnitConfig::Year => CivilUnit::Year,
    }
}

fn weekday(day: WeekdayConfig) -> Weekday {
    match day {
        WeekdayConfig::Monday => Weekday::Monday,
        WeekdayConfig::Tuesday => Weekday::Tuesday,
        WeekdayConfig::Wednesday => Weekday::Wednesday,
        WeekdayConfig::Thursday => Weekday::Thursday,
        WeekdayConfig::Friday => Weekday::Friday,
        WeekdayConfig::Saturday => Weekday::Saturday,
        WeekdayConfig::Sunday => Weekday::Sunday,
    }
}
