//! Assignments: what a peer that decides by itself is told, and what it may spend by that.

use core::time::Duration;

use super::bounds::LEASE_MARGIN;
use crate::lease::DRIFT;
use crate::time::{Timestamp, duration_nanos};

/// A token bucket for a peer, in the numbers of Envoy's rate limit quota service.
///
/// It holds at most `max_tokens`, and `tokens_per_fill` come every `interval_s` seconds, evenly.
/// Where the peer had none before, it is full at the beginning; where it had another one, the peer
/// keeps the filling in proportion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenBucket {
    /// The most tokens in it, at least 1.
    pub max_tokens: u32,
    /// The tokens that come in each interval, at least 1.
    pub tokens_per_fill: u32,
    /// The interval in whole seconds, at least 1.
    pub interval_s: u32,
}

/// An instruction to a peer about a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Assignment {
    /// Admit by this token bucket for so many seconds.
    Bucket(TokenBucket, u32),
    /// Deny for so many seconds.
    Deny(u32),
    /// Forget the bucket.
    Abandon,
}

/// Tokens a second, in millionths of a token.
pub(super) type MicroRate = u64;

pub(super) const MICRO: u64 = 1_000_000;

/// The longest interval in which a slow bucket gets a token: a day.
const INTERVAL_MAX_S: u64 = 86_400;

/// Intervals that are tried for the one that rounds a rate down by the least.
const INTERVALS_S: u64 = 10;

impl TokenBucket {
    /// The bucket of `max_tokens` with the fastest refill up to `rate` that whole seconds can say.
    pub(super) fn within(max_tokens: u32, rate: MicroRate) -> Self {
        let (mut tokens, mut interval) = (rate / MICRO, 1);
        for longer in 2..=INTERVALS_S {
            let more = rate * longer / MICRO;
            if more * interval > tokens * longer {
                (tokens, interval) = (more, longer);
            }
        }
        if tokens == 0 {
            let every = if rate == 0 { INTERVAL_MAX_S } else { MICRO.div_ceil(rate) };
            (tokens, interval) = (1, every.clamp(INTERVALS_S, INTERVAL_MAX_S));
        }
        let tokens_per_fill = u32::try_from(tokens).unwrap_or(u32::MAX);
        Self { max_tokens, tokens_per_fill, interval_s: interval as u32 }
    }

    /// Its refill, rounded up.
    pub(super) fn rate(&self) -> MicroRate {
        (u64::from(self.tokens_per_fill) * MICRO).div_ceil(self.interval_s.into())
    }

    /// The same refill said in such a way that a peer that has `other` notices the difference: it
    /// does not look at the interval.
    pub(super) fn told_from(self, other: &Self) -> Self {
        let looks_alike =
            self.max_tokens == other.max_tokens && self.tokens_per_fill == other.tokens_per_fill;
        match (looks_alike && self.interval_s != other.interval_s, self.tokens_per_fill.checked_mul(2)) {
            (true, Some(tokens_per_fill)) => {
                Self { tokens_per_fill, interval_s: self.interval_s * 2, ..self }
            }
            _ => self,
        }
    }
}

/// An assignment that was sent, and that the peer may be spending by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sent {
    /// `None` for a denial.
    pub(super) bucket: Option<TokenBucket>,
    pub(super) at: Timestamp,
    pub(super) ttl: Duration,
    /// When it has been taken at the latest, unless its stream has ended before.
    pub(super) taken_at: Timestamp,
    /// Whether it is what the member decided alone.
    pub(super) is_alone: bool,
}

impl Sent {
    /// When it ends at the latest, if it is taken in time.
    pub(super) fn ends(&self) -> Timestamp {
        self.at.saturating_add(self.ttl + LEASE_MARGIN)
    }

    /// Until when it is in force for certain if it was taken. The peer's clock may run a little
    /// faster.
    pub(super) fn lasts(&self) -> Timestamp {
        self.at.saturating_add(self.ttl.saturating_sub(self.ttl / DRIFT))
    }
}

/// The most that a peer may spend: tokens at once, tokens a second, and until when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spending {
    pub(super) tokens: u32,
    pub(super) rate: MicroRate,
    pub(super) ends: Timestamp,
}

impl Spending {
    /// Whole tokens that come from `now` to the end beyond those of a lease of `rate`, rounded up.
    pub(super) fn beyond(&self, rate: MicroRate, now: Timestamp) -> u32 {
        tokens_in(self.rate.saturating_sub(rate), self.ends.saturating_since(now), true)
    }
}

/// Whole tokens in `span` at `rate`.
pub(super) fn tokens_in(rate: MicroRate, span: Duration, is_up: bool) -> u32 {
    let parts = u128::from(rate) * u128::from(duration_nanos(span));
    let whole = u128::from(MICRO) * 1_000_000_000;
    let tokens = if is_up { parts.div_ceil(whole) } else { parts / whole };
    u32::try_from(tokens).unwrap_or(u32::MAX)
}
