//! The troubles of a world, planned from the seed before anything happens.

use serde::Serialize;

use crate::fleet::scenario::{DecisionSite, Scenario};
use crate::kit::disturbance::{sequence, side_by_side};
use crate::kit::{Chance, Disturbance, MS, SECOND};

/// Something that goes wrong for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
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
    /// Answers of the store take long; its requests do not.
    AnswersLate,
    /// Another store takes over that lacks what the first one wrote last. Nobody is served in
    /// between.
    FailedOver,
    /// The store loses all it has.
    Emptied,
}

/// The troubles of a scenario, in the order in which they begin. Troubles of the store follow one
/// another, and so do those of members; a member may crash, and start again, while the store is
/// away.
pub(crate) fn planned(scenario: &Scenario) -> Vec<Disturbance<Trouble>> {
    let Some(calm_from) = scenario.calm_from() else { return Vec::new() };
    let mut chance = Chance::new(scenario.seed, 3);
    let end = u64::from(calm_from) * SECOND;
    let of_store = sequence(&mut chance, end, |chance| store_trouble(scenario, end, chance));
    let of_members = sequence(&mut chance, end, |chance| member_trouble(scenario, chance));
    side_by_side([of_store, of_members])
}

/// Something that goes wrong with the store, and for how long.
fn store_trouble(scenario: &Scenario, end: u64, chance: &mut Chance) -> (Trouble, u64) {
    let trouble = match chance.below(6) {
        0 | 1 => Trouble::StoreAway,
        2 => Trouble::StorePaused,
        3 => Trouble::AnswersLate,
        4 if scenario.consistency == DecisionSite::Leased => Trouble::Emptied,
        _ => Trouble::FailedOver,
    };
    let lasts = match trouble {
        Trouble::StorePaused | Trouble::FailedOver | Trouble::Emptied => chance.between(50, 2000) * MS,
        Trouble::AnswersLate => chance.between(500, 3000) * MS,
        // Now and then for longer than any lease and what follows it.
        _ if chance.below(4) == 0 => chance.between(end / 4, end / 2),
        _ => chance.between(300, 7000) * MS,
    };
    (trouble, lasts)
}

/// Something that goes wrong with a member, and for how long.
fn member_trouble(scenario: &Scenario, chance: &mut Chance) -> (Trouble, u64) {
    let member = chance.below(scenario.members.into()) as u32;
    let trouble = match chance.below(5) {
        0 | 1 => Trouble::CutOff { member },
        2 | 3 => Trouble::Crashed { member },
        _ => Trouble::Stopped { member },
    };
    (trouble, chance.between(300, 7000) * MS)
}

impl Trouble {
    /// The name of the trouble, in a word.
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
