//! The scenario of a command line, and the output of its simulation.

use std::fs;
use std::path::Path;

use tidegate_core::error_chain;
use tidegate_sim::fleet::{Numbers, Scenario, ScenarioError};

use crate::arguments::simulation::{Chaos, Consistency, Fleet, Load, Subject};
use crate::exit::{Exit, complain};

/// Writes the page of a report.
pub(super) fn write_page(path: &Path, html: &str) -> Result<(), Exit> {
    fs::write(path, html).map_err(|error| {
        complain(format_args!("cannot write to {}: {error}", path.display()));
        Exit::Unreadable
    })
}

/// The scenario of a command line; `otherwise` has the values of options that are left out.
pub(super) fn scenario(fleet: &Fleet, otherwise: Scenario) -> Scenario {
    let mut scenario = otherwise;
    let set = |field: &mut u32, value: Option<u32>| *field = value.unwrap_or(*field);
    set(&mut scenario.members, fleet.members);
    set(&mut scenario.keys, fleet.keys);
    set(&mut scenario.seconds, fleet.seconds);
    set(&mut scenario.cost_max, fleet.cost_max);
    set(&mut scenario.retries, fleet.retries);
    set(&mut scenario.deadline_ms, fleet.deadline_ms);
    set(&mut scenario.holders_max, fleet.holders_max);
    set(&mut scenario.envoys, fleet.envoys);
    set(&mut scenario.lease_seconds, fleet.lease_seconds);
    if let Some(units) = fleet.rate {
        scenario.limit = Numbers::Bucket { units, seconds: fleet.per, burst: fleet.burst.unwrap_or(units) };
    }
    if let Some(units) = fleet.quota {
        scenario.limit = Numbers::Window { units, seconds: fleet.window };
    }
    if fleet.subject == Some(Subject::Table) {
        scenario.subject = tidegate_sim::fleet::Subject::Table;
        if let Numbers::Bucket { units, burst, .. } = &mut scenario.limit {
            *burst = (*units).max(Scenario::TABLE_BURST_MIN);
        }
    }
    if fleet.rate.is_some() || fleet.quota.is_some() {
        #[expect(clippy::cast_sign_loss, reason = "a rate is never below zero")]
        let offered = (scenario.limit.rate() * 3.0).ceil() as u32;
        scenario.requests_per_second = offered.max(1);
    }
    set(&mut scenario.requests_per_second, fleet.requests_per_second);
    if let Some(load) = fleet.load {
        scenario.load = match load {
            Load::Steady => tidegate_sim::fleet::Load::Steady,
            Load::Bursty => tidegate_sim::fleet::Load::Bursty,
            Load::Skewed => tidegate_sim::fleet::Load::Skewed,
            Load::Moving => tidegate_sim::fleet::Load::Moving,
            Load::Uneven => tidegate_sim::fleet::Load::Uneven,
            Load::Moved => tidegate_sim::fleet::Load::Moved,
            Load::OneIdle => tidegate_sim::fleet::Load::OneIdle,
            Load::Zipf => tidegate_sim::fleet::Load::Zipf,
            Load::Callers => tidegate_sim::fleet::Load::Callers,
        };
    }
    if let Some(consistency) = fleet.consistency {
        scenario.consistency = match consistency {
            Consistency::Local => tidegate_sim::fleet::DecisionSite::Local,
            Consistency::Exact => tidegate_sim::fleet::DecisionSite::Exact,
            Consistency::Leased => tidegate_sim::fleet::DecisionSite::Leased,
        };
    }
    if let Some(chaos) = fleet.chaos {
        scenario.chaos = match chaos {
            Chaos::None => tidegate_sim::fleet::Chaos::None,
            Chaos::Some => tidegate_sim::fleet::Chaos::Some,
        };
    }
    scenario
}

/// A value as JSON that people can read, with a line end.
pub(super) fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).expect("text and numbers always serialise") + "\n"
}

/// Reports a scenario that cannot be simulated.
pub(super) fn untaken(error: &ScenarioError) -> Exit {
    complain(error_chain(error));
    Exit::Untaken
}
