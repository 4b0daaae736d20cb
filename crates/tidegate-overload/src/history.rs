//! The history of a resource: its pressure over the last day, and the work that it came from.
//!
//! A [`HistorySample`] is about a span of time: the mean pressure, the thresholds, and how long
//! requests of each feature, class and namespace held places. The last hour is kept in samples of
//! [`HISTORY_SPAN`], the rest of the day in minutes made of them: place times and units add up, the
//! pressure is the mean weighted by time. [`areas`] divides the pressure of a sample, for a picture
//! of stacked areas.
//!
//! All of it is bounded. A sample names [`HISTORY_NAMES_MAX`] features and as many namespaces, and
//! adds the rest to [`OTHER_NAME`]. A [`ResourceHistory`] is bounded in bytes: a new sample takes
//! the place of the oldest minutes, which are counted. A clock that steps leaves a gap, or times
//! that repeat; no sample is invented and none is moved.

mod area;
mod history_sample;
mod history_set;
mod level_mark;
mod pressure_mean;
mod span_shares;

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tidegate_core::Timestamp;

pub use area::{AreaMeasure, AreaOwner, UNATTRIBUTED, areas};
pub use history_sample::{HISTORY_NAME_BYTES_MAX, HISTORY_NAMES_MAX, HistorySample, OTHER_NAME, ShareRow};
pub use history_sample::{PRESSURE_MAX, ShareTotals};
pub use history_set::{HistorySet, SpanEnd};
pub use level_mark::{HISTORY_MARKS_MAX, LevelMark};
pub use pressure_mean::PressureMean;
pub use span_shares::{SPAN_ROWS_MAX, SpanShares};

/// The time of a sample in the last hour.
pub const HISTORY_SPAN: Duration = Duration::from_secs(10);

/// How long samples stay as they were pushed, before they become parts of minutes.
pub const HISTORY_FINE: Duration = Duration::from_hours(1);

/// How long samples are kept.
pub const HISTORY_KEPT: Duration = Duration::from_hours(24);

const MINUTE: Duration = Duration::from_mins(1);

/// The most samples that are kept as they were pushed.
const FINE_MAX: usize = (HISTORY_FINE.as_secs() / HISTORY_SPAN.as_secs()) as usize;

/// The most minutes that are kept. More come only of a clock that steps, or of a daemon that is
/// interrupted within minutes.
const MINUTES_MAX: usize = (HISTORY_KEPT.as_secs() / MINUTE.as_secs()) as usize;

/// How many places for samples are made at a time.
const PLACES: usize = 8;

/// The memory of a name beside its bytes: its counts, and its part of a node of the map.
const NAME_OVERHEAD: usize = 64;

/// The samples of one resource, from the oldest to the newest, within a bound in bytes.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::{Class, Timestamp};
/// use tidegate_overload::{AreaOwner, ResourceHistory, SpanShares, areas};
///
/// let begin = Timestamp::from_secs(1_800_000_000);
/// let mut span = SpanShares::new(begin);
/// span.add("search", Class::Critical, "shop", Duration::from_secs(30), 3);
/// span.add("export", Class::Sheddable, "shop", Duration::from_secs(10), 1);
/// let sample = span.close(begin.saturating_add(Duration::from_secs(10)), Some(0.8), 0.7, 0.9);
/// let mut history = ResourceHistory::new(64 << 10);
/// history.push(sample);
/// let sample = history.samples().next().expect("one sample was pushed");
/// let heights = areas(sample, AreaOwner::Feature);
/// assert_eq!((heights[0].0, heights[1].0), ("search", "export"));
/// assert!((heights[0].1 - 0.6).abs() < 1e-9 && (heights[1].1 - 0.2).abs() < 1e-9);
/// ```
#[derive(Debug)]
pub struct ResourceHistory {
    minutes: VecDeque<HistorySample>,
    fine: VecDeque<HistorySample>,
    /// In the order in which they were pushed.
    marks: VecDeque<LevelMark>,
    /// The bytes of marks and their names.
    mark_bytes: usize,
    /// Each name that a sample has, once, with the number of rows that have it.
    names: BTreeMap<Arc<str>, u32>,
    /// The bytes of rows and names.
    heap_bytes: usize,
    bytes_max: usize,
    dropped: u64,
    marks_dropped: u64,
}

