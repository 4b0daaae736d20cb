//! Simulated clients: how much they ask for, how important it is, and what they do when refused.

use serde::{Serialize, Serializer};
use tidegate_core::Class;

use crate::kit::{Chance, SECOND};

/// One group of clients that behave alike: an open loop, so that a slow service is asked no less.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClientSpec {
    /// Its name.
    pub name: String,
    /// The position of the service that it calls.
    pub service: usize,
    /// The name of the feature that its requests are for; `None`: none.
    pub feature: Option<String>,
    /// Whether it stops asking while its feature is off for all, and asks again when it is on.
    /// Default: it keeps asking.
    pub stops_while_off: bool,
    /// Operations a second at a load of 1.
    pub rate: f64,
    /// How its operations are spread over time. Default: Poisson.
    pub arrivals: ArrivalPattern,
    /// The factor of the rate over time, in order of beginnings; before the first phase it is 1.
    pub phases: Vec<LoadPhase>,
    /// The class of its requests.
    #[serde(serialize_with = "serialize_class")]
    pub class: Class,
    /// The number of the namespace of its requests, 0 to 63. Default: 0.
    pub namespace: u32,
    /// The number of its tenants, 1 to 100 000; each operation is of one of them, all alike.
    pub tenants: u32,
    /// A part of the tenants' names, which decides their cohorts.
    pub name_salt: u64,
    /// The cost of each request, 1 to 1000, which multiplies its service time.
    pub cost: u32,
    /// The time in milliseconds after which an answer is of no use, counted from each attempt.
    pub deadline_ms: u32,
    /// The time in milliseconds that a request may wait in a queue that knows of it.
    pub wait_ms: u32,
    /// The time in milliseconds after which the client hangs up while its request waits. `None`: it
    /// stays.
    pub leaves_after_ms: Option<u32>,
    /// The calls of each operation, one after the other, 1 to 100; it succeeds if all do.
    pub calls: u32,
    /// The reaction to a refused or late call.
    pub retry: RetryRule,
    /// Whether the latencies are kept for each tenant.
    pub keeps_tenants: bool,
    /// Whether each refused operation is kept, with its return.
    pub keeps_returns: bool,
}

/// How operations are spread over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ArrivalPattern {
    /// By chance, each independent of the others.
    #[default]
    Poisson,
    /// At equal distances, so that the load is what the rate says.
    Even,
}

/// A factor of the rate, from an instant to the next phase.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LoadPhase {
    /// The second at which it begins.
    pub from: f64,
    /// The factor.
    pub factor: f64,
}

/// The reaction of a client to a refused or late call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryRule {
    /// The operation has failed.
    None,
    /// It tries again after a fixed time.
    Fixed {
        /// Attempts in all, at least 1.
        attempts: u32,
        /// The time in milliseconds.
        after_ms: u32,
    },
    /// It tries again after a random time below a bound that doubles, and not before the instant
    /// that the refusal names, if it names one.
    Backoff {
        /// Attempts in all, at least 1.
        attempts: u32,
        /// The first bound in milliseconds.
        base_ms: u32,
        /// Whether it honours Retry-After.
        honours_retry_after: bool,
    },
    /// It comes back when the refusal says, with the ticket that the refusal brought, if any; after
    /// a second where the refusal says nothing.
    Named {
        /// Attempts in all, at least 1.
        attempts: u32,
        /// How exactly it reads the time.
        precision: RetryPrecision,
    },
}

/// How exactly a client reads the time before a retry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryPrecision {
    /// To the nanosecond, as from the body of an answer.
    #[default]
    Exact,
    /// Rounded up to whole seconds, as from the header `Retry-After`.
    WholeSeconds,
}

