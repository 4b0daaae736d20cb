//! A Space-Saving sketch for each slot of time, and the sum of a ring of them over a window.
//!
//! Space-Saving (Metwally, Agrawal, El Abbadi, 2005) keeps [`SLOT_KEYS_MAX`] counters. A key
//! without a counter takes that of the least count, and inherits that count as its error. Therefore
//! a key's count in a slot is never too low and at most its error too high, and a key without a
//! counter was seen at most as often as the least count. Each slot has counters of its own, so
//! these bounds hold for any sum of slots, and forgetting an old slot does not weaken them.

use core::time::Duration;
use std::collections::HashMap;
use std::sync::Arc;

use tidegate_core::{Reason, Timestamp};

/// How many keys a slot counts.
pub(super) const SLOT_KEYS_MAX: usize = 32;

/// A key and the reason of its refusals.
#[derive(Debug)]
pub(super) struct RefusedName {
    /// The same for all reasons of a key.
    pub(super) key_hash: u64,
    pub(super) namespace: Box<str>,
    pub(super) limit: Box<str>,
    pub(super) scope: Box<[(Box<str>, Box<str>)]>,
    /// The resource that refused it, if one with a name did.
    pub(super) resource: Option<Box<str>>,
    pub(super) reason: Reason,
    pub(super) tenant: KeyTenant,
}

/// The tenant of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyTenant {
    /// The value at this position of the scope.
    At(usize),
    /// The overload plane refused requests without a tenant.
    Without,
    /// The key of a limit that counts by something else.
    Unknown,
}

/// The counts of one name over several slots.
#[derive(Clone, Debug)]
pub(super) struct RefusalSum {
    pub(super) name: Arc<RefusedName>,
    /// Never too low.
    pub(super) refusals: u64,
    /// By how much `refusals` may be too high.
    pub(super) error: u64,
    pub(super) last_seen: Timestamp,
}

/// The counts of a window.
#[derive(Debug, Default)]
pub(super) struct WindowSum {
    /// All refusals.
    pub(super) total: u64,
    /// A name without a sum was refused at most so often.
    pub(super) uncounted_max: u64,
    /// Refusals that the counters attribute to a name they may not be of; all others are of the
    /// name that they are counted for.
    pub(super) uncertain: u64,
    /// By the hash of the name.
    pub(super) sums: HashMap<u64, RefusalSum>,
}

/// Slots of equal length. A slot is used again when its time is past the reach of the ring.
#[derive(Debug)]
pub(super) struct SketchRing {
    slot_ns: u64,
    slots: Box<[SketchSlot]>,
    last: LastSlot,
}

/// The slot that was counted in last, which nearly always is the next one too.
#[derive(Clone, Copy, Debug, Default)]
struct LastSlot {
    /// Its first nanosecond; of no slot if it is 0.
    since: u64,
    position: usize,
}

#[derive(Debug, Default)]
struct SketchSlot {
    /// The time of the slot in units of its length. Timestamps of 0 fall on the slot that nothing
    /// was counted in yet.
    number: u64,
    total: u64,
    /// The hash of each counter's name: apart from the counters, so that a search reads four cache
    /// lines.
    hashes: Vec<u64>,
    counters: Vec<KeyCounter>,
    /// The counter that was counted in last.
    last: usize,
}

#[derive(Debug)]
struct KeyCounter {
    refusals: u64,
    error: u64,
    last_seen: Timestamp,
    name: Arc<RefusedName>,
}

impl SketchRing {
    /// A ring for windows up to `reach`. One slot more than fit into it, since the latest has only
    /// begun.
    pub(super) fn new(slot: Duration, reach: Duration) -> Self {
        let slots = reach.as_nanos().div_ceil(slot.as_nanos()) as usize + 1;
        let slots = (0..slots).map(|_| SketchSlot::default()).collect();
        Self { slot_ns: slot.as_nanos() as u64, slots, last: LastSlot::default() }
    }

    /// Counts one refusal.
    pub(super) fn count(&mut self, hash: u64, now: Timestamp, name: impl FnOnce() -> Arc<RefusedName>) {
        let since = self.last.since;
        if since == 0 || now.as_nanos().wrapping_sub(since) >= self.slot_ns {
            self.enter(now);
        }
        self.slots[self.last.position].count(hash, now, name);
    }

