//! The overload plane as it is written: resources, how requests wait for them, and signals.

#[cfg(test)]
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::claims::ClassConfig;
use super::deferral::DeferForm;
use super::json_value::from_value;
use super::name_map::NameMap;
#[cfg(test)]
use super::text_or::LongerForm;
use super::text_or::TextOr;

/// A thing that serves requests: the upstream of the proxy with this name, or a name that requests
/// give.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "resource")]
pub(crate) struct ResourceConfig {
    /// The most requests in flight at once, 1 to 1000000; or `auto`, which finds the limit by the
    /// latency of the resource; or how it is found. A place is held until the work is done, where
    /// its end is reported: in the proxy, in a layer, and by `check` with a permit. Elsewhere
    /// requests take no place and are paced by rate. docs/concurrency.md says how to choose it.
    pub(crate) concurrency: ConcurrencyEntry,
    /// The most streams at once, 1 to 1000000: answers of routes with `hold: first_byte`, from
    /// their admission until their end. A request that would become one too many is refused. Where
    /// routes of several namespaces have streams, each namespace has its part of them by `shares`,
    /// which no other can take. Default: `1000`.
    pub(crate) streams: Option<u64>,
    /// Whether the members of a fleet share `concurrency`, `streams` and the bounds of `queue`.
    /// Default: `full`.
    pub(crate) share: Option<ResourceShareForm>,
    /// The part of the places that only `critical_plus` may use while the load level is emergency,
    /// 0 to 0.5 in hundredths. Default: `0.05`.
    pub(crate) reserve: Option<String>,
    /// How requests wait for a place instead of being refused. Default: they do not wait.
    pub(crate) queue: Option<QueueForm>,
    /// The requests that are told a second to come back at, and get a ticket for it, instead of
    /// being refused. Default: none.
    pub(crate) defer: Option<DeferForm>,
    /// The pressures at which its load levels are entered, and the terms on which they are left.
    /// Default: `{}`.
    pub(crate) levels: Option<LoadLevelsForm>,
    /// The time in which half of the demand for a feature is forgotten that was seen when the
    /// feature was degraded, 1s to 1d: callers that stop asking do not make it look free. Default:
    /// `5m`.
    pub(crate) demand_half_life: Option<String>,
    /// The shares of namespaces within each class, in proportion, 1 to 10000, at most 64: while
    /// several namespaces ask for more than the resource serves, each is served by its share. A
    /// namespace that is left out has a share of 1. Default: `{}`, equal shares.
    #[cfg_attr(test, schemars(extend("additionalProperties" = share_schema())))]
    pub(crate) shares: Option<NameMap<u64>>,
    /// The HTTP status of its refusals, 400 to 599. Default: the reason's status, which is 503.
    #[cfg_attr(test, schemars(range(min = 400, max = 599)))]
    pub(crate) status: Option<u16>,
    /// Whether answers about it carry its load level and its admission cursor, in the headers
    /// `tidegate-level` and `tidegate-cursor`. Default: `false`.
    pub(crate) show_load: Option<bool>,
    /// Whether it refuses and delays requests, `enforce`, or only shows what it would do, `shadow`:
    /// a rehearsal with the load there is. Its features then serve every request at the best level;
    /// limits and tables enforce as ever. Default: `enforce`.
    pub(crate) mode: Option<ResourceModeForm>,
}

/// Whether a resource refuses and delays requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case", rename = "resource_mode")]
pub(crate) enum ResourceModeForm {
    /// It does.
    #[default]
    Enforce,
    /// It decides and counts, and lets every request through at once.
    Shadow,
}

/// The share of a namespace.
#[cfg(test)]
fn share_schema() -> Value {
    json_schema!({ "type": "integer", "format": "uint64", "minimum": 1, "maximum": 10_000 }).to_value()
}

/// The most requests in flight: a number, `auto`, or how it is found.
#[derive(Debug)]
pub(crate) enum ConcurrencyEntry {
    Fixed(u64),
    Auto,
    Adaptive(AdaptiveForm),
}

impl Default for ConcurrencyEntry {
    fn default() -> Self {
        Self::Fixed(1)
    }
}

impl<'de> Deserialize<'de> for ConcurrencyEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(_) => Ok(Self::Auto),
            Value::Number(number) => Ok(Self::Fixed(number.as_u64().unwrap_or(0))),
            form => from_value(form).map(Self::Adaptive),
        }
    }
}

#[cfg(test)]
impl JsonSchema for ConcurrencyEntry {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "concurrency_entry".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let form = generator.subschema_for::<AdaptiveForm>();
        json_schema!({
            "description": "The most requests in flight: a number, `auto`, or how it is found.",
            "anyOf": [
                { "type": "integer", "format": "uint64", "minimum": 1, "maximum": 1_000_000 },
                { "type": "string", "enum": ["auto"] },
                form,
            ],
        })
    }
}

