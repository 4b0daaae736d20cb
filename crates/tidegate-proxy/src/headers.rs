//! The headers of a request and of an answer as they are forwarded: without those of one connection
//! and those that only a trusted proxy may set, and with those that tell the upstream about the
//! client.

use core::fmt::Write;
use std::net::IpAddr;

use bytes::BytesMut;
use http::header::{
    CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, FORWARDED, HOST, HeaderName, TE, UPGRADE, VIA,
};
use http::{HeaderMap, HeaderValue, Version};
use tidegate_net::reply::PERMIT;

mod rules;

pub(crate) use rules::{HeaderRules, is_refused_method};

use rules::HOP_BY_HOP;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// The name of a proxy in `Via`.
const PSEUDONYM: &str = "tidegate";

/// The sender of a request, as the headers for the upstream describe it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender<'a> {
    /// The other end of the connection; `None` on a Unix socket.
    pub(crate) peer: Option<IpAddr>,
    /// Whether it speaks TLS.
    pub(crate) is_tls: bool,
    /// Whether its headers about earlier senders are trusted.
    pub(crate) is_trusted: bool,
    /// The host that was asked for.
    pub(crate) host: Option<&'a HeaderValue>,
    pub(crate) version: Version,
}

/// Removes the headers of one connection. A request is held against
/// [`HeaderRules::check_connection`] before.
pub(crate) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let mut named: smallvec::SmallVec<[HeaderName; 4]> = smallvec::SmallVec::new();
    for value in headers.get_all(CONNECTION) {
        for option in value.as_bytes().split(|byte| *byte == b',') {
            // An answer cannot do without these, whatever its sender says.
            if let Ok(name) = HeaderName::from_bytes(option.trim_ascii())
                && ![HOST, CONTENT_LENGTH, VIA, FORWARDED].contains(&name)
            {
                named.push(name);
            }
        }
    }
    let takes_trailers = headers.get_all(TE).iter().any(|value| {
        value.to_str().unwrap_or_default().split(',').any(|one| one.trim().eq_ignore_ascii_case("trailers"))
    });
    for name in HOP_BY_HOP.iter().chain(&named) {
        headers.remove(name);
    }
    if takes_trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
}

/// The first protocol of `Upgrade` that is among `allowed`, as it is written there; `None` if
/// `Connection` does not ask for a change.
pub(crate) fn offered_protocol<'a>(headers: &HeaderMap, allowed: &'a [String]) -> Option<&'a str> {
    let mut options = headers.get_all(CONNECTION).iter().flat_map(tokens);
    if !options.any(|option| option.eq_ignore_ascii_case(b"upgrade")) {
        return None;
    }
    let mut offered = headers.get_all(UPGRADE).iter().flat_map(tokens);
    offered
        .find_map(|one| allowed.iter().find(|known| one.eq_ignore_ascii_case(known.as_bytes())))
        .map(String::as_str)
}

/// Whether an answer changes to this protocol, and to no other beside it.
pub(crate) fn changes_to(headers: &HeaderMap, protocol: &str) -> bool {
    let mut chosen = headers.get_all(UPGRADE).iter().flat_map(tokens);
    chosen.next().is_some_and(|one| one.eq_ignore_ascii_case(protocol.as_bytes())) && chosen.next().is_none()
}

