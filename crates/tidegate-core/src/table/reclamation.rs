//! The pass that frees the numbers of specs that no gate uses any more.
//!
//! A pass reads every word of the table once, a part at a time, driven by the calls to
//! [`KeyTable::reclaim_spec_numbers`]. A word that carries the number of a retired spec is cleared
//! if it has drained; if not, it is rewritten under the spec that keeps such states
//! ([`Spec::at_rest`]), of which there are few. After the pass no word carries a retired number,
//! and the number is freed.
//!
//! **Why no usage is lost or doubled.** The pass changes a word as a charge does: as a whole, by
//! compare-and-swap from exactly what it read. A charge that came in between makes the exchange
//! fail, and the pass reads the word again. A charge that loses reads the rewritten word and
//! carries it over to its own numbers, as after any change of numbers.
//!
//! **Why a freed number is in no word.** A word gets another number only under a pin. A pin taken
//! since the pass began changes [`unpinned`](super::specs::RegisteredSpec::unpinned), and
//! [`super::Specs::free`] leaves that number in use.

use super::KeyTable;
use super::reclaimer::{ReclamationPass, spec_at_rest};
use super::specs::{Spec, SpecPin};
use super::word::{Entry, LINE, SPEC_MASK, STATE_BITS};
use crate::sync::{Ordering, lock};
use crate::time::Timestamp;

/// How many words a call reads, at least: 4 MiB of them take about 2 ms.
const WORDS_EACH: usize = 1 << 18;
/// A call reads no less than this part of the table, so that a pass ends after at most so many
/// calls.
const CALLS_MAX: usize = 64;

impl KeyTable {
    /// Searches the next part of the table for numbers of specs that no gate uses any more, and
    /// frees them when all of it was read. `true` if there is more to do: call again soon,
    /// some ten milliseconds later.
    ///
    /// Without calls a table tells 1 048 575 sets of numbers apart in its life. A call that finds
    /// nothing to do takes a lock and nothing else; a pass begins after 16 384 new sets of numbers,
    /// or when there are no numbers left.
    pub fn reclaim_spec_numbers(&self, now: Timestamp) -> bool {
        let mut running = lock(&self.reclaimer.0);
        if running.is_none() {
            *running = self.specs.retired().map(|retired| ReclamationPass::new(retired, self.config.seed[3]));
        }
        let Some(pass) = running.as_mut() else { return false };
        let words = self.lines * LINE;
        let end = if pass.retired.is_empty() { words } else { pass.next + WORDS_EACH.max(words / CALLS_MAX) };
        for slot in pass.next..end.min(words) {
            self.reclaim_word(pass, slot as u32, now);
        }
        pass.next = end.min(words);
        if pass.next < words {
            return true;
        }
        let free = pass.retired.values().filter(|retired| !retired.is_in_use);
        self.specs.free(free.map(|retired| (&retired.registered, retired.seen)));
        *running = None;
        false
    }

    /// Rewrites or clears the word if it carries the number of a retired spec.
    fn reclaim_word(&self, pass: &mut ReclamationPass, slot: u32, now: Timestamp) {
        loop {
            // Acquire: as in `look`.
            let word = self.word(slot).load(Ordering::Acquire);
            let number = ((word & SPEC_MASK) >> STATE_BITS) as u32;
            if number == 0 {
                return;
            }
            let Some(retired) = pass.retired.get_mut(&number) else { return };
            if retired.is_in_use || !retired.registered.is_unpinned_since(retired.seen) {
                return;
            }
            let rewritten = if self.is_drained(word, now) && self.release_backing(word, now) {
                0
            } else if let Some(pin) =
                spec_at_rest(&mut pass.at_rest, &self.specs, &retired.registered, number)
            {
                under(pin, retired.registered.spec(), word, now)
            } else {
                retired.is_in_use = true;
                return;
            };
            if self.exchange(slot, word, rewritten).is_ok() {
                if rewritten == 0 {
                    self.give_back_place(retired.registered.namespace());
                }
                return;
            }
        }
    }
}

/// A word with the same key and usage under another spec.
fn under(pin: &SpecPin, from: &Spec, word: u128, now: Timestamp) -> u128 {
    let state = Entry { slot: 0, word }.state();
    let state = pin.algorithm().map_or(state, |to| from.carry_over(state, to, now));
    let key = word & !(SPEC_MASK | u128::from(u64::MAX));
    key | u128::from(pin.id().number().get()) << STATE_BITS | u128::from(state.to_bits())
}
