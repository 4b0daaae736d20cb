//! Tenants stand below namespaces: a tenant is a name that a request brings.

use super::*;

const fn ask_of(namespace: u32, tenant: u64) -> TicketAsk {
    TicketAsk { namespace, tenant: tenant << 8 | namespace as u64, cost: 1 }
}

/// A calendar in which a namespace has asked for so many tickets, each for a new tenant.
fn flooded(asks: u64, capacity: f64) -> DeferralCalendar {
    let mut calendar = calendar(3_600);
    (0..asks).for_each(|tenant| _ = calendar.sell(ask_of(1, tenant), capacity, NOW));
    calendar
}

/// How many of these tickets are for the first so many seconds, for each of them on average.
fn mean_of_first(sold: &[Booking], seconds: u64) -> f64 {
    let first = sold.iter().filter(|sold| sold.number.slot <= START + seconds).count();
    first as f64 / seconds as f64
}

#[test]
fn a_namespace_that_invents_tenants_moves_the_first_tickets_of_another_by_no_second() {
    let mut calendar = flooded(150_000, 24.0);
    assert_eq!(calendar.sell(ask_of(1, 1 << 20), 24.0, NOW), None, "the hour is full");
    let sold: Vec<_> =
        (0..1_200).map(|tenant| calendar.sell(ask_of(2, tenant), 24.0, NOW).unwrap()).collect();
    assert!(sold[..12].iter().all(|sold| sold.number.slot <= START + 2), "{:?}", sold_by_second(&sold[..12]));
    let seconds = sold_by_second(&sold);
    assert!(seconds.values().all(|count| *count <= 14), "the part is 12: {seconds:?}");
    let mean = mean_of_first(&sold, 90);
    println!("{mean} of 12 in each second");
    assert!((10.3..12.5).contains(&mean), "{mean} of 12: the two seldom share a counter");
    let earlier = sold.windows(2).filter(|pair| pair[0].number.slot > pair[1].number.slot).count();
    assert!(earlier <= 60, "{earlier}");
}

#[test]
fn a_namespace_with_one_tenant_has_its_whole_part() {
    let mut calendar = flooded(360_000, 100.0);
    let sold: Vec<_> = (0..4_500).map(|_| calendar.sell(ask_of(2, 1), 100.0, NOW).unwrap()).collect();
    let (seconds, mean) = (sold_by_second(&sold), mean_of_first(&sold, 90));
    assert!(seconds.values().all(|count| *count <= 53), "{seconds:?}");
    assert!((43.0..=51.0).contains(&mean), "{mean}");
}

#[test]
fn a_tenant_that_holds_the_part_of_its_namespace_moves_others_of_that_namespace_by_few_seconds() {
    let mut calendar = flooded(360_000, 100.0);
    let hoard = (0..40_000).filter(|_| calendar.sell(ask_of(2, 1), 100.0, NOW).is_some()).count();
    assert_eq!(hoard, 40_000);
    let others: Vec<_> =
        (2..42).map(|tenant| calendar.sell(ask_of(2, tenant), 100.0, NOW).unwrap()).collect();
    let slots = sold_by_second(&others);
    assert!(slots.keys().all(|second| *second <= 10), "{slots:?}");
    let late = calendar.sell(ask_of(2, 1), 100.0, NOW).unwrap();
    assert!(late.number.slot > START + 700, "the tenant itself waits behind its own tickets: {late:?}");
}

#[test]
fn three_namespaces_that_ask_in_turn_share_each_second_and_a_flood_takes_no_more() {
    let mut calendar = calendar(60);
    let mut sold = BTreeMap::<u32, Vec<Booking>>::new();
    // One of them asks ten times as often, each time for a new tenant.
    for round in 0..20_000_u64 {
        let namespace = match round % 12 {
            0 => 2,
            1 => 3,
            _ => 1,
        };
        let booking = calendar.sell(ask_of(namespace, round), 90.0, NOW);
        sold.entry(namespace).or_default().extend(booking);
    }
    for namespace in [2, 3] {
        let mean = mean_of_first(&sold[&namespace], 45);
        assert!(mean >= 26.0, "{namespace} has {mean} of the 30 of each second");
    }
    let all: Vec<_> = sold.values().flatten().copied().collect();
    let most = sold_by_second(&all).into_values().max();
    assert!(most <= Some(180), "{most:?} in a second of 90");
}

