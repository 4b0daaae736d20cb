//! Two or three threads at one ring, in every interleaving.
//!
//! Run with `RUSTFLAGS="--cfg tidegate_loom" cargo test -p tidegate --profile dist --lib loom`.

use core::time::Duration;
use std::sync::Arc;

use ::loom::model::Builder;
use ::loom::thread;

use super::*;

const WINDOW: u64 = 1_000;

fn at(ns: u64) -> Timestamp {
    Timestamp::from_nanos(ns)
}

fn rolling(limit: u64) -> Rolling {
    Rolling::new(limit, Duration::from_nanos(WINDOW)).unwrap()
}

fn cost(units: u64) -> Cost {
    Cost::new(units).unwrap()
}

/// Explores every interleaving with at most `preemptions` switches where none was needed.
fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// Room for one header and a few instants: loom follows every word.
fn ring() -> (Arc<Rings>, RingHandle) {
    ring_of(300)
}

fn ring_of(bytes: usize) -> (Arc<Rings>, RingHandle) {
    let rings = Arc::new(Rings::new(bytes));
    let ring = rings.create().unwrap();
    (rings, ring)
}

fn spawn<R: 'static>(rings: &Arc<Rings>, act: impl FnOnce(&Rings) -> R + 'static) -> thread::JoinHandle<R> {
    let rings = Arc::clone(rings);
    thread::spawn(move || act(&rings))
}

#[test]
fn two_admits_never_pass_the_limit_and_none_is_lost() {
    explore(3, || {
        let (rings, ring) = ring();
        let limit = rolling(3);
        rings.admit(ring, &limit, cost(2), at(0)).unwrap();
        let other = spawn(&rings, move |rings| rings.admit(ring, &limit, cost(1), at(2)).is_ok());
        let mine = rings.admit(ring, &limit, cost(1), at(1)).is_ok();
        assert!(mine ^ other.join().unwrap());
        assert_eq!(rings.used(ring, &limit, at(2)), Some(3));
    });
}

#[test]
fn three_admits_into_an_expiring_window_never_pass_the_limit() {
    explore(2, || {
        let (rings, ring) = ring();
        let limit = rolling(2);
        rings.admit(ring, &limit, cost(1), at(0)).unwrap();
        rings.admit(ring, &limit, cost(1), at(500)).unwrap();
        let admit = |now| spawn(&rings, move |rings| rings.admit(ring, &limit, Cost::ONE, at(now)).is_ok());
        let others = [admit(WINDOW), admit(WINDOW + 1)];
        let mine = rings.admit(ring, &limit, Cost::ONE, at(WINDOW + 2)).is_ok();
        let admitted =
            others.into_iter().map(|other| other.join().unwrap()).filter(|&admitted| admitted).count();
        assert_eq!(admitted + usize::from(mine), 1);
    });
}

// Loom goes back to where an access meets the last one before it of another thread, and a thread's
// own load hides what came before that. So here the thread that changes comes first, and those that
// look are spawned: each of their loads then meets the stores.

#[test]
fn a_decision_beside_a_charge_sees_it_whole_or_not_at_all() {
    explore(3, || {
        let (rings, ring) = ring();
        let limit = rolling(2);
        rings.admit(ring, &limit, cost(1), at(0)).unwrap();
        rings.admit(ring, &limit, cost(1), at(400)).unwrap();
        // Slides: the unit of 0 has left.
        let other = spawn(&rings, move |rings| rings.decide(ring, &limit, Cost::ONE, at(WINDOW)));
        rings.admit(ring, &limit, Cost::ONE, at(WINDOW)).unwrap();
        let verdict = other.join().unwrap().unwrap();
        assert!(verdict == Verdict::Admit || verdict == Verdict::Wait { until: at(400 + WINDOW) });
    });
}

#[test]
fn a_look_at_the_newest_beside_a_charge_never_finds_a_slot_that_is_not_written_yet() {
    explore(3, || {
        let (rings, ring) = ring();
        let limit = rolling(3);
        rings.admit(ring, &limit, Cost::ONE, at(500)).unwrap();
        let other = spawn(&rings, move |rings| rings.reset_at(ring, &limit, at(1_000)));
        rings.admit(ring, &limit, Cost::ONE, at(900)).unwrap();
        let reset = other.join().unwrap().unwrap().as_nanos();
        assert!(reset == 500 + WINDOW || reset == 900 + WINDOW, "{reset}");
    });
}

