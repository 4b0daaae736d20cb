//! The work of a resource between two looks, by the feature, namespace and class it came from.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_core::{Class, RequestOutcome};

use super::in_flight_sum::{InFlightWork, ShareLook};
use super::row_columns::{RowAmount, RowColumns};
use super::usage::RowName;

/// The most combinations of a feature, a namespace and a class that are told apart between two
/// looks; all further ones count as [`RowName::Other`].
const SHARES_MAX: usize = 4096;

/// The memory of one combination: nodes of the map are at least half full.
const SHARE_BYTES: usize = 2 * size_of::<(ShareKey, ShareEntry)>();

/// The work of a resource since the last look.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourceWork {
    /// The name of the resource.
    pub resource: Arc<str>,
    /// Its work, by feature, namespace and class.
    pub shares: Vec<ResourceShare>,
    /// The bytes that were taken to count it, at most 2.5 MiB.
    pub bytes: usize,
}

/// A part of the work of a resource: the requests of a feature, a class and a namespace that were
/// counted since the last look.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourceShare {
    /// The feature.
    pub feature: RowName,
    /// The namespace.
    pub namespace: RowName,
    /// The class.
    pub class: Class,
    /// How long admitted requests were in flight between the two looks, those that still are too.
    /// Zero where the end of no work is known.
    pub place_time: Duration,
    /// Units at admission.
    pub units: u64,
    /// Units of refused requests.
    pub refused_units: u64,
}

type ShareKey = (RowName, RowName, Class);

/// The shares of one resource since the last look; nothing before they have begun.
#[derive(Debug, Default)]
pub(crate) struct ResourceShares(Option<BTreeMap<ShareKey, ShareEntry>>);

#[derive(Debug, Default)]
struct ShareEntry {
    counted: RowColumns,
    /// In flight at the last look, with their ages then.
    before: (u64, i128),
    /// In flight at this look.
    seen: InFlightWork,
}

impl ResourceShares {
    /// Begins to count, if it has not begun.
    pub(crate) fn begin(&mut self) {
        self.0.get_or_insert_default();
    }

    pub(crate) fn add(&mut self, of: (&RowName, &RowName), class: Class, more: &RowColumns) {
        if let Some(entry) = self.entry(of, class) {
            entry.counted.add(more);
        }
    }

    pub(crate) fn add_in_flight(&mut self, of: (&RowName, &RowName), class: Class, seen: InFlightWork) {
        if let Some(entry) = self.entry(of, class) {
            entry.seen.add(&seen);
        }
    }

    /// Ends the span, and begins the next one with the requests that are in flight; the bytes that
    /// were taken as well.
    pub(crate) fn take(&mut self, look: &ShareLook) -> (Vec<ResourceShare>, usize) {
        let bytes = self.bytes();
        let Some(shares) = &mut self.0 else { return (Vec::new(), bytes) };
        let length = look.end.until.saturating_since(look.from);
        let taken = shares
            .iter()
            .map(|((feature, namespace, class), entry)| ResourceShare {
                feature: feature.clone(),
                namespace: namespace.clone(),
                class: *class,
                place_time: entry.place_time(length),
                units: entry.counted.amount(RowAmount::Units),
                refused_units: entry.counted.amount(RowAmount::RefusedUnits),
            })
            .collect();
        shares.retain(|_, entry| {
            let InFlightWork { requests, next_age_ns, .. } = entry.seen;
            *entry = ShareEntry { before: (requests, next_age_ns), ..ShareEntry::default() };
            requests > 0
        });
        (taken, bytes)
    }

    /// The memory of what is counted.
    pub(crate) fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |shares| shares.len() * SHARE_BYTES)
    }

    fn entry(&mut self, (feature, namespace): (&RowName, &RowName), class: Class) -> Option<&mut ShareEntry> {
        let shares = self.0.as_mut()?;
        let key = (feature.clone(), namespace.clone(), class);
        let is_full = shares.len() >= SHARES_MAX && !shares.contains_key(&key);
        let key = if is_full { (RowName::Other, RowName::Other, class) } else { key };
        Some(shares.entry(key).or_default())
    }
}

impl ShareEntry {
    /// The time in flight within a span of this length: of requests that have ended, without their
    /// time before the span, and of those in flight. However the clock was set, none was in flight
    /// for longer than the span.
    fn place_time(&self, length: Duration) -> Duration {
        let ended = i128::from(self.counted.amount(RowAmount::PlaceTime));
        let (requests_before, age_before) = self.before;
        let place_ns = ended + self.seen.age_ns + self.seen.unserved_ns - age_before;
        let begun = [RequestOutcome::Admitted, RequestOutcome::Cancelled]
            .into_iter()
            // An admission of before that is undone makes a part negative.
            .fold(0_u64, |sum, outcome| sum.wrapping_add(self.counted.counts[outcome.index()]))
            .cast_signed()
            .max(0);
        let requests = i128::from(requests_before) + i128::from(begun);
        let most_ns = requests.saturating_mul(i128::try_from(length.as_nanos()).unwrap_or(i128::MAX));
        Duration::from_nanos(u64::try_from(place_ns.clamp(0, most_ns)).unwrap_or(u64::MAX))
    }
}
