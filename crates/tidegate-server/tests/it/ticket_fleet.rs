//! Three daemons on one Redis server that share the key of tickets.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_server::{Handle, ListenerRole, ManualClock, from_policy};
use tidegate_test_support::{RedisServer, TemporaryFolder, eventually, eventually_some, skip};

use crate::client::{Answer, Client};
use crate::world::START;

const REST: &str = "
namespaces: { api: { limits: [] }, web: { limits: [] } }
resources:
  app: { concurrency: 1, defer: { classes: [sheddable, sheddable_plus], operation: entry.does } }
  db: { concurrency: 1, defer: { classes: [sheddable, sheddable_plus], operation: entry.does } }
";

struct Member {
    handle: Handle,
    clock: Arc<ManualClock>,
}

impl Member {
    /// A member whose clock is so far ahead of that of the others.
    async fn start(redis: &RedisServer, ahead: Duration) -> Self {
        Self::start_with(redis, REST, ahead).await
    }

    async fn start_with(redis: &RedisServer, rest: &str, ahead: Duration) -> Self {
        let text = format!("store: {{ kind: redis, urls: [\"{}\"] }}{rest}", redis.url());
        let parsed = tidegate_policy::parse("policy.yaml", &text, &|_| None);
        let policy = parsed.unwrap_or_else(|problems| panic!("{problems}")).policy;
        let mut config = from_policy::server_config(&policy).unwrap();
        config.listen(ListenerRole::Http, "127.0.0.1:0".parse().unwrap());
        config.bounds.drain_grace = Duration::ZERO;
        let clock = Arc::new(ManualClock::new(START.saturating_add(ahead)));
        let time = Arc::clone(&clock) as _;
        let handle = from_policy::serve_on(&policy, text.as_bytes(), config, time).await.unwrap();
        Self { handle, clock }
    }

    async fn post(&self, route: &str, body: &Value) -> Answer {
        let mut client = Client::connect(self.handle.http().unwrap().tcp().unwrap()).await;
        client.post(route, &body.to_string()).await
    }

    /// Takes the only place of a resource.
    async fn hold(&self, resource: &str) -> Value {
        let body = json!({"namespace": "api", "resource": resource, "class": "critical"});
        let held = self.post("/v1/reserve", &body).await;
        assert_eq!(held.status, 200, "{held:?}");
        json!({"permit": held.json()["permit"]})
    }

    async fn settle(&self, permit: &Value) {
        assert_eq!(self.post("/v1/settle", permit).await.status, 200);
    }

    /// The worth of the ticket of a request, and why it counts for nothing.
    async fn worth(&self, body: &Value) -> (String, Option<String>) {
        let ticket = self.post("/v1/explain", body).await.json()["ticket"].clone();
        let text = |name: &str| ticket[name].as_str().map(str::to_owned);
        (text("worth").unwrap(), text("fault"))
    }
}

fn request(ticket: Option<&str>) -> Value {
    json!({
        "namespace": "api", "resource": "app", "class": "sheddable", "cost": 3, "ticket": ticket,
        "attributes": {"tenant": "ada", "does": "export"},
    })
}

/// The request of a ticket with something else in it.
fn other(ticket: &str, name: &str, value: Value) -> Value {
    let mut request = request(Some(ticket));
    match name {
        "tenant" | "does" => request["attributes"][name] = value,
        _ => request[name] = value,
    }
    request
}

fn deferred(answer: &Answer) -> String {
    let body = answer.json();
    assert_eq!((answer.status, &body["reason"]), (503, &json!("deferred")), "{answer:?}");
    body["ticket"].as_str().unwrap().to_owned()
}

/// A ticket that a member sells while its place is held.
async fn sold_by(member: &Member) -> String {
    eventually_some("the member has the key", async || {
        let answer = member.post("/v1/reserve", &request(None)).await;
        (answer.json()["reason"] == "deferred").then(|| deferred(&answer))
    })
    .await
}

