//! Instructions and allocations a call: figures that do not drift with what else the machine does.
//!
//! Each kind of call runs twice under valgrind, with different numbers of calls; the difference is
//! what the calls cost, without start and set-up.

use std::hint::black_box;
use std::process::Command;
use std::time::Duration;

use tidegate_capacity::{Admission, TableMode};
use tidegate_core::{Limit, Timestamp};
use tidegate_overload::OverloadBuilder;

use crate::calls::{self, HOT, OneRing, Planes};
use crate::scenario::fair_queue::AtOnce;
use crate::tickets::SoldTicket;
use crate::workload::{self, START, table_of_words};

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// One bucket, admitted.
    HotAdmit,
    /// One bucket, refused, and nobody reads why.
    HotDeny,
    /// One bucket, refused, and the refusal is read.
    HotDenyRead,
    /// One bucket, admitted, while another namespace of the table has blocked a key.
    HotBesideBlock,
    /// Sixteen keys in a batch, admitted; counted for each key.
    Batch,
    /// Three buckets, admitted.
    ThreeAdmit,
    /// Three buckets, the last of which refuses; nobody reads why.
    ThreeDeny,
    /// Three buckets, the last of which refuses; the refusal is read.
    ThreeDenyRead,
    /// Eight buckets, admitted.
    EightAdmit,
    /// Eight buckets, the last of which refuses; nobody reads why.
    EightDeny,
    /// A ring of a hundred, admitted.
    RingAdmit,
    /// A ring of a hundred, refused.
    RingDeny,
    /// A ring of a hundred through the gate, admitted.
    RollingAdmit,
    /// A ring of a hundred through the gate, refused, and nobody reads why.
    RollingDeny,
    /// A table with fixed shares, admitted.
    CapacityStatic,
    /// A table with global admission, admitted.
    CapacityGlobal,
    /// A table with global admission whose keys are sampled, admitted.
    CapacityWarm,
    /// The engine with one limit, admitted.
    EngineOne,
    /// The engine with one limit, refused, and nobody reads why.
    EngineDeny,
    /// The engine with one limit and metering, admitted, without a tenant and a feature.
    EngineMetered,
    /// The engine with one limit and metering, admitted, with a tenant and a feature.
    EngineNamed,
    /// The engine with three limits, capacity and overload.
    EngineAll,
    /// The engine with one limit and a resource without features, admitted.
    EngineResource,
    /// The same with sixteen features that have levels, of which the request names one.
    EngineFeature,
    /// The same with a thousand features.
    EngineFeatures,
    /// A tick of the engine with a thousand features, counted for each feature.
    FeaturesTick,
    /// All planes and a fair queue, admitted.
    QueueAdmit,
    /// All planes and a fair queue, admitted and settled.
    QueueSettle,
    /// All planes and a fair queue, refused for want of a place.
    QueueRefuse,
    /// All planes and a fair queue, shed by the cursor.
    QueueShed,
    /// A ticket, sealed.
    TicketSeal,
    /// A ticket that counts, opened.
    TicketOpen,
    /// A ticket with a wrong signature, refused.
    TicketForged,
}

