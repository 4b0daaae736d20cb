//! One signal of a resource: a measure, its target, and how fresh it is.

use core::fmt;
use core::time::Duration;

use tidegate_core::Timestamp;
use tidegate_core::rate::format_span;

/// The highest pressure of one signal: no level is entered at a higher one, a single absurd value
/// passes out of a moving average sooner, and an average of infinite values would never be a number
/// again.
const PRESSURE_MAX: f64 = 10.0;

/// Where the value of a signal comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SignalSource {
    /// The average of the places in use, as a part of all.
    InFlight,
    /// The shortest delay of the resource's queue in a tick, in milliseconds, of the class in which
    /// it is longest.
    QueueDelay,
    /// The part of the answers since the last tick whose first byte, or end where that is not
    /// known, came later than this; timeouts are among them. A tick without an answer gives no
    /// value.
    SlowAnswers {
        /// The latency above which an answer is slow, above 0.
        slower_than: Duration,
    },
    /// It is pushed with [`Overload::push_signal`](crate::Overload::push_signal).
    Pushed,
}

/// The settings of one signal.
///
/// ```
/// # use std::time::Duration;
/// # use tidegate_overload::{SignalConfig, SignalSource};
/// let cpu = SignalConfig { target: 0.85, ..SignalConfig::new("cpu", SignalSource::Pushed) };
/// assert_eq!(cpu.interval, Duration::from_millis(100));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct SignalConfig {
    /// The name, unique among the signals of one resource: 1 to 64 bytes.
    pub name: String,
    /// The unit of the value, for people; empty: none.
    pub unit: String,
    /// The resource; `None`: all of them, each with a state of its own.
    pub resource: Option<String>,
    /// Where the value comes from.
    pub source: SignalSource,
    /// The value at which the pressure is 1.0: above 0 and finite. The default depends on the
    /// [source](SignalSource::default_target).
    pub target: f64,
    /// The time between two values, above 0; default a tick.
    pub interval: Duration,
    /// A value older than this is stale; `None`: three intervals. A pushed value may bring its own.
    pub ttl: Option<Duration>,
    /// The time constant of the moving average of the pressure, both ways; 0: none; default 0.5 s.
    pub smoothing: Duration,
}

impl SignalSource {
    /// The name in policies and answers: `in_flight`, `queue_delay`, `slow_answers` or `push`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InFlight => "in_flight",
            Self::QueueDelay => "queue_delay",
            Self::SlowAnswers { .. } => "slow_answers",
            Self::Pushed => "push",
        }
    }

    /// The target of a signal unless told otherwise: 1 for the places in use, 20 ms for the delay
    /// of the queue, 0.1 for slow answers. `None` for a pushed signal, whose unit only its sender
    /// knows.
    pub const fn default_target(self) -> Option<f64> {
        match self {
            Self::InFlight => Some(1.0),
            Self::QueueDelay => Some(20.0),
            Self::SlowAnswers { .. } => Some(0.1),
            Self::Pushed => None,
        }
    }
}

/// The name, and what a policy says of the source beside it: `slow_answers above 200ms`.
impl fmt::Display for SignalSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())?;
        match self {
            Self::InFlight | Self::QueueDelay | Self::Pushed => Ok(()),
            Self::SlowAnswers { slower_than } => write!(f, " above {}", format_span(*slower_than)),
        }
    }
}

impl SignalConfig {
    /// The time constant of the moving average unless told otherwise.
    pub const SMOOTHING: Duration = Duration::from_millis(500);

    /// A signal of all resources with the default target of its source, or 1.0 where it has none, a
    /// value each tick, smoothed over 0.5 s.
    pub fn new(name: impl Into<String>, source: SignalSource) -> Self {
        Self {
            name: name.into(),
            unit: String::new(),
            resource: None,
            source,
            target: source.default_target().unwrap_or(1.0),
            interval: crate::TICK,
            ttl: None,
            smoothing: Self::SMOOTHING,
        }
    }

    fn ttl(&self) -> Duration {
        self.ttl.unwrap_or(self.interval.saturating_mul(3))
    }
}

/// A value that is pushed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PushedValue {
    /// The value, in the unit of the signal: 0 or more, and finite.
    pub value: f64,
    /// The target from now on, in place of the configured one: above 0 and finite; `None`: the
    /// configured one.
    pub target: Option<f64>,
    /// How long the value counts, at most [`PushedValue::TTL_MAX`]; `None`: as configured.
    pub ttl: Option<Duration>,
}

impl PushedValue {
    /// The shortest time for which a value is of use: a tick.
    pub const TTL_MIN: Duration = crate::TICK;
    /// The longest time that a value counts: an hour. A longer one counts as this.
    pub const TTL_MAX: Duration = Duration::from_hours(1);

    /// A value under the configured target and time.
    pub const fn new(value: f64) -> Self {
        Self { value, target: None, ttl: None }
    }
}

