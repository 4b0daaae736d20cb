//! Log lines with the advice about the places of resources: at most one an hour for each resource
//! and kind.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use tidegate_core::Timestamp;
use tidegate_overload::ConcurrencyAdvice;

/// How often at most a line about a resource is written that gives advice of the same kind.
const INTERVAL: Duration = Duration::from_hours(1);

/// When a line was last written, by resource and kind. Entries older than [`INTERVAL`] are
/// forgotten, so there are at most two for each resource of the policies of an hour.
#[derive(Debug, Default)]
pub(crate) struct AdviceLog(Mutex<BTreeMap<(String, &'static str), Timestamp>>);

impl AdviceLog {
    /// Whether to write a line now.
    fn takes_line(&self, resource: &str, advice: &ConcurrencyAdvice, now: Timestamp) -> bool {
        let mut written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A clock that steps back forgets what would be written in its future.
        written.retain(|_, at| *at <= now && now.saturating_since(*at) < INTERVAL);
        let key = (resource.to_owned(), advice.as_str());
        let is_due = !written.contains_key(&key);
        if is_due {
            written.insert(key, now);
        }
        is_due
    }

    /// Writes the advice about a resource, unless a line of its kind was written in the last hour.
    pub(crate) fn write(&self, resource: &str, advice: &ConcurrencyAdvice, now: Timestamp) {
        if self.takes_line(resource, advice, now) {
            tracing::warn!(
                target: "tidegate::overload",
                resource,
                advice = advice.as_str(),
                suggested = advice.suggested(),
                "{advice}"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_of_advice_about_a_resource_is_written_once_an_hour() {
        let log = AdviceLog::default();
        let too_high = |places| ConcurrencyAdvice::TooHigh { places, rises_from: 9, suggested: 8 };
        let at = |minutes: u64| Timestamp::from_secs(1_000_000 + 60 * minutes);
        assert!(log.takes_line("app", &too_high(40), at(0)));
        assert!(!log.takes_line("app", &too_high(41), at(30)));
        assert!(log.takes_line("other", &too_high(40), at(30)));
        assert!(!log.takes_line("app", &too_high(40), at(59)));
        assert!(log.takes_line("app", &too_high(40), at(60)), "an hour after the line, not the last try");
        assert!(log.takes_line("app", &too_high(40), at(1)), "the clock has stepped back");
    }
}
