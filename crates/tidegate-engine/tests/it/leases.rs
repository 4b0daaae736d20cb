//! Limits that are spent from leases, on engines that share a store.

use core::task::{Context, Waker};
use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::algorithm::{Bucket, CivilUnit, Fixed, WindowStart};
use tidegate_core::lease::HOLDERS_MAX;
use tidegate_core::limit::{Consistency, OnStoreFailure};
use tidegate_core::{Algorithm, Cost, Limit, Rate, Reason, Refusal, Retry, Timestamp, error_chain};
use tidegate_engine::{
    Answered, BatchError, Completion, Decision, Engine, EngineBuilder, EngineConfig, LeaseConfig,
    NamespaceConfig, Permit, Progress, Request, Step, Wants,
};
use tidegate_overload::{Overload, ResourceConfig};
use tidegate_store::{Answer, Batch, MemoryConfig, MemoryStore, StoreError};

use crate::world::{NOW, SEED, bucket, config};

mod no_place;
mod operations;
mod remote;
mod remote_bounds;
mod retry_times;
mod silence;
mod tables;
mod tick;

const SECOND: Duration = Duration::from_secs(1);
pub(crate) const ADA: [(&str, &str); 1] = [("user", "ada")];

/// Members that share a store, all on one clock.
pub(crate) struct Fleet {
    pub(crate) members: Vec<Engine>,
    pub(crate) store: MemoryStore,
    clock: Arc<AtomicU64>,
    pub(crate) is_down: bool,
    asks: u64,
    looks: u64,
}

pub(crate) fn leased(name: &str, algorithm: Algorithm) -> Limit {
    Limit::new(name, algorithm).key(["user"]).consistency(Consistency::Leased)
}

fn per_second(units: u64) -> Algorithm {
    bucket(units, SECOND)
}

fn window(limit: u64, window: Duration) -> Algorithm {
    Algorithm::Fixed(Fixed::new(limit, window, WindowStart::Epoch).unwrap())
}

impl Fleet {
    pub(crate) fn new(count: u64, limits: &[Limit]) -> Self {
        Self::with(count, limits, |_| {})
    }

    pub(crate) fn with(count: u64, limits: &[Limit], change: impl Fn(&mut LeaseConfig)) -> Self {
        Self::built(count, limits, change, |builder| builder)
    }

    /// Members with more than limits.
    pub(crate) fn built(
        count: u64,
        limits: &[Limit],
        change: impl Fn(&mut LeaseConfig),
        more: impl Fn(EngineBuilder) -> EngineBuilder,
    ) -> Self {
        let clock = Arc::new(AtomicU64::new(NOW.as_nanos()));
        let reads = Arc::clone(&clock);
        let now = move || Timestamp::from_nanos(reads.load(Ordering::Relaxed));
        let member = |number| {
            let mut leases = LeaseConfig::new(number);
            change(&mut leases);
            let seed = SEED.map(|word| word ^ number);
            let mut config = EngineConfig::seeded(seed);
            (config.asks_store, config.leases) = (true, Some(leases));
            // Not the seed: members that name their batches alike are answered each other's.
            config.table.bytes = crate::world::config().table.bytes;
            let namespace = NamespaceConfig::new("api", limits.to_vec());
            more(Engine::builder(config).namespace(namespace)).build().unwrap()
        };
        let members = (1..=count).map(member).collect();
        Self {
            members,
            store: MemoryStore::new(MemoryConfig::new(SEED), now),
            clock,
            is_down: false,
            asks: 0,
            looks: 0,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.clock.load(Ordering::Relaxed))
    }

    /// Time passes; every member does what is due.
    pub(crate) fn pass(&mut self, span: Duration) {
        self.clock.store(self.now().saturating_add(span).as_nanos(), Ordering::Relaxed);
        for member in 0..self.members.len() {
            let _ = self.members[member].tick(self.now());
            self.drive(member);
        }
    }

    /// The same, in steps of a tenth of a second.
    fn pass_in_steps(&mut self, span: Duration) {
        for _ in 0..span.as_millis() / 100 {
            self.pass(Duration::from_millis(100));
        }
    }

    fn run(&self, batch: &Batch) -> Result<Answer, StoreError> {
        if self.is_down {
            return Err(StoreError::Unavailable { at: "the test".into(), sent: false, source: None });
        }
        self.store.run_now(batch)
    }

