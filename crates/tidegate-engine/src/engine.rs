//! The engine: which namespaces there are, what they share, and everything that is not the order
//! itself.

mod administration;
mod admission;
mod ledger_operations;
mod views;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use smallvec::SmallVec;
use tidegate_capacity::plan::Plan;
use tidegate_capacity::split::SplitVerdict;
use tidegate_capacity::{AccessOperation, Capacity, NodeStatus, PartitionId, PartitionStatus, TableStatus};
use tidegate_core::gate::FoundPlan;
use tidegate_core::limit::{CostRow, Plans};
use tidegate_core::shares::Owner;
use tidegate_core::{
    Attributes, Cost, Gate, KeyTable, Limit, NamespaceConfig, TableConfig, TableStats, Timestamp,
};
use tidegate_overload::{
    ConcurrencyAdvice, Cursor, InstanceState, LoadLevel, Obstacle, Overload, PushedValue, ResourceId,
    ResourceStats, RoomBounds, Signal, SignalError,
};
use tidegate_store::{Batch, NoteChange};

pub use administration::reload::{Change, LimitChange, ReloadReport};
pub use administration::tick::{Tick, TickAction};
pub use administration::ticket_report::TicketReport;
pub(crate) use admission::leases::subject_of;
pub use admission::metered::OfferedRequest;
pub use views::cancellable_work::CancellableWork;
pub use views::explanation::Explained;
pub use views::features::{FeatureReport, GrantedFeature};
pub use views::peek::PeekReport;
pub use views::usage::UsageReport;
pub use views::watched_feature::{FeatureWork, WatchedFeature, WatchedLevel};

use crate::blocks::KnownBlocks;
use crate::capacity_control::CapacityControl;
use crate::error::{AdminError, BuildError, RequestError};
use crate::feature_pins::FeaturePins;
use crate::kept::KeptPermits;
use crate::leases::{LeaseConfig, Leases, Outbox, OwnLedgers};
use crate::lent_namespaces::LentNamespaces;
use crate::lineage::Lineage;
use crate::meter::{MeterConfig, UsageMeter};
use crate::meter_rows::MeterRows;
use crate::overrides::{Overrides, RuntimeOverride};
use crate::permit::Holds;
use crate::planes::Planes;
use crate::refunds::{REFUND_KEYS_MAX, RefundKeys};
use crate::remote::RemoteStreams;
use crate::stand_ins::StandIns;
use crate::ticket_office::TicketOffice;
use crate::waiting_room::Room;

/// The settings that all namespaces of an engine share.
///
/// ```
/// # use tidegate_core::Limit;
/// # use tidegate_engine::{Engine, EngineConfig, NamespaceConfig};
/// let mut config = EngineConfig::default();
/// config.table.bytes = 8 << 20;
/// let api = NamespaceConfig::new("api", [Limit::rate("all", "100/s")?]);
/// let engine = Engine::builder(config).namespace(api).build()?;
/// assert_eq!(engine.namespaces().collect::<Vec<_>>(), ["api"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct EngineConfig {
    /// The table of keyed state: its size, its seed, and what happens when it is full.
    pub table: TableConfig,
    /// How many permits may be kept for callers that settle by name, in
    /// [shares](tidegate_core::shares) for each namespace. Default 65 536; 0 keeps none.
    pub permits_max: usize,
    /// The key that the names of kept permits are made by. A name permits to settle its permit, so
    /// the key must be random wherever strangers are given permits, and used for nothing else: the
    /// seed of the table shows in the names of batches.
    pub permit_key: [u64; 2],
    /// Whether limits with `Consistency::Exact` are decided by a store that the caller asks.
    /// Default no: the engine is then the only member there is, and decides them itself.
    pub asks_store: bool,
    /// Whether limits with `Consistency::Leased` are spent from leases, and as whom. Default
    /// `None`: the engine is then the only member there is, and decides them itself. Only where it
    /// [asks a store](EngineConfig::asks_store).
    pub leases: Option<LeaseConfig>,
}

impl EngineConfig {
    /// The defaults with this seed, which must be random wherever strangers choose keys, and
    /// another at each start wherever a store remembers more than the process: names of batches and
    /// of permits are made of it. A daemon sets another [`EngineConfig::permit_key`].
    pub const fn seeded(seed: [u64; 4]) -> Self {
        Self {
            table: TableConfig::seeded(seed),
            permits_max: 1 << 16,
            permit_key: [!seed[3] ^ seed[1].rotate_left(29), !seed[2] ^ seed[0].rotate_left(17)],
            asks_store: false,
            leases: None,
        }
    }
}