#[test]
fn a_look_beside_growth_finds_every_instant_in_the_old_range_or_in_the_new() {
    explore(3, || {
        let (rings, ring) = ring_of(700);
        let limit = rolling(10);
        rings.admit(ring, &limit, cost(8), at(500)).unwrap();
        let other = spawn(&rings, move |rings| rings.decide(ring, &limit, cost(4), at(501)));
        rings.admit(ring, &limit, Cost::ONE, at(501)).unwrap();
        assert_eq!(other.join().unwrap(), Some(Verdict::Wait { until: at(500 + WINDOW) }));
    });
}

#[test]
fn a_range_that_has_gone_to_another_ring_is_not_read_as_ones_own() {
    explore(3, || {
        let (rings, ring) = ring_of(700);
        let limit = rolling(10);
        rings.admit(ring, &limit, cost(8), at(500)).unwrap();
        let other = spawn(&rings, move |rings| rings.decide(ring, &limit, cost(4), at(501)));
        let grow = spawn(&rings, move |rings| rings.admit(ring, &limit, Cost::ONE, at(501)).is_ok());
        // Another ring takes the range that the first had before, if it has gone by then, and
        // writes there what would admit. As `Rings::move_to` does it, without the loads that would
        // keep loom from looking closely.
        if let Some(range) = rings.space.take_range(0, 8) {
            fence(Ordering::Release);
            for slot in &rings.space.slots(range)[..3] {
                slot.store(0, Ordering::Relaxed);
            }
        }
        assert_eq!(other.join().unwrap(), Some(Verdict::Wait { until: at(500 + WINDOW) }));
        assert!(grow.join().unwrap());
    });
}

#[test]
fn an_undone_charge_beside_an_admit_leaves_exactly_the_other() {
    explore(3, || {
        let (rings, ring) = ring();
        let limit = rolling(2);
        let other = spawn(&rings, move |rings| {
            let charge = rings.admit(ring, &limit, Cost::ONE, at(1)).unwrap();
            assert!(rings.undo(ring, &charge, at(1)));
        });
        let mine = rings.admit(ring, &limit, Cost::ONE, at(2));
        other.join().unwrap();
        assert!(mine.is_ok());
        assert_eq!(rings.used(ring, &limit, at(2)), Some(1));
        assert_eq!(rings.reset_at(ring, &limit, at(2)), Some(at(mine.unwrap().at().as_nanos() + WINDOW)));
    });
}

#[test]
fn a_reclaimed_ring_admits_nothing_and_an_admitted_one_is_not_reclaimed() {
    explore(3, || {
        let (rings, ring) = ring();
        let limit = rolling(1);
        rings.admit(ring, &limit, Cost::ONE, at(0)).unwrap();
        let other = spawn(&rings, move |rings| rings.admit(ring, &limit, Cost::ONE, at(WINDOW)));
        let reclaimed = rings.reclaim_if_drained(ring, at(WINDOW));
        assert_eq!(other.join().unwrap() == Err(RingRefusal::Stale), reclaimed);
        assert_eq!(rings.used(ring, &limit, at(WINDOW)), if reclaimed { None } else { Some(1) });
    });
}

#[test]
fn a_reused_header_never_answers_for_the_ring_before() {
    explore(1, || {
        let (rings, ring) = ring();
        let (limit, wide) = (rolling(1), rolling(2));
        rings.admit(ring, &limit, Cost::ONE, at(0)).unwrap();
        let other = spawn(&rings, move |rings| rings.decide(ring, &limit, Cost::ONE, at(8)));
        rings.reclaim(ring);
        let next = rings.create().unwrap();
        rings.admit(next, &wide, cost(2), at(7)).unwrap();
        let verdict = other.join().unwrap();
        assert!(verdict.is_none() || verdict == Some(Verdict::Wait { until: at(WINDOW) }));
    });
}
