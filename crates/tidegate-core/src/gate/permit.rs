//! The permit of an admitted request.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use smallvec::SmallVec;

use super::Gate;
use super::charge::{Charge, ChargeKind, SlotCharge};
use crate::algorithm::Algorithm;
use crate::cost::Cost;
use crate::limit::WorkEnd;
use crate::table::{KeyTable, SpecPin};
use crate::time::Timestamp;

/// Charges that a permit keeps in place; more are on the heap.
pub(super) const FEW_LIMITS: usize = 3;

/// The charges of an admitted request.
///
/// Dropping it releases its places under concurrency limits. Units of rates and quotas stay spent,
/// unless the permit is handed to [`Gate::take_back`] or [`Gate::settle`].
///
/// ```
/// # use tidegate_core::{Cost, Gate, Limit, Timestamp};
/// let now = Timestamp::from_secs(1_800_000_000);
/// let gate = Gate::builder("api").limit(Limit::concurrency("parallel", 1, "30s")?).build()?;
/// let permit = gate.check((), Cost::ONE, now).into_result()?;
/// assert!(!gate.check((), Cost::ONE, now).is_admit());
/// drop(permit);
/// assert!(gate.check((), Cost::ONE, now).is_admit());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping a permit gives back its place under concurrency limits"]
pub struct Permit {
    at: Timestamp,
    cost: Cost,
    /// One for each limit that matched, in the order of the policy.
    charges: SmallVec<[Charge; FEW_LIMITS]>,
    /// Additional data of the charges to rings and permits, in the same order. Most permits have
    /// none, and few have more than one.
    slot_charges: SmallVec<[SlotCharge; 1]>,
    /// Set only while a permit of a concurrency limit is held, so that other requests share nothing
    /// with each other.
    lender: Option<Arc<KeyTable>>,
}

/// The status of one limit after a request was admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitStatus<'a> {
    /// The name of the limit.
    pub name: &'a str,
    /// The largest number of units it admits at once.
    pub limit: u64,
    /// Units left.
    pub remaining: u64,
    /// When nothing is used any more, if nothing else is charged.
    pub reset_at: Timestamp,
    /// The span it counts over; `None` for concurrency.
    pub window: Option<Duration>,
    /// The IANA name of the time zone of its civil windows; `None` for limits without.
    pub civil_zone: Option<&'a str>,
    /// Whether it is a shadow limit that would have refused the request.
    pub shadow_refused: bool,
    /// When the block of the key ends, as far as a report or a peek found one; `None` after an
    /// admission.
    pub blocked_until: Option<Timestamp>,
}

impl Permit {
    /// A permit that holds nothing: no limit was charged.
    pub fn without_charges(cost: Cost, at: Timestamp) -> Self {
        Self::new(cost, at)
    }

    #[inline]
    pub(super) fn new(cost: Cost, at: Timestamp) -> Self {
        Self { at, cost, charges: SmallVec::new(), slot_charges: SmallVec::new(), lender: None }
    }

    #[inline]
    pub(super) fn from_charge(charge: Charge, cost: Cost, at: Timestamp) -> Self {
        let mut charges = SmallVec::new();
        charges.push(charge);
        Self { at, cost, charges, slot_charges: SmallVec::new(), lender: None }
    }

    /// A permit with the first `count` of these charges.
    #[inline]
    pub(super) fn from_charges(
        (charges, count): ([Charge; FEW_LIMITS], usize),
        cost: Cost,
        at: Timestamp,
    ) -> Self {
        let charges = SmallVec::from_buf_and_len(charges, count);
        Self { at, cost, charges, slot_charges: SmallVec::new(), lender: None }
    }

    #[inline]
    pub(super) fn push(&mut self, charge: Charge) {
        self.charges.push(charge);
    }

    /// Adds what belongs to the last charge beside its word, if it has more.
    #[inline]
    pub(super) fn push_slot_charge(&mut self, slot_charge: Option<SlotCharge>) {
        if let Some(slot_charge) = slot_charge {
            self.slot_charges.push(slot_charge);
        }
    }

    fn lends(&self) -> bool {
        self.slot_charges.iter().any(|slot_charge| matches!(slot_charge, SlotCharge::Permit { .. }))
    }

    /// Keeps the table alive while a permit of a concurrency limit is held.
    #[inline]
    pub(super) fn hold_permits_of(&mut self, table: &Arc<KeyTable>) {
        if self.lends() {
            self.lender = Some(Arc::clone(table));
        }
    }

    /// The cost that was charged to each limit.
    pub fn cost(&self) -> Cost {
        self.cost
    }

    /// When the request was admitted.
    pub fn admitted_at(&self) -> Timestamp {
        self.at
    }

    /// Whether it holds a place under a concurrency limit, which should be released when the work
    /// is done.
    pub fn must_be_settled(&self) -> bool {
        self.lender.is_some()
    }