impl Default for EngineConfig {
    /// The defaults, with random keys and seeds.
    fn default() -> Self {
        let [key, other_key, ..] = TableConfig::default().seed;
        Self { permit_key: [key, other_key], ..Self::seeded(TableConfig::default().seed) }
    }
}

/// Makes an [`Engine`].
#[derive(Debug)]
pub struct EngineBuilder {
    config: EngineConfig,
    namespaces: Vec<NamespaceConfig>,
    capacity: Option<Capacity>,
    overload: Option<Overload>,
    lineage: Lineage,
    overrides: Vec<RuntimeOverride>,
    metering: Option<(MeterConfig, Timestamp)>,
    features: Vec<String>,
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

    /// Sets what is remembered of the names of limits, from before a restart. Without it, no limit
    /// was ever renamed.
    ///
    /// Afterwards [`Engine::lineage`] and [`Lineage::changes_since`] say what to store anew.
    #[must_use]
    pub fn lineage(mut self, lineage: Lineage) -> Self {
        self.lineage = lineage;
        self
    }

    /// Sets the overrides that were set at run time before a restart. Those whose limit is gone are
    /// dormant.
    #[must_use]
    pub fn overrides(mut self, overrides: impl IntoIterator<Item = RuntimeOverride>) -> Self {
        self.overrides.extend(overrides);
        self
    }

    /// Counts all requests by namespace, tenant, class, feature and resource from `now` on: see
    /// [`Engine::usage`]. Without this call nothing is counted.
    #[must_use]
    pub const fn metering(mut self, config: MeterConfig, now: Timestamp) -> Self {
        self.metering = Some((config, now));
        self
    }

    /// Sets the names of the features that are counted apart, at most
    /// [`MeterConfig::FEATURES_MAX`]. Requests that name another one are counted together.
    #[must_use]
    pub fn features<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.features = names.into_iter().map(Into::into).collect();
        self
    }

    /// Checks everything and makes the engine.
    pub fn build(self) -> Result<Engine, BuildError> {
        let Self { config, namespaces, capacity, overload, lineage, overrides, metering, features } = self;
        let room = crate::sync::Arc::new(Room::new(WAITING_BOUNDS));
        let leases = config.leases.filter(|_| config.asks_store);
        let leases_by = leases.map(|_| hasher(config.table.seed));
        // Nothing waits yet, so the instant decides nothing.
        let planes = Planes::new(capacity, leases_by.as_ref(), overload, &room, Timestamp::MIN);
        let outbox = Arc::new(Outbox::default());
        let run = leases.map_or_else(|| hasher(config.table.seed).hash_one("run"), |leases| leases.member);
        let shared = Arc::new(Shared {
            table: Arc::new(KeyTable::new(config.table)),
            kept: KeptPermits::new(config.permits_max, config.permit_key, config.table.seed),
            capacity_control: CapacityControl::new(config.table.seed[0]),
            refunds: RefundKeys::new(REFUND_KEYS_MAX, config.table.seed),
            blocks: KnownBlocks::new(config.table.seed),
            feature_pins: FeaturePins::default(),
            lifts_seen: Mutex::default(),
            tickets: TicketOffice::default(),
            remote: Arc::new(RemoteStreams::new(run)),
            batches: AtomicU64::new(1),
            batch_epoch: hasher(config.table.seed).hash_one("batches"),
            generations: AtomicU32::new(0),
            members: AtomicU32::new(1),
            alone_until: AtomicU64::new(0),
            room,
            leases: leases.map_or_else(OnceLock::new, |leases| {
                OnceLock::from(Leases::new(leases, config.table.seed, Arc::clone(&outbox), None))
            }),
            outbox,
            lent: LentNamespaces::default(),
            rehearsal: OnceLock::new(),
            meter: metering
                .map(|(metering, since)| Arc::new(UsageMeter::new(metering, config.table.seed, since))),
            config,
        });
        let mut set = Overrides::default();
        for one in overrides {
            if !set.set(one) {
                return Err(BuildError::TooManyOverrides);
            }
        }
        let (mut engine, _) = Engine::from_world(shared, planes, namespaces, &lineage, set)?;
        engine.set_features(features.iter().map(String::as_str));
        engine.share_waiting_room();
        Ok(engine)
    }
}

