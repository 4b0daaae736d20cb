use super::*;
use proptest::prelude::*;

const STRICT: PathRules = PathRules { unusual: UnusualPaths::Reject, semicolons: Semicolons::Reject };
const MENDING: PathRules = PathRules { unusual: UnusualPaths::Normalise, semicolons: Semicolons::Reject };
const KEEPING: PathRules = PathRules { unusual: UnusualPaths::Reject, semicolons: Semicolons::Keep };

#[test]
fn a_plain_path_is_forwarded_byte_for_byte_and_matched_decoded() {
    for (sent, matched) in [
        ("/", "/"),
        ("/v1/check", "/v1/check"),
        ("/v1/", "/v1/"),
        ("/v1/caf%C3%A9", "/v1/caf\u{e9}"),
        ("/v1/caf%c3%a9", "/v1/caf\u{e9}"),
        ("/a%20b", "/a b"),
        ("/100%25", "/100%"),
        ("/100%25zz", "/100%zz"),
        ("/%7euser", "/~user"),
        ("/what%3f", "/what?"),
        ("/a%23b", "/a#b"),
        ("/.well-known/acme", "/.well-known/acme"),
        ("/..a/...", "/..a/..."),
        ("/a.b/c..d", "/a.b/c..d"),
        ("/a:b@c!$&'()*+,=", "/a:b@c!$&'()*+,="),
        ("/v1/items:batch", "/v1/items:batch"),
        ("/a%2Bb%26", "/a+b&"),
    ] {
        for rules in [STRICT, MENDING] {
            let plain = PlainPath::read(sent, rules).unwrap_or_else(|error| panic!("{sent}: {error:?}"));
            assert_eq!((plain.matched(), plain.forwarded()), (matched, sent));
            assert!(!plain.is_rewritten());
        }
    }
}

#[test]
fn a_path_with_a_plainer_spelling_is_rejected_or_forwarded_in_it() {
    for (sent, plain) in [
        ("//v1/check", "/v1/check"),
        ("/v1//check", "/v1/check"),
        ("/v1/check//", "/v1/check/"),
        ("//", "/"),
        ("///", "/"),
        ("/v1/./check", "/v1/check"),
        ("/./v1", "/v1"),
        ("/v1/.", "/v1/"),
        ("/.", "/"),
        ("/v1/../admin", "/admin"),
        ("/v1/x/../../admin", "/admin"),
        ("/v1/..", "/"),
        ("/v1/x/..", "/v1/"),
        ("/v1/../", "/"),
        ("/v1/%2e%2e/admin", "/admin"),
        ("/v1/.%2E/admin", "/admin"),
        ("/v1/%2e./admin", "/admin"),
        ("/v1/%2e/admin", "/v1/admin"),
        ("/%61dmin", "/admin"),
        ("/%41dmin", "/Admin"),
        ("/v%31/check", "/v1/check"),
        ("/v1%2dbeta", "/v1-beta"),
        ("/a%5Fb", "/a_b"),
        ("/a%2ehtml", "/a.html"),
        ("/%61/b%20c/%62", "/a/b%20c/b"),
        ("/a//..", "/"),
    ] {
        let rejection = PlainPath::read(sent, STRICT).unwrap_err();
        assert_eq!((rejection.status, rejection.code), (400, RejectionCode::AmbiguousPath), "{sent}");
        assert_eq!(rejection.fix.unwrap(), format!("send {plain}"), "{sent}");
        let mended = PlainPath::read(sent, MENDING).unwrap();
        assert_eq!((mended.forwarded(), mended.is_rewritten()), (plain, true), "{sent}");
    }
}

