//! One limit for many members: counters, ledgers of leased limits and notes in Redis 7 or Valkey,
//! one server or a cluster.
//!
//! A [`RedisStore`] has one script decide a whole batch in one step, on the server's clock, in one
//! round trip. It decides as the pure code of `tidegate_core::algorithm` does, to the unit and to
//! the microsecond in which the server's clock counts.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use tidegate_core::{Algorithm, Cost, Rate};
//! use tidegate_store::{Batch, Key, Kind, Operation, RequestId, Store};
//! use tidegate_store_redis::{RedisConfig, RedisStore};
//!
//! let store = RedisStore::open(RedisConfig::new(["redis://127.0.0.1:6379"]))?;
//! let algorithm = Algorithm::bucket(Rate::per_second(100)?)?;
//! let check = Operation::new(Key::new("api", b"per-user", b"ada")?, algorithm, Kind::Check { cost: Cost::ONE });
//! let answer = store.run(&Batch::all_or_nothing(RequestId(1), [check])).await?;
//! println!("{}", answer.outcomes[0]);
//! # Ok(())
//! # }
//! ```
//!
//! - **Gathered.** Callers that come while a call is under way share the next one, in which a hot
//!   key is read and written once for all of them. Each batch stays one step of its own.
//! - **Bounded.** A batch is answered within [`RedisConfig::deadline`], or is an error that says
//!   whether it may have taken effect. After some failures in a row the [breaker] opens, so that a
//!   store that is away costs nothing; a task probes the store, and it is used again within a
//!   second of its return.
//! - **Once.** Answers are remembered in the store for [`RedisConfig::answers_kept`], so a batch
//!   sent again is not carried out again, by whichever member, and can be undone.
//! - **Loss is noticed.** A marker is written once and checked by every call. When it is gone or
//!   another one, [`FleetStats::loss`] says so. The last moments, which a failover loses,
//!   leave no trace in any marker.
//! - **Lent once.** Ledgers are those of `tidegate_core::lease`, to the unit. After a loss another
//!   epoch begins; every member reads it from the marker, and one acknowledgement counts for all of
//!   them.
//! - **One protocol.** A member that finds the marker of a newer lease protocol decides nothing in
//!   the store.
//! - **Nothing is swept.** Every counter and ledger expires when it has drained, some seconds
//!   later.
//!
//! In a cluster a batch is one step within a slot. Over several slots it is charged slot by slot,
//! and given back where one refuses: a failure in between leaves a charge.
//! `docs/internals/store-redis.md` has the bounds.

pub mod breaker;
pub mod config;
pub mod error;
pub mod store;

mod answer;
mod bounded_stream;
mod bytes;
mod call;
#[macro_use]
mod call_format;
mod connect;
mod dial;
mod epochs;
mod lanes;
mod ledger;
mod link;
mod marker;
mod multi_slot;
mod names;
mod numbers;
mod probe;
mod resp_frame;
mod script;
mod shared;
mod stats;

#[doc(hidden)]
pub use answer::read_script_answer;
pub use breaker::BreakerConfig;
pub use config::{Clock, OnLoss, RedisConfig, Secret, Tls};
pub use error::{Fault, KeyFault, OpenError};
pub use marker::PROTOCOL;
pub use numbers::{FIRST_HIT_WINDOW_MIN, LIMIT_MAX};
#[doc(hidden)]
pub use resp_frame::count_replies;
pub use script::VALUE_LAYOUTS;
pub use store::RedisStore;
pub use tidegate_store::{Circuit, FleetStats, FleetStore, Loss, Rejected};
