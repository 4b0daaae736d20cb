//! Changing what is in force while requests go on: another policy, other overrides.
//!
//! One change at a time. A change is made ready aside, written to the store if it must outlive the process, and then put in
//! force by exchanging one pointer: a request sees all of it or nothing.

use core::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use tidegate::Timestamp;
use tidegate_engine::{Engine, EngineError};
use tidegate_policy::{Comparison, Policy, Problems};
use tidegate_store::{NoteChange, StoreError};
use tokio::sync::Notify;
use utoipa::ToSchema;

use crate::config::ServerConfig;
use crate::daemon::Daemon;
use crate::from_policy::{self, ConfigError};
use crate::in_force::{InForce, PolicyVersion};
use crate::quota_store::{self, NoStore};

/// The turn to change something, and what came of earlier changes.
#[derive(Default)]
pub(crate) struct Changes {
    /// Who holds it may change what is in force.
    pub(crate) turn: tokio::sync::Mutex<()>,
    told: Mutex<Told>,
    /// Somebody wants the policy file read now.
    pub(crate) asked: Notify,
}

/// What came of reloads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    /// Policies that were taken over since the start, the first not among them.
    pub(crate) succeeded: u64,
    /// Policies that were not.
    pub(crate) failed: u64,
    /// Why the last one was not; gone with the next that is.
    pub(crate) last_error: Option<LastError>,
    /// Why the files of envoyproxy/ratelimit were last not taken over; gone when they can be again.
    pub(crate) files_error: Option<LastError>,
    /// Settings of the policy in force that only count after a restart.
    pub(crate) restart_needed: Vec<&'static str>,
}

/// Why a policy was not taken over.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct LastError {
    /// When, as RFC 3339.
    pub(crate) at: String,
    /// What was wrong: every problem, a line each.
    pub(crate) problems: String,
}

