//! Stored records: a counter as a store on disk keeps it, and the ledger of a leased limit.

use tidegate_core::lease::Ledger;
use tidegate_core::{Algorithm, Cost, Timestamp};
use tidegate_store::keeper::DrainCheck;
use tidegate_store::{Batch, Keeper, Key, Kind, MemoryConfig, Operation, RequestId};

use crate::Taken;
use crate::draws::Draws;

const SEED: [u64; 4] = [1, 2, 3, 4];

/// When counters are loaded.
const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

/// Reads bytes as a ledger and as a counter.
///
/// A ledger is written in no more bytes than it was read from and read back the same. A counter
/// that was loaded, used and written again answers as before in a store that loads the new bytes.
pub fn records(bytes: &[u8]) -> Taken {
    let ledger = Ledger::from_bytes(bytes);
    match &ledger {
        Ok(ledger) => {
            let written = ledger.to_bytes();
            assert!(written.len() <= bytes.len().min(Ledger::BYTES_MAX), "{} bytes", written.len());
            assert_eq!(Ledger::from_bytes(&written).as_ref(), Ok(ledger));
        }
        Err(error) => assert_is_a_line(&error.to_string()),
    }
    let mut drains = DrainCheck::new(SEED);
    match drains.drained_at(bytes, NOW) {
        Ok(at) => {
            assert!(at >= NOW, "drained at {at:?}");
            let has_drained = drains.has_drained(bytes, NOW).expect("it was read before");
            assert_eq!(at == NOW, has_drained, "drains at {at:?}");
            assert_used(bytes);
            Taken::Accepted
        }
        Err(error) => {
            assert_is_a_line(&error.to_string());
            if ledger.is_ok() { Taken::Accepted } else { Taken::Refused }
        }
    }
}

/// A store that loads the counter, charges it and writes it, and one that loads what was written.
fn assert_used(bytes: &[u8]) {
    let key = Key::new("api", b"limit", b"ada").expect("a short key");
    let algorithm = algorithm(&mut Draws::new(bytes));
    let ask = |id, kind| {
        Batch::all_or_nothing(RequestId(id), [Operation::new(key.clone(), algorithm.clone(), kind)])
    };
    let (charge, peek) = (ask(1, Kind::Report { cost: Cost::ONE }), ask(2, Kind::Peek { cost: Cost::ONE }));
    let mut first = Keeper::written_elsewhere(MemoryConfig::new(SEED));
    first.load(&charge, [(key.as_bytes(), bytes)], NOW).expect("it was read before");
    // A record of another kind of limit is begun anew, and a leased one may not be charged so.
    if first.run(&charge, NOW).is_err() {
        return;
    }
    let mut changes = first.hand_out();
    let written: Vec<(Vec<u8>, Option<Vec<u8>>)> =
        changes.counters().map(|(key, bytes)| (key.to_vec(), bytes.map(<[u8]>::to_vec))).collect();
    let kept = written.iter().filter_map(|(key, bytes)| Some((key.as_slice(), bytes.as_deref()?)));
    let mut second = Keeper::written_elsewhere(MemoryConfig::new(SEED));
    second.load(&peek, kept, NOW).expect("a store reads what it wrote");
    let answers = [first.run(&peek, NOW), second.run(&peek, NOW)]
        .map(|ran| ran.map(|ran| ran.answer).map_err(|error| error.to_string()));
    assert_eq!(answers[0], answers[1], "a counter changes when it is written");
}

fn algorithm(draws: &mut Draws) -> Algorithm {
    use tidegate_core::algorithm::{Fixed, Rolling, SlidingCounter, WindowStart};
    let second = core::time::Duration::from_secs(1);
    match draws.below(4) {
        0 => Algorithm::Fixed(Fixed::new(10, second, WindowStart::Epoch).expect("a window")),
        1 => Algorithm::Rolling(Rolling::new(10, second).expect("a window")),
        2 => Algorithm::SlidingCounter(SlidingCounter::new(10, second).expect("a window")),
        _ => Algorithm::bucket(tidegate_core::Rate::per_second(10).expect("a rate")).expect("a bucket"),
    }
}

fn assert_is_a_line(line: &str) {
    assert!(line.len() < 256 && !line.contains(char::is_control), "{line:?}");
}
