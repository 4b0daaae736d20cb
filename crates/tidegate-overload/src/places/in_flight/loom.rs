//! Every interleaving of two or three threads at one bound.
//!
//! Run with `RUSTFLAGS="--cfg tidegate_loom" cargo test -p tidegate-overload --release --lib loom`.

use std::sync::Arc;

use ::loom::model::Builder;
use ::loom::thread;

use super::*;

/// Explores every interleaving with at most `preemptions` switches where none was needed.
fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// A place that is returned by dropping it, as the engine's permit is.
struct Held(Arc<InFlight>);

impl Held {
    fn take(in_flight: &Arc<InFlight>) -> Option<Self> {
        in_flight.acquire(tidegate_core::Class::Critical).map(|_| Self(Arc::clone(in_flight)))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.give_back();
    }
}

#[test]
fn three_threads_at_two_places_never_hold_three_and_return_all() {
    explore(3, || {
        let in_flight = Arc::new(InFlight::new(2));
        let act = |in_flight: Arc<InFlight>| {
            move || {
                let held = Held::take(&in_flight);
                assert!(in_flight.count() <= 2);
                held.is_some()
            }
        };
        let others = [(); 2].map(|()| thread::spawn(act(Arc::clone(&in_flight))));
        let mine = act(Arc::clone(&in_flight))();
        let admitted = others.into_iter().map(|other| other.join().unwrap()).filter(|admitted| *admitted);
        assert!(admitted.count() + usize::from(mine) >= 2, "two places, so at most one is turned away");
        assert_eq!(in_flight.count(), 0);
    });
}

#[test]
fn of_two_requests_for_the_last_place_exactly_one_is_admitted_while_both_hold_on() {
    explore(4, || {
        let in_flight = Arc::new(InFlight::new(1));
        let other = thread::spawn({
            let in_flight = Arc::clone(&in_flight);
            move || Held::take(&in_flight)
        });
        let mine = Held::take(&in_flight);
        let other = other.join().unwrap();
        assert!(mine.is_some() ^ other.is_some());
        drop((mine, other));
        assert_eq!(in_flight.count(), 0);
        assert!(Held::take(&in_flight).is_some(), "the place is free again");
    });
}

#[test]
fn a_reading_of_the_pressure_loses_no_request_that_was_turned_away() {
    explore(3, || {
        let in_flight = Arc::new(InFlight::new(1));
        let held = Held::take(&in_flight);
        let other = thread::spawn({
            let in_flight = Arc::clone(&in_flight);
            move || assert!(Held::take(&in_flight).is_none())
        });
        let first = in_flight.take_use(0).wanted;
        other.join().unwrap();
        let second = in_flight.take_use(0).wanted;
        // Each reading has the place that is held; one of the two has the request turned away.
        assert!((first + second - 3.0).abs() < 0.001, "{first} and {second}");
        drop(held);
    });
}
