//! State kept elsewhere: the contract every store keeps, a store in memory, and the suite that proves either.

pub mod answer;
pub mod batch;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod error;
pub mod key;
pub mod memory;
pub mod record;
pub mod store;

mod step;

pub use answer::{Answer, Outcome};
pub use batch::{Batch, BatchMode, HolderId, Kind, Operation, RequestId};
pub use error::StoreError;
pub use key::Key;
pub use memory::{MemoryConfig, MemoryStats, MemoryStore};
pub use store::{DynStore, Running, Store};
