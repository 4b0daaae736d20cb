//! Liveness: a caller that keeps to its limit is not refused for long.
//!
//! A caller is the stream of requests for one key. It is *conforming* as long as an exact limit,
//! fed with its first attempts in the order in which they were made, would have admitted them all.
//! The exact limit here refills as slowly as any clock of the world, and its window may begin at
//! any instant, so whatever the alignment of the real one is, that admits them, too. A caller that
//! asked for too much counts as conforming again once it has been idle for long enough. Tokens of a
//! window that a crashed member had in hand are lost until the window ends, so the exact limit goes
//! without them, too.

use core::time::Duration;
use std::collections::VecDeque;

use tidegate_core::Reason;
use tidegate_core::lease::Terms;

use crate::fleet::observation::Attempt;
use crate::fleet::scenario::Numbers;
use crate::kit::{MS, SECOND};

/// From which deadline of the store on an attempt itself takes a good part of the second in which
/// one is to be admitted: a conforming caller may then be refused for a deadline longer.
const SLOW_DEADLINE_MS: u32 = 500;

/// How much of its rate the exact limit gives, in hundredths: the slowest clock, and what is
/// rounded.
const RATE_PERCENT: u128 = 98;

/// All callers that are looked at.
#[derive(Debug)]
pub(crate) struct Liveness {
    limit: Numbers,
    callers: Vec<ObservedCaller>,
    /// The longest time for which a conforming caller is refused at every attempt.
    refused_max: u64,
    lease_period: Duration,
    pub(crate) seen: Seen,
}

/// The counts of conforming callers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// First attempts that were decided, and of these those that were admitted.
    pub(crate) first_attempts: u64,
    pub(crate) admitted: u64,
    /// The same of callers that ask steadily.
    pub(crate) steady_attempts: u64,
    pub(crate) steady_admitted: u64,
    /// The longest time for which one was refused at every attempt, in nanoseconds.
    pub(crate) longest: u64,
}

#[derive(Debug)]
struct ObservedCaller {
    exact: Exact,
    /// Until when it must be idle to count as conforming.
    over_until: u64,
    /// When it asked first.
    began: Option<u64>,
    /// When the first refusal of a row was told, and whether the row was reported.
    refused_since: Option<u64>,
    is_reported: bool,
    /// When an attempt was admitted last.
    admitted_at: u64,
    /// Until when an attempt that was refused is being retried.
    retrying_until: u64,
}

/// An exact limit, by definition.
#[derive(Debug)]
enum Exact {
    /// Parts of a unit that have not drained, and when.
    Bucket { level: u128, at: u64 },
    /// The admissions and their instants, for as long as a window may still hold them.
    Window {
        units: u64,
        log: VecDeque<(u64, u64)>,
        /// Tokens that crashed members had in hand, and until when they may be missing.
        stranded: u64,
        stranded_until: u64,
    },
}

/// How an attempt was refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusing {
    pub(crate) reason: Reason,
    /// Whether its member decides alone and has no room left in its share.
    pub(crate) is_excused: bool,
    /// When the caller has retried at the latest, if it does.
    pub(crate) retry_by: u64,
}

/// The consequence of a refusal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Refused {
    /// Whether the caller is conforming and does not retry an earlier request already.
    pub(crate) retries: bool,
    /// For how long it has been refused at every attempt, if that is too long and not yet reported.
    pub(crate) too_long: Option<u64>,
}

impl Liveness {
    pub(crate) fn new(limit: Numbers, keys: u32) -> Self {
        let callers = (0..keys).map(|_| ObservedCaller::new(limit)).collect();
        Self { limit, callers, refused_max: SECOND, lease_period: Terms::PERIOD, seen: Seen::default() }
    }

    /// The same where members wait for the store for so long.
    pub(crate) fn with_deadline(mut self, deadline_ms: u32) -> Self {
        if deadline_ms >= SLOW_DEADLINE_MS {
            self.refused_max = SECOND + u64::from(deadline_ms) * MS;
        }
        self
    }

    /// The same where a lease lasts for so long.
    pub(crate) fn with_lease_period(self, lease_period: Duration) -> Self {
        Self { lease_period, ..self }
    }

    /// A caller makes a request for the first time.
    pub(crate) fn first_attempt(&mut self, key: u32, cost: u64, now: u64) {
        let limit = self.limit;
        let Some(caller) = self.callers.get_mut(key as usize) else { return };
        caller.began.get_or_insert(now);
        if !caller.exact.admits(limit, cost, now) || now < caller.over_until {
            caller.goes_over(limit, self.lease_period, now);
        }
    }

