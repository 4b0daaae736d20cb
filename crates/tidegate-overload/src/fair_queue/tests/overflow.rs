//! One tenant that sends a hundred times as much as a hundred others.

use super::*;

const MICE: usize = 100;
const HORIZON_US: u64 = 2_000_000;

/// A number of 0 to 1 that depends on all of these.
fn uniform(draw: u64, tenant: usize, number: u64) -> f64 {
    let hash = crate::hash::keyed_hash([draw, (tenant as u64) << 32 | number], None);
    (hash >> 11) as f64 / (1_u64 << 53) as f64
}

/// The arrivals of a tenant, in microseconds: so many a second, at random.
fn arrivals(draw: u64, tenant: usize, rate: u64) -> impl Iterator<Item = u64> {
    (0..rate * HORIZON_US / 1_000_000)
        .map(move |number| (uniform(draw, tenant, number) * HORIZON_US as f64) as u64)
}

/// The latency that 99 % of the requests of each mouse stay under, in a world of ten workers that
/// take 10 ms a request on average, exponentially distributed: 100 mice of 5 requests a second
/// each, and perhaps an elephant of 500 that has 1000 waiting from the start, so that the workers
/// always have more to do than they can.
fn p99_of_mice(draw: u64, flows_max: usize, with_elephant: bool) -> Vec<u64> {
    let mut line = Line::without_delay_control(QueueConfig::default().flows_max(flows_max));
    let name = |tenant: usize| crate::hash::keyed_hash([draw, tenant as u64], None);
    let at = |micros: u64| START.saturating_add(Duration::from_micros(micros));
    let tenants = if with_elephant { 0..=MICE } else { 0..=MICE - 1 };
    let rate = |tenant| if tenant == MICE { 500 } else { 5 };
    let mut all: Vec<_> = tenants
        .flat_map(|tenant| {
            arrivals(draw, tenant, rate(tenant)).enumerate().map(move |one| (one.1, tenant, one.0))
        })
        .collect();
    if with_elephant {
        all.extend((0..1_000).map(|number| (0, MICE, 1_000_000 + number)));
    }
    all.sort_unstable();
    let mut all = all.into_iter().peekable();
    let (mut now, mut workers) = (0_u64, [0_u64; 10]);
    let mut waiting = BTreeMap::new();
    let mut latencies = vec![Vec::new(); MICE + 1];
    loop {
        workers.sort_unstable();
        // The next worker serves the next request, or waits for one.
        now = now.max(workers[0]);
        if line.queue.is_empty() {
            let Some((arrival, ..)) = all.peek() else { break };
            now = now.max(*arrival);
        }
        while let Some((arrived, tenant, number)) = all.next_if(|(arrival, ..)| *arrival <= now) {
            let position = line.push(entrant(Class::Critical, name(tenant)), at(arrived));
            waiting.insert(position, (arrived, tenant, number as u64));
        }
        let (position, _) = line.serve(at(now)).expect("one has arrived");
        let (arrived, tenant, number) = waiting[&position];
        let service = -10_000.0 * (1.0 - uniform(!draw, tenant, number)).ln();
        workers[0] = now + service as u64;
        latencies[tenant].push(workers[0] - arrived);
    }
    let p99 = |mut latencies: Vec<u64>| {
        latencies.sort_unstable();
        latencies[(latencies.len() * 99).div_ceil(100) - 1]
    };
    latencies.into_iter().take(MICE).map(p99).collect()
}

/// The 99th percentile of the service times alone, in microseconds: 10 ms times the logarithm of
/// 100.
const UNLOADED_US: u64 = 46_052;

#[test]
fn an_elephant_at_most_doubles_the_p99_of_every_mouse_over_200_draws_of_names() {
    for draw in 0..200 {
        // A mouse whose few requests took longer by chance is compared with what they took alone.
        let alone = p99_of_mice(draw, 4096, false);
        // With a sub-queue for each, and with shared ones only.
        for flows_max in [4096, 0] {
            let beside = p99_of_mice(draw, flows_max, true);
            for (beside, alone) in beside.iter().zip(&alone) {
                let most = 2 * alone.max(&UNLOADED_US);
                assert!(*beside <= most, "{beside} us beside it, {alone} us alone ({flows_max}, {draw})");
            }
        }
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
