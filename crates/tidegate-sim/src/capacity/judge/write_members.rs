//! I7: a write beyond a partition's allocation is admitted only while the node of every required
//! member has room for it.

use super::books::{Books, PassedBy};
use super::level::{fine, units};

/// Nothing is kept: the books have the levels.
#[derive(Debug)]
pub(super) struct WriteMembers;

impl WriteMembers {
    /// Judges a write before it is booked; all members are required.
    #[inline]
    pub(super) fn admit(
        books: &Books,
        table: usize,
        place: usize,
        path: PassedBy,
        cost: i64,
        at: u64,
    ) -> Option<String> {
        if path == PassedBy::Allocation {
            return None;
        }
        let partition = &books.tables[table].partitions[place];
        let short = partition.members.iter().find(|node| books.nodes[**node].at(at) < fine(cost))?;
        Some(format!(
            "partition {} admitted a write of {} units beyond its allocation while the node at place {short} had {} \
             left",
            partition.id,
            units(fine(cost)),
            units(books.nodes[*short].at(at))
        ))
    }
}