impl RetryRule {
    /// The nanoseconds until the attempt after `attempt` attempts; `None` after the last.
    pub(crate) fn delay(self, attempt: u32, retry_after: Option<u64>, chance: &mut Chance) -> Option<u64> {
        let ms = u64::from;
        match self {
            Self::None => None,
            Self::Fixed { attempts, after_ms } => (attempt < attempts).then(|| ms(after_ms) * 1_000_000),
            Self::Backoff { attempts, base_ms, honours_retry_after } => (attempt < attempts).then(|| {
                let bound = (ms(base_ms) * 1_000_000) << (attempt - 1).min(16);
                let jitter = chance.below(bound.max(1));
                let named = retry_after.filter(|_| honours_retry_after);
                named.map_or(jitter, |after| after + jitter)
            }),
            Self::Named { attempts, precision } => (attempt < attempts).then(|| {
                let after = retry_after.unwrap_or(SECOND);
                match precision {
                    RetryPrecision::Exact => after,
                    RetryPrecision::WholeSeconds => after.div_ceil(SECOND) * SECOND,
                }
            }),
        }
    }

    /// Whether the client presents the tickets of refusals.
    pub(crate) const fn uses_tickets(self) -> bool {
        matches!(self, Self::Named { .. })
    }
}

impl ClientSpec {
    /// Critical requests of one tenant with the deadline of the reference, 500 ms, for the first
    /// service.
    pub fn gold(rate: f64) -> Self {
        Self {
            name: "gold".to_owned(),
            service: 0,
            feature: None,
            stops_while_off: false,
            rate,
            arrivals: ArrivalPattern::Poisson,
            phases: Vec::new(),
            class: Class::Critical,
            namespace: 0,
            tenants: 1,
            name_salt: 0,
            cost: 1,
            deadline_ms: 500,
            wait_ms: 250,
            leaves_after_ms: None,
            calls: 1,
            retry: RetryRule::None,
            keeps_tenants: false,
            keeps_returns: false,
        }
    }

    /// The same, sheddable and of a thousand tenants.
    pub fn bronze(rate: f64) -> Self {
        let (name, class, tenants) = ("bronze".to_owned(), Class::Sheddable, 1000);
        Self { name, class, tenants, ..Self::gold(rate) }
    }

    /// The name of a tenant.
    pub(crate) fn tenant_name(&self, tenant: u32) -> String {
        format!("{}-{:x}-{tenant}", self.name, self.name_salt)
    }

    /// The rate of operations at a second.
    pub(crate) fn rate_at(&self, second: f64) -> f64 {
        let begun = self.phases.partition_point(|phase| phase.from <= second);
        self.rate * begun.checked_sub(1).map_or(1.0, |last| self.phases[last].factor)
    }

    /// The beginning of the phase after a second.
    pub(crate) fn next_phase(&self, second: f64) -> Option<f64> {
        let begun = self.phases.partition_point(|phase| phase.from <= second);
        self.phases.get(begun).map(|phase| phase.from)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn serialize_class<S: Serializer>(class: &Class, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(class.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_honours_retry_after_never_comes_back_before() {
        let mut chance = Chance::new(1, 1);
        let rule = RetryRule::Backoff { attempts: 3, base_ms: 100, honours_retry_after: true };
        for _ in 0..1000 {
            assert!(rule.delay(1, Some(2_000_000_000), &mut chance).unwrap() >= 2_000_000_000);
            assert!(rule.delay(2, None, &mut chance).unwrap() < 200_000_000);
        }
        assert_eq!(rule.delay(3, None, &mut chance), None);
        assert_eq!(RetryRule::None.delay(1, None, &mut chance), None);
    }
    #[test]
    fn a_client_that_is_named_a_time_comes_back_then_or_at_the_next_whole_second() {
        let mut chance = Chance::new(1, 1);
        let named = |precision| RetryRule::Named { attempts: 2, precision };
        let mut delay = |precision, after| named(precision).delay(1, after, &mut chance);
        assert_eq!(delay(RetryPrecision::Exact, Some(1_500_000_000)), Some(1_500_000_000));
        assert_eq!(delay(RetryPrecision::WholeSeconds, Some(1_500_000_000)), Some(2 * SECOND));
        assert_eq!(delay(RetryPrecision::WholeSeconds, Some(2 * SECOND)), Some(2 * SECOND));
        assert_eq!(delay(RetryPrecision::Exact, None), Some(SECOND));
        assert_eq!(named(RetryPrecision::Exact).delay(2, None, &mut chance), None);
    }
}
