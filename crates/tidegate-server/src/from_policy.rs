//! From a checked policy to a running daemon.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Timestamp, random_seed};
use tidegate_engine::{
    BuildError, Engine, EngineBuilder, EngineConfig, LeaseConfig, Lineage, MeterConfig, NoteError,
};
use tidegate_policy::Policy;
use tidegate_policy::policy::{self, Sample, StoreKind};
use tidegate_store::{MemberStore, MemoryConfig, MemoryStore, NoteKind, Store, StoreError};
use tidegate_store_redb::{DiskReport, Durability, RedbConfig, RedbStore};

use crate::config::ServerConfig;
use crate::fleet::redis_store::{self, SharedStoreError};
use crate::fleet::shared_store::{SharedStore, kept};
use crate::fleet::stored_overrides::overrides_in;
use crate::listener::ListenError;
use crate::no_store::NoStore;
use crate::planes::with_planes;
use crate::policy_config::namespaces;
pub use crate::policy_config::{ConfigError, server_config};
use crate::quota_store::{self, UnusableStore};
use crate::records::decision_log::{DecisionLog, DecisionLogConfig};
use crate::records::decisions::Decisions;
use crate::reload::policy_follower::fingerprint;
use crate::server::{DaemonParts, Handle, Server};
use crate::ticket_signer::StoreAhead;
use tidegate_clock::{Clock, SystemClock};

/// How long one call to a store in files may take: a disk is slower than a network, and nothing
/// else could decide.
const EMBEDDED_TIMEOUT: Duration = Duration::from_secs(1);

