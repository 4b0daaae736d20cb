//! The levels that operators pin, beside those that follow the load.

use std::sync::Arc;

use tidegate_core::Timestamp;

use crate::features::change_reason::ChangeReason;
use crate::features::feature::FeatureId;
use crate::features::feature_event::{FeatureCause, FeatureEvent};
use crate::features::feature_pin::{FEATURE_PIN_MAX, FeaturePin, FeaturePinError};
use crate::features::feature_set::{FeatureControl, FeatureSet};
use crate::features::level_word::LevelWord;
use crate::overload::Overload;
use crate::sync::lock;

impl FeatureSet {
    /// The position of a level that a feature can be pinned to until this instant.
    pub(crate) fn check_pin(
        &self,
        id: FeatureId,
        level: &str,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<u8, FeaturePinError> {
        let feature = &self.slot(id).feature;
        let name = || feature.name().to_string();
        if feature.config().levels.is_empty() {
            return Err(FeaturePinError::NoLevels { feature: name() });
        }
        let Some(position) = feature.position(level) else {
            let known = feature.config().levels.iter().map(|level| level.name.as_str());
            return Err(FeaturePinError::unknown_level(feature.name(), level, known));
        };
        if until <= now {
            return Err(FeaturePinError::Past { feature: name(), ago: now.saturating_since(until) });
        }
        let lasts = until.saturating_since(now);
        if lasts > FEATURE_PIN_MAX {
            return Err(FeaturePinError::TooLong { feature: name(), lasts });
        }
        Ok(position)
    }

    /// Pins a feature to the level of this name. A pin that is in force already, as after a reload,
    /// is no event.
    pub(crate) fn pin(
        &self,
        overload: &Overload,
        id: FeatureId,
        level: &str,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<(), FeaturePinError> {
        let position = self.check_pin(id, level, until, now)?;
        let slot = self.slot(id);
        let feature = &slot.feature;
        let mut control = lock(&self.control);
        let state = &mut control.states[id.index()];
        let pin = Some(FeaturePin { level: position, until });
        let word = LevelWord::uniform(position, 0);
        if state.pin == pin && feature.word() == word {
            return Ok(());
        }
        state.pin = pin;
        // The next tick would say so, and a request may come before.
        feature.set_retry(until, now);
        self.events.push(FeatureEvent::Pinned {
            feature: Arc::clone(feature.name()),
            level: Arc::clone(feature.level_name(position)),
            until,
            at: now,
        });
        self.move_outside(&mut control, overload, id, word, now);
        Ok(())
    }

    /// Ends the pin of a feature, if it has one.
    pub(crate) fn unpin(&self, overload: &Overload, id: FeatureId, now: Timestamp) {
        self.end_pin(&mut lock(&self.control), overload, id, false, now);
    }

    /// Ends the pin of a feature, if it has one. The control goes on from the level; classes that
    /// the load does not degrade have the best one again.
    pub(crate) fn end_pin(
        &self,
        control: &mut FeatureControl,
        overload: &Overload,
        id: FeatureId,
        has_expired: bool,
        now: Timestamp,
    ) {
        let feature = &self.slot(id).feature;
        let Some(pin) = control.states[id.index()].pin.take() else { return };
        // Not the end of the pin any more; the next tick says when.
        feature.set_retry(now, now);
        let level = Arc::clone(feature.level_name(pin.level));
        let name = Arc::clone(feature.name());
        self.events.push(FeatureEvent::Unpinned { feature: name, level, has_expired, at: now });
        let word = feature.word();
        let degraded = feature.degraded_classes();
        let kept =
            degraded.fold(LevelWord::default(), |new, class| new.with_class(class, word.of_class(class)));
        self.move_outside(control, overload, id, kept, now);
    }

    /// Moves a feature by a pin; the next tick takes in what that gives.
    fn move_outside(
        &self,
        control: &mut FeatureControl,
        overload: &Overload,
        id: FeatureId,
        word: LevelWord,
        now: Timestamp,
    ) {
        let slot = self.slot(id);
        let before = slot.feature.word();
        if before == word {
            return;
        }
        let state = &mut control.states[id.index()];
        let resource = overload.resource(slot.resource).name.as_ref();
        let reason = ChangeReason { cause: FeatureCause::Pin, pressure: None, signal: None };
        self.change(state, id, word, &reason, now, resource);
        state.moved_from.get_or_insert(before);
        state.parts.iter_mut().for_each(|part| part.changed(now));
    }
}
