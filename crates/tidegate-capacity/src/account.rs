//! Accounts: the throughput that bounds several tables together.

use tidegate_core::Timestamp;

use crate::admission::tokens::{TokenTerms, Tokens};
use crate::units::Units;

/// An account, as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AccountConfig {
    /// Its name, unique; 1 to [`crate::TableConfig::NAME_BYTES_MAX`] bytes.
    pub name: String,
    /// Units of reading a second of all its tables together; default
    /// [`AccountConfig::UNITS_PER_SECOND`].
    pub read_units_per_second: u64,
    /// Units of writing a second of all its tables together; default
    /// [`AccountConfig::UNITS_PER_SECOND`].
    pub write_units_per_second: u64,
}

impl AccountConfig {
    /// The units a second, reading and writing apart, unless configured: the quota of `DynamoDB`.
    pub const UNITS_PER_SECOND: u64 = 40_000;

    /// An account with the default throughput.
    pub fn new(name: impl Into<String>) -> Self {
        let units = Self::UNITS_PER_SECOND;
        Self { name: name.into(), read_units_per_second: units, write_units_per_second: units }
    }

    /// Bounds reads at so many units a second.
    #[must_use]
    pub fn reads(mut self, units_per_second: u64) -> Self {
        self.read_units_per_second = units_per_second;
        self
    }

    /// Bounds writes at so many units a second.
    #[must_use]
    pub fn writes(mut self, units_per_second: u64) -> Self {
        self.write_units_per_second = units_per_second;
        self
    }

    fn terms(&self, is_read: bool) -> TokenTerms {
        let units = if is_read { self.read_units_per_second } else { self.write_units_per_second };
        TokenTerms::from_rate(Units::whole(units))
    }
}

/// An account in force. It is shared by a [`crate::Capacity`] and those that replace it.
#[derive(Debug)]
pub(crate) struct Account {
    /// Its number, never used twice.
    pub(crate) id: u32,
    pub(crate) name: Box<str>,
    tokens: [Tokens; 2],
}

impl Account {
    pub(crate) fn new(id: u32, config: &AccountConfig, now: Timestamp) -> Self {
        let tokens = [true, false].map(|is_read| Tokens::new(config.terms(is_read), now));
        Self { id, name: config.name.as_str().into(), tokens }
    }

    pub(crate) fn reconfigure(&self, config: &AccountConfig, now: Timestamp) {
        for is_read in [true, false] {
            self.tokens(is_read).set_terms(config.terms(is_read), now);
        }
    }

    pub(crate) const fn tokens(&self, is_read: bool) -> &Tokens {
        &self.tokens[!is_read as usize]
    }

    pub(crate) fn words(&self) -> impl Iterator<Item = u64> + use<> {
        self.tokens(true).words().chain(self.tokens(false).words())
    }
}
