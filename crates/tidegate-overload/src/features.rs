//! Features that degrade at a threshold and come back when they fit again.
//!
//! A feature is work of a resource that users can do without, or with less of: it has levels from
//! best to worst, each with the part of the cost that is left. Its level is one word that requests
//! read ([`feature`]); meters count what is asked for and what it costs ([`feature_meter`]); the
//! ticks of the plane move the levels ([`feature_set`]).

pub(crate) mod clock_step;
pub(crate) mod config;
pub(crate) mod degrade_control;
pub(crate) mod feature;
pub(crate) mod feature_event;
pub(crate) mod feature_meter;
pub(crate) mod feature_part;
pub(crate) mod feature_pin;
pub(crate) mod feature_set;
pub(crate) mod feature_state;
pub(crate) mod feature_tick;
pub(crate) mod feature_view;
pub(crate) mod level_costs;
pub(crate) mod level_word;
pub(crate) mod load_estimate;
pub(crate) mod moving_average;
pub(crate) mod overload_features;
pub(crate) mod position;
pub(crate) mod resource_load;
pub(crate) mod settle_window;
pub(crate) mod signal_loss;
pub(crate) mod step_choice;

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests;
