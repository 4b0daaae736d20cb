//! What goes wrong, planned from the seed before anything happens.

use serde::Serialize;

use crate::chance::Chance;
use crate::clock::{MS, SECOND};
use crate::scenario::{Chaos, Scenario, Where};

/// Something that goes wrong for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Trouble {
    /// A member does not reach the store, nor the store it.
    CutOff {
        /// Which.
        member: u32,
    },
    /// A member stops and forgets everything, and starts again as another.
    Crashed {
        /// Which.
        member: u32,
    },
    /// A member stops and gives its leases back, and starts again as another.
    Stopped {
        /// Which.
        member: u32,
    },
    /// The store refuses connections.
    StoreAway,
    /// The store does nothing, and everything afterwards.
    StorePaused,
    /// What the store answers takes long; what it is asked does not.
    AnswersLate,
    /// Another store takes over that lacks what the first one wrote last. Nobody is served in between.
    FailedOver,
    /// The store loses all it has.
    Emptied,
}

/// Something that goes wrong, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Disturbance {
    pub(crate) trouble: Trouble,
    pub(crate) from: u64,
    pub(crate) until: u64,
}

/// When the first thing may go wrong.
const FIRST: u64 = 4 * SECOND;

/// What goes wrong in a scenario, in the order in which it begins; nothing overlaps with its like.
pub(crate) fn planned(scenario: &Scenario) -> Vec<Disturbance> {
    let Some(calm_from) = scenario.calm_from() else { return Vec::new() };
    if scenario.chaos == Chaos::None {
        return Vec::new();
    }
    let mut chance = Chance::new(scenario.seed, 3);
    let end = u64::from(calm_from) * SECOND;
    let mut plan = Vec::new();
    let mut at = FIRST;
    loop {
        let trouble = drawn(scenario, &mut chance);
        let lasts = match trouble {
            Trouble::StorePaused | Trouble::FailedOver | Trouble::Emptied => chance.between(50, 2000),
            Trouble::AnswersLate => chance.between(500, 3000),
            _ => chance.between(300, 7000),
        };
        at += chance.between(0, 2500) * MS;
        let until = at + lasts * MS;
        if until > end {
            return plan;
        }
        plan.push(Disturbance { trouble, from: at, until });
        // Now and then the next begins while this one lasts; of the store's there is one at a time.
        let is_of_a_member =
            matches!(trouble, Trouble::CutOff { .. } | Trouble::Crashed { .. } | Trouble::Stopped { .. });
        if !is_of_a_member || chance.below(2) == 0 {
            at = until;
        }
    }
}

fn drawn(scenario: &Scenario, chance: &mut Chance) -> Trouble {
    let member = chance.below(scenario.members.into()) as u32;
    match chance.below(10) {
        0 | 1 => Trouble::CutOff { member },
        2 | 3 => Trouble::Crashed { member },
        4 => Trouble::StoreAway,
        5 => Trouble::StorePaused,
        6 => Trouble::AnswersLate,
        7 => Trouble::FailedOver,
        8 => Trouble::Stopped { member },
        _ if scenario.consistency == Where::Leased => Trouble::Emptied,
        _ => Trouble::FailedOver,
    }
}

impl Trouble {
    /// What it is, in a word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CutOff { .. } => "cut off",
            Self::Crashed { .. } => "crashed",
            Self::Stopped { .. } => "stopped",
            Self::StoreAway => "store away",
            Self::StorePaused => "store paused",
            Self::AnswersLate => "answers late",
            Self::FailedOver => "failed over",
            Self::Emptied => "store emptied",
        }
    }
}

impl core::fmt::Display for Trouble {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::CutOff { member } | Self::Crashed { member } | Self::Stopped { member } => {
                write!(f, "member {member} {}", self.name())
            }
            _ => f.write_str(self.name()),
        }
    }
}
