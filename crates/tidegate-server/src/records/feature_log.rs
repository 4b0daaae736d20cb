//! Log lines and counts about changes of features.
//!
//! A flapping load must not become a flood of lines: further ones than [`LINES_MAX`] in a [`SPAN`]
//! are counted, and the next line reports their number.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_core::Timestamp;
use tidegate_core::display::HumanDuration;
use tidegate_overload::{COHORTS, FeatureChange, FeatureEvent};

use crate::planes::PlaneSettings;

/// How long lines are counted together.
const SPAN: Duration = Duration::from_secs(10);

/// The most lines in a [`SPAN`].
const LINES_MAX: u32 = 100;

/// The changes of the levels of one feature since the daemon started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LevelChanges {
    /// Changes to a worse level.
    pub(crate) down: u64,
    /// Changes to a better level.
    pub(crate) up: u64,
}

/// The counts of changes, and of the lines that were written about them.
#[derive(Debug, Default)]
pub(crate) struct FeatureLog(Mutex<FeatureCounts>);

#[derive(Debug, Default)]
struct FeatureCounts {
    changes: BTreeMap<Arc<str>, LevelChanges>,
    /// The number of the span that `written` belongs to.
    span: u64,
    written: u32,
    suppressed: u64,
    /// The dropped changes that were reported.
    dropped: u64,
}

impl FeatureLog {
    /// The changes of a feature.
    pub(crate) fn changes(&self, feature: &str) -> LevelChanges {
        self.with(|counts| counts.changes.get(feature).copied().unwrap_or_default())
    }

    /// Counts a change; forgets the counts of features that the policy has no more.
    pub(crate) fn count(&self, change: &FeatureChange, is_worse: bool, policy: &PlaneSettings) {
        self.with(|counts| {
            if !counts.changes.contains_key(&change.feature) {
                counts.changes.retain(|name, _| policy.feature(name).is_some());
            }
            let of = counts.changes.entry(Arc::clone(&change.feature)).or_default();
            let count = if is_worse { &mut of.down } else { &mut of.up };
            *count = count.saturating_add(1);
        });
    }

    /// How many lines were suppressed since the last one, or `None` if this one is.
    fn take_line(&self, now: Timestamp) -> Option<u64> {
        self.with(|counts| {
            // One more than its number, so that the first span differs from none.
            let span = now.as_nanos() / SPAN.as_nanos() as u64 + 1;
            if counts.span != span {
                (counts.span, counts.written) = (span, 0);
            }
            if counts.written >= LINES_MAX {
                counts.suppressed = counts.suppressed.saturating_add(1);
                return None;
            }
            counts.written += 1;
            Some(core::mem::take(&mut counts.suppressed))
        })
    }

    /// Warns when more changes were dropped since the start than were reported.
    pub(crate) fn report_dropped(&self, total: u64) {
        let dropped = self.with(|counts| total - core::mem::replace(&mut counts.dropped, total).min(total));
        if dropped > 0 {
            tracing::warn!(
                target: "tidegate::feature",
                dropped,
                "changes of features were dropped because too many came at once; /v1/features shows the levels in force"
            );
        }
    }

    fn with<R>(&self, run: impl FnOnce(&mut FeatureCounts) -> R) -> R {
        // A panic elsewhere leaves counts, which are readable at any time.
        run(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Writes the line of an event, unless too many were written.
    pub(crate) fn write(&self, event: &FeatureEvent, now: Timestamp) {
        let Some(suppressed) = self.take_line(now) else { return };
        let suppressed = (suppressed > 0).then_some(suppressed);
        match event {
            FeatureEvent::Changed(change) => tracing::info!(
                target: "tidegate::feature",
                feature = &*change.feature,
                resource = change.resource.as_deref(),
                class = change.class.map(tidegate_core::Class::as_str),
                from = &*change.from,
                to = &*change.to,
                tenants = (change.moved > 0).then(|| format!("{} of {COHORTS} cohorts", change.moved)),
                reason = change.cause.as_str(),
                pressure = change.pressure,
                signal = change.signal,
                shadow = change.is_shadow.then_some(true),
                suppressed,
                "the level of a feature has changed"
            ),
            FeatureEvent::Released { feature, after, .. } => tracing::info!(
                target: "tidegate::feature",
                feature = &**feature,
                after = %HumanDuration(*after),
                suppressed,
                "the work of a feature that was switched off has ended"
            ),
            FeatureEvent::SignalLost { resource, signal, .. } => tracing::warn!(
                target: "tidegate::feature",
                resource = resource.as_deref(),
                signal,
                suppressed,
                "a signal has had no value for a minute while features are degraded; their levels follow the other signals"
            ),
            FeatureEvent::Pinned { feature, level, until, .. } => tracing::info!(
                target: "tidegate::feature",
                feature = &**feature,
                level = &**level,
                until = %until.to_whole_millis(),
                suppressed,
                "a feature is pinned"
            ),
            FeatureEvent::Unpinned { feature, level, has_expired, .. } => tracing::info!(
                target: "tidegate::feature",
                feature = &**feature,
                level = &**level,
                expired = has_expired,
                suppressed,
                "the pin of a feature has ended; its level follows the load again"
            ),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_changes_writes_no_more_lines_than_the_bound_and_says_how_many_were_left_out() {
        let log = FeatureLog::default();
        let at = Timestamp::from_secs(1_000_000);
        let lines = (0..1000).filter(|_| log.take_line(at).is_some()).count();
        assert_eq!(lines, LINES_MAX as usize);
        assert_eq!(log.take_line(at.saturating_add(SPAN)), Some(900));
        assert_eq!(log.take_line(at.saturating_add(SPAN)), Some(0));
    }
}
