//! The usage that an engine reports, against a model that only knows what was asked and answered.

use core::pin::pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::limit::Consistency;
use tidegate_core::{
    Algorithm, CarriedLimit, Charging, Class, Cost, Limit, Reason, RequestOutcome, Timestamp,
};
use tidegate_engine::{
    Answered, Completion, Decision, Engine, EngineBuilder, MeterConfig, NamespaceConfig, Outcome, Pending,
    Permit, Progress, Request, RowName, Step, Usage, Wants,
};
use tidegate_overload::{Overload, ResourceConfig};
use tidegate_store::{Batch, MemoryConfig, MemoryStore, Store, StoreError};
use tidegate_test_support::SplitMix64;

use crate::world::{NOW, SEED, bucket, config, store_config};

const NAMESPACES: u64 = 40;
const TENANTS: u64 = 20_000;
const FEATURES: [&str; 3] = ["search", "export", "thumbnails"];

/// The most admitted requests in hand. Every reader visits all rows: with a number that grew, the
/// time of a run would grow with the square of its operations.
const ADMITTED_MAX: usize = 5_000;

/// The columns that a model can know of its own; signed, so that a mistake shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Columns {
    outcomes: [i64; 10],
    under_way: i64,
    repeated: i64,
    units: i64,
    refused_units: i64,
    true_units: i64,
    place_ns: i64,
    reported: i64,
    refunded: i64,
}

impl Columns {
    fn from_usage(usage: &Usage) -> Self {
        let whole = |number: u64| i64::try_from(number).unwrap();
        Self {
            outcomes: usage.outcomes.map(whole),
            under_way: whole(usage.under_way),
            repeated: whole(usage.repeated),
            units: whole(usage.units),
            refused_units: whole(usage.refused_units),
            true_units: whole(usage.true_units),
            place_ns: i64::try_from(usage.place_time.as_nanos()).unwrap(),
            reported: whole(usage.reported),
            refunded: whole(usage.refunded),
        }
    }

    fn add(&mut self, other: &Self) {
        self.outcomes.iter_mut().zip(other.outcomes).for_each(|(sum, more)| *sum += more);
        self.under_way += other.under_way;
        self.repeated += other.repeated;
        self.units += other.units;
        self.refused_units += other.refused_units;
        self.true_units += other.true_units;
        self.place_ns += other.place_ns;
        self.reported += other.reported;
        self.refunded += other.refunded;
    }
}

/// A request as the test has asked it.
#[derive(Clone, Debug)]
struct Asked {
    namespace: u64,
    tenant: Option<u64>,
    class: Class,
    /// The name that the request has, listed or not.
    feature: Option<&'static str>,
    resource: bool,
    cost: u64,
    attempt: u32,
    /// The milliseconds that it has left, if it says so.
    hurry: Option<u64>,
}

/// A row of a dimension.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Row {
    Namespace(u64),
    /// The part of a namespace without a tenant.
    NoTenant(u64),
    /// The part of a namespace with some tenant.
    Tenants(u64),
    Tenant(u64, u64),
    Feature(Option<&'static str>),
    Resource(bool),
}

#[derive(Default)]
struct Model {
    rows: BTreeMap<(Row, Class), Columns>,
    first_seen: BTreeMap<(u64, u64), Timestamp>,
}

impl Model {
    fn count(&mut self, asked: &Asked, now: Timestamp, change: impl Fn(&mut Columns)) {
        let listed = asked.feature.map(|name| if FEATURES.contains(&name) { name } else { "other" });
        let namespace = asked.namespace;
        let by_tenant = match asked.tenant {
            None => vec![Row::NoTenant(namespace)],
            Some(tenant) => {
                self.first_seen.entry((namespace, tenant)).or_insert(now);
                vec![Row::Tenants(namespace), Row::Tenant(namespace, tenant)]
            }
        };
        let rows = [Row::Namespace(namespace), Row::Feature(listed), Row::Resource(asked.resource)];
        for row in rows.into_iter().chain(by_tenant) {
            change(self.rows.entry((row, asked.class)).or_default());
        }
    }