/// The default of [`Engine::set_waiting_bounds`]: at most 1024 requests wait for their turn, and
/// their callers hold at most 64 MiB meanwhile.
pub const WAITING_BOUNDS: RoomBounds = RoomBounds::new(1024, 64 << 20);

fn hasher(seed: [u64; 4]) -> ahash::RandomState {
    ahash::RandomState::with_seeds(seed[3], seed[1], seed[2], seed[0])
}

/// The pipeline that joins the planes. All methods take `&self`; any number of threads may call
/// them at once.
///
/// An engine never changes its limits: [`Engine::reconfigured`] and its like make another one over
/// the same state, and both may decide at once. A request goes through one of them from beginning
/// to end; a permit is settled by any of them.
///
/// ```
/// # use tidegate_core::{Cost, Limit, Timestamp};
/// # use tidegate_engine::{Engine, EngineConfig, NamespaceConfig, Progress, Request};
/// let api = |rate| Limit::rate("all", rate).map(|limit| NamespaceConfig::new("api", [limit]));
/// let engine = Engine::builder(EngineConfig::default()).namespace(api("20/s")?).build()?;
/// let now = Timestamp::from_secs(1_800_000_000);
/// let request = Request::new("api", ()).cost(Cost::new(15).unwrap());
/// let _permit = engine.admit(&request, now)?;
/// // A raised limit applies at once, and the units that were used stay used.
/// let (engine, report) = engine.reconfigured(vec![api("50/s")?])?;
/// let change = report.limits[0].change.to_string();
/// assert_eq!(change, "changed from rate 20/s, burst 20 to rate 50/s, burst 50, usage kept");
/// let Progress::Done(peek) = engine.peek(&request, now)? else { panic!("no store is asked") };
/// assert_eq!(peek.limits[0].remaining, 35);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Engine {
    pub(crate) gates: SmallVec<[Arc<Gate>; 1]>,
    by_name: Arc<HashMap<Box<str>, usize, ahash::RandomState>>,
    /// Tells it from the other engines over the same state.
    pub(crate) generation: u32,
    pub(crate) shared: Arc<Shared>,
    pub(crate) planes: Planes,
    lineage: Arc<Lineage>,
    pub(crate) overrides: Overrides,
    /// Whether there is no overload plane.
    pub(crate) only_limits_decide: bool,
    /// `None` without a meter.
    pub(crate) metering: Option<Arc<MeterRows>>,
    /// The engine that decides on the stand-ins of requests to resources in shadow mode; `None`
    /// without any.
    pub(crate) rehearsal: Option<Arc<Engine>>,
}

/// The state that all engines of one daemon share, whatever their limits.
pub(crate) struct Shared {
    pub(crate) table: Arc<KeyTable>,
    /// The requests that wait for their turn.
    pub(crate) room: crate::sync::Arc<Room>,
    pub(crate) kept: KeptPermits,
    pub(crate) refunds: RefundKeys,
    pub(crate) blocks: KnownBlocks,
    /// The pins of features.
    pub(crate) feature_pins: FeaturePins,
    /// The lifts of blocks by others that were made here, by the names and ends of their notes.
    pub(crate) lifts_seen: Mutex<HashMap<u128, Timestamp>>,
    /// The keys of tickets.
    pub(crate) tickets: TicketOffice,
    /// The control loops of the tables.
    pub(crate) capacity_control: CapacityControl,
    /// The leases of this member: from the beginning where members share the store, otherwise from
    /// the first call of [`Engine::with_lent`].
    leases: OnceLock<Leases>,
    /// The streams of peers that hold parts of limits.
    pub(crate) remote: Arc<RemoteStreams>,
    /// The messages for the store in the background: asks of leases, and batches that give back.
    pub(crate) outbox: Arc<Outbox>,
    /// The namespaces that are lent although no members share the store.
    pub(crate) lent: LentNamespaces,
    /// The meter of all requests; `None` where nothing is metered.
    pub(crate) meter: Option<Arc<UsageMeter>>,
    pub(crate) config: EngineConfig,
    /// The state of the rehearsals of resources in shadow mode, once there are any.
    pub(crate) rehearsal: OnceLock<RehearsalState>,
    /// Counts batches: with `batch_epoch` a name that no other batch of this daemon has.
    batches: AtomicU64,
    batch_epoch: u64,
    generations: AtomicU32,
    /// How many members divide limits that are divided, as far as is known.
    members: AtomicU32,
    /// Until when something counts that this member has decided alone, in nanoseconds; 0 if nothing
    /// ever did.
    alone_until: AtomicU64,
}

