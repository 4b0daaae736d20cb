//! Callers: each key has one client with a habit of its own, and most of them keep to their limit.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::fleet::arrival::Arrival;
use crate::fleet::scenario::Scenario;
use crate::kit::{Chance, MS, SECOND};

/// How one caller asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Habit {
    /// Evenly, for four fifths of the limit; each gap is up to a tenth shorter or longer than the
    /// mean.
    Steady,
    /// All of the burst within [`BURST_LASTS`], then nothing until it has refilled with a quarter
    /// of that time to spare.
    Bursts,
    /// At random, for three times the limit.
    Over,
}

/// How the caller of a key asks.
const fn habit_of(key: u32) -> Habit {
    match key % 10 {
        3 | 6 => Habit::Bursts,
        9 => Habit::Over,
        _ => Habit::Steady,
    }
}

/// Whether the caller of a key asks steadily.
pub(crate) fn is_steady(key: u32) -> bool {
    habit_of(key) == Habit::Steady
}

/// A burst comes within this time.
const BURST_LASTS: u64 = 20 * MS;

#[derive(Debug)]
struct SimulatedCaller {
    habit: Habit,
    /// The member it stays with; `None` for a caller that draws one for each request.
    member: Option<u32>,
    /// Requests left of the burst under way.
    left: u32,
}

/// All callers of a scenario.
#[derive(Debug)]
pub(super) struct Callers {
    chance: Chance,
    all: Vec<SimulatedCaller>,
    /// When each caller asks next, the earliest first.
    next: BinaryHeap<Reverse<(u64, u32)>>,
    members: u64,
    burst: u32,
    /// Nanoseconds in which the limit gives one unit.
    unit_ns: u64,
}

impl Callers {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let mut chance = Chance::new(scenario.seed, 8);
        let unit_ns = (1e9 / scenario.limit.rate()) as u64;
        let (members, burst) = (scenario.members.into(), scenario.limit.burst());
        let end = u64::from(scenario.seconds) * SECOND;
        let mut next = BinaryHeap::new();
        let all = (0..scenario.keys).map(|key| {
            let habit = habit_of(key);
            let member = (key % 2 == 0).then(|| chance.below(members) as u32);
            // Every fourth caller begins later, whatever the state of the store is then.
            let begins = if key % 4 == 1 { chance.below(end / 2) } else { 0 };
            let phase = chance.below((unit_ns * 5 / 4).min(end / 3));
            next.push(Reverse((begins + phase, key)));
            SimulatedCaller { habit, member, left: burst }
        });
        let all = all.collect();
        Self { chance, all, next, members, burst, unit_ns }
    }

    /// The next request. There is always one.
    pub(super) fn next(&mut self) -> Arrival {
        let Reverse((at, key)) = self.next.pop().expect("each caller always has a next request");
        let gap = self.gap(key);
        self.next.push(Reverse((at + gap, key)));
        Arrival { at, member: self.member(key), key, cost: 1, attempt: 0 }
    }

    /// The member that a caller asks now.
    pub(super) fn member(&mut self, key: u32) -> u32 {
        let stays = self.all[key as usize].member;
        stays.unwrap_or_else(|| self.chance.below(self.members) as u32)
    }

    fn gap(&mut self, key: u32) -> u64 {
        let caller = &mut self.all[key as usize];
        let gap = match caller.habit {
            Habit::Steady => {
                let mean = self.unit_ns * 5 / 4;
                self.chance.between(mean - mean / 10, mean + mean / 10)
            }
            Habit::Bursts => {
                caller.left -= 1;
                if caller.left == 0 {
                    caller.left = self.burst;
                    self.unit_ns * u64::from(self.burst) * 5 / 4
                } else {
                    BURST_LASTS / u64::from(self.burst)
                }
            }
            Habit::Over => self.chance.gap(self.unit_ns as f64 / 3.0),
        };
        gap.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::scenario::{Load, Numbers};

    #[test]
    fn callers_ask_as_their_habit_and_half_of_them_stay_with_a_member() {
        let limit = Numbers::per_second(10, 10);
        let scenario = Scenario { load: Load::Callers, keys: 20, limit, ..Scenario::new(1) };
        let mut callers = Callers::new(&scenario);
        let mut asked: Vec<Vec<Arrival>> = vec![Vec::new(); 20];
        loop {
            let one = callers.next();
            if one.at > 60 * SECOND {
                break;
            }
            asked[one.key as usize].push(one);
        }
        // Eight a second for a minute.
        assert!((470..=490).contains(&asked[0].len()), "{}", asked[0].len());
        assert!((1700..1900).contains(&asked[19].len()), "{}", asked[19].len());
        assert!(asked[6][..10].iter().all(|one| one.at < asked[6][0].at + BURST_LASTS));
        assert!(asked[6][10].at > asked[6][9].at + SECOND);
        for (key, asked) in asked.iter().enumerate() {
            let stays = asked.iter().all(|one| one.member == asked[0].member);
            assert_eq!(stays, key % 2 == 0, "{key}");
        }
    }
}
