//! `Admission` for workers, where something it needs is not there.

use core::time::Duration;

use tidegate::limit::{Consistency, OnStoreFailure};
use tidegate::redis::RedisStore;
use tidegate::{Admission, Limit, Reason, Request};
use tidegate_test_support::{RedisServer, skip};

#[path = "../../examples/worker.rs"]
#[expect(dead_code, unreachable_pub, reason = "an example is a program of its own")]
mod worker;

#[tokio::test]
async fn the_worker_spends_what_the_store_has_lent_it_and_returns_the_rest() {
    let Some(server) = RedisServer::start(&[]) else {
        return skip("the_worker_spends_what_the_store_has_lent_it_and_returns_the_rest");
    };
    let url = server.url();
    let (one, other) = (worker::admission(&url).unwrap(), worker::admission(&url).unwrap());
    for _ in 0..10 {
        one.until_ready(&request()).await.unwrap().succeeded();
        other.until_ready(&request()).await.unwrap().succeeded();
    }
    assert!(one.close().await && other.close().await, "the store has every lease back");
}

fn request() -> Request<'static> {
    Request::new("default", &[("queue", "mail")])
}

fn limit(on_store_failure: OnStoreFailure) -> Limit {
    let limit = Limit::rate("jobs", "10/s").unwrap().key(["queue"]);
    limit.consistency(Consistency::Leased).on_store_failure(on_store_failure)
}

/// A port of this machine that nobody listens on.
fn closed_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[tokio::test]
async fn a_store_that_is_away_at_build_is_decided_about_by_each_limit() {
    let store = RedisStore::open(format!("redis://127.0.0.1:{}", closed_port())).unwrap();
    let alone =
        Admission::builder().limit(limit(OnStoreFailure::Local)).store(store.clone()).build().unwrap();
    assert!(alone.admit(&request()).await.unwrap().into_result().is_ok(), "its share is its own");
    let refusing = Admission::builder().limit(limit(OnStoreFailure::Refuse)).store(store).build().unwrap();
    let refusal = refusing.admit(&request()).await.unwrap().into_result().unwrap_err();
    assert_eq!(refusal.reason(), Reason::StoreUnavailable);
    let detail = refusal.detail.as_deref().unwrap();
    assert!(detail.starts_with("away:"), "{detail}");
}

#[test]
fn a_bad_address_of_a_store_names_it_and_the_fix() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let error = runtime.block_on(async { RedisStore::open("http://127.0.0.1").unwrap_err().to_string() });
    assert!(error.contains("http://127.0.0.1") && error.contains("redis://"), "{error}");
}

/// Tokio says what to enable; a request that waits for nothing needs no timer.
#[test]
#[should_panic(expected = "enable_time")]
fn waiting_on_a_runtime_without_timers_says_what_to_enable() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let limit = Limit::rate("jobs", "1/h").unwrap();
    let admission = Admission::builder().limit(limit).build().unwrap();
    runtime.block_on(async {
        let request = Request::new("default", ());
        admission.admit(&request).await.unwrap().into_result().unwrap().succeeded();
        drop(admission.admit_within(&request, Duration::from_hours(2)).await);
    });
}

#[tokio::test]
async fn a_wait_that_is_dropped_leaves_nothing_behind() {
    let limit = Limit::concurrency("one", 1, "1m").unwrap();
    let admission = Admission::builder().limit(limit).build().unwrap();
    let request = Request::new("default", ());
    let hold = admission.until_ready(&request).await.unwrap();
    let waits = tokio::time::timeout(Duration::from_millis(1), admission.until_ready(&request)).await;
    assert!(waits.is_err(), "the place is taken");
    hold.succeeded();
    admission.until_ready(&request).await.unwrap().succeeded();
}
