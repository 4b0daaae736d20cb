//! The verdict on a partition that is asked for more than its ceiling: where to cut it, or why not.
//!
//! A cut is accepted by its *predicted benefit*: the last windows are replayed against both parts,
//! and what the two would refuse must be less by a fifth, or by four fifths of a ceiling. One cut
//! never brings more than a ceiling, which is less than a fifth of what a load of more than six
//! ceilings is refused: such a load is cut again and again until its parts fit. Balance is no
//! criterion, since the useful cut beside a heavy key is unbalanced. The median falls on a heavy
//! key more often than not, so both sides of the median and of the heaviest keys are tried.

use crate::control::sketch::KeySample;
use crate::layout::key_range::KeyRange;
use crate::layout::position::Position;
use crate::layout::position_list::PositionList;
use crate::levels::Share;
use crate::units::Units;

/// The windows that a verdict looks at, at most.
pub const WINDOWS_MAX: usize = 5;

/// The windows in a row that must be above the ceiling.
const HOT_WINDOWS: usize = 3;

/// The standard deviations by which a load must be above the ceiling. A load that is a hundredth
/// below it is so by chance once in a million of windows.
const CERTAIN_DEVIATIONS: i128 = 4;

/// The distance of the distributions of two windows, in thousandths, beyond which the load moves.
/// Stationary samples of 1024 keys are at most 73 apart, and a mixture of four tenths sequential
/// and six tenths uniform load at least 381.
const MOVE_DISTANCE: usize = 150;

/// The part of the ceiling from which on the neighbours of a hot key on one side are worth a cut:
/// 50 units a second of 3000.
const NEIGHBOURS_PART: i64 = 60;

/// The heaviest keys of which both sides are tried, beside the median.
const HEAVY_TRIED: usize = 4;

/// The load of one direction of a partition.
#[derive(Clone, Copy, Debug)]
pub struct SplitLoad<'a> {
    /// The keys of the partition.
    pub range: KeyRange,
    /// The bound of the load, in units a second.
    pub ceiling: Units,
    /// The last windows in a row, the latest last; more than [`WINDOWS_MAX`] are not looked at.
    pub windows: &'a [KeySample],
    /// The least load of the neighbours of a hot key on one side that is worth a cut, in units a
    /// second.
    pub neighbours_min: Units,
}

impl<'a> SplitLoad<'a> {
    /// A load; neighbours of a hot key are worth a cut from a sixtieth of the ceiling on.
    pub fn new(range: KeyRange, ceiling: Units, windows: &'a [KeySample]) -> Self {
        let neighbours_min = Units::from_thousandths(ceiling.as_thousandths() / NEIGHBOURS_PART);
        Self { range, ceiling, windows, neighbours_min }
    }
}

/// The verdict on a partition.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SplitVerdict {
    /// A cut helps.
    Split(Cut),
    /// One key alone is asked for more than the ceiling. At most two cuts free its neighbours,
    /// those that are worth it; after them no cut helps until the key cools.
    HotKey {
        /// The key.
        position: Position,
        /// Before it, and behind it.
        cuts: Vec<Cut>,
    },
    /// The load moves on to ever higher keys: a cut would always be behind it. A random prefix of
    /// the keys helps.
    Sequential,
    /// The load moves.
    Moving,
    /// Most requests read ranges, which a cut would part.
    Scan,
    /// No cut lessens the refusals by a fifth, or by four fifths of a ceiling.
    Useless,
    /// The load is not above the ceiling, or not for long enough.
    Wait,
}

/// A cut and what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The first position of the right part.
    pub at: Position,
    /// The part of the load that the left part has.
    pub left: Share,
    /// The units a second that are refused less.
    pub benefit: Units,
}

