//! While the load eases, tickets become due early, in order of slots.

use super::*;

const fn load(spare: f64) -> CalendarLoad {
    CalendarLoad { capacity: 10.0, spare, is_below_hard: true }
}

/// A calendar with 10 tickets in each of 10 seconds, and one ticket of each second.
fn full() -> (DeferralCalendar, Vec<Booking>) {
    let mut calendar = calendar(10);
    let sold: Vec<_> = core::iter::from_fn(|| calendar.sell(ask(1), 10.0, NOW)).collect();
    (calendar, sold.into_iter().step_by(10).collect())
}

/// How many of the seconds are due at an instant. They are the first ones, always.
fn due(calendar: &DeferralCalendar, sold: &[Booking], now: Timestamp) -> usize {
    let is_due = |sold: &&Booking| state(calendar, **sold, now) == TicketState::Due;
    let count = sold.iter().take_while(is_due).count();
    assert!(!sold[count..].iter().any(|sold| is_due(&sold)), "a later slot is due before an earlier one");
    count
}

#[test]
fn the_front_moves_over_as_many_slots_as_spare_capacity_pays_for() {
    let (mut calendar, sold) = full();
    calendar.tick(load(20.0), after(0));
    assert_eq!(due(&calendar, &sold, after(0)), 0);
    calendar.tick(load(20.0), after(400));
    assert_eq!(due(&calendar, &sold, after(400)), 0, "8 of the 10 requests of the first slot are paid");
    calendar.tick(load(20.0), after(500));
    assert_eq!(due(&calendar, &sold, after(500)), 1);
    calendar.tick(load(100.0), after(700));
    assert_eq!(due(&calendar, &sold, after(700)), 3);
    assert_eq!(calendar.stats(after(700)).pulled_to, Some(START + 3));
}

#[test]
fn spent_tickets_cost_the_front_nothing() {
    let (mut calendar, sold) = full();
    for sequence in 0..10 {
        calendar.spend(TicketNumber { sequence, ..sold[0].number }, NOW);
        calendar.spend(TicketNumber { sequence: sequence / 2, ..sold[1].number }, NOW);
    }
    calendar.tick(load(10.0), after(0));
    assert_eq!(calendar.stats(NOW).pulled_to, Some(START + 1));
    calendar.tick(load(10.0), after(500));
    assert_eq!(calendar.stats(NOW).pulled_to, Some(START + 2));
}

#[test]
fn a_slot_heavier_than_a_second_of_spare_capacity_is_passed_after_as_many_seconds() {
    let mut calendar = calendar(60);
    let sold: Vec<_> = (0..10)
        .map(|_| calendar.sell(TicketAsk { namespace: 1, tenant: 1, cost: 100 }, 1.0, NOW).unwrap())
        .collect();
    let far = *sold.last().unwrap();
    let mut calendar_of_far = calendar.clone();
    assert!(sold[..9].iter().all(|sold| calendar_of_far.spend(sold.number, NOW)));
    calendar_of_far.tick(CalendarLoad { spare: 0.5, ..load(0.0) }, NOW);
    assert!(matches!(state(&calendar_of_far, far, NOW), TicketState::Early { .. }));
    let due_at = (1..100).find(|tenth| {
        calendar_of_far.tick(load(0.5), after(100 * tenth));
        state(&calendar_of_far, far, after(100 * tenth)) == TicketState::Due
    });
    assert!(due_at.is_some_and(|tenth| after(100 * tenth) < far.not_before), "{due_at:?}");
}

#[test]
fn an_early_ticket_beyond_the_front_is_told_when_the_front_will_have_passed_its_slot() {
    let (mut calendar, sold) = full();
    calendar.tick(load(100.0), after(0));
    for (index, booking) in sold.iter().enumerate() {
        let come_back = after(100 * (index as u64 + 1));
        assert_eq!(state(&calendar, *booking, NOW), TicketState::Early { come_back });
    }
    calendar.tick(load(0.1), after(0));
    let come_back = sold[3].not_before;
    assert_eq!(state(&calendar, sold[3], NOW), TicketState::Early { come_back }, "never later than its time");
}

#[test]
fn the_front_falls_back_to_now_from_hard_on() {
    let (mut calendar, sold) = full();
    calendar.tick(load(100.0), after(0));
    calendar.tick(load(100.0), after(500));
    assert_eq!(due(&calendar, &sold, after(500)), 5);
    calendar.tick(CalendarLoad { is_below_hard: false, ..load(100.0) }, after(600));
    assert_eq!(due(&calendar, &sold, after(600)), 0);
    assert_eq!(state(&calendar, sold[1], after(600)), TicketState::Early { come_back: sold[1].not_before });
    calendar.tick(load(100.0), after(700));
    assert_eq!(due(&calendar, &sold, after(700)), 1, "what was gained before is gone");
}

#[test]
fn at_most_a_second_is_gained_in_one_tick_and_kept_behind_the_last_slot() {
    let (mut calendar, sold) = full();
    calendar.tick(load(20.0), after(0));
    calendar.tick(load(20.0), after(900_000).min(after(900)));
    let (mut late, _) = full();
    late.tick(load(20.0), after(0));
    late.tick(load(20.0), Timestamp::from_secs(START).saturating_add(Duration::from_millis(999)));
    assert_eq!(due(&late, &sold, after(999)), due(&calendar, &sold, after(900)));
    let mut idle = super::calendar(60);
    (0..300).for_each(|tenth| idle.tick(load(20.0), after(100 * tenth)));
    let now = after(30_000);
    let sold: Vec<_> = (0..60).map(|_| idle.sell(ask(1), 10.0, now).unwrap()).collect();
    let firsts: Vec<_> = sold.into_iter().step_by(10).collect();
    assert_eq!(due(&idle, &firsts, now), 0, "nobody has paid for what is sold behind the front");
    idle.tick(load(20.0), now);
    assert_eq!(due(&idle, &firsts, now), 2, "a second of 20 requests was kept");
}

#[test]
fn empty_seconds_cost_the_front_nothing_also_for_foreign_tickets() {
    let mut idle = calendar(60);
    let number = TicketNumber { issuer: TicketIssuer { member: 2, start: 1 }, slot: START + 40, sequence: 0 };
    let (not_before, expires) = (after(40_000), after(45_000));
    assert!(matches!(idle.state(number, not_before, expires, NOW), TicketState::Early { .. }));
    idle.tick(load(1.0), NOW);
    assert_eq!(idle.state(number, not_before, expires, NOW), TicketState::Due);
}

#[test]
fn a_front_pulled_ahead_does_not_stay_there_when_the_clock_steps_back() {
    let (mut calendar, sold) = full();
    (0..10).for_each(|tenth| calendar.tick(load(1_000.0), after(100 * tenth)));
    assert_eq!(due(&calendar, &sold, after(900)), 10);
    let back = NOW.saturating_sub(Duration::from_hours(1));
    calendar.tick(CalendarLoad { spare: 0.0, ..load(0.0) }, back);
    assert!(calendar.stats(back).pulled_to <= Some(START));
}