    fn of(&self, row: &Row) -> [Columns; 4] {
        Class::ALL.map(|class| self.rows.get(&(row.clone(), class)).copied().unwrap_or_default())
    }

    fn outcome(&mut self, asked: &Asked, now: Timestamp, outcome: RequestOutcome) {
        let index = RequestOutcome::ALL.iter().position(|one| *one == outcome).unwrap();
        let units = i64::try_from(asked.cost).unwrap();
        self.count(asked, now, |columns| {
            columns.outcomes[index] += 1;
            match outcome {
                RequestOutcome::Admitted => columns.units += units,
                RequestOutcome::Failed | RequestOutcome::Cancelled => {}
                _ => columns.refused_units += units,
            }
        });
    }

    fn under_way(&mut self, asked: &Asked, now: Timestamp, change: i64) {
        self.count(asked, now, |columns| columns.under_way += change);
    }
}

/// The outcome that an answer names: a table of its own.
fn outcome_of(reason: Reason) -> RequestOutcome {
    match reason {
        Reason::RateExceeded
        | Reason::QuotaExceeded
        | Reason::ConcurrencyExceeded
        | Reason::Blocked
        | Reason::AttributeMissing
        | Reason::CostExceedsLimit => RequestOutcome::Denied,
        Reason::OverloadShed | Reason::QueueFull => RequestOutcome::Shed,
        Reason::DeadlineUnmeetable => RequestOutcome::Expired,
        Reason::StoreUnavailable | Reason::TableFull => RequestOutcome::Unavailable,
        other => panic!("nothing refuses with {other}"),
    }
}

struct World {
    engine: Engine,
    store: MemoryStore,
    clock: Arc<AtomicU64>,
    model: Model,
    now: Timestamp,
    random: SplitMix64,
    waiting: Vec<(Pending, Vec<Asked>)>,
    admitted: Vec<(Permit, Vec<Asked>, Timestamp)>,
    gone: BTreeSet<u64>,
    seen: BTreeMap<&'static str, u64>,
}

fn namespace_name(number: u64) -> String {
    format!("ns-{number}")
}

fn namespace(number: u64) -> NamespaceConfig {
    let second = Duration::from_secs(1);
    let mut limits = vec![Limit::new("per-user", bucket(6, 10 * second)).key(["user"])];
    if number.is_multiple_of(2) {
        let quota = Limit::new("quota", bucket(40, Duration::from_hours(2))).key(["user"]);
        limits.push(quota.consistency(Consistency::Exact));
    }
    if number.is_multiple_of(3) {
        limits.push(Limit::concurrency("at-once", 2, "1m").unwrap().key(["user"]));
    }
    NamespaceConfig::new(namespace_name(number), limits)
}

impl World {
    fn new(seed: u64, tenants: u32) -> Self {
        let overload = Overload::builder(7).resource("app", ResourceConfig::new(20)).build().unwrap();
        let engine = Engine::builder(store_config())
            .namespaces((0..NAMESPACES).map(namespace))
            .overload(overload)
            .metering(MeterConfig::new(tenants), NOW)
            .features(FEATURES)
            .build()
            .unwrap();
        let clock = Arc::new(AtomicU64::new(NOW.as_nanos()));
        Self {
            engine,
            store: MemoryStore::new(MemoryConfig::new(SEED), {
                let clock = Arc::clone(&clock);
                move || Timestamp::from_nanos(clock.load(Ordering::Relaxed))
            }),
            clock,
            model: Model::default(),
            now: NOW,
            random: SplitMix64::new(seed),
            waiting: Vec::new(),
            admitted: Vec::new(),
            gone: BTreeSet::new(),
            seen: BTreeMap::new(),
        }
    }

    fn below(&mut self, end: u64) -> u64 {
        self.random.next_u64() % end
    }

