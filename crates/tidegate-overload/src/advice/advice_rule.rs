//! The rule: from comparisons and the load of a minute to advice.

use core::time::Duration;

use crate::advice::concurrency_advice::ConcurrencyAdvice;
use crate::advice::load_minute::RecentLoad;
use crate::advice::use_contrast::UseContrast;

/// So many requests must have ended in the last minute: one a second.
const ENDED_MIN: u64 = 60;
/// So many comparisons must exist in all, and so many of them at the top, so that no single event,
/// such as a slowdown, makes the advice.
const CONTRASTS_MIN: usize = 6;
const TOP_MIN: usize = 3;
/// Comparisons count for the top whose places in use are this part of the most at least.
const TOP: f64 = 0.75;
/// A service whose time rises by this power of the places in use or more has a queue. One whose
/// times rise and which still does more work with more places stays below.
const RISE_OF_QUEUE: f64 = 0.5;
/// Three of four comparisons of it rise by this power at least. In a service that is slow for a few
/// seconds now and then, and where a few requests take very long, many do not rise at all.
const RISE_OF_MOST: f64 = 0.3;
/// The evidence that comparisons at the top give together before they show a queue: even of times
/// whose deviation is three times their mean, chance gives it in less than one of a hundred cases.
const EVIDENCE_OF_QUEUE: f64 = 60.0;
/// A service whose time rises by less than this power has no queue. Between the two nothing is
/// said.
const RISE_OF_NONE: f64 = 0.4;
/// Places are too many if this part of them does the same work.
const TOO_HIGH: f64 = 2.0 / 3.0;
/// Places may be too few if this part of the requests was refused: 2.5 times as many places would
/// be needed.
const TOO_LOW: f64 = 0.6;
/// A service that does the work of so many times the places is not at its limit. Only in shadow
/// mode may it work on more requests than there are places.
const MORE_WORK: f64 = 1.5;
/// No more than this many times the present places are suggested: the load that was refused may
/// not be meant to be served, and the next step has measurements of its own.
const STEP_MAX: u64 = 4;
/// A service at this part of the target of one of its pushed signals is loaded by itself.
const LOADED: f64 = 0.8;

/// The places of a resource.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PlaceTerms {
    /// The most requests in flight now.
    pub(crate) places: u64,
    /// `None`: the number is configured. Otherwise whether an adaptive limit stands at its largest
    /// value.
    pub(crate) adaptive_at_max: Option<bool>,
    /// The worst pressure of the pushed signals of the service; `None` without one that is fresh.
    pub(crate) pushed_pressure: Option<f64>,
    /// Whether a pin or a signal sheds requests, and not the want of places.
    pub(crate) is_shed_by_others: bool,
}

/// The advice for a resource; `None`: its places are not plainly wrong, or it is not known.
pub(crate) fn advise(
    contrasts: &[UseContrast],
    load: &RecentLoad,
    terms: &PlaceTerms,
) -> Option<ConcurrencyAdvice> {
    if load.counts.ended < ENDED_MIN {
        return None;
    }
    let top = TopContrasts::new(contrasts);
    match top {
        Some(top) if top.is_known && top.useful >= MORE_WORK * terms.places as f64 => {
            too_low(true, load, terms)
        }
        Some(top) if top.has_queue && top.is_known && top.evidence >= EVIDENCE_OF_QUEUE => {
            too_high(&top, load, terms)
        }
        Some(top) if top.has_queue || top.is_known && top.rise > RISE_OF_NONE => None,
        Some(top) => too_low(top.is_known && top.in_use >= TOP * terms.places as f64, load, terms),
        // All places are always in use, or there is only one.
        None => too_low(false, load, terms),
    }
}

/// The comparisons at the most places in use.
#[derive(Clone, Copy, Debug, PartialEq)]
struct TopContrasts {
    /// Whether there are enough comparisons to say what they show.
    is_known: bool,
    /// The evidence of all together that the times rise.
    evidence: f64,
    /// Whether all together and most of them show a queue.
    has_queue: bool,
    /// The rise of all together.
    rise: f64,
    /// The most places in use.
    in_use: f64,
    /// The places that would do the work that they did, if no request waited in the service.
    useful: f64,
}

