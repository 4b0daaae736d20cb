//! A policy that changes `defer` while tickets are out.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_core::Timestamp;
use tidegate_server::Clock as _;
use tidegate_test_support::TemporaryFolder;

use crate::restartable_daemon::{Kept, RestartableDaemon};
use crate::ticket_keys::{Door, KEYS, deferring, ticket_of};
use crate::world::START;

const WITHOUT: &str = "  api: { limits: [] }\nresources: { app: { concurrency: 1 } }\n";

impl RestartableDaemon {
    /// Takes the only place.
    async fn hold(&self) -> String {
        let held = self.post("/v1/reserve", r#"{"namespace":"api","resource":"app"}"#).await;
        assert_eq!(held.status, 200, "{held:?}");
        json!({"permit": held.json()["permit"]}).to_string()
    }

    async fn give_back(&self, permit: &str) {
        assert_eq!(self.post("/v1/settle", permit).await.status, 200);
    }

    async fn reloads(&self, policy: &str) {
        assert_eq!(self.reload(policy).await, None);
    }

    /// The request with the ticket is decided as one without: it gets no ticket where no place is
    /// free, and is admitted where one is. The ticket is not spent.
    async fn takes_no_ticket(&self, ticket: &str) {
        let held = self.hold().await;
        let refused = self.asks(Some(ticket)).await;
        let reason = &refused.json()["reason"];
        assert_eq!((refused.status, reason), (503, &json!("overload_shed")), "{refused:?}");
        assert!(refused.header("tidegate-ticket").is_none() && refused.header("retry-after").is_some());
        self.give_back(&held).await;
        assert_eq!(self.asks(Some(ticket)).await.status, 200);
        let worth = self.explained(ticket).await;
        assert_eq!(worth["worth"], "nothing", "{worth}");
    }

    /// The ticket is admitted in its time, and counts.
    async fn redeems(&self, ticket: &str, not_before: Timestamp) {
        let before = self.deferral().await;
        self.clock.set(not_before);
        assert_eq!(self.asks(Some(ticket)).await.status, 200);
        assert_eq!(counts(&self.deferral().await), [counts(&before)[0] + 1, 0, 0], "{before}");
    }
}

/// The tickets that were redeemed, that came too late, and that were shown a second time.
fn counts(deferral: &Value) -> [u64; 3] {
    ["redeemed", "expired", "replayed"].map(|name| deferral[name].as_u64().unwrap())
}

#[tokio::test]
async fn a_ticket_counts_for_nothing_while_its_class_is_not_deferred_and_is_good_afterwards() {
    let (with, without) = (deferring(""), deferring("").replace("[sheddable]", "[sheddable_plus]"));
    let daemon = RestartableDaemon::start(Kept::Memory, &with, START).await;
    let (ticket, late) = (daemon.sells().await, daemon.sells().await);
    daemon.reloads(&without).await;
    daemon.takes_no_ticket(&ticket.text).await;
    assert_eq!(counts(&daemon.deferral().await), [0; 3]);
    daemon.reloads(&with).await;
    daemon.redeems(&ticket.text, ticket.not_before).await;
    // The time of the other ticket passes meanwhile.
    daemon.reloads(&without).await;
    daemon.clock.set(late.not_before.saturating_add(Duration::from_secs(6)));
    daemon.reloads(&with).await;
    assert_eq!(daemon.asks(Some(&late.text)).await.status, 200);
    assert_eq!(counts(&daemon.deferral().await), [1, 1, 0]);
}

#[tokio::test]
async fn a_ticket_beyond_a_horizon_that_became_shorter_is_good_and_no_other_one_is_sold_there() {
    let daemon = RestartableDaemon::start(Kept::Memory, &deferring(""), START).await;
    let held = daemon.hold().await;
    let now = daemon.clock.now();
    let end = now.saturating_add(Duration::from_secs(15));
    let far = loop {
        let ticket = ticket_of(&daemon.asks(None).await);
        if ticket.not_before > end {
            break ticket;
        }
    };
    daemon.reloads(&deferring(", horizon: 10s")).await;
    assert_eq!(daemon.deferral().await["horizon_s"], 10);
    let full = daemon.asks(None).await;
    assert_eq!((full.status, &full.json()["reason"]), (503, &json!("overload_shed")), "{full:?}");
    assert!(full.header("retry-after").is_some(), "{full:?}");
    daemon.give_back(&held).await;
    daemon.redeems(&far.text, far.not_before).await;
    // The seconds that follow are free.
    assert!(daemon.sells().await.not_before <= daemon.clock.now().saturating_add(Duration::from_secs(11)));
}

#[tokio::test]
async fn a_ticket_counts_for_nothing_while_nothing_is_deferred_and_is_good_afterwards() {
    let folder = TemporaryFolder::new();
    let file = folder.write("keys", KEYS[0]);
    for with in [deferring(""), deferring(&format!(", key_file: '{}'", file.display()))] {
        let daemon = RestartableDaemon::start(Kept::Memory, &with, START).await;
        let ticket = daemon.sells().await;
        daemon.reloads(WITHOUT).await;
        assert_eq!(daemon.deferral().await, Value::Null);
        daemon.takes_no_ticket(&ticket.text).await;
        daemon.reloads(&with).await;
        assert_eq!(daemon.deferral().await["booked"], 1, "the calendar is kept");
        daemon.redeems(&ticket.text, ticket.not_before).await;
    }
}
