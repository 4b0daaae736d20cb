//! The blocked keys, listed for operators. The table stores only a hash of a key, so this module
//! remembers the names of blocked keys.
//!
//! No decision reads this list. The engine adds blocks that it sets or restores and blocks that
//! refusals show, and removes blocks that it lifts. A block of an exact limit that another member
//! lifts stays listed until the block would have ended.

use core::hash::{BuildHasher, Hash};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_core::display::shortened;
use tidegate_core::shares::{Owner, Shares};
use tidegate_core::{Attributes, Gate, ScopeView, Timestamp};

/// How many blocks are remembered, in [shares](Shares) for each namespace. Once as many are in
/// force, a block set by an operation takes the place of one that was only shown by a refusal of
/// the same namespace, and further refusals are [counted](crate::Engine::blocks_unlisted) only.
pub const BLOCKS_KNOWN_MAX: usize = 8192;

/// The locks over which blocks are spread by their hash. No lock has a bound of its own, since a
/// namespace within its share must find a place whatever the hash of its key is.
const SHARDS: usize = 16;

/// The longest value that is remembered, in bytes.
const VALUE_BYTES_MAX: usize = 256;

/// How a block came to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockCause {
    /// An operation set it, here or before a restart.
    Operation,
    /// A refusal or a report showed it: the key exceeded a limit that blocks for that, or another
    /// member blocked it.
    Refusal,
}

/// A blocked key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockReport {
    /// The namespace.
    pub namespace: String,
    /// The limit.
    pub limit: String,
    /// The attributes that name the counter, with their values, each at most 256 bytes.
    pub scope: Vec<(String, String)>,
    /// How it came to be known.
    pub cause: BlockCause,
    /// When it ends.
    pub until: Timestamp,
    /// When it was set or shown last.
    pub seen_at: Timestamp,
}

/// The blocks that are known.
#[derive(Debug)]
pub(crate) struct KnownBlocks {
    hasher: ahash::RandomState,
    shards: [Mutex<BlockShard>; SHARDS],
    shares: Shares,
    unlisted: AtomicU64,
}

/// A block in the list, which counts against the share of its namespace.
#[derive(Debug)]
struct ListedBlock {
    owner: Owner,
    report: BlockReport,
}

#[derive(Debug, Default)]
struct BlockShard {
    blocks: HashMap<u64, ListedBlock>,
    /// When the last newcomer without a place had looked through it, nothing in it ended before
    /// then.
    full_until: Timestamp,
}

impl KnownBlocks {
    pub(crate) fn new(seed: [u64; 4]) -> Self {
        let hasher = ahash::RandomState::with_seeds(seed[2], !seed[0], seed[3], !seed[1]);
        Self {
            hasher,
            shards: core::array::from_fn(|_| Mutex::default()),
            shares: Shares::new(BLOCKS_KNOWN_MAX as u64),
            unlisted: AtomicU64::new(0),
        }
    }

    /// Divides the places among so many namespaces.
    pub(crate) fn divide(&self, owners: usize) {
        self.shares.divide(owners);
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, BlockShard> {
        // Every change leaves the map whole, so a panic elsewhere does no harm.
        self.shards[(hash >> 32) as usize % self.shards.len()].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hash(&self, namespace: &str, limit: &str, scope: &ScopeView<'_>) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        (namespace, limit).hash(&mut hasher);
        scope.iter().for_each(|pair| pair.hash(&mut hasher));
        core::hash::Hasher::finish(&hasher)
    }

    /// Remembers a block of a request's key under a limit, or forgets it if it has ended.
    pub(crate) fn set(
        &self,
        gate: &Gate,
        attributes: Attributes<'_>,
        limit: &str,
        cause: BlockCause,
        until: Timestamp,
        now: Timestamp,
    ) {
        for (limit, scope) in gate.counters(attributes, Some(limit)) {
            let place = BlockPlace { owner: gate.owner(), namespace: gate.namespace(), limit };
            self.put(place, &ScopeView::Texts(&scope), cause, until, now);
        }
    }

    /// Forgets the blocks of a request's keys.
    pub(crate) fn lift_all(&self, gate: &Gate, attributes: Attributes<'_>, limit: Option<&str>) {
        for (limit, scope) in gate.counters(attributes, limit) {
            let hash = self.hash(gate.namespace(), limit, &ScopeView::Texts(&scope));
            self.shard(hash).remove(hash, &self.shares);
        }
    }

    /// Remembers a block, or forgets it if it has ended; whether that changed anything. One that is
    /// known already costs no allocation.
    pub(crate) fn put(
        &self,
        place: BlockPlace<'_>,
        scope: &ScopeView<'_>,
        cause: BlockCause,
        until: Timestamp,
        now: Timestamp,
    ) -> bool {
        let BlockPlace { owner, namespace, limit } = place;
        let hash = self.hash(namespace, limit, scope);
        let mut shard = self.shard(hash);
        if until <= now {
            return shard.remove(hash, &self.shares);
        }
        if let Some(ListedBlock { report: known, .. }) = shard.blocks.get_mut(&hash) {
            let is_other = known.until != until;
            (known.until, known.seen_at) = (until, now);
            if cause == BlockCause::Operation {
                known.cause = cause;
            }
            return is_other;
        }
        if !shard.make_room(owner, &self.shares, cause, now) {
            // Relaxed: a number for people.
            self.unlisted.fetch_add(1, Ordering::Relaxed);
            return true;
        }
        let shown =
            |(name, value): (&str, &str)| (name.to_owned(), shortened(value, VALUE_BYTES_MAX).into_owned());
        let report = BlockReport {
            namespace: namespace.to_owned(),
            limit: limit.to_owned(),
            scope: scope.iter().map(shown).collect(),
            cause,
            until,
            seen_at: now,
        };
        shard.blocks.insert(hash, ListedBlock { owner, report });
        true
    }

    pub(crate) fn all(&self, now: Timestamp) -> Vec<BlockReport> {
        let mut all = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let reports = shard.blocks.values().map(|one| &one.report);
            all.extend(reports.filter(|one| one.until > now).cloned());
        }
        all
    }

    pub(crate) fn unlisted(&self) -> u64 {
        self.unlisted.load(Ordering::Relaxed)
    }
}

impl BlockShard {
    /// Whether there was one.
    fn remove(&mut self, hash: u64, shares: &Shares) -> bool {
        let Some(removed) = self.blocks.remove(&hash) else { return false };
        shares.give_back(removed.owner, 1);
        true
    }

