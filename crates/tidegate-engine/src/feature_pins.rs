//! The pins of features that operators have set, with their authors and reasons.
//!
//! A pin is a note of the store, so that it outlives a restart and reaches every member. The
//! overload plane has the level; this list has the words.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use tidegate_core::Timestamp;
use tidegate_store::{Note, NoteChange, NoteKind};

use crate::notes;
use crate::stable_hash::name_of;
use crate::sync::lock_plain;

/// An operator's pin of a feature: one level until an instant, whatever the load is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeaturePinning {
    /// The feature.
    pub feature: String,
    /// The name of the level.
    pub level: String,
    /// Its end, at most 30 days from when it is set.
    pub until: Timestamp,
    /// The author, at most [`FeaturePinning::TEXT_BYTES_MAX`] bytes; `None`: nobody says.
    pub by: Option<String>,
    /// The reason, at most as long.
    pub reason: Option<String>,
}

impl FeaturePinning {
    /// The longest author and reason in bytes.
    pub const TEXT_BYTES_MAX: usize = 256;
    /// The features of which a pin is kept, at most as many as there may be.
    pub const COUNT_MAX: usize = tidegate_overload::OverloadBuilder::FEATURES_MAX;
}

// A pin may be set for as long as its note is kept, and no longer.
const _: () = assert!(NoteKind::FEATURE_PIN_KEPT.as_nanos() == tidegate_overload::FEATURE_PIN_MAX.as_nanos());

/// How far the ends of two readings of one pin may be apart: a store that members share has a clock
/// of its own, and each member tells the difference to its own clock anew.
const END_TOLERANCE: Duration = Duration::from_secs(1);

/// The value of a note.
#[derive(Debug, Serialize, Deserialize)]
struct PinNote {
    feature: String,
    level: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

fn note_name(feature: &str) -> u128 {
    name_of([&b"feature pin"[..], feature.as_bytes()])
}

impl FeaturePinning {
    /// Whether the other one is another reading of this pin.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        let apart = self.until.saturating_since(other.until).max(other.until.saturating_since(self.until));
        apart <= END_TOLERANCE && Self { until: other.until, ..self.clone() } == *other
    }

    pub(crate) fn to_note(&self) -> Note {
        let Self { feature, level, until, by, reason } = self.clone();
        let value = PinNote { feature, level, by, reason };
        notes::note(NoteKind::FeaturePin, note_name(&self.feature), &value, until)
    }

    pub(crate) fn from_note(note: &Note) -> Result<Self, notes::NoteError> {
        let PinNote { feature, level, by, reason } = notes::value(NoteKind::FeaturePin, note)?;
        Ok(Self { feature, level, until: note.until, by, reason })
    }

    pub(crate) fn removal(feature: &str) -> NoteChange {
        notes::remove(NoteKind::FeaturePin, note_name(feature))
    }
}

/// The pins that are set.
#[derive(Debug, Default)]
pub(crate) struct FeaturePins(Mutex<BTreeMap<String, FeaturePinning>>);

impl FeaturePins {
    /// Keeps a pin in place of the one before.
    pub(crate) fn set(&self, pin: FeaturePinning, now: Timestamp) {
        let mut pins = lock_plain(&self.0);
        pins.retain(|_, known| known.until > now);
        if pins.len() < FeaturePinning::COUNT_MAX || pins.contains_key(&pin.feature) {
            pins.insert(pin.feature.clone(), pin);
        }
    }

    pub(crate) fn remove(&self, feature: &str) {
        lock_plain(&self.0).remove(feature);
    }

    /// Those in force at `now`, by feature.
    pub(crate) fn all(&self, now: Timestamp) -> Vec<FeaturePinning> {
        let pins = lock_plain(&self.0);
        pins.values().filter(|pin| pin.until > now).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_read_again_by_a_clock_that_is_milliseconds_off_is_the_same_pin() {
        let pin = FeaturePinning {
            feature: "thumbnails".to_owned(),
            level: "off".to_owned(),
            until: Timestamp::from_secs(1_000_000),
            by: Some("grace".to_owned()),
            reason: None,
        };
        let later = |millis| pin.until.saturating_add(Duration::from_millis(millis));
        for (other, is_same) in [
            (pin.clone(), true),
            (FeaturePinning { until: later(2), ..pin.clone() }, true),
            (FeaturePinning { until: later(1001), ..pin.clone() }, false),
            (FeaturePinning { level: "480p".to_owned(), ..pin.clone() }, false),
            (FeaturePinning { by: None, ..pin.clone() }, false),
        ] {
            assert_eq!((pin.is_same_as(&other), other.is_same_as(&pin)), (is_same, is_same), "{other:?}");
        }
    }
}
