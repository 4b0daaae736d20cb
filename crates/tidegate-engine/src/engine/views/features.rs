//! The levels of features: for admitted requests, for one request that is looked at, and for all.

use std::sync::Arc;

use tidegate_core::{Class, Timestamp};
use tidegate_overload::{FeatureEvent, FeatureView, Overload, RequestRecord};

use crate::engine::Engine;
use crate::granted_level::GrantedLevel;
use crate::permit::{Holds, Permit};
use crate::request::Request;

/// The level of a feature that an admitted request was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantedFeature<'a> {
    /// The feature.
    pub name: &'a str,
    /// The name of its level.
    pub level: &'a str,
}

/// The level of a feature as one request meets it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FeatureReport {
    /// The feature.
    pub name: Arc<str>,
    /// The name of the level that the request would get; `on` for a feature without levels.
    pub level: Arc<str>,
    /// Whether the feature is off for the request.
    pub is_off: bool,
    /// Whether the feature only shows its level: the request is served at the best one.
    pub is_shadow: bool,
    /// The class of the feature.
    pub class: Class,
    /// The earliest instant at which a feature that is off may be on again.
    pub retry_at: Option<Timestamp>,
}

impl Engine {
    /// The level of the feature that the first request of a permit was granted, to be told to its
    /// caller; `None` without a feature that has levels and follows them.
    pub fn granted_feature(&self, permit: &Permit) -> Option<GrantedFeature<'_>> {
        self.granted(permit.first())
    }

    /// [`Engine::granted_feature`] of each request of a permit, in their order.
    pub fn granted_features<'p>(
        &'p self,
        permit: &'p Permit,
    ) -> impl Iterator<Item = Option<GrantedFeature<'p>>> {
        permit.holds().iter().map(|holds| self.granted(holds))
    }

    /// The level that a request with these holds was granted.
    pub(crate) fn granted(&self, holds: &Holds) -> Option<GrantedFeature<'_>> {
        let GrantedLevel { id, grant } = holds.other()?.feature?;
        // A request that waited may have been granted by an engine that has replaced this one.
        let feature = self.overload()?.feature_at(id)?;
        Some(GrantedFeature { name: feature.name(), level: feature.granted_level(grant)? })
    }

    /// Whether the overload plane has features, whose levels need ticks also between requests.
    pub fn has_features(&self) -> bool {
        self.overload().is_some_and(|overload| overload.features().next().is_some())
    }

    /// All features with their levels and the reasons of these; none without an overload plane.
    pub fn feature_views(&self, now: Timestamp) -> Vec<FeatureView> {
        self.overload().map_or_else(Vec::new, |overload| overload.feature_views(now))
    }

    /// The changes of features since the last call, the oldest first. One caller at a time has use
    /// for it.
    pub fn take_feature_events(&self) -> Vec<FeatureEvent> {
        self.overload().map_or_else(Vec::new, Overload::take_feature_events)
    }

    /// The changes since the start that were dropped because too many waited to be taken.
    pub fn feature_events_dropped(&self) -> u64 {
        self.overload().map_or(0, Overload::feature_events_dropped)
    }

    /// The level that a request with this target would get; `None` if its resource has no feature
    /// of this name.
    pub(crate) fn feature_report(
        &self,
        request: &Request<'_>,
        target: &RequestRecord,
        now: Timestamp,
    ) -> Option<FeatureReport> {
        let (overload, located) = self.overload().zip(self.feature_at(request, target))?;
        let feature = overload.feature(located.id);
        let grant = feature.grant(target.level());
        Some(FeatureReport {
            name: Arc::clone(feature.name()),
            level: Arc::clone(feature.level_name(grant.level)),
            is_off: grant.is_off,
            is_shadow: grant.is_shadow,
            class: feature.config().class,
            retry_at: grant.is_off.then(|| overload.feature_retry(located.id, now)),
        })
    }
}
