//! The answer to the sender of a message that is not a valid request.
//!
//! A fault is not a refusal: nothing was decided and nothing was charged. Its body is a problem
//! (RFC 9457) of type `about:blank` with a stable `error` code, a sentence, what to do about it,
//! and the place where that is known.

#[cfg(feature = "api")]
mod from_body;

#[cfg(feature = "api")]
pub use from_body::in_words_of_json;

use core::fmt;
use std::borrow::Cow;

use serde::Serialize;

use crate::text::shortened;

/// The longest sentence of a fault in bytes, without the `…` of one that is cut: untrusted text is
/// quoted only in part.
pub const DETAIL_BYTES_MAX: usize = 400;

/// The code of a fault, from a closed and stable list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultCode {
    /// The body is not the JSON that the route takes.
    MalformedBody,
    /// The query or a header of a gateway subrequest cannot be taken.
    MalformedQuery,
    /// The request has no `Host`, more than one, or one that is not a host name or an address.
    MalformedHost,
    /// The request asks for something this version does not have.
    NotAvailable,
    /// No such route.
    UnknownRoute,
    /// No such namespace.
    UnknownNamespace,
    /// No such limit, or it does not apply to the request.
    UnknownLimit,
    /// An access to a table that the namespace lacks.
    UnknownTable,
    /// An access to a table of another namespace.
    ForeignTable,
    /// A resource that the policy lacks.
    UnknownResource,
    /// No feature of this name has levels.
    UnknownFeature,
    /// No signal of this name is pushed.
    UnknownSignal,
    /// No such permit: never given, already settled, or expired.
    UnknownPermit,
    /// A tenant whose use is not tracked.
    UnknownTenant,
    /// Nobody that is known asks.
    Unauthenticated,
    /// The caller has no grant for this.
    Forbidden,
    /// The route exists, with another method.
    MethodNotAllowed,
    /// The body did not arrive in time.
    BodyTimeout,
    /// The body is larger than the bound.
    BodyTooLarge,
    /// More headers, or longer ones, than the bound.
    HeadersTooLarge,
    /// The address is longer than the bound.
    UriTooLong,
    /// The store could not write durable state, or could not read the counter; no change is known
    /// to have been made.
    StoreUnavailable,
    /// As many permits or refund keys are kept as the bound allows.
    TooManyKept,
    /// The unfinished bodies of all requests together have as many bytes as the daemon holds.
    BodyMemoryFull,
    /// No server of the upstream could be reached; nothing was sent to one.
    UpstreamUnreachable,
    /// The server behind the proxy broke off, or did not answer in HTTP.
    UpstreamBroken,
    /// The server behind the proxy did not answer in time.
    UpstreamTimeout,
    /// A defect of the daemon. Nothing is known to be charged.
    Internal,
}

impl FaultCode {
    /// Every code.
    pub const ALL: [Self; 28] = [
        Self::MalformedBody,
        Self::MalformedQuery,
        Self::MalformedHost,
        Self::NotAvailable,
        Self::UnknownRoute,
        Self::UnknownNamespace,
        Self::UnknownLimit,
        Self::UnknownTable,
        Self::ForeignTable,
        Self::UnknownResource,
        Self::UnknownFeature,
        Self::UnknownSignal,
        Self::UnknownPermit,
        Self::UnknownTenant,
        Self::Unauthenticated,
        Self::Forbidden,
        Self::MethodNotAllowed,
        Self::BodyTimeout,
        Self::BodyTooLarge,
        Self::HeadersTooLarge,
        Self::UriTooLong,
        Self::StoreUnavailable,
        Self::TooManyKept,
        Self::BodyMemoryFull,
        Self::UpstreamUnreachable,
        Self::UpstreamBroken,
        Self::UpstreamTimeout,
        Self::Internal,
    ];

