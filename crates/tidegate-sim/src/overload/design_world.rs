//! One design in a world of its own: events in order of time, clients, workers, and the checks.

use std::collections::BTreeMap;

use super::arrivals::ClientSource;
use super::client::{ClientSpec, RetryRule};
use super::control::{AdmissionControl, ArrivedRequest, JobEnd, JobId, RefusalCause, Verdict};
use super::design::OverloadDesign;
use super::feature_tally::FeatureTally;
use super::ledger::{IDLE_MAX, OverloadRule, OverloadViolation, ServiceLedger};
use super::run::{OverloadResult, ServiceResult};
use super::scenario::{OverloadFault, OverloadScenario};
use super::scenario_error::OverloadScenarioError;
use super::service::{ServiceSpec, nanos_of_ms};
use super::tally::{ClientTally, EndedOperation, OperationEnd, OperationReturn, STEP, ServiceStep};
use super::workers::{BegunWork, Workers};
use crate::kit::{Chance, Delays, EventQueue, Findings, MS, SECOND, seconds};

/// The places, in hundredths, that the highest class may have to itself.
const RESERVE: u32 = 5;

/// The parts of a world's chance.
const RETRY_PART: u64 = 1;
const NOISE_PART: u64 = 2;

/// One design and its world.
#[derive(Debug)]
pub(crate) struct OverloadDesignWorld {
    scenario: OverloadScenario,
    design: OverloadDesign,
    control: Box<dyn AdmissionControl>,
    events: EventQueue<WorldEvent>,
    sources: Vec<ClientSource>,
    tenant_names: Vec<Vec<String>>,
    operations: Vec<Operation>,
    /// The tickets of operations whose clients come back with them.
    tickets: BTreeMap<usize, Box<str>>,
    jobs: Vec<Job>,
    services: Vec<ServiceState>,
    tallies: Vec<ClientTally>,
    features: Vec<FeatureTally>,
    /// The position of the feature of each client.
    client_features: Vec<Option<usize>>,
    noise: Chance,
    retries: Chance,
    findings: Findings<OverloadRule, OverloadViolation>,
    verdicts: Vec<Verdict>,
    /// The instant for which a wake of the design is planned.
    wake_planned: u64,
    /// Operations that have begun and not ended, and jobs at work.
    live: u64,
    now: u64,
    has_restarted: bool,
}

#[derive(Clone, Copy, Debug)]
enum WorldEvent {
    Begin { client: usize, tenant: u32 },
    Attempt(usize),
    Finish { job: JobId, fails: bool },
    GiveUp(JobId),
    Leave(JobId),
    Wake,
    Fault(usize),
    Step,
}

/// An operation of a client: one call after the other, each with its attempts.
#[derive(Clone, Copy, Debug)]
struct Operation {
    client: usize,
    tenant: u32,
    began: u64,
    work_seed: u64,
    /// The calls that have been answered in time.
    calls_done: u32,
    /// Attempts of the present call.
    attempts: u32,
    /// Attempts of all calls after their first.
    returns: u32,
    /// When its first attempt was refused.
    refused_at: Option<u64>,
    /// When the work of its last started attempt began.
    started_at: u64,
    /// Whether a feature of the service was below its best level when it began.
    is_degraded: bool,
    has_ended: bool,
}