    /// The [keys](super::CounterPlace::key) of the counters that were charged.
    pub fn keys(&self) -> impl Iterator<Item = u64> + '_ {
        self.charges.iter().map(|charge| charge.key.0)
    }

    /// The [keys](super::CounterPlace::key) of the concurrency limits that lent a permit.
    pub fn lent_keys(&self) -> impl Iterator<Item = u64> + '_ {
        let mut slot_charges = self.slot_charges.iter();
        let beside_of = move |charge: &Charge| match charge.kind {
            ChargeKind::SlotCharge => slot_charges.next(),
            _ => None,
        };
        let mut beside_of = beside_of;
        let lent = self
            .charges
            .iter()
            .filter(move |charge| matches!(beside_of(charge), Some(SlotCharge::Permit { .. })));
        lent.map(|charge| charge.key.0)
    }

    pub(super) fn take_back_from(&mut self, table: &KeyTable, now: Timestamp) {
        self.lender = None;
        for charge in self.charges.drain(..).rev() {
            if charge.kind == ChargeKind::SlotCharge {
                let slot_charge = self.slot_charges.pop();
                slot_charge.expect("pushed together with its charge").take_back(table, charge.key, now);
            }
            charge.take_back(table, self.cost, now);
        }
    }

    /// Takes back every charge, last one first, as if the request had never come. `table` is the
    /// one of the gate that gave the permit; the gate itself and its limits may be gone, and their
    /// numbers may have changed: then what has not drained is given back.
    pub fn take_back(mut self, table: &KeyTable, now: Timestamp) {
        self.take_back_from(table, now);
    }

    /// Takes over the charges of another permit that the same request was given for other limits.
    pub fn absorb(&mut self, mut other: Self) {
        self.charges.append(&mut other.charges);
        self.slot_charges.append(&mut other.slot_charges);
        if let Some(lender) = other.lender.take() {
            self.lender = Some(lender);
        }
    }

    /// Brings the charges to what the request truly cost: gives back what was charged too much, or
    /// charges the rest whether or not there is room. Permits of concurrency limits are given back
    /// in any case.
    ///
    /// `table` is the one of the gate that gave the permit; the gate itself and its limits may be
    /// gone. Where the numbers have changed since, the counter is brought up to date by the new
    /// ones.
    pub fn settle(self, table: &KeyTable, true_units: u64, now: Timestamp) {
        self.end(table, &WorkEnd { true_units: Some(true_units), ..WorkEnd::default() }, now);
    }

    /// Brings the charges to what the end of the work says, as [`Permit::settle`]. A limit that
    /// gives its charge back on such an end ([`Limit::refund_on`](crate::Limit::refund_on)) is
    /// charged nothing, whatever the request cost.
    pub fn end(mut self, table: &KeyTable, end: &WorkEnd, now: Timestamp) {
        self.end_in_place(table, end, now);
    }

    /// [`Permit::end`] of a permit that stays where it is, since it is large to move. It holds
    /// nothing afterwards: its charges are forgotten, so that they are not settled twice.
    pub fn end_in_place(&mut self, table: &KeyTable, end: &WorkEnd, now: Timestamp) {
        for charge in &self.charges {
            let units = if table.is_refunded(charge.refund_on, end) { Some(0) } else { end.true_units };
            if let Some(units) = units {
                charge.settle(table, self.cost, units, now);
            }
        }
        self.charges.clear();
        self.give_back_permits(now);
    }

    /// Gives back the permits of concurrency limits; `false` if there were none or all had expired.
    pub fn release(mut self, now: Timestamp) -> bool {
        self.give_back_permits(now)
    }

    fn give_back_permits(&mut self, now: Timestamp) -> bool {
        let Some(table) = self.lender.take() else { return false };
        let mut any = false;
        for slot_charge in &self.slot_charges {
            any |= slot_charge.give_back(&table, now);
        }
        any
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("cost", &self.cost.units())
            .field("admitted_at", &format_args!("{}", self.at))
            .field("limits", &self.charges.len())
            .finish_non_exhaustive()
    }
}

impl Drop for Permit {
    #[inline]
    fn drop(&mut self) {
        if self.lender.is_some() {
            self.give_back_permits(self.at);
        }
    }
}

impl Gate {
    /// The status of the limits charged by `permit` when it was admitted, in the order of the
    /// policy.
    ///
    /// `permit` must come from this gate; of another gate's permit, also of an earlier gate of the
    /// same namespace, the names are wrong and zones are left out, never the numbers' meaning.
    pub fn statuses<'a>(&'a self, permit: &'a Permit) -> impl Iterator<Item = LimitStatus<'a>> {
        permit.charges.iter().filter_map(|charge| {
            let limit = self.limits.get(usize::from(charge.limit))?;
            let own = self.algorithm_of(limit, charge.spec);
            // The spec of another gate's permit.
            let pin = if own.is_none() { self.table.specs.pin(charge.spec) } else { None };
            let algorithm = own.or_else(|| pin.as_ref().and_then(SpecPin::algorithm))?;
            let name = &limit.limit.name;
            let state = charge.state_after(&self.table);
            Some(LimitStatus {
                name,
                limit: algorithm.limit(),
                remaining: self.table.state_remaining(algorithm, state, permit.at),
                reset_at: self.table.state_resets_at(algorithm, state, permit.at),
                window: algorithm.window(),
                civil_zone: own.and_then(Algorithm::civil_zone),
                shadow_refused: matches!(charge.kind, ChargeKind::ShadowRefused),
                blocked_until: None,
            })
        })
    }

    /// The units left, when it was admitted, of the limit that had the fewest left. [`u64::MAX`] if
    /// no limit was charged. As for [`Gate::statuses`], the permit must come from this gate.
    pub fn remaining(&self, permit: &Permit) -> u64 {
        let enforced = self.statuses(permit).filter(|status| !status.shadow_refused);
        enforced.map(|status| status.remaining).min().unwrap_or(u64::MAX)
    }

    /// Settles a permit with what the request truly cost: see [`Permit::settle`].
    pub fn settle(&self, permit: Permit, true_units: u64, now: Timestamp) {
        permit.settle(&self.table, true_units, now);
    }
}
