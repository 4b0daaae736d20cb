//! The claims of requests, as they are written.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

use super::name_map::NameMap;

/// Claims of a request beside the attributes that limits look at: tenant, class, feature, deadline,
/// attempt and access.
///
/// For protocols that describe a request by names and values: Envoy's descriptors, `TG.CHECK`,
/// gateway subrequests and the bodies of the API. A source is `entry.NAME`, the entry or attribute
/// of that name, or text in double quotes. Routes of the proxy have keys of their own; `tenants`
/// and the ceiling of `class` hold for them too.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "request")]
pub(crate) struct RequestForm {
    /// The source of the tenant, which pays for the request. Default: `entry.tenant`.
    pub(crate) tenant: Option<String>,
    /// The source of the class, beside the member `class` of the API. Default:
    /// `{ from: entry.tidegate-class }`.
    pub(crate) class: Option<ClassForm>,
    /// The classes of tenants: the class of their requests that claim none, and the highest class
    /// that their requests may claim, in place of `class.ceiling`. At most 10000. Default: `{}`.
    pub(crate) tenants: Option<NameMap<ClassConfig>>,
    /// The source of the feature, one of `features`, beside the member `feature` of the API.
    /// Default: `entry.feature`.
    pub(crate) feature: Option<String>,
    /// The source of how many milliseconds the caller waits. Default: `entry.tidegate-deadline-ms`.
    pub(crate) deadline: Option<String>,
    /// The source of how many attempts there were before this one; demand counts first attempts
    /// only. Default: `entry.tidegate-attempt`.
    pub(crate) attempt: Option<String>,
    /// The source of the deferral ticket that a request shows, beside the header `tidegate-ticket`
    /// and the member `ticket` of the API. Default: `entry.ticket`.
    pub(crate) ticket: Option<String>,
    /// The access to a table that a request makes. Default: the entries `table`, `key`, `kind` and
    /// `size`.
    pub(crate) access: Option<AccessForm>,
}

/// How much a request matters.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "class_source")]
pub(crate) struct ClassForm {
    /// The source of the class in a request, as `header.NAME` at a route and `entry.NAME` at a
    /// namespace. Default: nowhere at a route, `entry.tidegate-class` at a namespace.
    pub(crate) from: Option<String>,
    /// The class of a request that claims none. Default: `sheddable_plus`.
    pub(crate) default: Option<ClassConfig>,
    /// The highest class that may be claimed; a higher claim counts as this one. At a route it
    /// holds for peers outside of `proxy.trusted`. Default: `critical_plus`; at a route `default`,
    /// if the client writes the source itself, so that it can only lower its class.
    pub(crate) ceiling: Option<ClassConfig>,
}

/// A class, the most important first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", rename = "class")]
pub(crate) enum ClassConfig {
    CriticalPlus,
    Critical,
    #[default]
    SheddablePlus,
    Sheddable,
}

/// The access to a table, each part with its source.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "access")]
pub(crate) struct AccessForm {
    /// The name of the table, one of the namespace's; usually text in double quotes. A request
    /// without it makes no access.
    pub(crate) table: String,
    /// The key, which decides the partition.
    pub(crate) key: String,
    /// The kind: `read`, `read_strong`, `read_transactional`, `scan`, `write` or
    /// `write_transactional`, or
    /// a method, of which `GET`, `HEAD` and `OPTIONS` read and all others write. Default: `method`
    /// at a route, a read elsewhere.
    pub(crate) kind: Option<String>,
    /// The size in bytes. Default: `1`, also where the source is absent.
    pub(crate) size: Option<String>,
}