/// An attempt of a call.
#[derive(Clone, Copy, Debug)]
struct Job {
    operation: usize,
    arrived: u64,
    started: u64,
    /// The level of its feature, once it has started.
    level: u8,
    state: JobState,
    /// The client waits for its answer no more.
    is_given_up: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobState {
    Waiting,
    AtWork,
    Over,
}

#[derive(Debug, Default)]
struct ServiceState {
    workers: Workers,
    ledger: ServiceLedger,
    waits: Delays,
    waiting_min: u64,
    /// Whether some of its clients do not wait: a place may be kept free for their part then.
    has_impatient_clients: bool,
    /// Since when a worker has been idle while requests wait.
    idle_since: Option<u64>,
    /// The features of it that are below their best level.
    degraded: u32,
    refused_in_step: u32,
    first_refusal: Option<f64>,
    steps: Vec<ServiceStep>,
    has_adaptive_limit: bool,
}

impl OverloadDesignWorld {
    pub(crate) fn new(
        design: OverloadDesign,
        scenario: &OverloadScenario,
    ) -> Result<Self, OverloadScenarioError> {
        let control = (design.control)(&design, &scenario.controlled_services())?;
        let clients = &scenario.clients;
        let names =
            |client: &ClientSpec| (0..client.tenants).map(|tenant| client.tenant_name(tenant)).collect();
        let (from, until) =
            (nanos_of_ms(scenario.counts_from() * 1000.0), u64::from(scenario.seconds) * SECOND);
        let tally = |client: &ClientSpec| {
            let tenants = if client.keeps_tenants { client.tenants as usize } else { 0 };
            ClientTally::new(&client.name, tenants, from, until)
        };
        let mut world = Self {
            design,
            control,
            events: EventQueue::new(MS),
            sources: (0..clients.len())
                .map(|at| ClientSource::new(scenario.seed, at, scenario.seconds))
                .collect(),
            tenant_names: clients.iter().map(names).collect(),
            operations: Vec::new(),
            tickets: BTreeMap::new(),
            jobs: Vec::new(),
            services: (0..scenario.services.len()).map(|at| ServiceState::new(scenario, at)).collect(),
            tallies: clients.iter().map(tally).collect(),
            features: scenario.features.iter().cloned().map(FeatureTally::new).collect(),
            client_features: clients
                .iter()
                .map(|client| client.feature.as_deref().and_then(|name| scenario.feature(name)))
                .collect(),
            noise: Chance::new(scenario.seed, NOISE_PART),
            retries: Chance::new(scenario.seed, RETRY_PART),
            findings: Findings::default(),
            verdicts: Vec::new(),
            wake_planned: u64::MAX,
            live: 0,
            now: 0,
            has_restarted: false,
            scenario: scenario.clone(),
        };
        for fault in 0..world.scenario.faults.len() {
            let at = nanos_of_ms(world.scenario.faults[fault].at * 1000.0);
            world.events.plan(at, WorldEvent::Fault(fault));
        }
        (0..world.scenario.clients.len()).for_each(|client| world.plan_next(client));
        world.events.plan(STEP, WorldEvent::Step);
        world.plan_wake();
        Ok(world)
    }

    /// Carries out everything before the end of a second.
    pub(crate) fn run_to(&mut self, second: u32) {
        let end = u64::from(second) * SECOND;
        while self.events.next_at().is_some_and(|at| at <= end) {
            self.next_event();
        }
    }

    /// Carries out what is left after the last second, and returns the results.
    pub(crate) fn into_result(mut self) -> OverloadResult {
        while self.live > 0 && self.next_event() {}
        for service in 0..self.services.len() {
            self.check(service);
            let view = self.control.view(service, self.now);
            let state = &self.services[service];
            if state.ledger.waiting() > 0 || view.queued > 0 || view.in_flight > 0 || state.workers.busy() > 0
            {
                self.violation(
                    OverloadRule::EmptyAtEnd,
                    service,
                    format!("{view:?} {:?}", self.services[service].ledger),
                );
            }
        }
        let refused: Vec<_> = (0..self.services.len())
            .map(|service| self.control.refused_by_class(service, self.now))
            .collect();
        let names = self.scenario.services.iter().map(|service| service.name.clone());
        let services = names.zip(self.services).map(|(service, state)| state.into_result(service));
        let services = services.zip(refused);
        let services =
            services.map(|(service, refused_by_class)| ServiceResult { refused_by_class, ..service });
        let services = services.collect();
        let violation_counts = self.findings.counts().clone();
        OverloadResult {
            design: self.design,
            services,
            features: self.features.into_iter().map(FeatureTally::into_result).collect(),
            clients: self.tallies.into_iter().map(ClientTally::into_result).collect(),
            violations: self.findings.into_kept(),
            violation_counts,
        }
    }

    fn next_event(&mut self) -> bool {
        let Some((now, event)) = self.events.pop() else { return false };
        self.now = now;
        (0..self.services.len()).for_each(|service| self.check_idle(service));
        match event {
            WorldEvent::Begin { client, tenant } => self.begin(client, tenant),
            WorldEvent::Attempt(operation) => self.attempt(operation),
            WorldEvent::Finish { job, fails } => self.finish(job, fails),
            WorldEvent::GiveUp(job) => self.give_up(job),
            WorldEvent::Leave(job) => self.leave(job),
            WorldEvent::Wake => {
                self.wake_planned = u64::MAX;
                self.ask(|control, now, out| control.wake(now, out));
                self.follow_features();
            }
            WorldEvent::Fault(fault) => self.fault(fault),
            WorldEvent::Step => self.step(),
        }
        for (state, service) in self.services.iter_mut().zip(&self.scenario.services) {
            state.note_idle(service, now);
        }
        true
    }

