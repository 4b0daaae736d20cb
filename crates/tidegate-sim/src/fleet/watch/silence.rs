//! Members that decide alone, by the specification: while the store is silent to a member for a
//! key, the member admits at most its share of the limit, and its whole share.
//!
//! A *silence* of a key at a member lasts from the first ask that the store has not answered in
//! time until one that it has answered. The share is the rate divided by the holders that the last
//! grant for the key counted, or by the members if there was none; and the burst or the window's
//! limit divided by the members, but at least ten units or the whole of it. The share is full at
//! the key's first request of the silence. All of it is counted by the member's own clock.

use std::collections::BTreeMap;

use crate::fleet::scenario::Numbers;
use crate::kit::{SECOND, WORLD_BEGIN};

/// The least burst of a member that decides alone.
const UNITS_MIN: u32 = 10;

/// By how much the rate of a share may be rounded, in parts of a thousand of it.
const ROUNDED: u128 = 5;

/// All silences of a fleet.
#[derive(Debug)]
pub(crate) struct Silences {
    limit: Numbers,
    members: u32,
    silent: BTreeMap<(u64, u32), Silence>,
    /// Holders that the last grant counted, fewest and most: it may be doubtful which grant was the
    /// last.
    holders: BTreeMap<(u64, u32), (u32, u32)>,
}

/// One key at one run of a member.
#[derive(Clone, Copy, Debug)]
struct Silence {
    /// When it began, in true time.
    since: u64,
    /// The admitted units that have not drained, as the slowest share drains and as the fastest
    /// does. The first counts what a silence before has admitted that may be the same one, the
    /// second does not.
    slow: u128,
    fast: u128,
    /// The member's time of these, or the window they are counted in.
    at: u64,
    /// Whether an answer has come that the run may have taken for none.
    is_doubtful: bool,
}

/// The size of a share, and how fast it drains.
#[derive(Clone, Copy, Debug)]
struct Share {
    /// Parts of a unit.
    unit: u128,
    /// Parts that drain each nanosecond, at least and at most.
    drains_least: u128,
    drains_most: u128,
    /// Units at once: rounded down, and rounded up.
    least: u128,
    most: u128,
    /// Nanoseconds in a window.
    window: Option<u64>,
}

impl Silences {
    pub(crate) fn new(limit: Numbers, members: u32) -> Self {
        Self { limit, members: members.max(1), silent: BTreeMap::new(), holders: BTreeMap::new() }
    }

    /// The store has not answered the ask of a run for a key.
    pub(crate) fn unanswered(&mut self, run: u64, key: u32, now: u64) {
        let silence = self.silent.entry((run, key)).or_insert(Silence::begin(now));
        if silence.is_doubtful {
            silence.may_begin_again();
            silence.is_doubtful = false;
        }
    }

    /// The store has answered, and counted this many holders if it has granted something.
    pub(crate) fn answered(&mut self, run: u64, key: u32, holders: &[u32]) {
        self.silent.remove(&(run, key));
        if let [holders, ..] = holders {
            let holders = (*holders).max(1);
            self.holders.insert((run, key), (holders, holders));
        }
    }

    /// The store has answered so late that the run may have taken it for no answer, with a grant
    /// that counted this many holders unless it had ended for certain.
    pub(crate) fn answered_late(&mut self, run: u64, key: u32, holders: Option<u32>, now: u64) {
        let silence = self.silent.entry((run, key)).or_insert(Silence::begin(now));
        silence.may_begin_again();
        silence.is_doubtful = true;
        if let Some(holders) = holders {
            let before = self.holders.entry((run, key)).or_insert((self.members, self.members));
            *before = (before.0.min(holders.max(1)), before.1.max(holders));
        }
    }

    /// A run is over.
    pub(crate) fn crashed(&mut self, run: u64) {
        self.silent.retain(|(of, _), _| *of != run);
        self.holders.retain(|(of, _), _| *of != run);
    }

    /// Since when the store is silent to a run for a key.
    pub(crate) fn since(&self, run: u64, key: u32) -> Option<u64> {
        self.silent.get(&(run, key)).map(|silence| silence.since)
    }

    /// Whether the share of a run that decides alone has room for a cost for certain. `false`
    /// without a silence.
    pub(crate) fn has_room(&mut self, run: u64, key: u32, cost: u64, member_now: u64) -> bool {
        let share = self.share(run, key);
        let Some(silence) = self.silent.get_mut(&(run, key)) else { return false };
        silence.drain(share, member_now);
        silence.slow + u128::from(cost) * share.unit <= share.least * share.unit
    }

    /// A run has admitted this alone: by how much that is more than its share, and the most units
    /// there may be at once. The excess is then left out.
    pub(crate) fn admitted(&mut self, run: u64, key: u32, cost: u64, member_now: u64) -> Option<(u64, u64)> {
        let share = self.share(run, key);
        let silence = self.silent.get_mut(&(run, key))?;
        silence.drain(share, member_now);
        silence.slow += u128::from(cost) * share.unit;
        silence.fast += u128::from(cost) * share.unit;
        let over = silence.fast.saturating_sub(share.most * share.unit);
        silence.fast -= over;
        (over > 0).then(|| (over.div_ceil(share.unit) as u64, share.most as u64))
    }

