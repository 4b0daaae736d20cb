//! Gathering: callers that come while a call is under way go together in the next one.
//!
//! Each place (the server, or a slot of a cluster) has a lane: a queue, and a bounded number of calls under way. Who finds
//! none under way is sent at once; the others wait for one round trip at most and share a call, in which a hot key is read and
//! written once for all of them. A batch stays one step of its own: the script decides them one after the other.

use core::fmt;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use redis::{ErrorKind, RedisError, ServerErrorKind, Value};
use tidegate::Timestamp;
use tidegate_store::StoreError;
use tokio::runtime::Handle;
use tokio::sync::{OnceCell, oneshot};
use tokio::time::timeout;

use crate::answer::{self, Decided};
use crate::breaker::Breaker;
use crate::call::{Asked, Call, Setting};
use crate::config::{Clock, OnLoss, RedisConfig, without_credentials};
use crate::error::{Fault, OpenError, told};
use crate::link::Link;
use crate::marker::Marker;
use crate::names::{Names, Place, note_slot};
use crate::numbers::Known;
use crate::script::Sha;
use crate::stats::{Counts, Loss, RedisStats, add, read};

/// What all callers of a store share.
pub(crate) struct Shared {
    pub(crate) config: RedisConfig,
    pub(crate) names: Names,
    pub(crate) known: Known,
    pub(crate) counts: Counts,
    pub(crate) link: Link,
    /// Where the store is, without credentials.
    pub(crate) at: String,
    sha: Sha,
    handle: Handle,
    lanes: Mutex<Lanes>,
    breaker: Mutex<Breaker>,
    epochs: Mutex<Epochs>,
    /// Whether a cluster has told the epoch of its slot of notes when it was first asked anything.
    home: OnceCell<bool>,
    opened: Instant,
    /// The latest instant an answer has told, in nanoseconds. A hint whether the clock has stepped back; orders nothing.
    latest: AtomicU64,
    /// By how many nanoseconds the server's clock is ahead of this machine's, about. A hint too.
    ahead: AtomicI64,
}

#[derive(Debug, Default)]
struct Lanes {
    lanes: HashMap<Place, Lane>,
    /// Operations in all queues.
    waiting: usize,
}

#[derive(Debug, Default)]
struct Lane {
    queue: VecDeque<Waiting>,
    under_way: usize,
}

/// One batch in a queue.
#[derive(Debug)]
struct Waiting {
    asked: Asked,
    answer: oneshot::Sender<Result<Decided, StoreError>>,
    sent: Arc<Sent>,
}

/// Whether a batch is sent or given up, whichever comes first: one exchange decides, so that what is given up is never sent.
#[derive(Debug, Default)]
struct Sent(AtomicU8);

impl Sent {
    const WAITING: u8 = 0;
    const SENT: u8 = 1;
    const GIVEN_UP: u8 = 2;

