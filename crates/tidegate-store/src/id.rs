//! The names of batches and of the holders of permits.

use core::fmt;

/// The name of one batch: 128 bits that no other batch has, drawn at random or counted by one
/// member.
///
/// A batch that is sent again, because its answer did not arrive, is sent under the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u128);

impl fmt::Display for RequestId {
    /// 32 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The holder of a permit of a [`tidegate_core::Algorithm::Concurrency`] limit: 128 bits that no
/// other holder has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HolderId(pub u128);
