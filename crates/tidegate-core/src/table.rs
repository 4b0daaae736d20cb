//! The bounded concurrent table of keyed state: 16 bytes a key, however long the key.
//!
//! **Layout.** An array of 16-byte words, four to a cache line. A word holds a tag (44 bits of
//! a seeded hash of the key), the number of the spec that reads its state (20 bits), and the state
//! (64 bits). A key may stand in any of the eight words of its two lines, and stands in at most one
//! of them.
//!
//! **Guarantees.** The table never grows: the bytes are set when it is made. A word changes only
//! as a whole, by a 128-bit compare-and-swap, so the key and the state of a word never mix. A key
//! in use is never evicted: when all words for a new key are taken by states that have not drained,
//! the insertion fails and reports when the first of them drains.
//!
//! **Why no sweeper.** A state that has drained has the same future as an absent one, so its word
//! is simply overwritten by the next newcomer. A flood of unique keys costs no memory and evicts no
//! usage.
//!
//! The numbers of specs are the one thing that a pass over the table collects: see
//! [`KeyTable::reclaim_spec_numbers`].
//!
//! **How a key stays single.** Charges to a key that is present are a compare-and-swap of its word.
//! A newcomer takes its word under one of 64 locks chosen by the key, after looking once more: two
//! threads that bring the same new key cannot both insert it. Words are never moved, so a reader
//! never misses a key that is there.
//!
//! Rings of [`crate::algorithm::Rolling`] and permits of [`crate::algorithm::Concurrency`] are kept
//! beside the words in [`Rings`] and [`Permits`], within the same byte budget; the state in the
//! word is their handle.
//!
//! Two keys share a counter when their hashes agree in tag and line: 64 bits for a table of 64 MiB,
//! one such pair in 10^6 tables of 5 million keys. The seed keeps clients from choosing such keys.

mod blocks;
mod carried_specs;
mod first_slots;
mod full_retry;
mod handles;
mod places;
mod reclaimer;
mod reclamation;
mod refund_sets;
mod seed;
mod specs;
mod word;

#[cfg(test)]
#[cfg(tidegate_loom)]
mod loom;
#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests;

use core::hash::{BuildHasher, Hasher};
use core::hint::black_box;

pub(crate) use blocks::Blocks;
pub(crate) use carried_specs::CarriedSpecs;
use first_slots::FirstSlots;
pub use full_retry::full_retry;
use reclaimer::Reclaimer;
pub use refund_sets::RefundSet;
pub(crate) use refund_sets::RefundSets;
pub use seed::random_seed;
use specs::SpecGuard;
pub(crate) use specs::{Spec, SpecId, SpecNumber, SpecOwner, SpecPin, Specs};
pub(crate) use word::{Entry, FirstLine, KeyHash, Unwritten};
use word::{LINE, SPEC_MASK, STATE_BITS, TAG_SHIFT};

use crate::algorithm::State;
use crate::limit::{RefundOn, WorkEnd};
use crate::permits::Permits;
use crate::ring::Rings;
use crate::shares::{Namespaces, Owner, Shares};
use crate::sync::{AtomicBool, AtomicU64, AtomicU128, Mutex, Ordering, lock};
use crate::time::Timestamp;

/// Lines that a key may stand in when its first two are full.
const FURTHER_LINES: usize = 4;
/// Locks for newcomers; two keys on one lock only wait for each other's insertion.
const STRIPES: usize = if cfg!(tidegate_loom) { 1 } else { 64 };

/// The treatment of a new key when every word that it may take is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// The request is refused with reason `table_full`, to come back when the first of those words
    /// drains.
    #[default]
    Refuse,
    /// The request is admitted by that limit and not counted.
    Admit,
}