    fn share(&self, run: u64, key: u32) -> Share {
        // A run that had no use for the key in the meantime may have forgotten how many holders
        // there were.
        let members = (self.members, self.members);
        let (fewest, most_holders) = self.holders.get(&(run, key)).copied().unwrap_or(members);
        let (fewest, most_holders) = (fewest.min(self.members), most_holders.max(self.members));
        let whole = self.limit.burst();
        let floor = whole.min(UNITS_MIN);
        let least = (whole / self.members).max(floor).into();
        let most = whole.div_ceil(self.members).max(floor).into();
        match self.limit {
            Numbers::Bucket { units, seconds, .. } => Share {
                unit: 1000
                    * u128::from(seconds)
                    * u128::from(SECOND)
                    * u128::from(fewest)
                    * u128::from(most_holders),
                drains_least: u128::from(units) * u128::from(fewest) * (1000 - ROUNDED),
                drains_most: u128::from(units) * u128::from(most_holders) * (1000 + ROUNDED),
                least,
                most,
                window: None,
            },
            Numbers::Window { seconds, .. } => {
                let window = Some(u64::from(seconds) * SECOND);
                Share { unit: 1, drains_least: 0, drains_most: 0, least, most, window }
            }
        }
    }
}

impl Silence {
    fn begin(now: u64) -> Self {
        Self { since: now, slow: 0, fast: 0, at: 0, is_doubtful: false }
    }

    /// Its run may have ended it and begun another one with a full share, or may go on with what is
    /// left of the share.
    fn may_begin_again(&mut self) {
        self.fast = 0;
    }

    fn drain(&mut self, share: Share, member_now: u64) {
        if let Some(window) = share.window {
            let index = member_now / window;
            if index > self.at {
                (self.slow, self.fast, self.at) = (0, 0, index);
            }
            return;
        }
        let passed = u128::from(member_now.saturating_sub(self.at.max(WORLD_BEGIN / 2)));
        self.slow = self.slow.saturating_sub(passed * share.drains_least);
        self.fast = self.fast.saturating_sub(passed * share.drains_most);
        self.at = self.at.max(member_now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = WORLD_BEGIN;

    #[test]
    fn a_share_is_full_when_the_silence_begins_and_refills_by_the_rate_over_the_holders() {
        let mut silences = Silences::new(Numbers::per_second(100, 100), 4);
        assert!(!silences.has_room(1, 0, 1, NOW));
        silences.answered(1, 0, &[2]);
        silences.unanswered(1, 0, 5);
        silences.unanswered(1, 0, 9);
        assert_eq!(silences.since(1, 0), Some(5));
        assert!(silences.has_room(1, 0, 25, NOW) && !silences.has_room(1, 0, 26, NOW));
        assert_eq!(silences.admitted(1, 0, 25, NOW), None);
        assert_eq!(silences.admitted(1, 0, 1, NOW), Some((1, 25)));
        // Fifty a second at most, and a fourth of the rate at least.
        let later = NOW + SECOND / 5;
        assert!(silences.has_room(1, 0, 3, later) && !silences.has_room(1, 0, 5, later));
        assert_eq!(silences.admitted(1, 0, 10, later), None);
        assert_eq!(silences.admitted(1, 0, 2, later), Some((2, 25)));
        silences.answered(1, 0, &[]);
        silences.unanswered(1, 0, 10);
        assert!(silences.has_room(1, 0, 25, later));
    }

    #[test]
    fn an_answer_that_may_be_too_late_allows_a_full_share_and_does_not_require_it() {
        let mut silences = Silences::new(Numbers::Window { units: 60, seconds: 10 }, 4);
        silences.answered_late(1, 0, Some(1), 5);
        assert_eq!(silences.admitted(1, 0, 15, NOW), None);
        silences.unanswered(1, 0, 9);
        assert!(!silences.has_room(1, 0, 1, NOW));
        assert_eq!(silences.admitted(1, 0, 15, NOW), None);
        assert_eq!(silences.admitted(1, 0, 1, NOW), Some((1, 15)));
        silences.answered_late(1, 0, None, 12);
        assert!(!silences.has_room(1, 0, 1, NOW));
        assert_eq!(silences.admitted(1, 0, 15, NOW), None);
    }

    #[test]
    fn small_limits_are_divided_into_ten_units_or_the_whole_of_them() {
        let mut silences = Silences::new(Numbers::Bucket { units: 5, seconds: 60, burst: 5 }, 10);
        silences.unanswered(1, 0, 0);
        assert!(silences.has_room(1, 0, 5, NOW) && !silences.has_room(1, 0, 6, NOW));
        let mut silences = Silences::new(Numbers::Window { units: 50, seconds: 60 }, 10);
        silences.unanswered(1, 0, 0);
        assert_eq!(silences.admitted(1, 0, 10, NOW), None);
        assert_eq!(silences.admitted(1, 0, 1, NOW), Some((1, 10)));
        assert_eq!(silences.admitted(1, 0, 10, NOW + 60 * SECOND), None);
    }
}
