//! The keys of deferral tickets in a daemon, and what operators see of tickets.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_core::{Timestamp, error_chain};
use tidegate_server::{Handle, ListenerRole, ManualClock, Server, from_policy, random_seed};
use tidegate_store::DynStore;
use tidegate_test_support::{RedisServer, TemporaryFolder, eventually, eventually_some, free_port, skip};

use crate::client::{Answer, Client};
use crate::restartable_daemon::{Kept, RestartableDaemon};
use crate::world::{START, memory_store};

pub(crate) const KEYS: [&str; 2] =
    ["QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=", "QkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkI="];

/// A namespace and a resource with one place, with these settings of `defer` beside the classes.
pub(crate) fn deferring(rest: &str) -> String {
    format!(
        "  api: {{ limits: [] }}\nresources: {{ app: {{ concurrency: 1, defer: {{ classes: [sheddable]{rest} }} }} }}\n"
    )
}

fn instant(text: &str) -> Timestamp {
    let instant: jiff::Timestamp = text.parse().unwrap();
    Timestamp::from_nanos(u64::try_from(instant.as_nanosecond()).unwrap())
}

/// A ticket as an answer shows it.
pub(crate) struct Ticket {
    pub(crate) text: String,
    pub(crate) not_before: Timestamp,
}

pub(crate) fn ticket_of(answer: &Answer) -> Ticket {
    let body = answer.json();
    assert_eq!((answer.status, &body["reason"]), (503, &json!("deferred")), "{answer:?}");
    let text = body["ticket"].as_str().unwrap().to_owned();
    assert_eq!(answer.header("tidegate-ticket"), Some(&*text), "{answer:?}");
    // To the next millisecond, since answers show no more.
    let not_before = body["not_before"].as_str().unwrap();
    let not_before = instant(not_before).saturating_add(Duration::from_millis(1));
    Ticket { text, not_before }
}

fn body(ticket: Option<&str>) -> String {
    json!({"namespace": "api", "resource": "app", "class": "sheddable", "ticket": ticket}).to_string()
}

/// A daemon that answers over HTTP.
pub(crate) trait Door {
    async fn door(&self) -> Client;

    /// Asks for a place, with a ticket or without, and gives it back.
    async fn asks(&self, ticket: Option<&str>) -> Answer {
        let mut door = self.door().await;
        let answer = door.post("/v1/reserve", &body(ticket)).await;
        if answer.status == 200 {
            let permit = json!({"permit": answer.json()["permit"]}).to_string();
            assert_eq!(door.post("/v1/settle", &permit).await.status, 200);
        }
        answer
    }