    /// Goes to the slot of `now`.
    #[cold]
    fn enter(&mut self, now: Timestamp) {
        let number = now.as_nanos() / self.slot_ns;
        let position = (number % self.slots.len() as u64) as usize;
        let slot = &mut self.slots[position];
        // Time that stepped back by a whole ring counts in the later slot rather than clearing it.
        if slot.number < number {
            slot.begin(number);
        }
        self.last = LastSlot { since: number * self.slot_ns, position };
    }

    /// The name with this hash, if the slot of `now` counts it.
    pub(super) fn name(&self, hash: u64, now: Timestamp) -> Option<&Arc<RefusedName>> {
        let number = now.as_nanos() / self.slot_ns;
        let slot = &self.slots[(number % self.slots.len() as u64) as usize];
        (slot.number == number).then(|| slot.position(hash)).flatten().map(|at| &slot.counters[at].name)
    }

    /// When the oldest slot begins that a window of this length at `now` reaches into.
    pub(super) fn since(&self, window: Duration, now: Timestamp) -> Timestamp {
        Timestamp::from_nanos(self.oldest(window, now).saturating_mul(self.slot_ns))
    }

    fn oldest(&self, window: Duration, now: Timestamp) -> u64 {
        let reach = (window.as_nanos() as u64).div_ceil(self.slot_ns).min(self.slots.len() as u64 - 1);
        (now.as_nanos() / self.slot_ns).saturating_sub(reach)
    }

    /// The sum of all slots from [`Self::since`] on. `total` includes all of it, `sums` only names
    /// that are wanted.
    pub(super) fn sum(
        &self,
        window: Duration,
        now: Timestamp,
        is_wanted: impl Fn(&RefusedName) -> bool,
    ) -> WindowSum {
        let oldest = self.oldest(window, now);
        let mut all = WindowSum::default();
        for slot in self.slots.iter().filter(|slot| slot.number >= oldest) {
            all.total += slot.total;
            // A name without a counter in this slot may have been refused so often in it.
            let least = slot.least();
            all.uncounted_max += least;
            for (hash, counter) in slot.hashes.iter().zip(&slot.counters) {
                all.uncertain += counter.error;
                if !is_wanted(&counter.name) {
                    continue;
                }
                let sum = all.sums.entry(*hash).or_insert_with(|| RefusalSum {
                    name: Arc::clone(&counter.name),
                    refusals: 0,
                    error: 0,
                    last_seen: counter.last_seen,
                });
                // Both without the least count of the slot, which every name is given below.
                sum.refusals += counter.refusals - least;
                sum.error += least - counter.error;
                sum.last_seen = sum.last_seen.max(counter.last_seen);
            }
        }
        for sum in all.sums.values_mut() {
            sum.refusals += all.uncounted_max;
            sum.error = all.uncounted_max - sum.error;
        }
        all
    }
}

impl SketchSlot {
    fn begin(&mut self, number: u64) {
        self.number = number;
        self.total = 0;
        self.hashes.clear();
        self.counters.clear();
    }

    fn position(&self, hash: u64) -> Option<usize> {
        if self.hashes.get(self.last) == Some(&hash) {
            return Some(self.last);
        }
        self.hashes.iter().position(|known| *known == hash)
    }

    /// The least count if every counter is taken, otherwise 0.
    fn least(&self) -> u64 {
        let counts = self.counters.iter().map(|counter| counter.refusals);
        if self.counters.len() < SLOT_KEYS_MAX { 0 } else { counts.min().unwrap_or(0) }
    }

    fn count(&mut self, hash: u64, now: Timestamp, name: impl FnOnce() -> Arc<RefusedName>) {
        self.total += 1;
        if let Some(position) = self.position(hash) {
            self.last = position;
            let counter = &mut self.counters[position];
            counter.refusals += 1;
            counter.last_seen = counter.last_seen.max(now);
            return;
        }
        if self.counters.len() < SLOT_KEYS_MAX {
            self.hashes.push(hash);
            self.counters.push(KeyCounter { refusals: 1, error: 0, last_seen: now, name: name() });
            return;
        }
        let least = (0..SLOT_KEYS_MAX).min_by_key(|&at| self.counters[at].refusals);
        let least = least.expect("SLOT_KEYS_MAX is not zero");
        let inherited = self.counters[least].refusals;
        self.hashes[least] = hash;
        self.counters[least] =
            KeyCounter { refusals: inherited + 1, error: inherited, last_seen: now, name: name() };
    }
}
