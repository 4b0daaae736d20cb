//! The specs of limits that arrive with requests: few however many different numbers arrive.
//!
//! A spec says how to read a state, and most numbers do not matter for that: not the limit of a
//! window, and not the burst or, as far as it does not change the clock, the rate of a bucket. The
//! numbers that do matter are chosen by clients, so the count of such specs is bounded.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use super::specs::{Spec, SpecId, SpecOwner, SpecPin, Specs};
use crate::shares::{Owner, Shares};

/// Specs of limits that arrived with requests, found without a lock that excludes other readers.
pub(crate) struct CarriedSpecs {
    /// Pinned for as long as the table: there are at most [`CarriedSpecs::MAX`], and the next
    /// request may bring any of them.
    known: RwLock<HashMap<(Owner, Spec), SpecPin, ahash::RandomState>>,
    pub(super) shares: Shares,
}

impl CarriedSpecs {
    /// The most such specs, in [shares](Shares) for each namespace. Above it a new window
    /// is refused.
    pub(crate) const MAX: usize = 1 << 16;
    /// How many there may be when a bucket still gets a clock of its own. Above it, the clock that
    /// all rates can share: so that many rates leave room for windows.
    pub(crate) const WITH_OWN_CLOCK_MAX: usize = Self::MAX - 4096;

    pub(super) fn new(seed: u64) -> Self {
        let hasher = ahash::RandomState::with_seeds(seed, 4, 5, 6);
        Self { known: RwLock::new(HashMap::with_hasher(hasher)), shares: Shares::new(Self::MAX as u64) }
    }

    /// The number of `spec` of `owner` among `specs`; `None` if it has none and there are `max`
    /// others, or its owner has its share of them. The clock that all rates can share is found with
    /// a `max` of [`usize::MAX`], beyond any share.
    pub(crate) fn find(&self, specs: &Specs, owner: Owner, spec: Spec, max: usize) -> Option<SpecId> {
        let spec = (owner, spec);
        // Every change is one insertion, so a panic elsewhere leaves the map whole.
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(pin) = known.get(&spec) {
            return Some(pin.id());
        }
        drop(known);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(pin) = known.get(&spec) {
            return Some(pin.id());
        }
        if max == usize::MAX {
            self.shares.take_anyway(owner, 1);
        } else if known.len() >= max || !self.shares.take(owner, 1) {
            return None;
        }
        let pin = specs.intern(spec.1.clone(), SpecOwner::policy(owner))?;
        let id = pin.id();
        known.insert(spec, pin);
        Some(id)
    }
}
