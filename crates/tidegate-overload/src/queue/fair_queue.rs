//! The queue of one resource: which of its waiting requests is served next, and which is not worth
//! serving any more.
//!
//! - **Order.** Three levels of start-time fair queuing: the classes by weight, within a class the
//!   namespaces by their shares, and within a namespace its tenants in equal parts. `critical_plus`
//!   goes first up to a share of the service; a background class goes last except for a share.
//!   Within a tenant the earliest request is first, or the newest, for the classes of
//!   [`QueueConfig::lifo`] while their queue stands.
//! - **Tickets.** Requests with a ticket for this time are served before all others up to
//!   [`QueueConfig::ticket_share`] of the service, and are the first of their class beyond it. They
//!   are shed neither by delay nor for others of their class.
//! - **Delay.** [`DelayControl`] sheds what has waited too long in a queue that stands. The target
//!   is at least twice the time between two departures, so that a slow resource with few places is
//!   not emptied.
//! - **Deadlines.** A request is refused when its turn comes after [`Entrant::until`], or when less
//!   than a typical service time is left until its deadline: after a suspension of the machine,
//!   all that waited through it is refused rather than served in a burst.
//!   [`FairQueue::is_hopeless`] says the same in advance.
//! - **Bounds.** At most [`NAMESPACES_MAX`](crate::NAMESPACES_MAX) namespaces have a part of their
//!   own, and [`QueueConfig::flows_max`] tenants of a class, divided by its namespaces, a
//!   sub-queue. The requests of further tenants are distributed over 128 sub-queues of their
//!   namespace by shuffle sharding. Each tenant joins the shortest of 6, and shares it with a
//!   tenant that floods its own 6 with a chance of 2e-10 (0.002 with eight such tenants). The
//!   number of requests is bounded by the [`WaitingRoom`](crate::WaitingRoom), which asks the queue
//!   whom to displace.
//!
//! The queue is a plain value without a clock. A caller asks [`FairQueue::next`] whom to call,
//! [`FairQueue::turn`] when that request is about to take a place, and says by
//! [`FairQueue::served`] that it got one. Each of these takes O(log n) for n requests.
//!
//! Sources: Goyal, Vin and Cheng, "Start-time Fair Queuing" (SIGCOMM 1996), whose finish tags need
//! no cost in advance; Kubernetes API Priority and Fairness for the correction of costs after the
//! work and for shuffle sharding; `folly::Codel` and "Fail at Scale" (Maurer, 2015) for the control
//! of delay and the newest request first.

mod arrival_shed;
mod class_queue;
mod class_schedule;
mod delay_control;
mod fair_schedule;
mod flow;
mod namespace_delay;
mod namespace_queue;
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "an average of microseconds, which are not negative"
)]
mod place_times;
mod queue_config;
mod queue_terms;
mod queue_tick;
mod queued_request;
mod service_rate;
mod tick_report;
mod turn;
mod turn_verdict;
mod victim;
mod wait_estimate;

use core::time::Duration;
use std::collections::BTreeMap;

use tidegate_core::{Class, Cost, Timestamp};

use crate::activity::time_counts::TimeCounts;
use crate::namespaces::{NamespaceKey, NamespaceShares};
use crate::places::place_bounds::PlaceBounds;
use crate::places::service_times::ServiceTimes;
use crate::queue::position_map::PositionMap;
use crate::queue::waiting_room::{Entrant, Position};
pub use arrival_shed::ArrivalShed;
use class_queue::{ClassQueue, CorrectedCost};
use class_schedule::ClassSchedule;
pub use delay_control::DelayControl;
use flow::TenantKey;
use namespace_delay::NamespaceDelay;
use place_times::PlaceTimes;
pub use queue_config::{QueueConfig, QueueConfigError, Share};
pub(crate) use queue_terms::QueueTerms;
pub use queue_tick::{QueueCounts, QueueTick};
use queued_request::QueuedRequest;
use service_rate::ServiceRate;
pub use turn_verdict::{QueueShed, TurnVerdict};

/// The most of one request's cost that counts.
const COST_MAX: u64 = u32::MAX as u64;

/// The most typical requests by which the end of one changes what its class is charged.
const CLASS_CORRECTION: u64 = 8;

/// The way in which a request leaves the queue without being served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Departure {
    Cancelled,
    /// It is refused for another reason than its wait.
    Refused,
    Displaced,
    /// It waits for something else.
    Moved,
}

