//! Places whose end only a settlement by their caller tells, and which of them expire before it.
//!
//! The permit of a check or a reservation keeps its place until its caller settles it. A caller
//! that settles nothing would keep the places of others for as long as permits last. So while a
//! namespace below its part of the places waits, unsettled places of a namespace beyond its part
//! expire:
//!
//! - A namespace's part of the places is its share among the namespaces that have places or wait
//!   for one; at least one place for a namespace that has none.
//! - A place is overdue after [`EXPIRY_TIMES`] times the typical time of the work that its own
//!   namespace has settled at the resource, and after [`EXPIRY_MIN`] at least. The typical time is
//!   the median of the last [`SETTLED_MAX`] works, measured from the admission to the settlement. A
//!   namespace that has settled nothing has the typical time of the resource.
//! - As many places expire as the waiting namespaces lack, the oldest one first.
//!
//! Places whose end the daemon sees by itself are never among them.
//!
//! A namespace that settles each place just before it expires makes late settlements typical, and
//! could keep the next ones ten times as long. So one that has kept unsettled places beyond its
//! part for [`EXPIRY_MIN`] while another lacked them has [overstayed](Overstay): it is held back to
//! its part for a while, as one is whose place has expired.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use tidegate_core::Timestamp;

use crate::namespaces::{NAMESPACES_MAX, NamespaceKey};

/// An unsettled place is overdue after so many times the typical time of its namespace's work.
const EXPIRY_TIMES: u32 = 10;
/// No place is overdue earlier.
const EXPIRY_MIN: Duration = Duration::from_secs(1);
/// Between two looks at which a namespace is beyond its part it is so all the time, unless they are
/// further apart.
const LOOKS_APART_MAX: Duration = Duration::from_millis(250);
/// The last so many settled works of a namespace say what is typical.
const SETTLED_MAX: usize = 32;

/// The unsettled places of one resource.
#[derive(Debug, Default)]
pub(crate) struct UnsettledPlaces {
    by_namespace: BTreeMap<u32, NamespacePlaces>,
    next_number: u64,
}

#[derive(Debug)]
struct NamespacePlaces {
    /// The permit of each place, by admission.
    places: BTreeMap<UnsettledPlace, u128>,
    /// The times of the last settled works, the oldest one first, in milliseconds.
    settled_ms: VecDeque<u32>,
    changed_at: Timestamp,
    /// Since when it has places beyond its part that another lacks, and the last look at that.
    beyond: Option<(Timestamp, Timestamp)>,
}

/// A namespace that has kept unsettled places which another lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overstay {
    pub(crate) namespace: u32,
    /// For how long it has.
    pub(crate) lasted: Duration,
}

/// The entry of one unsettled place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnsettledPlace {
    admitted: Timestamp,
    number: u64,
}

/// An unsettled place that is to expire now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverduePlace {
    /// The name of its permit, as [`Overload::await_settlement`](crate::Overload::await_settlement)
    /// was told it.
    pub permit: u128,
    /// Its entry.
    pub place: UnsettledPlace,
    /// The number of its namespace.
    pub namespace: u32,
}

/// The places of a namespace at a resource, and what it waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NamespaceClaim {
    pub(crate) namespace: NamespaceKey,
    /// The places that it has, whoever sees their end.
    pub(crate) places: u64,
    /// Its requests that wait for a place.
    pub(crate) waiting: u64,
    pub(crate) weight: u32,
}

impl NamespaceClaim {
    /// The whole places of its part, where the weights of all claims are `weights`.
    fn part(&self, places_max: u64, weights: u64) -> u64 {
        let part = u128::from(places_max) * u128::from(self.weight) / u128::from(weights.max(1));
        u64::try_from(part).unwrap_or(u64::MAX)
    }

    /// The places that its waiting requests lack of its part.
    fn shortage(&self, part: u64) -> u64 {
        part.max(1).saturating_sub(self.places).min(self.waiting)
    }
}

