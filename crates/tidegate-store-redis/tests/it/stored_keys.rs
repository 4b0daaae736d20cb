//! The keys kept in the engine: their lifetimes, their layout, and the report of their loss.

use std::time::Duration;

use tidegate_core::algorithm::{
    Calendar, CivilUnit, Concurrency, Fixed, Rolling, SlidingCounter, WindowStart,
};
use tidegate_core::{Algorithm, Cost, Rate, Timestamp};
use tidegate_store::{Batch, FleetStore as _, HolderId, Key, Kind, Operation, RequestId, Store, StoreError};
use tidegate_store_redis::{OnLoss, RedisStore};

use crate::engine::{Server, skip};

fn key(name: &str) -> Key {
    Key::new("api", b"limit", name.as_bytes()).unwrap()
}

fn bucket(limit: u64) -> Algorithm {
    Algorithm::bucket(Rate::new(limit, Duration::from_mins(1)).unwrap()).unwrap()
}

fn check(id: u128, name: &str, limit: u64) -> Batch {
    Batch::all_or_nothing(
        RequestId(id),
        [Operation::new(key(name), bucket(limit), Kind::Check { cost: Cost::ONE })],
    )
}

#[tokio::test(flavor = "current_thread")]
async fn every_key_but_the_marker_expires_soon_after_it_has_drained() {
    let Some(server) = Server::start(&[]) else {
        return skip("every_key_but_the_marker_expires_soon_after_it_has_drained");
    };
    let store = RedisStore::open(server.config()).unwrap();
    let minute = Duration::from_mins(1);
    let algorithms = [
        bucket(10),
        Algorithm::Fixed(Fixed::new(10, minute, WindowStart::Epoch).unwrap()),
        Algorithm::Fixed(Fixed::new(10, minute, WindowStart::FirstHit).unwrap()),
        Algorithm::Calendar(Calendar::new(10, CivilUnit::Minute, "UTC").unwrap()),
        Algorithm::SlidingCounter(SlidingCounter::new(10, minute).unwrap()),
        Algorithm::Rolling(Rolling::new(10, minute).unwrap()),
        Algorithm::Concurrency(Concurrency::new(10, minute).unwrap()),
    ];
    for (index, algorithm) in algorithms.into_iter().enumerate() {
        let operation = Operation::admit(key(&index.to_string()), algorithm, Cost::ONE, HolderId(7));
        assert!(
            !store.run(&Batch::all_or_nothing(RequestId(index as u128), [operation])).await.unwrap().refused
        );
    }
    let mut client = server.client();
    let keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query(&mut client).unwrap();
    // A marker; of each an answer and a counter; beside those a list, and a set with a hash.
    assert_eq!(keys.len(), 1 + 2 * 7 + 3, "{keys:?}");
    for key in keys {
        let left: i64 = redis::cmd("PTTL").arg(&key).query(&mut client).unwrap();
        if key == b"tidegate:epoch" {
            assert_eq!(left, -1);
        } else if key.starts_with(b"tidegate:a:") {
            assert!((590_000..=600_000).contains(&left), "{} is kept for {left} ms", key.escape_ascii());
        } else {
            // At most two windows, of sliding counters, and the margin of ten seconds.
            assert!((10_000..=130_000).contains(&left), "{} is kept for {left} ms", key.escape_ascii());
        }
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_counter_in_another_layout_is_an_error_that_names_it_and_is_left_alone() {
    let Some(server) = Server::start(&[]) else {
        return skip("a_counter_in_another_layout_is_an_error_that_names_it_and_is_left_alone");
    };
    let store = RedisStore::open(server.config()).unwrap();
    store.run(&check(1, "ada", 10)).await.unwrap();
    let mut client = server.client();
    let names: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*c:*").query(&mut client).unwrap();
    let mut later: Vec<u8> = redis::cmd("GET").arg(&names[0]).query(&mut client).unwrap();
    later[0] = 9;
    let _: () = redis::cmd("SET").arg(&names[0]).arg(&later).query(&mut client).unwrap();
    let beside = Operation::new(key("beside"), bucket(10), Kind::Check { cost: Cost::ONE });
    let batch = Batch::each(RequestId(2), [beside.clone(), check(0, "ada", 10).operations[0].clone()]);
    let error = store.run(&batch).await.unwrap_err();
    assert!(matches!(error, StoreError::Unsupported { .. }) && !error.is_outcome_unknown());
    let text = error.to_string();
    assert!(text.contains("layout 9") && text.contains("ada") && text.contains("`DEL "), "{text}");
    let now: Vec<u8> = redis::cmd("GET").arg(&names[0]).query(&mut client).unwrap();
    assert_eq!(now, later);
    let outcome = store.run(&Batch::each(RequestId(3), [beside])).await.unwrap().outcomes[0];
    assert_eq!(outcome.used, 1, "the error charged what stood beside");
}

#[tokio::test(flavor = "current_thread")]
async fn lost_data_is_told_and_counting_goes_on_anew() {
    let Some(server) = Server::start(&[]) else { return skip("lost_data_is_told_and_counting_goes_on_anew") };
    let (store, other) =
        (RedisStore::open(server.config()).unwrap(), RedisStore::open(server.config()).unwrap());
    for id in 0..3 {
        store.run(&check(id, "ada", 10)).await.unwrap();
    }
    other.now().await.unwrap();
    assert_eq!(store.stats().loss, None);
    let _: () = redis::cmd("FLUSHALL").query(&mut server.client()).unwrap();
    let answer = store.run(&check(4, "ada", 10)).await.unwrap();
    assert_eq!(answer.outcomes[0].used, 1);
    let loss = store.stats().loss.unwrap();
    assert!(loss.found.is_empty() && loss.expected.len() == 32 && loss.slot.is_none(), "{loss:?}");
    // The other finds another marker instead of none.
    assert_eq!(other.run(&check(5, "ada", 10)).await.unwrap().outcomes[0].used, 2);
    let found = other.stats().loss.unwrap();
    assert!(found.expected == loss.expected && found.found.len() == 32, "{found:?}");
    assert_eq!((store.stats().lost, other.stats().lost), (1, 1));
    assert_eq!(store.acknowledge_loss(), Some(loss));
    store.run(&check(6, "ada", 10)).await.unwrap();
    assert_eq!((store.stats().loss, store.stats().lost), (None, 1));
}

#[tokio::test(flavor = "current_thread")]
async fn where_a_loss_refuses_nothing_is_decided_until_it_is_acknowledged() {
    let Some(server) = Server::start(&[]) else {
        return skip("where_a_loss_refuses_nothing_is_decided_until_it_is_acknowledged");
    };
    let mut config = server.config();
    config.on_loss = OnLoss::Refuse;
    let store = RedisStore::open(config).unwrap();
    store.run(&check(1, "ada", 10)).await.unwrap();
    let _: () = redis::cmd("FLUSHALL").query(&mut server.client()).unwrap();
    for id in 2..5 {
        let error = store.run(&check(id, "ada", 10)).await.unwrap_err();
        assert!(matches!(error, StoreError::DataLost { .. }) && !error.is_transient(), "{error}");
    }
    store.acknowledge_loss().unwrap();
    assert_eq!(store.run(&check(5, "ada", 10)).await.unwrap().outcomes[0].used, 1);
}

#[tokio::test(flavor = "current_thread")]
async fn a_script_that_the_server_has_forgotten_is_sent_again() {
    let Some(server) = Server::start(&[]) else {
        return skip("a_script_that_the_server_has_forgotten_is_sent_again");
    };
    let store = RedisStore::open(server.config()).unwrap();
    store.run(&check(1, "ada", 10)).await.unwrap();
    let _: () = redis::cmd("SCRIPT").arg("FLUSH").query(&mut server.client()).unwrap();
    assert_eq!(store.run(&check(2, "ada", 10)).await.unwrap().outcomes[0].used, 2);
}

#[tokio::test(flavor = "current_thread")]
async fn the_clock_of_the_server_decides() {
    let Some(server) = Server::start(&[]) else { return skip("the_clock_of_the_server_decides") };
    let store = RedisStore::open(server.config()).unwrap();
    let before = Timestamp::from(std::time::SystemTime::now());
    let told = store.run(&check(1, "ada", 10)).await.unwrap().store_now;
    let after = Timestamp::from(std::time::SystemTime::now());
    // The same machine, in steps of a microsecond.
    assert!(before.as_nanos() / 1000 * 1000 <= told.as_nanos() && told <= after, "{before} {told} {after}");
}

#[tokio::test(flavor = "current_thread")]
async fn what_is_too_fine_or_too_large_for_the_script_is_not_supported() {
    let Some(server) = Server::start(&[]) else {
        return skip("what_is_too_fine_or_too_large_for_the_script_is_not_supported");
    };
    let store = RedisStore::open(server.config()).unwrap();
    let nanos = Duration::from_nanos;
    let year = Rate::new(1 << 47, Duration::from_hours(365 * 24)).unwrap();
    let odd = [
        Algorithm::bucket(year).unwrap(),
        Algorithm::Rolling(Rolling::new(1, nanos(1500)).unwrap()),
        Algorithm::Fixed(Fixed::new(1, nanos(1_000_001), WindowStart::Epoch).unwrap()),
        Algorithm::Fixed(Fixed::new(1, nanos(999_000), WindowStart::FirstHit).unwrap()),
        Algorithm::Concurrency(Concurrency::new(1, nanos(1_000_001)).unwrap()),
    ];
    for algorithm in odd {
        assert!(!store.supports(&algorithm), "{algorithm:?}");
        let operation = Operation::admit(key("odd"), algorithm, Cost::ONE, HolderId(1));
        let error = store.run(&Batch::each(RequestId(1), [operation])).await.unwrap_err();
        assert!(matches!(error, StoreError::Unsupported { .. }), "{error}");
    }
}
