//! A cluster with a node that is frozen, or that redirects to itself or to nowhere: every call ends
//! in time, and the store is used again when the cluster serves.

use std::time::{Duration, Instant};

use tidegate_core::{Algorithm, Cost, Rate, error_chain};
use tidegate_store::{Batch, FleetStore as _, Key, Kind, Operation, RequestId, Store};
use tidegate_store_redis::RedisStore;

use crate::cluster::Cluster;
use crate::engine::{MachineInstant, PATIENCE, Server, skip, within};
use crate::states::Stub;

/// How soon a store is used again once the cluster serves.
const RECOVERED_WITHIN: Duration = Duration::from_secs(5);

/// How much later than its deadline a call may end, by the clock of the machine.
const LATE_MAX: Duration = Duration::from_secs(2);

fn check(id: u128, name: &str) -> Batch {
    let algorithm = Algorithm::bucket(Rate::per_minute(100_000).unwrap()).unwrap();
    let key = Key::new("api", b"limit", name.as_bytes()).unwrap();
    Batch::all_or_nothing(RequestId(id), [Operation::new(key, algorithm, Kind::Check { cost: Cost::ONE })])
}

async fn is_used_again(store: &RedisStore, names: &[String], what: &str) {
    let since = Instant::now();
    let mut unanswered = (5_000_000_u128..).zip(names).peekable();
    within(RECOVERED_WITHIN, async || {
        while let Some((id, name)) = unanswered.peek() {
            if let Err(error) = store.run(&check(*id, name)).await {
                return Err(format!("{what}: {name}: {}", error_chain(&error)));
            }
            unanswered.next();
        }
        Ok(())
    })
    .await;
    println!("{what}: used again after {:?}", since.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redirects_in_circles_or_to_nowhere_are_bounded_and_end_with_the_fault() {
    let name = "redirects_in_circles_or_to_nowhere_are_bounded_and_end_with_the_fault";
    for (what, reply) in [
        ("in circles", "-MOVED 1234 127.0.0.1:{port}"),
        ("to nowhere", "-MOVED 1234 127.0.0.1:1"),
        ("to no address", "-MOVED 1234 nonsense"),
        ("asks in circles", "-ASK 1234 127.0.0.1:{port}"),
        ("down", "-CLUSTERDOWN The cluster is down"),
        ("moving", "-TRYAGAIN Multiple keys request during rehashing of slot"),
    ] {
        let Some(server) = Server::start(&["--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1"])
        else {
            return skip(name);
        };
        let stub = Stub::before(&server, reply);
        let port = stub.port().to_string();
        let ask = |command: &[&str]| {
            let _: redis::Value =
                redis::cmd(command[0]).arg(&command[1..]).query(&mut server.client()).unwrap();
        };
        // The node names the stub as its own address.
        ask(&["CONFIG", "SET", "cluster-announce-port", &port]);
        ask(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
        let mut config = tidegate_store_redis::RedisConfig::new([format!("redis://127.0.0.1:{port}")]);
        config.cluster = true;
        config.deadline = Duration::from_millis(200);
        let deadline = config.deadline;
        let store = RedisStore::open(config).unwrap();
        let since = Instant::now();
        let mut id = 0;
        while since.elapsed() < Duration::from_secs(2) {
            id += 1;
            let asked = MachineInstant::now();
            let error = store.run(&check(id, "ada")).await.unwrap_err();
            let took = asked.elapsed();
            assert!(took < deadline + LATE_MAX, "{what}: {took:?}, {}", error_chain(&error));
            // Sleeps: the commands of a moderate load are counted for two seconds of real time.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let ((commands, connections), elapsed) = (stub.counts(), since.elapsed());
        println!("{what}: {commands} commands and {connections} connections in {elapsed:?}, {id} calls");
        let each_second = |count: usize| count as u128 * 1000 / elapsed.as_millis();
        assert!(
            each_second(commands) < 1000 && each_second(connections) < 100,
            "{what}: {commands} commands, {connections} connections in {elapsed:?}"
        );
        stub.lets_through();
        is_used_again(&store, &["ada".to_owned()], what).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_freezes_is_followed_by_its_replica() {
    let Some(cluster) = Cluster::start() else {
        return skip("a_primary_that_freezes_is_followed_by_its_replica");
    };
    let mut config = cluster.config();
    config.deadline = Duration::from_millis(200);
    let store = RedisStore::open(config).unwrap();
    let names: Vec<_> = (0..30).map(|number| format!("user {number}")).collect();
    let since = Instant::now();
    for (id, name) in (0..).zip(&names) {
        while store.run(&check(id, name)).await.is_err() {
            assert!(since.elapsed() < Duration::from_secs(20), "{:?}", store.stats());
        }
    }
    cluster.node(0).signal("STOP");
    // Until another node serves its slots.
    let mut id = 1000;
    within(PATIENCE, async || {
        id += 1;
        let _ = store.run(&check(id, &names[0])).await;
        let role: String =
            redis::cmd("INFO").arg("replication").query(&mut cluster.node(3).client()).unwrap();
        if role.contains("role:master") { Ok(()) } else { Err("the replica does not take over".to_owned()) }
    })
    .await;
    is_used_again(&store, &names, "frozen primary").await;
    cluster.node(0).signal("CONT");
    is_used_again(&store, &names, "thawed primary").await;
}