/// Why a daemon could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The limits make no engine.
    #[error(transparent)]
    Engine(#[from] BuildError),
    /// A note of the store cannot be read.
    #[error(transparent)]
    Note(#[from] NoteError),
    /// A listener could not be opened.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The store in files could not be opened.
    #[error(transparent)]
    Unusable(#[from] UnusableStore),
    /// There is a quota and no store to keep it in.
    #[error(transparent)]
    NoStore(#[from] NoStore),
    /// The store that members share could not be opened.
    #[error(transparent)]
    Shared(#[from] SharedStoreError),
    /// The store in files was opened and could not be read or written, as on a disk that is almost
    /// full.
    #[error(
        "the store cannot be read or written; free some space on its disk, set `store.path` to another directory, or set \
         `store: {{ kind: memory }}`, with which a restart forgets quotas"
    )]
    Notes(#[from] StoreError),
    /// The decision log could not be opened.
    #[error("the decision log {path} cannot be opened; see log.decisions")]
    Decisions {
        /// Where it is.
        path: String,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
}

/// Starts a daemon that decides by `policy` on the clock of the machine, listening and answering as
/// `config` says, which usually is [`server_config`] of the same policy. `text` is what the policy
/// was read from, empty if it is not from a file.
pub async fn serve(policy: &Policy, text: &[u8], config: ServerConfig) -> Result<Handle, StartError> {
    serve_on(policy, text, config, Arc::new(SystemClock::new())).await
}

/// As [`serve`], on another clock.
pub async fn serve_on(
    policy: &Policy,
    text: &[u8],
    mut config: ServerConfig,
    clock: Arc<dyn Clock>,
) -> Result<Handle, StartError> {
    let fingerprint = if text.is_empty() { String::new() } else { fingerprint(text) };
    let mut parts = DaemonParts { fingerprint, decisions: decisions(policy)?, ..DaemonParts::default() };
    let time = Arc::clone(&clock);
    let seed = random_seed();
    match &store_kind(policy, &config) {
        StoreKind::Embedded(embedded) => {
            config.bounds.store_timeout = config.bounds.store_timeout.max(EMBEDDED_TIMEOUT);
            let opened = RedbStore::open(&redb_config(policy, embedded), move || time.now());
            let unusable = |error| UnusableStore::new(&policy.store, &embedded.path, error);
            let store = Arc::new(opened.map_err(unusable)?);
            tell_of_the_clock(&store, clock.now());
            store.on_report(log_disk_report);
            warn_if_readable(&store);
            let engine = engine_from(policy, seed, &store, clock.now()).await?;
            parts.history.restore(&store.notes(NoteKind::Audit).await?);
            parts.embedded = Some(Arc::clone(&store));
            Ok(Server::start_with(config, Arc::new(engine), store, clock, parts).await?)
        }
        StoreKind::Redis(redis) => {
            let store = redis_store::open(redis)?;
            // The store keeps to its deadline, so that nothing else times its calls.
            config.bounds.store_timeout = store.deadline().unwrap_or(redis.deadline);
            let member = random_seed()[0];
            let mut engine = engine_config(policy, seed, true);
            engine.leases = Some(LeaseConfig::new(member));
            let engine = metered(engine, policy, clock.now()).build()?;
            let engine = with_planes(&engine, policy, clock.now())?;
            // Until the store has reported how many members there are.
            let engine = engine.with_members(redis.members)?.unwrap_or(engine);
            parts.member = Some(member);
            parts.shared = Some(Arc::new(SharedStore::new(Arc::new(store.clone()))));
            let store = Arc::new(MemberStore::new(store, move || time.now()));
            let clock_of = Arc::clone(&store);
            parts.store_ahead = Some(StoreAhead(Box::new(move || clock_of.ahead_nanos())));
            Ok(Server::start_with(config, Arc::new(engine), store, clock, parts).await?)
        }
        _ => {
            quota_store::check_without_store(policy, config.envoy_ratelimit.as_ref())?;
            let engine = engine(policy, seed, clock.now())?;
            let store = MemoryStore::new(MemoryConfig::new(random_seed()), move || time.now());
            Ok(Server::start_with(config, Arc::new(engine), Arc::new(store), clock, parts).await?)
        }
    }
}

/// The store of a daemon with this policy that answers as `config` says: the one that the policy
/// names. Where it names none: files, if the policy or its files of envoyproxy/ratelimit have
/// quotas, otherwise memory. Opens and makes nothing.
pub fn store_kind(policy: &Policy, config: &ServerConfig) -> StoreKind {
    quota_store::store_kind(policy, config.envoy_ratelimit.as_ref())
}

fn redb_config(policy: &Policy, embedded: &policy::Embedded) -> RedbConfig {
    let mut config = RedbConfig::new(&embedded.path, random_seed());
    config.memory = embedded.memory_bytes;
    config.disk = embedded.disk_bytes;
    config.namespaces = policy.namespaces.len();
    config.when_full = policy.memory.when_full;
    config.durability = match embedded.durability {
        policy::Durability::Sync => Durability::Sync,
        policy::Durability::Interval(interval) => Durability::Interval(interval),
    };
    config
}

fn decisions(policy: &Policy) -> Result<Option<Arc<Decisions>>, StartError> {
    let Some(wanted) = &policy.log.decisions else { return Ok(None) };
    let log = DecisionLog::open(DecisionLogConfig {
        path: Path::new(&wanted.path).to_owned(),
        size_bytes: wanted.size_bytes,
        files: wanted.files,
        queue: wanted.queue,
    });
    let log = log.map_err(|source| StartError::Decisions { path: wanted.path.clone(), source })?;
    Ok(Some(Arc::new(Decisions { log, admissions: wanted.sample == Sample::All })))
}

/// Logs a report of the store about its disk.
fn log_disk_report(report: DiskReport<'_>) {
    match report {
        DiskReport::Failing(error) => tracing::error!(
            target: "tidegate::store",
            %error,
            "the store in files cannot write; its decisions are refused until it can: free disk space, or check the disk"
        ),
        DiskReport::Recovered { failures } => tracing::info!(
            target: "tidegate::store",
            failures,
            "the store in files writes again; what was answered meanwhile is on disk"
        ),
        DiskReport::Full { used, max } => tracing::warn!(
            target: "tidegate::store",
            used_bytes = used,
            max_bytes = max,
            "a new counter found no room on disk; raise `store.disk`, or see `tidegate top` for the namespace that fills it"
        ),
        _ => {}
    }
}

/// Warns if the clock is before the last charge in the store.
fn tell_of_the_clock(store: &RedbStore, now: Timestamp) {
    if let Some(behind) = store.started_behind() {
        tracing::warn!(
            behind_s = behind.as_secs(),
            %now,
            "the clock stands before the last charge; nothing more is admitted for it"
        );
    }
}

/// Warns of a file of the store that other users of this machine may read.
fn warn_if_readable(store: &RedbStore) {
    if let Some(file) = store.readable_by_others() {
        tracing::warn!(
            file = %file.display(),
            "other users of this machine may read the keys in the store, and the mode of the file could not be changed; run \
             `chmod 600` as the owner of the file"
        );
    }
}

/// The engine of a policy as it starts at `now`, all in memory. `seed` must be random: see
/// [`tidegate_core::random_seed`].
pub fn engine(policy: &Policy, seed: [u64; 4], now: Timestamp) -> Result<Engine, BuildError> {
    // One machine with its memory: every limit is decided here, exact ones too.
    let engine = metered(engine_config(policy, seed, false), policy, now).build()?;
    with_planes(&engine, policy, now)
}

/// Builds the engine of a policy, with the notes of earlier ones in the store.
async fn engine_from(
    policy: &Policy,
    seed: [u64; 4],
    store: &RedbStore,
    now: Timestamp,
) -> Result<Engine, StartError> {
    let lineage = store.notes(NoteKind::Lineage).await?;
    let lineage = Lineage::from_notes(&lineage)?;
    let limits_of = |name: &str| {
        let namespace = policy.namespaces.iter().filter(|namespace| namespace.name == name);
        namespace.flat_map(|namespace| &namespace.limits).collect()
    };
    let (overrides, rewritten) = overrides_in(&store.notes(NoteKind::Override).await?, limits_of);
    let engine = metered(engine_config(policy, seed, true), policy, now)
        .lineage(lineage.clone())
        .overrides(overrides)
        .build()?;
    let engine = with_planes(&engine, policy, now)?;
    for batch in engine.note_batches(&[engine.lineage().changes_since(&lineage), rewritten].concat()) {
        store.run(&batch).await?;
    }
    for note in store.notes(NoteKind::Refund).await? {
        kept(engine.restore_refund(&note, now));
    }
    for note in store.notes(NoteKind::Permit).await? {
        kept(engine.restore_permit(&note));
    }
    for note in store.notes(NoteKind::Block).await? {
        kept(engine.restore_block(&note, now));
    }
    kept(engine.restore_feature_pins(&store.notes(NoteKind::FeaturePin).await?, now));
    Ok(engine)
}

/// The builder of an engine with the namespaces of a policy, which counts the use of requests from
/// `now` on.
fn metered(config: EngineConfig, policy: &Policy, now: Timestamp) -> EngineBuilder {
    Engine::builder(config)
        .namespaces(namespaces(policy))
        .metering(MeterConfig::new(policy.metering.tenants), now)
        .features(policy.features.iter().map(|feature| feature.name.as_str()))
}

/// A secret that names of permits are made with.
fn permit_key() -> [u64; 2] {
    [(); 2].map(|()| getrandom::u64().expect("the operating system gives random numbers"))
}

fn engine_config(policy: &Policy, seed: [u64; 4], asks_store: bool) -> EngineConfig {
    let mut config = EngineConfig::seeded(seed);
    config.permit_key = permit_key();
    config.table.bytes = policy.memory.keys_bytes;
    config.table.when_full = policy.memory.when_full;
    config.asks_store = asks_store;
    config
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bounds;

    #[test]
    fn the_example_becomes_an_engine_that_listens_on_loopback() {
        let policy = tidegate_policy::parse("example.yaml", Policy::example(), &|_| None).unwrap().policy;
        let engine = engine(&policy, [1, 2, 3, 4], Timestamp::MIN).unwrap();
        assert!(engine.namespaces().len() > 0);
        let config = server_config(&policy).unwrap();
        assert!(config.listeners.iter().all(|listener| listener.address.is_local()));
        assert_eq!(config.bounds.headers, Bounds::default().headers);
        assert_eq!(config.bounds.body_bytes, Bounds::default().body_bytes);
    }
}