#[tokio::test]
async fn each_bad_ticket_is_refused_by_every_member_and_a_good_one_is_honoured_by_every_other() {
    let name = "each_bad_ticket_is_refused_by_every_member_and_a_good_one_is_honoured_by_every_other";
    let Some(redis) = RedisServer::start(&[]) else { return skip(name) };
    let mut members = Vec::new();
    for seconds in [0, 2, 4] {
        members.push(Member::start(&redis, Duration::from_secs(seconds)).await);
    }
    let mut held = Vec::new();
    for member in &members {
        held.push([member.hold("app").await, member.hold("db").await]);
    }
    let mut tickets = Vec::new();
    for member in &members {
        tickets.push(sold_by(member).await);
    }
    let ticket = &tickets[0];
    let at = if ticket.as_bytes()[150] == b'A' { "B" } else { "A" };
    let forged = format!("{}{at}{}", &ticket[..150], &ticket[151..]);
    // The number of its key is that of a key which nobody has any more.
    let digit = if ticket.as_bytes()[3] == b'A' { "B" } else { "A" };
    let rotated = format!("{}{digit}{}", &ticket[..3], &ticket[4..]);
    let bad = [
        ("forged", request(Some(&forged))),
        ("malformed", request(Some(&ticket[..100]))),
        ("unknown_key", request(Some(&rotated))),
        ("namespace", other(ticket, "namespace", json!("web"))),
        ("resource", other(ticket, "resource", json!("db"))),
        ("operation", other(ticket, "does", json!("delete"))),
        ("tenant", other(ticket, "tenant", json!("eve"))),
        ("class", other(ticket, "class", json!("sheddable_plus"))),
        ("cost", other(ticket, "cost", json!(4))),
    ];
    for member in &members {
        for (fault, request) in &bad {
            assert_eq!(member.worth(request).await, ("nothing".to_owned(), Some((*fault).to_owned())));
            let new = deferred(&member.post("/v1/reserve", request).await);
            assert_ne!(request["ticket"], json!(new), "{fault}: a request without a ticket gets a new one");
        }
    }
    // Each is honoured by the members that did not sell it, in its time, whatever their clocks say.
    for (member, held) in members.iter().zip(&held) {
        member.settle(&held[0]).await;
    }
    for (seller, ticket) in tickets.iter().enumerate() {
        for (redeemer, member) in members.iter().enumerate().filter(|(redeemer, _)| *redeemer != seller) {
            let what = format!("the ticket of {seller} at {redeemer}");
            let due = request(Some(ticket));
            let admitted = eventually_some(&what, async || {
                member.clock.advance(Duration::from_millis(100));
                let answer = member.post("/v1/reserve", &due).await;
                (answer.status == 200).then(|| json!({"permit": answer.json()["permit"]}))
            })
            .await;
            member.settle(&admitted).await;
            // A second time it counts for nothing here.
            assert_eq!(member.worth(&due).await.0, "spent", "{what}");
        }
    }
    // An hour later each is expired everywhere.
    for member in &members {
        for ticket in &tickets {
            eventually("the ticket is over", async || {
                member.clock.advance(Duration::from_hours(1));
                member.worth(&request(Some(ticket))).await.0 == "expired"
            })
            .await;
        }
    }
}

const KEYS: [&str; 2] =
    ["QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=", "QkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkI="];

#[tokio::test]
async fn keys_that_rotate_at_three_members_lose_no_ticket_and_a_broken_file_keeps_the_keys() {
    let name = "keys_that_rotate_at_three_members_lose_no_ticket_and_a_broken_file_keeps_the_keys";
    let Some(redis) = RedisServer::start(&[]) else { return skip(name) };
    let folder = TemporaryFolder::new();
    let file = folder.write("keys", KEYS[0]);
    let rest = REST.replace("entry.does }", &format!("entry.does, key_file: '{}' }}", file.display()));
    let mut members = Vec::new();
    for _ in 0..3 {
        let member = Member::start_with(&redis, &rest, Duration::ZERO).await;
        member.hold("app").await;
        members.push(member);
    }
    let mut old = Vec::new();
    for member in &members {
        old.push(sold_by(member).await);
    }
    let [first, second] = KEYS;
    let missing = || std::fs::remove_file(&file).unwrap();
    let rotation: [&dyn Fn(); 7] = [
        &|| std::fs::write(&file, format!("{first}\n{second}\n")).unwrap(),
        &|| std::fs::write(&file, "c2hvcnQ=").unwrap(),
        &missing,
        &|| std::fs::create_dir(&file).unwrap(),
        &|| std::fs::remove_dir(&file).unwrap(),
        &|| std::fs::write(&file, format!("{second}\n{first}\n")).unwrap(),
        &|| {},
    ];
    for change in rotation {
        change();
        for member in &members {
            // One member after the other, so that some have the new keys and others do not.
            member.handle.look_at_files();
            let new = sold_by(member).await;
            for other in &members {
                for ticket in old.iter().chain([&new]) {
                    let (worth, fault) = other.worth(&request(Some(ticket))).await;
                    assert_ne!(worth, "nothing", "{fault:?}");
                }
            }
        }
    }
    std::fs::write(&file, second).unwrap();
    for member in &members {
        let new = sold_by(member).await;
        member.handle.look_at_files();
        for ticket in &old {
            let (worth, fault) = member.worth(&request(Some(ticket))).await;
            assert_eq!((&*worth, fault.as_deref()), ("nothing", Some("unknown_key")));
        }
        assert_ne!(member.worth(&request(Some(&new))).await.0, "nothing");
    }
}
