//! The namespaces that wait for the places of a resource.

use std::collections::BTreeMap;

use crate::namespaces::NamespaceKey;

/// How many requests of each namespace wait for a place of one resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitingNamespaces(BTreeMap<NamespaceKey, u64>);

impl WaitingNamespaces {
    /// Whether no request waits.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn add(&mut self, namespace: NamespaceKey, requests: usize) {
        if requests > 0 {
            *self.0.entry(namespace).or_default() += requests as u64;
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (NamespaceKey, u64)> + '_ {
        self.0.iter().map(|(namespace, requests)| (*namespace, *requests))
    }
}
