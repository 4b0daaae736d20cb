//! Merges: neighbours that have been cool for long become one partition again.
//!
//! A split needs more than the ceiling, a merge less than four tenths of it: the distance keeps a
//! range from being split and merged in turn. A load that comes and goes over that distance splits
//! and merges a range at most once in [`CYCLE`]. The pieces of a partition that was cut for a load
//! that grew are joined below nine tenths, since that partition bore the load once.
//!
//! The shares of both must fit below the ceiling of one partition, so that a table never has fewer
//! partitions than its promised throughput needs. Narrow neighbours are joined first: pieces become
//! the ranges that they were cut from, and not new ones across the cuts.

use core::time::Duration;

use tidegate_core::Timestamp;

use crate::control::relocation::{FULL_PERCENT, NodeUse};
use crate::fault::Fault;
use crate::layout::key_range::KeyRange;
use crate::layout::partition_id::PartitionId;
use crate::throughput::MEMBERS_MAX;
use crate::units::Units;

/// The time over which the load of neighbours must have been low, and since their last cut.
pub const COOL: Duration = Duration::from_mins(10);

/// The time after a merge in which keys that were cut again since are not merged again.
pub const CYCLE: Duration = Duration::from_mins(20);

/// The tenths of a ceiling that two neighbours together may have reached.
const CEILING_TENTHS: i64 = 4;

/// The hundredths of a table's partitions that may be merged in a minute; at least one may.
const PERCENT_A_MINUTE: usize = 15;

/// The time in which so many are merged.
pub(crate) const MINUTE: Duration = Duration::from_mins(1);

/// The merges of a minute in a table of so many partitions, in hundredths. The part of a merge that
/// is left is carried to the next minute.
pub(crate) fn merges_a_minute(partitions: usize) -> usize {
    (partitions * PERCENT_A_MINUTE).max(100)
}

/// A partition as a candidate for a merge, in the order of the ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MergeLoad {
    /// The partition.
    pub id: PartitionId,
    /// When it was last cut off from a neighbour; `None` if the table began with it.
    pub made_at: Option<Timestamp>,
    /// The last merge of keys of it that were cut apart again since.
    pub rejoined_at: Option<Timestamp>,
    /// The highest reads and writes a second of the last [`COOL`]; `None` while it has not been
    /// observed for as long.
    pub peaks: Option<[Units; 2]>,
    /// Its shares of the reads and writes of the table.
    pub bases: [Units; 2],
    /// The ceilings of reads and writes.
    pub ceilings: [Units; 2],
    /// Whether it was cut around one heavy key.
    pub has_hot_key: bool,
    /// The range of which it is a piece: one partition before a load grew, whose pieces together
    /// fit one partition now. `None` for a partition outside of such ranges.
    pub former: Option<KeyRange>,
    /// Whether it begins where the table is configured to be cut.
    pub begins_configured: bool,
    /// The part of the keys that it has, as a weight.
    pub width: u128,
    /// The positions of the nodes of its group, the leader first; the last position there is where
    /// it has fewer.
    pub nodes: [usize; MEMBERS_MAX],
}

impl MergeLoad {
    /// A partition that is not joined, as it has not been observed.
    pub(crate) const fn unknown(id: PartitionId) -> Self {
        Self {
            id,
            made_at: None,
            rejoined_at: None,
            peaks: None,
            bases: [Units::ZERO; 2],
            ceilings: [Units::ZERO; 2],
            has_hot_key: false,
            former: None,
            begins_configured: false,
            width: 0,
            nodes: [usize::MAX; MEMBERS_MAX],
        }
    }
}

/// Two neighbours that may be joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoolPair {
    /// The left one.
    pub left: PartitionId,
    /// The right one.
    pub right: PartitionId,
    /// Whether they lie on the same nodes; otherwise replicas of one have to move first.
    pub is_together: bool,
}