    /// Carries what a member wants to ask; how many asks there were.
    pub(crate) fn drive(&mut self, member: usize) -> usize {
        let mut asks = 0;
        for asked in self.members[member].take_lease_asks() {
            asks += asked.asks();
            let answer = self.run(asked.batch());
            self.members[member].lease_answered(asked, answer, self.now());
        }
        self.asks += asks as u64;
        asks
    }

    /// Carries a request through to its decision.
    pub(crate) fn decide(&mut self, member: usize, request: &Request<'_>) -> Decision<'static> {
        let mut step = self.members[member].admit(request, self.now()).unwrap().into_owned();
        loop {
            match step {
                Step::Decided(decision) => return decision,
                Step::Ask(pending) => {
                    let answered = match pending.wants() {
                        Wants::Store(batch) => Answered::Store(self.run(batch)),
                        Wants::Lease(landing) => {
                            self.drive(member);
                            assert!(landing.is_over(), "every ask comes to an end");
                            Answered::Lease
                        }
                        Wants::Turn(_) => panic!("the request may not wait for its turn"),
                    };
                    step = self.members[member].resume(pending, answered, self.now());
                }
            }
        }
    }

    pub(crate) fn admit(&mut self, member: usize, units: u64) -> Option<Permit> {
        self.ask(member, units).ok()
    }

    pub(crate) fn ask(&mut self, member: usize, units: u64) -> Result<Permit, Refusal> {
        match self.decide(member, &Request::new("api", &ADA).cost(Cost::new(units).unwrap())) {
            Decision::Admit(permit) => Ok(permit),
            Decision::Refuse(refusal) => Err(refusal.into_refusal()),
        }
    }

    /// Carries an operation through to its end.
    pub(crate) fn carry<T>(&self, member: usize, mut progress: Progress<T>) -> T {
        loop {
            match progress {
                Progress::Done(value) => return value,
                Progress::Ask(asking) => {
                    let answer = self.run(asking.batch());
                    progress = asking.resume(&self.members[member], answer, self.now()).unwrap();
                }
            }
        }
    }

    pub(crate) fn settle(&mut self, member: usize, permit: Permit, completion: impl Into<Completion>) {
        for batch in self.members[member].settle(permit, completion, self.now()).batches {
            self.run(&batch).unwrap();
        }
    }

    /// How many requests of one unit are admitted at once.
    pub(crate) fn burst(&mut self, member: usize) -> u64 {
        let mut admitted = 0;
        while let Some(permit) = self.admit(member, 1) {
            drop(permit);
            admitted += 1;
        }
        admitted
    }
}

/// How many asks half a minute takes of one member that is asked for one unit each `every`, and
/// looks at its leases exactly when it is due.
fn asks_of_half_a_minute(limit: Algorithm, every: Duration) -> u64 {
    let mut fleet = Fleet::new(1, &[leased("limit", limit)]);
    let end = fleet.now().saturating_add(30 * SECOND);
    let mut request_at = fleet.now();
    while fleet.now() < end {
        let due = fleet.members[0].tick(fleet.now()).next;
        fleet.drive(0);
        let next = due.min(request_at).max(fleet.now().saturating_add(Duration::from_micros(1)));
        fleet.clock.store(next.as_nanos(), Ordering::Relaxed);
        fleet.looks += 1;
        if next >= request_at {
            request_at = next.saturating_add(every);
            assert!(fleet.admit(0, 1).is_some());
        }
    }
    let requests = 30 * SECOND.as_nanos() / every.as_nanos();
    assert!(u128::from(fleet.looks) < 2 * requests + 200, "{} looks for {requests} requests", fleet.looks);
    fleet.asks
}

#[test]
fn a_key_with_16_requests_a_second_has_a_lease_and_with_fewer_the_ledger_is_asked_for_what_comes() {
    // The first leases are short; afterwards one lasts for more than four seconds.
    for (per_second, most) in [(1, 32), (2, 61), (5, 60), (10, 100), (20, 24), (50, 24)] {
        let asks = asks_of_half_a_minute(bucket(100, SECOND), SECOND / per_second);
        println!("{asks} asks at {per_second}/s");
        assert!(asks <= most, "{asks} asks at {per_second}/s");
    }
}

#[test]
fn the_lease_of_a_window_is_looked_at_now_and_then_and_not_all_the_time() {
    let asks = asks_of_half_a_minute(window(10_000, Duration::from_hours(24)), SECOND / 20);
    assert!(asks <= 14, "{asks}");
}

#[test]
fn a_used_up_quota_is_not_looked_at_before_there_can_be_more() {
    let mut fleet = Fleet::new(1, &[leased("day", window(5, Duration::from_hours(24)))]);
    assert_eq!(fleet.burst(0), 5);
    let (mut looks, end) = (0, fleet.now().saturating_add(20 * SECOND));
    while fleet.now() < end {
        let due = fleet.members[0].tick(fleet.now()).next;
        fleet.drive(0);
        fleet.clock.store(due.as_nanos(), Ordering::Relaxed);
        looks += 1;
    }
    // The engine wants to be looked at once a second anyway.
    assert!(looks < 40, "{looks} looks in twenty seconds");
}

#[test]
fn a_hot_key_is_asked_for_a_few_times_and_then_decided_by_the_member() {
    let mut fleet = Fleet::new(1, &[leased("rate", per_second(1000))]);
    for _ in 0..300 {
        assert!(fleet.admit(0, 1).is_some());
    }
    assert!(fleet.asks <= 4, "{} asks for 300 requests", fleet.asks);
    let permit = fleet.admit(0, 1).unwrap();
    let report = fleet.members[0].statuses(&permit);
    assert_eq!((report[0].limit, report[0].name.as_str()), (1000, "rate"));
}

#[test]
fn four_hundred_who_come_at_once_wait_for_one_ask() {
    let mut fleet = Fleet::new(1, &[leased("rate", per_second(1000))]);
    let request = Request::new("api", &ADA);
    let now = fleet.now();
    let mut waiting = Vec::new();
    for _ in 0..400 {
        match fleet.members[0].admit(&request, now).unwrap() {
            Step::Ask(pending) => waiting.push(pending),
            other @ Step::Decided(_) => panic!("{other:?}"),
        }
    }
    assert!(waiting.iter().all(|one| matches!(one.wants(), Wants::Lease(landing) if !landing.is_over())));
    assert_eq!(fleet.drive(0), 1);
    let mut admitted = 0;
    while let Some(pending) = waiting.pop() {
        match fleet.members[0].resume(pending, Answered::Lease, now) {
            Step::Decided(Decision::Admit(_)) => admitted += 1,
            Step::Ask(pending) => {
                fleet.drive(0);
                waiting.push(pending);
            }
            Step::Decided(_) => {}
        }
    }
    assert_eq!(admitted, 400);
    assert!(fleet.asks <= 4, "{} asks", fleet.asks);
}

#[test]
fn who_waits_is_woken_when_the_ask_has_landed() {
    struct Count(AtomicU64);
    impl std::task::Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let mut fleet = Fleet::new(1, &[leased("rate", per_second(1000))]);
    let driver = Arc::new(Count(AtomicU64::new(0)));
    let waker = Waker::from(Arc::clone(&driver));
    assert!(fleet.members[0].poll_lease_asks(&mut Context::from_waker(&waker)).is_pending());
    let Step::Ask(pending) = fleet.members[0].admit(&Request::new("api", &ADA), NOW).unwrap() else {
        panic!("a cold key asks");
    };
    assert_eq!(driver.0.load(Ordering::Relaxed), 1, "there is something to carry");
    let Wants::Lease(landing) = pending.wants() else { panic!("it waits for a lease") };
    let requester = Arc::new(Count(AtomicU64::new(0)));
    let waker = Waker::from(Arc::clone(&requester));
    let mut landing = core::pin::pin!(landing);
    assert!(landing.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    fleet.drive(0);
    assert_eq!(requester.0.load(Ordering::Relaxed), 1);
    assert!(landing.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
}

#[test]
fn a_request_that_waits_for_a_lease_holds_nothing() {
    let local = Limit::new("local", bucket(10, Duration::from_mins(1))).key(["user"]);
    let fleet = Fleet::new(1, &[local, leased("rate", per_second(1000))]);
    let before = fleet.members[0].fingerprint();
    let step = fleet.members[0].admit(&Request::new("api", &ADA), NOW).unwrap();
    assert!(matches!(step, Step::Ask(_)));
    assert_eq!(fleet.members[0].fingerprint(), before);
    // A caller that drops its step leaves nothing undone: the next caller finds the lease.
    drop(step);
}

#[test]
fn what_one_lease_refuses_is_not_taken_from_another() {
    let limits = [leased("wide", window(1000, Duration::from_hours(2))), leased("narrow", per_second(5))];
    let mut fleet = Fleet::new(1, &limits);
    for _ in 0..5 {
        assert!(fleet.admit(0, 1).is_some());
    }
    let in_hand = |fleet: &Fleet| {
        let views = fleet.members[0].leases(8, fleet.now()).leases;
        views.into_iter().find(|one| one.name == "wide").unwrap().tokens
    };
    let before = in_hand(&fleet);
    for _ in 0..50 {
        let refusal = fleet.ask(0, 1).unwrap_err();
        assert_eq!((refusal.name(), refusal.reason()), ("narrow", Reason::RateExceeded));
    }
    assert_eq!(in_hand(&fleet), before);
}

#[test]
fn a_quota_shared_by_members_is_used_up_to_the_last_unit_and_never_more() {
    for count in [1, 2, 7] {
        let mut fleet = Fleet::new(count, &[leased("daily", window(500, Duration::from_hours(24)))]);
        let mut admitted = 0;
        for round in 0..4000 {
            if round % 10 == 0 {
                fleet.pass(Duration::from_millis(50));
            }
            let member = round % fleet.members.len();
            admitted += u64::from(fleet.admit(member, 1).is_some());
        }
        assert_eq!(admitted, 500, "{count} members");
        let refusal = fleet.ask(0, 1).unwrap_err();
        assert_eq!(refusal.reason(), Reason::QuotaExceeded);
    }
}

#[test]
fn a_rate_shared_by_members_is_used_and_kept() {
    let mut fleet = Fleet::new(4, &[leased("rate", per_second(200))]);
    let (mut admitted, mut decisions) = (0_u64, 0_u64);
    // Twice as much as there is, for twenty seconds, and evenly.
    for _ in 0..20_000 {
        fleet.pass(Duration::from_millis(1));
        for member in 0..4 {
            if (decisions + member as u64).is_multiple_of(10) {
                admitted += u64::from(fleet.admit(member, 1).is_some());
            }
            decisions += 1;
        }
    }
    // R·W + B + 0.1·R, and at least 98 % of R·W.
    assert!(admitted <= 200 * 20 + 200 + 20, "{admitted}");
    assert!(admitted >= 200 * 20 * 98 / 100, "{admitted}");
}

#[test]
fn a_cost_that_never_fits_is_refused_for_good() {
    let mut fleet = Fleet::new(1, &[leased("rate", per_second(10))]);
    let refusal = fleet.ask(0, 11).unwrap_err();
    assert_eq!((refusal.reason(), refusal.retry()), (Reason::CostExceedsLimit, Retry::Never));
    assert_eq!(fleet.asks, 0, "the store is not asked for it");
}

#[test]
fn a_shadow_lease_refuses_nothing_and_says_so() {
    let mut fleet = Fleet::new(1, &[leased("shadow", per_second(3)).shadow()]);
    for _ in 0..3 {
        assert!(fleet.admit(0, 1).is_some());
    }
    let permit = fleet.admit(0, 1).expect("it refuses nothing");
    assert!(fleet.members[0].statuses(&permit)[0].shadow_refused);
}

#[test]
fn when_there_is_no_place_for_another_holder_idle_ones_make_room() {
    let mut fleet = Fleet::with(1, &[leased("rate", per_second(100))], |leases| leases.holders_max = 8);
    let users: Vec<String> = (0..9).map(|number| format!("user-{number}")).collect();
    let ask = |fleet: &mut Fleet, user: &str| {
        let attributes = [("user", user)];
        match fleet.decide(0, &Request::new("api", &attributes)) {
            Decision::Admit(_) => None,
            Decision::Refuse(refused) => Some(refused.into_refusal()),
        }
    };
    for user in &users[..8] {
        assert!(ask(&mut fleet, user).is_none());
    }
    let refusal = ask(&mut fleet, &users[8]).expect("all places are taken");
    assert_eq!(refusal.reason(), Reason::TableFull);
    let Retry::At(until) = refusal.retry() else { panic!("{refusal:?}") };
    assert!(until > fleet.now());
    fleet.pass(Duration::from_secs(30));
    assert!(ask(&mut fleet, &users[8]).is_none(), "who has not been asked for goes");
    assert!(fleet.members[0].lease_totals().unwrap().holders <= 8);
}

#[test]
fn a_holder_without_a_place_at_the_ledger_keeps_its_demand_until_it_has_faded() {
    let crowded = HOLDERS_MAX;
    let mut fleet = Fleet::new(crowded as u64 + 1, &[leased("rate", per_second(10_000))]);
    for member in 0..HOLDERS_MAX {
        assert!(fleet.admit(member, 1).is_some());
    }
    assert!(fleet.admit(crowded, 1).is_some(), "it is granted what waits");
    let holders = |fleet: &Fleet| fleet.members[crowded].lease_totals().unwrap().holders;
    // Of a demand of three units a period less than one is left.
    fleet.pass_in_steps(SECOND * 2);
    assert_eq!(holders(&fleet), 1);
    assert!(fleet.admit(crowded, 1).is_some());
    let demand = fleet.members[crowded].leases(1, fleet.now()).leases[0].demand;
    assert_eq!(demand, 4, "the demand of both requests");
    fleet.pass_in_steps(SECOND * 7);
    assert_eq!(holders(&fleet), 1);
    fleet.pass_in_steps(SECOND * 2);
    assert_eq!(holders(&fleet), 0, "nothing is left of its demand");
}

#[test]
fn leases_that_are_given_back_are_there_for_others_at_once() {
    let mut fleet = Fleet::new(2, &[leased("daily", window(100, Duration::from_hours(24)))]);
    assert!(fleet.admit(0, 1).is_some());
    for asked in fleet.members[0].leave_leases(fleet.now()) {
        let answer = fleet.run(asked.batch());
        fleet.members[0].lease_answered(asked, answer, fleet.now());
    }
    assert_eq!(fleet.members[0].lease_totals().unwrap().holders, 0);
    let mut admitted = 0;
    for _ in 0..400 {
        fleet.pass(Duration::from_millis(100));
        admitted += fleet.burst(1);
    }
    assert_eq!(admitted, 99);
}

#[test]
fn leases_are_given_back_in_the_order_of_their_keys() {
    let mut fleet = Fleet::new(1, &[leased("daily", window(100, Duration::from_hours(24)))]);
    for number in 0..40 {
        let user = format!("user-{number}");
        let attributes = [("user", &*user)];
        assert!(matches!(fleet.decide(0, &Request::new("api", &attributes)), Decision::Admit(_)));
    }
    let batches = fleet.members[0].leave_leases(fleet.now());
    let operations = batches.iter().flat_map(|asked| &asked.batch().operations);
    let keys: Vec<_> = operations.map(|operation| operation.key.clone()).collect();
    assert_eq!(keys.len(), 40);
    assert!(keys.is_sorted(), "{keys:?}");
}

#[test]
fn other_numbers_count_from_the_next_request_on() {
    let mut fleet = Fleet::new(1, &[leased("daily", window(10, Duration::from_hours(24)))]);
    assert_eq!(fleet.burst(0), 10);
    let limits = vec![leased("daily", window(15, Duration::from_hours(24)))];
    let namespaces = vec![NamespaceConfig::new("api", limits)];
    fleet.members[0] = fleet.members[0].reconfigured(namespaces).unwrap().0;
    let mut admitted = 0;
    for _ in 0..100 {
        fleet.pass(SECOND);
        admitted += fleet.burst(0);
    }
    assert_eq!(admitted, 5, "what is used stays used");
}

#[test]
fn another_lease_period_counts_from_the_next_ask_on_and_keeps_what_is_used() {
    let limit = leased("rate", bucket(1_000, SECOND));
    let mut fleet = Fleet::new(1, std::slice::from_ref(&limit));
    let fill = |fleet: &mut Fleet, seconds: u64| {
        let admitted: u64 = (0..seconds * 10)
            .map(|_| {
                fleet.pass(Duration::from_millis(100));
                fleet.burst(0)
            })
            .sum();
        admitted
    };
    let first = fleet.burst(0);
    fill(&mut fleet, 20);
    let asks = fleet.asks;
    let before = fill(&mut fleet, 60);
    let asks_before = fleet.asks - asks;
    let lease = fleet.members[0].leases(1, fleet.now()).leases[0].clone();
    assert!(lease.until <= fleet.now().saturating_add(SECOND * 5));
    assert!(first > 900, "{first} of the burst");
    assert_eq!(lease.period, SECOND * 5);

    let limits = vec![limit.clone().lease_period(SECOND * 20)];
    let namespaces = vec![NamespaceConfig::new("api", limits)];
    fleet.members[0] = fleet.members[0].reconfigured(namespaces).unwrap().0;
    assert_eq!(fleet.burst(0), 0, "what is used stays used");
    fill(&mut fleet, 20);
    let asks = fleet.asks;
    let after = fill(&mut fleet, 60);
    let asks_after = fleet.asks - asks;
    assert_eq!(fleet.members[0].leases(1, fleet.now()).leases[0].period, SECOND * 20);
    for admitted in [before, after] {
        assert!((58_800..=60_100).contains(&admitted), "{admitted} in a minute");
    }
    assert!(asks_after * 2 < asks_before, "{asks_after} asks a minute after {asks_before}");
}

#[test]
fn members_that_disagree_about_the_lease_period_share_the_limit() {
    let limit = |period| leased("rate", bucket(1_000, SECOND)).lease_period(period);
    for (one, other) in [(4, 60), (5, 20), (60, 5)] {
        let mut fleet = Fleet::new(2, &[limit(SECOND * one)]);
        let limits = vec![limit(SECOND * other)];
        let namespaces = vec![NamespaceConfig::new("api", limits)];
        fleet.members[1] = fleet.members[1].reconfigured(namespaces).unwrap().0;
        let mut admitted = [0; 2];
        for _ in 0..600 {
            fleet.pass(Duration::from_millis(100));
            admitted[0] += fleet.burst(0);
            admitted[1] += fleet.burst(1);
        }
        let all = admitted[0] + admitted[1];
        let most = 61_000 + 100;
        assert!((58_800..=most).contains(&all), "{admitted:?} in a minute with {one} s and {other} s");
    }
}

#[test]
fn requests_that_go_together_ask_for_all_their_leases_at_once() {
    let mut fleet = Fleet::new(1, &[leased("rate", per_second(100))]);
    let users = ["a", "b", "c"].map(|user| [("user", user)]);
    let requests: Vec<_> = users.iter().map(|attributes| Request::new("api", attributes)).collect();
    let step = fleet.members[0].admit_all(&requests, NOW).unwrap();
    let Step::Ask(pending) = step else { panic!("cold keys ask") };
    assert_eq!(fleet.drive(0), 3);
    let step = fleet.members[0].resume(pending, Answered::Lease, NOW);
    assert!(matches!(step, Step::Decided(Decision::Admit(permits)) if permits.requests() == 3));
    let unknown = [Request::new("nowhere", &ADA), requests[0]];
    assert!(matches!(fleet.members[0].admit_all(&unknown, NOW), Err(BatchError::Request { at: 0, .. })));
}

#[test]
fn requests_that_go_together_and_begin_anew_are_offered_and_served_once() {
    let overload = || Overload::new(ResourceConfig::new(100), 5).unwrap();
    let limits = [leased("rate", per_second(100))];
    let mut fleet = Fleet::built(1, &limits, |_| {}, |builder| builder.overload(overload()));
    for _ in 0..10 {
        assert!(fleet.admit(0, 1).is_some());
    }
    // The lease of the first is there; the second waits for its own, so that both begin anew.
    let users = [ADA, [("user", "bob")]];
    let requests: Vec<_> = users.iter().map(|attributes| Request::new("api", attributes)).collect();
    let Step::Ask(pending) = fleet.members[0].admit_all(&requests, NOW).unwrap() else {
        panic!("a cold key asks")
    };
    let stats = |fleet: &Fleet| {
        let stats = fleet.members[0].resource_stats(NOW).next().unwrap();
        (stats.offered, stats.undecided(), stats.served, stats.in_flight)
    };
    assert_eq!(stats(&fleet), (12, 2, 10, 0));
    fleet.drive(0);
    let step = fleet.members[0].resume(pending, Answered::Lease, NOW);
    let Step::Decided(Decision::Admit(permit)) = step else { panic!("{step:?}") };
    assert_eq!(stats(&fleet), (12, 0, 12, 2));
    drop(permit);
    assert_eq!(stats(&fleet), (12, 0, 12, 0));
}

#[test]
fn a_limit_divided_among_members_counts_by_its_part() {
    let divided = Limit::new("each", bucket(100, SECOND)).key(["user"]).divided();
    let mut fleet = Fleet::new(1, &[divided]);
    assert_eq!(fleet.burst(0), 100);
    fleet.pass(SECOND);
    fleet.members[0] = fleet.members[0].with_members(4).unwrap().expect("the part has changed");
    assert_eq!(fleet.burst(0), 25);
    assert!(fleet.members[0].with_members(4).unwrap().is_none());
    fleet.members[0] = fleet.members[0].with_members(0).unwrap().expect("none counts as one");
    fleet.pass(SECOND);
    assert_eq!(fleet.burst(0), 100);
}

#[test]
fn without_a_shared_store_a_leased_limit_is_decided_here() {
    let limits = vec![leased("rate", per_second(7))];
    let engine = Engine::builder(config()).namespace(NamespaceConfig::new("api", limits)).build().unwrap();
    for _ in 0..7 {
        let step = engine.admit(&Request::new("api", &ADA), NOW).unwrap();
        assert!(matches!(step, Step::Decided(Decision::Admit(_))));
    }
    let step = engine.admit(&Request::new("api", &ADA), NOW).unwrap();
    assert!(matches!(step, Step::Decided(Decision::Refuse(_))));
}

#[test]
fn what_cannot_be_leased_makes_no_engine() {
    use tidegate_core::algorithm::Rolling;
    let rolling = Algorithm::Rolling(Rolling::new(5, SECOND).unwrap());
    let limits = vec![leased("rolling", rolling)];
    let built = Engine::builder(config()).namespace(NamespaceConfig::new("api", limits)).build();
    let error = error_chain(&built.unwrap_err());
    assert!(error.contains("rolling") && error.contains("consistency: exact"), "{error}");
    let daily =
        Algorithm::Calendar(tidegate_core::algorithm::Calendar::new(5, CivilUnit::Day, "UTC").unwrap());
    assert!(Fleet::new(1, &[leased("daily", daily)]).admit(0, 1).is_some());
}

/// Of a limit, with what it does while the store is away.
pub(crate) fn failing(name: &str, algorithm: Algorithm, failure: OnStoreFailure) -> Limit {
    leased(name, algorithm).on_store_failure(failure)
}

#[test]
fn a_caller_alone_at_its_limit_that_waits_exactly_as_told_is_admitted_a_thousand_times_of_a_thousand() {
    for (limit, costs) in [
        (bucket(5, Duration::from_mins(1)), 1),
        (bucket(10, SECOND), 3),
        (bucket(7, 3 * SECOND), 2),
        (per_second(100), 40),
        (per_second(1000), 1),
        (window(20, SECOND), 6),
    ] {
        let mut fleet = Fleet::new(1, &[leased("limit", limit.clone())]);
        let (mut told, mut admitted) = (0, 0);
        for turn in 0.. {
            let cost = 1 + turn % costs;
            let Err(refusal) = fleet.ask(0, cost) else { continue };
            let Retry::At(until) = refusal.retry() else { panic!("{refusal:?}") };
            let wait = until.saturating_since(fleet.now());
            assert!(wait <= limit.window().unwrap(), "{wait:?} for {cost} of {limit:?}");
            fleet.pass(wait);
            told += 1;
            admitted += u32::from(fleet.ask(0, cost).is_ok());
            if told == 1000 {
                break;
            }
        }
        assert_eq!(admitted, told, "{limit:?}");
    }
}

#[test]
fn what_is_left_is_what_the_ledger_has_and_not_what_this_member_has_in_hand() {
    let mut fleet = Fleet::new(2, &[leased("rate", per_second(100))]);
    for used in 1..=20 {
        let permit = fleet.admit(0, 1).unwrap();
        let report = &fleet.members[0].statuses(&permit)[0];
        assert_eq!((report.remaining, report.limit), (100 - used, 100));
    }
    // Another member knows it from the ledger.
    let permit = fleet.admit(1, 1).unwrap();
    let left = fleet.members[1].statuses(&permit)[0].remaining;
    assert!((74..=79).contains(&left), "{left}");
}
