//! Finding a store again that does not answer.
//!
//! From the first call that fails until one is answered in time, one task asks the store every
//! quarter of a second, whether or not there is traffic. So a store that is back is used again
//! within a second. Where nothing comes back over the connection, or it is refused, another
//! connection is tried beside it: TCP waits ever longer before it sends again what the network has
//! dropped, and the client library keeps a connection that was refused at its greeting.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::Cmd;
use tokio::time::{Instant, sleep_until, timeout};

use crate::dial::Dial;
use crate::error::CallError;
use crate::shared::Shared;

/// How often a silent store is asked.
const PROBE_EVERY: Duration = Duration::from_millis(250);

/// How long the answer to a probe is waited for.
const PROBE_PATIENCE: Duration = Duration::from_millis(240);

/// How many probes in a row fail before another connection is tried; and then again after as many
/// more.
const PROBES_PER_CONNECTION: u32 = 2;

/// How many other connections are tried at once. Each takes
/// [`RedisConfig::connect_timeout`](crate::RedisConfig::connect_timeout) at most.
const CONNECTIONS_MAX: usize = 4;

/// Has a task probe the store until it answers, unless one does.
pub(crate) fn start(shared: &Arc<Shared>) {
    // The flag is all that is handed over.
    if !shared.is_probed.swap(true, Ordering::Relaxed) {
        let weak = Arc::downgrade(shared);
        shared.handle.spawn(probe(weak));
    }
}

async fn probe(weak: Weak<Shared>) {
    let mut failures = 0;
    let mut connections = tokio::task::JoinSet::new();
    let mut next = Instant::now();
    loop {
        next = (next + PROBE_EVERY).max(Instant::now());
        sleep_until(next).await;
        // The store was dropped meanwhile.
        let Some(shared) = weak.upgrade() else { return };
        while connections.try_join_next().is_some() {}
        // Traffic may have found it.
        if !shared.is_well() {
            let started = Instant::now();
            let patience = PROBE_PATIENCE.max(shared.config.deadline);
            match shared.call_at(shared.home(), &[], patience).await {
                // Late answers keep the breaker open, but come over a connection that works.
                Ok(_) if started.elapsed() > shared.config.deadline => {
                    shared.failed(&CallError::Timeout(shared.config.deadline));
                    failures = 0;
                }
                Ok(_) => {}
                Err(error) => {
                    shared.failed(&error);
                    failures += u32::from(error.is_of_the_connection());
                }
            }
            if failures >= PROBES_PER_CONNECTION && connections.len() < CONNECTIONS_MAX {
                failures = 0;
                connections.spawn(reconnect(weak.clone()));
            }
        }
        if shared.is_well() {
            shared.is_probed.store(false, Ordering::Relaxed);
            // A failure in between has not started another task.
            if shared.is_well() || shared.is_probed.swap(true, Ordering::Relaxed) {
                return;
            }
        }
    }
}

/// How soon after one look at a cluster the next one may begin.
const LOOKS_APART: Duration = Duration::from_secs(1);

/// Has a task open connections to the cluster anew, with the slots as they are now, unless one
/// does.
pub(crate) fn look_anew(shared: &Arc<Shared>) {
    // The flag is all that is handed over.
    if !shared.is_looked_at.swap(true, Ordering::Relaxed) {
        let weak = Arc::downgrade(shared);
        shared.handle.spawn(async move {
            if let Some(connection) = answered(&weak).await
                && let Some(shared) = weak.upgrade()
            {
                shared.link.put(connection);
            }
            tokio::time::sleep(LOOKS_APART).await;
            if let Some(shared) = weak.upgrade() {
                shared.is_looked_at.store(false, Ordering::Relaxed);
            }
        });
    }
}

/// Opens another connection, and puts it in place of the one in use if the server answers over it.
async fn reconnect(weak: Weak<Shared>) {
    if let Some(connection) = answered(&weak).await
        && let Some(shared) = weak.upgrade()
        && !shared.is_well()
    {
        shared.link.put(connection);
    }
}

/// Another connection, if the server answers over it.
async fn answered(weak: &Weak<Shared>) -> Option<Arc<Dial>> {
    let shared = weak.upgrade()?;
    let connection = shared.link.fresh();
    let mut command = Cmd::new();
    command.arg("EXISTS").arg(shared.names.marker(shared.home()));
    // To a cluster the library connects in two rounds: to the nodes that are named, and to those
    // that they name.
    let rounds = if shared.config.cluster { 3 } else { 1 };
    let patience = shared.config.connect_timeout.saturating_mul(rounds);
    let is_answered = match timeout(patience, connection.send(&command)).await {
        Ok(Ok(_)) => true,
        // The server let the connection in.
        Ok(Err(error)) => !CallError::from(error).is_of_the_connection(),
        Err(_) => false,
    };
    is_answered.then_some(connection)
}
