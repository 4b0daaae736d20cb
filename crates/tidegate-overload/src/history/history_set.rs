//! The histories of all resources.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_core::Timestamp;

use super::level_mark::LevelMark;
use super::pressure_mean::PressureMean;
use super::span_shares::SpanShares;
use super::{HISTORY_SPAN, ResourceHistory};
use crate::levels::load_level::LevelThresholds;

/// A look so long after the one before it is about another time: the clock stepped, or nothing ran.
const PAUSE_MAX: Duration = Duration::from_mins(1);

/// The histories of all resources of a program, which share a bound in bytes in equal parts.
///
/// [`HistorySet::observe`] is called at each tick of the overload plane, and makes a sample of each
/// resource every [`HISTORY_SPAN`]. A resource that is not in a call is forgotten.
#[derive(Debug)]
pub struct HistorySet {
    bytes_max: usize,
    /// The part of each resource.
    part: usize,
    resources: BTreeMap<Arc<str>, RunningHistory>,
    last: Option<Timestamp>,
    /// The beginning of the span of all resources.
    span_from: Timestamp,
    /// Tells the resources of one call from those of the one before.
    calls: u64,
}

/// The history of a resource, and what its next sample is made of.
#[derive(Debug)]
struct RunningHistory {
    history: ResourceHistory,
    shares: SpanShares,
    pressure: PressureMean,
    levels: LevelThresholds,
    /// The bytes that its work takes elsewhere.
    work_bytes: usize,
    seen: u64,
}

/// The end of a span of time, and the beginning of the next one, which is another instant only
/// where the clock has stepped between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanEnd {
    /// The end of the span.
    pub until: Timestamp,
    /// The beginning of the next one.
    pub next_from: Timestamp,
}

impl SpanEnd {
    /// A span that ends where the next one begins.
    pub const fn at(now: Timestamp) -> Self {
        Self { until: now, next_from: now }
    }
}

impl HistorySet {
    /// No histories yet, within `bytes_max` bytes together; 0: none are kept.
    pub const fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            part: 0,
            resources: BTreeMap::new(),
            last: None,
            span_from: Timestamp::MIN,
            calls: 0,
        }
    }

    /// The bound in bytes of all histories together. 0: none are kept.
    pub const fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// The end of the span that the next call of [`HistorySet::observe`], at `now`, makes samples
    /// of: its work is to be added before. At the first call a span begins, and the work of before
    /// is of none. `None` where neither is so.
    pub fn span_end(&self, now: Timestamp) -> Option<SpanEnd> {
        if self.bytes_max == 0 {
            return None;
        }
        let Some(last) = self.last else { return Some(SpanEnd::at(now)) };
        if is_step(last, now) {
            return Some(SpanEnd { until: last, next_from: now });
        }
        (now.saturating_since(self.span_from) >= HISTORY_SPAN).then_some(SpanEnd::at(now))
    }

    /// Takes in the pressure of each resource at `now`, and makes samples if they are due.
    ///
    /// Where the clock has stepped, the span ends at the look before and the next one begins at
    /// `now`: the history has a gap, or times that repeat.
    pub fn observe<'a>(
        &mut self,
        pressures: impl IntoIterator<Item = (&'a str, Option<f64>)>,
        now: Timestamp,
    ) {
        if self.bytes_max == 0 {
            return;
        }
        if self.last.is_none() {
            self.span_from = now;
        }
        let last = self.last.replace(now).unwrap_or(now);
        let has_stepped = is_step(last, now);
        let ends = if has_stepped { last } else { now };
        let is_over = has_stepped || now.saturating_since(self.span_from) >= HISTORY_SPAN;
        let lasted = if has_stepped { Duration::ZERO } else { now.saturating_since(last) };
        self.calls = self.calls.wrapping_add(1);
        let count = self.resources.len();
        for (name, pressure) in pressures {
            if !self.resources.contains_key(name) {
                self.resources.insert(name.into(), RunningHistory::new(now));
            }
            let Some(running) = self.resources.get_mut(name) else { continue };
            running.seen = self.calls;
            if has_stepped {
                running.end_span(ends);
                running.shares.begin_at(now);
            }
            running.pressure.observe(pressure, lasted);
            if is_over && !has_stepped {
                running.end_span(ends);
            }
        }
        let seen = self.calls;
        let known = self.resources.len();
        self.resources.retain(|_, running| running.seen == seen);
        if known != count || self.resources.len() != known {
            self.part = self.bytes_max / self.resources.len().max(1);
            self.resources.values_mut().for_each(|running| running.keep_within(self.part));
        }
        if is_over {
            self.span_from = now;
        }
    }

    /// The work of a resource since its last sample, to be added to; `None` if it was not observed
    /// yet.
    pub fn shares(&mut self, resource: &str) -> Option<&mut SpanShares> {
        Some(&mut self.resources.get_mut(resource)?.shares)
    }

    /// Sets the bytes that the work of a resource takes elsewhere before it is added, a part of the
    /// bound. Nothing if the resource was not observed yet.
    pub fn set_work_bytes(&mut self, resource: &str, bytes: usize) {
        if let Some(running) = self.resources.get_mut(resource)
            && running.work_bytes != bytes
        {
            running.work_bytes = bytes;
            running.keep_within(self.part);
        }
    }

    /// Sets the thresholds that the samples of a resource carry from the next one on; before, they
    /// carry [`LevelThresholds::DEFAULT`]. Nothing if the resource was not observed yet.
    pub fn set_levels(&mut self, resource: &str, levels: LevelThresholds) {
        if let Some(running) = self.resources.get_mut(resource) {
            running.levels = levels;
        }
    }

    /// Adds a mark to the history of a resource. Nothing if the resource was not observed yet.
    pub fn mark(&mut self, resource: &str, mark: LevelMark) {
        if let Some(running) = self.resources.get_mut(resource) {
            running.history.mark(mark);
        }
    }

    /// The history of a resource; `None` if it was not observed yet.
    pub fn history(&self, resource: &str) -> Option<&ResourceHistory> {
        Some(&self.resources.get(resource)?.history)
    }
}

impl RunningHistory {
    fn new(now: Timestamp) -> Self {
        Self {
            // The bound follows once it is known how many resources there are.
            history: ResourceHistory::new(0),
            shares: SpanShares::new(now),
            pressure: PressureMean::default(),
            levels: LevelThresholds::DEFAULT,
            work_bytes: 0,
            seen: 0,
        }
    }

    fn keep_within(&mut self, part: usize) {
        self.history.set_bytes_max(part.saturating_sub(self.work_bytes));
    }

    /// Makes a sample of the span, unless it has no length.
    fn end_span(&mut self, at: Timestamp) {
        if at <= self.shares.from() {
            return;
        }
        let pressure = self.pressure.take();
        self.history.push(self.shares.close(at, pressure, self.levels.soft, self.levels.hard));
    }
}

/// Whether the clock has stepped between two looks.
fn is_step(last: Timestamp, now: Timestamp) -> bool {
    now < last || now.saturating_since(last) > PAUSE_MAX
}
