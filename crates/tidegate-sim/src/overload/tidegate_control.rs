//! The design `tidegate`: the engine of the product, driven as the driver does, in virtual time.
//!
//! A request that may wait is admitted, refused, or pending. A pending one is polled with a waker
//! that notes its job; the engine wakes it when it is called, and the world resumes it at the same
//! instant. It is resumed too at the instant that its turn names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use tidegate_core::{
    Class, Cost, NamespaceConfig, OverloadMechanism, Reason, Refusal, RefusalDetails, Retry, Timestamp,
};
use tidegate_engine::{
    Answered, Completion, Decision, Engine, EngineConfig, Event, Outcome, Pending, Permit, Request, Step,
    TicketKeys, Wants, lacks_in_flight_place,
};
use tidegate_overload::{Cursor, FeatureEvent, OfferOutcome, PushedValue, ResourceMode, TicketIssuer};

use super::control::{
    AdmissionControl, ArrivedRequest, ControlView, FeatureControlView, FeatureMove, JobEnd, JobId,
    RefusalCause, Verdict,
};
use super::controlled_services::ControlledServices;
use super::feature_spec::FeatureSpec;
use super::plane_settings::{measured_name, overload_plane, waiting_bounds};
use super::scenario_error::OverloadScenarioError;
use crate::kit::Clock;

/// The beginning of the names of namespaces. They have no limits, so that the overload plane alone
/// decides.
const NAMESPACE: &str = "world";

/// The key that tickets are signed with.
const TICKET_KEY: [u8; 32] = [7; 32];

/// The engine and the requests that it has not answered or whose work goes on.
#[derive(Debug)]
pub(crate) struct TidegateControl {
    settings: ControlledServices,
    mode: ResourceMode,
    /// How many requests each service works on that its resource let through in shadow mode.
    at_work: Vec<usize>,
    namespaces: Vec<String>,
    engine: Engine,
    waiting: BTreeMap<JobId, WaitingJob>,
    /// How many of them wait for each service.
    waiting_counts: Vec<usize>,
    /// When each waiting request goes on without being called.
    wakes: BTreeSet<(u64, JobId)>,
    permits: BTreeMap<JobId, Permit>,
    calls: Arc<CallList>,
    next_tick: u64,
    feature_moves: Vec<FeatureMove>,
    /// How often the program has started anew.
    restarts: u64,
}

/// A job, its service, and until when it may wait.
#[derive(Clone, Copy, Debug)]
struct AskedJob {
    job: JobId,
    service: usize,
    feature: Option<usize>,
    wait_until: u64,
}

#[derive(Debug)]
struct WaitingJob {
    asked: AskedJob,
    pending: Pending,
    wake_at: u64,
}

/// The jobs that the engine has called and that are not resumed yet, in order.
#[derive(Debug, Default)]
struct CallList(Mutex<Vec<JobId>>);

/// The waker of one job.
#[derive(Debug)]
struct JobWaker {
    job: JobId,
    calls: Arc<CallList>,
}

impl CallList {
    fn add(&self, job: JobId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(job);
    }

