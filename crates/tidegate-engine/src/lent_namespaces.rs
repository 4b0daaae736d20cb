//! The namespaces that are lent although no members share the store.
//!
//! Without such members a limit is counted in the table of keys. Once others hold parts of the
//! limits of a namespace, as Envoys do, its rates are lent: this process has their ledgers, and
//! spends them from leases like any other holder. All other limits stay where they are counted.

use std::collections::BTreeMap;
use std::sync::Mutex;

use tidegate_core::limit::{Consistency, OnStoreFailure, Override};
use tidegate_core::{Algorithm, Limit};

use crate::sync::lock_plain;

/// The namespaces that are lent, until the process ends, each with the generation of the first
/// engine that lends it.
#[derive(Debug, Default)]
pub(crate) struct LentNamespaces(Mutex<BTreeMap<Box<str>, u32>>);

impl LentNamespaces {
    pub(crate) fn contains(&self, namespace: &str) -> bool {
        self.since(namespace).is_some()
    }

    /// The generation of the first engine that lends a namespace.
    pub(crate) fn since(&self, namespace: &str) -> Option<u32> {
        lock_plain(&self.0).get(namespace).copied()
    }

    pub(crate) fn add(&self, namespace: &str, generation: u32) {
        lock_plain(&self.0).entry(namespace.into()).or_insert(generation);
    }
}

/// A limit of a lent namespace as it is lent, with the overrides that are set at run time; `None`
/// if it stays in the table of keys.
///
/// Lent are the buckets whose place was [left open](Limit::is_lendable), unless they are quotas, or
/// some of their numbers cannot be leased. A bucket that may be overdrawn is leased without its
/// debt, so it stays as well.
pub(crate) fn lent(limit: &Limit, at_run_time: impl Iterator<Item = Override>) -> Option<Limit> {
    let is_open = limit.is_lendable && limit.consistency == Consistency::Local && !limit.is_divided;
    if !is_open || limit.algorithm.is_quota() {
        return None;
    }
    let lent = limit.clone().consistency(Consistency::Leased).on_store_failure(OnStoreFailure::Local);
    // Overrides that the limit does not take are dormant either way.
    let set = at_run_time.filter(|one| limit.check_override(one).is_ok()).map(|one| one.algorithm);
    let of_plans = lent.plans.iter().filter_map(|one| one.algorithm.clone());
    let of_overrides = lent.overrides.iter().map(|one| one.algorithm.clone());
    let mut numbers = set.chain(of_plans).chain(of_overrides).chain([lent.algorithm.clone()]);
    let is_leasable = numbers.all(|one| has_no_debt(&one) && lent.check_numbers(&one).is_ok());
    is_leasable.then_some(lent)
}

fn has_no_debt(algorithm: &Algorithm) -> bool {
    matches!(algorithm, Algorithm::Bucket(bucket) if bucket.debt() == 0)
}
