//! The subject of a lease and its terms, whatever the caller leases: the key of a limit, or one
//! direction of a table.

use core::time::Duration;

use tidegate_core::lease::Terms;
use tidegate_core::{Algorithm, Timestamp};

/// The subject that a request comes to take from, opaque but for its terms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseSubject<'a> {
    /// Its fingerprint: two subjects share one only by a collision of 64 bits.
    pub(crate) key: u64,
    /// Its name for people, which a reload may change: that of the limit or the table.
    pub(crate) name: &'a str,
    /// Its numbers, which [`LeaseSubject::terms`] tells from others.
    pub(crate) algorithm: &'a Algorithm,
    pub(crate) terms: TermsId,
    /// Whether it is a table, whose leases count halves of units.
    pub(crate) is_table: bool,
}

/// Equal for equal terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TermsId {
    /// Equal for equal algorithms, and not used for others afterwards.
    pub(crate) algorithm: u64,
    /// How long a lease lasts.
    pub(crate) period: Duration,
}

impl LeaseSubject<'_> {
    /// The terms of its leases.
    pub(super) fn terms(&self) -> Terms {
        let terms = Terms::for_period(self.algorithm, self.terms.period, Timestamp::MIN);
        terms.expect("only limits and tables that can be leased are")
    }
}