    fn becomes(&self, state: u8) -> bool {
        // The word itself is all that is handed over.
        self.0.compare_exchange(Self::WAITING, state, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

#[derive(Debug)]
struct Epochs {
    /// The id to write where there is no marker. Another one each time, so that other members notice a loss too.
    fresh: u128,
    seen: HashMap<Place, Vec<u8>>,
    /// Markers that speak of a loss which is acknowledged, until the next call there has said so.
    acknowledged: HashMap<Place, Vec<u8>>,
    loss: Option<Loss>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics between two changes that belong together.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(crate) fn open(config: RedisConfig) -> Result<Self, OpenError> {
        if config.prefix.contains(['{', '}']) {
            return Err(OpenError::Prefix { prefix: config.prefix });
        }
        let handle = Handle::try_current().map_err(|_| OpenError::NoRuntime)?;
        let link = Link::open(&config)?;
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(OpenError::NoRandomness)?;
        let urls: Vec<_> = config.urls.iter().map(|url| without_credentials(url)).collect();
        Ok(Self {
            names: Names::new(&config.prefix),
            known: Known::default(),
            counts: Counts::default(),
            link,
            at: urls.join(","),
            sha: Sha::new(),
            handle,
            lanes: Mutex::default(),
            breaker: Mutex::new(Breaker::new(config.breaker)),
            epochs: Mutex::new(Epochs {
                fresh: u128::from_be_bytes(random),
                seen: HashMap::new(),
                acknowledged: HashMap::new(),
                loss: None,
            }),
            home: OnceCell::new(),
            opened: Instant::now(),
            latest: AtomicU64::new(0),
            ahead: AtomicI64::new(0),
            config,
        })
    }

    pub(crate) fn stats(&self) -> RedisStats {
        let (circuit, opened) = {
            let breaker = lock(&self.breaker);
            (breaker.circuit(), breaker.opened())
        };
        RedisStats {
            calls: read(&self.counts.calls),
            batches: read(&self.counts.batches),
            asks: read(&self.counts.asks),
            waiting: lock(&self.lanes).waiting,
            failed: read(&self.counts.failed),
            left_alone: read(&self.counts.left_alone),
            circuit,
            opened,
            stranded: read(&self.counts.stranded),
            lost: read(&self.counts.lost),
            loss: self.loss(),
            disagreed: read(&self.counts.disagreed),
        }
    }

    pub(crate) fn loss(&self) -> Option<Loss> {
        lock(&self.epochs).loss.clone()
    }

    pub(crate) fn acknowledge_loss(&self) -> Option<Loss> {
        let mut epochs = lock(&self.epochs);
        epochs.acknowledged.clear();
        let Epochs { seen, acknowledged, .. } = &mut *epochs;
        let flagged = seen.iter().filter(|(_, marker)| Marker::of(marker).is_after_loss);
        acknowledged.extend(flagged.map(|(place, marker)| (*place, marker.clone())));
        epochs.loss.take()
    }

    /// About what the store's clock shows.
    pub(crate) fn about_now(&self) -> Timestamp {
        match &self.config.clock {
            Clock::Given(clock) => clock(),
            Clock::Server => {
                // A hint by itself.
                let ahead = self.ahead.load(Ordering::Relaxed);
                let here = Timestamp::from(SystemTime::now()).as_nanos();
                Timestamp::from_nanos(here.saturating_add_signed(ahead))
            }
        }
    }

    fn saw_now(&self, now: Timestamp) {
        let here = Timestamp::from(SystemTime::now()).as_nanos();
        let ahead = i128::from(now.as_nanos()) - i128::from(here);
        // A hint by itself.
        self.ahead.store(i64::try_from(ahead).unwrap_or(0), Ordering::Relaxed);
    }

    /// Has one batch decided at `place`, within the deadline.
    pub(crate) async fn ask(self: &Arc<Self>, place: Place, asked: Asked) -> Result<Decided, StoreError> {
        if self.config.on_loss == OnLoss::Refuse
            && let Some(loss) = &lock(&self.epochs).loss
        {
            return Err(lost(loss));
        }
        if !lock(&self.breaker).lets_through(self.opened.elapsed()) {
            add(&self.counts.left_alone, 1);
            let (failures, cool_down) = (self.config.breaker.failures, self.config.breaker.cool_down_max);
            return Err(self.unavailable(Fault::LeftAlone { failures, cool_down }));
        }
        let sent = Arc::new(Sent::default());
        let answer = self.enqueue(place, asked, &sent)?;
        let deadline = self.config.deadline;
        // The timer is the runtime's; whoever polls this need not run on it.
        let timed = {
            let _runtime = self.handle.enter();
            timeout(deadline, answer)
        };
        match timed.await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) if sent.becomes(Sent::GIVEN_UP) => Err(self.unavailable(Fault::Stopped)),
            Err(_) if sent.becomes(Sent::GIVEN_UP) => Err(self.unavailable(Fault::NotSent { deadline })),
            Ok(Err(_)) | Err(_) => Err(StoreError::Timeout { after: deadline }),
        }
    }

    fn unavailable(&self, fault: Fault) -> StoreError {
        StoreError::Unavailable { at: self.at.clone(), sent: false, source: Some(Box::new(fault)) }
    }

    fn enqueue(
        self: &Arc<Self>,
        place: Place,
        asked: Asked,
        sent: &Arc<Sent>,
    ) -> Result<oneshot::Receiver<Result<Decided, StoreError>>, StoreError> {
        let (answer, answered) = oneshot::channel();
        let starts = {
            let mut lanes = lock(&self.lanes);
            let queue = self.config.queue;
            if lanes.waiting + asked.weight() > queue && lanes.waiting > 0 {
                drop(lanes);
                return Err(self.unavailable(Fault::QueueFull { queue }));
            }
            lanes.waiting += asked.weight();
            let lane = lanes.lanes.entry(place).or_default();
            lane.queue.push_back(Waiting { asked, answer, sent: Arc::clone(sent) });
            let starts = lane.under_way < self.config.calls.max(1);
            lane.under_way += usize::from(starts);
            starts
        };
        if starts {
            let shared = Arc::clone(self);
            self.handle.spawn(async move { shared.drive(place).await });
        }
        Ok(answered)
    }

    /// Sends what waits at `place`, call after call, until nothing does.
    async fn drive(self: Arc<Self>, place: Place) {
        loop {
            let group = self.take(place);
            if group.is_empty() {
                return;
            }
            self.carry(place, group).await;
        }
    }

    /// The batches of the next call; none if there are none, and then the lane has one call less under way.
    fn take(&self, place: Place) -> Vec<Waiting> {
        let mut lanes = lock(&self.lanes);
        let mut group: Vec<Waiting> = Vec::new();
        let (mut weight, mut left) = (0, 0);
        let Some(lane) = lanes.lanes.get_mut(&place) else { return group };
        while let Some(next) = lane.queue.front() {
            let more = next.asked.weight();
            if !group.is_empty() && weight + more > self.config.gathered {
                break;
            }
            left += more;
            let Some(next) = lane.queue.pop_front() else { break };
            // Nobody waits for what was dropped or has run out of time.
            if !next.answer.is_closed() && next.sent.becomes(Sent::SENT) {
                weight += more;
                group.push(next);
            }
        }
        if group.is_empty() {
            lane.under_way -= 1;
            if lane.under_way == 0 {
                lanes.lanes.remove(&place);
            }
        }
        lanes.waiting -= left;
        group
    }

    /// Sends one call and hands out its answers.
    async fn carry(&self, place: Place, group: Vec<Waiting>) {
        add(&self.counts.batches, group.len() as u64);
        let asked: Vec<_> = group.iter().map(|waiting| &waiting.asked).collect();
        add(&self.counts.asks, asked.iter().map(|asked| asked.asks() as u64).sum());
        let answers = match self.call(place, &asked).await {
            Ok((call, replies)) => {
                let replies = call.answers(&replies, asked.len());
                replies.iter().zip(&asked).map(|(reply, asked)| self.read(reply, asked)).collect()
            }
            Err(failed) => {
                if failed.is_of_the_store() {
                    add(&self.counts.failed, 1);
                    lock(&self.breaker).failed(self.opened.elapsed());
                }
                asked.iter().map(|_| Err(failed.for_one(self))).collect::<Vec<_>>()
            }
        };
        for (waiting, answer) in group.into_iter().zip(answers) {
            // Who waited may have gone meanwhile.
            let _ = waiting.answer.send(answer);
        }
    }

    fn read(&self, bytes: &[u8], asked: &Asked) -> Result<Decided, StoreError> {
        let decided = answer::read(bytes, asked).map_err(|undecided| undecided.into_error(asked))?;
        // A hint by itself. An answer that was given before tells its own instant, which changes nothing here.
        self.latest.fetch_max(decided.answer.store_now.as_nanos(), Ordering::Relaxed);
        add(&self.counts.disagreed, decided.disagreed);
        Ok(decided)
    }

    /// A call with its replies.
    async fn call(&self, place: Place, asked: &[&Asked]) -> Result<(Call, Vec<Value>), Failed> {
        if place != Place::Server && !lock(&self.epochs).seen.contains_key(&place) {
            // A slot that nobody has used is as old as the cluster: buckets would otherwise begin empty in each. Without an
            // answer they do.
            let home = async { self.call_at(Place::Slot(note_slot()), &[]).await.is_ok() };
            self.home.get_or_init(|| home).await;
        }
        self.call_at(place, asked).await
    }

    async fn call_at(&self, place: Place, asked: &[&Asked]) -> Result<(Call, Vec<Value>), Failed> {
        // Once for an epoch that is another one, once for a clock that shows another window.
        for _ in 0..3 {
            let (seen, fresh, acknowledges) = {
                let epochs = lock(&self.epochs);
                let seen = epochs.seen.get(&place).cloned().unwrap_or_default();
                let acknowledges = epochs.acknowledged.get(&place) == Some(&seen);
                (seen, epochs.fresh_at(place), acknowledges)
            };
            let given = match &self.config.clock {
                Clock::Server => None,
                Clock::Given(clock) => Some(clock()),
            };
            let setting = Setting {
                given,
                // A hint by itself.
                latest: Timestamp::from_nanos(self.latest.load(Ordering::Relaxed)),
                about: given.unwrap_or_else(|| self.about_now()),
                kept: self.config.answers_kept.min(RedisConfig::ANSWERS_KEPT_MAX),
                seen: &seen,
                fresh: &fresh,
                acknowledges,
            };
            let call = Call::of(asked, &self.names, place, &setting);
            add(&self.counts.calls, 1);
            let mut link = self.link.clone();
            let reply = timeout(self.config.deadline, link.call(&self.sha, &call)).await;
            let reply = reply.map_err(|_| Failed::Timeout)?.map_err(Failed::Told)?;
            let Value::Array(mut parts) = reply else { return Err(Failed::Unreadable) };
            let (Some(Value::Int(status)), Some(Value::Int(now)), Some(Value::BulkString(marker))) =
                (parts.first(), parts.get(1), parts.get(2))
            else {
                return Err(Failed::Unreadable);
            };
            self.saw_now(Timestamp::from_nanos(now.unsigned_abs().saturating_mul(1000)));
            lock(&self.breaker).succeeded();
            match status {
                0 => {
                    if *marker != seen {
                        lock(&self.epochs).meet(place, &seen, marker);
                    }
                    return Ok((call, parts.split_off(3)));
                }
                1 => {
                    let Some(Value::BulkString(fresh)) = parts.get(3) else { return Err(Failed::Unreadable) };
                    let loss = self.lose(place, &seen, marker, fresh);
                    if self.config.on_loss == OnLoss::Refuse {
                        return Err(Failed::Lost(loss));
                    }
                }
                // The windows around its clock are named the next time.
                _ => {}
            }
        }
        Err(Failed::Unreadable)
    }

    /// Takes note of a loss, and goes on in the epoch there is now.
    fn lose(&self, place: Place, seen: &[u8], found: &[u8], fresh: &[u8]) -> Loss {
        let slot = match place {
            Place::Server => None,
            Place::Slot(slot) => Some(slot),
        };
        let id = |bytes: &[u8]| String::from_utf8_lossy(Marker::of(bytes).id).into_owned();
        let loss = Loss { slot, expected: id(seen), found: id(found) };
        let mut epochs = lock(&self.epochs);
        // Several calls may find the same.
        if epochs.seen.get(&place).is_none_or(|known| Marker::of(known).id == Marker::of(seen).id) {
            epochs.seen.insert(place, fresh.to_vec());
            epochs.acknowledged.remove(&place);
            epochs.fresh = epochs.fresh.wrapping_add(1);
            epochs.loss.get_or_insert_with(|| loss.clone());
            add(&self.counts.lost, 1);
        }
        loss
    }
}

impl Epochs {
    /// The marker to write where there is none: an id, and in a cluster the epoch of the slot of notes, unless that may be
    /// gone as well.
    fn fresh_at(&self, place: Place) -> Vec<u8> {
        let mut fresh = format!("{:032x}", self.fresh).into_bytes();
        let home = Place::Slot(note_slot());
        if let Some(known) = self.seen.get(&home).filter(|_| place != home && self.loss.is_none()) {
            fresh.extend(Marker::of(known).epoch());
        }
        fresh
    }

