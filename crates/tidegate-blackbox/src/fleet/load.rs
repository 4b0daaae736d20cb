//! Open-loop load on a limit: requests by a schedule, whatever becomes of those before.

use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use tidegate_test_support::SplitMix64;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout_at;

use super::attempt::{CheckAttempt, CheckOutcome};

/// How long after the last request answers are waited for.
const ANSWERED_WITHIN: Duration = Duration::from_secs(2);

/// How requests are spread over time and members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LoadPattern {
    /// Evenly, within the limit.
    Steady,
    /// Evenly, beyond the limit.
    Overload,
    /// All requests of a second in its first tenth.
    Bursty,
    /// Four of five at one member.
    Skewed,
    /// As skewed, at another member every ten seconds.
    Moving,
}

impl LoadPattern {
    /// The requests of a run in order: seconds from its start, and the index of the member.
    pub(super) fn schedule(self, members: usize, rate: f64, seconds: f64) -> Vec<(f64, usize)> {
        let mut random = SplitMix64::new(1);
        let mut order: Vec<usize> = (0..members).collect();
        let arrival = |number: usize| {
            let at = if self == Self::Bursty {
                let second = (number as f64 / rate).floor();
                second + 0.1 * (number as f64 - second * rate) / rate
            } else {
                // A shift keeps it out of step with everything else that is regular.
                (number as f64 + random.fraction()) / rate
            };
            if matches!(self, Self::Skewed | Self::Moving) && members > 1 {
                let hot = if self == Self::Moving { (at / 10.0) as usize % members } else { 0 };
                let cold = random.below(members as u64 - 1) as usize;
                let member = if random.fraction() < 0.8 { hot } else { cold + usize::from(cold >= hot) };
                return (at, member);
            }
            // Each member once in a round, in another order each time. In a fixed order, a rate of
            // which a round is a whole multiple would admit the same member again and again.
            if number.is_multiple_of(members) {
                for last in (1..members).rev() {
                    order.swap(last, random.below(last as u64 + 1) as usize);
                }
            }
            (at, order[number % members])
        };
        (0..(rate * seconds) as usize).map(arrival).collect()
    }
}

/// Sends the requests of `schedule` by `ask`, which takes the index of a member, and returns when
/// each is answered or lost.
pub(crate) fn run<Asked>(
    schedule: &[(f64, usize)],
    begun: Instant,
    ask: impl Fn(usize) -> Asked,
) -> std::io::Result<Vec<CheckAttempt>>
where
    Asked: Future<Output = CheckOutcome> + Send + 'static,
{
    let runtime = runtime()?;
    let (sender, attempts) = channel();
    let last = schedule.last().map_or(Duration::ZERO, |(at, _)| Duration::from_secs_f64(*at));
    let end = begun + last + ANSWERED_WITHIN;
    for &(due, member) in schedule {
        // This thread sleeps to the microsecond; the timer of the runtime knows milliseconds.
        let scheduled = begun + Duration::from_secs_f64(due);
        thread::sleep(scheduled.saturating_duration_since(Instant::now()));
        let (answer, sender) = (ask(member), sender.clone());
        runtime.spawn(async move {
            let asked = begun.elapsed().as_secs_f64();
            let outcome = timeout_at(end.into(), answer).await.unwrap_or(CheckOutcome::NoAnswer);
            let answered = begun.elapsed().as_secs_f64();
            // The receiver outlives the runtime.
            let late = asked - due;
            let _ =
                sender.send(CheckAttempt { caller: 0, member, number: 0, late, asked, answered, outcome });
        });
    }
    drop(sender);
    Ok(attempts.iter().collect())
}

/// One thread for all requests: on two cores, the daemons and the store need the rest.
pub(super) fn runtime() -> std::io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(1).enable_all().build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_offers_its_rate_in_order() {
        for pattern in [
            LoadPattern::Steady,
            LoadPattern::Overload,
            LoadPattern::Bursty,
            LoadPattern::Skewed,
            LoadPattern::Moving,
        ] {
            let schedule = pattern.schedule(10, 880.0, 20.0);
            assert_eq!(schedule.len(), 17_600);
            assert!(schedule.is_sorted_by(|one, other| one.0 <= other.0), "{pattern:?}");
            assert!(schedule.iter().all(|(at, member)| (0.0..20.0).contains(at) && *member < 10));
        }
    }

    #[test]
    fn patterns_spread_requests_as_they_say() {
        let part = |pattern: LoadPattern, is_meant: fn(&(f64, usize)) -> bool| {
            let schedule = pattern.schedule(10, 1000.0, 20.0);
            schedule.iter().filter(|one| is_meant(one)).count() as f64 / 20_000.0
        };
        assert!((part(LoadPattern::Steady, |one| one.1 == 3) - 0.1).abs() < 1e-9);
        assert!((part(LoadPattern::Bursty, |one| one.0.fract() < 0.1) - 1.0).abs() < 1e-9);
        assert!((part(LoadPattern::Skewed, |one| one.1 == 0) - 0.8).abs() < 0.02);
        assert!((part(LoadPattern::Moving, |one| one.1 == (one.0 / 10.0) as usize) - 0.8).abs() < 0.02);
    }
}
