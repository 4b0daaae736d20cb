//! Deferral: a refused request of a low class gets a ticket for a second that is reserved for it.
//!
//! All that are told the same time come back at the same time. The calendar sells each second of
//! its horizon up to a part of what the resource serves, so that they come back one after the
//! other, in the order in which they were refused.

pub(crate) mod deferral_config;
