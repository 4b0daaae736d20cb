//! The slots of which the calendar knows no longer which tickets were spent.

use tidegate_core::Timestamp;

use super::ticket_number::is_slot_over;

/// Seconds whose tickets count as expired, because the memory of them is gone.
///
/// Slots are forgotten once all of their tickets have expired. A clock that then steps back makes
/// those tickets valid again by their instants; they must not be admitted twice, so they stay
/// expired. The same is true for far slots that are dropped to bound the memory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ForgottenSlots {
    /// The latest second that was forgotten after its end.
    through: u64,
    /// The first and the last second that was dropped before its end.
    dropped: Option<(u64, u64)>,
}

impl ForgottenSlots {
    /// Whether the tickets of a second count as expired.
    pub(crate) fn contains(&self, second: u64) -> bool {
        second <= self.through || self.dropped.is_some_and(|(from, to)| (from..=to).contains(&second))
    }

    /// The latest second that was forgotten after its end, and all before it.
    pub(crate) const fn through(&self) -> u64 {
        self.through
    }

    /// A second is over, and is forgotten.
    pub(crate) fn add_past(&mut self, second: u64) {
        self.through = self.through.max(second);
    }

    /// A second is dropped before its end. The seconds between two dropped ones count as dropped.
    pub(crate) fn add(&mut self, second: u64) {
        let (from, to) = self.dropped.unwrap_or((second, second));
        self.dropped = Some((from.min(second), to.max(second)));
    }

    /// Lets go of dropped seconds that are over.
    pub(crate) fn advance(&mut self, now: Timestamp) {
        if let Some((_, to)) = self.dropped.filter(|(_, to)| is_slot_over(*to, now)) {
            self.dropped = None;
            self.add_past(to);
        }
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    #[test]
    fn what_was_forgotten_stays_forgotten_when_the_clock_steps_back() {
        let mut forgotten = ForgottenSlots::default();
        forgotten.add_past(100);
        forgotten.add_past(90);
        assert!(forgotten.contains(100) && forgotten.contains(5) && !forgotten.contains(101));
    }

    #[test]
    fn dropped_slots_are_forgotten_with_those_between_them() {
        let mut forgotten = ForgottenSlots::default();
        forgotten.add(110);
        forgotten.add(108);
        let is_dropped = [107, 108, 109, 110, 111].map(|second| forgotten.contains(second));
        assert_eq!(is_dropped, [false, true, true, true, false]);
        forgotten.advance(Timestamp::from_secs(119));
        assert!(forgotten.contains(109) && forgotten.contains(1), "all of them are over");
    }
}
