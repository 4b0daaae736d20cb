//! Features that degrade at a threshold and come back when they fit again.
//!
//! A feature is work of a resource that users can do without, or with less of: it has levels from
//! best to worst, each with the part of the cost that is left. Its level is one word that requests
//! read ([`feature`]); meters count what is asked for and what it costs ([`feature_meter`]); the
//! ticks of the plane move the levels ([`feature_set`]).

#![expect(dead_code, reason = "the control of the levels uses the rest")]

pub(crate) mod config;
pub(crate) mod feature;
pub(crate) mod feature_event;
pub(crate) mod feature_meter;
pub(crate) mod feature_pin;
pub(crate) mod feature_set;
pub(crate) mod feature_state;
pub(crate) mod feature_view;
pub(crate) mod level_word;
pub(crate) mod overload_features;
