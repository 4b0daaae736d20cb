//! The checkers: they see what passes, share no code with what they check, and say what should not have happened.

pub(crate) mod bound;
pub(crate) mod sums;

use serde::Serialize;
use tidegate::lease::{Ask, Grant};

use self::bound::{Bound, Fullest};
use self::sums::{Sums, Wrong};
use crate::clock::{DRIFT_MAX_PERCENT, MS, SECOND};
use crate::scenario::{Chaos, Load, Numbers, Scenario, Where};

/// What a checker found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Violation {
    /// Which rule was broken.
    pub rule: Rule,
    /// The seed that shows it again.
    pub seed: u64,
    /// The key; the hottest is 0.
    pub key: u32,
    /// When, in milliseconds since the world began.
    pub at_ms: u64,
    /// The numbers.
    pub what: String,
}

/// What must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Rule {
    /// Never more is admitted than the limit promises.
    OverAdmission,
    /// Never more is lent than the burst and a period of the rate, or than the quota.
    LeaseSum,
    /// Nothing is spent of a lease that has ended for the ledger.
    SpentAfterEnd,
    /// Nothing is spent that was not granted.
    NotGranted,
    /// Nobody is refused while there is room: what was refused left no charge.
    RefusedWithRoom,
    /// When all is well, at least 98 % of a bucket's rate is used where a quarter more is asked for. 85 % where a member's
    /// part of the rate is less than ten requests in a tenth of a second, and nothing is said where it is less than two.
    Stranded,
    /// Members of which the same is asked get the same of a bucket, give or take a quarter; where their part of it
    /// is two requests in a tenth of a second or more.
    Unfair,
}

impl Rule {
    /// Its name, as in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OverAdmission => "over_admission",
            Self::LeaseSum => "lease_sum",
            Self::SpentAfterEnd => "spent_after_end",
            Self::NotGranted => "not_granted",
            Self::RefusedWithRoom => "refused_with_room",
            Self::Stranded => "stranded",
            Self::Unfair => "unfair",
        }
    }
}

/// How many violations are kept; further ones are only counted.
const KEPT: usize = 20;

/// So many keys are looked at one by one in large fleets: the hottest.
const LOOKED_AT: u32 = 4;

/// In fleets with at most so many keys at all members together, all keys are looked at one by one.
const SMALL: u64 = 1 << 14;

/// How much longer a second may take.
const SLOW_MAX: f64 = 0.01;
const _: () = assert!(DRIFT_MAX_PERCENT == 1);

/// All checkers of a world.
#[derive(Debug)]
pub(crate) struct Watch {
    seed: u64,
    scenario: Scenario,
    bound: Bound,
    /// As `bound`, but for what the store has lost: it never counts less than the store does. Only for what the store decides.
    counted: Option<Bound>,
    /// Each member alone, where it is decided alone.
    is_local: bool,
    sums: Option<Sums>,
    looked_at: u32,
    pub(crate) violations: Vec<Violation>,
    pub(crate) count: u64,
}

