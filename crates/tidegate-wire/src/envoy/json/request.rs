//! A request as it stands in JSON.

use core::fmt;

use serde::de::{self, Unexpected};
use serde::{Deserialize, Deserializer};

use crate::envoy::rate_limit_descriptor::{Entry, RateLimitOverride};
use crate::envoy::{RateLimitDescriptor, RateLimitRequest, RateLimitUnit};
use crate::object::Object;

const U32_MAX: u64 = u32::MAX as u64;

/// A request of Envoy's rate limit service. Names may also be written as `hits_addend`; null is as
/// good as left out.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct EnvoyRequest {
    /// Whose limits apply: the name of a namespace, or of a domain. Not empty, at most 1024 bytes.
    #[cfg_attr(feature = "schema", schema(example = "api"))]
    domain: Option<String>,
    /// The descriptors to count by, 1 to 128.
    #[cfg_attr(feature = "schema", schema(value_type = Option<Vec<EnvoyDescriptor>>))]
    descriptors: Option<Vec<Object<EnvoyDescriptor>>>,
    /// The cost of each descriptor without a cost of its own; default 1, and 0 is 1.
    #[serde(alias = "hits_addend")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<u32>))]
    hits_addend: Option<Whole<U32_MAX>>,
}

/// One thing to count by: a list of keys with values.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct EnvoyDescriptor {
    /// The keys and values, 1 to 64.
    #[cfg_attr(feature = "schema", schema(value_type = Option<Vec<EnvoyEntry>>))]
    entries: Option<Vec<Object<EnvoyEntry>>>,
    /// A limit to count by in place of those that are configured.
    #[cfg_attr(feature = "schema", schema(value_type = Option<EnvoyOwnLimit>))]
    limit: Option<Object<EnvoyOwnLimit>>,
    /// The cost of this descriptor, in place of the request's; 0 only looks.
    #[serde(alias = "hits_addend")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<u64>))]
    hits_addend: Option<Whole<{ u64::MAX }>>,
    /// Whether the weight is given back instead of charged. Default false.
    #[serde(alias = "is_negative_hits")]
    is_negative_hits: Option<bool>,
}

/// One key with its value.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct EnvoyEntry {
    /// The key of the entry, 1 to 1024 bytes.
    #[cfg_attr(feature = "schema", schema(example = "user"))]
    key: Option<String>,
    /// The value in this request, at most 64 KiB. Default empty.
    #[cfg_attr(feature = "schema", schema(example = "ada"))]
    value: Option<String>,
}

/// A limit that comes with the request.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct EnvoyOwnLimit {
    /// How many units a span admits; default 0, which admits nothing.
    #[serde(alias = "requests_per_unit")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<u32>))]
    requests_per_unit: Option<Whole<U32_MAX>>,
    /// The span: `SECOND`, `MINUTE`, `HOUR`, `DAY`, `MONTH` or `YEAR`, or its number.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    unit: Option<UnitNumber>,
}

impl From<EnvoyRequest> for RateLimitRequest {
    fn from(EnvoyRequest { domain, descriptors, hits_addend }: EnvoyRequest) -> Self {
        Self {
            domain: domain.unwrap_or_default(),
            descriptors: plain(descriptors),
            hits_addend: hits_addend.map_or(0, Whole::narrow),
        }
    }
}

impl From<EnvoyDescriptor> for RateLimitDescriptor {
    fn from(EnvoyDescriptor { entries, limit, hits_addend, is_negative_hits }: EnvoyDescriptor) -> Self {
        Self {
            entries: plain(entries),
            limit: limit.map(|Object(limit)| limit.into()),
            hits_addend: hits_addend.map(|Whole(hits)| hits),
            is_negative_hits: is_negative_hits.unwrap_or_default(),
        }
    }
}

impl From<EnvoyEntry> for Entry {
    fn from(EnvoyEntry { key, value }: EnvoyEntry) -> Self {
        Self { key: key.unwrap_or_default(), value: value.unwrap_or_default() }
    }
}

impl From<EnvoyOwnLimit> for RateLimitOverride {
    fn from(EnvoyOwnLimit { requests_per_unit, unit }: EnvoyOwnLimit) -> Self {
        Self {
            requests_per_unit: requests_per_unit.map_or(0, Whole::narrow),
            unit: unit.map_or(0, |UnitNumber(unit)| unit),
        }
    }
}

fn plain<T, M: From<T>>(list: Option<Vec<Object<T>>>) -> Vec<M> {
    list.into_iter().flatten().map(|Object(one)| one.into()).collect()
}

/// A whole number from 0 to `MAX`, with or without quotes.
#[derive(Clone, Copy, Debug)]
struct Whole<const MAX: u64>(u64);

impl Whole<U32_MAX> {
    /// As the messages have it.
    fn narrow(self) -> u32 {
        u32::try_from(self.0).unwrap_or(u32::MAX)
    }
}

impl<'de, const MAX: u64> Deserialize<'de> for Whole<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WholeVisitor::<MAX>)
    }
}

struct WholeVisitor<const MAX: u64>;

impl<const MAX: u64> de::Visitor<'_> for WholeVisitor<MAX> {
    type Value = Whole<MAX>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from 0 to {MAX}")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Whole<MAX>, E> {
        if number > MAX {
            return Err(E::invalid_value(Unexpected::Unsigned(number), &self));
        }
        Ok(Whole(number))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Whole<MAX>, E> {
        match whole(number) {
            Some(whole) => self.visit_u64(whole),
            None => Err(E::invalid_value(Unexpected::Float(number), &self)),
        }
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Whole<MAX>, E> {
        // Between the quotes stands a number as it would stand without them.
        let number = text.parse::<serde_json::Number>().ok();
        let units = number.and_then(|number| number.as_u64().or_else(|| whole(number.as_f64()?)));
        match units {
            Some(units) => self.visit_u64(units),
            None => Err(E::invalid_value(Unexpected::Str(text), &self)),
        }
    }
}

/// A number that was written as `1e3` or `2.0`. Beyond 2^53 not every whole number can be written
/// so, and what was meant is not known.
fn whole(number: f64) -> Option<u64> {
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    if number.fract() != 0.0 || !(0.0..=EXACT_MAX).contains(&number) {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is whole and in range")]
    let whole = number as u64;
    Some(whole)
}

/// The number of a unit. Whether there is a unit of that number is seen when the request is
/// understood.
#[derive(Clone, Copy, Debug)]
struct UnitNumber(i32);

impl<'de> Deserialize<'de> for UnitNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UnitVisitor)
    }
}

struct UnitVisitor;

impl de::Visitor<'_> for UnitVisitor {
    type Value = UnitNumber;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SECOND, MINUTE, HOUR, DAY, MONTH or YEAR, or its number")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<UnitNumber, E> {
        let unit = RateLimitUnit::from_str_name(name);
        unit.map(|unit| UnitNumber(unit.into())).ok_or_else(|| E::invalid_value(Unexpected::Str(name), &self))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<UnitNumber, E> {
        let unit = i32::try_from(number);
        unit.map(UnitNumber).map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<UnitNumber, E> {
        let unit = i32::try_from(number);
        unit.map(UnitNumber).map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))
    }
}
