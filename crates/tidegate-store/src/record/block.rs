//! The block of a key.

use core::time::Duration;

use tidegate_core::Timestamp;
use tidegate_core::algorithm::WINDOW_MAX;

/// Until when a key is blocked, and for how long that was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyBlock {
    /// The first instant at which it is not blocked; [`Timestamp::MIN`] if it was not.
    until: Timestamp,
    /// It was set to last this long: one that lasts longer was set under a clock that was ahead.
    /// [`KeyBlock::LONGEST`] where nothing is known, and where there is no block.
    at_most: Duration,
}

impl KeyBlock {
    pub(super) const NONE: Self = Self { until: Timestamp::MIN, at_most: Self::LONGEST };

    /// The longest block: 366 days.
    pub(super) const LONGEST: Duration = WINDOW_MAX;

    /// A block from `now` until an instant; none if that has passed.
    pub(super) fn between(now: Timestamp, until: Timestamp) -> Self {
        if until <= now {
            return Self::NONE;
        }
        Self { until, at_most: until.saturating_since(now).min(Self::LONGEST) }
    }

    /// As it was stored: until when, and for how long it was set where that is known. `None` if no
    /// block is so.
    pub(super) fn stored(until: Timestamp, at_most: Option<Duration>) -> Option<Self> {
        let at_most = at_most.unwrap_or(Self::LONGEST);
        let has_length = !at_most.is_zero() && at_most <= Self::LONGEST;
        let lacks_end = until == Timestamp::MIN && at_most != Self::LONGEST;
        (has_length && !lacks_end).then_some(Self { until, at_most })
    }

    pub(super) const fn until(self) -> Timestamp {
        self.until
    }

    /// For how long it was set; `None` if that is not known, or there is no block.
    pub(super) fn known_length(self) -> Option<Duration> {
        (self.at_most < Self::LONGEST).then_some(self.at_most)
    }

    /// Whether the key was never blocked, or the block was lifted.
    pub(super) fn is_none(self) -> bool {
        self.until == Timestamp::MIN
    }

    /// The first instant at which the key is no longer blocked, if it is.
    pub(super) fn in_force(self, now: Timestamp) -> Option<Timestamp> {
        (self.until > now).then_some(self.until)
    }

    /// The same, ending no later than if it had been set `now`.
    pub(super) fn brought_back(self, now: Timestamp) -> Self {
        Self { until: self.until.min(now.saturating_add(self.at_most)), ..self }
    }
}
