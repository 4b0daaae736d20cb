//! The requests of the HTTP API: one body for each route, strict, borrowed from the received bytes.
//!
//! An unknown key is an error, so that a misspelt `cost` never becomes a cost of 1.
//! The first field of a body says `serde(borrow)`, which bounds the lifetime for all of them.

use core::fmt;
use core::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, de};
use tidegate_core::{Class, Cost};

use crate::fault::{Fault, FaultCode};
use crate::object::{self, Object};
use crate::pairs::Pairs;
use crate::text::{Text, shortened};
use crate::true_units::TrueUnits;

/// The longest time a reservation may stay unsettled, and the default.
pub const RESERVATION_MAX: Duration = Duration::from_hours(24);

/// How long a reservation stays unsettled unless the request says otherwise.
pub const RESERVATION_DEFAULT: Duration = Duration::from_mins(1);

/// The longest time a check may wait for what it lacks: a minute.
pub const WAIT_MAX: Duration = Duration::from_mins(1);

/// The name of the attribute in which a request says how many milliseconds it waits at most, over
/// protocols that have no member for it.
pub const WAIT_MS: &str = "tidegate-wait-ms";

/// The longest time a key may be blocked in one call: a year.
pub const BLOCK_MAX: Duration = Duration::from_hours(366 * 24);

/// How much of a value an error shows, in bytes.
const SHOWN_BYTES: usize = 64;

/// The longest key of a refund in bytes.
pub const REFUND_KEY_BYTES_MAX: usize = 256;

/// The body of `POST /v1/check`: may this request go ahead?
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Check<'a> {
    /// The namespace whose limits apply.
    #[serde(borrow)]
    #[cfg_attr(feature = "schema", schema(value_type = String, example = "api"))]
    pub namespace: Text<'a>,
    /// The attributes that limits match on and count by: an object of strings, at most 64.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = std::collections::BTreeMap<String, String>, example = json!({"user": "ada"})))]
    pub attributes: Pairs<'a>,
    /// The cost of the request, in units. Default: by the cost table of the namespace (`costs`),
    /// otherwise 1. 0 is an error, see `peek`.
    #[serde(default, deserialize_with = "weight")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<u64>, minimum = 1))]
    pub cost: Option<Weight>,
    /// How much the request matters: `critical_plus`, `critical`, `sheddable_plus` (default) or
    /// `sheddable`.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub class: Option<Criticality>,
    /// The feature of the service that it is for, one of `features` of the policy; any other name
    /// counts as `other`. Default: as `request.feature` of the namespace says.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub feature: Option<Text<'a>>,
    /// The resource that serves it, one of `resources` of the policy: its bound on requests in
    /// flight and its admission cursor apply.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub resource: Option<Text<'a>>,
    /// The deferral ticket of an earlier answer about the same request. A text that is no ticket
    /// counts for nothing. Default: the header `tidegate-ticket`, else as `request.ticket` of the
    /// namespace says.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub ticket: Option<Text<'a>>,
    /// The read or write of a partitioned table that it makes.
    #[serde(default, deserialize_with = "object::optional")]
    pub access: Option<AccessBody<'a>>,
    /// Only look: the same answer, and nothing is charged. Default false.
    #[serde(default)]
    pub peek: bool,
    /// How long to wait at most, in milliseconds, for the limits and the place that the request
    /// lacks: 0 to 60000, a minute. Default 0, which does not wait. Not together with `peek`.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(maximum = 60_000))]
    pub wait_ms: u64,
}

