//! The series of the features with levels, read when the page is rendered. Their labels are names
//! of the policy and two directions.

use core::fmt;

use tidegate_core::Timestamp;
use tidegate_engine::Engine;

use super::series::SeriesEncoder;
use crate::records::feature_log::FeatureLog;

/// Writes the series; nothing for a policy without features that have levels.
pub(super) fn encode(
    page: &mut SeriesEncoder<'_, '_>,
    engine: &Engine,
    log: &FeatureLog,
    now: Timestamp,
) -> fmt::Result {
    let mut features = engine.feature_views(now);
    if features.is_empty() {
        return Ok(());
    }
    features.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    let named = || features.iter().map(|feature| ([("feature", &*feature.name)], feature));
    let levels = named().map(|(labels, feature)| (labels, u64::from(feature.level)));
    page.gauges("tidegate_feature_level", levels)?;
    page.gauges("tidegate_feature_in_flight", named().map(|(labels, feature)| (labels, feature.in_flight)))?;
    let footprints = named().map(|(labels, feature)| (labels, feature.footprint));
    page.gauges("tidegate_feature_footprint_ratio", footprints)?;
    let changes = named().flat_map(|([name], feature)| {
        let changes = log.changes(&feature.name);
        [("down", changes.down), ("up", changes.up)]
            .map(|(direction, count)| ([name, ("direction", direction)], count))
    });
    page.counters("tidegate_feature_transitions", changes)?;
    let released =
        named().map(|(labels, feature)| (labels, feature.released_after.unwrap_or_default().as_secs_f64()));
    page.gauges("tidegate_feature_released_seconds", released)
}
