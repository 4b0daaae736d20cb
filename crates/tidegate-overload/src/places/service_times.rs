//! The typical time that a resource takes for one request, of all namespaces and of each.
//!
//! Callers say when their work has ended, so one namespace could make every request look long, or
//! short. Each namespace therefore counts once, with the average of its own answers: the typical
//! time of the resource is the median of these. Of an even number the lower one of the middle two
//! counts, so that of two namespaces the one that takes long moves nothing for the other.

use core::time::Duration;
use std::collections::BTreeMap;

use crate::cursor::namespace_slots::NamespaceTick;
use crate::namespaces::NamespaceKey;

/// The part that a tick leaves of the answers before it: a time constant of 3 s.
const KEPT: f64 = 0.97;
/// A namespace with fewer answers of late than this takes no part in the median while others do.
const ANSWERS_MIN: f64 = 1.0;
/// Fewer answers than this fade no further, so that the average of what came last stays known.
const ANSWERS_KEPT: f64 = 0.01;

/// How long a resource takes for one request.
///
/// Default: nothing is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceTimes {
    typical: Duration,
    /// In the order of the namespaces, those that count together as one last.
    by_namespace: Vec<(NamespaceKey, Duration)>,
}

impl ServiceTimes {
    /// The same time for each namespace; zero: it is not known.
    pub const fn typical_of_all(time: Duration) -> Self {
        Self { typical: time, by_namespace: Vec::new() }
    }

    /// The typical time of the resource; zero: it is not known.
    pub const fn typical(&self) -> Duration {
        self.typical
    }

    /// The average time of a namespace; that of the resource where it is not known.
    pub(crate) fn of(&self, namespace: NamespaceKey) -> Duration {
        let found = self.by_namespace.binary_search_by_key(&namespace, |(key, _)| *key);
        found.map_or(self.typical, |index| self.by_namespace[index].1)
    }
}

/// The answers of late of each namespace, by its slot; the ticks own them.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecentAnswers(BTreeMap<usize, NamespaceAnswers>);

#[derive(Clone, Copy, Debug)]
struct NamespaceAnswers {
    namespace: NamespaceKey,
    /// Their number and the sum of their times in microseconds, both fading.
    count: f64,
    micros: f64,
}

impl NamespaceAnswers {
    fn average(&self) -> Duration {
        Duration::try_from_secs_f64(self.micros / self.count / 1e6).unwrap_or(Duration::MAX)
    }
}

impl RecentAnswers {
    /// Takes in the answers of one tick.
    #[expect(clippy::cast_precision_loss, reason = "an average needs three digits")]
    pub(crate) fn learn(&mut self, ticks: &[NamespaceTick]) {
        for answers in self.0.values_mut().filter(|answers| answers.count > ANSWERS_KEPT) {
            answers.count *= KEPT;
            answers.micros *= KEPT;
        }
        for tick in ticks.iter().filter(|tick| tick.answered > 0) {
            let new = NamespaceAnswers { namespace: tick.namespace, count: 0.0, micros: 0.0 };
            let answers = self.0.entry(tick.slot).or_insert(new);
            if answers.namespace != tick.namespace {
                *answers = new;
            }
            answers.count += tick.answered as f64;
            answers.micros += tick.answer_us as f64;
        }
    }

    /// Forgets a namespace that has left its slot.
    pub(crate) fn forget(&mut self, slot: usize) {
        self.0.remove(&slot);
    }

    /// How long the resource takes.
    pub(crate) fn service_times(&self) -> ServiceTimes {
        let mut by_namespace: Vec<_> =
            self.0.values().map(|answers| (answers.namespace, answers.average())).collect();
        by_namespace.sort_unstable();
        let is_recent = |answers: &&NamespaceAnswers| answers.count >= ANSWERS_MIN;
        let mut averages: Vec<_> = self.0.values().filter(is_recent).map(NamespaceAnswers::average).collect();
        if averages.is_empty() {
            averages = by_namespace.iter().map(|(_, average)| *average).collect();
        }
        averages.sort_unstable();
        let typical = averages.len().checked_sub(1).map(|last| averages[last / 2]);
        ServiceTimes { typical: typical.unwrap_or_default(), by_namespace }
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Ticks in which each of these namespaces has so many answers of so many milliseconds.
    fn after(ticks: u32, answers: &[(u32, u64, u64)]) -> RecentAnswers {
        let mut recent = RecentAnswers::default();
        let tick = |slot: usize, (namespace, count, ms): &(u32, u64, u64)| NamespaceTick {
            answered: *count,
            answer_us: count * ms * 1_000,
            ..NamespaceTick::idle(slot, NamespaceKey::Exact(*namespace))
        };
        for _ in 0..ticks {
            recent.learn(&answers.iter().enumerate().map(|(slot, one)| tick(slot, one)).collect::<Vec<_>>());
        }
        recent
    }

    #[test]
    fn a_namespace_moves_the_typical_time_by_at_most_its_part() {
        let typical = |answers: &[(u32, u64, u64)]| after(20, answers).service_times().typical();
        assert_eq!(typical(&[]), Duration::ZERO);
        assert_eq!(typical(&[(1, 5, 20)]), 20 * MS);
        assert_eq!(typical(&[(1, 5, 20), (2, 1, 3_600_000)]), 20 * MS, "one of two holds for an hour");
        let three = [(1, 5, 20), (2, 5, 30), (3, 10_000, 0)];
        assert_eq!(typical(&three), 20 * MS, "one of three ends its work at once, however often");
    }

    #[test]
    fn each_namespace_has_a_time_of_its_own_and_that_of_the_resource_until_it_is_known() {
        let times = after(20, &[(7, 5, 20), (2, 1, 300)]).service_times();
        assert_eq!(times.of(NamespaceKey::Exact(7)), 20 * MS);
        assert_eq!(times.of(NamespaceKey::Exact(2)), 300 * MS);
        assert_eq!(times.of(NamespaceKey::Exact(9)), times.typical());
    }

    #[test]
    fn the_last_average_stays_known_and_one_without_answers_leaves_the_median_to_others() {
        let mut recent = after(20, &[(1, 5, 20), (2, 5, 90)]);
        let nothing = |recent: &mut RecentAnswers, ticks| (0..ticks).for_each(|_| recent.learn(&[]));
        nothing(&mut recent, 100_000);
        assert_eq!(recent.service_times().typical().as_millis(), 20);
        let answer = NamespaceTick {
            answered: 2,
            answer_us: 180_000,
            ..NamespaceTick::idle(1, NamespaceKey::Exact(2))
        };
        recent.learn(&[answer]);
        assert_eq!(recent.service_times().typical().as_millis(), 90);
        recent.forget(1);
        assert_eq!(recent.service_times().typical().as_millis(), 20);
    }
}