impl Watch {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let is_local = scenario.consistency == Where::Local;
        let pairs = u64::from(scenario.keys) * u64::from(scenario.members);
        let keys = if is_local && pairs <= 1 << 22 { pairs } else { scenario.keys.into() };
        // What is decided in the store is counted by its clock, which is the one that matters there.
        let drift = match (scenario.chaos, scenario.consistency) {
            (Chaos::None, _) | (_, Where::Exact) => 0,
            (Chaos::Some, _) => DRIFT_MAX_PERCENT,
        };
        let is_leased = scenario.consistency == Where::Leased;
        Self {
            seed: scenario.seed,
            bound: Bound::new(scenario.at_a_member(), keys as usize, drift, is_leased),
            counted: (scenario.consistency == Where::Exact)
                .then(|| Bound::new(scenario.limit, scenario.keys as usize, drift, false)),
            is_local: is_local && pairs <= 1 << 22,
            sums: is_leased.then(|| Sums::new(scenario.limit, tidegate::lease::Terms::PERIOD)),
            looked_at: if pairs <= SMALL { scenario.keys } else { LOOKED_AT.min(scenario.keys) },
            scenario: scenario.clone(),
            violations: Vec::new(),
            count: 0,
        }
    }

    pub(crate) fn fullest(&self) -> Fullest {
        self.bound.fullest
    }

    /// Starts loading what is known of a key.
    pub(crate) fn touch(&self, key: u32) -> u64 {
        self.bound.touch(key)
    }

    /// A member decided by itself, or by its lease, to admit.
    pub(crate) fn admitted(&mut self, one: Admitted, now: u64, store_now: u64) {
        let Admitted { member, run, key, cost } = one;
        let at = match (self.scenario.consistency, self.scenario.limit) {
            // Decided in the store, and counted there.
            (Where::Exact, _) => return,
            (Where::Leased, Numbers::Quota { .. }) => store_now,
            _ => now,
        };
        if self.scenario.consistency == Where::Local && !self.is_local {
            return;
        }
        let place = if self.is_local { member * self.scenario.keys + key } else { key };
        if let Some(over) = self.bound.admit(place, cost, at) {
            let most = self.most();
            let what = format!("member {member} admitted {cost}, which is {over} more than {most}");
            self.violate(Rule::OverAdmission, key, now, what);
        }
        if key < self.looked_at
            && let Some(sums) = &mut self.sums
            && let Some(wrong) = sums.admitted(key, run, cost, now, store_now)
        {
            self.wrong(key, now, &wrong);
        }
    }

    /// The store decided, for the first time, to charge or to refuse.
    pub(crate) fn decided_in_store(&mut self, key: u32, cost: u64, charged: bool, now: u64, store_now: u64) {
        if charged {
            if let Some(over) = self.bound.admit(key, cost, store_now) {
                let most = self.most();
                let what = format!("the store admitted {cost}, which is {over} more than {most}");
                self.violate(Rule::OverAdmission, key, now, what);
            }
            if let Some(counted) = &mut self.counted {
                let _ = counted.admit(key, cost, store_now);
            }
        } else if let Some(counted) = &mut self.counted
            && counted.has_room(key, cost, store_now)
        {
            let what = format!("the store refused {cost} although there is room for it");
            self.violate(Rule::RefusedWithRoom, key, now, what);
        }
    }

    /// The store has lost that it charged this.
    pub(crate) fn lost_charge(&mut self, key: u32, cost: u64) {
        self.bound.forgive(key, cost);
    }

    /// The ledger has granted, at its own time.
    pub(crate) fn granted(&mut self, key: u32, ask: &Ask, grant: &Grant, now: u64, store_now: u64) {
        if key >= self.looked_at {
            return;
        }
        let Some(sums) = &mut self.sums else { return };
        if let Some(wrong) = sums.granted(key, ask, grant, store_now) {
            self.wrong(key, now, &wrong);
        }
    }

    /// A holder has given all back.
    pub(crate) fn left(&mut self, key: u32, member: u64) {
        if let Some(sums) = &mut self.sums {
            sums.left(key, member);
        }
    }

    /// A grant has arrived, or the time in which it might have is over.
    pub(crate) fn answered(&mut self, key: u32, run: u64, grant: Option<&Grant>, now: u64) {
        if key >= self.looked_at {
            return;
        }
        let Some(sums) = &mut self.sums else { return };
        match grant {
            Some(grant) => sums.arrived(key, run, grant, now),
            None => sums.silent(key, run, now),
        }
    }

    /// What is lent of a key at the store's time.
    pub(crate) fn out(&self, key: u32, store_now: u64) -> u64 {
        self.sums.as_ref().map_or(0, |sums| sums.out(key, store_now))
    }

    /// A member has forgotten everything.
    pub(crate) fn crashed(&mut self, member: u32, run: u64) {
        if self.is_local {
            let first = member * self.scenario.keys;
            (first..first + self.scenario.keys).for_each(|place| self.bound.forget(place));
        }
        if let Some(sums) = &mut self.sums {
            sums.crashed(run);
        }
    }

    /// At the end: whether the limits were used of which all was asked for, and members got alike.
    pub(crate) fn finish(&mut self, measured: &Measured, now: u64) {
        let span = now.saturating_sub(measured.from);
        if span < 8 * SECOND {
            return;
        }
        #[expect(clippy::cast_precision_loss, reason = "seconds")]
        let seconds = span as f64 / 1e9;
        let is_even = matches!(self.scenario.load, Load::Steady | Load::Skewed | Load::Zipf);
        if let Numbers::Bucket { per_second, .. } = self.scenario.limit
            && self.scenario.consistency == Where::Leased
            && is_even
        {
            let due = f64::from(per_second) * seconds;
            let part = match self.gathered() {
                10.0.. => 0.98,
                2.0.. => 0.85,
                _ => 0.0,
            };
            // A second is longer where the store's clock is slow.
            let slow = if self.scenario.chaos == Chaos::Some { SLOW_MAX } else { 0.0 };
            let part = part * (1.0 - slow);
            for (key, used) in (0..).zip(&measured.keys) {
                if used.offered < due * 1.25 || due < 1000.0 {
                    continue;
                }
                if used.admitted < due * part {
                    let what = format!(
                        "{:.0} of {due:.0} units admitted in {seconds:.1} s, {:.0} asked for",
                        used.admitted, used.offered
                    );
                    self.violate(Rule::Stranded, key, now, what);
                }
            }
        }
        // Of a window members take what they need as they come.
        let is_alike = matches!(self.scenario.load, Load::Steady | Load::Zipf)
            && matches!(self.scenario.limit, Numbers::Bucket { .. })
            && self.gathered() >= 2.0;
        if self.scenario.consistency == Where::Leased && is_alike {
            let odds: Vec<f64> = measured.members.iter().filter_map(Used::odds).collect();
            let all: f64 = measured.members.iter().map(|used| used.admitted).sum();
            #[expect(clippy::cast_precision_loss, reason = "members")]
            let count = odds.len().max(1) as f64;
            let mean = odds.iter().sum::<f64>() / count;
            let noise = 4.0 / libm::sqrt((all / count).max(1.0));
            for (member, odds) in odds.iter().enumerate() {
                if (odds / mean - 1.0).abs() > 0.25 + noise {
                    let what = format!(
                        "member {member} admitted {odds:.3} of what was asked of it first, all on average {mean:.3}"
                    );
                    self.violate(Rule::Unfair, 0, now, what);
                }
            }
        }
    }

    /// How many requests of the largest cost a member's part of the rate is in a tenth of a second: for so long it gathers what
    /// trickles in. Where that are only a few, some of it finds nobody; and where it is not even one, requests wait for what
    /// the store lends one by one. 0 for quotas.
    fn gathered(&self) -> f64 {
        let Numbers::Bucket { per_second, .. } = self.scenario.limit else { return 0.0 };
        f64::from(per_second) / f64::from(self.scenario.members) / 10.0 / f64::from(self.scenario.cost_max)
    }

    /// The promise in words.
    fn most(&self) -> &'static str {
        match (self.scenario.limit, self.scenario.consistency) {
            (Numbers::Quota { .. }, _) => "the quota of the window",
            (_, Where::Leased) => "rate·time + burst + 0.1 s·rate",
            _ => "rate·time + burst",
        }
    }

    fn wrong(&mut self, key: u32, now: u64, wrong: &Wrong) {
        let (rule, what) = match wrong {
            Wrong::Sum { lent, most } => {
                (Rule::LeaseSum, format!("{lent} units are lent, and {most} may be"))
            }
            Wrong::AfterEnd { member, late_ms } => {
                let what = format!("holder {member} spent {late_ms} ms after its last lease had ended");
                (Rule::SpentAfterEnd, what)
            }
            Wrong::NotGranted { member, spent, granted } => {
                let what = format!("holder {member} spent {spent} units and was granted {granted}");
                (Rule::NotGranted, what)
            }
        };
        self.violate(rule, key, now, what);
    }

    fn violate(&mut self, rule: Rule, key: u32, now: u64, what: String) {
        self.count += 1;
        if self.violations.len() < KEPT {
            self.violations.push(Violation { rule, seed: self.seed, key, at_ms: now / MS, what });
        }
    }
}

/// A request that was admitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admitted {
    pub(crate) member: u32,
    pub(crate) run: u64,
    pub(crate) key: u32,
    pub(crate) cost: u64,
}

/// What was asked for and admitted since all should be well.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) from: u64,
    /// Of the keys that are looked at.
    pub(crate) keys: Vec<Used>,
    pub(crate) members: Vec<Used>,
}

/// Units asked for in first attempts, and units admitted in any.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Used {
    pub(crate) offered: f64,
    pub(crate) admitted: f64,
}

impl Used {
    /// Which part was admitted of what was asked for.
    pub(crate) fn odds(&self) -> Option<f64> {
        (self.offered >= 200.0).then(|| self.admitted / self.offered)
    }
}

#[cfg(test)]
mod tests;
