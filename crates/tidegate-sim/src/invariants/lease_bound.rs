//! I9: the tokens of leases that have not ended are together at most the table's rate over the
//! longest lease and its depth, for each epoch, and no token is spent after its lease.
//!
//! The checker sees grants, returns and spending, with instants on the clock of the party that
//! acts: the ledger for a grant, the holder for spending.

use std::collections::BTreeMap;

use tidegate_capacity::Units;
use tidegate_core::Timestamp;

use super::invariant::{Invariant, InvariantViolation, Violations};

const NANOS: i128 = 1_000_000_000;

/// The most that may be lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTerms {
    /// The units a second of the table.
    pub rate: Units,
    /// The units that its ledger holds.
    pub depth: Units,
    /// The longest lease in nanoseconds.
    pub ttl_ns_max: u64,
    /// By how much the clock of a holder may go wrong in a lease, in nanoseconds.
    pub drift_ns: u64,
}

/// A grant as the ledger makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseGrant {
    /// The holder.
    pub holder: u64,
    /// The epoch of the ledger.
    pub epoch: u32,
    /// The tokens that the holder may have in hand, those of this grant and of former ones.
    pub held: Units,
    /// Those of this grant.
    pub granted: Units,
    /// Units a second that flow in beside them until the end.
    pub trickle: Units,
    /// When the ledger grants.
    pub at: Timestamp,
    /// When the lease ends by the ledger's clock.
    pub until: Timestamp,
}

#[derive(Clone, Copy, Debug)]
struct RunningLease {
    epoch: u32,
    held: i128,
    trickle: i128,
    until: u64,
    /// The tokens that can be in hand, in billionths of a thousandth, at `at`.
    in_hand: i128,
    at: u64,
}

/// The checker of the leases of one table.
#[derive(Debug)]
pub struct LeaseChecker {
    terms: LeaseTerms,
    leases: BTreeMap<u64, RunningLease>,
    violations: Violations,
}

impl LeaseChecker {
    /// A checker of a table from which nothing is lent.
    pub fn new(terms: LeaseTerms) -> Self {
        Self { terms, leases: BTreeMap::new(), violations: Violations::default() }
    }

    /// The ledger grants a lease, in place of the one that the holder has.
    pub fn grant(&mut self, grant: &LeaseGrant) {
        let LeaseGrant { holder, epoch, .. } = *grant;
        let (at, until) = (grant.at.as_nanos(), grant.until.as_nanos());
        let before = self.leases.get(&holder).filter(|lease| lease.epoch == epoch && lease.until >= at);
        let left = before.map_or(0, |lease| lease.in_hand_at(at));
        let lease = RunningLease {
            epoch,
            held: i128::from(grant.held.as_thousandths()),
            trickle: i128::from(grant.trickle.as_thousandths()),
            until,
            in_hand: left + i128::from(grant.granted.as_thousandths()) * NANOS,
            at,
        };
        self.leases.insert(holder, lease);
        let of_epoch = self.leases.values().filter(|lease| lease.epoch == epoch && lease.until > at);
        let lent_units: i128 =
            of_epoch.map(|lease| lease.held + lease.trickle * i128::from(lease.until - at) / NANOS).sum();
        let flowed = i128::from(self.terms.rate.as_thousandths()) * i128::from(self.terms.ttl_ns_max) / NANOS;
        let most = flowed + i128::from(self.terms.depth.as_thousandths());
        if lent_units > most {
            self.add(
                grant.at,
                format!("{lent_units} thousandths are lent in epoch {epoch}; at most {most} may be"),
            );
        }
        if until.saturating_sub(at) > self.terms.ttl_ns_max {
            self.add(grant.at, format!("holder {holder} has a lease longer than the longest"));
        }
    }

    /// A holder gives tokens back, or all that it has by leaving.
    pub fn give_back(&mut self, holder: u64, units: Units, at: Timestamp) {
        if let Some(lease) = self.leases.get_mut(&holder) {
            let units = i128::from(units.as_thousandths());
            lease.in_hand = lease.in_hand_at(at.as_nanos()) - units * NANOS;
            lease.at = lease.at.max(at.as_nanos());
            lease.held = (lease.held - units).max(0);
        }
    }

