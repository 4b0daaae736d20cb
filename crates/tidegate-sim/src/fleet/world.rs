//! The world: everything that happens, one thing after the other.

mod envoys;

use std::collections::BTreeMap;

use tidegate_capacity::Access;
use tidegate_capacity::units::READ_UNIT_BYTES;
#[cfg(tidegate_planted_faults)]
use tidegate_core::planted_fault::PlantedFault;
use tidegate_core::{Cost, Timestamp};
use tidegate_engine::{
    Answered, BucketAction, Decision, LeaseBatch, Pending, Permit, Request, Step, TickAction, Wants,
};
use tidegate_store::{Answer, Kind, OnLedger, RequestId, StoreError};

use super::envoy_peers::EnvoyPeers;
use crate::fleet::arrival::Arrival;
use crate::fleet::chaos::{Trouble, planned};
use crate::fleet::envoy_bucket::EnvoyCounts;
use crate::fleet::load::{Arrivals, is_steady};
use crate::fleet::member::{ATTRIBUTE, KeyName, Member, MemberFactory, NAMESPACE};
use crate::fleet::observation::{Admitted, Attempt, Refusal, Source};
use crate::fleet::report::Report;
use crate::fleet::scenario::{Chaos, DecisionSite, Load, Scenario, ScenarioError, Subject};
use crate::fleet::store::{Served, SimulatedStore};
use crate::fleet::store_call::StoreCall;
use crate::fleet::store_traffic::{keep_charges, watch_answered, watch_served};
use crate::fleet::tally::Tally;
use crate::fleet::watch::Watch;
use crate::kit::{
    CallName, Calls, Chance, Disturbance, EndedCall, EventQueue, LinkQuality, MS, Network, PartyId, SECOND,
};

/// How late answers are while the store answers late, at most.
const ANSWERS_LATE: u64 = 900 * MS;

/// The shortest time between two ticks of a member. It delays only renewals that no request waits
/// for, and by much less than leases are renewed ahead of their end.
const TICK_MIN: u64 = 200 * MS;

/// After which time a caller that keeps to its limit retries a refused request, and how often it
/// does.
const RETRY_AFTER: u64 = 100 * MS;
const RETRIES_MAX: u32 = 15;

/// After which time a batch without asks, for which no request waits, is sent again if it was not
/// answered.
const RESEND_AFTER: u64 = 2 * SECOND;

/// How many requests come while a slot of the queue lasts.
const REQUESTS_A_SLOT: u64 = 16;

/// A fleet while it is simulated. [`simulate`](crate::fleet::simulate) does it in one go; this lets
/// the caller see how far it is.
#[derive(Debug)]
pub struct Simulation {
    scenario: Scenario,
    now: u64,
    seconds: u32,
    arrivals: Arrivals,
    queue: EventQueue<Event>,
    calls: Calls<StoreCall>,
    members: Vec<Member>,
    envoys: EnvoyPeers,
    /// Space for the requests of one member that go on; always empty in between.
    unparked: Vec<(Pending, Arrival)>,
    factory: MemberFactory,
    network: Network,
    store: SimulatedStore,
    plan: Vec<Disturbance<Trouble>>,
    chance: Chance,
    /// The charges of the store, by batch, for as long as they may be undone. Only where
    /// something goes wrong.
    charged: BTreeMap<RequestId, (u32, u64)>,
    watch: Watch,
    tally: Tally,
}

