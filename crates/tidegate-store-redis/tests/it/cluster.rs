//! A cluster of three primaries, each with a replica.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tidegate_core::algorithm::Verdict;
use tidegate_core::{Algorithm, Cost, Rate};
use tidegate_store::conformance::run;
use tidegate_store::{
    Batch, FleetStore as _, Key, Kind, Note, NoteChange, NoteKind, Operation, RequestId, Store,
};
use tidegate_store_redis::{RedisConfig, RedisStore};

use crate::conformance::Harness;
use crate::engine::{PATIENCE, Server, holds_within, patient, skip, within};

/// The settings that make a server the node of a cluster.
const ARGUMENTS: [&str; 6] =
    ["--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-announce-ip", "127.0.0.1"];

/// After so long a server forgets a node that it was to meet and that did not answer.
const MEETING: Duration = Duration::from_secs(1);

/// Six servers that know each other; the first three are primaries.
pub(crate) struct Cluster {
    nodes: Vec<Server>,
}

impl Cluster {
    pub(crate) fn start() -> Option<Self> {
        let nodes: Vec<_> = (0..6).map(|_| Server::start(&ARGUMENTS)).collect::<Option<_>>()?;
        let cluster = Self { nodes };
        for (index, slots) in [(0, 5460), (5461, 10922), (10923, 16383)].into_iter().enumerate() {
            let _: () = cluster.ask(index, &["ADDSLOTSRANGE", &slots.0.to_string(), &slots.1.to_string()]);
        }
        cluster.introduce();
        let met = Cell::new(Instant::now());
        cluster.wait(|cluster| {
            if met.get().elapsed() > MEETING {
                cluster.introduce();
                met.set(Instant::now());
            }
            (0..6).all(|node| cluster.info(node).contains("cluster_known_nodes:6\r"))
        });
        for replica in 3..6 {
            let primary: String = cluster.ask(replica - 3, &["MYID"]);
            // A node that has just been met may not know the other yet.
            cluster.wait(|cluster| cluster.try_ask::<()>(replica, &["REPLICATE", &primary]).is_some());
        }
        cluster.wait(|cluster| (0..6).all(|node| cluster.info(node).contains("cluster_state:ok")));
        cluster.wait(|cluster| {
            (3..6).all(|replica| {
                let role: String = redis::cmd("INFO")
                    .arg("replication")
                    .query(&mut cluster.nodes[replica].client())
                    .unwrap();
                role.contains("master_link_status:up")
            })
        });
        Some(cluster)
    }

    /// Has the first node meet the others; one that it knows already stays as it is.
    fn introduce(&self) {
        for node in &self.nodes[1..] {
            let _: () = self.ask(0, &["MEET", "127.0.0.1", &node.port().to_string()]);
        }
    }

    fn wait(&self, holds: impl Fn(&Self) -> bool) {
        let is_up = holds_within(PATIENCE, || holds(self));
        assert!(is_up, "the cluster does not come up: {}", self.info(0));
    }

    /// A number of a node about its replication.
    fn replication(&self, node: usize, name: &str) -> u64 {
        let client = &mut self.nodes[node].client();
        let info: String = redis::cmd("INFO").arg("replication").query(client).unwrap();
        let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.unwrap_or_else(|| panic!("no {name} in {info}")).trim().parse().unwrap()
    }

    fn try_ask<T: redis::FromRedisValue>(&self, node: usize, arguments: &[&str]) -> Option<T> {
        redis::cmd("CLUSTER").arg(arguments).query(&mut self.nodes[node].client()).ok()
    }

    fn ask<T: redis::FromRedisValue>(&self, node: usize, arguments: &[&str]) -> T {
        redis::cmd("CLUSTER").arg(arguments).query(&mut self.nodes[node].client()).unwrap()
    }

    fn info(&self, node: usize) -> String {
        self.ask(node, &["INFO"])
    }

    pub(crate) fn node(&self, index: usize) -> &Server {
        &self.nodes[index]
    }

    /// Kills all nodes.
    pub(crate) fn stop(&mut self) {
        self.nodes.iter_mut().for_each(|node| node.kill());
    }

    /// Starts all nodes again, and waits until they say that the cluster serves.
    pub(crate) fn start_again(&mut self) {
        self.nodes.iter_mut().for_each(|node| node.start_again(&ARGUMENTS));
        self.wait(|cluster| (0..6).all(|node| cluster.info(node).contains("cluster_state:ok")));
    }

    /// As if every node had been replaced by an empty one.
    pub(crate) fn loses_all(&self) {
        for node in &self.nodes[..3] {
            let _: () = redis::cmd("FLUSHALL").query(&mut node.client()).unwrap();
        }
    }

