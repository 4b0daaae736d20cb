//! A rival at work: one queue or one limit for each service, simplified to what its source says.
//!
//! `facts/overload.md`, section 2, has the sources and the constants.

mod concurrency_limit;
mod dagor_cursor;
mod delay_rule;
mod pi_rejector;
mod rival_queue;

use std::collections::BTreeMap;

use self::concurrency_limit::{AimdLimit, ConcurrencyLimit, GradientLimit};
use self::dagor_cursor::DagorCursor;
use self::delay_rule::DelayRule;
use self::pi_rejector::PiRejector;
use self::rival_queue::{QueueOrder, QueuedJob, RivalQueue};
use super::rival::Rival;
use tidegate_sim::kit::{Chance, MS};
use tidegate_sim::overload::{
    AdmissionControl, ArrivedRequest, ControlView, ControlledServices, JobEnd, JobId, RefusalCause, Verdict,
};

/// The longest wait in the queues of rivals that bound it.
const WAIT_MAX: u64 = 250 * MS;

/// A rival in front of all services.
#[derive(Debug)]
pub(crate) struct RivalControl {
    gates: Vec<RivalGate>,
}

/// A rival in front of one service.
#[derive(Debug)]
struct RivalGate {
    admission: RivalAdmission,
    queue: RivalQueue,
    /// The most requests that the queue holds.
    queue_max: usize,
    delay: DelayRule,
    workers: usize,
    in_flight: BTreeMap<JobId, u64>,
    chance: Chance,
    design: Rival,
}

/// The decision on arrival.
#[derive(Debug)]
enum RivalAdmission {
    /// Everything goes to the queue.
    All,
    /// A limit on requests at the service, which has the queue behind it.
    Limit(Box<dyn ConcurrencyLimit>),
    Dagor(DagorCursor),
    Pi(PiRejector),
}

impl RivalControl {
    pub(crate) fn new(design: Rival, services: &ControlledServices) -> Self {
        let gate = |service: usize| {
            let part = 500 + service as u64;
            let workers = services.services[service].workers as usize;
            RivalGate::new(design, workers, Chance::new(services.seed, part))
        };
        Self { gates: (0..services.services.len()).map(gate).collect() }
    }
}

impl RivalGate {
    fn new(design: Rival, workers: usize, chance: Chance) -> Self {
        use Rival as D;
        let admission = match design {
            D::Dagor => RivalAdmission::Dagor(DagorCursor::new()),
            D::PiRejector => RivalAdmission::Pi(PiRejector::new()),
            D::Aimd => RivalAdmission::Limit(Box::new(AimdLimit::new())),
            D::Gradient2 => RivalAdmission::Limit(Box::new(GradientLimit::new())),
            _ => RivalAdmission::All,
        };
        let order = match design {
            D::StrictPriority | D::PiRejector => QueueOrder::ByClass,
            D::CoDelLifo => QueueOrder::NewestWhileStanding,
            _ => QueueOrder::Arrival,
        };
        let delay = match design {
            D::FifoExpiry => DelayRule::Deadline,
            D::CoDel => DelayRule::codel(),
            D::CoDelLifo => DelayRule::FailAtScale,
            D::Dagor | D::StrictPriority | D::PiRejector => DelayRule::Longest(WAIT_MAX),
            _ => DelayRule::Never,
        };
        let queue_max = if design == D::BoundedFifo { 1000 } else { usize::MAX };
        let (queue, in_flight) = (RivalQueue::new(order), BTreeMap::new());
        Self { admission, queue, queue_max, delay, workers, in_flight, chance, design }
    }

    /// The cause for which a request is refused on arrival.
    fn refuses(&mut self, arrival: &ArrivedRequest<'_>, now: u64) -> Option<RefusalCause> {
        let cohort = self.chance.below(128) as usize;
        let level = arrival.class as usize * 128 + cohort;
        let has_room = match &mut self.admission {
            RivalAdmission::All => true,
            RivalAdmission::Limit(limit) => {
                let has_room = ((self.in_flight.len() + 1) as f64) <= limit.limit();
                return (!has_room).then_some(RefusalCause::LimitReached);
            }
            RivalAdmission::Dagor(cursor) => cursor.admits(level, now),
            RivalAdmission::Pi(rejector) => rejector.admits(level),
        };
        if !has_room {
            return Some(RefusalCause::Cursor);
        }
        (self.queue.len() >= self.queue_max).then_some(RefusalCause::QueueFull)
    }

