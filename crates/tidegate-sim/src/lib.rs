//! Internal, no promise: simulated worlds in one thread from one seed. They have members, stores,
//! networks and clocks that go wrong, and checkers that look on.
//!
//! ```
//! use tidegate_sim::fleet::{Scenario, simulate};
//!
//! let mut scenario = Scenario::new(7);
//! scenario.seconds = 5;
//! let report = simulate(&scenario)?;
//! assert_eq!(report.violations_total, 0);
//! assert!(report.admitted_units <= 5 * 1000 + 1000 + 100);
//! # Ok::<(), tidegate_sim::fleet::ScenarioError>(())
//! ```
//!
//! [`kit`] has what every world is made of: the queue of events, randomness, clocks, the network,
//! calls, disturbances. It knows nothing of limits. [`fleet`] is a world made of it: a fleet that
//! shares limits. `docs/internals/simulation.md` lists what the checkers look for, what goes wrong,
//! and what is measured. [`capacity`] is another: tables, partitions and
//! nodes under load. [`overload`] is a third: services under more load than they can bear. The
//! laboratory compares designs and rivals in the last two.

#![forbid(unsafe_code)]
#![expect(
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "counts and nanoseconds of a run are far below 2^53, and no time or rate is below zero"
)]

pub mod capacity;
pub mod fleet;
pub mod invariants;
pub mod kit;
pub mod overload;

mod scenario_document;
