//! The admission cursor of one namespace: a position in each class.

use core::fmt;

use tidegate_core::Class;

use crate::cursor::{COHORTS, Cursor, RequestLevel};

/// The lowest cohort of each class that is still served; 0: all are, [`COHORTS`]: none is. Sixteen
/// bits for each class, the first of [`Class::ALL`] in the lowest.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct NamespaceCursor(u64);

/// The cursor of a namespace after a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NamespacePosition {
    pub(crate) slot: usize,
    pub(crate) cursor: NamespaceCursor,
    /// The cohort of each class below which the requests that the cursor lets in are marginal.
    pub(crate) marginal: NamespaceCursor,
}

impl NamespaceCursor {
    /// All requests are served.
    pub(crate) const OPEN: Self = Self(0);

    /// The cohorts of the classes in the order of [`Class::ALL`].
    pub(crate) fn new(cohorts: [u16; Class::ALL.len()]) -> Self {
        Self(cohorts.iter().rev().fold(0, |bits, cohort| bits << 16 | u64::from(*cohort)))
    }

    /// The positions of a cursor that holds for all classes: levels below it are shed.
    pub(crate) fn from_cursor(cursor: Cursor) -> Self {
        Self::new(Class::ALL.map(|class| cursor.level().saturating_sub(class as u16 * COHORTS).min(COHORTS)))
    }

    /// The positions in one word.
    #[inline]
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(crate) const fn to_bits(self) -> u64 {
        self.0
    }

    /// The lowest cohort of a class that is served.
    #[inline]
    pub(crate) const fn cohort(self, class: Class) -> u16 {
        (self.0 >> (16 * class as u32)) as u16
    }

    /// Whether a request is shed.
    #[inline]
    pub(crate) const fn sheds(self, level: RequestLevel) -> bool {
        level.cohort() < self.cohort(level.class())
    }

    /// The position in a class.
    pub(crate) fn position(self, class: Class) -> Cursor {
        match self.cohort(class) {
            0 => Cursor::OPEN,
            cohort => Cursor::at(class as u16 * COHORTS + cohort),
        }
    }

    /// The position in the most important class of which requests are shed.
    pub(crate) fn highest(self) -> Cursor {
        Class::ALL.into_iter().map(|class| self.position(class)).max().unwrap_or(Cursor::OPEN)
    }
}

impl fmt::Debug for NamespaceCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NamespaceCursor").field(&Class::ALL.map(|class| self.cohort(class))).finish()
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_of_all_classes_sheds_whole_classes_below_it() {
        let cursor = NamespaceCursor::from_cursor(Cursor::at(2 * COHORTS + 40));
        assert_eq!(cursor, NamespaceCursor::new([COHORTS, COHORTS, 40, 0]));
        assert_eq!(cursor.highest(), Cursor::at(2 * COHORTS + 40));
        assert_eq!(cursor.position(Class::Sheddable), Cursor::at(COHORTS));
        assert_eq!(cursor.position(Class::CriticalPlus), Cursor::OPEN);
        assert_eq!(NamespaceCursor::from_cursor(Cursor::OPEN), NamespaceCursor::OPEN);
        assert_eq!(
            NamespaceCursor::from_cursor(Cursor::CLOSED),
            NamespaceCursor::new([COHORTS, COHORTS, COHORTS, 0])
        );
    }

    #[test]
    fn the_positions_are_the_same_after_they_were_one_word() {
        for cursor in [
            NamespaceCursor::OPEN,
            NamespaceCursor::new([1, 2, 3, 128]),
            NamespaceCursor::new([128, 0, 77, 0]),
        ] {
            assert_eq!(NamespaceCursor::from_bits(cursor.to_bits()), cursor);
        }
    }
}
