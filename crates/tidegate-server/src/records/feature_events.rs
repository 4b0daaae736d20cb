//! The one reader of the changes of features, after each tick of the engine.

use std::sync::Arc;

use tidegate_overload::{
    COHORTS, FeatureCause, FeatureChange, FeatureConfig, FeatureEvent, FeatureLevelConfig, LevelMark,
};

use crate::context::DaemonContext;

impl DaemonContext {
    /// Takes the changes of features since the last tick: writes log lines, counts changes, and
    /// marks them in the histories of their resources.
    pub(crate) fn follow_features(&self) {
        let (in_force, now) = (self.in_force.load(), self.clock.now());
        for event in in_force.engine.take_feature_events() {
            self.feature_log.write(&event, now);
            let FeatureEvent::Changed(change) = event else { continue };
            let Some(feature) = in_force.config.planes.feature(&change.feature) else { continue };
            let is_worse = is_worse(&change, feature);
            self.feature_log.count(&change, is_worse, &in_force.config.planes);
            if let Some(resource) = &change.resource {
                self.with_histories(|histories| histories.mark(resource, mark(&change, feature, is_worse)));
            }
        }
        self.feature_log.report_dropped(in_force.engine.feature_events_dropped());
    }
}

/// Whether requests get a worse level by a change.
fn is_worse(change: &FeatureChange, feature: &FeatureConfig) -> bool {
    let position = |name: &str| feature.levels.iter().position(|level| level.name == *name);
    match change.cause {
        FeatureCause::Pressure => true,
        FeatureCause::Room => false,
        _ => position(&change.to) > position(&change.from),
    }
}

/// The worst level that requests have after a change: the cohorts that have moved have the level
/// after `to`.
fn reached<'f>(change: &FeatureChange, feature: &'f FeatureConfig) -> Option<&'f FeatureLevelConfig> {
    let place = feature.levels.iter().position(|level| level.name == *change.to)?;
    feature.levels.get(place + usize::from(change.moved > 0))
}

/// A change as a mark in the history of its resource: the level after it, with the class or the
/// part of the tenants that has it.
fn mark(change: &FeatureChange, feature: &FeatureConfig, is_worse: bool) -> LevelMark {
    let moved = reached(change, feature).filter(|_| change.moved > 0);
    let level: Arc<str> = match (moved, change.class) {
        (Some(next), _) => {
            let percent = u32::from(change.moved) * 100 / u32::from(COHORTS);
            format!("{} for {percent} % of tenants", next.name).into()
        }
        (None, Some(class)) => format!("{} for {}", change.to, class.as_str()).into(),
        (None, None) => Arc::clone(&change.to),
    };
    LevelMark {
        at: change.at,
        feature: Arc::clone(&change.feature),
        level,
        is_worse,
        is_shadow: change.is_shadow,
    }
}
