//! The headers of a request and of an answer as they go on: without what concerns one connection only, and with what
//! the next one has to know.

use core::fmt::Write;
use std::net::IpAddr;

use bytes::BytesMut;
use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, FORWARDED, HOST, HeaderName, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION,
    TE, TRANSFER_ENCODING, UPGRADE, VIA,
};
use http::{HeaderMap, HeaderValue, Version};

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// The name of a proxy in `Via`.
const PSEUDONYM: &str = "tidegate";

/// What concerns one connection only (RFC 9110, 7.6.1), whether or not `Connection` says so.
const HOP_BY_HOP: [HeaderName; 8] = [
    CONNECTION,
    KEEP_ALIVE,
    PROXY_CONNECTION,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Who sent a request, as the next server is told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender<'a> {
    /// The other end of the connection; `None` on a Unix socket.
    pub(crate) peer: Option<IpAddr>,
    /// Whether it speaks TLS.
    pub(crate) is_tls: bool,
    /// Whether what it says of earlier senders counts.
    pub(crate) is_trusted: bool,
    /// The host that was asked for.
    pub(crate) host: Option<&'a HeaderValue>,
    pub(crate) version: Version,
}

/// Takes out what concerns one connection. Answers the protocol the sender wants to change to, if it does.
pub(crate) fn remove_hop_by_hop(headers: &mut HeaderMap) -> Option<HeaderValue> {
    let mut wants_upgrade = false;
    let mut named: smallvec::SmallVec<[HeaderName; 4]> = smallvec::SmallVec::new();
    for value in headers.get_all(CONNECTION) {
        for option in value.to_str().unwrap_or_default().split(',').map(str::trim) {
            wants_upgrade |= option.eq_ignore_ascii_case("upgrade");
            // What the message cannot do without is no matter of the connection, whatever its sender says: taking it out
            // would hide it from the server behind.
            if let Ok(name) = HeaderName::try_from(option)
                && ![HOST, CONTENT_LENGTH, VIA, FORWARDED].contains(&name)
            {
                named.push(name);
            }
        }
    }
    let upgrade = headers.remove(UPGRADE).filter(|_| wants_upgrade);
    let takes_trailers = headers.get_all(TE).iter().any(|value| {
        value.to_str().unwrap_or_default().split(',').any(|one| one.trim().eq_ignore_ascii_case("trailers"))
    });
    for name in HOP_BY_HOP.iter().chain(&named) {
        headers.remove(name);
    }
    if takes_trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    upgrade
}

/// Makes the headers of a request what the next server gets.
pub(crate) fn request(headers: &mut HeaderMap, sender: Sender<'_>) -> Option<HeaderValue> {
    let upgrade = remove_hop_by_hop(headers);
    // Answered here; the body goes on when it comes.
    headers.remove(EXPECT);
    // The length follows from the body as it is sent.
    headers.remove(CONTENT_LENGTH);
    if !sender.is_trusted {
        for name in [X_FORWARDED_FOR, X_FORWARDED_PROTO, X_FORWARDED_HOST, FORWARDED] {
            headers.remove(name);
        }
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
    upgrade
}

/// Makes the headers of an answer what the client gets.
pub(crate) fn response(headers: &mut HeaderMap, version: Version) -> Option<HeaderValue> {
    let upgrade = remove_hop_by_hop(headers);
    via(headers, version);
    upgrade
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
            ("x-mine", "1"),
            ("x-yours", "2"),
        ]);
        assert_eq!(remove_hop_by_hop(&mut headers), None, "not asked for in Connection");
        assert_eq!(shown(&headers), ["te: trailers", "x-yours: 2"]);
    }

    #[test]
    fn a_client_cannot_have_what_identifies_it_taken_out_by_naming_it_in_connection() {
        let mut headers = map(&[("connection", "host, via, close"), ("host", "a"), ("via", "1.1 x")]);
        remove_hop_by_hop(&mut headers);
        assert_eq!(shown(&headers), ["host: a", "via: 1.1 x"]);
    }

    #[test]
    fn earlier_senders_count_only_if_the_peer_is_trusted() {
        let given = [("x-forwarded-for", "1.2.3.4"), ("x-forwarded-for", "5.6.7.8"), ("via", "1.0 old")];
        let mut headers = map(&given);
        request(&mut headers, sender(true));
        assert_eq!(headers["x-forwarded-for"], "1.2.3.4, 5.6.7.8, 10.0.0.9");
        assert_eq!(headers["via"], "1.0 old, 1.1 tidegate");
        let mut headers = map(&given);
        request(&mut headers, sender(false));
        assert_eq!(headers["x-forwarded-for"], "10.0.0.9");
        assert_eq!(headers["x-forwarded-proto"], "http");
    }

    #[test]
    fn an_upgrade_is_known_by_both_of_its_headers() {
        let mut headers = map(&[("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")]);
        assert_eq!(remove_hop_by_hop(&mut headers).unwrap(), "websocket");
        assert_eq!(shown(&headers), Vec::<String>::new());
    }
}