#[derive(Debug)]
enum Event {
    /// A batch arrives at the store.
    Arrives(CallName),
    /// An answer arrives at a member.
    Answers(CallName, Box<Result<Answer, StoreError>>),
    /// A member looks whether there is something to do.
    Wakes {
        member: u32,
        run: u64,
    },
    /// A client tries again.
    Retries(Arrival),
    /// A run of a member sends a batch again.
    Resends {
        member: u32,
        run: u64,
        batch: LeaseBatch,
    },
    /// An Envoy reports all its buckets.
    EnvoyReports {
        envoy: u32,
    },
    /// The report of an Envoy arrives at its member: keys and counts.
    ReportArrives {
        envoy: u32,
        usages: Vec<(u32, EnvoyCounts)>,
    },
    /// A response of a member arrives at an Envoy.
    ResponseArrives {
        envoy: u32,
        actions: Vec<BucketAction>,
    },
    /// A member looks whether an Envoy is to be told something.
    /// A member learns by a ping that an Envoy has taken its last response.
    ResponseIsTaken {
        envoy: u32,
    },
    LooksAtStream {
        envoy: u32,
    },
    /// A disturbance begins, or ends.
    Begins(u32),
    Ends(u32),
    /// Nothing goes wrong any more.
    Calm,
}

impl Simulation {
    /// The fleet of a scenario, before anything has happened.
    pub fn new(scenario: &Scenario) -> Result<Self, ScenarioError> {
        scenario.check()?;
        #[cfg(tidegate_planted_faults)]
        let _planted = scenario.fault.map(PlantedFault::plant);
        let plan = planned(scenario);
        let failovers = plan.iter().filter(|one| one.trouble == Trouble::FailedOver).count();
        let mut factory = MemberFactory::new(scenario)?;
        let members = (0..scenario.members).map(|_| factory.member()).collect::<Result<_, _>>()?;
        let mut queue =
            EventQueue::new(REQUESTS_A_SLOT * SECOND / u64::from(scenario.requests_per_second.max(1)));
        for (at, one) in (0..).zip(&plan) {
            queue.plan(one.from, Event::Begins(at));
            queue.plan(one.until, Event::Ends(at));
        }
        if let Some(calm) = scenario.calm_from() {
            queue.plan(u64::from(calm) * SECOND, Event::Calm);
        }
        let envoys = EnvoyPeers::new(scenario);
        for (envoy, at) in (0..).zip(envoys.first_reports()) {
            queue.plan(at, Event::EnvoyReports { envoy });
        }
        Ok(Self {
            now: 0,
            seconds: 0,
            envoys,
            arrivals: Arrivals::new(scenario),
            queue,
            calls: Calls::new(u64::from(scenario.deadline_ms) * MS),
            members,
            unparked: Vec::new(),
            factory,
            network: network_of(scenario),
            store: SimulatedStore::new(scenario, failovers),
            chance: Chance::new(scenario.seed, 7),
            charged: BTreeMap::new(),
            watch: Watch::new(scenario),
            tally: Tally::new(scenario, &plan),
            plan,
            scenario: scenario.clone(),
        })
    }

    /// Lets a second pass, and says whether there is another.
    pub fn next_second(&mut self) -> Result<bool, ScenarioError> {
        #[cfg(tidegate_planted_faults)]
        let _planted = self.scenario.fault.map(PlantedFault::plant);
        let end = (u64::from(self.seconds) + 1) * SECOND;
        while self.step(end)? {}
        self.now = end;
        self.seconds += 1;
        let out = self.watch.out(0, self.store.clock.at(end).as_nanos());
        self.tally.second(out, self.store.batches);
        Ok(self.seconds < self.scenario.seconds)
    }

    /// For how many seconds it has run.
    pub fn seconds(&self) -> u32 {
        self.seconds
    }

    /// The report of the simulation so far.
    pub fn into_report(mut self) -> Report {
        self.watch.finish(&self.tally.measured, self.now);
        self.tally.into_report(self.watch, &self.plan)
    }

