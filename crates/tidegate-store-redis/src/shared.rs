//! The state that all clones of a store share: the queue of batches, the calls that carry them, the
//! breaker and the epochs.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use redis::Value;
use tidegate_core::{Timestamp, error_chain};
use tidegate_store::{FleetStats, Loss, Rejected, StoreError};
use tokio::runtime::Handle;
use tokio::sync::{OnceCell, oneshot};
use tokio::time::timeout;

use crate::answer::{self, Decided};
use crate::breaker::Breaker;
use crate::call::{Asked, Call, Setting};
use crate::call_format::{ANSWERED, LOSS_HOLDS, LOST, NEWER_PROTOCOL};
use crate::config::{Clock, OnLoss, RedisConfig, without_credentials};
use crate::epochs::{Epochs, home};
use crate::error::{CallError, Fault, OpenError, said};
use crate::lanes::{LaneName, Lanes, Purpose, Sent, Waiting};
use crate::link::Link;
use crate::marker::Marker;
use crate::names::{Names, Place};
use crate::numbers::Known;
use crate::probe;
use crate::script::Sha;
use crate::stats::{Counts, add, read};

/// How many calls a batch takes at most: a second one for an epoch that is another one, a third for
/// a clock that shows another window.
const ATTEMPTS_MAX: usize = 3;

/// After how many calls in a row that a slot did not answer the cluster is looked at anew.
const SILENT_CALLS_MAX: u32 = 3;

/// The pause before the next call of undos after one that failed.
const UNDO_PAUSE: Duration = Duration::from_millis(100);

/// The state that all callers of a store share.
pub(crate) struct Shared {
    pub(crate) config: RedisConfig,
    pub(crate) names: Names,
    pub(crate) known: Known,
    pub(crate) counts: Counts,
    pub(crate) link: Link,
    /// Where the store is, without credentials.
    pub(crate) at: String,
    sha: Sha,
    pub(crate) handle: Handle,
    lanes: Mutex<Lanes>,
    breaker: Mutex<Breaker>,
    epochs: Mutex<Epochs>,
    /// Why the last call failed.
    last_failure: Mutex<String>,
    /// Whether a task probes the store until it answers again. One exchange decides which failure
    /// starts it.
    pub(crate) is_probed: AtomicBool,
    /// Calls in a row that a slot of a cluster did not answer in time. At most an entry for each
    /// slot.
    silent: Mutex<HashMap<Place, u32>>,
    /// Whether a task looks at the cluster anew. One exchange decides which call starts it.
    pub(crate) is_looked_at: AtomicBool,
    /// Whether a cluster has told the epoch of its slot of notes when it was first asked anything.
    home: OnceCell<bool>,
    opened: Instant,
    /// By how many nanoseconds the server's clock is ahead of this machine's, about. A hint too.
    ahead: AtomicI64,
}

