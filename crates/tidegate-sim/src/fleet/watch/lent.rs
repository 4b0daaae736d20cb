//! The lent units, seen from outside: from the asks and grants on the wire, and from nothing else.
//!
//! Each run of a member has two balances for each key. The *upper* one is never less than what the
//! run can have in hand: the check that nothing is spent without a grant uses it. The *sure* one is
//! never more than what the run has in hand: the check that a member does not decide alone while
//! its lease still has tokens uses that one.

use std::collections::BTreeMap;

use tidegate_core::lease::{Ask, Grant};

use crate::fleet::observation::Source;
use crate::fleet::rule::Rule;
use crate::fleet::scenario::Numbers;
use crate::kit::{MS, SECOND};

/// The lease of one key at one run of a member.
#[derive(Clone, Copy, Debug, Default)]
struct RunLease {
    /// By the last grant that left the store, in the store's time.
    held: u64,
    rate: u64,
    until: u64,
    epoch: u32,
    /// When the last of all grants that left the store ends, in the store's time.
    ends: u64,
    /// The epoch of the lease that arrived last.
    own_epoch: u32,
    /// The upper balance, in parts of a unit: a nanosecond of a rate of one unit a period. Below
    /// zero by what rounding took.
    upper: i128,
    upper_max: i128,
    /// The units that trickle in each period, since when in true time.
    trickle: u64,
    since: u64,
    /// When the lease has ended at the latest, and until when it lasts for certain.
    ends_by: u64,
    sure_until: u64,
    /// The sure balance, in units.
    sure: u64,
    /// When the run asked last, and what it had given back by then, in total.
    asked_at: u64,
    incarnation: u32,
    returned: u32,
    /// Units granted to requests that wait, good for the instant at which they arrive and for
    /// nothing else.
    spot: u64,
    spot_at: u64,
    spot_epoch: u32,
}

/// The leases of some keys.
#[derive(Debug)]
pub(crate) struct LentTokens {
    leases: BTreeMap<(u32, u64), RunLease>,
    /// The most that may be lent of a key.
    most: u64,
    period: u64,
    checks: u64,
}

/// A violation: the rule, and the numbers in words.
pub(crate) type Wrong = (Rule, String);

/// Whether a lease that arrives has ended by then, as far as the clocks tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GrantArrival {
    /// It lasts.
    InTime,
    /// It has ended by some clocks and lasts by others.
    Doubtful,
    /// It has ended, or nothing was granted.
    TooLate,
    /// The same, and so late that the run takes it for no answer.
    Unheard,
    /// The same, and so late by some clocks and not by others.
    PerhapsUnheard,
}

/// How long after its ask a grant for waiting requests is good.
const SPOT_MAX: u64 = SECOND / 10;

/// Where an admission came from, as far as the wire and the engine tell.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// From grants of this epoch.
    Epoch(u32),
    /// The member decided alone.
    Alone,
}

/// An admission by a lease, or in place of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spending {
    pub(crate) key: u32,
    pub(crate) run: u64,
    pub(crate) cost: u64,
    /// The source of the units as the engine reports it, if it does.
    pub(crate) source: Option<Source>,
    /// Whether the last ask was not answered.
    pub(crate) is_silent: bool,
}

impl LentTokens {
    pub(crate) fn new(numbers: Numbers, period: core::time::Duration) -> Self {
        let period = period.as_nanos() as u64;
        let most = match numbers {
            Numbers::Bucket { units, seconds, burst } => {
                let span = u128::from(seconds) * u128::from(SECOND);
                u64::from(burst) + (u128::from(units) * u128::from(period)).div_ceil(span) as u64
            }
            Numbers::Window { units, .. } => units.into(),
        };
        Self { leases: BTreeMap::new(), most, period, checks: 0 }
    }

    /// The run asks now.
    pub(crate) fn asked(&mut self, key: u32, ask: &Ask, now: u64) {
        let lease = self.leases.entry((key, ask.holder.member)).or_default();
        lease.asked_at = now;
        // The ask may be older than what was spent at this instant, so what it gives back is taken
        // off, too.
        let before = if lease.incarnation == ask.holder.incarnation { lease.returned } else { 0 };
        (lease.incarnation, lease.returned) = (ask.holder.incarnation, ask.returned);
        let returned = u64::from(ask.returned.wrapping_sub(before));
        lease.sure = lease.sure.saturating_sub(returned).min(ask.left.into());
    }