fn tokens(line: &HeaderValue) -> impl Iterator<Item = &[u8]> {
    line.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

/// Joins the lines of `Cookie` into one. HTTP/2 lets a client split them (RFC 9113, section 8.2.3);
/// a server of HTTP/1.1 that reads the first line only would see another cookie than the one that
/// was counted.
pub(crate) fn join_cookies(headers: &mut HeaderMap) {
    if headers.get_all(COOKIE).iter().nth(1).is_none() {
        return;
    }
    let mut all = BytesMut::with_capacity(256);
    for line in headers.get_all(COOKIE) {
        if !all.is_empty() {
            all.extend_from_slice(b"; ");
        }
        all.extend_from_slice(line.as_bytes());
    }
    insert(headers, COOKIE, all);
}

/// Turns the headers of a request into those for the upstream.
pub(crate) fn request(headers: &mut HeaderMap, sender: Sender<'_>, rules: &HeaderRules) {
    remove_hop_by_hop(headers);
    // Answered here; the body goes on when it comes.
    headers.remove(EXPECT);
    // The length follows from the body as it is sent.
    headers.remove(CONTENT_LENGTH);
    let stopped: smallvec::SmallVec<[HeaderName; 4]> =
        headers.keys().filter(|name| !rules.passes(name, sender.is_trusted)).cloned().collect();
    for name in &stopped {
        headers.remove(name);
    }
    if let Some(peer) = sender.peer {
        let mut value = joined(headers, &X_FORWARDED_FOR);
        let _ = write!(value, "{}", peer.to_canonical());
        insert(headers, X_FORWARDED_FOR, value);
    }
    let scheme = if sender.is_tls { "https" } else { "http" };
    headers.entry(X_FORWARDED_PROTO).or_insert(HeaderValue::from_static(scheme));
    if let Some(host) = sender.host {
        headers.entry(X_FORWARDED_HOST).or_insert_with(|| host.clone());
    }
    via(headers, sender.version);
}

/// Turns the headers of an answer into those for the client, without the permit of another
/// Tidegate, which is for the caller of that one.
pub(crate) fn response(headers: &mut HeaderMap, version: Version) {
    remove_hop_by_hop(headers);
    headers.remove(PERMIT);
    via(headers, version);
}

fn via(headers: &mut HeaderMap, version: Version) {
    if !headers.contains_key(VIA) {
        let value = match version {
            Version::HTTP_2 => "2 tidegate",
            Version::HTTP_10 => "1.0 tidegate",
            _ => "1.1 tidegate",
        };
        headers.insert(VIA, HeaderValue::from_static(value));
        return;
    }
    let mut value = joined(headers, &VIA);
    let number = match version {
        Version::HTTP_2 => "2",
        Version::HTTP_10 => "1.0",
        _ => "1.1",
    };
    let _ = write!(value, "{number} {PSEUDONYM}");
    insert(headers, VIA, value);
}

/// All values of a header in one line, ready for one more.
fn joined(headers: &HeaderMap, name: &HeaderName) -> BytesMut {
    let mut all = BytesMut::with_capacity(64);
    for value in headers.get_all(name) {
        all.extend_from_slice(value.as_bytes());
        all.extend_from_slice(b", ");
    }
    all
}

fn insert(headers: &mut HeaderMap, name: HeaderName, value: BytesMut) {
    if let Ok(value) = HeaderValue::from_maybe_shared(value.freeze()) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, HeaderValue::from_static(value));
        }
        map
    }

    fn shown(headers: &HeaderMap) -> Vec<String> {
        let mut all: Vec<String> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        all.sort();
        all
    }

    fn sender(is_trusted: bool) -> Sender<'static> {
        Sender {
            peer: Some("10.0.0.9".parse().unwrap()),
            is_tls: false,
            is_trusted,
            host: None,
            version: Version::HTTP_11,
        }
    }

    #[test]
    fn what_concerns_one_connection_stays_there() {
        let mut headers = map(&[
            ("connection", "close, x-mine"),
            ("connection", "keep-alive"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "keep-alive"),
            ("proxy-authorization", "Basic x"),
            ("te", "gzip, trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("http2-settings", "AAMAAABkAAQAAP__"),
            ("x-mine", "1"),
            ("x-yours", "2"),
        ]);
        remove_hop_by_hop(&mut headers);
        assert_eq!(shown(&headers), ["te: trailers", "x-yours: 2"]);
    }

    #[test]
    fn an_answer_keeps_what_it_cannot_do_without() {
        let mut headers = map(&[("connection", "host, via, close"), ("host", "a"), ("via", "1.1 x")]);
        remove_hop_by_hop(&mut headers);
        assert_eq!(shown(&headers), ["host: a", "via: 1.1 x"]);
    }

    #[test]
    fn earlier_senders_count_only_if_the_peer_is_trusted() {
        let given = [("x-forwarded-for", "1.2.3.4"), ("x-forwarded-for", "5.6.7.8"), ("via", "1.0 old")];
        let mut headers = map(&given);
        request(&mut headers, sender(true), &HeaderRules::default());
        assert_eq!(headers["x-forwarded-for"], "1.2.3.4, 5.6.7.8, 10.0.0.9");
        assert_eq!(headers["via"], "1.0 old, 1.1 tidegate");
        let mut headers = map(&given);
        request(&mut headers, sender(false), &HeaderRules::default());
        assert_eq!(headers["x-forwarded-for"], "10.0.0.9");
        assert_eq!(headers["x-forwarded-proto"], "http");
    }

    #[test]
    fn a_protocol_is_offered_by_both_of_its_headers_and_only_if_it_is_allowed() {
        let allowed = ["websocket".to_owned()];
        for (pairs, offered) in [
            (&[("connection", "keep-alive, Upgrade"), ("upgrade", "WebSocket")][..], Some("websocket")),
            (&[("connection", "close"), ("upgrade", "websocket")], None),
            (&[("connection", "upgrade"), ("upgrade", "h2c")], None),
            (&[("connection", "upgrade"), ("upgrade", "h2c, websocket")], Some("websocket")),
            (&[("connection", "upgrade"), ("upgrade", "h2c"), ("upgrade", " websocket ")], Some("websocket")),
            (&[("connection", "upgrade"), ("upgrade", "websocket/13")], None),
            (&[("connection", "upgrade")], None),
        ] {
            assert_eq!(offered_protocol(&map(pairs), &allowed), offered, "{pairs:?}");
        }
        assert!(changes_to(&map(&[("upgrade", "WebSocket")]), "websocket"));
        assert!(!changes_to(&map(&[("upgrade", "websocket, h2c")]), "websocket"));
        assert!(!changes_to(&map(&[]), "websocket"));
    }

    #[test]
    fn cookies_in_several_lines_become_one() {
        let mut headers = map(&[("cookie", "a=1"), ("x-a", "1"), ("cookie", "b=2; c=3")]);
        join_cookies(&mut headers);
        assert_eq!(shown(&headers), ["cookie: a=1; b=2; c=3", "x-a: 1"]);
    }
}