/// A limit on requests in flight that follows the latency of the resource.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "adaptive_concurrency")]
pub(crate) struct AdaptiveForm {
    /// The algorithm. Default: `vegas`.
    pub(crate) algorithm: Option<AdaptiveAlgorithmForm>,
    /// The lowest limit, 1 to 1000000. Default: `4`, or `max` if that is lower.
    #[cfg_attr(test, schemars(range(min = 1, max = 1_000_000)))]
    pub(crate) min: Option<u64>,
    /// The highest limit, 1 to 1000000. Default: `1000`.
    #[cfg_attr(test, schemars(range(min = 1, max = 1_000_000)))]
    pub(crate) max: Option<u64>,
    /// The limit at the start, between `min` and `max`. Default: `20`, or the nearest of the two.
    #[cfg_attr(test, schemars(range(min = 1, max = 1_000_000)))]
    pub(crate) initial: Option<u64>,
    /// The latency above which the limit falls whatever it was before, 1ms to 1h. Default: none.
    pub(crate) ceiling: Option<String>,
}

/// The algorithm of an adaptive limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case", rename = "adaptive_algorithm")]
pub(crate) enum AdaptiveAlgorithmForm {
    /// The queue that latency shows beyond the latency without load, with a veto where more
    /// requests in flight bring no more throughput.
    #[default]
    Vegas,
    /// One more while requests succeed, a tenth less when one fails.
    Aimd,
    /// The ratio of long-term to short-term latency.
    Gradient,
}

/// Whether the numbers of a resource are for one member or for the fleet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case", rename = "resource_share")]
pub(crate) enum ResourceShareForm {
    /// Each member has the whole numbers.
    #[default]
    Full,
    /// The numbers are divided by as many members as a shared store knows of, to no less than 1. An
    /// adaptive limit is found by each member for itself and is not divided.
    Auto,
}

/// The load levels of a resource by its pressure, which is the highest of its signals: 1 is as much
/// as it should bear. Thresholds are above 0, at most 2, and ascend.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename = "load_levels")]
pub(crate) struct LoadLevelsForm {
    /// The pressure at which `soft` is entered: a sign for operators and scalers. Default: `0.7`.
    #[cfg_attr(any(test, feature = "schema"), schemars(range(min = 0.0, max = 2.0)))]
    pub(crate) soft: Option<f64>,
    /// The pressure at which `brownout` is entered, from which on features degrade. Default: `0.8`.
    #[cfg_attr(any(test, feature = "schema"), schemars(range(min = 0.0, max = 2.0)))]
    pub(crate) brownout: Option<f64>,
    /// The pressure at which `hard` is entered. Default: `0.9`.
    #[cfg_attr(any(test, feature = "schema"), schemars(range(min = 0.0, max = 2.0)))]
    pub(crate) hard: Option<f64>,
    /// The pressure from which on `emergency` may be entered. Default: `0.97`.
    #[cfg_attr(any(test, feature = "schema"), schemars(range(min = 0.0, max = 2.0)))]
    pub(crate) emergency: Option<f64>,
    /// How far below its threshold the pressure must be until a level is left, and what must stay
    /// free below the threshold of `brownout` when a feature comes back: 0 to 0.5, and less than
    /// `soft`. Default: `0.1`.
    #[cfg_attr(any(test, feature = "schema"), schemars(range(min = 0.0, max = 0.5)))]
    pub(crate) margin: Option<f64>,
    /// The time for which that must hold, 100ms to 1h. Default: `5s`.
    pub(crate) settle: Option<String>,
}

/// How requests wait for a place of a resource: in the order of weighted fair queuing, over classes
/// and within a class over tenants.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "queue")]
pub(crate) struct QueueForm {
    /// The most requests that wait at a time, 1 to 1000000. When so many wait, a new request
    /// displaces the newest request of the tenant with the longest line in the lowest class.
    /// Default: `10000`.
    #[cfg_attr(test, schemars(range(min = 1, max = 1_000_000)))]
    pub(crate) requests: Option<u64>,
    /// The most memory of requests that wait, 64KiB to 64GiB. Default: `64MiB`.
    pub(crate) bytes: Option<String>,
    /// How long a request waits at most: one span for every class, or a span by class. Default: no
    /// class waits.
    pub(crate) wait: Option<TextOr<WaitForm>>,
    /// The shares of the classes while they wait, in proportion. Default: `{}`.
    pub(crate) weights: Option<WeightsForm>,
    /// The delay of the queue, by class, above which waiting requests are shed. Default: `{}`.
    pub(crate) delay_target: Option<DelayTargetForm>,
    /// The classes that are served only when no other waits, except for this share of what is
    /// served.
    pub(crate) min_share: Option<MinShareForm>,
    /// The most of what is served that `critical_plus` may take before all others, 0 to 1 in
    /// hundredths; beyond it competes by weight. Default: `0.5`.
    pub(crate) priority_share: Option<String>,
    /// The classes of which the newest request of a tenant is served first once the queue has stood
    /// for 100 ms. Default: none.
    pub(crate) lifo: Option<Vec<ClassConfig>>,
}

