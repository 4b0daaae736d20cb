//! The epochs that a member has seen: one marker for each place, the losses that markers record,
//! and what is acknowledged.
//!
//! The markers in the store decide, not the member: a member that starts after a loss finds the
//! loss in the marker, and one acknowledgement reaches every member with its next call. On a single
//! server the acknowledgement clears the flag of the one marker. In a cluster each slot has a
//! marker of its own; the marker of the slot with the notes, the *home*, remembers up to which
//! instant losses are acknowledged, and members apply that to the markers of all other slots.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_core::Timestamp;
use tidegate_store::Loss;

use crate::marker::Marker;
use crate::names::{Place, note_slot};

/// The name of the epoch that a loss ended, at a member that did not see that epoch.
const UNSEEN: &str = "an earlier one";

#[derive(Debug)]
pub(crate) struct Epochs {
    /// The id to write where there is no marker. Another one each time, so that other members
    /// notice a loss too.
    fresh: u128,
    seen: HashMap<Place, Arc<Marker>>,
    /// Losses that are not acknowledged, by the place of the marker that records them.
    losses: HashMap<Place, Loss>,
    /// Losses that began at this instant or before it are acknowledged, in microseconds.
    acknowledged_us: u64,
    /// Places whose marker has a higher lease protocol than this member, and that protocol.
    newer: HashMap<Place, u32>,
}

/// The part of a call that is about the epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EpochSetting {
    /// The marker seen before, if any.
    pub(crate) seen: Option<Arc<Marker>>,
    /// The marker to write where it is absent, or its id alone where its epoch begins now.
    pub(crate) fresh: Vec<u8>,
    pub(crate) acknowledged_us: u64,
    /// Whether the marker is to take the acknowledgement in.
    pub(crate) acknowledges: bool,
    /// Whether it is the marker that all members read acknowledgements from.
    pub(crate) remembers: bool,
}

/// The place whose marker remembers acknowledgements.
pub(crate) fn home(is_cluster: bool) -> Place {
    if is_cluster { Place::Slot(note_slot()) } else { Place::Server }
}

fn remembers(place: Place) -> bool {
    place == Place::Server || place == home(true)
}

impl Epochs {
    /// Nothing seen yet; `fresh` is drawn at random.
    pub(crate) fn new(fresh: u128) -> Self {
        Self {
            fresh,
            seen: HashMap::new(),
            losses: HashMap::new(),
            acknowledged_us: 0,
            newer: HashMap::new(),
        }
    }

    pub(crate) fn has_seen(&self, place: Place) -> bool {
        self.seen.contains_key(&place)
    }

    /// The setting of the next call at `place`.
    pub(crate) fn setting(&self, place: Place) -> EpochSetting {
        let seen = self.seen.get(&place).cloned();
        let remembers = remembers(place);
        let acknowledges = seen.as_ref().is_some_and(|marker| {
            let ends_loss = marker.is_after_loss && marker.began_us <= self.acknowledged_us;
            ends_loss || (remembers && marker.acknowledged_us < self.acknowledged_us)
        });
        EpochSetting {
            seen,
            fresh: self.fresh_at(place),
            acknowledged_us: self.acknowledged_us,
            acknowledges,
            remembers,
        }
    }

    /// The marker to write where it is absent: an id, and in a slot of a cluster the epoch of the
    /// home.
    fn fresh_at(&self, place: Place) -> Vec<u8> {
        let mut fresh = format!("{:032x}", self.fresh);
        if let Some(known) = self.seen.get(&home(true)).filter(|_| !remembers(place)) {
            fresh.push_str(&known.epoch());
        }
        fresh.into_bytes()
    }

    /// Takes note of the marker found at `place` by a call that expected `seen`: the same life of
    /// the store, or the first one that this member sees there.
    pub(crate) fn meet(&mut self, place: Place, seen: Option<&Marker>, found: &[u8]) {
        self.newer.remove(&place);
        if seen.is_some_and(|seen| seen.bytes == found) {
            return;
        }
        if seen.is_none() {
            self.fresh = self.fresh.wrapping_add(1);
        }
        let found = Marker::read(found);
        // Calls that were under way together may be answered in any order.
        if self.seen.get(&place).is_none_or(|known| found.replaces(known)) {
            self.take_over(place, found, UNSEEN);
        }
    }

    /// Takes note of a loss that a call found which expected `seen`: `found` was there, and
    /// `marker` is now. Whether it is the first call to find this loss.
    pub(crate) fn lose(&mut self, place: Place, seen: Option<&Marker>, found: &[u8], marker: &[u8]) -> bool {
        let expected = seen.map_or(UNSEEN, |seen| &seen.id);
        // Several calls may find the same loss.
        if self.seen.get(&place).is_some_and(|known| Some(&known.id) != seen.map(|seen| &seen.id)) {
            return false;
        }
        self.fresh = self.fresh.wrapping_add(1);
        self.take_over(place, Marker::read(marker), expected);
        if let Some(loss) = self.losses.get_mut(&place) {
            loss.found = Marker::read(found).id;
        }
        true
    }

    /// Another member has raised the lease protocol at `place`.
    pub(crate) fn meet_newer(&mut self, place: Place, protocol: u32) {
        self.newer.insert(place, protocol);
    }

    /// The lease protocol of a place whose marker has a higher one than this member; `None` if no
    /// place is known to.
    pub(crate) fn newer_protocol(&self) -> Option<u32> {
        self.newer.values().copied().max()
    }