/// A span without samples, or one that samples repeat, because the clock stepped or nothing ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryBreak {
    /// The end of the sample before.
    pub until: Timestamp,
    /// The beginning of the sample after: later than `until` is a gap, earlier a step back.
    pub from: Timestamp,
}

impl ResourceHistory {
    /// An empty history within `bytes_max` bytes. A sample takes 160 to 992 bytes, and places are
    /// made eight at a time: with fewer than 2 KiB nothing may be kept, and each sample counts as
    /// dropped.
    pub const fn new(bytes_max: usize) -> Self {
        Self {
            minutes: VecDeque::new(),
            fine: VecDeque::new(),
            marks: VecDeque::new(),
            mark_bytes: 0,
            names: BTreeMap::new(),
            heap_bytes: 0,
            bytes_max,
            dropped: 0,
            marks_dropped: 0,
        }
    }

    /// Adds the newest sample. Older ones become minutes, and the oldest are dropped: those that
    /// ended [`HISTORY_KEPT`] before this one, and as many as there is no room for.
    pub fn push(&mut self, sample: HistorySample) {
        let now = sample.until;
        let sample = self.intern(sample.bounded());
        make_place(&mut self.fine);
        self.fine.push_back(sample);
        let fine_since = now.saturating_sub(HISTORY_FINE);
        while self.fine.len() > FINE_MAX || self.fine.front().is_some_and(|one| one.until <= fine_since) {
            self.thin_oldest();
        }
        let kept_since = now.saturating_sub(HISTORY_KEPT);
        while self.minutes.front().is_some_and(|one| one.until <= kept_since) {
            self.drop_oldest();
        }
        while self.minutes.len() > MINUTES_MAX {
            self.drop_oldest();
            self.dropped = self.dropped.saturating_add(1);
        }
        while self.marks.front().is_some_and(|mark| mark.at <= kept_since) {
            self.drop_oldest_mark();
        }
        self.keep_within_bound();
    }

    /// Adds a mark. The oldest of more than [`HISTORY_MARKS_MAX`] is dropped, and so are marks from
    /// [`HISTORY_KEPT`] before the newest sample. Nothing is kept in a history of 0 bytes.
    pub fn mark(&mut self, mark: LevelMark) {
        if self.bytes_max == 0 {
            return;
        }
        if self.marks.len() >= HISTORY_MARKS_MAX {
            self.drop_oldest_mark();
            self.marks_dropped = self.marks_dropped.saturating_add(1);
        }
        self.mark_bytes += mark.bytes();
        self.marks.push_back(mark);
        self.keep_within_bound();
    }

    /// The marks in the order in which they were added.
    pub fn marks(&self) -> impl DoubleEndedIterator<Item = &LevelMark> {
        self.marks.iter()
    }

    /// The marks that were dropped although they were younger than [`HISTORY_KEPT`], for want of
    /// room.
    pub const fn marks_dropped(&self) -> u64 {
        self.marks_dropped
    }

    /// Sets the bound in bytes, and drops the oldest samples beyond it.
    pub fn set_bytes_max(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
        self.keep_within_bound();
    }

    /// The samples in the order in which they were pushed: minutes first, then those of the last
    /// hour.
    pub fn samples(&self) -> impl DoubleEndedIterator<Item = &HistorySample> {
        self.minutes.iter().chain(&self.fine)
    }

    /// Where a sample does not begin at the end of the one before, from the oldest to the newest.
    pub fn breaks(&self) -> impl Iterator<Item = HistoryBreak> {
        self.samples()
            .zip(self.samples().skip(1))
            .filter(|(before, after)| before.until != after.from)
            .map(|(before, after)| HistoryBreak { until: before.until, from: after.from })
    }

    /// The beginning of the oldest sample; `None` without samples. Nothing after it was dropped.
    pub fn complete_since(&self) -> Option<Timestamp> {
        Some(self.samples().next()?.from)
    }

