//! The rows that one request counts in.
//!
//! Each number of a row is kept at its place in a [`RowsKey`], which every request makes.

use tidegate_core::{Class, RequestOutcome};

/// The number of a namespace in a meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NamespaceRow(u64);

impl NamespaceRow {
    /// The one of all namespaces that no policy has.
    pub(crate) const NONE: Self = Self(0);

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

/// The names of a request that its rows are found by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestNames<'a> {
    pub(crate) tenant: Option<&'a str>,
    /// `None` where its key has the feature.
    pub(crate) feature: Option<&'a str>,
}

/// A request as its caller offers it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offer {
    /// Whether it is a further attempt at something that was refused before.
    pub(crate) is_repeated: bool,
}

/// A request that is offered and decided at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DecidedRequest {
    pub(crate) outcome: RequestOutcome,
    /// The units that were admitted or refused.
    pub(crate) units: u64,
    /// As [`Offer::is_repeated`].
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

impl TenantPart {
    const ALL: [Self; 3] = [Self::Absent, Self::Tracked, Self::Other];

    /// The part of a request that names this tenant, as long as tenants have rows.
    #[inline]
    pub(super) const fn of(tenant: Option<&str>) -> Self {
        if tenant.is_some() { Self::Tracked } else { Self::Absent }
    }
}

impl MeteredRows<'_> {
    /// All but the tenant's name.
    #[inline]
    pub(super) const fn key(&self, part: TenantPart) -> RowsKey {
        let key = RowsKey::new(self.namespace, self.class, self.resource);
        RowsKey(key.0 | self.feature.0 | part as u64)
    }
}

/// The rows of a request but for its tenant's, in one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowsKey(u64);

impl RowsKey {
    /// Of a request that names neither tenant nor feature.
    #[inline]
    pub(crate) const fn new(namespace: NamespaceRow, class: Class, resource: ResourceRow) -> Self {
        Self(namespace.0 | resource.0 | (class as u64) << 2)
    }

    /// The same of a request with these names. It is no key of rows any more: those of a feature
    /// that is named are found by the name.
    #[inline]
    pub(super) const fn with_names(self, names: &RequestNames<'_>) -> u64 {
        self.0 | TenantPart::of(names.tenant) as u64 | (names.feature.is_some() as u64) << 4
    }

    #[inline]
    pub(super) const fn get(self) -> u64 {
        self.0
    }

    pub(super) const fn from_number(number: u64) -> Self {
        Self(number)
    }

    #[inline]
    pub(super) const fn namespace(self) -> u16 {
        NamespaceRow(self.0).number()
    }

    pub(super) const fn feature(self) -> u16 {
        FeatureRow(self.0).number()
    }

    pub(super) const fn resource(self) -> u16 {
        ResourceRow(self.0).number()
    }

    pub(super) const fn class(self) -> Class {
        Class::ALL[(self.0 >> 2 & 3) as usize]
    }

    pub(super) const fn part(self) -> TenantPart {
        TenantPart::ALL[(self.0 & 3) as usize]
    }

    /// Whether requests can be found again by it: they have neither a tenant's row nor a resource.
    #[inline]
    pub(super) const fn is_enough(self) -> bool {
        self.0 & 3 != TenantPart::Tracked as u64 && self.resource() == ResourceRow::NONE.number()
    }
}
