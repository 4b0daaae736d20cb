use std::time::Duration;

use tidegate_bench::flood::{Flood, flood};

/// Only decisions are looked at here: the bytes of a process that runs other tests say nothing.
#[test]
fn a_flood_of_unique_keys_neither_frees_a_used_up_quota_nor_gets_past_a_full_table() {
    let small =
        Flood { table_bytes: 1 << 20, keys_a_second: 20_000, seconds: 20, drain: Duration::from_secs(5) };
    let flooded = flood(&small);
    assert!(flooded.is_quota_kept);
    assert_eq!(flooded.otherwise, 0);
    // A hundred thousand keys matter at a time, of which some fifty thousand find room: four floods
    // of those.
    assert!((100_000..300_000).contains(&flooded.admitted), "{flooded:?}");
    assert_eq!(flooded.admitted + flooded.table_full, 400_000);
}
