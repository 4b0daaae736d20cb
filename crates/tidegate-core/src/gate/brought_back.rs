//! Counters of a program whose clock went ahead and came back.
//!
//! A refusal that tells to wait for longer than its limit can ask for is the sign of it. The usage
//! of the counter is then brought back, as
//! [`Counter::brought_back`](crate::algorithm::Counter::brought_back) says, in a write of its own,
//! and decided anew. So the waits that are told afterwards are kept, and a decision that admits
//! looks for nothing.

use super::charge::with_counter;
use super::lateness::{LATE_MAX, longest_wait};
use super::probe::Probe;
use crate::algorithm::{Algorithm, Counter};
use crate::cost::Cost;
use crate::permits::PermitsHandle;
use crate::ring::RingHandle;
use crate::table::{KeyTable, Unwritten};
use crate::time::Timestamp;

impl KeyTable {
    /// A refused probe whose counter is brought back and decided anew, if it is further ahead than
    /// its limit could have written by now; `until` is the end of the wait it told.
    #[cold]
    pub(super) fn bring_back_if_longer<'g>(
        &self,
        mut probe: Probe<'g>,
        until: Timestamp,
        cost: Cost,
        now: Timestamp,
    ) -> Probe<'g> {
        let longest = longest_wait(probe.algorithm).saturating_add(LATE_MAX);
        if until > now.saturating_add(longest) && self.bring_back(&mut probe, now) {
            self.answer(&mut probe, cost, now);
        }
        probe
    }

    /// Whether the counter of a probe was ahead, and is not now.
    fn bring_back(&self, probe: &mut Probe<'_>, now: Timestamp) -> bool {
        match probe.algorithm {
            Algorithm::Rolling(rolling) => {
                let ring = RingHandle::from_bits(self.state(probe, now).to_bits());
                return ring.is_some_and(|ring| self.rings.bring_back(ring, rolling, now));
            }
            Algorithm::Concurrency(concurrency) => {
                let permits = PermitsHandle::from_bits(self.state(probe, now).to_bits());
                return permits.is_some_and(|permits| self.permits.bring_back(permits, concurrency, now));
            }
            _ => {}
        }
        loop {
            let state = self.state(probe, now);
            // A word does not say when it was written; none was later.
            let charged_at = self.written_at();
            let back = with_counter!(
                probe.algorithm,
                counter => counter.brought_back(state, charged_at, now),
                return false
            );
            if back == state {
                return false;
            }
            match self.write(probe.key, probe.entry, probe.spec.number(), back, now) {
                Ok(entry) => {
                    probe.entry = entry;
                    return true;
                }
                // Another thread wrote this word; it may have brought it back itself.
                Err(Unwritten::Moved) => probe.entry = self.look(probe.key),
                // The key is in the table.
                Err(Unwritten::Full { .. }) => return false,
            }
        }
    }
}