impl Kind {
    /// All kinds, in the order of the report, and their names on the command line.
    pub const ALL: [(Self, &'static str); 33] = [
        (Self::HotAdmit, "hot-admit"),
        (Self::HotDeny, "hot-deny"),
        (Self::HotDenyRead, "hot-deny-read"),
        (Self::HotBesideBlock, "hot-beside-block"),
        (Self::Batch, "batch"),
        (Self::ThreeAdmit, "three-admit"),
        (Self::ThreeDeny, "three-deny"),
        (Self::ThreeDenyRead, "three-deny-read"),
        (Self::EightAdmit, "eight-admit"),
        (Self::EightDeny, "eight-deny"),
        (Self::RingAdmit, "ring-admit"),
        (Self::RingDeny, "ring-deny"),
        (Self::RollingAdmit, "rolling-admit"),
        (Self::RollingDeny, "rolling-deny"),
        (Self::CapacityStatic, "capacity-static"),
        (Self::CapacityGlobal, "capacity-global"),
        (Self::CapacityWarm, "capacity-warm"),
        (Self::EngineOne, "engine-one"),
        (Self::EngineDeny, "engine-deny"),
        (Self::EngineMetered, "engine-metered"),
        (Self::EngineNamed, "engine-named"),
        (Self::EngineAll, "engine-all"),
        (Self::EngineResource, "engine-resource"),
        (Self::EngineFeature, "engine-feature"),
        (Self::EngineFeatures, "engine-features"),
        (Self::FeaturesTick, "features-tick"),
        (Self::QueueAdmit, "queue-admit"),
        (Self::QueueSettle, "queue-settle"),
        (Self::QueueRefuse, "queue-refuse"),
        (Self::QueueShed, "queue-shed"),
        (Self::TicketSeal, "ticket-seal"),
        (Self::TicketOpen, "ticket-open"),
        (Self::TicketForged, "ticket-forged"),
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        let named = Self::ALL.iter().find(|(kind, _)| *kind == self);
        named.map(|(_, name)| *name).expect("every kind is in the list of all")
    }
}

/// Makes `calls` calls of a kind; returns how many were admitted. Time moves by a microsecond a
/// call.
pub fn work(kind: Kind, calls: u64) -> u64 {
    let at = at_call;
    let count = |admits: &dyn Fn(u64) -> bool| (0..calls).map(|call| u64::from(admits(call))).sum();
    match kind {
        Kind::RingAdmit => {
            let ring = OneRing::new(100, Duration::from_micros(50));
            count(&|call| ring.admit(at(call)))
        }
        Kind::RingDeny => {
            let ring = OneRing::new(100, Duration::from_hours(1));
            count(&|call| ring.admit(at(call)))
        }
        Kind::CapacityStatic | Kind::CapacityGlobal | Kind::CapacityWarm => {
            let capacity = match kind {
                Kind::CapacityStatic => calls::capacity_of(TableMode::Static),
                Kind::CapacityGlobal => calls::capacity_of(TableMode::Global),
                _ => calls::warm_capacity(START),
            };
            count(&|call| {
                let access = calls::access(call as usize, black_box(HOT));
                matches!(capacity.admit("bench", &access, at(call)), Ok(Admission::Admit(_)))
            })
        }
        Kind::EngineOne | Kind::EngineDeny => {
            let rate = if kind == Kind::EngineOne { workload::endless() } else { workload::tight() };
            let limit = Limit::new("per-session", rate).key(["session"]);
            let engine = calls::engine([limit], Planes::Limits);
            count(&|call| calls::admit_one(&engine, Planes::Limits, 0, black_box(HOT), at(call)))
        }
        Kind::EngineMetered | Kind::EngineNamed => {
            let limit = Limit::new("per-session", workload::endless()).key(["session"]);
            let engine = calls::metered(calls::engine_builder([limit], None));
            if kind == Kind::EngineMetered {
                // The same request as without a meter.
                return count(&|call| calls::admit_one(&engine, Planes::Limits, 0, black_box(HOT), at(call)));
            }
            let tenant = Some("tenant-1");
            count(&|call| calls::admit_metered(&engine, black_box(HOT), black_box(tenant), at(call)))
        }
        Kind::EngineAll => {
            let engine = calls::engine(workload::three_limits(), Planes::All);
            let keys = ["api-key-000000000001", "user----000000000001", HOT];
            let admit =
                |call| calls::admit_three(&engine, Planes::All, call as usize, black_box(keys), at(call));
            count(&admit)
        }
        Kind::EngineResource | Kind::EngineFeature | Kind::EngineFeatures => {
            let limit = Limit::new("per-session", workload::endless()).key(["session"]);
            let features = match kind {
                Kind::EngineResource => 0,
                Kind::EngineFeature => 16,
                _ => OverloadBuilder::FEATURES_MAX,
            };
            let engine = calls::engine_with_features([limit], features);
            let named = features.checked_sub(1).map(calls::feature_name);
            count(&|call| {
                calls::admit_feature(&engine, black_box(HOT), black_box(named.as_deref()), at(call))
            })
        }
        Kind::FeaturesTick => {
            let features = OverloadBuilder::FEATURES_MAX;
            let engine = calls::engine_with_features([], features);
            let ticks = calls / features as u64;
            // Each tick is due a tenth of a second after the one before.
            (0..ticks).map(|tick| engine.tick(at(tick * 100_000))).fold(0, |count, _| count + 1)
        }
        Kind::QueueAdmit | Kind::QueueRefuse | Kind::QueueShed => {
            let queue = match kind {
                Kind::QueueAdmit => AtOnce::admitted(),
                Kind::QueueRefuse => AtOnce::refused(),
                _ => AtOnce::shed(),
            };
            count(&|call| queue.admits(call as usize, at(call)))
        }
        Kind::QueueSettle => {
            let queue = AtOnce::admitted();
            count(&|call| queue.settles(call as usize, at(call)))
        }
        Kind::TicketSeal => {
            let ticket = SoldTicket::new();
            count(&|call| ticket.seals(call))
        }
        Kind::TicketOpen | Kind::TicketForged => {
            let ticket = SoldTicket::new();
            let ticket = if kind == Kind::TicketOpen { ticket } else { ticket.forged() };
            count(&|_| ticket.opens())
        }
        _ => check(kind, calls),
    }
}

/// [`work`] of the kinds that a gate alone decides.
fn check(kind: Kind, calls: u64) -> u64 {
    let at = at_call;
    let table = || table_of_words(1 << 20);
    let one = |algorithm| calls::gate_of_one(algorithm, table());
    match kind {
        Kind::HotAdmit => {
            let gate = one(workload::endless());
            (0..calls).map(|call| u64::from(calls::check_one(&gate, black_box(HOT), at(call)))).sum()
        }
        Kind::HotDeny => {
            let gate = one(workload::tight());
            (0..calls).map(|call| u64::from(calls::check_one(&gate, black_box(HOT), at(call)))).sum()
        }
        Kind::HotDenyRead => {
            let gate = one(workload::tight());
            let check = |call| calls::check_one_and_read(&gate, black_box(HOT), at(call));
            (0..calls).map(|call| u64::from(check(call))).sum()
        }
        Kind::HotBesideBlock => {
            let gate = calls::gate_beside_block(table());
            (0..calls).map(|call| u64::from(calls::check_one(&gate, black_box(HOT), at(call)))).sum()
        }
        Kind::Batch => {
            let gate = one(workload::endless());
            let keys = workload::keys(16);
            let keys: [&str; 16] = std::array::from_fn(|index| keys[index].as_str());
            (0..calls / 16).map(|call| calls::check_sixteen(&gate, black_box(keys), at(call))).sum()
        }
        Kind::ThreeAdmit => {
            let gate = calls::gate(workload::three_limits(), table());
            let keys = ["api-key-000000000001", "user----000000000001", HOT];
            (0..calls).map(|call| u64::from(calls::check_three(&gate, black_box(keys), at(call)))).sum()
        }
        Kind::ThreeDeny | Kind::ThreeDenyRead => {
            let mut limits = workload::three_limits();
            limits[2].algorithm = workload::tight();
            let gate = calls::gate(limits, table());
            let keys = ["api-key-000000000001", "user----000000000001", HOT];
            let check =
                if kind == Kind::ThreeDeny { calls::check_three } else { calls::check_three_and_read };
            (0..calls).map(|call| u64::from(check(&gate, black_box(keys), at(call)))).sum()
        }
        Kind::EightAdmit | Kind::EightDeny => {
            let mut limits = workload::eight_limits();
            if kind == Kind::EightDeny {
                limits[7].algorithm = workload::tight();
            }
            let gate = calls::gate(limits, table());
            (0..calls).map(|call| u64::from(calls::check_eight(&gate, black_box(HOT), at(call)))).sum()
        }
        Kind::RollingAdmit | Kind::RollingDeny => {
            let window = match kind {
                Kind::RollingAdmit => Duration::from_micros(50),
                _ => Duration::from_hours(1),
            };
            let rolling = tidegate_core::algorithm::Rolling::new(100, window);
            let rolling = tidegate_core::Algorithm::Rolling(rolling.expect("both windows are valid"));
            let mut config = table();
            config.ring_share_percent = 50;
            let gate = calls::gate_of_one(rolling, config);
            (0..calls).map(|call| u64::from(calls::check_one(&gate, black_box(HOT), at(call)))).sum()
        }
        _ => unreachable!("{kind:?} is no kind of a gate"),
    }
}

/// The instant of a call.
fn at_call(call: u64) -> Timestamp {
    Timestamp::from_nanos(START.as_nanos() + call * 1_000)
}

/// The cost of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Instructions, the clock not included.
    pub instructions: f64,
    /// Allocations.
    pub allocations: f64,
}

