//! The state of a pass that frees the numbers of retired specs; see [`super::reclamation`].

use std::collections::HashMap;
use std::sync::Arc;

use super::specs::{RegisteredSpec, SpecOwner, SpecPin, Specs};
use crate::sync::Mutex;

/// The pass that is running, if one is.
#[derive(Debug, Default)]
pub(super) struct Reclaimer(pub(super) Mutex<Option<ReclamationPass>>);

#[derive(Debug)]
pub(super) struct ReclamationPass {
    /// The retired specs by number.
    pub(super) retired: HashMap<u32, RetiredSpec, ahash::RandomState>,
    /// The specs that keep their states, by the number of the retired spec. The pins last until the
    /// pass ends.
    pub(super) at_rest: HashMap<u32, SpecPin, ahash::RandomState>,
    /// The next word to read.
    pub(super) next: usize,
}

#[derive(Debug)]
pub(super) struct RetiredSpec {
    pub(super) registered: Arc<RegisteredSpec>,
    /// The value of [`RegisteredSpec::unpinned`] when the pass began.
    pub(super) seen: u64,
    /// Whether a word still carries the number.
    pub(super) is_in_use: bool,
}

impl ReclamationPass {
    pub(super) fn new(retired: Vec<Arc<RegisteredSpec>>, seed: u64) -> Self {
        let hasher = || ahash::RandomState::with_seeds(seed, 7, 8, 9);
        let mut by_number = HashMap::with_capacity_and_hasher(retired.len(), hasher());
        for registered in retired {
            if let Some(seen) = registered.unpinned() {
                let number = registered.number().get();
                by_number.insert(number, RetiredSpec { registered, seen, is_in_use: false });
            }
        }
        Self { retired: by_number, at_rest: HashMap::with_hasher(hasher()), next: 0 }
    }
}

/// The spec that keeps the states of a retired one; `None` if it is that spec itself, or has no
/// number.
pub(super) fn spec_at_rest<'p>(
    known: &'p mut HashMap<u32, SpecPin, ahash::RandomState>,
    specs: &Specs,
    retired: &RegisteredSpec,
    number: u32,
) -> Option<&'p SpecPin> {
    use std::collections::hash_map::Entry::{Occupied, Vacant};
    match known.entry(number) {
        Occupied(known) => Some(known.into_mut()),
        Vacant(missing) => {
            let pin = specs.intern(retired.spec().at_rest()?, SpecOwner::policy(retired.namespace()))?;
            Some(missing.insert(pin))
        }
    }
}
