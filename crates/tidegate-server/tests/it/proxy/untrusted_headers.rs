//! Headers by which a proxy speaks of its client: from a peer that is not trusted they do not pass.

use tidegate_policy::policy::proxy::Proxy;

use super::upstream::{answering, well};
use super::{route, to, world};

/// Headers that any client may send, and that applications believe when a proxy sends them.
const STATEMENTS: [&str; 32] = [
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-prefix",
    "x-forwarded-server",
    "x-forwarded-scheme",
    "x-forwarded-ssl",
    "x-forwarded-uri",
    "x-forwarded-client-cert",
    "x-forwarded",
    "forwarded",
    "forwarded-for",
    "x-real-ip",
    "x-client-ip",
    "client-ip",
    "true-client-ip",
    "x-cluster-client-ip",
    "cf-connecting-ip",
    "fastly-client-ip",
    "x-envoy-external-address",
    "x-original-forwarded-for",
    "x-original-url",
    "x-original-host",
    "x-rewrite-url",
    "front-end-https",
    "client-cert",
    "proxy",
    "x_forwarded_for",
    "x_real_ip",
    "content_length",
    "x_user",
];

fn statements() -> String {
    let lines = STATEMENTS.map(|name| format!("{name}: 6.6.6.6\r\n"));
    format!("x-user: ada\r\naccept: */*\r\nx-request-id: r1\r\nx-api-version: 2\r\n{}", lines.concat())
}

fn trusting(mut config: Proxy) -> Proxy {
    config.trusted = vec!["127.0.0.0/8".parse().unwrap()];
    config
}

#[tokio::test]
async fn what_only_a_proxy_may_say_does_not_pass_from_an_untrusted_peer() {
    let (server, seen) = well().await;
    let world = world(to(&[server], route("api"))).await;
    assert_eq!(world.through("/", &statements()).await.status, 200);
    let seen = seen.lock().unwrap().join("");
    assert!(!seen.contains("6.6.6.6"), "{seen}");
    for kept in ["x-user: ada", "accept: */*", "x-request-id: r1", "x-api-version: 2"] {
        assert!(seen.contains(kept), "{seen}");
    }
}

#[tokio::test]
async fn claims_for_another_tidegate_pass_from_trusted_peers_alone() {
    let claims = [("tidegate-attempt", "2"), ("tidegate-deadline-ms", "60000")];
    let sent: String = claims.map(|(name, value)| format!("{name}: {value}\r\n")).concat();
    for is_trusted in [false, true] {
        let (server, seen) = well().await;
        let config = to(&[server], route("api"));
        let world = world(if is_trusted { trusting(config) } else { config }).await;
        assert_eq!(world.through("/", &sent).await.status, 200);
        let seen = seen.lock().unwrap().join("");
        for (name, value) in claims {
            assert_eq!(seen.contains(&format!("\r\n{name}: {value}\r\n")), is_trusted, "{name}: {seen}");
        }
    }
}

#[tokio::test]
async fn a_ticket_passes_from_nobody_unless_the_owner_keeps_it() {
    for (is_trusted, is_kept) in [(false, false), (true, false), (false, true)] {
        let (server, seen) = well().await;
        let mut config = to(&[server], route("api"));
        if is_kept {
            config.keep_headers = vec![http::HeaderName::from_static("tidegate-ticket")];
        }
        let world = world(if is_trusted { trusting(config) } else { config }).await;
        for sent in ["tidegate-ticket: t1\r\n", "Tidegate_Ticket: t1\r\n"] {
            assert_eq!(world.through("/", &format!("x-user: ada\r\n{sent}")).await.status, 200, "{sent}");
        }
        let seen = seen.lock().unwrap().join("");
        assert!(seen.contains("x-user: ada\r\n"), "{seen}");
        assert_eq!(seen.matches(": t1\r\n").count(), usize::from(is_kept), "{seen}");
    }
}

#[tokio::test]
async fn the_permit_of_an_upstream_does_not_reach_the_client() {
    let permit =
        "HTTP/1.1 200 OK\r\nx-tidegate-permit: 0123\r\nx-tidegate-level: soft\r\ncontent-length: 2\r\n\r\nok";
    let server = answering(permit).await;
    let world = world(to(&[server.0], route("api"))).await;
    let answer = world.through("/", "").await;
    assert_eq!((answer.status, answer.header("x-tidegate-permit")), (200, None));
    assert_eq!(answer.header("x-tidegate-level"), Some("soft"), "other headers pass");
}

#[tokio::test]
async fn what_a_trusted_proxy_says_passes_but_no_second_spelling_of_what_was_counted() {
    let (server, seen) = well().await;
    let world = world(trusting(to(&[server], route("api")))).await;
    assert_eq!(world.through("/", &statements()).await.status, 200);
    let seen = seen.lock().unwrap().join("");
    for name in STATEMENTS {
        let is_said = seen.contains(&format!("\r\n{name}: 6.6.6.6"));
        assert_eq!(is_said, name != "x_user", "{name}: {seen}");
    }
}

#[tokio::test]
async fn another_spelling_of_a_counted_header_never_passes() {
    for spelling in ["x_user", "X_User", "x.user", "x!user"] {
        let (server, seen) = well().await;
        let world = world(to(&[server], route("api"))).await;
        assert_eq!(world.through("/", &format!("x-user: ada\r\n{spelling}: eve\r\n")).await.status, 200);
        let seen = seen.lock().unwrap().join("");
        assert!(seen.contains("x-user: ada\r\n") && !seen.contains("eve"), "{spelling}: {seen}");
    }
}

#[tokio::test]
async fn an_owner_may_keep_headers_by_name() {
    let (server, seen) = well().await;
    let mut config = to(&[server], route("api"));
    config.keep_headers = ["x-original-url", "api_key"].map(http::HeaderName::from_static).to_vec();
    let world = world(config).await;
    let sent = "x-user: ada\r\nx-original-url: /a\r\nx-rewrite-url: /b\r\napi_key: k\r\nother_key: k\r\n";
    assert_eq!(world.through("/", sent).await.status, 200);
    let seen = seen.lock().unwrap().join("");
    assert!(seen.contains("x-original-url: /a\r\n") && seen.contains("api_key: k\r\n"), "{seen}");
    assert!(!seen.contains("x-rewrite-url") && !seen.contains("other_key"), "{seen}");
}

#[tokio::test]
async fn a_method_that_is_counted_cannot_be_overridden() {
    for (counts_method, passes) in [(true, false), (false, true)] {
        let (server, seen) = well().await;
        let mut by_method = route("api");
        if counts_method {
            by_method.methods = vec![http::Method::GET];
        }
        let world = world(to(&[server], by_method)).await;
        let answer = world.through("/", "x-user: ada\r\nx-http-method-override: DELETE\r\n").await;
        assert_eq!(answer.status, 200);
        assert_eq!(seen.lock().unwrap().join("").contains("DELETE"), passes);
    }
}
