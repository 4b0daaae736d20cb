//! A resource that two namespaces, or several classes, share: what one of them can take of the part
//! of another.
//!
//! The service has [`WORKERS`](callers::WORKERS) workers and takes [`WORK`](callers::WORK) for a
//! request, 200 a second in all. The callers of `/v1/check` bring it with them: each takes one of
//! its workers once it is admitted. Through the proxy it is the upstream.

mod callers;
pub(crate) mod misconduct;
pub(crate) mod neighbour;
pub(crate) mod promises;

use std::time::Duration;

use crate::upstream::Upstream;

/// Requests that the service can do in a second.
const CAPACITY: u32 = 200;
/// How long callers run before they are counted.
const WARM_UP: Duration = Duration::from_secs(1);
/// The same where unsettled places expire first.
const AFTER_EXPIRY: Duration = Duration::from_secs(2);
/// The same where a limit has time to fall.
const AFTER_WINDOWS: Duration = Duration::from_secs(5);
/// The least part of what is its own that a namespace keeps.
const KEPT_MIN: f64 = 0.9;

/// A policy with one resource, and a proxy if it is to be behind one. No namespace may claim a
/// class above `ceiling`.
fn policy(concurrency: &str, queue: &str, ceiling: &str, upstream: Option<&Upstream>) -> String {
    let proxy = upstream.map_or_else(String::new, |upstream| {
        format!(
            "proxy:\n  trusted: ['127.0.0.1/32']\n  upstreams: {{ app: ['{}'] }}\n  routes:\n    \
             - {{ upstream: app, namespace: quiet, tenant: customer, attributes: {{ customer: header.x-customer }}, \
             class: {{ from: header.x-class, default: sheddable_plus, ceiling: {ceiling} }} }}\n",
            upstream.url()
        )
    });
    let listen = if upstream.is_some() { ", proxy: '127.0.0.1:0'" } else { "" };
    let request = format!(
        "request: {{ tenant: entry.customer, class: {{ default: sheddable_plus, ceiling: {ceiling} }} }}"
    );
    format!(
        "listen: {{ http: '127.0.0.1:0', admin: '127.0.0.1:0', resp: '127.0.0.1:0'{listen} }}\n\
         namespaces:\n  quiet: {{ {request} }}\n  loud: {{ {request} }}\n\
         resources:\n  app: {{ concurrency: {concurrency}, queue: {{ {queue} }} }}\n{proxy}"
    )
}
