//! The same request list gives the same decisions through the library and through a simulator's loop.
//!
//! The daemon's half of this test is in the server's tests, over the list that stands here.

use core::time::Duration;
use tidegate::{Cost, Gate, KeyTable, Limit, TableConfig, Timestamp};
use tidegate_engine::{Decision, Engine, EngineConfig, NamespaceConfig, Request, Step};

use crate::world::{NOW, SEED, bucket};

fn limits() -> Vec<Limit> {
    vec![
        Limit::new("per-user", bucket(5, Duration::from_secs(1))).key(["user"]),
        Limit::new("per-tenant", bucket(20, Duration::from_secs(2))).key(["tenant"]),
        Limit::new("all", bucket(300, Duration::from_mins(1))),
    ]
}

struct Asked {
    user: String,
    tenant: String,
    units: u64,
    at: Timestamp,
}

fn requests() -> Vec<Asked> {
    let mut random = 0x0DDB_1A5E_5BAD_5EED_u64;
    let mut at = NOW;
    (0..5000)
        .map(|_| {
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
        })
        .collect()
}

fn attributes(asked: &Asked) -> [(&str, &str); 2] {
    [("user", &asked.user), ("tenant", &asked.tenant)]
}

fn through_the_library(requests: &[Asked]) -> Vec<String> {
    let table = std::sync::Arc::new(KeyTable::new(TableConfig::seeded(SEED)));
    let gate = Gate::builder("api").limits(limits()).table(table).build().unwrap();
    let decide = |asked: &Asked| {
        let attributes = attributes(asked);
        let decision = gate.check(&attributes, Cost::new(asked.units).unwrap(), asked.at);
        decision.refusal().map_or("admitted".to_owned(), |refusal| refusal.to_string())
    };
    requests.iter().map(decide).collect()
}

/// What a simulator does: one thread, its own clock, and the engine.
fn through_a_simulator(requests: &[Asked]) -> Vec<String> {
    let api = NamespaceConfig { name: "api".into(), limits: limits() };
    let engine = Engine::builder(EngineConfig::seeded([9, 9, 9, 9])).namespace(api).build().unwrap();
    let mut answers = Vec::new();
    for asked in requests {
        let attributes = attributes(asked);
        let request = Request::new("api", &attributes).cost(Cost::new(asked.units).unwrap());
        engine.tick(asked.at);
        answers.push(match engine.admit(&request, asked.at) {
            Ok(Step::Decided(Decision::Admit(_))) => "admitted".to_owned(),
            Ok(Step::Decided(Decision::Refuse(refusal))) => refusal.to_string(),
            other => panic!("{other:?}"),
        });
    }
    answers
}

#[test]
fn a_request_list_gives_the_same_decisions_through_the_library_and_through_a_simulator() {
    let requests = requests();
    let library = through_the_library(&requests);
    assert_eq!(library, through_a_simulator(&requests));
    let refused = library.iter().filter(|answer| *answer != "admitted").count();
    assert!((500..4500).contains(&refused), "a list that {refused} of 5000 refuse shows something");
}
