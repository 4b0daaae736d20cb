//! Claims that hold behind every gateway. The limit of the recipes is five requests of a key.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use tidegate_test_support::until;

use super::exchange::{Answer, get, post, try_send};
use super::stand::Stand;

/// Which answers carry `RateLimit` and `RateLimit-Policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fields {
    Everywhere,
    InRefusals,
}

/// Everything that holds while the daemon runs.
pub(crate) fn hold(stand: &Stand, fields: Fields) {
    of_fifteen_in_a_row_the_first_five_are_admitted(stand, fields);
    of_forty_at_once_five_are_admitted(stand);
    a_body_arrives_whole_or_not_at_all(stand);
    requests_without_a_key_share_one_counter(stand);
    for key in HOSTILE_KEYS {
        a_hostile_key_is_that_key_and_nothing_else(stand, key);
    }
    a_hostile_key_is_that_key_and_nothing_else(stand, &"x".repeat(1024));
}

/// Claims that also hold for gateways that ask over HTTP.
pub(crate) fn hold_over_http(stand: &Stand, fields: Fields) {
    hold(stand, fields);
    no_header_lets_a_request_pass_whose_key_is_used_up(stand);
    a_hostile_key_is_that_key_and_nothing_else(stand, "k\u{e4}se \u{2603} \u{1f984}");
    a_key_that_cannot_be_counted_is_an_error(stand);
}

/// Keys that try to be more than a key to some gateway.
const HOSTILE_KEYS: [&str; 9] = [
    "ada lovelace",
    "k&namespace=other",
    "k&cost=5&api_key=other",
    "k?x=1#fragment",
    "k HTTP/1.1",
    "\"quoted\" 'twice' \\ back",
    "%26namespace%3Dother%00",
    "%[var(txn.key)]$http_host${HOME}{http.request.host}",
    "a=b; c=\"d\", e",
];

fn of_fifteen_in_a_row_the_first_five_are_admitted(stand: &Stand, fields: Fields) {
    stand.service.take_seen();
    let since = Instant::now();
    for number in 1..=15_u32 {
        let answer = get(&stand.public, &[("X-Api-Key", b"in-a-row")]);
        assert_eq!(answer.status, if number <= 5 { 200 } else { 429 }, "{number}: {answer:?}");
        if number <= 5 {
            assert_eq!(answer.header("x-service"), Some("yes"), "{answer:?}");
            assert_eq!(answer.header("retry-after"), None, "{answer:?}");
            if fields == Fields::InRefusals {
                assert_eq!(answer.header("ratelimit"), None, "{answer:?}");
            } else {
                let left = format!("\"per-key\";r={};t=", 5 - number);
                assert!(answer.header("ratelimit").unwrap().starts_with(&left), "{answer:?}");
                assert_eq!(answer.header("ratelimit-policy"), Some("\"per-key\";q=5;w=600"), "{answer:?}");
            }
        } else {
            explains_itself(&answer, since.elapsed());
        }
    }
    let seen = stand.service.take_seen();
    assert_eq!(seen.len(), 5, "{seen:?}");
    assert!(seen.iter().all(|seen| seen.line.starts_with("GET /orders?page=2 HTTP/1.1")), "{seen:?}");
}

/// The answer is a refusal that says all of it, so long after the first request.
fn explains_itself(answer: &Answer, after: Duration) {
    assert_eq!(answer.header("x-service"), None, "{answer:?}");
    let wait: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!(wait <= 601 && wait + after.as_secs() >= 590, "after {after:?}: {answer:?}");
    assert!(answer.header("ratelimit").unwrap().starts_with("\"per-key\";r=0;t="), "{answer:?}");
    assert_eq!(answer.header("ratelimit-policy"), Some("\"per-key\";q=5;w=600"), "{answer:?}");
    assert_eq!(answer.header("x-tidegate-reason"), Some("rate_exceeded"), "{answer:?}");
}

