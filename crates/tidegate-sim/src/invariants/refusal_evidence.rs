//! I14: each refusal names one bucket, and that bucket is short: by the level that the refusal
//! shows, and by the level that the trace gives; and both levels are the same.

use tidegate_capacity::Bound;

use super::books::{Books, index_of};
use super::level::{FINE, LevelSpan, ROUNDING, coarse, fine, units};
use super::trace::TracedRefusal;

/// Judges a refusal by the partition at `place`.
pub(super) fn refuse(books: &Books, place: usize, refusal: &TracedRefusal) -> Option<String> {
    let access = &refusal.access;
    let (cost, at) = (access.units.as_thousandths(), access.at.as_nanos());
    let direction = index_of(access.operation);
    let table = &books.tables[access.table];
    let partition = &table.partitions[place];
    let book = &partition.directions[direction];
    let (allocation, burst) = book.levels.at(at);
    let shared =
        |level: LevelSpan| LevelSpan { least: level.least - fine(refusal.beside.as_thousandths()), ..level };
    let node = |place: usize| {
        let node = &books.nodes[place];
        (shared(node.level.at(at)), cost + node.reserve)
    };
    let shown = fine(refusal.level.as_thousandths());
    // The level by the trace, and what the access needed of it: anything, or its weight and a
    // reserve.
    let (by_trace, needed) = match refusal.bound {
        Bound::Allocation => (allocation, 1),
        Bound::Burst => (burst, cost),
        Bound::Ceiling => (book.ceilings[0].at(at), 1),
        // The tokens are in the leases of routers: see the lease checker.
        Bound::Table | Bound::OnDemandMaximum if table.bounds[direction].has_leases() => {
            (LevelSpan::exact(shown), cost)
        }
        Bound::TableShare => (LevelSpan::exact(shown), cost),
        Bound::Table | Bound::OnDemandMaximum => (table.tokens[direction].at(at), cost),
        Bound::Account => (shared(books.accounts.get(table.account?)?[direction].at(at)), cost),
        Bound::Node if direction == 1 => node(partition.members.node(0)),
        // A refusal shows the level of one of the nodes that might have served it.
        Bound::Node | Bound::Replica => {
            let first = usize::from(refusal.bound == Bound::Replica);
            let nodes = partition.members.iter().skip(first).map(node);
            nodes.min_by_key(|(level, _)| level.distance(shown))?
        }
        // A move is known to the world that makes it.
        Bound::Move => return None,
        unknown => return Some(format!("{unknown:?} is a bucket that the checkers do not know")),
    };
    let what = |why: &str| {
        Some(format!(
            "partition {} refused {} units by {:?} {why}: it shows a level of {}, the trace has {by_trace}, and {} were \
             needed",
            partition.id,
            units(fine(cost)),
            refusal.bound,
            refusal.level,
            units(fine(needed))
        ))
    };
    if refusal.level.as_thousandths() >= needed {
        return what("which had room by its own level");
    }
    if coarse(by_trace.least - ROUNDING) >= needed {
        return what("which had room by the trace");
    }
    if by_trace.distance(shown) > ROUNDING {
        return what("with another level than the trace");
    }
    let is_beyond = matches!(refusal.bound, Bound::Burst | Bound::Node | Bound::Replica);
    if is_beyond && has_allocation(allocation) && !(direction == 1 && table.is_every_write_checked) {
        return what("although its allocation had something left");
    }
    None
}

const fn has_allocation(allocation: LevelSpan) -> bool {
    allocation.least >= FINE + ROUNDING
}
