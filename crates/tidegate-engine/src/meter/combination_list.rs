//! All combinations of rows of a meter, for its readers.

use core::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use super::in_flight_sum::ShareLook;
use super::row_combination::RowCombination;
use super::thread_cache::CACHED_MAX;
use crate::sync::lock_plain;

/// The parts of the list, each with its own lock; a thread adds to one. A power of two.
const PARTS: usize = 16;

/// The combinations that caches and requests have, of all threads.
#[derive(Debug, Default)]
pub(crate) struct CombinationList {
    parts: [ListPart; PARTS],
}

/// Aligned, so that threads share no cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct ListPart(Mutex<PartEntries>);

#[derive(Debug, Default)]
struct PartEntries {
    all: Vec<Weak<RowCombination>>,
    /// The length from which on those that have ended are taken out.
    full_at: usize,
}

impl CombinationList {
    /// Adds a combination of this thread.
    pub(crate) fn add(&self, combination: &Arc<RowCombination>) {
        let mut part = lock_plain(&self.parts[thread_number() % PARTS].0);
        if part.all.len() >= part.full_at {
            part.all.retain(|entry| entry.strong_count() > 0);
            // Those that have ended take memory until then.
            part.full_at = part.all.len().max(CACHED_MAX) * 5 / 4;
        }
        part.all.push(Arc::downgrade(combination));
    }

    /// Lets the rows have all that was counted so far.
    pub(crate) fn flush(&self) {
        self.each_live(RowCombination::flush);
    }

    /// The same, and lets the shares of resources have the requests that are in flight.
    pub(crate) fn flush_at(&self, look: &ShareLook) {
        self.each_live(|combination| {
            combination.flush();
            combination.show_in_flight(look);
        });
    }

    /// Those with a tenant's row come first: they add to those without.
    fn each_live(&self, act: impl Fn(&RowCombination)) {
        let parts = self.parts.iter();
        let live = parts.flat_map(|part| {
            let part = lock_plain(&part.0);
            part.all.iter().filter_map(Weak::upgrade).collect::<Vec<_>>()
        });
        let (tenants, base): (Vec<_>, Vec<_>) = live.partition(|combination| combination.has_tenant());
        tenants.iter().chain(&base).for_each(|combination| act(combination));
    }

    /// The bytes of the list and of the combinations, some of which may have ended.
    pub(crate) fn bytes(&self) -> usize {
        let of_part = |part: &ListPart| {
            let entries = lock_plain(&part.0);
            entries.all.len() * (size_of::<RowCombination>() + 2 * size_of::<usize>())
                + entries.all.capacity() * size_of::<Weak<RowCombination>>()
        };
        size_of::<Self>() + self.parts.iter().map(of_part).sum::<usize>()
    }
}

/// The number of this thread among all that have counted.
fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: Cell<Option<usize>> = const { Cell::new(None) };
    }
    NUMBER.get().unwrap_or_else(|| {
        // Relaxed: a number, ordered with nothing. It never comes near its end.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        NUMBER.set(Some(number));
        number
    })
}
