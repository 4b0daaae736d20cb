//! The overload plane: its resources, the decision on each request, and the tick.

use core::time::Duration;
use std::collections::BTreeSet;
use std::sync::Arc;

use tidegate_core::{Class, Timestamp};

use crate::cursor::RequestLevel;
use crate::cursor::hash::{find_hashed, keyed_hash};
use crate::deferral::ticket_clock::TicketClock;
use crate::deferral::ticket_number::TicketIssuer;
use crate::fault::Fault;
use crate::features::feature_set::FeatureSet;
use crate::levels::signal::{PushedValue, SignalError};
use crate::namespaces::NamespaceShares;
use crate::outcome::OfferOutcome;
use crate::places::latency::LatencySample;
use crate::places::pacer::PaceVerdict;
use crate::places::stream_places::StreamPermit;
use crate::places::unsettled_places::UnsettledPlace;
use crate::queue::fair_queue::QueueConfig;
use crate::queue::waiting_room::RoomUse;
use crate::request_record::{RequestRecord, ServedBy};
use crate::resource::{InFlightPermit, Resource};
use crate::resource_id::ResourceId;
use crate::shed::{PlaceRefusal, Shed};
use crate::stats::ResourceStats;
use crate::sync::{AtomicI64, AtomicU64, Mutex, Ordering, lock};
use crate::tick::TICK;

/// The pressure on the system, as measured outside.
///
/// ```
/// # use tidegate_core::{Class, Timestamp};
/// # use tidegate_overload::{Cursor, Overload, RequestRecord, ResourceConfig, Signal, TICK};
/// # let now = Timestamp::from_secs(1_800_000_000);
/// let overload = Overload::new(ResourceConfig::new(100), 7)?;
/// let resource = overload.find(None).expect("it is the default resource");
/// overload.tick(now);
/// let level = overload.request_level(1, Class::Sheddable, Some("acme"), now);
/// overload.offer(&mut RequestRecord::new(resource, level), now);
/// // Twice the pressure that the system should bear: the next tick sheds part of the demand.
/// overload.event(Signal::on_all(2.0), now);
/// overload.tick(now.saturating_add(TICK));
/// assert!(overload.resource(resource).cursor() > Cursor::OPEN);
/// # Ok::<(), tidegate_overload::OverloadError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Signal {
    /// The resource under pressure; `None`: all of them.
    pub resource: Option<ResourceId>,
    /// 1.0 is as much as the system should bear. A pressure that is negative, infinite or not a
    /// number is no measure and counts as 0: it takes back the signal before it.
    pub pressure: f64,
}

impl Signal {
    /// Pressure on all resources.
    pub const fn on_all(pressure: f64) -> Self {
        Self { resource: None, pressure }
    }
}

/// Whether a request waits for a place where none is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitsForPlace {
    /// It does not: it is refused at once.
    No,
    /// It does.
    IfTaken,
    /// It has waited, and is the next of its line.
    Called,
}

/// The overload plane: a set of resources, each with places in flight and an admission cursor.
///
/// A request belongs to one resource, which [`Overload::find`] looks up by name; all other calls
/// take its id. All methods take `&self`; any number of threads may call them at once.
///
/// A request may also ask for a feature, which [`Overload::find_feature`] looks up. Its level is
/// read before the cursor, with [`Feature::grant`](crate::Feature::grant): a request whose feature
/// is off is refused, and not [offered](Overload::offer) to the resource.
///
/// ```
/// # use std::time::Duration;
/// # use tidegate_core::{Class, Timestamp};
/// # use tidegate_overload::{Cursor, Overload, ResourceConfig};
/// # let now = Timestamp::from_secs(1_800_000_000);
/// let overload = Overload::builder(7)
///     .default_resource(ResourceConfig::new(100))
///     .resource("checkout", ResourceConfig::new(10))
///     .build()?;
/// let checkout = overload.find(Some("checkout")).expect("it is configured");
/// // An operator closes one resource for a minute: only its most important class is served.
/// overload.resource(checkout).pin(Some(Cursor::CLOSED), now.saturating_add(Duration::from_mins(1)), now);
/// let level = |class| overload.request_level(1, class, Some("acme"), now);
/// let is_shed = |class| overload.would_shed(checkout, level(class)).is_some();
/// assert!(is_shed(Class::Critical) && !is_shed(Class::CriticalPlus));
/// let others = overload.find(Some("search")).expect("the default resource takes it");
/// assert_eq!(overload.resource(others).cursor(), Cursor::OPEN);
/// # Ok::<(), tidegate_overload::OverloadError>(())
/// ```
#[derive(Debug)]
pub struct Overload {
    /// At the position of their ids. Those that are not configured any more stay, so that their
    /// places can be returned.
    resources: Box<[ResourceSlot]>,
    default_resource: Option<ResourceId>,
    /// The hash of each name and the resource, in order of the hashes.
    by_name: Box<[(u64, ResourceId)]>,
    seed: u64,
    features: Arc<FeatureSet>,
    shared: Arc<SharedState>,
    /// Whether it decides for stand-ins: see [`Overload::for_rehearsal`].
    is_rehearsal: bool,
}

