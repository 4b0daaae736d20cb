//! Listeners without authorization, and the pages that a browser on the same machine shows.
//!
//! Every program that reaches such a listener may do everything, and a browser reaches loopback for
//! any page it shows. This module closes two ways. A page of another site that sends a request says
//! so in `Origin` or `Sec-Fetch-Site`. A page whose host name is made to resolve to 127.0.0.1 (DNS
//! rebinding) is of the same site as far as the browser can see, but its requests name its own
//! host, which is not a name of this machine.
//!
//! Programs send neither header, and name the address they connect to. `/v1/authorize` is exempt,
//! since gateways pass on the headers and the host of their own clients; so are `/healthz` and
//! `/readyz`, which tell nothing. A listener with TLS needs no look at the host, because the
//! browser holds it against the certificate.

use std::net::IpAddr;

use http::header::{HOST, HeaderName, ORIGIN};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, Uri};
use tidegate_wire::text::shortened;
use tidegate_wire::{Fault, FaultCode};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// How much of a header is quoted, in bytes.
const SHOWN_BYTES_MAX: usize = 128;

/// Rejects a request that a page of another site has made a browser send.
pub(crate) fn check_site(headers: &HeaderMap) -> Result<(), Fault> {
    let is_cross_site = headers.get_all(SEC_FETCH_SITE).iter().any(|site| site == "cross-site");
    if is_cross_site {
        return Err(forbidden("a page of another site sent this (Sec-Fetch-Site: cross-site)".to_owned()));
    }
    for origin in headers.get_all(ORIGIN) {
        let text = String::from_utf8_lossy(origin.as_bytes());
        let host = text.parse::<Uri>().ok().filter(|origin| origin.scheme().is_some());
        if !host.is_some_and(|origin| origin.host().is_some_and(is_loopback)) {
            let shown = shortened(&text, SHOWN_BYTES_MAX);
            return Err(forbidden(format!("a page of another site sent this (Origin: {shown})")));
        }
    }
    Ok(())
}

/// Rejects a request to a listener on loopback that names a host on the internet.
///
/// An address, `localhost`, a name below it, and a name without a dot are accepted. A name without
/// a dot cannot be registered by a stranger, and gateways use such names for upstreams.
pub(crate) fn check_rebinding(head: &Parts) -> Result<(), Fault> {
    let header = head.headers.get(HOST).and_then(|host| host.to_str().ok()).filter(|host| !host.is_empty());
    let header = header.and_then(|host| host.parse::<Authority>().ok());
    for authority in head.uri.authority().into_iter().chain(header.as_ref()) {
        if !is_of_this_machine(authority.host()) {
            let shown = shortened(authority.host(), SHOWN_BYTES_MAX);
            return Err(forbidden(format!("\"{shown}\" is not a name of this machine")));
        }
    }
    Ok(())
}

fn forbidden(detail: String) -> Fault {
    Fault::new(FaultCode::Forbidden, detail)
        .fix("ask as 127.0.0.1 or localhost, or set `authorization` in the policy")
}

/// Whether a page that was loaded from this host cannot be a stranger's: `localhost`, a name below
/// it, or an address of loopback.
fn is_loopback(host: &str) -> bool {
    let (_, top) = host.rsplit_once('.').unwrap_or(("", host));
    top.eq_ignore_ascii_case("localhost")
        || address_of(host).is_some_and(|address| address.to_canonical().is_loopback())
}

/// Whether no foreign name server can have made this host resolve to an address of this machine.
fn is_of_this_machine(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    is_loopback(host) || !host.contains('.') || address_of(host).is_some()
}

/// The address that a host is written as; IPv6 in brackets.
fn address_of(host: &str) -> Option<IpAddr> {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    bare.unwrap_or(host).parse().ok()
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
    fn only_names_that_a_stranger_cannot_have_are_names_of_this_machine() {
        for host in ["localhost", "LOCALHOST:8080", "app.localhost", "localhost.", "127.0.0.1:80", "10.0.0.7"]
        {
            assert_eq!(check_rebinding(&head("/", &[("host", host)])), Ok(()), "{host}");
        }
        for host in ["[::1]:8080", "[fe80::1]", "tidegate", "tidegate:8080", ""] {
            assert_eq!(check_rebinding(&head("/", &[("host", host)])), Ok(()), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example:8080", "127.0.0.1.evil.example", "1.2.3.4.5"] {
            let fault = check_rebinding(&head("/", &[("host", host)])).unwrap_err();
            assert_eq!(fault.code, FaultCode::Forbidden, "{host}");
        }
        let absolute = head("http://evil.example/v1/check", &[("host", "localhost")]);
        assert!(check_rebinding(&absolute).unwrap_err().detail.contains("\"evil.example\""));
    }

    #[test]
    fn pages_of_other_sites_are_rejected_and_programs_and_local_pages_are_not() {
        for (name, value) in [
            ("origin", "http://localhost:3000"),
            ("origin", "http://127.0.0.1:8080"),
            ("origin", "http://[::1]:8080"),
            ("origin", "https://app.localhost"),
            ("sec-fetch-site", "same-origin"),
            ("sec-fetch-site", "none"),
            ("accept", "*/*"),
        ] {
            assert_eq!(check_site(&head("/", &[(name, value)]).headers), Ok(()), "{name}: {value}");
        }
        for (name, value) in [
            ("origin", "https://evil.example"),
            ("origin", "http://203.0.113.5"),
            ("origin", "http://intranet"),
            ("origin", "null"),
            ("origin", ""),
            ("origin", "chrome-extension://abc.def"),
            ("sec-fetch-site", "cross-site"),
        ] {
            let fault = check_site(&head("/", &[(name, value)]).headers).unwrap_err();
            assert_eq!(fault.code, FaultCode::Forbidden, "{name}: {value}");
        }
        let hidden = [("origin", "http://localhost"), ("origin", "https://evil.example")];
        check_site(&head("/", &hidden).headers).unwrap_err();
    }
}
