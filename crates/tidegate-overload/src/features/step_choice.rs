//! The choice of the steps that give the relief needed, and of the one that takes it back.
//!
//! The lowest class that can give anything gives first, and the next one only once the lowest has
//! nothing left. Within a class the steps are taken that are enough and lose the least utility: by
//! trying all of them where they are few, else a single step or those with the most relief for the
//! utility that they lose, whichever loses less. Of equal ones the fewest steps and the least
//! relief are taken. Steps of several needs together may lose more than others would have lost:
//! [`level_exchange`](crate::features::level_exchange) makes up for that.

use tidegate_core::Class;

use crate::fault::Fault;
use crate::features::feature_part::{FeaturePart, LEAST_RELIEF, PartHold};
use crate::features::level_position::LevelPosition;

/// Up to so many combinations are all tried.
const TRIED_MAX: usize = 4096;
/// Of a scope of tenants, only so many cohorts may be moved back that there is room for, and at
/// least these.
const COHORTS_BACK_MIN: u16 = 16;

/// A part, by its position among those given, that moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LevelStep {
    pub(crate) part: usize,
    pub(crate) to: LevelPosition,
}

/// A step that may be taken.
#[derive(Clone, Copy, Debug)]
struct ReliefOffer {
    step: LevelStep,
    relief: f64,
    lost: f64,
}

impl ReliefOffer {
    /// The relief for the utility that it loses.
    fn worth(&self) -> f64 {
        if self.lost > 0.0 { self.relief / self.lost } else { f64::INFINITY }
    }
}

/// The steps that give at least `need`, or all that can be given.
pub(crate) fn choose_relief(parts: &[FeaturePart], need: f64) -> Vec<LevelStep> {
    let mut steps = Vec::new();
    let mut need = need;
    let lowest_first = Class::ALL.into_iter();
    let order: Vec<Class> = if Fault::HigherClassFirst.is_planted() {
        lowest_first.rev().collect()
    } else {
        lowest_first.collect()
    };
    for class in order {
        if need <= 0.0 {
            break;
        }
        let of_class = || parts.iter().enumerate().filter(|(_, part)| part.class == class);
        let mut offers: Vec<Vec<ReliefOffer>> = of_class()
            .filter(|(_, part)| part.can_move())
            .map(|(index, part)| offers_of(index, part))
            .filter(|offers| !offers.is_empty())
            .collect();
        let held = || of_class().filter(|(_, part)| !part.can_move() && part.can_give());
        // Nothing is switched off if those that are held for a moment can make up for it.
        let soon: f64 = held()
            .filter(|(_, part)| part.hold == PartHold::DwellsShortly)
            .map(|(_, part)| part.relief(part.last_on()))
            .sum();
        let now_on: f64 =
            offers.iter().filter_map(|offers| last_on(offers, parts)).map(|offer| offer.relief).sum();
        if soon > LEAST_RELIEF && now_on + soon >= need {
            for offers in &mut offers {
                offers.retain(|offer| offer.step.to <= parts[offer.step.part].last_on());
            }
            offers.retain(|offers| !offers.is_empty());
        }
        let chosen = choose_in_class(&offers, need);
        need -= chosen.iter().map(|offer| offer.relief).sum::<f64>();
        steps.extend(chosen.iter().map(|offer| offer.step));
        // A class that is held for a while still has its turn before the next one.
        if held().next().is_some() {
            break;
        }
    }
    steps
}

/// The last offer that is not off.
fn last_on<'a>(offers: &'a [ReliefOffer], parts: &[FeaturePart]) -> Option<&'a ReliefOffer> {
    offers.iter().rev().find(|offer| offer.step.to <= parts[offer.step.part].last_on())
}

fn offers_of(index: usize, part: &FeaturePart) -> Vec<ReliefOffer> {
    let now = part.utility(part.position);
    part.worse()
        .map(|to| ReliefOffer {
            step: LevelStep { part: index, to },
            relief: part.relief(to),
            lost: now - part.utility(to),
        })
        .collect()
}

/// The steps of one class, at most one of each part.
fn choose_in_class(offers: &[Vec<ReliefOffer>], need: f64) -> Vec<ReliefOffer> {
    let all: Vec<ReliefOffer> = offers.iter().filter_map(|offers| offers.last()).copied().collect();
    if all.iter().map(|offer| offer.relief).sum::<f64>() <= need {
        return all;
    }
    if let Some(count) = combinations(offers) {
        return try_all(offers, need, count);
    }
    let by_loss =
        |a: &&ReliefOffer, b: &&ReliefOffer| a.lost.total_cmp(&b.lost).then(a.relief.total_cmp(&b.relief));
    let one = offers.iter().flatten().filter(|offer| offer.relief >= need).min_by(by_loss);
    let several = take_in_order(offers, need);
    match one {
        Some(one) if one.lost <= several.iter().map(|offer| offer.lost).sum() => vec![*one],
        _ => several,
    }
}

/// The combination that is enough and loses the least.
fn try_all(offers: &[Vec<ReliefOffer>], need: f64, combinations: usize) -> Vec<ReliefOffer> {
    let mut best: Option<(Total, usize)> = None;
    for number in 0..combinations {
        let total = nth_combination(offers, number).fold(Total::default(), Total::plus);
        if total.relief >= need && best.as_ref().is_none_or(|(least, _)| total.is_less_than(least)) {
            best = Some((total, number));
        }
    }
    best.map_or_else(Vec::new, |(_, number)| nth_combination(offers, number).copied().collect())
}