/// The body of `POST /v1/explain`: the body of a check, and the tenant. `peek` and `wait_ms` change
/// nothing.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Explain<'a> {
    /// The namespace whose limits apply.
    #[serde(borrow)]
    #[cfg_attr(feature = "schema", schema(value_type = String, example = "api"))]
    pub namespace: Text<'a>,
    /// The attributes that limits match on and count by: an object of strings, at most 64.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = std::collections::BTreeMap<String, String>, example = json!({"user": "ada"})))]
    pub attributes: Pairs<'a>,
    /// The cost of the request, in units. Default: by the cost table of the namespace (`costs`),
    /// otherwise 1.
    #[serde(default, deserialize_with = "weight")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<u64>, minimum = 1))]
    pub cost: Option<Weight>,
    /// How much the request matters: `critical_plus`, `critical`, `sheddable_plus` or `sheddable`.
    /// Default: as the policy says for its tenant, otherwise `sheddable_plus`.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub class: Option<Criticality>,
    /// The tenant that pays. Default: as `door` says.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub tenant: Option<Text<'a>>,
    /// The door whose rules say the tenant: `check` for `request.tenant` of the namespace, `proxy`
    /// for the `tenant` of a route to `resource`. Default: `check`, and `proxy` if that finds no
    /// tenant.
    pub door: Option<ExplainedDoor>,
    /// The feature of the service that it is for, one of `features` of the policy; any other name
    /// counts as `other`. Default: as `request.feature` of the namespace says.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub feature: Option<Text<'a>>,
    /// The resource that serves it, one of `resources` of the policy.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub resource: Option<Text<'a>>,
    /// The deferral ticket of an earlier answer about the same request. A text that is no ticket
    /// counts for nothing. Default: as `request.ticket` of the namespace says.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub ticket: Option<Text<'a>>,
    /// The read or write of a partitioned table that it makes.
    #[serde(default, deserialize_with = "object::optional")]
    pub access: Option<AccessBody<'a>>,
    /// Taken, so that the body of a check can be sent as it is.
    #[serde(default)]
    pub peek: bool,
    /// How long a check with this body would wait. Default: as long as a request of the proxy waits
    /// for the resource (`queue.wait`); with `door: check` it does not wait.
    #[serde(default)]
    pub wait_ms: u64,
}

/// The door at which an explained request comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ExplainedDoor {
    /// A protocol by which callers describe the request, such as `/v1/check`.
    Check,
    /// A route of the proxy.
    Proxy,
}

impl Check<'_> {
    /// How long the request waits at most, or the fault of a wait that is too long or of no use.
    pub fn wait(&self) -> Result<Duration, Fault> {
        wait("wait_ms", self.wait_ms, self.peek)
    }
}

/// As [`Check::wait`], of a request that says it in the attribute [`WAIT_MS`].
pub fn wait_of_attribute(value: &str, peek: bool) -> Result<Duration, Fault> {
    // `parse` would take a sign.
    let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
    let millis = value.parse().ok().filter(|_| is_number).ok_or_else(|| {
        let shown = shortened(value, SHOWN_BYTES);
        let detail = format_args!("{WAIT_MS} \"{shown}\" is not a number of milliseconds");
        Fault::new(FaultCode::MalformedBody, detail).field(WAIT_MS).fix("send digits, at most 60000")
    })?;
    wait(WAIT_MS, millis, peek)
}

fn wait(field: &'static str, millis: u64, peek: bool) -> Result<Duration, Fault> {
    let wait = Duration::from_millis(millis);
    let malformed =
        |why: &str| Fault::new(FaultCode::MalformedBody, format_args!("{field} {millis}{why}")).field(field);
    if wait > WAIT_MAX {
        return Err(malformed(" is out of range; it takes 0 to 60000, a minute")
            .fix("send at most 60000, and ask again when the answer says"));
    }
    if peek && !wait.is_zero() {
        return Err(malformed(": a request that only looks does not wait")
            .fix(format!("leave {field} out, or do not only look")));
    }
    Ok(wait)
}

/// The body of `POST /v1/report`: this was done; charge it whether or not there is room.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Report<'a> {
    /// The namespace whose limits are charged.
    #[serde(borrow)]
    #[cfg_attr(feature = "schema", schema(value_type = String, example = "api"))]
    pub namespace: Text<'a>,
    /// The attributes that limits match on and count by.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = std::collections::BTreeMap<String, String>, example = json!({"user": "ada"})))]
    pub attributes: Pairs<'a>,
    /// The cost, in units. Default: by the cost table of the namespace, otherwise 1.
    #[serde(default, deserialize_with = "weight")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<u64>, minimum = 1))]
    pub cost: Option<Weight>,
}