#[cfg(test)]
impl LongerForm for WaitForm {
    const ENTRY: &'static str = "wait_entry";
    const DESCRIPTION: &'static str =
        "How long a request waits at most: a span for every class, or a span by class.";
}

/// How long a request waits at most, by its class: 1ms to 1h, or `off` for a class that does not
/// wait. A class that is left out waits as long as the longest wait of a lower class; it does not
/// wait if no lower class does.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "wait")]
pub(crate) struct WaitForm {
    /// Default: the longest wait of a lower class.
    pub(crate) critical_plus: Option<String>,
    /// Default: the longest wait of a lower class.
    pub(crate) critical: Option<String>,
    /// Default: the wait of `sheddable`.
    pub(crate) sheddable_plus: Option<String>,
    /// Default: it does not wait.
    pub(crate) sheddable: Option<String>,
}

impl WaitForm {
    /// The texts from the least important class.
    pub(crate) fn by_class(&self) -> [Option<&String>; 4] {
        [&self.sheddable, &self.sheddable_plus, &self.critical, &self.critical_plus].map(Option::as_ref)
    }
}

/// The weights of the classes, 1 to 10000.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "weights")]
pub(crate) struct WeightsForm {
    /// Default: `16`.
    pub(crate) critical_plus: Option<u64>,
    /// Default: `8`.
    pub(crate) critical: Option<u64>,
    /// Default: `4`.
    pub(crate) sheddable_plus: Option<u64>,
    /// Default: `1`.
    pub(crate) sheddable: Option<u64>,
}

impl WeightsForm {
    /// The weights from the least important class.
    pub(crate) fn by_class(&self) -> [Option<u64>; 4] {
        [self.sheddable, self.sheddable_plus, self.critical, self.critical_plus]
    }
}

/// The delay of the queue above which requests of a class are shed, 1ms to 1h, or `off`. A queue
/// that is shorter at some moment of every 100 ms sheds at most its least important requests.
/// The delay in force is the largest of this one, 2·gap, and the smaller of 12·gap and twice the
/// typical service time, where gap is the time between two freed places.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "delay_target")]
pub(crate) struct DelayTargetForm {
    /// Default: `5ms`.
    pub(crate) critical_plus: Option<String>,
    /// Default: `5ms`.
    pub(crate) critical: Option<String>,
    /// Default: `20ms`.
    pub(crate) sheddable_plus: Option<String>,
    /// Default: `20ms`.
    pub(crate) sheddable: Option<String>,
}

impl DelayTargetForm {
    /// The texts from the least important class.
    pub(crate) fn by_class(&self) -> [Option<&String>; 4] {
        [&self.sheddable, &self.sheddable_plus, &self.critical, &self.critical_plus].map(Option::as_ref)
    }
}

/// The share of what is served that a class has when others wait, 0 to 0.05 in hundredths; `0` may
/// starve. A class that is left out has its weight instead.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "min_share")]
pub(crate) struct MinShareForm {
    /// Default: its weight counts.
    pub(crate) critical: Option<String>,
    /// Default: its weight counts.
    pub(crate) sheddable_plus: Option<String>,
    /// Default: its weight counts.
    pub(crate) sheddable: Option<String>,
}

/// A signal: a measured number with a target, from which load levels are made.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "signal")]
pub(crate) struct SignalForm {
    /// Its name, unique.
    pub(crate) name: String,
    /// The source of its values.
    pub(crate) source: SignalSourceForm,
    /// The value at which the system bears as much as it should, a decimal above 0: the pressure is
    /// the value divided by it. For `queue_delay` in milliseconds; for `in_flight` and
    /// `slow_answers` a part of all. Default: `1` for `in_flight`, `0.1` for `slow_answers`, `20`
    /// for `queue_delay`; others need one.
    pub(crate) target: Option<String>,
    /// The unit of its values, for people. Default: none.
    pub(crate) unit: Option<String>,
    /// For `source: push`: how long a value counts, 100ms to 1h. Default: `10s`.
    pub(crate) ttl: Option<String>,
    /// For `source: slow_answers`: the latency above which an answer is slow, 1ms to 1h.
    pub(crate) slower_than: Option<String>,
    /// The time constant of its moving average, 0s to 1h. Default: `500ms`.
    pub(crate) smoothing: Option<String>,
    /// The resource that it is about. Default: all of them.
    pub(crate) resource: Option<String>,
}

/// The source of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case", rename = "signal_source")]
pub(crate) enum SignalSourceForm {
    /// The requests in flight divided by the limit.
    InFlight,
    /// The shortest time that a request waited in the queue, over 100 ms.
    QueueDelay,
    /// The part of the answers that took longer than `slower_than`.
    SlowAnswers,
    /// Values that are sent to `PUT /v1/signals/NAME`.
    Push,
}
