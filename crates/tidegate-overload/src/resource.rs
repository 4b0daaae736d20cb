//! One protected resource: its places in flight, its cursor, and the sums its ticks work with.

mod deferral;
mod feature_load;
mod load_state;
mod pace;
mod place_advice;
mod place_control;
mod streams;

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_core::{BindingSignal, Class, OverloadMechanism, Timestamp};

use crate::activity::activity_window::ActivityWindow;
use crate::activity::recent_activity::RecentActivity;
use crate::activity::time_counts::TimeCounts;
use crate::advice::advice_state::AdviceState;
use crate::advice::times_by_use::TimesByUse;
use crate::backoff::{Backoff, scattered};
use crate::cursor::cursor_control::{CursorControl, TickMeasures};
use crate::cursor::cursor_positions::PromisedParts;
use crate::cursor::hash::keyed_hash;
use crate::cursor::marginal_rank::MarginalRank;
use crate::cursor::namespace_cursor::NamespaceCursor;
use crate::cursor::namespace_slots::{NamespaceSlots, NamespaceTick};
use crate::cursor::{Cursor, RequestLevel};
use crate::deferral::resource_deferral::{Deferral, DeferralTick, HARD, deferral_word};
use crate::features::resource_load::ResourceLoad;
use crate::levels::level_control::LevelControl;
use crate::levels::load_level::LoadLevel;
use crate::levels::signal::SignalConfig;
use crate::levels::signal_set::SignalSet;
use crate::levels::slow_answers::SlowAnswers;
use crate::namespaces::{NamespaceKey, NamespaceShares};
use crate::outcome::{ClassStats, OfferOutcome};
use crate::places::concurrency::{AdaptiveBound, Concurrency};
use crate::places::in_flight::InFlight;
use crate::places::instances::{InstanceError, InstanceSet, InstanceState};
use crate::places::latency::{LatencyAverages, LatencySample};
use crate::places::pacer::{PaceDemands, Pacer};
use crate::places::place_parts::PlaceParts;
use crate::places::service_times::{RecentAnswers, ServiceTimes};
use crate::places::stream_places::StreamPlaces;
use crate::places::unsettled_places::UnsettledPlaces;
use crate::queue::fair_queue::QueueConfig;
use crate::queue::queue_observation::QueueObservation;
use crate::queue::waiting_room::RoomUse;
use crate::resource_config::ResourceConfig;
use crate::resource_id::ResourceId;
use crate::shed::{PlaceRefusal, Shed};
use crate::sync::{AtomicU8, AtomicU64, Mutex, Ordering, lock};
use crate::tick::TICK;

/// A place in flight. Dropping it does not return it: its owner passes it to
/// `Overload::give_back`.
#[derive(Debug)]
#[must_use = "a place that is not given back is lost"]
pub struct InFlightPermit {
    resource: ResourceId,
    /// The slot of the namespace at the resource.
    slot: u8,
    class: Class,
    namespace: u32,
    /// The places in use when it was taken, itself included.
    in_use: u32,
}

impl InFlightPermit {
    /// The number of the namespace whose request has the place.
    pub const fn namespace(&self) -> u32 {
        self.namespace
    }

    /// The resource that the place belongs to.
    pub const fn resource(&self) -> ResourceId {
        self.resource
    }
}

/// A namespace that has asked for a place within this takes part in dividing them.
const ACTIVE: Duration = Duration::from_secs(1);

/// One resource of an [`Overload`](crate::Overload): its places, cursors and counts.
#[derive(Debug)]
pub struct Resource {
    /// `None`: the default resource.
    pub(crate) name: Option<Arc<str>>,
    pub(crate) in_flight: InFlight,
    pub(crate) streams: StreamPlaces,
    pub(crate) latency: LatencyAverages,
    times_by_use: TimesByUse,
    adaptive: AdaptiveBound,
    slow_answers: SlowAnswers,
    pacer: Pacer,
    /// The demand of each namespace and its cursor.
    namespaces: Arc<NamespaceSlots>,
    /// The signal that put the cursor there, as a number. Relaxed: a refusal that shows the one
    /// before decides nothing.
    binding_signal: AtomicU8,
    retry_seconds: AtomicU64,
    /// The hints that were given.
    hints: AtomicU64,
    hint_key: u64,
    /// The requests shed since the last tick, retries included.
    shed: AtomicU64,
    /// The places whose end only their callers tell, and how many of them have expired.
    unsettled: Mutex<UnsettledPlaces>,
    places_expired: AtomicU64,
    /// The classes that are deferred, a bit each, and [`HARD`]. Relaxed: one word, ordered with
    /// nothing.
    deferral_word: AtomicU8,
    deferral: Mutex<Deferral>,
    control: Mutex<ResourceControl>,
}

