//! Three limits at once, all or nothing.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use tidegate_bench::calls::{HOT, check_three, fill_three, gate};
use tidegate_bench::workload::{self, Clock, START, Visitors, table_of_words};
use tidegate_core::Timestamp;

const HOT_KEYS: [&str; 3] = ["api-key-000000000001", "user----000000000001", HOT];

fn three(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("gate/three limits");
    let clock = Clock::start();
    let hot = gate(workload::three_limits(), table_of_words(1 << 20));
    group.bench_function("hot keys, admit", |bencher| {
        bencher.iter(|| check_three(&hot, black_box(HOT_KEYS), clock.now()));
    });
    let still = gate(workload::three_limits(), table_of_words(1 << 20));
    let mut now = START.as_nanos();
    group.bench_function("hot keys, admit, no clock", |bencher| {
        bencher.iter(|| {
            now += 1_000;
            check_three(&still, black_box(HOT_KEYS), Timestamp::from_nanos(now))
        });
    });
    let mut limits = workload::three_limits();
    limits[2].algorithm = workload::tight();
    let shut = gate(limits, table_of_words(1 << 20));
    while check_three(&shut, HOT_KEYS, clock.now()) {}
    group.bench_function("hot keys, the third denies", |bencher| {
        bencher.iter(|| check_three(&shut, black_box(HOT_KEYS), clock.now()));
    });
    let visitors = Visitors::new();
    let large = gate(workload::three_limits(), table_of_words(40 << 20));
    fill_three(&large, &visitors);
    let mut index = 0;
    group.bench_function("1 k, 250 k and 1 M keys, zipf", |bencher| {
        bencher.iter(|| {
            index += 1;
            check_three(&large, visitors.request(index), clock.now())
        });
    });
    group.finish();
}

criterion_group!(benches, three);
criterion_main!(benches);
