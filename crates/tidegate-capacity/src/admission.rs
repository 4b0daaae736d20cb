//! The decision on an access.
//!
//! 1. The partition does not move.
//! 2. The tokens of the table (global admission) and of its account cover the access; charged.
//! 3. The ceiling of a member that may serve the access has anything left.
//! 4. The allocation has anything left: the partition is charged, and the nodes are debited without
//!    being read, except for writes under [`WriteCheck::Always`]. In debt it admits a hundredth of
//!    its rate, so that large accesses in a row do not keep small ones out.
//! 5. Otherwise the burst credit covers the access, which global admission does not ask, and the
//!    node of the member has room beyond its reserve; for a write, so have those of all required
//!    members.
//!
//! Charges of a refused access are taken back in reverse, so that it leaves everything as it was. A
//! write to a table with indexes is decided for the table and each index in turn, all or nothing.

pub mod hold;
pub(crate) mod located_access;
pub(crate) mod peek;
pub mod settlement;
pub(crate) mod table_tokens;
pub mod throttled;
pub(crate) mod token_source;
pub mod tokens;
pub(crate) mod weighed_access;

use tidegate_core::{Reason, Timestamp};

use crate::access::{Access, operation_of};
use crate::admission::hold::{AccountCharge, NodeCharges, UnitsHold};
use crate::admission::throttled::{Bound, Throttled};
use crate::admission::token_source::TokenSource;
use crate::admission::tokens::TableCharge;
use crate::admission::weighed_access::{Shortage, WeighedAccess};
use crate::bucket::BucketWord;
use crate::capacity::{Admission, Capacity, TableEntry};
use crate::error::CapacityError;
use crate::fault::Fault;
use crate::layout::key_range::KeyRange;
use crate::layout::members::Members;
use crate::layout::partition::PartitionState;
use crate::layout::partition_id::PartitionId;
use crate::node::NodeCharge;
use crate::status::DirectionStatus;
use crate::sync::MutexGuard;
use crate::table::Table;
use crate::table_config::{ReadMembers, TableMode, TableNumbers, WriteCheck, full_name};
use crate::throughput::{ChargePath, LevelsNow, MEMBERS_MAX, Throughput};
use crate::units::Units;

/// The last instant there is.
pub(crate) const NEVER: Timestamp = Timestamp::from_nanos(u64::MAX);

/// A charge of a write to an index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexCharge<'w> {
    /// The position of the index among the tables.
    pub(crate) index: u32,
    pub(crate) key: &'w [u8],
    pub(crate) units: Units,
}

/// The tokens that an access has spent.
#[derive(Clone, Copy, Debug)]
struct TokenCharges {
    table: Option<TableCharge>,
    account: Option<AccountCharge>,
}

/// How an access would be charged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passage {
    path: ChargePath,
    /// The member that serves it, and the state of its ceiling afterwards.
    member: (usize, BucketWord),
    at: LevelsNow,
    nodes: NodeCharges,
}

/// Members of a group that may serve an access, each with the state of its ceiling afterwards.
#[derive(Clone, Copy, Debug)]
struct Candidates {
    members: [(usize, BucketWord); MEMBERS_MAX],
    count: usize,
}

impl Candidates {
    /// There is at least one.
    const fn first(&self) -> (usize, BucketWord) {
        self.members[0]
    }

    fn iter(&self) -> impl Iterator<Item = (usize, BucketWord)> {
        self.members.into_iter().take(self.count)
    }
}

/// Counts an access as offered, unless it is a repeated attempt.
#[inline]
fn offer(state: &mut PartitionState, access: &Access<'_>, load: WeighedAccess, now: Timestamp) {
    if access.is_repeated && !Fault::RetriesCounted.is_planted() {
        return;
    }
    state.directions.of_mut(load.is_read).meter.offer(load.cost);
    if let Some(sketch) = &mut state.sketches[usize::from(!load.is_read)] {
        sketch.record(load.position, load.cost, now);
        if load.is_scan {
            sketch.mark_spanning();
        }
    }
}