    fn draw(&mut self) -> Asked {
        let namespace = loop {
            let drawn = self.below(NAMESPACES);
            if !self.gone.contains(&drawn) {
                break drawn;
            }
        };
        Asked {
            namespace,
            tenant: match self.below(10) {
                0 => None,
                1..5 => Some(self.below(30)),
                _ => Some(self.below(TENANTS)),
            },
            class: Class::ALL[self.below(4) as usize],
            feature: match self.below(6) {
                0 => None,
                1 => Some("a-feature-that-is-not-listed"),
                _ => Some(FEATURES[self.below(3) as usize]),
            },
            resource: self.below(3) == 0,
            cost: self.below(4) + 1,
            attempt: u32::from(self.below(5) == 0),
            hurry: (self.below(20) == 0).then(|| self.below(200)),
        }
    }

    fn run(&self, batch: &Batch) -> Result<tidegate_store::Answer, StoreError> {
        let mut run = pin!(self.store.run(batch));
        match run.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => answer,
            Poll::Pending => panic!("a store in memory answers at once"),
        }
    }

    /// Asks about some requests, as one batch or as a single one that may wait until then.
    fn ask(&mut self, all: Vec<Asked>, until: Option<Timestamp>) {
        let names: Vec<_> = all.iter().map(|one| (namespace_name(one.namespace), tenant_name(one))).collect();
        let pairs: Vec<_> = names.iter().map(|(_, tenant)| [("user", tenant.as_str())]).collect();
        let requests: Vec<_> = all
            .iter()
            .zip(&names)
            .zip(&pairs)
            .map(|((one, (namespace, tenant)), pairs)| {
                let mut request =
                    Request::new(namespace, pairs).cost(Cost::new(one.cost).unwrap()).class(one.class);
                request.tenant = one.tenant.map(|_| tenant.as_str());
                request.feature = one.feature;
                request.resource = one.resource.then_some("app");
                request.attempt = one.attempt;
                request.may_wait_until = until;
                request.deadline = one.hurry.map(|ms| self.now.saturating_add(Duration::from_millis(ms)));
                request
            })
            .collect();
        for one in &all {
            if one.attempt > 0 {
                self.model.count(one, self.now, |columns| columns.repeated += 1);
            }
        }
        let step = match &requests[..] {
            [one] => self.engine.admit(one, self.now).unwrap(),
            all => self.engine.admit_all(all, self.now).unwrap(),
        };
        let step = step.into_owned();
        drop(requests);
        self.took(step, all, false);
    }

    /// Takes in how far requests have come, which were under way before or not.
    fn took(&mut self, step: Step<'static>, all: Vec<Asked>, was_under_way: bool) {
        let is_under_way = matches!(step, Step::Ask(_));
        let change = i64::from(is_under_way) - i64::from(was_under_way);
        for one in &all {
            self.model.under_way(one, self.now, change);
        }
        match step {
            Step::Decided(Decision::Admit(permit)) => {
                for one in &all {
                    self.model.outcome(one, self.now, RequestOutcome::Admitted);
                }
                *self.seen.entry("admitted").or_default() += 1;
                *self.seen.entry("admitted after a wait").or_default() += u64::from(was_under_way);
                let admitted_at = permit.admitted_at();
                self.admitted.push((permit, all, admitted_at));
            }
            Step::Decided(Decision::Refuse(refused)) => {
                let each = refused.into_each(all.len());
                let first = each.iter().flatten().next().unwrap().reason();
                for (one, refusal) in all.iter().zip(&each) {
                    let reason = refusal.as_ref().map_or(first, tidegate_core::Refusal::reason);
                    let outcome = outcome_of(reason);
                    *self.seen.entry(outcome.as_str()).or_default() += 1;
                    if was_under_way {
                        *self.seen.entry(reason.as_str()).or_default() += 1;
                    }
                    self.model.outcome(one, self.now, outcome);
                }
            }
            Step::Ask(pending) => self.waiting.push((pending, all)),
        }
    }

    /// Lets one of the requests that wait go on.
    fn go_on(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let at = self.below(self.waiting.len() as u64) as usize;
        let is_away = self.below(4) == 0;
        let (pending, all) = self.waiting.swap_remove(at);
        let answered = match pending.wants() {
            Wants::Store(_) if is_away => Answered::Store(Err(StoreError::NotAsked)),
            Wants::Store(batch) => Answered::Store(self.run(batch)),
            Wants::Turn(turn) => {
                if turn.wake_at() > self.now && self.below(2) == 0 {
                    self.waiting.push((pending, all));
                    return;
                }
                Answered::Turn
            }
            Wants::Lease(_) => panic!("nothing is leased"),
        };
        let step = self.engine.resume(pending, answered, self.now);
        self.took(step, all, true);
    }

    /// The caller of a request that waits leaves.
    fn leave(&mut self) {
        if let Some((pending, all)) = self.waiting.pop() {
            drop(pending);
            *self.seen.entry("cancelled").or_default() += 1;
            for one in &all {
                self.model.under_way(one, self.now, -1);
                self.model.outcome(one, self.now, RequestOutcome::Cancelled);
            }
        }
    }

    fn settle(&mut self) {
        if self.admitted.is_empty() {
            return;
        }
        let at = self.below(self.admitted.len() as u64) as usize;
        let (permit, all, admitted_at) = self.admitted.swap_remove(at);
        let true_cost = (self.below(2) == 0).then(|| self.below(9));
        let outcome = [Outcome::Succeeded, Outcome::Failed, Outcome::Cancelled][self.below(3) as usize];
        let mut completion = Completion::from(outcome);
        completion.true_cost = true_cost;
        let kept = self.below(3) == 0 && permit.must_be_settled();
        let settled = if kept {
            let expires = self.now.saturating_add(Duration::from_hours(1));
            let mut keeping = self.engine.keep(permit, expires, self.now).unwrap();
            let id = loop {
                match keeping {
                    Progress::Done(id) => break id,
                    Progress::Ask(asking) => {
                        let answer = self.run(asking.batch());
                        keeping = asking.resume(&self.engine, answer, self.now).unwrap();
                    }
                }
            };
            self.engine.settle_kept(id, completion, self.now).unwrap()
        } else {
            self.engine.settle(permit, completion, self.now)
        };
        for batch in &settled.batches {
            self.run(batch).unwrap();
        }
        let took = i64::try_from(self.now.saturating_since(admitted_at).as_nanos()).unwrap();
        for one in &all {
            let (charged, index) = (i64::try_from(one.cost).unwrap(), RequestOutcome::Cancelled as usize);
            let true_units = true_cost.map_or(charged, |units| i64::try_from(units).unwrap());
            self.model.count(one, self.now, |columns| {
                if outcome == Outcome::Cancelled {
                    columns.outcomes[RequestOutcome::Admitted as usize] -= 1;
                    columns.outcomes[index] += 1;
                    columns.units -= charged;
                } else {
                    columns.true_units += true_units;
                    columns.place_ns += took;
                }
            });
        }
    }

    /// A report or a refund of work, or a look, which is not offered.
    fn beside(&mut self) {
        let one = self.draw();
        let (name, tenant) = (namespace_name(one.namespace), tenant_name(&one));
        let pairs = [("user", tenant.as_str())];
        let mut request = Request::new(&name, &pairs).cost(Cost::new(one.cost).unwrap()).class(one.class);
        request.tenant = one.tenant.map(|_| tenant.as_str());
        request.feature = one.feature;
        request.resource = one.resource.then_some("app");
        let units = i64::try_from(one.cost).unwrap();
        match self.below(3) {
            0 => {
                let begun = self.engine.report(&request, self.now).unwrap();
                finish(self, begun);
                self.model.count(&one, self.now, |columns| columns.reported += units);
            }
            1 => {
                let begun = self.engine.give_back(&request, self.now).unwrap();
                finish(self, begun);
                self.model.count(&one, self.now, |columns| columns.refunded += units);
            }
            _ => {
                let begun = self.engine.peek(&request, self.now).unwrap();
                finish(self, begun);
            }
        }
    }

    /// Limits that arrive with the request, each a request of its own.
    fn carry(&mut self) {
        let one = self.draw();
        let (name, tenant) = (namespace_name(one.namespace), tenant_name(&one));
        let algorithm: Algorithm = bucket(5, Duration::from_secs(10));
        let keys = [[tenant.as_bytes()], [b"all".as_slice()]];
        let limits: Vec<_> = keys
            .iter()
            .map(|key| CarriedLimit {
                key: Cow::Borrowed(key.as_slice()),
                algorithm: Cow::Borrowed(&algorithm),
                cost: one.cost,
            })
            .collect();
        let mut request = Request::new(&name, ()).class(one.class);
        request.tenant = one.tenant.map(|_| tenant.as_str());
        request.feature = one.feature;
        let charging = if self.below(2) == 0 { Charging::Each } else { Charging::AllOrNone };
        let begun = self.engine.carry(&request, &limits, charging, self.now).unwrap();
        let carried = finish(self, begun);
        let admits = |verdict| verdict == tidegate_core::algorithm::Verdict::Admit;
        let outcome =
            |is_admitted| if is_admitted { RequestOutcome::Admitted } else { RequestOutcome::Denied };
        let one = Asked { resource: false, attempt: 0, ..one };
        if charging == Charging::Each {
            for status in &carried.limits {
                self.model.outcome(&one, self.now, outcome(admits(status.verdict)));
            }
        } else {
            let both = Asked { cost: 2 * one.cost, ..one };
            self.model.outcome(&both, self.now, outcome(carried.is_admitted));
        }
    }

    /// Another policy: one namespace leaves, or comes back.
    fn reload(&mut self) {
        let number = self.below(NAMESPACES);
        if !self.gone.remove(&number) && self.gone.len() < 5 {
            self.gone.insert(number);
        }
        let left = (0..NAMESPACES).filter(|one| !self.gone.contains(one)).map(namespace).collect();
        let (engine, _) = self.engine.reconfigured(left).unwrap();
        // Requests that wait go on at the new engine; their namespace may be gone.
        self.engine = engine.with_features(FEATURES);
    }

    fn step(&mut self) {
        let millis = 1 + self.below(30);
        self.now = self.now.saturating_add(Duration::from_millis(millis));
        self.clock.store(self.now.as_nanos(), Ordering::Relaxed);
        match self.below(1000) {
            0 => self.reload(),
            1..520 => {
                let one = self.draw();
                let until = (self.below(4) == 0).then(|| self.now.saturating_add(Duration::from_secs(3)));
                self.ask(vec![one], until);
            }
            520..620 => {
                let mut all: Vec<_> = (0..2 + self.below(3)).map(|_| self.draw()).collect();
                if self.below(2) == 0 {
                    all[1] = all[0].clone();
                }
                self.ask(all, None);
            }
            620..800 => self.go_on(),
            800..830 => self.leave(),
            830..930 => self.settle(),
            930..960 => self.carry(),
            _ => self.beside(),
        }
        while self.admitted.len() > ADMITTED_MAX {
            self.settle();
        }
        drop(self.engine.tick(self.now));
    }

    fn check(&self) {
        let columns = |rows: &[Usage; 4]| rows.each_ref().map(Columns::from_usage);
        let report = self.engine.usage().unwrap();
        for (at, name) in [None, Some("other")].into_iter().chain(FEATURES.map(Some)).enumerate() {
            let row = report.features.iter().find(|row| match (&row.name, name) {
                (RowName::None, None) | (RowName::Other, Some("other")) => true,
                (RowName::Named(known), Some(name)) => **known == *name,
                _ => false,
            });
            assert_eq!(columns(&row.unwrap().classes), self.model.of(&Row::Feature(name)), "feature {at}");
        }
        let app = report.resources.iter().find(|row| row.name == RowName::Named("app".into())).unwrap();
        assert_eq!(columns(&app.classes), self.model.of(&Row::Resource(true)), "app");
        for number in 0..NAMESPACES {
            let (namespace, tenants) = self.engine.usage_of(&namespace_name(number)).unwrap();
            assert_eq!(columns(&namespace.classes), self.model.of(&Row::Namespace(number)), "{number}");
            assert_eq!(columns(&namespace.no_tenant), self.model.of(&Row::NoTenant(number)), "{number}");
            let mut sum = columns(&namespace.other);
            for tenant in &tenants {
                let row = columns(&tenant.classes);
                sum.iter_mut().zip(&row).for_each(|(sum, more)| sum.add(more));
                let of: u64 = tenant.name.strip_prefix("tenant-").unwrap().parse().unwrap();
                // A row that was never evicted has all of its tenant.
                if self.model.first_seen[&(number, of)] == tenant.since {
                    assert_eq!(row, self.model.of(&Row::Tenant(number, of)), "{number} {of}");
                }
            }
            assert_eq!(sum, self.model.of(&Row::Tenants(number)), "{number}");
        }
    }
}