    /// The next thing before `end`, if there is one.
    fn step(&mut self, end: u64) -> Result<bool, ScenarioError> {
        let event_at = self.queue.next_at().unwrap_or(u64::MAX);
        let deadline_at = self.calls.next_deadline().unwrap_or(u64::MAX);
        let arrival_at = self.arrivals.next_at();
        let at = event_at.min(deadline_at).min(arrival_at);
        if at >= end {
            return Ok(false);
        }
        self.now = at;
        if event_at == at {
            if let Some((_, event)) = self.queue.pop() {
                self.happen(event)?;
            }
        } else if deadline_at == at {
            if let Some(name) = self.calls.pop_deadline() {
                let after = core::time::Duration::from_millis(self.scenario.deadline_ms.into());
                self.end(name, Err(StoreError::Timeout { after }));
            }
        } else {
            let arrival = self.arrivals.next();
            self.request(arrival);
        }
        Ok(true)
    }

    fn happen(&mut self, event: Event) -> Result<(), ScenarioError> {
        match event {
            Event::Arrives(name) => self.serve(name),
            Event::Answers(name, answer) => self.end(name, *answer),
            Event::Wakes { member, run } => {
                let one = &mut self.members[member as usize];
                if one.run == run && one.wake == self.now {
                    one.wake = u64::MAX;
                    self.tick(member);
                }
            }
            Event::Retries(arrival) => self.request(arrival),
            Event::Resends { member, run, batch } => {
                let one = &self.members[member as usize];
                if one.engine.is_some() && one.run == run {
                    self.call(member, StoreCall::Leases(batch));
                }
            }
            Event::EnvoyReports { envoy } => self.report_all(envoy),
            Event::ReportArrives { envoy, usages } => self.hear_report(envoy, &usages),
            Event::ResponseArrives { envoy, actions } => self.obey_response(envoy, &actions),
            Event::ResponseIsTaken { envoy } => self.learn_taken(envoy),
            Event::LooksAtStream { envoy } => self.look_at_stream(envoy),
            Event::Begins(at) => self.begin(self.plan[at as usize]),
            Event::Ends(at) => self.cease(self.plan[at as usize])?,
            Event::Calm => self.network.calm_down(),
        }
        Ok(())
    }

    /// A client asks a member.
    fn request(&mut self, mut arrival: Arrival) {
        if self.scenario.envoys > 0 {
            return self.request_at_envoy(&arrival);
        }
        if self.scenario.load == Load::Callers {
            arrival.member = self.running_from(arrival.member);
        }
        let member = &self.members[arrival.member as usize];
        let Some(engine) = &member.engine else {
            self.tally.report.unreached += 1;
            return;
        };
        self.tally.offered(&arrival, self.now);
        self.watch.asked_for(arrival.key, arrival.cost.into(), arrival.attempt == 0, self.now);
        let name = KeyName::from_key(arrival.key);
        let attributes = [(ATTRIBUTE, name.as_str())];
        let cost = Cost::new(arrival.cost.into()).unwrap_or(Cost::ONE);
        let mut request = match self.scenario.subject {
            Subject::Limit => Request::new(NAMESPACE, &attributes).cost(cost),
            // So many halves of a unit.
            Subject::Table => {
                let access = Access::read(name.as_str(), b"key", u64::from(arrival.cost) * READ_UNIT_BYTES);
                Request::new(NAMESPACE, ()).access(access)
            }
        };
        request.attempt = arrival.attempt;
        match engine.admit(&request, member.clock.at(self.now)) {
            Ok(step) => {
                let step = step.into_owned();
                self.go_on(step, arrival, None);
            }
            Err(_) => self.tally.report.errors += 1,
        }
        self.send_asks(arrival.member);
    }

    /// The first running member from `member` on, or `member` if none runs.
    fn running_from(&self, member: u32) -> u32 {
        let all = self.scenario.members;
        let mut others = (member..all).chain(0..member);
        others.find(|at| self.members[*at as usize].engine.is_some()).unwrap_or(member)
    }

