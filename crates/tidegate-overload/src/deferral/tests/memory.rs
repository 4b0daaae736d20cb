//! The memory of a calendar.

use super::*;

/// A calendar of an hour that is full, with every ticket spent.
fn full_hour() -> DeferralCalendar {
    let mut calendar = calendar(3_600);
    let sold: Vec<_> = core::iter::from_fn(|| calendar.sell(ask(1), 1e6, NOW)).collect();
    assert_eq!(sold.len(), 3_600 * 1_000);
    assert!(sold.iter().all(|sold| calendar.spend(sold.number, NOW)));
    calendar
}

#[test]
fn a_full_hour_takes_450_kib_of_bits_and_1_mib_beside_them() {
    let mut calendar = full_hour();
    calendar.tick(CalendarLoad { capacity: 1e6, spare: 1.0, is_below_hard: true }, NOW);
    let stats = calendar.stats(NOW);
    println!("{stats:?}");
    assert_eq!(stats.spent_bytes, 450 << 10);
    assert_eq!(stats.spent_bytes, TICKET_BYTES_MAX);
    assert!(stats.bytes - stats.spent_bytes <= 1 << 20, "{}", stats.bytes);
}

#[test]
fn a_calendar_without_tickets_takes_nothing_and_one_that_is_over_gives_its_slots_back() {
    let mut calendar = calendar(3_600);
    assert_eq!(calendar.stats(NOW), super::super::calendar_stats::CalendarStats::default());
    (0..10_000).for_each(|_| _ = calendar.sell(ask(1), 10.0, NOW));
    let over = after(4_000_000);
    calendar.tick(CalendarLoad { capacity: 10.0, spare: 0.0, is_below_hard: false }, over);
    assert!(
        calendar.stats(over).bytes <= 50 << 10,
        "the index and the hints: {}",
        calendar.stats(over).bytes
    );
}
