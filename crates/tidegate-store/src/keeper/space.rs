//! The space that counters take where they are written, divided among namespaces.
//!
//! The bound is on what counters take there, estimated: [`Space::bytes_of`] is twice the bytes of
//! key and counter, since pages are between half full and full. Half of the bound is divided into
//! shares, one for each namespace; the other half goes to the namespace that fills it first. So a
//! namespace that takes less than its share always finds room, whatever others do.

use std::collections::HashMap;

use tidegate_core::{Timestamp, WhenFull};

use crate::Key;

/// How many bytes of counters there may be where they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpaceConfig {
    /// The bytes, as [`Space::bytes_of`] counts them.
    pub bytes: u64,
    /// How many namespaces divide half of them; 0 counts as 1.
    pub namespaces: usize,
    /// The treatment of a charge that would take more.
    pub when_full: WhenFull,
}

impl SpaceConfig {
    /// So many bytes for one namespace; a charge that would take more is refused.
    pub fn new(bytes: u64) -> Self {
        Self { bytes, namespaces: 1, when_full: WhenFull::Refuse }
    }

    /// The bytes that no other namespace can take from one.
    pub fn share(&self) -> u64 {
        self.bytes / 2 / self.namespaces.max(1) as u64
    }
}

/// The bytes of counters where they are written, and the bytes on the way there.
#[derive(Debug, Default)]
pub struct Space {
    config: Option<SpaceConfig>,
    /// By namespace, as it was last written.
    written: SpaceUsage,
    /// Taken since the last hand-out.
    taken: SpaceUsage,
    /// Handed out and not yet said to be written.
    handed: SpaceUsage,
    /// The first instant at which a counter that is written drains, as far as is known.
    first_drain: Timestamp,
}

/// Bytes by namespace.
#[derive(Clone, Debug, Default)]
pub struct SpaceUsage {
    by_namespace: HashMap<Box<[u8]>, i64>,
    total: i64,
}

impl SpaceUsage {
    /// Adds what a counter takes, or a negative number of bytes that it gives back.
    pub fn add(&mut self, key: &[u8], bytes: i64) {
        self.add_to(Key::first_part_of(key), bytes);
    }

    fn add_to(&mut self, namespace: &[u8], bytes: i64) {
        self.total += bytes;
        match self.by_namespace.get_mut(namespace) {
            Some(used) => *used += bytes,
            None => {
                self.by_namespace.insert(namespace.into(), bytes);
            }
        }
        if self.by_namespace.get(namespace) == Some(&0) {
            self.by_namespace.remove(namespace);
        }
    }

    fn add_all(&mut self, other: &Self) {
        for (namespace, bytes) in &other.by_namespace {
            self.add_to(namespace, *bytes);
        }
    }

    fn of(&self, namespace: &[u8]) -> i64 {
        self.by_namespace.get(namespace).copied().unwrap_or(0)
    }
}

impl Space {
    /// The counted bytes of a counter that takes so many bytes for its key and itself: twice as
    /// many, and 32 for its place.
    pub fn bytes_of(key: usize, counter: usize) -> i64 {
        i64::try_from(2 * (key + counter) + 32).unwrap_or(i64::MAX)
    }

    /// How long a caller waits at least before it asks again: by then the owner has looked for
    /// drained counters.
    const RETRY_NS: u64 = 1_000_000_000;

    pub(super) fn configure(&mut self, config: SpaceConfig) {
        self.config = Some(config);
    }

    pub(super) fn config(&self) -> Option<SpaceConfig> {
        self.config
    }

    /// Replaces the known bytes by the written ones as they were counted.
    pub(super) fn measured(&mut self, written: SpaceUsage) {
        self.written = written;
    }

    pub(super) fn drains_first_at(&mut self, at: Timestamp) {
        self.first_drain = at;
    }

    /// All bytes.
    pub(super) fn used(&self) -> u64 {
        u64::try_from(self.written.total + self.taken.total + self.handed.total).unwrap_or(0)
    }