/// The fair queue of one resource.
///
/// ```
/// # use std::time::Duration;
/// # use tidegate_core::{Class, Timestamp};
/// # use tidegate_overload::{
/// #     Entrant, FairQueue, Group, Obstacle, QueueConfig, RoomBounds, TurnVerdict, WaitingRoom,
/// # };
/// # use tidegate_overload::{Overload, ResourceConfig};
/// # let overload = Overload::new(ResourceConfig::new(1), 7)?;
/// # let resource = overload.find(None).expect("it is the default resource");
/// let now = Timestamp::from_secs(1_800_000_000);
/// let mut room: WaitingRoom = WaitingRoom::new(RoomBounds::new(1024, 64 << 20));
/// room.set_queues([(resource, QueueConfig::default())], now);
/// let place = Obstacle::Place(resource);
/// let group = Group { namespace: 1, resource: Some(resource) };
/// let mut enter = |tenant| {
///     let entrant = Entrant::new(group, Class::Critical, place).tenant(Some(tenant));
///     room.enter(entrant, now).map(|entered| entered.position)
/// };
/// let (first, second, other) = (enter(1)?, enter(1)?, enter(2)?);
/// assert_eq!(room.turn(first, now), TurnVerdict::Go);
/// // Tenant 1 has been served, so tenant 2 is next although it came last.
/// assert_eq!(room.served(first, now).called, Some(other));
/// assert_eq!(room.turn(second, now), TurnVerdict::Wait);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct FairQueue {
    config: QueueConfig,
    shares: NamespaceShares,
    classes: [ClassQueue; 4],
    /// The requests with tickets, by class, and their number.
    ticketed: [ClassQueue; 4],
    tickets: usize,
    schedule: ClassSchedule,
    /// The delay of each namespace of a class that has waited lately.
    delays: [BTreeMap<NamespaceKey, NamespaceDelay>; 4],
    requests: PositionMap<QueuedRequest>,
    rate: ServiceRate,
    times: PlaceTimes,
    /// `None`: a namespace may have all places.
    place_bounds: Option<PlaceBounds>,
    /// The instants since which each class, and the whole queue, has never been empty.
    busy_since: [Option<Timestamp>; 4],
    queue_busy_since: Option<Timestamp>,
    counts: [QueueCounts; 4],
    /// The waits of the requests of each class that were served since they were taken last.
    waits: [TimeCounts; 4],
    tick: TickState,
}

/// The figures that the next [`FairQueue::tick`] reports.
#[derive(Clone, Copy, Debug)]
struct TickState {
    was_empty: bool,
    cost_served: u64,
    departures: u64,
    shed: [u64; 4],
}

impl TickState {
    const fn new(was_empty: bool) -> Self {
        Self { was_empty, cost_served: 0, departures: 0, shed: [0; 4] }
    }
}

impl FairQueue {
    /// An empty queue. The settings are to be those that [`QueueConfig::check`] accepts, which
    /// building an [`Overload`](crate::Overload) plane ensures. Of others, a weight of 0
    /// counts as 1 and a delay target of 0 as 1 ns; all else is taken as it is.
    pub fn new(config: QueueConfig) -> Self {
        Self {
            config,
            shares: NamespaceShares::default(),
            classes: Default::default(),
            ticketed: Default::default(),
            tickets: 0,
            schedule: ClassSchedule::default(),
            delays: Default::default(),
            requests: PositionMap::default(),
            rate: ServiceRate::default(),
            times: PlaceTimes::default(),
            place_bounds: None,
            busy_since: [None; 4],
            queue_busy_since: None,
            counts: [QueueCounts::default(); 4],
            waits: Default::default(),
            tick: TickState::new(true),
        }
    }

    /// The settings.
    pub const fn config(&self) -> &QueueConfig {
        &self.config
    }

    /// Goes on with other settings; what waits keeps its place.
    pub fn reconfigure(&mut self, config: QueueConfig) {
        self.config = config;
    }

    /// Sets the shares of the namespaces within each class; those that wait have them from their
    /// next request on.
    pub fn set_shares(&mut self, shares: NamespaceShares) {
        self.shares = shares;
    }

    /// Sets how long the resource takes for one request: a request with less time left than its
    /// namespace needs is refused. Zero, the default: none is.
    pub fn set_service_times(&mut self, times: ServiceTimes) {
        self.times.set_typical(times);
    }

    /// Sets the bounds of the namespaces on places. A namespace that has as many as it may is
    /// passed over. Default: none.
    pub fn set_place_bounds(&mut self, bounds: PlaceBounds) {
        self.place_bounds = Some(bounds);
    }

    /// The charge for a tenant's request when its work begins: how long the tenant's requests keep
    /// a place on recent average, in microseconds, or else the typical time of the resource.
    pub fn estimate(&self, namespace: u32, tenant: Option<u64>) -> Cost {
        self.times.estimate(namespace, tenant)
    }

