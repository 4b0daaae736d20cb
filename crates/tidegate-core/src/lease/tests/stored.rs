//! Records as bytes.

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
