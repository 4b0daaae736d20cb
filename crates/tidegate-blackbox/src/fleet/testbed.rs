//! Daemons on one store, stopped together.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;

use redis::FromRedisValue;
use serde_json::Value;
use tidegate_test_support::{RedisServer, until};

use crate::attack::{Failure, RunContext};
use crate::daemon::{Daemon, processor_seconds, ticks};
use crate::http1;
use crate::redis_relay::{RedisRelay, RelayMode, start_server};

/// The kinds of stores that members share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoreKind {
    /// Nothing.
    None,
    /// One server, which keeps nothing on disk.
    Single,
    /// One server that the first member reaches over a relay.
    Relayed,
    /// One server, which syncs every write to its disk.
    Durable,
    /// Three primaries with a replica each; a node is missed after a second.
    Cluster,
}

/// The servers that members share.
#[derive(Debug)]
pub(super) struct StoreNodes {
    pub(super) nodes: Vec<RedisServer>,
    arguments: Vec<&'static str>,
    relay: Option<RedisRelay>,
}

impl StoreNodes {
    pub(super) fn start(kind: StoreKind) -> Result<Option<Self>, Failure> {
        let (count, arguments): (_, &[&str]) = match kind {
            StoreKind::None => return Ok(None),
            StoreKind::Single | StoreKind::Relayed => (1, &[]),
            StoreKind::Durable => (1, &["--appendonly", "yes", "--appendfsync", "always"]),
            StoreKind::Cluster => (6, &["--cluster-enabled", "yes", "--cluster-node-timeout", "1000"]),
        };
        let nodes = (0..count).map(|_| start_server(arguments)).collect::<Result<_, _>>()?;
        let mut store = Self { nodes, arguments: arguments.to_vec(), relay: None };
        if kind == StoreKind::Relayed {
            store.relay = Some(RedisRelay::start(&store.nodes[0])?);
        }
        if kind == StoreKind::Cluster {
            store.join()?;
        }
        Ok(Some(store))
    }

    /// Makes a cluster of the nodes.
    fn join(&self) -> Result<(), Failure> {
        let mut command = Command::new("redis-cli");
        command.args(["--cluster", "create", "--cluster-replicas", "1", "--cluster-yes"]);
        command.args(self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())));
        let output = command.output()?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stdout);
            return Err(Failure::Unfinished(format!("redis-cli makes no cluster: {text}")));
        }
        let count = |words: &[&str], text| self.nodes_that_say(words, text).count();
        until("the cluster serves", || count(&["CLUSTER", "INFO"], "cluster_state:ok") == 6);
        until("replicas follow", || count(&["INFO", "replication"], "master_link_status:up") == 3);
        Ok(())
    }

    /// The nodes whose answer to a command contains `text`.
    pub(super) fn nodes_that_say(&self, words: &[&str], text: &str) -> impl Iterator<Item = usize> {
        (0..self.nodes.len())
            .filter(move |node| self.ask::<String>(*node, words).is_ok_and(|answer| answer.contains(text)))
    }

    /// Sends a command to a node.
    pub(super) fn ask<T: FromRedisValue>(&self, node: usize, words: &[&str]) -> Result<T, Failure> {
        let mut connection = redis::Client::open(self.nodes[node].url())?.get_connection()?;
        Ok(redis::cmd(words[0]).arg(&words[1..]).query(&mut connection)?)
    }

    /// Seconds of processor time of all nodes.
    pub(super) fn cpu(&self) -> f64 {
        self.nodes.iter().map(|node| processor_seconds(node.id())).sum()
    }

    /// Starts a node again that was killed.
    pub(super) fn start_again(&mut self, node: usize) {
        self.nodes[node].start_again(&self.arguments);
    }

    /// Stops the relay from passing anything on, and lets everything pass late.
    pub(super) fn set_cut_off(&self, is_cut_off: bool) {
        let mode = if is_cut_off { RelayMode::Frozen } else { RelayMode::Passes };
        self.relay.iter().for_each(|relay| relay.set_mode(mode.clone(), false));
    }

    /// The store in the policy of a member.
    fn policy(&self, member: usize) -> String {
        let urls: Vec<String> = match &self.relay {
            Some(relay) if member == 0 => vec![relay.url()],
            _ => self.nodes.iter().take(2).map(RedisServer::url).collect(),
        };
        let cluster = if self.nodes.len() > 1 { ", cluster: true" } else { "" };
        format!("store: {{ kind: redis, urls: [{}]{cluster} }}\n", urls.join(", "))
    }
}

