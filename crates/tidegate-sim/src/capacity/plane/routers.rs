//! Routers that come before the partitions of tables, and lease the throughput of the tables.
//!
//! In the worlds of `tidegate simulate` one process routes all requests. The laboratory has routers
//! with leases.

use core::fmt;

use serde::Serialize;
use tidegate_capacity::{Access, Units};
use tidegate_core::Timestamp;
use tidegate_engine::Permit;

use crate::invariants::LeaseChecker;

/// Routers at work in the world of one design. Instants are nanoseconds since the world began.
pub trait LeaseRouters: fmt::Debug {
    /// Asks one of the routers of a table.
    fn ask(&mut self, table: usize, access: &Access<'_>, at: u64) -> RouterAnswer;

    /// The tokens are spent for good: the partition has admitted the request, which weighs `units`.
    fn keep(&mut self, spent: SpentTokens, table: usize, units: Units, at: u64);

    /// The tokens are put back: the partition has refused the request.
    fn put_back(&mut self, spent: SpentTokens, at: u64);

    /// Lets the routers do what is due at `at`, a tenth of a second after the last call.
    fn tick(&mut self, at: u64);

    /// The result, and the checkers of the leases of each table.
    fn into_result(self: Box<Self>) -> (RouterResult, Vec<LeaseChecker>);
}

/// The answer of a router.
#[derive(Debug)]
pub enum RouterAnswer {
    /// It has spent tokens of its lease.
    Admitted(Box<SpentTokens>),
    /// Its lease has too few.
    Refused {
        /// The tokens that are left, as far as it knows.
        left: Units,
        /// When there are enough.
        until: Timestamp,
    },
}

/// Tokens that a router has spent.
#[derive(Debug)]
pub struct SpentTokens {
    /// The number of the router.
    pub router: usize,
    /// The tokens, as the engine of the router has taken them.
    pub permit: Permit,
}

/// The routers of one design.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RouterResult {
    /// How many there were.
    pub routers: u32,
    /// Asks for leases, of all of them.
    pub asks: u64,
    /// Requests that they refused.
    pub refusals: u64,
}
