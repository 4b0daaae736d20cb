use super::super::request_fixture::{parts, path, values};
use super::*;
use http::HeaderValue;
use proptest::prelude::*;

fn claims() -> Claims {
    let text = r#"{"sub":"ada","n":42,"big":18446744073709551615,"huge":18446744073709551616,"half":1.5,"live":true,
        "off":null,"org":{"id":"o1","tags":["a"]},"https://e.com/t":"t1"}"#;
    Claims::from(serde_json::from_str::<serde_json::Map<_, _>>(text).unwrap())
}

fn one(source: &str, parts: &Parts) -> Result<Option<String>, Rejection> {
    let source: ValueSource = source.parse().unwrap();
    let path = path(parts);
    let claims = claims();
    let values = RequestValues {
        client: "::ffff:203.0.113.9".parse().ok(),
        host: Some("api.example.com"),
        claims: Some(&claims),
        ..values(parts, &path)
    };
    Ok(values.value(&source)?.map(Cow::into_owned))
}

#[test]
fn every_source_is_read_from_its_part_of_the_request() {
    let request = parts(
        "/v1/caf%C3%A9/7?key=a%20b+c&%6Bind=x&empty=&flag&sub=1&semi=a;b=c",
        &[
            ("x-api-key", b"k1"),
            ("x-text", "caf\u{e9}".as_bytes()),
            ("x-empty", b""),
            ("cookie", b"sid=s1; theme=\"dark\";sid2=no"),
            ("cookie", b" other = spaced "),
            ("host", b"API.Example.com.:8443"),
        ],
    );
    for (source, expected) in [
        ("header.x-api-key", Some("k1")),
        ("header.X-Api-Key", Some("k1")),
        ("header.x-text", Some("caf\u{e9}")),
        ("header.x-empty", Some("")),
        ("header.x-other", None),
        ("cookie.sid", Some("s1")),
        ("cookie.theme", Some("\"dark\"")),
        ("cookie.other", Some("spaced")),
        ("cookie.SID", None),
        ("query.key", Some("a b c")),
        ("query.kind", Some("x")),
        ("query.empty", Some("")),
        ("query.flag", Some("")),
        ("query.semi", Some("a;b=c")),
        ("query.other", None),
        ("path", Some("/v1/caf\u{e9}/7")),
        ("path.0", Some("v1")),
        ("path.1", Some("caf\u{e9}")),
        ("path.3", None),
        ("method", Some("GET")),
        ("host", Some("api.example.com")),
        ("jwt.sub", Some("ada")),
        ("jwt.n", Some("42")),
        ("jwt.big", Some("18446744073709551615")),
        ("jwt.live", Some("true")),
        ("jwt.off", None),
        ("jwt.org.id", Some("o1")),
        ("jwt.org.none", None),
        ("jwt.sub.id", None),
        ("jwt.\"https://e.com/t\"", Some("t1")),
        ("client_ip", Some("203.0.113.9")),
        ("\"public api\"", Some("public api")),
    ] {
        assert_eq!(one(source, &request).unwrap().as_deref(), expected, "{source}");
    }
}

#[test]
fn what_comes_twice_is_rejected_and_never_chosen() {
    for (source, target, headers) in [
        ("header.x-user", "/", &[("x-user", &b"a"[..]), ("x-user", b"b")][..]),
        ("header.x-user", "/", &[("x-user", b"a"), ("x-user", b"a")]),
        ("cookie.sid", "/", &[("cookie", b"sid=a; sid=b")]),
        ("cookie.sid", "/", &[("cookie", b"sid=a"), ("cookie", b"sid=b")]),
        ("cookie.sid", "/", &[("cookie", b"sid=a;sid =b")]),
        ("query.user", "/?user=a&user=b", &[]),
        ("query.user", "/?user=a&us%65r=b", &[]),
        ("query.user", "/?user&user=b", &[]),
        ("query.a b", "/?a+b=1&a%20b=2", &[]),
    ] {
        let rejection = one(source, &parts(target, headers)).unwrap_err();
        assert_eq!((rejection.status, rejection.code), (400, RejectionCode::AmbiguousAttribute), "{source}");
        assert!(rejection.detail.contains("duplicate"), "{}", rejection.detail);
    }
}