impl TopContrasts {
    fn new(contrasts: &[UseContrast]) -> Option<Self> {
        if contrasts.is_empty() {
            return None;
        }
        let in_use = contrasts.iter().map(|one| one.more.in_use).fold(0.0, f64::max);
        let top: Vec<_> = contrasts.iter().filter(|one| one.more.in_use >= TOP * in_use).collect();
        let mut lowest: Vec<_> = contrasts.iter().map(|one| one.fewer).collect();
        lowest.sort_by(|one, other| one.in_use.total_cmp(&other.in_use));
        // The time without a queue, as far as so few places were ever in use.
        let alone = quantile(lowest[..lowest.len().div_ceil(4)].iter().map(|mean| mean.seconds), 2);
        let work = quantile(top.iter().map(|one| one.more.in_use / one.more.seconds), 2);
        let is_known = contrasts.len() >= CONTRASTS_MIN && top.len() >= TOP_MIN;
        let pooled = UseContrast::pooled(&top)?;
        let rise = pooled.rise();
        let most_rise = quantile(top.iter().map(|one| one.rise()), 4);
        let has_queue = rise >= RISE_OF_QUEUE && most_rise >= RISE_OF_MOST;
        Some(Self { is_known, evidence: pooled.evidence(), has_queue, rise, in_use, useful: work * alone })
    }
}

fn too_high(top: &TopContrasts, load: &RecentLoad, terms: &PlaceTerms) -> Option<ConcurrencyAdvice> {
    let useful = top.useful.round().max(1.0);
    // An adaptive limit finds its number itself. A queue that was there once and is not reached by
    // the present load harms nobody.
    let is_plain = terms.adaptive_at_max.is_none()
        && useful <= TOO_HIGH * terms.places as f64
        && useful <= TOO_HIGH * top.in_use
        && load.in_use() >= useful / 2.0;
    #[expect(clippy::cast_sign_loss, reason = "it is at least 1, and below the number of places")]
    let suggested = useful as u64;
    is_plain.then(|| ConcurrencyAdvice::TooHigh {
        places: terms.places,
        rises_from: suggested + 1,
        suggested,
    })
}

/// `is_flat`: requests are known to take no longer when more places are in use.
fn too_low(is_flat: bool, load: &RecentLoad, terms: &PlaceTerms) -> Option<ConcurrencyAdvice> {
    let is_plain = terms.adaptive_at_max != Some(false)
        && !terms.is_shed_by_others
        && terms.pushed_pressure.is_none_or(|pressure| pressure < LOADED)
        && load.refused_part() >= TOO_LOW;
    if !is_plain {
        return None;
    }
    let places = terms.places;
    #[expect(clippy::cast_sign_loss, reason = "rates and times are above zero")]
    let needed = (load.asked_rate() * load.place_seconds()).ceil() as u64;
    Some(ConcurrencyAdvice::TooLow {
        places,
        place_time: Duration::try_from_secs_f64(load.place_seconds()).unwrap_or_default(),
        asked_per_second: load.asked_rate(),
        refused_part: load.refused_part().min(1.0),
        is_flat,
        suggested: needed.clamp(places + 1, places.saturating_mul(STEP_MAX)),
        is_adaptive: terms.adaptive_at_max.is_some(),
    })
}

