//! Callers at Envoys: an open-loop load, and what it was answered.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Empty};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;

use crate::attack::Failure;
use crate::findings::Findings;
use crate::fleet::attempt::{CheckAttempt, CheckOutcome, percentiles};
use crate::fleet::bound::Admission;
use crate::fleet::load;

/// Beyond it the machine stalls, and the run measures the machine.
const LATE_P99_MAX: Duration = Duration::from_millis(50);

/// A run is left to itself for so long before an experiment begins to count or to disturb: two
/// reports.
pub(super) const SETTLED_S: f64 = 10.0;

/// Requests of one caller at one Envoy, evenly spaced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CallSpan {
    pub(super) caller: usize,
    pub(super) edge: usize,
    /// Requests a second.
    pub(super) rate: f64,
    /// In seconds from the start of the run, as `until`.
    pub(super) from: f64,
    pub(super) until: f64,
}

impl CallSpan {
    /// One caller for each Envoy, from the start.
    pub(super) fn of_each(rates: &[f64], until: f64) -> Vec<Self> {
        let span = |(edge, rate): (usize, &f64)| Self { caller: edge, edge, rate: *rate, from: 0.0, until };
        rates.iter().enumerate().map(span).collect()
    }

    /// The instants of the requests. Callers are out of step.
    fn instants(self) -> impl Iterator<Item = f64> {
        let shift = (0.31 + 0.37 * self.caller as f64).fract();
        let instant = move |number: u32| self.from + (f64::from(number) + shift) / self.rate;
        (0..).map(instant).take_while(move |at| self.rate > 0.0 && *at < self.until)
    }
}

/// The requests of a run in the order in which they were asked. The `member` of an attempt is the
/// index of its Envoy.
#[derive(Debug)]
pub(super) struct EdgeLoad {
    attempts: Vec<CheckAttempt>,
}

/// A span in which a caller was never admitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RefusalRun {
    /// When the first of its requests was asked.
    pub(super) from: f64,
    /// From then to the next admitted request.
    pub(super) seconds: f64,
}

impl EdgeLoad {
    /// Sends the requests of `spans` to `edges`, and does `meanwhile` on this thread, which is told
    /// when the run began.
    pub(super) fn run<T>(
        edges: &[SocketAddr],
        spans: &[CallSpan],
        meanwhile: impl FnOnce(Instant) -> Result<T, Failure>,
    ) -> Result<(Self, T), Failure> {
        let instants = |(index, span): (usize, &CallSpan)| span.instants().map(move |at| (at, index));
        let mut schedule: Vec<(f64, usize)> = spans.iter().enumerate().flat_map(instants).collect();
        schedule.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build(connector);
        let begun = Instant::now();
        let send = |index: usize| {
            let request = Request::get(format!("http://{}/", edges[spans[index].edge]));
            let request = request.body(Empty::new()).expect("an address makes a valid URI");
            let answer = client.request(request);
            async move {
                let Ok(answer) = answer.await else { return CheckOutcome::NoAnswer };
                let outcome = match answer.status().as_u16() {
                    200 => CheckOutcome::Admitted,
                    429 => CheckOutcome::RateExceeded,
                    _ => CheckOutcome::Other,
                };
                // The connection is used again only after its body.
                answer.into_body().collect().await.map_or(CheckOutcome::NoAnswer, |_| outcome)
            }
        };
        thread::scope(|scope| {
            let load = scope.spawn(|| load::run(&schedule, begun, send));
            let seen = meanwhile(begun);
            let attempts = load.join().expect("the load does not panic")?;
            let of_span = |attempt: CheckAttempt| {
                let span = spans[attempt.member];
                CheckAttempt { caller: span.caller, member: span.edge, ..attempt }
            };
            let mut attempts: Vec<_> = attempts.into_iter().map(of_span).collect();
            attempts.sort_by(|one, other| one.asked.total_cmp(&other.asked));
            Ok((Self { attempts }, seen?))
        })
    }

    /// Notes how late the load was, and that figures from now on are of this run.
    pub(super) fn begin_findings(&self, name: &str, findings: &mut Findings) {
        let lateness = percentiles(self.attempts.iter().map(|one| one.late));
        let count = |outcome| self.attempts.iter().filter(|one| one.outcome == outcome).count();
        let others = self.attempts.len() - count(CheckOutcome::Admitted) - count(CheckOutcome::RateExceeded);
        let endings = format!(
            "{} admitted, {} refused, {others} without an answer",
            count(CheckOutcome::Admitted),
            count(CheckOutcome::RateExceeded)
        );
        findings.begin_load(name, lateness, LATE_P99_MAX, &endings);
    }

    /// The requests at one Envoy.
    pub(super) fn at(&self, edge: usize) -> impl Iterator<Item = &CheckAttempt> {
        self.attempts.iter().filter(move |one| one.member == edge)
    }

