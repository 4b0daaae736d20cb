//! `CL.THROTTLE` and `TG.THROTTLE`: a bucket whose numbers arrive with the command.
//!
//! The reply is redis-cell's: whether it is refused, how much the bucket holds, how much is left,
//! when to come back and when it will be full. It differs where redis-cell
//! is unclear or wrong: meaningless numbers are errors, keys are any bytes, and waits are rounded
//! up, so that a retry after the wait is admitted.

use core::time::Duration;
use std::borrow::Cow;
use std::sync::OnceLock;

use smallvec::SmallVec;
use tidegate_core::algorithm::{Bucket, Verdict};
use tidegate_core::refusal::{ScopeValues, Violated};
use tidegate_core::{
    Algorithm, Carried, CarriedLimit, CarriedStatus, Charging, Cost, Rate, Reason, Refusal, Retry, ScopeView,
    Timestamp,
};
use tidegate_engine::{Progress, Request};
use tidegate_wire::resp::Replies;
use tidegate_wire::retry_after::{millis_up, seconds_up};

use super::command::Command;
use super::command_error::write_fault;
use crate::context::RequestScope;
use crate::engine_fault::engine_fault;
use crate::metrics::LimitSeries;
use crate::protocol::{Protocol, RESP_NAMESPACE as NAMESPACE};
use crate::records::decisions::Asked;
use crate::records::refused_keys::RefusedCounter;

/// The name of such a limit in logs and metrics.
pub(super) const LIMIT: &str = "CL.THROTTLE";

/// The attribute that holds its key, in logs.
const KEY: &str = "key";

/// The longest period of a command, in seconds: 31 days. Every caller chooses its own numbers, and
/// a key that was charged once holds its place in the table of keys for a period divided by
/// `count`.
const PERIOD_SECONDS_MAX: u64 = 31 * 24 * 3600;

/// How many commands are decided as one batch at most.
pub(super) const RUN_MAX: usize = 64;

/// The numbers of a command, as they were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BucketNumbers {
    max_burst: u64,
    count: u64,
    period: u64,
}

/// The bucket of the numbers that were seen last: most callers send the same ones again and again.
#[derive(Debug, Default)]
pub(super) struct LastBucket(Option<(BucketNumbers, Algorithm)>);

/// One command that is to be decided.
#[derive(Debug)]
pub(super) struct ThrottleRequest<'a> {
    pub(super) command: Command,
    key: Cow<'a, [u8]>,
    algorithm: Algorithm,
    quantity: u64,
}

/// Commands that follow each other and are decided together.
pub(super) type ThrottleRun<'a> = SmallVec<[ThrottleRequest<'a>; 1]>;

