//! Seconds in the order in which they came, by which rows are older or younger.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use tidegate_core::Timestamp;

use crate::sync::lock_plain;

/// One second in nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// Counts the seconds that requests have come in.
///
/// A second that is not the current one is a new one, after a clock step in either direction too:
/// so rows are idle in the order in which they were used, whatever the clock says. The second just
/// before the current one counts as the current one, since threads read the clock at different
/// times.
///
/// The atomics are relaxed: a thread that sees an old second for a moment takes a row for older
/// than it is by one second. Every thread reads them, and one writes them once a second.
#[derive(Debug)]
pub(crate) struct SecondOrder {
    /// The beginning of the current second, in nanoseconds.
    start: AtomicU64,
    number: AtomicU32,
    turning: Mutex<()>,
}

impl SecondOrder {
    /// The highest number of a second, which all later ones share: reached after 136 years of
    /// requests.
    pub(super) const LAST: u32 = u32::MAX - 1;

    pub(crate) fn new(now: Timestamp) -> Self {
        let start = now.as_nanos() - now.as_nanos() % SECOND;
        Self { start: AtomicU64::new(start), number: AtomicU32::new(0), turning: Mutex::default() }
    }

    /// The number of the second that `now` is in.
    #[inline]
    pub(crate) fn number(&self, now: Timestamp) -> u32 {
        if now.as_nanos().wrapping_sub(self.start.load(Ordering::Relaxed)) < SECOND {
            return self.number.load(Ordering::Relaxed);
        }
        self.turn(now.as_nanos())
    }

    /// The beginning of the current second.
    pub(crate) fn start(&self) -> Timestamp {
        Timestamp::from_nanos(self.start.load(Ordering::Relaxed))
    }

    #[cold]
    fn turn(&self, now: u64) -> u32 {
        let _only_me = lock_plain(&self.turning);
        let (start, number) = (self.start.load(Ordering::Relaxed), self.number.load(Ordering::Relaxed));
        let is_current = now.wrapping_sub(start) < SECOND;
        let is_just_before = start.wrapping_sub(now) <= SECOND;
        if is_current || is_just_before {
            return number;
        }
        let number = number.saturating_add(1).min(Self::LAST);
        self.number.store(number, Ordering::Relaxed);
        self.start.store(now - now % SECOND, Ordering::Relaxed);
        number
    }
}
