//! The places of each namespace in a table, and the sweeps that free drained words.
//!
//! Words, rings and permits are held in [shares](crate::shares). A word counts against the
//! namespace of its spec until it is overwritten or swept, also after its state has drained, since
//! no event reports that. So a namespace that is at its share sweeps on its way: each of its
//! newcomers clears the drained words of another few lines. In a table of one namespace shares are
//! not checked and nothing is swept.

use super::KeyTable;
use super::word::{Entry, KeyHash, LINE};
use crate::shares::{Namespaces, Owner};
use crate::sync::Ordering;
use crate::time::Timestamp;

/// The lines that a newcomer of a namespace that has used its share sweeps.
const LINES_SWEPT: usize = 1;

/// The lines that are swept at first for a newcomer that would be refused otherwise: 64 words, some
/// microseconds.
const LINES_SWEPT_FOR_ROOM: usize = 16;

/// The lines of each further sweep for such a newcomer, and how many sweeps there are: 1024 words,
/// below 0.1 ms.
const LINES_SWEPT_FURTHER: usize = 64;
const FURTHER_SWEEPS: usize = 4;

/// After all sweeps of a newcomer found nothing, others sweep no further for so long: in a table
/// full of states in use each refusal costs a microsecond and not a hundred.
const FRUITLESS_PAUSE_NS: u64 = 1_000_000;

impl KeyTable {
    /// The namespaces that share this table.
    pub fn namespaces(&self) -> &Namespaces {
        &self.namespaces
    }

    /// The number of a namespace that has limits in this table, which gives it a share. The first
    /// time, the shares of all others become smaller.
    pub fn join(&self, namespace: &str) -> Owner {
        if let Some(owner) = self.namespaces.known(namespace) {
            return owner;
        }
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

    /// Takes a place for a new word of `key`; whether its namespace may have it.
    pub(super) fn take_place(&self, key: KeyHash, owner: Owner, now: Timestamp) -> bool {
        if self.shares.is_divided() && self.shares.has_used_share(owner) {
            self.sweep_lines(LINES_SWEPT, now);
        }
        if self.shares.take_within(owner, 1) {
            return true;
        }
        for start in self.lines_of(key).into_iter().chain(self.further_lines_of(key)) {
            self.sweep_line(start, now);
        }
        self.sweep_until(now, || self.shares.take(owner, 1).then_some(())).is_some()
    }

    /// Gives back the place of a word that is not in the table any more.
    pub(super) fn give_back_place(&self, owner: Owner) {
        self.shares.give_back(owner, 1);
    }

    /// Counts the place of a key against another namespace than before: a namespace that only
    /// requests named has joined since.
    pub(super) fn move_place(&self, from: Owner, to: Owner) {
        if from != to {
            self.shares.take_anyway(to, 1);
            self.shares.give_back(from, 1);
        }
    }

    /// Clears drained words, with their rings and permits, until `attempt` succeeds for a newcomer
    /// that found no room, or enough lines are swept.
    pub(crate) fn sweep_until<T>(&self, now: Timestamp, attempt: impl Fn() -> Option<T>) -> Option<T> {
        self.sweep_lines(LINES_SWEPT_FOR_ROOM, now);
        if let Some(gotten) = attempt() {
            return Some(gotten);
        }
        // Relaxed, here and below: it guards no other data.
        let fruitless = self.swept_for_nothing.load(Ordering::Relaxed);
        let now_ns = now.as_nanos();
        if now_ns >= fruitless && now_ns - fruitless < FRUITLESS_PAUSE_NS {
            return None;
        }
        for _ in 0..FURTHER_SWEEPS {
            self.sweep_lines(LINES_SWEPT_FURTHER, now);
            if let Some(gotten) = attempt() {
                return Some(gotten);
            }
        }
        self.swept_for_nothing.store(now_ns, Ordering::Relaxed);
        None
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

    /// The namespace of a word. To be asked before the word is exchanged: afterwards the number of
    /// its spec may be free.
    pub(super) fn owner_of(&self, word: u128) -> Owner {
        Entry { slot: 0, word }.spec().map_or(Owner::NONE, |number| self.specs.namespace(number))
    }
}
