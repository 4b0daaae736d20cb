//! The give-back of the gate under every interleaving of two or three threads.

use std::sync::Arc;

use ::loom::thread;

use super::*;
use crate::algorithm::{Algorithm, Bucket};
use crate::cost::Cost;
use crate::rate::Rate;
use crate::table::TableConfig;
use crate::time::Timestamp;

const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = ::loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(check);
}

fn limit(name: &str, units: u64) -> Limit {
    let bucket = Bucket::new(Rate::per_hour(units).unwrap(), units).unwrap();
    Limit::new(name, Algorithm::Bucket(bucket)).key([name])
}

fn gate(limits: impl IntoIterator<Item = Limit>) -> Arc<Gate> {
    let table = Arc::new(KeyTable::for_loom(TableConfig::seeded([1, 2, 3, 4])));
    Arc::new(Gate::builder("api").limits(limits).table(table).build().unwrap())
}

fn used(gate: &Gate, name: &str) -> u64 {
    let attributes = [(name, "x")];
    let peek = gate.peek(&attributes, Cost::ONE, NOW);
    peek.limits[0].limit - peek.limits[0].remaining
}

#[test]
fn loom_what_a_refused_request_took_of_another_limit_is_given_back() {
    model(|| {
        let gate = gate([limit("wide", 5), limit("narrow", 1)]);
        let other = Arc::clone(&gate);
        let both = [("wide", "x"), ("narrow", "x")];
        let thread = thread::spawn(move || other.check(&both, Cost::ONE, NOW).is_admit());
        let mine = gate.check(&both, Cost::ONE, NOW).is_admit();
        let theirs = thread.join().unwrap();
        assert!(mine ^ theirs, "the narrow limit has one unit");
        assert_eq!(used(&gate, "wide"), 1, "the refused request left a charge");
        assert_eq!(used(&gate, "narrow"), 1);
    });
}

#[test]
fn loom_a_neighbour_of_a_refused_request_keeps_its_charge() {
    model(|| {
        let gate = gate([limit("wide", 5), limit("narrow", 1)]);
        let both = [("wide", "x"), ("narrow", "x")];
        assert!(gate.check(&[("narrow", "x")], Cost::ONE, NOW).is_admit());
        let refused = Arc::clone(&gate);
        let first = thread::spawn(move || refused.check(&both, Cost::ONE, NOW).is_admit());
        let neighbour = gate.check(&[("wide", "x")], Cost::ONE, NOW).is_admit();
        assert!(!first.join().unwrap());
        assert!(neighbour);
        assert_eq!(used(&gate, "wide"), 1);
    });
}

#[test]
fn loom_crossing_requests_never_admit_more_than_either_limit() {
    model(|| {
        let gate = gate([limit("wide", 2), limit("narrow", 1)]);
        let both = [("wide", "x"), ("narrow", "x")];
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let gate = Arc::clone(&gate);
                thread::spawn(move || gate.check(&both, Cost::ONE, NOW).is_admit())
            })
            .collect();
        let alone = gate.check(&[("wide", "x")], Cost::ONE, NOW).is_admit();
        let admitted = threads.into_iter().map(|thread| thread.join().unwrap());
        let together = admitted.filter(|admitted| *admitted).count() as u64;
        assert_eq!(used(&gate, "narrow"), together);
        assert_eq!(used(&gate, "wide"), together + u64::from(alone), "charges and admissions agree");
    });
}