    /// Whether a counter under this key may take so many bytes more.
    pub(super) fn has_room(&self, key: &[u8], growth: i64) -> bool {
        let Some(config) = self.config else { return true };
        let (total, bytes) = (self.used(), config.bytes);
        let growth = u64::try_from(growth).unwrap_or(0);
        if total + growth <= bytes / 2 {
            return true;
        }
        let namespace = Key::first_part_of(key);
        let share = config.share();
        if self.of(namespace) + growth <= share {
            // Its own, which nobody else could take, unless there were fewer namespaces before.
            return true;
        }
        // The unused shares of the others stay free for them.
        let mut known = vec![namespace];
        let mut unused = 0;
        for usage in [&self.written, &self.taken, &self.handed] {
            for other in usage.by_namespace.keys() {
                if !known.contains(&&**other) {
                    known.push(other);
                    unused += share.saturating_sub(self.of(other));
                }
            }
        }
        let unknown = config.namespaces.saturating_sub(known.len()) as u64;
        total + growth + unused + unknown * share <= bytes
    }

    /// When a caller that found no room may find some: when the first counter drains, but no sooner
    /// than it is looked for.
    pub(super) fn room_again(&self, now: Timestamp) -> Timestamp {
        let soonest = Timestamp::from_nanos(now.as_nanos().saturating_add(Self::RETRY_NS));
        self.first_drain.max(soonest)
    }

    /// Whether some of it is only estimated, because it is not written yet.
    pub(super) fn is_estimated(&self) -> bool {
        self.taken.total + self.handed.total != 0
    }

    pub(super) fn take(&mut self, key: &[u8], bytes: i64) {
        if self.config.is_some() {
            self.taken.add(key, bytes);
        }
    }

    pub(super) fn hand_out(&mut self) {
        let taken = core::mem::take(&mut self.taken);
        self.handed.add_all(&taken);
    }

    /// The changes that were handed out are written, which has changed the bytes there by these.
    pub(super) fn written(&mut self, changes: &SpaceUsage) {
        self.handed = SpaceUsage::default();
        self.written.add_all(changes);
    }

    pub(super) fn not_written(&mut self) {
        let handed = core::mem::take(&mut self.handed);
        self.taken.add_all(&handed);
    }

    fn of(&self, namespace: &[u8]) -> u64 {
        let used = self.written.of(namespace) + self.taken.of(namespace) + self.handed.of(namespace);
        u64::try_from(used).unwrap_or(0)
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    fn key(namespace: &str, name: u32) -> Key {
        Key::new(namespace, b"limit", &name.to_be_bytes()).unwrap()
    }

    fn fill(space: &mut Space, namespace: &str) -> u64 {
        let before = space.used();
        for name in 0.. {
            let key = key(namespace, name);
            let bytes = Space::bytes_of(key.as_bytes().len(), 40);
            if !space.has_room(key.as_bytes(), bytes) {
                break;
            }
            space.take(key.as_bytes(), bytes);
            if name % 7 == 0 {
                space.hand_out();
                let handed = space.handed.clone();
                space.written(&handed);
            }
        }
        space.used() - before
    }

    #[test]
    fn whatever_one_namespace_takes_first_each_other_has_its_share() {
        for namespaces in [1, 2, 3, 10] {
            let mut space = Space::default();
            let config = SpaceConfig { namespaces, ..SpaceConfig::new(1 << 20) };
            space.configure(config);
            for namespace in 0..namespaces {
                let took = fill(&mut space, &namespace.to_string());
                assert!(took + 256 >= config.share(), "{took} of {} by {namespace}", config.share());
            }
            assert!(space.used() <= config.bytes);
            assert!(
                space.used() + 256 * namespaces as u64 >= config.bytes,
                "nothing stays unused: {}",
                space.used()
            );
        }
    }
}
