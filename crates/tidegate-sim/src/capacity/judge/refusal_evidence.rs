//! I14: each refusal names one bucket, and that bucket is short: by the level that the refusal
//! carries, and by the level that the trace gives.

use tidegate_capacity::{Bound, Throttled};

use super::books::Books;
use super::level::{FINE, coarse, fine, units};

/// Two levels that differ by no more are the same: begun thousandths may be rounded either way.
const ROUNDING: i128 = 3 * FINE;

/// Nothing is kept: the books have the levels.
#[derive(Debug)]
pub(super) struct RefusalEvidence;

impl RefusalEvidence {
    pub(super) fn refuse(
        books: &Books,
        table: usize,
        place: usize,
        throttled: &Throttled<'_>,
        cost: i64,
        at: u64,
    ) -> Option<String> {
        let table = &books.tables[table];
        let partition = &table.partitions[place];
        let (allocation, burst) = partition.levels.at(at);
        // The level by the trace, and what the request needed of it: anything, or the cost and a
        // reserve.
        let (by_trace, needed) = match throttled.bound {
            Bound::Allocation => (allocation, 1),
            Bound::Burst => (burst, cost),
            Bound::Ceiling => (partition.ceiling.at(at), 1),
            Bound::Table => (table.tokens.at(at), cost),
            Bound::Node => {
                let node = *partition.members.first()?;
                (books.nodes[node].at(at), cost + books.reserves[node])
            }
            Bound::Replica => {
                let node = *partition.members.iter().skip(1).min_by_key(|one| books.nodes[**one].at(at))?;
                (books.nodes[node].at(at), cost + books.reserves[node])
            }
            // A move is known to the world that makes it; nothing else refuses in these worlds.
            Bound::Move => return None,
            other => return Some(format!("a bucket that this world does not have refused: {other:?}")),
        };
        let rounding = ROUNDING + fine(partition.doubt);
        let told = fine(throttled.level.as_thousandths());
        let what = |why: &str| {
            Some(format!(
                "partition {} refused {} units by {:?} {why}: it told a level of {}, the trace has {}, and {} were \
                 needed",
                partition.id,
                units(fine(cost)),
                throttled.bound,
                units(told),
                units(by_trace),
                units(fine(needed))
            ))
        };
        if throttled.level.as_thousandths() >= needed {
            return what("which had room by its own level");
        }
        if coarse(by_trace - rounding) >= needed {
            return what("which had room by the trace");
        }
        if (by_trace - told).abs() > rounding && throttled.bound != Bound::Replica {
            return what("with another level than the trace");
        }
        if matches!(throttled.bound, Bound::Burst | Bound::Node | Bound::Replica)
            && allocation >= fine(1) + rounding
        {
            return what("although its allocation had something left");
        }
        None
    }
}