/// A pushed value that is not taken in. It changes nothing.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SignalError {
    /// No signal of this name is pushed.
    #[error("signal \"{name}\" does not exist; {}", pushed_instead(known))]
    Unknown {
        /// The name.
        name: String,
        /// The names of the pushed signals, in order and separated by commas.
        known: String,
    },
    /// The signal has another source.
    #[error(
        "signal \"{name}\" has the source {}, which is measured here; {}", measured.as_str(), pushed_instead(known)
    )]
    NotPushed {
        /// The name.
        name: String,
        /// Its source.
        measured: SignalSource,
        /// The names of the pushed signals, in order and separated by commas.
        known: String,
    },
    /// The value is negative, infinite or not a number.
    #[error("value {0} of a signal is not a number of 0 or more; push a finite one")]
    Value(f64),
    /// The target is not above 0, is infinite or not a number.
    #[error("target {0} of a signal is not above 0; push a finite one, or leave it out")]
    Target(f64),
}

impl SignalError {
    /// No signal of this name is pushed, but those of `known` are, which are in order.
    pub fn unknown(name: &str, known: impl IntoIterator<Item = String>) -> Self {
        let known = known.into_iter().collect::<Vec<_>>().join(", ");
        // Strangers may choose the name.
        Self::Unknown { name: name.chars().take(64).collect(), known }
    }
}

fn pushed_instead(known: &str) -> String {
    if known.is_empty() { "no signal is pushed".to_owned() } else { format!("push one of: {known}") }
}

/// The numbers of one signal at one instant.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SignalStats {
    /// The name.
    pub name: String,
    /// The source of its values.
    pub source: SignalSource,
    /// The unit of the value.
    pub unit: String,
    /// The last value; `None` before the first.
    pub value: Option<f64>,
    /// The target in force.
    pub target: f64,
    /// The smoothed pressure; `None` while the signal is absent or stale.
    pub pressure: Option<f64>,
    /// The time since the last value.
    pub age: Option<Duration>,
    /// Whether the last value is too old to count.
    pub is_stale: bool,
}

/// The last value of a signal.
#[derive(Clone, Copy, Debug)]
struct Reading {
    value: f64,
    at: Timestamp,
    ttl: Duration,
}

/// The state of one signal of one resource.
#[derive(Debug)]
pub(crate) struct SignalState {
    config: SignalConfig,
    target: f64,
    reading: Option<Reading>,
    smoothed: Option<f64>,
    ticked_at: Timestamp,
}

impl SignalState {
    pub(crate) const fn new(config: SignalConfig) -> Self {
        let target = config.target;
        Self { config, target, reading: None, smoothed: None, ticked_at: Timestamp::MIN }
    }

    pub(crate) const fn config(&self) -> &SignalConfig {
        &self.config
    }

    /// Takes in a value that was checked.
    pub(crate) fn push(&mut self, pushed: PushedValue, now: Timestamp) {
        self.target = pushed.target.unwrap_or(self.config.target);
        let ttl = pushed.ttl.unwrap_or_else(|| self.config.ttl()).min(PushedValue::TTL_MAX);
        self.reading = Some(Reading { value: pushed.value, at: now, ttl });
    }

    /// The smoothed pressure after a tick; `None`: the signal is absent or stale.
    pub(crate) fn tick(&mut self, now: Timestamp) -> Option<f64> {
        let elapsed = now.saturating_since(self.ticked_at).as_secs_f64();
        self.ticked_at = now;
        let Some(reading) = &mut self.reading else { return None };
        // A value of the future is one from before the clock stepped back.
        reading.at = reading.at.min(now);
        if now.saturating_since(reading.at) > reading.ttl {
            self.smoothed = None;
            return None;
        }
        let pressure = (reading.value / self.target).min(PRESSURE_MAX);
        let tau = self.config.smoothing.as_secs_f64();
        let smoothed = match self.smoothed {
            // Backward Euler: no `exp`, which differs between machines.
            Some(before) if tau > 0.0 => before + (pressure - before) * (elapsed / (tau + elapsed)),
            _ => pressure,
        };
        self.smoothed = Some(smoothed);
        self.smoothed
    }

    /// The pressure of the last value.
    pub(crate) fn last_pressure(&self) -> Option<f64> {
        self.reading.map(|reading| (reading.value / self.target).min(PRESSURE_MAX))
    }

    /// Whether it had a value that did not count at the last tick any more.
    pub(crate) const fn is_lost(&self) -> bool {
        self.reading.is_some() && self.smoothed.is_none()
    }

    pub(crate) fn stats(&self, now: Timestamp) -> SignalStats {
        let age = self.reading.map(|reading| now.saturating_since(reading.at));
        let is_stale = self.reading.zip(age).is_some_and(|(reading, age)| age > reading.ttl);
        SignalStats {
            name: self.config.name.clone(),
            source: self.config.source,
            unit: self.config.unit.clone(),
            value: self.reading.map(|reading| reading.value),
            target: self.target,
            pressure: self.smoothed.filter(|_| !is_stale),
            age,
            is_stale,
        }
    }
}
