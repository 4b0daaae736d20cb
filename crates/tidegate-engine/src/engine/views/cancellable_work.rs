//! Admitted work that is cancelled when its feature is switched off.

use std::sync::Arc;

use smallvec::smallvec;
use tidegate_core::refusal::ScopeValues;
use tidegate_core::{Refusal, Text, Timestamp};
use tidegate_overload::{Feature, FeatureGrant, FeatureId, Overload};

use crate::engine::Engine;
use crate::engine::admission::refusal::disabled_feature;
use crate::granted_level::GrantedLevel;
use crate::permit::Permit;

/// Admitted work of a feature with `on_disable: cancel`. It outlives its permit, and follows the
/// feature over reloads by its name.
#[derive(Clone, Debug)]
pub struct CancellableWork {
    feature: Arc<str>,
    id: FeatureId,
    grant: FeatureGrant,
}

impl CancellableWork {
    pub(crate) fn new(feature: &Feature, id: FeatureId, grant: FeatureGrant) -> Self {
        Self { feature: Arc::clone(feature.name()), id, grant }
    }

    /// The feature.
    pub fn feature(&self) -> &str {
        &self.feature
    }
}

impl Engine {
    /// The work of the first request of a permit whose feature cancels its work when it is switched
    /// off; `None` if none does.
    pub fn cancellable_work(&self, permit: &Permit) -> Option<CancellableWork> {
        let overload = self.overload()?;
        permit.holds().iter().find_map(|holds| {
            let GrantedLevel { id, grant } = holds.other()?.feature?;
            let feature = overload.feature_at(id).filter(|feature| feature.cancels())?;
            Some(CancellableWork::new(feature, id, grant))
        })
    }

    /// The instant from which work is to be cancelled, which may be past: its feature is off, and
    /// its grace ends then. `None` while the work may go on.
    pub fn cancel_at(&self, work: &CancellableWork) -> Option<Timestamp> {
        self.feature_of_work(work)?.1.cancel_at(work.grant)
    }

    /// The refusal for the caller of work in a namespace that is cancelled at `now`; `None` if its
    /// feature is not configured any more.
    pub fn cancelled_work(&self, work: &CancellableWork, namespace: &str, now: Timestamp) -> Option<Refusal> {
        let (overload, feature) = self.feature_of_work(work)?;
        let class = (Text::from_static("class"), Text::from_static(work.grant.class().as_str()));
        let scope: ScopeValues = smallvec![class];
        let level = feature.renewed_level(work.grant);
        Some(disabled_feature((namespace, scope), overload, work.id, level, now))
    }

    /// The number of changes of features since the start: another one than before means that work
    /// may have to be cancelled.
    pub fn feature_event_count(&self) -> u64 {
        self.overload().map_or(0, Overload::feature_event_count)
    }

    fn feature_of_work(&self, work: &CancellableWork) -> Option<(&Overload, &Feature)> {
        let overload = self.overload()?;
        let feature = overload.feature_at(work.id).filter(|feature| **feature.name() == *work.feature)?;
        Some((overload, feature))
    }
}
