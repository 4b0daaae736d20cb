//! The features of a plane, by name and by number.

use std::sync::Arc;

use tidegate_core::{Class, Timestamp};

use crate::cursor::hash::keyed_hash;
use crate::features::config::{FeatureConfig, FeatureMode, FeatureScope, OnDisable};
use crate::features::feature::{Feature, FeatureId};
use crate::features::feature_event::{FeatureCause, FeatureChange, FeatureEvent, FeatureEventQueue};
use crate::features::feature_meter::FeatureInFlight;
use crate::features::feature_state::{FeatureState, levels_under};
use crate::features::level_word::LevelWord;
use crate::overload::Overload;
use crate::resource_id::ResourceId;
use crate::sync::{Mutex, lock};

/// The features of a plane.
#[derive(Debug)]
pub(crate) struct FeatureSet {
    /// At the position of their ids. Those that are not configured any more stay, so that their
    /// work in flight can end.
    pub(crate) slots: Box<[FeatureSlot]>,
    /// The hash of each name and the feature, in order of the hashes.
    by_name: Box<[(u64, FeatureId)]>,
    pub(crate) control: Mutex<FeatureControl>,
    pub(crate) events: Arc<FeatureEventQueue>,
}

/// A feature, its resource, and whether it is configured.
#[derive(Clone, Debug)]
pub(crate) struct FeatureSlot {
    pub(crate) feature: Arc<Feature>,
    pub(crate) resource: ResourceId,
    pub(crate) is_configured: bool,
}

/// The state that only ticks, pins and reloads change.
#[derive(Clone, Debug, Default)]
pub(crate) struct FeatureControl {
    /// At the positions of the features.
    pub(crate) states: Vec<FeatureState>,
}

/// The key of the hash of a name.
const NAME_KEY: u64 = 2;

impl FeatureSet {
    /// The features of these checked settings, each with its resource, which go on from those of
    /// the same name of `earlier`.
    pub(crate) fn new(
        configs: Vec<(FeatureConfig, ResourceId)>,
        seed: u64,
        earlier: Option<&FeatureSet>,
    ) -> Self {
        let mut slots = earlier.map_or_else(Vec::new, |earlier| earlier.slots.to_vec());
        let mut control = earlier.map_or_else(FeatureControl::default, |one| lock(&one.control).clone());
        // A request in the waiting room may still name a feature that was just removed: its
        // position is not used again before the reload after that.
        let was_configured: Vec<bool> = slots.iter().map(|slot| slot.is_configured).collect();
        for slot in &mut slots {
            slot.is_configured = false;
        }
        let mut fresh = Vec::new();
        for (config, resource) in configs {
            let known = slots.iter().position(|slot| *slot.feature.name().as_ref() == *config.name);
            let Some(index) = known else {
                fresh.push((config, resource));
                continue;
            };
            let slot = &mut slots[index];
            (slot.resource, slot.is_configured) = (resource, true);
            if *slot.feature.config() != config {
                slot.feature = Arc::new(reconfigured(&slot.feature, config));
                control.states[index].reconfigure();
            }
        }
        for (config, resource) in fresh {
            let is_unused = |index: &usize| {
                let slot: &FeatureSlot = &slots[*index];
                let was_configured = was_configured.get(*index).is_none_or(|was| *was);
                !slot.is_configured && !was_configured && slot.feature.in_flight() == 0
            };
            let unused = (0..slots.len()).find(is_unused);
            let feature = Arc::new(Feature::new(config, 0, Arc::default(), LevelWord::default()));
            let slot = FeatureSlot { feature, resource, is_configured: true };
            if let Some(index) = unused {
                slots[index] = slot;
                control.states[index] = FeatureState::default();
            } else {
                slots.push(slot);
                control.states.push(FeatureState::default());
            }
        }
        let configured = (0_u16..).map(FeatureId).zip(&slots).filter(|(_, slot)| slot.is_configured);
        let mut by_name: Vec<_> = configured
            .map(|(id, slot)| (keyed_hash([seed, NAME_KEY], Some(slot.feature.name())), id))
            .collect();
        by_name.sort_unstable();
        let events = earlier.map_or_else(Arc::default, |earlier| Arc::clone(&earlier.events));
        Self { slots: slots.into(), by_name: by_name.into(), control: Mutex::new(control), events }
    }

    /// The features of earlier planes that have work in flight.
    pub(crate) fn busy(&self) -> usize {
        self.slots.iter().filter(|slot| slot.feature.in_flight() > 0).count()
    }

