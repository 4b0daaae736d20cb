//! The report of what happened at a resource lately.

use core::time::Duration;

use tidegate_core::Class;

use crate::activity::time_counts::TimeCounts;
use crate::outcome::ClassStats;

/// The requests of one class and namespace within a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ActivityCounts {
    /// Those that were offered, and those whose decision fell, by outcome.
    pub stats: ClassStats,
    /// Those that began to be served: they got a place, or were in pace.
    pub served: u64,
    /// Those whose work ended, and how long they kept their places together.
    pub ended: u64,
    /// See `ended`.
    pub held: Duration,
}

impl ActivityCounts {
    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: &Self) -> Self {
        Self {
            stats: self.stats.plus(&other.stats),
            served: self.served + other.served,
            ended: self.ended + other.ended,
            held: self.held.saturating_add(other.held),
        }
    }
}

/// The counts of one namespace in one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ActivityRow {
    /// The number of the namespace; `None`: all beyond [`NAMESPACES_MAX`](crate::NAMESPACES_MAX).
    pub namespace: Option<u32>,
    /// The class.
    pub class: Class,
    /// Its counts.
    pub counts: ActivityCounts,
}

/// The requests at a resource in the last [`ACTIVITY_SPAN`] and the current second.
///
/// `stats` count each request at two instants: as offered when it comes, and by its outcome when it
/// is decided. Requests that wait across the begin of the time are decided in it and not offered.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RecentActivity {
    /// The time that the counts are of: less than [`ACTIVITY_SPAN`] at first and after a gap.
    pub span: Duration,
    /// In the order of namespaces, those that count as one last, and of classes; only those with
    /// any request.
    pub rows: Vec<ActivityRow>,
    /// The time for which requests of each class kept their places, of those whose work ended, in
    /// the order of [`Class::ALL`].
    pub place_times: [TimeCounts; Class::ALL.len()],
    /// How long requests of each class waited that were served from the queue.
    pub waits: [TimeCounts; Class::ALL.len()],
}

/// The time of which a [`RecentActivity`] tells.
pub const ACTIVITY_SPAN: Duration = Duration::from_secs(10);

impl RecentActivity {
    /// The counts of a class, all namespaces together.
    pub fn class(&self, class: Class) -> ActivityCounts {
        let rows = self.rows.iter().filter(|row| row.class == class);
        rows.fold(ActivityCounts::default(), |sum, row| sum.plus(&row.counts))
    }

    /// All counts together.
    pub fn all(&self) -> ActivityCounts {
        self.rows.iter().fold(ActivityCounts::default(), |sum, row| sum.plus(&row.counts))
    }

    /// The times of all classes together.
    pub fn all_of(times: &[TimeCounts; Class::ALL.len()]) -> TimeCounts {
        let mut all = TimeCounts::default();
        for one in times {
            all.merge(one);
        }
        all
    }

    /// A count as a number a second; 0 while no time has passed.
    #[expect(clippy::cast_precision_loss, reason = "a rate needs three digits")]
    pub fn rate(&self, count: u64) -> f64 {
        let seconds = self.span.as_secs_f64();
        if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
    }

    /// The work that was asked for, divided by what `places` can do: requests that were offered
    /// and that no limit, table or feature refused, times the mean time that one keeps its place.
    /// `None` while no work has ended, or without places.
    #[expect(clippy::cast_precision_loss, reason = "a ratio needs three digits")]
    pub fn offered_load(&self, places: u64) -> Option<f64> {
        let all = self.all();
        let asked = all.stats.offered.saturating_sub(all.stats.refused_before_load());
        let is_known = all.ended > 0 && places > 0 && !self.span.is_zero();
        is_known.then(|| {
            let mean = all.held.as_secs_f64() / all.ended as f64;
            self.rate(asked) * mean / places as f64
        })
    }
}
