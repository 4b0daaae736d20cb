//! The cost of a request, in units of the limit it is charged to.

use core::fmt;
use core::num::NonZeroU64;

/// The weight of a request in units; at least 1, at most `u64::MAX`.
///
/// There is no cost of zero: looking without charging is the operation `peek`.
///
/// ```
/// # use tidegate_core::Cost;
/// assert_eq!(Cost::new(3).unwrap().units(), 3);
/// assert!(Cost::new(0).is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost(NonZeroU64);

impl Cost {
    /// One unit, the weight of a plain request.
    pub const ONE: Self = Self(NonZeroU64::MIN);

    /// `units` as a cost, or `None` for zero.
    pub const fn new(units: u64) -> Option<Self> {
        match NonZeroU64::new(units) {
            Some(units) => Some(Self(units)),
            None => None,
        }
    }

    /// The weight in units.
    pub const fn units(self) -> u64 {
        self.0.get()
    }
}

impl Default for Cost {
    fn default() -> Self {
        Self::ONE
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