/// Neighbours that may be joined at `now`; each partition in at most one pair. At most `most` pairs
/// lie on the same nodes, and as many do not. Nothing is joined where the table is configured to be
/// cut.
pub fn cool_neighbours(partitions: &[MergeLoad], most: usize, now: Timestamp) -> Vec<CoolPair> {
    let mut candidates: Vec<usize> = (1..partitions.len())
        .map(|right| right - 1)
        .filter(|left| may_join(&partitions[*left], &partitions[left + 1], now))
        .collect();
    // The narrowest first, of equal ones the first.
    candidates.sort_by_key(|left| (rounded(partitions[*left].width + partitions[left + 1].width), *left));
    let mut is_taken = vec![false; partitions.len()];
    let mut chosen = Vec::new();
    let mut left_of_kind = [most; 2];
    for index in candidates {
        let (left, right) = (&partitions[index], &partitions[index + 1]);
        let is_together = left.nodes == right.nodes;
        let left_of_kind = &mut left_of_kind[usize::from(is_together)];
        if is_taken[index] || is_taken[index + 1] || *left_of_kind == 0 {
            continue;
        }
        *left_of_kind -= 1;
        (is_taken[index], is_taken[index + 1]) = (true, true);
        chosen.push(CoolPair { left: left.id, right: right.id, is_together });
    }
    chosen
}

/// A width to the nearest eighth of a power of two, since equal pieces may differ by one.
const fn rounded(width: u128) -> u128 {
    let bits = match width.checked_ilog2() {
        Some(bits) if bits > 3 => bits - 3,
        _ => 0,
    };
    (width + (1 << bits >> 1)) >> bits << bits
}

fn may_join(left: &MergeLoad, right: &MergeLoad, now: Timestamp) -> bool {
    let is_past = |at: Option<Timestamp>, time| at.is_none_or(|at| now.saturating_since(at) >= time);
    let is_rested = |one: &MergeLoad| is_past(one.made_at, COOL) || Fault::JoinedAtOnce.is_planted();
    let is_settled = |one: &MergeLoad| !one.has_hot_key && is_rested(one) && is_past(one.rejoined_at, CYCLE);
    let unknown = Fault::JoinedAtOnce.is_planted().then_some([Units::ZERO; 2]);
    let [left_peaks, right_peaks] = [left, right].map(|one| one.peaks.or(unknown));
    let (Some(left_peaks), Some(right_peaks)) = (left_peaks, right_peaks) else { return false };
    let fits = |direction: usize| {
        let sum = (left_peaks[direction] + right_peaks[direction]).as_thousandths();
        let base = (left.bases[direction] + right.bases[direction]).as_thousandths();
        let ceiling = left.ceilings[direction].min(right.ceilings[direction]).as_thousandths();
        let is_cool = sum.saturating_mul(10) < ceiling.saturating_mul(CEILING_TENTHS);
        (is_cool || left.former.is_some() && left.former == right.former) && base <= ceiling
    };
    !right.begins_configured && is_settled(left) && is_settled(right) && fits(0) && fits(1)
}

/// The replicas of a partition that may be joined with its neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoolReplicas {
    /// The positions of the nodes of its group, as in [`MergeLoad::nodes`].
    pub nodes: [usize; MEMBERS_MAX],
    /// The units a second that the leader is promised, and each other member.
    pub promised: [Units; 2],
}

/// A move that brings a replica of a partition to the node of its neighbour's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoiningMove {
    /// Whether it is one of the right partition.
    pub is_right: bool,
    /// The position of the node that it leaves.
    pub from: usize,
    /// The position of the node that it goes to.
    pub to: usize,
    /// The units a second that it is promised.
    pub promised: Units,
}

