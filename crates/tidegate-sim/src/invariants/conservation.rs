//! I8: the level of each bucket is what it was, plus what flowed in and came back, minus what was
//! granted and what overflowed; exact in thousandths for partitions.
//!
//! The levels by the trace are compared with those that the plane shows. Between two looks the
//! trace computes them in one step, so a level that depends on how often it was refilled is found
//! as well (I16).

use tidegate_capacity::view::DirectionView;
use tidegate_capacity::{PartitionId, Settlement, Units};

use super::books::{DirectionBook, PassedBy};
use super::level::{DEBT_MAX, FINE, ROUNDING, RefillingLevel, fine, units};

/// Compares the levels of one direction of a partition with those that it shows.
pub(super) fn compare_levels(
    id: PartitionId,
    book: &mut DirectionBook,
    view: &DirectionView,
    now: u64,
) -> Option<String> {
    book.overflow = view.overflow.as_thousandths();
    let shown = [view.allocation, view.burst].map(Units::as_thousandths);
    let (allocation, burst) = book.levels.narrow(shown[0], shown[1], now).err()?;
    Some(format!(
        "partition {id} shows {} units of its allocation and {} of burst credit; the trace has {allocation} and {burst}",
        view.allocation, view.burst
    ))
}

/// Compares the level of a bucket with the one that it shows.
pub(super) fn compare_bucket(
    what: &str,
    place: usize,
    level: &mut RefillingLevel,
    left: Units,
    now: u64,
) -> Option<String> {
    let by_trace = level.narrow(left.as_thousandths(), ROUNDING, now).err()?;
    Some(format!("the {what} at place {place} show {left} units left; the trace has {by_trace}"))
}

/// Whether the parts of a settlement add up to what was asked for.
pub(super) fn check_parts(surplus: i64, settlement: &Settlement) -> Option<String> {
    let Settlement { returned, overflow, unbooked } = *settlement;
    (returned + overflow - unbooked != Units::from_thousandths(surplus)).then(|| {
        format!(
            "{} units were given back, {overflow} overflowed and {unbooked} were not booked, of a surplus of {}",
            returned,
            units(fine(surplus))
        )
    })
}

/// Whether units of a correction were rightly not booked: the partition is in its deepest debt.
pub(super) fn check_unbooked(
    book: &DirectionBook,
    path: PassedBy,
    booked: i64,
    unbooked: i64,
    now: u64,
) -> Option<String> {
    let has_room = match path {
        PassedBy::Spare => booked < DEBT_MAX,
        _ => book.levels.allocation(now).least >= FINE - fine(DEBT_MAX),
    };
    (unbooked > 0 && has_room)
        .then(|| format!("{} units of a correction were not booked, without need", units(fine(unbooked))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_settlement_whose_parts_do_not_add_up_is_found() {
        let settlement =
            Settlement { returned: Units::whole(2), overflow: Units::whole(1), unbooked: Units::ZERO };
        assert_eq!(check_parts(3000, &settlement), None);
        assert!(check_parts(2999, &settlement).is_some());
    }
}
