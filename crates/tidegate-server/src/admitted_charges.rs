//! The charges of an admitted request, as its answer shows them.

use tidegate_engine::LimitReport;
use tidegate_wire::answer::AccessUnits;
use tidegate_wire::headers::ShownFeature;

/// The charges of an admitted request, and the level of the feature that it was granted.
#[derive(Clone, Copy, Default)]
pub(crate) struct AdmittedCharges<'a> {
    pub(crate) limits: &'a [LimitReport],
    /// `None` without an access to a table.
    pub(crate) access: Option<AccessUnits>,
    /// `None` without a feature that has levels.
    pub(crate) feature: Option<&'a ShownFeature<'a>>,
    /// Whether the feature only shows its level.
    pub(crate) is_shadow_feature: bool,
}
