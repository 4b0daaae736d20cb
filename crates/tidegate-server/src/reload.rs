//! Changes of the policy and the overrides in force while requests go on.

pub(crate) mod changes;
pub mod policy_file;
pub(crate) mod policy_follower;
pub(crate) mod reload_status;
