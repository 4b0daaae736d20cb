//! Features that degrade at a threshold and come back when they fit again.
//!
//! A feature is work of a resource that users can do without, or with less of: it has levels from
//! best to worst, each with the part of the cost that is left. A request reads its level with one
//! load ([`feature`]); meters count the requests that ask for it and what they cost
//! ([`feature_meter`]). Once a tick, after the resources ([`feature_tick`]):
//!
//! * **Degrade** at the threshold of the load level brownout, by the smallest loss of utility that
//!   gives the relief needed, the lowest class first ([`degrade_control`], [`step_choice`]).
//! * **Come back** one step at a time, at most one in a settle time, if the load and the footprint
//!   of the step were below the threshold and its margin for a whole settle time
//!   ([`settle_window`]). Two thresholds cannot do that: whether a feature fits depends on how much
//!   of it is asked for.
//! * **Exchange** levels of one class once the load has settled after a need, if a feature that
//!   gives more lets others come back that are worth clearly more ([`level_exchange`]).
//! * The **footprint** is demand times cost by the capacity: first attempts that ask for the
//!   feature, refused ones included, times the place time of one at the level, learned while the
//!   level was in use ([`load_estimate`], [`level_costs`]). It does not fall below the one at which
//!   the feature was degraded, which fades.
//!
//! A feature in shadow mode is controlled beside the others, with the load without what it would
//! have given: it waits for no relief, as none is released, and neither gives to the others nor
//! takes from them.

pub(crate) mod change_reason;
pub(crate) mod clock_step;
pub(crate) mod config;
pub(crate) mod control_load;
pub(crate) mod degrade_control;
pub(crate) mod exponential_average;
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
pub(crate) mod level_exchange;
pub(crate) mod level_position;
pub(crate) mod level_word;
pub(crate) mod load_estimate;
pub(crate) mod overload_features;
pub(crate) mod pinned_levels;
pub(crate) mod resource_features;
pub(crate) mod resource_load;
pub(crate) mod settle_window;
pub(crate) mod signal_loss;
pub(crate) mod step_choice;
pub(crate) mod tick_parts;

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests;
