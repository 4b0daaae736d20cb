//! Features, load levels and deferral in documents other than a configuration, checked as in one.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_overload::{DeferralConfig, FeatureConfig, LevelThresholds, QueueConfig};

use super::features::{ResourceNames, features};
use super::resources::{deferral, load_levels};
use crate::path::Path;
use crate::problem::Report;
use crate::raw::deferral::DeferForm;
use crate::raw::features::FeatureForm;
use crate::raw::resources::LoadLevelsForm;
use crate::raw::text_or::TextOr;

/// The list `features:` as it is written.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(transparent)]
pub struct FeatureEntries(Vec<TextOr<FeatureForm>>);

/// The load levels of a resource, `levels:`, as they are written.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(transparent)]
pub struct LoadLevelEntries(LoadLevelsForm);

/// How a resource defers requests, `defer:`, as it is written.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(transparent)]
pub struct DeferralEntries(DeferForm);

/// Checks the parts of a document that a configuration has too. Problems are reported with those
/// of the rest of the document.
#[derive(Debug)]
pub struct DocumentCheck<'a, 'r> {
    report: &'a mut Report<'r>,
}

impl<'a, 'r> DocumentCheck<'a, 'r> {
    pub(crate) fn new(report: &'a mut Report<'r>) -> Self {
        Self { report }
    }

    /// The thresholds of `levels:` of the entry `index` of the list `list`; the defaults where they
    /// are left out or wrong.
    pub fn load_levels(
        &mut self,
        written: Option<&LoadLevelEntries>,
        list: &str,
        index: usize,
    ) -> LevelThresholds {
        let path = Path::default().key(list).index(index).key("levels");
        load_levels::levels(written.map(|entries| &entries.0), &path, self.report)
    }

    /// The settings of `defer:` of the entry `index` of the list `list`, whose resource has the
    /// default queue; `None` where they are left out. `operation` and `key_file` are checked, and
    /// are no part of the settings.
    pub fn deferral(
        &mut self,
        written: Option<&DeferralEntries>,
        list: &str,
        index: usize,
    ) -> Option<DeferralConfig> {
        let form = &written?.0;
        let path = Path::default().key(list).index(index).key("defer");
        deferral::policy(form, true, &path, self.report);
        Some(deferral::config(form, &QueueConfig::default(), &path, self.report))
    }

    /// The features of `features:`, which follow the load of the resources of these names. `list`
    /// is the key under which the document has the resources.
    pub fn features(
        &mut self,
        written: Option<&FeatureEntries>,
        resources: &[&str],
        list: &'static str,
    ) -> Vec<FeatureConfig> {
        let entries = written.map(|entries| entries.0.as_slice());
        let names = ResourceNames { names: resources, key: list };
        features(entries, names, &Path::default().key("features"), self.report)
    }
}
