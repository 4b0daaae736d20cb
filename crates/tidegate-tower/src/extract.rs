//! Extractors: attributes from the head of a request.
//!
//! Nothing of the body is read before a request is admitted, so an extractor sees the head only.
//! One that finds nothing leaves the attribute out, and each limit's `missing` rule says what that
//! means. One that finds what cannot be taken (twice the same header, bytes that are not UTF-8)
//! rejects the request: which of two values the service would believe is not known here, and a
//! guess would be a way around the limits.

mod client_address;

use core::fmt;
use std::borrow::Cow;

pub use client_address::{FromClientAddress, client_address};

use http::header::HeaderName;
use http::{Extensions, HeaderMap, Method, Request, Uri};
use percent_encoding::percent_decode_str;
use tidegate_wire::text::shortened;
use tidegate_wire::{Fault, FaultCode};

/// The longest value of an attribute in bytes. A longer one is rejected; cutting it would join
/// counters.
pub const VALUE_BYTES_MAX: usize = 1024;

/// The head of a request.
///
/// ```
/// # use http::Request;
/// # use tidegate_tower::extract::{self, Extract, Head};
/// let request = Request::get("/v1/orgs/acme?limit=50").body(())?;
/// let head = Head::from_request(&request);
/// assert_eq!(extract::segment(2).extract(&head)?.as_deref(), Some("acme"));
/// assert_eq!(extract::query("limit").extract(&head)?.as_deref(), Some("50"));
/// // A closure from a head is an extractor too.
/// let is_get = |head: &Head<'_>| (head.method == "GET").then(|| "read".to_owned());
/// assert_eq!(is_get.extract(&head)?.as_deref(), Some("read"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Head<'r> {
    /// The method.
    pub method: &'r Method,
    /// The target, as it came.
    pub uri: &'r Uri,
    /// The headers; the metadata of a gRPC call.
    pub headers: &'r HeaderMap,
    /// Values that earlier layers left, such as axum's `ConnectInfo`.
    pub extensions: &'r Extensions,
}

impl<'r> Head<'r> {
    /// The head of `request`.
    pub fn from_request<B>(request: &'r Request<B>) -> Self {
        Self {
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
            extensions: request.extensions(),
        }
    }
}

/// Takes one attribute from the head of a request.
///
/// A closure from a head to `Option<String>` is one too.
pub trait Extract: Send + Sync + 'static {
    /// The value, or `None` where the request has none.
    fn extract<'h>(&'h self, head: &Head<'h>) -> Result<Option<Cow<'h, str>>, Rejection>;
}

impl<F: Fn(&Head<'_>) -> Option<String> + Send + Sync + 'static> Extract for F {
    fn extract<'h>(&'h self, head: &Head<'h>) -> Result<Option<Cow<'h, str>>, Rejection> {
        Ok(self(head).map(Cow::Owned))
    }
}

/// Why a request could not be described. It is answered with 400 (`INVALID_ARGUMENT` in gRPC), and
/// nothing is charged.
///
/// ```
/// # use std::borrow::Cow;
/// # use http::Request;
/// # use tidegate_tower::extract::{self, Extract, Head, Rejection};
/// struct NumericTenant;
///
/// impl Extract for NumericTenant {
///     fn extract<'h>(&'h self, head: &Head<'h>) -> Result<Option<Cow<'h, str>>, Rejection> {
///         let tenant = head.headers.get("x-tenant").and_then(|value| value.to_str().ok());
///         match tenant.map(str::parse::<u64>) {
///             None => Ok(None),
///             Some(Ok(number)) => Ok(Some(number.to_string().into())),
///             Some(Err(_)) => Err(Rejection::new("x-tenant is not a number; send digits only")),
///         }
///     }
/// }
///
/// let request = Request::get("/").header("x-tenant", "acme").body(())?;
/// assert!(NumericTenant.extract(&Head::from_request(&request)).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    detail: String,
}

impl Rejection {
    /// A rejection with a sentence for the caller that names the thing, shows the value and says
    /// what to do.
    pub fn new(detail: impl fmt::Display) -> Self {
        Self { detail: shortened(&detail.to_string(), tidegate_wire::fault::DETAIL_BYTES_MAX).into_owned() }
    }

