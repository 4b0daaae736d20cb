//! The attributes of a proxied request: the parts of it that identify the caller.
//!
//! A duplicate attribute is rejected, as at the other doors, because the proxy does not know which
//! one the service behind it would read. A missing attribute is absent, and the policy decides
//! about that. A value that is too long is rejected, because cutting it would join counters.

use std::borrow::Cow;
use std::net::IpAddr;

use http::HeaderMap;
use http::header::COOKIE;
use http::request::Parts;
use tidegate_wire::text::shortened;

use super::jwt::Claims;
use super::path::PlainPath;
use super::rejection::{Rejection, RejectionCode};
use crate::query;

mod source;

pub use source::{AttributeSource, NotASource, SOURCE_BYTES_MAX};

/// The longest value of an attribute in bytes, unless it is set otherwise. Above it: 400.
pub const VALUE_BYTES_MAX: usize = 1 << 10;

/// The facts about a request that its head does not contain.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The address of the client behind the trusted proxies; `None` on a Unix socket where no
    /// trusted proxy names it.
    pub client: Option<IpAddr>,
    /// The host that was asked for, in its canonical spelling and without a port; `None` if the
    /// request names none.
    pub host: Option<&'a str>,
    /// Its path, in the one meaning it has.
    pub path: &'a PlainPath<'a>,
    /// The claims of its token, if it came with one that is valid.
    pub claims: Option<&'a Claims>,
}

/// The attributes of requests on one route, and which of them is the tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestAttributes {
    sources: Vec<(String, AttributeSource)>,
    tenant: Option<String>,
    value_bytes_max: usize,
}

/// Attributes that cannot be configured so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttributesError {
    /// More attributes than are looked at.
    #[error("{0} attributes are more than {max}; leave out those that no limit uses", max = tidegate::Attributes::MAX)]
    TooMany(usize),
    /// A duplicate, of which only the first would count.
    #[error("duplicate attribute \"{0}\"; remove one")]
    Twice(String),
    /// A name that is empty.
    #[error("an attribute has an empty name; name it as the limits do")]
    Unnamed,
    /// The tenant is not one of the attributes.
    #[error("tenant \"{0}\" is not an attribute of the route; add it to `attributes`, or remove it")]
    UnknownTenant(String),
}

impl RequestAttributes {
    /// Attributes by name, at most [`tidegate::Attributes::MAX`], with values of at most
    /// [`VALUE_BYTES_MAX`] bytes and without a tenant.
    pub fn new(
        sources: impl IntoIterator<Item = (String, AttributeSource)>,
    ) -> Result<Self, AttributesError> {
        let sources: Vec<_> = sources.into_iter().collect();
        if sources.len() > tidegate::Attributes::MAX {
            return Err(AttributesError::TooMany(sources.len()));
        }
        for (index, (name, _)) in sources.iter().enumerate() {
            if name.is_empty() {
                return Err(AttributesError::Unnamed);
            }
            if sources[..index].iter().any(|(known, _)| known == name) {
                return Err(AttributesError::Twice(name.clone()));
            }
        }
        Ok(Self { sources, tenant: None, value_bytes_max: VALUE_BYTES_MAX })
    }

    /// The same attributes, of which this one says who pays.
    pub fn with_tenant(mut self, name: impl Into<String>) -> Result<Self, AttributesError> {
        let name = name.into();
        if !self.sources.iter().any(|(known, _)| *known == name) {
            return Err(AttributesError::UnknownTenant(name));
        }
        self.tenant = Some(name);
        Ok(self)
    }

    /// The same attributes with another bound of their values in bytes. Zero lets only empty values
    /// through.
    #[must_use]
    pub fn with_value_bytes_max(mut self, bytes: usize) -> Self {
        self.value_bytes_max = bytes;
        self
    }

    /// Where each attribute comes from.
    pub(crate) fn sources(&self) -> impl Iterator<Item = &AttributeSource> {
        self.sources.iter().map(|(_, source)| source)
    }

    /// Whether any attribute comes from a token, so that one must be read.
    pub fn need_claims(&self) -> bool {
        self.sources.iter().any(|(_, source)| matches!(source, AttributeSource::Claim(_)))
    }

    /// The name of the attribute that says who pays.
    pub fn tenant(&self) -> Option<&str> {
        self.tenant.as_deref()
    }

