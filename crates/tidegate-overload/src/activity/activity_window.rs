//! The seconds that a [`RecentActivity`] is made of.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use tidegate_core::{Class, Timestamp};

use crate::activity::recent_activity::{ACTIVITY_SPAN, ActivityCounts, ActivityRow, RecentActivity};
use crate::activity::time_counts::TimeCounts;
use crate::cursor::namespace_slots::{NamespaceSlots, NamespaceTick};
use crate::namespaces::NamespaceKey;
use crate::outcome::ClassStats;

const SECOND: Duration = Duration::from_secs(1);
/// Ticks further apart leave a gap, of which nothing is known.
const GAP: Duration = Duration::from_secs(2);
/// The seconds that are kept, the one that runs not counted.
const SECONDS: usize = ACTIVITY_SPAN.as_secs() as usize;

/// A second of a resource.
#[derive(Clone, Debug)]
struct ActivitySecond {
    /// The tick before its first one.
    from: Timestamp,
    rows: BTreeMap<(NamespaceKey, Class), ActivityCounts>,
    place_times: [TimeCounts; Class::ALL.len()],
    waits: [TimeCounts; Class::ALL.len()],
}

impl ActivitySecond {
    fn new(from: Timestamp) -> Self {
        let (place_times, waits) = Default::default();
        Self { from, rows: BTreeMap::new(), place_times, waits }
    }
}

/// The last seconds of a resource, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct ActivityWindow {
    seconds: VecDeque<ActivitySecond>,
    last: Option<Timestamp>,
    /// The counts of each slot at the last tick.
    before: BTreeMap<usize, [ClassStats; Class::ALL.len()]>,
    /// The waits that the queue has reported since the last tick.
    waits: [TimeCounts; Class::ALL.len()],
}

impl ActivityWindow {
    /// Takes in the waits of requests that were served since the last report.
    pub(crate) fn add_waits(&mut self, waits: &[TimeCounts; Class::ALL.len()]) {
        for (all, more) in self.waits.iter_mut().zip(waits) {
            all.merge(more);
        }
    }

    /// Takes in what happened since the last tick.
    pub(crate) fn tick(&mut self, slots: &NamespaceSlots, ticks: &[NamespaceTick], now: Timestamp) {
        let last = self.last.replace(now);
        let is_gap = last.is_none_or(|last| now < last || now.saturating_since(last) > GAP);
        if is_gap {
            self.seconds.clear();
        }
        let is_over = self.seconds.back().is_none_or(|second| now.saturating_since(second.from) > SECOND);
        if is_over {
            self.seconds.push_back(ActivitySecond::new(if is_gap { now } else { last.unwrap_or(now) }));
            if self.seconds.len() > SECONDS + 1 {
                self.seconds.pop_front();
            }
        }
        let Some(second) = self.seconds.back_mut() else { return };
        for (slot, namespace, stats) in slots.counts() {
            let before = self.before.insert(slot, stats).unwrap_or_default();
            for (class, (stats, before)) in Class::ALL.into_iter().zip(stats.iter().zip(&before)) {
                if stats != before {
                    let row = second.rows.entry((namespace, class)).or_default();
                    row.stats = row.stats.plus(&stats.since(before));
                }
            }
        }
        for tick in ticks {
            for class in Class::ALL {
                let at = class as usize;
                let (served, ended, held) = (tick.served[at], tick.ended[at], tick.held_us[at]);
                if served > 0 || ended > 0 {
                    let row = second.rows.entry((tick.namespace, class)).or_default();
                    row.served += served;
                    row.ended += ended;
                    row.held = row.held.saturating_add(Duration::from_micros(held));
                }
            }
        }
        let waits = core::mem::take(&mut self.waits);
        for class in Class::ALL {
            let at = class as usize;
            // Most resources are idle at most ticks, and a histogram has hundreds of counts.
            if ticks.iter().any(|tick| tick.ended[at] > 0) {
                slots.take_place_times(class, &mut second.place_times[at]);
            }
            second.waits[at].merge(&waits[at]);
        }
        if is_gap {
            // The time before the first tick is not known, so its counts make no rate.
            *second = ActivitySecond::new(now);
        }
    }

    /// The counts of the seconds that are kept.
    pub(crate) fn recent(&self) -> RecentActivity {
        let mut recent = RecentActivity::default();
        let (Some(first), Some(last)) = (self.seconds.front(), self.last) else { return recent };
        recent.span = last.saturating_since(first.from);
        let mut rows: BTreeMap<(NamespaceKey, Class), ActivityCounts> = BTreeMap::new();
        for second in &self.seconds {
            for (key, counts) in &second.rows {
                let row = rows.entry(*key).or_default();
                *row = row.plus(counts);
            }
            for (all, more) in recent.place_times.iter_mut().zip(&second.place_times) {
                all.merge(more);
            }
            for (all, more) in recent.waits.iter_mut().zip(&second.waits) {
                all.merge(more);
            }
        }
        let rows = rows.into_iter().map(|((namespace, class), counts)| ActivityRow {
            namespace: namespace.number(),
            class,
            counts,
        });
        recent.rows = rows.collect();
        recent
    }
}
