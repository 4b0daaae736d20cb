//! The kit that worlds are made of. It knows nothing of limits, leases or fleets.
//!
//! A world is a value that owns its parts and a loop that takes the earliest of what comes next.
//! Nothing else happens, and nothing waits: `now` is a number of nanoseconds since the world began.
//!
//! | part | what it does |
//! |---|---|
//! | [`EventQueue`] | planned events, by instant, at one instant in the order in which they were planned |
//! | [`Chance`] | randomness from the seed; each part of a world has a source of its own |
//! | [`Clock`] | the reading of a party's clock, which is set apart and runs apart from true time |
//! | [`Network`] | when copies of a message arrive: none, one or two; parties can be cut off or slow |
//! | [`Calls`] | calls under way, by name, with their deadlines and the copies still in flight |
//! | [`Room`] | what waits at a party until it can go on, in order of arrival |
//! | [`disturbance`] | troubles that follow one another, planned from the seed |
//! | [`Zipf`] | draws by Zipf's law |
//! | [`Delays`] | quantiles of delays, in a few thousand bytes |
//! | [`fairness_of`], [`rounded`] | Jain's index, and numbers as reports show them |
//! | [`Findings`] | the violations that checkers report: the first of each rule, and how many |
//! | [`Chart`] | lines over time as SVG; [`chart`] has the pictures of pages as well |
//! | [`report`] | the parts that reports share, as text and as one HTML page |
//! | [`GateLine`] | a line of a gate, which passes or fails, with its figure and its bound |
//! | [`Seeds`], [`FailedSeeds`] | the loop over seeds, and what it keeps |
//!
//! **Reproducible.** The same seed must give the same report, byte for byte. So a world draws from
//! [`Chance`] only, iterates over ordered collections only, and calls no function whose last digit
//! differs from machine to machine (`libm` has the others).
//!
//! **A new world.** Give each part of it a number for [`Chance::new`]. Plan what is known in
//! advance, the disturbances for example, before the first step. In each step compare
//! [`EventQueue::next_at`], [`Calls::next_deadline`] and the next arrival, and carry out the
//! earliest; that order of the three at one instant is the rule of the house. Write checkers that
//! see what passes between the parties and share no code with what they check, and show with
//! planted faults ([`tidegate_core`] has the mechanism) that they find something.
//! `kit/tests.rs` has the smallest world: two parties that count messages over a network that
//! loses and repeats them.

mod calls;
mod chance;
pub mod chart;
mod clock;
mod delays;
pub mod disturbance;
mod fairness;
mod findings;
mod network;
mod queue;
pub mod report;
mod room;
mod seeds;
mod zipf;

pub use calls::{Call, CallName, CallOrigin, Calls, EndedCall};
pub use chance::Chance;
pub use chart::{Chart, ChartError, ChartLine, Shade};
pub use clock::{Clock, DRIFT_MAX_PERCENT, MS, SECOND, WORLD_BEGIN, seconds};
pub use delays::Delays;
pub use disturbance::Disturbance;
pub use fairness::{fairness_of, rounded};
pub use findings::Findings;
pub use network::{Fate, LinkQuality, Network, PartyId};
pub use queue::EventQueue;
pub use report::{GateLine, GateOutcome};
pub use room::Room;
pub use seeds::{FailedSeeds, Seeds};
pub use zipf::Zipf;

#[cfg(test)]
mod tests;
