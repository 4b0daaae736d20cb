//! Deferral through every protocol: the ticket that a refused request gets, and what becomes of a
//! request that comes back with it.

use std::time::Duration;

use serde_json::json;
use tidegate_core::Timestamp;
use tidegate_engine::{Cursor, Event, TicketKeys};
use tidegate_overload::TicketIssuer;
use tidegate_server::Clock as _;

use crate::doors::{DOORS, Daemon, DoorAnswer, DoorRequest};
use crate::world::START;

const POLICY: &str = r#"
store: { kind: memory }
listen: { http: 127.0.0.1:0, grpc: 127.0.0.1:0, resp: 127.0.0.1:0, proxy: 127.0.0.1:0 }
namespaces:
  shop: { limits: [{ name: all, rate: 100000/s }] }
resources:
  app: { concurrency: 1000, defer: { classes: [sheddable_plus], share: 0.5 } }
proxy:
  upstreams: { app: ["http://SERVER"] }
  routes:
    - { upstream: app, namespace: shop, attributes: { who: header.x-tenant }, tenant: who }
"#;

/// The states of a ticket, and what a request with it meets while the cursor sheds all others of
/// its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    None,
    Early,
    Due,
    Spent,
    Expired,
    OfAnotherTenant,
    Cut,
    Nonsense,
}

/// The answer of a door to a request that may be deferred.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct TicketAnswer {
    is_admitted: bool,
    status: Option<u16>,
    reason: Option<String>,
    /// The ticket of the header, and that of the body or the metadata.
    header: Option<String>,
    member: Option<String>,
    not_before: Option<String>,
    retry_seconds: Option<u64>,
}

impl TicketAnswer {
    fn new(answer: DoorAnswer) -> Self {
        let member = |name| answer.member(name).map(str::to_owned);
        Self {
            is_admitted: answer.is_admitted,
            status: answer.status,
            header: answer.header("tidegate-ticket").map(str::to_owned),
            member: member("ticket"),
            not_before: member("not_before"),
            reason: answer.reason,
            retry_seconds: answer.retry_seconds,
        }
    }

    fn ticket(&self) -> &str {
        self.header.as_deref().or(self.member.as_deref()).expect("a ticket")
    }
}

/// A daemon with a key of tickets.
async fn daemon() -> Daemon {
    daemon_with("").await
}

/// A daemon with a key of tickets, whose policy has these lines more.
async fn daemon_with(lines: &str) -> Daemon {
    let daemon = Daemon::before_server(&format!("{POLICY}{lines}")).await;
    daemon.engine.set_ticket_keys(Some(TicketKeys::new(&[7; 32]).unwrap()));
    daemon.engine.set_ticket_issuer(TicketIssuer { member: 1, start: 1 });
    daemon
}

impl Daemon {
    /// Lets nothing but the highest class pass from now on.
    fn close(&self) {
        let now = self.clock.now();
        let until = now.saturating_add(Duration::from_hours(1));
        let pin = Event::Pin { resource: Some("app"), level: Some(Cursor::CLOSED.level()), until };
        self.engine.event(pin, now).unwrap();
    }

    fn open(&self) {
        let now = self.clock.now();
        self.engine.event(Event::Pin { resource: Some("app"), level: None, until: now }, now).unwrap();
    }

    fn counts(&self) -> tidegate_overload::DeferralCounts {
        self.engine.resource_stats(self.clock.now()).find_map(|one| one.deferral).unwrap().counts
    }

    async fn ask_with_ticket(&self, door: &str, tenant: &str, ticket: Option<&str>) -> TicketAnswer {
        let words =
            [("user", Some("ada")), ("tenant", Some(tenant)), ("ticket", ticket), ("resource", Some("app"))];
        let headers = [("x-tenant", Some(tenant)), ("tidegate-ticket", ticket)];
        let given = |(name, value)| Some((name, value?));
        let asked = DoorRequest {
            body: json!({
                "namespace": "shop", "attributes": { "tenant": tenant }, "resource": "app", "ticket": ticket,
            }),
            words: words.into_iter().filter_map(given).collect(),
            resource: "app",
            path: "/",
            headers: headers.into_iter().filter_map(given).collect(),
        };
        TicketAnswer::new(self.ask_door(door, &asked).await)
    }
}

/// The instant of a text as `2027-01-15T08:00:01.25Z`, of the day of [`START`].
fn instant(text: &str) -> Timestamp {
    let (day, time) = text.strip_suffix('Z').unwrap().split_once('T').unwrap();
    let midnight = START.as_secs() / 86_400 * 86_400;
    assert!(Timestamp::from_secs(midnight).to_string().starts_with(day), "{text} is of another day");
    let parts: Vec<f64> = time.split(':').map(|part| part.parse().unwrap()).collect();
    let seconds = parts.iter().fold(0.0, |sum, part| sum * 60.0 + part);
    Timestamp::from_secs(midnight).saturating_add(Duration::from_secs_f64(seconds))
}