    fn take_over(&mut self, place: Place, marker: Marker, expected: &str) {
        if remembers(place) {
            self.acknowledge_until(marker.acknowledged_us);
        }
        if marker.is_after_loss && marker.began_us > self.acknowledged_us {
            let slot = match place {
                Place::Server => None,
                Place::Slot(slot) => Some(slot),
            };
            let (expected, found, began) = (expected.to_owned(), marker.id.clone(), marker.began());
            let loss = Loss { slot, expected, found, began };
            match self.losses.get_mut(&place) {
                Some(known) if known.began == began => {}
                _ => drop(self.losses.insert(place, loss)),
            }
        } else {
            self.losses.remove(&place);
        }
        self.seen.insert(place, Arc::new(marker));
    }

    fn acknowledge_until(&mut self, until_us: u64) {
        if until_us > self.acknowledged_us {
            self.acknowledged_us = until_us;
            let until = Timestamp::from_nanos(until_us.saturating_mul(1000));
            self.losses.retain(|_, loss| loss.began > until);
        }
    }

    /// Acknowledges all losses that are known here, and those that began before `now` elsewhere;
    /// one of them.
    pub(crate) fn acknowledge(&mut self, now: Timestamp) -> Option<Loss> {
        let loss = self.loss();
        let known = self.losses.values().map(|loss| loss.began.as_nanos() / 1000).max();
        self.acknowledge_until(known.unwrap_or(0).max(now.as_nanos() / 1000));
        loss
    }

    /// A loss that is not acknowledged: the one that began first.
    pub(crate) fn loss(&self) -> Option<Loss> {
        self.losses.values().min_by_key(|loss| (loss.began, loss.slot)).cloned()
    }

    /// The loss at `place`, if that is not acknowledged.
    pub(crate) fn loss_at(&self, place: Place) -> Option<Loss> {
        // Mostly empty, and then nothing is hashed.
        if self.losses.is_empty() { None } else { self.losses.get(&place).cloned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT: Place = Place::Slot(7);

    fn seconds(seconds: u64) -> Timestamp {
        Timestamp::from_secs(seconds)
    }

    #[test]
    fn a_member_that_starts_after_a_loss_finds_the_loss_in_the_marker() {
        let mut epochs = Epochs::new(1);
        epochs.meet(Place::Server, None, b"new.18.18000000.1.2");
        let loss = epochs.loss_at(Place::Server).unwrap();
        assert_eq!((loss.expected.as_str(), loss.found.as_str(), loss.began), (UNSEEN, "new", seconds(18)));
        let seen = epochs.setting(Place::Server).seen;
        epochs.meet(Place::Server, seen.as_deref(), b"new.18.18000000.0.2.19000000");
        assert_eq!((epochs.loss(), epochs.setting(Place::Server).acknowledges), (None, false));
    }

    #[test]
    fn an_acknowledgement_that_the_home_remembers_counts_in_every_slot_for_losses_before_it() {
        let mut epochs = Epochs::new(1);
        let home = home(true);
        epochs.meet(home, None, b"home.10.10000000.0.2");
        epochs.meet(SLOT, None, b"slot.18.18000000.1.2");
        assert!(epochs.loss_at(SLOT).is_some() && epochs.loss_at(home).is_none());
        let seen = epochs.setting(home).seen;
        epochs.meet(home, seen.as_deref(), b"home.10.10000000.0.2.19000000");
        assert_eq!(epochs.loss(), None);
        let setting = epochs.setting(SLOT);
        assert!(setting.acknowledges && !setting.remembers && setting.acknowledged_us == 19_000_000);
        // A loss that was noticed afterwards is another one.
        epochs.meet(Place::Slot(8), None, b"late.20.20000000.1.2");
        assert_eq!(epochs.loss().unwrap().slot, Some(8));
        assert!(!epochs.setting(Place::Slot(8)).acknowledges);
    }

    #[test]
    fn the_home_is_told_of_an_acknowledgement_although_nothing_was_lost_there() {
        let mut epochs = Epochs::new(1);
        let home = home(true);
        epochs.meet(home, None, b"home.10.10000000.0.2");
        assert!(!epochs.setting(home).acknowledges);
        assert_eq!(epochs.acknowledge(seconds(30)), None);
        let setting = epochs.setting(home);
        assert!(setting.acknowledges && setting.remembers && setting.acknowledged_us == 30_000_000);
    }

    #[test]
    fn a_slot_without_a_marker_is_as_old_as_the_home_and_shares_its_loss() {
        let mut epochs = Epochs::new(1);
        assert_eq!(epochs.setting(SLOT).fresh, format!("{:032x}", 1).as_bytes());
        epochs.meet(home(true), None, b"home.10.10000000.1.2");
        let fresh = String::from_utf8(epochs.setting(SLOT).fresh).unwrap();
        assert_eq!(fresh, format!("{:032x}.10.10000000.1", 2));
        assert!(!String::from_utf8(epochs.setting(home(true)).fresh).unwrap().contains('.'));
    }

    #[test]
    fn a_loss_is_counted_once_by_calls_that_find_it_together() {
        let mut epochs = Epochs::new(1);
        epochs.meet(Place::Server, None, b"old.10.10000000.0.2");
        let seen = epochs.setting(Place::Server).seen;
        assert!(epochs.lose(Place::Server, seen.as_deref(), b"", b"new.18.18000000.1.2"));
        assert!(!epochs.lose(Place::Server, seen.as_deref(), b"", b"new.18.18000000.1.2"));
        let loss = epochs.loss().unwrap();
        assert_eq!((loss.expected.as_str(), loss.found.as_str()), ("old", ""));
    }

    #[test]
    fn a_newer_protocol_is_over_when_its_place_answers_again() {
        let mut epochs = Epochs::new(1);
        epochs.meet_newer(Place::Server, 3);
        assert_eq!(epochs.newer_protocol(), Some(3));
        epochs.meet(Place::Server, None, b"id.10.10000000.0.2");
        assert_eq!(epochs.newer_protocol(), None);
    }
}