    /// All admitted requests, and when they were asked and answered.
    pub(super) fn admissions(&self) -> Vec<Admission> {
        crate::fleet::attempt::admissions(&self.attempts)
    }

    /// How many requests at an Envoy, or at all of them, were admitted in a span, by their answers.
    pub(super) fn admitted(&self, edge: Option<usize>, from: f64, until: f64) -> f64 {
        let is_meant = |one: &&CheckAttempt| {
            one.is_admitted()
                && edge.is_none_or(|edge| edge == one.member)
                && (from..until).contains(&one.answered)
        };
        self.attempts.iter().filter(is_meant).count() as f64
    }

    /// Seconds from `since` to the beginning of the first span of `width` in which so many were
    /// admitted; `None` without such a span before `until`.
    pub(super) fn first_span(
        &self,
        edge: Option<usize>,
        enough: f64,
        width: f64,
        (since, until): (f64, f64),
    ) -> Option<f64> {
        const STEP: f64 = 0.05;
        let begins =
            (0_u32..).map(|step| f64::from(step) * STEP).take_while(|at| since + at + width <= until);
        let is_full = |at: &f64| self.admitted(edge, since + at, since + at + width) >= enough;
        begins.into_iter().find(is_full)
    }

    /// The longest time for which a caller was refused, of the requests that were asked in a span:
    /// from the first refused request to the next admitted one. A request without an answer counts
    /// as refused.
    pub(super) fn longest_refusal(&self, caller: usize, from: f64, until: f64) -> RefusalRun {
        let is_meant = |one: &&CheckAttempt| one.caller == caller && (from..until).contains(&one.asked);
        let (mut longest, mut first_refused) = (RefusalRun { from, seconds: 0.0 }, None);
        let mut note = |first: Option<f64>, end: f64| {
            if let Some(from) = first
                && end - from > longest.seconds
            {
                longest = RefusalRun { from, seconds: end - from };
            }
        };
        for attempt in self.attempts.iter().filter(is_meant) {
            if attempt.is_admitted() {
                note(first_refused.take(), attempt.asked);
            } else {
                first_refused.get_or_insert(attempt.asked);
            }
        }
        note(first_refused, until);
        longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(asked: f64, outcome: CheckOutcome) -> CheckAttempt {
        CheckAttempt { caller: 0, member: 0, number: 0, late: 0.0, asked, answered: asked + 0.01, outcome }
    }

    fn load(attempts: &[(f64, CheckOutcome)]) -> EdgeLoad {
        EdgeLoad { attempts: attempts.iter().map(|(asked, outcome)| attempt(*asked, *outcome)).collect() }
    }

    #[test]
    fn a_span_has_its_rate_and_a_caller_at_rest_sends_nothing() {
        let spans = CallSpan::of_each(&[40.0, 0.0], 2.0);
        assert_eq!(spans[0].instants().count(), 80);
        assert!(spans[0].instants().all(|at| (0.0..2.0).contains(&at)));
        assert_eq!(spans[1].instants().count(), 0);
    }

    #[test]
    fn a_refusal_lasts_until_the_next_admission_or_the_end() {
        use CheckOutcome::{Admitted, NoAnswer, RateExceeded};
        let ends = load(&[
            (0.0, RateExceeded),
            (1.0, Admitted),
            (2.0, RateExceeded),
            (3.0, NoAnswer),
            (5.0, Admitted),
        ]);
        assert_eq!(ends.longest_refusal(0, 0.0, 6.0), RefusalRun { from: 2.0, seconds: 3.0 });
        assert_eq!(ends.longest_refusal(0, 0.0, 1.5), RefusalRun { from: 0.0, seconds: 1.0 });
        assert_eq!(ends.longest_refusal(1, 0.0, 6.0), RefusalRun { from: 0.0, seconds: 0.0 });
        let goes_on = load(&[(0.0, Admitted), (1.0, RateExceeded)]);
        assert_eq!(goes_on.longest_refusal(0, 0.0, 6.0), RefusalRun { from: 1.0, seconds: 5.0 });
    }

    #[test]
    fn a_span_with_enough_is_found_where_it_begins() {
        let steady: Vec<_> = (0..100).map(|n| (10.0 + f64::from(n) / 10.0, CheckOutcome::Admitted)).collect();
        let load = load(&steady);
        assert_eq!(load.admitted(None, 10.0, 12.0) as usize, 20);
        let found = load.first_span(Some(0), 18.0, 2.0, (5.0, 20.0)).unwrap();
        assert!((4.7..4.9).contains(&found), "{found}");
        assert_eq!(load.first_span(Some(0), 22.0, 2.0, (5.0, 20.0)), None);
        assert_eq!(load.first_span(Some(1), 1.0, 2.0, (5.0, 20.0)), None);
    }
}
