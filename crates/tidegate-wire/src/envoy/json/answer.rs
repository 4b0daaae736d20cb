//! An answer as it stands in JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use crate::envoy::{Code, DescriptorStatus, HeaderValue, RateLimit, RateLimitResponse, Unit, metadata};

/// An answer of Envoy's rate limit service. Defaults are left out: no text, 0, nothing.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct EnvoyAnswer<'a> {
    /// Whether the request may go ahead: `OK` or `OVER_LIMIT`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>, example = "OK"))]
    overall_code: Option<&'static str>,
    /// The answers for its descriptors, in their order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schema(value_type = Vec<EnvoyStatus>))]
    statuses: Vec<EnvoyStatus<'a>>,
    /// Header fields for the sender of the request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schema(value_type = Vec<EnvoyHeader>))]
    response_headers_to_add: Vec<EnvoyHeader<'a>>,
    /// Header fields for the service that handles the request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schema(value_type = Vec<EnvoyHeader>))]
    request_headers_to_add: Vec<EnvoyHeader<'a>>,
    /// The body for the sender of a refused request, in base 64.
    #[serde(skip_serializing_if = "Option::is_none")]
    raw_body: Option<String>,
    /// Metadata for other filters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Object>))]
    dynamic_metadata: Option<serde_json::Value>,
}

/// The answer for one descriptor.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct EnvoyStatus<'a> {
    /// Whether it is within its limits: `OK` or `OVER_LIMIT`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>, example = "OK"))]
    code: Option<&'static str>,
    /// The tightest of its limits; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<EnvoyLimit>))]
    current_limit: Option<EnvoyLimit<'a>>,
    /// The remaining units of that limit; absent for 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit_remaining: Option<u32>,
    /// How long until that limit is full again, or until it would admit what was refused: `3s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(example = "3s"))]
    duration_until_reset: Option<String>,
}

/// A limit as people write it.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct EnvoyLimit<'a> {
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    name: Option<&'a str>,
    /// How many units a span admits; absent for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    requests_per_unit: Option<u32>,
    /// The span, as `HOUR`; absent for one that has no name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    unit: Option<&'static str>,
}

/// A header field.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct EnvoyHeader<'a> {
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    key: Option<&'a str>,
    /// Its value as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    value: Option<&'a str>,
    /// Its value where it is not text, in base 64.
    #[serde(skip_serializing_if = "Option::is_none")]
    raw_value: Option<String>,
}

impl<'a> EnvoyAnswer<'a> {
    /// Of an answer. Its `quota` is not written: nothing is handed out that way.
    pub fn from_answer(answer: &'a RateLimitResponse) -> Self {
        Self {
            overall_code: code(answer.overall_code),
            statuses: answer.statuses.iter().map(EnvoyStatus::from_status).collect(),
            response_headers_to_add: answer
                .response_headers_to_add
                .iter()
                .map(EnvoyHeader::from_header)
                .collect(),
            request_headers_to_add: answer
                .request_headers_to_add
                .iter()
                .map(EnvoyHeader::from_header)
                .collect(),
            raw_body: bytes(&answer.raw_body),
            dynamic_metadata: answer.dynamic_metadata.as_ref().map(metadata::json),
        }
    }
}

impl<'a> EnvoyStatus<'a> {
    fn from_status(status: &'a DescriptorStatus) -> Self {
        Self {
            code: code(status.code),
            current_limit: status.current_limit.as_ref().map(EnvoyLimit::from_limit),
            limit_remaining: number(status.limit_remaining),
            duration_until_reset: status.duration_until_reset.as_ref().map(ToString::to_string),
        }
    }
}

impl<'a> EnvoyLimit<'a> {
    fn from_limit(limit: &'a RateLimit) -> Self {
        let unit = Unit::try_from(limit.unit).ok().filter(|unit| *unit != Unit::Unknown);
        Self {
            name: text(&limit.name),
            requests_per_unit: number(limit.requests_per_unit),
            unit: unit.map(|unit| unit.as_str_name()),
        }
    }
}

impl<'a> EnvoyHeader<'a> {
    fn from_header(header: &'a HeaderValue) -> Self {
        Self { key: text(&header.key), value: text(&header.value), raw_value: bytes(&header.raw_value) }
    }
}

fn code(number: i32) -> Option<&'static str> {
    let code = Code::try_from(number).ok().filter(|code| *code != Code::Unknown);
    code.map(|code| code.as_str_name())
}

fn text(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

fn number(number: u32) -> Option<u32> {
    (number != 0).then_some(number)
}

fn bytes(bytes: &[u8]) -> Option<String> {
    (!bytes.is_empty()).then(|| STANDARD.encode(bytes))
}
