//! Which numbers of a limit count for a request: an override's, those of a plan, or the limit's
//! own, and in which time zone.

use super::Gate;
use super::build::{Compiled, OverrideNumbers, PlanFoundBy, PlanIndex, PlanSpec};
#[cfg(feature = "calendar")]
use super::zone_specs::Zoned;
use crate::algorithm::Algorithm;
use crate::table::SpecId;
use crate::time::Timestamp;

/// An algorithm with its numbers, and the spec that states are read by.
pub(super) type Numbers<'g> = (&'g Algorithm, SpecId);

/// Whose numbers count.
#[derive(Clone, Copy, Debug)]
pub(super) enum NumbersSource<'g> {
    Limit,
    Plan,
    Override(&'g OverrideNumbers),
}

/// How the time zone of a calendar was found, where its limit takes the zone from an attribute.
#[cfg_attr(not(feature = "calendar"), expect(dead_code, reason = "only calendars have time zones"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ZoneSource {
    /// The attribute names it.
    Attribute,
    /// The request lacks the attribute.
    Missing,
    /// The attribute names no zone.
    Unknown,
    /// As many calendars are kept as may be.
    TooMany,
    /// An override fixes it.
    Override,
}

impl Gate {
    /// The plan of a request with these values.
    #[inline]
    pub(super) fn plan_of(&self, values: &[Option<&str>]) -> Option<PlanIndex> {
        self.plans.as_ref().and_then(|plans| plans.find(values))
    }

    /// The plan of a request, with how it was found.
    pub(super) fn plan_found(&self, values: &[Option<&str>]) -> Option<(PlanIndex, PlanFoundBy)> {
        self.plans.as_ref().and_then(|plans| plans.found(values))
    }

    /// The numbers of `limit` for a request of this plan at `now`. `None` if the plan is unlimited.
    #[inline]
    pub(super) fn numbers<'g>(
        &'g self,
        limit: &'g Compiled,
        values: &[Option<&str>],
        plan: Option<PlanIndex>,
        now: Timestamp,
    ) -> Option<Numbers<'g>> {
        if limit.has_one_set_of_numbers() {
            return Some((limit.algorithm(), limit.spec));
        }
        self.numbers_among(limit, values, plan, now)
    }

    fn numbers_among<'g>(
        &'g self,
        limit: &'g Compiled,
        values: &[Option<&str>],
        plan: Option<PlanIndex>,
        now: Timestamp,
    ) -> Option<Numbers<'g>> {
        let (numbers, source) = Self::numbers_before_zone(limit, values, plan, now)?;
        Some(self.in_zone(limit, numbers, source, values).0)
    }

    /// The numbers as they are written, with whose they are; the zone is that of the policy.
    pub(super) fn numbers_before_zone<'g>(
        limit: &'g Compiled,
        values: &[Option<&str>],
        plan: Option<PlanIndex>,
        now: Timestamp,
    ) -> Option<(Numbers<'g>, NumbersSource<'g>)> {
        if let Some(found) = limit.overriding(values, now) {
            return Some(((&found.algorithm, found.spec), NumbersSource::Override(found)));
        }
        let own = Some(((limit.algorithm(), limit.spec), NumbersSource::Limit));
        let Some(plan) = plan else { return own };
        match limit.plan_spec(plan) {
            PlanSpec::Own => own,
            PlanSpec::Unlimited => None,
            PlanSpec::Numbers(numbers) => Some(((&numbers.algorithm, numbers.spec), NumbersSource::Plan)),
        }
    }

    /// The numbers in the time zone that the request names, with how that was found; `None` for a
    /// limit that takes its zone from no attribute.
    #[cfg(feature = "calendar")]
    pub(super) fn in_zone<'g>(
        &'g self,
        limit: &Compiled,
        numbers: Numbers<'g>,
        source: NumbersSource<'g>,
        values: &[Option<&str>],
    ) -> (Numbers<'g>, Option<ZoneSource>) {
        if let (Some(attribute), (Algorithm::Calendar(calendar), spec)) = (limit.zone_from, numbers) {
            if matches!(source, NumbersSource::Override(one) if one.fixes_zone) {
                return (numbers, Some(ZoneSource::Override));
            }
            let Some(zone) = values[usize::from(attribute)] else {
                return (numbers, Some(ZoneSource::Missing));
            };
            return match self.zones.in_zone((calendar, spec), zone, (self.owner, &self.table)) {
                Zoned::Named(algorithm, spec) => ((algorithm, spec), Some(ZoneSource::Attribute)),
                Zoned::Same => (numbers, Some(ZoneSource::Attribute)),
                Zoned::Unknown => (numbers, Some(ZoneSource::Unknown)),
                Zoned::TooMany => (numbers, Some(ZoneSource::TooMany)),
            };
        }
        (numbers, None)
    }

    /// The numbers: without calendars no limit has a time zone.
    #[cfg(not(feature = "calendar"))]
    #[expect(clippy::unused_self, reason = "the gate keeps calendars where there are some")]
    pub(super) const fn in_zone<'g>(
        &'g self,
        _: &Compiled,
        numbers: Numbers<'g>,
        _: NumbersSource<'g>,
        _: &[Option<&str>],
    ) -> (Numbers<'g>, Option<ZoneSource>) {
        (numbers, None)
    }

    /// The algorithm of a spec that [`Gate::numbers`] found for this limit.
    pub(super) fn algorithm_of<'g>(&'g self, limit: &'g Compiled, spec: SpecId) -> Option<&'g Algorithm> {
        let own = limit.algorithm_of(spec).or_else(|| self.alone_specs.share(spec));
        #[cfg(feature = "calendar")]
        let own = own.or_else(|| self.zones.algorithm_of(spec));
        own
    }
}
