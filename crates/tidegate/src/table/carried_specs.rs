//! The specs of limits that arrive with requests: few however many different numbers arrive.
//!
//! A spec says how to read a state, and most numbers do not matter for that: not the limit of a window, and not the burst or,
//! as far as it does not change the clock, the rate of a bucket. What is left is bounded, since it is chosen by
//! whoever sends requests.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use super::specs::{Owner, Spec, SpecId, SpecPin, Specs};

/// Specs of limits that arrived with requests, found without a lock that excludes other readers.
pub(crate) struct CarriedSpecs {
    /// Pinned for as long as the table: there are at most [`CarriedSpecs::MAX`], and the next request may bring any of them.
    known: RwLock<HashMap<Spec, SpecPin, ahash::RandomState>>,
}

impl CarriedSpecs {
    /// The most that are told apart. Above it a new window is refused.
    pub(crate) const MAX: usize = 1 << 16;
    /// How many there may be when a bucket still gets a clock of its own. Above it, the clock that all rates can share: so
    /// that many rates leave room for windows.
    pub(crate) const WITH_OWN_CLOCK_MAX: usize = Self::MAX - 4096;

    pub(super) fn new(seed: u64) -> Self {
        let hasher = ahash::RandomState::with_seeds(seed, 4, 5, 6);
        Self { known: RwLock::new(HashMap::with_hasher(hasher)) }
    }

    /// The number of `spec` among `specs`; `None` if it has none and there are `max` others.
    pub(crate) fn find(&self, specs: &Specs, spec: Spec, max: usize) -> Option<SpecId> {
        // Every change is one insertion, so a panic elsewhere leaves the map whole.
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(pin) = known.get(&spec) {
            return Some(pin.id());
        }
        drop(known);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= max && !known.contains_key(&spec) {
            return None;
        }
        let pin = specs.intern(spec.clone(), Owner::Policy)?;
        let id = pin.id();
        // One that another thread has brought meanwhile is the same one.
        known.insert(spec, pin);
        Some(id)
    }
}
