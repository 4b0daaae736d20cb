//! The checkers: they see what passes, share no code with what they check, and say what should not
//! have happened.

mod bound;
mod epochs;
mod lent;
mod liveness;
mod silence;

use tidegate_core::lease::{Ask, Grant, HOLDERS_MAX};

use self::bound::{Bound, PeakLevel};
use self::epochs::{EpochWrong, Epochs};
use self::lent::{GrantArrival, LentTokens, Origin, Spending};
use self::liveness::{Liveness, Refusing, Seen};
use self::silence::Silences;
use crate::fleet::observation::{Admitted, Refusal, Source};
use crate::fleet::rule::{Rule, Violation};
use crate::fleet::scenario::{Chaos, DecisionSite, Load, Numbers, Scenario};
use crate::fleet::usage::{Measured, Used};
use crate::kit::{DRIFT_MAX_PERCENT, Findings, MS, SECOND, seconds};

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
    /// The admissions of the store, or of each member alone under [`DecisionSite::Local`].
    bound: Bound,
    /// As `bound`, but for what the store has lost: it never counts less than the store does. Only
    /// for what the store decides.
    counted: Option<Bound>,
    /// Each member alone, where it is decided alone.
    is_local: bool,
    leased: Option<Leased>,
    silences: Silences,
    liveness: Liveness,
    looked_at: u32,
    pub(crate) findings: Findings<Rule, Violation>,
}

/// The checkers of leases.
#[derive(Debug)]
struct Leased {
    lent: LentTokens,
    epochs: Epochs,
}