    /// Finds a worker that has been idle for too long while requests wait.
    fn check_idle(&mut self, service: usize) {
        let now = self.now;
        let state = &mut self.services[service];
        if let Some(since) = state.idle_since.filter(|since| now - since > IDLE_MAX) {
            state.idle_since = None;
            let (busy, waiting) = (state.workers.busy(), state.ledger.waiting());
            let what = format!("{busy} workers at work for {} ns while {waiting} wait", now - since);
            self.violation(OverloadRule::NoIdlePlace, service, what);
        }
    }

    /// Lets the design do something, and carries out its answers.
    fn ask(&mut self, act: impl FnOnce(&mut dyn AdmissionControl, u64, &mut Vec<Verdict>)) {
        let mut verdicts = core::mem::take(&mut self.verdicts);
        act(&mut *self.control, self.now, &mut verdicts);
        for verdict in verdicts.drain(..) {
            match verdict {
                Verdict::Start { job, level } => self.start(job, level),
                Verdict::Cancel(job) => self.cut_short(job),
                Verdict::Refuse { job, cause, retry_after, ticket } => {
                    self.keep_ticket(job, ticket);
                    self.refuse(job, cause, retry_after);
                }
            }
        }
        self.verdicts = verdicts;
        self.plan_wake();
    }

    /// Takes in the changes of features.
    fn follow_features(&mut self) {
        for change in self.control.take_feature_moves() {
            let feature = &mut self.features[change.feature];
            let name = feature.spec.config.resource.as_deref();
            let service = self.scenario.services.iter().position(|one| Some(one.name.as_str()) == name);
            let service = service.unwrap_or(0);
            let pressure = self.control.view(service, self.now).pressure;
            let was_degraded = feature.is_degraded();
            feature.moved(change, pressure, self.now);
            let degraded = &mut self.services[service].degraded;
            match (was_degraded, feature.is_degraded()) {
                (false, true) => *degraded += 1,
                (true, false) => *degraded -= 1,
                _ => {}
            }
        }
    }

    fn plan_wake(&mut self) {
        let Some(at) = self.control.next_wake().filter(|at| *at < self.wake_planned) else { return };
        let at = at.max(self.now);
        self.wake_planned = at;
        self.events.plan(at, WorldEvent::Wake);
    }

    fn plan_next(&mut self, client: usize) {
        if let Some(start) = self.sources[client].next(&self.scenario.clients[client]) {
            self.events.plan(start.at, WorldEvent::Begin { client, tenant: start.tenant });
        }
    }

    fn begin(&mut self, client: usize, tenant: u32) {
        self.plan_next(client);
        let work_seed = self.sources[client].work_seed();
        let is_off = self.client_features[client].is_some_and(|feature| self.features[feature].is_off());
        if is_off && self.scenario.clients[client].stops_while_off {
            self.tallies[client].unasked(self.now);
            return;
        }
        let operation = self.operations.len();
        let began = self.now;
        self.operations.push(Operation {
            client,
            tenant,
            began,
            work_seed,
            calls_done: 0,
            attempts: 0,
            returns: 0,
            refused_at: None,
            started_at: 0,
            is_degraded: self.services[self.scenario.clients[client].service].degraded > 0,
            has_ended: false,
        });
        self.live += 1;
        self.tallies[client].began(began);
        self.attempt(operation);
    }

    /// Sends the present call of an operation.
    fn attempt(&mut self, operation: usize) {
        let now = self.now;
        let asked = &mut self.operations[operation];
        asked.attempts += 1;
        asked.returns += u32::from(asked.attempts > 1);
        let Operation { client, tenant, began, attempts, .. } = *asked;
        let spec = &self.scenario.clients[client];
        let job = self.jobs.len();
        self.jobs.push(Job {
            operation,
            arrived: now,
            started: 0,
            level: 0,
            state: JobState::Waiting,
            is_given_up: false,
        });
        self.tallies[client].attempted(attempts - 1, began, now);
        let ms = |ms: u32| u64::from(ms) * MS;
        let deadline = now + ms(spec.deadline_ms);
        if spec.retry != RetryRule::None {
            self.events.plan(deadline, WorldEvent::GiveUp(job));
        }
        if let Some(after) = spec.leaves_after_ms {
            self.events.plan(now + ms(after), WorldEvent::Leave(job));
        }
        let (service, namespace, class, cost) = (spec.service, spec.namespace, spec.class, spec.cost);
        let wait_until = now + ms(spec.wait_ms.min(spec.deadline_ms));
        let state = &mut self.services[service];
        state.ledger.offered += 1;
        let names = core::mem::take(&mut self.tenant_names[client]);
        let ticket = self.tickets.remove(&operation);
        let arrival = ArrivedRequest {
            job,
            service,
            namespace,
            class,
            tenant: &names[tenant as usize],
            feature: self.client_features[client],
            cost,
            attempt: attempts - 1,
            ticket: ticket.as_deref(),
            deadline,
            wait_until,
        };
        self.ask(|control, now, out| control.arrive(arrival, now, out));
        self.tenant_names[client] = names;
    }