/// The body of `POST /v1/refund`: give back what an earlier request was charged.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Refund<'a> {
    /// The namespace whose limits were charged.
    #[serde(borrow)]
    #[cfg_attr(feature = "schema", schema(value_type = String, example = "api"))]
    pub namespace: Text<'a>,
    /// The attributes of the request that was charged.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = std::collections::BTreeMap<String, String>, example = json!({"user": "ada"})))]
    pub attributes: Pairs<'a>,
    /// The units to give back. Default: by the cost table of the namespace, otherwise 1.
    #[serde(default, deserialize_with = "weight")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<u64>, minimum = 1))]
    pub cost: Option<Weight>,
    /// The key of this refund, 1 to 256 bytes: sent again with the same key within an hour, it
    /// gives nothing back twice.
    #[cfg_attr(feature = "schema", schema(value_type = String, example = "order-1815"))]
    pub refund_key: Text<'a>,
}

impl Refund<'_> {
    /// The fault of the key, if it is empty or too long.
    pub fn fault(&self) -> Option<Fault> {
        let length = self.refund_key.len();
        (length == 0 || length > REFUND_KEY_BYTES_MAX).then(|| {
            Fault::new(
                FaultCode::MalformedBody,
                format_args!("refund_key has {length} bytes; it takes 1 to 256"),
            )
            .field("refund_key")
            .fix("send a name of the thing refunded, such as the identifier of the order or request")
        })
    }
}

/// The body of `POST /v1/reserve`: charge an estimate now, settle with the true cost later.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Reserve<'a> {
    /// The namespace whose limits apply.
    #[serde(borrow)]
    #[cfg_attr(feature = "schema", schema(value_type = String, example = "api"))]
    pub namespace: Text<'a>,
    /// The attributes that limits match on and count by.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = std::collections::BTreeMap<String, String>, example = json!({"user": "ada"})))]
    pub attributes: Pairs<'a>,
    /// The estimate, in units. Default: by the cost table of the namespace, otherwise 1.
    #[serde(default, deserialize_with = "weight")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<u64>, minimum = 1))]
    pub cost: Option<Weight>,
    /// How much the request matters.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub class: Option<Criticality>,
    /// The feature of the service that it is for, one of `features` of the policy; any other name
    /// counts as `other`. Default: as `request.feature` of the namespace says.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub feature: Option<Text<'a>>,
    /// The resource that serves it, one of `resources` of the policy: its bound on requests in
    /// flight and its admission cursor apply.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub resource: Option<Text<'a>>,
    /// The deferral ticket of an earlier answer about the same request. A text that is no ticket
    /// counts for nothing. Default: the header `tidegate-ticket`, else as `request.ticket` of the
    /// namespace says.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub ticket: Option<Text<'a>>,
    /// The read or write of a partitioned table that it makes.
    #[serde(default, deserialize_with = "object::optional")]
    pub access: Option<AccessBody<'a>>,
    /// After how long an unsettled reservation expires, in milliseconds: 1 to 86400000 (a day),
    /// default 60000. It then keeps its charge and gives back what it lent.
    pub expires_ms: Option<u64>,
}

impl Reserve<'_> {
    /// After how long the reservation expires, or the fault of a value that is out of range.
    pub fn expires_after(&self) -> Result<Duration, Fault> {
        let Some(millis) = self.expires_ms else { return Ok(RESERVATION_DEFAULT) };
        let span = Duration::from_millis(millis);
        if millis == 0 || span > RESERVATION_MAX {
            let detail = format_args!("expires_ms {millis} is out of range; it takes 1 to 86400000, a day");
            return Err(Fault::new(FaultCode::MalformedBody, detail).field("expires_ms"));
        }
        Ok(span)
    }
}