impl<'a> ThrottleRequest<'a> {
    /// Reads the arguments of a command, at least five of them; an error is a sentence for its
    /// sender.
    pub(super) fn read(
        command: Command,
        arguments: &mut [Cow<'a, [u8]>],
        last: &mut LastBucket,
    ) -> Result<Self, String> {
        let [_, key, max_burst, count, period, rest @ ..] = arguments else { return Err(usage(command)) };
        let quantity = match rest {
            [] => 1,
            [quantity] => number("quantity", quantity)?,
            _ => return Err(usage(command)),
        };
        let numbers = BucketNumbers {
            max_burst: number("max_burst", max_burst)?,
            count: number("count", count)?,
            period: number("period", period)?,
        };
        let algorithm = last.of(numbers)?.clone();
        Ok(Self { command, key: core::mem::take(key), algorithm, quantity })
    }

    /// Whether it may stand in one batch with `other`: the store decides neither of them, or both.
    pub(super) fn goes_with(&self, other: &Self) -> bool {
        self.algorithm.is_quota() == other.algorithm.is_quota()
    }
}

impl LastBucket {
    fn of(&mut self, numbers: BucketNumbers) -> Result<&Algorithm, String> {
        let is_known = self.0.as_ref().is_some_and(|(known, _)| *known == numbers);
        if !is_known {
            self.0 = Some((numbers, bucket(numbers)?));
        }
        self.0.as_ref().map(|(_, algorithm)| algorithm).ok_or_else(String::new)
    }
}

fn usage(command: Command) -> String {
    let about = command.about();
    format!(
        "wrong number of arguments for '{}' command; write {} {}",
        about.name,
        about.name.to_uppercase(),
        about.form
    )
}

fn bucket(numbers: BucketNumbers) -> Result<Algorithm, String> {
    let BucketNumbers { max_burst, count, period } = numbers;
    if count == 0 {
        return Err("count 0 admits nothing; use at least 1".to_owned());
    }
    if period == 0 {
        return Err("period 0 is no span of time; use at least 1 second".to_owned());
    }
    if period > PERIOD_SECONDS_MAX {
        return Err(format!(
            "period {period} is longer than {PERIOD_SECONDS_MAX} seconds (31 days); use a shorter one, or write the limit into the \
             policy and use TG.CHECK"
        ));
    }
    let rate = Rate::new(count, Duration::from_secs(period)).map_err(|error| error.to_string())?;
    let bucket = Bucket::new(rate, max_burst.saturating_add(1)).map_err(|error| error.to_string())?;
    Ok(Algorithm::Bucket(bucket))
}

/// A whole number from 0 to 2^63-1, as digits.
pub(super) fn number(what: &str, text: &[u8]) -> Result<u64, String> {
    let shown = || text[..text.len().min(32)].escape_ascii();
    if text.first() == Some(&b'-') && text.len() > 1 && text[1..].iter().all(u8::is_ascii_digit) {
        return Err(format!("{what} {} is negative; use 0 or more", shown()));
    }
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return Err(format!("{what} \"{}\" is not a whole number; write it in digits", shown()));
    }
    let digit = |value: u64, digit: &u8| value.checked_mul(10)?.checked_add(u64::from(digit - b'0'));
    let value = text.iter().try_fold(0, digit).filter(|value| i64::try_from(*value).is_ok());
    value.ok_or_else(|| format!("{what} {} is too large; use at most {}", shown(), i64::MAX))
}

impl RequestScope<'_> {
    /// Decides a run of commands and writes their replies. Whether the clock has to be read again.
    pub(super) async fn throttle(
        &self,
        throttled: &OnceLock<LimitSeries>,
        run: &ThrottleRun<'_>,
        now: Timestamp,
        replies: &mut Replies<'_>,
    ) -> Result<bool, ()> {
        let progress = {
            let keys: SmallVec<[[&[u8]; 1]; 1]> = run.iter().map(|asking| [&*asking.key]).collect();
            let limits: SmallVec<[CarriedLimit<'_>; 1]> = run
                .iter()
                .zip(&keys)
                .map(|(asking, key)| CarriedLimit {
                    key: Cow::Borrowed(key.as_slice()),
                    algorithm: Cow::Borrowed(&asking.algorithm),
                    cost: asking.quantity,
                })
                .collect();
            self.in_force.engine.carry(&Request::new(NAMESPACE, ()), &limits, Charging::Each, now)
        };
        let (carried, was_asked) = match progress {
            Ok(Progress::Done(carried)) => (Ok(carried), false),
            Ok(asking) => (Box::pin(self.complete(Ok(asking))).await, true),
            Err(error) => (Err(engine_fault(&error, now)), false),
        };
        let after = self.daemon.clock.now();
        let took = after.saturating_since(now);
        let now = if was_asked { after } else { now };
        match carried {
            Ok(carried) => {
                for (asking, status) in run.iter().zip(&carried.limits) {
                    reply(asking, status, now, replies);
                    self.daemon.metrics.shared().decision_duration.observe(took);
                }
                self.note_throttled(throttled, run, &carried, now);
                Ok(was_asked)
            }
            Err(fault) => {
                for _ in run {
                    write_fault(&fault, replies);
                }
                Err(())
            }
        }
    }

    /// Counts the decisions of a run, and logs them if decisions are logged.
    fn note_throttled(
        &self,
        throttled: &OnceLock<LimitSeries>,
        run: &ThrottleRun<'_>,
        carried: &Carried,
        now: Timestamp,
    ) {
        let metrics = &self.daemon.metrics;
        let throttled = throttled.get_or_init(|| metrics.limits.limit(&NAMESPACE.into(), LIMIT));
        let decisions = self.daemon.decisions.as_ref();
        let mut admitted = 0;
        for (asking, status) in run.iter().zip(&carried.limits) {
            let by_plane = carried.refusal.as_ref();
            let reason = by_plane.map(Refusal::reason).or_else(|| reason(asking, status));
            if reason.is_none() {
                admitted += 1;
                if decisions.is_none_or(|decisions| !decisions.admissions) {
                    continue;
                }
            }
            let key = String::from_utf8_lossy(&asking.key);
            let refusal_for =
                |reason| by_plane.map_or_else(|| Cow::Owned(refusal(status, reason, &key)), Cow::Borrowed);
            if let Some(reason) = reason {
                throttled.refused(reason, Protocol::Resp);
                if let Some(by_plane) = by_plane {
                    self.note_refused_key(&by_plane.view(), || by_plane, Protocol::Resp, now);
                } else {
                    let (of, scope) = ((NAMESPACE, LIMIT), ScopeView::one(KEY, &key));
                    let counter = RefusedCounter::of_limits(of, &scope, reason, &self.in_force.config.claims);
                    self.note_refused_counter(&counter, || refusal_for(reason), Protocol::Resp, now);
                }
            }
            if let Some(decisions) = decisions {
                let pairs = [(KEY, &*key)];
                let cost = Cost::new(asking.quantity).unwrap_or_default();
                let asked = Asked::borrowed(&Request::new(NAMESPACE, &pairs).cost(cost), Protocol::Resp);
                match reason.map(refusal_for) {
                    Some(refusal) => decisions.refused(&asked, None, &refusal, now, Duration::ZERO),
                    None => decisions.admitted(&asked, None, &[], now, Duration::ZERO),
                }
            }
        }
        throttled.admitted(admitted, Protocol::Resp);
    }
}

