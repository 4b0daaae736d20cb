//! Samples of the keys of single partitions, which a control loop turns on while they are warm.

use tidegate_core::{AccessOperation, Timestamp};

use crate::capacity::Capacity;
use crate::control::reshape::index_of;
use crate::control::sketch::{KeySample, Sketch};
use crate::error::CapacityError;
use crate::layout::partition_id::PartitionId;

impl Capacity {
    /// Samples the keys of one direction of a partition from `now` on, or no longer. A sketch that
    /// is there goes on. Splits and merges end it.
    ///
    /// `seed` decides which of the keys are sampled. Fails when there is no such table or
    /// partition.
    pub fn sample_keys(
        &self,
        (namespace, table): (&str, &str),
        partition: PartitionId,
        operation: AccessOperation,
        seed: Option<u64>,
        now: Timestamp,
    ) -> Result<(), CapacityError> {
        let layout = &self.table(namespace, table)?.layout;
        let plan = layout.plan();
        let mut state = layout.lock(&plan, index_of(layout, &plan, partition)?);
        let by = state.range.by;
        let sketch = &mut state.sketches[direction_of(operation)];
        match seed {
            None => *sketch = None,
            Some(seed) => {
                sketch.get_or_insert_with(|| Box::new(Sketch::new(by, seed, now)));
            }
        }
        Ok(())
    }

    /// The keys of the last whole window of a partition, once; `None` before the first one, or
    /// without a sketch.
    ///
    /// Fails when there is no such table or partition.
    pub fn take_key_sample(
        &self,
        (namespace, table): (&str, &str),
        partition: PartitionId,
        operation: AccessOperation,
        now: Timestamp,
    ) -> Result<Option<KeySample>, CapacityError> {
        let layout = &self.table(namespace, table)?.layout;
        let plan = layout.plan();
        let mut state = layout.lock(&plan, index_of(layout, &plan, partition)?);
        let sketch = state.sketches[direction_of(operation)].as_mut();
        Ok(sketch.and_then(|sketch| sketch.take_sample(now)))
    }
}

/// The place of a direction: reads first.
pub(crate) const fn direction_of(operation: AccessOperation) -> usize {
    match operation {
        AccessOperation::Read => 0,
        AccessOperation::Write => 1,
    }
}
