//! The attacks, one file a family.

pub(crate) mod authorization;
pub(crate) mod certificates;
pub(crate) mod connections;
pub(crate) mod counters;
pub(crate) mod departures;
pub(crate) mod disk;
pub(crate) mod floods;
pub(crate) mod neighbour;
pub(crate) mod permits;
pub(crate) mod proxy_load;
pub(crate) mod proxy_requests;
pub(crate) mod redis;
pub(crate) mod requests;
pub(crate) mod secrets;
pub(crate) mod shared_parts;
pub mod suite;
pub(crate) mod waiting_memory;

use crate::attack::{Failure, require};
use crate::daemon::Daemon;
use crate::http1;

/// Fails unless a check of `user` in the namespace `honest` is admitted.
fn require_honest_check(daemon: &Daemon<'_>, user: &str, after: &str) -> Result<(), Failure> {
    let answer = http1::ask(daemon.http()?, http1::check("honest", user))?;
    let (status, reason) = (answer.status, answer.reason());
    let wait = answer.header("retry-after").unwrap_or("none");
    require!(status == 200, "{after}, the honest namespace gets {status} {reason} with Retry-After {wait}")
}
