//! One tenant that sends a hundred times as much as a hundred others.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use super::*;

const MICE: usize = 100;
const HORIZON_US: u64 = 100_000_000;
/// The requests of one mouse: 3 a second, so that all mice together need 30 % of the workers.
const REQUESTS_OF_A_MOUSE: u64 = 300;
const WORKERS: usize = 10;
const SERVICE_US: f64 = 10_000.0;

/// A number of 0 to 1 that depends on all of these.
fn uniform(draw: u64, tenant: usize, number: u64) -> f64 {
    let hash = crate::cursor::hash::keyed_hash([draw, (tenant as u64) << 32 | number], None);
    (hash >> 11) as f64 / (1_u64 << 53) as f64
}

/// The load of the elephant beside the mice.
#[derive(Clone, Copy, Debug)]
enum Elephant {
    Absent,
    /// A hundred times a mouse: 300 a second, 60 % of the workers together with the mice.
    HundredMice,
    /// 2000 a second: twice what all workers can do.
    Flood,
}

impl Elephant {
    const fn requests(self) -> u64 {
        match self {
            Self::Absent => 0,
            Self::HundredMice => 100 * REQUESTS_OF_A_MOUSE,
            Self::Flood => 2 * 1_000 * HORIZON_US / 1_000_000,
        }
    }
}

/// The latency in microseconds that 99 % of the requests of each mouse stay under; a request that
/// is shed counts as infinitely late.
///
/// Ten workers take 10 ms for a request on average, exponentially distributed: 1000 a second. The
/// arrivals and the service times of a mouse depend on the draw alone.
fn p99_of_mice(draw: u64, config: QueueConfig, elephant: Elephant) -> Vec<u64> {
    let mut queue = FairQueue::new(config);
    let name = |tenant: usize| crate::cursor::hash::keyed_hash([draw, tenant as u64], None);
    let at = |micros: u64| START.saturating_add(Duration::from_micros(micros));
    let requests = |tenant| if tenant == MICE { elephant.requests() } else { REQUESTS_OF_A_MOUSE };
    let mut all: Vec<_> = (0..=MICE)
        .flat_map(|tenant| (0..requests(tenant)).map(move |number| (tenant, number)))
        .map(|(tenant, number)| ((uniform(draw, tenant, number) * HORIZON_US as f64) as u64, tenant, number))
        .collect();
    all.sort_unstable();
    let (mut arrived, mut now) = (0, 0_u64);
    let mut workers = BinaryHeap::from([Reverse(0_u64); WORKERS]);
    let mut latencies = vec![Vec::new(); MICE];
    while let Some(Reverse(free)) = workers.peek().copied() {
        // The next worker serves the next request, or waits for one.
        now = now.max(free);
        if queue.is_empty() {
            let Some((arrival, ..)) = all.get(arrived) else { break };
            now = now.max(*arrival);
        }
        while let Some((arrival, tenant, _)) = all.get(arrived).filter(|(arrival, ..)| *arrival <= now) {
            let entrant = entrant(Class::Critical, name(*tenant));
            queue.push(Position::new(arrived as u64), &entrant, at(*arrival));
            arrived += 1;
        }
        while let Some(position) = queue.next() {
            let (arrival, tenant, number) = all[position.get() as usize];
            let mut latency = u64::MAX;
            let verdict = queue.turn(position, at(now));
            if verdict == TurnVerdict::Go {
                queue.served(position, at(now));
                let service = -SERVICE_US * (1.0 - uniform(!draw, tenant, number)).ln();
                workers.pop();
                workers.push(Reverse(now + service as u64));
                latency = now + service as u64 - arrival;
            } else {
                queue.cancel(position);
            }
            if tenant < MICE {
                latencies[tenant].push(latency);
            }
            if verdict == TurnVerdict::Go {
                break;
            }
        }
    }
    let p99 = |mut latencies: Vec<u64>| {
        assert_eq!(latencies.len() as u64, REQUESTS_OF_A_MOUSE);
        latencies.sort_unstable();
        latencies[(latencies.len() * 99).div_ceil(100) - 1]
    };
    latencies.into_iter().map(p99).collect()
}