/// The size and the seed of a [`KeyTable`].
///
/// ```
/// # use tidegate_core::{KeyTable, TableConfig};
/// let mut config = TableConfig::default();
/// config.bytes = 1 << 20;
/// assert_eq!(KeyTable::new(config).stats(tidegate_core::Timestamp::MIN).bytes, 1 << 20);
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct TableConfig {
    /// All bytes of keyed state: words, rings and permits. Default 64 MiB, two million keys; at
    /// least [`TableConfig::BYTES_MIN`].
    pub bytes: usize,
    /// How much of `bytes` is set aside for rings and permits, in percent; default 25, at most 90.
    pub ring_share_percent: u8,
    /// The treatment of a new key when there is no room.
    pub when_full: WhenFull,
    /// The seed of the key hash; default random. The same seed gives the same placement: pass one
    /// in tests and simulations, and nowhere that strangers choose keys.
    pub seed: [u64; 4],
}

impl TableConfig {
    /// The default size: 64 MiB, of which an optimised build touches only what is used.
    pub const BYTES_DEFAULT: usize = 64 << 20;
    /// The smallest table: 4 KiB. Smaller ones are made this large.
    pub const BYTES_MIN: usize = 4 << 10;
    const RING_SHARE_MAX: u8 = 90;

    /// The default size with this seed.
    pub const fn seeded(seed: [u64; 4]) -> Self {
        Self { bytes: Self::BYTES_DEFAULT, ring_share_percent: 25, when_full: WhenFull::Refuse, seed }
    }
}

impl Default for TableConfig {
    /// The default size, with a random seed.
    fn default() -> Self {
        Self::seeded(random_seed())
    }
}

/// Numbers about a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableStats {
    /// The byte budget.
    pub bytes: usize,
    /// Words in the table.
    pub slots: usize,
    /// Words that hold a state that has not drained. Exact until 4096 words have been taken and in
    /// tables of at most [`KeyTable::SAMPLE_LINES`] lines, otherwise estimated from a sample of so
    /// many.
    pub keys: usize,
    /// Words that all namespaces may take together: all of them for one namespace, 11 of 16 where
    /// several divide the table. One namespace may then take half of these and its share of the
    /// other half; see [`crate::shares`].
    pub keys_max: usize,
    /// Bytes in use by rings and permits.
    pub ring_bytes: usize,
    /// Requests refused because there was no room for a new key.
    pub full_refusals: u64,
    /// Requests admitted uncounted because there was no room for a new key.
    pub full_admissions: u64,
}

/// The state of all keys of a process, shared by all its gates.
///
/// ```
/// # use std::sync::Arc;
/// # use tidegate_core::{Cost, Gate, KeyTable, Limit, TableConfig, Timestamp};
/// let table = Arc::new(KeyTable::new(TableConfig::default()));
/// let limit = Limit::rate("per-user", "100/s")?.key(["user"]);
/// let orders = Gate::builder("orders").limit(limit.clone()).table(Arc::clone(&table)).build()?;
/// let search = Gate::builder("search").limit(limit).table(Arc::clone(&table)).build()?;
/// let now = Timestamp::from_secs(1_800_000_000);
/// for gate in [&orders, &search] {
///     assert!(gate.check(&[("user", "ada")], Cost::ONE, now).is_admit());
/// }
/// // Each namespace counts the user by itself.
/// assert_eq!(table.stats(now).keys, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct KeyTable {
    /// Longer than `lines * LINE` by up to a line, so that lines can start on a cache line.
    words: Box<[AtomicU128]>,
    /// The index of the first word of the first line.
    first: usize,
    lines: usize,
    /// Whether some key stands in a line beyond its first two.
    has_spilled: AtomicBool,
    first_slots: FirstSlots,
    namespaces: Namespaces,
    /// How many words each namespace holds, including drained words that were not overwritten yet.
    shares: Shares,
    /// The line that the next sweep begins with. Relaxed: it guards no other data.
    swept: portable_atomic::AtomicUsize,
    /// When a newcomer last swept without success, in nanoseconds.
    swept_for_nothing: portable_atomic::AtomicU64,
    /// From when on the next write of a word is noted, in nanoseconds: a second after the latest
    /// that was. A write that is yet to come says that the clock was ahead. Guards no other data.
    noted_from: portable_atomic::AtomicU64,
    stripes: Box<[Stripe]>,
    hasher: ahash::RandomState,
    config: TableConfig,
    pub(crate) specs: Specs,
    reclaimer: Reclaimer,
    pub(crate) carried_specs: CarriedSpecs,
    pub(crate) blocks: Blocks,
    pub(crate) refund_sets: RefundSets,
    pub(crate) rings: Rings,
    pub(crate) permits: Permits,
    full_refusals: AtomicU64,
    full_admissions: AtomicU64,
}