    pub(crate) fn config(&self) -> RedisConfig {
        let mut config = patient(RedisConfig::new(self.nodes.iter().take(2).map(|node| node.url())));
        config.cluster = true;
        config
    }
}

fn key(name: &str) -> Key {
    Key::new("api", b"limit", name.as_bytes()).unwrap()
}

fn check(name: &str, limit: u64) -> Operation {
    let algorithm = Algorithm::bucket(Rate::new(limit, Duration::from_hours(1)).unwrap()).unwrap();
    Operation::new(key(name), algorithm, Kind::Check { cost: Cost::ONE })
}

async fn used(store: &RedisStore, name: &str, limit: u64) -> u64 {
    let peek = Operation { kind: Kind::Peek { cost: Cost::ONE }, ..check(name, limit) };
    store.run(&Batch::each(RequestId(0), [peek])).await.unwrap().outcomes[0].used
}

/// Sends a batch until it is answered: the first calls connect, which may take longer than their
/// deadline. Under its id the batch is charged once.
async fn answered(store: &RedisStore, batch: &Batch) {
    within(PATIENCE, async || store.run(batch).await.map(drop).map_err(|error| format!("{error:?}"))).await;
}

#[test]
fn a_cluster_passes_but_for_ids_that_are_used_twice() {
    let Some(cluster) = Cluster::start() else {
        return skip("a_cluster_passes_but_for_ids_that_are_used_twice");
    };
    let report = run(&Harness::new(cluster.config(), None, 1000));
    let failed: Vec<_> = report.failed.iter().map(|(name, _)| *name).collect();
    // Another batch has other keys, in other slots, where the id was never met.
    assert_eq!(failed, ["an_id_used_for_another_batch_charges_nothing"], "{report}");
    assert!(report.skipped.is_empty(), "{report}");
}

#[tokio::test(flavor = "current_thread")]
async fn what_one_slot_refuses_is_given_back_in_the_others() {
    let Some(cluster) = Cluster::start() else {
        return skip("what_one_slot_refuses_is_given_back_in_the_others");
    };
    let store = RedisStore::open(cluster.config()).unwrap();
    let names = ["a", "b", "c", "d", "e"];
    let batch = |id| {
        Batch::all_or_nothing(RequestId(id), names.map(|name| check(name, if name == "d" { 2 } else { 9 })))
    };
    for id in 1..=2 {
        assert!(!store.run(&batch(id)).await.unwrap().refused);
    }
    let refused = store.run(&batch(3)).await.unwrap();
    let verdicts: Vec<_> = refused.outcomes.iter().map(|outcome| outcome.verdict == Verdict::Admit).collect();
    assert!(refused.refused && verdicts == [true, true, true, false, true], "{refused:?}");
    assert!(refused.outcomes.iter().all(|outcome| outcome.used == 2 && outcome.units == 0), "{refused:?}");
    for name in names {
        assert_eq!(used(&store, name, 9).await, 2, "{name}");
    }
    // The same again, and the same through another member: the answer it got, and nothing charged.
    assert_eq!(store.run(&batch(3)).await.unwrap(), refused);
    assert_eq!(RedisStore::open(cluster.config()).unwrap().run(&batch(3)).await.unwrap(), refused);
    for name in names {
        assert_eq!(used(&store, name, 9).await, 2, "{name}");
    }
    assert_eq!(store.stats().undo_failed, 0);
}

#[tokio::test(flavor = "current_thread")]
async fn a_note_that_is_there_refuses_a_batch_in_other_slots_and_one_that_is_refused_leaves_no_note() {
    let name = "a_note_that_is_there_refuses_a_batch_in_other_slots_and_one_that_is_refused_leaves_no_note";
    let Some(cluster) = Cluster::start() else { return skip(name) };
    let store = RedisStore::open(cluster.config()).unwrap();
    let note = |value: &[u8]| {
        let (name, until) = (b"order".as_slice().into(), tidegate_core::Timestamp::MAX);
        NoteChange::Create(Note { kind: NoteKind::Refund, name, value: value.into(), until })
    };
    let batch = |id, limit, value: &[u8]| {
        Batch::all_or_nothing(RequestId(id), ["a", "b"].map(|name| check(name, limit)))
            .with_notes([note(value)])
    };
    assert!(
        !store
            .run(&Batch::all_or_nothing(RequestId(1), ["a", "b"].map(|name| check(name, 1))))
            .await
            .unwrap()
            .refused
    );
    assert!(store.run(&batch(2, 1, b"first")).await.unwrap().refused);
    assert!(store.notes(NoteKind::Refund).await.unwrap().is_empty(), "a refused batch left its note");
    assert!(!store.run(&batch(3, 9, b"second")).await.unwrap().refused);
    assert!(store.run(&batch(4, 9, b"third")).await.unwrap().refused);
    assert_eq!((used(&store, "a", 9).await, used(&store, "b", 9).await), (2, 2));
    let notes = store.notes(NoteKind::Refund).await.unwrap();
    assert_eq!(notes.iter().map(|note| &*note.value).collect::<Vec<_>>(), [b"second"]);
}

