//! Checks the address of a server, and what it is called in a certificate.

use core::net::{IpAddr, Ipv6Addr};

use crate::policy::proxy::UpstreamTls;
use crate::printable::shown;

const WRITE: &str = "write http://HOST:PORT or https://HOST:PORT";

/// Whether `text` is `http://HOST:PORT` or `https://HOST:PORT`, the port left out for 80 and 443,
/// and goes with `tls`.
pub(super) fn check(text: &str, tls: Option<&UpstreamTls>) -> Result<(), (String, String)> {
    let wrong = |what: &str, fix: &str| Err((format!("server \"{}\" {what}", shown(text)), fix.to_owned()));
    let Some((scheme, rest)) = text.split_once("://") else {
        return wrong("has no scheme", &format!("write http://{}", shown(text)));
    };
    if scheme != "http" && scheme != "https" {
        return wrong("is of a scheme that is neither http nor https", WRITE);
    }
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    if authority.contains(['/', '?', '#', '@']) {
        return wrong("has more than a host and a port", WRITE);
    }
    let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, port)) => {
            if host.parse::<Ipv6Addr>().is_err() {
                return wrong("has no address between its brackets", "write http://[::1]:3000");
            }
            (host, port.strip_prefix(':'))
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._:".contains(c);
    if host.is_empty() || !host.chars().all(is_plain) {
        return wrong("has no host", WRITE);
    }
    if port.is_some_and(|port| port.parse::<u16>().is_err() || port == "0") {
        return wrong("has no port from 1 to 65535", WRITE);
    }
    if scheme == "http" && tls.is_some() {
        let fix = format!("write https://{}, or take `tls` out", shown(authority));
        return wrong("is connected to without TLS, and its upstream has `tls`", &fix);
    }
    if scheme == "https" && !is_name(host) && tls.is_none_or(|tls| tls.server_name.is_none()) {
        return wrong(
            "has a host that no certificate can be for",
            "say what it is as `tls: { server_name: NAME }`",
        );
    }
    Ok(())
}

/// Whether a certificate can be for `name`: an address, or the name of a host.
pub(super) fn is_name(name: &str) -> bool {
    if name.parse::<IpAddr>().is_ok() {
        return true;
    }
    let whole = name.strip_suffix('.').unwrap_or(name);
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
    };
    let last = whole.rsplit('.').next().unwrap_or_default();
    // A host whose last label is numeric would be parsed as an invalid IPv4 address.
    whole.len() <= 253 && whole.split('.').all(is_label) && !last.bytes().all(|byte| byte.is_ascii_digit())
}