/// The part of the state that only ticks, signals and pins change.
#[derive(Debug)]
struct ResourceControl {
    cursor: CursorControl,
    backoff: Backoff,
    activity: ActivityWindow,
    advice: AdviceState,
    /// The number of offered requests at the last tick.
    offered_before: u64,
    /// The settings as they were given.
    whole: ResourceConfig,
    /// The same, divided by the members.
    config: ResourceConfig,
    members: u32,
    /// The shares of the namespaces within each class.
    shares: NamespaceShares,
    /// `None`: the bound does not depend on instances.
    instances: Option<InstanceSet>,
    /// The report of the queue since the last tick.
    queue: Option<QueueObservation>,
    signals: SignalSet,
    levels: LevelControl,
    /// The worst pressure of the last tick, and the position of its signal.
    pressure: Option<(f64, usize)>,
    pace_demands: PaceDemands,
    recent_answers: RecentAnswers,
    /// How long it takes for a request, by the last tick.
    service_times: ServiceTimes,
    /// The slots of namespaces that ask for nothing and still have places.
    leaving: Vec<usize>,
    /// When the namespace of each slot asked for a place, of those that did in the last second.
    asked: BTreeMap<usize, (NamespaceKey, Timestamp)>,
    /// The namespaces of which requests of the last tick got no place, and how many.
    refused: Vec<(NamespaceKey, u64)>,
    /// The parts of the places, and whether any of them is a bound.
    place_parts: PlaceParts,
    has_part_bounds: bool,
    /// Whether a namespace may have more places than before, of which nobody was told yet.
    is_bound_raised: bool,
    /// Whether features follow the load of the resource.
    has_features: bool,
    /// The load of the last tick, which they have not taken in yet.
    feature_load: Option<ResourceLoad>,
}

impl ResourceControl {
    /// Notes which namespaces have asked in a tick, and how many of their requests got no place.
    fn note_asked(&mut self, namespaces: &[NamespaceTick], now: Timestamp) {
        self.asked.retain(|_, (_, at)| now.saturating_since(*at) <= ACTIVE);
        self.refused.clear();
        for tick in namespaces {
            let Some(offered) = &tick.offered else { continue };
            self.asked.insert(tick.slot, (tick.namespace, now));
            let refused = offered.iter().sum::<u64>().saturating_sub(tick.served.iter().sum());
            if refused > 0 {
                self.refused.push((tick.namespace, refused));
            }
        }
    }
}

impl Resource {
    pub(crate) fn new(
        name: Option<Arc<str>>,
        whole: &ResourceConfig,
        members: u32,
        signals: Vec<SignalConfig>,
    ) -> Self {
        let config = whole.part_of(members);
        let instances = config.places_per_instance.map(|each| InstanceSet::new(each, config.in_flight_max));
        let control = ResourceControl {
            cursor: CursorControl::new(),
            backoff: Backoff::new(),
            activity: ActivityWindow::default(),
            advice: AdviceState::default(),
            offered_before: 0,
            whole: *whole,
            config,
            members,
            shares: NamespaceShares::default(),
            instances,
            queue: None,
            signals: SignalSet::new(signals),
            levels: LevelControl::new(config.levels),
            pressure: None,
            pace_demands: PaceDemands::default(),
            recent_answers: RecentAnswers::default(),
            service_times: ServiceTimes::default(),
            leaving: Vec::new(),
            asked: BTreeMap::new(),
            refused: Vec::new(),
            place_parts: PlaceParts::default(),
            has_part_bounds: false,
            is_bound_raised: false,
            has_features: false,
            feature_load: None,
        };
        let slow_answers = SlowAnswers::default();
        slow_answers.reconfigure(control.signals.slow_thresholds());
        let adaptive = AdaptiveBound::new(config.adaptive);
        let hint_key = keyed_hash([0, 0], name.as_deref());
        Self {
            name,
            in_flight: InFlight::new(adaptive.places(config.in_flight_max)),
            streams: StreamPlaces::new(config.streams_max),
            adaptive,
            slow_answers,
            pacer: Pacer::default(),
            latency: LatencyAverages::default(),
            times_by_use: TimesByUse::default(),
            hints: AtomicU64::new(0),
            hint_key,
            namespaces: Arc::new(NamespaceSlots::new()),
            binding_signal: AtomicU8::new(number_of(BindingSignal::InFlight)),
            retry_seconds: AtomicU64::new(Backoff::new().hint().as_secs()),
            shed: AtomicU64::new(0),
            unsettled: Mutex::new(UnsettledPlaces::default()),
            places_expired: AtomicU64::new(0),
            deferral_word: AtomicU8::new(deferral_word(config.defer.as_ref(), false)),
            deferral: Mutex::new(Deferral::new(config.defer)),
            control: Mutex::new(control),
        }
    }

