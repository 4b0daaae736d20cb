//! The error of a quota that a daemon has no store for.

/// A quota of files of envoyproxy/ratelimit, as a message names it.
pub(crate) fn quota_of_files(metric_key: &str) -> String {
    format!("limit \"{metric_key}\" of envoy_ratelimit")
}

/// A policy or a file brings a quota to a daemon that was started without a store to keep it in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{quota} is a quota, of an hour or longer, and this daemon was started without a store to keep it in; restart the \
     daemon, which then keeps quotas in {place}, or set `store: {{ kind: memory }}`, with which a restart \
     forgets them"
)]
pub struct NoStore {
    /// The quota.
    pub(crate) quota: String,
    /// Where a daemon that is started anew would keep it, as a message says it.
    pub(crate) place: String,
}
