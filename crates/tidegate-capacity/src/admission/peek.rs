//! A look at the state that an access meets: the answer that it would get, charged nothing.

use tidegate_core::Timestamp;

use crate::access::{Access, operation_of};
#[cfg(doc)]
use crate::admission::located_access::LocatedAccess;
use crate::admission::throttled::Bound;
use crate::admission::token_source::TokenSource;
use crate::admission::tokens::Tokens;
use crate::admission::weighed_access::{Shortage, WeighedAccess};
use crate::admission::{Facts, NEVER};
use crate::capacity::{Capacity, TableEntry};
use crate::error::CapacityError;
use crate::layout::partition::PartitionState;
use crate::status::{CapacityStatus, TokensStatus};
use crate::table::Table;
use crate::table_config::TableMode;
use crate::units::Units;

impl Capacity {
    /// The state of the partition of `access` at `now`, and the refusal that the access would get.
    /// Indexes are not looked at: see [`LocatedAccess::peek`]. Charges and changes nothing.
    ///
    /// Fails as [`Capacity::admit`] does.
    pub fn peek(
        &self,
        namespace: &str,
        access: &Access<'_>,
        now: Timestamp,
    ) -> Result<CapacityStatus<'_>, CapacityError> {
        access.check_key()?;
        let (table, entry) = self.entry(namespace, access.table)?;
        let units = entry.units(access.kind, access.size)?;
        Ok(self.peek_one(table, access, access.key, units, TokenSource::Table, now))
    }

    /// The state of the partition of a key of the table at this position.
    pub(crate) fn peek_one(
        &self,
        table: u32,
        access: &Access<'_>,
        key: &[u8],
        units: Units,
        source: TokenSource,
        now: Timestamp,
    ) -> CapacityStatus<'_> {
        let entry = &self.tables[table as usize];
        let table: &Table = &entry.table;
        let load = WeighedAccess::new(access, table.layout.keyspace.position(key), units);
        let state = table.layout.owner(load.position);
        let shortage = self.shortage(entry, &state, load, source, now);
        let facts = Facts::new(&state, load, now);
        let reset_at = {
            let throughput = state.directions.of(load.is_read);
            throughput.full_from(throughput.now(now), now).unwrap_or(NEVER)
        };
        drop(state);
        let status_of =
            |tokens: &Tokens| TokensStatus { rate: tokens.rate(), left: tokens.left(now), is_leased: false };
        let is_global = facts.numbers.mode == TableMode::Global;
        let account = entry.account.map(|account| self.accounts[account as usize].tokens(load.is_read));
        let (name, index) = table.table_and_index();
        CapacityStatus {
            table: name,
            index,
            mode: facts.numbers.mode,
            operation: operation_of(load.is_read),
            partition: facts.partition,
            range: facts.range,
            node: self.node_name(facts.leader),
            node_left: self.node(facts.leader).map_or(Units::ZERO, |node| node.level(now)),
            units,
            direction: facts.status,
            tokens: is_global.then(|| table.tokens_status(load.is_read, source, now)),
            account_tokens: account.map(status_of),
            reset_at,
            // The hint is not learned, so that a look changes nothing.
            throttled: shortage.map(|shortage| self.throttled(table, &facts, load, shortage, now, |_| {})),
        }
    }

    /// The bucket that is short for `load`; charges nothing.
    #[inline]
    pub(crate) fn shortage(
        &self,
        entry: &TableEntry,
        state: &PartitionState,
        load: WeighedAccess,
        source: TokenSource,
        now: Timestamp,
    ) -> Option<Shortage> {
        let short = |bound, level, retry| Some(Shortage { bound, level, retry, node: None });
        if let Some(until) = state.gate_at(now) {
            return short(Bound::Move, Units::ZERO, until);
        }
        if state.numbers.mode == TableMode::Global
            && let Some(shortage) = entry.table.lacks_tokens(load, source, now)
        {
            return Some(shortage);
        }
        if let Some(account) = entry.account {
            let tokens = self.accounts[account as usize].tokens(load.is_read);
            if let Err(retry) = tokens.has(load.cost, now) {
                return short(Bound::Account, tokens.left(now), retry);
            }
        }
        self.pass::<false>(state, load, now).err()
    }
}
