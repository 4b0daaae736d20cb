//! Warns about deferral that does not fit the other sections of the policy.

use crate::grammar::SourceScope;
use crate::path::Path;
use crate::policy::deferral::DeferralPolicy;
use crate::policy::{Policy, StoreKind};
use crate::problem::Report;

/// The protocols by which requests come to a resource.
#[derive(Clone, Copy)]
pub(super) struct OperationReaders {
    /// Whether a route of the proxy leads to it.
    pub(super) is_proxied: bool,
    /// Whether a request that is described by names and values may name it.
    pub(super) is_described: bool,
}

/// Warns about a source of the operation that no request of the resource has.
pub(super) fn unread_operation(
    deferral: &DeferralPolicy,
    readers: OperationReaders,
    path: &Path,
    report: &mut Report<'_>,
) {
    let Some(source) = &deferral.operation else { return };
    let has = |scope: SourceScope| scope.has(source);
    let is_read = (readers.is_proxied && has(SourceScope::Proxied))
        || (readers.is_described && has(SourceScope::Described));
    // A resource that no request reaches has its own warning.
    if is_read || !(readers.is_proxied || readers.is_described) {
        return;
    }
    let (why, fix) = if readers.is_proxied {
        (
            "all its requests pass the proxy, which reads no entries",
            "header.NAME, or another source of a route",
        )
    } else {
        ("no route with a namespace leads to it", "entry.NAME, or text in double quotes")
    };
    let what = format!("no request of the resource has the operation `{source}`: {why}");
    report.warn(path, what, format!("write {fix}; or remove `operation`, and the feature is the operation"));
}

/// Warns about tickets whose key is kept nowhere.
pub(super) fn passing_key(policy: &Policy, path: &Path, report: &mut Report<'_>) {
    // Files of `envoy_ratelimit` may have quotas, for which there is a store that lasts.
    let has_quotas = policy.quotas().next().is_some() || policy.envoy_ratelimit.is_some();
    if policy.ticket_key_file().is_some() || policy.store.kind(has_quotas) != StoreKind::Memory {
        return;
    }
    if let Some((name, _)) = policy.deferrals().next() {
        let what =
            "tickets end with the process, because their key is drawn at the start and kept by no store";
        let fix = "add `key_file`, or `store: { kind: embedded }`";
        report.warn(&path.key(name).key("defer"), what, fix);
    }
}
