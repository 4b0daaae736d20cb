//! The fate of messages between members and the store.

use crate::fleet::scenario::{Chaos, Scenario};
use crate::kit::chance::Chance;
use crate::kit::clock::MS;

/// The way between members and the store.
#[derive(Debug)]
pub(crate) struct Network {
    chance: Chance,
    /// How many in a thousand messages are lost, come twice, and are late.
    lost: u64,
    repeated: u64,
    late: u64,
    late_max: u64,
    /// How many disturbances cut a member off.
    cut: Vec<u8>,
    /// How late answers are at most.
    answers_late: u64,
}

/// When copies of a message arrive: none, one or two.
pub(crate) type Fate = [Option<u64>; 2];

impl Network {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let mut chance = Chance::new(scenario.seed, 4);
        let cut = vec![0; scenario.members as usize];
        let (lost, repeated, late, late_max) = match scenario.chaos {
            Chaos::None => (0, 0, 0, 0),
            Chaos::Some => {
                let most = u64::from(scenario.deadline_ms) * 3 / 2;
                (
                    chance.one_of(&[0, 5, 50]),
                    chance.one_of(&[0, 5, 50]),
                    chance.one_of(&[0, 20, 100]),
                    most * MS,
                )
            }
        };
        Self { chance, lost, repeated, late, late_max, cut, answers_late: 0 }
    }

    /// Cuts a member off once more, or once less.
    pub(crate) fn cut(&mut self, member: u32, is_cut: bool) {
        let cut = &mut self.cut[member as usize];
        *cut = if is_cut { *cut + 1 } else { cut.saturating_sub(1) };
    }

    /// How late answers are at most, beside everything else.
    pub(crate) fn set_answers_late(&mut self, most: u64) {
        self.answers_late = most;
    }

    /// From now on messages arrive.
    pub(crate) fn calm_down(&mut self) {
        (self.lost, self.repeated, self.late, self.answers_late) = (0, 0, 0, 0);
        self.cut.fill(0);
    }

    /// When a message that a member sends now arrives at the store.
    pub(crate) fn there(&mut self, member: u32, now: u64) -> Fate {
        self.carry(member, now, 0)
    }

    /// When an answer that the store sends now arrives at a member.
    pub(crate) fn back(&mut self, member: u32, now: u64) -> Fate {
        self.carry(member, now, self.answers_late)
    }

    fn carry(&mut self, member: u32, now: u64, late: u64) -> Fate {
        if self.cut[member as usize] > 0 || self.chance.in_a_thousand(self.lost) {
            return [None, None];
        }
        let late = if late > 0 { self.chance.between(late / 2, late) } else { 0 };
        let first = Some(now + late + self.takes());
        let second = self.chance.in_a_thousand(self.repeated).then(|| now + late + self.takes());
        [first, second]
    }

    fn takes(&mut self) -> u64 {
        let most = if self.chance.in_a_thousand(self.late) { self.late_max.max(MS) } else { MS };
        self.chance.between(MS / 5, most)
    }
}