    #[inline]
    pub(crate) fn find(&self, name: &str, seed: u64) -> Option<FeatureId> {
        if self.by_name.is_empty() {
            return None;
        }
        let hash = keyed_hash([seed, NAME_KEY], Some(name));
        let first = self.by_name.partition_point(|(known, _)| *known < hash);
        let same_hash = self.by_name[first..].iter().take_while(|(known, _)| *known == hash);
        same_hash.map(|(_, id)| *id).find(|id| self.slots[id.index()].feature.name().as_ref() == name)
    }

    /// Those that are configured, in order of their numbers.
    pub(crate) fn configured(&self) -> impl Iterator<Item = (FeatureId, &FeatureSlot)> {
        (0_u16..).map(FeatureId).zip(&self.slots).filter(|(_, slot)| slot.is_configured)
    }

    pub(crate) fn slot(&self, id: FeatureId) -> &FeatureSlot {
        &self.slots[id.index()]
    }
}

impl FeatureSet {
    /// Ends the pins that are over.
    pub(crate) fn tick(&self, _overload: &Overload, now: Timestamp) {
        if self.slots.is_empty() {
            return;
        }
        let mut control = lock(&self.control);
        for (id, _) in self.configured() {
            let state = &mut control.states[id.index()];
            if let Some(pin) = state.pin.filter(|pin| pin.until <= now) {
                state.pin = None;
                self.tell_unpinned(id, pin, true, now);
            }
        }
    }
}

/// The same feature under other settings, at the levels that they leave it.
fn reconfigured(earlier: &Feature, config: FeatureConfig) -> Feature {
    let word = levels_under(earlier.config(), earlier.word(), &config);
    let in_flight: Arc<FeatureInFlight> = Arc::clone(&earlier.meter().in_flight);
    Feature::new(config, earlier.settings().wrapping_add(1), in_flight, word)
}

/// The reason of a change of level.
#[derive(Clone, Debug)]
pub(crate) struct ChangeReason {
    pub(crate) cause: FeatureCause,
    /// The load at the time, and the signal with it.
    pub(crate) pressure: Option<f64>,
    pub(crate) signal: Option<String>,
}

impl FeatureSet {
    /// Moves a feature to other levels at `now`, which takes effect for the next request.
    pub(crate) fn change(
        &self,
        state: &mut FeatureState,
        id: FeatureId,
        word: LevelWord,
        reason: &ChangeReason,
        now: Timestamp,
        resource: Option<&Arc<str>>,
    ) {
        let feature = &self.slot(id).feature;
        let before = feature.word();
        if before == word {
            return;
        }
        feature.set_word(word);
        let config = feature.config();
        let is_shadow = config.mode == FeatureMode::Shadow;
        let level = |word: LevelWord, class| word.of_class(class) + u8::from(word.moved() > 0);
        let changed = || Class::ALL.into_iter().filter(|class| level(before, *class) != level(word, *class));
        for class in Class::ALL {
            let (was_off, is_off) =
                (feature.is_off(level(before, class)), feature.is_off(level(word, class)));
            // Each further step of the tenants begins a grace of its own.
            if let OnDisable::Cancel { grace } = config.on_disable
                && is_off
            {
                feature.set_cancel_at(class, Some(now.saturating_add(grace)));
            } else if was_off && !is_off {
                feature.set_cancel_at(class, None);
            }
        }
        let is_off = |word: LevelWord| {
            Class::ALL.into_iter().all(|class| word.moved() == 0 && feature.is_off(word.of_class(class)))
        };
        if is_off(word) && !is_off(before) && !is_shadow {
            (state.releasing_since, state.released_after) = (Some(now), None);
        } else if !is_off(word) {
            state.releasing_since = None;
        }
        state.since = Some(now);
        state.transitions += 1;
        (state.pressure, state.signal) = (reason.pressure, reason.signal.clone());
        // Where all classes change alike it is one event.
        let one_class = match config.scope {
            FeatureScope::Class => changed().count() < Class::ALL.len(),
            FeatureScope::Global | FeatureScope::Tenant => false,
        };
        let classes: Vec<_> = if one_class { changed().map(Some).collect() } else { vec![None] };
        for class in classes {
            let of = class.unwrap_or_default();
            self.events.push(FeatureEvent::Changed(FeatureChange {
                feature: Arc::clone(feature.name()),
                resource: resource.cloned(),
                class,
                from: Arc::clone(feature.level_name(before.of_class(of))),
                to: Arc::clone(feature.level_name(word.of_class(of))),
                moved: word.moved(),
                at: now,
                cause: reason.cause,
                pressure: reason.pressure,
                signal: reason.signal.clone(),
                is_shadow,
            }));
        }
    }
}
