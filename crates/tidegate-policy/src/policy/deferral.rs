//! Checked settings of deferral that the overload plane does not need: where a request says its
//! operation, and where the keys of tickets are.

use crate::grammar::ValueSource;

/// The settings of deferral at one resource beside those of the plane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeferralPolicy {
    /// Where the operation of a request is found; `None`, the default: its feature is its
    /// operation, also where the source is absent or a protocol cannot read it.
    pub operation: Option<ValueSource>,
    /// The file with the key that tickets are signed with, 1 to
    /// [`PATH_BYTES_MAX`](super::PATH_BYTES_MAX) bytes; `None`, the default: the file that another
    /// resource names, see [`Policy::ticket_key_file`](super::Policy::ticket_key_file).
    pub key_file: Option<String>,
}
