//! The link from a request to its rows in plain numbers, which costs nothing to keep or to drop.

use super::metered_rows::{RowsKey, TenantPart};
use super::names_key::NamesKey;
use super::tenant_row::TenantRow;

/// The numbers by which the rows of a request without a resource are found again.
///
/// A thread that has used the rows lately finds them by the key of their names. Any other finds the
/// row of the tenant by its hash and number. A row that was evicted is not found: a tenant that
/// comes back has a row with another number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowsLink {
    key: NamesKey,
    rows: RowsKey,
    tenant_hash: u64,
    tenant_number: u32,
}

impl RowsLink {
    /// The link to rows without a tenant's.
    pub(super) const fn of_base(rows: RowsKey) -> Self {
        Self { key: NamesKey::NONE, rows, tenant_hash: 0, tenant_number: 0 }
    }

    /// The same rows with that of a tenant, which threads keep under this key.
    pub(super) const fn with_tenant(self, key: NamesKey, row: &TenantRow) -> Self {
        Self { key, rows: self.rows, tenant_hash: row.hash, tenant_number: row.number }
    }

    /// The key under which threads keep rows with a tenant's.
    pub(super) const fn key(&self) -> NamesKey {
        self.key
    }

    /// The rows but for the tenant's.
    pub(super) const fn rows(&self) -> RowsKey {
        self.rows
    }

    /// The hash and the number of the tenant's row; `None` if the request has none.
    pub(super) fn tenant(&self) -> Option<(u64, u32)> {
        (self.rows.part() == TenantPart::Tracked).then_some((self.tenant_hash, self.tenant_number))
    }
}
