//! How a resource defers requests, as it is written.

use serde::Deserialize;

use super::claims::ClassConfig;

/// Tickets instead of refusals: a request that the resource would shed, or that finds the queue
/// full, is told a second that is reserved for it, and a ticket to show then.
///
/// A request without room in the whole `horizon` is refused as ever. A resource in `mode: shadow`
/// gives no tickets. A resource without `queue` has a queue with the defaults of its keys.
#[derive(Debug, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename = "defer")]
pub(crate) struct DeferForm {
    /// The classes whose requests are deferred, at least one.
    pub(crate) classes: Vec<ClassConfig>,
    /// The share of what is served that is reserved for requests with tickets, 0.01 to 0.9 in
    /// hundredths; with the shares of `queue.min_share` at most 1. Default: `0.2`.
    pub(crate) share: Option<String>,
    /// How far ahead seconds are reserved, 10s to 1h in whole seconds. Default: `1h`.
    pub(crate) horizon: Option<String>,
    /// The deferrals of one request that raise it by a cohort each, 0 to 100. Default: `5`.
    #[cfg_attr(any(test, feature = "schema"), schemars(range(min = 0, max = 100)))]
    pub(crate) max_deferrals: Option<u64>,
    /// The source of the operation, for which alone a ticket counts: a source of a route, read by
    /// the proxy; `entry.NAME`, read everywhere else; or text in double quotes. Default: the
    /// feature of the request, also where the source is absent or cannot be read.
    pub(crate) operation: Option<String>,
    /// A file with the key that tickets are signed with, at least 32 bytes; read again when it
    /// changes. One file for all resources: a resource that names none has the key of those that
    /// do. Default: a key that the store keeps; without a store that lasts, one that ends with the
    /// process, and all tickets with it.
    pub(crate) key_file: Option<String>,
}
