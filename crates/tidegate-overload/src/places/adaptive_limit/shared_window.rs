//! The samples of a window by the namespace that they come from.
//!
//! Callers say how long their work took and whether it failed. So that one namespace moves the
//! limit by no more than its part, each counts once:
//!
//! - The failed share is the median of the shares of the namespaces, the lower middle one if their
//!   number is even. A service that fails, fails for most of them. One that has a good part of the
//!   work in flight, of which nothing has ended yet, counts as one of which nothing failed.
//! - The latency is an index. From one window to the next it moves by the mean of the factors by
//!   which the medians of the namespaces moved, in logarithms, and each counts with at most
//!   [`FACTOR_MAX`]. A namespace that comes or goes does not move it, however long its work takes.
//! - The limit may grow if the samples account for the work in flight of most namespaces: one that
//!   keeps its places holds no other down.
//!
//! While only one namespace has samples or work in flight, its failed share and its median are the
//! measures.

use std::collections::BTreeMap;

use super::latency_histogram::LatencyHistogram;
use crate::namespaces::NAMESPACES_MAX;

/// The most by which the latency of one namespace counts to have moved between two windows.
const FACTOR_MAX: f64 = 2.0;
/// The failed share of a namespace counts from this part of the smallest number of samples on.
const SAMPLES_PART: u32 = 2;
/// A namespace without samples for so many windows is forgotten.
const FORGET_WINDOWS: u32 = 60;
/// All namespaces beyond [`NAMESPACES_MAX`].
const REST: u32 = u32::MAX;

/// The samples of each namespace in the open window.
#[derive(Debug, Default)]
pub(super) struct SharedSamples {
    by_namespace: BTreeMap<u32, NamespaceSamples>,
    /// The ticks at which work in flight was counted.
    ticks: u32,
}

#[derive(Debug, Default)]
struct NamespaceSamples {
    succeeded: u32,
    failed: u32,
    latencies: LatencyHistogram,
    /// The sum of the latencies of all samples in seconds.
    latency_sum: f64,
    /// The sum of the work in flight over the ticks.
    in_flight_sum: f64,
}

/// The measures of one namespace in a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct NamespaceSummary {
    namespace: u32,
    /// The median latency of the successes in seconds; above 0.
    median: Option<f64>,
    /// The part of the samples that failed; `None` if they are few.
    failed_share: Option<f64>,
    /// The average work in flight, and how much of it the samples account for.
    in_flight: f64,
    accounted_for: f64,
}

impl SharedSamples {
    /// Counts a success after so many microseconds.
    pub(super) fn add_success(&mut self, namespace: u32, micros: u64) {
        let samples = self.of(namespace);
        samples.succeeded = samples.succeeded.saturating_add(1);
        samples.latencies.add(micros);
        samples.latency_sum += micros as f64 / 1e6;
    }

    /// Counts a failure after so many seconds.
    pub(super) fn add_failure(&mut self, namespace: u32, latency: f64) {
        let samples = self.of(namespace);
        samples.failed = samples.failed.saturating_add(1);
        samples.latency_sum += latency;
    }

    /// Counts the work in flight of each namespace at a tick.
    pub(super) fn add_in_flight(&mut self, places: impl Iterator<Item = (u32, u64)>) {
        self.ticks = self.ticks.saturating_add(1);
        for (namespace, places) in places {
            self.of(namespace).in_flight_sum += places as f64;
        }
    }

    fn of(&mut self, namespace: u32) -> &mut NamespaceSamples {
        let known = &mut self.by_namespace;
        let has_room = known.len() < NAMESPACES_MAX || known.contains_key(&namespace);
        known.entry(if has_room { namespace } else { REST }).or_default()
    }

    /// The namespaces that had samples or work in flight in a window of so many seconds.
    pub(super) fn summaries(&self, samples_min: u32, seconds: f64) -> Vec<NamespaceSummary> {
        let summary = |(namespace, samples): (&u32, &NamespaceSamples)| {
            let all = samples.succeeded.saturating_add(samples.failed);
            let share = f64::from(samples.failed) / f64::from(all.max(1));
            NamespaceSummary {
                namespace: *namespace,
                median: samples.latencies.median(),
                failed_share: (all > 0 && all >= samples_min / SAMPLES_PART).then_some(share),
                in_flight: samples.in_flight_sum / f64::from(self.ticks.max(1)),
                accounted_for: samples.latency_sum / seconds,
            }
        };
        self.by_namespace.iter().map(summary).collect()
    }

    /// Starts the next window.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// The failed share of a window of these namespaces; `None`: none has enough samples.
pub(super) fn failed_share(namespaces: &[NamespaceSummary]) -> Option<f64> {
    namespaces.iter().find(|one| one.failed_share.is_some())?;
    let in_flight: f64 = namespaces.iter().map(|one| one.in_flight).sum();
    let good_part = in_flight / namespaces.len() as f64 / 2.0;
    let share = |one: &NamespaceSummary| {
        let is_at_work = one.in_flight > 0.0 && one.in_flight >= good_part;
        one.failed_share.or_else(|| is_at_work.then_some(0.0))
    };
    lower_median(namespaces.iter().filter_map(share).collect())
}

/// Whether the samples account for at least this part of the work in flight of most of several
/// namespaces that have some.
pub(super) fn accounts_for_most(namespaces: &[NamespaceSummary], part: f64) -> bool {
    let at_work = || namespaces.iter().filter(|one| one.in_flight > 0.0);
    let accounted = at_work().filter(|one| one.accounted_for >= part * one.in_flight).count();
    at_work().count() > 1 && 2 * accounted >= at_work().count()
}

/// The median of the median latencies of the namespaces.
pub(super) fn typical_latency(namespaces: &[NamespaceSummary]) -> Option<f64> {
    lower_median(namespaces.iter().filter_map(|one| one.median).collect())
}

fn lower_median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    Some(values[values.len().checked_sub(1)? / 2])
}

