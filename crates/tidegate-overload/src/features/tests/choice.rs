//! The choice of steps beside all that could have been chosen.

use tidegate_core::Class;

use super::world::Chance;
use crate::features::feature_part::{FeaturePart, PartHold};
use crate::features::level_position::LevelPosition;
use crate::features::step_choice::{choose_relief, choose_return};

/// A part at its best level of three, with a footprint and a utility.
pub(super) fn part(class: Class, footprint: f64, utility: f64) -> FeaturePart {
    let (mut costs, mut utilities) = ([0.0; 16], [0.0; 16]);
    for (level, cost) in [1.0_f64, 0.4, 0.0].into_iter().enumerate() {
        (costs[level], utilities[level]) = (cost, utility * cost.sqrt());
    }
    FeaturePart {
        feature: 0,
        part: 0,
        class,
        position: LevelPosition::BEST,
        in_force: LevelPosition::BEST,
        worst: 2,
        demand: footprint,
        demand_fast: footprint,
        demand_last: footprint,
        remembered: footprint,
        costs,
        utilities,
        cohorts: None,
        hold: PartHold::Free,
        has_off: true,
    }
}

fn after(parts: &[FeaturePart], need: f64) -> (Vec<u8>, f64, f64) {
    let mut levels = vec![0; parts.len()];
    for step in choose_relief(parts, need) {
        levels[step.part] = step.to.level();
    }
    totals(parts, &levels)
}

fn totals(parts: &[FeaturePart], levels: &[u8]) -> (Vec<u8>, f64, f64) {
    let each = || parts.iter().zip(levels);
    let relief = each().map(|(part, level)| part.relief(LevelPosition::at(*level))).sum();
    let utility = each().map(|(part, level)| part.utility(LevelPosition::at(*level))).sum();
    (levels.to_vec(), relief, utility)
}

fn keeps_order(parts: &[FeaturePart], levels: &[u8]) -> bool {
    let is_free = |high: usize| {
        let low = |low: usize| parts[low].class >= parts[high].class || levels[low] == 2;
        levels[high] == 0 || (0..parts.len()).all(low)
    };
    (0..parts.len()).all(is_free)
}

#[test]
pub(super) fn of_all_steps_that_keep_the_order_of_classes_the_best_are_taken() {
    let mut chance = Chance::new(11);
    for _ in 0..300 {
        let class = |index: u64| Class::ALL[(index / 2) as usize];
        let parts: Vec<_> = (0..6)
            .map(|index| part(class(index), 0.02 + 0.2 * chance.part(), 0.5 + 3.0 * chance.part()))
            .collect();
        let all: f64 = parts.iter().map(FeaturePart::at_position).sum();
        let need = 0.9 * all * chance.part();
        let (levels, relief, utility) = after(&parts, need);
        assert!(relief >= need && keeps_order(&parts, &levels), "{levels:?}: {relief} of {need}");
        let assignments = (0..3_u32.pow(6)).map(|number| {
            let digits: Vec<u8> = (0..6).map(|digit| (number / 3_u32.pow(digit) % 3) as u8).collect();
            totals(&parts, &digits)
        });
        let allowed =
            assignments.filter(|(levels, relief, _)| *relief >= need && keeps_order(&parts, levels));
        let best = allowed.map(|(_, _, utility)| utility).fold(0.0, f64::max);
        assert!(utility >= 0.95 * best, "{levels:?} is worth {utility} of {best}");
    }
}

#[test]
fn many_features_are_chosen_in_order_and_close_to_what_the_least_loss_may_be() {
    let mut chance = Chance::new(12);
    let parts: Vec<_> =
        (0..1000).map(|_| part(Class::Sheddable, 0.001 * chance.part(), 0.5 + 3.0 * chance.part())).collect();
    let need = 0.2;
    let (_, relief, utility) = after(&parts, need);
    assert!((need..need + 0.001).contains(&relief), "{relief}");
    // Whole features by relief for utility, and a part of the last one: no other set is better.
    let mut order: Vec<_> = parts.iter().collect();
    order.sort_by(|a, b| {
        let worth = |part: &FeaturePart| part.at_position() / part.utility(LevelPosition::BEST);
        worth(b).total_cmp(&worth(a))
    });
    let (mut rest, mut lost) = (need, 0.0);
    for part in order {
        let taken = (rest / part.at_position()).clamp(0.0, 1.0);
        rest -= taken * part.at_position();
        lost += taken * part.utility(LevelPosition::BEST);
    }
    let all: f64 = parts.iter().map(|part| part.utility(LevelPosition::BEST)).sum();
    assert!(utility >= 0.95 * (all - lost), "{utility} of {}", all - lost);
}

#[test]
fn a_class_that_is_held_for_a_while_keeps_its_turn_and_a_pinned_one_does_not() {
    let mut parts = vec![part(Class::Sheddable, 0.1, 1.0), part(Class::Critical, 0.1, 1.0)];
    parts[0].hold = PartHold::Dwells;
    assert!(choose_relief(&parts, 0.05).is_empty(), "the lower class can still give");
    parts[0].hold = PartHold::Pinned;
    assert_eq!(choose_relief(&parts, 0.05).len(), 1);
    parts[0] = part(Class::Sheddable, 0.0, 1.0);
    parts[0].hold = PartHold::Dwells;
    assert_eq!(choose_relief(&parts, 0.05).len(), 1, "what nobody asks for gives nothing");
}

#[test]
fn the_highest_class_comes_back_first_and_a_lower_one_only_beside_it() {
    let mut parts = vec![part(Class::Sheddable, 0.05, 1.0), part(Class::Critical, 0.2, 1.0)];
    for part in &mut parts {
        (part.position, part.demand) = (LevelPosition::at(2), 0.0);
    }
    let back = |parts: &[FeaturePart], room: f64| choose_return(parts, |growth| growth <= room);
    assert_eq!(back(&parts, 0.05), None, "the higher class does not fit");
    let step = back(&parts, 0.081).unwrap();
    assert_eq!((step.part, step.to), (1, LevelPosition::at(1)), "one level at a time");
    parts[1].hold = PartHold::Dwells;
    assert_eq!(back(&parts, 0.081), None, "its next level is kept free for it");
    assert_eq!(back(&parts, 0.102).unwrap().part, 0);
    parts[1].hold = PartHold::Pinned;
    assert_eq!(back(&parts, 0.021).unwrap().part, 0);
}