/// How often the instant of a write is noted: once a second.
const NOTE_EVERY_NS: u64 = 1_000_000_000;

/// Padded to a cache line: neighbours are locked by different cores at once.
#[repr(align(64))]
struct Stripe(Mutex<()>);

/// The words that several namespaces divide, 11 in 16. A newcomer finds no word when all of its 24
/// are taken. Measured in a table of 4 194 304 words: none of those that come while fewer than 6
/// words in 10 are taken, 4 in 10 000 at 7 in 10, 12 in 1000 at 8 in 10.
fn shared_places(words: usize) -> u64 {
    (words / 16 * 11).max(1) as u64
}

impl KeyTable {
    /// How many lines [`KeyTable::stats`] reads.
    pub const SAMPLE_LINES: usize = 4096;

    /// An empty table of `config.bytes`; the memory is reserved now and touched when it is used.
    pub fn new(config: TableConfig) -> Self {
        let bytes = config.bytes.max(TableConfig::BYTES_MIN);
        let share = usize::from(config.ring_share_percent.min(TableConfig::RING_SHARE_MAX));
        let ring_bytes = bytes / 100 * share;
        let lines = (bytes - ring_bytes) / (LINE * size_of::<u128>());
        Self::with_lines(
            lines.clamp(1, (u32::MAX as usize / LINE) - 1),
            ring_bytes,
            TableConfig { bytes, ..config },
        )
    }

    /// A table small enough for loom to explore: one line, and rings of a few instants.
    #[cfg(all(test, tidegate_loom))]
    pub(crate) fn for_loom(config: TableConfig) -> Self {
        Self::with_lines(1, 4096, config)
    }

    fn with_lines(lines: usize, ring_bytes: usize, config: TableConfig) -> Self {
        let words = zeroed_words(lines * LINE + LINE - 1);
        // Lines start where the address is a multiple of 64, so that a line is one cache line.
        let misaligned = words.as_ptr() as usize % (LINE * size_of::<u128>());
        let first = if misaligned == 0 { 0 } else { LINE - misaligned / size_of::<u128>() };
        Self {
            words,
            first,
            lines,
            has_spilled: AtomicBool::new(false),
            first_slots: FirstSlots::new(),
            namespaces: Namespaces::new(config.seed[3]),
            shares: Shares::new(shared_places(lines * LINE)),
            swept: portable_atomic::AtomicUsize::new(0),
            swept_for_nothing: portable_atomic::AtomicU64::new(0),
            noted_from: portable_atomic::AtomicU64::new(0),
            stripes: (0..STRIPES).map(|_| Stripe(Mutex::new(()))).collect(),
            hasher: ahash::RandomState::with_seeds(
                config.seed[0],
                config.seed[1],
                config.seed[2],
                config.seed[3],
            ),
            config,
            specs: Specs::new(config.seed[0]),
            reclaimer: Reclaimer::default(),
            carried_specs: CarriedSpecs::new(config.seed[2]),
            blocks: Blocks::new(config.seed[1]),
            refund_sets: RefundSets::default(),
            rings: Rings::new(ring_bytes / 4 * 3),
            permits: Permits::new(ring_bytes / 4),
            full_refusals: AtomicU64::new(0),
            full_admissions: AtomicU64::new(0),
        }
    }

    /// The endings of work that this set stands for; `None` for the empty set.
    pub fn refund_on(&self, set: RefundSet) -> Option<&RefundOn> {
        self.refund_sets.get(set)
    }

    /// The number of a set of endings, for charges that outlived the process; `None` when 255
    /// others have one.
    pub fn refund_set(&self, endings: &RefundOn) -> Option<RefundSet> {
        self.refund_sets.intern(endings)
    }

    /// Whether work that ended so gives the charges of that set back.
    #[inline]
    pub fn is_refunded(&self, set: RefundSet, end: &WorkEnd) -> bool {
        self.refund_sets.contains(set, end.outcome, end.status)
    }

