//! The protocol as it is: nothing is found.

use stateright::{Checker, Model};

use crate::fleet::{BUSY, Fleet, LIVE, Limit, SAFE};

/// More ticks than the gate looks at, by environment:
/// `TIDEGATE_MODEL_TICKS=2 cargo test --release -p tidegate-core --test it -- --nocapture`. Each
/// multiplies the time by about ten. `cargo xtask acceptance model` takes one more, and reads the
/// lines that begin with `acceptance:`.
#[expect(clippy::disallowed_methods, reason = "a test that takes longer when it is told to")]
fn more_ticks() -> u8 {
    std::env::var("TIDEGATE_MODEL_TICKS").ok().map_or(0, |more| more.parse().unwrap())
}

pub(crate) fn bucket() -> Fleet {
    Fleet {
        limit: Limit::Bucket { burst: 1, period: 8 },
        ticks: 3,
        takes: 1,
        messages: 2,
        lost: 0,
        repeated: 0,
        crashes: 0,
        forgets: 0,
        leaps: 0,
        drift: [0, 0],
        retries: false,
        #[cfg(tidegate_planted_faults)]
        fault: None,
    }
}

/// A window that ends within what is looked at.
pub(crate) fn window() -> Fleet {
    Fleet { limit: Limit::Window { limit: 2, length: 2, period: 4 }, ..bucket() }
}

fn holds(name: &str, mut fleet: Fleet) {
    fleet.ticks += more_ticks();
    let checker = fleet.checker().threads(2).spawn_bfs().join();
    let (all, different) = (checker.state_count(), checker.unique_state_count());
    let depth = checker.max_depth();
    println!("acceptance: {name} | states={all} different={different} depth={depth}");
    for name in [SAFE, LIVE] {
        if let Some(path) = checker.discovery(name) {
            let actions = path.clone().into_actions();
            panic!("{name}: not so after {actions:?}\n{:#?}", path.last_state());
        }
    }
    checker.assert_any_discovery(BUSY);
}

#[test]
fn nothing_is_found_when_nothing_goes_wrong() {
    holds("bucket, calm", bucket());
    holds("window, calm", window());
}

#[test]
fn nothing_is_found_when_messages_are_lost_and_repeated() {
    holds("bucket, lost and repeated", Fleet { ticks: 2, lost: 1, repeated: 1, ..bucket() });
    holds("window, lost and repeated", Fleet { ticks: 2, lost: 1, repeated: 1, ..window() });
}

#[test]
fn nothing_is_found_when_members_crash_and_clocks_run_apart() {
    holds("bucket, crash", Fleet { ticks: 2, crashes: 1, drift: [1, -1], ..bucket() });
    holds("window, crash", Fleet { ticks: 2, crashes: 1, drift: [1, -1], ..window() });
}

#[test]
fn nothing_is_found_when_the_record_is_lost() {
    // The largest of all: the gate looks one tick less far, the acceptance suite as far as before.
    let ticks = if more_ticks() == 0 { 1 } else { 2 };
    holds("bucket, record lost", Fleet { ticks, forgets: 1, leaps: 1, ..bucket() });
    holds("window, record lost", Fleet { ticks: 2, forgets: 1, ..window() });
    holds("window, record lost, one message at a time", Fleet { messages: 1, forgets: 1, ..window() });
}
