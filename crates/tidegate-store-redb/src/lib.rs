//! A durable store on one machine: what was charged is still charged after a restart, a crash or a
//! power cut.
//!
//! A [`RedbStore`] decides in memory, by the same pure code as every store, and writes what has
//! changed into a [redb](https://docs.rs/redb) database in the directory it is given. One thread
//! writes: it takes everything that has changed since it last did, commits it in one transaction
//! with one `fsync`, and wakes whoever waits. So the more callers there are the more charges one
//! `fsync` carries, and a key that was charged a thousand times is written once.
//!
//! - [`Durability::Sync`] answers a batch that changed something once it is on disk. An answered
//!   batch is never lost.
//! - [`Durability::Interval`] answers at once and commits at most the interval later. A crash loses
//!   at most what was charged within the last interval and the time one commit takes: admitted
//!   requests that are not counted.
//!
//! In both a batch is on disk whole or not at all, with its notes; refusals and peeks change
//! nothing and are answered at once. Counters that are as they stand on disk are forgotten when
//! memory is short and read again when asked for. Counters that have drained are removed from the
//! disk when they are met, and by a few with every commit.
//!
//! **A restart forgets** the batches that were answered: a batch sent again after a restart is
//! charged again, and one from before it cannot be undone. Notes are remembered, and change
//! together with counters: whoever writes a note with a refund can tell whether it was given.
//!
//! **Ledgers** of leased limits are counters like others: what was lent is on disk before it is
//! answered (with [`Durability::Sync`]), so it is known after a crash. The
//! [epoch](tidegate_core::lease::Epoch) of this store is always the first: it loses nothing but
//! with its file, and without that it is another store. An operator that deletes the file of a
//! store that lent, or takes back an older copy of it, waits for a lease to end (5.3 s; 23 s where
//! Envoys hold limits) before the store serves again. With [`Durability::Interval`] a crash forgets
//! what was lent in the last interval, which may then be lent again.
//!
//! While the disk fails, batches that would change something are [`StoreError::Unavailable`], those
//! already waiting with an unknown outcome; what they charged stays charged. The writer tries again
//! until the disk does.
//!
//! The bytes of counters on disk are bounded by [`RedbConfig::disk`], half of which is divided
//! among namespaces. Where there is no room, a charge that needs some is [`StoreError::Full`] or
//! admitted uncounted, and the writer looks for drained counters.
//!
//! [`StoreError::Full`]: tidegate_store::StoreError::Full
//! [`StoreError::Unavailable`]: tidegate_store::StoreError::Unavailable

pub mod config;
pub mod error;
pub mod stats;
pub mod store;

mod directory;
mod directory_user;
mod disk;
mod format;
mod shared;
mod stored_key;
mod writer;

#[cfg(test)]
mod tests;

pub use config::{Durability, RedbConfig};
pub use directory_user::DirectoryUser;
pub use error::OpenError;
pub use format::{FORMAT, FORMAT_OLDEST};
pub use shared::DiskReport;
pub use stats::RedbStats;
pub use store::RedbStore;
