//! From which second on the part of a tenant or namespace may have room, so that one that holds its
//! part of every second is told so at once.

use crate::cursor::hash::keyed_hash;

/// The number of hints.
const HINTS: usize = 1_024;

/// For names and weights that asked lately, the first second that may have room by the part.
///
/// A hint holds until the room or the part changes: sales only take room away. Two askers with the
/// same place in the table replace each other's hint, which costs a search and no mistake.
#[derive(Clone, Debug, Default)]
pub(crate) struct PartHints(Box<[PartHint]>);

#[derive(Clone, Copy, Debug)]
struct PartHint {
    asker: u64,
    second: u64,
}

impl PartHints {
    /// The first second that may have room for a ticket of this weight; 0 if nothing is known.
    pub(crate) fn first(&self, name: [u64; 2], weight: u16) -> u64 {
        let asker = asker_of(name, weight);
        let hint = self.0.get(asker as usize % HINTS);
        hint.filter(|hint| hint.asker == asker).map_or(0, |hint| hint.second)
    }

    /// No second before this one has room for a ticket of this weight.
    pub(crate) fn set(&mut self, name: [u64; 2], weight: u16, second: u64) {
        if self.0.is_empty() {
            self.0 = vec![PartHint { asker: 0, second: 0 }; HINTS].into_boxed_slice();
        }
        let asker = asker_of(name, weight);
        self.0[asker as usize % HINTS] = PartHint { asker, second };
    }

    /// Forgets all hints.
    pub(crate) fn clear(&mut self) {
        self.0.fill(PartHint { asker: 0, second: 0 });
    }

    /// The bytes of the hints.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.0)
    }
}

/// The place in the table for a namespace, a tenant in it, and a weight.
fn asker_of([namespace, tenant]: [u64; 2], weight: u16) -> u64 {
    keyed_hash([tenant, namespace << 16 | u64::from(weight)], None)
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_for_one_name_and_one_weight_until_all_are_cleared() {
        let mut hints = PartHints::default();
        assert_eq!((hints.first([0, 1], 4), hints.bytes()), (0, 0));
        hints.set([0, 1], 4, 77);
        assert_eq!((hints.first([0, 1], 4), hints.first([0, 1], 5), hints.first([0, 2], 4)), (77, 0, 0));
        assert_eq!(hints.first([1, 1], 4), 0);
        hints.clear();
        assert_eq!(hints.first([0, 1], 4), 0);
    }
}