impl Watch {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let is_local = scenario.consistency == DecisionSite::Local;
        let is_leased = scenario.consistency == DecisionSite::Leased;
        let pairs = u64::from(scenario.keys) * u64::from(scenario.members);
        let keys = match scenario.consistency {
            DecisionSite::Local if pairs <= 1 << 22 => pairs,
            DecisionSite::Leased => 0,
            _ => scenario.keys.into(),
        };
        // Decisions of the store are counted by its clock, which is the one that matters
        // there.
        let drift = match (scenario.chaos, scenario.consistency) {
            (Chaos::None, _) | (_, DecisionSite::Exact) => 0,
            (Chaos::Some, _) => DRIFT_MAX_PERCENT,
        };
        let looked_at = match scenario.envoys {
            0 if pairs <= SMALL => scenario.keys,
            0 => LOOKED_AT.min(scenario.keys),
            // An Envoy confirms nothing, so the messages do not say what it has in hand. The bound
            // of each key is checked all the same.
            _ => 0,
        };
        Self {
            seed: scenario.seed,
            bound: Bound::new(scenario.at_a_member(), keys as usize, drift, false),
            counted: (scenario.consistency == DecisionSite::Exact)
                .then(|| Bound::new(scenario.limit, scenario.keys as usize, drift, false)),
            is_local: is_local && pairs <= 1 << 22,
            leased: is_leased.then(|| Leased {
                lent: LentTokens::new(scenario.limit, scenario.lease_period()),
                epochs: Epochs::new(scenario.limit, scenario.keys, drift, scenario.lease_period()),
            }),
            silences: Silences::new(scenario.limit, scenario.members),
            // By a part of the limit no caller can keep to it.
            liveness: Liveness::new(scenario.limit, if is_local { 0 } else { looked_at })
                .with_deadline(scenario.deadline_ms)
                .with_lease_period(scenario.lease_period()),
            looked_at,
            scenario: scenario.clone(),
            findings: Findings::default(),
        }
    }

    pub(crate) fn fullest(&self) -> PeakLevel {
        self.leased.as_ref().map_or(self.bound.fullest, |leased| leased.epochs.fullest())
    }

    /// The counts of callers that keep to their limit.
    pub(crate) fn seen(&self) -> Seen {
        self.liveness.seen
    }

    /// A caller makes a request for the first time, or retries one.
    pub(crate) fn asked_for(&mut self, key: u32, cost: u64, is_first: bool, now: u64) {
        if is_first {
            self.liveness.first_attempt(key, cost, now);
        } else {
            self.liveness.retried(key, now);
        }
    }

    /// A request was admitted.
    pub(crate) fn admitted(&mut self, one: Admitted, now: u64, store_now: u64) {
        let Admitted { member, run, cost, source, member_now, attempt } = one;
        let key = attempt.key;
        self.liveness.admitted(attempt, now);
        match self.scenario.consistency {
            DecisionSite::Local if self.is_local => {
                let place = member * self.scenario.keys + key;
                if let Some(over) = self.bound.admit(place, cost, now) {
                    let most = self.most();
                    let what = format!("member {member} admitted {cost}, which is {over} more than {most}");
                    self.violate(Rule::OverAdmission, key, now, what);
                }
            }
            // Decided in the store, and counted there.
            DecisionSite::Exact if source == Some(Source::Alone) => {
                self.admitted_alone(run, key, cost, now, member_now);
            }
            DecisionSite::Local | DecisionSite::Exact => {}
            DecisionSite::Leased => {
                let is_silent = self.silences.since(run, key).is_some();
                let Some(leased) = &mut self.leased else { return };
                let at = if matches!(self.scenario.limit, Numbers::Window { .. }) { store_now } else { now };
                if key >= self.looked_at {
                    if !is_silent && let Some(over) = leased.epochs.admit_unseen(key, cost, at) {
                        let most = self.most();
                        let what =
                            format!("member {member} admitted {cost}, which is {over} more than {most}");
                        self.violate(Rule::OverAdmission, key, now, what);
                    }
                    return;
                }
                let spending = Spending { key, run, cost, source, is_silent };
                let (origin, wrong) = leased.lent.admitted(spending, now, store_now);
                let over = match origin {
                    Origin::Epoch(epoch) => leased.epochs.admit(epoch, key, cost, now, at),
                    Origin::Alone => None,
                };
                if let Some((rule, what)) = wrong {
                    self.violate(rule, key, now, what);
                }
                if let Some(over) = over {
                    self.wrong_epoch(member, key, cost, now, &over);
                }
                if origin == Origin::Alone {
                    self.admitted_alone(run, key, cost, now, member_now);
                }
            }
        }
    }

    fn admitted_alone(&mut self, run: u64, key: u32, cost: u64, now: u64, member_now: u64) {
        if let Some((over, most)) = self.silences.admitted(run, key, cost, member_now) {
            let since = self.silences.since(run, key).unwrap_or(now);
            let what = format!(
                "holder {run} admitted {cost} alone, {over} more than its share of {most} at once; the store has been \
                 silent for {} ms",
                (now - since) / MS
            );
            self.violate(Rule::AloneBeyondShare, key, now, what);
        }
    }

    /// A request was refused. Whether its caller retries in the way of a caller that keeps to its
    /// limit, by `retry_by` at the latest.
    pub(crate) fn refused(&mut self, one: Refusal, now: u64, retry_by: u64) -> bool {
        let Refusal { member, run, reason, member_now, attempt } = one;
        let key = attempt.key;
        let silent_since = self.silences.since(run, key);
        let is_excused =
            silent_since.is_some() && !self.silences.has_room(run, key, attempt.cost, member_now);
        let refused = self.liveness.refused(attempt, Refusing { reason, is_excused, retry_by }, now);
        if let Some(lasts) = refused.too_long {
            let store = match silent_since {
                Some(since) => format!("the store has been silent to it for {} ms", (now - since) / MS),
                None => "the store answers it".to_owned(),
            };
            let epoch = self.leased.as_ref().map_or((1, 0), |leased| leased.epochs.last());
            let what = format!(
                "refused for {} ms within its limit, at last by member {member} with {}; {store}; epoch {} began {} ms \
                 ago; the caller has asked for {} ms",
                lasts / MS,
                reason.as_str(),
                epoch.0,
                (now - epoch.1) / MS,
                self.liveness.asks_for_ms(key, now),
            );
            self.violate(Rule::RefusedTooLong, key, now, what);
        }
        refused.retries
    }

    /// A caller has retried often enough.
    pub(crate) fn gave_up(&mut self, key: u32) {
        self.liveness.gave_up(key);
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

    /// A charge of the store is not counted any more: the store has lost it, or the charge was
    /// undone.
    pub(crate) fn lost_charge(&mut self, key: u32, cost: u64) {
        self.bound.forgive(key, cost);
    }

    /// The store has begun another epoch.
    pub(crate) fn epoch_began(&mut self, number: u32, now: u64) {
        if let Some(leased) = &mut self.leased {
            leased.epochs.begin(number, now);
        }
    }

    /// A run asks the ledger.
    pub(crate) fn asks(&mut self, key: u32, ask: &Ask, now: u64) {
        if key < self.looked_at
            && let Some(leased) = &mut self.leased
        {
            leased.lent.asked(key, ask, now);
        }
    }

    /// The ledger has granted, at its own time.
    pub(crate) fn granted(&mut self, key: u32, ask: &Ask, grant: &Grant, now: u64, store_now: u64) {
        if key >= self.looked_at {
            return;
        }
        let Some(leased) = &mut self.leased else { return };
        if let Some((rule, what)) = leased.lent.granted(key, ask, grant, store_now) {
            self.violate(rule, key, now, what);
        }
    }

    /// A run has given all back.
    pub(crate) fn left(&mut self, key: u32, run: u64) {
        if let Some(leased) = &mut self.leased {
            leased.lent.left(key, run);
        }
    }

    /// The ledger has answered a run, or the time in which it might have is over.
    pub(crate) fn answered(&mut self, key: u32, run: u64, grant: Option<&Grant>, now: u64) {
        if key >= self.looked_at {
            return;
        }
        let Some(leased) = &mut self.leased else { return };
        let Some(grant) = grant else { return self.silences.unanswered(run, key, now) };
        // A grant that has ended when it arrives says nothing of holders either.
        match leased.lent.arrived(key, run, grant, now) {
            GrantArrival::InTime => self.silences.answered(run, key, &[grant.members]),
            GrantArrival::Doubtful => self.silences.answered_late(run, key, Some(grant.members), now),
            GrantArrival::PerhapsUnheard => self.silences.answered_late(run, key, None, now),
            GrantArrival::TooLate => self.silences.answered(run, key, &[]),
            GrantArrival::Unheard => self.silences.unanswered(run, key, now),
        }
    }

    /// The store has answered the request of a run itself, or has not.
    pub(crate) fn answered_request(&mut self, key: u32, run: u64, is_answered: bool, now: u64) {
        if is_answered {
            self.silences.answered(run, key, &[]);
        } else {
            self.silences.unanswered(run, key, now);
        }
    }

    /// The units lent of a key at the store's time.
    pub(crate) fn out(&self, key: u32, store_now: u64) -> u64 {
        let leased = self.leased.as_ref();
        leased.map_or(0, |leased| leased.lent.out(key, leased.epochs.last().0, store_now))
    }

    /// A member has forgotten everything.
    pub(crate) fn crashed(&mut self, member: u32, run: u64, now: u64) {
        if self.is_local {
            let first = member * self.scenario.keys;
            (first..first + self.scenario.keys).for_each(|place| self.bound.forget(place));
        }
        self.silences.crashed(run);
        let Some(leased) = &mut self.leased else { return };
        for (key, held) in leased.lent.crashed(run) {
            self.liveness.stranded(key, held, now);
        }
    }

    /// At the end: whether the limits were used of which all was asked for, members got alike, and
    /// steady callers were admitted.
    pub(crate) fn finish(&mut self, measured: &Measured, now: u64) {
        let seen = self.liveness.seen;
        let is_answered = self.scenario.chaos == Chaos::None;
        if is_answered
            && seen.steady_attempts >= 100
            && seen.steady_admitted * 100 < seen.steady_attempts * 99
        {
            let what = format!(
                "{} of {} first attempts of steady callers within their limit admitted",
                seen.steady_admitted, seen.steady_attempts
            );
            self.violate(Rule::FirstAttemptsRefused, 0, now, what);
        }
        let span = now.saturating_sub(measured.from);
        if span < 8 * SECOND {
            return;
        }
        let seconds = seconds(span);
        let is_even = matches!(
            self.scenario.load,
            Load::Steady | Load::Skewed | Load::Zipf | Load::Uneven | Load::OneIdle
        );
        if let Numbers::Bucket { .. } = self.scenario.limit
            && self.scenario.consistency == DecisionSite::Leased
            && is_even
        {
            let due = self.scenario.limit.rate() * seconds;
            let part = match self.gathered() {
                // Of an Envoy's lease a 64th is never lent, and rates are in whole tokens.
                0.1.. if self.scenario.envoys > 0 && self.scenario.envoys as usize <= HOLDERS_MAX => 0.9,
                _ if self.scenario.envoys > 0 => 0.0,
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
        if self.scenario.consistency == DecisionSite::Leased && is_alike {
            let odds: Vec<f64> = measured.members.iter().filter_map(Used::odds).collect();
            let all: f64 = measured.members.iter().map(|used| used.admitted).sum();
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

    /// How many requests of the largest cost a member or an Envoy may admit from its part of the
    /// rate in a tenth of a second: for so long it gathers what trickles in. Where those are only a
    /// few, some of it finds no request; and where it is not even one, requests wait for what the
    /// store lends one by one. 0 for quotas.
    fn gathered(&self) -> f64 {
        let Numbers::Bucket { .. } = self.scenario.limit else { return 0.0 };
        self.scenario.limit.rate()
            / f64::from(self.scenario.clients())
            / 10.0
            / f64::from(self.scenario.cost_max)
    }

    /// The promise in words.
    fn most(&self) -> &'static str {
        match (self.scenario.limit, self.scenario.consistency) {
            (Numbers::Window { .. }, _) => "the limit of the window",
            (_, DecisionSite::Leased) => "rate·time + burst + 0.1 s·rate",
            _ => "rate·time + burst",
        }
    }

    fn wrong_epoch(&mut self, member: u32, key: u32, cost: u64, now: u64, wrong: &EpochWrong) {
        let most = self.most();
        let (rule, what) = match wrong {
            EpochWrong::Over { epoch, over } => {
                let what = format!(
                    "member {member} spent {cost} of epoch {epoch}, which is {over} more than {most}"
                );
                (Rule::OverAdmission, what)
            }
            EpochWrong::After { epoch, late_ms } => {
                let what = format!(
                    "member {member} spent {cost} of epoch {epoch}, {late_ms} ms after the next one began"
                );
                (Rule::SpentAfterEpoch, what)
            }
        };
        self.violate(rule, key, now, what);
    }

    fn violate(&mut self, rule: Rule, key: u32, now: u64, what: String) {
        let seed = self.seed;
        self.findings.add(rule, || Violation { rule, seed, key, at_ms: now / MS, what });
    }
}

#[cfg(test)]
mod tests;
