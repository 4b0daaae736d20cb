//! The load of each partition as the control loops observe it.

use core::time::Duration;
use std::collections::VecDeque;

use tidegate_core::{AccessOperation, Timestamp};

use crate::capacity::Capacity;
use crate::merge::COOL;
use crate::sketch::{KeySample, WINDOW};
use crate::split::SplitVerdict;
use crate::status::{DirectionStatus, PartitionStatus};
use crate::units::Units;

/// The windows of which the highest load is kept, so that together they cover [`COOL`].
pub(super) const PEAKS: usize = (COOL.as_secs() / WINDOW.as_secs()) as usize;

/// One direction of a partition over the last windows.
#[derive(Clone, Debug, Default)]
pub(super) struct Observed {
    pub(super) before: Option<Totals>,
    /// Units a second of first attempts, and admitted ones, since the last judgement.
    pub(super) offered: Units,
    pub(super) admitted: Units,
    pub(super) is_throttled: bool,
    pub(super) boost_before: Option<Totals>,
    pub(super) samples: VecDeque<KeySample>,
    /// The highest loads of the last windows.
    pub(super) peaks: VecDeque<Units>,
    pub(super) is_sampled: bool,
    pub(super) verdict: Option<SplitVerdict>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Totals {
    pub(super) offered: Units,
    pub(super) admitted: Units,
    pub(super) throttled: Units,
}

impl Totals {
    pub(super) fn of(status: &DirectionStatus) -> Self {
        Self { offered: status.offered, admitted: status.admitted, throttled: status.throttled }
    }

    /// Units a second of first attempts and of admitted ones since `before`, and whether any were
    /// refused. Totals that fell are those of a partition that gave units back.
    pub(super) fn since(self, before: Self, elapsed: Duration) -> (Units, Units, bool) {
        let rate = |now: Units, before: Units| {
            let units = i128::from((now - before).as_thousandths().max(0));
            let millis = i128::try_from(elapsed.as_millis()).unwrap_or(i128::MAX).max(1);
            // At most the units, as a period is at least a second.
            Units::from_thousandths((units * 1000 / millis) as i64)
        };
        (
            rate(self.offered, before.offered),
            rate(self.admitted, before.admitted),
            self.throttled > before.throttled,
        )
    }
}

pub(super) fn statuses<'a>(
    capacity: &'a Capacity,
    namespace: &str,
    table: &str,
    now: Timestamp,
) -> Vec<PartitionStatus<'a>> {
    capacity.partitions(namespace, table, now).map(Iterator::collect).unwrap_or_default()
}

pub(super) const fn direction<'a>(
    status: &'a PartitionStatus<'_>,
    operation: AccessOperation,
) -> &'a DirectionStatus {
    match operation {
        AccessOperation::Read => &status.read,
        AccessOperation::Write => &status.write,
    }
}
