//! The fair queue of a resource: what it costs to be admitted, to be shed, and to wait.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use tidegate_core::{Attributes, Class, Limit, Timestamp};
use tidegate_engine::{
    Decision, Engine, EngineConfig, Event, NamespaceConfig, Outcome, Pending, Request, RoomBounds, Step,
};
use tidegate_overload::{Cursor, Overload, QueueConfig, ResourceConfig};

use crate::calls::{self, HOT, access};
use crate::timing::Side::Ours;
use crate::timing::{Candidate, Scenario};
use crate::workload::{self, Clock, SEED, START};

/// How long a request may wait: longer than a measurement takes.
const WAIT: Duration = Duration::from_hours(10);

/// The tenants of the requests that wait.
const TENANTS: usize = 1_000;

/// An engine with all planes and a fair queue, with so many places in flight.
fn engine(in_flight_max: u64) -> Engine {
    let mut config = EngineConfig::seeded(SEED);
    config.table.bytes = 64 << 20;
    let limit = Limit::new("per-session", workload::endless()).key(["session"]);
    // Delay control would shed what waits here for as long as a measurement takes.
    let queue =
        Class::ALL.into_iter().fold(QueueConfig::default(), |queue, class| queue.delay_target(class, None));
    let overload = Overload::new(ResourceConfig::new(in_flight_max).queue(queue), 1);
    let engine = Engine::builder(config)
        .namespace(NamespaceConfig::new("bench", [limit]))
        .capacity(calls::capacity())
        .overload(overload.expect("the bound is valid"))
        .build()
        .expect("the engine of a benchmark is valid");
    engine.set_waiting_bounds(RoomBounds::new(1 << 20, 1 << 40));
    let _ = engine.tick(START);
    engine
}

