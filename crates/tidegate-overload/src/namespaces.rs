//! The namespaces that share a resource, and the part of each.

use std::collections::BTreeMap;

/// The namespaces of which a resource tells the requests apart; all further ones count as one.
pub const NAMESPACES_MAX: usize = 64;

/// A namespace as a resource knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum NamespaceKey {
    /// The namespace with this number.
    Exact(u32),
    /// All namespaces beyond [`NAMESPACES_MAX`].
    Rest,
}

impl NamespaceKey {
    /// The number; `None` for those that are not told apart.
    pub(crate) const fn number(self) -> Option<u32> {
        match self {
            Self::Exact(number) => Some(number),
            Self::Rest => None,
        }
    }
}

/// The shares of the namespaces in each class of a resource: within a class, a namespace is served
/// in proportion to its share while others wait. Default: equal shares.
///
/// ```
/// # use tidegate_overload::NamespaceShares;
/// let shares = NamespaceShares::new([(1, 3), (2, 1)]);
/// assert_ne!(shares, NamespaceShares::default());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceShares(BTreeMap<u32, u32>);

impl NamespaceShares {
    /// The largest share.
    pub const MAX: u32 = 10_000;

    /// The shares of namespaces by their numbers (as [`Group::namespace`](crate::Group::namespace)
    /// counts them), 1 to [`NamespaceShares::MAX`]; a share outside counts as the nearest one. A
    /// namespace without one has a share of 1.
    pub fn new(shares: impl IntoIterator<Item = (u32, u32)>) -> Self {
        Self(shares.into_iter().map(|(namespace, share)| (namespace, share.clamp(1, Self::MAX))).collect())
    }

    /// The share of a namespace; all that are too many have one of 1 together.
    pub(crate) fn weight(&self, namespace: NamespaceKey) -> u32 {
        match namespace {
            NamespaceKey::Exact(number) => self.0.get(&number).copied().unwrap_or(1),
            NamespaceKey::Rest => 1,
        }
    }
}
