//! The view that operators have of a feature.

use core::time::Duration;
use std::sync::Arc;

use tidegate_core::{Class, Timestamp};

use crate::features::config::{FeatureMode, FeatureScope, OnDisable};
use crate::features::feature::FeatureId;
use crate::features::feature_pin::FeaturePin;
use crate::features::feature_set::{FeatureSet, FeatureSlot};
use crate::features::resource_features::ResourceFeatures;
use crate::overload::Overload;
use crate::resource_id::ResourceId;
use crate::sync::lock;

/// The reason of the level of a feature.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FeatureReason {
    /// It has no levels.
    NoLevels,
    /// It has the best level.
    Best,
    /// An operator pins it.
    Pinned,
    /// It is degraded, and a better level does not fit yet.
    Degraded {
        /// The load when it was degraded last.
        pressure: f64,
        /// The signal with that load, or `demand`; `None` after a pin.
        signal: Option<String>,
    },
    /// It is degraded, and a better level waits for a signal that has gone stale.
    Held {
        /// The signal.
        signal: String,
    },
}

/// One feature at one instant.
///
/// `down to 480p at 14:02: pressure 0.93 by cpu; back when 0.07 of 0.18 fits` is made of the level,
/// `since`, the reason, `room`, and the difference of `footprint_better` and `footprint`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FeatureView {
    /// The feature.
    pub id: FeatureId,
    /// Its name.
    pub name: Arc<str>,
    /// The resource.
    pub resource: ResourceId,
    /// The name of the resource; `None`: the default resource.
    pub resource_name: Option<Arc<str>>,
    /// The class.
    pub class: Class,
    /// The names of the levels, best first; empty: it has none.
    pub levels: Vec<Arc<str>>,
    /// The position of the worst level that any request gets.
    pub level: u8,
    /// Its name; `on` for a feature without levels.
    pub level_name: Arc<str>,
    /// The level of each class, least important first, without the cohorts that are one further.
    pub class_levels: [u8; Class::ALL.len()],
    /// The cohorts of tenants, of [`COHORTS`](crate::COHORTS), that have the next level already; 0
    /// but for a scope of tenants.
    pub moved: u16,
    /// Since when it has this level; `None`: it has never changed.
    pub since: Option<Timestamp>,
    /// The reason of the level.
    pub reason: FeatureReason,
    /// The part of the capacity that it takes at its level.
    pub footprint: f64,
    /// The same at the next better level, refused requests included; `None` at the best.
    pub footprint_better: Option<f64>,
    /// The room for better levels: the threshold without the margin and without the load. Negative
    /// while the load is above both. After a need of relief it may be more than that for the
    /// highest class that is degraded: what an exchange of levels has left, without the margin.
    pub room: f64,
    /// The requests in flight.
    pub in_flight: u64,
    /// The changes of level since the start.
    pub transitions: u64,
    /// The time from the last switch-off to the end of the work that was in flight then; `None`: it
    /// was never switched off, or the work has not ended.
    pub released_after: Option<Duration>,
    /// The pin in force.
    pub pin: Option<FeaturePin>,
    /// Whether it follows its level.
    pub mode: FeatureMode,
    /// The requests that have one level.
    pub scope: FeatureScope,
    /// The end of its work in flight when it is switched off.
    pub on_disable: OnDisable,
    /// The earliest instant at which a better level is possible; `None` at the best.
    pub earliest: Option<Timestamp>,
}

impl FeatureSet {
    /// The views of all features that are configured.
    pub(crate) fn views(&self, overload: &Overload, now: Timestamp) -> Vec<FeatureView> {
        let control = lock(&self.control);
        let view = |(id, slot): (FeatureId, &FeatureSlot)| {
            let (feature, state) = (&slot.feature, &control.states[id.index()]);
            let (config, word) = (feature.config(), feature.word());
            let class_levels = Class::ALL.map(|class| word.of_class(class));
            let level = feature.worst_level();
            let resource_name = overload.resource(slot.resource).name.clone();
            let group = control.resources.get(&resource_name);
            let pin = state.pin.filter(|pin| pin.until > now);
            let reason = if config.levels.is_empty() {
                FeatureReason::NoLevels
            } else if pin.is_some() {
                FeatureReason::Pinned
            } else if level == 0 {
                FeatureReason::Best
            } else if let Some(signal) = group.and_then(ResourceFeatures::held_by) {
                FeatureReason::Held { signal: signal.to_owned() }
            } else {
                FeatureReason::Degraded {
                    pressure: state.pressure.unwrap_or(0.0),
                    signal: state.signal.clone(),
                }
            };
            let room = group.map_or(0.0, |group| group.room);
            let room = state.exchange_room.map_or(room, |exchange| exchange.max(room));
            FeatureView {
                id,
                name: Arc::clone(feature.name()),
                resource: slot.resource,
                resource_name,
                class: config.class,
                levels: (0..config.levels.len()).map(|at| Arc::clone(feature.level_name(at as u8))).collect(),
                level,
                level_name: Arc::clone(feature.level_name(level)),
                class_levels,
                moved: word.moved(),
                since: state.since,
                reason,
                footprint: state.footprint,
                footprint_better: (level > 0).then_some(state.footprint_better),
                room,
                in_flight: feature.in_flight(),
                transitions: state.transitions,
                released_after: state.released_after,
                pin,
                mode: config.mode,
                scope: config.scope,
                on_disable: config.on_disable,
                earliest: (level > 0).then(|| feature.retry(now)),
            }
        };
        self.configured().map(view).collect()
    }
}
