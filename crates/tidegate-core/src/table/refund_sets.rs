//! The endings on which limits give their charges back, as charges name them.
//!
//! A charge is settled long after it was made, when its limit may be gone. So it carries the number
//! of its limit's [`RefundOn`], which is one byte, and the table keeps what the number stands for.

use std::sync::OnceLock;

use crate::limit::{Outcome, RefundOn};
use crate::sync::{Mutex, lock};

/// The number of a set of endings; 0 is the empty set, which gives nothing back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RefundSet(u8);

impl RefundSet {
    /// Whether it gives nothing back.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// All sets that limits of a table have had. None is ever taken out.
#[derive(Debug, Default)]
pub(crate) struct RefundSets {
    sets: OnceLock<Box<[OnceLock<RefundOn>]>>,
    /// Held while a set is added.
    adding: Mutex<()>,
}

impl RefundSets {
    /// The most distinct sets of a table, from its beginning to its end.
    pub(crate) const MAX: usize = u8::MAX as usize;

    /// The number of a set; `None` when [`RefundSets::MAX`] others have one.
    pub(crate) fn intern(&self, set: &RefundOn) -> Option<RefundSet> {
        if set.is_empty() {
            return Some(RefundSet::default());
        }
        let _adding = lock(&self.adding);
        let sets = self.sets.get_or_init(|| (0..Self::MAX).map(|_| OnceLock::new()).collect());
        let at = sets.iter().position(|known| known.get().is_none_or(|known| known == set))?;
        sets[at].get_or_init(|| set.clone());
        u8::try_from(at + 1).ok().map(RefundSet)
    }

    /// The endings of that set.
    pub(crate) fn get(&self, set: RefundSet) -> Option<&RefundOn> {
        let at = usize::from(set.0).checked_sub(1)?;
        self.sets.get()?.get(at)?.get()
    }

    /// Whether work that ended so gives the charges of that set back.
    #[inline]
    pub(crate) fn contains(&self, set: RefundSet, outcome: Outcome, status: Option<u16>) -> bool {
        !set.is_empty() && self.get(set).is_some_and(|set| set.contains(outcome, status))
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    #[test]
    fn equal_sets_share_a_number_and_one_too_many_gets_none() {
        let sets = RefundSets::default();
        let set = |status: usize| RefundOn::parse([(status + 100).to_string().as_str()]).unwrap();
        assert_eq!(sets.intern(&RefundOn::default()), Some(RefundSet(0)));
        for at in 0..RefundSets::MAX {
            let number = sets.intern(&set(at)).unwrap();
            assert_eq!(sets.get(number), Some(&set(at)));
            assert_eq!(sets.intern(&set(at)), Some(number));
        }
        assert_eq!(sets.intern(&set(RefundSets::MAX)), None);
        assert!(sets.contains(RefundSet(1), Outcome::Succeeded, Some(100)));
        assert!(!sets.contains(RefundSet(0), Outcome::Succeeded, Some(100)));
    }
}
