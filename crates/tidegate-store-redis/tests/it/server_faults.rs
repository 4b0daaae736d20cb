//! A server that is away, slow, busy, full or locked: what the error says, and that waiting has an
//! end.

use std::time::{Duration, Instant};

use tidegate_core::{Algorithm, Cost, Rate, error_chain};
use tidegate_store::{Batch, FleetStore as _, Key, Kind, Operation, RequestId, Store, StoreError};
use tidegate_store_redis::{BreakerConfig, Circuit, OpenError, RedisConfig, RedisStore, Secret};

use crate::engine::{
    MachineInstant, PATIENCE, PROBE_EVERY, Server, free_port, is_found_within_a_second, patient, skip, within,
};

fn check(id: u128) -> Batch {
    let algorithm = Algorithm::bucket(Rate::per_minute(100).unwrap()).unwrap();
    let key = Key::new("api", b"limit", b"ada").unwrap();
    Batch::all_or_nothing(RequestId(id), [Operation::new(key, algorithm, Kind::Check { cost: Cost::ONE })])
}

#[tokio::test(flavor = "current_thread")]
async fn a_server_that_is_away_opens_the_breaker_and_is_found_again_within_a_second() {
    let Some(server) = Server::start(&[]) else {
        return skip("a_server_that_is_away_opens_the_breaker_and_is_found_again_within_a_second");
    };
    let port = server.port();
    let config = server.config();
    drop(server);
    let store = RedisStore::open(config).unwrap();
    let text = error_chain(&store.run(&check(0)).await.unwrap_err());
    assert!(text.contains(&port.to_string()) && text.contains("nothing listens there"), "{text}");
    for id in 1..5 {
        assert!(!store.run(&check(id)).await.unwrap_err().is_outcome_unknown());
    }
    let stats = store.stats();
    assert!(matches!(stats.circuit, Circuit::Open { .. }) && stats.opened >= 1, "{stats:?}");
    // While the breaker is open, a batch costs nothing: after a cool-down one of them is a call,
    // and the store is probed every quarter of a second.
    let (since, machine, mut rejected) = (Instant::now(), MachineInstant::now(), 0);
    for id in 0..1001 {
        let error = store.run(&check(id)).await.unwrap_err();
        let text = error_chain(&error);
        assert!(!error.is_outcome_unknown() && text.contains("nothing listens there"), "{text}");
        rejected += u64::from(text.contains("circuit breaker is open"));
    }
    let (now, took) = (store.stats(), machine.elapsed());
    assert!(took < Duration::from_millis(900), "1001 batches took {took:?}");
    let elapsed = since.elapsed().as_millis();
    let tries = elapsed / BreakerConfig::default().cool_down.as_millis() + 1;
    let probes = elapsed / PROBE_EVERY.as_millis() + 1;
    assert_eq!(now.rejected.circuit_open - stats.rejected.circuit_open, rejected, "{now:?}");
    assert!(u128::from(1001 - rejected) <= tries, "{rejected} of 1001 in {elapsed} ms, {now:?}");
    let calls = now.calls - stats.calls;
    assert!(u128::from(calls) <= tries + probes, "{calls} calls in {elapsed} ms, {now:?}");
    let _server = Server::start_on(port, &[]).unwrap();
    is_found_within_a_second(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_away_while_nobody_asked_it_answers_the_first_call() {
    let name = "a_server_that_was_away_while_nobody_asked_it_answers_the_first_call";
    let Some(mut server) = Server::start(&[]) else { return skip(name) };
    let store = RedisStore::open(patient(server.config())).unwrap();
    for id in 0..3 {
        store.run(&check(id)).await.unwrap();
        server.kill();
        server.start_again(&[]);
    }
    store.run(&check(9)).await.unwrap();
    assert_eq!(store.stats().failed, 0);
}

#[tokio::test(flavor = "current_thread")]
async fn a_server_that_hangs_is_waited_for_until_the_deadline_and_the_outcome_is_unknown() {
    let name = "a_server_that_hangs_is_waited_for_until_the_deadline_and_the_outcome_is_unknown";
    let Some(server) = Server::start(&[]) else { return skip(name) };
    let mut config = server.config();
    config.deadline = Duration::from_millis(200);
    let store = RedisStore::open(config).unwrap();
    // The first call connects. Under its id the batch is charged once.
    within(PATIENCE, async || store.run(&check(1)).await.map(drop).map_err(|error| error_chain(&error)))
        .await;
    server.signal("STOP");
    let since = Instant::now();
    let error = store.run(&check(2)).await.unwrap_err();
    let waited = since.elapsed();
    server.signal("CONT");
    assert!(matches!(error, StoreError::Timeout { .. }) && error.is_outcome_unknown(), "{error}");
    assert!((150..10_000).contains(&waited.as_millis()), "waited {waited:?}");
    // It was carried out when the server went on; sent again under its id it is answered, not
    // charged twice.
    let answer = within(PATIENCE, async || store.run(&check(2)).await.map_err(|error| error_chain(&error)));
    assert_eq!(answer.await.outcomes[0].used, 2);
    assert_eq!(store.run(&check(3)).await.unwrap().outcomes[0].used, 3);
}

#[tokio::test(flavor = "current_thread")]
async fn a_wrong_password_says_so_and_shows_none() {
    let Some(server) = Server::start(&["--requirepass", "right"]) else {
        return skip("a_wrong_password_says_so_and_shows_none");
    };
    for password in [None, Some("wrong")] {
        let mut config = server.config();
        config.password = password.map(Secret::new);
        let error = RedisStore::open(config).unwrap().run(&check(1)).await.unwrap_err();
        let text = error_chain(&error);
        let advice = if password.is_some() { "correct `username` and `password`" } else { "set `password`" };
        assert!(text.contains(advice) && !text.contains("wrong"), "{text}");
        assert!(!error.is_outcome_unknown(), "{text}");
    }
    let mut config = server.config();
    config.password = Some(Secret::new("right"));
    RedisStore::open(config).unwrap().run(&check(1)).await.unwrap();
}

#[tokio::test(flavor = "current_thread")]
async fn a_user_with_what_the_documentation_grants_is_enough_and_less_says_what_is_missing() {
    let name = "a_user_with_what_the_documentation_grants_is_enough_and_less_says_what_is_missing";
    let Some(server) = Server::start(&[]) else { return skip(name) };
    let mut client = server.client();
    let mut grant = |user: &str, rules: &[&str]| {
        let _: () = redis::cmd("ACL")
            .arg("SETUSER")
            .arg(user)
            .arg("on")
            .arg(">secret")
            .arg(rules)
            .query(&mut client)
            .unwrap();
    };
    grant(
        "member",
        &["~tidegate:*", "-@all", "+evalsha", "+eval", "+@read", "+@write", "+time", "+hello", "+client"],
    );
    grant("reader", &["~tidegate:*", "-@all", "+evalsha", "+eval", "+@read", "+time"]);
    let mut config = server.config();
    (config.username, config.password) = (Some("member".to_owned()), Some(Secret::new("secret")));
    let store = RedisStore::open(config.clone()).unwrap();
    assert_eq!(store.run(&check(1)).await.unwrap().outcomes[0].used, 1);
    config.username = Some("reader".to_owned());
    let text = error_chain(&RedisStore::open(config).unwrap().run(&check(2)).await.unwrap_err());
    assert!(
        text.contains("may not do what the script does") || text.contains("could not run the script"),
        "{text}"
    );
}

#[tokio::test(flavor = "current_thread")]
async fn a_replica_and_a_server_that_must_not_write_change_nothing_and_say_so() {
    let name = "a_replica_and_a_server_that_must_not_write_change_nothing_and_say_so";
    let Some(primary) = Server::start(&[]) else { return skip(name) };
    let port = primary.port().to_string();
    let replica =
        Server::start(&["--replicaof", "127.0.0.1", &port, "--replica-serve-stale-data", "yes"]).unwrap();
    let error = RedisStore::open(replica.config()).unwrap().run(&check(1)).await.unwrap_err();
    assert!(
        error_chain(&error).contains("it is a replica") && !error.is_outcome_unknown(),
        "{}",
        error_chain(&error)
    );

    let lonely = Server::start(&["--min-replicas-to-write", "1"]).unwrap();
    let error = RedisStore::open(lonely.config()).unwrap().run(&check(1)).await.unwrap_err();
    assert!(
        error_chain(&error).contains("too few replicas") && !error.is_outcome_unknown(),
        "{}",
        error_chain(&error)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_busy_with_the_script_of_another_says_so() {
    let Some(server) = Server::start(&["--busy-reply-threshold", "50"]) else {
        return skip("a_server_busy_with_the_script_of_another_says_so");
    };
    let mut other = server.client();
    let busy = std::thread::spawn(move || {
        let _ = redis::cmd("EVAL").arg("while true do end").arg(0).query::<()>(&mut other);
    });
    let store = RedisStore::open(server.config()).unwrap();
    let since = Instant::now();
    let error = loop {
        match store.run(&check(1)).await {
            Err(error) => break error,
            Ok(_) => assert!(since.elapsed() < Duration::from_secs(20)),
        }
    };
    let _: () = redis::cmd("SCRIPT").arg("KILL").query(&mut server.client()).unwrap();
    busy.join().unwrap();
    assert!(
        error_chain(&error).contains("SCRIPT KILL") && !error.is_outcome_unknown(),
        "{}",
        error_chain(&error)
    );
}

#[tokio::test(flavor = "current_thread")]
async fn keys_of_something_else_under_the_prefix_say_so() {
    let Some(server) = Server::start(&[]) else {
        return skip("keys_of_something_else_under_the_prefix_say_so");
    };
    let store = RedisStore::open(server.config()).unwrap();
    store.run(&check(1)).await.unwrap();
    let mut client = server.client();
    let names: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*c:*").query(&mut client).unwrap();
    let _: () = redis::cmd("DEL").arg(&names[0]).query(&mut client).unwrap();
    let _: () = redis::cmd("RPUSH").arg(&names[0]).arg("stranger").query(&mut client).unwrap();
    let text = error_chain(&store.run(&check(2)).await.unwrap_err());
    assert!(text.contains("choose another `prefix`"), "{text}");
    assert_eq!(store.stats().circuit, Circuit::Closed);
}

#[test]
fn what_can_be_seen_at_once_is_an_error_when_the_store_is_opened() {
    let port = free_port();
    let open = |config: RedisConfig| RedisStore::open(config).unwrap_err();
    assert!(matches!(open(RedisConfig::new(["redis://127.0.0.1"])), OpenError::NoRuntime));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _runtime = runtime.enter();
    assert!(matches!(open(RedisConfig::new([""; 0])), OpenError::NoUrl));
    assert!(matches!(
        open(RedisConfig::new(["redis://a", "redis://b"])),
        OpenError::SeveralUrls { count: 2 }
    ));
    let wrong = open(RedisConfig::new(["http://ada:secret@host"])).to_string();
    assert!(wrong.contains("http://host") && !wrong.contains("secret"), "{wrong}");
    let mut braces = patient(RedisConfig::new([format!("redis://127.0.0.1:{port}")]));
    braces.prefix = "tg{x}:".to_owned();
    assert!(matches!(open(braces), OpenError::Prefix { .. }));
}
