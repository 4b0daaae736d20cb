//! The world of the soak tests: an engine with all its planes and a store in memory, in virtual
//! time, under random traffic.
//!
//! A soak sends [`REQUESTS`] requests by an interface that its test brings (an `Admission`, or a
//! service behind a layer). Meanwhile the world reloads the engine, presses on its resources, lets
//! the store fail, and drains the engine and starts another one on the same store. Callers leave at
//! random instants. After each drain and at the end no request may hold anything, and each resource
//! has one outcome for each offered request.
//!
//! All randomness comes from a seed that failures print; `TIDEGATE_SOAK_SEED` sets another one.

use core::future::Future;
use core::time::Duration;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tidegate_capacity::Capacity;
use tidegate_core::algorithm::{Bucket, Concurrency};
use tidegate_core::limit::{Consistency, OnStoreFailure};
use tidegate_core::{Algorithm, Class, Limit, Rate, Timestamp};
use tidegate_driver::{Clock, EngineHandle};
use tidegate_engine::{
    Engine, EngineConfig, Event, FeaturePinning, LeaseConfig, NamespaceConfig, OfferOutcome, Progress,
    Request, RoomBounds, RoomUse,
};
use tidegate_overload::{
    FeatureConfig, FeatureLevelConfig, Overload, OverloadBuilder, ResourceConfig, ResourceMode,
};
use tidegate_store::{Answer, Batch, MemoryConfig, MemoryStore, Note, NoteKind, Store, StoreError};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// The requests of one soak.
pub(crate) const REQUESTS: usize = 10_000;

/// The requests that are sent in one go; all of them have ended before the next ones come.
const REQUESTS_OF_A_WAVE: usize = 100;

/// The only namespace.
pub(crate) const NAMESPACE: &str = "default";

/// The values of the attribute `user`.
pub(crate) const USERS: [&str; 4] = ["ada", "bob", "cyd", "dan"];

/// The named resources, beside the default one.
pub(crate) const RESOURCES: [&str; 3] = ["orders", "mail", "search"];

/// The feature of the default resource, which is off for moments.
pub(crate) const FEATURE: &str = "extras";

/// The most requests that wait, and the most bytes that they occupy.
const WAITING: RoomBounds = RoomBounds::new(12, 16 << 10);

/// Longer than undos and renewals go on.
const QUIET: Duration = Duration::from_mins(2);

/// xorshift64.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    pub(crate) fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.below(of.len() as u64)).unwrap()]
    }

    /// From zero up to but not including this many milliseconds, in microseconds.
    pub(crate) fn under_ms(&mut self, ms: u64) -> Duration {
        Duration::from_micros(self.below(ms * 1000))
    }

    fn fork(&mut self) -> Self {
        Self(self.below(u64::MAX) | 1)
    }
}

/// The clock of decisions: tokio's time, which is paused and moves when all tasks sleep.
#[derive(Debug)]
struct VirtualClock {
    start: Instant,
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_secs(1_800_000_000).saturating_add(self.start.elapsed())
    }
}

/// How the store treats calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StoreHealth {
    Good,
    /// It carries batches out, and its answers are lost.
    LosesAnswers,
    /// It does not carry batches out.
    Refuses,
    /// It answers long after the deadline of a call.
    Late,
}

/// A store in memory that answers some milliseconds later, or fails.
#[derive(Debug)]
pub(crate) struct SoakStore {
    memory: MemoryStore,
    state: Mutex<(StoreHealth, Random)>,
}

