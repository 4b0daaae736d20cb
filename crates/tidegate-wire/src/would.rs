//! The decision that an explanation foresees.

use serde::{Deserialize, Serialize};
#[cfg(feature = "schema")]
use utoipa::ToSchema;

/// The decision of a limit, or of all limits together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Would {
    /// The request may go ahead.
    Admit,
    /// It may go ahead once a place of its resource is free for it.
    Wait,
    /// It may not.
    Refuse,
}