impl Capacity {
    /// Decides whether `access` of a request of `namespace` may go ahead at `now`. The units of an
    /// admitted access are charged until they are given back; a throttled access is charged
    /// nothing.
    ///
    /// Fails as [`Capacity::locate`] does.
    #[inline]
    pub fn admit(
        &self,
        namespace: &str,
        access: &Access<'_>,
        now: Timestamp,
    ) -> Result<Admission<'_>, CapacityError> {
        Ok(self.locate(namespace, access)?.admit(&[], now))
    }

    /// The charges of a write to the indexes of its table.
    pub(crate) fn index_writes<'w>(
        &self,
        namespace: &str,
        entry: &TableEntry,
        access: &Access<'w>,
    ) -> Result<Vec<IndexCharge<'w>>, CapacityError> {
        let Some(named) = access.index_writes else {
            let alike = |index: &u32| {
                let units = self.tables[*index as usize].units(access.kind, access.size)?;
                Ok(IndexCharge { index: *index, key: access.key, units })
            };
            return entry.indexes.iter().map(alike).collect();
        };
        let mut writes = Vec::with_capacity(named.len());
        for write in named {
            let is_it =
                |index: &&u32| self.tables[**index as usize].table.table_and_index().1 == Some(write.index);
            let index = entry.indexes.iter().find(is_it).ok_or_else(|| {
                CapacityError::unknown_table(namespace, &full_name(access.table, Some(write.index)))
            })?;
            if write.key.len() > Access::KEY_BYTES_MAX {
                return Err(CapacityError::KeyTooLong { bytes: write.key.len() });
            }
            let units = self.tables[*index as usize].units(access.kind, write.size)?;
            writes.push(IndexCharge { index: *index, key: write.key, units });
        }
        Ok(writes)
    }

    /// Decides an access to the table at this position.
    #[inline]
    pub(crate) fn admit_one(
        &self,
        table_index: u32,
        access: &Access<'_>,
        key: &[u8],
        units: Units,
        source: TokenSource,
        now: Timestamp,
    ) -> Admission<'_> {
        let entry = &self.tables[table_index as usize];
        let table: &Table = &entry.table;
        let load = WeighedAccess::new(access, table.layout.keyspace.position(key), units);
        let mut state = table.layout.owner(load.position);
        offer(&mut state, access, load, now);
        let tokens = match self.take_tokens(table, entry.account, &state, load, source, now) {
            Ok(tokens) => tokens,
            Err(shortage) => return self.refuse(table, state, load, shortage, now),
        };
        match self.pass::<true>(&state, load, now) {
            Ok(passage) => {
                let throughput = state.directions.of_mut(load.is_read);
                let on_partition =
                    throughput.charge(passage.at, passage.path, passage.member, load.cost, now);
                if table.growth.is_open() && is_pressed(&state, load.is_read, now) {
                    table.growth.press();
                }
                Admission::Admit(UnitsHold {
                    table: table_index,
                    table_id: table.id,
                    partition: state.id,
                    // At most the largest request.
                    units: load.cost as u32,
                    position: load.position,
                    on_partition,
                    on_nodes: passage.nodes,
                    on_table: tokens.table,
                    on_account: tokens.account,
                    indexes: None,
                    is_read: load.is_read,
                })
            }
            Err(shortage) => {
                if let (Some(AccountCharge { tokens, .. }), Some(account)) = (&tokens.account, entry.account)
                {
                    let account = &self.accounts[account as usize];
                    account.tokens(load.is_read).give_back(tokens, load.cost, load.cost, now);
                }
                if let Some(charge) = &tokens.table {
                    table.give_back_tokens(load.is_read, charge, load.cost, load.cost, now);
                }
                self.refuse(table, state, load, shortage, now)
            }
        }
    }

    /// The refusal of an access to the table at this position, which has no sources and changes no
    /// index; charges nothing.
    #[inline]
    pub(crate) fn refusal_of_one(
        &self,
        table_index: u32,
        access: &Access<'_>,
        units: Units,
        now: Timestamp,
    ) -> Option<Throttled<'_>> {
        let entry = &self.tables[table_index as usize];
        let table: &Table = &entry.table;
        let load = WeighedAccess::new(access, table.layout.keyspace.position(access.key), units);
        let mut state = table.layout.owner(load.position);
        offer(&mut state, access, load, now);
        let shortage = self.shortage(entry, &state, load, TokenSource::Table, now)?;
        match self.refuse(table, state, load, shortage, now) {
            Admission::Throttle(throttled) => Some(throttled),
            Admission::Admit(_) => None,
        }
    }

    /// Steps 1 and 2. Nothing is spent after a shortage.
    #[inline]
    fn take_tokens(
        &self,
        table: &Table,
        account: Option<u32>,
        state: &PartitionState,
        load: WeighedAccess,
        source: TokenSource,
        now: Timestamp,
    ) -> Result<TokenCharges, Shortage> {
        if let Some(until) = state.gate_at(now) {
            return Err(Shortage { bound: Bound::Move, level: Units::ZERO, retry: until, node: None });
        }
        let mut charges = TokenCharges { table: None, account: None };
        if state.numbers.mode == TableMode::Global {
            charges.table = table.take_tokens(load, source, now)?;
        }
        if let Some(account) = account {
            let account = &self.accounts[account as usize];
            let of_account = account.tokens(load.is_read);
            match of_account.take(load.cost, now) {
                Ok(tokens) => charges.account = Some(AccountCharge { account: account.id, tokens }),
                Err(retry) => {
                    if let Some(charge) = &charges.table {
                        table.give_back_tokens(load.is_read, charge, load.cost, load.cost, now);
                    }
                    let level = of_account.left(now);
                    return Err(Shortage { bound: Bound::Account, level, retry, node: None });
                }
            }
        }
        Ok(charges)
    }

    /// How `load` is charged to a partition, or the bucket that is short. The nodes are charged if
    /// `CHARGES`, and not after a shortage; the partition is not.
    #[inline]
    pub(crate) fn pass<const CHARGES: bool>(
        &self,
        state: &PartitionState,
        load: WeighedAccess,
        now: Timestamp,
    ) -> Result<Passage, Shortage> {
        let (numbers, members) = (&state.numbers, state.members);
        let throughput = state.directions.of(load.is_read);
        let at = throughput.now(now);
        let candidates = self.candidates(members, load, numbers.reads, throughput, now);
        let candidates = candidates.map_err(|retry| Shortage {
            bound: Bound::Ceiling,
            level: throughput.ceiling_level(0, now),
            retry,
            node: None,
        })?;
        let is_checked = !load.is_read && numbers.write_check == WriteCheck::Always
            || Fault::AllocationNeedsRoom.is_planted();
        let is_allocated = throughput.admits(at, load.cost, now);
        if is_allocated && !is_checked {
            let member = candidates.first();
            let nodes = self.debit::<CHARGES>(members, load, member.0, now);
            return Ok(Passage { path: ChargePath::Allocated, member, at, nodes });
        }
        let path = match numbers.mode {
            _ if is_allocated => ChargePath::Allocated,
            TableMode::Global if Fault::SpareUnused.is_planted() => {
                return Err(allocation_short(throughput, at, Bound::Allocation, load, now));
            }
            TableMode::Static => return Err(allocation_short(throughput, at, Bound::Allocation, load, now)),
            TableMode::Burst | TableMode::Adaptive if at.burst() < load.cost.cast_signed() => {
                return Err(allocation_short(throughput, at, Bound::Burst, load, now));
            }
            TableMode::Burst | TableMode::Adaptive => ChargePath::Burst,
            TableMode::Global => ChargePath::Spare,
        };
        // The allocated path opens by itself, without the nodes' room.
        let opens = if is_checked { None } else { throughput.admits_from(at, load.cost, now) };
        let mut soonest: Option<Shortage> = None;
        for member in candidates.iter() {
            match self.take_room::<CHARGES>(members, load, member.0, numbers.followers_required(members), now)
            {
                Ok(nodes) => return Ok(Passage { path, member, at, nodes }),
                Err(shortage) if soonest.is_some_and(|other| other.retry <= shortage.retry) => {}
                Err(shortage) => soonest = Some(shortage),
            }
        }
        let shortage = soonest.expect("an open ceiling has a member");
        Err(Shortage { retry: opens.map_or(shortage.retry, |opens| shortage.retry.min(opens)), ..shortage })
    }

    /// The members that may serve `load` and whose ceilings are open, the one with the most room
    /// first; or the first instant at which a ceiling opens.
    #[inline]
    fn candidates(
        &self,
        members: Members,
        load: WeighedAccess,
        reads: ReadMembers,
        throughput: &Throughput,
        now: Timestamp,
    ) -> Result<Candidates, Timestamp> {
        let is_any = load.is_read && !load.needs_leader && reads == ReadMembers::Any;
        if !is_any || members.as_slice().len() == 1 {
            let leader = (0, throughput.ceiling_taken(0, load.cost, now)?);
            return Ok(Candidates { members: [leader; MEMBERS_MAX], count: 1 });
        }
        self.all_candidates(members, load, throughput, now)
    }

    fn all_candidates(
        &self,
        members: Members,
        load: WeighedAccess,
        throughput: &Throughput,
        now: Timestamp,
    ) -> Result<Candidates, Timestamp> {
        let nodes = members.as_slice();
        let mut candidates = Candidates { members: [(0, BucketWord::default()); MEMBERS_MAX], count: 0 };
        let mut opens = NEVER;
        for member in 0..nodes.len() {
            match throughput.ceiling_taken(member, load.cost, now) {
                Ok(ceiling) => {
                    candidates.members[candidates.count] = (member, ceiling);
                    candidates.count += 1;
                }
                Err(retry) => opens = opens.min(retry),
            }
        }
        if candidates.count == 0 {
            return Err(opens);
        }
        let room = |(member, _): &(usize, BucketWord)| {
            let node = self.node(nodes[*member]);
            core::cmp::Reverse(node.map_or(Units::ZERO, |node| node.level(now)))
        };
        candidates.members[..candidates.count].sort_by_key(room);
        Ok(candidates)
    }

    /// Debits the nodes of an access on the allocated path, whatever is left there.
    #[inline]
    fn debit<const CHARGES: bool>(
        &self,
        members: Members,
        load: WeighedAccess,
        member: usize,
        now: Timestamp,
    ) -> NodeCharges {
        let mut charges = NodeCharges::NONE;
        if !CHARGES || Fault::NodeNotDebited.is_planted() {
            return charges;
        }
        let serving = if load.is_read { member..member + 1 } else { 0..members.as_slice().len() };
        for number in &members.as_slice()[serving] {
            if let Some(node) = self.node(*number) {
                charges.push(node.charge(load.cost, now));
            }
        }
        charges
    }

    /// Charges the nodes of an access that needs their room; nothing if one that is required lacks
    /// it.
    fn take_room<const CHARGES: bool>(
        &self,
        members: Members,
        load: WeighedAccess,
        member: usize,
        followers_required: usize,
        now: Timestamp,
    ) -> Result<NodeCharges, Shortage> {
        let nodes = members.as_slice();
        let mut charges = NodeCharges::NONE;
        let spare = |number: u32, bound| {
            let short = |level, retry| Shortage { bound, level, retry, node: Some(number) };
            let node = self.node(number).ok_or_else(|| short(Units::ZERO, NEVER))?;
            let taken = if CHARGES {
                node.take_spare(load.cost, now)
            } else {
                node.has_spare(load.cost, now).map(|()| NodeCharge::NOWHERE)
            };
            taken.map_err(|retry| short(node.level(now), retry))
        };
        charges.push(spare(nodes[member], Bound::Node)?);
        if load.is_read {
            return Ok(charges);
        }
        let (mut found, mut shortage) = (0, None);
        let mut is_charged = [false; MEMBERS_MAX];
        for (follower, node) in nodes.iter().enumerate().skip(1) {
            if Fault::CreditWithoutDebit.is_planted() {
                found += 1;
                continue;
            }
            match spare(*node, Bound::Replica) {
                Ok(charge) => {
                    charges.push(charge);
                    is_charged[follower] = true;
                    found += 1;
                }
                Err(short) => shortage = shortage.or(Some(short)),
            }
        }
        if let Some(shortage) = shortage.filter(|_| found < followers_required) {
            if CHARGES {
                self.return_node_charges(&charges, load.cost, now, now);
            }
            return Err(shortage);
        }
        // Members that are not required apply the write all the same.
        for (follower, node) in nodes.iter().enumerate().skip(1).filter(|_| CHARGES) {
            if !is_charged[follower] && !Fault::CreditWithoutDebit.is_planted() {
                charges
                    .push(self.node(*node).map_or(NodeCharge::NOWHERE, |node| node.charge(load.cost, now)));
            }
        }
        Ok(charges)
    }

    /// The refusal of an access, which is counted. The partition is unlocked before others are
    /// looked at.
    #[cold]
    fn refuse<'a>(
        &'a self,
        table: &'a Table,
        mut state: MutexGuard<'_, PartitionState>,
        load: WeighedAccess,
        shortage: Shortage,
        now: Timestamp,
    ) -> Admission<'a> {
        let throughput = state.directions.of_mut(load.is_read);
        let at = throughput.now(now);
        throughput.note_time(at, now);
        if matches!(shortage.bound, Bound::Ceiling | Bound::Allocation | Bound::Burst) {
            throughput.meter.throttle(load.cost, now);
        }
        if shortage.bound == Bound::Ceiling {
            throughput.meter.throttle_at_ceiling(load.cost);
        }
        if Fault::RefusalCharged.is_planted() {
            throughput.charge(at, ChargePath::Allocated, (0, BucketWord::default()), load.cost, now);
        }
        let facts = Facts::new(&state, load, now);
        drop(state);
        table.count_throttled(load.is_read);
        let learn = |until| table.used_up(load.is_read).learn(until);
        Admission::Throttle(self.throttled(table, &facts, load, shortage, now, learn))
    }

    /// The refusal of an access by a bucket that is short. If the allocations of all partitions of
    /// a table are used up, `learn` gets the end of that time.
    pub(crate) fn throttled<'a>(
        &'a self,
        table: &'a Table,
        facts: &Facts,
        load: WeighedAccess,
        shortage: Shortage,
        now: Timestamp,
        learn: impl FnOnce(Timestamp),
    ) -> Throttled<'a> {
        let Shortage { bound, level, retry, node } = shortage;
        let status = facts.status;
        // Without burst, the refusal names the partition while another one has room, otherwise the
        // table.
        let is_used_up = bound == Bound::Allocation
            && (table.used_up(load.is_read).is_known_at(now)
                || table.find_room_beside(facts.partition, load.is_read, retry, now).map_err(learn).is_err());
        let reason = if is_used_up { Reason::TableThroughputExceeded } else { bound.reason() };
        let whole_table = Units::whole(facts.numbers.units_per_second(load.is_read));
        let named_node = node.unwrap_or(facts.leader);
        let limit = match bound {
            Bound::Allocation if is_used_up => whole_table,
            Bound::Allocation | Bound::Burst | Bound::Move => status.rate,
            Bound::Ceiling => status.ceiling,
            Bound::Node | Bound::Replica => {
                self.node(named_node).map_or(Units::ZERO, |node| Units::from_rate(node.rate()))
            }
            Bound::Table | Bound::OnDemandMaximum => table.tokens(load.is_read).rate(),
            Bound::TableShare => table.share_rate(load.is_read),
            Bound::Account => self.account_rate(table, load.is_read).unwrap_or(whole_table),
        };
        let mode = facts.numbers.mode;
        let (table, index_name) = table.table_and_index();
        Throttled {
            reason,
            bound,
            level,
            units: Units::from_rate(load.cost),
            table,
            index: index_name,
            operation: operation_of(load.is_read),
            partition: facts.partition,
            range: facts.range,
            node: self.node_name(named_node),
            retry,
            limit,
            remaining: level.max(Units::ZERO),
            rate: status.rate,
            ceiling: (mode != TableMode::Static).then_some(status.ceiling),
            consumed: status.consumed,
            burst_left: mode.spends_burst().then_some(status.burst_left),
        }
    }

    fn account_rate(&self, table: &Table, is_read: bool) -> Option<Units> {
        let entry = self.tables.iter().find(|entry| entry.table.id == table.id)?;
        Some(self.accounts[entry.account? as usize].tokens(is_read).rate())
    }
}