/// Why a policy was not taken over; the one in force stays, whole.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// It has problems.
    #[error("the policy has problems\n{0}")]
    Problems(#[from] Problems),
    /// It cannot be read.
    #[error("the policy cannot be read: {0}")]
    Unreadable(#[from] std::io::Error),
    /// Its limits make no engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// It makes no configuration of a daemon.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// It has a quota, and the daemon has no store to keep it in.
    #[error(transparent)]
    NoStore(#[from] NoStore),
    /// What must outlive the process could not be written.
    #[error("what was renamed could not be stored: {0}")]
    Store(#[from] StoreError),
}

/// Why expired overrides stay.
#[derive(Debug, thiserror::Error)]
enum Undropped {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Told {
    /// What is wrong now, if anything is: with the policy, or with the files that it names.
    pub(crate) fn error(&self) -> Option<&LastError> {
        self.last_error.as_ref().or(self.files_error.as_ref())
    }
}

impl Changes {
    /// The files of envoyproxy/ratelimit were looked at: whether they were taken over anew, or why they were not.
    pub(crate) fn files_looked_at(&self, result: Result<bool, &str>, now: Timestamp) {
        let mut told = self.told();
        match result {
            Ok(changed) => {
                told.succeeded += u64::from(changed);
                told.files_error = None;
            }
            Err(problems) => {
                told.failed += 1;
                told.files_error =
                    Some(LastError { at: now.to_whole_millis().to_string(), problems: problems.to_owned() });
            }
        }
    }

    pub(crate) fn told(&self) -> MutexGuard<'_, Told> {
        // Every change of it is one assignment after another: a panic elsewhere leaves it readable.
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").field("told", &*self.told()).finish_non_exhaustive()
    }
}

impl Daemon {
    /// Takes `new` over in place of `old`, or says why not. Answers what becomes of the counters.
    pub(crate) async fn take_over(
        &self,
        old: &Policy,
        new: &Policy,
        fingerprint: String,
    ) -> Result<Comparison, ReloadError> {
        let _turn = self.changes.turn.lock().await;
        let mut config = from_policy::server_config(new)?;
        let before = self.in_force.load_full();
        if before.config.keeps_proxying {
            config.proxying = before.config.proxying.clone();
            config.keeps_proxying = true;
        }
        if !self.asks_store {
            quota_store::check_without_store(new, config.envoy_ratelimit.as_ref())?;
        }
        let now = self.clock.now();
        let (engine, report) = before.engine.reconfigured(from_policy::namespaces(new))?;
        self.store_notes(&engine, &report.notes).await?;
        let version = PolicyVersion { number: before.version.number + 1, fingerprint, since: now };
        self.put_in_force(&before, engine, config, version);
        if let Some(store) = &self.embedded {
            store.set_namespaces(new.namespaces.len());
        }
        let comparison = tidegate_policy::compare(old, new);
        let restart = comparison.settings.iter().filter(|setting| setting.needs_restart);
        let mut told = self.changes.told();
        told.succeeded += 1;
        (told.last_error, told.files_error) = (None, None);
        told.restart_needed = restart.map(|setting| setting.path).collect();
        Ok(comparison)
    }

    /// Notes that a policy was not taken over.
    pub(crate) fn reload_failed(&self, error: &ReloadError) {
        let at = self.clock.now().to_whole_millis().to_string();
        let mut told = self.changes.told();
        told.failed += 1;
        told.last_error = Some(LastError { at, problems: error.to_string() });
    }

    /// Makes another engine out of the one in force and puts it in its place, under the same policy. What `change` wants
    /// noted is stored before anybody is decided by it.
    pub(crate) async fn change_engine<E: From<StoreError>>(
        &self,
        change: impl FnOnce(&Engine, Timestamp) -> Result<(Engine, Vec<NoteChange>), E>,
    ) -> Result<(), E> {
        let _turn = self.changes.turn.lock().await;
        let before = self.in_force.load_full();
        let (engine, notes) = change(&before.engine, self.clock.now())?;
        self.store_notes(&engine, &notes).await?;
        self.put_in_force(&before, engine, before.config.clone(), before.version.clone());
        Ok(())
    }

    /// Takes out the overrides that have expired. They no longer apply in any case; this lets go of them.
    pub(crate) async fn drop_expired_overrides(&self) {
        let mut expired = Vec::new();
        let dropped = self.change_engine(|engine, now| {
            let (engine, gone) = engine.without_expired(now)?;
            expired = gone;
            Ok::<_, Undropped>((engine, Vec::new()))
        });
        if let Err(error) = dropped.await {
            tracing::error!(%error, "expired overrides could not be taken out");
        }
        for one in expired {
            tracing::info!(
                target: "tidegate::audit",
                namespace = one.namespace,
                limit = one.limit,
                numbers = one.numbers_in_words(),
                "an override has expired"
            );
        }
    }

    pub(crate) fn put_in_force(
        &self,
        before: &InForce,
        engine: Engine,
        config: ServerConfig,
        version: PolicyVersion,
    ) {
        let now = Arc::new(InForce::new(Arc::new(engine), config, &self.metrics, version, Some(before)));
        self.in_force.store(Arc::clone(&now));
        now.metrics.forget(&before.metrics);
        match (&before.config.envoy_ratelimit, &now.config.envoy_ratelimit) {
            (Some(before), Some(now)) => now.replace(before),
            (Some(before), None) => before.forget(),
            (None, _) => {}
        }
        self.metrics.proxy.forget(&before.routes, &now.routes);
    }

    /// Writes notes, if there are any and a store that outlives the process.
    pub(crate) async fn store_notes(&self, engine: &Engine, notes: &[NoteChange]) -> Result<(), StoreError> {
        if !self.asks_store {
            return Ok(());
        }
        for batch in engine.note_batches(notes) {
            self.ask(&batch).await?;
        }
        Ok(())
    }
}
