use super::*;
use http::HeaderValue;
use proptest::prelude::*;

fn who(header: ForwardingHeader) -> ClientAddress {
    let trusted = ["10.0.0.0/8", "2001:db8:1::/48", "::ffff:172.16.0.0/108", "192.0.2.7"];
    let behind = ClientAddress::new(trusted.map(|text| text.parse().unwrap()));
    match header {
        ForwardingHeader::XForwardedFor => behind,
        ForwardingHeader::Forwarded => behind.by_forwarded(),
    }
}

fn headers(name: &'static str, lines: &[&[u8]]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for line in lines {
        map.append(name, HeaderValue::from_bytes(line).unwrap());
    }
    map
}

fn of(header: ForwardingHeader, lines: &[&str], peer: &str) -> String {
    let name = match header {
        ForwardingHeader::XForwardedFor => "x-forwarded-for",
        ForwardingHeader::Forwarded => "forwarded",
    };
    let lines: Vec<_> = lines.iter().map(|line| line.as_bytes()).collect();
    who(header).of(&headers(name, &lines), peer.parse().unwrap()).to_string()
}

#[test]
fn x_forwarded_for_is_walked_from_the_right_to_the_first_address_not_trusted() {
    for (lines, peer, expected) in [
        (&["203.0.113.9"][..], "10.0.0.1", "203.0.113.9"),
        (&["198.51.100.1, 203.0.113.9, 10.0.0.2"], "10.0.0.1", "203.0.113.9"),
        (&["198.51.100.1", "203.0.113.9", "10.0.0.2"], "10.0.0.1", "203.0.113.9"),
        (&["203.0.113.9:4711,10.0.0.2:80"], "10.0.0.1", "203.0.113.9"),
        (&["2001:db8:2::5"], "10.0.0.1", "2001:db8:2::5"),
        (&["[2001:db8:2::5]"], "10.0.0.1", "2001:db8:2::5"),
        (&["[2001:db8:2::5]:443"], "10.0.0.1", "2001:db8:2::5"),
        (&["::ffff:203.0.113.9"], "::ffff:10.0.0.1", "203.0.113.9"),
        (&["203.0.113.9, ::ffff:10.0.0.2"], "10.0.0.1", "203.0.113.9"),
        (&["203.0.113.9"], "172.17.1.1", "203.0.113.9"),
        (&["203.0.113.9,, ,"], "10.0.0.1", "203.0.113.9"),
        (&["  203.0.113.9\t"], "192.0.2.7", "203.0.113.9"),
        // All are trusted: the first of them.
        (&["10.0.0.3, 10.0.0.2"], "10.0.0.1", "10.0.0.3"),
        (&[], "10.0.0.1", "10.0.0.1"),
        (&[""], "10.0.0.1", "10.0.0.1"),
    ] {
        assert_eq!(of(ForwardingHeader::XForwardedFor, lines, peer), expected, "{lines:?} from {peer}");
    }
}

#[test]
fn an_entry_that_is_no_address_ends_the_walk_at_the_last_good_one() {
    for garbage in
        ["unknown", "_hidden", "example.com", "300.1.1.1", "010.0.0.1", "1.2.3", "1.2.3.4:99999", "::1%eth0"]
    {
        let line = format!("203.0.113.9, {garbage}, 10.0.0.2");
        assert_eq!(of(ForwardingHeader::XForwardedFor, &[&line], "10.0.0.1"), "10.0.0.2", "{garbage}");
    }
    let bytes = headers("x-forwarded-for", &[b"203.0.113.9, \xff\xfe"]);
    let peer = "10.0.0.1".parse().unwrap();
    assert_eq!(who(ForwardingHeader::XForwardedFor).of(&bytes, peer), peer);
}

#[test]
fn what_a_peer_that_is_not_trusted_says_is_ignored() {
    for (address, is_trusted) in
        [("10.1.2.3", true), ("::ffff:10.1.2.3", true), ("11.0.0.1", false), ("2001:db8:1::9", true)]
    {
        let who = who(ForwardingHeader::default());
        assert_eq!(who.is_trusted(address.parse().unwrap()), is_trusted, "{address}");
    }
    for header in [ForwardingHeader::XForwardedFor, ForwardingHeader::Forwarded] {
        assert_eq!(of(header, &["203.0.113.9", "for=203.0.113.9"], "198.51.100.1"), "198.51.100.1");
    }
    let nobody = ClientAddress::default();
    let given = headers("x-forwarded-for", &[b"203.0.113.9"]);
    assert_eq!(nobody.of(&given, "127.0.0.1".parse().unwrap()).to_string(), "127.0.0.1");
}

#[test]
fn only_the_configured_header_counts() {
    let mut both = headers("x-forwarded-for", &[b"203.0.113.1"]);
    both.append("forwarded", HeaderValue::from_static("for=203.0.113.2"));
    let peer = "10.0.0.1".parse().unwrap();
    assert_eq!(who(ForwardingHeader::XForwardedFor).of(&both, peer).to_string(), "203.0.113.1");
    assert_eq!(who(ForwardingHeader::Forwarded).of(&both, peer).to_string(), "203.0.113.2");
}

