//! The paths whose instructions and allocations the gate holds against `instructions.txt`.
//!
//! One process makes the calls of all paths under callgrind, which writes the counts so far and
//! begins anew whenever [`end_of_work`] is entered. The gate compares them (`cargo xtask
//! instructions`).

use std::hint::black_box;

use crate::instructions::{Kind, work};

/// The paths, in the order of the committed file. A new one is a line here; then `cargo xtask
/// instructions --bless` writes its baseline.
pub const PATHS: &[Kind] = &[
    Kind::HotAdmit,
    Kind::HotDeny,
    Kind::HotDenyRead,
    Kind::HotBesideBlock,
    Kind::Batch,
    Kind::ThreeAdmit,
    Kind::ThreeDeny,
    Kind::EightAdmit,
    Kind::EightDeny,
    Kind::RollingAdmit,
    Kind::CapacityGlobal,
    Kind::EngineOne,
    Kind::EngineDeny,
    Kind::EngineMetered,
    Kind::EngineNamed,
    Kind::EngineAll,
    Kind::EngineFeature,
    Kind::QueueAdmit,
    Kind::QueueRefuse,
];

/// How often each path is called, one after the other, and for the gate to count three times.
///
/// The first time fills caches of the allocator and is not looked at; the difference of the other
/// two is without set-up. Multiples of sixteen, the keys of a batch.
pub const CALLS: [u64; 3] = [4_000, 4_000, 12_000];

/// Prints a line for each path, its name and numbers of calls, and makes the calls in that order.
pub fn run() {
    for kind in PATHS {
        println!("{} {} {} {}", kind.name(), CALLS[0], CALLS[1], CALLS[2]);
    }
    for kind in PATHS {
        for calls in CALLS {
            end_of_work(work(*kind, calls));
        }
    }
}

/// Callgrind knows this function by its name (`--dump-before`).
#[inline(never)]
fn end_of_work(admitted: u64) {
    black_box(admitted);
}
