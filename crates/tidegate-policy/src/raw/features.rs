//! The features of the services as they are written.

#[cfg(any(test, feature = "schema"))]
use schemars::JsonSchema;
use serde::Deserialize;

use super::claims::ClassConfig;
#[cfg(any(test, feature = "schema"))]
use super::text_or::LongerForm;

/// A feature of a service, such as thumbnails or search. A request names the feature that it is
/// for, with `feature` of a route or of `request`, or with the member `feature` of the API.
///
/// A name alone is counted and never degraded. With `levels` the feature gives up cost while its
/// resource is overloaded: from load level `brownout` on it goes down to the smallest step that
/// gives the relief needed, and each member brings it back when it fits again.
#[derive(Debug, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "feature")]
pub(crate) struct FeatureForm {
    /// Its name, unique, 1 to 128 bytes. With `levels` it consists of visible ASCII other than `=`,
    /// `,`, `;` and `"`, because it travels in the header `tidegate-feature`.
    pub(crate) name: String,
    /// The levels from best to worst, 2 to 16, each with a lower cost than the one before. Default:
    /// `[]`, and then the feature is only counted and has no other key than `name`.
    pub(crate) levels: Option<Vec<FeatureLevelForm>>,
    /// The resource whose load the levels follow. Default: the resource of the policy, if there is
    /// only one.
    pub(crate) resource: Option<String>,
    /// The class of the feature: features of a lower class give up their levels first. Default:
    /// `sheddable_plus`.
    pub(crate) class: Option<ClassConfig>,
    /// The worth of the feature beside others of its class, above 0: the feature with the most
    /// relief for its utility degrades first. Default: `1`.
    pub(crate) utility: Option<f64>,
    /// The shortest time between two changes of its level, 0s to 1d. Default: `10s`.
    pub(crate) min_dwell: Option<String>,
    /// The end of its work in flight when the feature is switched off. Default: `finish`.
    pub(crate) on_disable: Option<OnDisableForm>,
    /// For `on_disable: cancel`: the time that work in flight has to end by itself, 0s to 1h.
    /// Default: `2s`.
    pub(crate) grace: Option<String>,
    /// The requests whose level changes together. Default: `global`.
    pub(crate) scope: Option<FeatureScopeForm>,
    /// Whether requests get the level. Default: `enforce`.
    pub(crate) mode: Option<FeatureModeForm>,
}

#[cfg(any(test, feature = "schema"))]
impl LongerForm for FeatureForm {
    const ENTRY: &'static str = "feature_entry";
    const DESCRIPTION: &'static str =
        "A feature: its name alone, which is counted, or its name and its levels.";
}

/// A level of a feature.
#[derive(Debug, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "feature_level")]
pub(crate) struct FeatureLevelForm {
    /// Its name, as `480p`, unique in the feature: 1 to 64 bytes of visible ASCII other than `=`,
    /// `,`, `;` and `"`. The level `off` has cost 0.
    pub(crate) name: String,
    /// The part of the cost of a request at the first level that a request costs at this level, 0
    /// to 1: `1` at the first level, and less at each further one. At cost 0 the feature is off,
    /// and its requests are refused as `feature_disabled`.
    #[cfg_attr(any(test, feature = "schema"), schemars(range(min = 0.0, max = 1.0)))]
    pub(crate) cost: f64,
}

/// The end of work in flight when its feature is switched off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(JsonSchema))]
#[serde(rename_all = "snake_case", rename = "on_disable")]
pub(crate) enum OnDisableForm {
    /// It is finished.
    #[default]
    Finish,
    /// It is cancelled after `grace`.
    Cancel,
}

/// The requests of a feature that change their level together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(JsonSchema))]
#[serde(rename_all = "snake_case", rename = "feature_scope")]
pub(crate) enum FeatureScopeForm {
    /// All requests of the feature.
    #[default]
    Global,
    /// The requests of one class: a lower class degrades before a higher one.
    Class,
    /// The requests of a part of the tenants, which changes every hour.
    Tenant,
}

/// Whether a feature follows its level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(JsonSchema))]
#[serde(rename_all = "snake_case", rename = "feature_mode")]
pub(crate) enum FeatureModeForm {
    /// Requests get the level.
    #[default]
    Enforce,
    /// The level is found and shown, and requests get the best level.
    Shadow,
}