/// Checks for each mouse and draw of names that its 99th percentile beside the elephant is at most
/// twice its own without the elephant, with a sub-queue for each tenant and with shared ones only.
fn check_mice(draws: u64, elephant: Elephant) {
    for flows_max in [4096, 0] {
        let config = QueueConfig::default().flows_max(flows_max);
        let ratios = (0..draws).flat_map(|draw| {
            let alone = p99_of_mice(draw, config, Elephant::Absent);
            let beside = p99_of_mice(draw, config, elephant);
            beside.into_iter().zip(alone).map(|(beside, alone)| beside as f64 / alone as f64)
        });
        let worst = ratios.fold(0.0, f64::max);
        println!("{elephant:?}, {flows_max} own sub-queues, {draws} draws: at most {worst:.3} times");
        assert!(worst <= 2.0, "{worst} times with {elephant:?} and {flows_max} own sub-queues");
    }
}

#[test]
fn an_elephant_of_a_hundred_mice_at_most_doubles_the_p99_of_every_mouse() {
    check_mice(draws().unwrap_or(20), Elephant::HundredMice);
}

#[test]
fn an_elephant_that_floods_the_queue_at_most_doubles_the_p99_of_every_mouse() {
    check_mice(draws().unwrap_or(5), Elephant::Flood);
}

/// The draws of names that `TIDEGATE_DRAWS` asks for; 200 take minutes.
#[expect(clippy::disallowed_methods, reason = "the test, and not the crate, is told how long it runs")]
fn draws() -> Option<u64> {
    std::env::var("TIDEGATE_DRAWS").ok()?.parse().ok()
}

/// The chance that all cards of a hand are among `taken` of the 128.
fn chance_of_no_free_card(taken: u64) -> f64 {
    (0..6).map(|card| (taken - card) as f64 / (128 - card) as f64).product()
}

#[test]
fn a_tenant_without_a_sub_queue_shares_one_with_an_elephant_only_if_its_hand_has_no_free_card() {
    const TENANTS: u64 = 20_000;
    let key = |tenant| TenantKey { namespace: 1, tenant: Some(tenant) };
    let mut line = Line::without_delay_control(QueueConfig::default().flows_max(0));
    let mut taken = Vec::new();
    for elephants in 1..=8 {
        (0..1_000).for_each(|_| _ = line.push(entrant(Class::Critical, u64::MAX - elephants), START));
        taken.extend(flow::hand_of(key(u64::MAX - elephants)));
        taken.sort_unstable();
        taken.dedup();
        let class = &line.queue.classes[Class::Critical as usize];
        assert_eq!(class.ready_flows(), taken.len(), "they fill their hands and no other sub-queue");
        let shares = |tenant: &u64| class.own_backlog(key(*tenant), 0).0 > 0;
        let sharing = (0..TENANTS).filter(shares).count() as f64;
        let expected = TENANTS as f64 * chance_of_no_free_card(taken.len() as u64);
        println!("{elephants} elephants, {} sub-queues: {sharing} of {expected:.1} expected", taken.len());
        assert!(sharing <= 2.0 * expected + 5.0, "{sharing} of {TENANTS} share, {expected} expected");
    }
}

#[test]
fn a_hand_has_six_different_sub_queues_and_two_tenants_rarely_the_same() {
    let hand = |tenant| flow::hand_of(TenantKey { namespace: 1, tenant: Some(tenant) });
    let mut uses = [0_u32; 128];
    for tenant in 0..12_800 {
        let mut cards = hand(tenant).to_vec();
        cards.sort_unstable();
        cards.dedup();
        assert_eq!(cards.len(), 6);
        for card in cards {
            uses[usize::from(card)] += 1;
        }
    }
    assert!(uses.iter().all(|uses| (480..=720).contains(uses)), "600 each: {uses:?}");
    let others = (1..10_000).filter(|tenant| hand(*tenant).iter().all(|card| hand(0).contains(card)));
    assert_eq!(others.count(), 0);
}

#[test]
fn tenants_beyond_the_bound_take_no_memory_of_their_own_and_idle_ones_are_forgotten() {
    let mut line = Line::without_delay_control(QueueConfig::default().flows_max(10));
    for tenant in 0..50_000 {
        line.push(entrant(Class::Critical, tenant), START);
    }
    let class = &line.queue.classes[Class::Critical as usize];
    assert_eq!(class.exact_flows(), 10);
    assert_eq!(class.ready_flows(), 10 + 128);
    while line.serve(START).is_some() {}
    assert_eq!(line.queue.classes[Class::Critical as usize].exact_flows(), 0);
    // One tenant after the other, while another one waits all the time.
    line.push(entrant(Class::Critical, 1), START);
    for tenant in 2..1_000 {
        line.push(entrant(Class::Critical, tenant), START);
        line.serve(START);
    }
    assert!(line.queue.classes[Class::Critical as usize].exact_flows() <= 10);
}