/// The state of all rehearsals, which reloads keep.
pub(crate) struct RehearsalState {
    pub(crate) shared: Arc<Shared>,
    pub(crate) stand_ins: Arc<StandIns>,
}

impl RehearsalState {
    /// The room in which stand-ins wait.
    pub(crate) fn room(&self) -> &Room {
        &self.shared.room
    }
}

impl Shared {
    /// The leases of this member; `None` where nothing is leased.
    #[inline]
    pub(crate) fn leases(&self) -> Option<&Leases> {
        self.leases.get()
    }

    /// Whether members share the store, which then lends the limits.
    pub(crate) fn has_shared_store(&self) -> bool {
        self.config.asks_store && self.config.leases.is_some()
    }

    /// The leases of a member whose store is not shared, with the ledgers of their limits; made
    /// when they are first needed.
    pub(crate) fn own_leases(&self) -> &Leases {
        self.leases.get_or_init(|| {
            let seed = self.config.table.seed;
            let member = hasher(seed).hash_one("leases");
            let ledgers = OwnLedgers::new(&self.table, self.config.table, member);
            let config = ledgers.lease_config();
            let leases = Leases::new(config, seed, Arc::clone(&self.outbox), Some(ledgers));
            leases.divide(self.table.namespaces().owners());
            leases
        })
    }

    /// The state of an engine that decides on stand-ins: with the same table, in which they have no
    /// counters, and a waiting room of the same bounds.
    pub(crate) fn for_rehearsal(&self) -> Self {
        let seed = self.config.table.seed;
        let config = EngineConfig { permits_max: 0, asks_store: false, leases: None, ..self.config };
        let room = Room::new(self.room.bounds());
        Self {
            table: Arc::clone(&self.table),
            kept: KeptPermits::new(0, config.permit_key, seed),
            capacity_control: CapacityControl::new(seed[0]),
            refunds: RefundKeys::new(0, seed),
            blocks: KnownBlocks::new(seed),
            feature_pins: FeaturePins::default(),
            lifts_seen: Mutex::default(),
            tickets: TicketOffice::default(),
            remote: Arc::new(RemoteStreams::new(0)),
            batches: AtomicU64::new(1),
            batch_epoch: hasher(seed).hash_one("stand-ins"),
            generations: AtomicU32::new(0),
            members: AtomicU32::new(1),
            alone_until: AtomicU64::new(0),
            room: crate::sync::Arc::new(room),
            leases: OnceLock::new(),
            outbox: Arc::default(),
            lent: LentNamespaces::default(),
            meter: None,
            rehearsal: OnceLock::new(),
            config,
        }
    }
}

