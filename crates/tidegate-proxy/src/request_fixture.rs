//! Requests as tests of what is read from them make them.

use http::request::Parts;
use http::{HeaderValue, Request};

use crate::attributes::{RequestValues, VALUE_BYTES_MAX};
use crate::path::{PathRules, PlainPath};

/// A `GET` of `target` with these headers, any of them more than once.
pub(super) fn parts(target: &str, headers: &[(&'static str, &[u8])]) -> Parts {
    let mut request = Request::get(target).body(()).unwrap();
    for (name, value) in headers {
        request.headers_mut().append(*name, HeaderValue::from_bytes(value).unwrap());
    }
    request.into_parts().0
}

/// The path of a request, by the default rules.
pub(super) fn path(parts: &Parts) -> PlainPath<'_> {
    PlainPath::read(parts.uri.path(), PathRules::default()).unwrap()
}

/// The values of a request of a client at `::1` that brings no host and no claims.
pub(super) fn values<'a>(parts: &'a Parts, path: &'a PlainPath<'a>) -> RequestValues<'a> {
    RequestValues {
        parts,
        client: "::1".parse().ok(),
        host: None,
        path,
        claims: None,
        bytes_max: VALUE_BYTES_MAX,
    }
}