    /// The samples that were dropped although they were younger than [`HISTORY_KEPT`], for want of
    /// room.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The bytes in use, without what the allocator adds.
    pub fn bytes(&self) -> usize {
        let places = self.minutes.capacity() + self.fine.capacity();
        places * size_of::<HistorySample>() + self.heap_bytes + self.mark_bytes
    }

    /// Makes the oldest sample of the last hour a part of its minute.
    fn thin_oldest(&mut self) {
        let Some(sample) = self.fine.pop_front() else { return };
        let goes_on = self.minutes.back().is_some_and(|minute| is_next_part(minute, &sample));
        if let Some(minute) = goes_on.then(|| self.minutes.pop_back()).flatten() {
            let (minute, sample) = (self.release(minute), self.release(sample));
            let merged = self.intern(minute.joined_with(sample));
            self.minutes.push_back(merged);
        } else {
            make_place(&mut self.minutes);
            self.minutes.push_back(sample);
        }
    }

    fn keep_within_bound(&mut self) {
        loop {
            give_back_places(&mut self.minutes);
            give_back_places(&mut self.fine);
            if self.bytes() <= self.bytes_max {
                return;
            }
            if self.drop_oldest() {
                self.dropped = self.dropped.saturating_add(1);
            } else if self.drop_oldest_mark() {
                self.marks_dropped = self.marks_dropped.saturating_add(1);
            } else {
                return;
            }
        }
    }

    /// Whether there was one.
    fn drop_oldest_mark(&mut self) -> bool {
        let oldest = self.marks.pop_front();
        self.mark_bytes -= oldest.as_ref().map_or(0, LevelMark::bytes);
        oldest.is_some()
    }

    /// Whether there was one.
    fn drop_oldest(&mut self) -> bool {
        let oldest = self.minutes.pop_front().or_else(|| self.fine.pop_front());
        oldest.map(|sample| self.release(sample)).is_some()
    }

    /// Counts what a sample holds, whose names are shared with the other samples.
    fn intern(&mut self, mut sample: HistorySample) -> HistorySample {
        self.heap_bytes += sample.row_bytes();
        for row in sample.rows_mut() {
            if let Some((name, rows)) = self.names.get_key_value(&row.name) {
                let (name, rows) = (Arc::clone(name), *rows);
                row.name = Arc::clone(&name);
                self.names.insert(name, rows + 1);
            } else {
                self.heap_bytes += row.name.len() + NAME_OVERHEAD;
                self.names.insert(Arc::clone(&row.name), 1);
            }
        }
        sample
    }

    /// Takes what a sample holds off the count.
    fn release(&mut self, mut sample: HistorySample) -> HistorySample {
        self.heap_bytes -= sample.row_bytes();
        for row in sample.rows_mut() {
            match self.names.get_mut(&row.name) {
                Some(rows) if *rows > 1 => *rows -= 1,
                _ => {
                    self.names.remove(&row.name);
                    self.heap_bytes -= row.name.len() + NAME_OVERHEAD;
                }
            }
        }
        sample
    }
}

/// Whether a sample goes on with a minute. One with other thresholds, or after a break, does not.
fn is_next_part(minute: &HistorySample, sample: &HistorySample) -> bool {
    let minute_of = |at: Timestamp| at.as_secs() / MINUTE.as_secs();
    minute.until == sample.from
        && minute_of(minute.from) == minute_of(sample.from)
        && minute.pressure.is_some() == sample.pressure.is_some()
        && minute.soft.to_bits() == sample.soft.to_bits()
        && minute.hard.to_bits() == sample.hard.to_bits()
}

/// Makes a place for one more sample, without the doubling that would leave half of them unused.
fn make_place(samples: &mut VecDeque<HistorySample>) {
    if samples.len() == samples.capacity() {
        samples.reserve_exact(PLACES);
    }
}

/// Gives places back that are not in use.
fn give_back_places(samples: &mut VecDeque<HistorySample>) {
    if samples.capacity() > samples.len() + 2 * PLACES || samples.is_empty() {
        samples.shrink_to(samples.len());
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests;
