//! Merges: neighbours that have been cool for long become one partition again.
//!
//! A split needs more than the ceiling, a merge less than four tenths of it: the distance keeps a
//! range from being split and merged in turn.

use core::time::Duration;

use tidegate_core::Timestamp;

use crate::partition_id::PartitionId;
use crate::units::Units;

/// The time over which the load of neighbours must have been low, and since their last change.
pub const COOL: Duration = Duration::from_mins(10);

/// The tenths of a ceiling that two neighbours together may have reached.
const CEILING_TENTHS: i64 = 4;

/// The hundredths of a table's partitions that may be merged in a minute; at least one may.
const PERCENT_A_MINUTE: usize = 15;

/// A partition as a candidate for a merge, in the order of the ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MergeLoad {
    /// The partition.
    pub id: PartitionId,
    /// When a split or a merge made it; `None` if the table began with it.
    pub made_at: Option<Timestamp>,
    /// The highest reads and writes a second of the last [`COOL`]; `None` while it has not been
    /// observed for as long.
    pub peaks: Option<[Units; 2]>,
    /// The ceilings of reads and writes.
    pub ceilings: [Units; 2],
    /// Whether it was cut around one heavy key.
    pub has_hot_key: bool,
    /// Whether it begins where the table is configured to be cut.
    pub begins_configured: bool,
    /// The position of the node that leads it.
    pub node: usize,
}

/// Two neighbours that may be joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoolPair {
    /// The left one.
    pub left: PartitionId,
    /// The right one.
    pub right: PartitionId,
    /// Whether they lie on the same node; otherwise the right one has to move first.
    pub is_together: bool,
}

/// Neighbours that may be joined at `now`; each partition in at most one pair. Nothing is joined
/// where the table is configured to be cut, and `elapsed` since the last proposal bounds the
/// number.
pub fn cool_neighbours(partitions: &[MergeLoad], elapsed: Duration, now: Timestamp) -> Vec<CoolPair> {
    let a_minute = (partitions.len() * PERCENT_A_MINUTE / 100).max(1);
    let millis = elapsed.min(Duration::from_mins(1)).as_millis() as usize;
    let most = (a_minute * millis).div_ceil(60_000);
    let mut chosen = Vec::new();
    let mut index = 0;
    while index + 1 < partitions.len() && chosen.len() < most {
        let (left, right) = (&partitions[index], &partitions[index + 1]);
        if may_join(left, right, now) {
            let is_together = left.node == right.node;
            chosen.push(CoolPair { left: left.id, right: right.id, is_together });
            index += 1;
        }
        index += 1;
    }
    chosen
}

fn may_join(left: &MergeLoad, right: &MergeLoad, now: Timestamp) -> bool {
    let is_settled = |one: &MergeLoad| {
        !one.has_hot_key && one.made_at.is_none_or(|made_at| now.saturating_since(made_at) >= COOL)
    };
    let (Some(left_peaks), Some(right_peaks)) = (left.peaks, right.peaks) else { return false };
    let is_cool = |direction: usize| {
        let sum = (left_peaks[direction] + right_peaks[direction]).as_thousandths();
        let ceiling = left.ceilings[direction].min(right.ceilings[direction]).as_thousandths();
        sum.saturating_mul(10) < ceiling.saturating_mul(CEILING_TENTHS)
    };
    !right.begins_configured && is_settled(left) && is_settled(right) && is_cool(0) && is_cool(1)
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_795_210_800);

    fn load(id: u32, writes: u64) -> MergeLoad {
        MergeLoad {
            id: PartitionId(id),
            made_at: None,
            peaks: Some([Units::ZERO, Units::whole(writes)]),
            ceilings: [Units::whole(3000), Units::whole(1000)],
            has_hot_key: false,
            begins_configured: false,
            node: 0,
        }
    }

    fn chosen(loads: &[MergeLoad]) -> Vec<u32> {
        cool_neighbours(loads, Duration::from_mins(1), NOW).into_iter().map(|pair| pair.left.0).collect()
    }

    #[test]
    fn neighbours_below_four_tenths_are_joined_and_at_four_tenths_they_are_not() {
        assert_eq!(chosen(&[load(0, 200), load(1, 199)]), [0]);
        assert_eq!(chosen(&[load(0, 200), load(1, 200)]), [0; 0]);
    }

    /// I12.
    #[test]
    fn nothing_is_joined_that_was_split_less_than_ten_minutes_ago_or_not_observed_so_long() {
        let made = |seconds| MergeLoad {
            made_at: Some(NOW.saturating_sub(Duration::from_secs(seconds))),
            ..load(1, 0)
        };
        assert_eq!(chosen(&[load(0, 0), made(599)]), [0; 0]);
        assert_eq!(chosen(&[load(0, 0), made(600)]), [0]);
        assert_eq!(chosen(&[load(0, 0), MergeLoad { peaks: None, ..load(1, 0) }]), [0; 0]);
        assert_eq!(chosen(&[load(0, 0), MergeLoad { has_hot_key: true, ..load(1, 0) }]), [0; 0]);
        // A step back of the clock: the age is not known.
        assert_eq!(
            chosen(&[load(0, 0), MergeLoad { made_at: Some(NOW.saturating_add(COOL)), ..load(1, 0) }]),
            [0; 0]
        );
    }

    #[test]
    fn nothing_is_joined_where_the_table_is_configured_to_be_cut() {
        let configured = MergeLoad { begins_configured: true, ..load(1, 0) };
        assert_eq!(chosen(&[load(0, 0), configured, load(2, 0)]), [1]);
        let apart = cool_neighbours(&[load(0, 0), MergeLoad { node: 1, ..load(1, 0) }], PERIOD, NOW);
        assert_eq!(apart, [CoolPair { left: PartitionId(0), right: PartitionId(1), is_together: false }]);
    }

    const PERIOD: Duration = Duration::from_mins(1);

    #[test]
    fn no_more_are_joined_than_a_seventh_a_minute() {
        let many: Vec<_> = (0..100).map(|id| load(id, 0)).collect();
        assert_eq!(cool_neighbours(&many, PERIOD, NOW).len(), 15);
        assert_eq!(cool_neighbours(&many, Duration::from_secs(10), NOW).len(), 3);
        assert_eq!(cool_neighbours(&many, Duration::from_hours(9), NOW).len(), 15, "a late tick is one");
        assert_eq!(cool_neighbours(&many[..1], PERIOD, NOW), []);
        // E-ETL: from 20 times back to 1.2 times within 30 minutes.
        let (mut count, mut minutes) = (320, 0);
        while count * 10 > 16 * 12 {
            count -= cool_neighbours(&vec![load(0, 0); count], PERIOD, NOW).len();
            minutes += 1;
        }
        assert!(minutes <= 20, "{minutes}");
    }
}
