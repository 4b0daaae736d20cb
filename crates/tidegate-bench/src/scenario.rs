//! The measured scenarios, each with every candidate that can decide it.

mod clock;
pub(crate) mod fair_queue;
mod hot;
mod many_keys;
pub mod many_keys_wait;
mod metered;
mod planes;
mod rolling_window;
mod three;

use crate::timing::Scenario;

/// A scenario that can be asked for by name. Making one may take seconds and hundreds of megabytes.
#[derive(Clone, Copy)]
pub struct Named {
    /// The name on the command line.
    pub name: &'static str,
    /// Makes it.
    pub make: fn() -> Scenario,
}

impl std::fmt::Debug for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// All scenarios in the order of the report.
pub const ALL: [Named; 16] = [
    Named { name: "hot-admit", make: hot::admit },
    Named { name: "hot-deny", make: hot::deny },
    Named { name: "zipf", make: many_keys::zipf },
    Named { name: "three", make: three::three },
    Named { name: "rolling-admit", make: rolling_window::admit },
    Named { name: "rolling-deny", make: rolling_window::deny },
    Named { name: "engine-one", make: planes::one },
    Named { name: "engine-three", make: planes::three },
    Named { name: "metered", make: metered::metered },
    Named { name: "queue-admitted", make: fair_queue::admitted },
    Named { name: "queue-settled", make: fair_queue::settled },
    Named { name: "queue-refused", make: fair_queue::refused },
    Named { name: "queue-shed", make: fair_queue::shed },
    Named { name: "queue-enter", make: fair_queue::enqueue },
    Named { name: "queue-storm", make: fair_queue::storm },
    Named { name: "clock", make: clock::now },
];
