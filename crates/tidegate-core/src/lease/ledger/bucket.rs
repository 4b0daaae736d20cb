//! A bucket's ledger: a rate that trickles in to each holder, and tokens from the burst for those
//! that need more at once.
//!
//! **Why the bound holds.** Let `level` be `used` without what leases are yet to release. It is the
//! level of a bucket whose arrivals are releases: lumps when they are granted, trickles as they
//! come. Three things hold at every instant: trickles together are no faster than the rate, so
//! `level` never rises between steps; a lump is granted only as far as `level` stays within the
//! burst; and `level` is never below the tokens in hand. So from any instant to any other, what is
//! spent is at most what was in hand at the first, plus what was released between; released is what
//! `level` rose by plus what drained; and it rose by at most the burst less what was in hand. Which
//! leaves burst and rate, and the tenth of a second of its rate that each holder may gather.

use core::time::Duration;

use super::allocation::{Sums, Wanted, with_headroom};
use super::{Lease, LedgerStep, Refill};
use crate::lease::fault::Fault;
use crate::lease::message::{Ask, Grant};
use crate::lease::{DEPTH, HOLDERS_MAX, LIFETIME_MAX, PREFETCH, RECHECK, REPLACED_AFTER, SPACING};

/// A holder that got less than its share asks again after this part of a period; while less than
/// such a part of the burst is left, no holder gets this delay.
const AGAIN: u64 = 16;

/// A holder for which something waits may have one in so many of the units that are free.
pub(super) const FREE_PART: u64 = 64;

/// A holder without a place that finds the burst empty waits for so many 32nds of a period, and up
/// to seven more. The waits differ, since there are more such holders than can be served, and they
/// should not all come back at once.
const SPOT_AGAIN: u64 = 4;

/// How many different waits there are.
const SPOT_TURNS: u64 = 8;

/// The fewest tokens that a lease lets trickle in.
const TRICKLE_MIN: u32 = 4;

/// The first lease with a rate is by so many powers of two shorter than a period. Each one that has
/// lasted for half of its time is followed by one twice as long, so that shares settle within a
/// second when many come at once.
const SHORTEST: u32 = 3;

impl Lease {
    /// By which power of two the next lease with a rate is shorter than a period: with the first
    /// ones, and when demand is no longer what it was. Called when what the holder says about the
    /// lease before has been taken over.
    fn shorter(self, ask: &Ask, period_us: u64, now_us: u64) -> u32 {
        let given_us =
            if self.prior_rate > 0 { self.prior_until_us.saturating_sub(self.since_us) } else { 0 };
        let by_age = (0..SHORTEST).find(|shift| given_us >= period_us >> shift).unwrap_or(SHORTEST);
        let has_lasted = given_us > 0 && now_us.saturating_sub(self.since_us) >= given_us / 2;
        let (before, now) = (self.demand / 2, ask.demand / 2);
        let has_changed = before > ask.demand || now > self.demand;
        by_age.saturating_sub(u32::from(has_lasted)).max(if has_changed { 2 } else { 0 })
    }
}