    /// The treatment of a new key when there is no room.
    pub fn when_full(&self) -> WhenFull {
        self.config.when_full
    }

    /// Numbers about the table at `now`.
    pub fn stats(&self, now: Timestamp) -> TableStats {
        TableStats {
            bytes: self.config.bytes,
            slots: self.lines * LINE,
            keys: self.keys(now),
            keys_max: if self.shares.is_divided() {
                usize::try_from(shared_places(self.lines * LINE)).unwrap_or(usize::MAX)
            } else {
                self.lines * LINE
            },
            ring_bytes: self.rings.bytes_used() + self.permits.bytes_used(),
            full_refusals: self.full_refusals.load(Ordering::Relaxed),
            full_admissions: self.full_admissions.load(Ordering::Relaxed),
        }
    }

    /// How many words hold a state that has not drained.
    fn keys(&self, now: Timestamp) -> usize {
        let is_live = |slot: &u32| {
            // Relaxed: a count of what is there, ordered with nothing.
            let word = self.word(*slot).load(Ordering::Relaxed);
            word != 0 && !self.is_drained(word, now)
        };
        let (listed, is_complete) = self.first_slots.listed();
        let counted = listed.iter().filter(|slot| is_live(slot)).count();
        if is_complete {
            return counted;
        }
        let sampled = self.lines.min(Self::SAMPLE_LINES);
        let step = self.lines / sampled;
        let slots = (0..sampled).flat_map(|line| Self::slots_of_line(line * step));
        let estimated = slots.filter(is_live).count() * self.lines / sampled;
        estimated.max(counted)
    }

