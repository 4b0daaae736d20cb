//! E6: with levels nothing is refused where on and off refuse much.

use core::time::Duration;

use tidegate_core::Class;
use tidegate_overload::{FeatureConfig, LevelThresholds};
use tidegate_sim::kit::GateLine;
use tidegate_sim::overload::{FeatureSpec, OverloadResult, OverloadRun, OverloadScenario, ServiceSpec};

use super::feature_parts::{SERVICE, ServiceSize, phases_of, shortest_dwell_ms};
use super::figures::{FigureUnit, at_least, at_most, same_seed, values};
use crate::overload::FEATURE_DESIGNS;

pub(super) const DESCRIPTION: &str = "The demand rises from 0.7 to 1.3 of the capacity within 10 s. 40 % of it is essential, and four features of one class \
     share the rest. With the levels 1080p, 720p, 480p and off, which cost 1, 0.55, 0.30 and 0, nothing should be \
     refused, and the utility should be at least 1.5 times that of the same features with on and off alone. A request \
     at a level is worth the root of its cost. 1000 workers, exponential 100 ms, Poisson arrivals; features may change \
     every 10 s, or every 2 s in the last variant.";

const SECONDS: u32 = 60;
/// The names of the features.
const FEATURES: [&str; 4] = ["f0", "f1", "f2", "f3"];
/// The part of the demand that each of them has.
const PART: f64 = 0.15;
const FOUR: [(&str, f64); 4] = [("1080p", 1.0), ("720p", 0.55), ("480p", 0.30), ("off", 0.0)];
const TWO: [(&str, f64); 2] = [("1080p", 1.0), ("off", 0.0)];

/// The variants: levels with the default time between two changes and with a shorter one, and on
/// and off with the default.
const LEVELS: &str = "levels";
const QUICK: &str = "levels, 2 s";
const ON_OFF: &str = "on-off";

pub(super) fn scenarios(seed: u64) -> Vec<OverloadScenario> {
    let quick = scenario(QUICK, seed, &FOUR, 2);
    gate_scenarios(seed).into_iter().chain([quick]).collect()
}

/// Those with the default time between two changes, and on and off.
pub(super) fn gate_scenarios(seed: u64) -> Vec<OverloadScenario> {
    vec![scenario(LEVELS, seed, &FOUR, 10), scenario(ON_OFF, seed, &TWO, 10)]
}

fn scenario(variant: &str, seed: u64, levels: &[(&str, f64)], dwell: u64) -> OverloadScenario {
    let size = ServiceSize::BY_CHANCE;
    let rise = |second: f64| 0.7 + 0.6 * ((second - 10.0) / 10.0).clamp(0.0, 1.0);
    let phases = phases_of(SECONDS, 0.5, rise);
    let mut clients = vec![size.client("essential", Class::CriticalPlus, 0.4, phases.clone())];
    let mut features = Vec::new();
    for name in FEATURES {
        let mut client = size.client(name, Class::Sheddable, PART, phases.clone());
        client.feature = Some(name.to_owned());
        clients.push(client);
        let mut config = FeatureConfig::new(name, Class::Sheddable);
        config.min_dwell = Duration::from_secs(dwell);
        features.push(FeatureSpec::new(config, SERVICE, levels));
    }
    let service = ServiceSpec { levels: LevelThresholds::DEFAULT, ..size.service() };
    let scenario = OverloadScenario::new(seed, SECONDS, vec![service], clients);
    let designs = FEATURE_DESIGNS.to_vec();
    OverloadScenario { variant: variant.to_owned(), warm_up: 0.0, designs, features, ..scenario }
}

pub(super) fn judge(runs: &[&OverloadRun]) -> Vec<GateLine> {
    let of_levels = |(variant, dwell_ms): (&'static str, f64)| {
        let named = |what: &str| format!("{variant}: {what}");
        let refused_at_all = values(runs, variant, |_, result| refused(result));
        let ratio = values(runs, variant, |run, result| {
            same_seed(runs, run, ON_OFF).map_or(f64::NAN, |on_off| result.utility() / on_off.utility())
        });
        let dwell = values(runs, variant, |_, result| shortest_dwell_ms(result));
        [
            at_most(named("requests refused"), &refused_at_all, 0.0, FigureUnit::Count),
            at_least(named("utility, relative to on and off"), &ratio, 1.5, FigureUnit::Times),
            at_least(named("shortest time between two changes"), &dwell, dwell_ms, FigureUnit::Ms),
        ]
    };
    [(LEVELS, 10_000.0), (QUICK, 2_000.0)].into_iter().flat_map(of_levels).collect()
}

/// The requests that were refused for whatever reason.
fn refused(result: &OverloadResult) -> f64 {
    let ledger = &result.services[0].ledger;
    (ledger.shed + ledger.expired + ledger.disabled) as f64
}
