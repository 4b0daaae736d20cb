//! The comparisons and the load from which a resource is advised.

use core::time::Duration;
use std::collections::VecDeque;

use tidegate_core::Timestamp;

use crate::advice::advice_rule::{PlaceTerms, advise};
use crate::advice::concurrency_advice::ConcurrencyAdvice;
use crate::advice::load_minute::{LoadMinute, LoadTotals};
use crate::advice::times_by_use::{TimesByUse, UseSum};
use crate::advice::use_contrast::UseContrast;

/// The requests of a comparison end within this many times the mean time of one: long enough for
/// the places in use to change, and short enough that few comparisons see a service slow down.
const SPAN_TIMES: u32 = 10;
/// The bounds on that span.
const SPAN_MIN: Duration = Duration::from_secs(2);
const SPAN_MAX: Duration = Duration::from_mins(1);
/// So many comparisons are kept, about two minutes of them: 48 bytes each, 3 KiB a resource.
const CONTRASTS_MAX: usize = 64;
/// While newer ones are lacking, since the places in use do not change, older ones count for so
/// long.
const CONTRAST_AGE_MAX: Duration = Duration::from_hours(1);

/// The state of the advice for one resource.
///
/// Default: nothing was measured.
#[derive(Debug, Default)]
pub(crate) struct AdviceState {
    /// The begin of the running span.
    from: Option<Timestamp>,
    /// The oldest first.
    contrasts: VecDeque<UseContrast>,
    minute: LoadMinute,
    ended: u64,
    micros: u64,
    advice: Option<ConcurrencyAdvice>,
}

impl AdviceState {
    /// Whether the running span is over at `now`, with this mean time of a request, so that
    /// [`AdviceState::end_span`] is to be called.
    pub(crate) fn is_span_over(&self, mean_time: Duration, now: Timestamp) -> bool {
        let span = mean_time.saturating_mul(SPAN_TIMES).clamp(SPAN_MIN, SPAN_MAX);
        self.from.is_none_or(|from| now < from || now.saturating_since(from) >= span)
    }

    /// Ends the span: takes in its times, and the requests that were asked for and refused since
    /// the start.
    pub(crate) fn end_span(
        &mut self,
        times: &TimesByUse,
        asked: u64,
        refused: u64,
        terms: &PlaceTerms,
        now: Timestamp,
    ) {
        let sums = times.take();
        // Times before the first span are of a time that is not known.
        let is_known = self.from.replace(now).is_some_and(|from| from <= now);
        self.ended += sums.iter().map(|sum| sum.count).sum::<u64>();
        self.micros += sums.iter().map(|sum| sum.micros).sum::<u64>();
        let totals = LoadTotals { asked, refused, ended: self.ended, micros: self.micros };
        self.minute.note(totals, now);
        if is_known {
            self.keep(&sums, now);
        }
        let contrasts = self.contrasts.make_contiguous();
        self.advice = self.minute.recent().and_then(|load| advise(contrasts, &load, terms));
    }

    /// Keeps the comparison of a span, if its times have one.
    fn keep(&mut self, sums: &[UseSum], now: Timestamp) {
        self.contrasts.extend(UseContrast::new(sums, now));
        let is_old = |one: &UseContrast| now < one.at || now.saturating_since(one.at) > CONTRAST_AGE_MAX;
        while self.contrasts.len() > CONTRASTS_MAX || self.contrasts.front().is_some_and(is_old) {
            self.contrasts.pop_front();
        }
    }

    /// The advice of the last span.
    pub(crate) const fn advice(&self) -> Option<ConcurrencyAdvice> {
        self.advice
    }
}
