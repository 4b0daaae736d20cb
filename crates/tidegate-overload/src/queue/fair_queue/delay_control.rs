//! Controlled delay: when a request that has waited too long is shed rather than served.
//!
//! A queue that drains within an interval is a burst, and harmless. A queue whose shortest delay of
//! an interval is above the target stands: it serves nobody better and makes everyone wait. While
//! it stands, requests above twice the target are shed, which takes the queue back to twice the
//! target at once.
//!
//! Source: Nichols and Jacobson, "Controlling Queue Delay", as adapted for servers in "Fail at
//! Scale" (Maurer, ACM Queue 13(8), 2015) and in `folly::Codel`: there is no control law of
//! `interval / sqrt(n)`, because a server may shed any number at once.
//!
//! One thing is as in the original rather than as in folly: while the queue does not stand, the
//! interval begins with the last delay within the target, not at a fixed instant. A queue that
//! stands from one instant on is found after one interval. Fixed intervals need between one and
//! two, and after a step to twice the capacity the first request was then shed after up to 201 ms.

use core::time::Duration;

use tidegate_core::Timestamp;

/// The controlled delay of one class.
///
/// ```
/// # use std::time::Duration;
/// # use tidegate_core::Timestamp;
/// # use tidegate_overload::DelayControl;
/// let (mut control, target) = (DelayControl::new(), Duration::from_millis(5));
/// let mut sheds = |delay, at| {
///     let delay = Duration::from_millis(delay);
///     control.sheds(delay, delay, target, Timestamp::from_millis(at))
/// };
/// // The first interval finds out that the queue stands, and the second one sheds.
/// let is_shed = [(40, 1000), (40, 1050), (40, 1101), (40, 1102), (9, 1103)].map(|(d, at)| sheds(d, at));
/// assert_eq!(is_shed, [false, false, false, true, false]);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct DelayControl {
    /// The end of the interval; [`Timestamp::MIN`] before the first request.
    interval_end: Timestamp,
    /// The shortest delay of the interval; [`Duration::MAX`] before the first.
    delay_min: Duration,
    is_overloaded: bool,
}

impl DelayControl {
    /// The interval over which the shortest delay counts.
    pub const INTERVAL: Duration = Duration::from_millis(100);

    /// A control that has seen no request.
    pub const fn new() -> Self {
        Self { interval_end: Timestamp::MIN, delay_min: Duration::ZERO, is_overloaded: false }
    }

    /// Whether a request whose turn it is at `now` is shed.
    ///
    /// `standing` is the delay of the request that has waited longest where the request waits, and
    /// `delay` its own; they differ only where the newest request is first, whose delay says
    /// nothing about the queue.
    pub fn sheds(&mut self, standing: Duration, delay: Duration, target: Duration, now: Timestamp) -> bool {
        if !self.is_overloaded && standing <= target {
            self.interval_end = now.saturating_add(Self::INTERVAL);
            self.delay_min = Duration::MAX;
            return false;
        }
        if now > self.interval_end {
            self.interval_end = now.saturating_add(Self::INTERVAL);
            self.is_overloaded = self.delay_min > target && self.delay_min < Duration::MAX;
            self.delay_min = standing;
            return false;
        }
        self.delay_min = self.delay_min.min(standing);
        self.is_overloaded && delay > target.saturating_mul(2)
    }

    /// Whether the shortest delay of the last interval was above the target.
    pub const fn is_overloaded(&self) -> bool {
        self.is_overloaded
    }
}