    /// A request goes on; `source` says where it is from if it is admitted now, as far as that is
    /// known.
    fn go_on(&mut self, step: Step<'static>, arrival: Arrival, source: Option<Source>) {
        match step {
            Step::Decided(decision) => self.decided(decision, arrival, source),
            Step::Ask(pending) => match pending.wants() {
                Wants::Store(_) => self.call(arrival.member, StoreCall::Request(pending, arrival)),
                Wants::Lease(_) => self.members[arrival.member as usize].parked.enter((pending, arrival)),
                Wants::Turn(_) => unreachable!("no simulated request may wait for its turn"),
            },
        }
    }

    fn decided(&mut self, decision: Decision<'static>, arrival: Arrival, source: Option<Source>) {
        let Arrival { member, key, cost, .. } = arrival;
        let one = &self.members[member as usize];
        let (run, member_now) = (one.run, one.clock.at(self.now).as_nanos());
        let attempt = Attempt {
            key,
            cost: cost.into(),
            made: arrival.at,
            is_first: arrival.attempt == 0,
            is_steady: self.scenario.load == Load::Callers && is_steady(key),
        };
        match decision {
            Decision::Admit(permit) => {
                self.tally.admitted(&arrival, self.now);
                let store_now = self.store.clock.at(self.now).as_nanos();
                let source = source.or_else(|| Some(source_of(&permit)));
                let one = Admitted { member, run, cost: cost.into(), source, member_now, attempt };
                self.watch.admitted(one, self.now, store_now);
                // Neither buckets nor windows lend anything that must be given back.
                drop(permit);
            }
            Decision::Refuse(refusal) => {
                let reason = refusal.reason();
                self.tally.refused(&arrival, reason, self.now);
                let again_at = self.now + RETRY_AFTER;
                let retry_by = again_at + SECOND + 3 * u64::from(self.scenario.deadline_ms) * MS;
                let one = Refusal { member, run, reason, member_now, attempt };
                if self.watch.refused(one, self.now, retry_by) {
                    if arrival.attempt < RETRIES_MAX {
                        let member = self.arrivals.member_again(&arrival);
                        let again = Arrival { at: again_at, member, attempt: arrival.attempt + 1, ..arrival };
                        self.queue.plan(again.at, Event::Retries(again));
                    } else {
                        self.watch.gave_up(key);
                    }
                } else if member % 2 == 1 && arrival.attempt < self.scenario.retries {
                    let wait = self.chance.between(50, 150) << arrival.attempt.min(6);
                    let again = Arrival { at: self.now + wait * MS, attempt: arrival.attempt + 1, ..arrival };
                    self.queue.plan(again.at, Event::Retries(again));
                }
            }
        }
    }

    /// Sends the asks of a member's leases.
    fn send_asks(&mut self, member: u32) {
        let Some(engine) = &self.members[member as usize].engine else { return };
        for batch in engine.take_lease_asks() {
            self.tally.report.lease_asks += batch.asks() as u64;
            for operation in &batch.batch().operations {
                if let Kind::Ledger(OnLedger::Ask(ask)) = &operation.kind {
                    self.watch.asks(KeyName::read(operation.key.as_bytes()), ask, self.now);
                }
            }
            self.call(member, StoreCall::Leases(batch));
        }
    }

    /// A member lets its engine do what is due.
    fn tick(&mut self, member: u32) {
        let one = &mut self.members[member as usize];
        let Some(engine) = &one.engine else { return };
        let tick = engine.tick(one.clock.at(self.now));
        one.woken = self.now;
        let next = one.clock.when(tick.next);
        for action in tick.actions {
            match action {
                TickAction::RenewLeases => self.send_asks(member),
                // No member of a simulated fleet keeps permits or has overrides.
                TickAction::CountExpiredPermits(_) | TickAction::RebuildOverrides => {}
            }
        }
        self.wake(member, next);
    }

    /// Has a member woken at `at`, if it is not before.
    fn wake(&mut self, member: u32, at: u64) {
        let one = &mut self.members[member as usize];
        let at = at.max(one.woken + TICK_MIN).max(self.now);
        if at < one.wake {
            one.wake = at;
            let run = one.run;
            self.queue.plan(at, Event::Wakes { member, run });
        }
    }

