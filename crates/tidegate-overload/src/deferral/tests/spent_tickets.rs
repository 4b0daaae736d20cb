//! A ticket is spent once, and remembered until it has expired.

use super::*;

#[test]
fn a_ticket_is_early_then_due_then_expired() {
    let mut calendar = calendar(10);
    let sold = calendar.sell(ask(1), 10.0, NOW).unwrap();
    let nano = Duration::from_nanos(1);
    let just_before = sold.not_before.saturating_sub(nano);
    assert_eq!(state(&calendar, sold, just_before), TicketState::Early { come_back: sold.not_before });
    assert_eq!(state(&calendar, sold, sold.not_before), TicketState::Due);
    assert_eq!(state(&calendar, sold, sold.expires.saturating_sub(nano)), TicketState::Due);
    assert_eq!(state(&calendar, sold, sold.expires), TicketState::Expired);
}

#[test]
pub(super) fn a_ticket_is_spent_once_unless_it_is_given_back() {
    let mut calendar = calendar(10);
    let sold = calendar.sell(ask(1), 10.0, NOW).unwrap();
    let then = sold.not_before;
    assert!(calendar.spend(sold.number, then));
    assert!(!calendar.spend(sold.number, then));
    assert_eq!(state(&calendar, sold, then), TicketState::Spent);
    calendar.give_back(sold.number, then);
    assert_eq!(state(&calendar, sold, then), TicketState::Due);
    assert!(calendar.spend(sold.number, then) && !calendar.spend(sold.number, then));
}

#[test]
fn a_spent_ticket_is_remembered_for_2_s_after_its_expiry() {
    let mut calendar = calendar(10);
    let sold = calendar.sell(ask(1), 1.0, NOW).unwrap();
    calendar.spend(sold.number, sold.not_before);
    let later = sold.expires.saturating_add(Duration::from_secs(2));
    assert!(!calendar.spend(sold.number, later));
    assert_eq!(state(&calendar, sold, later), TicketState::Spent);
    let over = Timestamp::from_secs(sold.number.slot + 9);
    assert!(!calendar.spend(sold.number, over));
    assert_eq!(state(&calendar, sold, over), TicketState::Expired);
    assert_eq!(calendar.stats(over).spent, 0);
}

#[test]
fn a_ticket_that_was_never_sold_is_worth_nothing() {
    let mut calendar = calendar(10);
    let sold = calendar.sell(ask(1), 10.0, NOW).unwrap();
    for number in [
        TicketNumber { sequence: 1, ..sold.number },
        TicketNumber { sequence: u16::MAX, ..sold.number },
        TicketNumber { slot: sold.number.slot + 1, ..sold.number },
        TicketNumber { slot: u64::MAX, ..sold.number },
        TicketNumber { slot: 0, ..sold.number },
    ] {
        assert_eq!(
            calendar.state(number, sold.not_before, sold.expires, sold.not_before),
            TicketState::Expired
        );
        assert!(!calendar.spend(number, sold.not_before));
        calendar.give_back(number, sold.not_before);
    }
}

#[test]
fn tickets_of_an_earlier_start_and_of_other_members_are_spent_once_each() {
    let mut before = calendar(10);
    let sold = before.sell(ask(1), 10.0, NOW).unwrap();
    let then = sold.not_before;
    let mut calendar =
        DeferralCalendar::new(config(10), TicketIssuer { start: 2, ..ISSUER }, TICKET_BYTES_MAX);
    let own = calendar.sell(ask(1), 10.0, NOW).unwrap();
    let member = TicketNumber { issuer: TicketIssuer { member: 2, start: 1 }, ..sold.number };
    for number in [sold.number, member, own.number] {
        assert_eq!(calendar.state(number, then, sold.expires, then), TicketState::Due);
        assert!(calendar.spend(number, then) && !calendar.spend(number, then));
        calendar.give_back(number, then);
        assert!(calendar.spend(number, then) && !calendar.spend(number, then));
        assert_eq!(calendar.state(number, then, sold.expires, then), TicketState::Spent);
    }
    assert_eq!(calendar.stats(then).spent, 3);
    assert!(before.spend(sold.number, then), "each member has its own memory");
}

