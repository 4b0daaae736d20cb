//! The members of a refusal's body that only one plane sets.

use serde::{Serialize, Serializer};
use serde_json::Value;
use tidegate_core::{CapacityDetails, OverloadDetails, RefusalView};

/// The typed details of a refusal as JSON, with the name of their member in a body: `capacity` or
/// `overload`. `None` for a refusal by limits, and for one because a feature is off, whose members
/// are texts: see [`ShownFeature::from_refusal`](crate::headers::ShownFeature::from_refusal).
pub fn details_of(refusal: &RefusalView<'_>) -> Option<(&'static str, Value)> {
    let details = refusal.details?;
    let capacity =
        || details.capacity().map(|one| ("capacity", serde_json::to_value(CapacityBody::from_details(one))));
    let overload =
        || details.overload().map(|one| ("overload", serde_json::to_value(OverloadBody::from_details(one))));
    let (name, value) = capacity().or_else(overload)?;
    Some((name, value.ok()?))
}

/// The part of a table that throttled an access.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CapacityBody<'a> {
    /// The table.
    #[cfg_attr(feature = "schema", schema(value_type = String, example = "orders"))]
    table: &'a str,
    /// The index of the table; absent if the table itself throttled the access.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>, example = "by-user"))]
    index: Option<&'a str>,
    /// `read` or `write`; each has throughput of its own.
    #[cfg_attr(feature = "schema", schema(value_type = String, example = "write"))]
    operation: &'static str,
    /// The number of the key's partition, which is never used twice in its table.
    partition: u32,
    /// The keys of that partition: by hash the first and the last hash, as 16 hexadecimal digits
    /// each; by slot the first and the last slot; by range the first key and the one behind the
    /// last.
    #[cfg_attr(feature = "schema", schema(value_type = String, example = "4000000000000000-7fffffffffffffff"))]
    key_range: &'a str,
    /// The node on which the partition lies.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    node: &'a str,
    /// Capacity units a second that the partition is allocated for this operation.
    #[cfg_attr(feature = "schema", schema(value_type = f64))]
    rate: UnitsNumber,
    /// Capacity units a second that the partition may reach; absent where its share is the bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<f64>))]
    ceiling: Option<UnitsNumber>,
    /// Capacity units a second that the partition consumed lately; absent where consumption is not
    /// observed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<f64>))]
    consumed: Option<UnitsNumber>,
    /// Capacity units of burst credit left; absent in a mode that spends none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<f64>))]
    burst_left: Option<UnitsNumber>,
}

impl<'a> CapacityBody<'a> {
    pub(crate) fn from_details(details: &'a CapacityDetails) -> Self {
        Self {
            table: &details.table,
            index: details.index.as_deref(),
            operation: details.operation.as_str(),
            partition: details.partition,
            key_range: &details.key_range,
            node: &details.node,
            rate: UnitsNumber(details.rate_thousandths),
            ceiling: details.ceiling_thousandths.map(UnitsNumber),
            consumed: details.consumed_thousandths.map(UnitsNumber),
            burst_left: details.burst_left_thousandths.map(UnitsNumber),
        }
    }
}

/// The state of the resource that shed a request.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OverloadBody<'a> {
    /// The name of the resource; absent for the default resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    resource: Option<&'a str>,
    /// The level of the request: its class (0 is `sheddable`) times 128, plus the cohort of its
    /// tenant. Only where `limit` is `admission_cursor`.
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<u16>,
    /// The position of the admission cursor: requests of a lower level are shed. 0 is open.
    cursor: u16,
    /// The signal that made the resource refuse: `in_flight`, `pressure`, `queue_delay` or `pin`.
    #[cfg_attr(feature = "schema", schema(value_type = String, example = "pressure"))]
    binding_signal: &'static str,
}

impl<'a> OverloadBody<'a> {
    pub(crate) fn from_details(details: &'a OverloadDetails) -> Self {
        Self {
            resource: details.resource.as_deref(),
            level: details.mechanism.level(),
            cursor: details.cursor,
            binding_signal: details.binding_signal.as_str(),
        }
    }
}

/// An amount in thousandths of a unit, written as a number of units: `12` or `0.5`.
#[derive(Debug)]
struct UnitsNumber(u64);

impl Serialize for UnitsNumber {
    #[expect(clippy::cast_precision_loss, reason = "rates are at most a million units, 10^9 thousandths")]
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 % 1000 {
            0 => serializer.serialize_u64(self.0 / 1000),
            _ => serializer.serialize_f64(self.0 as f64 / 1000.0),
        }
    }
}
