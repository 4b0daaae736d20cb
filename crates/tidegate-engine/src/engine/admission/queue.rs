//! Requests that may wait: into the waiting room after a refusal that will pass, and on from there.
//!
//! A request that waits holds nothing but its position. When it is called, or its time has come, it
//! begins anew as a repeated attempt, so that its demand is not counted twice.

use core::hash::{BuildHasher, Hash, Hasher};
use core::time::Duration;
use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_core::gate::LocatedCounters;
use tidegate_core::{AccessOperation, Class, Gate, Plane, Reason, Refusal, RefusalDetails, Retry, Timestamp};
use tidegate_overload::{
    ArrivalShed, Entrant, Group, Obstacle, Overload, PlaceRefusal, QueueCounts, QueueShed, RequestRecord,
    ResourceId, RoomBounds, RoomUse, TicketNumber, TurnVerdict,
};

use super::answer::{Mode, Stop};
use super::feature::offer;
use super::refusal::{drained, late_for, past_deadline, queue_full, shed_by, undecidable};
use super::waited::Waited;
use super::{PASSED, ask_about_one};
use crate::continuation::{Denial, KeptCounters, Pending, Queued, WaitableRequest, Waiting};
use crate::decision::{Decision, Refused, Step};
use crate::demand::{Demand, outcome_of, outcome_of_error};
use crate::engine::{Engine, hasher};
use crate::error::RequestError;
use crate::meter_rows::Offered;
use crate::permit::{Holds, IssuingGate, Permit};
use crate::place::lacks_in_flight_place;
use crate::request::{OwnedRequest, Request};
use crate::spent_ticket::{HeldTicket, SpentTicket};
use crate::waiting_room::{AtTurn, CallReason, Room, RoomAnswer, Seat};

/// How long a request may wait for a place with a ticket in its time, also where others of its
/// class may wait for less: a second, and at most three quarters of the time until its deadline.
/// Callers that wait for whole seconds, as `Retry-After` has them, come back with all the tickets
/// of a second at once if they were refused at once.
const TICKET_WAIT: Duration = Duration::from_secs(1);

impl Engine {
    /// Sets how many requests may wait, and how much memory their callers may hold meanwhile;
    /// each namespace has its share of both, and within a namespace each resource. Where `bounds`
    /// does not say how many namespaces or resources there are, those of this engine count.
    pub fn set_waiting_bounds(&self, bounds: RoomBounds) {
        self.shared.room.set_bounds(bounds);
        self.share_waiting_room();
    }

    /// Sets how much memory all requests that wait may hold, those for resources with a bound of
    /// their own included. Half of it is guaranteed to the namespaces of the engine in equal
    /// shares, the other half goes to the first that asks. Default: no such bound.
    pub fn set_waiting_bytes(&self, bytes: usize) {
        self.shared.room.set_total_bytes(bytes);
        self.share_waiting_room();
    }

    /// Divides the waiting room by the namespaces and resources of this engine.
    pub(crate) fn share_waiting_room(&self) {
        // Those of the default resource, or of none, are a group of their own. Resources with
        // bounds of their own take no part.
        let overload = self.overload();
        let all = overload.into_iter().flat_map(Overload::resources);
        let bounded = overload.into_iter().flat_map(Overload::waiting_bounds).count();
        let resources = all.filter(|(_, name)| name.is_some()).count().saturating_sub(bounded) + 1;
        self.shared.room.share_by(self.gates.len(), resources);
        if let Some(state) = self.shared.rehearsal.get() {
            state.room().set_bounds(self.shared.room.bounds());
            state.room().share_by(self.gates.len(), resources);
        }
    }

    /// Tells each resource what its queue saw since the last tick, and each queue how long its
    /// resource takes for a request.
    pub(crate) fn observe_queues(&self, overload: &Overload, now: Timestamp) {
        for (resource, _) in overload.queues() {
            let times = overload.resource(resource).service_times();
            let bounds = overload.resource(resource).place_bounds();
            if let Some((tick, waits)) = self.room_of(resource).tick(resource, times, bounds, now) {
                overload.resource(resource).observe_queue(tick.observation());
                overload.resource(resource).observe_waits(&waits);
            }
        }
    }

