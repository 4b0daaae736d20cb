//! The cost of metering in a decision of the engine.

use std::sync::Arc;

use tidegate_core::Limit;
use tidegate_engine::Engine;

use crate::calls::{self, MeteredNames, Planes};
use crate::timing::Side::Ours;
use crate::timing::{Candidate, Scenario};
use crate::workload::{self, Clock};

/// How many keys and tenants there are.
const NAMES: usize = 10_000;

/// One limit, ten thousand keys: two threads have nothing in common but what the meter has.
pub(super) fn metered() -> Scenario {
    let clock = Clock::start();
    let keys = Arc::new(workload::keys(NAMES));
    let limits = || [Limit::new("per-session", workload::endless()).key(["session"])];
    let plain = calls::engine(limits(), Planes::Limits);
    let metered = || calls::metered(calls::engine_builder(limits(), None));
    let candidate = |name: &str, engine: Engine, of: MeteredNames| {
        let keys = Arc::clone(&keys);
        Candidate::each(name, Ours, move |index| {
            let key = &keys[index % NAMES];
            let tenant = match of {
                MeteredNames::Nothing => None,
                MeteredNames::OneTenant => Some("tenant-1"),
                MeteredNames::ManyTenants => Some(key.as_str()),
            };
            calls::admit_metered(&engine, key, tenant, clock.now())
        })
    };
    Scenario {
        title: "Engine, one limit, 10 000 keys, metered".to_owned(),
        admits: Some(true),
        calls: 1 << 18,
        candidates: vec![
            candidate("not metered", plain, MeteredNames::Nothing),
            candidate("no tenant, no feature", metered(), MeteredNames::Nothing),
            candidate("one tenant, a feature", metered(), MeteredNames::OneTenant),
            candidate("10 000 tenants, a feature", metered(), MeteredNames::ManyTenants),
        ],
    }
}
