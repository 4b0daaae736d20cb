//! Which namespace holds which part of a table, and how drained words come back to it.
//!
//! Words, rings and permits are held in [shares](crate::shares). A word counts against the namespace of its spec until it is
//! overwritten or swept, also after its state has drained, since nobody is told of that. So a namespace that is at its share
//! sweeps on its way: each of its newcomers clears the drained words of another few lines. In a table of one namespace no share
//! is looked at and nothing is swept.

use super::{Entry, KeyHash, KeyTable, LINE};
use crate::shares::{Namespaces, Owner};
use crate::sync::Ordering;
use crate::time::Timestamp;

/// The lines that a newcomer of a namespace that has used its share sweeps.
const LINES_SWEPT: usize = 1;

/// The lines that are swept for a newcomer that would be refused otherwise: 64 words, some microseconds.
const LINES_SWEPT_FOR_ROOM: usize = 16;

/// The words that are divided. A table finds a word for nearly every key until it is so full: measured, the first newcomer that
/// finds none comes beyond it.
pub(super) fn shared_places(words: usize) -> u64 {
    (words - words / 16) as u64
}

impl KeyTable {
    /// The namespaces that share this table.
    pub fn namespaces(&self) -> &Namespaces {
        &self.namespaces
    }

    /// The number of a namespace that has limits in this table, which gives it a share.
    pub(crate) fn join(&self, namespace: &str) -> Owner {
        let owner = self.namespaces.owner(namespace);
        self.divide();
        owner
    }

    /// The number of a namespace that a request names.
    pub(crate) fn find_owner(&self, namespace: &str) -> Owner {
        let owner = self.namespaces.find(namespace);
        if owner == Owner::NONE {
            self.divide();
        }
        owner
    }

    /// Divides everything among the owners that there are by now.
    fn divide(&self) {
        let owners = self.namespaces.owners();
        self.shares.divide(owners);
        self.carried_specs.shares.divide(owners);
        self.rings.divide(owners);
        self.permits.divide(owners);
    }

    /// Takes a place for a new `word` of `key`; whether its namespace may have it.
    pub(super) fn take_place(&self, key: KeyHash, word: u128, now: Timestamp) -> bool {
        let owner = self.owner_of(word);
        if self.shares.is_divided() && self.shares.has_used_share(owner) {
            self.sweep_lines(LINES_SWEPT, now);
        }
        if self.shares.take_within(owner, 1) {
            return true;
        }
        for start in self.lines_of(key).into_iter().chain(self.further_lines_of(key)) {
            self.sweep_line(start, now);
        }
        self.sweep(now);
        self.shares.take(owner, 1)
    }

    /// Gives back the place of a word that is not in the table any more.
    pub(super) fn give_back_place(&self, word: u128) {
        self.shares.give_back(self.owner_of(word), 1);
    }

    /// Counts a place against the namespace of the `new` word that has overwritten the `old` one of the same key: another one if a
    /// namespace that only requests named has joined since.
    #[cold]
    pub(super) fn move_place(&self, old: u128, new: u128) {
        let (from, to) = (self.owner_of(old), self.owner_of(new));
        if from != to {
            self.shares.take_anyway(to, 1);
            self.shares.give_back(from, 1);
        }
    }

    /// Clears the drained words of some lines, and what stands behind them, for a newcomer that finds no room.
    pub(crate) fn sweep(&self, now: Timestamp) {
        self.sweep_lines(LINES_SWEPT_FOR_ROOM, now);
    }

    fn sweep_lines(&self, lines: usize, now: Timestamp) {
        // Relaxed: two that sweep the same lines do no harm.
        let first = self.swept.fetch_add(lines, Ordering::Relaxed);
        for line in first..first + lines {
            self.sweep_line((line % self.lines * LINE) as u32, now);
        }
    }

    fn sweep_line(&self, start: u32, now: Timestamp) {
        for slot in start..start + LINE as u32 {
            // Acquire: as in `look`.
            let word = self.word(slot).load(Ordering::Acquire);
            if word != 0 && self.is_drained(word, now) && self.release_backing(word, now) {
                let _ = self.clear(Entry { slot, word });
            }
        }
    }

    fn owner_of(&self, word: u128) -> Owner {
        let spec = Entry { slot: 0, word }.spec();
        spec.and_then(|id| self.specs.owner(id)).unwrap_or(Owner::NONE)
    }
}