    /// Goes on with other settings. Requests in flight above a lower bound stay.
    pub(crate) fn reconfigure(&self, config: &ResourceConfig, signals: Vec<SignalConfig>) {
        let mut control = lock(&self.control);
        control.signals.reconfigure(signals);
        self.slow_answers.reconfigure(control.signals.slow_thresholds());
        control.pressure = None;
        self.apply(&mut control, config);
    }

    /// Takes in how many members divide its numbers, of which 0 counts as 1.
    pub(crate) fn set_members(&self, members: u32) {
        let mut control = lock(&self.control);
        if control.members != members {
            control.members = members;
            let whole = control.whole;
            self.apply(&mut control, &whole);
        }
    }

    /// Goes on with these settings, divided by the members.
    fn apply(&self, control: &mut ResourceControl, whole: &ResourceConfig) {
        let config = whole.part_of(control.members);
        let terms = |config: &ResourceConfig| (config.in_flight_max, config.adaptive, config.mode);
        if terms(&control.config) != terms(&config) {
            // Advice about other places begins anew.
            control.advice = AdviceState::default();
        }
        (control.whole, control.config) = (*whole, config);
        lock(&self.deferral).reconfigure(config.defer);
        self.note_deferral(control);
        self.streams.set_max(config.streams_max);
        control.levels.reconfigure(config.levels);
        self.adaptive.reconfigure(config.adaptive);
        let places = (config.places_per_instance, config.in_flight_max);
        if control.instances.as_ref().map(InstanceSet::settings) != places.0.map(|each| (each, places.1)) {
            // The bound is the configured one until the instances have reported again.
            control.instances = places.0.map(|each| InstanceSet::new(each, places.1));
            self.set_places(control, self.adaptive.places(config.in_flight_max));
        } else if control.instances.is_none() {
            self.set_places(control, self.adaptive.places(config.in_flight_max));
        }
    }

    /// The name; `None` for the default resource.
    pub const fn name(&self) -> Option<&Arc<str>> {
        self.name.as_ref()
    }

    /// The signal that put the cursor where it is.
    pub fn binding_signal(&self) -> BindingSignal {
        signal_of(self.binding_signal.load(Ordering::Relaxed))
    }

    /// The bounds on what waits for it.
    pub(crate) fn waiting_max(&self) -> Option<RoomUse> {
        lock(&self.control).config.waiting_max
    }

    /// The settings of its queue.
    pub(crate) fn queue(&self) -> Option<QueueConfig> {
        lock(&self.control).config.queue
    }

    /// Sets the shares of the namespaces within each class.
    pub(crate) fn set_shares(&self, shares: NamespaceShares) {
        lock(&self.control).shares = shares;
    }

    /// Counts a first attempt as demand. The slot of its namespace.
    #[inline]
    pub(crate) fn offer(&self, level: RequestLevel) -> u8 {
        self.namespaces.offer(level)
    }

    /// Counts the outcome of a request that was offered in this slot.
    #[inline]
    pub(crate) fn record(&self, slot: u8, class: Class, outcome: OfferOutcome) {
        self.namespaces.record(slot, class, outcome);
    }