    pub(crate) fn into_fault(self) -> Fault {
        Fault::new(FaultCode::MalformedQuery, self.detail)
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for Rejection {}

/// The value of a header, or of gRPC metadata.
///
/// # Panics
///
/// If `name` is no header name: that is a mistake in the program and shows at its start.
pub fn header(name: &str) -> FromHeader {
    FromHeader(name.parse().expect("a header name is made of letters, digits and `-`"))
}

/// The method, such as `GET`.
pub fn method() -> FromMethod {
    FromMethod(())
}

/// A segment of the path, counted from 0 and decoded: in `/v1/orgs/acme`, segment 2 is `acme`, as a
/// route template `/v1/orgs/{org}` has it in that place. Absent where the path is shorter or the
/// segment is empty.
pub fn segment(position: usize) -> FromSegment {
    FromSegment(position)
}

/// A parameter of the query, decoded. Twice the same name is rejected.
pub fn query(name: impl Into<String>) -> FromQuery {
    FromQuery(name.into())
}

/// The same text for every request.
pub fn constant(text: impl Into<String>) -> Constant {
    Constant(text.into())
}

/// The text that `value` reads from an extension of an earlier layer; absent where there is no such
/// extension.
pub fn extension<T, F>(value: F) -> impl Extract
where
    T: Send + Sync + 'static,
    F: Fn(&T) -> Option<String> + Send + Sync + 'static,
{
    move |head: &Head<'_>| head.extensions.get::<T>().and_then(&value)
}

/// See [`header`].
#[derive(Clone, Debug)]
pub struct FromHeader(HeaderName);

impl Extract for FromHeader {
    fn extract<'h>(&'h self, head: &Head<'h>) -> Result<Option<Cow<'h, str>>, Rejection> {
        let mut values = head.headers.get_all(&self.0).iter();
        let Some(value) = values.next() else { return Ok(None) };
        if values.next().is_some() {
            return Err(Rejection::new(format_args!("duplicate header {}; send it once", self.0)));
        }
        match core::str::from_utf8(value.as_bytes()) {
            Ok(text) => Ok(Some(Cow::Borrowed(text))),
            Err(_) => Err(Rejection::new(format_args!("header {} is not UTF-8; encode it", self.0))),
        }
    }
}

/// See [`method`].
#[derive(Clone, Debug)]
pub struct FromMethod(());

impl Extract for FromMethod {
    fn extract<'h>(&'h self, head: &Head<'h>) -> Result<Option<Cow<'h, str>>, Rejection> {
        Ok(Some(Cow::Borrowed(head.method.as_str())))
    }
}

/// See [`segment`].
#[derive(Clone, Debug)]
pub struct FromSegment(usize);

impl Extract for FromSegment {
    fn extract<'h>(&'h self, head: &Head<'h>) -> Result<Option<Cow<'h, str>>, Rejection> {
        let path = head.uri.path();
        let found = path.strip_prefix('/').unwrap_or(path).split('/').nth(self.0);
        found.filter(|text| !text.is_empty()).map(|text| decoded("path", text)).transpose()
    }
}

/// See [`query`].
#[derive(Clone, Debug)]
pub struct FromQuery(String);

impl Extract for FromQuery {
    fn extract<'h>(&'h self, head: &Head<'h>) -> Result<Option<Cow<'h, str>>, Rejection> {
        let mut found = None;
        for part in head.uri.query().unwrap_or("").split('&') {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            // Names are decoded as well: a name written in another way is the same name to the
            // service.
            if *form_decoded(name)? == *self.0 && found.replace(value).is_some() {
                let detail = format_args!("duplicate \"{}\" in the query; send it once", self.0);
                return Err(Rejection::new(detail));
            }
        }
        found.map(form_decoded).transpose()
    }
}

/// See [`constant`].
#[derive(Clone, Debug)]
pub struct Constant(String);

impl Extract for Constant {
    fn extract<'h>(&'h self, _head: &Head<'h>) -> Result<Option<Cow<'h, str>>, Rejection> {
        Ok(Some(Cow::Borrowed(&self.0)))
    }
}

fn form_decoded(part: &str) -> Result<Cow<'_, str>, Rejection> {
    if part.contains('+') {
        return Ok(Cow::Owned(decoded("query", &part.replace('+', " "))?.into_owned()));
    }
    decoded("query", part)
}

fn decoded<'a>(place: &str, text: &'a str) -> Result<Cow<'a, str>, Rejection> {
    percent_decode_str(text).decode_utf8().map_err(|_| {
        Rejection::new(format_args!("the {place} is not UTF-8 when decoded; encode it as UTF-8"))
    })
}

#[cfg(test)]
mod tests;
