//! The specs of the shares by which a member decides alone, kept in use as long as their gate.

use std::sync::OnceLock;

use crate::algorithm::Algorithm;
use crate::sync::{AtomicUsize, Ordering};
use crate::table::{SpecId, SpecPin};

/// Lists in which shares are found by their spec.
const LISTS: usize = 64;

/// Shares that were asked for, found by their spec without a lock. Nothing is taken out, so a share
/// lends its algorithm as long as the gate is there.
#[derive(Debug)]
pub(crate) struct AloneSpecs {
    lists: [OnceLock<Box<AloneSpec>>; LISTS],
    kept: AtomicUsize,
}

#[derive(Debug)]
struct AloneSpec {
    pin: SpecPin,
    next: OnceLock<Box<AloneSpec>>,
}

impl Default for AloneSpecs {
    fn default() -> Self {
        Self { lists: [const { OnceLock::new() }; LISTS], kept: AtomicUsize::new(0) }
    }
}

impl AloneSpecs {
    /// The most shares of a gate. Beyond it, a member that decides alone counts by the undivided
    /// numbers.
    const MAX: usize = 1 << 14;

    /// Keeps the share with this pin; `false` if there are too many.
    pub(super) fn keep(&self, pin: SpecPin) -> bool {
        let spec = pin.id();
        // Relaxed: threads that come at once may each add one above the bound.
        if self.kept.load(Ordering::Relaxed) >= Self::MAX {
            return self.find(spec).is_some();
        }
        let mut share = Box::new(AloneSpec { pin, next: OnceLock::new() });
        let mut at = self.list(spec);
        loop {
            match at.get() {
                Some(known) if known.pin.id() == spec => return true,
                Some(known) => at = &known.next,
                None => match at.set(share) {
                    Ok(()) => {
                        self.kept.fetch_add(1, Ordering::Relaxed);
                        return true;
                    }
                    // Another thread was first: it has put the same share here, or the list
                    // continues behind it.
                    Err(own) => share = own,
                },
            }
        }
    }

    /// The algorithm of the share with this spec.
    pub(super) fn find(&self, spec: SpecId) -> Option<&Algorithm> {
        let mut at = self.list(spec).get();
        while let Some(share) = at {
            if share.pin.id() == spec {
                return share.pin.algorithm();
            }
            at = share.next.get();
        }
        None
    }

    fn list(&self, spec: SpecId) -> &OnceLock<Box<AloneSpec>> {
        &self.lists[spec.get() as usize % LISTS]
    }
}
