//! Plans and costs of a namespace, as they are written.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

use super::limit::{
    ConsistencyConfig, KeyPartForm, MissingConfig, ModeConfig, NumbersConfig, OnExceedConfig,
    OnStoreFailureConfig,
};
use super::matcher::MatcherConfig;
use super::name_map::NameMap;
#[cfg(test)]
use super::text_or::LongerForm;
use super::text_or::TextOr;

/// Settings of all limits of a namespace that do not have their own. Each counts for the limits
/// that can have it: `zone` and `zone_from` for calendars, `consistency` for algorithms that can be
/// decided so, `on_store_failure` and `lease_period` for limits that a store decides or lends.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "defaults")]
pub(crate) struct DefaultsConfig {
    /// As `key` of a limit; a limit with `key: []` has one counter for all.
    pub(crate) key: Option<Vec<TextOr<KeyPartForm>>>,
    /// As `missing` of a limit.
    pub(crate) missing: Option<MissingConfig>,
    /// As `mode` of a limit.
    pub(crate) mode: Option<ModeConfig>,
    /// As `consistency` of a limit.
    pub(crate) consistency: Option<ConsistencyConfig>,
    /// As `on_store_failure` of a limit.
    pub(crate) on_store_failure: Option<OnStoreFailureConfig>,
    /// As `lease_period` of a limit.
    pub(crate) lease_period: Option<String>,
    /// As `on_exceed` of a limit.
    pub(crate) on_exceed: Option<OnExceedConfig>,
    /// As `refund_on` of a limit.
    pub(crate) refund_on: Option<Vec<String>>,
    /// As `status` of a limit.
    #[cfg_attr(test, schemars(range(min = 400, max = 599)))]
    pub(crate) status: Option<u16>,
    /// As `zone` of `calendar`.
    pub(crate) zone: Option<String>,
    /// As `zone_from` of `calendar`.
    pub(crate) zone_from: Option<String>,
}

/// The plans of a namespace: numbers of its limits that depend on what the caller has bought. The
/// usage of a key is kept when its plan changes. An override wins over a plan.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "plans")]
pub(crate) struct PlansConfig {
    /// The attribute whose value is the name of a plan. Default: `plan`. Danger: a caller that
    /// writes the attribute itself chooses its plan.
    pub(crate) attribute: Option<String>,
    /// The plans of requests whose attributes have certain values, by attribute and value:
    /// `{ account: { acme: pro } }`. They count before `attribute`. At most 100000. Default: `{}`.
    pub(crate) assigned: Option<NameMap<NameMap<String>>>,
    /// The plan of requests that have none by `assigned` and `attribute`. Default: none, and then
    /// each limit has its own numbers for them.
    pub(crate) default: Option<String>,
    /// The plans by name, 1 to 256. Each has the numbers of limits by their name, as an override
    /// has them, or `unlimited`: `{ pro: { per-second: { rate: 50/s }, per-day: unlimited } }`. A
    /// limit that a plan leaves out has its own numbers.
    pub(crate) numbers: NameMap<NameMap<TextOr<Box<NumbersConfig>>>>,
}

#[cfg(test)]
impl LongerForm for Box<NumbersConfig> {
    const ENTRY: &'static str = "plan_numbers";
    const DESCRIPTION: &'static str = "The numbers of a limit for the requests of a plan, or `unlimited`.";
}

/// A row of the cost table: the cost of the requests that meet its conditions.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "cost_row")]
pub(crate) struct CostRowConfig {
    /// The requests it speaks of, by attribute; all of these must hold. Default: `{}`. Empty
    /// matches every request.
    #[serde(rename = "match")]
    pub(crate) matches: Option<NameMap<MatcherConfig>>,
    /// Their cost, in units of the limits; at least 1.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub(crate) cost: u64,
}
