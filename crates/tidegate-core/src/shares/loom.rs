//! The counts of shares under every interleaving of two or three threads.
//!
//! Run with `RUSTFLAGS="--cfg tidegate_loom" cargo test -p tidegate --release --lib loom`.

use std::sync::Arc;

use ::loom::sync::atomic::AtomicU64;
use ::loom::thread;

use super::pool::{AtomicCount, Pool};

fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = ::loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(check);
}

/// A pool of `places` places, divided among two owners, and what each of them holds.
struct Divided {
    pool: Pool<AtomicU64>,
    held: [AtomicU64; 2],
}

impl Divided {
    fn new(places: u64) -> Arc<Self> {
        let divided = Self { pool: Pool::new(places), held: [AtomicCount::new(0), AtomicCount::new(0)] };
        divided.pool.divide(places / 4, divided.held.iter());
        Arc::new(divided)
    }

    fn take(&self, owner: usize) -> bool {
        self.pool.take(&self.held[owner], 1)
    }

    fn give_back(&self, owner: usize) {
        self.pool.give_back(&self.held[owner], 1);
    }

    fn held(&self, owner: usize) -> u64 {
        AtomicCount::load(&self.held[owner])
    }

    /// At rest: places beyond shares are exactly those that the pool has lent, and no more than it
    /// has.
    fn assert_balanced(&self) {
        let share = self.pool.guaranteed();
        let beyond: u64 = self.held.iter().map(|held| AtomicCount::load(held).saturating_sub(share)).sum();
        assert_eq!(self.pool.borrowed(), beyond, "held {:?}", [self.held(0), self.held(1)]);
        assert!(beyond <= self.pool.places - self.pool.places / 2);
    }
}

#[test]
fn loom_of_two_owners_that_borrow_the_last_place_one_gets_it() {
    model(|| {
        let divided = Divided::new(4);
        assert!(divided.take(0) && divided.take(0) && divided.take(1));
        let other = Arc::clone(&divided);
        let thread = thread::spawn(move || other.take(0));
        let (mine, theirs) = (divided.take(1), thread.join().unwrap());
        assert!(mine != theirs, "{mine} {theirs}");
        divided.assert_balanced();
    });
}

#[test]
fn loom_an_owner_below_its_share_gets_a_place_while_the_other_borrows_and_returns() {
    model(|| {
        let divided = Divided::new(4);
        assert!(divided.take(0) && divided.take(0) && divided.take(0) && !divided.take(0));
        let other = Arc::clone(&divided);
        let thread = thread::spawn(move || {
            other.give_back(0);
            other.take(0)
        });
        assert!(divided.take(1), "its share is its own");
        assert!(thread.join().unwrap(), "it has returned the place that it borrows again");
        assert_eq!((divided.held(0), divided.held(1)), (3, 1));
        divided.assert_balanced();
    });
}

#[test]
fn loom_refused_places_of_an_owner_that_returns_others_at_the_same_time_stay_balanced() {
    model(|| {
        let divided = Divided::new(4);
        assert!(divided.take(0) && divided.take(0) && divided.take(0));
        let [one, two] = [Arc::clone(&divided), Arc::clone(&divided)];
        let first = thread::spawn(move || u64::from(one.take(0)));
        let second = thread::spawn(move || u64::from(two.take(0)));
        // Down to nothing: a refused place that was counted beyond the share is then taken off
        // within.
        (0..3).for_each(|_| divided.give_back(0));
        let taken = first.join().unwrap() + second.join().unwrap();
        assert_eq!(divided.held(0), taken);
        divided.assert_balanced();
    });
}