impl Store for SoakStore {
    async fn run(&self, batch: &Batch) -> Result<Answer, StoreError> {
        let away = |sent| StoreError::Unavailable { at: "the soak".to_owned(), sent, source: None };
        let (health, [on_the_way, on_the_way_back]) = {
            let (health, random) = &mut *self.state.lock().unwrap();
            (*health, [random.under_ms(4), random.under_ms(4)])
        };
        // Sleeps: on tokio's paused clock, no real time passes.
        tokio::time::sleep(on_the_way).await;
        if health == StoreHealth::Refuses {
            return Err(away(false));
        }
        let answer = self.memory.run_now(batch);
        // Sleeps: on tokio's paused clock, no real time passes.
        tokio::time::sleep(on_the_way_back).await;
        match health {
            StoreHealth::LosesAnswers => return Err(away(true)),
            // Sleeps: on tokio's paused clock, no real time passes.
            StoreHealth::Late => tokio::time::sleep(Duration::from_millis(200)).await,
            StoreHealth::Good | StoreHealth::Refuses => {}
        }
        answer
    }

    fn notes(&self, kind: NoteKind) -> impl Future<Output = Result<Vec<Note>, StoreError>> + Send {
        self.memory.notes(kind)
    }
}

/// The stage in which a caller's request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It was not decided: it waited for the store, for a lease or for its turn.
    Undecided,
    /// It was admitted, and its work was going on.
    AtWork,
    /// Its work was done, and its body was being sent.
    InBody,
    /// It was refused, or everything was done.
    Over,
}

/// The stages in which requests ended: by themselves or because the caller left, and by a panic.
#[derive(Debug, Default)]
struct Ends {
    ended: [AtomicUsize; 4],
    panicked: AtomicUsize,
}

/// One request of a caller, which keeps its stage up to date.
pub(crate) struct CallerRequest {
    pub(crate) random: Random,
    pub(crate) stage: Stage,
    ends: Arc<Ends>,
}

