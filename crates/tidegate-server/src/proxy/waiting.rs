//! Requests that wait for a limit or a permit: in line by class and then by arrival, and only so many.
//!
//! There is a line for each counter that refuses. Who stands first in it asks the engine when the refusal said to come
//! back, or when somebody gave something back; everybody else waits for those in front. A request that comes while
//! others wait for the same counter joins their line instead of taking what they wait for. Whoever leaves, for whatever
//! reason, is out of the line at once.

use core::cmp::Reverse;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate::{Class, Reason, Refusal, Retry, Timestamp};
use tidegate_engine::{Decision, Request};
use tidegate_wire::Fault;
use tokio::sync::Notify;

use super::config::ProxyConfig;
use crate::daemon::Daemon;
use crate::decide::decide_apart;
use crate::in_force::InForce;

/// How often the first in line for a permit asks again although nobody has said that one was given back: permits are
/// also given back at other doors, and in stores that others use.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// All requests that wait.
#[derive(Debug, Default)]
pub(crate) struct WaitingRoom {
    lines: Mutex<Lines>,
    /// How many wait: read before each decision, so that it costs one load while nobody does.
    count: AtomicUsize,
    /// Somebody gave back something that was lent.
    left: Notify,
}

#[derive(Debug, Default)]
struct Lines {
    by_counter: HashMap<Counter, BTreeMap<Place, Arc<Notify>>>,
    next: u64,
    bytes: usize,
}

/// The counter that a line waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Counter {
    namespace: Box<str>,
    limit: Box<str>,
    scope: Vec<(Box<str>, Box<str>)>,
}

/// Who comes first: the higher class, then the earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    class: Reverse<Class>,
    number: u64,
}

/// A place in a line, left by dropping it.
struct Standing<'a> {
    room: &'a WaitingRoom,
    counter: Counter,
    place: Place,
    bytes: usize,
    /// Told when it becomes the first.
    called: Arc<Notify>,
}

impl Counter {
    fn of(refusal: &Refusal<'_>) -> Self {
        let scope = refusal.scope.iter().map(|(name, value)| ((&**name).into(), (&**value).into()));
        Self { namespace: (&*refusal.namespace).into(), limit: refusal.name().into(), scope: scope.collect() }
    }

    /// Whether a request would be charged here.
    fn is_of(&self, request: &Request<'_>, in_force: &InForce) -> bool {
        if *self.namespace != *request.namespace {
            return false;
        }
        let is_same = |(name, value): &(Box<str>, Box<str>)| request.attributes.get(name) == Some(&**value);
        if !self.scope.iter().all(is_same) {
            return false;
        }
        let Ok(mut limits) = in_force.engine.limits(request.namespace) else { return false };
        limits.any(|limit| {
            *limit.name == *self.limit
                && limit.matches.iter().all(|one| one.matcher.matches(request.attributes.get(&one.attribute)))
        })
    }
}

impl WaitingRoom {
    fn lines(&self) -> MutexGuard<'_, Lines> {
        // Every change is one insertion or removal with its count; a panic elsewhere leaves them whole.
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Something that was lent has been given back.
    pub(crate) fn somebody_left(&self) {
        if self.len() > 0 {
            self.left.notify_waiters();
        }
    }

    /// A place at the end of the class's part of a line; `None` if as many wait as may.
    fn stand(
        &self,
        counter: Counter,
        class: Class,
        bytes: usize,
        config: &ProxyConfig,
    ) -> Option<Standing<'_>> {
        let mut lines = self.lines();
        // Exact under the lock, which every change of the count holds.
        if self.len() >= config.waiting || lines.bytes.saturating_add(bytes) > config.waiting_bytes {
            return None;
        }
        let place = Place { class: Reverse(class), number: lines.next };
        lines.next += 1;
        lines.bytes += bytes;
        let called = Arc::new(Notify::new());
        lines.by_counter.entry(counter.clone()).or_default().insert(place, Arc::clone(&called));
        self.count.fetch_add(1, Ordering::Relaxed);
        Some(Standing { room: self, counter, place, bytes, called })
    }

    /// The line that a new request must join before it may ask at all.
    fn line_before(&self, request: &Request<'_>, in_force: &InForce) -> Option<Counter> {
        if self.len() == 0 {
            return None;
        }
        let lines = self.lines();
        lines.by_counter.keys().find(|counter| counter.is_of(request, in_force)).cloned()
    }
}

