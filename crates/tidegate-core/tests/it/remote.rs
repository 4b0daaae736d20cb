//! An Envoy spends tokens elsewhere, and the ledger never hears when that ends.

use stateright::{Checker, Model};

use crate::remote_fleet::{REMOTE_SAFE, RemoteFleet, UNHEARD};

pub(crate) fn remote() -> RemoteFleet {
    RemoteFleet {
        burst: 4,
        ticks: 4,
        reports: 0,
        ends: 1,
        returns: 0,
        #[cfg(tidegate_planted_faults)]
        fault: None,
    }
}

fn holds(name: &str, fleet: RemoteFleet) {
    let checker = fleet.checker().threads(2).spawn_bfs().join();
    let (all, different) = (checker.state_count(), checker.unique_state_count());
    let depth = checker.max_depth();
    println!("acceptance: {name} | states={all} different={different} depth={depth}");
    if let Some(path) = checker.discovery(REMOTE_SAFE) {
        let actions = path.clone().into_actions();
        panic!("{REMOTE_SAFE}: not so after {actions:?}\n{:#?}", path.last_state());
    }
    checker.assert_any_discovery(UNHEARD);
}

#[test]
fn nothing_is_found_when_an_envoy_is_not_heard_any_more() {
    holds("Envoy, unheard", remote());
}

#[test]
fn nothing_is_found_when_an_envoy_reports_once_more() {
    holds("Envoy, one report", RemoteFleet { ticks: 3, reports: 1, ..remote() });
}

#[test]
fn nothing_is_found_when_an_envoy_comes_back() {
    holds("Envoy, comes back", RemoteFleet { ticks: 3, returns: 1, ..remote() });
}
