//! The usage that a state stands for, when it has drained, and the rings and permits behind the
//! words whose state is a handle.

use super::KeyTable;
use super::specs::Spec;
use crate::algorithm::{Algorithm, Counter, State};
use crate::permits::PermitsHandle;
use crate::ring::RingHandle;
use crate::time::Timestamp;

impl KeyTable {
    /// Whether `state`, read by `spec`, has the same future as an absent key.
    pub(super) fn is_state_drained(&self, spec: &Spec, state: State, now: Timestamp) -> bool {
        match spec {
            Spec::BlockedUntil { .. } => state.to_bits() <= now.as_nanos(),
            Spec::Bucket(clock) => state.to_bits() <= clock.level(now),
            Spec::Algorithm(Algorithm::Rolling(_)) => match RingHandle::from_bits(state.to_bits()) {
                Some(ring) => self.rings.is_drained(ring, now),
                None => true,
            },
            Spec::Algorithm(Algorithm::Concurrency(_)) => match PermitsHandle::from_bits(state.to_bits()) {
                Some(permits) => self.permits.is_drained(permits, now),
                None => true,
            },
            Spec::Algorithm(Algorithm::Bucket(counter)) => counter.is_drained(state, now),
            Spec::Algorithm(Algorithm::Fixed(counter)) => counter.is_drained(state, now),
            #[cfg(feature = "calendar")]
            Spec::Algorithm(Algorithm::Calendar(counter)) => counter.is_drained(state, now),
            Spec::Algorithm(Algorithm::SlidingCounter(counter)) => counter.is_drained(state, now),
        }
    }

    /// The instant at which `state`, read by `spec`, has drained; `now` if it has already.
    pub(super) fn state_drains_at(&self, spec: &Spec, state: State, now: Timestamp) -> Timestamp {
        match spec {
            Spec::BlockedUntil { .. } => Timestamp::from_nanos(state.to_bits()).max(now),
            Spec::Bucket(clock) => clock.instant(state.to_bits()).max(now),
            Spec::Algorithm(algorithm) => self.state_resets_at(algorithm, state, now),
        }
    }

    /// Units used of a state under an algorithm.
    pub(crate) fn state_used(&self, algorithm: &Algorithm, state: State, now: Timestamp) -> u64 {
        match algorithm {
            Algorithm::Rolling(rolling) => RingHandle::from_bits(state.to_bits())
                .and_then(|ring| self.rings.used(ring, rolling, now))
                .unwrap_or(0),
            Algorithm::Concurrency(_) => PermitsHandle::from_bits(state.to_bits())
                .and_then(|permits| self.permits.held(permits, now))
                .unwrap_or(0),
            Algorithm::Bucket(counter) => counter.used(state, now),
            Algorithm::Fixed(counter) => counter.used(state, now),
            #[cfg(feature = "calendar")]
            Algorithm::Calendar(counter) => counter.used(state, now),
            Algorithm::SlidingCounter(counter) => counter.used(state, now),
        }
    }

    /// Units left of a state under an algorithm.
    pub(crate) fn state_remaining(&self, algorithm: &Algorithm, state: State, now: Timestamp) -> u64 {
        algorithm.limit().saturating_sub(self.state_used(algorithm, state, now))
    }

    /// When nothing of a state is used any more.
    pub(crate) fn state_resets_at(&self, algorithm: &Algorithm, state: State, now: Timestamp) -> Timestamp {
        match algorithm {
            Algorithm::Rolling(rolling) => RingHandle::from_bits(state.to_bits())
                .and_then(|ring| self.rings.reset_at(ring, rolling, now))
                .unwrap_or(now),
            Algorithm::Concurrency(_) => PermitsHandle::from_bits(state.to_bits())
                .and_then(|permits| self.permits.reset_at(permits, now))
                .unwrap_or(now),
            Algorithm::Bucket(counter) => counter.reset_at(state, now),
            Algorithm::Fixed(counter) => counter.reset_at(state, now),
            #[cfg(feature = "calendar")]
            Algorithm::Calendar(counter) => counter.reset_at(state, now),
            Algorithm::SlidingCounter(counter) => counter.reset_at(state, now),
        }
    }

    /// Frees the ring or permits behind a drained handle; `false` if they are in use again.
    pub(super) fn release_backing_of(&self, spec: &Spec, state: State, now: Timestamp) -> bool {
        match spec {
            Spec::Algorithm(Algorithm::Rolling(_)) => RingHandle::from_bits(state.to_bits())
                .is_none_or(|ring| self.rings.reclaim_if_drained(ring, now)),
            Spec::Algorithm(Algorithm::Concurrency(_)) => PermitsHandle::from_bits(state.to_bits())
                .is_none_or(|permits| self.permits.reclaim_if_drained(permits, now)),
            _ => true,
        }
    }

    /// Frees the ring or permits behind a handle, in use or not.
    pub(super) fn reclaim_backing_of(&self, spec: &Spec, state: State) {
        match spec {
            Spec::Algorithm(Algorithm::Rolling(_)) => {
                if let Some(ring) = RingHandle::from_bits(state.to_bits()) {
                    self.rings.reclaim(ring);
                }
            }
            Spec::Algorithm(Algorithm::Concurrency(_)) => {
                if let Some(permits) = PermitsHandle::from_bits(state.to_bits()) {
                    self.permits.reclaim(permits);
                }
            }
            _ => {}
        }
    }
}