/// Decides where to cut a partition, or why not.
pub fn split_verdict(load: &SplitLoad<'_>) -> SplitVerdict {
    let windows = &load.windows[load.windows.len().saturating_sub(WINDOWS_MAX)..];
    let is_hot = |window: &KeySample| window.load > load.ceiling && !window.positions.is_empty();
    let recent = &windows[windows.len().saturating_sub(HOT_WINDOWS)..];
    let Some(latest) = recent.last().filter(|_| recent.len() == HOT_WINDOWS && recent.iter().all(is_hot))
    else {
        return SplitVerdict::Wait;
    };
    let hot = windows.len() - windows.iter().rev().take_while(|window| is_hot(window)).count();
    if !is_certain(&windows[hot..], load.ceiling) {
        return SplitVerdict::Wait;
    }
    if let Some(heaviest) = latest.heavy.first()
        && heaviest.at_least >= load.ceiling
    {
        let position = heaviest.position;
        return SplitVerdict::HotKey { position, cuts: cuts_around(load, recent, position) };
    }
    if latest.requests > 0 && latest.spanning.saturating_mul(2) >= latest.requests {
        return SplitVerdict::Scan;
    }
    if let Some(verdict) = movement(windows) {
        return verdict;
    }
    let best = candidates(load, latest)
        .into_iter()
        .filter_map(|at| cut_at(load, recent, at))
        .max_by_key(|cut| (cut.benefit, core::cmp::Reverse((larger_part(latest, cut.at), cut.at))));
    best.map_or(SplitVerdict::Useless, SplitVerdict::Split)
}

/// Whether windows above the ceiling are so by more than chance: the excess of independent requests
/// is [`CERTAIN_DEVIATIONS`] standard deviations at least.
fn is_certain(windows: &[KeySample], ceiling: Units) -> bool {
    let (mut load, mut excess, mut requests) = (0_i128, 0_i128, 0_i128);
    for window in windows {
        load += i128::from(window.load.as_thousandths());
        excess += i128::from((window.load - ceiling).as_thousandths());
        requests += i128::from(window.requests);
    }
    // Requests of one weight: the deviation is the load by the root of their number.
    excess * excess * requests >= CERTAIN_DEVIATIONS * CERTAIN_DEVIATIONS * load * load
}

/// Whether the load moves from window to window, most of the time.
fn movement(windows: &[KeySample]) -> Option<SplitVerdict> {
    let pairs: Vec<(&KeySample, &KeySample)> = windows.iter().zip(windows.iter().skip(1)).collect();
    let moved: Vec<_> =
        pairs.iter().filter(|(before, after)| has_moved(&before.positions, &after.positions)).collect();
    if moved.len() * 2 <= pairs.len() {
        return None;
    }
    // Of a load that grows at its upper end, more than a tenth lies above the former nine tenths.
    let is_upward = |(before, after): &&&(&KeySample, &KeySample)| {
        // No position is above the last one of an empty sample.
        before.positions.get(before.positions.len() * 9 / 10).is_some_and(|high| {
            let above = after.positions.len() - after.positions.count_up_to(high);
            above * 4 >= after.positions.len()
        })
    };
    let upward = moved.iter().filter(is_upward).count();
    Some(if upward * 2 > moved.len() { SplitVerdict::Sequential } else { SplitVerdict::Moving })
}

/// Whether two sorted samples are of different distributions.
fn has_moved(before: &PositionList, after: &PositionList) -> bool {
    let distance = distance(before, after);
    // By chance, one pair of samples in two hundred is further apart (Kolmogorov and Smirnov).
    let chance = distance * distance * before.len() * after.len() <= 3_000_000 * (before.len() + after.len());
    distance > MOVE_DISTANCE && !chance
}

/// The largest distance between the distributions of two sorted samples, in thousandths
/// (Kolmogorov and Smirnov).
fn distance(before: &PositionList, after: &PositionList) -> usize {
    let (mut left, mut right, mut largest) = (0, 0, 0);
    while let (Some(of_before), Some(of_after)) = (before.get(left), after.get(right)) {
        let position = of_before.min(of_after);
        while before.get(left) == Some(position) {
            left += 1;
        }
        while after.get(right) == Some(position) {
            right += 1;
        }
        largest = largest.max((left * after.len()).abs_diff(right * before.len()));
    }
    largest * 1000 / (before.len() * after.len()).max(1)
}