/// How much of what was gathered a call carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    Whole,
    /// A half of a call that failed for one of its batches.
    Part,
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
        let link = Link::open(&config, handle.clone())?;
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
            epochs: Mutex::new(Epochs::new(u128::from_be_bytes(random))),
            last_failure: Mutex::default(),
            is_probed: AtomicBool::new(false),
            silent: Mutex::default(),
            is_looked_at: AtomicBool::new(false),
            home: OnceCell::new(),
            opened: Instant::now(),
            ahead: AtomicI64::new(0),
            config,
        })
    }

    pub(crate) fn stats(&self) -> FleetStats {
        let (circuit, opened) = {
            let breaker = lock(&self.breaker);
            (breaker.circuit(), breaker.opened())
        };
        FleetStats {
            calls: read(&self.counts.calls),
            batches: read(&self.counts.batches),
            asks: read(&self.counts.asks),
            waiting: lock(&self.lanes).waiting(),
            failed: read(&self.counts.failed),
            rejected: Rejected {
                circuit_open: read(&self.counts.circuit_open),
                queue_full: read(&self.counts.queue_full),
                not_sent: read(&self.counts.not_sent),
            },
            circuit,
            opened,
            undone: read(&self.counts.undone),
            undo_failed: read(&self.counts.undo_failed),
            lost: read(&self.counts.lost),
            loss: self.loss(),
            newer_protocol: self.newer_protocol(),
            disagreed: read(&self.counts.disagreed),
        }
    }

    pub(crate) fn loss(&self) -> Option<Loss> {
        lock(&self.epochs).loss()
    }

    pub(crate) fn loss_at(&self, place: Place) -> Option<Loss> {
        lock(&self.epochs).loss_at(place)
    }

    pub(crate) fn newer_protocol(&self) -> Option<u32> {
        lock(&self.epochs).newer_protocol()
    }

    pub(crate) fn acknowledge_loss(&self) -> Option<Loss> {
        let now = self.about_now();
        lock(&self.epochs).acknowledge(now)
    }

    /// The place whose marker all members look at.
    pub(crate) fn home(&self) -> Place {
        home(self.config.cluster)
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

    /// Has one batch carried out at `place`, within the deadline of its purpose. An undo that
    /// forestalls goes past the breaker.
    pub(crate) async fn ask(self: &Arc<Self>, place: Place, asked: Asked) -> Result<Decided, StoreError> {
        let purpose = if asked.forestalls() { Purpose::Undo } else { Purpose::Decide };
        if purpose == Purpose::Decide && !lock(&self.breaker).lets_through(self.opened.elapsed()) {
            add(&self.counts.circuit_open, 1);
            return Err(self.circuit_open());
        }
        let (name, deadline) = (LaneName { place, purpose }, self.deadline(purpose));
        let (answer, answered) = oneshot::channel();
        let sent = Arc::new(Sent::default());
        let waiting = Waiting { asked, answer, sent: Arc::clone(&sent) };
        let (queue, calls) = (self.config.queue, self.config.calls);
        let calls = if purpose == Purpose::Undo { 1 } else { calls };
        let Some(starts) = lock(&self.lanes).push(name, waiting, queue, calls) else {
            add(&self.counts.queue_full, 1);
            return Err(self.unavailable(Fault::QueueFull { queue }));
        };
        if starts {
            let shared = Arc::clone(self);
            self.handle.spawn(async move { shared.drive(name).await });
        }
        // The timer is the runtime's; the caller need not run on it.
        let timed = {
            let _runtime = self.handle.enter();
            timeout(deadline, answered)
        };
        match timed.await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) if sent.becomes(Sent::GIVEN_UP) => Err(self.unavailable(Fault::Stopped)),
            Err(_) if sent.becomes(Sent::GIVEN_UP) => {
                add(&self.counts.not_sent, 1);
                Err(self.unavailable(Fault::NotSent { deadline }))
            }
            Ok(Err(_)) | Err(_) => Err(StoreError::Timeout { after: deadline }),
        }
    }

    /// The error for one of the batches of a call that failed.
    pub(crate) fn error_for_one(&self, error: &CallError) -> StoreError {
        match error {
            CallError::Timeout(after) => StoreError::Timeout { after: *after },
            CallError::Said(error) if error.is_timeout() => {
                StoreError::Timeout { after: self.config.deadline }
            }
            CallError::NotConnected(error) => said(error.clone(), false, &self.at),
            CallError::Said(error) => said(error.clone(), true, &self.at),
            CallError::Lost(loss) => {
                StoreError::DataLost { expected: loss.expected.clone(), found: loss.found.clone() }
            }
            CallError::NewerProtocol { store, member } => {
                let source = Fault::NewerProtocol { store: *store, member: *member };
                StoreError::Unavailable { at: self.at.clone(), sent: false, source: Some(Box::new(source)) }
            }
            CallError::Unreadable => {
                let source = Some(Box::new(Fault::Unreadable) as _);
                StoreError::Unavailable { at: self.at.clone(), sent: true, source }
            }
            // A call that met another epoch or window was not decided.
            CallError::Unsettled => self.unavailable(Fault::Unsettled),
        }
    }

    pub(crate) fn unavailable(&self, fault: Fault) -> StoreError {
        StoreError::Unavailable { at: self.at.clone(), sent: false, source: Some(Box::new(fault)) }
    }

    fn circuit_open(&self) -> StoreError {
        if let Some(store) = self.newer_protocol() {
            return self.unavailable(Fault::NewerProtocol { store, member: self.config.protocol });
        }
        let breaker = self.config.breaker;
        let every = breaker.cool_down_max.max(breaker.cool_down);
        let last = lock(&self.last_failure).clone();
        self.unavailable(Fault::CircuitOpen { failures: breaker.failures, every, last })
    }

    /// How long a batch of this purpose may take.
    fn deadline(&self, purpose: Purpose) -> Duration {
        match purpose {
            Purpose::Decide => self.config.deadline,
            Purpose::Undo => self.config.undo_deadline,
        }
    }

    /// Sends what waits in a lane, call after call, until nothing does.
    async fn drive(self: Arc<Self>, name: LaneName) {
        loop {
            let group = lock(&self.lanes).take(name, self.config.gathered);
            if group.is_empty() {
                return;
            }
            let is_answered = self.carry(name, group, Extent::Whole).await;
            if !is_answered && name.purpose == Purpose::Undo {
                tokio::time::sleep(UNDO_PAUSE).await;
            }
        }
    }

    /// Sends one call and hands out its answers; whether there were any.
    fn carry(
        self: &Arc<Self>,
        name: LaneName,
        mut group: Vec<Waiting>,
        extent: Extent,
    ) -> Pin<Box<dyn Future<Output = bool> + Send + '_>> {
        Box::pin(async move {
            add(&self.counts.batches, group.len() as u64);
            let asked: Vec<_> = group.iter().map(|waiting| &waiting.asked).collect();
            add(&self.counts.asks, asked.iter().map(|asked| asked.asks() as u64).sum());
            let LaneName { place, purpose } = name;
            let patience = self.deadline(purpose);
            if place != Place::Server && !lock(&self.epochs).has_seen(place) {
                // A slot that nobody has used is as old as the cluster, and shares its loss.
                let home = async { self.call_at(self.home(), &[], patience).await.is_ok() };
                self.home.get_or_init(|| home).await;
            }
            let answers = match self.call_at(place, &asked, patience).await {
                Ok((call, replies)) => {
                    let replies = call.answers(&replies, asked.len());
                    replies.iter().zip(&asked).map(|(reply, asked)| self.read(reply, asked)).collect()
                }
                Err(error)
                    if error.is_of_a_batch() && group.len() > 1 && self.has_marker(name, extent).await =>
                {
                    // One of them cannot be carried out, such as one whose key something else uses:
                    // the others must not fail with it.
                    let rest = group.split_off(group.len() / 2);
                    let first = self.carry(name, group, Extent::Part).await;
                    return self.carry(name, rest, Extent::Part).await || first;
                }
                Err(error) => {
                    if purpose == Purpose::Decide {
                        self.failed(&error);
                    }
                    let errors = asked.iter().map(|_| Err(self.error_for_one(&error)));
                    errors.collect::<Vec<Result<Decided, StoreError>>>()
                }
            };
            let is_answered = answers.iter().any(Result::is_ok);
            for (waiting, answer) in group.into_iter().zip(answers) {
                // The caller may have gone meanwhile.
                let _ = waiting.answer.send(answer);
            }
            is_answered
        })
    }

    /// Whether a call without a batch is answered: if not, halving a call would find nobody to
    /// blame, and only cost more calls.
    async fn has_marker(self: &Arc<Self>, name: LaneName, extent: Extent) -> bool {
        let patience = self.deadline(name.purpose);
        extent == Extent::Part || self.call_at(name.place, &[], patience).await.is_ok()
    }

    /// Counts a call that was not answered, and has the store probed until it answers.
    pub(crate) fn failed(self: &Arc<Self>, error: &CallError) {
        if !error.is_of_the_store() {
            return;
        }
        add(&self.counts.failed, 1);
        *lock(&self.last_failure) = error_chain(&self.error_for_one(error));
        lock(&self.breaker).failed(self.opened.elapsed());
        probe::start(self);
    }

    /// Whether the last call that was reported on was answered.
    pub(crate) fn is_well(&self) -> bool {
        lock(&self.breaker).is_well()
    }

    fn read(&self, bytes: &[u8], asked: &Asked) -> Result<Decided, StoreError> {
        let decided = answer::read(bytes, asked)
            .map_err(|undecided| undecided.into_error(asked, &self.names, &self.at))?;
        add(&self.counts.disagreed, decided.disagreed);
        Ok(decided)
    }

    /// A call at a place with its replies. Each attempt is waited for as long as `patience`.
    pub(crate) async fn call_at(
        self: &Arc<Self>,
        place: Place,
        asked: &[&Asked],
        patience: Duration,
    ) -> Result<(Call, Vec<Value>), CallError> {
        for _ in 0..ATTEMPTS_MAX {
            let epoch = lock(&self.epochs).setting(place);
            let given = match &self.config.clock {
                Clock::Server => None,
                Clock::Given(clock) => Some(clock()),
            };
            let setting = Setting {
                given,
                about: given.unwrap_or_else(|| self.about_now()),
                kept: self.config.answers_kept.min(RedisConfig::ANSWERS_KEPT_MAX),
                protocol: self.config.protocol,
                refuses_loss: self.config.on_loss == OnLoss::Refuse,
                epoch: &epoch,
            };
            let call = Call::new(asked, &self.names, place, &setting);
            add(&self.counts.calls, 1);
            let sent = Instant::now();
            let reply = timeout(patience, self.link.call(&self.sha, &call)).await;
            self.note_silence(place, reply.is_err());
            let reply = reply.map_err(|_| CallError::Timeout(patience))??;
            let Value::Array(mut parts) = reply else { return Err(CallError::Unreadable) };
            let (Some(Value::Int(status)), Some(Value::Int(now)), Some(Value::BulkString(marker))) =
                (parts.first(), parts.get(1), parts.get(2))
            else {
                return Err(CallError::Unreadable);
            };
            self.saw_now(Timestamp::from_nanos(now.unsigned_abs().saturating_mul(1000)));
            let (seen, status) = (epoch.seen.as_deref(), *status);
            if status == NEWER_PROTOCOL {
                let Some(Value::Int(protocol)) = parts.get(3) else { return Err(CallError::Unreadable) };
                let store = u32::try_from(*protocol).unwrap_or(u32::MAX);
                lock(&self.epochs).meet_newer(place, store);
                return Err(CallError::NewerProtocol { store, member: self.config.protocol });
            }
            // An answer that comes too late for callers says nothing about whether the next one
            // will.
            if sent.elapsed() <= self.config.deadline {
                lock(&self.breaker).succeeded();
            }
            match status {
                ANSWERED => {
                    lock(&self.epochs).meet(place, seen, marker);
                    return Ok((call, parts.split_off(3)));
                }
                LOST => {
                    let Some(Value::BulkString(fresh)) = parts.get(3) else {
                        return Err(CallError::Unreadable);
                    };
                    self.lose(place, seen, marker, fresh);
                }
                LOSS_HOLDS => {
                    lock(&self.epochs).meet(place, seen, marker);
                    if let Some(loss) = self.loss_at(place) {
                        return Err(CallError::Lost(loss));
                    }
                }
                // The windows around its clock are named the next time.
                _ => {}
            }
        }
        Err(CallError::Unsettled)
    }

    /// Counts the calls in a row that a slot of a cluster did not answer, and has the cluster
    /// looked at anew after [`SILENT_CALLS_MAX`]. The client library keeps to a node that is
    /// frozen, although another one may have taken its slots over.
    fn note_silence(self: &Arc<Self>, place: Place, is_silent: bool) {
        if place == Place::Server {
            return;
        }
        let mut silent = lock(&self.silent);
        if !is_silent {
            silent.remove(&place);
            return;
        }
        let calls = silent.entry(place).or_default();
        *calls += 1;
        if *calls >= SILENT_CALLS_MAX {
            silent.clear();
            probe::look_anew(self);
        }
    }

    /// Takes note of a loss, and goes on in the epoch there is now.
    fn lose(&self, place: Place, seen: Option<&Marker>, found: &[u8], fresh: &[u8]) {
        if lock(&self.epochs).lose(place, seen, found, fresh) {
            add(&self.counts.lost, 1);
        }
    }
}

tidegate_core::debug_fields!(Shared { config });