    /// Sends a batch to the store.
    fn call(&mut self, member: u32, asked: StoreCall) {
        self.tally.report.store_calls += 1;
        let run = self.members[member as usize].run;
        let fate = self.network.send(member, self.store_party(), self.now);
        let copies = fate.iter().flatten().count() as u32;
        let name = self.calls.begin(member, run, asked, copies, self.now);
        for at in fate.into_iter().flatten() {
            self.queue.plan(at, Event::Arrives(name));
        }
    }

    /// A copy of a batch has arrived at the store.
    fn serve(&mut self, name: CallName) {
        let Some((call, batch)) = self.calls.message(name) else { return };
        let member = call.party;
        match self.store.serve(batch, self.now) {
            Served::Later(at) => {
                // In some order.
                let at = at + self.chance.below(MS);
                self.queue.plan(at, Event::Arrives(name));
                return;
            }
            Served::Away => {
                let error = StoreError::Unavailable { at: "the store".to_owned(), sent: false, source: None };
                self.reply(name, member, Box::new(Err(error)));
            }
            Served::Done { answer, at, again } => {
                if let Ok(answer) = &*answer {
                    watch_served(&mut self.watch, batch, answer, again, self.now, at);
                    if self.scenario.chaos == Chaos::Some
                        && self.scenario.consistency == DecisionSite::Exact
                        && !again
                    {
                        for (key, cost) in keep_charges(&mut self.charged, batch, answer) {
                            self.watch.lost_charge(key, cost);
                        }
                    }
                }
                self.reply(name, member, answer);
            }
        }
        self.calls.landed(name);
    }

    fn reply(&mut self, name: CallName, member: u32, answer: Box<Result<Answer, StoreError>>) {
        let [first, second] = self.network.send(self.store_party(), member, self.now);
        if let (Some(at), Ok(answer)) = (second, &*answer) {
            self.queue.plan(at, Event::Answers(name, Box::new(Ok(answer.clone()))));
        }
        if let Some(at) = first {
            self.queue.plan(at, Event::Answers(name, answer));
        }
    }

    /// A call has its answer, or is given up.
    fn end(&mut self, name: CallName, answer: Result<Answer, StoreError>) {
        let Some(EndedCall { party: member, run, origin: asked }) = self.calls.end(name) else { return };
        let one = &self.members[member as usize];
        let Some(engine) = one.engine.as_ref().filter(|_| one.run == run) else {
            // The run that asked is over, so what it was granted is not given back.
            if let StoreCall::Request(..) = asked {
                self.tally.report.cut_short += 1;
            }
            return;
        };
        let local = one.clock.at(self.now);
        match asked {
            StoreCall::Request(pending, arrival) => {
                let is_answered = answer.is_ok();
                self.watch.answered_request(arrival.key, run, is_answered, self.now);
                let step = engine.resume(pending, answer, local);
                let source = if is_answered { Source::Grant } else { Source::Alone };
                self.go_on(step, arrival, Some(source));
            }
            StoreCall::Leases(batch) if batch.asks() == 0 && answer.is_err() => {
                self.queue.plan(self.now + RESEND_AFTER, Event::Resends { member, run, batch });
            }
            StoreCall::Leases(batch) => {
                watch_answered(&mut self.watch, &batch, answer.as_ref().ok(), run, self.now);
                engine.lease_answered(batch, answer, local);
                self.unpark(member, local);
                self.poll_woken_streams();
                // When the lease is to be looked at again is seen when the member is woken.
                self.wake(member, self.now);
            }
        }
        self.send_asks(member);
    }

