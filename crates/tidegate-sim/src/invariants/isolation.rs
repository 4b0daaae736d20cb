//! I4: a partition that is asked for no more than its share and a second of it is refused by
//! neither its own buckets nor its nodes, whatever others do.
//!
//! A bucket of the share and one second takes everything that the partition is asked for; the
//! partition conforms while nothing exceeds it. A partition that was made by a cut or a join
//! conforms once the deepest debt that it can have inherited would be repaid.

use tidegate_capacity::{Bound, PartitionId};

use super::books::DirectionBook;
use super::level::{fine, units};

/// Notes an access that was refused.
pub(super) fn refuse(
    id: PartitionId,
    direction: &mut DirectionBook,
    (bound, may_nodes_refuse): (Bound, bool),
    cost: i64,
    at: u64,
) -> Option<String> {
    let asked = direction.asked.add(cost, direction.base, at);
    let is_own = matches!(bound, Bound::Allocation | Bound::Burst | Bound::Node | Bound::Replica);
    (is_own && !may_nodes_refuse && asked <= fine(direction.base)).then(|| {
        format!(
            "{bound:?} refused partition {id}, which was asked for {} units beyond its share of {} a second, and may \
             be asked for as many as its share",
            units(asked),
            units(fine(direction.base))
        )
    })
}
