//! Fixtures that the tests of several crates share.
//!
//! | fixture | is |
//! |---|---|
//! | [`TemporaryFolder`], [`TemporaryFile`] | a place that is gone when the test is |
//! | [`ChildProcess`] | a process that is stopped, by its id, when the test ends |
//! | [`RedisServer`] | a Redis server on a free port of loopback |
//! | [`find_program`], [`fetched`] | a program of the machine, and one that the gate fetches |
//! | [`MountedVolume`] | a folder that the kubelet exchanges |
//! | `manifests` | files of `deploy` as Helm and kustomize render them |
//! | [`SplitMix64`] | numbers that a seed determines |
//! | [`until`], `eventually` | waiting for a condition that announces nothing |
//! | [`MachineInstant`] | time as a busy machine passes it |
//!
//! No crate of the product is used here, so the unit tests of every crate can use this one.
//!
//! ```
//! use tidegate_test_support::TemporaryFolder;
//!
//! let folder = TemporaryFolder::new();
//! let file = folder.write("policy.yaml", "namespaces: {}\n");
//! assert_eq!(file, folder.join("policy.yaml"));
//! drop(folder);
//! assert!(!file.exists());
//! ```

#![forbid(unsafe_code)]

mod child_process;
mod condition;
mod fetched;
mod find_program;
mod machine_time;
#[cfg(feature = "manifests")]
pub mod manifests;
mod mounted_volume;
mod redis_server;
mod split_mix;
mod temporary_folder;

pub use child_process::ChildProcess;
pub use condition::{PATIENCE, holds_within, until, until_some};
#[cfg(feature = "tokio")]
pub use condition::{eventually, eventually_some, within};
pub use fetched::{fetched, fetched_folder};
pub use find_program::find_program;
pub use machine_time::MachineInstant;
pub use mounted_volume::MountedVolume;
pub use redis_server::{RedisServer, free_port, program, skip};
pub use split_mix::SplitMix64;
pub use temporary_folder::{TemporaryFile, TemporaryFolder};
