//! The leases of tables: tokens of a table with global admission that the store has lent this
//! member.
//!
//! The capacity plane is told where the tokens of each charge come from, and makes the refusal
//! where a lease has too few. A member that cannot reach the store decides by its share of the
//! table. A request that cannot wait for a lease is decided by the share as well.

use core::convert::Infallible;

use smallvec::SmallVec;
use tidegate_capacity::{CapacityStatus, LocatedAccess, TokenSource};
use tidegate_core::Timestamp;
use tidegate_core::lease::Share;
use tidegate_core::shares::Owner;

use super::waited::{ROUNDS_MAX, Waited};
use crate::engine::Engine;
use crate::leases::{Asked, CorrectedBy, Flights, LeaseCharge, Leases, Taken};
use crate::request::Request;
use crate::table_leases::{TableLease, half_units, units_of};

/// The sources of the tokens of an access, in the order of its charges.
pub(crate) type TokenSources = SmallVec<[TokenSource; 1]>;

/// The tokens of an access that are taken from leases.
#[derive(Default)]
pub(crate) struct TableTokens {
    pub(crate) sources: TokenSources,
    /// Charges that the caller puts back unless the request goes ahead.
    pub(crate) held: SmallVec<[LeaseCharge; 1]>,
    /// The leases to wait for before the access is decided.
    pub(crate) flights: Flights,
}

/// How a request comes to the leases of its tables.
#[derive(Clone, Copy)]
pub(crate) struct TableAsk<'a> {
    owner: Owner,
    attempt: u32,
    waited: &'a Waited<'a>,
    can_wait: bool,
}

impl TableTokens {
    /// Whether this member alone decides about any of them.
    pub(crate) fn are_alone(&self) -> bool {
        self.sources.iter().any(|source| matches!(source, TokenSource::Share { .. }))
    }
}

/// A lease that has too few tokens until then.
fn short(leases: &Leases, lease: &TableLease, until: Timestamp, now: Timestamp) -> TokenSource {
    TokenSource::Short { left: units_of(leases.tokens(lease.subject().key, now)), until }
}

impl<'a> TableAsk<'a> {
    pub(crate) fn new(owner: Owner, request: &Request<'_>, waited: &'a Waited<'a>, can_wait: bool) -> Self {
        let attempt = if waited.rounds > 0 { request.attempt.max(1) } else { request.attempt };
        Self { owner, attempt, waited, can_wait }
    }
}

impl Engine {
    /// Takes the tokens of an access from the leases of its tables.
    #[inline]
    pub(crate) fn lease_tables(
        &self,
        leases: &Leases,
        located: &LocatedAccess<'_, '_>,
        ask: TableAsk<'_>,
        now: Timestamp,
    ) -> TableTokens {
        let mut tokens = TableTokens::default();
        for (at, (table, units)) in located.charges().enumerate() {
            let Some(lease) = self.planes.table_leases.get(table, located.operation()) else {
                tokens.sources.push(TokenSource::Table);
                continue;
            };
            let asked = Asked {
                subject: lease.subject(),
                owner: ask.owner,
                cost: half_units(units),
                attempt: ask.attempt,
                landed: ask.waited.landed,
                must_decide: ask.waited.rounds >= ROUNDS_MAX,
            };
            let Ok(taken) = leases.take(&asked, now, || Ok::<_, Infallible>(lease.leased_key()));
            let share = |share: Share| TokenSource::Share { holders: share.holders, members: share.members };
            let source = match taken {
                Taken::All(charge) => {
                    // The true weight of an access is that of its table alone.
                    let corrected_by = if at == 0 { CorrectedBy::Units } else { CorrectedBy::Nothing };
                    tokens.held.push(LeaseCharge { corrected_by, ..charge });
                    TokenSource::Spent
                }
                Taken::Waits(flight) if ask.can_wait => {
                    tokens.flights.push(flight);
                    TokenSource::Spent
                }
                Taken::Waits(_) | Taken::Full { .. } => share(self.share_of_table(leases, lease)),
                // The lease is the bucket that is short: the table may have more.
                Taken::Wait { until, .. } => short(leases, lease, until, now),
                Taken::Never { .. } => short(leases, lease, Timestamp::MAX, now),
                Taken::Silent(silent) => share(silent.share),
            };
            tokens.sources.push(source);
        }
        tokens
    }

    /// Has the leases renewed that a request was admitted from.
    #[inline]
    pub(crate) fn renew_leases(&self, held: &[LeaseCharge], now: Timestamp) {
        if let Some(leases) = self.shared.leases() {
            held.iter().filter(|charge| charge.renew).for_each(|charge| leases.renew(charge, now));
        }
    }

    /// The share of a table by which this member decides alone.
    fn share_of_table(&self, leases: &Leases, lease: &TableLease) -> Share {
        let members = self.members();
        leases.share(lease.subject().key).unwrap_or(Share { holders: members, members })
    }

    /// Forgets what this member has admitted alone of the tables among these keys.
    pub(crate) fn forget_shares(&self, keys: &[u64], now: Timestamp) {
        let Some(capacity) = &self.planes.capacity else { return };
        for (table, operation) in keys.iter().filter_map(|key| self.planes.table_leases.find(*key)) {
            capacity.forget_share(table, operation, now);
        }
    }

    /// The partitions of an access with the refusal that it would get, as the leases of its tables
    /// are now; changes nothing.
    pub(crate) fn peek_access<'c>(
        &self,
        located: &LocatedAccess<'c, '_>,
        now: Timestamp,
    ) -> Vec<CapacityStatus<'c>> {
        let (mut sources, mut known) = (TokenSources::new(), SmallVec::<[Option<u64>; 1]>::new());
        for (table, units) in located.charges() {
            let lease = self.planes.table_leases.get(table, located.operation());
            let Some((leases, lease)) = self.shared.leases().zip(lease) else {
                sources.push(TokenSource::Table);
                known.push(None);
                continue;
            };
            let subject = lease.subject();
            let (source, left) = match leases.peek(subject.key, half_units(units), now) {
                None => (TokenSource::Spent, None),
                Some((Taken::Wait { until, .. }, left)) => (short(leases, lease, until, now), Some(left)),
                Some((Taken::Silent(silent), _)) => {
                    let Share { holders, members } = silent.share;
                    (TokenSource::Share { holders, members }, None)
                }
                Some((_, left)) => (TokenSource::Spent, Some(left)),
            };
            sources.push(source);
            known.push(left);
        }
        let mut statuses = located.peek(&sources, now);
        for (status, left) in statuses.iter_mut().zip(known) {
            if let (Some(tokens), Some(left)) = (&mut status.tokens, left) {
                tokens.left = units_of(left);
            }
        }
        statuses
    }
}