fn tenant_name(one: &Asked) -> String {
    format!("tenant-{}", one.tenant.unwrap_or(u64::MAX))
}

fn finish<T>(world: &World, mut begun: Progress<T>) -> T {
    loop {
        match begun {
            Progress::Done(value) => return value,
            Progress::Ask(asking) => {
                let answer = world.run(asking.batch());
                begun = asking.resume(&world.engine, answer, world.now).unwrap();
            }
        }
    }
}

/// With another number of operations where the test is built with `TIDEGATE_METER_OPERATIONS`.
#[test]
fn every_row_agrees_with_what_was_asked_and_answered_after_100_000_operations() {
    let operations = option_env!("TIDEGATE_METER_OPERATIONS").map_or(100_000, |text| text.parse().unwrap());
    let mut world = World::new(11, 2_000);
    for step in 0..operations {
        world.step();
        if u64::is_multiple_of(step, 5_000) {
            world.check();
        }
    }
    // The process stops.
    world.engine.drain_waiting();
    while !world.waiting.is_empty() {
        world.go_on();
    }
    world.check();
    println!("{:?}", world.seen);
    let outcomes = ["admitted", "denied", "shed", "expired", "unavailable", "cancelled"];
    let after_waits = [
        "admitted after a wait",
        "rate_exceeded",
        "concurrency_exceeded",
        "overload_shed",
        "queue_full",
        "deadline_unmeetable",
        "store_unavailable",
    ];
    for one in outcomes.into_iter().chain(after_waits) {
        assert!(world.seen.get(one).is_some_and(|count| *count > 10), "{one}: {:?}", world.seen);
    }
}