impl UnsettledPlaces {
    /// Whether no place is unsettled.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_namespace.values().all(|known| known.places.is_empty())
    }

    /// Adds a place of a permit that was admitted at `admitted`.
    pub(crate) fn add(&mut self, namespace: u32, permit: u128, admitted: Timestamp) -> UnsettledPlace {
        let place = UnsettledPlace { admitted, number: self.next_number };
        self.next_number += 1;
        self.of_mut(namespace, admitted).places.insert(place, permit);
        place
    }

    /// Takes a place out that was settled or dropped.
    pub(crate) fn remove(&mut self, namespace: u32, place: UnsettledPlace) {
        if let Some(known) = self.by_namespace.get_mut(&namespace) {
            known.places.remove(&place);
        }
    }

    /// Learns that a namespace has settled work which took so long.
    pub(crate) fn learn(&mut self, namespace: u32, took: Duration, now: Timestamp) {
        let known = self.of_mut(namespace, now);
        if known.settled_ms.len() == SETTLED_MAX {
            known.settled_ms.pop_front();
        }
        known.settled_ms.push_back(u32::try_from(took.as_nanos().div_ceil(1_000_000)).unwrap_or(u32::MAX));
    }

    /// The namespace, which may displace one that has no places and has not changed for longest.
    fn of_mut(&mut self, namespace: u32, now: Timestamp) -> &mut NamespacePlaces {
        if self.by_namespace.len() >= NAMESPACES_MAX && !self.by_namespace.contains_key(&namespace) {
            let without_places = self.by_namespace.iter().filter(|(_, known)| known.places.is_empty());
            let oldest = without_places.min_by_key(|(_, known)| known.changed_at).map(|(number, _)| *number);
            oldest.map(|number| self.by_namespace.remove(&number));
        }
        let known = self.by_namespace.entry(namespace).or_insert_with(|| NamespacePlaces {
            places: BTreeMap::new(),
            settled_ms: VecDeque::new(),
            changed_at: now,
            beyond: None,
        });
        known.changed_at = now;
        known
    }

    /// The namespaces that have overstayed by now, of a resource with `places_max` places. `claims`
    /// and `key_of` are as for [`Self::take_overdue`]. It is to be called at each look.
    pub(crate) fn overstays(
        &mut self,
        claims: &[NamespaceClaim],
        key_of: impl Fn(u32) -> NamespaceKey,
        places_max: u64,
        now: Timestamp,
    ) -> Vec<Overstay> {
        let (weights, lacking) = (weights_of(claims), lacking(claims, places_max));
        let mut overstays = Vec::new();
        for (namespace, known) in &mut self.by_namespace {
            let key = key_of(*namespace);
            let claim = claims.iter().find(|claim| claim.namespace == key);
            let is_over = claim.is_some_and(|claim| claim.places > claim.part(places_max, weights));
            let lasted = known.look(is_over && lacking > 0, now);
            if lasted >= EXPIRY_MIN {
                overstays.push(Overstay { namespace: *namespace, lasted });
            }
        }
        overstays
    }

    /// Takes out the places that are to expire, of a resource with `places_max` places. `claims`
    /// has each namespace that has places or waits, `key_of` says under which of them a namespace
    /// counts, and `typical` is the typical time of the resource.
    pub(crate) fn take_overdue(
        &mut self,
        claims: &[NamespaceClaim],
        key_of: impl Fn(u32) -> NamespaceKey,
        places_max: u64,
        typical: Duration,
        now: Timestamp,
    ) -> Vec<OverduePlace> {
        let weights = weights_of(claims);
        let part = |claim: &NamespaceClaim| claim.part(places_max, weights);
        let mut lacking = lacking(claims, places_max);
        let mut taken = Vec::new();
        if lacking == 0 {
            return taken;
        }
        let mut over: Vec<_> = claims.iter().filter(|claim| claim.places > part(claim)).collect();
        over.sort_by_key(|claim| core::cmp::Reverse(claim.places - part(claim)));
        for claim in over {
            let mut overdue = Vec::new();
            let of_claim = self.by_namespace.iter().filter(|(number, _)| key_of(**number) == claim.namespace);
            for (namespace, known) in of_claim {
                let expiry = known.expiry(typical);
                let is_overdue = |place: &UnsettledPlace| now.saturating_since(place.admitted) >= expiry;
                let places = known.places.iter().take_while(|(place, _)| is_overdue(place));
                overdue.extend(places.map(|(place, permit)| (*place, *namespace, *permit)));
            }
            overdue.sort_unstable();
            let most = lacking.min(claim.places - part(claim));
            for (place, namespace, permit) in overdue.into_iter().take(most as usize) {
                self.remove(namespace, place);
                taken.push(OverduePlace { permit, place, namespace });
                lacking -= 1;
            }
        }
        taken
    }
}