    /// The counts of each class since the start.
    pub(crate) fn classes(&self) -> [ClassStats; Class::ALL.len()] {
        self.namespaces.classes()
    }

    /// The requests of the last seconds, by class and namespace.
    pub fn recent_activity(&self) -> RecentActivity {
        lock(&self.control).activity.recent()
    }

    /// Takes in how long requests have waited that the queue has served since the last report;
    /// called before [`Overload::tick`](crate::Overload::tick).
    pub fn observe_waits(&self, waits: &[TimeCounts; Class::ALL.len()]) {
        lock(&self.control).activity.add_waits(waits);
    }

    /// Takes the demand of one request back, never below zero.
    pub(crate) fn withdraw(&self, level: RequestLevel) {
        self.namespaces.withdraw(level);
    }

    /// The demand since the last tick, of all levels.
    pub(crate) fn demand(&self) -> u64 {
        self.namespaces.demand()
    }

    /// The requests that began to be served since the last tick.
    pub(crate) fn served(&self) -> u64 {
        self.namespaces.served()
    }

    /// The position of the cursor in the most important class of which requests of any namespace
    /// are shed.
    pub fn cursor(&self) -> Cursor {
        self.namespaces.highest()
    }

    /// The position of the cursor of a namespace in the most important class of which its requests
    /// are shed.
    pub fn namespace_cursor(&self, namespace: u32) -> Cursor {
        self.namespaces.cursor(namespace).highest()
    }

    /// Whether the cursor of its namespace sheds a request.
    #[inline]
    pub(crate) fn sheds(&self, level: RequestLevel) -> bool {
        self.namespaces.cursor(level.namespace()).sheds(level)
    }

    /// The rank of a request of this level, if the cursor of its namespace lets it in among the
    /// least important, and the namespace asks for more than its part: if it must wait, it is the
    /// first to be shed by the queue.
    pub fn marginal_rank(&self, level: RequestLevel) -> Option<MarginalRank> {
        let (end, cursor) = self.namespaces.marginal(level.namespace(), level.class());
        MarginalRank::new(level.cohort(), cursor, end)
    }

    /// The hint before it is scattered.
    pub(crate) fn retry_after(&self) -> Duration {
        Duration::from_secs(self.retry_seconds.load(Ordering::Relaxed))
    }

    /// The time before a retry that one more shed caller is told, 1 to 32 seconds. Two callers are
    /// told different times, so that they do not come back together.
    pub fn retry_after_hint(&self) -> Duration {
        // Relaxed: two callers with one number would be told the same, no more.
        let number = self.hints.fetch_add(1, Ordering::Relaxed);
        scattered(self.retry_after(), self.hint_key, number)
    }

    /// Counts a request that got this place, in the slot that it took it from.
    #[inline]
    pub(crate) fn count_placed(&self, permit: &InFlightPermit) {
        self.namespaces.serve_in(usize::from(permit.slot), permit.class);
    }

    /// Counts a request that is served without a place.
    #[inline]
    pub(crate) fn count_served(&self, level: RequestLevel) {
        self.namespaces.serve(level);
    }

    /// Takes a request back that was counted as served, never below zero.
    pub(crate) fn uncount_served(&self, level: RequestLevel) {
        self.namespaces.unserve(level);
    }

    /// Counts the time for which a request kept its place, whatever its outcome: demand and
    /// capacity are counted in it.
    pub fn count_held(&self, permit: &InFlightPermit, held: Duration) {
        self.namespaces.end(permit.namespace, permit.class, held);
    }

    /// Takes a place for a request; `None` if none is free for it. `is_called`: it was called from
    /// a line.
    #[inline]
    pub(crate) fn acquire(
        &self,
        id: ResourceId,
        level: RequestLevel,
        is_called: bool,
    ) -> Option<InFlightPermit> {
        let (namespace, class) = (level.namespace(), level.class());
        let slot = match self.namespaces.take_place(namespace, class) {
            Some(slot) => slot,
            None => self.called_place(namespace, class, is_called)?,
        };
        let Some(in_use) = self.in_flight.acquire(class) else {
            self.namespaces.give_back_place(slot, class);
            return None;
        };
        // At most [`ResourceConfig::IN_FLIGHT_MAX`].
        let in_use = in_use as u32;
        Some(InFlightPermit { resource: id, slot, class, namespace, in_use })
    }