    /// Requests whose leases have been answered go on.
    fn unpark(&mut self, member: u32, local: Timestamp) {
        let one = &mut self.members[member as usize];
        if !one.parked.any(|(pending, _)| is_ready(pending)) {
            return;
        }
        let mut parked = one.parked.begin_round(core::mem::take(&mut self.unparked));
        for (pending, arrival) in parked.drain(..) {
            let one = &mut self.members[member as usize];
            if !is_ready(&pending) {
                one.parked.enter((pending, arrival));
                continue;
            }
            let Some(engine) = &one.engine else { continue };
            let step = engine.resume(pending, Answered::Lease, local);
            self.go_on(step, arrival, None);
        }
        self.unparked = parked;
    }

    fn begin(&mut self, one: Disturbance<Trouble>) {
        match one.trouble {
            Trouble::CutOff { member } => self.network.cut(member, true),
            Trouble::Crashed { member } => self.stop(member),
            Trouble::Stopped { member } => {
                let leaving = &self.members[member as usize];
                let asks =
                    leaving.engine.iter().flat_map(|engine| engine.leave_leases(leaving.clock.at(self.now)));
                for batch in asks.collect::<Vec<_>>() {
                    self.tally.report.lease_asks += batch.asks() as u64;
                    self.call(member, StoreCall::Leases(batch));
                }
                self.stop(member);
            }
            Trouble::StoreAway => self.store.set_away(true),
            Trouble::StorePaused => self.store.pause_until(one.until),
            Trouble::AnswersLate => self.network.slow_down(self.store_party(), ANSWERS_LATE),
            Trouble::FailedOver => {
                self.store.set_away(true);
                for batch in self.store.fail_over(self.now) {
                    if let Some((key, cost)) = self.charged.remove(&batch) {
                        self.watch.lost_charge(key, cost);
                    }
                }
                self.watch.epoch_began(self.store.epoch(), self.now);
            }
            Trouble::Emptied => {
                self.store.set_away(true);
                self.store.empty(self.now);
                self.watch.epoch_began(self.store.epoch(), self.now);
            }
        }
    }

    /// The store as a party of the network: the one after all members.
    fn store_party(&self) -> PartyId {
        self.scenario.members
    }

    /// A member stops, and everything it has in memory is gone.
    fn stop(&mut self, member: u32) {
        let stopped = &mut self.members[member as usize];
        if stopped.engine.take().is_some() {
            self.tally.report.cut_short += stopped.parked.clear() as u64;
            self.watch.crashed(member, stopped.run, self.now);
        }
    }

    fn cease(&mut self, one: Disturbance<Trouble>) -> Result<(), ScenarioError> {
        match one.trouble {
            Trouble::CutOff { member } => self.network.cut(member, false),
            Trouble::Crashed { member } | Trouble::Stopped { member } => {
                let crashed = &mut self.members[member as usize];
                if crashed.engine.is_none() {
                    self.factory.start(crashed)?;
                }
            }
            Trouble::StoreAway | Trouble::FailedOver | Trouble::Emptied => self.store.set_away(false),
            Trouble::StorePaused => {}
            Trouble::AnswersLate => self.network.slow_down(self.store_party(), 0),
        }
        Ok(())
    }
}

/// The network between members and the store, which is the last party.
fn network_of(scenario: &Scenario) -> Network {
    let mut chance = Chance::new(scenario.seed, 4);
    let quality = match scenario.chaos {
        Chaos::None => LinkQuality::PERFECT,
        Chaos::Some => LinkQuality::drawn(&mut chance, u64::from(scenario.deadline_ms) * 3 / 2 * MS),
    };
    Network::new(chance, scenario.members + 1, quality)
}

/// Where an admission of a leased limit came from.
fn source_of(permit: &Permit) -> Source {
    if permit.is_alone() { Source::Alone } else { Source::Grant }
}

fn is_ready(pending: &Pending) -> bool {
    match pending.wants() {
        Wants::Lease(landing) => landing.is_over(),
        Wants::Store(_) | Wants::Turn(_) => false,
    }
}
