//! Every interleaving of threads that replace two words, read them, and close the lock.
//!
//! Run with `RUSTFLAGS="--cfg tidegate_loom" cargo test -p tidegate-clock --release --lib loom`.

use std::sync::Arc;

use ::loom::model::Builder;
use ::loom::thread;

use super::*;

/// Explores every interleaving with at most three switches where none was needed.
fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// The words as one, which are never of two versions.
fn read(lock: &SequenceLock<2>) -> Option<u64> {
    let (_, [first, second]) = lock.read()?;
    assert_eq!(first, second, "words of two versions");
    Some(first)
}

/// Runs `act` on another thread.
fn beside<T: 'static>(
    lock: &Arc<SequenceLock<2>>,
    act: impl FnOnce(&SequenceLock<2>) -> T + 'static,
) -> thread::JoinHandle<T> {
    let lock = Arc::clone(lock);
    thread::spawn(move || act(&lock))
}

#[test]
fn a_reader_sees_whole_words_or_none_and_never_earlier_ones_again() {
    explore(|| {
        let lock = Arc::new(SequenceLock::new());
        let writer = beside(&lock, |lock| lock.replace(0, [1, 1]) && lock.replace(2, [2, 2]));
        let (first, second) = (read(&lock), read(&lock));
        assert!(first.is_none() || second.is_none() || first <= second);
        assert!(writer.join().unwrap());
        assert_eq!(read(&lock), Some(2));
    });
}

#[test]
fn of_two_threads_that_replace_one_version_exactly_one_does() {
    explore(|| {
        let lock = Arc::new(SequenceLock::new());
        let other = beside(&lock, |lock| lock.replace(0, [1, 1]));
        let mine = lock.replace(0, [2, 2]);
        assert!(other.join().unwrap() ^ mine);
        assert_eq!(read(&lock), Some(if mine { 2 } else { 1 }));
    });
}

#[test]
fn a_lock_that_is_closed_is_not_opened_by_words_that_were_on_their_way() {
    explore(|| {
        let lock = Arc::new(SequenceLock::new());
        let writer = beside(&lock, |lock| lock.replace(0, [1, 1]));
        lock.close();
        assert_eq!(read(&lock), None);
        let _ = writer.join().unwrap();
        assert_eq!(read(&lock), None);
    });
}
