//! The heap that a warm direction of a partition takes, counted at the allocator.

use tidegate_capacity::control::Control;
use tidegate_capacity::sketch::sketch_bytes_max;
use tidegate_capacity::{
    Access, AccessOperation, Capacity, Ceilings, PartitionBy, PartitionId, TableConfig, TableMode,
};

use crate::story::{ORDERS, SHOP, at};

const KINDS: [PartitionBy; 3] = [PartitionBy::Hash, PartitionBy::Slot, PartitionBy::Range];

/// A store, a partition of it, and 4 000 long keys that lie there.
struct Partition {
    capacity: Capacity,
    id: PartitionId,
    keys: Vec<String>,
}

impl Partition {
    fn of(by: PartitionBy) -> Self {
        let ceilings = Ceilings { read: 1_000, write: 1_000 };
        let table = TableConfig::new(SHOP, ORDERS, 8_000, 8_000).partitions(8).partition_by(by);
        let table = table.mode(TableMode::Global).ceilings(ceilings).nodes(["a"]);
        let capacity = Capacity::builder().node("a", 100_000).table(table).build_at(at(0)).unwrap();
        let key = |number: u64| format!("{:>40}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let id_of = |key: &String| {
            let access = Access::write(ORDERS, key.as_bytes(), 1);
            capacity.peek(SHOP, &access, at(0)).unwrap().partition
        };
        let id = id_of(&key(0));
        let keys = (0..).map(key).filter(|key| id_of(key) == id).take(4_000).collect();
        Self { capacity, id, keys }
    }

    /// Writes to the keys in turn, so many a millisecond, from one millisecond to another.
    fn write(&self, rate: u64, millis: core::ops::Range<u64>) {
        for number in rate * millis.start..rate * millis.end {
            let key = &self.keys[number as usize % self.keys.len()];
            let access = Access::write(ORDERS, key.as_bytes(), 1);
            let _ = self.capacity.admit(SHOP, &access, at(number / rate)).unwrap();
        }
    }
}

/// The bytes that are still allocated when `run` has returned, and the most meanwhile.
fn bytes(run: impl FnOnce()) -> [usize; 2] {
    let counted = allocation_counter::measure(run);
    [counted.bytes_current.try_into().unwrap_or(0), counted.bytes_max.try_into().unwrap()]
}

#[test]
fn two_windows_of_a_sketch_keep_the_bound_of_their_table() {
    for by in KINDS {
        let partition = Partition::of(by);
        let (capacity, write) = (&partition.capacity, AccessOperation::Write);
        let [kept, most] = bytes(|| {
            capacity.sample_keys((SHOP, ORDERS), partition.id, write, Some(7), at(0)).unwrap();
            partition.write(2, 0..19_000);
        });
        assert!(most <= sketch_bytes_max(by), "{by:?}: {most}");
        // Two windows of a full sample and 256 counters are there.
        let position = if by == PartitionBy::Range { 32 } else { 8 };
        let expected = 2 * (1024 * position + 256 * (position + 16));
        assert!((expected..expected + 2048).contains(&kept), "{by:?}: {kept}");
        let sample = capacity.take_key_sample((SHOP, ORDERS), partition.id, write, at(19_000)).unwrap();
        assert_eq!(sample.unwrap().positions.len(), 1024);
    }
}

/// Beside the sketch, the loops keep the samples of four windows for the next verdict.
#[test]
fn a_partition_that_is_judged_for_minutes_keeps_its_bound() {
    // Two windows of a sketch and four samples, which a quiet partition lacks.
    let kept = |by, rate| {
        let partition = Partition::of(by);
        let mut control = Control::new(7, at(0));
        let [kept, _] = bytes(|| {
            for second in 0..190 {
                partition.write(rate, second * 1000..(second + 1) * 1000);
                // The cuts that are proposed are not made.
                control.tick(&partition.capacity, at((second + 1) * 1000));
            }
            // The window that ends meanwhile waits for the next tick.
            partition.write(rate, 190_000..203_000);
        });
        kept
    };
    for (by, bytes_max) in
        [(PartitionBy::Hash, 64 << 10), (PartitionBy::Slot, 64 << 10), (PartitionBy::Range, 224 << 10)]
    {
        let more = kept(by, 2) - kept(by, 0);
        assert!(more <= bytes_max, "{by:?}: {more}");
        assert!(more > bytes_max - (12 << 10), "all of them are there: {by:?}: {more}");
    }
}