/// A resource, which planes made of each other share.
#[derive(Clone, Debug)]
pub(crate) struct ResourceSlot {
    pub(crate) resource: Arc<Resource>,
    pub(crate) is_configured: bool,
    /// Whether it is in shadow mode, and nobody is to ask it.
    pub(crate) is_shadow: bool,
}

/// The instants of the ticks and the number of members, which planes made of each other share.
#[derive(Debug)]
pub(crate) struct SharedState {
    /// The instant of the last tick in nanoseconds. Relaxed: it decides only whether there is
    /// demand to withdraw.
    last_ns: AtomicU64,
    /// The instant of the next tick; `None` before the first.
    due: Mutex<Option<Timestamp>>,
    /// Relaxed: planes are changed one after the other.
    members: AtomicU64,
    /// The name under which resources sell tickets.
    issuer: Mutex<TicketIssuer>,
    /// The calendars of tickets that resources have been given. Relaxed: a number alone.
    calendars: AtomicU64,
    /// By how many nanoseconds the clock of tickets is ahead of that of the member. Relaxed: a
    /// number alone, which orders nothing.
    ticket_clock_ahead: AtomicI64,
}

impl SharedState {
    pub(crate) fn members(&self) -> u32 {
        // Written from a `u32` only.
        self.members.load(Ordering::Relaxed) as u32
    }
}

impl Overload {
    /// A plane of these resources, of which those that are configured have unique names.
    pub(crate) fn from_slots(
        resources: Vec<ResourceSlot>,
        features: FeatureSet,
        seed: u64,
        shared: Option<Arc<SharedState>>,
    ) -> Self {
        let configured = || {
            let ids = (0_u16..).map(ResourceId).zip(&resources);
            ids.filter(|(_, slot)| slot.is_configured).map(|(id, slot)| (id, slot.resource.name.as_deref()))
        };
        let default_resource = configured().find(|(_, name)| name.is_none()).map(|(id, _)| id);
        let mut by_name: Vec<_> =
            configured().filter_map(|(id, name)| Some((keyed_hash([seed, 0], Some(name?)), id))).collect();
        by_name.sort_unstable();
        let shared = shared.unwrap_or_else(|| {
            Arc::new(SharedState {
                last_ns: AtomicU64::new(0),
                due: Mutex::new(None),
                members: AtomicU64::new(1),
                issuer: Mutex::default(),
                calendars: AtomicU64::new(0),
                ticket_clock_ahead: AtomicI64::new(0),
            })
        });
        for (index, slot) in resources.iter().enumerate() {
            let has_features = features.by_resource.iter().any(|(id, _)| id.index() == index);
            slot.resource.set_has_features(has_features);
            slot.resource.number_calendar(|| shared.calendars.fetch_add(1, Ordering::Relaxed));
            slot.resource.set_ticket_issuer(*lock(&shared.issuer));
        }
        Self {
            by_name: by_name.into(),
            default_resource,
            resources: resources.into(),
            seed,
            features: Arc::new(features),
            shared,
            is_rehearsal: false,
        }
    }

