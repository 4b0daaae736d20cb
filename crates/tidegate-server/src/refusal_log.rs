//! One line for a refusal, and at most so many a second: a flood of refusals must not become a flood of lines.

use core::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate::{Rate, Reason, Refusal, Timestamp};
use tidegate_wire::retry_after::millis_of;

use crate::protocol::Protocol;
use crate::refused_keys::key_text;

/// Decides which refusals get a line.
#[derive(Debug)]
pub(crate) struct RefusalLog {
    /// The most lines for each reason. Refusals above it are only counted; the next line says how many.
    lines: Option<Rate>,
    reasons: [Sampling; Reason::ALL.len()],
}

#[derive(Debug, Default)]
struct Sampling {
    /// The span of time the count belongs to, by its number.
    span: AtomicU64,
    lines: AtomicU64,
    suppressed: AtomicU64,
}

impl RefusalLog {
    pub(crate) fn new(lines: Option<Rate>) -> Self {
        Self { lines, reasons: core::array::from_fn(|_| Sampling::default()) }
    }

    /// Writes a line for this refusal, unless its reason had all that it may have in this span; `false` if not.
    pub(crate) fn write(&self, refusal: &Refusal<'_>, protocol: Protocol, now: Timestamp) -> bool {
        let reason = refusal.reason();
        let Some(suppressed) = self.take_line(reason, now) else { return false };
        tracing::info!(
            target: "tidegate::refusal",
            reason = reason.as_str(),
            plane = refusal.plane().as_str(),
            namespace = %OneLine(&refusal.namespace),
            limit = %OneLine(refusal.name()),
            key = %OneLine(&key_text(refusal)),
            remaining = refusal.remaining(),
            retry_after_ms = millis_of(refusal, now),
            protocol = protocol.as_str(),
            detail = refusal.detail.as_deref().map(|detail| tracing::field::display(OneLine(detail))),
            suppressed = (suppressed > 0).then_some(suppressed),
            "refused",
        );
        true
    }

    /// How many lines were suppressed since the last one, or `None` if this one is.
    fn take_line(&self, reason: Reason, now: Timestamp) -> Option<u64> {
        let position = Reason::ALL.iter().position(|known| *known == reason)?;
        let sampling = &self.reasons[position];
        let rate = self.lines?;
        // One more than its number, so that the first span differs from none.
        let span = now.as_nanos() / rate.per_ns() + 1;
        // Relaxed throughout: the numbers only thin out a log; two threads at the turn of a span may write a line more.
        if sampling.span.swap(span, Ordering::Relaxed) != span {
            sampling.lines.store(0, Ordering::Relaxed);
        }
        if sampling.lines.fetch_add(1, Ordering::Relaxed) < rate.units() {
            return Some(sampling.suppressed.swap(0, Ordering::Relaxed));
        }
        sampling.suppressed.fetch_add(1, Ordering::Relaxed);
        None
    }
}

/// Text from outside as one line that a terminal takes for text: control characters are written as escapes.
pub(crate) struct OneLine<'a>(pub(crate) &'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Line and paragraph separators and the marks that reverse direction also rewrite what a reader sees.
        let is_hostile = |c: char| {
            c.is_control()
                || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        };
        for part in self.0.split_inclusive(is_hostile) {
            match part.chars().next_back().filter(|c| is_hostile(*c)) {
                Some(last) => {
                    f.write_str(&part[..part.len() - last.len_utf8()])?;
                    write!(f, "{}", last.escape_default())?;
                }
                None => f.write_str(part)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_gets_its_lines_a_second_and_the_next_says_how_many_were_left_out() {
        let log = RefusalLog::new(Rate::per_second(3).ok());
        let now = Timestamp::from_secs(100);
        for _ in 0..3 {
            assert_eq!(log.take_line(Reason::RateExceeded, now), Some(0));
        }
        for _ in 0..7 {
            assert_eq!(log.take_line(Reason::RateExceeded, now), None);
        }
        assert_eq!(log.take_line(Reason::Blocked, now), Some(0), "another reason has its own lines");
        assert_eq!(log.take_line(Reason::RateExceeded, Timestamp::from_secs(101)), Some(7));
        assert_eq!(log.take_line(Reason::RateExceeded, Timestamp::from_secs(101)), Some(0));
    }

    #[test]
    fn a_log_that_shall_have_no_such_lines_has_none() {
        let log = RefusalLog::new(None);
        assert_eq!(log.take_line(Reason::RateExceeded, Timestamp::from_secs(1)), None);
    }

    #[test]
    fn what_a_caller_sent_stays_on_its_line() {
        let hostile = "ada\r\n2026 INFO forged\u{1b}[2J\u{202e}x";
        assert_eq!(OneLine(hostile).to_string(), "ada\\r\\n2026 INFO forged\\u{1b}[2J\\u{202e}x");
        assert_eq!(OneLine("gr\u{fc}n \"q\"").to_string(), "gr\u{fc}n \"q\"");
    }
}