/// The number that one in so many of some numbers does not exceed, 2 for their median; not a number
/// of none.
fn quantile(numbers: impl Iterator<Item = f64>, one_in: usize) -> f64 {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len().saturating_sub(1) / one_in).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use tidegate_core::Timestamp;

    use super::*;
    use crate::advice::load_minute::LoadTotals;
    use crate::advice::use_contrast::UseMean;

    /// A comparison of a service with so many workers that takes 40 ms.
    fn contrast(workers: f64, fewer: f64, more: f64) -> UseContrast {
        let mean = |in_use: f64| UseMean { in_use, seconds: 0.04 * (in_use / workers).max(1.0) };
        let at = Timestamp::from_secs(1_800_000_000);
        UseContrast { at, fewer: mean(fewer), more: mean(more), weight: 100.0 }
    }

    /// A minute in which so many requests a second were asked for, of which so many percent were
    /// refused.
    fn load(rate: u64, refused_percent: u64, millis: u64) -> RecentLoad {
        let asked = rate * 60;
        let refused = asked * refused_percent / 100;
        let ended = asked - refused;
        let counts = LoadTotals { asked, refused, ended, micros: ended * millis * 1_000 };
        RecentLoad { span: Duration::from_mins(1), counts }
    }

    const fn places(places: u64) -> PlaceTerms {
        PlaceTerms { places, adaptive_at_max: None, pushed_pressure: None, is_shed_by_others: false }
    }

    fn too_low(advice: Option<ConcurrencyAdvice>) -> Option<(u64, bool)> {
        match advice {
            Some(ConcurrencyAdvice::TooLow { suggested, is_flat, .. }) => Some((suggested, is_flat)),
            _ => None,
        }
    }

    #[test]
    fn two_places_of_many_workers_are_too_few_at_five_times_their_load() {
        let contrasts = [contrast(20.0, 1.0, 2.0); CONTRASTS_MIN];
        let advice = advise(&contrasts, &load(250, 80, 40), &places(2)).unwrap();
        assert_eq!(
            advice.to_string(),
            "2 places may be too few: a request takes 40 ms, so 2 places serve at most 50/s, and 80 % of \
             250/s was refused in the last minute; requests take no longer when more places are in use. If \
             the service can work on more at once, try `concurrency: auto` or 8."
        );
        // Twenty would be needed at ten times the load, and four times as many is the largest step.
        assert_eq!(advise(&contrasts, &load(100, 60, 40), &places(2)).unwrap().suggested(), 4);
        let lacking = advise(&[], &load(250, 80, 40), &places(1)).unwrap();
        assert!(lacking.to_string().contains("1 place serves at most 25/s"), "{lacking}");
        assert_eq!(too_low(Some(lacking)), Some((4, false)), "of one place it is not known");
    }

    #[test]
    fn places_are_too_few_only_for_want_of_places_and_by_a_plain_part() {
        let contrasts = [contrast(20.0, 1.0, 2.0); CONTRASTS_MIN];
        let of = |terms| too_low(advise(&contrasts, &load(250, 80, 40), &terms));
        assert_eq!(of(places(2)), Some((8, true)));
        assert_eq!(too_low(advise(&contrasts, &load(250, 50, 40), &places(2))), None);
        assert_eq!(of(PlaceTerms { is_shed_by_others: true, ..places(2) }), None);
        assert_eq!(of(PlaceTerms { pushed_pressure: Some(0.9), ..places(2) }), None);
        assert_eq!(of(PlaceTerms { pushed_pressure: Some(0.3), ..places(2) }), Some((8, true)));
        assert_eq!(of(PlaceTerms { adaptive_at_max: Some(false), ..places(2) }), None);
        let at_max = PlaceTerms { adaptive_at_max: Some(true), ..places(2) };
        let advice = advise(&contrasts, &load(250, 80, 40), &at_max).unwrap();
        assert!(advice.to_string().ends_with("try `max: 8`."), "{advice}");
    }

    #[test]
    fn forty_places_of_eight_workers_are_too_many_from_nine_on() {
        let mut contrasts = vec![contrast(8.0, 4.0, 7.0); 6];
        contrasts.extend([contrast(8.0, 12.0, 30.0); TOP_MIN]);
        let busy = load(190, 0, 100);
        let advice = advise(&contrasts, &busy, &places(40));
        let expected = ConcurrencyAdvice::TooHigh { places: 40, rises_from: 9, suggested: 8 };
        assert_eq!(advice, Some(expected));
        assert_eq!(advise(&contrasts, &busy, &places(10)), None, "it is about right");
        let adaptive = PlaceTerms { adaptive_at_max: Some(true), ..places(40) };
        assert_eq!(advise(&contrasts, &busy, &adaptive), None);
        assert_eq!(advise(&contrasts[1..=6], &busy, &places(40)), None, "one event shows nothing");
        assert_eq!(advise(&contrasts, &load(10, 0, 40), &places(40)), None, "the queue is past");
    }

    #[test]
    fn a_queue_in_the_service_is_not_called_too_few_places_even_where_little_is_known() {
        let refused = load(1000, 80, 200);
        assert_eq!(advise(&[contrast(8.0, 20.0, 40.0)], &refused, &places(40)), None);
        assert_eq!(too_low(advise(&[contrast(40.0, 20.0, 40.0)], &refused, &places(40))), Some((160, false)));
    }

    #[test]
    fn a_service_that_does_more_with_more_places_has_not_too_many() {
        // 40 ms for one, and twice as long for forty.
        let mean = |in_use: f64| UseMean { in_use, seconds: 0.04 * (1.0 + (in_use - 1.0) / 39.0) };
        let rising =
            |fewer, more| UseContrast { fewer: mean(fewer), more: mean(more), ..contrast(1.0, 1.0, 2.0) };
        let contrasts = [rising(2.0, 5.0), rising(20.0, 40.0)].repeat(TOP_MIN);
        assert_eq!(advise(&contrasts, &load(500, 80, 80), &places(40)), None);
    }

    #[test]
    fn nothing_is_said_about_a_quiet_resource() {
        let contrasts = [contrast(20.0, 1.0, 2.0); CONTRASTS_MIN];
        assert_eq!(advise(&contrasts, &load(4, 80, 40), &places(2)), None);
        assert_eq!(advise(&contrasts, &load(0, 0, 40), &places(2)), None);
    }
}
