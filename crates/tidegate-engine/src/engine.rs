//! The engine: which namespaces there are, what they share, and everything that is not the order itself.

mod operations;
mod order;

use core::fmt;
use core::time::Duration;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate::{Gate, GateError, KeyTable, Limit, LimitStatus, TableConfig, TableStats, Timestamp};
use tidegate_capacity::{Capacity, CapacityError};
use tidegate_overload::Overload;

pub use operations::PeekReport;

use crate::kept::KeptPermits;
use crate::refunds::{REFUND_KEYS_MAX, RefundKeys};

/// What all namespaces of an engine share.
#[derive(Clone, Copy, Debug)]
pub struct EngineConfig {
    /// The table of keyed state: its size, its seed, and what happens when it is full.
    pub table: TableConfig,
    /// How many permits may be kept for callers that settle by name. Default 65 536; 0 keeps none.
    pub permits_max: usize,
    /// Whether limits with `Consistency::Exact` are decided by a store that the caller asks. Default no: the engine
    /// is then the only member there is, and decides them itself.
    pub asks_store: bool,
}

impl EngineConfig {
    /// The defaults with this seed, which must be random wherever strangers choose keys.
    pub const fn seeded(seed: [u64; 4]) -> Self {
        Self { table: TableConfig::seeded(seed), permits_max: 1 << 16, asks_store: false }
    }
}

/// A namespace: an isolated set of limits.
#[derive(Clone, Debug)]
pub struct NamespaceConfig {
    /// Its name, 1 to [`NamespaceConfig::NAME_BYTES_MAX`] bytes.
    pub name: String,
    /// Its limits.
    pub limits: Vec<Limit>,
}

impl NamespaceConfig {
    /// The longest name in bytes.
    pub const NAME_BYTES_MAX: usize = 128;
}

/// Why the engine could not decide, or could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// No such namespace.
    #[error("namespace \"{0}\" does not exist; use one of the policy's, or add it")]
    UnknownNamespace(String),
    /// No such limit in the namespace, or it does not apply to the request.
    #[error(
        "limit \"{limit}\" of namespace \"{namespace}\" does not exist or does not apply to these attributes"
    )]
    UnknownLimit {
        /// The namespace.
        namespace: String,
        /// The limit.
        limit: String,
    },
    /// No such permit, or not any more.
    #[error("permit {0} is not held: it was settled before, has expired, or was never given")]
    UnknownPermit(crate::PermitId),
    /// As many permits as can be kept are kept.
    #[error("{0} permits are kept already, as many as there may be; settle them, or raise the number")]
    TooManyPermits(usize),
    /// As many refund keys as can be remembered are remembered.
    #[error("no room to remember another refund before {until}; nothing was given back, repeat it then")]
    RefundKeysFull {
        /// When the oldest is forgotten.
        until: Timestamp,
    },
    /// The table has no room for another key.
    #[error(transparent)]
    TableFull(#[from] tidegate::gate::TableFull),
    /// Two namespaces of one name, or one without a name.
    #[error("namespace \"{0}\" stands twice, is empty, or is longer than 128 bytes; rename it")]
    NamespaceName(String),
    /// A namespace with limits that make no gate.
    #[error("namespace \"{namespace}\": {source}")]
    Limits {
        /// The namespace.
        namespace: String,
        /// What is wrong with its limits.
        #[source]
        source: GateError,
    },
    /// An access that the capacity plane cannot place.
    #[error(transparent)]
    Access(#[from] CapacityError),
    /// The key of an exact limit is too long for a store.
    #[error("the key of an exact limit is too long for a store: {0}")]
    KeyTooLong(#[source] tidegate_store::StoreError),
}

/// Makes an [`Engine`].
#[derive(Debug)]
pub struct EngineBuilder {
    config: EngineConfig,
    namespaces: Vec<NamespaceConfig>,
    capacity: Option<Capacity>,
    overload: Option<Overload>,
}

impl EngineBuilder {
    /// Adds a namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: NamespaceConfig) -> Self {
        self.namespaces.push(namespace);
        self
    }

    /// Adds namespaces.
    #[must_use]
    pub fn namespaces(mut self, namespaces: impl IntoIterator<Item = NamespaceConfig>) -> Self {
        self.namespaces.extend(namespaces);
        self
    }

    /// Sets the capacity plane. Without one, accesses are not looked at.
    #[must_use]
    pub fn capacity(mut self, capacity: Capacity) -> Self {
        self.capacity = Some(capacity);
        self
    }

    /// Sets the overload plane. Without one, nothing is shed.
    #[must_use]
    pub fn overload(mut self, overload: Overload) -> Self {
        self.overload = Some(overload);
        self
    }

    /// Checks everything and makes the engine.
    pub fn build(self) -> Result<Engine, EngineError> {
        let Self { config, namespaces, capacity, overload } = self;
        let table = Arc::new(KeyTable::new(config.table));
        let mut gates = Vec::with_capacity(namespaces.len());
        let mut by_name = HashMap::with_hasher(hasher(config.table.seed));
        for NamespaceConfig { name, limits } in namespaces {
            if name.is_empty() || name.len() > NamespaceConfig::NAME_BYTES_MAX || by_name.contains_key(&*name)
            {
                return Err(EngineError::NamespaceName(name));
            }
            let mut builder = Gate::builder(name.as_str()).limits(limits).table(Arc::clone(&table));
            if config.asks_store {
                builder = builder.exact_in_store();
            }
            let gate =
                builder.build().map_err(|source| EngineError::Limits { namespace: name.clone(), source })?;
            by_name.insert(name.into_boxed_str(), gates.len());
            gates.push(gate);
        }
        Ok(Engine {
            gates,
            by_name,
            kept: KeptPermits::new(config.permits_max, config.table.seed),
            refunds: RefundKeys::new(REFUND_KEYS_MAX, config.table.seed),
            batches: AtomicU64::new(1),
            batch_epoch: hasher(config.table.seed).hash_one("batches"),
            capacity,
            overload: overload.map(Arc::new),
            table,
        })
    }
}

fn hasher(seed: [u64; 4]) -> ahash::RandomState {
    ahash::RandomState::with_seeds(seed[3], seed[1], seed[2], seed[0])
}

/// The pipeline that joins the planes. All methods take `&self`; any number of threads may call them at once.
pub struct Engine {
    pub(crate) gates: Vec<Gate>,
    by_name: HashMap<Box<str>, usize, ahash::RandomState>,
    pub(crate) table: Arc<KeyTable>,
    pub(crate) capacity: Option<Capacity>,
    pub(crate) overload: Option<Arc<Overload>>,
    pub(crate) kept: KeptPermits,
    pub(crate) refunds: RefundKeys,
    /// Counts batches: with `batch_epoch` a name that no other batch of this engine has.
    batches: AtomicU64,
    batch_epoch: u64,
}

/// Something the engine should know of that is not a request.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// How hard pressed the system is: 1.0 is as much as it should bear.
    Pressure(f64),
}

