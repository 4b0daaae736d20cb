//! Real threads on one ring, with a clock that is a number they advance themselves.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;

use super::*;

/// Calls of the two-thread runs together; the benchmark makes the run of 10^8.
const CALLS: u64 = 2_000_000;

/// Units inside the fullest window of `window` among `instants`.
fn fullest(mut instants: Vec<u64>, window: u64) -> usize {
    instants.sort_unstable();
    let mut oldest = 0;
    let ends = instants.iter().enumerate().map(|(newest, &end)| {
        while end - instants[oldest] >= window {
            oldest += 1;
        }
        newest + 1 - oldest
    });
    ends.max().unwrap_or(0)
}

/// Runs two threads that call `act` with a clock that advances by 0 to 3 ns a call, and returns the
/// results of each.
fn hammer(calls: u64, act: impl Fn(u64, u64) -> Option<u64> + Sync) -> Vec<u64> {
    hammer_on(&AtomicU64::new(1_000_000), calls, act)
}

/// The same on a clock that the caller can read.
fn hammer_on(clock: &AtomicU64, calls: u64, act: impl Fn(u64, u64) -> Option<u64> + Sync) -> Vec<u64> {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..2)
            .map(|id| {
                let act = &act;
                scope.spawn(move || {
                    let count = |call: u64| {
                        let now = clock.fetch_add((call * 7 + id) % 4, Ordering::Relaxed);
                        act(now, call * 2 + id)
                    };
                    (0..calls / 2).filter_map(count).collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn two_threads_never_put_more_than_the_limit_into_any_window() {
    for (limit, window) in [(1, 1_000), (10, 1_000), (100, 1_000), (1_000, 2_000)] {
        let (bench, rolling) = (Bench::new(), rolling(limit, window));
        let admitted = hammer(CALLS / 4, |now, _| {
            bench.admit(&rolling, 1, now).ok().map(|charge| charge.at().as_nanos())
        });
        assert_eq!(fullest(admitted.clone(), window), limit as usize);
        // Nothing is lost either: every window but the last is full.
        let span = admitted.iter().max().unwrap() - admitted.iter().min().unwrap();
        assert!(admitted.len() as u64 >= span / (window + 8) * limit, "{} of {span}", admitted.len());
    }
}

#[test]
fn two_threads_that_undo_some_never_keep_more_than_the_limit_in_any_window() {
    let (bench, limit) = (Bench::new(), rolling(10, 1_000));
    let clock = AtomicU64::new(1_000_000);
    let kept = hammer_on(&clock, CALLS / 4, |now, call| {
        let charge = bench.admit(&limit, 1, now).ok()?;
        if call % 5 < 2 {
            let is_undone = bench.rings.undo(bench.ring, &charge, at(now));
            // While this thread was put aside the other one may have gone on for a window, which
            // the charge has then left.
            let has_left = clock.load(Ordering::Relaxed) >= charge.at().as_nanos() + 1_000;
            assert!(is_undone || has_left, "{charge:?} is not there at {now}");
            return None;
        }
        Some(charge.at().as_nanos())
    });
    assert!(fullest(kept, 1_000) <= 10);
}

#[test]
fn a_limit_raised_and_lowered_under_two_threads_is_kept_at_its_highest_and_loses_nothing() {
    let (bench, limits) = (Bench::new(), [rolling(3, 1_000), rolling(40, 1_000), rolling(17, 1_000)]);
    let which = AtomicU64::new(0);
    let admitted = hammer(CALLS / 4, |now, call| {
        if call % 1_000 == 0 {
            which.fetch_add(1, Ordering::Relaxed);
        }
        let limit = &limits[which.load(Ordering::Relaxed) as usize % 3];
        bench
            .admit(limit, 1 + call % 2, now)
            .ok()
            .map(|charge| charge.at().as_nanos() * 2 + charge.units() - 1)
    });
    let units = admitted.iter().flat_map(|&both| (0..=both % 2).map(move |_| both / 2)).collect();
    assert!(fullest(units, 1_000) <= 40);
}

#[test]
fn rings_reclaimed_under_two_threads_are_never_mixed_up() {
    let rings = Rings::new(1 << 14);
    let limit = rolling(4, 1_000);
    let shared = [AtomicU64::new(0), AtomicU64::new(0)];
    let stale = AtomicBool::new(false);
    hammer(CALLS / 8, |now, call| {
        let cell = &shared[(call / 3) as usize % 2];
        let bits = cell.load(Ordering::Acquire);
        match RingHandle::from_bits(bits) {
            None => {
                let ring = rings.create()?;
                rings.admit(ring, &limit, cost(1), at(now)).unwrap();
                let word = ring.to_bits().get();
                if cell.compare_exchange(0, word, Ordering::AcqRel, Ordering::Acquire).is_err() {
                    rings.reclaim(ring);
                }
            }
            Some(ring) => {
                let result = rings.admit(ring, &limit, cost(1), at(now));
                stale.fetch_or(result == Err(RingRefusal::Stale), Ordering::Relaxed);
                assert!(rings.used(ring, &limit, at(now)).is_none_or(|used| used <= 4));
                if call % 7 == 0
                    && cell.compare_exchange(bits, 0, Ordering::AcqRel, Ordering::Acquire).is_ok()
                {
                    rings.reclaim(ring);
                    assert_eq!(rings.used(ring, &limit, at(now)), None);
                }
            }
        }
        None
    });
    let in_use = shared.iter().filter(|cell| cell.load(Ordering::Acquire) != 0).count();
    assert_eq!(rings.bytes_used() / 112, in_use);
}
