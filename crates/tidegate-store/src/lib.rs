//! State kept elsewhere: the contract every store keeps, a store in memory, and the suite that
//! proves either.
//!
//! A [`Store`] moves one [`Batch`] of operations on counters at a time, atomically, on its own
//! clock, and answers the same batch the same way when it is sent again.
//! `docs/internals/store-contract.md` says what is guaranteed, what is bounded, and how to write a
//! store; the module `conformance` (with the feature of that name) is the suite it then has to
//! pass.
//!
//! ```
//! use tidegate_core::{Algorithm, Cost, Rate, Timestamp};
//! use tidegate_store::{Batch, Key, Kind, MemoryConfig, MemoryStore, Operation, RequestId};
//! let store = MemoryStore::new(MemoryConfig::new([1, 2, 3, 4]), || Timestamp::from_secs(1_800_000_000));
//! let algorithm = Algorithm::bucket(Rate::per_second(100)?)?;
//! let check = Operation::new(Key::new("api", b"per-user", b"ada")?, algorithm, Kind::Check { cost: Cost::ONE });
//! let batch = Batch::all_or_nothing(RequestId(1), [check]);
//! assert_eq!(store.run_now(&batch)?.outcomes[0].remaining, 99);
//! assert_eq!(store.run_now(&batch)?.outcomes[0].remaining, 99); // The same request: charged once.
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod store;

pub mod batch;
pub mod key;
pub mod note;

pub mod answer;
pub mod error;

pub mod keeper;
pub mod memory;

pub mod fleet_store;
pub mod member_store;

#[cfg(feature = "conformance")]
pub mod conformance;

mod id;
mod record;
mod step;

pub use answer::{Answer, Grants, Outcome, Outcomes};
pub use batch::{Batch, BatchMode, CarryOver, Kind, OnLedger, Operation, Operations};
pub use error::StoreError;
pub use fleet_store::{Circuit, FleetCall, FleetStats, FleetStore, Loss, Rejected};
pub use id::{HolderId, RequestId};
pub use keeper::{Keeper, RECORD_LAYOUTS};
pub use key::Key;
pub use member_store::MemberStore;
pub use memory::{MemoryConfig, MemoryStats, MemoryStore};
pub use note::{Note, NoteChange, NoteKind};
pub use store::{DynStore, Noting, Running, Store};