/// Numbers of an Envoy are whatever it says, and move no row but those of its bucket.
#[test]
fn requests_that_envoys_decided_count_in_their_rows_and_are_not_offered() {
    let limits = [Limit::new("all", bucket(1, Duration::from_secs(1)))];
    let namespaces = ["api", "web"].map(|name| NamespaceConfig::new(name, limits.clone()));
    let builder = Engine::builder(config()).metering(MeterConfig::default(), NOW);
    let engine = namespaces.into_iter().fold(builder, EngineBuilder::namespace).build().unwrap();
    let of = |namespace, tenant| Request::new(namespace, ()).tenant(tenant);
    engine.meter_reported(&of("api", "ada"), 3, 4, NOW);
    engine.meter_reported(&of("api", "bob"), 0, u64::MAX, NOW);
    engine.meter_reported(&of("api", "bob"), u64::MAX, u64::MAX, NOW);
    engine.meter_reported(&of("api", "idle"), 0, 0, NOW);
    engine.meter_reported(&of("nowhere", "ada"), 5, 5, NOW);
    let counted = |usage: &Usage| {
        assert_eq!((usage.offered(), usage.units, usage.refused_units, usage.reported), (0, 0, 0, 0));
        (usage.reported_admitted, usage.reported_denied, usage.is_saturated)
    };
    let tenant = |name| engine.tenant_usage("api", name).map(|row| counted(&Usage::sum(&row.classes)));
    assert_eq!(tenant("ada"), Some((3, 4, false)));
    assert_eq!(tenant("bob"), Some((u64::MAX, u64::MAX, true)));
    assert_eq!(tenant("idle"), None, "a report without requests makes no row");
    let namespace = |name| counted(&Usage::sum(&engine.namespace_usage(name).unwrap().classes));
    assert_eq!((namespace("api"), namespace("web")), ((u64::MAX, u64::MAX, true), (0, 0, false)));
    let report = engine.usage().unwrap();
    for rows in [&report.features, &report.resources] {
        let none = rows.iter().find(|row| row.name == RowName::None).unwrap();
        assert_eq!(counted(&Usage::sum(&none.classes)), (u64::MAX, u64::MAX, true));
    }
}

