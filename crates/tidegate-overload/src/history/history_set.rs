//! The histories of all resources.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_core::Timestamp;

use super::pressure_mean::PressureMean;
use super::span_shares::SpanShares;
use super::{HISTORY_SPAN, ResourceHistory};
use crate::levels::load_level::LoadLevel;

/// A look so long after the one before it is about another time: the clock stepped, or nothing ran.
const PAUSE_MAX: Duration = Duration::from_mins(1);

/// The histories of all resources of a program, which share a bound in bytes in equal parts.
///
/// [`HistorySet::observe`] is called at each tick of the overload plane, and makes a sample of each
/// resource every [`HISTORY_SPAN`]. A resource that is not in a call is forgotten.
#[derive(Debug)]
pub struct HistorySet {
    bytes_max: usize,
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
    seen: u64,
}

impl HistorySet {
    /// No histories yet, within `bytes_max` bytes together; 0: none are kept.
    pub const fn new(bytes_max: usize) -> Self {
        Self { bytes_max, resources: BTreeMap::new(), last: None, span_from: Timestamp::MIN, calls: 0 }
    }

    /// The bound in bytes of all histories together. 0: none are kept.
    pub const fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Whether a call of [`HistorySet::observe`] at `now` makes samples, so that work not added yet
    /// should be added before.
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.bytes_max > 0
            && self.last.is_some_and(|last| {
                is_step(last, now) || now.saturating_since(self.span_from) >= HISTORY_SPAN
            })
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
            let part = self.bytes_max / self.resources.len().max(1);
            self.resources.values_mut().for_each(|running| running.history.set_bytes_max(part));
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
            seen: 0,
        }
    }

    /// Makes a sample of the span, unless it has no length.
    fn end_span(&mut self, at: Timestamp) {
        if at <= self.shares.from() {
            return;
        }
        let pressure = self.pressure.take();
        let (soft, hard) = (LoadLevel::Soft.threshold(), LoadLevel::Hard.threshold());
        self.history.push(self.shares.close(at, pressure, soft, hard));
    }
}

/// Whether the clock has stepped between two looks.
fn is_step(last: Timestamp, now: Timestamp) -> bool {
    now < last || now.saturating_since(last) > PAUSE_MAX
}