    /// The counters of the queue of a resource by class, in the order of [`Class::ALL`]; `None` if
    /// requests wait for it in no fair queue.
    pub fn queue_counts(&self, resource: ResourceId) -> Option<[QueueCounts; Class::ALL.len()]> {
        self.room_of(resource).queue_counts(resource)
    }

    /// The number of requests that wait for their turn.
    pub fn waiting(&self) -> usize {
        self.shared.room.count()
    }

    /// The requests that wait for their turn, and the memory that their callers hold.
    pub fn waiting_use(&self) -> RoomUse {
        self.shared.room.used()
    }

    /// Refuses all requests that wait for their turn, as well as those that would wait from now on:
    /// the process stops.
    pub fn drain_waiting(&self) {
        self.shared.room.drain();
    }

    /// [`Engine::admit`] for a request that may wait for its turn, or has waited for it.
    pub(crate) fn admit_patient(
        &self,
        request: &Request<'_>,
        waited: Waited<'_>,
        mut demand: Option<Demand>,
        seat: Option<Seat>,
        counters: Option<Box<KeptCounters>>,
        now: Timestamp,
    ) -> Result<Step<'static>, RequestError> {
        let room = &self.shared.room;
        let returns = room.returns();
        let (gate, issuer) = match self.gate_of(request) {
            Ok(found) => found,
            Err(error) => {
                if let Some(demand) = demand {
                    demand.end(outcome_of_error(true), now);
                }
                return Err(error);
            }
        };
        let known = counters.filter(|kept| kept.generation == self.generation);
        let found = if known.is_some() { None } else { gate.locate_counters(request.attributes, now) };
        let counters = known.as_deref().map(|kept| &kept.counters).or(found.as_ref());
        if seat.is_none()
            && room.count() > 0
            && let Some((request, place)) = self.join_line(request, (gate, issuer), &waited, counters, now)
        {
            let resource = self.resource_of(&request);
            let of = Offered { request: &request, issuer, resource, now };
            let demand = demand.take().or_else(|| self.demand_at(&of, gate));
            let owned = OwnedRequest::new(&request, gate.shared_namespace());
            let counters = self.kept(known, found);
            let terms = WaitTerms { refusal: None, ask_at: Timestamp::MIN, until: until(&request) };
            return Ok(queued(owned, counters, place, demand, terms));
        }
        let mut located = self.locate(request, (gate, issuer), &waited, now);
        located.counters = counters;
        let mut holds = None;
        let answer = self.walk(&mut located, Mode::Charge, &mut holds, now);
        match answer {
            Ok(()) => {
                let Some(question) = located.question.take() else {
                    if let (Some(seat), Some(holds)) = (seat, &mut holds) {
                        let entrant = self.entrant_at_place(gate, request, waited.had_ticket);
                        serve(seat, entrant, holds, now);
                    }
                    self.count_admitted(&located, &mut holds, demand, now);
                    return Ok(Step::Decided(Decision::Admit(Permit::of_one(holds.expect(PASSED)))));
                };
                let seat = seat.map(|seat| aside(seat, now));
                let has_ticket = waited.had_ticket;
                let entrant = seat.as_ref().and_then(|_| self.entrant_at_place(gate, request, has_ticket));
                let request = OwnedRequest::new(request, gate.shared_namespace());
                let waitable = Some(Box::new(WaitableRequest { request, seat, entrant, returns }));
                let origin = self.origin(&located, gate, demand, waitable, now);
                Ok(ask_about_one(question, holds.expect(PASSED), origin, now))
            }
            Err(Stop::Refuse(by_plane)) => {
                let refusal = located.refused(by_plane).into_refusal();
                let demand = self.demand(demand, &located, now);
                let ticket = located.ticket;
                drop(located);
                let counters = self.kept(known, found);
                let denial = Denial { refusal, demand, seat, returns, counters, ticket };
                Ok(self.wait_or_refuse(request, denial, now))
            }
            Err(Stop::Wait(flights)) => {
                let demand = self.demand(demand, &located, now);
                let seat = seat.map(|seat| aside(seat, now));
                Ok(Step::Ask(Pending(self.park_one(request, flights, waited.rounds, demand, seat))))
            }
            Err(Stop::Fail(error)) => {
                let outcome = outcome_of_error(demand.is_some());
                self.decided(demand, &located, outcome, now);
                Err(*error)
            }
        }
    }

    /// Lets a new request join the line of others that wait for one of its counters or for a place,
    /// so that it does not take what they wait for. Returns the request as it waits, its position,
    /// and whether it is the first of its line. `None` if there is no such line, or no room, or if
    /// its limits refuse it for longer than it may wait, which its attempt reports.
    #[cold]
    fn join_line<'r>(
        &self,
        request: &Request<'r>,
        (gate, issuer): (&Arc<Gate>, IssuingGate),
        waited: &Waited<'_>,
        counters: Option<&LocatedCounters>,
        now: Timestamp,
    ) -> Option<(Request<'r>, (Seat, bool))> {
        let (returns, until) = (self.shared.room.returns(), until(request));
        if until <= now {
            return None;
        }
        let mut located = self.locate(request, (gate, issuer), waited, now);
        located.counters = counters;
        let mut holds = None;
        // Its own limits are looked at, not charged: a request that they refuse for longer than it
        // may wait gains nothing in a line. Its attempt reports that.
        match self.walk(&mut located, Mode::LookAtLimits, &mut holds, now) {
            Ok(()) => {}
            Err(Stop::Refuse(by_plane)) => {
                let refusal = located.refused(by_plane).into_refusal();
                let obstacle = self.obstacle_of(&refusal, request, now);
                obstacle.filter(|(_, ask_at)| *ask_at <= until && refusal.plane() == Plane::Limits)?;
            }
            Err(Stop::Wait(_) | Stop::Fail(_)) => return None,
        }
        let keys: SmallVec<[u64; 4]> = match located.counters {
            Some(counters) => counters.keys().collect(),
            None => gate.counter_keys(request.attributes, now).iter().map(|(_, key)| *key).collect(),
        };
        let counters = keys.into_iter().map(Obstacle::Counter);
        let place = self.resource_of(request).filter(|_| request.end_known);
        let ticket = located.ticket.and_then(|number| self.hold_ticket(request, number, now));
        let request = with_wait_of_ticket(*request, ticket.is_some(), now);
        let place = place.filter(|resource| !self.is_shadow(*resource)).map(Obstacle::Place);
        let place = place.filter(|place| ticket.is_some() || !self.is_deferred_at(*place, &request));
        let obstacles: SmallVec<[Obstacle; 4]> =
            counters.chain(self.lines_for_units(&request, now)).chain(place).collect();
        let (first, kept) = (*obstacles.first()?, KeptCounters::bytes(located.counters));
        let entrant =
            self.new_entrant(gate, &request, first, located.record, kept).has_ticket(ticket.is_some());
        let (room, record) = (&self.shared.room, located.record.filter(|_| ticket.is_none()));
        match Room::join(room, (entrant, ticket), &obstacles, request.class, returns, now) {
            RoomAnswer::Waits { seat, is_next } => {
                if let Some((overload, record)) = self.overload().zip(record) {
                    self.count_useless_ticket(&request, overload.resource(record.resource()), now);
                }
                Some((request, (seat, is_next)))
            }
            RoomAnswer::Shed(_) | RoomAnswer::Full | RoomAnswer::NoLine => None,
        }
    }

    /// Spends the ticket of a request that begins to wait; `None` if it is not good any more.
    fn hold_ticket(&self, request: &Request<'_>, number: TicketNumber, now: Timestamp) -> Option<HeldTicket> {
        let resource = self.overload()?.shared_resource(self.resource_of(request)?);
        SpentTicket::spend(resource, number, self.ticket_time(now)).map(HeldTicket::new)
    }

    /// Whether a request without a ticket is deferred rather than wait for a place.
    fn is_deferred_at(&self, obstacle: Obstacle, request: &Request<'_>) -> bool {
        let Obstacle::Place(id) = obstacle else { return false };
        self.overload().is_some_and(|overload| overload.resource(id).defers_before_queue(request.class))
            && self.shared.tickets.has_keys()
    }

    /// The counters of a request as it keeps them while it waits.
    fn kept(
        &self,
        known: Option<Box<KeptCounters>>,
        found: Option<LocatedCounters>,
    ) -> Option<Box<KeptCounters>> {
        let found = found.filter(|counters| !counters.is_empty());
        known.or_else(|| Some(Box::new(KeptCounters { generation: self.generation, counters: found? })))
    }

    /// [`Engine::target_of`] for a request whose namespace may be gone since it waits.
    fn named_target_of(&self, request: &Request<'_>, now: Timestamp) -> Option<RequestRecord> {
        self.target_of(self.gate(request.namespace).ok()?, request, now)
    }

    /// Offers a request that waits before its first attempt. Of a repeated attempt its resource
    /// counts nothing.
    fn demand_at(&self, of: &Offered<'_, '_>, gate: &Gate) -> Option<Demand> {
        let target = self.target_of(gate, of.request, of.now);
        let new = target.filter(|target| self.is_new(of.request, target));
        let counted = self.overload().zip(new).map(|(overload, mut record)| {
            let feature = self.feature_at(of.request, &record);
            offer(overload, &mut record, feature, of.now);
            record
        });
        self.demand_of(None, of, counted)
    }

    /// A request as the fair queue of its resource knows it; `None` without a resource.
    fn entrant_at_place(&self, gate: &Gate, request: &Request<'_>, has_ticket: bool) -> Option<Entrant> {
        let resource = self.resource_of(request)?;
        Some(self.entrant(gate, request, Obstacle::Place(resource)).has_ticket(has_ticket))
    }

    /// A request that is about to wait, with its rank if it is one of the least important. It keeps
    /// so many bytes beside its copy.
    pub(crate) fn new_entrant(
        &self,
        gate: &Gate,
        request: &Request<'_>,
        obstacle: Obstacle,
        target: Option<RequestRecord>,
        kept: usize,
    ) -> Entrant {
        let rank = self.overload().zip(target);
        let rank = rank.and_then(|(overload, target)| {
            overload.resource(target.resource()).marginal_rank(target.level())
        });
        let bytes = request.waiting_bytes.saturating_add(request.copied_bytes() + kept);
        self.entrant(gate, request, obstacle).bytes(bytes).marginal(rank)
    }

    fn entrant(&self, gate: &Gate, request: &Request<'_>, obstacle: Obstacle) -> Entrant {
        let namespace = u32::from(gate.owner().get());
        let group = Group { namespace, resource: self.resource_of(request) };
        Entrant::new(group, request.class, obstacle)
            .connection(request.waiting_connection)
            .tenant(self.overload().and_then(|overload| overload.tenant_hash(request.tenant)))
            .until(until(request))
            .deadline(request.deadline)
    }

    /// Lets a refused request wait, if waiting can help and there is room; else it stays refused.
    pub(crate) fn wait_or_refuse(
        &self,
        request: &Request<'_>,
        denial: Denial,
        now: Timestamp,
    ) -> Step<'static> {
        let Denial { refusal, demand, seat, returns, counters, ticket } = denial;
        let demand = demand.map(Demand::unserved);
        let obstacle = self.obstacle_of(&refusal, request, now);
        let ticket = ticket.filter(|_| seat.is_none());
        let is_for_place = matches!(obstacle, Some((Obstacle::Place(_), _)));
        let request = &with_wait_of_ticket(*request, is_for_place && ticket.is_some(), now);
        let until = until(request);
        // A request that waits for a place is called: it does not ask again by itself.
        let obstacle = obstacle.map(|(obstacle, at)| (obstacle, if is_for_place { until } else { at }));
        let obstacle = obstacle.filter(|(_, ask_at)| until > now && *ask_at <= until);
        let (Some((obstacle, ask_at)), Ok(gate)) = (obstacle, self.gate(request.namespace)) else {
            if let Some(seat) = seat {
                seat.refused();
            }
            return self.refuse_finally(refusal, request, demand, now);
        };
        let (had_ticket, ticket) =
            (ticket.is_some(), ticket.and_then(|number| self.hold_ticket(request, number, now)));
        let is_deferred = had_ticket || self.is_deferred_at(obstacle, request);
        if seat.is_none() && ticket.is_none() && is_deferred {
            return self.refuse_finally(refusal, request, demand, now);
        }
        let answer = if let Some(mut seat) = seat {
            let is_next = seat.moved(obstacle, returns, now);
            RoomAnswer::Waits { seat, is_next }
        } else {
            let kept = KeptCounters::bytes(counters.as_deref().map(|kept| &kept.counters));
            let entrant = self.new_entrant(gate, request, obstacle, self.target_of(gate, request, now), kept);
            let entrant = entrant.has_ticket(ticket.is_some());
            Room::enter(&self.shared.room, (entrant, ticket), returns, now)
        };
        let (seat, is_next) = match answer {
            RoomAnswer::Waits { seat, is_next } => (seat, is_next),
            RoomAnswer::Shed(ArrivalShed::Hopeless) => {
                return self.refuse_finally(self.hopeless(request, until, now), request, demand, now);
            }
            RoomAnswer::Shed(ArrivalShed::Marginal) => {
                return self.shed_in_queue(QueueShed::Delay, request, Some(refusal), demand, now);
            }
            // A caller over its own limit is told of that limit, whether or not it may wait.
            RoomAnswer::Full | RoomAnswer::NoLine => {
                let refusal = match obstacle {
                    Obstacle::Place(_) => self.queue_full(request, now),
                    Obstacle::Counter(_) | Obstacle::Answer(_) => refusal,
                };
                return self.refuse_finally(refusal, request, demand, now);
            }
        };
        if let (Obstacle::Place(_), Some(overload), Some(target)) =
            (obstacle, self.overload(), self.named_target_of(request, now))
        {
            overload.waits_instead(target.resource(), target.level());
        }
        let owned = OwnedRequest::new(request, gate.shared_namespace());
        let terms = WaitTerms { refusal: Some(refusal), ask_at, until };
        queued(owned, counters, (seat, is_next), demand, terms)
    }

    /// Goes on with a request that was called, or whose time has come.
    pub(crate) fn resume_turn(&self, queued: Queued, now: Timestamp) -> Step<'static> {
        let Queued { request, seat, demand, refusal, counters, ask_at, .. } = queued;
        let lists = request.lists();
        let mut asked = request.with(&lists);
        let (until, is_repeated) = (until(&asked), asked.attempt > 0);
        let AtTurn { call, verdict, obstacle, has_ticket } = seat.at_turn(now);
        if let Some(Obstacle::Place(resource)) = obstacle
            && self.is_shadow(resource)
            && matches!(call, Some(CallReason::Turn) | None)
        {
            return self.go_from_shadow(&asked, seat, demand, counters, now);
        }
        match call {
            Some(CallReason::Displaced) => {
                drop(seat);
                return self.refuse_finally(self.queue_full(&asked, now), &asked, demand, now);
            }
            Some(CallReason::Drained) => {
                seat.refused();
                return self.refuse_finally(self.drained(&asked), &asked, demand, now);
            }
            Some(CallReason::Turn) | None => {}
        }
        if let TurnVerdict::Shed(why) = verdict {
            drop(seat);
            return self.shed_in_queue(why, &asked, refusal, demand, now);
        }
        let (is_next, is_over) = (verdict == TurnVerdict::Go, now >= until);
        let is_due = call.is_some() || now >= ask_at;
        match (is_over, refusal) {
            (true, Some(refusal)) if !is_next => {
                seat.refused();
                return self.refuse_finally(refusal, &asked, demand, now);
            }
            (false, refusal) if !(is_next && is_due) => {
                drop(lists);
                let terms = WaitTerms { refusal, ask_at, until };
                return self::queued(request, counters, (seat, is_next), demand, terms);
            }
            (_, refusal) => {
                if refusal.is_some() {
                    asked.attempt = asked.attempt.max(1);
                }
            }
        }
        let next_of = obstacle.filter(|_| is_next);
        // A repeated attempt that repeats no refusal was offered when it came.
        let is_offered = demand.as_ref().is_some_and(Demand::is_counted) || is_repeated;
        let waited = Waited { is_offered, next_of, had_ticket: has_ticket, ..Waited::default() };
        if is_over {
            // The last attempt; the position is kept until it is decided.
            asked.may_wait_until = None;
        }
        let step = self.admit_patient(&asked, waited, demand, Some(seat), counters, now);
        // A reload may have removed its namespace or an attribute that it uses.
        step.unwrap_or_else(|error| {
            let refusal = undecidable(asked.namespace, error.to_string());
            Step::Decided(Decision::Refuse(Refused::from(refusal)))
        })
    }

    /// Goes on with a request whose resource is in shadow mode since it waits for a place there.
    #[cold]
    fn go_from_shadow(
        &self,
        request: &Request<'_>,
        seat: Seat,
        demand: Option<Demand>,
        counters: Option<Box<KeptCounters>>,
        now: Timestamp,
    ) -> Step<'static> {
        drop(seat);
        let waited = Waited { is_offered: true, ..Waited::default() };
        let step = self.admit_patient(request, waited, demand, None, counters, now);
        step.unwrap_or_else(|error| {
            let refusal = undecidable(request.namespace, error.to_string());
            Step::Decided(Decision::Refuse(Refused::from(refusal)))
        })
    }

    /// Refuses a request for good, with a ticket if it is to be deferred. However long it has
    /// waited, it counts with the outcome of the reason that its answer names.
    fn refuse_finally(
        &self,
        refusal: Refusal,
        request: &Request<'_>,
        demand: Option<Demand>,
        now: Timestamp,
    ) -> Step<'static> {
        let refusal = self.deferred(refusal, request, now);
        if let Some(demand) = demand {
            demand.end(outcome_of(&refusal), now);
        }
        Step::Decided(Decision::Refuse(Refused::from(refusal)))
    }

    /// Refuses a request that its queue sheds.
    fn shed_in_queue(
        &self,
        why: QueueShed,
        request: &Request<'_>,
        refusal: Option<Refusal>,
        demand: Option<Demand>,
        now: Timestamp,
    ) -> Step<'static> {
        let shed_by = |why| {
            let (overload, target) = (self.overload()?, self.named_target_of(request, now)?);
            Some(shed_by(
                request.namespace,
                &overload.refuse(target.resource(), target.level(), why),
                request,
            ))
        };
        let refusal = match why {
            QueueShed::Delay => shed_by(PlaceRefusal::Delayed),
            QueueShed::Expired => refusal.or_else(|| shed_by(PlaceRefusal::Claimed)),
            QueueShed::TooLate => Some(self.too_late(request, now)),
        };
        let refusal = refusal.unwrap_or_else(|| self.queue_full(request, now));
        self.refuse_finally(refusal, request, demand, now)
    }

    /// The refusal of a request that would wait for longer than it may, or than leaves time for its
    /// work.
    fn hopeless(&self, request: &Request<'_>, until: Timestamp, now: Timestamp) -> Refusal {
        let shed = self.overload().zip(self.named_target_of(request, now));
        match shed {
            Some((overload, target)) if !is_by_deadline(request, until) => {
                let shed = overload.refuse(target.resource(), target.level(), PlaceRefusal::Delayed);
                shed_by(request.namespace, &shed, request)
            }
            _ => self.too_late(request, now),
        }
    }

    /// The refusal that [`Engine::hopeless`] would give; counts nothing.
    pub(crate) fn would_be_hopeless(
        &self,
        request: &Request<'_>,
        until: Timestamp,
        target: RequestRecord,
    ) -> Refusal {
        let why = if is_by_deadline(request, until) { PlaceRefusal::TooLate } else { PlaceRefusal::Delayed };
        let shed = self.overload().map(|overload| {
            let shed = overload.would_refuse(target.resource(), target.level(), why);
            (why == PlaceRefusal::Delayed, shed)
        });
        match shed {
            Some((true, shed)) => shed_by(request.namespace, &shed, request),
            Some((false, shed)) => late_for(request, &shed),
            None => past_deadline(request),
        }
    }

    /// The refusal of a request whose deadline leaves the queue of its resource no time.
    fn too_late(&self, request: &Request<'_>, now: Timestamp) -> Refusal {
        let late = self.overload().zip(self.named_target_of(request, now));
        late.map_or_else(
            || past_deadline(request),
            |(overload, target)| {
                late_for(
                    request,
                    &overload.would_refuse(target.resource(), target.level(), PlaceRefusal::TooLate),
                )
            },
        )
    }

    fn queue_full(&self, request: &Request<'_>, now: Timestamp) -> Refusal {
        let mut refusal = queue_full(request, self.retry_hint(request));
        // Its resource may answer with a status of its own.
        if let Some((target, overload)) = self.named_target_of(request, now).zip(self.overload()) {
            let full = overload.refuse(target.resource(), target.level(), PlaceRefusal::QueueFull);
            refusal.details = Some(Box::new(full.details()));
        }
        refusal
    }

    /// Every waiting request is refused alike by a drain, whatever it waited for: its limit may
    /// have room at another daemon.
    fn drained(&self, request: &Request<'_>) -> Refusal {
        drained(request, self.retry_hint(request))
    }

    fn retry_hint(&self, request: &Request<'_>) -> Duration {
        let hint = self.resource_of(request).zip(self.overload());
        hint.map_or(Duration::from_secs(1), |(id, overload)| overload.resource(id).retry_after_hint())
    }

    /// The obstacle of a refused request, and when it asks again unless it is called before; `None`
    /// if waiting is of no use.
    fn obstacle_of(
        &self,
        refusal: &Refusal,
        request: &Request<'_>,
        now: Timestamp,
    ) -> Option<(Obstacle, Timestamp)> {
        match (refusal.reason(), refusal.retry()) {
            _ if lacks_in_flight_place(refusal) => {
                // Each return calls the next one, so there is no instant at which to ask.
                Some((Obstacle::Place(self.resource_of(request)?), until(request)))
            }
            // A feature that is off may stay so: its instant is the earliest, and nobody calls
            // then. A caller before the time of its ticket comes back, and keeps no room here.
            (
                Reason::Blocked
                | Reason::StoreUnavailable
                | Reason::TableFull
                | Reason::FeatureDisabled
                | Reason::Deferred,
                _,
            ) => None,
            (Reason::ConcurrencyExceeded, _) => {
                let again = now.saturating_add(self.shared.room.ask_again());
                Some((self.counter_of(refusal, request, now), again.min(until(request))))
            }
            // Two attempts never fall on one instant, or a clock that stands still would be asked
            // for ever.
            (_, Retry::At(at)) => {
                let at = at.max(now.saturating_add(Duration::from_nanos(1)));
                Some((self.counter_of(refusal, request, now), at))
            }
            _ => None,
        }
    }

    /// The lines in which requests wait for the units that a request needs, in the order of its
    /// charges.
    fn lines_for_units(&self, request: &Request<'_>, now: Timestamp) -> SmallVec<[Obstacle; 1]> {
        let located = self.planes.capacity.as_ref().zip(request.access.as_ref());
        let located = located.and_then(|(capacity, access)| capacity.locate(request.namespace, access).ok());
        let statuses = located.into_iter().flat_map(|located| located.peek(&[], now));
        let lines = statuses.map(|one| {
            self.line_for_units(request.namespace, one.table, one.index, one.operation, one.partition.0)
        });
        lines.collect()
    }

    /// The line of requests that wait for the units of a partition. Reads and writes have one each.
    fn line_for_units(
        &self,
        namespace: &str,
        table: &str,
        index: Option<&str>,
        operation: AccessOperation,
        partition: u32,
    ) -> Obstacle {
        let seed = hasher(self.shared.config.table.seed);
        Obstacle::Counter(seed.hash_one((namespace, table, index, operation, partition)))
    }

    /// The counter that a refusal is about.
    fn counter_of(&self, refusal: &Refusal, request: &Request<'_>, now: Timestamp) -> Obstacle {
        if let Some(of) = refusal.details.as_deref().and_then(RefusalDetails::capacity) {
            let (table, index) = (&of.table, of.index.as_deref());
            return self.line_for_units(&refusal.namespace, table, index, of.operation, of.partition);
        }
        let keys = self.gate(request.namespace).map(|gate| gate.counter_keys(request.attributes, now));
        let key = keys
            .ok()
            .and_then(|keys| keys.iter().find(|(name, _)| *name == refusal.name()).map(|(_, key)| *key));
        Obstacle::Counter(key.unwrap_or_else(|| {
            // Another plane has refused, which has no limits.
            let mut hash = hasher(self.shared.config.table.seed).build_hasher();
            (&*refusal.namespace, refusal.name()).hash(&mut hash);
            refusal.scope.iter().for_each(|(name, value)| (&**name, &**value).hash(&mut hash));
            hash.finish()
        }))
    }
}