/// Members on one store.
#[derive(Debug)]
pub(super) struct DaemonFleet<'context> {
    // Before the store, so that they do not outlive it.
    members: Vec<Option<Daemon<'context>>>,
    pub(super) store: Option<StoreNodes>,
    context: &'context RunContext,
    limits: String,
}

impl<'context> DaemonFleet<'context> {
    /// Starts `count` members with these limits, as a policy has them, and waits until all are
    /// ready.
    pub(super) fn start(
        context: &'context RunContext,
        store: StoreKind,
        limits: String,
        count: usize,
    ) -> Result<Self, Failure> {
        let store = StoreNodes::start(store)?;
        let mut fleet = Self { members: Vec::new(), store, context, limits };
        for _ in 0..count {
            fleet.start_member()?;
        }
        let addresses = fleet.addresses()?;
        until("all members are ready", || addresses.iter().all(|address| is_ready(*address)));
        Ok(fleet)
    }

    /// Starts another member, which may not be ready yet.
    pub(super) fn start_member(&mut self) -> Result<SocketAddr, Failure> {
        let store = self.store.as_ref().map_or(String::new(), |store| store.policy(self.members.len()));
        let policy = format!(
            "listen: {{ http: '127.0.0.1:0' }}\n{store}log: {{ refusals: off, level: warn }}\n\
             namespaces: {{ api: {{ limits: [{}] }} }}\n",
            self.limits
        );
        let daemon = Daemon::start(self.context, &policy)?;
        let address = daemon.http();
        self.members.push(Some(daemon));
        address
    }

    fn alive(&self) -> impl Iterator<Item = &Daemon<'context>> {
        self.members.iter().flatten()
    }

    /// Where members listen that are alive.
    pub(super) fn addresses(&self) -> Result<Vec<SocketAddr>, Failure> {
        self.alive().map(Daemon::http).collect()
    }

    /// Kills the first member that is alive. The value is its page of leases before.
    pub(super) fn kill_member(&mut self) -> Result<Value, Failure> {
        let leases = self.alive().next().map_or(Ok(Value::Null), leases)?;
        if let Some(member) = self.members.iter_mut().find(|member| member.is_some()) {
            *member = None;
        }
        Ok(leases)
    }

    /// The page of leases of the last member.
    pub(super) fn leases(&self) -> Result<Value, Failure> {
        self.alive().last().map_or(Ok(Value::Null), leases)
    }

    /// The sum of a counter over the members that are alive.
    pub(super) fn total(&self, name: &str) -> Result<u64, Failure> {
        self.alive().map(|member| member.metric(name)).sum()
    }

    /// Seconds of processor time of the members that are alive.
    pub(super) fn cpu(&self) -> f64 {
        self.alive().map(|member| processor_seconds(member.id())).sum()
    }
}

/// The page of leases of a member.
pub(crate) fn leases(member: &Daemon<'_>) -> Result<Value, Failure> {
    let answer = http1::ask(member.http()?, http1::get("/v1/leases"))?;
    serde_json::from_slice(&answer.body).map_err(|error| Failure::Unfinished(format!("/v1/leases: {error}")))
}

impl From<redis::RedisError> for Failure {
    fn from(error: redis::RedisError) -> Self {
        Self::Unfinished(error.to_string())
    }
}

/// Whether a member serves.
pub(crate) fn is_ready(member: SocketAddr) -> bool {
    http1::ask(member, http1::get("/readyz")).is_ok_and(|answer| answer.status == 200)
}

/// Seconds of processor time that the whole machine has spent, not idle and not waiting for disks.
pub(super) fn busy_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    ticks(stat.lines().next().unwrap_or_default(), &[1, 2, 3, 6, 7, 8])
}
