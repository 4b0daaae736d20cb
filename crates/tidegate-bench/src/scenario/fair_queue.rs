//! The fair queue of a resource: what it costs to be admitted, to be shed, and to wait.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use tidegate_core::{Attributes, Class, Limit};
use tidegate_engine::{Decision, Engine, EngineConfig, NamespaceConfig, Pending, Request, RoomBounds, Step};
use tidegate_overload::{Overload, QueueConfig, ResourceConfig};

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

/// A decision at once: with all planes, with and without a place, and with the cursor closed.
pub(super) fn decisions() -> [Scenario; 2] {
    let clock = Clock::start();
    let scenario = |title: &str, admits: bool, candidates: Vec<Candidate>| Scenario {
        title: title.to_owned(),
        admits: Some(admits),
        calls: 1 << 17,
        candidates,
    };
    let decide = move |engine: Engine, name: &str| {
        let tenants = workload::keys(TENANTS);
        let candidate = Candidate::each(name, Ours, move |index| {
            with_request(index, &tenants, |request| calls::admit(&engine, &request, clock.now()))
        });
        candidate.within(1_000.0)
    };
    let admitted = decide(engine(ResourceConfig::IN_FLIGHT_MAX), "admitted, nothing waits");
    let full = engine(1);
    let held = with_request(0, &workload::keys(1), |request| full.admit(&request, START));
    std::mem::forget(held);
    let refused = decide(full, "refused, no place");
    [
        scenario("Fair queue, a decision with all planes, admitted", true, vec![admitted]),
        scenario("Fair queue, a decision with all planes, refused", false, vec![refused]),
    ]
}

/// A request of the fair queue that is admitted at once.
pub(super) fn admitted() -> Scenario {
    let [admitted, _] = decisions();
    admitted
}

/// A request of the fair queue that is refused at once.
pub(super) fn refused() -> Scenario {
    let [_, refused] = decisions();
    refused
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
    let candidates = [1_000, 10_000].map(|queued| {
        let engine = engine(1);
        let tenants = workload::keys(TENANTS);
        let until = START.saturating_add(WAIT);
        let held = with_request(0, &tenants, |request| engine.admit(&request, START));
        std::mem::forget(held);
        let waiting = Mutex::new(Vec::with_capacity(queued));
        Candidate::batched(&format!("{queued} enter and leave"), Ours, queued, move |_| {
            let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
            for index in 0..queued {
                let step = with_request(index, &tenants, |request| {
                    engine.admit(&request.may_wait_until(until), clock.now())
                });
                waiting.push(step);
            }
            while waiting.pop().is_some() {}
            0
        })
    });
    Scenario {
        title: "Fair queue, a cancel storm".to_owned(),
        admits: Some(false),
        // Each of the 64 runs of a repetition is one storm of the larger size.
        // One storm of the larger size in each of the 64 runs of a repetition.
        calls: 10_000 * 64,
        candidates: candidates.into(),
    }
}
