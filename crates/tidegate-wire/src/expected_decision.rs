//! The decision that an explanation foresees.

use serde::{Deserialize, Serialize};

/// The decision of a limit, or of all limits together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(as = Would))]
#[serde(rename_all = "snake_case")]
pub enum ExpectedDecision {
    /// The request may go ahead.
    #[default]
    Admit,
    /// It may go ahead once a place of its resource is free for it.
    Wait,
    /// It may not.
    Refuse,
}
