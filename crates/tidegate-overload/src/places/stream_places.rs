//! The streams of a resource: answers that go on after the place of their request was given back.
//!
//! A stream is counted from the admission of its request until its end, so that a request that
//! would become a stream too many is refused before any work is done. Where several namespaces have
//! streams, each has its part of the bound, which no other can take: a stream may last for ever, so
//! a part that another namespace had borrowed would never come back.

use core::time::Duration;
use std::collections::BTreeMap;

use crate::backoff::{Backoff, scattered};
use crate::resource_id::ResourceId;
use crate::sync::{Mutex, MutexGuard, lock};
use crate::tick::TICK;

/// The right of one request to become a stream. Dropping it does not return it: its owner passes it
/// to `Overload::close_stream`.
#[derive(Debug)]
#[must_use = "a stream that is not closed is lost"]
pub struct StreamPermit {
    pub(crate) resource: ResourceId,
    pub(crate) namespace: u32,
}

/// The streams of a resource at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamStats {
    /// Those that are open, and requests that may become one.
    pub open: u64,
    /// The most at once.
    pub max: u64,
    /// The requests that were refused for want of one since the start.
    pub refused: u64,
}

/// A request that would become a stream too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamRefusal {
    /// The bound that it met: that of the resource, or the part of its namespace.
    pub(crate) max: u64,
    pub(crate) retry_after: Duration,
}

/// The streams of one resource. Only requests that may become one take the lock.
#[derive(Debug)]
pub(crate) struct StreamPlaces(Mutex<StreamCounts>);

#[derive(Debug)]
struct StreamCounts {
    max: u64,
    open: u64,
    /// Those of each namespace that has any.
    by_namespace: BTreeMap<u32, u64>,
    /// The shares of the namespaces that may have streams.
    shares: BTreeMap<u32, u32>,
    refused: u64,
    /// Those since the last tick.
    refused_lately: u64,
    backoff: Backoff,
}

impl StreamPlaces {
    pub(crate) fn new(max: u64) -> Self {
        Self(Mutex::new(StreamCounts {
            max,
            open: 0,
            by_namespace: BTreeMap::new(),
            shares: BTreeMap::new(),
            refused: 0,
            refused_lately: 0,
            backoff: Backoff::new(),
        }))
    }

    fn counts(&self) -> MutexGuard<'_, StreamCounts> {
        lock(&self.0)
    }

    /// Sets the bound. Streams above it stay.
    pub(crate) fn set_max(&self, max: u64) {
        self.counts().max = max;
    }

    /// Sets which namespaces have streams, and their shares.
    pub(crate) fn set_shares(&self, shares: BTreeMap<u32, u32>) {
        self.counts().shares = shares;
    }

    /// Counts a stream of a namespace; the refusal of one too many. `key` scatters the hints.
    pub(crate) fn open(&self, namespace: u32, key: u64) -> Result<(), StreamRefusal> {
        let counts = &mut *self.counts();
        if let Some(max) = counts.bound_met(namespace) {
            let retry_after = scattered(counts.backoff.hint(), key, counts.refused);
            counts.refused += 1;
            counts.refused_lately += 1;
            return Err(StreamRefusal { max, retry_after });
        }
        counts.open += 1;
        *counts.by_namespace.entry(namespace).or_default() += 1;
        Ok(())
    }

    /// The refusal that [`StreamPlaces::open`] would give; counts nothing.
    pub(crate) fn would_refuse(&self, namespace: u32, key: u64) -> Option<StreamRefusal> {
        let counts = self.counts();
        let max = counts.bound_met(namespace)?;
        Some(StreamRefusal { max, retry_after: scattered(counts.backoff.hint(), key, counts.refused) })
    }

    /// Takes a stream of a namespace back.
    pub(crate) fn close(&self, namespace: u32) {
        let counts = &mut *self.counts();
        counts.open = counts.open.saturating_sub(1);
        if let Some(open) = counts.by_namespace.get_mut(&namespace) {
            *open = open.saturating_sub(1);
            if *open == 0 {
                counts.by_namespace.remove(&namespace);
            }
        }
    }

    /// Moves the hint by what was refused since the last tick.
    pub(crate) fn tick(&self) {
        let counts = &mut *self.counts();
        let refused = core::mem::take(&mut counts.refused_lately);
        counts.backoff.observe(refused, TICK);
    }

    /// The numbers; `None` for a resource that has no streams.
    pub(crate) fn stats(&self) -> Option<StreamStats> {
        let StreamCounts { max, open, shares, refused, .. } = &*self.counts();
        let is_used = !shares.is_empty() || *open > 0 || *refused > 0;
        is_used.then_some(StreamStats { open: *open, max: *max, refused: *refused })
    }
}

