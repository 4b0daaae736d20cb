use tidegate_bench::calls::{
    HOT, access, capacity, check_eight, check_one, check_one_and_read, check_sixteen, check_three,
    check_three_and_read, gate, gate_of_one, warm_capacity,
};
use tidegate_bench::gated_paths::{CALLS, PATHS};
use tidegate_bench::instructions::work;
use tidegate_bench::workload::{self, START, table_of_words};
use tidegate_core::Algorithm;
use tidegate_core::algorithm::Rolling;

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
fn a_refusal_allocates_nothing_until_it_is_read_and_then_once() {
    let gate = gate_of_one(workload::tight(), table_of_words(1 << 20));
    while check_one(&gate, HOT, START) {}
    assert_eq!(allocations(|| assert!(!check_one(&gate, HOT, START))), 0);
    assert_eq!(allocations(|| assert!(!check_one_and_read(&gate, HOT, START))), 1);
}

#[test]
fn one_of_three_or_eight_limits_refuses_without_an_allocation() {
    let mut three = workload::three_limits();
    three[1].algorithm = workload::tight();
    let three = gate(three, table_of_words(1 << 20));
    while check_three(&three, KEYS, START) {}
    assert_eq!(allocations(|| assert!(!check_three(&three, KEYS, START))), 0);
    assert_eq!(allocations(|| assert!(!check_three_and_read(&three, KEYS, START))), 1);
    let mut eight = workload::eight_limits();
    eight[7].algorithm = workload::tight();
    let eight = gate(eight, table_of_words(1 << 20));
    while check_eight(&eight, HOT, START) {}
    assert_eq!(allocations(|| assert!(!check_eight(&eight, HOT, START))), 0);
}

#[test]
fn a_rolling_limit_admits_and_refuses_without_an_allocation() {
    let rolling = Rolling::new(100, workload::SECOND).expect("a hundred a second is valid");
    let mut config = table_of_words(1 << 20);
    config.ring_share_percent = 50;
    let gate = gate_of_one(Algorithm::Rolling(rolling), config);
    // The ring grows until it holds as much as the limit.
    while check_one(&gate, HOT, START) {}
    assert_eq!(allocations(|| assert!(!check_one(&gate, HOT, START))), 0);
    let later = START.saturating_add(2 * workload::SECOND);
    assert_eq!(allocations(|| (0..100).for_each(|_| assert!(check_one(&gate, HOT, later)))), 0);
}

#[test]
fn an_access_is_admitted_without_an_allocation_cold_and_warm() {
    for capacity in [capacity(), warm_capacity(START)] {
        let admit = |index| {
            let key = format!("key-{}", index % 300);
            let mut admitted = false;
            let count = allocations(|| {
                let answer = capacity.admit("bench", &access(index, &key), START);
                admitted = matches!(answer, Ok(tidegate_capacity::Admission::Admit(_)));
            });
            assert!(admitted);
            count
        };
        assert_eq!((0..20_000).map(admit).sum::<u64>(), 0);
    }
}

/// The gate counts these under valgrind too, but not on every machine.
#[test]
#[expect(clippy::cast_precision_loss, reason = "counts of a test are small")]
fn every_gated_path_allocates_as_often_as_its_baseline_says() {
    let baselines = include_str!("../../instructions.txt");
    let [_, few, many] = CALLS;
    for kind in PATHS {
        let name = kind.name();
        let line = baselines.lines().find(|line| line.split(' ').next() == Some(name));
        let baseline = line.and_then(|line| line.split(' ').nth(2)?.parse::<f64>().ok());
        let baseline = baseline.unwrap_or_else(|| {
            panic!("instructions.txt has no {name}; run `cargo xtask instructions --bless`")
        });
        let of = |calls| allocations(|| assert!(work(*kind, calls) <= calls)) as f64;
        let a_call = (of(many) - of(few)) / (many - few) as f64;
        assert!((a_call - baseline).abs() < 0.01, "{name}: {a_call} allocations a call, not {baseline}");
    }
}