    fn take(&self) -> Vec<JobId> {
        core::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Wake for JobWaker {
    fn wake(self: Arc<Self>) {
        self.calls.add(self.job);
    }
}

fn at(now: u64) -> Timestamp {
    Clock::TRUE.at(now)
}

/// The names of the namespaces of all clients.
fn namespaces(settings: &ControlledServices) -> Vec<String> {
    (0..settings.namespaces).map(|number| format!("{NAMESPACE}-{number}")).collect()
}

/// The engine of a program that has started anew so often. The key of its tickets outlives it.
fn engine(
    settings: &ControlledServices,
    mode: ResourceMode,
    restarts: u64,
) -> Result<Engine, OverloadScenarioError> {
    let seed = settings.seed;
    let mut config = EngineConfig::seeded([seed, 1, 2, 3]);
    config.table.bytes = 1 << 20;
    let overload =
        overload_plane(settings, mode).map_err(|error| OverloadScenarioError::Plane(error.to_string()))?;
    let names = namespaces(settings);
    let engine = names
        .iter()
        .fold(Engine::builder(config), |engine, name| engine.namespace(NamespaceConfig::new(name, [])));
    let engine =
        engine.overload(overload).build().map_err(|error| OverloadScenarioError::Plane(error.to_string()))?;
    engine.set_waiting_bounds(waiting_bounds());
    if settings.services.iter().any(|service| service.defer.is_some()) {
        let keys = TicketKeys::new(&TICKET_KEY).expect("the key is long enough");
        engine.set_ticket_keys(Some(keys));
        engine.set_ticket_issuer(TicketIssuer { member: 1, start: restarts });
    }
    if settings.pins_cursor_open {
        for service in &settings.services {
            let pin = Event::Pin { resource: Some(&service.name), level: Some(0), until: Timestamp::MAX };
            engine.event(pin, at(0)).map_err(|error| OverloadScenarioError::Plane(error.to_string()))?;
        }
    }
    Ok(engine)
}

impl TidegateControl {
    pub(crate) fn new(
        settings: &ControlledServices,
        mode: ResourceMode,
    ) -> Result<Self, OverloadScenarioError> {
        Ok(Self {
            namespaces: namespaces(settings),
            settings: settings.clone(),
            engine: engine(settings, mode, 0)?,
            mode,
            at_work: vec![0; settings.services.len()],
            waiting: BTreeMap::new(),
            waiting_counts: vec![0; settings.services.len()],
            wakes: BTreeSet::new(),
            permits: BTreeMap::new(),
            calls: Arc::default(),
            next_tick: 0,
            feature_moves: Vec::new(),
            restarts: 0,
        })
    }

    /// Takes in a step of a job.
    fn take_step(
        &mut self,
        asked: AskedJob,
        step: Step<'static>,
        has_waited: bool,
        now: u64,
        out: &mut Vec<Verdict>,
    ) {
        let AskedJob { job, service, feature, wait_until } = asked;
        match step {
            Step::Decided(Decision::Admit(permit)) => {
                let level = feature.map_or(0, |feature| self.granted_level(feature, &permit));
                self.permits.insert(job, permit);
                self.at_work[service] += 1;
                out.push(Verdict::Start { job, level });
            }
            Step::Decided(Decision::Refuse(refused)) => {
                let refusal = refused.into_refusal();
                let cause = cause_of(&refusal, has_waited && now >= wait_until);
                let retry_after = match refusal.retry() {
                    Retry::At(instant) => Some(Clock::TRUE.when(instant).saturating_sub(now)),
                    Retry::Backoff => refusal.retry_hint.map(|hint| hint.as_nanos() as u64),
                    Retry::Never => None,
                };
                let details = refusal.details.as_deref().and_then(RefusalDetails::overload);
                let ticket = details.and_then(|details| details.ticket.as_deref());
                let ticket = ticket.map(|ticket| Box::from(&*ticket.text));
                out.push(Verdict::Refuse { job, cause, retry_after, ticket });
            }
            Step::Ask(pending) => self.wait(asked, pending),
        }
    }

    /// The position of the level at which a permit lets its request work.
    fn granted_level(&self, feature: usize, permit: &Permit) -> u8 {
        let granted = self.engine.granted_feature(permit);
        granted.map_or(0, |granted| self.settings.features[feature].position(granted.level))
    }

    /// Takes in the changes of features in a tick, and cuts short what is cancelled.
    fn follow_features(&mut self, now: u64, out: &mut Vec<Verdict>) {
        for event in self.engine.take_feature_events() {
            let FeatureEvent::Changed(change) = event else { continue };
            let is_it = |spec: &FeatureSpec| spec.config.name == *change.feature;
            let Some(feature) = self.settings.features.iter().position(is_it) else { continue };
            let spec = &self.settings.features[feature];
            let (from, to) = (spec.position(&change.from), spec.position(&change.to));
            self.feature_moves.push(FeatureMove { feature, from, to });
        }
        if !self.settings.features.iter().any(FeatureSpec::cancels) {
            return;
        }
        let is_due = |permit: &Permit| {
            let work = self.engine.cancellable_work(permit);
            work.and_then(|work| self.engine.cancel_at(&work)).is_some_and(|due| due <= at(now))
        };
        let due: Vec<JobId> =
            self.permits.iter().filter(|(_, permit)| is_due(permit)).map(|(job, _)| *job).collect();
        for job in due {
            let Some(permit) = self.permits.remove(&job) else { continue };
            let settled = self.engine.settle(permit, Completion::from(Outcome::Abandoned), at(now));
            debug_assert!(settled.batches.is_empty(), "there is no store");
            out.push(Verdict::Cancel(job));
        }
    }

    fn wait(&mut self, asked: AskedJob, pending: Pending) {
        let AskedJob { job, service, .. } = asked;
        let Wants::Turn(turn) = pending.wants() else {
            unreachable!("an engine without a store and without leases asks for nothing but turns")
        };
        let wake_at = Clock::TRUE.when(turn.wake_at());
        let waker = Waker::from(Arc::new(JobWaker { job, calls: Arc::clone(&self.calls) }));
        if let Poll::Ready(()) = core::pin::pin!(turn).poll(&mut Context::from_waker(&waker)) {
            self.calls.add(job);
        }
        self.wakes.insert((wake_at, job));
        self.waiting_counts[service] += 1;
        self.waiting.insert(job, WaitingJob { asked, pending, wake_at });
    }

    /// Resumes the requests that were called, and those that are called by what these do.
    fn resume_called(&mut self, now: u64, out: &mut Vec<Verdict>) {
        loop {
            let called = self.calls.take();
            if called.is_empty() {
                return;
            }
            for job in called {
                self.resume(job, now, out);
            }
        }
    }

    fn resume(&mut self, job: JobId, now: u64, out: &mut Vec<Verdict>) {
        let Some(WaitingJob { asked, pending, .. }) = self.stop_waiting(job) else { return };
        let step = self.engine.resume(pending, Answered::Turn, at(now));
        self.take_step(asked, step, true, now, out);
    }

    fn stop_waiting(&mut self, job: JobId) -> Option<WaitingJob> {
        let waited = self.waiting.remove(&job)?;
        self.wakes.remove(&(waited.wake_at, job));
        self.waiting_counts[waited.asked.service] -= 1;
        Some(waited)
    }
}

/// The cause of a refusal of the engine.
fn cause_of(refusal: &Refusal, is_wait_over: bool) -> RefusalCause {
    let overload = refusal.details.as_deref().and_then(RefusalDetails::overload);
    match refusal.reason() {
        Reason::QueueFull => RefusalCause::QueueFull,
        Reason::FeatureDisabled => RefusalCause::FeatureDisabled,
        Reason::Deferred => RefusalCause::Deferred,
        Reason::DeadlineUnmeetable => RefusalCause::DeadlineUnmeetable,
        Reason::OverloadShed if is_wait_over => RefusalCause::WaitedTooLong,
        Reason::OverloadShed if lacks_in_flight_place(refusal) => RefusalCause::LimitReached,
        Reason::OverloadShed => match overload.map(|details| details.mechanism) {
            Some(OverloadMechanism::QueueDelay) => RefusalCause::QueueDelay,
            _ => RefusalCause::Cursor,
        },
        _ => RefusalCause::Other,
    }
}

impl AdmissionControl for TidegateControl {
    fn arrive(&mut self, arrival: ArrivedRequest<'_>, now: u64, out: &mut Vec<Verdict>) {
        let ArrivedRequest { job, service, namespace, class, tenant, feature, cost, attempt, .. } = arrival;
        let (deadline, wait_until) = (arrival.deadline, arrival.wait_until);
        let mut request = Request::new(&self.namespaces[namespace as usize], ())
            .resource(&self.settings.services[service].name)
            .class(class)
            .tenant(tenant)
            .cost(Cost::new(cost.into()).unwrap_or(Cost::ONE))
            .deadline(at(deadline))
            .may_wait_until(at(wait_until));
        request.attempt = attempt;
        request.ticket = arrival.ticket;
        request.feature = feature.map(|feature| self.settings.features[feature].config.name.as_str());
        let step = self.engine.admit(&request, at(now)).expect("the namespace exists, and it has no limits");
        let step = step.into_owned();
        self.take_step(AskedJob { job, service, feature, wait_until }, step, false, now, out);
        self.resume_called(now, out);
    }

    fn end(&mut self, end: JobEnd, now: u64, out: &mut Vec<Verdict>) {
        // A permit of an engine before a restart is gone.
        let Some(permit) = self.permits.remove(&end.job) else { return };
        self.at_work[end.service] -= 1;
        // The services of the world fail in one way only: the work takes too long.
        let completion = if end.has_failed {
            Completion::from(Outcome::Failed).timed_out()
        } else {
            Completion::from(Outcome::Succeeded)
        };
        let settled = self.engine.settle(permit, completion, at(now));
        debug_assert!(settled.batches.is_empty(), "there is no store");
        self.resume_called(now, out);
    }

    fn cancel(&mut self, _service: usize, job: JobId, now: u64, out: &mut Vec<Verdict>) -> bool {
        let Some(left) = self.stop_waiting(job) else { return false };
        drop(left);
        self.resume_called(now, out);
        true
    }

    fn next_wake(&self) -> Option<u64> {
        let first = self.wakes.first().map_or(u64::MAX, |(wake_at, _)| *wake_at);
        Some(first.min(self.next_tick))
    }

    fn wake(&mut self, now: u64, out: &mut Vec<Verdict>) {
        if now >= self.next_tick {
            let tick = self.engine.tick(at(now));
            self.next_tick = Clock::TRUE.when(tick.next).max(now + 1);
            self.follow_features(now, out);
        }
        let due: Vec<JobId> =
            self.wakes.iter().take_while(|(wake_at, _)| *wake_at <= now).map(|(_, job)| *job).collect();
        for job in due {
            self.resume(job, now, out);
        }
        self.resume_called(now, out);
    }

    fn restart(&mut self, now: u64, out: &mut Vec<Verdict>) {
        let waiting = core::mem::take(&mut self.waiting);
        out.extend(waiting.into_keys().map(|job| Verdict::refuse(job, RefusalCause::Restart)));
        self.waiting_counts.fill(0);
        self.wakes.clear();
        self.permits.clear();
        self.calls.take();
        let degraded = self.features(now).into_iter().enumerate().filter(|(_, view)| view.level > 0);
        self.feature_moves.extend(degraded.map(|(feature, view)| FeatureMove {
            feature,
            from: view.level,
            to: 0,
        }));
        self.restarts += 1;
        self.engine = engine(&self.settings, self.mode, self.restarts)
            .expect("the same settings made an engine before");
        self.next_tick = now;
    }

    fn signal(&mut self, pressure: f64, now: u64) {
        let resource = &self.settings.services[0].name;
        // A signal that the engine refuses changes nothing, which is what the experiment looks for.
        let _ = self.engine.event(Event::Signal { resource, pressure }, at(now));
    }

    fn measured(&mut self, service: usize, in_use: f64, now: u64) {
        let name = measured_name(&self.settings.services[service]);
        let event = Event::PushedSignal { name: &name, value: PushedValue::new(in_use) };
        self.engine.event(event, at(now)).expect("the signal is configured, and its value is not negative");
    }

    fn features(&self, now: u64) -> Vec<FeatureControlView> {
        if self.settings.features.is_empty() {
            return Vec::new();
        }
        let views = self.engine.feature_views(at(now));
        let of = |spec: &FeatureSpec| {
            let view = views.iter().find(|view| *view.name == *spec.config.name);
            view.map_or_else(FeatureControlView::default, |view| FeatureControlView {
                level: view.level,
                footprint: Some(view.footprint_better.unwrap_or(view.footprint)),
            })
        };
        self.settings.features.iter().map(of).collect()
    }

    fn take_feature_moves(&mut self) -> Vec<FeatureMove> {
        core::mem::take(&mut self.feature_moves)
    }

    fn view(&self, service: usize, now: u64) -> ControlView {
        let spec = &self.settings.services[service];
        let stats = self.engine.resource_stats(at(now)).find(|stats| stats.name == Some(&spec.name));
        let stats = stats.expect("each service is a resource");
        if self.mode == ResourceMode::Shadow {
            // The places and the queue of the engine are those of the rehearsal.
            return ControlView {
                queued: self.waiting_counts[service],
                in_flight: self.at_work[service],
                limit: None,
                is_adaptive: spec.is_adaptive,
                cursor: Some(f64::from(stats.cursor.level()) / f64::from(Cursor::CLOSED.level())),
                level: Some(super::plane_settings::load_level(&stats)),
                pressure: stats.pressure,
                advice: stats.advice,
            };
        }
        let limit = stats.in_flight_max as f64;
        // The engine has to agree: all that wait, and none undecided once none waits.
        let unanswered = if self.waiting.is_empty() { stats.undecided() as usize } else { 0 };
        let lost = self.engine.waiting().abs_diff(self.waiting.len()) + unanswered;
        ControlView {
            queued: self.waiting_counts[service] + lost,
            in_flight: stats.in_flight as usize,
            limit: Some(limit),
            is_adaptive: spec.is_adaptive,
            cursor: Some(f64::from(stats.cursor.level()) / f64::from(Cursor::CLOSED.level())),
            level: Some(super::plane_settings::load_level(&stats)),
            pressure: stats.pressure,
            advice: stats.advice,
        }
    }
    fn refused_by_class(&self, service: usize, now: u64) -> [u64; Class::ALL.len()] {
        let name = &self.settings.services[service].name;
        let stats = self.engine.resource_stats(at(now)).find(|stats| stats.name == Some(name));
        let stats = stats.expect("each service is a resource");
        Class::ALL.map(|class| {
            let of_class = stats.class(class);
            of_class.refused_by_load() + of_class.count(OfferOutcome::Expired) + of_class.would_be_refused()
        })
    }
}
