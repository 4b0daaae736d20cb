//! Which second is sold to whom.

use super::*;

#[test]
pub(super) fn seconds_are_sold_in_order_each_up_to_the_share_of_the_capacity() {
    let config = DeferralConfig { share: Share::percent(20), ..config(10) };
    let mut calendar = DeferralCalendar::new(config, ISSUER, TICKET_BYTES_MAX);
    let sold: Vec<_> = core::iter::from_fn(|| calendar.sell(ask(0), 50.0, NOW)).collect();
    assert_eq!(sold_by_second(&sold), (1..=10).map(|second| (second, 10)).collect());
    assert!(sold.is_sorted_by_key(|sold| sold.not_before), "returns are in order of sale");
    for pair in sold.windows(2) {
        let apart = pair[1].not_before.saturating_since(pair[0].not_before);
        assert!(apart <= Duration::from_millis(200), "no gap and no crowd: {apart:?}");
    }
    assert!(sold.iter().all(|sold| sold.expires == sold.not_before.saturating_add(TICKET_VALID)));
    assert_eq!(calendar.sell(ask(0), 50.0, NOW), None);
    let next = calendar.sell(ask(0), 50.0, after(1_000)).unwrap();
    assert_eq!((next.number.slot, next.number.sequence), (START + 11, 0));
}

#[test]
fn ten_thousand_that_are_refused_within_a_second_come_back_at_the_reserved_rate_in_order() {
    let config = DeferralConfig { share: Share::percent(20), ..config(3_600) };
    let mut calendar = DeferralCalendar::new(config, ISSUER, TICKET_BYTES_MAX);
    let sold =
        |number: u64| calendar.sell(ask(number % 300), 1_000.0, after(number / 10)).unwrap().not_before;
    let returns: Vec<_> = (0..10_000).map(sold).collect();
    let inversions = returns.windows(2).filter(|pair| pair[0] > pair[1]).count();
    let mut sorted = returns;
    sorted.sort_unstable();
    let second = Duration::from_secs(1);
    let peak = (0..sorted.len()).map(|first| {
        let end = sorted[first].saturating_add(second);
        sorted.partition_point(|at| *at < end) - first
    });
    let (peak, last) = (peak.max().unwrap(), sorted[9_999].saturating_since(NOW));
    println!("at most {peak} in any second, the last after {last:?}, {inversions} inversions");
    assert!(peak <= 215, "{peak} return in one second, and 200 are reserved");
    assert!(last <= Duration::from_secs(52), "{last:?}");
    assert!(inversions < 100, "{inversions}");
}

#[test]
fn the_first_second_for_sale_is_the_next_whole_one() {
    for millis in [0, 1, 999] {
        assert_eq!(calendar(10).sell(ask(1), 1.0, after(millis)).unwrap().number.slot, START + 1);
    }
    assert_eq!(calendar(10).sell(ask(1), 1.0, after(1_000)).unwrap().number.slot, START + 2);
}

#[test]
fn a_second_has_room_for_one_request_however_small_the_capacity_and_for_a_thousand_however_large() {
    for capacity in [0.0, -1.0, f64::NAN] {
        let mut calendar = calendar(10);
        let sold: Vec<_> = core::iter::from_fn(|| calendar.sell(ask(1), capacity, NOW)).collect();
        assert_eq!(sold_by_second(&sold), (1..=10).map(|second| (second, 1)).collect());
    }
    let mut calendar = calendar(10);
    let sold: Vec<_> = core::iter::from_fn(|| calendar.sell(ask(1), f64::INFINITY, NOW)).collect();
    assert_eq!(sold_by_second(&sold), (1..=10).map(|second| (second, 1_000)).collect());
    assert!((0..SLOT_TICKETS_MAX).eq(sold[..1_000].iter().map(|sold| sold.number.sequence)));
    assert_eq!(calendar.sell(ask(2), f64::INFINITY, NOW), None, "no number is left for another tenant");
}

