//! The tokens of a table: for its whole throughput, and for the share of a router that decides
//! alone.

use tidegate_core::Timestamp;

use crate::admission::throttled::Bound;
use crate::admission::token_source::TokenSource;
use crate::admission::tokens::{TableCharge, TokenTerms, Tokens};
use crate::admission::weighed_access::{Shortage, WeighedAccess};
use crate::status::TokensStatus;
use crate::table::Table;
use crate::units::Units;

impl Table {
    /// Spends the tokens of an access; `None` if they are spent elsewhere.
    #[inline]
    pub(crate) fn take_tokens(
        &self,
        load: WeighedAccess,
        source: TokenSource,
        now: Timestamp,
    ) -> Result<Option<TableCharge>, Shortage> {
        match source {
            TokenSource::Spent => Ok(None),
            TokenSource::Table => {
                let tokens = self.tokens(load.is_read);
                let taken = tokens.take(load.cost, now);
                let taken = taken.map_err(|retry| short(self.bound(load.is_read), tokens.left(now), retry));
                Ok(Some(TableCharge::Whole(taken?)))
            }
            TokenSource::Short { left, until } => Err(short(self.bound(load.is_read), left, until)),
            TokenSource::Share { holders, members } => {
                let tokens = self.share(load.is_read);
                self.set_share(load.is_read, self.share_terms(load.is_read, holders, members), now);
                let taken = tokens.take_or_owe(load.cost, now);
                let taken = taken.map_err(|retry| short(Bound::TableShare, tokens.left(now), retry));
                Ok(Some(TableCharge::Share(taken?)))
            }
        }
    }

    /// The shortage that [`Table::take_tokens`] would find; spends and changes nothing.
    pub(crate) fn lacks_tokens(
        &self,
        load: WeighedAccess,
        source: TokenSource,
        now: Timestamp,
    ) -> Option<Shortage> {
        match source {
            TokenSource::Spent => None,
            TokenSource::Table => {
                let tokens = self.tokens(load.is_read);
                let retry = tokens.has(load.cost, now).err()?;
                Some(short(self.bound(load.is_read), tokens.left(now), retry))
            }
            TokenSource::Short { left, until } => Some(short(self.bound(load.is_read), left, until)),
            TokenSource::Share { holders, members } => {
                let share = self.share_as_of(load.is_read, holders, members, now);
                let retry = share.take_or_owe(load.cost, now).err()?;
                Some(short(Bound::TableShare, share.left(now), retry))
            }
        }
    }

    /// The tokens from this source, as a look shows them.
    pub(crate) fn tokens_status(&self, is_read: bool, source: TokenSource, now: Timestamp) -> TokensStatus {
        let status = |tokens: &Tokens| TokensStatus {
            rate: tokens.rate(),
            left: tokens.left(now),
            is_leased: source != TokenSource::Table,
        };
        match source {
            TokenSource::Share { holders, members } => {
                status(&self.share_as_of(is_read, holders, members, now))
            }
            TokenSource::Short { left, .. } => TokensStatus { left, ..status(self.tokens(is_read)) },
            TokenSource::Table | TokenSource::Spent => status(self.tokens(is_read)),
        }
    }

    /// Gives back `units` of a charge of `cost`.
    pub(crate) fn give_back_tokens(
        &self,
        is_read: bool,
        charge: &TableCharge,
        cost: u64,
        units: u64,
        now: Timestamp,
    ) {
        match charge {
            TableCharge::Whole(charge) => self.tokens(is_read).give_back(charge, cost, units, now),
            TableCharge::Share(charge) => self.share(is_read).give_back(charge, cost, units, now),
        }
    }

    /// Spends `more` for an access that was admitted with a charge of this kind.
    pub(crate) fn charge_more_tokens(&self, is_read: bool, charge: &TableCharge, more: u64, now: Timestamp) {
        match charge {
            TableCharge::Whole(_) => self.tokens(is_read).charge_more(more, now),
            TableCharge::Share(_) => self.share(is_read).charge_more(more, now),
        }
    }

    /// The units a second of the share of a router that decides alone.
    pub(crate) fn share_rate(&self, is_read: bool) -> Units {
        self.share(is_read).rate()
    }

    /// The bound that the tokens of the table are.
    fn bound(&self, is_read: bool) -> Bound {
        if self.is_at_maximum(is_read) { Bound::OnDemandMaximum } else { Bound::Table }
    }

    fn share_terms(&self, is_read: bool, holders: u32, members: u32) -> TokenTerms {
        TokenTerms::from_rate(self.tokens(is_read).rate()).share(holders, members)
    }

    fn set_share(&self, is_read: bool, terms: TokenTerms, now: Timestamp) {
        let share = self.share(is_read);
        if share.terms() != terms {
            share.set_terms(terms, now);
        }
    }

    /// A copy of the share with other terms.
    fn share_as_of(&self, is_read: bool, holders: u32, members: u32, now: Timestamp) -> Tokens {
        let copy = self.share(is_read).copied();
        copy.set_terms(self.share_terms(is_read, holders, members), now);
        copy
    }
}

const fn short(bound: Bound, level: Units, retry: Timestamp) -> Shortage {
    Shortage { bound, level, retry, node: None }
}