/// Something the engine should know of that is not a request.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The pressure on all resources: 1.0 is as much as they should bear.
    Pressure(f64),
    /// The pressure on one resource.
    Signal {
        /// Its name.
        resource: &'a str,
        /// 1.0 is as much as it should bear.
        pressure: f64,
    },
    /// A value of a pushed signal, for each resource that has a signal of this name.
    PushedSignal {
        /// The name of the signal.
        name: &'a str,
        /// The value.
        value: PushedValue,
    },
    /// An instance of a resource reports itself. The resource must be configured with places for
    /// each instance.
    Instance {
        /// The resource; `None` is the default resource.
        resource: Option<&'a str>,
        /// The name of the instance; 1 to 128 bytes.
        instance: &'a str,
        /// The state of the instance.
        state: InstanceState,
    },
    /// An operator's pin of an admission cursor.
    Pin {
        /// The resource; `None` is the default resource.
        resource: Option<&'a str>,
        /// The position from 0, which is open; `None` removes the pin.
        level: Option<u16>,
        /// The end of the pin.
        until: Timestamp,
    },
    /// A partition of a table has moved to another node.
    Placement {
        /// The namespace of the table.
        namespace: &'a str,
        /// The table.
        table: &'a str,
        /// The number of the partition.
        partition: u32,
        /// The node on which it lies now.
        node: &'a str,
    },
    /// Work that was done without being asked for, as a log tells it: its cost is charged to the
    /// limits that this member decides, whether or not there is room.
    ObservedUsage(crate::Request<'a>),
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

impl Engine {
    /// An engine with this configuration and no namespace yet.
    pub fn builder(config: EngineConfig) -> EngineBuilder {
        EngineBuilder {
            config,
            namespaces: Vec::new(),
            capacity: None,
            overload: None,
            lineage: Lineage::default(),
            overrides: Vec::new(),
            metering: None,
            features: Vec::new(),
        }
    }

    /// The names of all namespaces, in the order they were given.
    pub fn namespaces(&self) -> impl ExactSizeIterator<Item = &str> + Clone {
        self.gates.iter().map(|gate| gate.namespace())
    }

    /// The limits of a namespace, in the order they were given.
    pub fn limits(&self, namespace: &str) -> Result<impl ExactSizeIterator<Item = &Limit>, RequestError> {
        Ok(self.gates[self.find(namespace)?].limits())
    }

    /// The cost of a request that does not say its cost: that of the first row of its namespace's
    /// cost table that it meets, otherwise one unit.
    pub fn cost_of<'a>(
        &self,
        namespace: &str,
        attributes: impl Into<Attributes<'a>>,
    ) -> Result<Cost, RequestError> {
        Ok(self.gate(namespace)?.cost_of(attributes))
    }

    /// The row of its namespace's cost table that a request meets first, counted from 0; `None` if
    /// it meets none.
    pub fn cost_row<'a>(
        &self,
        namespace: &str,
        attributes: impl Into<Attributes<'a>>,
    ) -> Result<Option<usize>, RequestError> {
        Ok(self.gate(namespace)?.cost_row(attributes))
    }

    /// The plan of a request, with how it was found; `None` for a request without one.
    pub fn plan_for<'a>(
        &self,
        namespace: &str,
        attributes: impl Into<Attributes<'a>>,
    ) -> Result<Option<FoundPlan>, RequestError> {
        Ok(self.gate(namespace)?.plan_for(attributes))
    }

    /// The plans and the cost table of a namespace.
    pub fn namespace_settings(&self, namespace: &str) -> Result<(Option<&Plans>, &[CostRow]), RequestError> {
        let gate = self.gate(namespace)?;
        Ok((gate.plans(), gate.costs()))
    }

    /// The number by which a namespace has its share of tables; [`Owner::NONE`] for one that is not
    /// known.
    pub fn owner(&self, namespace: &str) -> Owner {
        self.gate(namespace).map_or(Owner::NONE, |gate| gate.owner())
    }

    /// The namespaces that divide tables, with one for all that are not known once there is one.
    pub fn owners(&self) -> usize {
        self.shared.table.namespaces().owners()
    }

    /// Gives a namespace its share of all tables although it has no limits of its own: one whose
    /// limits arrive with requests. Without this call such namespaces have one share together. Does
    /// nothing the second time.
    pub fn join(&self, namespace: &str) {
        if self.shared.table.namespaces().known(namespace).is_none() {
            self.shared.table.join(namespace);
            self.shared.divide_among_namespaces();
            if let Some(meter) = &self.shared.meter {
                meter.namespace(namespace, meter.latest());
            }
        }
    }

    /// Numbers about the engine at `now`.
    pub fn stats(&self, now: Timestamp) -> EngineStats {
        EngineStats {
            table: self.shared.table.stats(now),
            permits_kept: self.shared.kept.len(),
            permits_max: self.shared.kept.max(),
        }
    }

    /// The numbers of each resource of the overload plane at `now`, the default resource first;
    /// nothing without that plane.
    pub fn resource_stats(&self, now: Timestamp) -> impl Iterator<Item = ResourceStats<'_>> {
        let overload = self.overload();
        overload.into_iter().flat_map(move |overload| {
            overload.resources().map(move |(resource, _)| overload.stats(resource, now))
        })
    }

    /// The advice about the places of each resource that has a name; nothing without the overload
    /// plane. See [`Resource::advice`](tidegate_overload::Resource::advice).
    pub fn concurrency_advice(&self) -> impl Iterator<Item = (&str, ConcurrencyAdvice)> {
        self.overload().into_iter().flat_map(|overload| {
            overload.resources().filter_map(|(id, name)| Some((name?, overload.resource(id).advice()?)))
        })
    }

    /// The pressure of each resource that has a name, by the last tick; nothing without the
    /// overload plane. `None` while no signal of the resource is fresh.
    pub fn resource_pressures(&self) -> impl Iterator<Item = (&str, Option<f64>)> {
        self.overload().into_iter().flat_map(|overload| {
            overload.resources().filter_map(|(id, name)| Some((name?, overload.resource(id).pressure())))
        })
    }

    /// The load level of a resource of this name, and the cursor of a namespace there, in the most
    /// important class whose requests are shed; `None` if the overload plane has no such resource.
    pub fn load_of(&self, resource: &str, namespace: &str) -> Option<(LoadLevel, Cursor)> {
        let (overload, resource) = self.known_resource(Some(resource)).ok()?;
        let owner = self.gate(namespace).map_or(Owner::NONE, |gate| gate.owner());
        let cursor = overload.resource(resource).namespace_cursor(u32::from(owner.get()));
        Some((overload.resource(resource).level(), cursor))
    }

    /// The tables of the capacity plane from index `first` on, as they are at `now`; nothing
    /// without that plane.
    pub fn table_statuses(&self, first: usize, now: Timestamp) -> impl Iterator<Item = TableStatus<'_>> {
        self.planes.capacity.iter().flat_map(move |capacity| capacity.table_statuses(first, now))
    }

    /// The nodes of the capacity plane as they are at `now`; nothing without that plane.
    pub fn node_statuses(&self, now: Timestamp) -> impl Iterator<Item = NodeStatus<'_>> {
        self.planes.capacity.iter().flat_map(move |capacity| capacity.nodes(now))
    }

    /// The partitions of a table at `now`, in the order of their ranges.
    ///
    /// Fails when the namespace has no such table.
    pub fn partition_statuses(
        &self,
        namespace: &str,
        table: &str,
        now: Timestamp,
    ) -> Result<impl ExactSizeIterator<Item = PartitionStatus<'_>>, RequestError> {
        let capacity = self.planes.capacity.as_ref().ok_or_else(|| unknown_table(namespace, table))?;
        capacity.partitions(namespace, table, now).map_err(RequestError::Access)
    }

    /// The moves of partitions that the control loops propose to the operator, the oldest first;
    /// nothing without the capacity plane. A move is made when it is reported as
    /// [`Event::Placement`].
    pub fn proposed_moves(&self) -> Vec<Plan> {
        self.shared.capacity_control.proposed_moves()
    }

    /// The verdict of the control loops on one direction of a partition: where to split it, or why
    /// not; `None` while the partition is not warm.
    pub fn split_verdict(
        &self,
        table: (&str, &str),
        partition: PartitionId,
        operation: AccessOperation,
    ) -> Option<SplitVerdict> {
        self.shared.capacity_control.verdict(table, partition, operation)
    }

    /// A number made of all local state of limits; see [`KeyTable::fingerprint`].
    pub fn fingerprint(&self) -> u64 {
        self.shared.table.fingerprint()
    }

    /// The state of the capacity plane as text, for tests and diagnosis; empty without one.
    pub fn capacity_state(&self) -> String {
        self.planes
            .capacity
            .as_ref()
            .map_or(String::new(), |capacity| format!("{:?}", capacity.fingerprint()))
    }

    /// Takes in something that is not a request. An error changes nothing.
    pub fn event(&self, event: Event<'_>, now: Timestamp) -> Result<(), AdminError> {
        match event {
            Event::Pressure(pressure) => {
                if let Some(overload) = self.overload() {
                    overload.event(Signal::on_all(pressure), now);
                }
            }
            Event::Signal { resource, pressure } => {
                let (overload, resource) = self.known_resource(Some(resource))?;
                overload.event(Signal { resource: Some(resource), pressure }, now);
            }
            Event::PushedSignal { name, value } => match self.overload() {
                Some(overload) => overload.push_signal(name, value, now)?,
                None => return Err(SignalError::unknown(name, Vec::<String>::new()).into()),
            },
            Event::Instance { resource, instance, state } => {
                let (overload, resource) = self.known_resource(resource)?;
                overload.resource(resource).report(instance, state, now)?;
                // Places may have been added for requests that wait.
                self.room_of(resource).returned(Obstacle::Place(resource));
            }
            Event::Pin { resource, level, until } => {
                let (overload, resource) = self.known_resource(resource)?;
                overload.resource(resource).pin(level.map(Cursor::at), until, now);
            }
            Event::Placement { namespace, table, partition, node } => {
                let capacity = self.planes.capacity.as_ref();
                let cut = || table.chars().take(128).collect();
                let capacity = capacity.ok_or_else(|| AdminError::NoCapacityPlane { table: cut() })?;
                capacity.place(namespace, table, partition, node, now).map_err(RequestError::from)?;
                self.shared.capacity_control.placed((namespace, table), PartitionId(partition));
            }
            Event::ObservedUsage(request) => {
                let gate = self.gate(request.namespace)?;
                gate.report(request.attributes, request.cost, now).map_err(RequestError::from)?;
                self.meter_report(&request, now);
            }
        }
        Ok(())
    }

    /// A resource of the overload plane by its name; `None` is the default resource.
    fn known_resource(&self, name: Option<&str>) -> Result<(&Overload, ResourceId), AdminError> {
        let known = self.overload().and_then(|overload| {
            let mut resources = overload.resources();
            Some((overload, resources.find(|(_, known)| *known == name)?.0))
        });
        known.ok_or_else(|| AdminError::UnknownResource(name.unwrap_or("").chars().take(128).collect()))
    }

    #[expect(clippy::inline_always, reason = "an error is large to move")]
    #[inline(always)]
    pub(crate) fn find(&self, namespace: &str) -> Result<usize, RequestError> {
        // Most have one, and then there is nothing to look up.
        match &self.gates[..] {
            [gate] if gate.is_of(namespace) => Ok(0),
            _ => self.find_among(namespace),
        }
    }

    #[inline(never)]
    fn find_among(&self, namespace: &str) -> Result<usize, RequestError> {
        let unknown = || RequestError::UnknownNamespace(namespace.chars().take(128).collect());
        self.by_name.get(namespace).copied().ok_or_else(unknown)
    }

    /// Without a capacity plane there is no table that a request could access.
    #[inline]
    fn check_table(&self, request: &crate::Request<'_>) -> Result<(), RequestError> {
        match (&request.access, &self.planes.capacity) {
            (Some(access), None) => Err(unknown_table(request.namespace, access.table)),
            _ => Ok(()),
        }
    }

    /// Whether exact limits are decided by a store that the caller asks; see
    /// [`EngineConfig::asks_store`].
    pub fn asks_store(&self) -> bool {
        self.shared.config.asks_store
    }

    /// Under which name each limit counts.
    pub fn lineage(&self) -> &Lineage {
        &self.lineage
    }

    /// Batches that bring these changes to the store, as few as there may be, in order.
    pub fn note_batches(&self, changes: &[NoteChange]) -> Vec<Batch> {
        let batch = |changes: &[NoteChange]| {
            Batch::each(self.next_batch_id(), []).with_notes(changes.iter().cloned())
        };
        changes.chunks(Batch::NOTES_MAX).map(batch).collect()
    }

    /// The gate that charged a request, if it is one of this engine's.
    pub(crate) fn home_gate(&self, holds: &Holds) -> Option<&Arc<Gate>> {
        let is_mine = holds.issuer.generation == self.generation;
        is_mine.then(|| self.gates.get(holds.issuer.namespace as usize)).flatten()
    }

    /// The gate of a namespace.
    pub(crate) fn gate(&self, namespace: &str) -> Result<&Arc<Gate>, RequestError> {
        Ok(&self.gates[self.find(namespace)?])
    }

    pub(crate) fn next_batch_id(&self) -> tidegate_store::RequestId {
        // Relaxed: only the number must be new.
        let number = self.shared.batches.fetch_add(1, Ordering::Relaxed);
        tidegate_store::RequestId(u128::from(self.shared.batch_epoch) << 64 | u128::from(number))
    }
}

tidegate_core::debug_fields!(Engine { namespaces: gates });

#[cold]
fn unknown_table(namespace: &str, table: &str) -> RequestError {
    let cut = |text: &str| text.chars().take(128).collect();
    RequestError::UnknownTable { namespace: cut(namespace), table: cut(table) }
}
