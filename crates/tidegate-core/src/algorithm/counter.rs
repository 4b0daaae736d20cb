//! The interface of the algorithms whose state is one word.

use crate::cost::Cost;
use crate::time::Timestamp;

/// The usage of one key under one [`Counter`]: 64 bits whose meaning depends on the algorithm.
///
/// [`State::EMPTY`] (all zero) is the state of a key that was never seen, for every algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct State(u64);

impl State {
    /// Nothing is used.
    pub const EMPTY: Self = Self(0);

    /// The state with these bits, as [`State::to_bits`] gave them.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The bits, for storing.
    pub const fn to_bits(self) -> u64 {
        self.0
    }
}

/// An algorithm's own answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is room.
    Admit,
    /// Not now. At `until`, the first such instant, the same cost is admitted if nothing else is
    /// charged before.
    Wait {
        /// The first instant at which it would be admitted.
        until: Timestamp,
    },
    /// Not ever: the cost is larger than the limit can hold.
    Never {
        /// The largest cost the limit ever admits; 0 if it admits nothing at all.
        largest: u64,
    },
}

/// The answer of an algorithm as far as it takes no division.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// There is room; the state after the charge.
    Enough(State),
    /// There is not, and the wait is no longer than the limit can ask for.
    Lacking,
    /// [`Counter::decide`] must say.
    Unclear,
}

/// A charge that was made, as the gate remembers it to be able to take it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charged {
    /// The state it was made on.
    pub before: State,
    /// The state it left.
    pub after: State,
    /// The cost that was charged.
    pub cost: Cost,
}

/// An algorithm whose whole state is one [`State`] word.
///
/// All methods are pure. `now` may be earlier than in a previous call: a step back never admits
/// more than no step, to within the precision that an algorithm states, but for
/// [`Counter::brought_back`].
pub trait Counter {
    /// Whether `cost` is admitted at `now`, and the state afterwards. Refused means unchanged: on
    /// anything but [`Verdict::Admit`] the state returned is the state given.
    fn decide(&self, state: State, cost: Cost, now: Timestamp) -> (Verdict, State);

    /// Charges `cost` whether or not there is room, as for work that is already done. The debt this
    /// leaves is bounded by [`REPORT_DEBT_LIMITS`] times [`Counter::limit`]; what is above is not
    /// booked.
    fn charge(&self, state: State, cost: Cost, now: Timestamp) -> State;

    /// Gives back `cost` units; never more than are used.
    fn refund(&self, state: State, cost: Cost, now: Timestamp) -> State;

    /// Takes back one charge after others may have been made on top of it.
    ///
    /// If `state` is `charged.after`, the result is `charged.before`, bit for bit. Otherwise the
    /// result never admits more than if the charge had not been made, and admits less only where
    /// the charges on top were made at other instants than the one taken back, by at most what the
    /// limit refills between those instants.
    ///
    /// `now` must be no earlier than the charges on top, and nothing else given back in between.
    /// Where that does not hold, a bucket may give back in addition what refilled in between, never
    /// more than the cost.
    fn undo(&self, state: State, charged: &Charged, now: Timestamp) -> State;

    /// The largest number of units that can be admitted at once (burst, or units of a window).
    fn limit(&self) -> u64;

    /// Units used at `now`, rounded up; above [`Counter::limit`] when in debt.
    fn used(&self, state: State, now: Timestamp) -> u64;

    /// Units left at `now`, rounded down; 0 when in debt.
    fn remaining(&self, state: State, now: Timestamp) -> u64 {
        self.limit().saturating_sub(self.used(state, now))
    }

    /// The first instant at which nothing is used any more, if nothing else is charged; `now` if
    /// nothing is.
    fn reset_at(&self, state: State, now: Timestamp) -> Timestamp;

    /// The first instant at which [`Counter::is_drained`] holds, if nothing else is charged; `now`
    /// if it does. Later than [`Counter::reset_at`] for an empty window that lies ahead, after the
    /// clock stepped back.
    fn drained_at(&self, state: State, now: Timestamp) -> Timestamp {
        self.reset_at(state, now)
    }

    /// Whether at `now` the state has the same future as [`State::EMPTY`].
    fn is_drained(&self, state: State, now: Timestamp) -> bool;

    /// The state under `self` of a key that had `state` under `from`, the same algorithm with other
    /// numbers: what is used stays used (rounded up), so that a raised limit admits the difference
    /// at once and a lowered one refuses at once. Windows of another length, alignment or civil
    /// unit start fresh.
    fn carry_over(&self, state: State, from: &Self, now: Timestamp) -> State
    where
        Self: Sized;

    /// The state as its owner goes on with it at `now`: as it is, unless it lies further ahead than
    /// this limit could have written by now, which only a clock that went ahead and came back
    /// explains. It is then written, before anything is decided on it.
    ///
    /// The count of a window that begins after the next one is taken for that of the window of now.
    /// A bucket that was charged so far ahead that its next unit would take more than a full drain
    /// is used up now. Its state alone does not say so, as the debt of reports reaches as far:
    /// `charged_at` is the latest instant at which it may have been charged. [`Timestamp::MIN`]
    /// stands for not known; then only what is beyond the largest debt is brought back.
    ///
    /// So such a clock grants one window or burst more, once, and no key waits longer than two
    /// windows; the next unit of a bucket comes within a drain. A state that lies up to one window
    /// ahead, or a drain less a unit, or a second, stays, so that a clock that wanders admits no
    /// more for it.
    #[must_use]
    fn brought_back(&self, state: State, charged_at: Timestamp, now: Timestamp) -> State;
}

/// How many times its own size a limit may be in debt after reports.
pub const REPORT_DEBT_LIMITS: u64 = 100;

/// A number with its eight highest bits kept and what is below them rounded up: at most 1/128
/// larger.
pub(super) const fn rounded_up(number: u64) -> u64 {
    let shift = (u64::BITS - number.leading_zeros()).saturating_sub(8);
    number.div_ceil(1 << shift) << shift
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests;
