//! The engine: limits alone, and with capacity and overload.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use tidegate_bench::calls::{HOT, Planes, access, admit_one, admit_three, capacity, engine};
use tidegate_bench::workload::{self, Clock};
use tidegate_core::Limit;

const HOT_KEYS: [&str; 3] = ["api-key-000000000001", "user----000000000001", HOT];

fn planes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("engine");
    let clock = Clock::start();
    let table = capacity();
    let mut index = 0;
    group.bench_function("capacity alone", |bencher| {
        bencher.iter(|| {
            index += 1;
            table.admit("bench", &access(index, black_box(HOT)), clock.now()).is_ok()
        });
    });
    for (name, planes) in [("limits", Planes::Limits), ("limits, capacity and overload", Planes::All)] {
        let one = engine([Limit::new("per-session", workload::endless()).key(["session"])], planes);
        group.bench_function(format!("one limit: {name}"), |bencher| {
            bencher.iter(|| {
                index += 1;
                admit_one(&one, planes, index, black_box(HOT), clock.now())
            });
        });
        let three = engine(workload::three_limits(), planes);
        group.bench_function(format!("three limits: {name}"), |bencher| {
            bencher.iter(|| {
                index += 1;
                admit_three(&three, planes, index, black_box(HOT_KEYS), clock.now())
            });
        });
    }
    group.finish();
}

criterion_group!(benches, planes);
criterion_main!(benches);
