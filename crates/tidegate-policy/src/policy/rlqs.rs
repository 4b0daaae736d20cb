//! Checked settings of Envoy's rate limit quota service (RLQS).

use core::time::Duration;

/// The bounds of Envoys that hold parts of limits.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rlqs {
    /// How long an assignment lasts, in whole seconds, [`Rlqs::TTL_MIN`] to [`Rlqs::TTL_MAX`];
    /// default [`Rlqs::TTL_DEFAULT`].
    pub ttl: Duration,
    /// How many remote holders one key has at one member at most, 1 to [`Rlqs::HOLDERS_MAX`], which
    /// is the default.
    pub holders: u32,
    /// How many buckets one stream has at most, 1 to [`Rlqs::BUCKETS_MAX`], which is the default.
    pub buckets: u32,
    /// The namespaces whose limits are checked for whether an Envoy can hold them, each of them
    /// one of [`Policy::namespaces`](super::Policy::namespaces), and none twice. All namespaces are
    /// served.
    pub namespaces: Vec<String>,
}

impl Rlqs {
    /// How long an assignment lasts unless told otherwise: two reports of an Envoy.
    pub const TTL_DEFAULT: Duration = Duration::from_secs(10);
    /// The shortest assignment: with less, one could end before the next is taken.
    pub const TTL_MIN: Duration = Duration::from_secs(10);
    /// The longest assignment.
    pub const TTL_MAX: Duration = Duration::from_mins(1);
    /// The most remote holders of one key: as many as a key has holders.
    pub const HOLDERS_MAX: u32 = 256;
    /// The most buckets of one stream.
    pub const BUCKETS_MAX: u32 = 1000;
}

impl Default for Rlqs {
    fn default() -> Self {
        Self {
            ttl: Self::TTL_DEFAULT,
            holders: Self::HOLDERS_MAX,
            buckets: Self::BUCKETS_MAX,
            namespaces: Vec::new(),
        }
    }
}

// A key has no more holders than that.
const _: () = assert!(Rlqs::HOLDERS_MAX as usize == tidegate_core::lease::HOLDERS_MAX, "they are the same");