#[test]
fn a_ticket_of_a_multiple_of_the_typical_cost_takes_as_many_requests_up_to_eight() {
    for (times, requests) in [(1, 1), (2, 2), (4, 4), (8, 8), (1_000, 8)] {
        let mut calendar = calendar(60);
        let typical = TicketAsk { namespace: 1, tenant: 1, cost: 1_000 };
        (0..300).for_each(|_| _ = calendar.sell(typical, 40.0, NOW));
        let now = after(100_000);
        let before = calendar.sell(typical, 40.0, now).unwrap();
        calendar.sell(TicketAsk { cost: 1_000 * times, ..typical }, 40.0, now).unwrap();
        let behind = calendar.sell(typical, 40.0, now).unwrap();
        let part = Duration::from_millis(25);
        let apart = behind.not_before.saturating_since(before.not_before);
        let (least, most) = (part * requests, part * (requests + 2));
        assert!((least..most).contains(&apart), "{times} times the typical cost: {apart:?}");
    }
}

#[test]
fn an_empty_second_takes_a_ticket_that_is_heavier_than_its_room() {
    let mut calendar = calendar(10);
    (0..3).for_each(|_| _ = calendar.sell(ask(1), 1.0, NOW));
    let heavy = calendar.sell(TicketAsk { namespace: 1, tenant: 2, cost: 1_000 }, 1.0, NOW).unwrap();
    assert_eq!((heavy.number.slot, heavy.number.sequence), (START + 4, 0));
    let next = calendar.sell(ask(3), 1.0, NOW).unwrap();
    assert_eq!(next.number.slot, START + 5, "nothing is beside it");
}

#[test]
fn a_lower_capacity_sells_less_of_later_seconds_and_leaves_what_is_sold() {
    let mut calendar = calendar(10);
    let mut sold: Vec<_> = (0..250).map(|_| calendar.sell(ask(1), 100.0, NOW).unwrap()).collect();
    sold.extend(core::iter::from_fn(|| calendar.sell(ask(1), 50.0, NOW)));
    let sold = sold_by_second(&sold);
    assert_eq!([1, 2, 3, 4, 10].map(|second| sold[&second]), [100, 100, 50, 50, 50]);
}

#[test]
fn a_higher_capacity_makes_room_in_seconds_that_were_full() {
    let mut calendar = calendar(10);
    (0..100).for_each(|_| _ = calendar.sell(ask(1), 10.0, NOW));
    assert_eq!(calendar.sell(ask(1), 20.0, after(50)), None);
    calendar.tick(CalendarLoad { capacity: 20.0, spare: 0.0, is_below_hard: false }, after(60));
    assert_eq!(calendar.sell(ask(1), 20.0, after(60)).unwrap().number.slot, START + 1);
}

#[test]
fn a_tenant_that_holds_all_seconds_moves_the_first_tickets_of_others_by_no_second() {
    let mut calendar = calendar(3_600);
    let hoard = (0..100_000).filter(|_| calendar.sell(ask(1), 100.0, NOW).is_some()).count();
    assert_eq!(hoard, 100_000);
    let others: Vec<_> = (100..150).map(|tenant| calendar.sell(ask(tenant), 100.0, NOW).unwrap()).collect();
    let slots = sold_by_second(&others);
    assert!(slots.keys().all(|second| *second <= 2), "{slots:?}");
    assert!(
        others.iter().filter(|sold| sold.number.slot == START + 1).is_sorted_by_key(|sold| sold.not_before)
    );
    let late = calendar.sell(ask(1), 100.0, NOW).unwrap();
    assert_eq!(late.number.slot, START + 1_001, "the tenant itself waits behind its own tickets");
}

