//! Log lines about what resources in shadow mode would have refused.

use core::time::Duration;
use std::collections::BTreeMap;

use tidegate_core::{Class, Timestamp};
use tidegate_engine::{Engine, OfferOutcome, ResourceStats};

/// The time between two lines about one resource.
const SPAN: Duration = Duration::from_secs(10);

/// The requests that a resource would have refused, by class and outcome.
type WouldRefuse = [[u64; OfferOutcome::WOULD.len()]; Class::ALL.len()];

/// The counts of the last lines, by resource.
#[derive(Debug, Default)]
pub(crate) struct ShadowLog {
    before: BTreeMap<String, WouldRefuse>,
    due: Option<Timestamp>,
}

impl ShadowLog {
    /// Writes a line for each resource that would have refused requests since the last one, every
    /// ten seconds.
    pub(crate) fn follow(&mut self, engine: &Engine, now: Timestamp) {
        if self.due.is_some_and(|due| now < due && due.saturating_since(now) <= SPAN) {
            return;
        }
        self.due = Some(now.saturating_add(SPAN));
        let mut after = BTreeMap::new();
        for stats in engine.resource_stats(now) {
            let Some(name) = stats.name else { continue };
            let counts = counts(&stats);
            let before = self.before.get(name).copied().unwrap_or_default();
            after.insert(name.to_owned(), counts);
            if counts == before {
                continue;
            }
            let (count, by) = in_words(&counts, &before);
            tracing::info!(
                target: "tidegate::overload",
                resource = name,
                count,
                by,
                "a resource in shadow mode would have refused requests that it let through"
            );
        }
        // Without the resources that a reload has removed.
        self.before = after;
    }
}

fn counts(stats: &ResourceStats<'_>) -> WouldRefuse {
    Class::ALL.map(|class| OfferOutcome::WOULD.map(|outcome| stats.class(class).count(outcome)))
}

/// How many requests were counted since `before`, and of which classes by which mechanisms.
fn in_words(counts: &WouldRefuse, before: &WouldRefuse) -> (u64, String) {
    let (mut all, mut words) = (0, Vec::new());
    for (class, (counts, before)) in Class::ALL.into_iter().zip(counts.iter().zip(before)).rev() {
        for (outcome, (count, before)) in OfferOutcome::WOULD.into_iter().zip(counts.iter().zip(before)) {
            // A resource that a reload removed and another one added counts from zero.
            let since = if count >= before { count - before } else { *count };
            if since > 0 {
                all += since;
                let mechanism = outcome.would_be_refused_by().unwrap_or_default();
                words.push(format!("{since} {class} by {mechanism}"));
            }
        }
    }
    (all, words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_classes_and_mechanisms_and_counts_what_is_new() {
        let mut before = WouldRefuse::default();
        before[0][0] = 5;
        let mut counts = before;
        counts[0][0] = 12;
        counts[2][5] = 1;
        counts[0][1] = 3;
        let words = "1 critical by queue_full, 7 sheddable by admission_cursor, 3 sheddable by queue_delay";
        assert_eq!(in_words(&counts, &before), (11, words.to_owned()));
    }
}