/// The positions to be tried: both sides of the median and of the heaviest keys.
fn candidates(load: &SplitLoad<'_>, latest: &KeySample) -> Vec<Position> {
    let median = latest.positions.get(latest.positions.len() / 2);
    let heavy = latest.heavy.iter().take(HEAVY_TRIED).map(|key| key.position);
    let both_sides = |position: Position| [Some(position), load.range.by.next(position)];
    let mut tried: Vec<Position> = median.into_iter().chain(heavy).flat_map(both_sides).flatten().collect();
    tried.sort_unstable();
    tried.dedup();
    tried.retain(|at| load.range.contains(*at) && *at != load.range.first);
    tried
}

/// A cut, if what both parts would have refused of these windows is less by a fifth, or by four
/// fifths of the ceiling.
fn cut_at(load: &SplitLoad<'_>, windows: &[KeySample], at: Position) -> Option<Cut> {
    let (mut before, mut after) = (0_i64, 0_i64);
    let ceiling = load.ceiling.as_thousandths();
    let refused = |offered: i64| (offered - ceiling).max(0);
    for window in windows {
        let [left, right] = parts(window, at);
        before += refused(window.load.as_thousandths());
        after += refused(left) + refused(right);
    }
    let windows_count = i64::try_from(windows.len()).unwrap_or(i64::MAX);
    let is_fifth = after * 5 <= before * 4;
    let is_nearly_ceiling = (before - after) * 5 >= ceiling * 4 * windows_count;
    if !is_fifth && !is_nearly_ceiling {
        return None;
    }
    let [left, right] = parts(windows.last()?, at).map(i64::cast_unsigned);
    let benefit = Units::from_thousandths((before - after) / windows_count);
    Some(Cut { at, left: Share::from_parts(left, right), benefit })
}

/// The load of the larger part of a cut.
fn larger_part(window: &KeySample, at: Position) -> i64 {
    let [left, right] = parts(window, at);
    left.max(right)
}

/// Of the load of a window from `first` on, the part that lies before `at`.
pub(crate) fn share_before(window: &KeySample, first: Position, at: Position) -> Share {
    let [before, _] = parts(window, first);
    let [left, right] = parts(window, at);
    Share::from_parts((left - before).max(0).cast_unsigned(), right.cast_unsigned())
}

/// The load of a window before `at` and from it on, in thousandths a second.
fn parts(window: &KeySample, at: Position) -> [i64; 2] {
    let left = window.positions.count_before(at);
    let load = i128::from(window.load.as_thousandths());
    // At most the load.
    let left = (load * left as i128 / (window.positions.len() as i128).max(1)) as i64;
    [left, load as i64 - left]
}

/// The cuts that part a hot key from its neighbours, by the average of these windows.
fn cuts_around(load: &SplitLoad<'_>, windows: &[KeySample], hot: Position) -> Vec<Cut> {
    let inside = |at: &Position| load.range.contains(*at) && *at != load.range.first;
    let before = Some(hot).filter(inside);
    let behind = load.range.by.next(hot).filter(inside);
    let count = i64::try_from(windows.len()).unwrap_or(i64::MAX).max(1);
    let average = |part: &dyn Fn(&KeySample) -> i64| windows.iter().map(part).sum::<i64>() / count;
    let left = average(&|window| before.map_or(0, |at| parts(window, at)[0]));
    let right = average(&|window| behind.map_or(0, |at| parts(window, at)[1]));
    let whole = average(&|window| window.load.as_thousandths());
    let cut = |at, left: i64, right: i64, neighbours: i64| {
        let [left, right] = [left, right].map(|part| part.max(0).cast_unsigned());
        let benefit = Units::from_thousandths(neighbours).min(load.ceiling);
        Cut { at, left: Share::from_parts(left, right), benefit }
    };
    // Where one side is worth a cut, half as much on the other side is too.
    let most = load.neighbours_min.as_thousandths();
    let worth = if left.max(right) > most { most / 2 } else { most };
    let before = before.filter(|_| left > worth);
    // The second cut is one of the part that the first one leaves.
    let rest = if before.is_some() { whole - left } else { whole };
    let behind = behind.filter(|_| right > worth);
    let before = before.map(|at| cut(at, left, whole - left, left));
    before.into_iter().chain(behind.map(|at| cut(at, rest - right, right, right))).collect()
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests;
