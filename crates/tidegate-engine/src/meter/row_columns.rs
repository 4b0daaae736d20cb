//! The columns of a row: whole numbers that only additions change, so that their order is of no
//! account.

use tidegate_core::{Class, RequestOutcome};

/// The counts of requests: by outcome, those that repeat an attempt, and those under way.
pub(crate) const COUNTS: usize = RequestOutcome::ALL.len() + 2;

/// The position of repeated requests among the counts.
pub(crate) const REPEATED: usize = RequestOutcome::ALL.len();

/// The position of requests under way among the counts.
pub(crate) const UNDER_WAY: usize = RequestOutcome::ALL.len() + 1;

/// An amount from which on it is added to the rows at once, and a sum from which on it is flushed.
/// 250 threads may each add one more amount meanwhile.
pub(crate) const LARGE: u64 = 1 << 56;

/// An amount that requests add up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowAmount {
    /// Units at admission.
    Units,
    /// Units of refused requests.
    RefusedUnits,
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
    /// Requests that Envoys report as admitted.
    ReportedAdmitted,
    /// Requests that Envoys report as denied.
    ReportedDenied,
}

impl RowAmount {
    /// How many there are.
    pub(crate) const COUNT: usize = 12;

    /// The amount that the units of a decided request are added to; `None` if they do not count.
    #[inline]
    pub(crate) const fn of_outcome(outcome: RequestOutcome) -> Option<Self> {
        match outcome {
            RequestOutcome::Admitted => Some(Self::Units),
            refusal if refusal.is_refusal() => Some(Self::RefusedUnits),
            _ => None,
        }
    }
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

    /// A column by its position, counts first.
    const fn number(&self, column: usize) -> u64 {
        if column < COUNTS { self.counts[column] } else { self.amounts[column - COUNTS] }
    }

    const fn number_mut(&mut self, column: usize) -> &mut u64 {
        if column < COUNTS { &mut self.counts[column] } else { &mut self.amounts[column - COUNTS] }
    }

    pub(crate) const fn amount(&self, amount: RowAmount) -> u64 {
        self.amounts[amount as usize]
    }
}

/// How many columns there are, counts first.
const COLUMNS: usize = COUNTS + RowAmount::COUNT;

/// The columns of a row by class. A number takes memory from the first time on that it is not zero:
/// most rows have few of them.
#[derive(Debug, Default)]
pub(crate) struct ClassColumns {
    /// The numbers of each class that are there: one bit each, the first column the lowest.
    present: [u32; 4],
    /// By class, and by column.
    numbers: Box<[u64]>,
}

impl ClassColumns {
    /// Adds to the columns of a class.
    pub(crate) fn add(&mut self, class: Class, more: &RowColumns) {
        let needed =
            (0..COLUMNS).filter(|column| more.number(*column) != 0).fold(0, |bits, one| bits | 1 << one);
        if needed & !self.present[class as usize] != 0 {
            self.grow(class, needed);
        }
        let mut sum = self.of_class(class);
        sum.add(more);
        self.write(class, &sum);
    }

    /// The columns of a class; zeros where it has no request.
    pub(crate) fn of_class(&self, class: Class) -> RowColumns {
        let mut columns = RowColumns::default();
        for (column, at) in self.places(class) {
            *columns.number_mut(column) = self.numbers[at];
        }
        columns
    }

    /// The classes that are there, with their columns.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Class, RowColumns)> {
        let there = Class::ALL.into_iter().filter(|class| self.present[*class as usize] != 0);
        there.map(|class| (class, self.of_class(class)))
    }

    /// The bytes behind it.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.numbers)
    }

    /// Makes room for numbers of a class. One allocation just fits for all.
    fn grow(&mut self, class: Class, needed: u32) {
        let all = Class::ALL.map(|class| (class, self.of_class(class)));
        self.present[class as usize] |= needed;
        let count: u32 = self.present.iter().map(|bits| bits.count_ones()).sum();
        self.numbers = vec![0; count as usize].into_boxed_slice();
        for (class, columns) in all {
            self.write(class, &columns);
        }
    }

    fn write(&mut self, class: Class, columns: &RowColumns) {
        for (column, at) in self.places(class) {
            self.numbers[at] = columns.number(column);
        }
    }

    /// The columns of a class that are there, with their positions among all numbers.
    fn places(&self, class: Class) -> impl Iterator<Item = (usize, usize)> + use<> {
        let before: u32 = self.present[..class as usize].iter().map(|bits| bits.count_ones()).sum();
        let present = self.present[class as usize];
        (0..COLUMNS).filter(move |column| present & 1 << column != 0).zip(before as usize..)
    }
}
