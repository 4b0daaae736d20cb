//! The store that several members share: what the log says about it, and following a loss of its
//! data.
//!
//! A daemon that starts while the store is away decides alone, as each limit's `on_store_failure`
//! says (see `readiness.rs`), and joins when the store answers. From then on it takes over, every
//! few seconds, what other members have set.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tidegate_store::{FleetStore, Loss, StoreError};

use crate::records::store_failure_log::StoreFailureLog;

/// A shared store, with the state of the log lines about it.
pub(crate) struct SharedStore {
    pub(crate) store: Arc<dyn FleetStore>,
    logged: Mutex<LoggedState>,
    failures: StoreFailureLog,
}

/// The state that was logged last, so that each change is logged once.
#[derive(Debug, Default)]
struct LoggedState {
    /// The loss that is not acknowledged.
    loss: Option<Loss>,
    newer_protocol: Option<String>,
}

impl SharedStore {
    pub(crate) fn new(store: Arc<dyn FleetStore>) -> Self {
        Self { store, logged: Mutex::default(), failures: StoreFailureLog::default() }
    }

    /// Logs what a call to the store has shown.
    pub(crate) fn call_ended(&self, error: Option<&StoreError>) {
        self.log_changes();
        if let Some(error) = error.filter(|error| !self.store.is_silence(error)) {
            self.failures.write(error, Instant::now());
        }
    }

    /// Acknowledges for all members every loss that began before now: quotas count from what there
    /// is. The loss that was known, if any was; an error if the acknowledgement could not be
    /// written into the store yet.
    pub(crate) async fn acknowledge_loss(&self) -> Result<Option<Loss>, StoreError> {
        // Another member may have noticed a loss, or acknowledged it.
        let looked = self.store.now().await;
        let loss = self.store.acknowledge_loss();
        looked?;
        self.store.now().await?;
        self.log_changes();
        Ok(loss)
    }

    /// Warns if the server may evict counters, which then count from zero.
    pub(crate) async fn check_eviction(&self) {
        match self.store.evicts_by().await {
            Ok(None) => {}
            Ok(Some(policy)) => tracing::warn!(
                target: "tidegate::store",
                policy,
                "the store may evict counters, which then count from zero and admit more than their limits; set `maxmemory-policy noeviction` in Redis"
            ),
            Err(error) => tracing::info!(
                target: "tidegate::store",
                %error,
                "the store does not report its eviction policy (CONFIG GET is not permitted); check that `maxmemory-policy` is `noeviction`"
            ),
        }
    }

    /// Logs changes of losses and of the protocol.
    fn log_changes(&self) {
        // Every change is one assignment. The store is looked at under the lock, so that changes
        // are logged in order.
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        let (loss, newer_protocol) = (self.store.loss(), self.store.newer_protocol());
        if logged.loss != loss {
            match (&logged.loss, &loss) {
                (None, Some(loss)) => tracing::error!(
                    target: "tidegate::store",
                    expected = loss.expected,
                    found = loss.found,
                    began = %loss.began,
                    "the store has lost its counters; quotas follow their on_store_failure until their windows end or `tidegate leases acknowledge` is run at one member"
                ),
                (Some(_), None) => tracing::info!(
                    target: "tidegate::store",
                    "the loss of the store's counters is acknowledged; quotas count from what there is"
                ),
                _ => {}
            }
            logged.loss = loss;
        }
        if logged.newer_protocol != newer_protocol {
            if let Some(newer) = &newer_protocol {
                tracing::error!(target: "tidegate::store", "{newer}; until then this member decides alone and is not ready");
            }
            logged.newer_protocol = newer_protocol;
        }
    }
}

/// The content of a note. A note that cannot be read is logged and left out, so that the others are
/// used.
pub(crate) fn kept<T, E: core::fmt::Display>(read: Result<T, E>) -> Option<T> {
    read.inspect_err(|error| tracing::error!(%error, "a stored note cannot be read and is ignored")).ok()
}
