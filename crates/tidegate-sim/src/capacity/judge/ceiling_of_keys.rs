//! I11: the ceiling of a key never decreases because partitions were added.

use super::books::TableBook;
use super::level::{fine, units};
use crate::capacity::trace::PartitionRecord;

/// Nothing is kept: the books have the ceilings.
#[derive(Debug)]
pub(super) struct KeyCeiling;

impl KeyCeiling {
    /// Judges partitions that replace those from place `from` to `to`.
    pub(super) fn replace(
        table: &TableBook,
        from: usize,
        to: usize,
        records: &[PartitionRecord],
    ) -> Option<String> {
        let before = table.partitions[from..to].iter().map(|one| one.ceiling.rate).max()?;
        let lower = records.iter().find(|record| record.ceiling < before)?;
        Some(format!(
            "partition {} has a ceiling of {} units a second where {} were",
            lower.id,
            units(fine(lower.ceiling)),
            units(fine(before))
        ))
    }
}
