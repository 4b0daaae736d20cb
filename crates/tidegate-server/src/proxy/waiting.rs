//! Requests that wait for a limit or a permit: in line by class and then by arrival, and only so
//! many.
//!
//! There is a line for each counter that refuses. The first request of a line asks the engine at
//! the instant that the refusal named, or when another request gives back something of that
//! counter; the others wait for those in front. What is given back wakes the first of its own line
//! only, so that its cost does not grow with the number of lines. A request that arrives while
//! others wait for the same counter joins their line instead of taking what they wait for. A
//! request that leaves, for whatever reason, is out of its line at once.

use core::hash::{BuildHasher, Hash, Hasher};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use smallvec::SmallVec;
use tidegate::limit::{KeyPart, Missing};
use tidegate::{Algorithm, Class, Limit, Reason, Refusal, Retry, Timestamp};
use tidegate_engine::{Decision, Request};
use tidegate_wire::Fault;
use tokio::sync::Notify;

use super::routes::Routes;
use crate::daemon::{Daemon, Desk};
use crate::decide::engine_fault;
use crate::in_force::InForce;

mod lines;

pub(crate) use lines::CounterId;
use lines::{Entrant, Lines, Place, Room, RoomBounds};

/// How often the first in line for a permit asks again although no request of the proxy has given
/// one back: permits are also given back at other listeners, and in stores that others use.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// By how much [`ASK_AGAIN`] grows with each line, so that all lines together ask at most a
/// thousand times a second.
const ASK_AGAIN_FOR_EACH_LINE: Duration = Duration::from_millis(1);

/// All requests that wait.
#[derive(Debug)]
pub(crate) struct WaitingRoom {
    lines: Mutex<Lines>,
    /// How many wait: read before each decision, so that it costs one load while nobody does.
    count: AtomicUsize,
    /// How often something was given back. Together with `count` in one order for all threads: a
    /// request that enters a line sees here what was given back before, and whatever is given back
    /// later sees the request in `count`.
    returns: AtomicU64,
    hasher: ahash::RandomState,
}

impl Default for WaitingRoom {
    fn default() -> Self {
        let mut seeds = [0; 32];
        // Without randomness two counters could be made to share a line, which only makes their
        // requests wait longer.
        let _ = getrandom::fill(&mut seeds);
        let seed =
            |index: usize| seeds[8 * index..].iter().take(8).fold(0, |all, byte| all << 8 | u64::from(*byte));
        Self {
            lines: Mutex::default(),
            count: AtomicUsize::new(0),
            returns: AtomicU64::new(0),
            hasher: ahash::RandomState::with_seeds(seed(0), seed(1), seed(2), seed(3)),
        }
    }
}

/// The counters that a request is charged on, for those that wait for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters {
    /// Of limits that lend permits.
    lending: SmallVec<[CounterId; 2]>,
    /// Of all other limits.
    other: SmallVec<[CounterId; 2]>,
}

/// A place in a line, left by dropping it.
struct Standing<'a> {
    room: &'a WaitingRoom,
    counter: CounterId,
    place: Place,
    namespace: &'a str,
    bytes: usize,
    /// Told when it becomes the first, or is the first and something was given back.
    called: Arc<Notify>,
}

impl WaitingRoom {
    fn lines(&self) -> MutexGuard<'_, Lines> {
        // Every change is one insertion or removal with its count; a panic elsewhere leaves them
        // whole.
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// The counters on which a request is charged; none in a namespace whose requests never wait.
    pub(crate) fn counters_of(&self, request: &Request<'_>, in_force: &InForce) -> Counters {
        let mut counters = Counters::default();
        if !in_force.routes.lets_wait(request.namespace) {
            return counters;
        }
        let Ok(limits) = in_force.engine.limits(request.namespace) else { return counters };
        for limit in limits {
            if let Some(counter) = self.counter_of(limit, request) {
                let is_lending = matches!(limit.algorithm, Algorithm::Concurrency(_));
                if is_lending { counters.lending.push(counter) } else { counters.other.push(counter) }
            }
        }
        counters
    }