    /// The slot of a namespace that has as many places as it may, for a request that was called
    /// from a line without an order that could pass it over.
    #[cold]
    fn called_place(&self, namespace: u32, class: Class, is_called: bool) -> Option<u8> {
        let is_passed_over = !is_called || lock(&self.control).config.queue.is_some();
        (!is_passed_over).then(|| self.namespaces.take_place_anyway(namespace, class))
    }

    /// Whether its namespace may have one more place.
    pub(crate) fn may_take_place(&self, level: RequestLevel) -> bool {
        self.namespaces.may_take_place(self.namespaces.key_of(level.namespace()), level.class())
    }

    /// Counts a request that is refused for want of a place and does not wait for one: a namespace
    /// that has less than its part of the places is to get it.
    pub fn count_unplaced(&self, level: RequestLevel) {
        self.namespaces.count_unplaced(level);
    }

    /// Returns the place of a permit, which is used up.
    #[inline]
    pub(crate) fn give_back(&self, permit: &InFlightPermit) {
        self.namespaces.give_back_place(permit.slot, permit.class);
        self.in_flight.give_back();
    }

    /// Whether a request that its caller calls a repeated attempt is one: its namespace was refused
    /// because of the load lately, and that refusal was not repeated yet. Otherwise it is new
    /// demand. Each refusal is repeated once.
    pub fn takes_refusal(&self, level: RequestLevel) -> bool {
        self.namespaces.take_refusal(level.namespace())
    }