    /// A ticket that is sold while somebody holds the only place, which is free afterwards.
    async fn sells(&self) -> Ticket {
        let mut door = self.door().await;
        let held = door.post("/v1/reserve", r#"{"namespace":"api","resource":"app"}"#).await;
        assert_eq!(held.status, 200, "{held:?}");
        let ticket = ticket_of(&self.asks(None).await);
        let permit = json!({"permit": held.json()["permit"]}).to_string();
        assert_eq!(door.post("/v1/settle", &permit).await.status, 200);
        ticket
    }

    async fn deferral(&self) -> Value {
        self.door().await.get("/v1/resources/app").await.json()["deferral"].clone()
    }

    async fn explained(&self, ticket: &str) -> Value {
        self.door().await.post("/v1/explain", &body(Some(ticket))).await.json()["ticket"].clone()
    }

    /// The value of a series of `tidegate_ticket_faults_total`.
    async fn faults(&self, fault: &str) -> u64 {
        let page = self.door().await.get("/metrics").await.body;
        let series = format!("tidegate_ticket_faults_total{{fault=\"{fault}\"}} ");
        page.lines().find_map(|line| line.strip_prefix(&series)).expect(&page).parse().unwrap()
    }
}

impl Door for RestartableDaemon {
    async fn door(&self) -> Client {
        self.client().await
    }
}

impl Door for Handle {
    async fn door(&self) -> Client {
        Client::connect(self.http().unwrap().tcp().unwrap()).await
    }
}

async fn serve(text: &str, clock: &Arc<ManualClock>) -> Handle {
    let policy = policy(text);
    let mut config = from_policy::server_config(&policy).unwrap();
    config.listen(ListenerRole::Http, "127.0.0.1:0".parse().unwrap());
    config.bounds.drain_grace = Duration::ZERO;
    from_policy::serve_on(&policy, text.as_bytes(), config, Arc::clone(clock) as _).await.unwrap()
}

fn policy(text: &str) -> tidegate_policy::Policy {
    let parsed = tidegate_policy::parse("policy.yaml", text, &|_| None);
    parsed.unwrap_or_else(|problems| panic!("{problems}")).policy
}

#[tokio::test]
async fn a_store_in_files_keeps_the_key_through_a_restart_and_memory_does_not() {
    for (kept, is_kept) in [(Kept::Files, true), (Kept::Memory, false)] {
        let mut daemon = RestartableDaemon::start(kept, &deferring(""), START).await;
        let ticket = daemon.sells().await;
        daemon.restart_at(ticket.not_before).await;
        assert_eq!(daemon.asks(Some(&ticket.text)).await.status, 200);
        let redeemed = daemon.deferral().await["redeemed"].as_u64();
        assert_eq!(
            (redeemed, daemon.faults("unknown_key").await),
            (Some(is_kept.into()), u64::from(!is_kept))
        );
    }
}

#[tokio::test]
async fn a_reload_that_adds_deferral_brings_keys_and_one_that_changes_it_keeps_them() {
    let without = "  api: { limits: [] }\nresources: { app: { concurrency: 1 } }\n";
    let daemon = RestartableDaemon::start(Kept::Memory, without, START).await;
    assert_eq!(daemon.reload(&deferring("")).await, None);
    let ticket = daemon.sells().await;
    assert_eq!(daemon.reload(&deferring(", share: 0.4")).await, None);
    let folder = TemporaryFolder::new();
    let file = folder.write("keys", KEYS[0]);
    let with_file = deferring(&format!(", key_file: '{}'", file.display()));
    assert_eq!(daemon.reload(&with_file).await, None);
    daemon.clock.set(ticket.not_before);
    assert_eq!(daemon.asks(Some(&ticket.text)).await.status, 200);
    assert_eq!(daemon.deferral().await["redeemed"], 1);
    std::fs::remove_file(file).unwrap();
    let problems = daemon.reload(&(with_file + "log: { refusals: off }\n")).await.unwrap();
    assert!(problems.contains("keys cannot be read; write one"), "{problems}");
}

#[tokio::test]
async fn a_new_key_in_the_file_loses_no_ticket_and_a_broken_file_keeps_the_keys() {
    let folder = TemporaryFolder::new();
    let file = folder.write("keys", KEYS[0]);
    let clock = Arc::new(ManualClock::new(START));
    let text = format!(
        "store: {{ kind: memory }}\nnamespaces:\n{}",
        deferring(&format!(", key_file: '{}'", file.display()))
    );
    let daemon = serve(&text, &clock).await;
    let old = daemon.sells().await;
    std::fs::write(&file, KEYS[1]).unwrap();
    daemon.look_at_files();
    let new = daemon.sells().await;
    std::fs::write(&file, "c2hvcnQ=").unwrap();
    daemon.look_at_files();
    clock.set(old.not_before.max(new.not_before));
    for (redeemed, ticket) in [(1, &old), (2, &new)] {
        assert_eq!(daemon.asks(Some(&ticket.text)).await.status, 200);
        assert_eq!(daemon.deferral().await["redeemed"], redeemed);
    }
    // A key that is rotated away.
    let last = daemon.sells().await;
    std::fs::write(&file, format!("{}\n{}\n", KEYS[0], "Q".repeat(43) + "=")).unwrap();
    daemon.look_at_files();
    clock.set(last.not_before);
    assert_eq!(daemon.asks(Some(&last.text)).await.status, 200);
    assert_eq!(daemon.faults("unknown_key").await, 1);
    daemon.shutdown().await;
}

#[test]
fn a_key_file_that_cannot_be_used_keeps_the_daemon_from_starting_and_the_error_names_it_and_the_fix() {
    let folder = TemporaryFolder::new();
    let error = |path: &Path| {
        let text = format!("namespaces:\n{}", deferring(&format!(", key_file: '{}'", path.display())));
        error_chain(&from_policy::server_config(&policy(&text)).unwrap_err())
    };
    for (path, hints) in [
        (folder.join("missing"), ["missing cannot be read", "openssl rand -base64 32"]),
        (folder.path().to_owned(), ["it is a directory", "openssl rand -base64 32"]),
        (folder.write("short", "c2hvcnQ=\n"), ["short cannot be used", "use at least 32 random bytes"]),
        (folder.write("empty", ""), ["empty cannot be used", "has no key; write one with `openssl"]),
        (folder.write("large", "Q".repeat(4097)), ["large cannot be read", "larger than 4096 bytes"]),
    ] {
        let error = error(&path);
        assert!(hints.iter().all(|hint| error.contains(hint)) && !error.contains("c2hvcnQ"), "{error}");
    }
}

#[tokio::test]
async fn servers_that_start_at_once_on_one_store_have_one_key() {
    let clock = Arc::new(ManualClock::new(START));
    let store = memory_store(&clock);
    let (one, other) = tokio::join!(on_store(&store, &clock), on_store(&store, &clock));
    let tickets = [one.sells().await, other.sells().await];
    clock.set(tickets.iter().map(|ticket| ticket.not_before).max().unwrap());
    let redeemers = [(&one, &tickets[1]), (&other, &tickets[0])];
    for (server, ticket) in redeemers {
        assert_eq!(server.asks(Some(&ticket.text)).await.status, 200);
        assert_eq!(server.deferral().await["redeemed"], 1);
    }
    // It is spent there, and the request is decided as one without.
    for (server, ticket) in redeemers {
        assert_eq!(server.asks(Some(&ticket.text)).await.status, 200);
        let counts = server.deferral().await;
        assert_eq!((&counts["redeemed"], &counts["replayed"]), (&json!(1), &json!(1)), "{counts}");
    }
}

async fn on_store(store: &Arc<dyn DynStore>, clock: &Arc<ManualClock>) -> Handle {
    let policy = policy(&format!("namespaces:\n{}", deferring("")));
    let mut config = from_policy::server_config(&policy).unwrap();
    config.listen(ListenerRole::Http, "127.0.0.1:0".parse().unwrap());
    let engine = from_policy::engine(&policy, random_seed(), START).unwrap();
    Server::start(config, Arc::new(engine), Arc::clone(store), Arc::clone(clock) as _).await.unwrap()
}

#[tokio::test]
async fn a_shared_store_that_is_away_delays_no_start_and_gives_its_members_one_key_when_it_comes() {
    let name = "a_shared_store_that_is_away_delays_no_start_and_gives_its_members_one_key_when_it_comes";
    let port = free_port();
    let clock = Arc::new(ManualClock::new(START));
    let text = format!(
        "store: {{ kind: redis, urls: [\"redis://127.0.0.1:{port}\"] }}\nnamespaces:\n{}",
        deferring("")
    );
    let members = [serve(&text, &clock).await, serve(&text, &clock).await];
    let mut held = Vec::new();
    for member in &members {
        let place = member.door().await.post("/v1/reserve", r#"{"namespace":"api","resource":"app"}"#).await;
        assert_eq!(place.status, 200, "{place:?}");
        held.push(json!({"permit": place.json()["permit"]}).to_string());
        let refused = member.asks(None).await;
        assert_eq!(refused.json()["reason"], "overload_shed", "without a key: {refused:?}");
    }
    let Some(_redis) = RedisServer::start_on(port, &[]) else { return skip(name) };
    let mut tickets = Vec::new();
    for (member, held) in members.iter().zip(&held) {
        let answer = eventually_some("the member has the key", async || {
            let answer = member.asks(None).await;
            (answer.json()["reason"] == "deferred").then_some(answer)
        })
        .await;
        tickets.push(ticket_of(&answer));
        assert_eq!(member.door().await.post("/v1/settle", held).await.status, 200);
    }
    clock.set(tickets.iter().map(|ticket| ticket.not_before).max().unwrap());
    for (member, ticket) in members.iter().zip(tickets.iter().rev()) {
        assert_eq!(member.asks(Some(&ticket.text)).await.status, 200);
        assert_eq!(member.deferral().await["redeemed"], 1);
    }
}

#[tokio::test]
async fn operators_see_what_becomes_of_tickets_and_what_one_is_worth_and_never_a_ticket() {
    let daemon = RestartableDaemon::start(Kept::Memory, &deferring(", max_deferrals: 3"), START).await;
    let ticket = daemon.sells().await;
    let deferral = daemon.deferral().await;
    assert_eq!(
        (&deferral["classes"], &deferral["share"], &deferral["horizon_s"], &deferral["max_deferrals"]),
        (&json!(["sheddable"]), &json!(0.2), &json!(3600), &json!(3))
    );
    assert_eq!((&deferral["sold"], &deferral["booked"]), (&json!(1), &json!(1)), "{deferral}");
    let booked_until = instant(deferral["booked_until"].as_str().unwrap());
    assert!(booked_until >= ticket.not_before, "{deferral}");
    let early = daemon.explained(&ticket.text).await;
    assert_eq!((&early["worth"], &early["deferrals"]), (&json!("early"), &json!(1)), "{early}");
    let nothing = daemon.explained("none").await;
    assert_eq!((&nothing["worth"], &nothing["fault"]), (&json!("nothing"), &json!("malformed")));
    assert!(nothing["because"].as_str().unwrap().contains("send it exactly as the refusal gave it"));
    daemon.clock.set(ticket.not_before);
    assert_eq!(daemon.explained(&ticket.text).await["worth"], "due");
    let before = daemon.deferral().await;
    let counts = |body: &Value| ["early", "redeemed", "replayed"].map(|name| body[name].as_u64().unwrap());
    assert_eq!((counts(&before), daemon.faults("malformed").await), ([0; 3], 0), "explaining counts nothing");
    assert_eq!(daemon.asks(Some(&ticket.text)).await.status, 200);
    assert_eq!(daemon.explained(&ticket.text).await["worth"], "spent");
    assert_eq!(counts(&daemon.deferral().await), [0, 1, 0]);
    let late = daemon.sells().await;
    daemon.clock.advance(Duration::from_mins(1));
    assert_eq!(daemon.explained(&late.text).await["worth"], "expired");
    let elsewhere = json!({"namespace": "api", "ticket": ticket.text}).to_string();
    let other = daemon.post("/v1/explain", &elsewhere).await.json()["ticket"].clone();
    assert_eq!(other["worth"], "nothing", "{other}");
    eventually("the rates show the deferred request", async || {
        let resource = daemon.get("/v1/resources/app").await.json();
        resource["classes"].as_array().unwrap().iter().any(|class| class["deferred"] == 2)
    })
    .await;
    let page = daemon.get("/metrics").await.body;
    for series in [
        "tidegate_resource_tickets_total{resource=\"app\",event=\"sold\"} 2",
        "tidegate_resource_tickets_total{resource=\"app\",event=\"redeemed\"} 1",
        "tidegate_resource_tickets_booked{resource=\"app\"} 0",
    ] {
        assert!(page.lines().any(|line| line == series), "{series}: {page}");
    }
    assert!(page.contains("tidegate_resource_shown_capacity{resource=\"app\"} "), "{page}");
    assert!(!page.contains(&ticket.text) && !daemon.get("/v1/resources").await.body.contains(&ticket.text));
}