    /// Starts waiting requests while workers are free.
    fn fill(&mut self, now: u64, out: &mut Vec<Verdict>) {
        while self.in_flight.len() < self.workers {
            let Some(next) = self.queue.take(now) else { return };
            let waited = now - next.arrived;
            if let RivalAdmission::Dagor(cursor) = &mut self.admission {
                cursor.waited(waited, now);
            }
            if let Some(cause) = self.delay.refuses(&next, self.queue.is_standing(now), now) {
                out.push(Verdict::refuse(next.job, cause));
                continue;
            }
            self.start(next.job, now, out);
        }
    }

    fn start(&mut self, job: JobId, now: u64, out: &mut Vec<Verdict>) {
        if let RivalAdmission::Pi(rejector) = &mut self.admission {
            rejector.went_out();
        }
        self.in_flight.insert(job, now);
        out.push(Verdict::start(job));
    }
}

impl AdmissionControl for RivalControl {
    fn arrive(&mut self, arrival: ArrivedRequest<'_>, now: u64, out: &mut Vec<Verdict>) {
        let gate = &mut self.gates[arrival.service];
        if let Some(cause) = gate.refuses(&arrival, now) {
            out.push(Verdict::refuse(arrival.job, cause));
            return;
        }
        if matches!(gate.admission, RivalAdmission::Limit(_)) {
            // The queue is the service's own.
            gate.start(arrival.job, now, out);
            return;
        }
        let ArrivedRequest { job, class, deadline, .. } = arrival;
        gate.queue.add(QueuedJob { job, class, arrived: now, deadline });
        gate.fill(now, out);
    }

    fn end(&mut self, end: JobEnd, now: u64, out: &mut Vec<Verdict>) {
        let gate = &mut self.gates[end.service];
        let in_flight = gate.in_flight.len();
        let Some(started) = gate.in_flight.remove(&end.job) else { return };
        if let RivalAdmission::Limit(limit) = &mut gate.admission {
            limit.answered(now - started, in_flight, end.is_late || end.has_failed);
        }
        gate.fill(now, out);
    }

    fn cancel(&mut self, service: usize, job: JobId, _now: u64, _out: &mut Vec<Verdict>) -> bool {
        self.gates[service].queue.remove(job)
    }

    fn next_wake(&self) -> Option<u64> {
        let wakes = self.gates.iter().filter_map(|gate| match &gate.admission {
            RivalAdmission::Pi(rejector) => Some(rejector.next_update()),
            _ => None,
        });
        wakes.min()
    }

    fn wake(&mut self, now: u64, _out: &mut Vec<Verdict>) {
        for gate in &mut self.gates {
            if let RivalAdmission::Pi(rejector) = &mut gate.admission {
                rejector.update(gate.workers - gate.in_flight.len().min(gate.workers), now);
            }
        }
    }

    fn restart(&mut self, _now: u64, out: &mut Vec<Verdict>) {
        for gate in &mut self.gates {
            let waiting = gate.queue.drain();
            out.extend(waiting.into_iter().map(|job| Verdict::refuse(job, RefusalCause::Restart)));
            *gate = RivalGate::new(gate.design, gate.workers, gate.chance.clone());
        }
    }

    fn signal(&mut self, _pressure: f64, _now: u64) {}

    fn view(&self, service: usize, _now: u64) -> ControlView {
        let gate = &self.gates[service];
        let (limit, is_adaptive) = match &gate.admission {
            RivalAdmission::Limit(limit) => (limit.limit(), true),
            _ => (gate.workers as f64, false),
        };
        let cursor = match &gate.admission {
            RivalAdmission::Dagor(cursor) => Some(cursor.position()),
            RivalAdmission::Pi(rejector) => Some(rejector.position()),
            _ => None,
        };
        let (queued, in_flight) = (gate.queue.len(), gate.in_flight.len());
        ControlView {
            queued,
            in_flight,
            limit: Some(limit),
            is_adaptive,
            cursor,
            level: None,
            pressure: None,
            advice: None,
        }
    }
}
