//! One limit as it is written.

use core::fmt;

#[cfg(test)]
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::json_value::from_value;
use super::matcher::MatcherConfig;
use super::name_map::NameMap;
#[cfg(test)]
use super::text_or::LongerForm;
use super::text_or::TextOr;

/// A limit: what it matches, what it counts by, how it counts. It has exactly one of `rate`,
/// `rolling`, `fixed`, `calendar` and `concurrency`.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "limit")]
pub(crate) struct LimitConfig {
    /// The name in answers, logs and metrics; unique in its namespace, 1 to 128 bytes. Danger:
    /// another name is another limit, which starts with nothing used, unless `was` gives the old
    /// one.
    pub(crate) name: String,
    /// The attributes by which it counts: one counter for each distinct tuple. Entries are names,
    /// or `{ attribute: peer, ipv6_prefix: 56 }`. At most 16. Default: `[]`. Danger: without a key
    /// there is one counter for all requests together.
    pub(crate) key: Option<Vec<TextOr<KeyPartForm>>>,
    /// The conditions on requests, by attribute; all of them must hold. Default: `{}`. Empty
    /// matches every request.
    #[serde(rename = "match")]
    pub(crate) matches: Option<NameMap<MatcherConfig>>,
    /// The treatment of a request that lacks an attribute of `key`. Default: `skip`. Danger: with
    /// `skip`, a caller that may leave attributes out escapes the limit.
    pub(crate) missing: Option<MissingConfig>,
    /// A bucket that refills at this rate, as units/span: `100/s`, `5/10m`, `1000/d`, or `100/sec`,
    /// `5/min`, `10/hour`, `1000/day`. At least 1 unit, a span of at most 365d, at most 10^9 units
    /// a second.
    pub(crate) rate: Option<String>,
    /// For `rate`: the units that the bucket holds, which a caller may use at once after a pause.
    /// At least 1. Default: the units of `rate`.
    pub(crate) burst: Option<u64>,
    /// For `rate`: how many units a request may overdraw as long as at least one is left; they are
    /// paid back before anything else is admitted. Default: `0`, which refuses costs above the
    /// burst for good.
    pub(crate) debt: Option<u64>,
    /// Never more than a number of units in any window of a length.
    pub(crate) rolling: Option<RollingConfig>,
    /// Windows of one length, one after the other.
    pub(crate) fixed: Option<FixedConfig>,
    /// Civil minutes, hours, days, weeks, months or years in a time zone.
    pub(crate) calendar: Option<CalendarConfig>,
    /// Permits held at the same time.
    pub(crate) concurrency: Option<ConcurrencyConfig>,
    /// Whether it refuses, or only reports its refusals. Default: `enforce`.
    pub(crate) mode: Option<ModeConfig>,
    /// Where it is decided. Default: `exact` for limits over an hour or longer without `share`; for
    /// others `leased` where members share a store and the algorithm can be leased, and `local`
    /// otherwise. With `store: { kind: memory }` all are decided in this process and are equally
    /// exact.
    pub(crate) consistency: Option<ConsistencyConfig>,
    /// For `consistency: local` on several members: the part of the limit that this member may
    /// admit, as `1/n`, or `auto` for an equal part of as many members as a shared store knows of.
    /// Rates are divided exactly; burst and limits are rounded down, with `auto` to no less than
    /// one unit. Default: `1/1`.
    pub(crate) share: Option<String>,
    /// The decision when the store cannot answer; only for limits that a store decides or lends.
    /// Default: `refuse` for limits over an hour or longer, `local` for others.
    pub(crate) on_store_failure: Option<OnStoreFailureConfig>,
    /// For `consistency: leased`: how long a lease lasts, 4s to 60s. A longer one costs fewer calls
    /// to the store; a member that is lost takes what it holds with it for that long. Default:
    /// `5s`.
    pub(crate) lease_period: Option<String>,
    /// The penalty of a key that exceeds the limit, beyond the refusal.
    pub(crate) on_exceed: Option<OnExceedConfig>,
    /// The outcomes of the work on which the limit gives its charge back: `succeeded`, `failed`, a
    /// status such as `404`, or a class of statuses such as `5xx`. Where the end of the work is
    /// reported: by the proxy, by a layer, and by `settle`. At most 64. Default: `[]`, and then
    /// charges stay.
    pub(crate) refund_on: Option<Vec<String>>,
    /// Other numbers for some keys. The override that names the most attributes wins.
    pub(crate) overrides: Option<Vec<OverrideConfig>>,
    /// The name it had before, so that a rename keeps what was used. The limit that has this name
    /// now, if there is one, must have been renamed too.
    pub(crate) was: Option<String>,
    /// The HTTP status of its refusals, 400 to 599. Default: the reason's status, 429 for most.
    #[cfg_attr(test, schemars(range(min = 400, max = 599)))]
    pub(crate) status: Option<u16>,
}