/// The relief and the loss of some steps together.
#[derive(Clone, Copy, Debug, Default)]
struct Total {
    relief: f64,
    lost: f64,
    steps: u32,
}

impl Total {
    fn plus(self, offer: &ReliefOffer) -> Self {
        Self { relief: self.relief + offer.relief, lost: self.lost + offer.lost, steps: self.steps + 1 }
    }

    fn is_less_than(&self, other: &Self) -> bool {
        let by_steps = || self.steps.cmp(&other.steps).then(self.relief.total_cmp(&other.relief));
        self.lost.total_cmp(&other.lost).then_with(by_steps).is_lt()
    }
}

/// The number of combinations of at most one offer of each part; `None`: too many to try them all.
pub(crate) fn combinations<T>(offers: &[Vec<T>]) -> Option<usize> {
    offers.iter().try_fold(1_usize, |product, offers| {
        product.checked_mul(offers.len() + 1).filter(|product| *product <= TRIED_MAX)
    })
}

/// The offers of one combination, whose number has a digit for each part.
pub(crate) fn nth_combination<T>(offers: &[Vec<T>], number: usize) -> impl Iterator<Item = &T> {
    let mut rest = number;
    offers.iter().filter_map(move |offers| {
        let digit = rest % (offers.len() + 1);
        rest /= offers.len() + 1;
        digit.checked_sub(1).map(|index| &offers[index])
    })
}

/// Those with the most relief for the utility that they lose, until it is enough; then each step is
/// made as small as it may be.
fn take_in_order(offers: &[Vec<ReliefOffer>], need: f64) -> Vec<ReliefOffer> {
    let worst = |offers: &Vec<ReliefOffer>| offers.last().copied();
    let mut order: Vec<(usize, ReliefOffer)> =
        offers.iter().enumerate().filter_map(|(index, offers)| Some((index, worst(offers)?))).collect();
    order.sort_by(|a, b| b.1.worth().total_cmp(&a.1.worth()));
    let mut chosen: Vec<(usize, Option<ReliefOffer>)> = Vec::new();
    let mut relief = 0.0;
    for (index, offer) in order {
        if relief >= need {
            break;
        }
        relief += offer.relief;
        chosen.push((index, Some(offer)));
    }
    // The last one taken loses the most for its relief.
    for (index, offer) in chosen.iter_mut().rev() {
        let Some(taken) = *offer else { continue };
        let rest = relief - taken.relief;
        let smaller = offers[*index].iter().find(|smaller| rest + smaller.relief >= need).copied();
        *offer = if rest >= need { None } else { smaller.or(Some(taken)) };
        relief = rest + offer.map_or(0.0, |offer| offer.relief);
    }
    chosen.into_iter().filter_map(|(_, offer)| offer).collect()
}

/// The step back that fits, if there is one: of the highest class that is degraded, the one with
/// the most utility for the capacity that it takes. `fits` says whether so much more of the
/// capacity does.
///
/// A lower class gets what is left beside the next step of each higher one that is held for a
/// while, and nothing while a higher one does not fit.
pub(crate) fn choose_return(parts: &[FeaturePart], fits: impl Fn(f64) -> bool) -> Option<LevelStep> {
    let mut reserved = 0.0;
    for class in Class::ALL.into_iter().rev() {
        let of_class =
            || parts.iter().enumerate().filter(|(_, part)| part.class == class && part.is_degraded());
        let fits = |growth: f64| fits(reserved + growth);
        let steps = of_class()
            .filter(|(_, part)| part.can_move())
            .filter_map(|(index, part)| Some(LevelStep { part: index, to: best_return(part, fits)? }));
        if let Some(step) = best_step(parts, steps) {
            return Some(step);
        }
        if of_class().any(|(_, part)| part.can_move()) {
            return None;
        }
        reserved += of_class().map(|(_, part)| part.growth(part.position.better())).sum::<f64>();
    }
    None
}

/// Of steps to better levels the one that gains the most utility for the capacity that it takes; of
/// equal ones the first.
pub(crate) fn best_step(parts: &[FeaturePart], steps: impl Iterator<Item = LevelStep>) -> Option<LevelStep> {
    let rated = steps.map(|step| {
        let part = &parts[step.part];
        let gained = part.utility(step.to) - part.utility(part.position);
        (step, gained / part.growth(step.to).max(LEAST_RELIEF))
    });
    let best = rated.reduce(|best, next| if next.1 > best.1 { next } else { best });
    best.map(|(step, _)| step)
}

/// The next better level, or as many cohorts on the way to it as there is room for.
fn best_return(part: &FeaturePart, fits: impl Fn(f64) -> bool) -> Option<LevelPosition> {
    let whole = part.position.better();
    if fits(part.growth(whole)) {
        return Some(whole);
    }
    part.cohorts.as_ref()?;
    let between = (1..).map(|half| crate::COHORTS >> half).take_while(|cohorts| *cohorts >= COHORTS_BACK_MIN);
    between.map(|cohorts| part.position.better_by(cohorts).max(whole)).find(|to| fits(part.growth(*to)))
}
