//! The driver: the only code that drives an undecided request or operation of
//! [`tidegate_engine::Engine`], on tokio.
//!
//! The engine is sans-IO. A decision that needs the store, or a lease, is returned as a pending
//! request together with what it wants. This crate brings that: it calls the store within a
//! deadline, renews leases, undoes batches that were given up, gives back what a cancelled request
//! holds, and resumes each request by the engine in force.
//!
//! [`Admission`] is the handle for a service without HTTP, such as a worker:
//!
//! ```
//! use tidegate_core::{Limit, limit::Consistency};
//! use tidegate_driver::Admission;
//! use tidegate_engine::Request;
//! # use tidegate_store::{MemoryConfig, MemoryStore};
//! # let now = || tidegate_core::Timestamp::from(std::time::SystemTime::now());
//! # let store = MemoryStore::new(MemoryConfig::new([1, 2, 3, 4]), now);
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! let limit = Limit::rate("jobs", "100/s")?.key(["queue"]).consistency(Consistency::Leased);
//! let admission = Admission::builder().limit(limit).store(store).build()?;
//!
//! let request = Request::new("default", &[("queue", "mail")]);
//! admission.until_ready(&request).await?.succeeded();
//! let hold = admission.admit(&request).await?.into_result()?;
//! hold.succeeded();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Cancellation.** Every future of this crate may be dropped at any await. A request that is
//! dropped while the store is asked is carried to its decision in the background, and what it was
//! admitted to is given back. A [`Hold`] that is dropped is settled as abandoned: what is lent
//! is given back, what was spent stays spent. An [`UntoldPermit`] that is dropped is settled as
//! cancelled.
//!
//! **Bounds.** One store call takes at most the store timeout. At most
//! [`driver::RENEWALS_MAX`] batches of lease asks are in flight, and at most
//! [`undo::UNDOS_MAX`] batches wait to be undone. A cancelled request takes part in the background
//! for at most a few store timeouts.

#![forbid(unsafe_code)]

pub mod admission;

pub mod driver;
pub mod hold;
pub mod kept_permit;
pub mod pending_request;

pub mod engine_handle;
pub mod feature_cancellation;
mod feature_cancels;
pub mod feature_handle;
pub mod feature_level;
pub mod store_call;
pub mod undo;

mod lease_renewal;
mod retry;
mod tick_claim;
mod tick_task;
mod timer;

pub use admission::{Admission, AdmissionBuilder, UntilReadyError, Verdict};
pub use driver::Driver;
pub use engine_handle::EngineHandle;
pub use feature_cancellation::Cancellation;
pub use feature_handle::{FeatureGuard, FeatureHandle};
pub use feature_level::FeatureLevel;
pub use hold::Hold;
pub use kept_permit::UntoldPermit;
pub use pending_request::{Decided, PendingRequest};
pub use store_call::{StoreHooks, Undoing};
pub use tidegate_clock::{Clock, ClockWait, ManualClock, SystemClock};