/// The facts about a partition that a refusal or a look shows.
pub(crate) struct Facts {
    pub(crate) partition: PartitionId,
    pub(crate) range: KeyRange,
    pub(crate) leader: u32,
    pub(crate) numbers: TableNumbers,
    pub(crate) status: DirectionStatus,
}

impl Facts {
    pub(crate) fn new(state: &PartitionState, load: WeighedAccess, now: Timestamp) -> Self {
        Self {
            partition: state.id,
            range: state.range,
            leader: state.members.leader(),
            numbers: state.numbers,
            status: state.directions.of(load.is_read).status(now),
        }
    }
}

/// Whether one direction of a partition has less than half of its ceiling left at each member that
/// serves it.
pub(crate) fn is_pressed(state: &PartitionState, is_read: bool, now: Timestamp) -> bool {
    let is_any = is_read && state.numbers.reads == ReadMembers::Any;
    let members = if is_any { state.members.as_slice().len() } else { 1 };
    state.directions.of(is_read).is_pressed(members, now)
}

/// The shortage of an allocation that is used up, and of the burst credit where there is one.
fn allocation_short(
    throughput: &Throughput,
    at: LevelsNow,
    bound: Bound,
    load: WeighedAccess,
    now: Timestamp,
) -> Shortage {
    let level = if bound == Bound::Burst { at.burst() } else { at.allocation() };
    let retry = throughput.admits_from(at, load.cost, now).unwrap_or(NEVER);
    Shortage { bound, level: Units::from_thousandths(level), retry, node: None }
}

impl Table {
    /// Whether any partition has anything left beside this one, which has nothing until `retry`;
    /// otherwise the first instant at which one has.
    fn find_room_beside(
        &self,
        id: PartitionId,
        is_read: bool,
        retry: Timestamp,
        now: Timestamp,
    ) -> Result<(), Timestamp> {
        let plan = self.layout.plan();
        let mut until = retry;
        // From the next one on, so that one hot partition finds a neighbour with room at once.
        let from = id.0 as usize + 1;
        for index in (0..plan.len()).map(|index| (from + index) % plan.len()) {
            let state = self.layout.lock(&plan, index);
            let throughput = state.directions.of(is_read);
            let at = throughput.now(now);
            if at.allocation() > 0 && state.id != id {
                return Ok(());
            }
            until = throughput.opens(at, now).map_or(until, |opens| until.min(opens));
        }
        Err(until)
    }
}
