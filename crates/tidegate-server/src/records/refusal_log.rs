//! Log lines about refusals, at most a configured number a second: a flood of refusals must not
//! become a flood of lines.
//!
//! A flood in one namespace leaves the others at least one line of each reason in a span.

use core::borrow::Borrow;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::{Rate, Reason, Refusal, Timestamp};
use tidegate_wire::retry_after::millis_of;

use crate::protocol::Protocol;
use crate::records::refused_keys::key_text;

/// Decides which refusals get a line.
#[derive(Debug)]
pub(crate) struct RefusalLog {
    /// The most lines for each reason. Refusals above it are only counted; the next line says how
    /// many.
    lines: Option<Rate>,
    reasons: [Sampling; Reason::ALL.len()],
    hasher: ahash::RandomState,
}

/// How many groups of namespaces have a line of their own. Namespaces are spread over them by a
/// random hash.
const NAMESPACE_GROUPS: usize = 64;

#[derive(Debug)]
struct Sampling {
    /// The span of time the count belongs to, by its number.
    span: AtomicU64,
    lines: AtomicU64,
    suppressed: AtomicU64,
    /// The last span in which each group of namespaces had a line.
    last_spans: [AtomicU64; NAMESPACE_GROUPS],
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            span: AtomicU64::new(0),
            lines: AtomicU64::new(0),
            suppressed: AtomicU64::new(0),
            last_spans: [const { AtomicU64::new(0) }; NAMESPACE_GROUPS],
        }
    }
}

impl RefusalLog {
    pub(crate) fn new(lines: Option<Rate>) -> Self {
        let reasons = core::array::from_fn(|_| Sampling::default());
        Self { lines, reasons, hasher: ahash::RandomState::new() }
    }

    /// Writes a line for a refusal, unless its reason had all that it may have in this span;
    /// `false` if not. The refusal is only put together for a line.
    pub(crate) fn write<R: Borrow<Refusal>>(
        &self,
        (reason, namespace): (Reason, &str),
        refusal: impl FnOnce() -> R,
        protocol: Protocol,
        now: Timestamp,
    ) -> bool {
        let Some(suppressed) = self.take_line(reason, namespace, now) else { return false };
        let refusal = refusal();
        let refusal = refusal.borrow();
        tracing::info!(
            target: "tidegate::refusal",
            reason = reason.as_str(),
            plane = refusal.plane().as_str(),
            namespace = &*refusal.namespace,
            limit = refusal.name(),
            key = key_text(refusal).as_str(),
            remaining = refusal.remaining(),
            retry_after_ms = millis_of(&refusal.view(), now),
            protocol = protocol.as_str(),
            detail = refusal.detail.as_deref(),
            details = refusal.details.as_deref().map(tracing::field::display),
            suppressed = (suppressed > 0).then_some(suppressed),
            "refused",
        );
        true
    }

    /// How many lines were suppressed since the last one, or `None` if this one is.
    fn take_line(&self, reason: Reason, namespace: &str, now: Timestamp) -> Option<u64> {
        let rate = self.lines?;
        let sampling = &self.reasons[reason as usize];
        // One more than its number, so that the first span differs from none.
        let span = now.as_nanos() / rate.per_ns() + 1;
        // Relaxed throughout: the numbers only thin out a log; two threads at the turn of a span
        // may write a line more.
        if sampling.span.swap(span, Ordering::Relaxed) != span {
            sampling.lines.store(0, Ordering::Relaxed);
        }
        let group = self.hasher.hash_one(namespace) as usize % NAMESPACE_GROUPS;
        let is_first = sampling.last_spans[group].swap(span, Ordering::Relaxed) != span;
        if sampling.lines.fetch_add(1, Ordering::Relaxed) < rate.units() || is_first {
            return Some(sampling.suppressed.swap(0, Ordering::Relaxed));
        }
        sampling.suppressed.fetch_add(1, Ordering::Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::Violated;

    use super::*;
    use crate::records::written_log::WrittenLog;

    #[test]
    fn a_reason_gets_its_lines_a_second_and_the_next_says_how_many_were_left_out() {
        let log = RefusalLog::new(Rate::per_second(3).ok());
        let now = Timestamp::from_secs(100);
        for _ in 0..3 {
            assert_eq!(log.take_line(Reason::RateExceeded, "api", now), Some(0));
        }
        for _ in 0..7 {
            assert_eq!(log.take_line(Reason::RateExceeded, "api", now), None);
        }
        assert_eq!(log.take_line(Reason::Blocked, "api", now), Some(0), "another reason has its own lines");
        assert_eq!(log.take_line(Reason::RateExceeded, "api", Timestamp::from_secs(101)), Some(7));
        assert_eq!(log.take_line(Reason::RateExceeded, "api", Timestamp::from_secs(101)), Some(0));
    }

    #[test]
    fn a_flood_in_one_namespace_leaves_another_a_line() {
        let log = RefusalLog::new(Rate::per_second(3).ok());
        let now = Timestamp::from_secs(100);
        let hostile =
            (0..1000).filter(|_| log.take_line(Reason::RateExceeded, "hostile", now).is_some()).count();
        assert_eq!(hostile, 3);
        // Some of these may be in the group of the hostile one, not all of them.
        let lines = ["a", "b", "c", "d", "e", "f"].map(|one| log.take_line(Reason::RateExceeded, one, now));
        assert!(lines.iter().any(Option::is_some), "{lines:?}");
    }

    #[test]
    fn each_reason_has_its_place_in_the_list_of_all() {
        for (place, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, place);
        }
    }

    #[test]
    fn a_log_that_shall_have_no_such_lines_has_none() {
        let log = RefusalLog::new(None);
        assert_eq!(log.take_line(Reason::RateExceeded, "api", Timestamp::from_secs(1)), None);
    }

    #[test]
    fn what_a_caller_sent_stays_in_its_field() {
        let violated = Violated {
            name: "per-user".into(),
            reason: Reason::RateExceeded,
            retry: tidegate_core::Retry::Backoff,
            limit: 1,
            remaining: 0,
            window: None,
        };
        let hostile = "ada remaining=99\r\n2026 INFO forged\u{1b}[2J\u{202e}x\" limit=\"other";
        let scope = std::iter::once(("user".into(), hostile.into())).collect();
        let refusal = Refusal::new("api", scope, violated);
        let (written, _listening) = WrittenLog::new();
        let log = RefusalLog::new(Rate::per_second(1).ok());
        let of = (refusal.reason(), &*refusal.namespace);
        assert!(log.write(of, || &refusal, Protocol::Http, Timestamp::from_secs(1)));
        let text = written.text();
        let expected = r#"key="user=ada remaining=99\r\n2026 INFO forged\u{1b}[2J\u{202e}x\" limit=\"other" remaining=0"#;
        assert!(text.contains(expected) && text.lines().count() == 1, "{text}");
    }
}
