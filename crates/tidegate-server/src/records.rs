//! Records of what the daemon did: the decision log, the audit log, log lines about refusals and
//! failures, and the keys that are refused most.

pub(crate) mod advice_log;
pub(crate) mod audit;
pub(crate) mod decision_log;
pub(crate) mod decisions;
pub(crate) mod feature_events;
pub(crate) mod feature_log;
pub(crate) mod log_interval;
pub(crate) mod refusal_log;
pub(crate) mod refused_keys;
pub(crate) mod shadow_log;
pub(crate) mod store_failure_log;
#[cfg(test)]
pub(crate) mod written_log;
