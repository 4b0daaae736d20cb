//! The work of operators and of the process with an engine: settings, overrides, reloads, ticks.

mod configuration;
mod feature_pin_changes;
mod lend;
mod membership;
mod operations;
mod override_changes;
mod plane_changes;
pub(super) mod reload;
pub(super) mod tick;
pub(super) mod ticket_report;
mod tickets;