/// A request of a class and a tenant that meets every plane.
fn with_request<R>(index: usize, tenants: &[String], act: impl FnOnce(Request<'_>) -> R) -> R {
    let attributes = [("session", HOT)];
    let request = Request::new("bench", Attributes::new(&attributes));
    let tenant = &tenants[index % tenants.len()];
    act(request.tenant(tenant).class(Class::ALL[index % 4]).access(access(index, HOT)))
}

/// An engine that decides requests of all planes at once, each in the same way.
pub(crate) struct AtOnce {
    engine: Engine,
    tenants: Vec<String>,
    classes: &'static [Class],
}

impl AtOnce {
    /// All are admitted.
    pub(crate) fn admitted() -> Self {
        Self::new(engine(ResourceConfig::IN_FLIGHT_MAX))
    }

    /// None has a place.
    pub(crate) fn refused() -> Self {
        let full = engine(1);
        let held =
            with_request(0, &workload::keys(1), |request| full.admit(&request, START).map(Step::into_owned));
        std::mem::forget(held);
        Self::new(full)
    }

    /// The cursor sheds all, of classes below the highest, of which it sheds none.
    pub(crate) fn shed() -> Self {
        let closed = engine(ResourceConfig::IN_FLIGHT_MAX);
        let (level, until) = (Some(Cursor::CLOSED.level()), START.saturating_add(WAIT));
        let pinned = closed.event(Event::Pin { resource: None, level, until }, START);
        pinned.expect("the default resource has a cursor");
        Self { classes: &Class::ALL[..3], ..Self::new(closed) }
    }

    fn new(engine: Engine) -> Self {
        Self { engine, tenants: workload::keys(TENANTS), classes: &Class::ALL }
    }

    fn with_request<R>(&self, index: usize, act: impl FnOnce(Request<'_>) -> R) -> R {
        let class = self.classes[index % self.classes.len()];
        with_request(index, &self.tenants, |request| act(request.class(class)))
    }

    /// Whether a request is admitted; its permit is dropped.
    #[inline]
    pub(crate) fn admits(&self, index: usize, now: Timestamp) -> bool {
        self.with_request(index, |request| calls::admit(&self.engine, &request, now))
    }

    /// Whether a request is admitted; its permit is settled.
    #[inline]
    pub(crate) fn settles(&self, index: usize, now: Timestamp) -> bool {
        self.with_request(index, |request| match self.engine.admit(&request, now) {
            Ok(Step::Decided(Decision::Admit(permit))) => {
                self.engine.settle(permit, Outcome::Succeeded, now).batches.is_empty()
            }
            _ => false,
        })
    }
}

fn at_once(
    name: &str,
    admits: bool,
    at_once: AtOnce,
    decide: impl Fn(&AtOnce, usize, Timestamp) -> bool + Send + Sync + 'static,
) -> Scenario {
    let clock = Clock::start();
    let candidate = Candidate::each(name, Ours, move |index| decide(&at_once, index, clock.now()));
    Scenario {
        title: "Fair queue, a decision with all planes".to_owned(),
        admits: Some(admits),
        calls: 1 << 17,
        candidates: vec![candidate.within(1_000.0)],
    }
}

/// A request of the fair queue that is admitted at once.
pub(super) fn admitted() -> Scenario {
    at_once("admitted, nothing waits", true, AtOnce::admitted(), AtOnce::admits)
}

/// A request of the fair queue that is admitted at once and settled.
pub(super) fn settled() -> Scenario {
    at_once("admitted and settled, nothing waits", true, AtOnce::admitted(), AtOnce::settles)
}

/// A request of the fair queue that is refused at once for want of a place.
pub(super) fn refused() -> Scenario {
    at_once("refused, no place", false, AtOnce::refused(), AtOnce::admits)
}

/// A request of the fair queue that the cursor sheds.
pub(super) fn shed() -> Scenario {
    at_once("shed by the cursor", false, AtOnce::shed(), AtOnce::admits)
}

/// A request that enters the queue and leaves it again, with others in it.
pub(super) fn enqueue() -> Scenario {
    let clock = Clock::start();
    let candidates = [0, 999, 99_999].map(|queued| {
        let engine = engine(1);
        let tenants = workload::keys(TENANTS);
        let until = START.saturating_add(WAIT);
        let wait = move |index, now| {
            with_request(index, &tenants, |request| match engine.admit(&request.may_wait_until(until), now) {
                Ok(Step::Ask(pending)) => Some(pending),
                // The first one gets the only place and keeps it.
                Ok(Step::Decided(Decision::Admit(permit))) => {
                    std::mem::forget(permit);
                    None
                }
                other => panic!("should wait: {other:?}"),
            })
        };
        let waiting: Vec<Pending> = (0..=queued).filter_map(|index| wait(index, START)).collect();
        let waiting = Mutex::new(waiting);
        let name = format!("enqueue and cancel, {} queued", queued + 1);
        Candidate::each(&name, Ours, move |index| {
            // Kept alive with the candidate.
            let _ = &waiting;
            wait(index, clock.now()).is_none()
        })
    });
    Scenario {
        title: "Fair queue, a request that enters and leaves".to_owned(),
        admits: Some(false),
        calls: 1 << 16,
        candidates: candidates.into(),
    }
}

/// A storm: all of so many requests leave, the newest first. The time is that of one of them.
pub(super) fn storm() -> Scenario {
    let clock = Clock::start();
    let candidates = [1_000, 10_000, 100_000].map(|queued| {
        let engine = engine(1);
        let tenants = workload::keys(TENANTS);
        let until = START.saturating_add(WAIT);
        let held = with_request(0, &tenants, |request| engine.admit(&request, START).map(Step::into_owned));
        std::mem::forget(held);
        let waiting = Mutex::new(Vec::with_capacity(queued));
        let name = format!("{queued} enter and leave");
        let candidate = Candidate::batched(&name, Ours, queued, move |_| {
            let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
            for index in 0..queued {
                let step = with_request(index, &tenants, |request| {
                    engine.admit(&request.may_wait_until(until), clock.now()).map(Step::into_owned)
                });
                waiting.push(step);
            }
            while waiting.pop().is_some() {}
            0
        });
        // A run has at least one storm: of the largest one, and there are 4 runs rather than 64.
        if queued < 100_000 { candidate.rarely(10) } else { candidate.rarely(16).in_runs(4) }
    });
    Scenario {
        title: "Fair queue, a cancel storm".to_owned(),
        admits: Some(false),
        calls: 100_000 * 64,
        candidates: candidates.into(),
    }
}