fn of_forty_at_once_five_are_admitted(stand: &Stand) {
    stand.service.take_seen();
    let together = Barrier::new(40);
    let ask = || {
        together.wait();
        get(&stand.public, &[("X-Api-Key", b"at-once")]).status
    };
    let mut statuses: Vec<u16> = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..40).map(|_| scope.spawn(ask)).collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).collect()
    });
    statuses.sort_unstable();
    assert_eq!(statuses, [[200; 5].as_slice(), &[429; 35]].concat());
    assert_eq!(stand.service.take_seen().len(), 5);
}

fn a_body_arrives_whole_or_not_at_all(stand: &Stand) {
    stand.service.take_seen();
    // More than a buffer of any gateway, and less than what Caddy still reads of a request it has
    // answered.
    let body: Vec<u8> = (0..200_000_u32).map(|number| (number % 251) as u8).collect();
    for number in 1..=6 {
        let answer = post(&stand.public, &[("X-Api-Key", b"body")], &body);
        if number <= 5 {
            assert_eq!((answer.status, answer.text().as_str()), (200, "hello\n"), "{number}");
        } else {
            assert_eq!(answer.status, 429);
        }
    }
    let seen = stand.service.take_seen();
    assert!(seen.len() == 5 && seen.iter().all(|seen| seen.body == body), "{} arrived", seen.len());
}

fn requests_without_a_key_share_one_counter(stand: &Stand) {
    let statuses: Vec<u16> = (0..6).map(|_| get(&stand.public, &[]).status).collect();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 429]);
}

/// Asks once and looks at the counter: it is the key's, in the namespace of the recipe.
fn a_hostile_key_is_that_key_and_nothing_else(stand: &Stand, key: &str) {
    stand.service.take_seen();
    assert!(has_room_for_key(stand, key, 5), "{key:?} was used before");
    let answer = get(&stand.public, &[("X-Api-Key", key.as_bytes())]);
    assert_eq!(answer.status, 200, "{key:?}: {answer:?}");
    assert!(
        has_room_for_key(stand, key, 4) && !has_room_for_key(stand, key, 5),
        "{key:?} was not charged once"
    );
    let seen = stand.service.take_seen();
    assert!(seen.len() == 1 && seen[0].keys == [key.as_bytes()], "{seen:?}");
}

fn a_key_that_cannot_be_counted_is_an_error(stand: &Stand) {
    stand.service.take_seen();
    let long = "x".repeat(4096);
    for key in [long.as_bytes(), b"\xff\xfe"] {
        let answer = get(&stand.public, &[("X-Api-Key", key)]);
        assert_eq!(answer.status, 400, "{answer:?}");
    }
    assert_eq!(stand.service.take_seen().len(), 0);
}

/// Gateways pass headers on to the check, and the daemon rejects large ones before it has read
/// them: the gateway must see that answer, and not the write error of a connection that was closed.
pub(crate) fn no_header_lets_a_request_pass_whose_key_is_used_up(stand: &Stand) {
    let key = ("X-Api-Key", b"headers".as_slice());
    let statuses: Vec<u16> = (0..6).map(|_| get(&stand.public, &[key]).status).collect();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 429]);
    stand.service.take_seen();
    let pass = |headers: &[(&str, &[u8])], what: &str| {
        for _ in 0..3 {
            // Some gateways answer before they have read all of it, and close.
            let answer = try_send(&stand.public, "GET", "/large", headers, b"");
            let seen = stand.service.take_seen().len();
            assert_eq!(seen, 0, "{what} reached the service: {answer:?}");
            assert!(
                answer.as_ref().is_ok_and(|answer| answer.status >= 400) || answer.is_err(),
                "{answer:?}"
            );
        }
    };
    for kilobytes in [10, 14, 20, 50, 64, 100, 200, 400] {
        let filler = vec![b'x'; kilobytes << 10];
        pass(&[key, ("X-Filler", &filler)], &format!("one header of {kilobytes} KB"));
        let names: Vec<String> = (0..kilobytes).map(|number| format!("X-Filler-{number}")).collect();
        let mut many = vec![key];
        many.extend(names.iter().map(|name| (name.as_str(), &filler[..1 << 10])));
        pass(&many, &format!("{kilobytes} headers of 1 KB"));
    }
    let names: Vec<String> = (0..300).map(|number| format!("X-Filler-{number}")).collect();
    let mut many = vec![key];
    many.extend(names.iter().map(|name| (name.as_str(), b"v".as_slice())));
    pass(&many, "300 short headers");
}