    fn client_of(&self, job: JobId) -> usize {
        self.operations[self.jobs[job].operation].client
    }

    fn service_of(&self, job: JobId) -> usize {
        self.scenario.clients[self.client_of(job)].service
    }

    fn start(&mut self, job: JobId, level: u8) {
        if !self.answers_once(job) {
            return;
        }
        let (client, service, now) = (self.client_of(job), self.service_of(job), self.now);
        let started = &mut self.jobs[job];
        (started.state, started.started, started.level) = (JobState::AtWork, now, level);
        let waited = now - started.arrived;
        self.operations[started.operation].started_at = now;
        let operation = self.operations[started.operation];
        let (spec, work_chance) = (&self.scenario.clients[client], u64::from(operation.calls_done));
        let time = self.scenario.services[service].service_time;
        let mut work = time.draw(&mut Chance::new(operation.work_seed, work_chance)) * u64::from(spec.cost);
        if let Some(feature) = self.client_features[client] {
            let feature = &mut self.features[feature];
            feature.begin();
            work = (work as f64 * feature.spec.cost_share(level)) as u64;
        }
        self.tallies[client].started(spec.cost, now);
        let state = &mut self.services[service];
        state.ledger.admitted += 1;
        state.waits.add(waited);
        state.note_waiting();
        let begun = state.workers.start(&self.scenario.services[service], job, work, now);
        self.live += 1;
        self.plan_finish(begun);
    }

    fn plan_finish(&mut self, begun: Option<BegunWork>) {
        if let Some(BegunWork { job, ends_at, fails }) = begun {
            self.events.plan(ends_at, WorldEvent::Finish { job, fails });
        }
    }

    /// Work has ended, in time or not.
    fn finish(&mut self, job: JobId, fails: bool) {
        // A job that was cut short has ended before.
        if self.jobs[job].state != JobState::AtWork {
            return;
        }
        let (client, service, now) = (self.client_of(job), self.service_of(job), self.now);
        let begun = self.services[service].workers.finish(&self.scenario.services[service], now);
        self.plan_finish(begun);
        self.services[service].ledger.ended += 1;
        self.live -= 1;
        let Job { operation, arrived, level, is_given_up, .. } = self.jobs[job];
        self.jobs[job].state = JobState::Over;
        let feature = self.client_features[client];
        if let Some(feature) = feature {
            self.features[feature].end(now);
        }
        let spec = &self.scenario.clients[client];
        let is_late = now - arrived > u64::from(spec.deadline_ms) * MS;
        let (cost, calls, tenant) = (spec.cost, spec.calls, self.operations[operation].tenant);
        let end = JobEnd { job, service, is_late, has_failed: fails };
        self.ask(|control, now, out| control.end(end, now, out));
        if is_given_up {
            return;
        }
        if is_late || fails {
            self.fail(operation, OperationEnd::Late, None);
            return;
        }
        let utility = feature.map_or(0.0, |feature| self.features[feature].spec.utility(level));
        self.tallies[client].answered(tenant, cost, utility, now);
        let asked = &mut self.operations[operation];
        asked.calls_done += 1;
        asked.attempts = 0;
        if asked.calls_done < calls {
            self.attempt(operation);
        } else {
            self.end(operation, OperationEnd::Succeeded);
        }
    }

    /// A started job is cut short, because its feature was switched off.
    fn cut_short(&mut self, job: JobId) {
        let Job { operation, state, is_given_up, .. } = self.jobs[job];
        let (client, service, now) = (self.client_of(job), self.service_of(job), self.now);
        if state != JobState::AtWork {
            self.violation(OverloadRule::OneAnswer, service, format!("job {job} is cut short, {state:?}"));
            return;
        }
        self.jobs[job].state = JobState::Over;
        let spec = &self.scenario.services[service];
        let begun = self.services[service].workers.cancel(spec, job, now);
        self.plan_finish(begun);
        self.services[service].ledger.ended += 1;
        self.live -= 1;
        if let Some(feature) = self.client_features[client] {
            self.features[feature].end(now);
        }
        if !is_given_up {
            self.fail(operation, OperationEnd::Disabled, None);
        }
    }