/// Why a command is refused by its own limit; `None` if it is not.
fn reason(asking: &ThrottleRequest<'_>, status: &CarriedStatus) -> Option<Reason> {
    match status.verdict {
        Verdict::Admit => None,
        Verdict::Never { .. } => Some(Reason::CostExceedsLimit),
        Verdict::Wait { .. } if status.is_table_full => Some(Reason::TableFull),
        Verdict::Wait { .. } if asking.algorithm.is_quota() => Some(Reason::QuotaExceeded),
        Verdict::Wait { .. } => Some(Reason::RateExceeded),
    }
}

/// The refusal of a command for this reason.
fn refusal(status: &CarriedStatus, reason: Reason, key: &str) -> Refusal {
    let violated = Violated {
        name: LIMIT.into(),
        reason,
        retry: match status.verdict {
            Verdict::Wait { until } => Retry::At(until),
            Verdict::Admit | Verdict::Never { .. } => Retry::Never,
        },
        limit: status.limit,
        remaining: status.remaining,
        window: status.window,
    };
    let mut scope = ScopeValues::new();
    scope.push((KEY.into(), key.into()));
    Refusal::new(NAMESPACE, scope, violated)
}

fn reply(asking: &ThrottleRequest<'_>, status: &CarriedStatus, now: Timestamp, replies: &mut Replies<'_>) {
    let up = if asking.command == Command::Throttle { seconds_up } else { millis_up };
    let integer = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let retry = match status.verdict {
        Verdict::Admit | Verdict::Never { .. } => -1,
        // Never 0: a refused caller must not retry at once.
        Verdict::Wait { until } => integer(up(until.saturating_since(now)).max(1)),
    };
    replies.array(5);
    replies.integer(i64::from(status.verdict != Verdict::Admit));
    replies.integer(integer(status.limit));
    replies.integer(integer(status.remaining));
    replies.integer(retry);
    replies.integer(integer(up(status.reset_at.saturating_since(now))));
}

/// A bucket to reset a key by. Its numbers do not matter, but a store keeps quotas apart.
pub(super) fn any_bucket() -> Algorithm {
    let numbers = BucketNumbers { max_burst: 0, count: 1, period: 24 * 60 * 60 };
    bucket(numbers).expect("one a day is a bucket")
}