impl WaitableRequest {
    /// The request is admitted: it leaves the room as one that is served.
    pub(crate) fn serve(self, holds: &mut Holds, now: Timestamp) {
        if let Some(seat) = self.seat {
            serve(seat, self.entrant, holds, now);
        }
    }
}

/// Takes a request out of the room that is admitted: its tenant is charged in the fair queue of the
/// resource, and the place remembers it for the correction.
fn serve(seat: Seat, entrant: Option<Entrant>, holds: &mut Holds, now: Timestamp) {
    let (charged, ticket) = seat.served(now);
    if ticket.is_some() {
        holds.other_mut().rare_mut().ticket = ticket;
    }
    if let (Some(place), Some(entrant), Some(charged)) = (holds.place_mut(), entrant, charged) {
        place.charge(entrant.cost(charged));
    }
}

/// Whether a request waits until its deadline, and not for a span of its own.
fn is_by_deadline(request: &Request<'_>, until: Timestamp) -> bool {
    request.deadline.is_some_and(|deadline| until >= deadline.saturating_sub(Duration::from_nanos(1)))
}

fn aside(mut seat: Seat, now: Timestamp) -> Seat {
    seat.step_aside(now);
    seat
}

/// Until when a request waits: not to its deadline, at which it is late already.
pub(crate) fn until(request: &Request<'_>) -> Timestamp {
    let latest = request.deadline.map_or(Timestamp::MAX, |at| at.saturating_sub(Duration::from_nanos(1)));
    request.may_wait_until.unwrap_or(Timestamp::MIN).min(latest)
}