    fn refuse(&mut self, job: JobId, cause: RefusalCause, retry_after: Option<u64>) {
        if !self.answers_once(job) {
            return;
        }
        let (client, service, now) = (self.client_of(job), self.service_of(job), self.now);
        self.jobs[job].state = JobState::Over;
        let state = &mut self.services[service];
        let is_disabled = cause == RefusalCause::FeatureDisabled;
        let ledger = &mut state.ledger;
        *match cause {
            _ if is_disabled => &mut ledger.disabled,
            _ if cause.is_expiry() => &mut ledger.expired,
            _ => &mut ledger.shed,
        } += 1;
        state.refused_in_step += 1;
        state.first_refusal.get_or_insert(seconds(now));
        state.workers.reject(&self.scenario.services[service]);
        state.note_waiting();
        let Job { operation, is_given_up, .. } = self.jobs[job];
        let asked = &mut self.operations[operation];
        if asked.attempts == 1 {
            asked.refused_at.get_or_insert(now);
        }
        self.tallies[client].refused(cause, asked.began, now);
        if !is_given_up {
            let end = if is_disabled { OperationEnd::Disabled } else { OperationEnd::Refused };
            self.fail(operation, end, retry_after);
        }
    }

    /// The client of a refused job keeps the ticket for its next attempt.
    fn keep_ticket(&mut self, job: JobId, ticket: Option<Box<str>>) {
        let retry = self.scenario.clients[self.client_of(job)].retry;
        if let Some(ticket) = ticket.filter(|_| retry.uses_tickets()) {
            self.tickets.insert(self.jobs[job].operation, ticket);
        }
    }

    /// Whether a job has had no answer yet.
    fn answers_once(&mut self, job: JobId) -> bool {
        let state = self.jobs[job].state;
        if state != JobState::Waiting {
            let service = self.service_of(job);
            self.violation(
                OverloadRule::OneAnswer,
                service,
                format!("job {job} is answered again, {state:?}"),
            );
        }
        state == JobState::Waiting
    }

    /// A call has failed: the client tries again, or the operation has failed.
    fn fail(&mut self, operation: usize, end: OperationEnd, retry_after: Option<u64>) {
        let Operation { client, attempts, .. } = self.operations[operation];
        let delay = self.scenario.clients[client].retry.delay(attempts, retry_after, &mut self.retries);
        match delay {
            Some(delay) => self.events.plan(self.now + delay.max(1), WorldEvent::Attempt(operation)),
            None => self.end(operation, end),
        }
    }

    fn end(&mut self, operation: usize, end: OperationEnd) {
        let Operation { client, tenant, began, is_degraded, has_ended, .. } = self.operations[operation];
        debug_assert!(!has_ended, "an operation ends once");
        self.operations[operation].has_ended = true;
        self.live -= 1;
        self.tickets.remove(&operation);
        self.keep_return(operation, end);
        self.tallies[client].ended(end, EndedOperation { tenant, began, is_degraded }, self.now);
    }

    /// Keeps an operation that ends and was refused before, where its group keeps such.
    fn keep_return(&mut self, operation: usize, end: OperationEnd) {
        let Operation { client, refused_at, started_at, returns, .. } = self.operations[operation];
        if let Some(refused_at) = refused_at.filter(|_| self.scenario.clients[client].keeps_returns) {
            let served = (end == OperationEnd::Succeeded).then_some((started_at, self.now));
            self.tallies[client].returned(OperationReturn { refused_at, returns, served });
        }
    }

    /// The deadline of a job has come, and its client may try again.
    fn give_up(&mut self, job: JobId) {
        let Job { operation, state, .. } = self.jobs[job];
        if state != JobState::Over {
            self.jobs[job].is_given_up = true;
            self.fail(operation, OperationEnd::Late, None);
        }
    }

    /// The client of a job hangs up, if it still waits.
    fn leave(&mut self, job: JobId) {
        if self.jobs[job].state != JobState::Waiting {
            return;
        }
        let service = self.service_of(job);
        let mut has_left = false;
        self.ask(|control, now, out| has_left = control.cancel(service, job, now, out));
        if has_left {
            self.jobs[job].state = JobState::Over;
            self.services[service].ledger.cancelled += 1;
            self.services[service].note_waiting();
            if !self.jobs[job].is_given_up {
                self.end(self.jobs[job].operation, OperationEnd::Cancelled);
            }
        }
    }

