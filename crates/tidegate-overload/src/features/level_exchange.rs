//! The exchange of levels that follows a need: a feature gives more, so that another one of its
//! class has a better level back.
//!
//! Each step of a need is the best one for its instant, and features only get worse while demand
//! rises. So the first need may be met best by one feature, and a later one by another feature
//! alone: then both are degraded, where one would do. Once the load has settled after a need, the
//! levels of the highest class that is degraded are compared with the best ones that fit. Only if
//! these are worth clearly more, levels are exchanged: the worse ones at once, and then the better
//! ones one at a time, each once the load has settled after the step before, as far as they still
//! fit.
//!
//! The load has settled when it is known for a whole settle time in which every step was felt. A
//! load from before that would hide room: a level that takes little would come back first, and
//! leave too little room for one that is worth more.
//!
//! Better levels come back here without the margin, which could make features flap. Therefore an
//! exchange never takes more than what the need has left: the load that caused the need, if it
//! comes again, fits beside the levels of the exchange without another step. There is at most one
//! exchange for each need. Once its class has the best levels, the next lower class has the rest.

use tidegate_core::Class;

use crate::features::change_reason::ChangeReason;
use crate::features::feature_part::{FeaturePart, LEAST_RELIEF};
use crate::features::level_position::LevelPosition;
use crate::features::step_choice::{LevelStep, best_step, combinations, nth_combination};

/// The part of the capacity below the threshold that an exchange leaves free, since a mean load at
/// the threshold would be the next need.
pub(crate) const RESERVE: f64 = 0.001;
/// Less worth that is gained counts as nothing.
const LEAST_GAIN: f64 = 1e-9;
/// Levels that are worth this part of the best ones stay as they are.
const WORTH_MIN: f64 = 0.95;

/// An exchange that may follow the last need, or that has begun.
#[derive(Clone, Debug)]
pub(crate) struct LevelExchange {
    /// The reason of the need.
    reason: ChangeReason,
    /// The part of the capacity that better levels may take beyond what worse ones give.
    room: f64,
    /// Whether the worse levels are in force.
    has_begun: bool,
}

impl LevelExchange {
    /// The exchange that may follow a need of so much relief.
    pub(crate) fn after(need: f64, reason: ChangeReason) -> Self {
        Self { reason, room: -need - RESERVE, has_begun: false }
    }

    /// The reason of the need that it follows.
    pub(crate) fn reason(&self) -> &ChangeReason {
        &self.reason
    }

    /// The part of the capacity that better levels may take.
    pub(crate) fn room(&self) -> f64 {
        self.room
    }

    /// Whether the worse levels are in force, and better ones may follow.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Takes in a step that gives so much, or takes it where negative.
    pub(crate) fn moved(&mut self, relief: f64) {
        self.room += relief;
    }

    /// The next steps while the load leaves so much room: all worse ones, or one better one.
    pub(crate) fn steps(&mut self, parts: &[FeaturePart], room: f64) -> ExchangeSteps {
        let Some(class) = highest_degraded(parts) else { return ExchangeSteps::None };
        if !self.has_begun {
            if parts.iter().any(|part| part.class < class && part.can_give()) {
                return ExchangeSteps::None;
            }
            let mut of_class = parts.iter().filter(|part| part.class == class && !part.is_pinned());
            if of_class.any(|part| !part.can_move()) {
                return ExchangeSteps::Later;
            }
        }
        let Some(best) = best_levels(parts, class, room.min(self.room), !self.has_begun) else {
            return ExchangeSteps::None;
        };
        let all: f64 = parts.iter().map(|part| part.utility(part.position)).sum();
        if !self.has_begun && all >= WORTH_MIN * (all + best.gained) {
            return ExchangeSteps::None;
        }
        self.has_begun = true;
        let is_worse = |step: &LevelStep| step.to > parts[step.part].position;
        if best.steps.iter().any(is_worse) {
            return ExchangeSteps::Now(best.steps.into_iter().filter(is_worse).collect());
        }
        let free = best.steps.iter().map(|step| step.part).filter(|part| parts[*part].can_move());
        let next = free.map(|part| LevelStep { part, to: parts[part].position.better() });
        match best_step(parts, next) {
            Some(step) => ExchangeSteps::Now(vec![step]),
            None => ExchangeSteps::Later,
        }
    }
}

/// The steps of an exchange at an instant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ExchangeSteps {
    /// These.
    Now(Vec<LevelStep>),
    /// None before a minimal dwell has ended.
    Later,
    /// None is worth it.
    None,
}

/// The highest class with a part that is degraded, but for pins: the one whose levels may be
/// exchanged.
pub(crate) fn highest_degraded(parts: &[FeaturePart]) -> Option<Class> {
    parts.iter().filter(|part| part.is_degraded()).map(|part| part.class).max()
}

/// The levels of a class that are worth the most, as steps from those that it has.
#[derive(Clone, Debug, Default)]
struct BestLevels {
    steps: Vec<LevelStep>,
    gained: f64,
}

/// A position of a part: the capacity that it takes beyond the one now, and the worth gained.
#[derive(Clone, Copy, Debug)]
struct PositionOffer {
    step: LevelStep,
    taken: f64,
    gained: f64,
}

/// The best levels of a class that take at most `room` more than those now, by trying all of them.
/// `None`: there are none better, they are too many to be tried, or the class has just one part.
fn best_levels(parts: &[FeaturePart], class: Class, room: f64, may_give: bool) -> Option<BestLevels> {
    let of_class = parts
        .iter()
        .enumerate()
        .filter(|(_, part)| part.class == class && !part.is_pinned() && part.worst > 0);
    let offers: Vec<Vec<PositionOffer>> =
        of_class.map(|(index, part)| positions_of(index, part, may_give)).collect();
    if offers.len() < 2 {
        return None;
    }
    let mut best = (LEAST_GAIN, 0, 0);
    for number in 1..combinations(&offers)? {
        let all = nth_combination(&offers, number);
        let (taken, gained, steps) = all.fold((0.0, 0.0, 0), |(taken, gained, steps), offer| {
            (taken + offer.taken, gained + offer.gained, steps + 1)
        });
        // Of equal ones the one with the fewest steps.
        if taken <= room && gained.total_cmp(&best.0).then(best.1.cmp(&steps)).is_gt() {
            best = (gained, steps, number);
        }
    }
    let (gained, _, number) = best;
    let steps = || nth_combination(&offers, number).map(|offer| offer.step).collect();
    (number > 0).then(|| BestLevels { steps: steps(), gained })
}

/// The other whole levels of a part; the worse ones only if it may give.
fn positions_of(index: usize, part: &FeaturePart, may_give: bool) -> Vec<PositionOffer> {
    let now = part.utility(part.position);
    let levels = (0..=part.worst).map(LevelPosition::at);
    levels
        .filter(|to| match to.cmp(&part.position) {
            core::cmp::Ordering::Less => true,
            core::cmp::Ordering::Equal => false,
            core::cmp::Ordering::Greater => may_give && part.relief(*to) > LEAST_RELIEF,
        })
        .map(|to| PositionOffer {
            step: LevelStep { part: index, to },
            taken: if to < part.position { part.growth(to) } else { -part.relief(to) },
            gained: part.utility(to) - now,
        })
        .collect()
}