impl Standing<'_> {
    fn is_first(&self) -> bool {
        let lines = self.room.lines();
        let line = lines.by_counter.get(&self.counter);
        line.and_then(|line| line.first_key_value()).is_some_and(|(place, _)| *place == self.place)
    }
}

impl Drop for Standing<'_> {
    fn drop(&mut self) {
        let mut lines = self.room.lines();
        lines.bytes -= self.bytes;
        self.room.count.fetch_sub(1, Ordering::Relaxed);
        let Some(line) = lines.by_counter.get_mut(&self.counter) else { return };
        line.remove(&self.place);
        match line.first_key_value() {
            Some((_, next)) => next.notify_one(),
            None => {
                lines.by_counter.remove(&self.counter);
            }
        }
    }
}

/// How long a request may wait, and what it takes up meanwhile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Willing {
    pub(crate) until: Timestamp,
    pub(crate) head_bytes: usize,
}

/// Decides a request that may wait. Dropping the future leaves the line and gives back whatever it held.
pub(crate) async fn decide_in_time(
    daemon: &Arc<Daemon>,
    in_force: &Arc<InForce>,
    request: &Request<'_>,
    willing: Willing,
) -> Result<Decision, Fault> {
    let room = &daemon.proxy.waiting;
    let config = &in_force.routes.config;
    let mut stopping = daemon.stopping.clone();
    let mut request = *request;
    let mut standing = room
        .line_before(&request, in_force)
        .and_then(|counter| room.stand(counter, request.class, willing.head_bytes, config));
    loop {
        // Heard from here on, so that what is given back while the engine is asked is not missed.
        let mut left = core::pin::pin!(room.left.notified());
        left.as_mut().enable();
        let first = standing.as_ref().is_none_or(Standing::is_first);
        let mut come_back = willing.until;
        let is_over = daemon.clock.now() >= willing.until || *stopping.borrow();
        if first || is_over {
            let refusal = match decide_apart(daemon, in_force, &request).await? {
                Decision::Refuse(refusal) if !is_over => refusal,
                decided => return Ok(decided),
            };
            let Some(at) = worth_waiting(&refusal, daemon.clock.now()).filter(|at| *at <= willing.until)
            else {
                return Ok(Decision::Refuse(refusal));
            };
            come_back = at;
            // What asks again is no new demand.
            request.attempt = request.attempt.max(1);
            let counter = Counter::of(&refusal);
            if standing.as_ref().is_none_or(|standing| standing.counter != counter) {
                // Out of the old line before into the new one, or one request would count twice.
                drop(standing.take());
                standing = room.stand(counter, request.class, willing.head_bytes, config);
                if standing.is_none() {
                    return Ok(Decision::Refuse(refusal));
                }
            }
        }
        let Some(place) = &standing else { continue };
        let called = Arc::clone(&place.called);
        let is_first = place.is_first();
        tokio::select! {
            () = daemon.clock.sleep_until(if is_first { come_back } else { willing.until }) => {}
            () = left, if is_first => {}
            () = called.notified(), if !is_first => {}
            _ = stopping.wait_for(|stop| *stop) => {}
        }
    }
}

/// When to ask again; `None` if waiting is no use.
fn worth_waiting(refusal: &Refusal<'_>, now: Timestamp) -> Option<Timestamp> {
    match (refusal.reason(), refusal.retry()) {
        (Reason::ConcurrencyExceeded, _) => Some(now.saturating_add(ASK_AGAIN)),
        (Reason::Blocked | Reason::StoreUnavailable | Reason::TableFull, _) => None,
        // Two decisions never fall on one instant, or a clock that stands still would be asked for ever.
        (_, Retry::At(at)) => Some(at.max(now.saturating_add(Duration::from_nanos(1)))),
        _ => None,
    }
}