    fn fault(&mut self, fault: usize) {
        match self.scenario.faults[fault].fault {
            OverloadFault::UndefinedSignal => self.control.signal(f64::NAN, self.now),
            OverloadFault::Pressure(hundredths) => {
                self.control.signal(f64::from(hundredths) / 100.0, self.now);
            }
            OverloadFault::Restart => {
                self.has_restarted = true;
                self.ask(|control, now, out| control.restart(now, out));
                self.follow_features();
            }
        }
    }

    /// Notes the state of each service, and checks it at each second.
    fn step(&mut self) {
        for service in 0..self.services.len() {
            self.measure(service);
            let view = self.control.view(service, self.now);
            self.services[service].end_step(&view);
            if self.now.is_multiple_of(SECOND) {
                self.check(service);
            }
        }
        if !self.features.is_empty() {
            let views = self.control.features(self.now);
            for (place, feature) in self.features.iter_mut().enumerate() {
                feature.end_step(views.get(place).copied().unwrap_or_default());
            }
        }
        self.events.plan(self.now + STEP, WorldEvent::Step);
    }

    /// Measures the use of a service, with noise, and tells it to the design.
    fn measure(&mut self, service: usize) {
        let spec = &self.scenario.services[service];
        let Some(deviation) = spec.measured_noise else { return };
        let in_use = f64::from(self.services[service].workers.busy()) / f64::from(spec.workers);
        let noisy = (in_use + deviation * self.noise.normal()).max(0.0);
        self.control.measured(service, noisy, self.now);
    }

    fn check(&mut self, service: usize) {
        let view = self.control.view(service, self.now);
        if let Some((rule, what)) = self.services[service].ledger.judge(&view, !self.has_restarted) {
            self.violation(rule, service, what);
        }
    }

    fn violation(&mut self, rule: OverloadRule, service: usize, what: String) {
        let Self { findings, scenario, now, .. } = self;
        let service = scenario.services[service].name.clone();
        let (seed, at_ms) = (scenario.seed, *now / MS);
        findings.add(rule, || OverloadViolation { rule, seed, at_ms, service, what });
    }
}

impl ServiceState {
    fn new(scenario: &OverloadScenario, service: usize) -> Self {
        let mut clients = scenario.clients.iter().filter(|client| client.service == service);
        Self { has_impatient_clients: clients.any(|client| client.wait_ms == 0), ..Self::default() }
    }

    fn waiting(&self) -> u64 {
        self.ledger.waiting() + self.workers.backlog() as u64
    }

    fn note_waiting(&mut self) {
        self.waiting_min = self.waiting_min.min(self.waiting());
    }

    /// Notes whether a worker is idle while requests wait. A limit that follows measurements may
    /// leave workers idle, and so may the reserve of the highest class and the part of a client
    /// that does not wait.
    fn note_idle(&mut self, service: &ServiceSpec, now: u64) {
        let places = service.places.unwrap_or(service.workers);
        let usable = service.workers.min(places - places * RESERVE / 100);
        let may_be_idle = service.is_adaptive || self.has_impatient_clients;
        let is_idle = !may_be_idle && self.workers.busy() < usable && self.ledger.waiting() > 0;
        self.idle_since = if is_idle { self.idle_since.or(Some(now)) } else { None };
    }

    fn end_step(&mut self, view: &super::control::ControlView) {
        self.note_waiting();
        self.has_adaptive_limit = view.is_adaptive;
        self.steps.push(ServiceStep {
            queued: self.waiting() as u32,
            queued_min: self.waiting_min as u32,
            busy: self.workers.busy(),
            limit: view.limit.unwrap_or(0.0),
            cursor: view.cursor,
            level: view.level,
            pressure: view.pressure,
            advice: view.advice,
            refused: core::mem::take(&mut self.refused_in_step),
            first_refusal: self.first_refusal.take(),
        });
        self.waiting_min = self.waiting();
    }

    fn into_result(self, service: String) -> ServiceResult {
        let wait_ms = |in_a_thousand| self.waits.quantile(in_a_thousand) as f64 / MS as f64;
        ServiceResult {
            service,
            wait_p50_ms: wait_ms(500),
            wait_p99_ms: wait_ms(990),
            ledger: self.ledger,
            has_adaptive_limit: self.has_adaptive_limit,
            refused_by_class: Default::default(),
            steps: self.steps,
        }
    }
}
