//! A simulated service: workers, the time that work takes them, and what a rejection costs.

use serde::{Serialize, Serializer};
use tidegate_core::Class;
use tidegate_overload::{DeferralConfig, LevelThresholds};

use crate::kit::{Chance, MS};

/// The settings of one service.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServiceSpec {
    /// Its name, which is the name of its resource in the engine.
    pub name: String,
    /// The requests that it works on at once, 1 to 10 000.
    pub workers: u32,
    /// The time that a request of cost 1 takes one worker.
    pub service_time: ServiceTime,
    /// The time of one worker that each rejection takes, in microseconds. 0: rejections are made
    /// elsewhere, as for a service that sleeps rather than computes.
    pub rejection_us: u32,
    /// Spans in which it works at another speed, in order of their beginnings.
    pub phases: Vec<ServicePhase>,
    /// The most places in flight. `None`: as many as it has workers.
    pub places: Option<u32>,
    /// Whether its limit of places is adaptive, beginning with [`ServiceSpec::places`].
    pub is_adaptive: bool,
    /// The weights of the classes in its queue, least important first; `None`: the defaults.
    pub weights: Option<[u32; 4]>,
    /// The least shares of background classes, least important first; `None`: an ordinary class.
    pub min_shares: [Option<f64>; 4],
    /// The share of the highest class before all others; `None`: the default.
    pub priority_share: Option<f64>,
    /// The pressures at which the load levels of the engine are entered.
    #[serde(serialize_with = "serialize_levels")]
    pub levels: LevelThresholds,
    /// The deviation of a measured signal: each tenth of a second the busy part of the workers,
    /// with normal noise, is a signal beside the service's places. `None`: no signal.
    pub measured_noise: Option<f64>,
    /// How the engine defers requests of the service; `None`: refused requests get no tickets.
    #[serde(serialize_with = "serialize_defer", skip_serializing_if = "Option::is_none")]
    pub defer: Option<DeferralConfig>,
}

/// A distribution of service times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceTime {
    /// Exponential, with this mean in milliseconds.
    Exponential {
        /// The mean.
        mean_ms: f64,
    },
    /// Lognormal, with this mean in milliseconds and this deviation of the logarithm.
    Lognormal {
        /// The mean.
        mean_ms: f64,
        /// The deviation of the natural logarithm; 1 is a long tail.
        sigma: f64,
    },
    /// Always the same number of milliseconds.
    Constant {
        /// The time.
        ms: f64,
    },
}

/// A span in which a service works at another speed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ServicePhase {
    /// The second at which it begins; it lasts until the next one.
    pub from: f64,
    /// The service time is multiplied by this.
    pub factor: f64,
    /// Every request takes so many milliseconds instead, and fails.
    pub failing_ms: Option<f64>,
}

impl ServicePhase {
    /// A span with service times multiplied by `factor`.
    pub const fn slowed(from: f64, factor: f64) -> Self {
        Self { from, factor, failing_ms: None }
    }

    /// A span in which every request fails after so many milliseconds.
    pub const fn failing(from: f64, ms: f64) -> Self {
        Self { from, factor: 1.0, failing_ms: Some(ms) }
    }
}

impl ServiceTime {
    /// The mean in seconds.
    pub const fn mean_seconds(self) -> f64 {
        match self {
            Self::Exponential { mean_ms } | Self::Lognormal { mean_ms, .. } => mean_ms / 1000.0,
            Self::Constant { ms } => ms / 1000.0,
        }
    }

    /// Draws a time, in nanoseconds.
    pub(crate) fn draw(self, chance: &mut Chance) -> u64 {
        let ms = match self {
            Self::Exponential { mean_ms } => -libm::log(chance.unit()) * mean_ms,
            Self::Lognormal { mean_ms, sigma } => {
                let normal = chance.normal();
                // The mean of a lognormal distribution is that of its median times exp(sigma²/2).
                mean_ms * libm::exp(sigma * normal - sigma * sigma / 2.0)
            }
            Self::Constant { ms } => ms,
        };
        nanos_of_ms(ms)
    }
}

impl ServiceSpec {
    /// Ten workers with exponential service times of 10 ms, whose rejections cost 50 us: a capacity
    /// of 1000 requests a second, as the reference simulator has it.
    pub fn reference(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            workers: 10,
            service_time: ServiceTime::Exponential { mean_ms: 10.0 },
            rejection_us: 50,
            phases: Vec::new(),
            places: None,
            is_adaptive: false,
            weights: None,
            min_shares: [None; 4],
            priority_share: None,
            levels: LevelThresholds::DEFAULT,
            measured_noise: None,
            defer: None,
        }
    }

    /// Units of cost a second that its workers can do outside of its phases.
    pub fn capacity(&self) -> f64 {
        f64::from(self.workers) / self.service_time.mean_seconds()
    }

    /// The phase at an instant.
    pub(crate) fn phase_at(&self, now: u64) -> Option<&ServicePhase> {
        self.phases.iter().rev().find(|phase| nanos_of_ms(phase.from * 1000.0) <= now)
    }
}

fn serialize_levels<S: Serializer>(levels: &LevelThresholds, serializer: S) -> Result<S::Ok, S::Error> {
    let LevelThresholds { soft, brownout, hard, emergency, margin, settle } = levels;
    let numbers = [
        ("soft", *soft),
        ("brownout", *brownout),
        ("hard", *hard),
        ("emergency", *emergency),
        ("margin", *margin),
        ("settle_seconds", settle.as_secs_f64()),
    ];
    serializer.collect_map(numbers)
}

/// The settings of deferral as they are shown in a report.
#[derive(Serialize)]
struct ShownDeferral {
    classes: Vec<&'static str>,
    share: f64,
    horizon_seconds: u64,
    max_deferrals: u8,
}

#[expect(clippy::ref_option, reason = "the signature is serde's")]
fn serialize_defer<S: Serializer>(defer: &Option<DeferralConfig>, serializer: S) -> Result<S::Ok, S::Error> {
    let shown = defer.map(|defer| ShownDeferral {
        classes: Class::ALL.into_iter().filter(|class| defer.takes(*class)).map(Class::as_str).collect(),
        share: defer.share.as_ratio(),
        horizon_seconds: defer.horizon.as_secs(),
        max_deferrals: defer.max_deferrals,
    });
    shown.serialize(serializer)
}

pub(crate) fn nanos_of_ms(ms: f64) -> u64 {
    (ms * MS as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_distribution_has_the_mean_that_it_says() {
        let times = [
            ServiceTime::Exponential { mean_ms: 10.0 },
            ServiceTime::Lognormal { mean_ms: 10.0, sigma: 1.0 },
            ServiceTime::Constant { ms: 10.0 },
        ];
        for time in times {
            let mut chance = Chance::new(3, 3);
            let sum: u64 = (0..100_000).map(|_| time.draw(&mut chance)).sum();
            let mean_ms = sum / 100_000 / 1000;
            assert!((9_800..=10_200).contains(&mean_ms), "{time:?}: {mean_ms} us");
        }
    }

    #[test]
    fn the_latest_phase_that_has_begun_is_in_force() {
        let mut service = ServiceSpec::reference("a");
        service.phases = vec![ServicePhase::slowed(1.0, 3.0), ServicePhase::failing(2.0, 500.0)];
        let factor = |ms| service.phase_at(ms * MS).map(|phase| (phase.factor, phase.failing_ms));
        assert_eq!((factor(999), factor(1000)), (None, Some((3.0, None))));
        assert_eq!(factor(2000), Some((1.0, Some(500.0))));
    }
}