fn has_room_for_key(stand: &Stand, key: &str, cost: u64) -> bool {
    has_room(stand, &[("api_key", key)], cost)
}

/// Whether a request of this cost would be admitted, by the daemon's own word.
pub(crate) fn has_room(stand: &Stand, attributes: &[(&str, &str)], cost: u64) -> bool {
    let attributes: BTreeMap<_, _> = attributes.iter().copied().collect();
    let check =
        serde_json::json!({ "namespace": "api", "attributes": attributes, "cost": cost, "peek": true });
    let (status, text) = crate::process::post(&stand.api, "/v1/check", &check.to_string());
    assert!(status == 200 || status == 429, "{text}");
    status == 200
}

/// The answer to callers while the daemon does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Without {
    /// This status, and the service is not asked.
    Refused(u16),
    /// The service's answer.
    Admitted,
}

/// Stops the daemon, asks, and starts it again: it counts again, from nothing since this one keeps
/// nothing.
pub(crate) fn hold_without_the_daemon(stand: &mut Stand, without: Without) {
    let ask = |stand: &Stand, key: &str| get(&stand.public, &[("X-Api-Key", key.as_bytes())]);
    let statuses: Vec<u16> = (0..6).map(|_| ask(stand, "before").status).collect();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 429]);
    stand.service.take_seen();
    stand.stop_daemon();
    for _ in 0..8 {
        as_promised(stand, without, &ask(stand, "before"));
    }
    as_promised(stand, without, &post(&stand.public, &[("X-Api-Key", b"before")], &vec![b'b'; 100_000]));
    stand.start_daemon();
    until("the daemon is asked again", || {
        let answer = try_send(&stand.public, "GET", "/again", &[("X-Api-Key", b"again")], b"").unwrap();
        // Its fields, or its refusal: the gateway alone has neither.
        answer.status == 429 || (answer.status == 200 && !has_room_for_key(stand, "again", 5))
    });
    let statuses: Vec<u16> = (0..6).map(|_| ask(stand, "before").status).collect();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 429]);
}

/// As when the daemon is stopped, with something in its place that takes requests and answers none.
pub(crate) fn hold_while_the_daemon_is_silent(stand: &mut Stand, without: Without) {
    stand.wait_as_the_recipe_says();
    stand.stop_daemon();
    let silent = std::net::TcpListener::bind(&stand.asked).unwrap();
    stand.service.take_seen();
    as_promised(stand, without, &get(&stand.public, &[("X-Api-Key", b"silent")]));
    as_promised(stand, without, &post(&stand.public, &[("X-Api-Key", b"silent")], &vec![b'b'; 100_000]));
    drop(silent);
    stand.start_daemon();
}

/// Asks about a namespace that the daemon does not have: a mistake, which is not the same as being
/// down.
pub(crate) fn hold_without_the_namespace(stand: &mut Stand, status: u16) {
    stand.stop_daemon();
    stand.change_policy("  api:", "  renamed:");
    stand.start_daemon();
    until("callers are refused", || get(&stand.public, &[("X-Api-Key", b"lost")]).status == status);
}

fn as_promised(stand: &Stand, without: Without, answer: &Answer) {
    let seen = stand.service.take_seen();
    let (status, reached) = match without {
        Without::Refused(status) => (status, 0),
        Without::Admitted => (200, 1),
    };
    assert_eq!((answer.status, seen.len()), (status, reached), "{answer:?}");
    let length = seen.first().map_or(0, |seen| seen.body.len());
    assert!([0, 100_000].contains(&length), "{length} bytes arrived");
}
