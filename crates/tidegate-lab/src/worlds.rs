//! Many worlds, on all cores; each of them in one thread.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Runs `count` worlds; the results come in their order.
pub(crate) fn run_all<R: Send, E: Send>(
    count: usize,
    run: impl Fn(usize) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let finished: Mutex<Vec<(usize, Result<R, E>)>> = Mutex::default();
    let work = || {
        // Relaxed throughout: each number by itself matters, and the threads are joined before the
        // results are read.
        while !is_over.load(Ordering::Relaxed) {
            let place = next.fetch_add(1, Ordering::Relaxed);
            if place >= count {
                return;
            }
            let result = run(place);
            is_over.fetch_or(result.is_err(), Ordering::Relaxed);
            finished.lock().unwrap_or_else(PoisonError::into_inner).push((place, result));
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(count);
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let mut finished = finished.into_inner().unwrap_or_else(PoisonError::into_inner);
    finished.sort_by_key(|(place, _)| *place);
    finished.into_iter().map(|(_, result)| result).collect()
}