impl StreamCounts {
    /// The bound that one more stream of a namespace would exceed.
    fn bound_met(&self, namespace: u32) -> Option<u64> {
        let part = self.part_of(namespace);
        let own = self.by_namespace.get(&namespace).copied().unwrap_or(0);
        if own >= part {
            return Some(part);
        }
        (self.open >= self.max).then_some(self.max)
    }

    /// The streams that a namespace may have: all of them where no other has any, and at least one.
    fn part_of(&self, namespace: u32) -> u64 {
        let share = self.shares.get(&namespace).copied().unwrap_or(1);
        let others = self.shares.iter().filter(|(other, _)| **other != namespace);
        let all = others.map(|(_, share)| u64::from(*share)).sum::<u64>() + u64::from(share);
        (self.max.saturating_mul(share.into()) / all).max(1)
    }
}

#[cfg(all(test, not(tidegate_loom)))]
mod tests {
    use super::*;

    /// How many of ten streams a namespace may open.
    fn opened(streams: &StreamPlaces, namespace: u32) -> usize {
        (0..10).filter(|_| streams.open(namespace, 7).is_ok()).count()
    }

    #[test]
    fn a_namespace_alone_has_all_streams_and_of_several_each_has_its_part() {
        for (shares, parts) in [
            (&[][..], [4, 0]),
            (&[(1, 1)], [4, 0]),
            (&[(1, 1), (2, 1)], [2, 2]),
            (&[(1, 3), (2, 1)], [3, 1]),
            // No part is nothing, and all of them are within the bound.
            (&[(1, 10_000), (2, 1)], [3, 1]),
        ] {
            let streams = StreamPlaces::new(4);
            streams.set_shares(shares.iter().copied().collect());
            assert_eq!([opened(&streams, 1), opened(&streams, 2)], parts, "{shares:?}");
            let all = parts.iter().sum::<usize>() as u64;
            assert_eq!(streams.stats().unwrap(), StreamStats { open: all, max: 4, refused: 20 - all });
        }
    }

    #[test]
    fn a_part_that_is_not_used_is_no_other_namespaces() {
        let streams = StreamPlaces::new(4);
        streams.set_shares([(1, 1), (2, 1)].into());
        assert_eq!(opened(&streams, 1), 2, "the other one may come at any time");
        assert_eq!(streams.open(1, 7).unwrap_err().max, 2);
        assert_eq!(opened(&streams, 2), 2);
    }

    #[test]
    fn a_closed_stream_makes_room_for_one() {
        let streams = StreamPlaces::new(2);
        assert_eq!(opened(&streams, 1), 2);
        assert!(streams.would_refuse(1, 7).is_some());
        streams.close(1);
        assert_eq!((streams.would_refuse(1, 7), opened(&streams, 1)), (None, 1));
        streams.set_max(1);
        streams.close(1);
        assert_eq!(opened(&streams, 1), 0, "a lower bound holds for new streams");
        streams.close(1);
        assert_eq!(streams.stats().unwrap().open, 0);
        assert!(streams.counts().by_namespace.is_empty());
    }

    #[test]
    fn the_hint_grows_while_many_are_refused() {
        let streams = StreamPlaces::new(1);
        assert_eq!(streams.stats(), None, "no request was a stream");
        assert_eq!(opened(&streams, 1), 1);
        let first = streams.would_refuse(1, 7).unwrap().retry_after;
        assert!((Duration::from_secs(1)..=Duration::from_millis(1500)).contains(&first), "{first:?}");
        for _ in 0..100 {
            opened(&streams, 1);
            streams.tick();
        }
        assert!(streams.would_refuse(1, 7).unwrap().retry_after >= Duration::from_secs(2));
    }
}
