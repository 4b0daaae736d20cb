//! Warns about resources and signals that do not fit the other sections of the policy.

use std::collections::BTreeSet;

use tidegate_overload::{FleetShare, ResourceConfig, SignalConfig, SignalSource};

use super::deferral_mismatch::{OperationReaders, passing_key, unread_operation};
use crate::path::Path;
use crate::policy::authorization::{Grant, Namespaces, Verb};
use crate::policy::proxy::Route;
use crate::policy::resources::ResourcePolicy;
use crate::policy::{Policy, StoreChoice, StoreKind};
use crate::printable::shown;
use crate::problem::Report;
use crate::suggestion::nearest;

/// The most upstreams without a resource that the name of a resource is compared with, so that a
/// policy of many names is checked in the time of a short one.
const UPSTREAMS_COMPARED_MAX: usize = 256;

/// `policy` has no problem. `has_api_callers` says whether requests arrive at other listeners than
/// the proxy.
pub(in crate::check) fn warn(policy: &Policy, has_api_callers: bool, report: &mut Report<'_>) {
    let top = Path::default();
    let callers = ResourceCallers::new(policy);
    for resource in &policy.resources {
        if report.has_all_warnings() {
            return;
        }
        let path = top.key("resources").key(&resource.name);
        undivided(resource, policy, &path.key("share"), report);
        unshared(resource, policy, &path.key("shares"), report);
        unstreamed(resource, policy, &path.key("streams"), report);
        unnamed(&resource.name, &callers, &path, report);
        if let Some(deferral) = &resource.deferral {
            let protocols = OperationReaders {
                is_proxied: callers.routed.contains(resource.name.as_str()),
                is_described: callers.is_open && has_api_callers,
            };
            unread_operation(deferral, protocols, &path.key("defer").key("operation"), report);
        }
    }
    passing_key(policy, &top.key("resources"), report);
    for (index, route) in policy.proxy.routes.iter().enumerate() {
        if report.has_all_warnings() {
            return;
        }
        unprotected(route, &callers, &top.key("proxy").key("routes").index(index), report);
    }
    for (index, signal) in policy.signals.iter().enumerate() {
        unmeasured(signal, policy, &top.key("signals").index(index).key("source"), report);
    }
}

/// The ways in which requests come to name a resource.
struct ResourceCallers<'a> {
    upstreams: BTreeSet<&'a str>,
    /// The upstreams without a resource of their name, at most [`UPSTREAMS_COMPARED_MAX`].
    bare_upstreams: Vec<&'a str>,
    /// The upstreams to which a route with a namespace leads: only such a route asks a resource.
    routed: BTreeSet<&'a str>,
    resources: BTreeSet<&'a str>,
    namespaces: BTreeSet<&'a str>,
    /// Whether callers of the API may name resources.
    is_open: bool,
}

impl<'a> ResourceCallers<'a> {
    fn new(policy: &'a Policy) -> Self {
        let upstreams: BTreeSet<&str> = policy.proxy.upstreams.iter().map(|one| one.name.as_str()).collect();
        let resources: BTreeSet<&str> = policy.resources.iter().map(|one| one.name.as_str()).collect();
        let routed = policy.proxy.routes.iter().filter(|route| route.namespace.is_some());
        Self {
            bare_upstreams: upstreams.difference(&resources).copied().take(UPSTREAMS_COMPARED_MAX).collect(),
            upstreams,
            routed: routed.map(|route| route.upstream.as_str()).collect(),
            namespaces: policy.namespaces.iter().map(|one| one.name.as_str()).collect(),
            resources,
            is_open: is_named_by_callers(policy),
        }
    }

    /// The upstream without a resource that a resource without an upstream resembles.
    fn meant_upstream(&self, name: &str) -> Option<&'a str> {
        // A resource may as well be named after a namespace, whose callers then name it.
        if self.upstreams.contains(name) || self.namespaces.contains(name) {
            return None;
        }
        nearest(name, self.bare_upstreams.iter().copied().filter(|upstream| is_slip(name, upstream)))
    }
}

/// Whether a name is another one as it is mistyped: with a letter too many or too few, with two
/// letters in the wrong order, or else with at most one wrong letter in five. One of three, as in
/// `api` and `app`, makes another word.
fn is_slip(name: &str, other: &str) -> bool {
    // Which separator and which case was used says nothing about what was meant.
    let fold = |name: &str| name.to_ascii_lowercase().replace(['-', ' '], "_");
    let letters = |name: &str| {
        let mut letters: Vec<char> = name.chars().collect();
        letters.sort_unstable();
        letters
    };
    let (folded, other_folded) = (fold(name), fold(other));
    let (own, others) = (letters(&folded), letters(&other_folded));
    // Names such as `app-1` and `app-2` are as near, and not misspelt.
    let without_digits = |name: &str| name.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    if without_digits(name) == without_digits(other) {
        return false;
    }
    let distance = strsim::osa_distance(&folded, &other_folded);
    let is_one_off = distance <= 1 && (own.len() != others.len() || own == others);
    is_one_off || distance * 5 <= own.len().max(others.len())
}

