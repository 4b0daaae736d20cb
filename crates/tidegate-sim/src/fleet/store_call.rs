//! The origin of a call to the store.

use tidegate_engine::{LeaseBatch, Pending};
use tidegate_store::Batch;

use crate::fleet::arrival::Arrival;
use crate::kit::CallOrigin;

/// The request or the member that calls the store.
#[derive(Debug)]
pub(crate) enum StoreCall {
    /// A request, for its exact limits.
    Request(Pending, Arrival),
    /// A member, for its leases.
    Leases(LeaseBatch),
}

impl CallOrigin for StoreCall {
    type Message = Batch;

    fn message(&self) -> &Batch {
        match self {
            Self::Request(pending, _) => pending.batch().expect("only those that ask the store are carried"),
            Self::Leases(batch) => batch.batch(),
        }
    }
}