impl Drop for CallerRequest {
    fn drop(&mut self) {
        let ended = &self.ends.ended[self.stage as usize];
        let counter = if std::thread::panicking() { &self.ends.panicked } else { ended };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// The payload of the panics that the soaks plan.
#[derive(Debug)]
struct PlannedPanic;

/// Panics without a message on the terminal.
pub(crate) fn panic_as_planned() -> ! {
    std::panic::resume_unwind(Box::new(PlannedPanic))
}

pub(crate) struct SoakWorld {
    seed: u64,
    random: Random,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) store: Arc<SoakStore>,
    /// The engine in force. Another one after each start.
    pub(crate) engine: EngineHandle,
    starts: u64,
    ends: Arc<Ends>,
    /// By outcome, of all resources and all engines so far.
    outcomes: [u64; OfferOutcome::ALL.len()],
    /// The requests that waited when the engine was drained.
    drained: usize,
    /// The most requests that were seen to wait.
    waited: Arc<AtomicU64>,
}

fn a_second(units: u64) -> Algorithm {
    Algorithm::Bucket(Bucket::new(Rate::new(units, Duration::from_secs(1)).unwrap(), units).unwrap())
}

/// Permits expire after a day, which no soak lasts: one that is not returned stays used.
fn at_once(permits: u64) -> Algorithm {
    Algorithm::Concurrency(Concurrency::new(permits, Duration::from_hours(24)).unwrap())
}

const LOCAL_JOBS: u64 = 6;
const EXACT_JOBS: u64 = 5;

fn limits() -> Vec<Limit> {
    let exact = |name, algorithm| Limit::new(name, algorithm).consistency(Consistency::Exact);
    vec![
        Limit::new("local", a_second(50)).key(["user"]),
        Limit::new("local-jobs", at_once(LOCAL_JOBS)).key(["user"]),
        exact("exact", a_second(45)).key(["user"]),
        exact("exact-jobs", at_once(EXACT_JOBS)).key(["user"]).on_store_failure(OnStoreFailure::Local),
        Limit::new("leased", a_second(600)).consistency(Consistency::Leased).key(["user"]),
    ]
}

fn namespace(limits: Vec<Limit>) -> NamespaceConfig {
    NamespaceConfig::new(NAMESPACE, limits)
}

/// Sends [`REQUESTS`] requests by the interfaces that `open` makes, one for each engine that
/// starts.
/// `call` sends one request of a random user to an interface and works on its answer.
pub(crate) async fn soak<D, F>(
    seed: u64,
    open: impl Fn(&SoakWorld) -> D,
    call: impl Fn(D, CallerRequest) -> F,
) -> SoakWorld
where
    D: Clone,
    F: Future<Output = ()> + Send + 'static,
{
    let given = std::env::var("TIDEGATE_SOAK_SEED").ok().map(|text| text.parse().unwrap());
    let mut world = SoakWorld::new(given.unwrap_or(seed));
    let mut interface = open(&world);
    world.engine.engine().set_waiting_bounds(WAITING);
    for wave in 0..REQUESTS / REQUESTS_OF_A_WAVE {
        let drained_from = (wave % 8 == 7).then(|| world.random.below(REQUESTS_OF_A_WAVE as u64));
        let mut is_drained = false;
        let mut callers = JoinSet::new();
        for number in 0..REQUESTS_OF_A_WAVE as u64 {
            world.disturb();
            let engine = world.engine.engine();
            // At most moments nobody waits, and draining would have no effect.
            if !is_drained && drained_from.is_some_and(|from| from <= number) && engine.waiting() > 0 {
                is_drained = true;
                world.drained += engine.waiting();
                engine.drain_waiting();
            }
            // Sleeps: on tokio's paused clock, no real time passes.
            tokio::time::sleep(world.random.under_ms(4)).await;
            let mut random = world.random.fork();
            let leaves_after = random.one_in(2).then(|| random.under_ms(60));
            let caller = CallerRequest { random, stage: Stage::Undecided, ends: Arc::clone(&world.ends) };
            let call = call(interface.clone(), caller);
            callers.spawn(async move {
                match leaves_after {
                    // The caller leaves: the future is dropped wherever it is.
                    Some(after) => drop(tokio::time::timeout(after, call).await),
                    None => call.await,
                }
            });
            world.waited.fetch_max(world.engine.engine().waiting() as u64, Ordering::Relaxed);
        }
        world.see_off(callers).await;
        if drained_from.is_some() {
            world.come_to_rest().await;
            world.start();
            interface = open(&world);
            world.engine.engine().set_waiting_bounds(WAITING);
        }
    }
    world.come_to_rest().await;
    world
}

impl SoakWorld {
    fn new(seed: u64) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock { start: Instant::now() });
        let store_clock = Arc::clone(&clock);
        let mut random = Random(seed | 1);
        let memory = MemoryStore::new(MemoryConfig::new([5, 6, 7, 8]), move || store_clock.now());
        let state = Mutex::new((StoreHealth::Good, random.fork()));
        Self {
            seed,
            clock,
            store: Arc::new(SoakStore { memory, state }),
            engine: EngineHandle::new(new_engine(0)),
            starts: 0,
            random,
            ends: Arc::default(),
            outcomes: [0; OfferOutcome::ALL.len()],
            drained: 0,
            waited: Arc::default(),
        }
    }

    /// Waits until all callers have gone. Those that wait for pressure to fall need the world to
    /// move.
    async fn see_off(&mut self, mut callers: JoinSet<()>) {
        let since = self.clock.now();
        while !callers.is_empty() {
            match tokio::time::timeout(Duration::from_millis(4), callers.join_next()).await {
                Ok(Some(Err(error))) => {
                    let payload = error.into_panic();
                    assert!(
                        payload.is::<PlannedPanic>(),
                        "a panic that is not planned, {}",
                        self.seed_text()
                    );
                }
                Ok(_) => {}
                Err(_) => self.disturb(),
            }
            assert!(
                self.clock.now().saturating_since(since) < Duration::from_mins(1),
                "{} callers wait for ever, {}: {:?}",
                callers.len(),
                self.seed_text(),
                self.engine.engine().resource_stats(self.clock.now()).collect::<Vec<_>>()
            );
        }
    }

    fn seed_text(&self) -> String {
        format!("TIDEGATE_SOAK_SEED={}, start {}", self.seed, self.starts)
    }

    /// Starts another engine on the same store, as a new process does.
    fn start(&mut self) {
        self.starts += 1;
        self.engine = EngineHandle::new(new_engine(self.starts));
    }

    /// Something happens that no caller does.
    fn disturb(&mut self) {
        let now = self.clock.now();
        let random = &mut self.random;
        let pressure = f64::from(u32::try_from(random.below(115)).unwrap()) / 100.0;
        let level = random.below(300) as u16;
        let resource = random.pick(&RESOURCES);
        let event = match random.below(60) {
            0 => return self.reload(),
            1..=5 => Event::Pressure(pressure),
            6..=9 => Event::Signal { resource, pressure },
            10 => {
                let until = now.saturating_add(random.under_ms(50));
                Event::Pin { resource: Some(resource), level: Some(level), until }
            }
            11..=13 => return self.set_health(StoreHealth::Good),
            14 => {
                let ills = [StoreHealth::LosesAnswers, StoreHealth::Refuses, StoreHealth::Late];
                let ill = random.pick(&ills);
                return self.set_health(ill);
            }
            15..=17 => return self.switch_off(),
            18 => return self.rehearse_or_enforce(),
            _ => return,
        };
        self.engine.engine().event(event, now).unwrap();
    }

    /// Switches the feature off for a moment.
    fn switch_off(&mut self) {
        let now = self.clock.now();
        let until = now.saturating_add(Duration::from_millis(1) + self.random.under_ms(100));
        let (feature, level) = (FEATURE.to_owned(), FeatureLevelConfig::OFF.to_owned());
        let pin = FeaturePinning { feature, level, until, by: None, reason: None };
        self.engine.engine().pin_feature(pin, now).unwrap();
    }

    /// Turns the mode of a resource: what waits and works there goes on in the other mode.
    fn rehearse_or_enforce(&mut self) {
        let mode = self.random.pick(&[ResourceMode::Enforce, ResourceMode::Shadow]);
        let now = self.clock.now();
        let engine = self.engine.engine().with_planes(Capacity::builder(), resources(mode), now).unwrap();
        self.engine.replace(engine);
    }

    fn set_health(&self, health: StoreHealth) {
        self.store.state.lock().unwrap().0 = health;
    }

    /// Puts an engine of other limits in force: all of them, other numbers, or one limit less.
    fn reload(&mut self) {
        let mut limits = limits();
        match self.random.below(4) {
            0 => {
                let gone = self.random.below(limits.len() as u64);
                limits.remove(usize::try_from(gone).unwrap());
            }
            1 => limits.insert(0, Limit::new("more-jobs", at_once(7)).key(["user"])),
            _ => {}
        }
        self.reload_to(limits);
    }

    fn reload_to(&self, limits: Vec<Limit>) {
        let (engine, _) = self.engine.engine().reconfigured(vec![namespace(limits)]).unwrap();
        self.engine.replace(engine);
    }

    /// Lets everything end that is going on in the background, and checks that nothing stays held.
    async fn come_to_rest(&mut self) {
        self.set_health(StoreHealth::Good);
        // Sleeps: on tokio's paused clock, no real time passes.
        tokio::time::sleep(QUIET).await;
        self.reload_to(limits());
        let (engine, now) = (self.engine.engine(), self.clock.now());
        // Stand-ins of ended requests keep their places for a while.
        let _ = engine.tick(now);
        // Undos that the engine kept go to the store with the next request.
        for asks in engine.take_lease_asks() {
            let answer = self.store.memory.run_now(asks.batch());
            engine.lease_answered(asks, answer, now);
        }
        let seed = self.seed_text();
        assert_eq!((engine.waiting(), engine.waiting_use()), (0, RoomUse::default()), "{seed}");
        assert_eq!(engine.stats(now).permits_kept, 0, "{seed}");
        for stats in engine.resource_stats(now) {
            assert_eq!(
                (stats.in_flight, stats.offered, stats.undecided()),
                (0, stats.decided(), 0),
                "{seed}: {stats:?}"
            );
            for (sum, outcome) in self.outcomes.iter_mut().zip(OfferOutcome::ALL) {
                *sum += stats.count(outcome);
            }
        }
        for user in USERS {
            let left = self.permits_left(&engine, user);
            assert_eq!(
                left,
                [("local-jobs".to_owned(), LOCAL_JOBS), ("exact-jobs".to_owned(), EXACT_JOBS)],
                "{user}, {seed}"
            );
        }
        for asks in engine.leave_leases(now) {
            let answer = self.store.memory.run_now(asks.batch());
            engine.lease_answered(asks, answer, now);
        }
    }

    /// The permits that each concurrency limit of a user has left, in the engine and in the store.
    fn permits_left(&self, engine: &Engine, user: &str) -> Vec<(String, u64)> {
        let attributes = [("user", user)];
        let mut peek = engine.peek(&Request::new(NAMESPACE, &attributes), self.clock.now()).unwrap();
        let report = loop {
            match peek {
                Progress::Done(report) => break report,
                Progress::Ask(asking) => {
                    let answer = self.store.memory.run_now(asking.batch());
                    peek = asking.resume(engine, answer, self.clock.now()).unwrap();
                }
            }
        };
        let jobs = report.limits.into_iter().filter(|one| one.name.ends_with("-jobs"));
        jobs.map(|one| (one.name, one.remaining)).collect()
    }

    /// Checks that the soak has met what it is about.
    pub(crate) fn assert_that_all_happened(&self, is_met: impl Fn(OfferOutcome) -> bool) {
        let ended = self.ends.ended.each_ref().map(|count| count.load(Ordering::Relaxed));
        let panicked = self.ends.panicked.load(Ordering::Relaxed);
        let seed = self.seed_text();
        let summary = format!("{seed}: ended {ended:?}, panicked {panicked}, {:?}", self.outcomes);
        println!("{summary}, waited {:?}, drained {}", self.waited, self.drained);
        assert_eq!(ended.iter().sum::<usize>() + panicked, REQUESTS, "{summary}");
        assert!(ended.iter().all(|count| *count >= 50) && panicked >= 50, "{summary}");
        for (count, outcome) in self.outcomes.iter().zip(OfferOutcome::ALL) {
            assert!(!is_met(outcome) || *count >= 20, "{outcome:?}: {summary}");
        }
        assert!(self.drained > 0, "{summary}");
    }
}

fn new_engine(start: u64) -> Engine {
    let mut config = EngineConfig::seeded([1, 2, 3, 4 + start]);
    config.table.bytes = 1 << 20;
    config.asks_store = true;
    let leases = config.leases.insert(LeaseConfig::new(7 + start));
    (leases.locks_max, leases.holders_max) = (1, 1024);
    let overload = resources(ResourceMode::Enforce).build().unwrap();
    Engine::builder(config).namespace(namespace(limits())).overload(overload).build().unwrap()
}

/// The resources, of which the last one is in this mode.
fn resources(mode: ResourceMode) -> OverloadBuilder {
    let mut feature = FeatureConfig::new(FEATURE, Class::Sheddable);
    feature.levels =
        vec![FeatureLevelConfig::new("on", 1.0), FeatureLevelConfig::new(FeatureLevelConfig::OFF, 0.0)];
    Overload::builder(5)
        .default_resource(ResourceConfig::new(4))
        .feature(feature)
        .resource(RESOURCES[0], ResourceConfig::new(2))
        .resource(RESOURCES[1], ResourceConfig::new(1))
        .resource(RESOURCES[2], ResourceConfig::new(3).mode(mode))
}