    /// The counter of a limit on which a request is charged; `None` if the limit does not apply to
    /// it.
    fn counter_of(&self, limit: &Limit, request: &Request<'_>) -> Option<CounterId> {
        let attribute = |name: &str| request.attributes.get(name);
        if !limit.matches.iter().all(|one| one.matcher.matches(attribute(&one.attribute))) {
            return None;
        }
        let mut hasher = self.hasher.build_hasher();
        (request.namespace, &limit.name).hash(&mut hasher);
        for part in &limit.key {
            match attribute(&part.attribute) {
                Some(value) => write_value(part, value, &mut hasher),
                None if limit.missing == Missing::Group => hasher.write_u8(0),
                None => return None,
            }
        }
        Some(CounterId(hasher.finish()))
    }

    /// The counter that a refusal is about.
    fn counter_of_refusal(
        &self,
        refusal: &Refusal<'_>,
        request: &Request<'_>,
        in_force: &InForce,
    ) -> CounterId {
        let mut limits = in_force.engine.limits(request.namespace).into_iter().flatten();
        let limit = limits.find(|limit| limit.name == refusal.name());
        limit.and_then(|limit| self.counter_of(limit, request)).unwrap_or_else(|| {
            // Refused by another plane, which has no limits.
            let mut hasher = self.hasher.build_hasher();
            (&*refusal.namespace, refusal.name()).hash(&mut hasher);
            refusal.scope.iter().for_each(|(name, value)| (&**name, &**value).hash(&mut hasher));
            CounterId(hasher.finish())
        })
    }

    /// A request has ended: what it lent is there again, and if it never started, so is all it was
    /// charged.
    pub(crate) fn gave_back(&self, counters: &Counters, is_all: bool) {
        self.returns.fetch_add(1, Ordering::SeqCst);
        if self.len() == 0 {
            return;
        }
        let lines = self.lines();
        counters.lending.iter().for_each(|counter| lines.wake_first(*counter));
        if is_all {
            counters.other.iter().for_each(|counter| lines.wake_first(*counter));
        }
    }

    /// A place in a line; `None` if as many wait as may.
    fn enter<'a>(
        &'a self,
        counter: CounterId,
        entrant: Entrant<'a>,
        routes: &Routes,
    ) -> Option<Standing<'a>> {
        let most = Room { requests: routes.config.waiting, bytes: routes.config.waiting_bytes };
        let bounds = RoomBounds { most, namespaces: routes.waiting_namespaces.len() };
        let (place, called) = self.lines().enter(counter, entrant, bounds)?;
        self.count.fetch_add(1, Ordering::SeqCst);
        let Entrant { namespace, bytes, .. } = entrant;
        Some(Standing { room: self, counter, place, namespace, bytes, called })
    }

    /// The line that a new request must join before it may ask at all.
    fn line_before(&self, request: &Request<'_>, in_force: &InForce) -> Option<CounterId> {
        if self.len() == 0 {
            return None;
        }
        let counters = self.counters_of(request, in_force);
        let lines = self.lines();
        counters.lending.iter().chain(&counters.other).copied().find(|counter| lines.contains(*counter))
    }

    /// How long the first of a line waits for a permit before it asks again.
    fn ask_again(&self) -> Duration {
        let lines = u32::try_from(self.lines().count()).unwrap_or(u32::MAX);
        ASK_AGAIN.max(ASK_AGAIN_FOR_EACH_LINE.saturating_mul(lines))
    }

    /// When to ask again; `None` if waiting is no use.
    fn worth_waiting(&self, refusal: &Refusal<'_>, now: Timestamp) -> Option<Timestamp> {
        match (refusal.reason(), refusal.retry()) {
            (Reason::ConcurrencyExceeded, _) => Some(now.saturating_add(self.ask_again())),
            (Reason::Blocked | Reason::StoreUnavailable | Reason::TableFull, _) => None,
            // Two decisions never fall on one instant, or a clock that stands still would be asked
            // for ever.
            (_, Retry::At(at)) => Some(at.max(now.saturating_add(Duration::from_nanos(1)))),
            _ => None,
        }
    }
}

