//! Marks in the history of a resource: the changes of the levels of its features.

use std::sync::Arc;

use tidegate_core::Timestamp;

/// The most marks of a resource that are kept; a further one takes the place of the oldest, which
/// is counted.
pub const HISTORY_MARKS_MAX: usize = 256;

/// A change of the level of a feature, as a picture shows it: `thumbnails off`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelMark {
    /// When.
    pub at: Timestamp,
    /// The feature.
    pub feature: Arc<str>,
    /// The level from then on, in words.
    pub level: Arc<str>,
    /// Whether the level is worse than the one before.
    pub is_worse: bool,
    /// Whether the feature only shows its level.
    pub is_shadow: bool,
}

impl LevelMark {
    /// The bytes that a mark takes in a history: its place and its names.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.feature.len() + self.level.len()
    }
}