#[test]
fn an_engine_without_a_meter_reports_nothing() {
    let engine = Engine::builder(config()).namespace(namespace(1)).build().unwrap();
    assert_eq!((engine.usage(), engine.metering_bytes()), (None, 0));
    assert!(engine.usage_of("ns-1").is_none() && engine.tenant_usage("ns-1", "a").is_none());
}

#[test]
fn a_settlement_of_2_to_the_63_units_saturates_in_its_own_row_alone() {
    let engine =
        Engine::builder(config()).namespace(namespace(1)).metering(MeterConfig::default(), NOW).build();
    let engine = engine.unwrap();
    // Keys of their own: a debt of that size refuses the next request.
    for (user, tenant, units) in [("1", "ada", 1_u64 << 63), ("2", "ada", 1 << 63), ("3", "bob", 2)] {
        let pairs = [("user", user)];
        let request = Request::new("ns-1", &pairs).tenant(tenant);
        let Step::Decided(Decision::Admit(permit)) = engine.admit(&request, NOW).unwrap() else {
            panic!("there is room")
        };
        drop(engine.settle(permit, Completion::from_cost(units), NOW));
    }
    let of = |tenant| Usage::sum(&engine.tenant_usage("ns-1", tenant).unwrap().classes);
    let (ada, bob) = (of("ada"), of("bob"));
    assert_eq!((ada.true_units, ada.is_saturated), (u64::MAX, true));
    assert_eq!((bob.true_units, bob.settled_more, bob.is_saturated), (2, 1, false));
}

