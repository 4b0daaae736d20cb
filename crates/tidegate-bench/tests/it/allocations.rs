use tidegate_bench::calls::{HOT, check_one, check_sixteen, check_three, gate, gate_of_one};
use tidegate_bench::workload::{self, START, table_of_words};

const KEYS: [&str; 3] = ["api-key-000000000001", "user----000000000001", HOT];

fn allocations(run: impl FnOnce()) -> u64 {
    allocation_counter::measure(run).count_total
}

#[test]
fn admitting_under_three_limits_allocates_nothing_not_even_for_new_keys() {
    let gate = gate(workload::three_limits(), table_of_words(1 << 20));
    assert_eq!(allocations(|| assert!(check_three(&gate, KEYS, START))), 0);
    assert_eq!(allocations(|| (0..1_000).for_each(|_| assert!(check_three(&gate, KEYS, START)))), 0);
}

#[test]
fn a_batch_allocates_nothing() {
    let gate = gate_of_one(workload::endless(), table_of_words(1 << 20));
    assert_eq!(allocations(|| assert_eq!(check_sixteen(&gate, [HOT; 16], START), 16)), 0);
}

#[test]
fn a_refusal_allocates_once() {
    let gate = gate_of_one(workload::tight(), table_of_words(1 << 20));
    while check_one(&gate, HOT, START) {}
    assert_eq!(allocations(|| assert!(!check_one(&gate, HOT, START))), 1);
}