/// Warns about `share: auto` where nothing says how many members there are.
fn undivided(resource: &ResourcePolicy, policy: &Policy, path: &Path, report: &mut Report<'_>) {
    let is_shared = matches!(policy.store, StoreChoice::Named(StoreKind::Redis(_)));
    if resource.config.share != FleetShare::None && !is_shared {
        let what = "share \"auto\" divides nothing without a store that the members share, to know how many there are";
        report.warn(path, what, "use `store: { kind: redis }`, or remove `share`");
    }
}

/// Warns about `shares` of a resource without a queue, whose order they change, and without
/// streams, which they divide.
fn unshared(resource: &ResourcePolicy, policy: &Policy, path: &Path, report: &mut Report<'_>) {
    let divides_streams = policy.stream_namespaces(&resource.name).next().is_some();
    if !resource.shares.is_empty() && resource.config.queue.is_none() && !divides_streams {
        let what = format!(
            "the shares of resource \"{}\" change nothing, because it has no queue",
            shown(&resource.name)
        );
        report.warn(path, what, "add `queue: { wait: 500ms }` to the resource, or remove `shares`");
    }
}

/// Warns about `streams` of a resource that no route with streams leads to.
fn unstreamed(resource: &ResourcePolicy, policy: &Policy, path: &Path, report: &mut Report<'_>) {
    let is_written = resource.config.streams_max != ResourceConfig::STREAMS;
    if is_written && policy.stream_namespaces(&resource.name).next().is_none() {
        let what = format!(
            "the streams of resource \"{}\" bound nothing, because no route to it has `hold: first_byte`",
            shown(&resource.name)
        );
        report.warn(path, what, "add `hold: first_byte` to the routes with streams, or remove `streams`");
    }
}

/// Warns about a resource whose name is probably a misspelt upstream, or that no request can name.
fn unnamed(name: &str, callers: &ResourceCallers<'_>, path: &Path, report: &mut Report<'_>) {
    if let Some(upstream) = callers.meant_upstream(name) {
        let what = format!(
            "resource \"{}\" is no upstream of the proxy, and upstream \"{}\" has no resource",
            shown(name),
            shown(upstream)
        );
        report.warn(path, what, format!("did you mean `{}`?", shown(upstream)));
    } else if !callers.is_open && !callers.routed.contains(name) {
        let what = format!(
            "no request can name resource \"{}\": no route with a namespace leads to an upstream of this name, \
             and no grant has the verb `place` in a namespace of this policy",
            shown(name)
        );
        report.warn(path, what, "add `place` to the `verbs` of a grant, or remove the resource");
    }
}

/// Warns about a route without a namespace, whose requests no resource bounds.
fn unprotected(route: &Route, callers: &ResourceCallers<'_>, path: &Path, report: &mut Report<'_>) {
    let name = route.upstream.as_str();
    let is_warned = !callers.is_open && !callers.routed.contains(name);
    if route.namespace.is_none() && callers.resources.contains(name) && !is_warned {
        let what = format!(
            "resource \"{}\" does not bound the requests of route \"{}\", because the route has no namespace",
            shown(name),
            shown(&route.name)
        );
        report.warn(path, what, "add `namespace` to the route; it may be one without limits");
    }
}

/// Whether some caller may name resources: everyone without grants, and with them the callers that
/// have the verb `place` in a namespace that is served.
fn is_named_by_callers(policy: &Policy) -> bool {
    let served: BTreeSet<&str> = policy.namespaces.iter().map(|one| one.name.as_str()).collect();
    // The domains of Envoy's files are known only when these are read.
    let is_served = |name: &String| policy.envoy_ratelimit.is_some() || served.contains(name.as_str());
    let may_name = |grant: &Grant| {
        grant.verbs.has(Verb::Place)
            && match &grant.namespaces {
                Namespaces::All => true,
                Namespaces::Some(names) => names.iter().any(is_served),
            }
    };
    policy.authorization.is_empty() || policy.authorization.iter().any(may_name)
}

/// Warns about a signal that measures the queue of a resource without a queue.
fn unmeasured(signal: &SignalConfig, policy: &Policy, path: &Path, report: &mut Report<'_>) {
    let is_about =
        |resource: &&ResourcePolicy| signal.resource.as_ref().is_none_or(|name| *name == resource.name);
    let mut resources = policy.resources.iter().filter(is_about);
    if signal.source != SignalSource::QueueDelay || resources.any(|one| one.config.queue.is_some()) {
        return;
    }
    let name = shown(&signal.name);
    let (what, fix) = match &signal.resource {
        Some(resource) => (
            format!("signal \"{name}\" has no value, because resource \"{}\" has no queue", shown(resource)),
            "add `queue: { wait: 500ms }` to the resource, or remove the signal",
        ),
        None => (
            format!("signal \"{name}\" has no value, because no resource has a queue"),
            "add `queue: { wait: 500ms }` to a resource, or remove the signal",
        ),
    };
    report.warn(path, what, fix);
}
