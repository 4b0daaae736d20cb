//! The rules that must hold, and a violation of one.

use serde::Serialize;

use crate::kit::report::word_of;

/// A violation that a checker found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Which rule was broken.
    pub rule: Rule,
    /// The seed that shows it again.
    pub seed: u64,
    /// The key; the hottest is 0.
    pub key: u32,
    /// When, in milliseconds since the world began.
    pub at_ms: u64,
    /// The numbers.
    pub what: String,
}

/// A rule that must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// Never more is admitted than the limit promises; from leases, in each epoch of the store.
    OverAdmission,
    /// Never more is lent in an epoch than the burst and a period of the rate, or than the window's
    /// limit.
    LeaseSum,
    /// Nothing is spent of a lease that has ended for the ledger.
    SpentAfterEnd,
    /// Nothing granted in an epoch is spent later than 17/16 of a lease period after the next epoch
    /// began.
    SpentAfterEpoch,
    /// Nothing is spent that was not granted.
    NotGranted,
    /// A member that decides alone admits no more than its share.
    AloneBeyondShare,
    /// A member decides alone only while the store has not answered.
    AloneWhenAnswered,
    /// A member does not decide alone while its lease has what is asked for.
    AloneWithTokens,
    /// A caller that keeps to its limit is not refused at every attempt for longer than a second.
    RefusedTooLong,
    /// While the store answers, at least 99 % of the first attempts of steady callers that keep to
    /// their limit are admitted.
    FirstAttemptsRefused,
    /// The store refuses nothing while there is room: what was refused left no charge.
    RefusedWithRoom,
    /// When all is well, at least 98 % of a bucket's rate is used where a quarter more is asked
    /// for. 85 % where a member's part of the rate is less than ten requests in a tenth of a
    /// second, and nothing is said where it is less than two.
    Stranded,
    /// Members that are asked for the same get the same part of a bucket, give or take a quarter,
    /// where that part is two requests in a tenth of a second or more.
    Unfair,
}

impl Rule {
    /// Its name, as in reports.
    pub fn name(self) -> String {
        word_of(&self)
    }
}
