//! Every scenario of `tidegate-bench compare` with criterion's statistics, by one thread.

use std::time::Instant;

use criterion::{Criterion, criterion_group, criterion_main};
use tidegate_bench::scenario;
use tidegate_bench::timing::Share;

fn scenarios(criterion: &mut Criterion) {
    for named in scenario::ALL {
        let scenario = (named.make)();
        let mut group = criterion.benchmark_group(named.name);
        for candidate in &scenario.candidates {
            let mut first = 0;
            group.bench_function(&candidate.name, |bencher| {
                bencher.iter_custom(|calls| {
                    let calls = usize::try_from(calls).expect("criterion makes fewer than 2^64 calls");
                    let start = Instant::now();
                    candidate.run(Share { first, calls });
                    first += calls;
                    start.elapsed()
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, scenarios);
criterion_main!(benches);