    /// Takes a shed request back that waits instead; never below zero.
    pub(crate) fn uncount_shed(&self, level: RequestLevel) {
        self.namespaces.unrefuse(level.namespace());
        let _ = self
            .shed
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| Some(count.saturating_sub(1)));
    }

    /// Counts a shed request for the retry hint.
    pub(crate) fn count_shed(&self, level: RequestLevel) {
        self.namespaces.refuse(level.namespace());
        self.shed.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request below the cursor of its namespace, and refuses it.
    #[cold]
    pub(crate) fn shed(&self, level: RequestLevel) -> Shed {
        self.count_shed(level);
        self.below_cursor(level)
    }

    /// The refusal of a request below the cursor of its namespace.
    #[cold]
    pub(crate) fn below_cursor(&self, level: RequestLevel) -> Shed {
        let mechanism = OverloadMechanism::AdmissionCursor { level: level.number() };
        self.refusal(mechanism, self.binding_signal(), level)
    }

    /// The refusal of a request for want of a place.
    #[cold]
    pub(crate) fn without_place(&self, level: RequestLevel, why: PlaceRefusal) -> Shed {
        let (mechanism, signal) = match why {
            PlaceRefusal::NoPlace | PlaceRefusal::Claimed => {
                (OverloadMechanism::InFlight, BindingSignal::InFlight)
            }
            PlaceRefusal::Delayed => (OverloadMechanism::QueueDelay, BindingSignal::QueueDelay),
            PlaceRefusal::QueueFull => (OverloadMechanism::QueueFull, BindingSignal::InFlight),
            PlaceRefusal::TooLate => (OverloadMechanism::Deadline, BindingSignal::QueueDelay),
        };
        self.refusal(mechanism, signal, level)
    }

    fn refusal(
        &self,
        mechanism: OverloadMechanism,
        binding_signal: BindingSignal,
        level: RequestLevel,
    ) -> Shed {
        Shed {
            resource: self.name.clone(),
            mechanism,
            binding_signal,
            cursor: self.namespace_cursor(level.namespace()),
            in_flight_max: self.in_flight.max(),
            retry_after_hint: self.retry_after_hint(),
        }
    }

    pub(crate) fn signal(&self, pressure: f64) {
        lock(&self.control).cursor.signal(pressure);
    }

    /// Takes in what the queue of a resource saw since the last tick; called before
    /// [`Overload::tick`]. Several observations of one tick count as one.
    ///
    /// From the first observation on the delay of the queue alone moves the cursor; after ten ticks
    /// without any the resource counts as one without a queue again.
    pub fn observe_queue(&self, observation: QueueObservation) {
        let mut control = lock(&self.control);
        control.queue = Some(control.queue.unwrap_or(QueueObservation::NONE).merge(observation));
    }

    /// Pins the cursor of a resource to a position until an instant, or removes the pin (`None`).
    ///
    /// The pin takes effect at once and ticks respect it. Signals and demand do not move the cursor
    /// meanwhile; afterwards it continues from its position before the pin.
    pub fn pin(&self, cursor: Option<Cursor>, until: Timestamp, now: Timestamp) {
        let mut control = lock(&self.control);
        control.cursor.pin(cursor, until);
        self.move_cursors(&control, now);
    }

    pub(crate) fn pinned_until(&self, now: Timestamp) -> Option<Timestamp> {
        lock(&self.control).cursor.pinned_until(now)
    }

    /// Takes in the report of an instance of a resource with
    /// [`ResourceConfig::places_per_instance`](crate::ResourceConfig::places_per_instance). It is
    /// alive for [`INSTANCE_TTL`](crate::INSTANCE_TTL), unless it reports again.
    pub fn report(&self, instance: &str, state: InstanceState, now: Timestamp) -> Result<(), InstanceError> {
        let mut control = lock(&self.control);
        let Some(instances) = &mut control.instances else {
            return Err(InstanceError::NotScaled { resource: self.name.clone() });
        };
        instances.report(self.name.as_ref(), instance, state, now)?;
        let places = instances.places(now);
        self.set_places(&control, places);
        Ok(())
    }

    /// The number of instances that are alive; `None` where the bound does not depend on them.
    pub(crate) fn instances(&self) -> Option<usize> {
        lock(&self.control).instances.as_ref().map(InstanceSet::count)
    }

    /// Moves the bound by the instances that have gone, and the cursor by what was offered since
    /// the last tick.
    pub(crate) fn tick(&self, now: Timestamp, ticket_now: Timestamp) {
        let mut control = lock(&self.control);
        if let Some(instances) = &mut control.instances {
            let places = instances.places(now);
            self.set_places(&control, places);
        }
        let offered_total = self.namespaces.offered();
        // Of hundreds of resources most are idle at any instant, and their sums are all zero.
        let namespaces = self.namespaces.take_tick(offered_total != control.offered_before);
        control.offered_before = offered_total;
        let shed = self.shed.swap(0, Ordering::Relaxed);
        control.activity.tick(&self.namespaces, &namespaces, now);
        self.streams.tick();
        control.backoff.observe(shed, TICK);
        self.retry_seconds.store(control.backoff.hint().as_secs(), Ordering::Relaxed);
        let is_adaptive = self.adaptive.is_present();
        let queue = control.queue.take();
        let places = self.in_flight.take_use(queue.map_or(0, |queue| queue.departures));
        let (config, shares) = (control.config.queue.unwrap_or_default(), control.shares.clone());
        let paced = self.tick_pace(&mut control, &namespaces, now);
        let measures = TickMeasures {
            namespaces: &namespaces,
            parts: PromisedParts { config: &config, shares: &shares },
            wanted: places.wanted,
            // Work in pace keeps places of the service, too.
            utilization: (places.utilization + paced).min(1.0),
            // An adaptive limit that grows is no capacity that came: the cursor would open with
            // each of its steps. The cost that is served shows what its growth is worth.
            places: if is_adaptive { control.config.in_flight_max } else { self.in_flight.max() },
            turned_away: shed,
            queue,
        };
        if is_adaptive {
            self.tick_adaptive(&control, &measures, now);
        }
        control.recent_answers.learn(&namespaces);
        let forgotten = control.cursor.tick(&measures, now);
        let asks = |slot: &usize| namespaces.iter().any(|one| one.slot == *slot);
        control.leaving.retain(|slot| !asks(slot));
        control.leaving.extend(forgotten);
        let leaving = core::mem::take(&mut control.leaving);
        for slot in leaving {
            if self.namespaces.release(slot) {
                control.recent_answers.forget(slot);
            } else {
                control.leaving.push(slot);
            }
        }
        control.service_times = control.recent_answers.service_times();
        self.tick_advice(&mut control, now);
        control.note_asked(&namespaces, now);
        self.bound_places(&mut control, now);
        self.bound_parts(&mut control, &namespaces, now);
        self.tick_level(&mut control, &measures, now);
        if control.config.defer.is_some() {
            self.tick_deferral(&control, &measures, ticket_now);
        }
        if control.has_features {
            control.feature_load = Some(self.feature_load(&control, &measures));
        }
        self.move_cursors(&control, now);
    }

    /// Moves the bound by the latency of the work.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "a part of at most a million places, rounded to whole ones"
    )]
    fn tick_adaptive(&self, control: &ResourceControl, measures: &TickMeasures<'_>, now: Timestamp) {
        let in_flight = (in_use(measures) * self.in_flight.max() as f64).round() as u64;
        let places = self.namespaces.places().map(|(_, key, places)| match key {
            NamespaceKey::Exact(namespace) => (namespace, places),
            NamespaceKey::Rest => (u32::MAX, places),
        });
        if let Some(limit) = self.adaptive.tick(now, in_flight, places) {
            self.set_places(control, limit.min(control.config.in_flight_max));
        }
    }

    /// Adds the end of work that was admitted at `admitted`. The places in use beside a
    /// stand-in are no evidence of its service.
    pub(crate) fn sample(
        &self,
        permit: &InFlightPermit,
        sample: LatencySample,
        is_stand_in: bool,
        admitted: Timestamp,
        now: Timestamp,
    ) {
        let namespace = permit.namespace;
        self.latency.add(sample);
        if let LatencySample::Succeeded { first_byte, end } = sample {
            self.namespaces.answer(namespace, first_byte.unwrap_or(end));
        }
        self.slow_answers.add(sample);
        if let LatencySample::Succeeded { end, .. } | LatencySample::TimedOut { after: end } = sample {
            self.namespaces.pace(namespace).add(end);
            if !is_stand_in {
                self.times_by_use.add(permit.in_use, end);
            }
        }
        self.adaptive.record(namespace, sample.limit_sample(), admitted, now);
    }

    /// How long a resource takes for one request, by the answers of the last seconds.
    pub fn service_times(&self) -> ServiceTimes {
        lock(&self.control).service_times.clone()
    }

    /// How the bound is found.
    pub(crate) fn concurrency(&self) -> Concurrency {
        match self.adaptive.algorithm() {
            Some(algorithm) => Concurrency::Adaptive(algorithm),
            None if self.instances().is_some() => Concurrency::PerInstance,
            None => Concurrency::Fixed,
        }
    }

    /// Sets the bound, with the reserve that the load level asks for.
    fn set_places(&self, control: &ResourceControl, places: u64) {
        let is_emergency = control.levels.level() == LoadLevel::Emergency;
        let reserve = if is_emergency { places * u64::from(control.config.reserve) / 100 } else { 0 };
        self.in_flight.set_max(places, reserve);
    }

    fn move_cursors(&self, control: &ResourceControl, now: Timestamp) {
        self.binding_signal.store(number_of(control.cursor.binding_signal(now)), Ordering::Relaxed);
        if let Some(pinned) = control.cursor.pinned(now) {
            self.namespaces.set_all(NamespaceCursor::from_cursor(pinned));
            return;
        }
        let config = control.config.queue.unwrap_or_default();
        let parts = PromisedParts { config: &config, shares: &control.shares };
        self.namespaces.set_each(&control.cursor.positions(parts));
    }
}

/// The signals that an atomic holds, at the position of their number.
const SIGNALS: [BindingSignal; 4] =
    [BindingSignal::InFlight, BindingSignal::Pressure, BindingSignal::Pin, BindingSignal::QueueDelay];

fn number_of(signal: BindingSignal) -> u8 {
    SIGNALS.iter().position(|known| *known == signal).unwrap_or(0) as u8
}

fn signal_of(number: u8) -> BindingSignal {
    SIGNALS.get(usize::from(number)).copied().unwrap_or_default()
}

/// The part of the places in use, on average over a tick. A queue that was never empty wanted all
/// of them for the whole tick, although each arrival from it saw the place that was free for it.
fn in_use(measures: &TickMeasures<'_>) -> f64 {
    let is_full = measures.queue.is_some_and(|queue| !queue.is_empty && queue.delay_ratio > 0.0);
    if is_full { 1.0 } else { measures.utilization }
}