/// Never more than `limit` units in *any* window of this length, however it is placed.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "rolling")]
pub(crate) struct RollingConfig {
    /// The most units in any window; at most 1048576. 0 refuses everything.
    pub(crate) limit: u64,
    /// The length of the window, 1us to 366d.
    pub(crate) window: String,
    /// `exact` keeps 4 bytes for each unit; `approximate` keeps 16 bytes for each key. Default:
    /// `exact`.
    pub(crate) accuracy: Option<AccuracyConfig>,
}

/// How well a rolling window is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case", rename = "accuracy")]
pub(crate) enum AccuracyConfig {
    /// The instant of every unit is kept: no window ever holds more.
    #[default]
    Exact,
    /// Two counters: assumes that the previous window was spread evenly.
    Approximate,
}

/// At most `limit` units in each of the windows that follow each other.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "fixed")]
pub(crate) struct FixedConfig {
    /// The most units in a window. 0 refuses everything.
    pub(crate) limit: u64,
    /// The length of the window, 1us to 366d.
    pub(crate) window: String,
    /// Where windows begin. Default: `epoch`.
    pub(crate) start: Option<WindowStartConfig>,
}

/// Where the windows of `fixed` begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case", rename = "window_start")]
pub(crate) enum WindowStartConfig {
    /// At multiples of the length since 1970-01-01T00:00:00Z, the same for all keys.
    #[default]
    Epoch,
    /// With the first request of a key after its last window.
    FirstHit,
}

/// At most `limit` units in each civil unit of time, correct across changes of the clock.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "calendar")]
pub(crate) struct CalendarConfig {
    /// The most units. 0 refuses everything.
    pub(crate) limit: u64,
    /// The civil unit.
    pub(crate) unit: CivilUnitConfig,
    /// The IANA time zone, as `Europe/Berlin`. Default: `UTC`.
    pub(crate) zone: Option<String>,
    /// The attribute whose value is the time zone of a request, as an IANA name. `zone` counts for
    /// requests that lack the attribute or name no zone. The usage of a key is kept when its zone
    /// changes. Default: none. Danger: a caller that writes the attribute itself chooses when its
    /// window ends.
    pub(crate) zone_from: Option<String>,
    /// For `unit: week`: its first day. Default: `monday`.
    pub(crate) week_start: Option<WeekdayConfig>,
}

/// A civil unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case", rename = "civil_unit")]
pub(crate) enum CivilUnitConfig {
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
}

/// A day of the week.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case", rename = "weekday")]
pub(crate) enum WeekdayConfig {
    #[default]
    Monday,
    Tuesday,
    Wednesday,
    Thursday,
    Friday,
    Saturday,
    Sunday,
}

/// At most `limit` permits held at once, given back when a request ends.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "concurrency")]
pub(crate) struct ConcurrencyConfig {
    /// The most permits at once; at most 65536. 0 refuses everything.
    pub(crate) limit: u64,
    /// How long a permit lasts if its holder does not release it, 1us to 366d. Danger: shorter than
    /// the longest request, it lets more in than the limit; much longer, a crashed caller blocks
    /// its place.
    pub(crate) hold: String,
}

/// The treatment of a request that lacks an attribute of the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case", rename = "missing")]
pub(crate) enum MissingConfig {
    /// The limit does not apply to it.
    #[default]
    Skip,
    /// It is refused.
    Refuse,
    /// All that lack the same attributes share one counter.
    Group,
}

/// Whether a limit refuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case", rename = "mode")]
pub(crate) enum ModeConfig {
    /// It refuses.
    #[default]
    Enforce,
    /// It charges, reports the requests that it would have refused, and refuses nothing.
    Shadow,
}

/// Where a limit is decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case", rename = "consistency")]
pub(crate) enum ConsistencyConfig {
    /// By this member alone, in nanoseconds; forgotten when it ends. For every algorithm.
    #[default]
    Local,
    /// In one atomic step in the store, together with all other exact limits of the request. For
    /// every algorithm.
    Exact,
    /// By this member, from tokens that the store has lent it ahead. For `rate`, `fixed`,
    /// `calendar`.
    Leased,
}

