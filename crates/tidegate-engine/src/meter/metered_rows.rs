//! The rows that one request counts in.
//!
//! Each number of a row is kept at its place in [`MeteredRows::key`], which every request makes.

use tidegate_core::Class;

/// The number of a namespace in a meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NamespaceRow(u64);

impl NamespaceRow {
    pub(super) const fn new(number: u16) -> Self {
        Self((number as u64) << 48)
    }

    #[inline]
    pub(super) const fn number(self) -> u16 {
        (self.0 >> 48) as u16
    }
}

/// The number of a feature in a meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FeatureRow(u64);

impl FeatureRow {
    /// A request that names no feature.
    pub(crate) const NONE: Self = Self(0);
    /// A request that names a feature that is not listed.
    pub(crate) const OTHER: Self = Self::new(1);

    pub(super) const fn new(number: u16) -> Self {
        Self((number as u64) << 32)
    }

    pub(super) const fn number(self) -> u16 {
        (self.0 >> 32) as u16
    }
}

/// The number of a resource in a meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ResourceRow(u64);

impl ResourceRow {
    /// A request without a resource.
    pub(crate) const NONE: Self = Self(0);

    pub(super) const fn new(number: u16) -> Self {
        Self((number as u64) << 16)
    }

    pub(super) const fn number(self) -> u16 {
        (self.0 >> 16) as u16
    }
}

/// The rows that a request counts in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MeteredRows<'a> {
    pub(crate) namespace: NamespaceRow,
    /// Any text, the empty one too; `None` for a request that names no tenant.
    pub(crate) tenant: Option<&'a str>,
    pub(crate) class: Class,
    pub(crate) feature: FeatureRow,
    pub(crate) resource: ResourceRow,
}

/// A request as its caller offers it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offer {
    /// Whether it is a further attempt at something that was refused before.
    pub(crate) is_repeated: bool,
}

/// The part of its namespace that a request counts in when tenants are added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TenantPart {
    /// It names no tenant.
    Absent,
    /// Its tenant has a row.
    Tracked,
    /// Its tenant has no row of its own.
    Other,
}

impl MeteredRows<'_> {
    /// All but the tenant's name, in one number.
    #[inline]
    pub(super) const fn key(&self, part: TenantPart) -> u64 {
        self.namespace.0 | self.feature.0 | self.resource.0 | (self.class as u64) << 2 | part as u64
    }
}
