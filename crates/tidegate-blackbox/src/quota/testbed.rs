//! Envoys and daemons on one Redis, stopped together.

use std::net::SocketAddr;

use tidegate_test_support::{RedisServer, free_port, until};

use super::envoy_process::EnvoyProcess;
use crate::attack::{Failure, RunContext};
use crate::daemon::Daemon;
use crate::fleet::testbed::is_ready;
use crate::redis_relay::start_server;

/// The store writes what it has to a file, so that it comes back with its data.
const STORE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "everysec"];

/// The limit of all experiments: so many a second, and a burst of as many.
#[derive(Clone, Copy, Debug)]
pub(super) struct EdgeLimit {
    pub(super) rate: u32,
}

/// A daemon and its addresses, which it keeps when it starts again.
#[derive(Debug)]
struct DaemonPlace<'context> {
    daemon: Option<Daemon<'context>>,
    policy: String,
    grpc_port: u16,
}

/// Envoys and daemons on one Redis.
#[derive(Debug)]
pub(super) struct QuotaTestbed<'context> {
    // In this order, so that nobody outlives the server that it calls.
    pub(super) envoys: Vec<EnvoyProcess>,
    daemons: Vec<DaemonPlace<'context>>,
    pub(super) store: RedisServer,
    context: &'context RunContext,
}

impl<'context> QuotaTestbed<'context> {
    /// Starts two daemons, and an Envoy for each element of `homes`, which is the daemons that it
    /// reports to.
    pub(super) fn start(
        context: &'context RunContext,
        limit: EdgeLimit,
        homes: &[&[usize]],
    ) -> Result<Self, Failure> {
        let store = start_server(&STORE)?;
        let mut testbed = Self { envoys: Vec::new(), daemons: Vec::new(), store, context };
        for _ in 0..2 {
            let (http, grpc_port) = (free_port(), free_port());
            let policy = format!(
                "listen: {{ http: '127.0.0.1:{http}', grpc: '127.0.0.1:{grpc_port}' }}\n\
                 store: {{ kind: redis, urls: [{}] }}\nlog: {{ refusals: off, level: warn }}\n\
                 namespaces: {{ api: {{ limits: [{{ name: per-user, key: [user], rate: {}/s }}] }} }}\n",
                testbed.store.url(),
                limit.rate
            );
            testbed.daemons.push(DaemonPlace { daemon: None, policy, grpc_port });
            testbed.start_daemon(testbed.daemons.len() - 1)?;
        }
        for (number, home) in homes.iter().enumerate() {
            let daemons: Vec<u16> = home.iter().map(|daemon| testbed.daemons[*daemon].grpc_port).collect();
            testbed.envoys.push(EnvoyProcess::start(&format!("edge-{}", number + 1), &daemons)?);
        }
        Ok(testbed)
    }

    /// Starts a daemon, which is not there, and waits until it is ready.
    pub(super) fn start_daemon(&mut self, number: usize) -> Result<(), Failure> {
        let place = &mut self.daemons[number];
        let daemon = Daemon::start(self.context, &place.policy)?;
        let http = daemon.http()?;
        place.daemon = Some(daemon);
        until("a daemon is ready", || is_ready(http));
        Ok(())
    }

    /// Kills a daemon by its id.
    pub(super) fn kill_daemon(&mut self, number: usize) {
        self.daemons[number].daemon = None;
    }

    /// Has a daemon stop in its own time.
    pub(super) fn terminate_daemon(&mut self, number: usize) -> Result<(), Failure> {
        self.daemons[number].daemon.take().map_or(Ok(()), Daemon::terminate)
    }

    /// A daemon that runs.
    pub(super) fn daemon(&self, number: usize) -> Result<&Daemon<'context>, Failure> {
        let daemon = self.daemons[number].daemon.as_ref();
        daemon.ok_or_else(|| Failure::Unfinished(format!("daemon {number} does not run")))
    }

    /// The daemons that run.
    pub(super) fn daemons(&self) -> impl Iterator<Item = &Daemon<'context>> {
        self.daemons.iter().filter_map(|place| place.daemon.as_ref())
    }

    /// The sum of a series over the daemons that run.
    pub(super) fn total(&self, series: &str) -> Result<u64, Failure> {
        self.daemons().map(|daemon| daemon.metric(series)).sum()
    }

    /// Where the Envoys take requests.
    pub(super) fn edges(&self) -> Vec<SocketAddr> {
        self.envoys.iter().map(EnvoyProcess::address).collect()
    }

    /// Starts the store again, which was killed, with its data.
    pub(super) fn start_store(&mut self) {
        self.store.start_again(&STORE);
    }
}