/// What a tick did, and when the next one is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    /// The engine wants to be called again then; a call before does no harm.
    pub next: Timestamp,
    /// Kept permits that have expired since the last tick.
    pub expired: usize,
}

/// Numbers about an engine.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct EngineStats {
    /// The table of keyed state.
    pub table: TableStats,
    /// Permits kept for callers that settle by name.
    pub permits_kept: usize,
    /// How many may be.
    pub permits_max: usize,
}

/// What one limit has left.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitReport {
    /// The name of the limit.
    pub name: String,
    /// The largest number of units it admits at once.
    pub limit: u64,
    /// Units left.
    pub remaining: u64,
    /// When nothing is used any more, if nothing else is charged.
    pub reset_at: Timestamp,
    /// The span it counts over; `None` for concurrency.
    pub window: Option<Duration>,
    /// Whether it is a shadow limit that would have refused the request.
    pub shadow_refused: bool,
}

impl From<LimitStatus<'_>> for LimitReport {
    fn from(status: LimitStatus<'_>) -> Self {
        Self {
            name: status.name.to_owned(),
            limit: status.limit,
            remaining: status.remaining,
            reset_at: status.reset_at,
            window: status.window,
            shadow_refused: status.shadow_refused,
        }
    }
}

impl Engine {
    /// The longest time between two ticks that the engine asks for.
    pub const TICK_MAX: Duration = Duration::from_secs(1);

    /// An engine with this configuration and no namespace yet.
    pub fn builder(config: EngineConfig) -> EngineBuilder {
        EngineBuilder { config, namespaces: Vec::new(), capacity: None, overload: None }
    }

    /// The names of all namespaces, in the order they were given.
    pub fn namespaces(&self) -> impl ExactSizeIterator<Item = &str> {
        self.gates.iter().map(Gate::namespace)
    }

    /// The limits of a namespace, in the order they were given.
    pub fn limits(&self, namespace: &str) -> Result<impl ExactSizeIterator<Item = &Limit>, EngineError> {
        Ok(self.gates[self.find(namespace)?].limits())
    }

    /// Numbers about the engine at `now`.
    pub fn stats(&self, now: Timestamp) -> EngineStats {
        EngineStats {
            table: self.table.stats(now),
            permits_kept: self.kept.len(),
            permits_max: self.kept.max(),
        }
    }

    /// A number made of all local state of limits; see [`KeyTable::fingerprint`].
    pub fn fingerprint(&self) -> u64 {
        self.table.fingerprint()
    }

    /// The state of the capacity plane as text, for tests and diagnosis; empty without one.
    pub fn capacity_state(&self) -> String {
        self.capacity.as_ref().map_or(String::new(), |capacity| format!("{:?}", capacity.fingerprint()))
    }

    /// Takes in something that is not a request.
    pub fn event(&self, event: Event, now: Timestamp) {
        match (event, &self.overload) {
            (Event::Pressure(pressure), Some(overload)) => {
                overload.event(tidegate_overload::Signal { pressure }, now);
            }
            (Event::Pressure(_), None) => {}
        }
    }

    /// Lets kept permits expire and the control loops run. To be called when [`Tick::next`] comes; being late only
    /// delays what it does, and no decision waits for it.
    pub fn tick(&self, now: Timestamp) -> Tick {
        let expired = self.kept.expire(now).len();
        let mut next = now.saturating_add(Self::TICK_MAX);
        if let Some(overload) = &self.overload {
            next = next.min(overload.tick(now));
        }
        if let Some(expiry) = self.kept.next_expiry() {
            next = next.min(expiry);
        }
        Tick { next: next.max(now), expired }
    }

    pub(crate) fn find(&self, namespace: &str) -> Result<usize, EngineError> {
        let unknown = || EngineError::UnknownNamespace(namespace.chars().take(128).collect());
        self.by_name.get(namespace).copied().ok_or_else(unknown)
    }

    pub(crate) fn next_batch_id(&self) -> tidegate_store::RequestId {
        // Relaxed: only the number must be new.
        let number = self.batches.fetch_add(1, Ordering::Relaxed);
        tidegate_store::RequestId(u128::from(self.batch_epoch) << 64 | u128::from(number))
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("namespaces", &self.gates).finish_non_exhaustive()
    }
}