#[test]
fn foreign_tickets_beyond_the_memory_have_no_room_and_own_ones_have_precedence() {
    let mut calendar = DeferralCalendar::new(config(10), ISSUER, 400);
    let expires = after(60_000);
    let foreign = |member: u64, slot| TicketNumber {
        issuer: TicketIssuer { member, start: 1 },
        slot: START + slot,
        sequence: 0,
    };
    let is_spent: Vec<_> = (2..8).map(|member| calendar.spend(foreign(member, member), NOW)).collect();
    assert_eq!(is_spent, [true, true, true, false, false, false]);
    assert_eq!(calendar.state(foreign(5, 5), NOW, expires, NOW), TicketState::NoRoom);
    assert_eq!(calendar.state(foreign(4, 4), NOW, expires, NOW), TicketState::Spent);
    let early = TicketState::Early { come_back: after(1) };
    assert_eq!(calendar.state(foreign(5, 5), after(1), expires, NOW), early, "this is asked first");
    for _ in 0..1_000 {
        calendar.sell(ask(1), 100.0, NOW).unwrap();
    }
    assert!(calendar.stats(NOW).spent_bytes <= 400);
    assert_eq!(calendar.state(foreign(4, 4), NOW, expires, NOW), TicketState::NoRoom, "forgotten, not good");
    assert!(!calendar.spend(foreign(4, 4), NOW));
    assert_eq!(calendar.state(foreign(2, 2), NOW, expires, NOW), TicketState::Spent, "the nearest stay");
}

#[test]
fn a_spent_ticket_stays_spent_when_the_clock_steps_back_an_hour() {
    let hour = Duration::from_hours(1);
    let mut calendar = calendar(60);
    let sold: Vec<_> = (0..60).map(|_| calendar.sell(ask(1), 1.0, NOW).unwrap()).collect();
    assert!(calendar.spend(sold[9].number, sold[9].not_before));
    let back = sold[9].not_before.saturating_sub(hour);
    assert_eq!(state(&calendar, sold[9], back), TicketState::Spent);
    assert!(!calendar.spend(sold[9].number, back));
    while calendar.sell(ask(1), 1.0, back).is_some() {}
    assert_eq!(state(&calendar, sold[9], back), TicketState::Spent);
    assert_eq!(state(&calendar, sold[10], back), TicketState::Early { come_back: sold[10].not_before });
}

#[test]
fn a_ticket_that_was_forgotten_stays_expired_when_the_clock_steps_back() {
    let hour = Duration::from_hours(1);
    let mut calendar = calendar(60);
    let sold: Vec<_> = (0..30).map(|_| calendar.sell(ask(1), 1.0, NOW).unwrap()).collect();
    let foreign = TicketNumber { issuer: TicketIssuer { member: 2, start: 1 }, ..sold[9].number };
    let then = sold[9].not_before;
    assert!(calendar.spend(sold[9].number, then) && calendar.spend(foreign, then));
    calendar
        .tick(CalendarLoad { capacity: 1.0, spare: 0.0, is_below_hard: false }, then.saturating_add(hour));
    for number in [sold[9].number, sold[20].number, foreign] {
        assert_eq!(calendar.state(number, then, sold[9].expires, then), TicketState::Expired);
        assert!(!calendar.spend(number, then));
    }
    let next = calendar.sell(ask(1), 50.0, then).unwrap();
    assert_eq!(next.number.slot, START + 31, "no number is given twice");
}

#[test]
fn slots_are_bounded_through_steps_of_the_clock_and_dropped_ones_are_expired() {
    let mut calendar = calendar(10);
    let mut all = Vec::new();
    for step in 0..20 {
        let now = NOW.saturating_sub(Duration::from_hours(step));
        let sold: Vec<_> = core::iter::from_fn(|| calendar.sell(ask(1), 5.0, now)).collect();
        for sold in &sold {
            assert!(calendar.spend(sold.number, sold.not_before.saturating_sub(Duration::from_hours(1))));
        }
        all.extend(sold);
        assert!(calendar.stats(now).slots_booked <= 30);
    }
    assert_eq!(all.len(), 1_000);
    for sold in &all {
        let state = state(&calendar, *sold, sold.not_before);
        assert!(matches!(state, TicketState::Spent | TicketState::Expired), "{state:?}");
        assert!(!calendar.clone().spend(sold.number, sold.not_before));
    }
}

#[test]
fn no_instant_breaks_a_calendar() {
    let load = CalendarLoad { capacity: 5.0, spare: f64::INFINITY, is_below_hard: true };
    for now in [Timestamp::MIN, Timestamp::from_secs(1), NOW, Timestamp::MAX] {
        let mut calendar = calendar(10);
        for then in [now, Timestamp::MAX, now, Timestamp::MIN, now] {
            calendar.tick(load, then);
            if let Some(sold) = calendar.sell(ask(1), 5.0, then) {
                state(&calendar, sold, then);
                calendar.spend(sold.number, then);
                calendar.give_back(sold.number, then);
            }
            calendar.stats(then);
        }
    }
}