/// Writes a value as the limit counts it: addresses by their network, so that all spellings of one
/// are in one line.
fn write_value(part: &KeyPart, value: &str, hasher: &mut impl Hasher) {
    let address = || {
        let inside = value.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(value);
        let address = inside.parse().or_else(|_| value.parse().map(|socket: SocketAddr| socket.ip()));
        address.ok().map(|address: IpAddr| address.to_canonical())
    };
    match part.ipv6_prefix.and_then(|prefix| Some((prefix.min(128), address()?))) {
        Some((prefix, IpAddr::V6(address))) => {
            hasher.write_u8(1);
            // A shift by all 128 bits does not exist; what it would leave is nothing.
            hasher
                .write_u128(address.to_bits() & u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0));
        }
        Some((_, IpAddr::V4(address))) => {
            hasher.write_u8(2);
            hasher.write_u32(address.to_bits());
        }
        None => {
            hasher.write_u8(3);
            value.hash(hasher);
        }
    }
}

impl Standing<'_> {
    fn is_first(&self) -> bool {
        self.room.lines().is_first(self.counter, self.place)
    }
}

impl Drop for Standing<'_> {
    fn drop(&mut self) {
        self.room.count.fetch_sub(1, Ordering::SeqCst);
        self.room.lines().leave(self.counter, self.place, self.namespace, self.bytes);
    }
}

/// How long a request may wait, and what it takes up meanwhile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Willing {
    pub(crate) until: Timestamp,
    pub(crate) head_bytes: usize,
}

/// Decides a request that may wait. Dropping the future leaves the line and gives back whatever it
/// held.
pub(crate) async fn decide_in_time(
    daemon: &Arc<Daemon>,
    in_force: &Arc<InForce>,
    request: &Request<'_>,
    willing: Willing,
) -> Result<Decision, Fault> {
    let room = &daemon.proxy.waiting;
    let routes = &in_force.routes;
    let mut stopping = daemon.stopping.clone();
    let mut request = *request;
    let entrant = |class: Class, arrival| Entrant {
        namespace: request.namespace,
        class,
        arrival,
        bytes: willing.head_bytes,
    };
    let class = request.class;
    let mut standing = room
        .line_before(&request, in_force)
        .and_then(|counter| room.enter(counter, entrant(class, None), routes));
    // What is given back between a refusal and the moment at which its request stands in line wakes
    // nobody, so such a request asks once more; not without end, since on a busy daemon something
    // is given back all the time.
    let mut may_repeat = true;
    loop {
        let returns = room.returns.load(Ordering::SeqCst);
        let mut come_back = willing.until;
        let is_over = daemon.clock.now() >= willing.until || *stopping.borrow();
        if is_over || standing.as_ref().is_none_or(Standing::is_first) {
            let decision = Desk { daemon, in_force }.decide(&request).await;
            let refusal = match decision.map_err(|error| engine_fault(&error, daemon.clock.now()))? {
                Decision::Refuse(refusal) if !is_over => refusal,
                decided => return Ok(decided),
            };
            let Some(at) = room.worth_waiting(&refusal, daemon.clock.now()).filter(|at| *at <= willing.until)
            else {
                return Ok(Decision::Refuse(refusal));
            };
            come_back = at;
            // What asks again is no new demand.
            request.attempt = request.attempt.max(1);
            let counter = room.counter_of_refusal(&refusal, &request, in_force);
            if standing.as_ref().is_none_or(|standing| standing.counter != counter) {
                // Out of the old line before into the new one, or one request would count twice. It
                // keeps its number.
                let arrival = standing.take().map(|standing| standing.place.arrival);
                standing = room.enter(counter, entrant(class, arrival), routes);
                if standing.is_none() {
                    return Ok(Decision::Refuse(refusal));
                }
                if room.returns.load(Ordering::SeqCst) != returns && core::mem::take(&mut may_repeat) {
                    continue;
                }
            }
        }
        let Some(place) = &standing else { continue };
        tokio::select! {
            () = daemon.clock.sleep_until(if place.is_first() { come_back } else { willing.until }) => {}
            () = place.called.notified() => {}
            _ = stopping.wait_for(|stop| *stop) => {}
        }
        may_repeat = true;
    }
}
