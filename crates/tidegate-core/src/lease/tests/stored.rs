//! Records as bytes.

use core::time::Duration;

use proptest::prelude::*;

use super::super::*;
use super::world::{START, Trouble, World};
use crate::algorithm::{Algorithm, Bucket};
use crate::rate::Rate;
use crate::time::Timestamp;

fn busy(members: usize) -> World {
    let bucket = Algorithm::Bucket(Bucket::new(Rate::per_second(1_000).unwrap(), 500).unwrap());
    let mut world = World::new(bucket, members, Trouble { delay_ms: 2, ..Trouble::default() }, 1);
    world.run(3, &vec![20; members]);
    world
}

#[test]
fn a_record_that_was_written_is_read_as_it_was() {
    // Every step of every other test reads and compares what it wrote; here is a large one.
    let ledger = busy(60).ledger.unwrap();
    assert_eq!(ledger.holders().count(), 60);
    let bytes = ledger.to_bytes();
    assert!(bytes.len() < 60 * 92 && bytes.len() <= Ledger::BYTES_MAX);
    assert_eq!(Ledger::from_bytes(&bytes).unwrap(), ledger);
}

/// A record from the last version without lifetimes: a bucket of 100 a second with a burst of 80,
/// with leases of two holders: 1 at member 7 and 2 at the last member.
const WRITTEN_BEFORE: &str = "01037000f0f0e401904ec096b102c8bbe1c9f2a2990300400007010496011211950298e1adcaf2a2\
    99039502d89189caf2a29903c8bbe1c9f2a29903040240ffffffffffffffffff0102045a060500d0\
    87a9caf2a299030090b884caf2a2990380e2dcc9f2a29903040230";

#[test]
fn a_record_of_a_version_without_lifetimes_is_read_and_goes_on_beside_long_leases() {
    let bytes: Vec<u8> = (0..WRITTEN_BEFORE.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&WRITTEN_BEFORE[at..at + 2], 16).unwrap())
        .collect();
    let mut ledger = Ledger::from_bytes(&bytes).unwrap();
    assert_eq!(ledger.to_bytes(), bytes);
    let terms = Terms::from_algorithm(
        &Algorithm::Bucket(Bucket::new(Rate::per_second(100).unwrap(), 80).unwrap()),
        Timestamp::from_nanos(START),
    );
    let terms = terms.unwrap();
    let epoch = Epoch { number: 3, began: Timestamp::from_nanos(START), is_after_loss: false };
    let now = Timestamp::from_nanos(START).saturating_add(Duration::from_secs(11));
    let rates: Vec<_> = ledger.holders().map(|view| (view.holder.member, view.rate)).collect();
    assert_eq!(rates, [(7, 277), (u64::MAX, 0)]);
    let stream = HolderName { member: 1 << 63, incarnation: 9 };
    let lifetime = Duration::from_secs(23);
    let ask = Ask { demand: 400, lifetime, ..Ask::first(stream, 10) };
    let grant = ledger.ask(now, &terms, &epoch, &ask).grant.unwrap();
    assert_eq!(grant.ttl, lifetime);
    let until = ledger.holders().find(|view| view.holder == stream).unwrap().until;
    assert_eq!(until, now.saturating_add(lifetime));
    assert!(ledger.rates_out(now) <= terms.quota() && grant.rate > 0, "{grant:?}");
    assert_eq!(Ledger::from_bytes(&ledger.to_bytes()).unwrap(), ledger);
}

#[test]
fn bytes_of_another_layout_are_named_and_not_read() {
    let mut bytes = busy(2).ledger.unwrap().to_bytes();
    bytes[0] = 2;
    let message = Ledger::from_bytes(&bytes).unwrap_err().to_string();
    assert!(message.contains("no lease record") && message.contains("layout"), "{message}");
    assert!(Ledger::from_bytes(&[]).is_err());
}

#[test]
fn the_largest_record_stays_within_its_bound() {
    let start = Timestamp::from_nanos(START);
    let terms =
        Terms::from_algorithm(&Algorithm::bucket(Rate::per_second(1_000_000).unwrap()).unwrap(), start)
            .unwrap();
    let epoch = Epoch { number: u32::MAX, began: start, is_after_loss: false };
    let mut ledger = Ledger::begin(&terms, &epoch);
    let mut spots = 0;
    for member in 0..HOLDERS_MAX as u64 + 10 {
        let now = start.saturating_add(World::span(10));
        let mut holder = Holder::new(u32::MAX);
        let ask = holder.ask(&terms, u64::MAX - member, 1, now).unwrap();
        let grant = ledger.ask(now, &terms, &epoch, &ask).grant.unwrap();
        spots += holder.granted(&terms, &grant, LedgerLevel::default(), now);
    }
    // A holder without a place is still served, one request at a time.
    assert_eq!((ledger.holders().count(), spots), (HOLDERS_MAX, 10));
    assert!(ledger.to_bytes().len() <= Ledger::BYTES_MAX);
    assert_eq!(Ledger::from_bytes(&ledger.to_bytes()).unwrap(), ledger);
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0..200_usize, bit in 0..8_u8) {
        let _ = Ledger::from_bytes(&bytes);
        let mut bytes = busy(2).ledger.unwrap().to_bytes();
        let at = at % bytes.len();
        bytes[at] ^= 1 << bit;
        if let Ok(ledger) = Ledger::from_bytes(&bytes) {
            prop_assert_eq!(Ledger::from_bytes(&ledger.to_bytes()), Ok(ledger));
        }
        bytes.truncate(at);
        let _ = Ledger::from_bytes(&bytes);
    }
}
