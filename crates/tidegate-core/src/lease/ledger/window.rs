//! A window's ledger: tokens lent at once and good until they are spent, returned, or their lease
//! or the window ends.
//!
//! Lent tokens count as used. They come back only when their holder returns them unspent; the
//! tokens of a crashed holder count as spent. So a window is never exceeded, and falls short by at
//! most the tokens that crashed holders had in hand.
//!
//! So that no tokens are idle at one member while another needs them, a grant beyond the waiting
//! requests is at most half an equal share of the rest, and keys with few requests get no such
//! grant. Once less is left than holders may take in two periods, leases are short and holders keep
//! no more than that share, so idle tokens come back within a sixteenth of a period.

use core::time::Duration;

use super::allocation::{Wanted, with_headroom};
use super::bucket::{FREE_PART, needed};
use super::{Lease, LeaseWindow, LedgerStep};
use crate::lease::fault::Fault;
use crate::lease::message::{Ask, Grant};
use crate::lease::{HOLDERS_MAX, PREFETCH, RECHECK, RECHECK_QUOTA, SPACING};

/// A lease lasts so many times less than a period where little is left of a window.
const SHORTER: u64 = 16;

impl LedgerStep<'_> {
    /// Begins the window that lasts now, if the one that was counted has ended.
    pub(super) fn roll(&mut self, window: &LeaseWindow) {
        if self.now_us >= self.ledger.end_us {
            self.movement.drained = self.ledger.used;
            self.ledger.leases.clear();
            (self.ledger.used, self.ledger.end_us) = (0, window.end_us.max(self.now_us + 1));
        }
    }

    pub(super) fn ask_window(&mut self, window: &LeaseWindow, ask: &Ask) -> Option<Grant> {
        self.roll(window);
        let index = match self.find(ask.holder) {
            Ok(index) => {
                let lease = self.ledger.leases[index];
                if ask.seq <= lease.seq {
                    let answer = self.repeat(&lease, ask);
                    self.credit_again(ask, answer.is_some());
                    return answer;
                }
                self.settle_tokens(index, ask);
                Some(index)
            }
            Err(_) if ask.is_leaving => return None,
            Err(index) => self.place(index, ask),
        };
        if ask.is_leaving {
            // It has given everything back, so nothing of it needs to be remembered.
            if let Some(index) = index {
                self.ledger.leases.remove(index);
            }
            return Some(self.nothing(ask, 0));
        }
        Some(self.grant_tokens(window, index, ask))
    }

    /// A place for a holder that has none. When all are taken it takes that of a lease that has
    /// ended, and what that holder had in hand stays used for good; `None` if none has ended.
    fn place(&mut self, index: usize, ask: &Ask) -> Option<usize> {
        let mut index = index;
        if self.ledger.leases.len() >= HOLDERS_MAX {
            let leases = self.ledger.leases.iter().enumerate();
            let (gone, lease) = leases.min_by_key(|(_, lease)| (lease.ends_us().1, lease.held))?;
            if lease.is_alive(self.now_us) {
                return None;
            }
            self.ledger.leases.remove(gone);
            index -= usize::from(gone < index);
        }
        self.ledger.leases.add(index, Lease::begin(ask, self.ledger.spent, self.now_us));
        Some(index)
    }

    /// Takes over what the holder says about its tokens.
    fn settle_tokens(&mut self, index: usize, ask: &Ask) {
        let mut lease = self.ledger.leases[index];
        if ask.acked != lease.seq || ask.epoch != self.ledger.epoch {
            // The last grant was never taken over and never will be: the holder waits for this
            // answer only.
            if lease.was_spot() {
                // A reset may have forgotten it, and then what was spent since is not given back in
                // its place.
                let spent =
                    u64::from(self.ledger.spent.wrapping_sub(lease.spent)).saturating_sub(lease.lump.into());
                self.credit_spent(lease.lump.into(), self.outstanding() + spent);
            } else {
                self.credit(lease.lump.into());
                lease.held -= lease.lump;
            }
        }
        lease.lump = 0;
        let gone = lease.held.saturating_sub(ask.left);
        let returned = ask.returned.wrapping_sub(lease.returned).min(gone);
        self.credit(returned.into());
        self.ledger.spent = self.ledger.spent.wrapping_add(gone - returned);
        self.credit_again(ask, true);
        (lease.returned, lease.unused) = (ask.returned, ask.unused);
        // Tokens neither in hand nor returned were spent. Tokens in hand may be spent until their
        // own lease ends.
        lease.held = ask.left.min(lease.held);
        self.ledger.leases[index] = lease;
    }

    fn grant_tokens(&mut self, window: &LeaseWindow, index: Option<usize>, ask: &Ask) -> Grant {
        let now_us = self.now_us;
        let free = window.limit.saturating_sub(self.ledger.used);
        let wanted = Wanted::new(&self.ledger.leases, index, ask.demand, now_us, 0);
        let half = free / (2 * wanted.members);
        let share = half.max(1);
        // The last units stay in the ledger for asks with a waiting request: no other member could
        // get them from a holder.
        let most_ahead = if ask.need > 0 { share } else { half };
        let left = index.map_or(0, |index| u64::from(self.ledger.leases[index].held));
        let is_cold = u64::from(ask.demand) < self.terms.leased_min();
        let soon = if wanted.members == 1 { ask.demand / PREFETCH } else { 0 };
        let ahead = match (is_cold, ask.need) {
            (true, 0) => 0,
            (true, _) => u64::from(soon).max(free / FREE_PART),
            (false, _) => with_headroom(ask.demand.into()),
        };
        let most = self.terms.lent_max().saturating_sub(left).min(free);
        let mut lump = ahead.saturating_sub(left).min(most_ahead).max(needed(ask, left, free)).min(most);
        if index.is_none() {
            lump = needed(ask, 0, most);
        }
        // A spot grant is spent as soon as it is granted.
        let is_spot = is_cold && left == 0 && lump <= ask.need && index.is_some();
        let is_scarce = free - lump < 2 * with_headroom(wanted.total);
        let period_us = if is_scarce { self.terms.period_us / SHORTER } else { self.terms.period_us };
        let mut ttl_us = period_us.min(self.ledger.end_us - now_us);
        if self.terms.has(Fault::WindowEndIgnored) {
            ttl_us = self.terms.period_us;
        }
        self.debit(lump);
        // At most what is lent at all, below 2^31.
        let lump = lump as u32;
        let served = u64::from(lump) + left >= ask.need;
        let mut grant = Grant {
            lump,
            keep: u32::try_from(share).unwrap_or(u32::MAX),
            members: u32::try_from(wanted.members).unwrap_or(u32::MAX),
            is_scarce,
            again: if served { Duration::ZERO } else { self.again(index) },
            gone: self.gone(index),
            ttl: Duration::from_micros(ttl_us),
            ..self.nothing(ask, 0)
        };
        if let Some(index) = index {
            let lease = &mut self.ledger.leases[index];
            (lease.prior_rate, lease.prior_until_us) = (0, lease.until_us.max(lease.prior_until_us));
            (lease.lump, lease.seq, lease.demand) = (lump, ask.seq, ask.demand);
            (lease.until_us, lease.since_us, lease.spent) = (now_us + ttl_us, now_us, self.ledger.spent);
            if is_spot {
                self.ledger.spent = self.ledger.spent.wrapping_add(lump);
            } else {
                lease.held += lump;
                grant.held = lease.held;
            }
        }
        grant
    }

    /// The tokens of other holders whose lease has ended without a report of what they spent.
    fn gone(&self, own: Option<usize>) -> u64 {
        let leases = self.ledger.leases.iter().enumerate();
        let gone = leases.filter(|(index, lease)| Some(*index) != own && !lease.is_alive(self.now_us));
        gone.map(|(_, lease)| u64::from(lease.held)).sum()
    }

    /// When tokens may have come back: soon if others have tokens in hand under a lease, later if
    /// only silent holders have tokens, or no holder has, as after a reset.
    fn again(&self, own: Option<usize>) -> Duration {
        let leases = self.ledger.leases.iter().enumerate();
        let mut others = leases.filter(|(index, lease)| Some(*index) != own && lease.held > 0).peekable();
        let left_us = self.ledger.end_us - self.now_us;
        let wait = if others.peek().is_none() && self.terms.is_quota() {
            RECHECK_QUOTA
        } else if others.any(|(_, lease)| lease.is_alive(self.now_us)) {
            SPACING
        } else {
            RECHECK
        };
        wait.min(Duration::from_micros(left_us)).max(SPACING)
    }
}