/// The body of `POST /v1/settle`: how the work ended.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Settle<'a> {
    /// The permit, as `check` or `reserve` gave it.
    #[serde(borrow)]
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub permit: Text<'a>,
    /// How it ended; default `succeeded`. `cancelled` not together with `cost`.
    pub outcome: Option<OutcomeBody>,
    /// The true cost, in units; 0 gives everything back. More than was charged is charged now.
    #[serde(default, deserialize_with = "true_cost")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<u64>))]
    pub cost: Option<u64>,
    /// The status of the work's answer, 100 to 599, for limits that give their charge back by it
    /// (`refund_on`).
    #[cfg_attr(feature = "schema", schema(minimum = 100, maximum = 599))]
    pub status: Option<u16>,
    /// The capacity units that the access to a table truly took, at most three places; default: the
    /// units it was charged.
    #[cfg_attr(feature = "schema", schema(value_type = Option<f64>, minimum = 0, maximum = 1_000_000))]
    pub units: Option<TrueUnits>,
}

impl Settle<'_> {
    /// The fault of a cost of work that was never started, or of a number that is not a status.
    pub fn fault(&self) -> Option<Fault> {
        if let Some(status) = self.status.filter(|status| !(100..600).contains(status)) {
            let detail = format_args!("status {status} is out of range; it takes 100 to 599");
            return Some(Fault::new(FaultCode::MalformedBody, detail).field("status"));
        }
        let given = [("cost", self.cost.is_some()), ("units", self.units.is_some())];
        let (field, _) = given.into_iter().find(|(_, is_given)| *is_given)?;
        (self.outcome == Some(OutcomeBody::Cancelled)).then(|| {
            let what = format_args!("a cancelled request has no true {field} to settle with");
            let fix = format!("leave \"{field}\" out, or send another \"outcome\"");
            Fault::new(FaultCode::MalformedBody, what).field(field).fix(fix)
        })
    }
}

/// How the work of a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum OutcomeBody {
    /// It was done.
    Succeeded,
    /// It was tried and failed; what was spent stays spent, unless a limit gives it back
    /// (`refund_on`).
    Failed,
    /// Its caller went away before the end; what was spent stays spent, unless a limit gives it
    /// back by the status.
    Abandoned,
    /// It was never started: everything is given back.
    Cancelled,
}

/// The body of `POST /v1/release`: give back what a permit lent.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Release<'a> {
    /// The permit, as `check` or `reserve` gave it.
    #[serde(borrow)]
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub permit: Text<'a>,
}

/// The body of `POST /v1/reset`: forget what is used, and lift blocks.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Reset<'a> {
    /// The namespace.
    #[serde(borrow)]
    #[cfg_attr(feature = "schema", schema(value_type = String, example = "api"))]
    pub namespace: Text<'a>,
    /// The attributes that name the counters.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = std::collections::BTreeMap<String, String>, example = json!({"user": "ada"})))]
    pub attributes: Pairs<'a>,
    /// Only the counter of this limit, for which the attributes of its key are enough. Default: of
    /// all limits that match.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub limit: Option<Text<'a>>,
    /// Answers the counters that would be reset, and changes nothing. Default false.
    #[serde(default)]
    pub preview: bool,
}

/// The body of `POST /v1/block`: refuse a key under one limit for a while.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Block<'a> {
    /// The namespace.
    #[serde(borrow)]
    #[cfg_attr(feature = "schema", schema(value_type = String, example = "api"))]
    pub namespace: Text<'a>,
    /// The attributes that name the counter.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = std::collections::BTreeMap<String, String>, example = json!({"user": "ada"})))]
    pub attributes: Pairs<'a>,
    /// The limit under which the key is blocked.
    #[cfg_attr(feature = "schema", schema(value_type = String, example = "per-user"))]
    pub limit: Text<'a>,
    /// For how long, in milliseconds from now; 0 lifts the block. At most a year.
    pub for_ms: u64,
}

impl Block<'_> {
    /// For how long, or the fault of a value that is out of range.
    pub fn span(&self) -> Result<Duration, Fault> {
        let span = Duration::from_millis(self.for_ms);
        if span > BLOCK_MAX {
            let detail = format_args!("for_ms {} is more than a year", self.for_ms);
            return Err(Fault::new(FaultCode::MalformedBody, detail)
                .field("for_ms")
                .fix("send at most 31622400000 and block again before it ends"));
        }
        Ok(span)
    }
}

