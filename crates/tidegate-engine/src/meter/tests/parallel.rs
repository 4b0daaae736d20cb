//! Threads that count at once, and one that reads meanwhile.

use core::time::Duration;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tidegate_core::{Class, RequestOutcome};
use tidegate_test_support::SplitMix64;

use super::super::{DecidedRequest, FeatureRow, MeteredRows, Offer, OwnCombination, Usage};
use super::{START, meter, of_namespace, of_tenant, total, total_of_tenants};

const THREADS: u64 = 4;
const OPERATIONS: u64 = 20_000;
const NAMESPACES: usize = 4;

#[test]
fn sums_are_exact_at_rest_in_every_dimension_and_never_fall_meanwhile() {
    let meter = meter(100);
    let rows: Vec<_> = (0..NAMESPACES).map(|number| meter.namespace(&format!("n{number}"), START)).collect();
    let features = [FeatureRow::NONE, FeatureRow::OTHER, meter.feature("search", START)];
    let resources = [meter.resource(None, START), meter.resource(Some("db"), START)];
    // Counted before a request is offered, and after it was.
    let (begun, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let (units, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    // Requests that one thread offers and another decides.
    let handed = Mutex::new(Vec::new());
    let work = |seed| {
        let mut random = SplitMix64::new(seed);
        let mut below = |end: usize| (random.next_u64() % end as u64) as usize;
        for operation in 0..OPERATIONS {
            let name = format!("tenant-{}", below(300));
            let now = START.saturating_add(Duration::from_millis(operation * 10));
            let tenant = (below(5) > 0).then_some(name.as_str());
            let (feature, resource) = (features[below(3)], resources[below(2)]);
            let class = Class::ALL[below(4)];
            let subject =
                MeteredRows { tenant, class, feature, resource, ..of_namespace(rows[below(NAMESPACES)]) };
            begun.fetch_add(1, Ordering::SeqCst);
            if below(3) == 0 {
                let open = meter.offered(&subject, Offer::default(), now);
                handed.lock().unwrap().push(open);
            } else {
                let outcome = RequestOutcome::ALL[below(3)];
                let account = meter.decide(&subject, Offer::default(), outcome, 3, now).into();
                if outcome == RequestOutcome::Admitted {
                    units.fetch_add(3, Ordering::SeqCst);
                    meter.settle_units(&account, Some(2), 3);
                }
            }
            done.fetch_add(1, Ordering::SeqCst);
            let open = if below(3) == 0 { handed.lock().unwrap().pop() } else { None };
            match (open, below(2)) {
                (Some(mut open), 0) => {
                    units.fetch_add(5, Ordering::SeqCst);
                    let account = open.decide(RequestOutcome::Admitted, 5, Duration::from_nanos(1)).unwrap();
                    meter.settle_units(&account.into(), None, 5);
                }
                (open, _) => drop(open),
            }
        }
    };
    let read = || {
        let mut before = 0;
        while !is_over.load(Ordering::SeqCst) {
            let least = done.load(Ordering::SeqCst);
            let usage = meter.usage();
            let most = begun.load(Ordering::SeqCst);
            let sum = Usage::sum(usage.iter().flat_map(|row| &row.classes));
            // Of a request that is decided while it is read, the outcome may be seen and the end of
            // its being under way not, or the other way round.
            let in_flight = 2 * THREADS;
            let offered = sum.offered();
            assert!(sum.under_way <= most, "{} are under way", sum.under_way.cast_signed());
            assert!(offered + in_flight >= least, "{offered} of at least {least} are offered");
            assert!(offered <= most + in_flight, "{offered} of at most {most} are offered");
            let ended: u64 = sum.outcomes.iter().sum();
            assert!(ended >= before, "outcomes fell from {before} to {ended}");
            before = ended;
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(read);
        let workers: Vec<_> = (0..THREADS).map(|seed| scope.spawn(move || work(seed))).collect();
        let results: Vec<_> = workers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        is_over.store(true, Ordering::SeqCst);
        assert!(results.iter().all(Result::is_ok));
    });
    let waiting = handed.lock().unwrap().len() as u64;
    let usage = meter.usage();
    let sum = Usage::sum(usage.iter().flat_map(|row| &row.classes));
    assert_eq!((sum.offered(), sum.under_way), (THREADS * OPERATIONS, waiting));
    assert_eq!(sum.units, units.load(Ordering::SeqCst));
    for number in 0..NAMESPACES {
        let name = format!("n{number}");
        assert_eq!(total_of_tenants(&meter, &name), total(&meter.namespace_usage(&name).unwrap()));
    }
    let of_features = meter.features_usage();
    assert_eq!(Usage::sum(of_features.iter().flat_map(|row| &row.classes)), sum);
    let of_resources = meter.resources_usage();
    assert_eq!(Usage::sum(of_resources.iter().flat_map(|row| &row.classes)), sum);
}

/// One thread counts in its combination of rows as fast as it can; another adds later facts about
/// its requests, and takes what was counted. A sum that both wrote without a locked instruction
/// would lose some of it.
#[test]
fn facts_that_another_thread_adds_to_a_combination_are_exact_and_take_nothing_from_its_own() {
    const FACTS: u64 = 64;
    const ROUNDS_MAX: u64 = 50_000;
    // Those in which the other thread counts as well: a scheduler may run the threads in turn.
    const ROUNDS_AT_ONCE: u64 = 2_000;
    let admitted = RequestOutcome::Admitted;
    let meter = meter(10);
    let subject = of_tenant(meter.namespace("api", START), "ada");
    let combination = meter.with_rows(&subject, START, |_, rows| Arc::clone(rows.shared()));
    let usage = || total(&meter.namespace_usage("api").unwrap());
    let (counted, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let add_facts = || {
        let (mut rounds, mut at_once, mut offered_before) = (0, 0, 0);
        while rounds < ROUNDS_MAX && at_once < ROUNDS_AT_ONCE {
            let before = counted.load(Ordering::Relaxed);
            for _ in 0..FACTS {
                combination.count(admitted.index(), 1);
                combination.add_units(admitted, 2);
            }
            at_once += u64::from(counted.load(Ordering::Relaxed) != before);
            let offered = usage().offered();
            assert!(offered >= offered_before, "offered fell from {offered_before} to {offered}");
            offered_before = offered;
            rounds += 1;
        }
        is_over.store(true, Ordering::Relaxed);
        FACTS * rounds
    };
    let facts = std::thread::scope(|scope| {
        let other = scope.spawn(add_facts);
        let decided = DecidedRequest { outcome: admitted, units: 3, is_repeated: false };
        while !is_over.load(Ordering::Relaxed) && !other.is_finished() {
            meter.with_rows(&subject, START, |_, rows| rows.count_decided(decided));
            counted.fetch_add(1, Ordering::Relaxed);
        }
        other.join().unwrap()
    });
    let counted = counted.into_inner();
    assert_eq!(usage().outcome(admitted), counted + facts);
    assert_eq!(usage().units, 3 * counted + 2 * facts);
}

/// Two traits of a type that is `Send`, one of any other: the constant of the first is ambiguous.
trait FitsAll<T> {
    const IS_SEND: bool = false;
}

impl<T: ?Sized> FitsAll<()> for T {}

struct FitsSend;

impl<T: ?Sized + Send> FitsAll<FitsSend> for T {}

/// Compiles as long as a combination cannot leave the thread that alone counts in its own sums.
const _: () = assert!(!<OwnCombination as FitsAll<_>>::IS_SEND);