#[test]
fn what_cannot_be_read_in_one_way_is_rejected() {
    for (source, target, headers) in [
        ("header.x-user", "/", &[("x-user", &b"\xff"[..])][..]),
        ("cookie.sid", "/", &[("cookie", b"sid=\xff")]),
        ("query.user", "/?user=%ff", &[]),
        ("query.user", "/?user=%c3%28", &[]),
        ("query.user", "/?user=%zz", &[]),
        ("query.user", "/?user=a%", &[]),
        ("query.user", "/?user=%4", &[]),
        ("query.user", "/?a=1;user=b", &[]),
        ("query.user", "/?user=a;us%65r=b", &[]),
        ("query.user", "/?a;user", &[]),
        ("jwt.huge", "/", &[]),
        ("jwt.half", "/", &[]),
        ("jwt.org", "/", &[]),
        ("jwt.org.tags", "/", &[]),
    ] {
        let rejection = one(source, &parts(target, headers)).unwrap_err();
        assert_eq!((rejection.status, rejection.code), (400, RejectionCode::AmbiguousAttribute), "{source}");
        assert!(rejection.fix.is_some());
    }
}

#[test]
fn a_value_that_is_too_long_is_rejected_and_not_cut() {
    let long = "a".repeat(VALUE_BYTES_MAX + 1);
    let request = parts("/", &[("x-user", long.as_bytes())]);
    let rejection = one("header.x-user", &request).unwrap_err();
    assert_eq!((rejection.status, rejection.code), (400, RejectionCode::AttributeTooLong));
    let request = parts("/", &[("x-user", &long.as_bytes()[1..])]);
    assert_eq!(one("header.x-user", &request).unwrap().unwrap().len(), VALUE_BYTES_MAX);

    let path = path(&request);
    let of_length = |bytes_max| RequestValues { bytes_max, ..values(&request, &path) };
    assert!(of_length(3).value(&ValueSource::Method).is_ok());
    assert!(of_length(2).value(&ValueSource::Method).is_err());
}

#[test]
fn attributes_keep_their_order_and_absent_ones_are_left_out() {
    let sources = [("who", "header.x-user"), ("sub", "jwt.sub"), ("where", "path.0"), ("kind", "\"web\"")];
    let sources = sources.map(|(name, source)| (name.to_owned(), source.parse().unwrap()));
    let request = parts("/v1", &[]);
    let path = path(&request);
    let found = values(&request, &path).attributes(&sources).unwrap();
    assert_eq!(found, [("where", Cow::from("v1")), ("kind", Cow::from("web"))]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn whatever_is_sent_yields_attributes_or_a_rejection(
        query in "[a-z%0-9=&+;]{0,30}",
        line in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let mut request = parts(&format!("/v1?{query}"), &[]);
        if let Ok(value) = HeaderValue::from_bytes(&line) {
            for name in ["cookie", "host", "x-user"] {
                request.headers.append(name, value.clone());
            }
        }
        for source in ["header.x-user", "cookie.a", "query.a", "query.ab", "host", "path", "path.3", "jwt.org"] {
            let _ = one(source, &request);
        }
    }

    #[test]
    fn a_parameter_is_what_was_encoded(value in "\\PC{0,20}") {
        let encoded = percent_encoding::utf8_percent_encode(&value, percent_encoding::NON_ALPHANUMERIC);
        let request = parts(&format!("/?other=1&key={encoded}&last"), &[]);
        prop_assert_eq!(one("query.key", &request).unwrap().unwrap(), value);
    }
}
