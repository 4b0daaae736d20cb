//! The columns of a row: whole numbers that only additions change, so that their order is of no
//! account.

use tidegate_core::{Class, RequestOutcome};

/// The counts of requests: by outcome, those that repeat an attempt, and those under way.
pub(crate) const COUNTS: usize = RequestOutcome::ALL.len() + 2;

/// The position of repeated requests among the counts.
pub(crate) const REPEATED: usize = RequestOutcome::ALL.len();

/// The position of requests under way among the counts.
pub(crate) const UNDER_WAY: usize = RequestOutcome::ALL.len() + 1;

/// An amount that requests add up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowAmount {
    /// Units at admission.
    Units,
    /// Units of admissions that were undone.
    UnitsUndone,
    /// Units of settled requests as they were.
    TrueUnits,
    /// Nanoseconds in flight.
    PlaceTime,
    /// Nanoseconds before the decision.
    Wait,
    /// Units of reports.
    Reported,
    /// Units of refunds.
    Refunded,
    /// Units that settlements added.
    SettledMore,
    /// Units that settlements gave back.
    SettledLess,
}

impl RowAmount {
    /// How many there are.
    pub(crate) const COUNT: usize = 9;
}

/// The sums of some requests.
///
/// Counts of requests are added modulo 2^64: a part may be negative (an admission that is undone),
/// their sum never is. Amounts saturate at `u64::MAX` and stay there, so that a sum is the same
/// whichever parts are added first. Units that are taken away again are an amount of their own for
/// the same reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RowColumns {
    pub(crate) counts: [u64; COUNTS],
    pub(crate) amounts: [u64; RowAmount::COUNT],
}

impl RowColumns {
    /// Adds what `others` have counted.
    pub(crate) fn add(&mut self, others: &Self) {
        for (count, other) in self.counts.iter_mut().zip(others.counts) {
            *count = count.wrapping_add(other);
        }
        for (amount, other) in self.amounts.iter_mut().zip(others.amounts) {
            *amount = amount.saturating_add(other);
        }
    }

    pub(crate) const fn amount(&self, amount: RowAmount) -> u64 {
        self.amounts[amount as usize]
    }
}

/// The columns of a row by class. A class takes memory from its first request on.
#[derive(Debug, Default)]
pub(crate) struct ClassColumns {
    /// The position of each class in `columns`, plus one; zero for a class that is not there.
    positions: [u8; 4],
    columns: Box<[RowColumns]>,
}

impl ClassColumns {
    /// Adds to the columns of a class.
    pub(crate) fn add(&mut self, class: Class, more: &RowColumns) {
        let position = &mut self.positions[class as usize];
        if *position == 0 {
            // One allocation that just fits for all classes that are there: most rows have one.
            let grown: Vec<RowColumns> =
                self.columns.iter().copied().chain([RowColumns::default()]).collect();
            self.columns = grown.into_boxed_slice();
            *position = self.columns.len() as u8;
        }
        self.columns[usize::from(*position) - 1].add(more);
    }

    /// The columns of a class; zeros where it has no request.
    pub(crate) fn of_class(&self, class: Class) -> RowColumns {
        match self.positions[class as usize] {
            0 => RowColumns::default(),
            position => self.columns[usize::from(position) - 1],
        }
    }

    /// The classes that are there, with their columns.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Class, &RowColumns)> {
        Class::ALL.into_iter().filter_map(|class| match self.positions[class as usize] {
            0 => None,
            position => Some((class, &self.columns[usize::from(position) - 1])),
        })
    }

    /// The bytes behind it.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.columns)
    }
}
