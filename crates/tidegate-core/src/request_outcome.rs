//! How a request ended, in ten words: the closed list by which requests are counted.

use core::fmt;

use crate::refusal::Reason;

/// The outcome of one request.
///
/// Every request that was offered and is no longer under way has exactly one. The list is closed
/// and stable: metrics, usage reports and counters of resources have the same ten words. A refusal
/// has the outcome of its reason, by [`RequestOutcome::of_refusal`] alone, whether or not the
/// request has waited: so its caller knows the outcome from the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RequestOutcome {
    /// It went ahead; a refusal that is only watched (shadow mode) is an admission too.
    Admitted,
    /// A limit or a block denied it.
    Denied,
    /// The capacity plane throttled it.
    Throttled,
    /// The overload plane shed it, or its queue was full.
    Shed,
    /// It was given an instant to come back at.
    Deferred,
    /// Its feature is switched off.
    Disabled,
    /// Its deadline was over or could not be met.
    Expired,
    /// The store did not answer, or the key table had no room.
    Unavailable,
    /// It ended in an error.
    Failed,
    /// It was left before it was decided, and got no answer; or its admission was undone.
    Cancelled,
}

impl RequestOutcome {
    /// All outcomes, in the order of documents and reports.
    pub const ALL: [Self; 10] = [
        Self::Admitted,
        Self::Denied,
        Self::Throttled,
        Self::Shed,
        Self::Deferred,
        Self::Disabled,
        Self::Expired,
        Self::Unavailable,
        Self::Failed,
        Self::Cancelled,
    ];

    /// The name in reports and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Admitted => "admitted",
            Self::Denied => "denied",
            Self::Throttled => "throttled",
            Self::Shed => "shed",
            Self::Deferred => "deferred",
            Self::Disabled => "disabled",
            Self::Expired => "expired",
            Self::Unavailable => "unavailable",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Its position in [`RequestOutcome::ALL`], 0 to 9.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Whether the request was refused. It was not if it went ahead, ended in an error, or was left
    /// by its caller.
    #[inline]
    pub const fn is_refusal(self) -> bool {
        !matches!(self, Self::Admitted | Self::Failed | Self::Cancelled)
    }

    /// The outcome of a request that was refused for this reason.
    pub const fn of_refusal(reason: Reason) -> Self {
        match reason {
            Reason::RateExceeded
            | Reason::QuotaExceeded
            | Reason::ConcurrencyExceeded
            | Reason::Blocked
            | Reason::AttributeMissing
            | Reason::CostExceedsLimit => Self::Denied,
            Reason::TableThroughputExceeded
            | Reason::AccountThroughputExceeded
            | Reason::KeyRangeThroughputExceeded
            | Reason::OnDemandMaximumExceeded
            | Reason::NodeSaturated
            | Reason::ReplicaSaturated
            | Reason::Migrating => Self::Throttled,
            Reason::OverloadShed | Reason::QueueFull => Self::Shed,
            Reason::Deferred => Self::Deferred,
            Reason::FeatureDisabled => Self::Disabled,
            Reason::DeadlineUnmeetable => Self::Expired,
            Reason::StoreUnavailable | Reason::TableFull => Self::Unavailable,
        }
    }
}

impl fmt::Display for RequestOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_stands_at_its_index_under_a_name_of_its_own() {
        for (index, outcome) in RequestOutcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome.index(), index);
            let same_name = RequestOutcome::ALL.iter().filter(|other| other.as_str() == outcome.as_str());
            assert_eq!(same_name.count(), 1, "{outcome}");
        }
    }

    #[test]
    fn every_reason_has_the_outcome_of_the_table_of_issue_44() {
        let table = [
            ("denied", "rate_exceeded quota_exceeded concurrency_exceeded blocked"),
            ("denied", "attribute_missing cost_exceeds_limit"),
            ("throttled", "table_throughput_exceeded account_throughput_exceeded"),
            ("throttled", "key_range_throughput_exceeded on_demand_maximum_exceeded"),
            ("throttled", "node_saturated replica_saturated migrating"),
            ("shed", "overload_shed queue_full"),
            ("deferred", "deferred"),
            ("disabled", "feature_disabled"),
            ("expired", "deadline_unmeetable"),
            ("unavailable", "store_unavailable table_full"),
        ];
        for reason in Reason::ALL {
            let rows = table
                .iter()
                .filter(|(_, reasons)| reasons.split(' ').any(|listed| listed == reason.as_str()));
            let outcomes: Vec<&str> = rows.map(|(outcome, _)| *outcome).collect();
            assert_eq!(outcomes, [RequestOutcome::of_refusal(reason).as_str()], "{reason}");
            assert!(RequestOutcome::of_refusal(reason).is_refusal(), "{reason}");
        }
    }
}