/// The latency of a resource that namespaces share.
#[derive(Clone, Debug, Default)]
pub(super) struct LatencyIndex {
    /// In seconds; 0 before the first window.
    value: f64,
    /// The median of each namespace in the last window that it had samples in, as it counts, and
    /// the windows since then.
    known: BTreeMap<u32, (f64, u32)>,
}

impl LatencyIndex {
    /// Takes in a window; the latency that it counts as. `all` is the median of all samples.
    pub(super) fn follow(&mut self, namespaces: &[NamespaceSummary], all: Option<f64>) -> Option<f64> {
        let medians: Vec<_> =
            namespaces.iter().filter_map(|one| Some((one.namespace, one.median?))).collect();
        for (_, windows) in self.known.values_mut() {
            *windows += 1;
        }
        self.known.retain(|_, (_, windows)| *windows <= FORGET_WINDOWS);
        let is_alone = |known: &BTreeMap<u32, _>| match medians.as_slice() {
            [] => known.is_empty(),
            [(one, _)] => known.keys().all(|namespace| namespace == one),
            _ => false,
        };
        if is_alone(&self.known) || self.value <= 0.0 {
            self.value = all?;
            self.known.extend(medians.iter().map(|(namespace, median)| (*namespace, (*median, 0))));
            return all;
        }
        let (mut sum, mut count) = (0.0, 0.0);
        for (namespace, median) in medians {
            let before = self.known.get(&namespace).map_or(median, |(before, _)| *before);
            let factor = (median / before).clamp(1.0 / FACTOR_MAX, FACTOR_MAX);
            sum += factor.ln();
            count += 1.0;
            self.known.insert(namespace, (before * factor, 0));
        }
        if count > 0.0 {
            self.value *= (sum / count).exp();
        }
        all.map(|_| self.value)
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    fn summary(namespace: u32, ms: u32, failed_share: f64) -> NamespaceSummary {
        let median = Some(f64::from(ms) / 1e3);
        NamespaceSummary {
            namespace,
            median,
            failed_share: Some(failed_share),
            in_flight: 1.0,
            accounted_for: 1.0,
        }
    }

    /// The index in milliseconds after each of these windows, of which `all` is the first median.
    fn followed(windows: &[&[(u32, u32)]]) -> Vec<f64> {
        let mut index = LatencyIndex::default();
        let follow = |window: &&[(u32, u32)]| {
            let namespaces: Vec<_> =
                window.iter().map(|(namespace, ms)| summary(*namespace, *ms, 0.0)).collect();
            let latency = index.follow(&namespaces, namespaces.first().and_then(|one| one.median));
            (latency.unwrap() * 1e3).round()
        };
        windows.iter().map(follow).collect()
    }

    #[test]
    fn a_namespace_alone_is_followed_at_once() {
        assert_eq!(followed(&[&[(1, 20)], &[(1, 200)], &[(1, 10)]]), [20.0, 200.0, 10.0]);
    }

    #[test]
    fn what_all_see_moves_the_latency_and_what_one_of_two_says_at_most_by_a_root_of_two() {
        assert_eq!(followed(&[&[(1, 20), (2, 100)], &[(1, 40), (2, 200)]]), [20.0, 40.0]);
        assert_eq!(followed(&[&[(1, 20), (2, 100)], &[(1, 20), (2, 60_000)]]), [20.0, 28.0]);
        assert_eq!(followed(&[&[(1, 20), (2, 100)], &[(1, 20), (2, 1)]]), [20.0, 14.0]);
    }

    #[test]
    fn a_namespace_that_comes_goes_and_comes_back_does_not_move_it() {
        let windows: [&[(u32, u32)]; 4] =
            [&[(1, 20)], &[(1, 20), (2, 5_000)], &[(1, 20)], &[(1, 20), (2, 5_000)]];
        assert_eq!(followed(&windows), [20.0, 20.0, 20.0, 20.0]);
    }

    #[test]
    fn failures_count_when_at_least_half_of_the_namespaces_see_them() {
        let share = |shares: &[f64]| {
            let all = shares.iter().enumerate();
            failed_share(&all.map(|(index, share)| summary(index as u32, 20, *share)).collect::<Vec<_>>())
        };
        assert_eq!(share(&[1.0]), Some(1.0));
        assert_eq!(share(&[1.0, 0.0]), Some(0.0));
        assert_eq!(share(&[1.0, 0.5, 0.0]), Some(0.5));
        let few = NamespaceSummary { failed_share: None, ..summary(1, 20, 0.0) };
        assert_eq!(failed_share(&[few]), None);
    }
}