/// The same request, which may wait for at least [`TICKET_WAIT`] with a ticket, if its caller waits
/// at all.
fn with_wait_of_ticket(mut request: Request<'_>, has_ticket: bool, now: Timestamp) -> Request<'_> {
    if has_ticket && request.may_wait_until.is_some() {
        // A quarter of its time is left for its work.
        let most = request.deadline.map_or(TICKET_WAIT, |deadline| deadline.saturating_since(now) * 3 / 4);
        let until = now.saturating_add(TICKET_WAIT.min(most));
        request.may_wait_until = request.may_wait_until.max(Some(until));
    }
    request
}

/// The last refusal of a request that waits, when it asks again, and until when it waits.
struct WaitTerms {
    refusal: Option<Refusal>,
    ask_at: Timestamp,
    until: Timestamp,
}

/// Lets a request wait for its turn. Only the first of a line keeps time; the others go on when
/// they are called, or their time is over.
fn queued(
    request: OwnedRequest,
    counters: Option<Box<KeptCounters>>,
    (seat, is_next): (Seat, bool),
    demand: Option<Demand>,
    terms: WaitTerms,
) -> Step<'static> {
    let WaitTerms { refusal, ask_at, until } = terms;
    let wake_at = if is_next { ask_at.min(until) } else { until };
    let queued = Queued { request, seat, demand, refusal, counters, ask_at, wake_at };
    Step::Ask(Pending(Waiting::Turn(Box::new(queued))))
}
