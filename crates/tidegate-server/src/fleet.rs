//! The daemon as a member of a fleet: the members, the store that they share, and overrides that
//! all of them apply.

pub(crate) mod members;
pub(crate) mod membership;
pub(crate) mod override_history;
pub(crate) mod redis_store;
pub(crate) mod shared_store;
pub(crate) mod store_hooks;
pub(crate) mod stored_overrides;
