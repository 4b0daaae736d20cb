//! Looking at what a request would get: its refusal, its limits, and why.

pub(super) mod explanation;
pub(super) mod peek;
