//! One request list gives the same decisions through the library, through the daemon and through a
//! simulator's loop.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Cost, Gate, KeyTable, Limit, Refusal, TableConfig, Timestamp};
use tidegate_engine::{Decision, Engine, EngineConfig, NamespaceConfig, Request, Step};

use crate::client::Answer;
use crate::world::{START, World, bucket, fixed, loopback};

fn limits() -> Vec<Limit> {
    vec![
        bucket("per-user", 5, 5).key(["user"]),
        bucket("per-tenant", 10, 20).key(["tenant"]),
        fixed("all", 2500, Duration::from_mins(1)),
    ]
}

fn api() -> NamespaceConfig {
    NamespaceConfig::new("api", limits())
}

struct Asked {
    user: String,
    tenant: String,
    units: u64,
    at: Timestamp,
}

impl Asked {
    fn attributes(&self) -> [(&str, &str); 2] {
        [("user", &self.user), ("tenant", &self.tenant)]
    }

    fn cost(&self) -> Cost {
        Cost::new(self.units).unwrap()
    }
}

fn requests() -> Vec<Asked> {
    let mut random = 0x0DDB_1A5E_5BAD_5EED_u64;
    let mut at = START;
    let request = |_| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        at = at.saturating_add(Duration::from_millis(random % 40));
        let user = random >> 8 & 15;
        Asked {
            user: format!("u{user}"),
            tenant: format!("t{}", user % 4),
            units: 1 + (random >> 16 & 3),
            at,
        }
    };
    (0..2000).map(request).collect()
}

/// A decision in words that every way has: the limit, the reason, the units left, milliseconds to
/// wait.
fn said(refusal: &Refusal, now: Timestamp) -> String {
    let wait = refusal.retry().after(now).map(|wait| wait.as_nanos().div_ceil(1_000_000));
    format!("{} {} {} {wait:?}", refusal.name(), refusal.reason(), refusal.remaining())
}

const ADMITTED: &str = "admitted";

fn through_the_library(requests: &[Asked]) -> Vec<String> {
    let mut table = TableConfig::seeded([1, 2, 3, 4]);
    table.bytes = 1 << 20;
    let gate = Gate::builder("api").limits(limits()).table(Arc::new(KeyTable::new(table))).build().unwrap();
    let decide = |asked: &Asked| {
        let attributes = asked.attributes();
        let refusal = gate.check(&attributes, asked.cost(), asked.at).into_result().err();
        refusal.map_or(ADMITTED.to_owned(), |refusal| said(&refusal, asked.at))
    };
    requests.iter().map(decide).collect()
}

/// The way of a simulator: one thread, its own clock, and the engine.
fn through_a_simulator(requests: &[Asked]) -> Vec<String> {
    let engine = Engine::builder(EngineConfig::seeded([9, 9, 9, 9])).namespace(api()).build().unwrap();
    let mut answers = Vec::new();
    for asked in requests {
        let now = asked.at;
        let _ = engine.tick(now);
        answers.push(match engine.admit(&Request::new("api", &asked.attributes()).cost(asked.cost()), now) {
            Ok(Step::Decided(Decision::Admit(_))) => ADMITTED.to_owned(),
            Ok(Step::Decided(Decision::Refuse(refused))) => said(&refused.into_refusal(), now),
            other => panic!("{other:?}"),
        });
    }
    answers
}

async fn through_the_daemon(requests: &[Asked]) -> Vec<String> {
    let world = World::with([api()], loopback()).await;
    let mut client = world.client().await;
    let mut answers = Vec::new();
    let mut now = START;
    for asked in requests {
        world.clock.advance(asked.at.saturating_since(now));
        now = asked.at;
        let (user, tenant, cost) = (&asked.user, &asked.tenant, asked.units);
        let attributes = format!(r#"{{"user":"{user}","tenant":"{tenant}"}}"#);
        let body = format!(r#"{{"namespace":"api","attributes":{attributes},"cost":{cost}}}"#);
        answers.push(said_by(&client.post("/v1/check", &body).await));
    }
    answers
}

fn said_by(answer: &Answer) -> String {
    if answer.status == 200 {
        return ADMITTED.to_owned();
    }
    let body = answer.json();
    let text = |key: &str| body[key].as_str().unwrap_or_default().to_owned();
    let wait = body["retry_after_ms"].as_u64();
    format!("{} {} {} {wait:?}", text("limit"), text("reason"), body["remaining"])
}

#[tokio::test]
async fn a_request_list_gives_the_same_decisions_everywhere() {
    let requests = requests();
    let library = through_the_library(&requests);
    let refused = library.iter().filter(|answer| *answer != ADMITTED).count();
    assert!((200..1800).contains(&refused), "a list of which {refused} of 2000 are refused shows something");
    assert_eq!(library, through_a_simulator(&requests));
    assert_eq!(library, through_the_daemon(&requests).await);
}