#[test]
fn namespaces_that_come_one_after_the_other_get_earlier_seconds_as_long_as_a_second_is_sold_once() {
    let mut calendar = flooded(3_000, 90.0);
    let mut rounds = Vec::new();
    for round in 0..300_u64 {
        rounds.extend([2, 3].map(|namespace| calendar.sell(ask_of(namespace, round), 90.0, NOW).unwrap()));
        rounds.extend(calendar.sell(ask_of(1, 1_000_000 + round), 90.0, NOW));
    }
    let early = rounds.iter().filter(|sold| sold.number.slot <= START + 15).count();
    assert!(early >= 570, "{early} of the 600 of two namespaces");
    let flood = rounds.iter().skip(2).step_by(3);
    assert!(flood.clone().all(|sold| sold.number.slot >= START + 30), "the flood waits behind itself");
}

#[test]
fn one_namespace_alone_has_the_whole_room_and_the_rules_of_tenants_alone() {
    for flood in [20_000, 200] {
        let mut calendars = [calendar(10), calendar(10)];
        let first = ask_of(9, 0);
        // The second calendar knows another namespace, which asked long ago and holds no ticket.
        calendars[1].sell(first, 100.0, NOW.saturating_sub(Duration::from_mins(1)));
        for number in 0..flood {
            let ask = ask_of(1, if number % 3 == 0 { 7 } else { number / 5 });
            let sold = calendars.each_mut().map(|calendar| calendar.sell(ask, 100.0, NOW));
            assert_eq!(sold[0].map(|sold| sold.not_before), sold[1].map(|sold| sold.not_before));
        }
    }
}

#[test]
fn a_namespace_that_stops_asking_is_forgotten_after_ten_seconds() {
    let part_after = |secs: u64| {
        let mut calendar = flooded(36_000, 60.0);
        // The third namespace asks once, for a second that is over soon.
        calendar.sell(ask_of(3, 1), 60.0, NOW);
        let now = after(secs * 1_000);
        calendar.sell(ask_of(1, 1 << 20), 60.0, now);
        let sold: Vec<_> =
            (0..900).map(|tenant| calendar.sell(ask_of(2, tenant), 60.0, now).unwrap()).collect();
        let seconds = sold_by_second(&sold);
        // The median: namespaces share a counter now and then.
        let mut counts: Vec<_> = seconds.into_values().collect();
        counts.sort_unstable();
        counts[counts.len() / 2]
    };
    assert_eq!([0, 10, 11, 60].map(part_after), [20, 20, 30, 30]);
}

#[test]
fn a_namespace_that_stops_asking_gives_way_with_the_tickets_that_it_holds() {
    let mut calendar = flooded(100_000, 25.0);
    let now = after(60_000);
    let sold: Vec<_> = (0..120).map(|tenant| calendar.sell(ask_of(2, tenant), 25.0, now).unwrap()).collect();
    assert!(sold.iter().all(|sold| sold.number.slot <= START + 75), "{:?}", sold_by_second(&sold));
    let third: Vec<_> = (0..60).map(|tenant| calendar.sell(ask_of(3, tenant), 25.0, now).unwrap()).collect();
    assert!(third.iter().all(|sold| sold.number.slot <= START + 75), "{:?}", sold_by_second(&third));
}

#[test]
fn a_second_is_sold_at_most_twice_however_many_namespaces_come() {
    for capacity in [1.0, 7.0, 20.0, 100.0] {
        let mut calendar = calendar(10);
        let mut sold = Vec::new();
        for namespace in 0..100 {
            // Each comes with one tenant and with new ones.
            let tenants = (0..2_000).map(|ask| if ask < 1_000 { 0 } else { ask });
            sold.extend(tenants.filter_map(|tenant| calendar.sell(ask_of(namespace, tenant), capacity, NOW)));
        }
        let seconds = sold_by_second(&sold);
        assert!(seconds.values().all(|count| *count <= 2 * capacity as usize), "{capacity}: {seconds:?}");
    }
}

#[test]
fn a_first_ticket_heavier_than_the_part_of_its_namespace_is_moved_by_no_second() {
    let mut calendar = flooded(100_000, 12.0);
    let heavy = |tenant| TicketAsk { cost: 8, ..ask_of(2, tenant) };
    let sold: Vec<_> = (0..10).filter_map(|tenant| calendar.sell(heavy(tenant), 12.0, NOW)).collect();
    let slots = sold_by_second(&sold);
    assert!(sold.len() == 10 && slots.keys().all(|second| *second <= 12), "{slots:?}");
}

#[test]
fn a_room_of_one_request_that_one_namespace_holds_has_one_more_for_another() {
    let mut calendar = flooded(10_000, 1.0);
    let sold: Vec<_> = (0..20).map(|tenant| calendar.sell(ask_of(2, tenant), 1.0, NOW).unwrap()).collect();
    assert!(sold.iter().all(|sold| sold.number.slot <= START + 30), "{:?}", sold_by_second(&sold));
    assert!(sold_by_second(&sold).values().all(|count| *count == 1));
}
