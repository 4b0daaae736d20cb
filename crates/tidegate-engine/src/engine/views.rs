//! Looking at what a request would get, and why; and at what requests got.

pub(super) mod cancellable_work;
pub(super) mod explanation;
pub(super) mod features;
pub(super) mod peek;
pub(super) mod resource_activity;
pub(super) mod usage;
pub(super) mod watched_feature;
