//! The features of a plane, by name and by number.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_core::{Class, Timestamp};

use crate::cursor::hash::{find_hashed, keyed_hash};
use crate::features::change_reason::ChangeReason;
use crate::features::config::{FeatureConfig, FeatureMode, FeatureScope, OnDisable};
use crate::features::feature::{Feature, FeatureId};
use crate::features::feature_event::{FeatureCause, FeatureChange, FeatureEvent, FeatureEventQueue};
use crate::features::feature_meter::FeatureInFlight;
use crate::features::feature_state::{FeatureState, levels_under};
use crate::features::level_word::LevelWord;
use crate::features::resource_features::ResourceFeatures;
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
    /// The features of each resource that has some.
    pub(crate) by_resource: Box<[(ResourceId, Vec<FeatureId>)]>,
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
    /// By the name of the resource; `None`: the default resource.
    pub(crate) resources: BTreeMap<Option<Arc<str>>, ResourceFeatures>,
    /// The instant of the last tick.
    pub(crate) last: Option<Timestamp>,
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
        control.resources.values_mut().for_each(ResourceFeatures::drop_exchanges);
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
            let (slot, state) = (&mut slots[index], &mut control.states[index]);
            (slot.resource, slot.is_configured) = (resource, true);
            if !was_configured[index] {
                // It starts anew; only its work in flight from before has to end.
                *state = FeatureState::new(&config);
                slot.feature = Arc::new(reconfigured(&slot.feature, config, LevelWord::default()));
            } else if *slot.feature.config() != config {
                let before = slot.feature.worst_level_name();
                *state = state.under(slot.feature.config(), &config);
                let word = levels_under(slot.feature.config(), slot.feature.word(), &config);
                slot.feature = Arc::new(reconfigured(&slot.feature, config, word));
                if slot.feature.worst_level_name() != before {
                    state.reloaded_from.get_or_insert(before);
                }
            }
        }
        for (config, resource) in fresh {
            let is_unused = |index: &usize| {
                let slot: &FeatureSlot = &slots[*index];
                let was_configured = was_configured.get(*index).is_none_or(|was| *was);
                !slot.is_configured && !was_configured && slot.feature.in_flight() == 0
            };
            let unused = (0..slots.len()).find(is_unused);
            let state = FeatureState::new(&config);
            let feature = Arc::new(Feature::new(config, 0, Arc::default(), LevelWord::default()));
            let slot = FeatureSlot { feature, resource, is_configured: true };
            if let Some(index) = unused {
                slots[index] = slot;
                control.states[index] = state;
            } else {
                slots.push(slot);
                control.states.push(state);
            }
        }
        let configured = || (0_u16..).map(FeatureId).zip(&slots).filter(|(_, slot)| slot.is_configured);
        let mut by_name: Vec<_> = configured()
            .map(|(id, slot)| (keyed_hash([seed, NAME_KEY], Some(slot.feature.name())), id))
            .collect();
        by_name.sort_unstable();
        let mut by_resource: BTreeMap<ResourceId, Vec<FeatureId>> = BTreeMap::new();
        for (id, slot) in configured() {
            by_resource.entry(slot.resource).or_default().push(id);
        }
        let events = earlier.map_or_else(Arc::default, |earlier| Arc::clone(&earlier.events));
        Self {
            slots: slots.into(),
            by_name: by_name.into(),
            by_resource: by_resource.into_iter().collect(),
            control: Mutex::new(control),
            events,
        }
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
        find_hashed(&self.by_name, hash, |id| self.slots[id.index()].feature.name().as_ref() == name)
    }

    /// Those that are configured, in order of their numbers.
    pub(crate) fn configured(&self) -> impl Iterator<Item = (FeatureId, &FeatureSlot)> {
        (0_u16..).map(FeatureId).zip(&self.slots).filter(|(_, slot)| slot.is_configured)
    }

    pub(crate) fn slot(&self, id: FeatureId) -> &FeatureSlot {
        &self.slots[id.index()]
    }
}

/// The same feature under other settings, at these levels.
fn reconfigured(earlier: &Feature, config: FeatureConfig, word: LevelWord) -> Feature {
    let in_flight: Arc<FeatureInFlight> = Arc::clone(&earlier.meter().in_flight);
    Feature::new(config, earlier.settings().wrapping_add(1), in_flight, word)
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
            let has_moved = !was_off || word.moved() != before.moved();
            if let OnDisable::Cancel { grace } = config.on_disable
                && is_off
                && has_moved
            {
                feature.set_cancel_at(class, Some(now.saturating_add(grace)));
            } else if was_off && !is_off {
                feature.set_cancel_at(class, None);
            }
        }
        let is_off = |word: LevelWord| {
            word.moved() == 0 && feature.degraded_classes().all(|class| feature.is_off(word.of_class(class)))
        };
        if !is_off(word) {
            state.releasing_since = None;
        } else if !is_off(before) && !is_shadow {
            (state.releasing_since, state.released_after) = (Some(now), None);
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
            let of = |word| class.map_or_else(|| LevelWord::worst(word), |class| level(word, class));
            self.events.push(FeatureEvent::Changed(FeatureChange {
                feature: Arc::clone(feature.name()),
                resource: resource.cloned(),
                class,
                from: Arc::clone(feature.level_name(of(before))),
                to: Arc::clone(feature.level_name(of(word))),
                moved: word.moved(),
                at: now,
                cause: reason.cause,
                pressure: reason.pressure,
                signal: reason.signal.clone(),
                is_shadow,
            }));
        }
        if state.releasing_since == Some(now) && feature.in_flight_degraded() == 0 {
            self.tell_release(state, feature, Duration::ZERO, now);
        }
    }

    /// Notes that a reload has left a feature at a level of another name.
    pub(crate) fn tell_reloaded(
        &self,
        state: &mut FeatureState,
        id: FeatureId,
        from: Arc<str>,
        now: Timestamp,
        resource: Option<&Arc<str>>,
    ) {
        let feature = &self.slot(id).feature;
        state.since = Some(now);
        state.transitions += 1;
        self.events.push(FeatureEvent::Changed(FeatureChange {
            feature: Arc::clone(feature.name()),
            resource: resource.cloned(),
            class: None,
            from,
            to: feature.worst_level_name(),
            moved: feature.word().moved(),
            at: now,
            cause: FeatureCause::Reload,
            pressure: None,
            signal: None,
            is_shadow: feature.config().mode == FeatureMode::Shadow,
        }));
    }

    /// Notes that the work that was in flight when a feature was switched off has ended.
    pub(crate) fn tell_release(
        &self,
        state: &mut FeatureState,
        feature: &Feature,
        after: Duration,
        now: Timestamp,
    ) {
        (state.releasing_since, state.released_after) = (None, Some(after));
        let feature = Arc::clone(feature.name());
        self.events.push(FeatureEvent::Released { feature, after, at: now });
    }
}