#[test]
fn a_path_that_has_no_honest_use_is_always_rejected() {
    for (sent, hint) in [
        ("", "does not begin with /"),
        ("*", "does not begin with /"),
        ("v1", "does not begin with /"),
        ("/v1%2fadmin", "encoded /"),
        ("/v1/..%2Fadmin", "encoded /"),
        ("/v1\\admin", "backslash"),
        ("/v1/..\\admin", "backslash"),
        ("/v1%5cadmin", "encoded backslash"),
        ("/v1/%2e%2e%5Cadmin", "encoded backslash"),
        ("/admin%00.png", "encoded control"),
        ("/admin%0d%0aX", "encoded control"),
        ("/admin%09", "encoded control"),
        ("/admin%7f", "encoded control"),
        ("/admin\t", "control character"),
        ("/..", "climbs above the root"),
        ("/../admin", "climbs above the root"),
        ("/v1/../../admin", "climbs above the root"),
        ("/%2e%2e/admin", "climbs above the root"),
        ("//../admin", "climbs above the root"),
        ("/%", "% without two digits"),
        ("/a%2", "% without two digits"),
        ("/a%zz", "% without two digits"),
        ("/%u002e%u002e/admin", "% without two digits"),
        ("/%%32e", "% without two digits"),
        ("/v1/%252e%252e/admin", "encoded twice"),
        ("/v1/%252fadmin", "encoded twice"),
        ("/v1/%25%32%65%25%32%65/admin", "encoded twice"),
        ("/v1/%252%65", "encoded twice"),
        ("/%25%35c", "encoded twice"),
        ("/%c0%ae%c0%ae/admin", "not UTF-8"),
        ("/%ff", "not UTF-8"),
        ("/%c3", "not UTF-8"),
        ("/%ed%a0%80", "not UTF-8"),
        ("/a%e0%80%afb", "not UTF-8"),
        ("/admin;x=1", "has a ;"),
        ("/v1/..;/admin", "has a ;"),
        ("/;/admin", "has a ;"),
        ("/admin%3bx", "encoded ;"),
    ] {
        for rules in [STRICT, MENDING] {
            let rejection = PlainPath::read(sent, rules).unwrap_err();
            assert_eq!((rejection.status, rejection.code), (400, RejectionCode::AmbiguousPath), "{sent}");
            assert!(rejection.detail.contains(hint), "{sent}: {}", rejection.detail);
            assert!(rejection.fix.is_some(), "{sent}");
        }
    }
}

#[test]
fn a_semicolon_may_be_kept_but_not_behind_nothing_or_dots() {
    for (sent, matched) in
        [("/a;b=1/c", "/a;b=1/c"), ("/a%3Bb", "/a;b"), ("/a..;", "/a..;"), ("/x/a;/b", "/x/a;/b")]
    {
        let plain = PlainPath::read(sent, KEEPING).unwrap();
        assert_eq!((plain.matched(), plain.forwarded()), (matched, sent));
    }
    for sent in
        ["/v1/..;/admin", "/v1/.;x/admin", "/;/admin", "/v1/..%3b/admin", "/%3Badmin", "/v1/%2e%2e;x/admin"]
    {
        let rejection = PlainPath::read(sent, KEEPING).unwrap_err();
        assert!(rejection.detail.contains("some servers read as empty"), "{sent}: {}", rejection.detail);
    }
}

#[test]
fn segments_are_counted_from_the_first_and_decoded() {
    let path = PlainPath::read("/v1/caf%C3%A9/", STRICT).unwrap();
    assert_eq!(
        (path.segment(0), path.segment(1), path.segment(2), path.segment(9)),
        (Some("v1"), Some("caf\u{e9}"), None, None)
    );
    assert_eq!(PlainPath::read("/", STRICT).unwrap().segment(0), None);
}

/// A lenient server's reading of a path: decode everything, split at both kinds of slashes, then
/// resolve dots.
fn lenient(path: &str) -> Vec<String> {
    let decoded = percent_encoding::percent_decode_str(path).decode_utf8_lossy().into_owned();
    let mut walked = Vec::new();
    for segment in decoded.split(['/', '\\']) {
        let segment = segment.split(';').next().unwrap_or("");
        match segment {
            "" | "." => {}
            ".." => {
                walked.pop();
            }
            _ => walked.push(segment.to_owned()),
        }
    }
    walked
}

fn shapes() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "/", "//", ".", "..", "a", "v1", "%2e", "%2E%2e", "%2f", "%5c", "\\", "%61", "%00", "%25", "%32",
        "2e", "%", ";", "%3b", "%c0%ae", "%c3%a9", "\u{e9}", "%7e", " ", "admin",
    ]);
    prop::collection::vec(piece, 0..10).prop_map(|pieces| format!("/{}", pieces.concat()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn what_is_matched_is_what_a_lenient_server_would_serve(sent in shapes()) {
        for rules in [STRICT, MENDING] {
            let Ok(plain) = PlainPath::read(&sent, rules) else { continue };
            let matched: Vec<_> = plain.matched().split('/').filter(|part| !part.is_empty()).collect();
            prop_assert_eq!(&matched, &lenient(plain.forwarded()), "{} as {}", sent, plain.forwarded());
            // And a server that decodes twice makes the same of it as one that decodes once.
            prop_assert_eq!(&lenient(plain.forwarded()), &lenient(plain.matched()), "{}", sent);
        }
    }

    #[test]
    fn a_plain_path_stays_as_it_is(sent in shapes()) {
        if let Ok(mended) = PlainPath::read(&sent, MENDING) {
            let again = PlainPath::read(mended.forwarded(), STRICT).unwrap();
            prop_assert_eq!((again.matched(), again.forwarded()), (mended.matched(), mended.forwarded()));
        }
    }

    #[test]
    fn whatever_is_sent_is_read_or_rejected(sent in "\\PC{0,40}") {
        for rules in [STRICT, MENDING, KEEPING] {
            let _ = PlainPath::read(&sent, rules);
        }
    }
}
