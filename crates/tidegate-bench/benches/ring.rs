//! The exact sliding window beside a log behind a lock, by one thread and by two.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use tidegate_bench::calls::{MutexedLog, OneRing};
use tidegate_bench::workload::{Clock, START};
use tidegate_core::Timestamp;

const LIMIT: u64 = 100;
/// Shorter than a hundred decisions take: there is always room.
const SLIDING: Duration = Duration::from_micros(1);
/// Longer than any run: there is never room.
const FULL: Duration = Duration::from_hours(1);

fn ring(criterion: &mut Criterion) {
    for (what, window) in [("admit", SLIDING), ("deny", FULL)] {
        let mut group = criterion.benchmark_group(format!("ring/{what}"));
        let clock = Clock::start();
        let (ring, log) = (OneRing::new(LIMIT, window), MutexedLog::new(LIMIT as usize, window));
        for _ in 0..LIMIT {
            ring.admit(clock.now());
            log.admit(clock.now());
        }
        group.bench_function("ring", |bencher| bencher.iter(|| ring.admit(clock.now())));
        group.bench_function("mutexed log", |bencher| bencher.iter(|| log.admit(clock.now())));
        group.bench_function("ring, two threads", |bencher| {
            bencher.iter_custom(|calls| together(calls, || ring.admit(clock.now())));
        });
        group.bench_function("mutexed log, two threads", |bencher| {
            bencher.iter_custom(|calls| together(calls, || log.admit(clock.now())));
        });
        group.finish();
    }
    let ring = OneRing::new(LIMIT, SLIDING);
    let mut now = START.as_nanos();
    criterion.bench_function("ring/admit, no clock", |bencher| {
        bencher.iter(|| {
            now += 20;
            ring.admit(Timestamp::from_nanos(now))
        });
    });
}

/// The time that a thread takes for `calls` while another does the same.
fn together(calls: u64, call: impl Fn() -> bool + Sync) -> Duration {
    let barrier = Barrier::new(2);
    let run = || {
        barrier.wait();
        let start = Instant::now();
        for _ in 0..calls {
            std::hint::black_box(call());
        }
        start.elapsed()
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(run);
        let mine = run();
        mine.max(other.join().expect("a benchmark does not panic"))
    })
}

criterion_group!(benches, ring);
criterion_main!(benches);