/// The read or write of a partitioned table.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AccessBody<'a> {
    /// The table.
    #[serde(borrow)]
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub table: Text<'a>,
    /// The key within the table.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub key: Text<'a>,
    /// Whether it reads or writes.
    pub kind: AccessKind,
    /// How many bytes it moves. Default 1, which is one unit.
    #[serde(default = "one_byte")]
    pub size: u64,
    /// For a write: the entries of indexes that it changes, at most 64. An empty list: it changes
    /// none. Default: one in each index of the table, with the key and the size of the write.
    #[cfg_attr(feature = "schema", schema(max_items = 64))]
    pub index_writes: Option<Vec<IndexWriteBody<'a>>>,
}

impl AccessBody<'_> {
    /// The most entries of indexes that one write changes.
    pub const INDEX_WRITES_MAX: usize = 64;

    /// The fault of entries of indexes that a read has, or that are too many.
    pub fn fault(&self) -> Option<Fault> {
        let fault = |detail: &str, fix: &str| {
            Some(Fault::new(FaultCode::MalformedBody, detail).field("index_writes").fix(fix))
        };
        let count = self.index_writes.as_ref().map_or(0, Vec::len);
        let is_write = matches!(self.kind, AccessKind::Write | AccessKind::WriteTransactional);
        if count > Self::INDEX_WRITES_MAX {
            let detail = format!("index_writes has {count} entries");
            return fault(&detail, "send at most 64, and the others in a request of their own");
        }
        if count > 0 && !is_write {
            return fault("a read changes no entry of an index", "leave `index_writes` out");
        }
        None
    }
}

/// An entry of an index that a write changes.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct IndexWriteBody<'a> {
    /// The index, without the name of its table.
    #[serde(borrow)]
    #[cfg_attr(feature = "schema", schema(value_type = String, example = "by-user"))]
    pub index: Text<'a>,
    /// The key of the entry in the index.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub key: Text<'a>,
    /// How many bytes of the entry are written. Default 1, which is one unit.
    #[serde(default = "one_byte")]
    pub size: u64,
}

const fn one_byte() -> u64 {
    1
}

/// The kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum AccessKind {
    /// It reads a recent value.
    Read,
    /// It reads the last value.
    ReadStrong,
    /// It reads the last value in a transaction.
    ReadTransactional,
    /// It reads a range of keys from `key` on: a recent value of each.
    Scan,
    /// It writes.
    Write,
    /// It writes in a transaction.
    WriteTransactional,
}

/// A cost as it stands in a body: 1 to `u64::MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weight(pub Cost);

impl<'de> Deserialize<'de> for Weight {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let units = deserializer.deserialize_u64(WholeNumber::<1>)?;
        Ok(Self(Cost::new(units).expect("the number is at least 1")))
    }
}

/// Reads a cost in units, at least `MIN` of them.
struct WholeNumber<const MIN: u64>;

impl<const MIN: u64> de::Visitor<'_> for WholeNumber<MIN> {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from {MIN} to {}, written without quotes or fraction", u64::MAX)
    }

    fn visit_u64<E: de::Error>(self, units: u64) -> Result<u64, E> {
        if units < MIN {
            let why = "cost 0 charges nothing; to look without charging send \"peek\": true to /v1/check";
            return Err(E::custom(why));
        }
        Ok(units)
    }
}

/// A cost if it is given; `null` counts as not given.
fn weight<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Weight>, D::Error> {
    Weight::deserialize(deserializer).map(Some)
}

/// The cost to settle with, which may be 0.
fn true_cost<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    deserializer.deserialize_u64(WholeNumber::<0>).map(Some)
}

/// A class as it stands in a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Criticality(pub Class);

impl<'de> Deserialize<'de> for Criticality {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = Text::deserialize(deserializer)?;
        name.parse().map(Criticality).map_err(de::Error::custom)
    }
}

/// Reads a body, which is an object.
pub fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Fault> {
    serde_json::from_slice(body).map(|Object(read)| read).map_err(|error| {
        if body.is_empty() {
            return Fault::new(FaultCode::MalformedBody, "the body is empty; this route takes a JSON object");
        }
        Fault::from_body::<Object<T>>(&error, body)
    })
}

#[cfg(test)]
mod tests;
