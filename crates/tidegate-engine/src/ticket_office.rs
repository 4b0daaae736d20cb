//! The keys of tickets that are in force, and the counts of the tickets that counted for nothing.

use std::sync::Arc;

use crate::sync::{AtomicU64, Mutex, Ordering, lock};
use crate::ticket::{TicketFault, TicketKeys};

/// The keys and counts of all tickets of an engine, which reloads keep. The calendars belong to the
/// resources.
#[derive(Debug, Default)]
pub(crate) struct TicketOffice {
    /// `None`: no tickets are sold, and none counts.
    keys: Mutex<Option<Arc<TicketKeys>>>,
    /// The tickets that counted for nothing, by the fault. Relaxed: numbers for people.
    faults: [AtomicU64; TicketFault::ALL.len()],
}

impl TicketOffice {
    pub(crate) fn set_keys(&self, keys: Option<TicketKeys>) {
        *lock(&self.keys) = keys.map(Arc::new);
    }

    /// Puts keys in the place of those in force, of which [`TicketKeys::rotated_from`] says which
    /// one stays valid.
    pub(crate) fn rotate_keys(&self, keys: TicketKeys) {
        let mut current = lock(&self.keys);
        *current = Some(Arc::new(match &*current {
            Some(before) => keys.rotated_from(before),
            None => keys,
        }));
    }

    /// Whether there are keys: without them no tickets are sold.
    pub(crate) fn has_keys(&self) -> bool {
        lock(&self.keys).is_some()
    }

    pub(crate) fn keys(&self) -> Option<Arc<TicketKeys>> {
        lock(&self.keys).clone()
    }

    pub(crate) fn count_fault(&self, fault: TicketFault) {
        self.faults[fault as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The tickets that counted for nothing since the start, by the fault.
    pub(crate) fn faults(&self) -> [(TicketFault, u64); TicketFault::ALL.len()] {
        TicketFault::ALL.map(|fault| (fault, self.faults[fault as usize].load(Ordering::Relaxed)))
    }
}