    /// The same plane for the stand-ins of requests that resources in shadow mode let through: it
    /// decides as if these enforced. A stand-in that it refuses counts as a request that was
    /// admitted and [would have been refused](OfferOutcome::would). Its resources and features are
    /// those of this plane, which ticks them.
    #[must_use]
    pub fn for_rehearsal(&self) -> Self {
        let enforced = |slot: &ResourceSlot| ResourceSlot { is_shadow: false, ..slot.clone() };
        Self {
            resources: self.resources.iter().map(enforced).collect(),
            default_resource: self.default_resource,
            by_name: self.by_name.clone(),
            seed: self.seed,
            features: Arc::clone(&self.features),
            shared: Arc::clone(&self.shared),
            is_rehearsal: true,
        }
    }

    /// Whether a resource is in shadow mode: requests pass it unseen, and its
    /// [rehearsal](Self::for_rehearsal) decides on a stand-in of each.
    #[inline]
    pub fn is_shadow(&self, id: ResourceId) -> bool {
        self.resources[usize::from(id.0)].is_shadow
    }

    /// The resources in shadow mode.
    pub fn shadow_resources(&self) -> impl Iterator<Item = ResourceId> + '_ {
        self.resources().map(|(id, _)| id).filter(|id| self.is_shadow(*id))
    }

    pub(crate) const fn seed(&self) -> u64 {
        self.seed
    }

    pub(crate) fn feature_set(&self) -> &FeatureSet {
        &self.features
    }

    /// The state that a plane made of this one goes on with.
    pub(crate) fn state(&self) -> (Vec<ResourceSlot>, Arc<SharedState>) {
        (self.resources.to_vec(), Arc::clone(&self.shared))
    }

    /// The resource of a request: the one of this name, else the default resource; `None` if there
    /// is neither, and the request is then not of this plane's concern.
    #[inline]
    pub fn find(&self, name: Option<&str>) -> Option<ResourceId> {
        match name {
            Some(name) if !self.by_name.is_empty() => self.find_by_name(name).or(self.default_resource),
            _ => self.default_resource,
        }
    }

    fn find_by_name(&self, name: &str) -> Option<ResourceId> {
        let hash = keyed_hash([self.seed, 0], Some(name));
        find_hashed(&self.by_name, hash, |id| self.resource(id).name.as_deref() == Some(name))
    }

    /// All resources, each with its name; the default resource has none.
    pub fn resources(&self) -> impl Iterator<Item = (ResourceId, Option<&str>)> {
        let ids = (0_u16..).map(ResourceId).zip(&self.resources);
        ids.filter(|(_, slot)| slot.is_configured).map(|(id, slot)| (id, slot.resource.name.as_deref()))
    }

    /// The bounds on what waits for each resource that has some.
    pub fn waiting_bounds(&self) -> impl Iterator<Item = (ResourceId, RoomUse)> {
        self.resources().filter_map(|(id, _)| Some((id, self.resource(id).waiting_max()?)))
    }

    /// The settings of the fair queue of each resource that has one.
    pub fn queues(&self) -> impl Iterator<Item = (ResourceId, QueueConfig)> {
        self.resources().filter_map(|(id, _)| Some((id, self.resource(id).queue()?)))
    }

    /// The resource with this number. Panics if the plane has none.
    #[inline]
    pub fn resource(&self, id: ResourceId) -> &Resource {
        &self.resources[usize::from(id.0)].resource
    }

    /// [`Overload::resource`], to be kept.
    pub fn shared_resource(&self, id: ResourceId) -> &Arc<Resource> {
        &self.resources[usize::from(id.0)].resource
    }

    /// The name of a resource; `None` for the default resource.
    pub fn resource_name(&self, id: ResourceId) -> Option<Arc<str>> {
        self.resource(id).name.clone()
    }

    /// The level of a request of a namespace (by its number, as [`Group::namespace`] counts it) at
    /// `now`: its class, and the cohort of its tenant, which changes every hour.
    ///
    /// [`Group::namespace`]: crate::Group::namespace
    #[inline]
    pub fn request_level(
        &self,
        namespace: u32,
        class: Class,
        tenant: Option<&str>,
        now: Timestamp,
    ) -> RequestLevel {
        RequestLevel::new(namespace, class, tenant, self.seed, now)
    }

    /// Sets the shares of the namespaces within each class of a resource; see [`NamespaceShares`].
    pub fn set_namespace_shares(&self, resource: ResourceId, shares: &NamespaceShares) {
        self.resource(resource).set_shares(shares.clone());
    }

    /// Sets the namespaces of which requests become streams of a resource, in place of earlier
    /// ones; to be set after [`Overload::set_namespace_shares`], by which their parts are. None,
    /// the default: the bound is not divided.
    pub fn set_stream_namespaces(&self, resource: ResourceId, namespaces: impl IntoIterator<Item = u32>) {
        self.resource(resource).set_stream_namespaces(namespaces);
    }

    /// Counts a request as offered. Not called for a repeated attempt, which would count its demand
    /// twice.
    ///
    /// Each request of which something is counted, here or by [`Overload::take_place`] and
    /// [`Overload::pace`], is [ended](Overload::end) once.
    #[inline]
    pub fn offer(&self, record: &mut RequestRecord, now: Timestamp) {
        let slot = self.resource(record.resource()).offer(record.level());
        record.offered(slot, now);
    }

    /// The refusal of a request that the cursor of its namespace sheds.
    #[inline]
    pub fn shed(&self, record: &RequestRecord) -> Option<Shed> {
        let (resource, level) = (self.resource(record.resource()), record.level());
        if Fault::RepeatOffered.is_planted() {
            resource.offer(level);
        }
        resource.sheds(level).then(|| resource.shed(level))
    }

    /// The answer that [`Overload::shed`] would give; counts nothing.
    pub fn would_shed(&self, resource: ResourceId, level: RequestLevel) -> Option<Shed> {
        let resource = self.resource(resource);
        resource.sheds(level).then(|| resource.below_cursor(level))
    }

    /// Whether the cursor of its namespace sheds a request; counts nothing.
    #[inline]
    pub fn is_below_cursor(&self, resource: ResourceId, level: RequestLevel) -> bool {
        self.resource(resource).sheds(level)
    }

    /// Takes a place in flight for a request, which then counts as served: the cursor admits about
    /// as many as were.
    #[inline]
    pub fn take_place(
        &self,
        record: &mut RequestRecord,
        wait: WaitsForPlace,
        now: Timestamp,
    ) -> Result<InFlightPermit, Shed> {
        let (id, level) = (record.resource(), record.level());
        let resource = self.resource(id);
        let Some(permit) = resource.acquire(id, level, wait == WaitsForPlace::Called) else {
            resource.count_shed(level);
            if wait == WaitsForPlace::No {
                resource.count_unplaced(level);
            }
            return Err(resource.without_place(level, PlaceRefusal::NoPlace));
        };
        resource.count_placed(&permit);
        record.served(ServedBy::Place, now);
        Ok(permit)
    }

    /// Counts a request that may become a stream of its resource: from its first byte on it keeps
    /// no place. The refusal of one too many, which is not [demand](Overload::end).
    pub fn open_stream(&self, record: &RequestRecord) -> Result<StreamPermit, Shed> {
        self.resource(record.resource()).open_stream(record.resource(), record.level())
    }

    /// The refusal that [`Overload::open_stream`] would give; counts nothing.
    pub fn would_lack_stream(&self, resource: ResourceId, level: RequestLevel) -> Option<Shed> {
        self.resource(resource).would_lack_stream(level)
    }

    /// Takes a stream back that has ended, or that its request did not become.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a permit is used up, so that it is not returned twice"
    )]
    pub fn close_stream(&self, stream: StreamPermit) {
        self.resource(stream.resource).streams.close(stream.namespace);
    }

    /// Paces a request whose end will not be reported, and which therefore takes no place: at most
    /// as many a second as the places could serve, by the average time from admission to end of the
    /// last ten seconds, and as many at once as there are places; each namespace has its part of
    /// them. Without a sample in this time the pace is not known, and all are admitted. `None`: it
    /// is admitted and counts as served.
    #[inline]
    pub fn pace(&self, record: &mut RequestRecord, now: Timestamp) -> Option<Shed> {
        let resource = self.resource(record.resource());
        self.paced(record, resource.paces(record.level(), now), ServedBy::Pace, now)
    }

    /// [`Overload::pace`] for a request with a ticket, which is ahead of those without.
    pub fn pace_ticket(&self, record: &mut RequestRecord, now: Timestamp) -> Option<Shed> {
        let resource = self.resource(record.resource());
        self.paced(record, resource.paces_ticket(record.level(), now), ServedBy::TicketPace, now)
    }

    #[inline]
    fn paced(
        &self,
        record: &mut RequestRecord,
        verdict: PaceVerdict,
        known: ServedBy,
        now: Timestamp,
    ) -> Option<Shed> {
        let (resource, level) = (self.resource(record.resource()), record.level());
        if verdict != PaceVerdict::Ahead {
            resource.count_served(level);
            let is_known = verdict == PaceVerdict::InPace;
            record.served(if is_known { known } else { ServedBy::UnknownPace }, now);
            return None;
        }
        resource.count_shed(level);
        Some(resource.ahead_of_pace(level))
    }

    /// Ends a request with its final decision: counts the outcome of one that was offered, and
    /// takes back its demand or its service where the decision makes them void.
    ///
    /// A request that a limit denied, that the capacity plane throttled or that could not be
    /// decided was no demand: a caller far over its limits would otherwise use up the cursor's
    /// allowance for its class, and lower classes would be shed for work that is never done. One
    /// that was not admitted was not served, although it had a place while the store was asked:
    /// the capacity of the resource would be taken for larger than it is. After a tick nothing of
    /// that changes: the tick has taken it into account.
    #[expect(clippy::inline_always, reason = "callers that know the outcome need a part of it")]
    #[inline(always)]
    pub fn end(&self, mut record: RequestRecord, outcome: OfferOutcome) {
        let (resource, level) = (self.resource(record.resource()), record.level());
        if let Some(offered_at) = record.offered_at() {
            let counted = if self.is_rehearsal { outcome.would() } else { outcome };
            resource.record(record.slot(), level.class(), counted);
            if outcome.is_no_demand() && self.is_in_sums(offered_at) && !Fault::WithdrawnCounts.is_planted() {
                resource.withdraw(level);
            }
        }
        if outcome != OfferOutcome::Admitted {
            self.unserve(&mut record);
        }
    }

    /// Takes back that an attempt of a request was served: it was not admitted after all, and
    /// waits or begins anew. Nothing where it was not.
    pub fn unserve(&self, record: &mut RequestRecord) {
        let resource = self.resource(record.resource());
        let (served, served_at) = record.take_served();
        match served {
            ServedBy::Pace => resource.unpace(record.level(), served_at),
            ServedBy::TicketPace => resource.unpace_ticket(record.level(), served_at),
            ServedBy::None | ServedBy::Place | ServedBy::UnknownPace => {}
        }
        if served != ServedBy::None && self.is_in_sums(served_at) && !Fault::DeniedServed.is_planted() {
            resource.uncount_served(record.level());
        }
    }

    /// Whether the next tick takes in what was counted then.
    fn is_in_sums(&self, at: Timestamp) -> bool {
        at.as_nanos() >= self.shared.last_ns.load(Ordering::Relaxed)
    }

    /// Takes back that a request was counted as shed: it waits for a place instead.
    pub fn waits_instead(&self, resource: ResourceId, level: RequestLevel) {
        self.resource(resource).uncount_shed(level);
    }

    /// The refusal of a request for want of a place. It counts as shed, but for
    /// [`PlaceRefusal::QueueFull`], of which the want of the place has counted.
    pub fn refuse(&self, resource: ResourceId, level: RequestLevel, why: PlaceRefusal) -> Shed {
        let counted = self.resource(resource);
        if why == PlaceRefusal::NoPlace {
            counted.in_flight.turn_away();
        }
        if why != PlaceRefusal::QueueFull {
            counted.count_shed(level);
        }
        self.would_refuse(resource, level, why)
    }

    /// The refusal that [`Overload::refuse`] would give; counts nothing.
    pub fn would_refuse(&self, resource: ResourceId, level: RequestLevel, why: PlaceRefusal) -> Shed {
        self.resource(resource).without_place(level, why)
    }

    /// A hash of a tenant, the same for all requests of a tenant: fair queues tell tenants apart by
    /// it. `None` for no tenant.
    pub fn tenant_hash(&self, tenant: Option<&str>) -> Option<u64> {
        tenant.map(|tenant| keyed_hash([self.seed, 1], Some(tenant)))
    }

    /// Returns a place in flight.
    #[inline]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a permit is used up, so that it is not returned twice"
    )]
    pub fn give_back(&self, permit: InFlightPermit) {
        if !Fault::PlaceKept.is_planted() {
            self.resource(permit.resource()).give_back(&permit);
        }
    }

    /// Notes that only a settlement by its caller will tell the end of the work that has this
    /// place: it may expire before, see [`Resource::take_overdue_places`]. `permit` is the name
    /// under which the caller settles it.
    pub fn await_settlement(
        &self,
        place: &InFlightPermit,
        permit: u128,
        admitted: Timestamp,
    ) -> UnsettledPlace {
        self.resource(place.resource()).unsettled().add(place.namespace(), permit, admitted)
    }

    /// Forgets an unsettled place that is given back.
    pub fn forget_unsettled(&self, resource: ResourceId, namespace: u32, place: UnsettledPlace) {
        self.resource(resource).unsettled().remove(namespace, place);
    }

    /// Learns how long work took that the caller of a namespace has settled, from its admission to
    /// the settlement.
    pub fn learn_settled(&self, resource: ResourceId, namespace: u32, took: Duration, now: Timestamp) {
        self.resource(resource).unsettled().learn(namespace, took, now);
    }

    /// Adds the end of a request's work, which was admitted at `admitted`, to the latency of its
    /// resource (see [`ResourceStats::latency`]) and to its adaptive limit, if it has one. Only
    /// work whose latency depends on the load of the resource: no tunnel, and no caller that left.
    pub fn sample(
        &self,
        permit: &InFlightPermit,
        sample: LatencySample,
        admitted: Timestamp,
        now: Timestamp,
    ) {
        self.resource(permit.resource()).sample(permit, sample, self.is_rehearsal, admitted, now);
    }

    /// The most requests of `class` in flight at once, at this moment.
    pub fn in_flight_max(&self, resource: ResourceId, class: Class) -> u64 {
        self.resource(resource).in_flight.max_of(class)
    }

    /// Whether a place in flight is free for a request of `class` at this moment.
    #[inline]
    pub fn has_place(&self, resource: ResourceId, class: Class) -> bool {
        let in_flight = &self.resource(resource).in_flight;
        in_flight.count() < in_flight.max_of(class)
    }

    /// The refusal that [`Overload::take_place`] would give; counts nothing.
    pub fn would_lack_place(&self, resource: ResourceId, level: RequestLevel) -> Option<Shed> {
        let lacks =
            !self.has_place(resource, level.class()) || !self.resource(resource).may_take_place(level);
        lacks.then(|| self.resource(resource).without_place(level, PlaceRefusal::NoPlace))
    }

    /// The refusal that [`Overload::pace`] would give; counts nothing.
    pub fn would_exceed_pace(
        &self,
        resource: ResourceId,
        level: RequestLevel,
        now: Timestamp,
    ) -> Option<Shed> {
        let resource = self.resource(resource);
        (!resource.would_pace(level, now)).then(|| resource.ahead_of_pace(level))
    }

    /// The number of requests in flight.
    pub fn in_flight(&self, resource: ResourceId) -> u64 {
        self.resource(resource).in_flight.count()
    }

    /// The numbers of a resource.
    pub fn stats(&self, resource: ResourceId, now: Timestamp) -> ResourceStats<'_> {
        let deferral = self.resource(resource).deferral_stats(self.ticket_clock().from_member(now));
        ResourceStats::new(resource, self.resource(resource), self.is_shadow(resource), deferral, now)
    }

    /// Takes in a measured pressure. It counts until a newer signal comes, for three ticks at most.
    pub fn event(&self, signal: Signal, _now: Timestamp) {
        match signal.resource {
            Some(resource) => self.resource(resource).signal(signal.pressure),
            None => self.resources.iter().for_each(|slot| slot.resource.signal(signal.pressure)),
        }
    }

    /// Takes in a value of a pushed signal, for each resource that has a signal of this name.
    pub fn push_signal(&self, name: &str, pushed: PushedValue, now: Timestamp) -> Result<(), SignalError> {
        if !(pushed.value >= 0.0 && pushed.value.is_finite()) {
            return Err(SignalError::Value(pushed.value));
        }
        if let Some(target) = pushed.target.filter(|target| !(*target > 0.0 && target.is_finite())) {
            return Err(SignalError::Target(target));
        }
        let mut is_known = false;
        let configured = || self.resources.iter().filter(|slot| slot.is_configured);
        for slot in configured() {
            is_known |= slot.resource.push_signal(name, pushed, now);
        }
        if is_known {
            return Ok(());
        }
        let mut names = BTreeSet::new();
        configured().for_each(|slot| slot.resource.pushed_names(&mut names));
        match configured().find_map(|slot| slot.resource.signal_source(name)) {
            Some(measured) => {
                let known = names.into_iter().collect::<Vec<_>>().join(", ");
                Err(SignalError::NotPushed { name: name.to_owned(), measured, known })
            }
            None => Err(SignalError::unknown(name, names)),
        }
    }

    /// Takes in how many members of a fleet divide the numbers of those resources that have a
    /// [share](crate::ResourceConfig::share); 0 counts as 1, the number until it is set. Requests
    /// in flight above a lower bound stay.
    pub fn set_members(&self, members: u32) {
        let members = members.max(1);
        self.shared.members.store(members.into(), Ordering::Relaxed);
        self.resources.iter().for_each(|slot| slot.resource.set_members(members));
    }

    /// Sets the name under which the resources sell tickets that have sold none yet: the member and
    /// its start.
    pub fn set_ticket_issuer(&self, issuer: TicketIssuer) {
        self.resources.iter().for_each(|slot| slot.resource.set_ticket_issuer(issuer));
        *lock(&self.shared.issuer) = issuer;
    }

    /// Sets the clock that tickets are on. Booked seconds keep their places on it, as if the clock
    /// had been stepped.
    pub fn set_ticket_clock(&self, clock: TicketClock) {
        self.shared.ticket_clock_ahead.store(clock.ahead_nanos(), Ordering::Relaxed);
    }

    /// The clock that tickets are on; all else is on that of the member.
    pub fn ticket_clock(&self) -> TicketClock {
        TicketClock::ahead_by(self.shared.ticket_clock_ahead.load(Ordering::Relaxed))
    }

    /// Whether [`Overload::tick`] would change something at `now`.
    pub fn is_tick_due(&self, now: Timestamp) -> bool {
        !lock(&self.shared.due).is_some_and(|due| is_ahead(due, now))
    }

    /// Moves each cursor by what was offered since the last tick, each bound by the instances that
    /// have gone, and the levels of features by the load. Returns the instant of the next tick; a
    /// call before it changes nothing.
    ///
    /// A clock that steps back delays nothing: the next tick is then due one [`TICK`] after the new
    /// time.
    pub fn tick(&self, now: Timestamp) -> Timestamp {
        let mut due = lock(&self.shared.due);
        if let Some(due) = due.filter(|due| is_ahead(*due, now)) {
            return due;
        }
        let next = now.saturating_add(TICK);
        *due = Some(next);
        drop(due);
        self.shared.last_ns.store(now.as_nanos(), Ordering::Relaxed);
        let ticket_now = self.ticket_clock().from_member(now);
        self.resources.iter().for_each(|slot| slot.resource.tick(now, ticket_now));
        self.features.tick(self, now);
        next
    }
}

/// Whether a tick is due after `now`, and not at all later than a tick after it, which happens
/// when the clock has stepped back.
fn is_ahead(due: Timestamp, now: Timestamp) -> bool {
    now < due && due <= now.saturating_add(TICK)
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests;
