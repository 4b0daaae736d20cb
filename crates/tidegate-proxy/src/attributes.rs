//! The values of a proxied request: the parts of it that identify the caller, and what the request
//! says about itself.
//!
//! A duplicate value is rejected, as at the other protocols, because the proxy does not know which
//! one the service behind it would read. A missing value is absent, and the policy decides
//! about that. A value that is too long is rejected, because cutting it would join counters.

use std::borrow::Cow;
use std::net::IpAddr;

use http::header::COOKIE;
use http::request::Parts;
use http::{HeaderMap, HeaderName};
use tidegate_wire::text::shortened;

use tidegate_net::query;
use tidegate_policy::grammar::ValueSource;

use crate::jwt::Claims;
use crate::path::PlainPath;
use crate::rejection::{Rejection, RejectionCode};

/// The longest value in bytes, unless it is set otherwise. Above it: 400.
pub const VALUE_BYTES_MAX: usize = 1 << 10;

/// The values of one request, wherever they are found in it.
#[derive(Clone, Copy, Debug)]
pub struct RequestValues<'a> {
    /// The head of the request.
    pub parts: &'a Parts,
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
    /// The longest value in bytes. Zero lets only empty values through.
    pub bytes_max: usize,
}

impl<'a> RequestValues<'a> {
    /// The attributes by name, in the order they were configured. Absent ones are left out.
    pub fn attributes(
        &self,
        sources: &'a [(String, ValueSource)],
    ) -> Result<Vec<(&'a str, Cow<'a, str>)>, Rejection> {
        let mut found = Vec::with_capacity(sources.len());
        for (name, source) in sources {
            if let Some(value) = self.value(source)? {
                found.push((name.as_str(), value));
            }
        }
        Ok(found)
    }

    /// The value of a source; `None` if it is absent.
    pub fn value(&self, source: &'a ValueSource) -> Result<Option<Cow<'a, str>>, Rejection> {
        let value = self.read(source)?;
        if let Some(value) = value.as_ref().filter(|value| value.len() > self.bytes_max) {
            let (length, most) = (value.len(), self.bytes_max);
            let detail = format_args!("{source} has {length} bytes, more than {most}");
            return Err(Rejection::new(RejectionCode::AttributeTooLong, detail).fix("send a shorter one"));
        }
        Ok(value)
    }

    /// The same of any length, for a value that is compared with known names and that no counter is
    /// named by.
    pub fn value_of_any_length(&self, source: &'a ValueSource) -> Result<Option<Cow<'a, str>>, Rejection> {
        self.read(source)
    }

    fn read(&self, source: &'a ValueSource) -> Result<Option<Cow<'a, str>>, Rejection> {
        Ok(match source {
            ValueSource::Header(name) => header_value(source, name, &self.parts.headers)?,
            ValueSource::Cookie(name) => cookie(source, &self.parts.headers, name)?,
            ValueSource::Query(name) => query_parameter(source, self.parts.uri.query().unwrap_or(""), name)?,
            ValueSource::Segment(index) => self.path.segment(*index).map(Cow::Borrowed),
            ValueSource::Path => Some(self.path.matched().into()),
            ValueSource::Method => Some(self.parts.method.as_str().into()),
            ValueSource::Host => self.host.map(Cow::Borrowed),
            ValueSource::Claim(path) => match self.claims {
                Some(claims) => claims.text(path).map_err(|kind| {
                    let detail = format_args!("{source} is {kind}, which cannot be a key");
                    Rejection::new(RejectionCode::AmbiguousAttribute, detail)
                        .fix("send a token in which it is text, a number, true or false")
                })?,
                None => None,
            },
            ValueSource::ClientIp => self.client.map(|client| client.to_canonical().to_string().into()),
            ValueSource::Constant(text) => Some(text.as_str().into()),
            // A proxied request has no entries and no log; the policy refuses these sources.
            _ => None,
        })
    }
}

/// The value of a header, which is `source`; `None` if the request lacks it.
pub(crate) fn header_value<'a>(
    source: &ValueSource,
    name: &HeaderName,
    headers: &'a HeaderMap,
) -> Result<Option<Cow<'a, str>>, Rejection> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err(twice(source));
    }
    first.map(|value| text(source, value.as_bytes())).transpose()
}

fn twice(source: &ValueSource) -> Rejection {
    Rejection::new(RejectionCode::AmbiguousAttribute, format_args!("duplicate {source}")).fix("send it once")
}

fn text<'a>(source: &ValueSource, bytes: &'a [u8]) -> Result<Cow<'a, str>, Rejection> {
    core::str::from_utf8(bytes).map(Cow::Borrowed).map_err(|_| {
        Rejection::new(RejectionCode::AmbiguousAttribute, format_args!("{source} is not UTF-8"))
            .fix("encode it as UTF-8")
    })
}

/// A cookie, from all header lines together, since HTTP/2 may split them (RFC 9113, section 8.2.3).
/// Its value is taken as it stands, quotation marks included.
fn cookie<'a>(
    source: &ValueSource,
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
    source: &ValueSource,
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