#[test]
fn a_request_whose_namespace_goes_away_while_it_waits_is_in_the_outcome_of_its_answer() {
    let engine =
        Engine::builder(config()).namespace(namespace(1)).metering(MeterConfig::default(), NOW).build();
    let engine = engine.unwrap();
    let pairs = [("user", "ada")];
    let until = NOW.saturating_add(Duration::from_hours(2));
    let request = Request::new("ns-1", &pairs).tenant("ada").may_wait_until(until);
    let pending = loop {
        match engine.admit(&request, NOW).unwrap() {
            Step::Decided(Decision::Admit(permit)) => drop(permit),
            Step::Decided(Decision::Refuse(refused)) => panic!("it waits: {refused:?}"),
            Step::Ask(pending) => break pending,
        }
    };
    let (engine, _) = engine.reconfigured(vec![namespace(2)]).unwrap();
    let Step::Decided(Decision::Refuse(refused)) = engine.resume(pending, Answered::Turn, until) else {
        panic!("its namespace is gone")
    };
    let reason = refused.into_refusal().reason();
    assert_eq!(reason, Reason::StoreUnavailable);
    let ada = Usage::sum(&engine.tenant_usage("ns-1", "ada").unwrap().classes);
    assert_eq!((ada.under_way, ada.outcome(outcome_of(reason))), (0, 1), "{ada:?}");
    assert_eq!(ada.outcome(RequestOutcome::Failed), 0);
}