/// The decision table: doors and states of a ticket.
#[tokio::test]
async fn every_door_defers_and_takes_the_ticket_back_in_its_time_only() {
    use State::{Cut, Due, Early, Expired, None as Without, Nonsense, OfAnotherTenant, Spent};
    let daemon = daemon().await;
    // One descriptor shows the ticket; calls with a second one are left out.
    for door in DOORS.into_iter().filter(|door| !door.ends_with("of two")) {
        for state in [Without, Early, Due, Spent, Expired, OfAnotherTenant, Cut, Nonsense] {
            let what = format!("{door}, {state:?}");
            daemon.close();
            let first = daemon.ask_with_ticket(door, "ada", None).await;
            assert!(!first.is_admitted, "{what}: {first:?}");
            assert_eq!(first.reason.as_deref(), Some("deferred"), "{what}: {first:?}");
            assert!(first.status.is_none_or(|status| status == 503), "{what}: {first:?}");
            let ticket = first.ticket().to_owned();
            assert!((100..=256).contains(&ticket.len()), "{what}: {first:?}");
            assert_eq!(first.header.is_some(), door != "resp", "{what}: {first:?}");
            assert_eq!(first.member.is_some(), door != "authorize", "{what}: {first:?}");
            // The wait is rounded up to whole seconds, never below what is promised.
            let waits = first.retry_seconds.expect("a wait");
            let mut due = daemon.clock.now().saturating_add(Duration::from_secs(waits));
            if let Some(not_before) = &first.not_before {
                let not_before = instant(not_before);
                assert!(not_before > daemon.clock.now() && not_before <= due, "{what}: {first:?}");
                due = not_before.max(due);
            }
            let (tenant, shown, at) = match state {
                Without => ("ada", String::new(), due),
                Early => ("ada", ticket.clone(), daemon.clock.now()),
                Due | Spent => ("ada", ticket.clone(), due),
                Expired => ("ada", ticket.clone(), due.saturating_add(Duration::from_secs(7))),
                OfAnotherTenant => ("eve", ticket.clone(), due),
                Cut => ("ada", ticket[..100].to_owned(), due),
                Nonsense => ("ada", "nonsense".to_owned(), due),
            };
            daemon.clock.set(at.max(daemon.clock.now()));
            let shown = Some(shown).filter(|shown| !shown.is_empty());
            if state == Spent {
                let once = daemon.ask_with_ticket(door, tenant, shown.as_deref()).await;
                assert!(once.is_admitted, "{what}: {once:?}");
            }
            let before = daemon.counts();
            let again = daemon.ask_with_ticket(door, tenant, shown.as_deref()).await;
            let counts = daemon.counts();
            match state {
                Due => {
                    assert!(again.is_admitted, "{what}: {again:?}");
                    assert_eq!(counts.redeemed, before.redeemed + 1, "{what}");
                }
                Early => {
                    assert_eq!(again.ticket(), ticket, "{what}");
                    assert_eq!(again.reason.as_deref(), Some("deferred"), "{what}");
                    assert_eq!((counts.early, counts.sold), (before.early + 1, before.sold), "{what}");
                }
                _ => {
                    assert_eq!(again.reason.as_deref(), Some("deferred"), "{what}: {again:?}");
                    assert_ne!(again.ticket(), ticket, "{what}");
                    assert_eq!(counts.sold, before.sold + 1, "{what}");
                }
            }
            assert_eq!(counts.replayed, before.replayed + u64::from(state == Spent), "{what}");
            assert_eq!(counts.expired, before.expired + u64::from(state == Expired), "{what}");
            daemon.open();
            daemon.clock.advance(Duration::from_secs(30));
            drop(daemon.engine.tick(daemon.clock.now()));
        }
    }
    // The upstream of the proxy sees no ticket.
    let seen = daemon.upstream.lock().unwrap();
    assert!(!seen.is_empty() && seen.iter().all(|head| !head.contains("ticket")), "{seen:?}");
}

/// Without the bound only the doors for Envoy take such an attribute.
#[tokio::test]
async fn a_tenant_of_2_kib_gets_a_ticket_that_counts_for_it_alone_where_attributes_may_be_as_long() {
    let [own, other] = ["a", "b"].map(|last| "x".repeat(2_047) + last);
    let daemon = daemon().await;
    daemon.close();
    for door in ["check", "reserve", "authorize", "resp", "proxy", "tower"] {
        let malformed = daemon.ask_with_ticket(door, &own, None).await;
        assert_eq!((malformed.is_admitted, malformed.reason), (false, None), "{door}");
    }
    assert_eq!(daemon.counts().sold, 0);
    let daemon = daemon_with("http: { bounds: { attribute: 4KiB } }\n").await;
    // A layer of tower has no such setting.
    let doors = DOORS.into_iter().filter(|door| !door.ends_with("of two") && *door != "tower");
    for door in doors {
        daemon.close();
        let first = daemon.ask_with_ticket(door, &own, None).await;
        assert_eq!(first.reason.as_deref(), Some("deferred"), "{door}: {first:?}");
        let ticket = first.ticket();
        assert!((100..=256).contains(&ticket.len()), "{door}: {ticket}");
        // The first ticket of a calendar is for the next second.
        daemon.clock.advance(Duration::from_secs(2));
        let refused = daemon.ask_with_ticket(door, &other, Some(ticket)).await;
        assert_eq!((refused.is_admitted, refused.reason.as_deref()), (false, Some("deferred")), "{door}");
        let before = daemon.counts().redeemed;
        let back = daemon.ask_with_ticket(door, &own, Some(ticket)).await;
        assert!(back.is_admitted, "{door}: {back:?}");
        assert_eq!(daemon.counts().redeemed, before + 1, "{door}");
        daemon.open();
        daemon.clock.advance(Duration::from_secs(30));
        drop(daemon.engine.tick(daemon.clock.now()));
    }
}
