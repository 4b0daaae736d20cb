//! The laboratory: designs of the capacity and overload planes side by side, in the worlds of
//! [`tidegate_sim`].
//!
//! `cargo run --release -p tidegate-lab -- capacity` compares what a table throttles under static
//! shares, burst credit, boosts, global admission, balancing and splits; `-- overload` compares the
//! engine of the product with ten known designs under more load than a service can bear. The
//! shipped command simulates a user's own tables and services under the product alone, and links
//! none of this.
//!
//! - [`capacity`]: workloads, experiments and their lines of the gate
//! - [`overload`]: rivals, experiments and their lines of the gate
//! - [`arguments`], [`compare_capacity`], [`compare_overload`]: the command
//!
//! The same seed gives the same report, byte for byte.

#![forbid(unsafe_code)]
#![expect(
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "counts and nanoseconds of a run are far below 2^53, and no time or rate is below zero"
)]

pub mod arguments;
pub mod capacity;
pub mod compare_capacity;
pub mod compare_overload;
pub mod exit;
pub mod overload;

mod experiment_list;
mod scenario_file;
mod worlds;
