//! Two threads at one set of permits, in every interleaving.
//!
//! Run with `RUSTFLAGS="--cfg tidegate_loom" cargo test -p tidegate --profile dist --lib loom`.

use core::time::Duration;
use std::sync::Arc;

use ::loom::thread;

use super::*;

const HOLD: u64 = 1_000;

fn at(ns: u64) -> Timestamp {
    Timestamp::from_nanos(ns)
}

fn one() -> Concurrency {
    Concurrency::new(1, Duration::from_nanos(HOLD)).unwrap()
}

fn set() -> (Arc<Permits>, PermitsHandle) {
    let permits = Arc::new(Permits::new(400));
    let set = permits.create().unwrap();
    (permits, set)
}

#[test]
fn a_permit_that_expires_while_it_is_given_back_is_free_once() {
    ::loom::model(|| {
        let (permits, set) = set();
        let old = permits.acquire(set, &one(), at(0)).unwrap();
        let other = {
            let permits = Arc::clone(&permits);
            thread::spawn(move || permits.release(set, old, at(HOLD)))
        };
        let new = permits.acquire(set, &one(), at(HOLD)).unwrap();
        other.join().unwrap();
        assert_eq!(permits.held(set, at(HOLD)), Some(1));
        assert!(permits.release(set, new, at(HOLD)));
        assert!(!permits.release(set, old, at(HOLD)));
    });
}

#[test]
fn of_two_that_acquire_the_last_permit_one_gets_it() {
    ::loom::model(|| {
        let (permits, set) = set();
        let other = {
            let permits = Arc::clone(&permits);
            thread::spawn(move || permits.acquire(set, &one(), at(1)).is_ok())
        };
        let mine = permits.acquire(set, &one(), at(2)).is_ok();
        assert!(mine ^ other.join().unwrap());
    });
}

#[test]
fn a_set_is_reclaimed_or_acquired_from_and_not_both() {
    ::loom::model(|| {
        let (permits, set) = set();
        let other = {
            let permits = Arc::clone(&permits);
            thread::spawn(move || permits.reclaim_if_drained(set, at(0)))
        };
        let mine = permits.acquire(set, &one(), at(0));
        assert_eq!(mine == Err(PermitsRefusal::Stale), other.join().unwrap());
    });
}