#[test]
fn a_first_ticket_heavier_than_a_tenants_part_is_moved_by_no_second_either() {
    let mut calendar = calendar(3_600);
    while calendar.sell(ask(1), 20.0, NOW).is_some() {}
    let heavy = |tenant| TicketAsk { namespace: 1, tenant, cost: 8 };
    let sold: Vec<_> = (2..12).filter_map(|tenant| calendar.sell(heavy(tenant), 20.0, NOW)).collect();
    let slots = sold_by_second(&sold);
    assert_eq!(sold.len(), 10);
    assert!(slots.keys().all(|second| *second <= 10) && slots.values().all(|count| *count <= 5), "{slots:?}");
    assert!(sold.iter().all(|sold| sold.not_before.as_secs() == sold.number.slot));
}

#[test]
fn a_second_is_sold_at_most_twice_when_one_tenant_holds_it_and_all_others_follow() {
    for capacity in [1.0, 7.0, 20.0, 100.0, 400.0] {
        let mut calendar = calendar(10);
        while calendar.sell(ask(1), capacity, NOW).is_some() {}
        let room = capacity as usize;
        let others: Vec<_> =
            (2..50_000).filter_map(|tenant| calendar.sell(ask(tenant), capacity, NOW)).collect();
        let seconds = sold_by_second(&others);
        let part = (room / 20).max(1);
        for second in 1..=10 {
            let more = seconds.get(&second).copied().unwrap_or(0);
            assert!(more <= room - part, "{more} beside the {part} of {room} that stay with the first");
            assert!(more >= (room - part) * 9 / 10, "{more} of {room}");
        }
    }
}

#[test]
fn a_tenant_holds_at_most_a_twentieth_of_a_second_beyond_its_room() {
    let mut calendar = calendar(10);
    while calendar.sell(ask(1), 100.0, NOW).is_some() {}
    let second: Vec<_> = core::iter::from_fn(|| calendar.sell(ask(2), 100.0, NOW)).collect();
    let most = sold_by_second(&second).into_values().max();
    assert_eq!(most, Some(5));
    assert!(second.len() >= 40, "{} of 50: the two seldom share a counter", second.len());
}

#[test]
fn tenants_of_equal_part_oversell_a_second_by_little() {
    for (capacity, tenants, most) in
        [(20.0, 10_000, 1.25), (40.0, 10_000, 1.15), (200.0, 10_000, 1.05), (200.0, 25, 1.15)]
    {
        let mut calendar = calendar(60);
        let mut sold = Vec::new();
        for number in 0.. {
            let Some(booking) = calendar.sell(ask(1 + number % tenants), capacity, NOW) else { break };
            sold.push(booking);
        }
        let seconds = sold_by_second(&sold);
        let mean = sold.len() as f64 / seconds.len() as f64 / capacity;
        let worst = *seconds.values().max().unwrap() as f64 / capacity;
        println!("{capacity}/s, {tenants} tenants: sold {mean:.3} times on average, at most {worst:.3}");
        assert!(mean <= most, "{capacity}/s, {tenants} tenants: {mean}");
    }
}

#[test]
fn a_shorter_horizon_sells_no_further_and_keeps_what_is_sold() {
    let mut calendar = calendar(60);
    let sold: Vec<_> = (0..60).map(|_| calendar.sell(ask(1), 1.0, NOW).unwrap()).collect();
    calendar.reconfigure(config(10));
    assert_eq!(calendar.sell(ask(1), 1.0, NOW), None);
    assert_eq!(calendar.stats(NOW).slots_booked, 60);
    let last = sold[59];
    assert_eq!(state(&calendar, last, last.not_before), TicketState::Due);
    calendar.reconfigure(config(120));
    assert_eq!(calendar.sell(ask(1), 1.0, NOW).unwrap().number.slot, START + 61);
}

#[test]
fn a_calendar_without_memory_for_bits_sells_nothing_and_one_with_little_sells_little() {
    let mut none = DeferralCalendar::new(config(10), ISSUER, 7);
    assert_eq!(none.sell(ask(1), 10.0, NOW), None);
    let mut some = DeferralCalendar::new(config(10), ISSUER, 16);
    let sold: Vec<_> = core::iter::from_fn(|| some.sell(ask(1), 100.0, NOW)).collect();
    assert_eq!(sold_by_second(&sold), BTreeMap::from([(1, 100)]));
}