impl LedgerStep<'_> {
    /// Drains `used` to now, but not below what holders may still spend; what their leases add up
    /// to.
    pub(super) fn drain(&mut self, refill: &Refill) -> Sums {
        let now_us = self.now_us;
        // Tokens in hand held `used` up until their lease ended, even if no step happened at that
        // instant. Where several leases have ended, all their tokens count until the last end,
        // which is never too little.
        if let Some(last_us) = self.ledger.leases.last_ended_us(now_us) {
            self.drain_until(refill, last_us);
            let in_hand: u64 = self.ledger.leases.iter().map(|lease| u64::from(lease.held)).sum();
            let from_us = last_us.max(self.ledger.at_us);
            let to_come =
                self.ledger.leases.iter().map(|lease| lease.to_come(from_us)).fold(0, u64::saturating_add);
            self.hold_up(to_come.div_ceil(self.ledger.period_us) + in_hand);
            let mut spent = self.ledger.spent;
            self.ledger.leases.retain(|lease| {
                let is_alive = lease.is_alive(now_us);
                if !is_alive {
                    spent = spent.wrapping_add(lease.held);
                }
                is_alive
            });
            self.ledger.spent = spent;
        }
        let all = self.ledger.leases.know_sums(now_us, self.paid_from());
        self.drain_until(refill, now_us);
        self.hold_up(all.outstanding(self.ledger.period_us));
        all
    }

    fn drain_until(&mut self, refill: &Refill, until_us: u64) {
        let elapsed = until_us.saturating_sub(self.ledger.at_us);
        if elapsed > 0 {
            let parts = u128::from(elapsed) * u128::from(refill.units) + u128::from(self.ledger.rest);
            let drained = u64::try_from(parts / u128::from(refill.per_us)).unwrap_or(u64::MAX);
            self.ledger.rest = (parts % u128::from(refill.per_us)) as u64;
            self.ledger.at_us = until_us;
            if drained >= self.ledger.used {
                self.ledger.rest = 0;
            }
            let drained = drained.min(self.ledger.used);
            self.movement.drained += drained;
            self.ledger.used -= drained;
        }
    }

    /// Nothing drains below what holders may still spend.
    fn hold_up(&mut self, least: u64) {
        if self.terms.has(Fault::GrantWithoutDebit) {
            return;
        }
        self.movement.held_up += least.saturating_sub(self.ledger.used);
        self.ledger.used = self.ledger.used.max(least);
        self.drop_parts(least);
    }

    /// Drops remainders that would bring what is used below `least`: what has drained of the next
    /// unit, and what was returned of one, are less than a unit each.
    pub(super) fn drop_parts(&mut self, least: u64) {
        match self.ledger.used.saturating_sub(least) {
            0 => (self.ledger.rest, self.ledger.dust) = (0, 0),
            1 => self.ledger.dust = 0,
            _ => {}
        }
    }

    /// The unused part of the burst. The tokens that leases have yet to release, `to_come` in
    /// parts, are debited already and are not a part of it.
    fn free(&self, refill: &Refill, to_come: u64) -> u64 {
        (refill.burst + to_come / self.ledger.period_us).saturating_sub(self.ledger.used)
    }

    /// The usage beyond the burst, after a report or after the burst was lowered. Lent tokens that
    /// are yet to come, `to_come` in parts, never cause such a debt.
    fn owed(&self, refill: &Refill, to_come: u64) -> u64 {
        let to_come = to_come.div_ceil(self.ledger.period_us);
        self.ledger.used.saturating_sub(refill.burst + to_come)
    }

    pub(super) fn ask_bucket(&mut self, refill: &Refill, ask: &Ask) -> Option<Grant> {
        let mut all = self.drain(refill);
        if ask.is_remote() && !ask.is_leaving {
            let counted_twice = self.count_once(ask);
            if self.replace(ask) || counted_twice {
                all = self.drain(refill);
            }
        }
        let known = self.ledger.leases.known_now(self.now_us, self.paid_from());
        let mut was = None;
        let (index, others) = match self.find(ask.holder) {
            Ok(index) => {
                let lease = self.ledger.leases[index];
                was = Some(lease);
                if ask.seq <= lease.seq {
                    let answer = self.repeat(&lease, ask);
                    self.credit_again(ask, answer.is_some());
                    return answer;
                }
                let others = all.without(&lease, self.now_us, self.paid_from());
                let others = others.unwrap_or_else(|| self.sums_beside(index));
                self.settle(index, ask, &others);
                (index, others)
            }
            Err(_) if ask.is_leaving => return None,
            Err(_) if self.ledger.leases.len() >= HOLDERS_MAX => return Some(self.spot(refill, ask, &all)),
            Err(index) => {
                self.ledger.leases.add(index, Lease::begin(ask, self.ledger.spent, self.paid_from()));
                (index, all)
            }
        };
        if ask.is_leaving {
            self.ledger.leases.remove(index);
            return Some(self.nothing(ask, 0));
        }
        let grant = self.grant(refill, index, ask, &others);
        if let Some(known) = known {
            self.ledger.leases.keep_known(known, others, was.as_ref(), index);
        }
        Some(grant)
    }

    /// The sums over all leases but one.
    fn sums_beside(&self, index: usize) -> Sums {
        let others = self.ledger.leases.iter().enumerate().filter(|(other, _)| *other != index);
        let (now_us, from_us) = (self.now_us, self.paid_from());
        others.fold(Sums::default(), |sums, (_, lease)| sums.with(lease, now_us, from_us))
    }

    /// Takes over what the holder says about its lease, which ends with this.
    fn settle(&mut self, index: usize, ask: &Ask, others: &Sums) {
        let mut lease = self.ledger.leases[index];
        let to_come = lease.to_come(self.paid_from());
        let released = lease.to_come(lease.since_us).saturating_sub(to_come) / self.ledger.period_us;
        self.credit_parts(to_come);
        // A number acknowledged in another epoch is of a grant that this ledger never made. The
        // last grant was never taken over, and never will be, unless it is acknowledged: the holder
        // waits for this answer only.
        // Of a lease that has only just taken the place of others, no grant can be.
        let is_acked = ask.acked == lease.seq && ask.acked > 0 && ask.epoch == self.ledger.epoch;
        match (lease.was_spot(), is_acked) {
            // A spot grant replaced no lease.
            (true, true) => {}
            // As below for tokens that trickled in unused: they may have drained meanwhile.
            (true, false) => {
                let spent =
                    u64::from(self.ledger.spent.wrapping_sub(lease.spent)).saturating_sub(lease.lump.into());
                let floor = others.outstanding(self.ledger.period_us) + u64::from(lease.held) + spent;
                self.credit_spent(lease.lump.into(), floor);
            }
            (false, true) => (lease.prior_rate, lease.prior_until_us) = (lease.rate, lease.until_us),
            (false, false) => {
                self.credit(lease.lump.into());
                lease.held -= lease.lump;
            }
        }
        if ask.gives_up {
            lease.prior_rate = 0;
        }
        (lease.rate, lease.until_us, lease.lump) = (0, 0, 0);

        // Tokens in hand held `used` up all the time, so returned tokens are credited in full.
        let gone = lease.held.saturating_sub(ask.left);
        let returned = ask.returned.wrapping_sub(lease.returned).min(gone);
        self.credit(returned.into());
        self.credit_again(ask, true);
        self.ledger.spent = self.ledger.spent.wrapping_add(gone - returned);
        lease.held = ask.left.min(lease.held);

        // Tokens that trickled in unused have drained meanwhile like used units. Without them the
        // level would be lower by as much, unless the level was at its floor in between. The floor
        // is the tokens in hand at that time, so the level could then not be above the tokens still
        // in hand and those spent since.
        let unused = u64::from(ask.unused.wrapping_sub(lease.unused)).min(released);
        (lease.returned, lease.unused) = (ask.returned, ask.unused);
        self.ledger.leases[index] = lease;
        let spent = u64::from(self.ledger.spent.wrapping_sub(lease.spent));
        let in_hand = others.in_hand + u64::from(lease.held);
        let floor = others.to_come.div_ceil(self.ledger.period_us) + in_hand + spent;
        self.credit(unused.min(self.ledger.used.saturating_sub(floor)));
        if unused > 0 {
            self.drop_parts(floor);
        }
    }

    /// Gives the holder a new lease.
    fn grant(&mut self, refill: &Refill, index: usize, ask: &Ask, others: &Sums) -> Grant {
        let (now_us, period_us) = (self.now_us, self.terms.period_us);
        // The debit of its own lease is still to be made.
        let owed = self.owed(refill, others.to_come);
        let is_remote = ask.is_remote();
        let unleased = if is_remote { self.terms.unleased_remote() } else { self.terms.unleased() };
        let quota = (refill.quota - unleased).saturating_sub(owed);
        let is_crowded = self.ledger.crowded_us > now_us;
        let quota = if is_crowded { quota / 2 } else { quota };
        let wanted = others.wanted(ask.demand, quota);
        let is_cold = !is_remote && u64::from(ask.demand) < self.terms.leased_min();
        let mut share = if is_cold { 0 } else { wanted.share(ask.demand) };
        if is_crowded {
            // The rate beyond the demand of these holders is left to holders without a place.
            share = share.min(with_headroom(ask.demand.into()));
        }
        // Below the quota, which is below 2^31.
        let rate = share.min(quota.saturating_sub(others.fastest)) as u32;
        let left = self.ledger.leases[index].held;
        let free = self.free(refill, others.to_come);
        let keep = u32::try_from(refill.burst / (wanted.members + 1)).unwrap_or(u32::MAX);
        let ask = &Ask { left, ..*ask };
        let shorter = if is_remote { 0 } else { self.ledger.leases[index].shorter(ask, period_us, now_us) };
        let lump = if is_remote {
            self.remote_lump(free, ask, keep)
        } else {
            self.lump(free, &wanted, ask, rate, shorter == 0)
        };
        // Without a token in hand a rate this low gathers none, and of a few tokens too much is
        // lost in parts. So the burst has it, for whichever holder asks next.
        let is_worthless = rate >> shorter < TRICKLE_MIN || (left + lump == 0 && self.is_too_slow(rate));
        let rate = if is_worthless && !is_remote { 0 } else { rate };
        // A spot grant is spent as soon as it is granted. Its holder still counts as a member for a
        // period.
        let is_spot = is_cold && left == 0 && u64::from(lump) <= ask.need;
        let ttl_us = if is_remote {
            micros_of(ask.lifetime.min(LIFETIME_MAX))
        } else {
            period_us
                >> if is_spot {
                    0
                } else if is_cold {
                    2
                } else {
                    shorter
                }
        };
        self.hold_up(others.outstanding(period_us) + u64::from(left));
        let lease = &mut self.ledger.leases[index];
        (lease.rate, lease.until_us, lease.seq, lease.demand) = (rate, now_us + ttl_us, ask.seq, ask.demand);
        let to_come = lease.to_come(now_us.max(self.ledger.at_us));
        self.debit_parts(to_come);

        self.debit(lump.into());
        let (spent, since_us) = (self.ledger.spent, self.paid_from());
        let lease = &mut self.ledger.leases[index];
        (lease.lump, lease.spent, lease.since_us) = (lump, spent, since_us);
        let had = left + lump;
        if is_spot {
            self.ledger.spent = spent.wrapping_add(lump);
        } else {
            lease.held = had;
        }
        let lease = &self.ledger.leases[index];
        let held = lease.held;
        let all = others.with(lease, now_us, since_us);
        self.hold_up(all.outstanding(period_us));

        // While less than a sixteenth of the burst, or of the refill of a period, is left, no
        // holder gets a delay.
        let free = self.free(refill, all.to_come);
        let is_scarce = wanted.is_scarce() && free <= (refill.burst / AGAIN).min(quota / AGAIN);
        let again = match ask.need.saturating_sub(had.into()) {
            // Others still have what this one is due.
            _ if u64::from(rate) + share / 8 < share && shorter > 0 => SPACING,
            _ if u64::from(rate) + share / 8 < share => Duration::from_micros(period_us / AGAIN).max(SPACING),
            // Tokens in hand are of use by and by; only a holder with nothing has to ask again.
            _ if is_remote && had > 0 => Duration::ZERO,
            0 if rate > 0 && is_scarce && shorter == 0 => SPACING,
            0 => Duration::ZERO,
            // Other holders will soon have returned or taken tokens.
            _ if wanted.members > 1 => SPACING,
            _ => RECHECK,
        };
        Grant {
            lump,
            held,
            rate,
            ttl: Duration::from_micros(ttl_us),
            keep,
            members: u32::try_from(wanted.members).unwrap_or(u32::MAX),
            is_scarce,
            again,
            ..self.nothing(ask, 0)
        }
    }

    /// Whether a rate never gathers one token in the time that it may gather for.
    fn is_too_slow(&self, rate: u32) -> bool {
        u64::from(rate) * micros_of(DEPTH) < self.terms.period_us
    }

    /// The tokens that the holder gets from the burst: the cost of the waiting requests, if there
    /// is enough for the first of them, or the tokens worth having ahead. Those are a small part of
    /// the free tokens, the demand beyond its rate, and, where few requests come and no other
    /// holder is known, the demand of the next moment.
    fn lump(&self, free: u64, wanted: &Wanted, ask: &Ask, rate: u32, is_settled: bool) -> u32 {
        let left = u64::from(ask.left);
        let is_cold = u64::from(ask.demand) < self.terms.leased_min();
        let soon = if wanted.members == 1 || !is_cold { ask.demand / PREFETCH } else { 0 };
        let soon = if ask.need > 0 { u64::from(soon).max(free / FREE_PART) } else { 0 };
        let beyond = ask.demand.saturating_sub(rate).max(u32::from(self.is_too_slow(rate)));
        let ahead = if is_cold { soon } else { soon.max(beyond.into()) };
        // An equal part, and one for the next that comes. Where all have their shares, what is left
        // over is not worth an ask by each.
        let parts = if wanted.is_scarce() && is_settled { 2 } else { wanted.members + 1 };
        let lump = ahead.saturating_sub(left).min(free / parts);
        let lump = lump.max(needed(ask, left, free));
        lump.min(self.terms.lent_max().saturating_sub(left)) as u32
    }

    /// The tokens that a remote holder gets from the burst: what it lacks of what it wants in hand,
    /// up to an equal part with one for the next that comes.
    fn remote_lump(&self, free: u64, ask: &Ask, keep: u32) -> u32 {
        let need = ask.need.min(u64::from(keep.max(1)));
        let lump = need.saturating_sub(ask.left.into()).min(free);
        lump.min(self.terms.lent_max().saturating_sub(ask.left.into())) as u32
    }

    /// Forgets the demand of the other leases of a remote holder's member when the holder is new:
    /// the peer has come back by another stream, and wants what it wants once. Whether there was
    /// any.
    fn count_once(&mut self, ask: &Ask) -> bool {
        let member = ask.holder.member;
        let counts = |lease: &Lease| lease.holder.member == member && lease.demand > 0;
        if self.find(ask.holder).is_ok() || !self.ledger.leases.iter().any(counts) {
            return false;
        }
        self.ledger.leases.iter_mut().filter(|lease| counts(lease)).for_each(|lease| lease.demand = 0);
        true
    }

    /// Lets a remote holder take over the leases of its member that were not renewed in time: the
    /// peer that spends by them has come back by another stream, or has gone. Whether there were
    /// any. The record has been drained to now, as tokens in hand hold `used` up until then.
    ///
    /// Their tokens in hand count as spent. Their rates count on until they end, or until the
    /// holder says that its own grant has arrived, which then takes their place.
    fn replace(&mut self, ask: &Ask) -> bool {
        let (now_us, holder) = (self.now_us, ask.holder);
        let is_stale = |lease: &Lease| {
            lease.holder.member == holder.member
                && lease.holder != holder
                && lease.since_us.saturating_add(micros_of(REPLACED_AFTER)) <= now_us
        };
        if !self.ledger.leases.iter().any(is_stale) {
            return false;
        }
        let since_us = self.paid_from();
        let (mut rate, mut until_us, mut parts, mut spent) = (0_u64, 0, 0_u64, self.ledger.spent);
        self.ledger.leases.retain(|lease| {
            let is_stale = is_stale(lease);
            if is_stale {
                rate += lease.fastest(now_us);
                until_us = until_us.max(lease.ends_us().1);
                parts = parts.saturating_add(lease.to_come(since_us));
                spent = spent.wrapping_add(lease.held);
            }
            !is_stale
        });
        self.ledger.spent = spent;
        let index = self.find(holder).unwrap_or_else(|index| {
            self.ledger.leases.add(index, Lease::begin(ask, spent, since_us));
            index
        });
        let own = &mut self.ledger.leases[index];
        parts = parts.saturating_add(own.to_come(since_us));
        if own.prior_rate == 0 || own.prior_until_us <= now_us {
            (own.prior_rate, own.prior_until_us) = (0, 0);
        }
        own.prior_rate = own.prior_rate.max(u32::try_from(rate).unwrap_or(u32::MAX));
        own.prior_until_us = own.prior_until_us.max(until_us);
        // Two rates until two ends count for more than was debited, and two for the same peer for
        // less, as it spends by one of them.
        let to_come = own.to_come(since_us);
        self.debit_parts(to_come.saturating_sub(parts));
        self.credit_parts(parts.saturating_sub(to_come));
        true
    }

    /// The answer to a holder that finds no place: what waits, to be spent at once and not
    /// recorded.
    fn spot(&mut self, refill: &Refill, ask: &Ask, all: &Sums) -> Grant {
        self.ledger.crowded_us = self.now_us + self.terms.period_us;
        let most = self.free(refill, all.to_come).min(self.terms.lent_max());
        let lump = needed(ask, 0, most) as u32;
        let fits = u64::from(lump) >= ask.need;
        self.debit(lump.into());
        self.ledger.spent = self.ledger.spent.wrapping_add(lump);
        let turn = (ask.holder.member % SPOT_TURNS + u64::from(ask.holder.incarnation)) % SPOT_TURNS;
        let wait_us = self.terms.period_us * (SPOT_AGAIN + turn) / 32;
        let again = if fits { Duration::ZERO } else { Duration::from_micros(wait_us) };
        Grant { lump, again, ttl: self.terms.period(), ..self.nothing(ask, 0) }
    }

    /// Only when planted: what was given back is credited once more.
    pub(super) fn credit_again(&mut self, ask: &Ask, is_heard: bool) {
        if is_heard && self.terms.has(Fault::ReturnAppliedTwice) {
            self.credit(ask.returned.into());
        }
    }
}

/// Tokens for the requests that wait, of those that are free: for all of them or as many as there
/// are, and none where there are too few for the first.
pub(super) fn needed(ask: &Ask, left: u64, free: u64) -> u64 {
    if ask.need_min > left.saturating_add(free) { 0 } else { ask.need.saturating_sub(left).min(free) }
}

const fn micros_of(span: Duration) -> u64 {
    span.as_micros() as u64
}
