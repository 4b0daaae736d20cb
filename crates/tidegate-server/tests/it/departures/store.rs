//! Callers that leave while a store is asked, or that have left a permit in a store.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::algorithm::Concurrency;
use tidegate_core::limit::Consistency;
use tidegate_core::{Algorithm, Limit};
use tidegate_engine::{NamespaceConfig, PermitPage};
use tidegate_server::{Clock as _, ListenerRole, ManualClock};
use tidegate_test_support::eventually;
use tokio::sync::Semaphore;

use super::{Caller, WAYS};
use crate::client::post;
use crate::store::{Slow, next};
use crate::world::{START, World, loopback};

/// The namespace `exact`: one at a time, for an hour at most, in the store.
fn exact() -> NamespaceConfig {
    let concurrency = Algorithm::Concurrency(Concurrency::new(1, Duration::from_hours(1)).unwrap());
    NamespaceConfig::new("exact", [Limit::new("one", concurrency).consistency(Consistency::Exact)])
}

const CHECK: &str = r#"{"namespace":"exact"}"#;

async fn remaining(world: &World) -> u64 {
    let peek = world.post("/v1/check", r#"{"namespace":"exact","peek":true}"#).await;
    peek.json()["limits"][0]["remaining"].as_u64().unwrap_or(0)
}

#[tokio::test]
async fn a_caller_that_leaves_while_the_store_is_asked_to_keep_its_permit_holds_nothing() {
    for how in WAYS {
        let clock = Arc::new(ManualClock::new(START));
        let (store, mut asked, lets) = Slow::new(&clock);
        let mut config = loopback();
        // The store answers when it is let.
        config.bounds.store_timeout = Duration::from_mins(1);
        let world = World::asking([exact()], config, clock, store).await;
        let mut caller = Caller::connect(world.address());
        caller.send(post("/v1/check", CHECK).as_bytes());
        next(&mut asked).await;
        lets.add_permits(1);
        next(&mut asked).await;
        assert_eq!(world.kept(), 1, "{how:?}: the store is asked to remember the permit");
        let left = caller.leave(how);
        lets.add_permits(Semaphore::MAX_PERMITS / 2);
        drop(left);
        eventually(&format!("{how:?}: nothing is held"), async || remaining(&world).await == 1).await;
        assert_eq!(world.kept(), 0, "{how:?}");
    }
}

#[tokio::test]
async fn a_permit_in_a_store_is_given_back_with_its_note_when_its_answer_is_not_read() {
    let clock = Arc::new(ManualClock::new(START));
    let store = crate::world::memory_store(&clock);
    let world = World::asking([exact()], loopback(), clock, Arc::clone(&store)).await;
    for path in ["/v1/check", "/v1/reserve"] {
        for how in WAYS {
            let mut caller = Caller::connect(world.address());
            caller.send(post(path, CHECK).as_bytes());
            caller.until_answered().await;
            assert_eq!(store.notes_boxed(tidegate_store::NoteKind::Permit).await.unwrap().len(), 1);
            drop(caller.leave(how));
            let what = format!("{path}, {how:?}: nothing is held");
            eventually(&what, async || remaining(&world).await == 1).await;
            let page = PermitPage { namespace: None, after: 0, n: 10 };
            assert_eq!(world.engine.kept_permits(&page, world.clock.now()).1, 0);
            let notes = async || store.notes_boxed(tidegate_store::NoteKind::Permit).await.unwrap().len();
            eventually(&format!("{what}: no note"), async || notes().await == 0).await;
        }
    }
}

#[tokio::test]
async fn issue_39_an_answer_that_was_read_is_its_callers_if_a_later_one_of_the_connection_was_not() {
    for is_over_resp in [false, true] {
        let clock = Arc::new(ManualClock::new(START));
        let (store, mut asked, lets) = Slow::new(&clock);
        let mut config = loopback();
        config.listen(ListenerRole::Resp, "127.0.0.1:0".parse().unwrap());
        config.bounds.store_timeout = Duration::from_mins(1);
        let concurrency = Algorithm::Concurrency(Concurrency::new(1, Duration::from_hours(1)).unwrap());
        let local = NamespaceConfig::new("local", [Limit::new("one", concurrency)]);
        let world = World::asking([local, exact()], config, clock, store).await;
        let local = r#"{"namespace":"local"}"#;
        let mut caller = if is_over_resp {
            let mut caller = Caller::connect(world.handle.resp().unwrap().tcp().unwrap());
            caller.send(b"TG.CHECK local\r\nTG.CHECK exact tidegate-wait-ms 60000\r\n");
            caller
        } else {
            let mut caller = Caller::connect(world.address());
            caller.send((post("/v1/check", local) + &post("/v1/check", CHECK)).as_bytes());
            caller
        };
        // The first answer is read, and its caller closes once the second has been sent.
        next(&mut asked).await;
        let answer = caller.read().await;
        lets.add_permits(Semaphore::MAX_PERMITS / 2);
        caller.until_answered().await;
        drop(caller);
        eventually("the unread answer holds nothing", async || remaining(&world).await == 1).await;
        let holders = world.holders();
        assert_eq!(holders, ["local"], "over RESP: {is_over_resp}: {answer}");
    }
}
