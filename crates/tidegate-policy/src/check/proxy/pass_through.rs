//! Checks what passes the proxy: hosts that routes match, protocols, and headers of peers that are
//! not trusted.

use http::{HeaderName, Method};

use super::super::header::{header, header_name};
use crate::grammar::ValueSource;
use crate::path::Path;
use crate::policy::proxy::{Proxy, Route};
use crate::printable::shown;
use crate::problem::Report;
use crate::raw::matcher::MatcherConfig;

/// Methods that the proxy answers with 405 whatever the routes say.
const REFUSED_METHODS: [&str; 3] = ["CONNECT", "TRACE", "TRACK"];

/// Headers in which proxies name the client, and which any client may send.
const CLIENT_ADDRESSES: [&str; 10] = [
    "cf-connecting-ip",
    "fastly-client-ip",
    "fly-client-ip",
    "forwarded",
    "true-client-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-envoy-external-address",
    "x-forwarded-for",
    "x-real-ip",
];

/// Warns of an attribute that any client may choose although it is meant to be its address.
pub(super) fn client_address(source: &ValueSource, has_trusted: bool, path: &Path, report: &mut Report<'_>) {
    let ValueSource::Header(name) = source else { return };
    if !has_trusted && CLIENT_ADDRESSES.contains(&name.as_str()) {
        let what = format!("any client may send \"{name}\" and so choose the counter it falls on");
        report.warn(
            path,
            what,
            "write client_ip, with the networks of the proxies in front under `trusted:`",
        );
    }
}

/// Warns of hosts that no request has, since the host of a request is compared in its canonical
/// spelling.
pub(super) fn hosts(raw: &MatcherConfig, path: &Path, report: &mut Report<'_>) {
    let texts: Vec<&String> = match raw {
        MatcherConfig::Exact(text) => vec![text],
        MatcherConfig::OneOf(texts) => texts.iter().collect(),
        MatcherConfig::Form(form) => form.exact.iter().chain(form.one_of.iter().flatten()).collect(),
    };
    for text in texts {
        let spelling = canonical(text);
        if spelling != *text {
            let what = format!(
                "host \"{}\" matches no request, because hosts are compared in lower case, without a port and without a \
                 dot at their end",
                shown(text)
            );
            report.warn(path, what, format!("write {}", shown(&spelling)));
        }
    }
}

/// A host as the proxy would compare it, as far as it can be told without reading it as an address.
fn canonical(text: &str) -> String {
    let host = match text.rsplit_once(':') {
        // The colons of an IPv6 address stand in brackets.
        Some((host, port)) if !port.contains(']') => host,
        _ => text,
    };
    let host = host.strip_suffix('.').unwrap_or(host);
    match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host).parse() {
        Ok(core::net::IpAddr::V6(address)) => format!("[{address}]"),
        _ => host.to_ascii_lowercase(),
    }
}

/// Warns of a method that the proxy answers itself.
pub(super) fn method(name: &Method, path: &Path, report: &mut Report<'_>) {
    if REFUSED_METHODS.contains(&name.as_str()) {
        let what = format!("method {name} matches no request, because the proxy answers it with 405");
        report.warn(path, what, "remove it");
    }
}

/// The protocols that a route lets connections change to.
pub(super) fn upgrades(raw: Option<&Vec<String>>, path: &Path, report: &mut Report<'_>) -> Vec<String> {
    let Some(raw) = raw else { return vec!["websocket".to_owned()] };
    report.check_count(path, raw.len(), "protocols", Route::UPGRADES_MAX);
    let mut upgrades = Vec::new();
    for (index, protocol) in raw.iter().take(Route::UPGRADES_MAX).enumerate() {
        let at = path.index(index);
        let lower = protocol.to_ascii_lowercase();
        let name = lower.split('/').next().unwrap_or_default();
        if matches!(name, "http" | "tls" | "h2" | "h2c" | "h3")
            || name.starts_with("h2-")
            || name.starts_with("h2c-")
        {
            let what =
                format!("\"{}\" would be a tunnel past every limit and route of the proxy", shown(protocol));
            report.value(&at, what, "remove it; for upstreams of HTTP/2 set `http2: true`");
        } else if protocol.len() > 64
            || !protocol.split('/').all(|part| header_name(part).is_some())
            || protocol.split('/').count() > 2
        {
            let what = format!("\"{}\" is not the name of a protocol", shown(protocol));
            report.value(&at, what, "write it as in `Upgrade`, for example websocket");
        } else {
            upgrades.push(lower);
        }
    }
    upgrades
}

/// The headers that pass from anybody.
pub(super) fn keep_headers(
    raw: Option<&Vec<String>>,
    path: &Path,
    report: &mut Report<'_>,
) -> Vec<HeaderName> {
    let names = raw.map(Vec::as_slice).unwrap_or_default();
    report.check_count(path, names.len(), "headers", Proxy::KEEP_HEADERS_MAX);
    let names = names.iter().take(Proxy::KEEP_HEADERS_MAX).enumerate();
    names.filter_map(|(index, name)| header(Some(name), &path.index(index), report)).collect()
}