    /// Takes a place for another block of `owner`, after what has ended is forgotten; whether there
    /// is one.
    fn make_room(&mut self, owner: Owner, shares: &Shares, cause: BlockCause, now: Timestamp) -> bool {
        if shares.take(owner, 1) {
            return true;
        }
        // A flood of blocked keys looks through a shard only when something in it has ended.
        if now >= self.full_until {
            self.blocks.retain(|_, one| {
                let is_in_force = one.report.until > now;
                if !is_in_force {
                    shares.give_back(one.owner, 1);
                }
                is_in_force
            });
            self.full_until = self.blocks.values().map(|one| one.report.until).min().unwrap_or_default();
            if shares.take(owner, 1) {
                return true;
            }
        }
        let is_replaceable =
            |one: &ListedBlock| one.owner == owner && one.report.cause == BlockCause::Refusal;
        if cause == BlockCause::Operation
            && let Some((&hash, _)) = self.blocks.iter().find(|(_, one)| is_replaceable(one))
        {
            self.remove(hash, shares);
        }
        shares.take(owner, 1)
    }
}

/// Of which limit a block is.
#[derive(Clone, Copy)]
pub(crate) struct BlockPlace<'a> {
    pub(crate) owner: Owner,
    pub(crate) namespace: &'a str,
    pub(crate) limit: &'a str,
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use core::time::Duration;

    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_795_215_600);
    const PER_USER: BlockPlace<'_> = BlockPlace { owner: Owner::NONE, namespace: "api", limit: "per-user" };

    fn put(blocks: &KnownBlocks, user: &str, cause: BlockCause, seconds: u64) {
        let scope = ScopeView::one("user", user);
        let until = NOW.saturating_add(Duration::from_secs(seconds));
        blocks.put(PER_USER, &scope, cause, until, NOW);
    }

    #[test]
    fn a_block_is_listed_once_until_it_ends_and_an_operation_is_its_cause() {
        let blocks = KnownBlocks::new([1, 2, 3, 4]);
        put(&blocks, "ada", BlockCause::Refusal, 10);
        put(&blocks, "ada", BlockCause::Operation, 60);
        put(&blocks, "ada", BlockCause::Refusal, 60);
        let all = blocks.all(NOW);
        assert_eq!((all.len(), all[0].cause), (1, BlockCause::Operation));
        assert_eq!(all[0].scope, [("user".to_owned(), "ada".to_owned())]);
        assert!(blocks.all(NOW.saturating_add(Duration::from_mins(1))).is_empty());
        put(&blocks, "ada", BlockCause::Operation, 0);
        assert!(blocks.all(NOW).is_empty(), "a block that has ended lifts the one before it");
    }

    #[test]
    fn a_flood_of_blocked_keys_is_bounded_counted_and_does_not_hide_an_operation() {
        let blocks = KnownBlocks::new([1, 2, 3, 4]);
        for index in 0..2 * BLOCKS_KNOWN_MAX {
            put(&blocks, &format!("stranger-{index}"), BlockCause::Refusal, 10);
        }
        put(&blocks, "ada", BlockCause::Operation, 60);
        let all = blocks.all(NOW);
        assert!(all.len() <= BLOCKS_KNOWN_MAX && blocks.unlisted() >= BLOCKS_KNOWN_MAX as u64);
        assert!(all.iter().any(|one| one.scope[0].1 == "ada"));
        // When those of the flood have ended there is room again.
        let later = NOW.saturating_add(Duration::from_secs(10));
        let scope = ScopeView::one("user", "bob");
        blocks.put(
            PER_USER,
            &scope,
            BlockCause::Refusal,
            later.saturating_add(Duration::from_secs(1)),
            later,
        );
        let users: Vec<_> = blocks.all(later).into_iter().map(|one| one.scope[0].1.clone()).collect();
        assert_eq!(users.len(), 2, "{users:?}");
    }
}
