//! The bounds of namespaces on the places of a resource.
//!
//! A namespace may have all places while no other asks for one. One whose unsettled place has
//! expired is held back to its part for a while, and so is each beyond its part while another has
//! less than its part and is refused.

use std::sync::Arc;

use tidegate_core::Class;

use crate::cursor::namespace_slots::NamespaceSlots;
use crate::namespaces::NamespaceKey;

/// The bounds on the places of the namespaces at a resource, as they stand at any instant.
#[derive(Clone, Debug)]
pub struct PlaceBounds(Arc<NamespaceSlots>);

impl PlaceBounds {
    pub(crate) const fn new(slots: Arc<NamespaceSlots>) -> Self {
        Self(slots)
    }

    /// Whether a namespace may take one more place for a request of a class.
    pub(crate) fn allow(&self, namespace: NamespaceKey, class: Class) -> bool {
        self.0.may_take_place(namespace, class)
    }
}
