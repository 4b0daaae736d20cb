//! Rival answers to a refused request: the time after which it may return, in front of the engine
//! of the product.
//!
//! The engine refuses and queues as ever, but gives no tickets. A rule alone decides what the
//! refusal says about the return, so that nothing else is compared.

use std::collections::BTreeMap;

use tidegate_sim::kit::{Chance, SECOND};
use tidegate_sim::overload::{
    AdmissionControl, ArrivedRequest, ControlView, ControlledServices, FeatureControlView, FeatureMove,
    JobEnd, JobId, OverloadDesign, OverloadScenarioError, ServiceSpec, Verdict,
};

/// The part of a world's chance that belongs to the rule.
const RULE_PART: u64 = 77;

/// The words of a refusal about the return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReturnRule {
    /// The same time for all.
    Fixed {
        /// The seconds.
        seconds: u64,
    },
    /// A random time below a bound that doubles with each attempt.
    FullJitter {
        /// The first bound in seconds.
        base_seconds: u64,
        /// The largest bound in seconds.
        most_seconds: u64,
    },
}

/// The rules that are compared, with their names and descriptions.
const RULES: [(&str, &str, ReturnRule); 2] = [
    ("retry-5s", "Each refusal says to come back after 5 s.", ReturnRule::Fixed { seconds: 5 }),
    (
        "full-jitter",
        "Each refusal says a random time below 1 s, which doubles with each attempt up to 32 s.",
        ReturnRule::FullJitter { base_seconds: 1, most_seconds: 32 },
    ),
];

/// The designs that are compared where requests are deferred, in order: the rules, and the product.
pub const RETURN_DESIGNS: [OverloadDesign; RULES.len() + 1] = {
    let mut designs = [OverloadDesign::TIDEGATE; RULES.len() + 1];
    let mut place = 0;
    while place < RULES.len() {
        let (name, description, _) = RULES[place];
        designs[place] = OverloadDesign {
            name,
            description,
            // Colours that differ in pictures.
            place: [8, 5][place],
            is_on_timelines: true,
            control: |design, services| {
                let rule = RULES.iter().find(|(name, ..)| *name == design.name);
                let (_, _, rule) = rule.expect("only a rule has this maker");
                Ok(Box::new(ReturnRuleControl::new(*rule, services)?))
            },
        };
        place += 1;
    }
    designs
};

impl ReturnRule {
    /// The nanoseconds before the attempt after this one, which is 0 for the first.
    fn delay(self, attempt: u32, chance: &mut Chance) -> u64 {
        match self {
            Self::Fixed { seconds } => seconds * SECOND,
            Self::FullJitter { base_seconds, most_seconds } => {
                let bound = (base_seconds << attempt.min(16)).min(most_seconds);
                chance.below(bound * SECOND)
            }
        }
    }
}

/// A rule in front of the engine.
#[derive(Debug)]
struct ReturnRuleControl {
    rule: ReturnRule,
    inner: Box<dyn AdmissionControl>,
    chance: Chance,
    /// The attempt of each request that has no answer yet, 0 for the first.
    attempts: BTreeMap<JobId, u32>,
}

impl ReturnRuleControl {
    fn new(rule: ReturnRule, services: &ControlledServices) -> Result<Self, OverloadScenarioError> {
        let bare = |service: &ServiceSpec| ServiceSpec { defer: None, ..service.clone() };
        let bare = services.services.iter().map(bare).collect();
        let bare = ControlledServices { services: bare, ..services.clone() };
        let inner = (OverloadDesign::TIDEGATE.control)(&OverloadDesign::TIDEGATE, &bare)?;
        let chance = Chance::new(services.seed, RULE_PART);
        Ok(Self { rule, inner, chance, attempts: BTreeMap::new() })
    }

    /// Lets the engine do something, and says the time of the rule in its refusals.
    fn ask<T>(
        &mut self,
        out: &mut Vec<Verdict>,
        act: impl FnOnce(&mut dyn AdmissionControl, &mut Vec<Verdict>) -> T,
    ) -> T {
        let before = out.len();
        let done = act(&mut *self.inner, out);
        for verdict in &mut out[before..] {
            match verdict {
                Verdict::Refuse { job, retry_after, .. } => {
                    let attempt = self.attempts.remove(job).unwrap_or(0);
                    *retry_after = Some(self.rule.delay(attempt, &mut self.chance));
                }
                Verdict::Start { job, .. } | Verdict::Cancel(job) => {
                    self.attempts.remove(job);
                }
            }
        }
        done
    }
}

impl AdmissionControl for ReturnRuleControl {
    fn arrive(&mut self, arrival: ArrivedRequest<'_>, now: u64, out: &mut Vec<Verdict>) {
        self.attempts.insert(arrival.job, arrival.attempt);
        self.ask(out, |inner, out| inner.arrive(arrival, now, out));
    }

    fn end(&mut self, end: JobEnd, now: u64, out: &mut Vec<Verdict>) {
        self.ask(out, |inner, out| inner.end(end, now, out));
    }

    fn cancel(&mut self, service: usize, job: JobId, now: u64, out: &mut Vec<Verdict>) -> bool {
        self.attempts.remove(&job);
        self.ask(out, |inner, out| inner.cancel(service, job, now, out))
    }

    fn next_wake(&self) -> Option<u64> {
        self.inner.next_wake()
    }

    fn wake(&mut self, now: u64, out: &mut Vec<Verdict>) {
        self.ask(out, |inner, out| inner.wake(now, out));
    }

    fn restart(&mut self, now: u64, out: &mut Vec<Verdict>) {
        self.ask(out, |inner, out| inner.restart(now, out));
    }

    fn signal(&mut self, pressure: f64, now: u64) {
        self.inner.signal(pressure, now);
    }

    fn measured(&mut self, service: usize, in_use: f64, now: u64) {
        self.inner.measured(service, in_use, now);
    }

    fn view(&self, service: usize, now: u64) -> ControlView {
        self.inner.view(service, now)
    }

    fn features(&self, now: u64) -> Vec<FeatureControlView> {
        self.inner.features(now)
    }

    fn take_feature_moves(&mut self) -> Vec<FeatureMove> {
        self.inner.take_feature_moves()
    }

    fn refused_by_class(&self, service: usize, now: u64) -> [u64; 4] {
        self.inner.refused_by_class(service, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_jitter_spreads_returns_below_a_bound_that_doubles_up_to_the_largest() {
        let mut chance = Chance::new(1, RULE_PART);
        let rule = ReturnRule::FullJitter { base_seconds: 1, most_seconds: 32 };
        for (attempt, bound) in [(0, 1), (1, 2), (5, 32), (40, 32)] {
            let most = (0..10_000).map(|_| rule.delay(attempt, &mut chance)).max().unwrap();
            assert!(most < bound * SECOND && most > bound * SECOND * 99 / 100, "{attempt}: {most}");
        }
        assert_eq!(ReturnRule::Fixed { seconds: 5 }.delay(9, &mut chance), 5 * SECOND);
    }
}
