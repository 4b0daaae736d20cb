//! The answers of several members, added up.

use std::cmp::Reverse;

use serde::Serialize;
use tidegate_wire::usage::{
    NamespaceUsageBody, TenantUsageBody, UsageBody, UsageColumn, UsageRow, UsageRowKind,
};

/// The counts of some members, added up.
#[derive(Debug, Serialize)]
pub(super) struct UsageSum<T> {
    /// The members that answered.
    pub(super) members: Vec<MemberUsage>,
    /// The sum, which has the name of the first member.
    pub(super) sum: T,
}

/// A member that answered.
#[derive(Debug, Serialize)]
pub(super) struct MemberUsage {
    /// Where it was asked.
    pub(super) at: String,
    /// Its name.
    pub(super) member: String,
    /// When it began to count what was asked for.
    pub(super) since: String,
}

/// An answer that can be added to that of another member.
pub(super) trait UsageAnswer {
    /// Whether it takes a number of rows and a column.
    const IS_LIST: bool;

    fn member(&self) -> &str;

    /// When the member began to count.
    fn since(&self) -> &str;

    /// Adds the answer of another member.
    fn add(&mut self, other: &Self);

    /// Keeps the `n` rows of each list whose sums are largest.
    fn keep_largest(&mut self, n: usize, by: UsageColumn);
}

impl UsageAnswer for UsageBody {
    const IS_LIST: bool = true;

    fn member(&self) -> &str {
        &self.member
    }

    fn since(&self) -> &str {
        &self.since
    }

    fn add(&mut self, other: &Self) {
        self.total.add(&other.total);
        self.metering_bytes += other.metering_bytes;
        for (mine, more, theirs, their_more) in [
            (&mut self.namespaces, &mut self.more_namespaces, &other.namespaces, other.more_namespaces),
            (&mut self.features, &mut self.more_features, &other.features, other.more_features),
            (&mut self.resources, &mut self.more_resources, &other.resources, other.more_resources),
        ] {
            add_rows(mine, theirs);
            *more += their_more;
        }
    }

    fn keep_largest(&mut self, n: usize, by: UsageColumn) {
        self.more_namespaces += keep_largest(&mut self.namespaces, n, by);
        self.more_features += keep_largest(&mut self.features, n, by);
        self.more_resources += keep_largest(&mut self.resources, n, by);
    }
}

impl UsageAnswer for NamespaceUsageBody {
    const IS_LIST: bool = true;

    fn member(&self) -> &str {
        &self.member
    }

    fn since(&self) -> &str {
        &self.namespace.since
    }

    fn add(&mut self, other: &Self) {
        self.namespace.add(&other.namespace);
        self.no_tenant.add(&other.no_tenant);
        self.other.add(&other.other);
        let (before, theirs) = (self.tenants.len(), other.tenants.len());
        add_rows(&mut self.tenants, &other.tenants);
        // Of tenants that are not listed, nobody knows which are the same.
        self.tracked += other.tracked - (before + theirs - self.tenants.len()).min(other.tracked);
        self.more += other.more;
    }

    fn keep_largest(&mut self, n: usize, by: UsageColumn) {
        self.more += keep_largest(&mut self.tenants, n, by);
    }
}

impl UsageAnswer for TenantUsageBody {
    const IS_LIST: bool = false;

    fn member(&self) -> &str {
        &self.member
    }

    fn since(&self) -> &str {
        &self.tenant.since
    }

    fn add(&mut self, other: &Self) {
        self.tenant.add(&other.tenant);
    }

    fn keep_largest(&mut self, _: usize, _: UsageColumn) {}
}

/// Adds rows to those of the same names.
fn add_rows(mine: &mut Vec<UsageRow>, theirs: &[UsageRow]) {
    type RowKey = (UsageRowKind, Option<String>, bool);
    let key = |row: &UsageRow| -> RowKey { (row.row, row.name.clone(), row.is_cut) };
    let mut places: std::collections::HashMap<RowKey, usize> =
        mine.iter().enumerate().map(|(place, row)| (key(row), place)).collect();
    for row in theirs {
        if let Some(place) = places.get(&key(row)) {
            mine[*place].add(row);
        } else {
            places.insert(key(row), mine.len());
            mine.push(row.clone());
        }
    }
}

/// Keeps the `n` largest rows; how many it takes out.
fn keep_largest(rows: &mut Vec<UsageRow>, n: usize, by: UsageColumn) -> usize {
    rows.sort_by_cached_key(|row| (Reverse(by.number(&row.total)), row.name.clone()));
    let out = rows.len().saturating_sub(n);
    rows.truncate(n);
    out
}
