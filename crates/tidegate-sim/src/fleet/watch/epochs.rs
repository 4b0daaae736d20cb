//! The units spent from grants, epoch by epoch of the store.
//!
//! The bounds of DESIGN, section 8, for a whole run follow from those of its epochs: each loss or
//! failover adds what one record that begins full may grant, while leases of the epoch before run
//! out beside it.

use core::time::Duration;

use super::bound::{Bound, PeakLevel};
use crate::fleet::scenario::Numbers;
use crate::kit::MS;

/// For so long after the beginning of the next epoch leases of the former one may be spent, in
/// parts of a lease period: 17/16, at a clock that runs a hundredth slow.
const OUTLIVES: (u64, u64) = (17 * 101, 16 * 100);

/// All epochs of a store.
#[derive(Debug)]
pub(crate) struct Epochs {
    limit: Numbers,
    keys: u32,
    drift: u64,
    outlives: u64,
    all: Vec<Epoch>,
}

#[derive(Debug)]
struct Epoch {
    number: u32,
    began: u64,
    /// When the next one began.
    ended: Option<u64>,
    spent: Bound,
}

/// A violation and its numbers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum EpochWrong {
    /// More was spent of an epoch than the limit allows.
    Over { epoch: u32, over: u64 },
    /// Something was spent of an epoch too long after the next one began.
    After { epoch: u32, late_ms: u64 },
}

impl Epochs {
    pub(crate) fn new(limit: Numbers, keys: u32, drift: u64, lease_period: Duration) -> Self {
        let first =
            Epoch { number: 1, began: 0, ended: None, spent: Bound::new(limit, keys as usize, drift, true) };
        let period = lease_period.as_nanos() as u64;
        Self { limit, keys, drift, outlives: period * OUTLIVES.0 / OUTLIVES.1, all: vec![first] }
    }

    /// The store has begun an epoch.
    pub(crate) fn begin(&mut self, number: u32, now: u64) {
        if let Some(last) = self.all.last_mut() {
            last.ended = Some(now);
        }
        let spent = Bound::new(self.limit, self.keys as usize, self.drift, true);
        self.all.push(Epoch { number, began: now, ended: None, spent });
    }

    /// The number of the last epoch, and when it began.
    pub(crate) fn last(&self) -> (u32, u64) {
        self.all.last().map_or((1, 0), |epoch| (epoch.number, epoch.began))
    }

    /// Units granted in an epoch were spent at `now`, which is `at` by the clock that the limit is
    /// counted by.
    pub(crate) fn admit(
        &mut self,
        number: u32,
        key: u32,
        cost: u64,
        now: u64,
        at: u64,
    ) -> Option<EpochWrong> {
        let epoch = self.all.iter_mut().rev().find(|epoch| epoch.number == number)?;
        let over = epoch.spent.admit(key, cost, at);
        let latest = epoch.ended.map_or(u64::MAX, |ended| ended + self.outlives);
        if let Some(over) = over {
            return Some(EpochWrong::Over { epoch: number, over });
        }
        (now > latest)
            .then(|| EpochWrong::After { epoch: number, late_ms: (now - latest + self.outlives) / MS })
    }

    /// Units were spent of a key whose grants are not looked at: as long as there is one epoch
    /// only, they are of that.
    pub(crate) fn admit_unseen(&mut self, key: u32, cost: u64, at: u64) -> Option<u64> {
        match self.all.as_mut_slice() {
            [only] => only.spent.admit(key, cost, at),
            _ => None,
        }
    }

    pub(crate) fn fullest(&self) -> PeakLevel {
        self.all
            .iter()
            .map(|epoch| epoch.spent.fullest)
            .max_by_key(|fullest| fullest.units)
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::SECOND;

    fn epochs() -> Epochs {
        Epochs::new(Numbers::per_second(100, 50), 2, 0, tidegate_core::lease::Terms::PERIOD)
    }

    #[test]
    fn each_epoch_has_a_burst_and_its_leases_end_soon_after_it() {
        let mut epochs = epochs();
        assert_eq!(epochs.admit(1, 0, 60, 0, 0), None);
        assert_eq!(epochs.admit(1, 0, 1, 0, 0), Some(EpochWrong::Over { epoch: 1, over: 1 }));
        epochs.begin(7, SECOND);
        assert_eq!((epochs.last(), epochs.admit(7, 0, 60, SECOND, SECOND)), ((7, SECOND), None));
        assert_eq!(epochs.admit(1, 0, 1, 6 * SECOND, 6 * SECOND), None);
        let late = 7 * SECOND;
        assert_eq!(epochs.admit(1, 0, 1, late, late), Some(EpochWrong::After { epoch: 1, late_ms: 6000 }));
    }
}