    /// The store granted at `store_now`.
    pub(crate) fn granted(&mut self, key: u32, ask: &Ask, grant: &Grant, store_now: u64) -> Option<Wrong> {
        let lease = self.leases.entry((key, ask.holder.member)).or_default();
        lease.held = grant.held.into();
        lease.rate = grant.rate.into();
        if is_spot(grant) {
            return None;
        }
        lease.epoch = grant.epoch;
        lease.until = store_now + grant.ttl.as_nanos() as u64;
        lease.ends = lease.ends.max(lease.until);
        self.checks += 1;
        // With many members the sum is not looked at each time.
        if self.checks.is_multiple_of(1 + self.leases.len() as u64 / 64) {
            let lent = self.out(key, grant.epoch, store_now);
            if lent > self.most {
                let what = format!("{lent} units are lent, and {} may be", self.most);
                return Some((Rule::LeaseSum, what));
            }
        }
        None
    }

    /// A run has left.
    pub(crate) fn left(&mut self, key: u32, run: u64) {
        if let Some(lease) = self.leases.get_mut(&(key, run)) {
            (lease.held, lease.rate, lease.until, lease.upper, lease.sure) = (0, 0, 0, 0, 0);
        }
    }

    /// The units lent of a key in an epoch and not over, by the ledger's clock.
    pub(crate) fn out(&self, key: u32, epoch: u32, store_now: u64) -> u64 {
        let of_key = self.leases.range((key, 0)..=(key, u64::MAX)).map(|(_, lease)| lease);
        of_key
            .filter(|lease| lease.epoch == epoch && lease.until > store_now)
            .map(|lease| {
                let to_come = u128::from(lease.rate) * u128::from(lease.until - store_now);
                lease.held + (to_come / u128::from(self.period)) as u64
            })
            .sum()
    }

    /// A grant arrived; whether the run can use it. A lease that has ended by then leaves the one
    /// before as it was.
    pub(crate) fn arrived(&mut self, key: u32, run: u64, grant: &Grant, now: u64) -> GrantArrival {
        let period = self.period;
        let lease = self.leases.entry((key, run)).or_default();
        if grant.epoch < lease.own_epoch.max(lease.spot_epoch) {
            return GrantArrival::TooLate;
        }
        lease.trickle_in(now);
        let ttl = grant.ttl.as_nanos() as u64;
        let after = now.saturating_sub(lease.asked_at);
        let arrival = match now {
            // The holder's margin is a thirty-second, and its clock may run fast.
            _ if now < lease.asked_at + ttl - ttl / 16 => GrantArrival::InTime,
            _ if now < lease.asked_at + ttl => GrantArrival::Doubtful,
            _ if ttl > 0 && after > SPOT_MAX + SPOT_MAX / 20 => GrantArrival::Unheard,
            _ if ttl > 0 && after > SPOT_MAX - SPOT_MAX / 20 => GrantArrival::PerhapsUnheard,
            _ => GrantArrival::TooLate,
        };
        if grant.epoch > lease.own_epoch {
            // The units in hand are of an epoch that has passed.
            lease.sure = 0;
        }
        if matches!(arrival, GrantArrival::TooLate | GrantArrival::Unheard | GrantArrival::PerhapsUnheard) {
            return arrival;
        }
        if is_spot(grant) {
            // Units that the store counts as spent at once are not good for longer than a tenth of
            // a second.
            let arrival = match arrival {
                _ if after > SPOT_MAX + SPOT_MAX / 20 => return GrantArrival::Unheard,
                _ if after > SPOT_MAX - SPOT_MAX / 20 => GrantArrival::Doubtful,
                arrival => arrival,
            };
            // A lease that the run has beside it is as it was.
            (lease.spot, lease.spot_at, lease.spot_epoch) = (grant.lump.into(), now, grant.epoch);
            return arrival;
        }
        let unit = i128::from(period);
        // A tenth of a second of the rate at a clock that runs fast, and what rounding adds.
        let depth = i128::from(grant.rate) * i128::from(SECOND / 10) * 102 / 100 + unit;
        let upper_max = i128::from(grant.held) * unit + depth;
        let (upper, ends_by) = (lease.upper + i128::from(grant.lump) * unit, lease.asked_at + ttl + ttl / 50);
        lease.own_epoch = grant.epoch;
        if arrival == GrantArrival::Doubtful {
            lease.upper_max = lease.upper_max.max(upper_max);
            lease.trickle = lease.trickle.max(grant.rate.into());
            lease.ends_by = lease.ends_by.max(ends_by);
        } else {
            (lease.upper_max, lease.trickle, lease.ends_by) = (upper_max, grant.rate.into(), ends_by);
            let kept = if now < lease.sure_until { lease.sure } else { 0 };
            lease.sure = (kept + u64::from(grant.lump)).min(grant.held.into());
            lease.sure_until = lease.asked_at + ttl - ttl / 16;
        }
        lease.upper = upper.min(lease.upper_max);
        arrival
    }