    /// A caller retries.
    pub(crate) fn retried(&mut self, key: u32, now: u64) {
        let limit = self.limit;
        if let Some(caller) = self.callers.get_mut(key as usize)
            && now < caller.over_until
        {
            caller.goes_over(limit, self.lease_period, now);
        }
    }

    /// A member has crashed that had these units of a key in hand.
    pub(crate) fn stranded(&mut self, key: u32, held: u64, now: u64) {
        if let Some(caller) = self.callers.get_mut(key as usize)
            && let Exact::Window { stranded, stranded_until, .. } = &mut caller.exact
            && let Numbers::Window { seconds, .. } = self.limit
        {
            *stranded += held;
            *stranded_until = now + u64::from(seconds) * SECOND * 102 / 100;
        }
    }

    pub(crate) fn admitted(&mut self, one: Attempt, now: u64) {
        let Some(caller) = self.callers.get_mut(one.key as usize) else { return };
        if one.made >= caller.over_until {
            self.seen.count(one, true);
        }
        caller.refused_since = None;
        caller.is_reported = false;
        caller.admitted_at = now;
        if !one.is_first {
            caller.retrying_until = 0;
        }
    }

    /// An attempt was refused.
    pub(crate) fn refused(&mut self, one: Attempt, refusing: Refusing, now: u64) -> Refused {
        let Refusing { reason, is_excused, retry_by } = refusing;
        let is_away = self.limit.is_quota() && reason == Reason::StoreUnavailable;
        let Some(caller) = self.callers.get_mut(one.key as usize) else { return Refused::default() };
        if one.made < caller.over_until || reason == Reason::CostExceedsLimit {
            caller.refused_since = None;
            return Refused::default();
        }
        if is_away {
            caller.refused_since = None;
            return Refused::default();
        }
        let mut refused = Refused::default();
        if one.made >= caller.retrying_until || !one.is_first {
            caller.retrying_until = retry_by;
            refused.retries = true;
        }
        if is_excused {
            caller.refused_since = None;
            return refused;
        }
        self.seen.count(one, false);
        // An attempt made before another was admitted is no part of a row.
        if one.made >= caller.admitted_at {
            let since = *caller.refused_since.get_or_insert(now);
            let lasts = one.made.saturating_sub(since);
            self.seen.longest = self.seen.longest.max(lasts);
            if lasts > self.refused_max && !caller.is_reported {
                caller.is_reported = true;
                refused.too_long = Some(lasts);
            }
        }
        refused
    }

    /// The attempts of a caller end here, with one that is retried no more.
    pub(crate) fn gave_up(&mut self, key: u32) {
        if let Some(caller) = self.callers.get_mut(key as usize) {
            caller.retrying_until = 0;
        }
    }

    /// For how long a caller has been asking, in milliseconds.
    pub(crate) fn asks_for_ms(&self, key: u32, now: u64) -> u64 {
        let began = self.callers.get(key as usize).and_then(|caller| caller.began);
        began.map_or(0, |began| (now - began) / MS)
    }
}

impl Seen {
    fn count(&mut self, one: Attempt, is_admitted: bool) {
        if one.is_first {
            let admitted = u64::from(is_admitted);
            self.first_attempts += 1;
            self.admitted += admitted;
            self.steady_attempts += u64::from(one.is_steady);
            self.steady_admitted += admitted * u64::from(one.is_steady);
        }
    }
}

impl ObservedCaller {
    fn new(limit: Numbers) -> Self {
        let exact = match limit {
            Numbers::Bucket { .. } => Exact::Bucket { level: 0, at: 0 },
            Numbers::Window { .. } => {
                Exact::Window { units: 0, log: VecDeque::new(), stranded: 0, stranded_until: 0 }
            }
        };
        Self {
            exact,
            over_until: 0,
            began: None,
            refused_since: None,
            is_reported: false,
            admitted_at: 0,
            retrying_until: 0,
        }
    }

    /// It has asked for more than its limit: what it used is unknown until all of it has drained
    /// and all leases are over.
    fn goes_over(&mut self, limit: Numbers, lease_period: Duration, now: u64) {
        let drains = match limit {
            Numbers::Bucket { units, seconds, burst } => {
                u64::from(burst) * u64::from(seconds) * SECOND / u64::from(units)
            }
            Numbers::Window { seconds, .. } => u64::from(seconds) * SECOND,
        };
        self.over_until = now + drains + drains / 16 + 2 * lease_period.as_nanos() as u64;
        self.refused_since = None;
    }
}