#[test]
fn forwarded_is_read_as_rfc_7239_writes_it() {
    for (lines, expected) in [
        (&["for=203.0.113.9"][..], "203.0.113.9"),
        (&["For=\"[2001:db8:cafe::17]:4711\""], "2001:db8:cafe::17"),
        (&["for=203.0.113.9;proto=http;by=203.0.113.43"], "203.0.113.9"),
        (&["for=198.51.100.2, for=203.0.113.9"], "203.0.113.9"),
        (&["for=198.51.100.2", "for=203.0.113.9, for=10.0.0.2"], "203.0.113.9"),
        (&["for=\"203.0.113.9:_port\""], "203.0.113.9"),
        (&["for=203.0.113.9:80"], "203.0.113.9"),
        (&["for=\"\\2\\03.0.113.9\""], "203.0.113.9"),
        (&["for=203.0.113.9;host=\"a,b;for=1.2.3.4\""], "203.0.113.9"),
        (&["for=203.0.113.9;host=\"a\\\",for=1.2.3.4\""], "203.0.113.9"),
        (&["proto=https ; for=203.0.113.9"], "203.0.113.9"),
        (&["for=\"[::ffff:203.0.113.9]\""], "203.0.113.9"),
        // A hidden or malformed address ends the walk.
        (&["for=203.0.113.9, for=unknown"], "10.0.0.1"),
        (&["for=203.0.113.9, for=_hidden, for=10.0.0.2"], "10.0.0.2"),
        (&["for=203.0.113.9, proto=https"], "10.0.0.1"),
        (&["for=203.0.113.9;for=203.0.113.8"], "10.0.0.1"),
        (&["for=\"203.0.113.9"], "10.0.0.1"),
        (&["for=203.0.113.9\""], "10.0.0.1"),
        (&["for = 203.0.113.9"], "10.0.0.1"),
        (&["for=2001:db8::1"], "10.0.0.1"),
        (&["for=\"[2001:db8::1]x\""], "10.0.0.1"),
        (&["for=\"203.0.113.9:\""], "10.0.0.1"),
        (&["for=\"203.0.113.9:70000\""], "10.0.0.1"),
        (&["for=;proto=http"], "10.0.0.1"),
        (&["for=203.0.113.9;"], "10.0.0.1"),
        (&["203.0.113.9"], "10.0.0.1"),
        // The quotation mark that a client leaves open does not swallow what the proxy wrote behind
        // it.
        (&["for=\"1.2.3.4, for=203.0.113.9"], "203.0.113.9"),
        (&["for=1.2.3.4;x=\"\\, for=203.0.113.9, for=10.0.0.2"], "203.0.113.9"),
    ] {
        assert_eq!(of(ForwardingHeader::Forwarded, lines, "10.0.0.1"), expected, "{lines:?}");
    }
}

#[test]
fn a_walk_ends_after_so_many_hops() {
    let line = format!("203.0.113.9{}", ", 10.0.0.2".repeat(HOPS_MAX));
    assert_eq!(of(ForwardingHeader::XForwardedFor, &[&line], "10.0.0.1"), "10.0.0.2");
    let line = format!("203.0.113.9{}", ", 10.0.0.2".repeat(HOPS_MAX - 1));
    assert_eq!(of(ForwardingHeader::XForwardedFor, &[&line], "10.0.0.1"), "203.0.113.9");
    let empty = format!("203.0.113.9{}", ",".repeat(HOPS_MAX));
    assert_eq!(of(ForwardingHeader::XForwardedFor, &[&empty], "10.0.0.1"), "10.0.0.1");
}

/// A chain as trusted proxies write it: one address that is not trusted, then trusted ones.
fn chain(header: ForwardingHeader, client: [u8; 2], proxies: &[u8]) -> (String, String) {
    let client = format!("203.0.{}.{}", client[0], client[1]);
    let all = core::iter::once(client.clone()).chain(proxies.iter().map(|last| format!("10.9.8.{last}")));
    let written: Vec<_> = match header {
        ForwardingHeader::XForwardedFor => all.collect(),
        ForwardingHeader::Forwarded => all.map(|node| format!("for=\"{node}\";host=\"a,\\\"b\"")).collect(),
    };
    (client, written.join(", "))
}

fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let letters = prop::sample::select(br#"",;=\ for=10.0.0.1:[]_fu"#.to_vec());
    let byte = prop_oneof![letters, any::<u8>()];
    prop::collection::vec(byte, 0..40).prop_map(|bytes| {
        bytes.into_iter().filter(|byte| HeaderValue::from_bytes(&[*byte]).is_ok()).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_a_client_sends_before_its_own_address_never_changes_the_answer(
        client in any::<[u8; 2]>(),
        proxies in prop::collection::vec(any::<u8>(), 0..5),
        spoofed in hostile(),
        is_own_line in any::<bool>(),
        is_forwarded in any::<bool>(),
    ) {
        let (header, name) = if is_forwarded {
            (ForwardingHeader::Forwarded, "forwarded")
        } else {
            (ForwardingHeader::XForwardedFor, "x-forwarded-for")
        };
        let (client, written) = chain(header, client, &proxies);
        let given = if is_own_line {
            headers(name, &[&spoofed, written.as_bytes()])
        } else {
            headers(name, &[&[&spoofed[..], b", ", written.as_bytes()].concat()])
        };
        let found = who(header).of(&given, "10.0.0.1".parse().unwrap());
        prop_assert_eq!(found.to_string(), client);
    }

    #[test]
    fn whatever_is_sent_yields_an_address(lines in prop::collection::vec(hostile(), 0..4)) {
        let lines: Vec<_> = lines.iter().map(Vec::as_slice).collect();
        let peer = "10.0.0.1".parse().unwrap();
        who(ForwardingHeader::Forwarded).of(&headers("forwarded", &lines), peer);
        who(ForwardingHeader::XForwardedFor).of(&headers("x-forwarded-for", &lines), peer);
    }
}
