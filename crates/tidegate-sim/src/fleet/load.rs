//! Arrivals, made as they come: no list of them all, and no event for each.

mod callers;

use self::callers::Callers;
pub(crate) use self::callers::is_steady;
use crate::fleet::arrival::Arrival;
use crate::fleet::scenario::{Load, Scenario};
use crate::kit::{Chance, SECOND, Zipf};

/// How the keys are drawn where some are asked for more than others.
const EXPONENT: f64 = 0.99;

/// How long a burst lasts.
const SLOT: u64 = SECOND / 2;

/// For how long one member is asked for most.
const STAY: u64 = 10 * SECOND;

/// For how long the last member is asked that is idle then.
const IDLE_FROM: u64 = 10 * SECOND;

/// How much more the members of one half are asked for than those of the other.
const UNEVEN: u64 = 10;

/// The arrivals of a scenario in order.
#[derive(Debug)]
pub(crate) struct Arrivals {
    chance: Chance,
    load: Load,
    /// Members, or Envoys.
    members: u64,
    /// When the halves change places.
    moves_at: u64,
    keys: u64,
    cost_max: u64,
    /// Nanoseconds between two arrivals, on average.
    mean: f64,
    zipf: Option<Zipf>,
    callers: Option<Callers>,
    at: u64,
    /// The next arrival; always present once the load is constructed.
    next: Option<Arrival>,
}

impl Arrivals {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let mut arrivals = Self {
            chance: Chance::new(scenario.seed, 2),
            load: scenario.load,
            members: scenario.clients().into(),
            moves_at: scenario.moves_at(),
            keys: scenario.keys.into(),
            cost_max: scenario.cost_max.into(),
            mean: 1e9 / f64::from(scenario.requests_per_second),
            callers: (scenario.load == Load::Callers).then(|| Callers::new(scenario)),
            zipf: (scenario.load == Load::Zipf).then(|| Zipf::new(scenario.keys, EXPONENT)),
            at: 0,
            next: None,
        };
        arrivals.next = Some(arrivals.make());
        arrivals
    }

    /// When the next one comes.
    pub(crate) fn next_at(&self) -> u64 {
        self.next.as_ref().map_or(u64::MAX, |next| next.at)
    }

    pub(crate) fn next(&mut self) -> Arrival {
        let following = self.make();
        self.next.replace(following).expect("the constructor sets the next arrival")
    }

    fn make(&mut self) -> Arrival {
        if let Some(callers) = &mut self.callers {
            return callers.next();
        }
        self.at += self.chance.gap(self.mean);
        let member = self.member() as u32;
        let key = match &self.zipf {
            Some(law) => law.draw(&mut self.chance),
            None if self.keys == 1 => 0,
            None => self.chance.below(self.keys) as u32,
        };
        let cost = if self.cost_max == 1 { 1 } else { self.chance.between(1, self.cost_max) as u32 };
        Arrival { at: self.at, member, key, cost, attempt: 0 }
    }

    /// The member for another attempt of a refused request.
    pub(crate) fn member_again(&mut self, one: &Arrival) -> u32 {
        self.callers.as_mut().map_or(one.member, |callers| callers.member(one.key))
    }

    fn member(&mut self) -> u64 {
        match self.load {
            Load::OneIdle if self.at >= IDLE_FROM => self.chance.below((self.members - 1).max(1)),
            Load::Steady | Load::Zipf | Load::Callers | Load::OneIdle => self.chance.below(self.members),
            Load::Bursty => {
                // Members whose number and the slot's have the same rest by four; of a small fleet
                // at least one.
                let step = self.members.min(4);
                let first = self.at / SLOT % step;
                let active = (self.members - first).div_ceil(step);
                first + step * self.chance.below(active)
            }
            Load::Skewed => self.skewed(0),
            Load::Moving => self.skewed(self.at / STAY % self.members),
            Load::Uneven => self.uneven(false),
            Load::Moved => self.uneven(self.at >= self.moves_at),
        }
    }

    fn uneven(&mut self, is_moved: bool) -> u64 {
        let (first, rest) = (self.members.div_ceil(2), self.members / 2);
        let (of_first, of_rest) = if is_moved { (1, UNEVEN) } else { (UNEVEN, 1) };
        let drawn = self.chance.below(first * of_first + rest * of_rest);
        match drawn.checked_sub(first * of_first) {
            Some(drawn) => first + drawn / of_rest,
            None => drawn / of_first,
        }
    }

    fn skewed(&mut self, hot: u64) -> u64 {
        if self.members == 1 || self.chance.below(5) < 4 {
            return hot;
        }
        let other = self.chance.below(self.members - 1);
        if other < hot { other } else { other + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_and_keys_are_asked_for_as_the_load_says() {
        for load in [Load::Steady, Load::Bursty, Load::Skewed, Load::Moving, Load::Zipf] {
            let scenario = Scenario { load, members: 5, keys: 3, ..Scenario::new(1) };
            let mut arrivals = Arrivals::new(&scenario);
            let mut members = [0_u32; 5];
            let mut keys = [0_u32; 3];
            let mut last = 0;
            for _ in 0..30_000 {
                let one = arrivals.next();
                assert!(one.at >= last);
                last = one.at;
                members[one.member as usize] += 1;
                keys[one.key as usize] += 1;
            }
            // Three thousand a second, ten seconds.
            assert!((9 * SECOND..11 * SECOND).contains(&last), "{load:?} {last}");
            let hot = if matches!(load, Load::Skewed | Load::Moving) { 21_000 } else { 3_000 };
            assert!(members[0] > hot && members[4] > 1_000, "{load:?} {members:?}");
            let first = if load == Load::Zipf { 15_000 } else { 9_000 };
            assert!(keys[0] > first && keys[2] > 4_000, "{load:?} {keys:?}");
        }
    }

    #[test]
    fn halves_of_the_envoys_are_asked_unevenly_and_change_places_and_one_is_idle() {
        for load in [Load::Uneven, Load::Moved, Load::OneIdle] {
            let scenario = Scenario { load, envoys: 4, ..Scenario::new(1) };
            let mut arrivals = Arrivals::new(&scenario);
            let mut asked = [[0_u32; 4]; 2];
            loop {
                let one = arrivals.next();
                if one.at >= 60 * SECOND {
                    break;
                }
                asked[(one.at / (30 * SECOND)) as usize][one.member as usize] += 1;
            }
            let times = |half: [u32; 4], of: usize| f64::from(half[of]) / f64::from(half[(of + 2) % 4]);
            let (early, late) = (times(asked[0], 0), times(asked[1], 1));
            match load {
                Load::Uneven => assert!((9.0..11.0).contains(&early) && (9.0..11.0).contains(&late)),
                Load::Moved => assert!((9.0..11.0).contains(&early) && (0.09..0.11).contains(&late)),
                _ => assert!(asked[0][3] > 5_000 && asked[1][3] == 0 && asked[1][2] > 25_000),
            }
        }
    }
}