/// The next move after which two neighbours lie on the same nodes, or are closer to that. `None` if
/// no node has room for it: it must be able to promise what the replica is promised, and be asked
/// for less than [`FULL_PERCENT`] of its units; or if the groups have the same nodes in different
/// roles.
pub fn joining_move(pair: [CoolReplicas; 2], nodes: &[NodeUse]) -> Option<JoiningMove> {
    let [left, right] = pair;
    (0..MEMBERS_MAX)
        .filter(|member| left.nodes[*member] != right.nodes[*member])
        .flat_map(|member| [(member, right, left, true), (member, left, right, false)])
        .find_map(|(member, moving, staying, is_right)| {
            let (from, to) = (moving.nodes[member], staying.nodes[member]);
            let promised = moving.promised[usize::from(member > 0)];
            let node = nodes.get(to)?;
            let is_full = node.offered.as_thousandths().saturating_mul(100)
                > node.units.as_thousandths().saturating_mul(FULL_PERCENT);
            let has_room = node.promised + promised <= node.promisable && !is_full;
            let is_possible = has_room && nodes.get(from).is_some() && !moving.nodes.contains(&to);
            is_possible.then_some(JoiningMove { is_right, from, to, promised })
        })
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
            rejoined_at: None,
            peaks: Some([Units::ZERO, Units::whole(writes)]),
            bases: [Units::ZERO; 2],
            ceilings: [Units::whole(3000), Units::whole(1000)],
            has_hot_key: false,
            former: None,
            begins_configured: false,
            width: 1 << 32,
            nodes: [0, usize::MAX, usize::MAX],
        }
    }

    fn chosen(loads: &[MergeLoad]) -> Vec<u32> {
        cool_neighbours(loads, 100, NOW).into_iter().map(|pair| pair.left.0).collect()
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
        let elsewhere = MergeLoad { nodes: [1, usize::MAX, usize::MAX], ..load(1, 0) };
        let apart = cool_neighbours(&[load(0, 0), elsewhere], 1, NOW);
        assert_eq!(apart, [CoolPair { left: PartitionId(0), right: PartitionId(1), is_together: false }]);
    }

    /// I12.
    #[test]
    fn keys_that_were_merged_and_cut_again_are_not_merged_within_twenty_minutes() {
        let rejoined = |seconds| MergeLoad {
            rejoined_at: Some(NOW.saturating_sub(Duration::from_secs(seconds))),
            ..load(1, 0)
        };
        assert_eq!(chosen(&[load(0, 0), rejoined(1199)]), [0; 0]);
        assert_eq!(chosen(&[load(0, 0), rejoined(1200)]), [0]);
    }

    #[test]
    fn shares_that_together_exceed_a_ceiling_stay_apart() {
        let promised = |id, writes| MergeLoad { bases: [Units::ZERO, Units::whole(writes)], ..load(id, 0) };
        assert_eq!(chosen(&[promised(0, 500), promised(1, 500)]), [0]);
        assert_eq!(chosen(&[promised(0, 500), promised(1, 501)]), [0; 0]);
    }

    #[test]
    fn neighbours_come_together_where_there_is_room_and_groups_one_member_at_a_time() {
        let node = |promised, offered| NodeUse {
            units: Units::whole(1000),
            promisable: Units::whole(900),
            promised: Units::whole(promised),
            offered: Units::whole(offered),
            full_for: Duration::ZERO,
        };
        let replicas = |nodes| CoolReplicas { nodes, promised: [Units::whole(50), Units::whole(20)] };
        let alone = |node| replicas([node, usize::MAX, usize::MAX]);
        let next = |left, right, nodes: &[NodeUse]| {
            joining_move([left, right], nodes).map(|one| (one.is_right, one.from, one.to))
        };
        assert_eq!(next(alone(0), alone(1), &[node(850, 0), node(850, 0)]), Some((true, 1, 0)));
        assert_eq!(next(alone(0), alone(1), &[node(851, 0), node(850, 0)]), Some((false, 0, 1)));
        assert_eq!(next(alone(0), alone(1), &[node(0, 901), node(851, 0)]), None);
        let free = [node(0, 0); 4];
        assert_eq!(next(replicas([0, 1, 2]), replicas([0, 3, 2]), &free), Some((true, 3, 1)));
        // Each leader lies where the other partition has a follower.
        let [mine, swapped] = [[0, 1, usize::MAX], [1, 0, usize::MAX]].map(replicas);
        assert_eq!(next(mine, swapped, &free), None);
    }

    #[test]
    fn pieces_become_the_ranges_that_they_were_cut_from() {
        // A whole, two pieces, a whole, four pieces: none is joined with a whole beside it.
        let widths = [8, 4, 4, 8, 2, 2, 2, 2];
        let loads: Vec<_> = (0..).zip(widths).map(|(id, width)| MergeLoad { width, ..load(id, 0) }).collect();
        assert_eq!(chosen(&loads[..4]), [1]);
        assert_eq!(
            cool_neighbours(&loads, 3, NOW).iter().map(|pair| pair.left.0).collect::<Vec<_>>(),
            [4, 6, 1]
        );
    }

    /// E-ETL: from 20 times back to 1.2 times, twenty minutes after everything has been cool for
    /// ten.
    #[test]
    fn at_most_fifteen_hundredths_a_minute_are_enough_to_come_back_from_twenty_times() {
        for former in 1..=50_usize {
            let (mut count, mut carried, mut minutes) = (former * 20, 0, 0);
            while count * 10 > former * 12 {
                let hundredths = merges_a_minute(count) + carried;
                let merged =
                    (hundredths / 100).min(cool_neighbours(&vec![load(0, 0); count], 1000, NOW).len());
                assert!(merged * 100 <= (count * 15).max(100) + 99);
                (count, carried, minutes) = (count - merged, hundredths % 100, minutes + 1);
            }
            assert!(minutes <= 19, "{former}: {minutes}");
        }
    }
}