const CALLS: u64 = 20_000;

/// Counts a kind of call under valgrind; `None` if valgrind is not there or failed.
pub fn count(name: &str) -> Option<Cost> {
    let per_call = |tool: &[&str], figure: fn(&str) -> Option<f64>| {
        let once = figure(&run(tool, name, CALLS)?)?;
        let thrice = figure(&run(tool, name, 3 * CALLS)?)?;
        Some((thrice - once) / (2 * CALLS) as f64)
    };
    Some(Cost {
        instructions: per_call(&["--tool=callgrind", "--callgrind-out-file=/dev/null"], |text| {
            number_after(text, "Collected :")
        })?,
        allocations: per_call(&["--tool=memcheck", "--undef-value-errors=no"], |text| {
            number_after(text, "total heap usage:")
        })?,
    })
}

fn run(tool: &[&str], name: &str, calls: u64) -> Option<String> {
    let this = std::env::current_exe().ok()?;
    let output = Command::new("valgrind")
        .args(tool)
        .arg(this)
        .args(["work", "--kind", name, "--calls", &calls.to_string()])
        .output()
        .ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

fn number_after(text: &str, label: &str) -> Option<f64> {
    let rest = &text[text.find(label)? + label.len()..];
    rest.split_whitespace().next()?.replace(',', "").parse().ok()
}

/// The table of the report; says so where valgrind is missing.
pub fn table() -> String {
    let mut text = "\n### Instructions and allocations a call\n\nUnder valgrind, everything in cache, the clock not \
                    included; a batch is counted for each key.\n\n| call | instructions | allocations |\n|---|---|---|\n"
        .to_owned();
    for (_, name) in Kind::ALL {
        match count(name) {
            Some(cost) => {
                text += &format!("| {name} | {:.0} | {:.2} |\n", cost.instructions, cost.allocations);
            }
            None => text += &format!("| {name} | skipped: valgrind is not installed or failed | |\n"),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_does_what_its_name_says() {
        for (kind, name) in Kind::ALL {
            let admitted = work(kind, 1_600);
            let expected = match kind {
                Kind::HotDeny
                | Kind::HotDenyRead
                | Kind::ThreeDeny
                | Kind::ThreeDenyRead
                | Kind::EightDeny
                | Kind::EngineDeny => 10,
                Kind::RingDeny | Kind::RollingDeny => 100,
                Kind::FeaturesTick => 1,
                Kind::QueueRefuse | Kind::QueueShed | Kind::TicketForged => 0,
                _ => 1_600,
            };
            assert_eq!(admitted, expected, "{name}");
        }
    }

    #[test]
    fn a_number_is_read_with_its_commas() {
        assert_eq!(number_after("==1==   total heap usage: 1,234 allocs", "total heap usage:"), Some(1234.0));
    }
}
