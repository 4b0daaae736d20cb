//! A feature as code meets it that works for it without a request of its own.

use std::sync::Arc;

use tidegate_core::refusal::ScopeValues;
use tidegate_core::{Class, Refusal, Timestamp};
use tidegate_overload::{Feature, FeatureGrant, FeatureId, FeatureUse, RequestLevel};

use super::cancellable_work::CancellableWork;
use crate::engine::Engine;
use crate::engine::admission::refusal::disabled_feature;
use crate::place::OverloadPlane;

/// A feature of the overload plane of one engine, whose level a program asks for and whose work it
/// counts. Clones are the same feature.
///
/// It is the feature of the engine that it was made by. After a reload make another one.
#[derive(Clone, Debug)]
pub struct WatchedFeature {
    plane: Arc<OverloadPlane>,
    id: FeatureId,
    level: RequestLevel,
}

/// The level of a feature at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchedLevel<'a> {
    /// The name of the level to work at; `on` for a feature without levels. In shadow mode it is
    /// the best one.
    pub name: &'a str,
    /// Whether the feature is off and follows its level: no work is to be begun.
    pub is_off: bool,
}

/// Work of a feature that has begun. Dropping it ends it without learning what it cost.
#[derive(Debug)]
#[must_use = "dropping it ends the work"]
pub struct FeatureWork {
    feature: WatchedFeature,
    grant: FeatureGrant,
    work: Option<FeatureUse>,
    begun: Timestamp,
}

impl Engine {
    /// The feature of this name; `None` if the overload plane has none. Its level is that of
    /// requests of the class of the feature without a tenant.
    pub fn watched_feature(&self, name: &str, now: Timestamp) -> Option<WatchedFeature> {
        let plane = self.planes.overload.as_ref()?;
        let id = plane.overload.find_feature(name)?;
        let class = plane.overload.feature(id).config().class;
        let level = plane.overload.request_level(0, class, None, now);
        Some(WatchedFeature { plane: Arc::clone(plane), id, level })
    }
}

impl WatchedFeature {
    /// The same feature as requests of this class meet it at `now`, and of this tenant.
    #[must_use]
    pub fn of(self, class: Class, tenant: Option<&str>, now: Timestamp) -> Self {
        let level = self.plane.overload.request_level(0, class, tenant, now);
        Self { level, ..self }
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.feature().name()
    }

    /// The level at this moment: one relaxed load.
    #[inline]
    pub fn level(&self) -> WatchedLevel<'_> {
        let feature = self.feature();
        let grant = feature.grant(self.level);
        WatchedLevel { name: feature.level_name(grant.level_in_force()), is_off: grant.is_refused() }
    }

    /// Begins work, which counts as demand for the feature and as in flight until it ends. A
    /// feature that is off refuses it, in a namespace that the refusal names.
    pub fn begin(&self, namespace: &str, now: Timestamp) -> Result<FeatureWork, Refusal> {
        let feature = self.feature();
        feature.count_offered(self.level);
        let grant = feature.grant(self.level);
        if grant.is_refused() {
            let (whose, level) = ((namespace, ScopeValues::new()), feature.level_name(grant.level));
            return Err(disabled_feature(whose, &self.plane.overload, self.id, level, now));
        }
        let work = Some(feature.begin(grant));
        Ok(FeatureWork { feature: self.clone(), grant, work, begun: now })
    }

    #[inline]
    fn feature(&self) -> &Feature {
        self.plane.overload.feature(self.id)
    }
}

impl FeatureWork {
    /// The name of the level at which the work began.
    pub fn level_name(&self) -> &str {
        self.feature.feature().level_name(self.grant.level_in_force())
    }

    /// The work as something that is cancelled; `None` for a feature that finishes its work.
    pub fn cancellable(&self) -> Option<CancellableWork> {
        let feature = self.feature.feature();
        feature.cancels().then(|| CancellableWork::new(feature, self.feature.id, self.grant))
    }

    /// Ends the work, and learns from it what a request costs at its level.
    pub fn end(mut self, now: Timestamp) {
        let took = now.saturating_since(self.begun);
        if let Some(work) = self.work.take() {
            self.feature.feature().end(work, Some(took));
        }
    }
}

impl Drop for FeatureWork {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            self.feature.feature().end(work, None);
        }
    }
}
