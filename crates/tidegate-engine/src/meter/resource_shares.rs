//! Whose work a resource did since somebody asked last.

use core::time::Duration;
use std::collections::BTreeMap;

use tidegate_core::{Class, RequestOutcome};

use super::row_columns::{RowAmount, RowColumns};
use super::usage::RowName;

/// The most combinations of a feature, a namespace and a class that are told apart between two
/// looks; all further ones count as [`RowName::Other`].
const SHARES_MAX: usize = 4096;

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
    /// How long admitted requests were in flight, where the end of their work is known.
    pub place_time: Duration,
    /// Units at admission.
    pub units: u64,
    /// Requests that were decided.
    pub decided: u64,
    /// Of these, requests that were refused: denied, throttled, shed, expired or unavailable.
    pub refused: u64,
}

/// The shares of one resource since the last look; they begin with the first one.
#[derive(Debug, Default)]
pub(crate) struct ResourceShares(Option<BTreeMap<(RowName, RowName, Class), RowColumns>>);

impl ResourceShares {
    pub(crate) fn add(
        &mut self,
        (feature, namespace): (&RowName, &RowName),
        class: Class,
        more: &RowColumns,
    ) {
        let Some(shares) = &mut self.0 else { return };
        let key = (feature.clone(), namespace.clone(), class);
        let is_full = shares.len() >= SHARES_MAX && !shares.contains_key(&key);
        let key = if is_full { (RowName::Other, RowName::Other, class) } else { key };
        shares.entry(key).or_default().add(more);
    }

    pub(crate) fn take(&mut self) -> Vec<ResourceShare> {
        let taken = self.0.replace(BTreeMap::new()).unwrap_or_default();
        taken
            .into_iter()
            .map(|((feature, namespace, class), columns)| share(feature, namespace, class, &columns))
            .collect()
    }
}

fn share(feature: RowName, namespace: RowName, class: Class, columns: &RowColumns) -> ResourceShare {
    // An admission of before that is undone makes a part negative.
    let sum = |outcomes: &[RequestOutcome]| {
        let counts = outcomes.iter().map(|outcome| columns.counts[outcome.index()]);
        counts.fold(0_u64, u64::wrapping_add).cast_signed().max(0).cast_unsigned()
    };
    let refused = sum(&[
        RequestOutcome::Denied,
        RequestOutcome::Throttled,
        RequestOutcome::Shed,
        RequestOutcome::Expired,
        RequestOutcome::Unavailable,
    ]);
    ResourceShare {
        feature,
        namespace,
        class,
        place_time: Duration::from_nanos(columns.amount(RowAmount::PlaceTime)),
        units: columns.amount(RowAmount::Units),
        decided: sum(&RequestOutcome::ALL),
        refused,
    }
}
