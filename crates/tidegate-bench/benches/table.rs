//! The keyed table through a gate with one bucket.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tidegate_bench::calls::{HOT, check_one, check_sixteen, fill_one, gate_of_one};
use tidegate_bench::workload::{self, Clock, DRAWS, SEED, SESSIONS, START, table_of_words};
use tidegate_core::{Gate, Timestamp};

fn hot(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("table/hot");
    let clock = Clock::start();
    let open = gate_of_one(workload::endless(), table_of_words(1 << 20));
    group.bench_function("admit", |bencher| {
        bencher.iter(|| check_one(&open, black_box(HOT), clock.now()));
    });
    let still = gate_of_one(workload::endless(), table_of_words(1 << 20));
    let mut now = START.as_nanos();
    group.bench_function("admit, no clock", |bencher| {
        bencher.iter(|| {
            now += 1_000;
            check_one(&still, black_box(HOT), Timestamp::from_nanos(now))
        });
    });
    let shut = gate_of_one(workload::tight(), table_of_words(1 << 20));
    while check_one(&shut, HOT, clock.now()) {}
    group.bench_function("deny", |bencher| {
        bencher.iter(|| check_one(&shut, black_box(HOT), clock.now()));
    });
    group.bench_function("deny, no clock", |bencher| {
        bencher.iter(|| check_one(&shut, black_box(HOT), START));
    });
    group.finish();
}

fn zipf(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("table/zipf, 1 M keys");
    let clock = Clock::start();
    let (keys, order) = (workload::keys(SESSIONS), workload::zipf(SESSIONS, SEED[0]));
    let gate = gate_of_one(workload::endless(), table_of_words(32 << 20));
    fill_one(&gate, &keys);
    let mut index = 0;
    group.bench_function("one by one", |bencher| {
        bencher.iter(|| {
            index += 1;
            check_one(&gate, &keys[order[index % DRAWS] as usize], clock.now())
        });
    });
    group.throughput(Throughput::Elements(Gate::BATCH as u64));
    group.bench_function("sixteen at once", |bencher| {
        bencher.iter(|| {
            index += Gate::BATCH;
            let batch: [&str; Gate::BATCH] =
                std::array::from_fn(|within| keys[order[(index + within) % DRAWS] as usize].as_str());
            check_sixteen(&gate, batch, clock.now())
        });
    });
    group.finish();
}

criterion_group!(benches, hot, zipf);
criterion_main!(benches);
