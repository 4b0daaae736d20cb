//! Pinning features to a level, and ending a pin.

use tidegate_core::Timestamp;
use tidegate_overload::FeaturePinError;
use tidegate_store::{Note, NoteChange};

use crate::engine::Engine;
use crate::error::AdminError;
use crate::feature_pins::FeaturePinning;

impl Engine {
    /// Checks that [`Engine::pin_feature`] would set a pin. Returns what a store should remember of
    /// it, so that it is written there before the level changes. Errors as there; nothing is
    /// changed.
    pub fn check_feature_pin(&self, pin: &FeaturePinning, now: Timestamp) -> Result<NoteChange, AdminError> {
        for (what, text) in [("by", &pin.by), ("reason", &pin.reason)] {
            let bytes = text.as_ref().map_or(0, String::len);
            if bytes > FeaturePinning::TEXT_BYTES_MAX {
                return Err(AdminError::FeaturePinText { what, bytes });
            }
        }
        let no_plane = || FeaturePinError::unknown_feature(&pin.feature, core::iter::empty());
        let overload = self.overload().ok_or_else(no_plane)?;
        overload.check_feature_pin(&pin.feature, &pin.level, pin.until, now)?;
        Ok(NoteChange::Put(pin.to_note()))
    }

    /// Pins a feature to a level until an instant. Returns what a store should remember of it, so
    /// that it outlives a restart and other members see it.
    ///
    /// The level changes at once. Errors: the feature or its level does not exist, the instant has
    /// passed or is further away than 30 days, or a text is too long. Nothing is changed then.
    pub fn pin_feature(&self, pin: FeaturePinning, now: Timestamp) -> Result<NoteChange, AdminError> {
        let note = self.check_feature_pin(&pin, now)?;
        self.set_pin(&pin, now)?;
        self.shared.feature_pins.set(pin, now);
        Ok(note)
    }

    /// The note that a store should forget when [`Engine::unpin_feature`] ends the pin of a
    /// feature. Fails if the feature does not exist; nothing is changed.
    pub fn check_feature_unpin(&self, feature: &str) -> Result<NoteChange, AdminError> {
        let no_plane = || FeaturePinError::unknown_feature(feature, core::iter::empty());
        self.overload().ok_or_else(no_plane)?.known_feature(feature)?;
        Ok(FeaturePinning::removal(feature))
    }

    /// Ends the pin of a feature; its level follows the load again. Returns what a store should
    /// forget. A feature without a pin stays as it is; one that does not exist is an error.
    pub fn unpin_feature(&self, feature: &str, now: Timestamp) -> Result<NoteChange, AdminError> {
        let no_plane = || FeaturePinError::unknown_feature(feature, core::iter::empty());
        self.overload().ok_or_else(no_plane)?.unpin_feature(feature, now)?;
        self.shared.feature_pins.remove(feature);
        Ok(FeaturePinning::removal(feature))
    }

    /// Takes in the pins that a store remembers: those are set, and all others end. A pin of a
    /// feature or a level that the policy does not have is kept and waits for it. Returns the first
    /// note that cannot be read, after all others were taken in.
    pub fn restore_feature_pins(&self, notes: &[Note], now: Timestamp) -> Result<(), AdminError> {
        let mut unread = None;
        let mut pins: Vec<FeaturePinning> = Vec::with_capacity(notes.len());
        for note in notes.iter().filter(|note| note.until > now) {
            match FeaturePinning::from_note(note) {
                Ok(pin) => pins.push(pin),
                Err(error) => unread = unread.or(Some(error)),
            }
        }
        let known = self.shared.feature_pins.all(now);
        let is_gone = |one: &&FeaturePinning| pins.iter().all(|pin| pin.feature != one.feature);
        for gone in known.iter().filter(is_gone) {
            if let Some(overload) = self.overload() {
                // A feature that the policy does not have any more has no pin to end.
                let _ = overload.unpin_feature(&gone.feature, now);
            }
            self.shared.feature_pins.remove(&gone.feature);
        }
        for pin in pins {
            if !known.iter().any(|one| one.is_same_as(&pin)) {
                // It is set by the next call if the policy has it by then.
                let _ = self.set_pin(&pin, now);
                self.shared.feature_pins.set(pin, now);
            }
        }
        unread.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Sets the pins again that are known, in another engine over the same state, whose features
    /// may not have been there before.
    pub(crate) fn renew_feature_pins(&self, now: Timestamp) {
        for pin in self.shared.feature_pins.all(now) {
            // The feature or its level may be absent.
            let _ = self.set_pin(&pin, now);
        }
    }

    /// The pins in force at `now`, by feature, with their authors and reasons.
    pub fn feature_pins(&self, now: Timestamp) -> Vec<FeaturePinning> {
        self.shared.feature_pins.all(now)
    }

    fn set_pin(&self, pin: &FeaturePinning, now: Timestamp) -> Result<(), FeaturePinError> {
        let no_plane = || FeaturePinError::unknown_feature(&pin.feature, core::iter::empty());
        let overload = self.overload().ok_or_else(no_plane)?;
        overload.pin_feature(&pin.feature, &pin.level, pin.until, now).map(|_| ())
    }
}