    /// The name in bodies and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MalformedBody => "malformed_body",
            Self::MalformedQuery => "malformed_query",
            Self::MalformedHost => "malformed_host",
            Self::NotAvailable => "not_available",
            Self::UnknownRoute => "unknown_route",
            Self::UnknownNamespace => "unknown_namespace",
            Self::UnknownLimit => "unknown_limit",
            Self::UnknownTable => "unknown_table",
            Self::ForeignTable => "table_of_another_namespace",
            Self::UnknownResource => "unknown_resource",
            Self::UnknownFeature => "unknown_feature",
            Self::UnknownSignal => "unknown_signal",
            Self::UnknownPermit => "unknown_permit",
            Self::UnknownTenant => "unknown_tenant",
            Self::Unauthenticated => "unauthenticated",
            Self::Forbidden => "forbidden",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::BodyTimeout => "body_timeout",
            Self::BodyTooLarge => "body_too_large",
            Self::HeadersTooLarge => "headers_too_large",
            Self::UriTooLong => "uri_too_long",
            Self::StoreUnavailable => "store_unavailable",
            Self::TooManyKept => "too_many_kept",
            Self::BodyMemoryFull => "body_memory_full",
            Self::UpstreamUnreachable => "upstream_unreachable",
            Self::UpstreamBroken => "upstream_broken",
            Self::UpstreamTimeout => "upstream_timeout",
            Self::Internal => "internal",
        }
    }

    /// The HTTP status.
    pub const fn status(self) -> u16 {
        match self {
            Self::MalformedBody
            | Self::MalformedQuery
            | Self::MalformedHost
            | Self::NotAvailable
            | Self::UnknownTable
            | Self::UnknownResource => 400,
            Self::UnknownRoute
            | Self::UnknownNamespace
            | Self::UnknownLimit
            | Self::ForeignTable
            | Self::UnknownFeature
            | Self::UnknownSignal
            | Self::UnknownPermit
            | Self::UnknownTenant => 404,
            Self::Unauthenticated => 401,
            Self::Forbidden => 403,
            Self::MethodNotAllowed => 405,
            Self::BodyTimeout => 408,
            Self::BodyTooLarge => 413,
            Self::UriTooLong => 414,
            Self::HeadersTooLarge => 431,
            Self::Internal => 500,
            Self::UpstreamUnreachable | Self::UpstreamBroken => 502,
            Self::UpstreamTimeout => 504,
            Self::StoreUnavailable | Self::TooManyKept | Self::BodyMemoryFull => 503,
        }
    }

    const fn title(self) -> &'static str {
        match self.status() {
            400 => "Bad Request",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            408 => "Request Timeout",
            413 => "Content Too Large",
            414 => "URI Too Long",
            431 => "Request Header Fields Too Large",
            502 => "Bad Gateway",
            503 => "Service Unavailable",
            504 => "Gateway Timeout",
            _ => "Internal Server Error",
        }
    }
}

/// One fault, as its sender is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The code of the fault.
    pub code: FaultCode,
    /// The problem, as a sentence that shows the value.
    pub detail: String,
    /// The fix.
    pub fix: Option<String>,
    /// Where in the body, as a path of keys.
    pub field: Option<String>,
    /// Where in the body, as a line and a column from 1.
    pub position: Option<(usize, usize)>,
    /// Seconds after which trying again may help.
    pub retry_after_seconds: Option<u64>,
}

impl Fault {
    /// A fault with a sentence.
    pub fn new(code: FaultCode, detail: impl fmt::Display) -> Self {
        let detail = shortened(&detail.to_string(), DETAIL_BYTES_MAX).into_owned();
        Self { code, detail, fix: None, field: None, position: None, retry_after_seconds: None }
    }

    /// The same fault with what to do about it.
    #[must_use]
    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// The same fault in this field of the body.
    #[must_use]
    pub fn field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// The same fault, with the wait after which trying again may help.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after_seconds = Some(seconds);
        self
    }

    /// Appends the body.
    pub fn write_body(&self, out: &mut Vec<u8>) {
        let body = FaultBody {
            r#type: "about:blank".into(),
            title: self.code.title().into(),
            status: self.code.status(),
            error: self.code.as_str().into(),
            detail: self.detail.as_str().into(),
            fix: self.fix.as_deref().map(Into::into),
            field: self.field.as_deref().map(Into::into),
            line: self.position.map(|(line, _)| line),
            column: self.position.map(|(_, column)| column),
        };
        serde_json::to_writer(out, &body)
            .expect("text and numbers always serialise, and a vector takes all bytes");
    }
}

/// The body of an answer to a message that could not be taken: problem details (RFC 9457).
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct FaultBody<'a> {
    /// Always `about:blank`: the status says the kind.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    r#type: Cow<'a, str>,
    /// The phrase of the status.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    title: Cow<'a, str>,
    /// The HTTP status.
    status: u16,
    /// The code of the fault: one of a closed, stable list.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    error: Cow<'a, str>,
    /// The problem, for people.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    detail: Cow<'a, str>,
    /// The fix.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    fix: Option<Cow<'a, str>>,
    /// Where in the body, as a path of keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    field: Option<Cow<'a, str>>,
    /// Where in the body: the line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    /// Where in the body: the column, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<usize>,
}

#[cfg(test)]
mod tests;