    /// A number made of every word: equal before and after exactly when nothing was written in
    /// between, or all of it was put back bit for bit. For tests and diagnosis; it reads the whole
    /// table.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        for slot in 0..(self.lines * LINE) as u32 {
            // Relaxed: the caller that compares fingerprints orders them with the writes between.
            let word = self.word(slot).load(Ordering::Relaxed);
            if word != 0 {
                hasher.write_u32(slot);
                hasher.write_u128(word);
            }
        }
        hasher.finish()
    }

    /// A hasher for one key; every part must be written so that no two tuples give the same bytes.
    #[inline]
    pub(crate) fn hasher(&self) -> ahash::AHasher {
        self.hasher.build_hasher()
    }

    /// Starts the loads of the first lines of keys, so that a later [`KeyTable::look_from`] finds
    /// them near. Few keys stand in another line: see [`KeyTable::nearest_of`].
    ///
    /// The loads of several keys overlap where single decisions would wait for each in turn.
    #[expect(clippy::inline_always, reason = "as `look`")]
    #[inline(always)]
    pub(crate) fn touch(&self, lines: impl Iterator<Item = FirstLine>) {
        let mut near = 0;
        for FirstLine(start) in lines {
            // Relaxed: the value is thrown away.
            near ^= self.word(start).load(Ordering::Relaxed) as u64;
        }
        // The loads must not be optimised away: they are the point.
        black_box(near);
    }

    /// Finds `key`.
    #[expect(
        clippy::inline_always,
        reason = "an entry that is returned through memory waits for its own stores"
    )]
    #[inline(always)]
    pub(crate) fn look(&self, key: KeyHash) -> Entry {
        self.look_from(self.first_line(key), key)
    }

    /// Where `key` stands, if its first line has room.
    #[inline]
    pub(crate) fn first_line(&self, key: KeyHash) -> FirstLine {
        FirstLine(self.line_start(key))
    }

    /// [`KeyTable::look`], where the first line is known.
    #[expect(clippy::inline_always, reason = "as `look`")]
    #[inline(always)]
    pub(crate) fn look_from(&self, FirstLine(start): FirstLine, key: KeyHash) -> Entry {
        if let Some(entry) = self.look_in(start, key) {
            return entry;
        }
        match self.look_in(self.line_start(key.next()), key) {
            Some(entry) => entry,
            None => self.look_further(key),
        }
    }

    /// Looks beyond the first two lines, where a key only stands if those were full when it came.
    #[inline(never)]
    fn look_further(&self, key: KeyHash) -> Entry {
        // Acquire: a thread that sees the flag also sees a key that was inserted into a further
        // line. A thread that does not see it takes the key for absent, and looks again under the
        // lock that the insertion held.
        if !self.has_spilled.load(Ordering::Acquire) {
            return Entry::NONE;
        }
        let mut lines = self.further_lines_of(key).into_iter();
        lines.find_map(|start| self.look_in(start, key)).unwrap_or(Entry::NONE)
    }

    #[expect(clippy::inline_always, reason = "as `look`")]
    #[inline(always)]
    fn look_in(&self, start: u32, key: KeyHash) -> Option<Entry> {
        let tag = key.tag();
        let first = self.first + start as usize;
        let line = &self.words[first..first + LINE];
        for (slot, word) in (start..).zip(line) {
            // Acquire: orders with the release of the exchange that wrote a ring or permit handle
            // into the word.
            let word = word.load(Ordering::Acquire);
            if word >> TAG_SHIFT == tag && word & SPEC_MASK != 0 {
                return Some(Entry { slot, word });
            }
        }
        None
    }

    /// Writes `state` in place of the one that `entry` has, under the same spec and by one
    /// exchange; `false` if the word has changed. The instant was [noted](Self::note) before.
    #[expect(clippy::inline_always, reason = "as `look`")]
    #[inline(always)]
    pub(crate) fn overwrite(&self, entry: Entry, state: State) -> bool {
        let word = entry.word >> STATE_BITS << STATE_BITS | u128::from(state.to_bits());
        self.exchange(entry.slot, entry.word, word).is_ok()
    }

    /// Notes the instant of a write.
    #[inline]
    pub(crate) fn note(&self, now: Timestamp) {
        if now.as_nanos() >= self.noted_from.load(portable_atomic::Ordering::Relaxed) {
            self.note_write(now);
        }
    }

    #[inline]
    fn word_of(key: KeyHash, spec: SpecNumber, state: State) -> u128 {
        key.tag() << TAG_SHIFT | u128::from(spec.get()) << STATE_BITS | u128::from(state.to_bits())
    }

    /// Writes `state` under `spec` for `key`, provided that the key is still as `entry` says.
    /// `spec` must be pinned, or be the one that `entry` has.
    #[expect(clippy::inline_always, reason = "as `KeyTable::look`")]
    #[inline(always)]
    pub(crate) fn write(
        &self,
        key: KeyHash,
        entry: Entry,
        spec: SpecNumber,
        state: State,
        now: Timestamp,
    ) -> Result<Entry, Unwritten> {
        self.note(now);
        let word = Self::word_of(key, spec, state);
        if entry.is_absent() {
            return self.insert(key, word, now);
        }
        if entry.spec() == Some(spec) {
            self.exchange(entry.slot, entry.word, word).map_err(|_| Unwritten::Moved)?;
        } else {
            let owner = self.owner_of(entry.word);
            self.exchange(entry.slot, entry.word, word).map_err(|_| Unwritten::Moved)?;
            self.move_place(owner, self.owner_of(word));
        }
        Ok(Entry { slot: entry.slot, word })
    }

    #[cold]
    fn note_write(&self, now: Timestamp) {
        let next = now.as_nanos().saturating_add(NOTE_EVERY_NS);
        self.noted_from.fetch_max(next, portable_atomic::Ordering::Relaxed);
    }

    /// The latest instant at which a word was written, early by less than a second.
    pub(crate) fn written_at(&self) -> Timestamp {
        let noted_from = self.noted_from.load(portable_atomic::Ordering::Relaxed);
        Timestamp::from_nanos(noted_from.saturating_sub(NOTE_EVERY_NS))
    }

    /// Frees the word of a key, provided that it is still as `entry` says.
    pub(crate) fn clear(&self, entry: Entry) -> Result<(), Unwritten> {
        if entry.is_absent() {
            return Ok(());
        }
        let owner = self.owner_of(entry.word);
        self.exchange(entry.slot, entry.word, 0).map_err(|_| Unwritten::Moved)?;
        self.give_back_place(owner);
        Ok(())
    }

    /// Counts a request that met a full table.
    pub(crate) fn count_full(&self) {
        let counter = match self.config.when_full {
            WhenFull::Refuse => &self.full_refusals,
            WhenFull::Admit => &self.full_admissions,
        };
        // Relaxed: a metric, ordered with nothing.
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn insert(&self, key: KeyHash, word: u128, now: Timestamp) -> Result<Entry, Unwritten> {
        let _only_me = lock(&self.stripes[(key.0 >> 20) as usize % STRIPES].0);
        if !self.look(key).is_absent() {
            return Err(Unwritten::Moved);
        }
        let near = self.nearest_of(self.lines_of(key), now);
        let choice = near.or_else(|| {
            let far = self.roomiest_of(self.further_lines_of(key), now)?;
            // Release: before the word is written, so that a thread that could find the key there
            // looks there.
            self.has_spilled.store(true, Ordering::Release);
            Some(far)
        });
        let owner = self.owner_of(word);
        let Some((slot, old)) = choice else {
            let earliest = self.first_drain(key, None, now);
            return Err(Unwritten::Full { until: Self::retry_when_full(key, earliest, now) });
        };
        if !self.take_place(key, owner, now) {
            // Only a word of its own namespace gives room to a namespace that is at its share.
            let earliest = self.first_drain(key, Some(owner), now);
            return Err(Unwritten::Full { until: Self::retry_when_full(key, earliest, now) });
        }
        let old_owner = self.owner_of(old);
        // A newcomer with another lock may have taken the word since: the caller looks again and
        // comes back.
        if !self.release_backing(old, now) || self.exchange(slot, old, word).is_err() {
            self.give_back_place(owner);
            return Err(Unwritten::Moved);
        }
        if old == 0 {
            self.first_slots.add(slot);
        } else {
            self.give_back_place(old_owner);
        }
        Ok(Entry { slot, word })
    }

    /// A word that may be taken: in the first line while half of it may, so that most look-ups read
    /// one line; then in the emptier of both, so that a line fills late.
    fn nearest_of(&self, [first, second]: [u32; 2], now: Timestamp) -> Option<(u32, u128)> {
        let (choice, free) = self.free_in(first, now);
        if free as usize >= LINE / 2 {
            return choice;
        }
        let (other, other_free) = self.free_in(second, now);
        if other_free > free { other } else { choice }
    }

    /// A word that may be taken, in the emptiest of some lines: having a choice keeps the lines
    /// even.
    fn roomiest_of<const N: usize>(&self, lines: [u32; N], now: Timestamp) -> Option<(u32, u128)> {
        let free = lines.map(|start| self.free_in(start, now));
        // The last of equals is taken, so the order is reversed to prefer the line that is looked
        // at first.
        free.into_iter().rev().max_by_key(|(_, free)| *free).and_then(|(choice, _)| choice)
    }

    /// The first word of the line at `start` that may be taken, and how many may.
    fn free_in(&self, start: u32, now: Timestamp) -> (Option<(u32, u128)>, u32) {
        let mut choice = None;
        let mut free = 0;
        for slot in start..start + LINE as u32 {
            // Acquire: as in `look`.
            let word = self.word(slot).load(Ordering::Acquire);
            if word == 0 || self.is_drained(word, now) {
                free += 1;
                choice = choice.or(Some((slot, word)));
            }
        }
        (choice, free)
    }

    /// When the first of the words that `key` may take drains, or the first of those that belong to
    /// `owner`; `now` without any.
    fn first_drain(&self, key: KeyHash, owner: Option<Owner>, now: Timestamp) -> Timestamp {
        let lines = self.lines_of(key).into_iter().chain(self.further_lines_of(key));
        lines
            .flat_map(|start| start..start + LINE as u32)
            .map(|slot| self.word(slot).load(Ordering::Acquire))
            .filter(|word| owner.is_none_or(|owner| *word != 0 && self.owner_of(*word) == owner))
            .map(|word| self.drains_at(word, now))
            .min()
            .unwrap_or(now)
    }

    /// When a key that found no room may come back, given that there may be room at `earliest`.
    pub(crate) fn retry_when_full(key: KeyHash, earliest: Timestamp, now: Timestamp) -> Timestamp {
        full_retry(key.next().0, earliest, now)
    }

    /// Whether the state in `word` has the same future as an absent key.
    pub(crate) fn is_drained(&self, word: u128, now: Timestamp) -> bool {
        let entry = Entry { slot: 0, word };
        let state = entry.state();
        if state == State::EMPTY {
            return true;
        }
        let found = entry.spec().and_then(|number| self.specs.get(number));
        // A word without a spec was never written by this table; one whose number is free has been
        // rewritten since.
        found.as_ref().and_then(SpecGuard::spec).is_none_or(|spec| self.is_state_drained(spec, state, now))
    }

    pub(crate) fn is_drained_entry(&self, entry: Entry, now: Timestamp) -> bool {
        self.is_drained(entry.word, now)
    }

    /// Frees the ring or permits behind a word that was just cleared.
    pub(crate) fn reclaim_backing(&self, entry: Entry) {
        self.by_spec(entry, |spec| self.reclaim_backing_of(spec, entry.state()));
    }

    fn drains_at(&self, word: u128, now: Timestamp) -> Timestamp {
        let entry = Entry { slot: 0, word };
        self.by_spec(entry, |spec| self.state_drains_at(spec, entry.state(), now)).unwrap_or(now)
    }

    /// Frees the ring or permits behind a drained word before it is overwritten; `false` if they
    /// came to life.
    fn release_backing(&self, word: u128, now: Timestamp) -> bool {
        let entry = Entry { slot: 0, word };
        self.by_spec(entry, |spec| self.release_backing_of(spec, entry.state(), now)).unwrap_or(true)
    }

    /// The answer of the spec of an entry; `None` if the spec is gone.
    #[inline]
    fn by_spec<T>(&self, entry: Entry, ask: impl FnOnce(&Spec) -> T) -> Option<T> {
        let found = entry.spec().and_then(|number| self.specs.get(number));
        found.as_ref().and_then(SpecGuard::spec).map(ask)
    }

    #[expect(clippy::inline_always, reason = "as `KeyTable::look`")]
    #[inline(always)]
    fn exchange(&self, slot: u32, old: u128, new: u128) -> Result<(), u128> {
        // AcqRel: publishes a ring or permits made before the handle in `new` to the acquire in
        // `look`, and takes in what was published with `old`. Acquire on failure: the word seen
        // instead is only looked up again.
        self.word(slot).compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire).map(|_| ())
    }

    #[inline]
    fn word(&self, slot: u32) -> &AtomicU128 {
        &self.words[self.first + slot as usize]
    }

    /// The first words of the two lines of `key`.
    #[inline]
    fn lines_of(&self, key: KeyHash) -> [u32; 2] {
        [self.line_start(key), self.line_start(key.next())]
    }

    /// The first words of the lines that `key` may stand in when those are full.
    fn further_lines_of(&self, key: KeyHash) -> [u32; FURTHER_LINES] {
        let mut hash = key.next();
        core::array::from_fn(|_| {
            hash = hash.next();
            self.line_start(hash)
        })
    }

    /// Maps a hash to a line by its high bits: a multiplication in place of a division.
    #[inline]
    fn line_start(&self, hash: KeyHash) -> u32 {
        let line = (u128::from(hash.0) * self.lines as u128) >> 64;
        line as u32 * LINE as u32
    }

    fn slots_of_line(line: usize) -> core::ops::Range<u32> {
        let start = (line * LINE) as u32;
        start..start + LINE as u32
    }
}

crate::debug_fields!(KeyTable { config, lines });

/// `count` words of zero. The allocator hands out untouched zeroed pages, and the conversion to
/// atomics is done in place (the standard library collects a mapped `Vec` into its own buffer), so
/// that in an optimised build memory is only used when a key arrives.
#[cfg(not(tidegate_loom))]
fn zeroed_words(count: usize) -> Box<[AtomicU128]> {
    vec![0_u128; count].into_iter().map(AtomicU128::new).collect::<Vec<_>>().into_boxed_slice()
}

#[cfg(tidegate_loom)]
fn zeroed_words(count: usize) -> Box<[AtomicU128]> {
    (0..count).map(|_| AtomicU128::new(0)).collect()
}
