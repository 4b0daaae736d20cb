//! Which limits have blocked keys, so that the others need not look for blocks.
//!
//! Blocks stand in the table and outlive the gate that set them. So the flag belongs to the limit's
//! identity and is shared by every gate over the table: one that is built while another still
//! decides sees also the blocks set from then on.

use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::HashMap;
use std::sync::Arc;

use crate::sync::{Mutex, lock};

/// How many limits a table keeps a flag for. One more looks for blocks on every request, which is
/// slower and as right.
const FLAGS_MAX: usize = 1 << 16;

#[derive(Debug)]
pub(crate) struct Blocks {
    flags: Mutex<HashMap<u64, Arc<AtomicBool>, ahash::RandomState>>,
    /// Whether any of the flags was ever set: most tables have no block, and no decision looks
    /// further then.
    any: AtomicBool,
}

impl Blocks {
    pub(super) fn new(seed: u64) -> Self {
        let flags = HashMap::with_hasher(ahash::RandomState::with_seeds(seed, 3, 2, 1));
        Self { flags: Mutex::new(flags), any: AtomicBool::new(false) }
    }

    /// Whether any limit ever blocked a key.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        // Relaxed: the caller that orders a later request after a block orders this flag too.
        self.any.load(Ordering::Relaxed)
    }

    /// Says that a limit, whose flag is set already, has blocked a key.
    pub(crate) fn set_any(&self) {
        self.any.store(true, Ordering::Relaxed);
    }

    /// The flag of the limit with this hash of its identity.
    pub(crate) fn of(&self, identity: u64) -> Arc<AtomicBool> {
        let mut flags = lock(&self.flags);
        if flags.len() >= FLAGS_MAX && !flags.contains_key(&identity) {
            // A limit that no gate has any more and that never blocked a key has nothing to
            // remember. Relaxed: who set it before this call is ordered by whatever ordered the
            // calls.
            flags.retain(|_, flag| Arc::strong_count(flag) > 1 || flag.load(Ordering::Relaxed));
            if flags.len() >= FLAGS_MAX {
                self.set_any();
                return Arc::new(AtomicBool::new(true));
            }
        }
        Arc::clone(flags.entry(identity).or_default())
    }
}
