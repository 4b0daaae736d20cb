//! The counts of clients: for each row of the meter, the requests that began and their ends as the
//! clients know them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The outcomes of requests, as `docs/usage.md` lists them.
pub(super) const OUTCOMES: [&str; 10] = [
    "admitted",
    "denied",
    "throttled",
    "shed",
    "deferred",
    "disabled",
    "expired",
    "unavailable",
    "failed",
    "cancelled",
];

/// The reasons of each outcome, as `docs/usage.md` and `docs/reasons.md` list them.
const REASONS: [(&str, &str); 5] = [
    (
        "denied",
        "rate_exceeded quota_exceeded concurrency_exceeded blocked attribute_missing cost_exceeds_limit",
    ),
    (
        "throttled",
        "table_throughput_exceeded key_range_throughput_exceeded account_throughput_exceeded \
         on_demand_maximum_exceeded node_saturated replica_saturated migrating",
    ),
    ("shed", "overload_shed queue_full"),
    ("expired", "deadline_unmeetable"),
    ("unavailable", "store_unavailable table_full"),
];

/// The outcome of a request that was refused for this reason; `None` if the documents have no such
/// reason.
pub(super) fn outcome_of_reason(reason: &str) -> Option<&'static str> {
    let is_listed = |reasons: &&str| reasons.split(' ').any(|listed| listed == reason);
    REASONS.iter().find(|(_, reasons)| is_listed(reasons)).map(|(outcome, _)| *outcome)
}

/// The position of an outcome in [`OUTCOMES`].
pub(super) fn position(outcome: &str) -> usize {
    OUTCOMES.iter().position(|word| *word == outcome).expect("one of the ten outcomes")
}

/// A row of the meter in one class.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RowKey {
    /// `namespaces`, `features`, `resources` or `tenants of NAMESPACE`.
    pub(super) list: String,
    /// The name, [`NONE`] or [`OTHER`].
    pub(super) name: String,
    pub(super) class: String,
}

/// The row of requests without a name.
pub(super) const NONE: &str = "(none)";
/// The row of names that have no row of their own.
pub(super) const OTHER: &str = "(other)";

impl RowKey {
    pub(super) fn new(list: &str, name: &str, class: &str) -> Self {
        Self { list: list.to_owned(), name: name.to_owned(), class: class.to_owned() }
    }

    /// The list of the tenants of a namespace.
    pub(super) fn tenants_of(namespace: &str) -> String {
        format!("tenants of {namespace}")
    }
}

impl std::fmt::Display for RowKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, {}, {}", self.list, self.name, self.class)
    }
}

/// The requests of a row, as their clients know them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ClientCounts {
    /// Requests of which at least a byte may have been sent.
    pub(super) begun: u64,
    /// Answered requests, in the order of [`OUTCOMES`].
    pub(super) outcomes: [u64; OUTCOMES.len()],
    /// Units of those that were admitted.
    pub(super) units: u64,
    /// Admissions that clients have begun to undo since the start.
    pub(super) reopened: u64,
    /// Requests that were sent whole and whose connection was cut before the end of the answer.
    pub(super) cut: u64,
    /// Their units.
    pub(super) cut_units: u64,
}

/// A request as the ledger counts it.
#[derive(Clone, Debug)]
pub(super) struct LedgerEntry {
    pub(super) rows: Vec<RowKey>,
    pub(super) units: u64,
}

/// The counts of all clients by row.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    rows: Mutex<BTreeMap<RowKey, ClientCounts>>,
    /// The ends of requests, by protocol.
    endings: Mutex<BTreeMap<(&'static str, &'static str), u64>>,
    problems: Mutex<Vec<String>>,
}

/// How many problems are kept while requests are under way.
const PROBLEMS_MAX: usize = 40;

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ledger {
    fn each(&self, entries: &[LedgerEntry], count: impl Fn(&mut ClientCounts, u64)) {
        let mut rows = locked(&self.rows);
        for entry in entries {
            for row in &entry.rows {
                count(rows.entry(row.clone()).or_default(), entry.units);
            }
        }
    }

    /// Requests are about to be sent.
    pub(super) fn begin(&self, entries: &[LedgerEntry]) {
        self.each(entries, |row, _| row.begun += 1);
    }

    /// The answer to them names this outcome.
    pub(super) fn answered(&self, entries: &[LedgerEntry], outcome: &str) {
        let at = position(outcome);
        self.each(entries, |row, units| {
            row.outcomes[at] += 1;
            if outcome == "admitted" {
                row.units += units;
            }
        });
    }

    /// An admission is about to be undone: until that is answered, nothing is known of it.
    pub(super) fn reopen(&self, entries: &[LedgerEntry]) {
        let at = position("admitted");
        self.each(entries, |row, units| {
            row.outcomes[at] -= 1;
            row.units -= units;
            row.reopened += 1;
        });
    }

    /// They were sent whole, and never answered.
    pub(super) fn cut(&self, entries: &[LedgerEntry]) {
        self.each(entries, |row, units| {
            row.cut += 1;
            row.cut_units += units;
        });
    }

    /// Counts requests of a protocol for the report.
    pub(super) fn note(&self, protocol: &'static str, ending: &'static str, count: usize) {
        *locked(&self.endings).entry((protocol, ending)).or_default() += count as u64;
    }

    /// Something that must not happen.
    pub(super) fn problem(&self, text: String) {
        let mut problems = locked(&self.problems);
        if problems.len() < PROBLEMS_MAX && !problems.contains(&text) {
            problems.push(text);
        }
    }

    pub(super) fn problems(&self) -> Vec<String> {
        locked(&self.problems).clone()
    }

    pub(super) fn endings(&self) -> BTreeMap<(&'static str, &'static str), u64> {
        locked(&self.endings).clone()
    }

    /// The counts of all rows at this instant.
    pub(super) fn rows(&self) -> BTreeMap<RowKey, ClientCounts> {
        locked(&self.rows).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_one_outcome_and_other_words_have_none() {
        let reasons = || REASONS.iter().flat_map(|(_, reasons)| reasons.split(' '));
        for reason in reasons() {
            assert_eq!(reasons().filter(|other| *other == reason).count(), 1, "{reason}");
            assert!(OUTCOMES.contains(&outcome_of_reason(reason).unwrap()), "{reason}");
        }
        assert_eq!(outcome_of_reason("queue_full"), Some("shed"));
        assert_eq!(outcome_of_reason(""), None);
        assert_eq!(outcome_of_reason("admitted"), None);
    }

    #[test]
    fn an_undone_admission_leaves_neither_an_outcome_nor_units() {
        let (ledger, row) = (Ledger::default(), RowKey::new("namespaces", "shop", "critical"));
        let entry = [LedgerEntry { rows: vec![row.clone()], units: 3 }];
        ledger.begin(&entry);
        ledger.answered(&entry, "admitted");
        ledger.reopen(&entry);
        assert_eq!(ledger.rows()[&row], ClientCounts { begun: 1, reopened: 1, ..ClientCounts::default() });
        ledger.answered(&entry, "cancelled");
        assert_eq!(ledger.rows()[&row].outcomes[position("cancelled")], 1);
        assert_eq!(ledger.rows()[&row].units, 0);
    }
}
