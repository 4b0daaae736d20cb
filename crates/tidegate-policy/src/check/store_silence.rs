//! Warns about slow limits of which members admit more than one limit has, while their store does
//! not answer.

use core::time::Duration;

use tidegate_core::Algorithm;
use tidegate_core::limit::{Consistency, Limit, OnStoreFailure};

use crate::path::Path;
use crate::policy::NamespacePolicy;
use crate::printable::shown;
use crate::problem::Report;
use crate::raw::limit::LimitConfig;

/// The least that a member admits while it decides alone, if the limit is that large.
const ALONE_MIN: u64 = 10;

/// A limit of more units a minute than this is not slow: what members admit alone is soon within
/// its rate.
const SLOW_PER_MINUTE_MAX: u128 = 60;

/// Warns about limits of a namespace whose policy does not say what happens without the store.
/// `members` is how many share the store, if that is said.
pub(super) fn warn(
    namespace: &NamespacePolicy,
    raw: &[LimitConfig],
    members: Option<u32>,
    path: &Path,
    report: &mut Report<'_>,
) {
    for (index, (limit, raw)) in namespace.limits.iter().zip(raw).enumerate() {
        let is_decided_alone = limit.consistency != Consistency::Local
            && limit.on_store_failure == OnStoreFailure::Local
            && raw.on_store_failure.is_none();
        let most = limit.algorithm.limit();
        let share = alone(most, members);
        // Of a single member, or of one whose share is small enough, all shares together are the
        // limit.
        let is_exceeded = members.map_or(share == most, |members| share * u64::from(members) > most);
        if !is_decided_alone || most == 0 || !is_exceeded || !is_slow(limit) {
            continue;
        }
        let what = format!(
            "while the store does not answer, each member admits up to {share} of the {most} units of limit \"{}\" by itself",
            shown(&limit.name)
        );
        let fix = "write `on_store_failure: local` if that is meant, or `refuse`";
        report.warn(&path.index(index), what, fix);
    }
}

/// The units of a limit of `most` that a member admits at once while it decides alone.
fn alone(most: u64, members: Option<u32>) -> u64 {
    let part = most / u64::from(members.unwrap_or(u32::MAX).max(1));
    part.max(most.min(ALONE_MIN))
}

fn is_slow(limit: &Limit) -> bool {
    let (units, span) = match &limit.algorithm {
        Algorithm::Bucket(bucket) => (bucket.rate().units(), bucket.rate().per()),
        Algorithm::Concurrency(_) => return false,
        other => (other.limit(), other.window().unwrap_or(Duration::ZERO)),
    };
    let minute = Duration::from_mins(1).as_nanos();
    u128::from(units) * minute <= SLOW_PER_MINUTE_MAX * span.as_nanos()
}
