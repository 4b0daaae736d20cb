//! The second published defect: the daily queue per account that compares only its head's date.

use super::*;

/// The design as published: the last `limit` days of an account's requests, oldest first. When it
/// is full, a head of today refuses, and a head of another day is taken to mean that all of them
/// are.
struct DailyQueue {
    limit: usize,
    days: Vec<u64>,
}

impl DailyQueue {
    fn admit(&mut self, today: u64) -> bool {
        if self.days.len() == self.limit {
            if self.days[0] == today {
                return false;
            }
            self.days.clear();
        }
        self.days.push(today);
        true
    }
}

#[test]
fn a_day_that_began_with_a_queue_filled_yesterday_admits_its_limit_and_not_twice_as_much() {
    let limit = 10;
    let day = 86_400_000_000_000_u64;
    // One request on the first day, then as many as anyone cares to make on the second.
    let requests = [20_000 * day].into_iter().chain((1..=50).map(|hour| 20_001 * day + hour));

    let mut queue = DailyQueue { limit, days: Vec::new() };
    let calendar = Calendar::new(limit as u64, CivilUnit::Day, "UTC").unwrap();
    let mut state = State::EMPTY;
    let (mut by_queue, mut by_calendar) = ([0, 0], [0, 0]);
    for request in requests {
        let today = request / day;
        by_queue[(today - 20_000) as usize] += usize::from(queue.admit(today));
        let (verdict, next) = calendar.decide(state, Cost::ONE, at(request));
        state = next;
        by_calendar[(today - 20_000) as usize] += usize::from(verdict == Verdict::Admit);
    }
    assert_eq!(by_queue, [1, 2 * limit - 1], "the model no longer shows the defect");
    assert_eq!(by_calendar, [1, limit]);
}