    /// Corrects what a request was charged, by the time for which it kept its place; at least a
    /// tenth of the typical time. Its namespace is charged the time itself, its tenant and its
    /// class the recent average of each, as the tenant's next requests are.
    pub fn settle(&mut self, entrant: &Entrant, held: Duration, now: Timestamp) {
        let group = entrant.group;
        let charge = self.times.learn(group.namespace, entrant.tenant, entrant.class, held, now);
        let [tenant, class, namespace] =
            [charge.tenant, charge.class, charge.namespace].map(|cost| u64::from(charge_of(cost)));
        let charged = u64::from(charge_of(entrant.cost));
        self.correct_charge(entrant, CorrectedCost { charged, tenant, namespace }, class);
    }

    /// The number of requests that wait.
    pub fn count(&self) -> usize {
        self.requests.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// The namespaces that have requests of a class here, each with their number.
    pub(crate) fn namespaces(&self) -> impl Iterator<Item = (NamespaceKey, usize)> + '_ {
        let of_all = self.classes.iter().chain(&self.ticketed).flat_map(ClassQueue::ready);
        of_all.map(|(namespace, _, queue)| (namespace, queue.count()))
    }

    /// The requests that wait, by namespace and class; the namespaces that are not told apart have
    /// no number.
    pub fn waiting(&self) -> impl Iterator<Item = (Option<u32>, Class, u64)> + '_ {
        let all = || Class::ALL.into_iter();
        let classes = all().zip(&self.classes).chain(all().zip(&self.ticketed));
        classes.flat_map(|(class, queue)| {
            queue.ready().map(move |(namespace, _, queue)| (namespace.number(), class, queue.count() as u64))
        })
    }

    /// Whether a request waits here.
    pub fn contains(&self, position: Position) -> bool {
        self.requests.contains(position)
    }

    /// Lets a request wait, at the end of its tenant's sub-queue or, with an earlier arrival, where
    /// this puts it.
    pub fn push(&mut self, position: Position, entrant: &Entrant, now: Timestamp) {
        self.push_since(position, entrant, now, now);
    }

    /// [`FairQueue::push`] for a request whose wait began before.
    pub(crate) fn push_since(
        &mut self,
        position: Position,
        entrant: &Entrant,
        since: Timestamp,
        now: Timestamp,
    ) {
        let class = entrant.class;
        let (flows_max, tenant, cost) = (self.config.flows_max, tenant_of(entrant), charge_of(entrant.cost));
        let lines = lines_of(&mut self.ticketed, &mut self.classes, entrant.has_ticket);
        let line = &mut lines[class as usize];
        let flow = line.push(position, tenant, cost, flows_max, &self.shares);
        if entrant.has_ticket {
            self.tickets += 1;
        } else {
            let delay = self.delays[class as usize].entry(line.namespace_of(flow));
            delay.or_insert_with(NamespaceDelay::new).enter(now);
        }
        let request = QueuedRequest {
            since,
            until: entrant.until,
            deadline: entrant.deadline.unwrap_or(Timestamp::MAX),
            tenant: entrant.tenant.unwrap_or(0),
            cost,
            flow,
            class,
            has_tenant: entrant.tenant.is_some(),
            has_ticket: entrant.has_ticket,
            shed: None,
        };
        self.requests.insert(position, request);
        self.counts[class as usize].entered += 1;
        self.busy_since[class as usize].get_or_insert(now);
        self.queue_busy_since.get_or_insert(now);
        self.change_order(class, now);
    }

    /// Turns the order of a class round once its queue stands.
    fn change_order(&mut self, class: Class, now: Timestamp) {
        let since = self.busy_since[class as usize];
        let stands = since.is_some_and(|since| now.saturating_since(since) >= QueueConfig::LIFO_AFTER);
        self.classes[class as usize].is_lifo = stands && self.config.lifo[class as usize];
    }

    /// The request that is next.
    pub fn next(&self) -> Option<Position> {
        if self.tickets > 0
            && self.schedule.is_reserved_for_tickets(&self.config)
            && let Some(next) = Class::ALL.into_iter().rev().find_map(|class| self.next_ticketed(class))
        {
            return Some(next);
        }
        let next = Class::ALL.map(|class| self.next_of(class));
        next[self.schedule.next(&self.config, next.map(|next| next.is_some()))? as usize]
    }

    /// The request of a class that is next, of the namespaces that may take a place.
    fn next_of(&self, class: Class) -> Option<Position> {
        if self.tickets > 0
            && let Some(next) = self.next_ticketed(class)
        {
            return Some(next);
        }
        self.classes[class as usize].next(|namespace| self.may_take_place(namespace, class))
    }

    /// The request of a class that is next of those with tickets.
    fn next_ticketed(&self, class: Class) -> Option<Position> {
        self.ticketed[class as usize].next(|namespace| self.may_take_place(namespace, class))
    }

    /// The requests of a class with tickets, or those without.
    fn line(&self, class: Class, has_ticket: bool) -> &ClassQueue {
        &lines_of(&self.ticketed, &self.classes, has_ticket)[class as usize]
    }

    fn line_mut(&mut self, class: Class, has_ticket: bool) -> &mut ClassQueue {
        &mut lines_of(&mut self.ticketed, &mut self.classes, has_ticket)[class as usize]
    }

    /// Whether a request of this class or a higher one waits that may take a place.
    pub fn has_taker_from(&self, class: Class) -> bool {
        Class::ALL[class as usize..].iter().any(|class| self.next_of(*class).is_some())
    }

    /// Whether a namespace may take one more place for a request of a class.
    fn may_take_place(&self, namespace: NamespaceKey, class: Class) -> bool {
        self.place_bounds.as_ref().is_none_or(|bounds| bounds.allow(namespace, class))
    }

    fn waits(&self) -> [bool; 4] {
        let waits = |class: Class| {
            !self.classes[class as usize].is_empty() || !self.ticketed[class as usize].is_empty()
        };
        Class::ALL.map(waits)
    }

    /// A request got its place: it leaves, and its class, namespace and tenant are charged. The
    /// charge; `None` if it does not wait here.
    pub fn served(&mut self, position: Position, now: Timestamp) -> Option<Cost> {
        self.charge(position).map(|request| {
            self.count_wait(request.class, now.saturating_since(request.since));
            self.departed(u64::from(request.cost), now);
            self.take(position, None);
            self.change_order(request.class, now);
            cost_of(request.cost)
        })
    }

    /// A request of this cost goes to be served.
    fn departed(&mut self, cost: u64, now: Timestamp) {
        self.rate.departed(cost, now);
        self.tick.cost_served = self.tick.cost_served.saturating_add(cost);
        self.tick.departures += 1;
    }

    /// Charges a request that is still in the queue.
    fn charge(&mut self, position: Position) -> Option<QueuedRequest> {
        let request = *self.requests.get(position)?;
        let cost = u64::from(request.cost);
        self.line_mut(request.class, request.has_ticket).charge(request.flow, cost);
        let waits = self.waits();
        let is_reserved = self.charge_tickets(&request);
        self.schedule.charge(&self.config, request.class, cost, waits, is_reserved);
        Some(request)
    }

    /// Notes what requests with tickets got of the service that others wanted as well. Whether this
    /// request is served out of the part that is reserved for them.
    fn charge_tickets(&mut self, request: &QueuedRequest) -> bool {
        if self.tickets == 0 {
            return false;
        }
        let is_reserved = request.has_ticket && self.schedule.is_reserved_for_tickets(&self.config);
        if self.tickets < self.requests.len() {
            self.schedule.record_tickets(u64::from(request.cost), request.has_ticket);
        }
        is_reserved
    }

    /// A request leaves without being served.
    pub fn cancel(&mut self, position: Position) {
        self.take(position, Some(Departure::Cancelled));
    }

    /// Takes a request out; `None` for a departure that is counted already. Returns the terms under
    /// which it can wait here again, if it waited here.
    pub(crate) fn take(&mut self, position: Position, departure: Option<Departure>) -> Option<QueueTerms> {
        let request = self.requests.remove(position)?;
        let class = request.class as usize;
        let line = self.line_mut(request.class, request.has_ticket);
        let namespace = line.namespace_of(request.flow);
        let is_last = line.remove(request.flow, position, request.cost);
        if request.has_ticket {
            self.tickets -= 1;
        } else if is_last && let Some(delay) = self.delays[class].get_mut(&namespace) {
            delay.emptied();
        }
        let counts = &mut self.counts[class];
        match (departure, request.shed) {
            (None, _) => {}
            (Some(_), Some(QueueShed::Delay)) => counts.shed_by_delay += 1,
            (Some(_), Some(QueueShed::Expired)) => counts.expired += 1,
            (Some(_), Some(QueueShed::TooLate)) => counts.too_late += 1,
            (Some(Departure::Cancelled), None) => counts.cancelled += 1,
            (Some(Departure::Refused), None) => counts.refused += 1,
            (Some(Departure::Displaced), None) => counts.displaced += 1,
            (Some(Departure::Moved), None) => counts.moved += 1,
        }
        if self.classes[class].is_empty() && self.ticketed[class].is_empty() {
            self.busy_since[class] = None;
            self.classes[class].is_lifo = false;
        }
        if self.requests.is_empty() {
            self.queue_busy_since = None;
            self.tick.was_empty = true;
            self.rate.emptied();
            self.schedule.rest();
        }
        Some(QueueTerms {
            tenant: request.has_tenant.then_some(request.tenant),
            cost: cost_of(request.cost),
            until: request.until,
            deadline: Some(request.deadline).filter(|deadline| *deadline < Timestamp::MAX),
            since: Some(request.since),
            has_ticket: request.has_ticket,
            is_charged: false,
        })
    }

    /// Corrects what the class, the namespace and the tenant of a served request were charged, now
    /// that its cost is known. The entrant says how it was charged. The class bears no more of the
    /// difference than `CLASS_CORRECTION` typical requests cost: no number of one caller starves
    /// the others of its class.
    pub fn correct(&mut self, entrant: &Entrant, cost: Cost) {
        let (charged, cost) = (u64::from(charge_of(entrant.cost)), u64::from(charge_of(cost)));
        self.correct_charge(entrant, CorrectedCost { charged, tenant: cost, namespace: cost }, cost);
    }

    /// Takes back what a request was charged that was not served after all.
    pub(crate) fn refund(&mut self, entrant: &Entrant) {
        let charged = u64::from(charge_of(entrant.cost));
        self.correct_charge(entrant, CorrectedCost { charged, tenant: 0, namespace: 0 }, 0);
    }

    /// Corrects the charges of a request, of which `class` is the one of its class.
    fn correct_charge(&mut self, entrant: &Entrant, costs: CorrectedCost, class: u64) {
        let lines = lines_of(&mut self.ticketed, &mut self.classes, entrant.has_ticket);
        let (line, flows_max) = (&mut lines[entrant.class as usize], self.config.flows_max);
        let charged = costs.charged;
        line.correct(tenant_of(entrant), costs, flows_max, &self.shares);
        if !self.is_empty() {
            let most = self.times.typical_charge().saturating_mul(CLASS_CORRECTION);
            let cost = class.clamp(charged.saturating_sub(most), charged.saturating_add(most));
            self.schedule.correct(&self.config, entrant.class, charged, cost);
        }
    }

    /// Charges a request and takes it out: it waits for an answer before it is served or comes
    /// back, and its tenant's other requests are not to be served meanwhile as if it were not.
    pub(crate) fn set_aside(&mut self, position: Position) -> Option<QueueTerms> {
        self.charge(position);
        let aside = self.take(position, Some(Departure::Moved))?;
        Some(QueueTerms { is_charged: true, ..aside })
    }

    /// Counts a request that is served after this time.
    fn count_wait(&mut self, class: Class, wait: Duration) {
        let counts = &mut self.counts[class as usize];
        counts.served += 1;
        counts.wait_sum = counts.wait_sum.saturating_add(wait);
        self.waits[class as usize].add(wait);
    }

    /// Takes out how long the requests of each class have waited that were served since the last
    /// call, in the order of [`Class::ALL`].
    pub fn take_waits(&mut self) -> [TimeCounts; 4] {
        core::mem::take(&mut self.waits)
    }

    /// A request that was set aside is served.
    pub(crate) fn served_aside(&mut self, entrant: &Entrant, since: Timestamp, now: Timestamp) {
        let counts = &mut self.counts[entrant.class as usize];
        counts.moved = counts.moved.saturating_sub(1);
        self.count_wait(entrant.class, now.saturating_since(since));
        self.departed(u64::from(charge_of(entrant.cost)), now);
        if self.is_empty() {
            self.rate.emptied();
        }
    }

    /// The counters of a class.
    pub fn counts(&self, class: Class) -> QueueCounts {
        let class = class as usize;
        let waiting = self.classes[class].count() + self.ticketed[class].count();
        QueueCounts { waiting: waiting as u64, ..self.counts[class] }
    }
}

/// The lines of the requests with tickets, or those of the others. `T` is a reference to them.
fn lines_of<T>(ticketed: T, others: T, has_ticket: bool) -> T {
    if has_ticket { ticketed } else { others }
}

/// The units that a request is charged.
fn charge_of(cost: Cost) -> u32 {
    cost.units().min(COST_MAX) as u32
}

fn cost_of(charge: u32) -> Cost {
    Cost::new(u64::from(charge)).unwrap_or(Cost::ONE)
}

fn tenant_of(entrant: &Entrant) -> TenantKey {
    TenantKey { namespace: entrant.group.namespace, tenant: entrant.tenant }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests;
