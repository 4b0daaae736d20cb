//! Pinning features to a level, and ending a pin.

use std::collections::BTreeMap;

use tidegate_core::Timestamp;
use tidegate_overload::{FeaturePinError, Overload};
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
        let overload = self.plane_with_feature(&pin.feature)?;
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
        self.plane_with_feature(feature)?.known_feature(feature)?;
        Ok(FeaturePinning::removal(feature))
    }

    /// Ends the pin of a feature; its level follows the load again. Returns what a store should
    /// forget. A feature without a pin stays as it is; one that does not exist is an error.
    pub fn unpin_feature(&self, feature: &str, now: Timestamp) -> Result<NoteChange, AdminError> {
        self.plane_with_feature(feature)?.unpin_feature(feature, now)?;
        self.shared.feature_pins.remove(feature);
        Ok(FeaturePinning::removal(feature))
    }

    /// Takes in the pins that a store remembers: those are set, and all others end. A pin of a
    /// feature or a level that the policy does not have is kept and waits for it. Returns the first
    /// note that cannot be read, after all others were taken in.
    pub fn restore_feature_pins(&self, notes: &[Note], now: Timestamp) -> Result<(), AdminError> {
        let mut unread = None;
        let mut pins: BTreeMap<String, FeaturePinning> = BTreeMap::new();
        for note in notes.iter().filter(|note| note.until > now) {
            match FeaturePinning::from_note(note) {
                Ok(pin) => {
                    pins.insert(pin.feature.clone(), pin);
                }
                Err(error) => unread = unread.or(Some(error)),
            }
        }
        for known in self.shared.feature_pins.all(now) {
            match pins.get(&known.feature) {
                Some(pin) if known.is_same_as(pin) => {
                    pins.remove(&known.feature);
                }
                Some(_) => {}
                None => {
                    if let Some(overload) = self.overload() {
                        // A feature that the policy does not have any more has no pin to end.
                        let _ = overload.unpin_feature(&known.feature, now);
                    }
                    self.shared.feature_pins.remove(&known.feature);
                }
            }
        }
        for pin in pins.into_values() {
            // It is set by the next call if the policy has it by then.
            let _ = self.set_pin(&pin, now);
            self.shared.feature_pins.set(pin, now);
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
        let overload = self.plane_with_feature(&pin.feature)?;
        overload.pin_feature(&pin.feature, &pin.level, pin.until, now).map(|_| ())
    }

    /// The overload plane; without one no feature of any name exists.
    fn plane_with_feature(&self, name: &str) -> Result<&Overload, FeaturePinError> {
        self.overload().ok_or_else(|| FeaturePinError::unknown_feature(name, core::iter::empty()))
    }
}
