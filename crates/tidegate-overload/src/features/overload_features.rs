//! The features of the plane, as its callers use them.

use tidegate_core::Timestamp;

use crate::features::feature::{Feature, FeatureId};
use crate::features::feature_event::FeatureEvent;
use crate::features::feature_pin::FeaturePinError;
use crate::features::feature_view::FeatureView;
use crate::overload::Overload;
use crate::resource_id::ResourceId;

impl Overload {
    /// The feature of this name; `None`: no feature has it, and the request has no level.
    #[inline]
    pub fn find_feature(&self, name: &str) -> Option<FeatureId> {
        self.feature_set().find(name, self.seed())
    }

    /// All features.
    pub fn features(&self) -> impl Iterator<Item = (FeatureId, &Feature)> {
        self.feature_set().configured().map(|(id, slot)| (id, &*slot.feature))
    }

    /// The feature with this number. Panics if the plane has none.
    #[inline]
    pub fn feature(&self, id: FeatureId) -> &Feature {
        &self.feature_set().slot(id).feature
    }

    /// The feature with this number; `None` if this plane has none, such as for a number of a later
    /// plane.
    #[inline]
    pub fn feature_at(&self, id: FeatureId) -> Option<&Feature> {
        self.feature_set().slots.get(id.index()).map(|slot| &*slot.feature)
    }

    /// The resource whose places the work of a feature takes.
    #[inline]
    pub fn feature_resource(&self, id: FeatureId) -> ResourceId {
        self.feature_set().slot(id).resource
    }

    /// The earliest instant at which a feature that is off may be on again, by its `min_dwell` and
    /// the settle time: at least a tick from `now`.
    pub fn feature_retry(&self, id: FeatureId, now: Timestamp) -> Timestamp {
        self.feature(id).retry(now)
    }

    /// All features with their levels and the reasons of these, in the order of their numbers.
    pub fn feature_views(&self, now: Timestamp) -> Vec<FeatureView> {
        self.feature_set().views(self, now)
    }

    /// The events since the start, whether or not they were taken: another number than before means
    /// that the levels may be other ones.
    pub fn feature_event_count(&self) -> u64 {
        self.feature_set().events.count()
    }

    /// The events since the last call, the oldest first, at most
    /// [`FEATURE_EVENTS_MAX`](crate::FEATURE_EVENTS_MAX).
    pub fn take_feature_events(&self) -> Vec<FeatureEvent> {
        self.feature_set().events.take()
    }

    /// The events since the start that were dropped because too many waited.
    pub fn feature_events_dropped(&self) -> u64 {
        self.feature_set().events.dropped()
    }

    /// The feature of this name, if [`Overload::pin_feature`] would pin it so; nothing is changed.
    pub fn check_feature_pin(
        &self,
        name: &str,
        level: &str,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<FeatureId, FeaturePinError> {
        let id = self.known_feature(name)?;
        self.feature_set().check_pin(id, level, until, now)?;
        Ok(id)
    }

    /// Pins a feature to a level until an instant, at most
    /// [`FEATURE_PIN_MAX`](crate::FEATURE_PIN_MAX) from `now`.
    ///
    /// The level changes at once, also within `min_dwell`, and for all requests, whatever the
    /// scope. A tick ends the pin; the control goes on from the level that was pinned.
    pub fn pin_feature(
        &self,
        name: &str,
        level: &str,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<FeatureId, FeaturePinError> {
        let id = self.known_feature(name)?;
        self.feature_set().pin(self, id, level, until, now)?;
        Ok(id)
    }

    /// Ends the pin of a feature; nothing if it has none.
    pub fn unpin_feature(&self, name: &str, now: Timestamp) -> Result<FeatureId, FeaturePinError> {
        let id = self.known_feature(name)?;
        self.feature_set().unpin(self, id, now);
        Ok(id)
    }

    /// The feature of this name; without one, the error that lists others.
    pub fn known_feature(&self, name: &str) -> Result<FeatureId, FeaturePinError> {
        self.find_feature(name).ok_or_else(|| {
            let mut known: Vec<_> = self.features().map(|(_, feature)| &**feature.name()).collect();
            known.sort_unstable();
            FeaturePinError::unknown_feature(name, known.into_iter())
        })
    }
}