    /// The attributes of one request by name, in the order they were configured. Absent ones are
    /// left out.
    pub fn extract<'a>(
        &'a self,
        parts: &'a Parts,
        context: &Context<'a>,
    ) -> Result<Vec<(&'a str, Cow<'a, str>)>, Rejection> {
        let mut found = Vec::with_capacity(self.sources.len());
        for (name, source) in &self.sources {
            let Some(value) = source.value(parts, context)? else { continue };
            if value.len() > self.value_bytes_max {
                let (length, most) = (value.len(), self.value_bytes_max);
                let detail = format_args!("{source} has {length} bytes, more than {most}");
                return Err(Rejection::new(RejectionCode::AttributeTooLong, detail).fix("send a shorter one"));
            }
            found.push((name.as_str(), value));
        }
        Ok(found)
    }
}

impl AttributeSource {
    /// The value in one request; `None` if it is absent.
    fn value<'a>(
        &'a self,
        parts: &'a Parts,
        context: &Context<'a>,
    ) -> Result<Option<Cow<'a, str>>, Rejection> {
        Ok(match self {
            Self::Header(name) => {
                let mut values = parts.headers.get_all(name).iter();
                let first = values.next();
                if values.next().is_some() {
                    return Err(twice(self));
                }
                first.map(|value| text(self, value.as_bytes())).transpose()?
            }
            Self::Cookie(name) => cookie(self, &parts.headers, name)?,
            Self::Query(name) => query_parameter(self, parts.uri.query().unwrap_or(""), name)?,
            Self::Segment(index) => context.path.segment(*index).map(Cow::Borrowed),
            Self::Path => Some(context.path.matched().into()),
            Self::Method => Some(parts.method.as_str().into()),
            Self::Host => context.host.map(Cow::Borrowed),
            Self::Claim(path) => match context.claims {
                Some(claims) => claims.text(path).map_err(|kind| {
                    let detail = format_args!("{self} is {kind}, which cannot be a key");
                    Rejection::new(RejectionCode::AmbiguousAttribute, detail)
                        .fix("send a token in which it is text, a number, true or false")
                })?,
                None => None,
            },
            Self::ClientIp => context.client.map(|client| client.to_canonical().to_string().into()),
            Self::Constant(text) => Some(text.as_str().into()),
        })
    }
}

fn twice(source: &AttributeSource) -> Rejection {
    Rejection::new(RejectionCode::AmbiguousAttribute, format_args!("duplicate {source}")).fix("send it once")
}

fn text<'a>(source: &AttributeSource, bytes: &'a [u8]) -> Result<Cow<'a, str>, Rejection> {
    core::str::from_utf8(bytes).map(Cow::Borrowed).map_err(|_| {
        Rejection::new(RejectionCode::AmbiguousAttribute, format_args!("{source} is not UTF-8"))
            .fix("encode it as UTF-8")
    })
}

/// A cookie, from all header lines together, since HTTP/2 may split them (RFC 9113, section 8.2.3).
/// Its value is taken as it stands, quotation marks included.
fn cookie<'a>(
    source: &AttributeSource,
    headers: &'a HeaderMap,
    wanted: &str,
) -> Result<Option<Cow<'a, str>>, Rejection> {
    let mut found = None;
    let lines = headers.get_all(COOKIE).iter();
    for pair in lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b';')) {
        let Some(equals) = pair.iter().position(|byte| *byte == b'=') else { continue };
        if pair[..equals].trim_ascii() != wanted.as_bytes() {
            continue;
        }
        if found.is_some() {
            return Err(twice(source));
        }
        found = Some(text(source, pair[equals + 1..].trim_ascii())?);
    }
    Ok(found)
}

/// A parameter of the query.
fn query_parameter<'a>(
    source: &AttributeSource,
    query: &'a str,
    wanted: &str,
) -> Result<Option<Cow<'a, str>>, Rejection> {
    let mut found = None;
    for parameter in query::parameters(query) {
        if parameter.hides(wanted) {
            let detail = format_args!("{source} stands behind a ; which servers read differently");
            return Err(Rejection::new(RejectionCode::AmbiguousAttribute, detail)
                .fix("separate parameters with &, and write %3B for ;"));
        }
        if !parameter.is_named(wanted) {
            continue;
        }
        if found.is_some() {
            return Err(twice(source));
        }
        let (_, value) = parameter.raw();
        found = Some(query::decoded(value).map_err(|error| {
            let value = shortened(value, 64);
            let detail = format_args!("{source} \"{value}\" {error}");
            Rejection::new(RejectionCode::AmbiguousAttribute, detail).fix("percent-encode it as UTF-8")
        })?);
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
