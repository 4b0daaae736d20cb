//! The bounds of the head of a request.

use http::Version;
use http::header::HOST;
use http::request::Parts;
use http::uri::Authority;
use tidegate_wire::text::shortened;
use tidegate_wire::{Fault, FaultCode};

use crate::Bounds;

/// How much of a header is quoted, in bytes.
const SHOWN_BYTES_MAX: usize = 128;

/// Whether a head is within its bounds, and names its host as it should.
pub fn check_head(head: &Parts, bounds: &Bounds) -> Result<(), Fault> {
    let target = head.uri.path_and_query().map_or(0, |target| target.as_str().len());
    if target > bounds.uri_bytes {
        let detail = format_args!("the request target has {target} bytes; it takes {}", bounds.uri_bytes);
        return Err(Fault::new(FaultCode::UriTooLong, detail).fix("send attributes as headers"));
    }
    if head.headers.len() > bounds.headers {
        let detail = format_args!("{} headers; a request takes {}", head.headers.len(), bounds.headers);
        return Err(Fault::new(FaultCode::HeadersTooLarge, detail).fix("send fewer headers"));
    }
    check_host(head)
}

/// Checks that a request names the host it is for: exactly once over HTTP/1.1, and as a host name
/// or an address with or without a port (RFC 9112, 3.2). HTTP/1.0 and HTTP/2 may do without.
fn check_host(head: &Parts) -> Result<(), Fault> {
    let malformed = |detail: &str| Fault::new(FaultCode::MalformedHost, detail);
    let mut values = head.headers.get_all(HOST).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err(malformed("duplicate header host").fix("send it once"));
    }
    let Some(value) = first else {
        if head.version == Version::HTTP_11 {
            return Err(malformed("an HTTP/1.1 request without header host").fix("send `Host: name[:port]`"));
        }
        return Ok(());
    };
    let is_host = |text: &str| text.is_empty() || (!text.contains('@') && text.parse::<Authority>().is_ok());
    if value.to_str().is_ok_and(is_host) {
        return Ok(());
    }
    let shown = String::from_utf8_lossy(value.as_bytes());
    let shown = shortened(&shown, SHOWN_BYTES_MAX);
    Err(malformed(&format!("header host \"{shown}\" is not a host")).fix("send `Host: name[:port]`"))
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn head(target: &str, headers: &[(&'static str, &str)]) -> Parts {
        let mut request = Request::get(target);
        for (name, value) in headers {
            request = request.header(*name, http::HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn a_request_of_http_1_1_names_one_host() {
        for value in ["localhost", "127.0.0.1:8080", "[::1]:80", "Example.com", ""] {
            assert_eq!(check_host(&head("/", &[("host", value)])), Ok(()), "{value}");
        }
        for value in ["a b", "ada@example.com", "example.com/path", "\u{fc}"] {
            let fault = check_host(&head("/", &[("host", value)])).unwrap_err();
            assert_eq!(fault.code, FaultCode::MalformedHost, "{value}");
        }
        assert!(check_host(&head("/", &[])).unwrap_err().detail.contains("without header host"));
        let twice = head("/", &[("host", "a"), ("host", "a")]);
        assert!(check_host(&twice).unwrap_err().detail.contains("duplicate header host"));
        let mut older = head("/", &[]);
        older.version = Version::HTTP_10;
        assert_eq!(check_host(&older), Ok(()));
    }
}
