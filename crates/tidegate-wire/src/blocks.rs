//! The answer of `GET /v1/blocks`: the keys that are blocked.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Blocks in force, as far as this member knows them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BlocksBody {
    /// The selected blocks, the one that ends last first.
    pub blocks: Vec<BlockBody>,
    /// How many more blocks are selected than `n` allows.
    pub more: usize,
    /// How many refusals by blocks this member could not list since it started, because as many
    /// blocks as it can remember were in force. 0 means that nothing is missing for lack of room.
    pub unlisted: u64,
}

/// A key that is blocked under one limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BlockBody {
    /// The namespace.
    pub namespace: String,
    /// The limit.
    pub limit: String,
    /// The attributes that name the counter, with their values; cut after 256 bytes each.
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub key: BTreeMap<String, String>,
    /// When the block ends, as RFC 3339.
    pub until: String,
    /// In how many milliseconds that is.
    pub remaining_ms: u64,
    /// Why the key is blocked: `operation` (an operation such as `POST /v1/block`), `refusal` (a
    /// refusal or a report at this member showed the block: the key exceeded a limit with
    /// `on_exceed`, or another member blocked it).
    pub why: String,
    /// When this member set the block or last refused by it, as RFC 3339.
    pub seen_at: String,
}