    /// A holder spends tokens.
    pub fn spend(&mut self, holder: u64, units: Units, at: Timestamp) {
        let drift = self.terms.drift_ns;
        let Some(lease) = self.leases.get_mut(&holder) else {
            self.add(at, format!("holder {holder}, which has no lease, spends {units} units"));
            return;
        };
        let now = at.as_nanos();
        let until = lease.until.saturating_add(drift);
        lease.in_hand =
            lease.in_hand_at(now.saturating_add(drift)) - i128::from(units.as_thousandths()) * NANOS;
        lease.at = lease.at.max(now.saturating_add(drift));
        let is_overdrawn = lease.in_hand < 0;
        if now > until {
            self.add(at, format!("holder {holder} spends {units} units after the end of its lease"));
        } else if is_overdrawn {
            self.add(at, format!("holder {holder} spends {units} units more than it was granted"));
        }
    }

    /// The violations so far.
    pub const fn violations(&self) -> &Violations {
        &self.violations
    }

    fn add(&mut self, at: Timestamp, what: String) {
        let invariant = Invariant::LeaseBound;
        self.violations.add(invariant, || InvariantViolation { invariant, at, table: None, what });
    }
}

impl RunningLease {
    /// The tokens that can be in hand at `now`: the trickle flows until the end.
    fn in_hand_at(&self, now: u64) -> i128 {
        let flows = now.min(self.until).saturating_sub(self.at);
        self.in_hand + self.trickle * i128::from(flows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 units a second, 800 in the ledger, leases of at most 10 s.
    fn checker() -> LeaseChecker {
        let (rate, depth) = (Units::whole(100), Units::whole(800));
        LeaseChecker::new(LeaseTerms { rate, depth, ttl_ns_max: 10_000_000_000, drift_ns: 1_000_000 })
    }

    fn grant(holder: u64, held: u64, trickle: u64, second: u64) -> LeaseGrant {
        LeaseGrant {
            holder,
            epoch: 1,
            held: Units::whole(held),
            granted: Units::whole(held),
            trickle: Units::whole(trickle),
            at: Timestamp::from_secs(second),
            until: Timestamp::from_secs(second + 10),
        }
    }

    #[test]
    fn leases_within_the_rate_and_the_depth_pass_and_one_unit_more_is_found() {
        let mut checker = checker();
        checker.grant(&grant(1, 500, 60, 0));
        checker.grant(&grant(2, 300, 40, 0));
        // One that has ended counts no more.
        checker.grant(&grant(1, 500, 60, 10));
        checker.grant(&grant(2, 300, 40, 10));
        assert_eq!(checker.violations().kept(), []);
        checker.grant(&grant(3, 1, 0, 10));
        assert_eq!(checker.violations().count(Invariant::LeaseBound), 1);
        // Another epoch has a ledger of its own.
        checker.grant(&LeaseGrant { epoch: 2, ..grant(3, 1000, 0, 10) });
        assert_eq!(checker.violations().count(Invariant::LeaseBound), 1);
    }

    #[test]
    fn tokens_that_were_not_granted_or_have_ended_are_found_when_they_are_spent() {
        let mut checker = checker();
        checker.grant(&grant(1, 5, 1, 0));
        checker.spend(1, Units::whole(7), Timestamp::from_secs(2));
        checker.spend(1, Units::whole(8), Timestamp::from_secs(10));
        assert_eq!(checker.violations().kept(), []);
        checker.spend(1, Units::whole(1), Timestamp::from_secs(10));
        checker.spend(1, Units::ZERO, Timestamp::from_secs(11));
        checker.spend(2, Units::whole(1), Timestamp::from_secs(1));
        let found: Vec<_> = checker.violations().kept().iter().map(|one| one.what.as_str()).collect();
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].contains("more than it was granted") && found[1].contains("after the end"));
        checker.grant(&grant(3, 5, 0, 20));
        checker.give_back(3, Units::whole(2), Timestamp::from_secs(21));
        checker.spend(3, Units::whole(4), Timestamp::from_secs(21));
        assert_eq!(checker.violations().count(Invariant::LeaseBound), 4);
    }
}