    /// Units were admitted: where they came from, and what was wrong about it.
    pub(crate) fn admitted(&mut self, one: Spending, now: u64, store_now: u64) -> (Origin, Option<Wrong>) {
        let Spending { key, run, cost, source, is_silent } = one;
        let unit = i128::from(self.period);
        let lease = self.leases.entry((key, run)).or_default();
        lease.trickle_in(now);
        if source != Some(Source::Alone) && lease.spot_at == now && lease.spot >= cost {
            lease.spot -= cost;
            return (Origin::Epoch(lease.spot_epoch), None);
        }
        let parts = i128::from(cost) * unit;
        let is_granted = match source {
            Some(source) => source == Source::Grant,
            None => !is_silent || (lease.upper >= parts && store_now <= lease.ends + MS),
        };
        if !is_granted {
            let has_tokens = lease.sure >= cost && now < lease.sure_until;
            let wrong = match source {
                Some(_) if !is_silent => {
                    let what =
                        format!("holder {run} decided alone although the store had answered its last ask");
                    Some((Rule::AloneWhenAnswered, what))
                }
                Some(_) if has_tokens => {
                    let what =
                        format!("holder {run} admitted {cost} alone although its lease had {}", lease.sure);
                    Some((Rule::AloneWithTokens, what))
                }
                _ => None,
            };
            return (Origin::Alone, wrong);
        }
        lease.sure = lease.sure.saturating_sub(cost);
        lease.upper -= parts;
        let wrong = if lease.ends > 0 && store_now > lease.ends + MS {
            lease.upper = lease.upper.max(0);
            let late_ms = (store_now - lease.ends) / MS;
            let what = format!("holder {run} spent {late_ms} ms after its last lease had ended");
            Some((Rule::SpentAfterEnd, what))
        } else if lease.upper < -unit {
            let left = (lease.upper + parts).max(0) / unit;
            lease.upper = 0;
            let what = format!("holder {run} spent {cost} units and had {left} in hand at most");
            Some((Rule::NotGranted, what))
        } else {
            None
        };
        (Origin::Epoch(lease.own_epoch), wrong)
    }

    /// A run of a member is over: the keys it had a lease of, and the tokens that the ledger counts
    /// as in its hand.
    pub(crate) fn crashed(&mut self, run: u64) -> Vec<(u32, u64)> {
        let of_run = self.leases.iter_mut().filter(|((_, of), _)| *of == run);
        of_run.map(|((key, _), lease)| (*key, lease.end())).collect()
    }
}

/// Whether what is granted at once is for the requests that wait and for nothing else: the ledger
/// does not count it as in hand.
fn is_spot(grant: &Grant) -> bool {
    grant.ttl.is_zero() || grant.held < grant.lump
}

impl RunLease {
    /// Ends the spending of the lease. Returns the units that the ledger counts as in hand.
    fn end(&mut self) -> u64 {
        (self.trickle, self.upper, self.sure) = (0, 0, 0);
        self.held
    }

    /// Brings the upper balance to `now`, at a clock that may run a hundredth fast.
    fn trickle_in(&mut self, now: u64) {
        let until = now.min(self.ends_by);
        let passed = i128::from(until.saturating_sub(self.since));
        let came = passed * i128::from(self.trickle) * 101 / 100;
        self.upper = (self.upper + came).min(self.upper_max);
        if now > self.ends_by {
            // Units in hand when the lease ends are not spent any more.
            (self.upper, self.sure) = (self.upper.min(0), 0);
        }
        self.since = self.since.max(now);
    }
}
