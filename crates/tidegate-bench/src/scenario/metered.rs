//! The cost of metering in a decision of the engine.

use std::sync::Arc;

use tidegate_core::Limit;
use tidegate_engine::Engine;

use crate::calls::{self, Metered, Planes};
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
    let candidate = |name: &str, engine: Engine, of: Metered| {
        let keys = Arc::clone(&keys);
        Candidate::each(name, Ours, move |index| {
            let key = &keys[index % NAMES];
            let tenant = match of {
                Metered::Nothing => None,
                Metered::OneTenant => Some("tenant-1"),
                Metered::ManyTenants => Some(key.as_str()),
            };
            calls::admit_metered(&engine, key, tenant, clock.now())
        })
    };
    Scenario {
        title: "Engine, one limit, 10 000 keys, metered".to_owned(),
        admits: Some(true),
        calls: 1 << 18,
        candidates: vec![
            candidate("not metered", plain, Metered::Nothing),
            candidate("no tenant, no feature", metered(), Metered::Nothing),
            candidate("one tenant, a feature", metered(), Metered::OneTenant),
            candidate("10 000 tenants, a feature", metered(), Metered::ManyTenants),
        ],
    }
}
