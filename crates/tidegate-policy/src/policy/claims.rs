//! Where a request says more about itself than its attributes: class, tenant, feature, deadline,
//! attempt and the access to a table. Claims of callers are bounded here, so that nobody ranks its
//! own requests above those of others.

use std::collections::BTreeMap;

use http::HeaderName;
use tidegate_core::Class;

use crate::grammar::ValueSource;

/// The header, and the name of an entry, in which a request says how many attempts there were
/// before it.
pub const ATTEMPT: HeaderName = HeaderName::from_static("tidegate-attempt");
/// The header, and the name of an entry, in which a request says how many milliseconds its caller
/// waits.
pub const DEADLINE_MS: HeaderName = HeaderName::from_static("tidegate-deadline-ms");

/// The name of an entry in which a request says its class.
pub const CLASS: &str = "tidegate-class";

/// Where the class of a request is found, and the highest one that its caller may claim.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClassSource {
    /// Where it is found. Default none at a route, `entry.tidegate-class` at a namespace.
    pub from: Option<ValueSource>,
    /// The class of requests that claim none; default [`Class::SheddablePlus`].
    pub default: Class,
    /// The highest class that may be claimed; a higher claim counts as this one.
    ///
    /// At a route it holds for peers outside of `proxy.trusted`. Its default there is
    /// [`ClassSource::default`] where the client writes the source itself, so that a client can
    /// only lower its class, and the highest class otherwise.
    pub ceiling: Class,
}

impl Default for ClassSource {
    fn default() -> Self {
        Self { from: None, default: Class::default(), ceiling: Class::CriticalPlus }
    }
}

/// The access to a table that a request makes. It makes none if the table is absent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AccessSources {
    /// The name of the table.
    pub table: ValueSource,
    /// The key, which decides the partition. A request with a table and without a key is malformed.
    pub key: ValueSource,
    /// The kind of the access: the name of one, or a method, of which GET, HEAD and OPTIONS read
    /// and all others write. Default: the method of a proxied request, a read elsewhere.
    pub kind: Option<ValueSource>,
    /// The size in bytes. Default, and where it is absent: 1.
    pub size: Option<ValueSource>,
}

/// The parts of an access as they were found in a request, as text.
#[derive(Clone, Copy, Debug, Default)]
pub struct AccessParts<'a> {
    /// The name of the table; without it there is no access.
    pub table: Option<&'a str>,
    /// The key.
    pub key: Option<&'a str>,
    /// The kind of the access, or a method. Default: a read.
    pub kind: Option<&'a str>,
    /// The size in bytes. Default: 1.
    pub size: Option<&'a str>,
}

impl AccessSources {
    pub(crate) fn new(table: ValueSource, key: ValueSource) -> Self {
        Self { table, key, kind: None, size: None }
    }

    /// The sources, in the order table, key, kind, size.
    pub fn sources(&self) -> impl Iterator<Item = &ValueSource> {
        [&self.table, &self.key].into_iter().chain(&self.kind).chain(&self.size)
    }
}

/// The claims of requests of a namespace, for the protocols that describe a request by names and
/// values; and the classes of its tenants, for every protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestClaims {
    /// Where the tenant is found, which says who pays. Default `entry.tenant`.
    pub tenant: ValueSource,
    /// Where the class is found. Its ceiling holds for all callers and protocols.
    pub class: ClassSource,
    /// The classes of tenants: the class of a tenant's requests that claim none, and the highest
    /// one that its requests may claim, in place of the ceiling. At most
    /// [`RequestClaims::TENANTS_MAX`].
    pub tenants: BTreeMap<String, Class>,
    /// Where the feature is found, one of [`Policy::features`](super::Policy::features). Default
    /// `entry.feature`.
    pub feature: ValueSource,
    /// Where a request says how many milliseconds its caller waits, 1 to 10 digits. Default
    /// `entry.tidegate-deadline-ms`.
    pub deadline: ValueSource,
    /// Where a request says how many attempts there were before it. Default
    /// `entry.tidegate-attempt`.
    pub attempt: ValueSource,
    /// Where a request shows its deferral ticket. Default `entry.ticket`.
    pub ticket: ValueSource,
    /// The access to a table. Default: the entries `table`, `key`, `kind` and `size`, where the
    /// namespace has tables.
    pub access: Option<AccessSources>,
}

impl RequestClaims {
    /// The most tenants with a class of their own.
    pub const TENANTS_MAX: usize = 10_000;
}

impl Default for RequestClaims {
    fn default() -> Self {
        let entry = |name: &str| ValueSource::Entry(name.to_owned());
        Self {
            tenant: entry("tenant"),
            class: ClassSource { from: Some(entry(CLASS)), ..ClassSource::default() },
            tenants: BTreeMap::new(),
            feature: entry("feature"),
            deadline: entry(DEADLINE_MS.as_str()),
            attempt: entry(ATTEMPT.as_str()),
            ticket: entry("ticket"),
            access: None,
        }
    }
}

impl RequestClaims {
    /// The class of a request that claims `claimed` for `tenant`: bounded by the class of the
    /// tenant, or by the ceiling if the tenant has none; `otherwise` for one that claims none.
    pub fn class_of(&self, claimed: Option<Class>, tenant: Option<&str>, otherwise: Class) -> Class {
        if self.tenants.is_empty() {
            return claimed.unwrap_or(otherwise).min(self.class.ceiling);
        }
        match tenant.and_then(|tenant| self.tenants.get(tenant)) {
            Some(own) => claimed.map_or(*own, |claimed| claimed.min(*own)),
            None => claimed.unwrap_or(otherwise).min(self.class.ceiling),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_bounded_by_the_class_of_the_tenant_or_by_the_ceiling() {
        use Class::{Critical, CriticalPlus, Sheddable, SheddablePlus};
        let mut claims = RequestClaims::default();
        assert_eq!(claims.class_of(Some(CriticalPlus), Some("ada"), SheddablePlus), CriticalPlus);
        claims.class.ceiling = Critical;
        claims.tenants = [("gold".to_owned(), CriticalPlus), ("batch".to_owned(), Sheddable)].into();
        for (claimed, tenant, otherwise, expected) in [
            (Some(CriticalPlus), Some("gold"), SheddablePlus, CriticalPlus),
            (None, Some("gold"), SheddablePlus, CriticalPlus),
            (Some(Sheddable), Some("gold"), SheddablePlus, Sheddable),
            (Some(CriticalPlus), Some("batch"), SheddablePlus, Sheddable),
            (None, Some("batch"), Critical, Sheddable),
            (Some(CriticalPlus), Some("other"), SheddablePlus, Critical),
            (None, Some("other"), SheddablePlus, SheddablePlus),
            (None, None, CriticalPlus, Critical),
            (Some(Sheddable), None, CriticalPlus, Sheddable),
        ] {
            assert_eq!(claims.class_of(claimed, tenant, otherwise), expected, "{claimed:?} {tenant:?}");
        }
    }
}