/// The decision when the store cannot answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case", rename = "on_store_failure")]
pub(crate) enum OnStoreFailureConfig {
    /// The request is refused with reason `store_unavailable`.
    Refuse,
    /// The limit is left out.
    Allow,
    /// This member decides alone.
    Local,
}

/// The penalty of a key that exceeds a limit.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "on_exceed")]
pub(crate) struct OnExceedConfig {
    /// Refuses the key for this long, 1us to 366d, whatever is left by then: from the first refusal
    /// on, or from a report that leaves nothing of the limit.
    pub(crate) block: String,
}

/// An attribute of a key with how addresses in it are grouped.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "key_part")]
pub(crate) struct KeyPartForm {
    /// The name of the attribute.
    pub(crate) attribute: String,
    /// The value is an address: IPv6 addresses with the same first bits, this many, share a
    /// counter. 0 to 128. Default: `64` for attributes called `ip`, `client_ip`, `remote_ip`,
    /// `source_ip`, `peer_ip`, `remote_address` or `client_address`; other attributes are not taken
    /// as addresses.
    #[cfg_attr(test, schemars(range(min = 0, max = 128)))]
    pub(crate) ipv6_prefix: Option<u8>,
}

#[cfg(test)]
impl LongerForm for KeyPartForm {
    const ENTRY: &'static str = "key_entry";
    const DESCRIPTION: &'static str =
        "An attribute of a key: its name, or its name and how addresses in it are grouped.";
}

/// Other numbers for the keys whose attributes have certain values.
#[derive(Debug)]
pub(crate) struct OverrideConfig {
    /// Attributes of the key, with the values they must have; and `zone`, which is a number where
    /// the key has no such attribute.
    pub(crate) when: NameMap<String>,
    pub(crate) numbers: NumbersConfig,
}

/// The numbers an override may change; what it leaves out is as in the limit, but for a burst
/// beside another rate, which follows the rate. An attribute that has one of these names cannot be
/// overridden by.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "override")]
pub(crate) struct NumbersConfig {
    /// For `rate`: the rate.
    pub(crate) rate: Option<String>,
    /// For `rate`: the burst.
    pub(crate) burst: Option<u64>,
    /// For `rate`: the debt.
    pub(crate) debt: Option<u64>,
    /// For `rolling`, `fixed`, `calendar` and `concurrency`: the limit. 0 refuses everything.
    pub(crate) limit: Option<u64>,
    /// For `rolling` and `fixed`: the window.
    pub(crate) window: Option<String>,
    /// For `concurrency`: the hold.
    pub(crate) hold: Option<String>,
    /// For `calendar`: the time zone, which then counts also where the limit has `zone_from`. In a
    /// limit whose `key` has an attribute `zone`, `zone` is that attribute.
    pub(crate) zone: Option<String>,
}

impl NumbersConfig {
    /// The names that are numbers rather than attributes, whatever the limit counts by. `zone` is
    /// not among them, see [`OverrideConfig`].
    pub(crate) const NAMES: [&'static str; 6] = ["rate", "burst", "debt", "limit", "window", "hold"];
}

impl<'de> Deserialize<'de> for OverrideConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let all = serde_json::Map::deserialize(deserializer)?;
        let (numbers, when): (serde_json::Map<_, _>, serde_json::Map<_, _>) =
            all.into_iter().partition(|(name, _)| NumbersConfig::NAMES.contains(&name.as_str()));
        Ok(Self { when: from_value(Value::Object(when))?, numbers: from_value(Value::Object(numbers))? })
    }
}

#[cfg(test)]
impl JsonSchema for OverrideConfig {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "override".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = NumbersConfig::json_schema(generator);
        schema.insert(
            "description".to_owned(),
            "Other numbers for the keys whose attributes have certain values: `{ account: \"1234\", limit: 50 }`. Every \
             key that is no number is an attribute of the limit's `key` with the value it must have; at least one, not \
             necessarily all. What an override leaves out is as in the limit, but for a burst beside another rate, \
             which follows the rate. An attribute cannot be named here if a number has the same name."
                .into(),
        );
        schema.insert("additionalProperties".to_owned(), serde_json::json!({ "type": "string" }));
        schema
    }
}

impl fmt::Display for ConsistencyConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Local => "local",
            Self::Exact => "exact",
            Self::Leased => "leased",
        })
    }
}