    /// Takes note of the marker found at `place` by a call that expected `seen`: the first there, or another epoch without
    /// a loss, which is nothing to speak of.
    fn meet(&mut self, place: Place, seen: &[u8], found: &[u8]) {
        if seen.is_empty() {
            self.fresh = self.fresh.wrapping_add(1);
        }
        let known = self.seen.entry(place).or_insert_with(|| found.to_vec());
        // Calls that were under way together may be answered in any order.
        if Marker::of(found).follows(Marker::of(known)) {
            *known = found.to_vec();
        }
        if self.acknowledged.get(&place).is_some_and(|marker| marker != known) {
            self.acknowledged.remove(&place);
        }
    }
}

fn lost(loss: &Loss) -> StoreError {
    StoreError::DataLost { expected: loss.expected.clone(), found: loss.found.clone() }
}

/// Why a call brought no answers.
#[derive(Debug)]
enum Failed {
    Timeout,
    Told(RedisError),
    Lost(Loss),
    Unreadable,
}

impl Failed {
    /// Whether it is the store that fails, rather than what it was asked.
    fn is_of_the_store(&self) -> bool {
        match self {
            Self::Timeout => true,
            Self::Lost(_) | Self::Unreadable => false,
            Self::Told(error) => match error.kind() {
                ErrorKind::Server(ServerErrorKind::ResponseError | ServerErrorKind::NoPerm) => false,
                ErrorKind::Extension => matches!(error.code(), Some("BUSY" | "MISCONF" | "NOREPLICAS")),
                _ => true,
            },
        }
    }

    fn for_one(&self, shared: &Shared) -> StoreError {
        match self {
            Self::Timeout => StoreError::Timeout { after: shared.config.deadline },
            Self::Told(error) if error.is_timeout() => StoreError::Timeout { after: shared.config.deadline },
            Self::Told(error) => told(error.clone(), &shared.at, shared.about_now()),
            Self::Lost(loss) => lost(loss),
            Self::Unreadable => StoreError::Unavailable { at: shared.at.clone(), sent: true, source: None },
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("config", &self.config).finish_non_exhaustive()
    }
}
