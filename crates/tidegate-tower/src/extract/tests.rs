use super::*;

fn request(uri: &str, headers: &[(&str, &[u8])]) -> Request<()> {
    let mut request = Request::builder().uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap()
}

fn taken(extract: &impl Extract, request: &Request<()>) -> Result<Option<String>, String> {
    let value = extract.extract(&Head::from_request(request));
    value.map(|value| value.map(Cow::into_owned)).map_err(|rejection| rejection.to_string())
}

#[expect(clippy::unnecessary_wraps, reason = "it stands where an extractor's answer is expected")]
fn some(text: &str) -> Result<Option<String>, String> {
    Ok(Some(text.to_owned()))
}

#[test]
fn a_path_is_read_by_position_and_decoded() {
    let request = request("/v1/orgs/%61cme//x?y=1", &[]);
    assert_eq!(taken(&segment(0), &request), some("v1"));
    assert_eq!(taken(&segment(2), &request), some("acme"), "another spelling is no other counter");
    assert_eq!(taken(&segment(3), &request), Ok(None), "an empty segment is absent");
    assert_eq!(taken(&segment(5), &request), Ok(None));
}

#[test]
fn a_query_is_read_by_decoded_name_and_never_chosen_from() {
    let taken = |uri| taken(&query("user"), &request(uri, &[]));
    assert_eq!(taken("/?a=b&user=a%20b+c"), some("a b c"));
    assert_eq!(taken("/?us%65r=ada"), some("ada"));
    assert_eq!(taken("/?user"), some(""));
    assert_eq!(taken("/"), Ok(None));
    assert!(taken("/?user=a&us%65r=b").unwrap_err().contains("duplicate"));
    assert!(taken("/?user=%ff").unwrap_err().contains("not UTF-8"));
}

#[test]
fn a_header_that_cannot_be_taken_says_why() {
    let taken = |headers: &[(&str, &[u8])]| taken(&header("x-user"), &request("/", headers));
    assert_eq!(taken(&[("x-user", b"ada")]), some("ada"));
    assert_eq!(taken(&[]), Ok(None));
    assert!(taken(&[("x-user", b"a"), ("x-user", b"b")]).unwrap_err().contains("duplicate"));
    assert!(taken(&[("x-user", b"\xff")]).unwrap_err().contains("not UTF-8"));
}

#[test]
fn extensions_constants_and_closures_are_extractors() {
    #[derive(Clone)]
    struct Plan(&'static str);
    let mut request = request("/", &[("x-n", b"7")]);
    let plan = extension(|plan: &Plan| Some(plan.0.to_owned()));
    assert_eq!(taken(&plan, &request), Ok(None));
    request.extensions_mut().insert(Plan("free"));
    assert_eq!(taken(&plan, &request), some("free"));
    assert_eq!(taken(&constant("eu"), &request), some("eu"));
    assert_eq!(taken(&method(), &request), some("GET"));
    let closure = |head: &Head<'_>| Some(head.headers.len().to_string());
    assert_eq!(taken(&closure, &request), some("1"));
}

fn client_of(peer: &str, forwarded: &[&str], trusted: &[&str]) -> String {
    let peer: std::net::IpAddr = peer.parse().unwrap();
    let extract = client_address(move |_: &Head<'_>| Some(peer)).behind(trusted.iter().copied()).unwrap();
    let mut request = Request::new(());
    for value in forwarded {
        request.headers_mut().append("x-forwarded-for", value.parse().unwrap());
    }
    extract.extract(&Head::from_request(&request)).unwrap().unwrap().into_owned()
}

#[test]
fn the_client_is_the_peer_unless_a_trusted_proxy_names_another() {
    for (peer, forwarded, trusted, client) in [
        ("203.0.113.7", &["198.51.100.1"][..], &[][..], "203.0.113.7"),
        ("203.0.113.7", &["198.51.100.1"], &["10.0.0.0/8"], "203.0.113.7"),
        ("10.0.0.1", &["198.51.100.1"], &["10.0.0.0/8"], "198.51.100.1"),
        // The client can only write to the left of the address that the first proxy saw.
        ("10.0.0.1", &["192.0.2.9, 198.51.100.1"], &["10.0.0.0/8"], "198.51.100.1"),
        ("10.0.0.1", &["198.51.100.1, 10.0.0.2"], &["10.0.0.0/8"], "198.51.100.1"),
        ("10.0.0.1", &["192.0.2.9", "198.51.100.1"], &["10.0.0.0/8"], "198.51.100.1"),
        ("10.0.0.1", &[], &["10.0.0.0/8"], "10.0.0.1"),
        ("10.0.0.1", &["unknown"], &["10.0.0.0/8"], "10.0.0.1"),
        // Azure's gateways write ports; proxies that join lines leave empty elements.
        ("10.0.0.1", &["198.51.100.1:4711, 10.0.0.2:80"], &["10.0.0.0/8"], "198.51.100.1"),
        ("10.0.0.1", &["198.51.100.1, , 10.0.0.2,"], &["10.0.0.0/8"], "198.51.100.1"),
        ("::ffff:10.0.0.1", &["2001:db8::1"], &["10.0.0.0/8"], "2001:db8::1"),
    ] {
        assert_eq!(client_of(peer, forwarded, trusted), client, "{peer} {forwarded:?} {trusted:?}");
    }
    let peer: std::net::IpAddr = "10.0.0.1".parse().unwrap();
    let forwarded =
        client_address(move |_: &Head<'_>| Some(peer)).behind(["10.0.0.0/8"]).unwrap().by_forwarded();
    let both = [("forwarded", &b"for=198.51.100.1"[..]), ("x-forwarded-for", b"192.0.2.9")];
    assert_eq!(taken(&forwarded, &request("/", &both)), some("198.51.100.1"));
    let longest = vec!["10.0.0.2"; 100].join(",");
    assert_eq!(client_of("10.0.0.1", &[&longest], &["10.0.0.0/8"]), "10.0.0.2");
}