#[tokio::test(flavor = "current_thread")]
async fn a_slot_that_moves_takes_its_counters_along() {
    let Some(cluster) = Cluster::start() else { return skip("a_slot_that_moves_takes_its_counters_along") };
    let mut config = cluster.config();
    config.deadline = Duration::from_millis(500);
    let store = RedisStore::open(config).unwrap();
    for id in 1..=3 {
        answered(&store, &Batch::all_or_nothing(RequestId(id), [check("moves", 9)])).await;
    }
    let (from, names) = (0..3)
        .map(|node| {
            let pattern = redis::cmd("KEYS").arg("*moves*").query(&mut cluster.nodes[node].client()).unwrap();
            (node, pattern)
        })
        .find(|(_, names): &(usize, Vec<Vec<u8>>)| !names.is_empty())
        .unwrap();
    let to = (from + 1) % 3;
    let slot: u16 =
        redis::cmd("CLUSTER").arg("KEYSLOT").arg(&names[0]).query(&mut cluster.nodes[0].client()).unwrap();
    let slot = slot.to_string();
    let (source, target): (String, String) = (cluster.ask(from, &["MYID"]), cluster.ask(to, &["MYID"]));
    let _: () = cluster.ask(to, &["SETSLOT", &slot, "IMPORTING", &source]);
    let _: () = cluster.ask(from, &["SETSLOT", &slot, "MIGRATING", &target]);
    // While it moves a call that names keys that do not exist yet, as every batch does, is put off.
    let error = store.run(&Batch::all_or_nothing(RequestId(4), [check("moves", 9)])).await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    loop {
        let keys: Vec<Vec<u8>> = redis::cmd("CLUSTER")
            .arg("GETKEYSINSLOT")
            .arg(&slot)
            .arg(100)
            .query(&mut cluster.nodes[from].client())
            .unwrap();
        if keys.is_empty() {
            break;
        }
        let mut migrate = redis::cmd("MIGRATE");
        migrate.arg("127.0.0.1").arg(cluster.nodes[to].port()).arg("").arg(0).arg(5000).arg("KEYS").arg(keys);
        let _: String = migrate.query(&mut cluster.nodes[from].client()).unwrap();
    }
    for node in [to, from, (from + 2) % 3] {
        let _: () = cluster.ask(node, &["SETSLOT", &slot, "NODE", &target]);
    }
    let since = Instant::now();
    let used = loop {
        match store.run(&Batch::all_or_nothing(RequestId(4), [check("moves", 9)])).await {
            Ok(answer) => break answer.outcomes[0].used,
            Err(error) => assert!(since.elapsed() < Duration::from_secs(20), "{error:?}"),
        }
    };
    assert_eq!(used, 4);
    assert_eq!(store.stats().lost, 0);
}

#[tokio::test(flavor = "current_thread")]
async fn a_primary_that_dies_is_followed_by_its_replica() {
    let Some(mut cluster) = Cluster::start() else {
        return skip("a_primary_that_dies_is_followed_by_its_replica");
    };
    let mut config = cluster.config();
    config.deadline = Duration::from_millis(500);
    let store = RedisStore::open(config).unwrap();
    let names: Vec<_> = (0..12).map(|name| format!("key {name}")).collect();
    let mut counted = BTreeMap::new();
    for (id, name) in names.iter().enumerate() {
        answered(&store, &Batch::all_or_nothing(RequestId(1 + id as u128), [check(name, 99)])).await;
        counted.insert(name, 1);
    }
    // Data that is not replicated yet would be lost, by design of the engine.
    let written = cluster.replication(0, "master_repl_offset");
    cluster.wait(|cluster| cluster.replication(3, "slave_repl_offset") >= written);
    drop(cluster.nodes.remove(0));
    let since = Instant::now();
    for (id, name) in names.iter().enumerate() {
        let batch = Batch::all_or_nothing(RequestId(100 + id as u128), [check(name, 99)]);
        let answer = within(PATIENCE, async || {
            store.run(&batch).await.map_err(|error| {
                assert!(error.is_transient(), "{error:?}");
                format!("{error:?} {:?}", store.stats())
            })
        })
        .await;
        assert_eq!(answer.outcomes[0].used, 2, "{name}");
    }
    println!("after the death of a primary all slots served again within {:?}", since.elapsed());
    assert_eq!(store.stats().lost, 0);
}