/// The sum of the weights of all claims.
fn weights_of(claims: &[NamespaceClaim]) -> u64 {
    claims.iter().map(|claim| u64::from(claim.weight)).sum()
}

/// The places that waiting requests of all namespaces lack of their parts.
fn lacking(claims: &[NamespaceClaim], places_max: u64) -> u64 {
    let weights = weights_of(claims);
    claims.iter().map(|claim| claim.shortage(claim.part(places_max, weights))).sum()
}

impl NamespacePlaces {
    /// Looks whether it has places beyond its part that another lacks, and returns for how long it
    /// has.
    fn look(&mut self, is_beyond: bool, now: Timestamp) -> Duration {
        if !is_beyond || self.places.is_empty() {
            self.beyond = None;
            return Duration::ZERO;
        }
        let since = match self.beyond {
            Some((since, seen)) if now.saturating_since(seen) <= LOOKS_APART_MAX => since,
            _ => now,
        };
        self.beyond = Some((since, now));
        now.saturating_since(since)
    }

    /// How long a place may be unsettled.
    fn expiry(&self, typical: Duration) -> Duration {
        let typical = self.typical().unwrap_or(typical);
        typical.saturating_mul(EXPIRY_TIMES).max(EXPIRY_MIN)
    }

    /// The median of the settled works; `None` without any.
    fn typical(&self) -> Option<Duration> {
        let mut sorted: Vec<_> = self.settled_ms.iter().copied().collect();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).map(|ms| Duration::from_millis(u64::from(*ms)))
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);
    const MS: Duration = Duration::from_millis(1);
    const NOTHING_KNOWN: Duration = Duration::ZERO;

    fn after(span: Duration) -> Timestamp {
        NOW.saturating_add(span)
    }

    fn claim(namespace: u32, places: u64, waiting: u64) -> NamespaceClaim {
        NamespaceClaim { namespace: NamespaceKey::Exact(namespace), places, waiting, weight: 1 }
    }

    /// `count` places of namespace 1, the permits numbered from 0, admitted a nanosecond apart.
    fn places(count: u64) -> UnsettledPlaces {
        let mut places = UnsettledPlaces::default();
        (0..count).for_each(|one| _ = places.add(1, one.into(), after(Duration::from_nanos(one))));
        places
    }

    /// The permits that expire at `now`, of a resource with `max` places.
    fn overdue(
        places: &mut UnsettledPlaces,
        claims: &[NamespaceClaim],
        max: u64,
        typical: Duration,
        now: Timestamp,
    ) -> Vec<u128> {
        let all = places.take_overdue(claims, NamespaceKey::Exact, max, typical, now);
        all.into_iter().map(|one| one.permit).collect()
    }

    #[test]
    fn places_beyond_the_part_expire_after_a_second_the_oldest_first_and_no_more_than_are_lacked() {
        let mut held = places(20);
        let claims = |waiting| [claim(1, 20, 5), claim(2, 0, waiting)];
        let soon = after(1000 * MS).saturating_sub(Duration::from_nanos(1));
        assert!(overdue(&mut held, &claims(3), 20, NOTHING_KNOWN, soon).is_empty());
        assert!(overdue(&mut held, &claims(0), 20, NOTHING_KNOWN, after(5000 * MS)).is_empty());
        assert_eq!(overdue(&mut held, &claims(3), 20, NOTHING_KNOWN, after(1000 * MS)), [0]);
        assert_eq!(overdue(&mut held, &claims(3), 20, NOTHING_KNOWN, after(1001 * MS)), [1, 2, 3]);
        // However many wait, the namespace keeps its own part.
        let claims = [claim(1, 16, 5), claim(2, 4, 100)];
        assert_eq!(overdue(&mut held, &claims, 20, NOTHING_KNOWN, after(1001 * MS)).len(), 6);
        let claims = [claim(1, 10, 5), claim(2, 10, 100)];
        assert!(overdue(&mut held, &claims, 20, NOTHING_KNOWN, after(60_000 * MS)).is_empty());
    }

    #[test]
    fn a_namespace_that_is_alone_or_waits_within_its_part_takes_nothing_from_another() {
        let mut held = places(20);
        let late = after(60_000 * MS);
        assert!(overdue(&mut held, &[claim(1, 20, 9)], 20, NOTHING_KNOWN, late).is_empty());
        let claims = [claim(1, 8, 0), claim(2, 12, 9)];
        assert!(overdue(&mut held, &claims, 20, NOTHING_KNOWN, late).is_empty(), "it has more than its part");
        let weighed = [NamespaceClaim { weight: 3, ..claim(1, 15, 0) }, claim(2, 5, 9)];
        assert!(overdue(&mut held, &weighed, 20, NOTHING_KNOWN, late).is_empty(), "shares say the parts");
    }

    #[test]
    fn one_place_for_two_namespaces_changes_hands() {
        let claims = [claim(1, 1, 0), claim(2, 0, 1)];
        assert_eq!(overdue(&mut places(1), &claims, 1, NOTHING_KNOWN, after(1000 * MS)), [0]);
    }

    #[test]
    fn ten_times_the_typical_time_of_its_own_settled_work_is_its_time_and_else_that_of_the_resource() {
        let claims = [claim(1, 20, 0), claim(2, 0, 1)];
        let mut held = places(20);
        let typical = 200 * MS;
        assert!(overdue(&mut held, &claims, 20, typical, after(1999 * MS)).is_empty());
        assert_eq!(overdue(&mut held, &claims, 20, typical, after(2000 * MS)), [0]);
        // The own work counts, whatever that of others takes, and a few long ones do not move it.
        (0..9).for_each(|_| held.learn(1, 300 * MS, NOW));
        (0..8).for_each(|_| held.learn(1, Duration::from_hours(1), NOW));
        assert!(overdue(&mut held, &claims, 20, typical, after(2999 * MS)).is_empty());
        assert_eq!(overdue(&mut held, &claims, 20, typical, after(3001 * MS)), [1]);
        // The last works count.
        (0..SETTLED_MAX).for_each(|_| held.learn(1, Duration::MAX, NOW));
        assert!(overdue(&mut held, &claims, 20, typical, after(Duration::from_hours(24))).is_empty());
        (0..SETTLED_MAX).for_each(|_| held.learn(1, Duration::ZERO, NOW));
        assert_eq!(overdue(&mut held, &claims, 20, typical, after(1500 * MS)), [2]);
    }

    #[test]
    fn a_namespace_overstays_that_keeps_places_for_a_second_which_another_lacks_all_the_time() {
        let claims = |waiting| [claim(1, 20, 0), claim(2, 0, waiting)];
        let look = |held: &mut UnsettledPlaces, waiting, ms: u32| {
            held.overstays(&claims(waiting), NamespaceKey::Exact, 20, after(ms * MS))
        };
        let mut held = places(20);
        for ms in (0..1000).step_by(100) {
            assert!(look(&mut held, 1, ms).is_empty());
        }
        let overstay = |ms: u32| Overstay { namespace: 1, lasted: ms * MS };
        assert_eq!(look(&mut held, 1, 1000), [overstay(1000)]);
        assert_eq!(look(&mut held, 9, 1250), [overstay(1250)]);
        // It begins anew when no other lacks a place, or after a pause between two looks.
        assert!(look(&mut held, 0, 1300).is_empty() && look(&mut held, 1, 1400).is_empty());
        for ms in [1700, 2000, 2300, 2600] {
            assert!(look(&mut held, 1, ms).is_empty(), "{ms}");
        }
        let mut held = places(1);
        for ms in (0..900).step_by(100) {
            assert!(look(&mut held, 1, ms).is_empty());
        }
        let first = *held.by_namespace[&1].places.first_key_value().unwrap().0;
        held.remove(1, first);
        assert!(look(&mut held, 1, 1000).is_empty());
        held.add(1, 5, after(1000 * MS));
        assert!(look(&mut held, 1, 1100).is_empty());
    }

    #[test]
    fn a_place_that_was_settled_does_not_expire_and_the_times_of_64_namespaces_are_kept() {
        let mut held = places(1);
        let second = held.add(1, 77, NOW);
        held.remove(1, second);
        held.remove(1, second);
        let claims = [claim(1, 2, 0), claim(2, 0, 2)];
        assert_eq!(overdue(&mut held, &claims, 2, NOTHING_KNOWN, after(2000 * MS)), [0]);
        held.add(1, 78, NOW);
        (2..1000).for_each(|namespace| held.learn(namespace, MS, after(namespace * MS)));
        assert_eq!(held.by_namespace.len(), NAMESPACES_MAX);
        assert_eq!(overdue(&mut held, &claims, 2, NOTHING_KNOWN, after(2000 * MS)), [78]);
    }
}