impl Exact {
    /// Charges the cost if there is room for it.
    fn admits(&mut self, limit: Numbers, cost: u64, now: u64) -> bool {
        match (self, limit) {
            (Self::Bucket { level, at }, Numbers::Bucket { units, seconds, burst }) => {
                let unit = 100 * u128::from(seconds) * u128::from(SECOND);
                let drained = u128::from(now - *at) * u128::from(units) * RATE_PERCENT;
                *level = level.saturating_sub(drained);
                *at = now;
                let charged = *level + u128::from(cost) * unit;
                let has_room = charged <= u128::from(burst) * unit;
                *level = if has_room { charged } else { *level };
                has_room
            }
            (
                Self::Window { units, log, stranded, stranded_until },
                Numbers::Window { units: most, seconds },
            ) => {
                // A window as the slowest clock has it.
                let window = u64::from(seconds) * SECOND * 102 / 100;
                while let Some((at, cost)) = log.front()
                    && *at + window <= now
                {
                    *units -= cost;
                    log.pop_front();
                }
                if now > *stranded_until {
                    *stranded = 0;
                }
                let has_room = *units + *stranded + cost <= u64::from(most);
                if has_room {
                    *units += cost;
                    log.push_back((now, cost));
                }
                has_room
            }
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(made: u64) -> Attempt {
        Attempt { key: 0, cost: 1, made, is_first: true, is_steady: true }
    }

    fn refusing(is_excused: bool) -> Refusing {
        Refusing { reason: Reason::RateExceeded, is_excused, retry_by: 0 }
    }

    fn refused(liveness: &mut Liveness, at: u64) -> Refused {
        liveness.first_attempt(0, 1, at);
        liveness.refused(attempt(at), refusing(false), at)
    }

    #[test]
    fn a_conforming_caller_that_is_refused_for_longer_than_a_second_is_seen_once() {
        let mut liveness = Liveness::new(Numbers::per_second(10, 10), 1);
        for step in 0..=5 {
            assert_eq!(refused(&mut liveness, step * SECOND / 5).too_long, None, "{step}");
        }
        assert_eq!(refused(&mut liveness, SECOND + 1).too_long, Some(SECOND + 1));
        assert_eq!(refused(&mut liveness, 2 * SECOND).too_long, None);
        assert_eq!(liveness.seen.longest, 2 * SECOND);
        liveness.first_attempt(0, 1, 3 * SECOND);
        liveness.admitted(attempt(3 * SECOND), 3 * SECOND);
        assert_eq!(refused(&mut liveness, 4 * SECOND).too_long, None);
        assert_eq!((liveness.seen.first_attempts, liveness.seen.admitted), (10, 1));
    }

    #[test]
    fn a_caller_over_its_limit_may_be_refused_until_it_has_been_idle() {
        let mut liveness = Liveness::new(Numbers::per_second(1, 2), 1);
        let found = (0..40).filter_map(|step| refused(&mut liveness, step * SECOND / 4).too_long);
        assert_eq!(found.count(), 0);
        let later = 40 * SECOND;
        assert_eq!(refused(&mut liveness, later).too_long, None);
        assert_eq!(refused(&mut liveness, later + 2 * SECOND).too_long, Some(2 * SECOND));
    }

    #[test]
    fn a_window_is_kept_to_wherever_it_begins() {
        let limit = Numbers::Window { units: 3, seconds: 10 };
        let mut exact = ObservedCaller::new(limit).exact;
        assert!((0..3).all(|second| exact.admits(limit, 1, second * SECOND)));
        assert!(!exact.admits(limit, 1, 9 * SECOND));
        assert!(!exact.admits(limit, 1, 10 * SECOND));
        assert!(exact.admits(limit, 1, 11 * SECOND));
    }

    #[test]
    fn what_is_excused_ends_a_row_of_refusals() {
        let mut liveness = Liveness::new(Numbers::per_second(10, 10), 1);
        assert!(refused(&mut liveness, 0).retries);
        liveness.first_attempt(0, 1, SECOND);
        let excused = liveness.refused(attempt(SECOND), refusing(true), SECOND);
        assert_eq!(excused.too_long, None);
        assert_eq!(refused(&mut liveness, SECOND + SECOND / 2).too_long, None);
    }
}
