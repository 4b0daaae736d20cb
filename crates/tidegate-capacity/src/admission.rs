//! The decision on an access.
//!
//! 1. The partition does not move.
//! 2. The tokens of the table (global admission) and of its account cover the access; charged.
//! 3. The ceiling of a member that may serve the access has anything left.
//! 4. The allocation has anything left: the partition is charged, and the nodes are debited without
//!    being read, except for writes under [`WriteCheck::Always`].
//! 5. Otherwise the burst credit covers the access, which global admission does not ask, and the
//!    node of the member has room beyond its reserve; for a write, so have those of all required
//!    members.
//!
//! Charges of a refused access are taken back in reverse, so that it leaves everything as it was. A
//! write to a table with indexes is decided for the table and each index in turn, all or nothing.

use tidegate_core::Timestamp;

use crate::access::{Access, operation_of};
use crate::capacity::{Admission, Capacity, TableEntry};
use crate::error::CapacityError;
use crate::fault::Fault;
use crate::hold::{AccountCharge, NodeCharges, UnitsHold};
use crate::layout::Layout;
use crate::node::NodeCharge;
use crate::partition::{Members, Partition};
use crate::position::Position;
use crate::status::CapacityStatus;
use crate::table::Table;
use crate::table_config::{ReadMembers, TableMode, WriteCheck};
use crate::throttled::{Bound, Throttled};
use crate::throughput::{ChargePath, LevelsNow, MEMBERS_MAX, Throughput};
use crate::units::Units;

/// The last instant there is.
const NEVER: Timestamp = Timestamp::from_nanos(u64::MAX);

/// One access to one table, weighed and located.
#[derive(Clone, Copy, Debug)]
struct Load {
    is_read: bool,
    needs_leader: bool,
    is_repeated: bool,
    position: Position,
    /// In thousandths; at most the largest request.
    cost: u64,
}

/// The bucket that has too little for an access.
#[derive(Clone, Copy, Debug)]
struct Shortage {
    bound: Bound,
    level: Units,
    retry: Timestamp,
    /// The number of the node of the bucket, if it is one of a node.
    node: Option<u32>,
}

/// How an access would be charged.
#[derive(Clone, Copy, Debug)]
struct Passage {
    path: ChargePath,
    member: usize,
    at: LevelsNow,
    nodes: NodeCharges,
}

impl Capacity {
    /// Decides whether `access` of a request of `namespace` may go ahead at `now`. The units of an
    /// admitted access are charged until they are given back; a throttled access is charged
    /// nothing.
    ///
    /// Fails when the namespace has no such table or index, and when the access is larger than one
    /// may be.
    pub fn admit(
        &self,
        namespace: &str,
        access: &Access<'_>,
        now: Timestamp,
    ) -> Result<Admission<'_>, CapacityError> {
        let units = access.units()?;
        let (table, entry) = self.entry(namespace, access.table)?;
        let is_read = access.kind.is_read();
        if is_read || entry.indexes.is_empty() && access.index_writes.is_empty() {
            return Ok(self.admit_one(table, entry, access, access.key, units, now));
        }
        self.admit_with_indexes(namespace, table, entry, access, units, now)
    }

    /// Decides a write to a table and to its indexes, all or nothing.
    fn admit_with_indexes(
        &self,
        namespace: &str,
        table: u32,
        entry: &TableEntry,
        access: &Access<'_>,
        units: Units,
        now: Timestamp,
    ) -> Result<Admission<'_>, CapacityError> {
        let mut writes: Vec<(u32, &[u8], Units)> = Vec::with_capacity(entry.indexes.len());
        if access.index_writes.is_empty() {
            writes.extend(entry.indexes.iter().map(|index| (*index, access.key, units)));
        }
        for write in access.index_writes {
            let is_it =
                |index: &&u32| self.tables[**index as usize].table.table_and_index().1 == Some(write.index);
            let index = entry.indexes.iter().find(is_it).ok_or_else(|| {
                CapacityError::unknown_table(namespace, &format!("{}/{}", access.table, write.index))
            })?;
            writes.push((*index, write.key, access.kind.units(write.size)?));
        }
        let mut hold = match self.admit_one(table, entry, access, access.key, units, now) {
            Admission::Admit(hold) => hold,
            refusal @ Admission::Throttle(_) => return Ok(refusal),
        };
        let mut holds = Vec::with_capacity(writes.len());
        for (index, key, units) in writes {
            match self.admit_one(index, &self.tables[index as usize], access, key, units, now) {
                Admission::Admit(one) => holds.push(one),
                refusal @ Admission::Throttle(_) => {
                    for one in holds.into_iter().rev() {
                        self.take_back(&one, one.units(), now);
                    }
                    self.take_back(&hold, hold.units(), now);
                    return Ok(refusal);
                }
            }
        }
        hold.indexes = Some(holds.into());
        Ok(Admission::Admit(hold))
    }

    #[inline]
    fn admit_one(
        &self,
        table_index: u32,
        entry: &TableEntry,
        access: &Access<'_>,
        key: &[u8],
        units: Units,
        now: Timestamp,
    ) -> Admission<'_> {
        // The entry is one of this store, found by its position so that what is borrowed lives as
        // long as the store.
        let table: &Table = &self.tables[table_index as usize].table;
        let layout = table.layout();
        let load = Load {
            is_read: access.kind.is_read(),
            needs_leader: access.kind.needs_leader(),
            is_repeated: access.is_repeated,
            position: layout.keyspace.position(key),
            cost: units.as_thousandths().cast_unsigned(),
        };
        let index = layout.find(load.position);
        let partition = layout.partition(index);
        if let Some(until) = partition.gated_until
            && now < until
        {
            let shortage = Shortage { bound: Bound::Move, level: Units::ZERO, retry: until, node: None };
            return Admission::Throttle(self.refuse(table, &layout, index, load, shortage, now));
        }
        let on_table = match layout.numbers.mode {
            TableMode::Global => match table.tokens(load.is_read).take(load.cost, now) {
                Ok(charge) => Some(charge),
                Err(retry) => {
                    let level = table.tokens(load.is_read).left(now);
                    let shortage = Shortage { bound: Bound::Table, level, retry, node: None };
                    return Admission::Throttle(self.refuse(table, &layout, index, load, shortage, now));
                }
            },
            _ => None,
        };
        let on_account = match entry.account {
            Some(account) => {
                let account = &self.accounts[account as usize];
                match account.tokens(load.is_read).take(load.cost, now) {
                    Ok(tokens) => Some(AccountCharge { account: account.id, tokens }),
                    Err(retry) => {
                        let level = account.tokens(load.is_read).left(now);
                        if let Some(charge) = &on_table {
                            table.tokens(load.is_read).give_back(charge, load.cost, load.cost, now);
                        }
                        let shortage = Shortage { bound: Bound::Account, level, retry, node: None };
                        return Admission::Throttle(self.refuse(table, &layout, index, load, shortage, now));
                    }
                }
            }
            None => None,
        };
        let mut directions = partition.lock();
        let throughput = directions.of_mut(load.is_read);
        if !load.is_repeated || Fault::RetriesCounted.is_planted() {
            throughput.meter.offer(load.cost);
        }
        match self.pass::<true>(&layout, partition, throughput, load, now) {
            Ok(passage) => {
                let on_partition =
                    throughput.charge(passage.at, passage.path, passage.member, load.cost, now);
                Admission::Admit(UnitsHold {
                    table: table_index,
                    table_id: table.id,
                    partition: partition.id,
                    // At most the largest request.
                    units: load.cost as u32,
                    position: load.position,
                    on_partition,
                    on_nodes: passage.nodes,
                    on_table,
                    on_account,
                    indexes: None,
                    is_read: load.is_read,
                })
            }
            Err(shortage) => {
                let at = throughput.now(now);
                throughput.note_time(at, now);
                if matches!(shortage.bound, Bound::Ceiling | Bound::Allocation | Bound::Burst) {
                    throughput.meter.throttle(load.cost);
                }
                if Fault::RefusalCharged.is_planted() {
                    throughput.charge(at, ChargePath::Allocated, 0, load.cost, now);
                }
                drop(directions);
                if let (Some(AccountCharge { tokens, .. }), Some(account)) = (&on_account, entry.account) {
                    let account = &self.accounts[account as usize];
                    account.tokens(load.is_read).give_back(tokens, load.cost, load.cost, now);
                }
                if let Some(charge) = &on_table {
                    table.tokens(load.is_read).give_back(charge, load.cost, load.cost, now);
                }
                Admission::Throttle(self.refuse(table, &layout, index, load, shortage, now))
            }
        }
    }

    /// How `load` is charged to a partition, or the bucket that is short. The nodes are charged if
    /// `CHARGES`, and not after a shortage; the partition is not.
    #[inline]
    fn pass<const CHARGES: bool>(
        &self,
        layout: &Layout,
        partition: &Partition,
        throughput: &Throughput,
        load: Load,
        now: Timestamp,
    ) -> Result<Passage, Shortage> {
        let numbers = &layout.numbers;
        let members = partition.members;
        let at = throughput.now(now);
        let (candidates, count) =
            self.candidates(members, load, numbers.reads, throughput, now).map_err(|retry| Shortage {
                bound: Bound::Ceiling,
                level: throughput.ceiling_level(0, now),
                retry,
                node: None,
            })?;
        let candidates = &candidates[..count];
        let is_checked = !load.is_read && numbers.write_check == WriteCheck::Always;
        if at.allocation() > 0 && !is_checked {
            let member = usize::from(candidates[0]);
            let nodes = self.debit::<CHARGES>(members, load, member, now);
            return Ok(Passage { path: ChargePath::Allocated, member, at, nodes });
        }
        let path = match numbers.mode {
            _ if at.allocation() > 0 => ChargePath::Allocated,
            TableMode::Static => return Err(allocation_short(throughput, at, Bound::Allocation, now)),
            TableMode::Burst | TableMode::Adaptive if at.burst() < load.cost.cast_signed() => {
                return Err(allocation_short(throughput, at, Bound::Burst, now));
            }
            TableMode::Burst | TableMode::Adaptive => ChargePath::Burst,
            TableMode::Global => ChargePath::Spare,
        };
        // The allocated path opens by itself, without the nodes' room.
        let opens = if is_checked { None } else { throughput.opens(at, now) };
        let mut soonest: Option<Shortage> = None;
        for member in candidates.iter().map(|member| usize::from(*member)) {
            match self.take_room::<CHARGES>(members, load, member, numbers.followers_required(members), now) {
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
        load: Load,
        reads: ReadMembers,
        throughput: &Throughput,
        now: Timestamp,
    ) -> Result<([u8; MEMBERS_MAX], usize), Timestamp> {
        let mut candidates = [0; MEMBERS_MAX];
        let is_any = load.is_read && !load.needs_leader && reads == ReadMembers::Any;
        let nodes = members.as_slice();
        if !is_any || nodes.len() == 1 {
            return match throughput.ceiling_closed_until(0, now) {
                None => Ok((candidates, 1)),
                Some(retry) => Err(retry),
            };
        }
        let (mut count, mut opens) = (0, NEVER);
        for (member, _) in nodes.iter().enumerate() {
            match throughput.ceiling_closed_until(member, now) {
                None => {
                    // At most MEMBERS_MAX.
                    candidates[count] = member as u8;
                    count += 1;
                }
                Some(retry) => opens = opens.min(retry),
            }
        }
        if count == 0 {
            return Err(opens);
        }
        let room = |member: &u8| {
            let node = self.node(nodes[usize::from(*member)]);
            core::cmp::Reverse(node.map_or(Units::ZERO, |node| node.level(now)))
        };
        candidates[..count].sort_by_key(room);
        Ok((candidates, count))
    }

    /// Debits the nodes of an access on the allocated path, whatever is left there.
    #[inline]
    fn debit<const CHARGES: bool>(
        &self,
        members: Members,
        load: Load,
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
        load: Load,
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

    /// The state of the partition of `access` at `now`, and the refusal that the access would get.
    /// Indexes are not looked at. Charges and changes nothing.
    ///
    /// Fails as [`Capacity::admit`] does.
    pub fn peek(
        &self,
        namespace: &str,
        access: &Access<'_>,
        now: Timestamp,
    ) -> Result<CapacityStatus<'_>, CapacityError> {
        let units = access.units()?;
        let (_, entry) = self.entry(namespace, access.table)?;
        let table: &Table = &entry.table;
        let layout = table.layout();
        let load = Load {
            is_read: access.kind.is_read(),
            needs_leader: access.kind.needs_leader(),
            is_repeated: true,
            position: layout.keyspace.position(access.key),
            cost: units.as_thousandths().cast_unsigned(),
        };
        let index = layout.find(load.position);
        let partition = layout.partition(index);
        let (shortage, status) = {
            let directions = partition.lock();
            let throughput = directions.of(load.is_read);
            let shortage = self.shortage(entry, &layout, partition, throughput, load, now);
            let at = throughput.now(now);
            let full = throughput.full_from(at, now).unwrap_or(NEVER);
            (shortage, (Units::from_rate(throughput.rates.allocated), at.allocation(), full))
        };
        let (limit, left, reset_at) = status;
        Ok(CapacityStatus {
            table: &table.name,
            operation: operation_of(load.is_read),
            partition: partition.id,
            range: layout.range(index),
            node: self.node_name(partition.members.leader()),
            units,
            limit,
            remaining: Units::from_thousandths(left),
            reset_at,
            throttled: shortage.map(|shortage| {
                // As if the hint did not exist, so that a look changes nothing.
                self.throttled(table, &layout, index, load, shortage, now, |_| {})
            }),
        })
    }

    /// The bucket that is short for `load`; charges nothing.
    fn shortage(
        &self,
        entry: &TableEntry,
        layout: &Layout,
        partition: &Partition,
        throughput: &Throughput,
        load: Load,
        now: Timestamp,
    ) -> Option<Shortage> {
        let short = |bound, level, retry| Some(Shortage { bound, level, retry, node: None });
        if let Some(until) = partition.gated_until
            && now < until
        {
            return short(Bound::Move, Units::ZERO, until);
        }
        if layout.numbers.mode == TableMode::Global {
            let tokens = entry.table.tokens(load.is_read);
            if let Err(retry) = tokens.has(load.cost, now) {
                return short(Bound::Table, tokens.left(now), retry);
            }
        }
        if let Some(account) = entry.account {
            let tokens = self.accounts[account as usize].tokens(load.is_read);
            if let Err(retry) = tokens.has(load.cost, now) {
                return short(Bound::Account, tokens.left(now), retry);
            }
        }
        self.pass::<false>(layout, partition, throughput, load, now).err()
    }

    /// The refusal of an access, which is counted.
    #[cold]
    fn refuse<'a>(
        &'a self,
        table: &'a Table,
        layout: &Layout,
        index: usize,
        load: Load,
        shortage: Shortage,
        now: Timestamp,
    ) -> Throttled<'a> {
        table.count_throttled(load.is_read);
        self.throttled(table, layout, index, load, shortage, now, |until| {
            // Of a table with one partition there is nothing to remember.
            if layout.len() > 1 {
                table.used_up(load.is_read).learn(until);
            }
        })
    }

    /// The refusal of an access by a bucket that is short. If the allocations of all partitions of
    /// a table are used up, `learn` gets the end of that time.
    #[expect(clippy::too_many_arguments, reason = "the access, its place and the bucket, by name")]
    fn throttled<'a>(
        &'a self,
        table: &'a Table,
        layout: &Layout,
        index: usize,
        load: Load,
        shortage: Shortage,
        now: Timestamp,
        learn: impl FnOnce(Timestamp),
    ) -> Throttled<'a> {
        let partition = layout.partition(index);
        let status = partition.lock().of(load.is_read).status(now);
        let Shortage { bound, level, retry, node } = shortage;
        // Without burst a partition that is used up says so only while another one has room.
        let is_used_up = bound == Bound::Allocation
            && (table.used_up(load.is_read).is_known_at(now)
                || find_room_beside(layout, index, load.is_read, retry, now).map_err(learn).is_err());
        let reason = if is_used_up { tidegate_core::Reason::TableThroughputExceeded } else { bound.reason() };
        let whole_table = Units::whole(layout.numbers.units_per_second(load.is_read));
        let named_node = node.unwrap_or_else(|| partition.members.leader());
        let limit = match bound {
            Bound::Allocation if is_used_up => whole_table,
            Bound::Allocation | Bound::Burst | Bound::Move => status.rate,
            Bound::Ceiling => status.ceiling,
            Bound::Node | Bound::Replica => {
                self.node(named_node).map_or(Units::ZERO, |node| Units::from_rate(node.rate()))
            }
            Bound::Table | Bound::OnDemandMaximum => table.tokens(load.is_read).rate(),
            Bound::Account => self.account_rate(table, load.is_read).unwrap_or(whole_table),
        };
        let has_burst = layout.numbers.mode != TableMode::Static;
        let (table, index_name) = table.table_and_index();
        Throttled {
            reason,
            bound,
            level,
            units: Units::from_rate(load.cost),
            table,
            index: index_name,
            operation: operation_of(load.is_read),
            partition: partition.id,
            range: layout.range(index),
            node: self.node_name(named_node),
            retry,
            limit,
            remaining: level.max(Units::ZERO),
            rate: status.rate,
            ceiling: has_burst.then_some(status.ceiling),
            consumed: status.consumed,
            burst_left: has_burst.then_some(status.burst_left),
        }
    }

    fn account_rate(&self, table: &Table, is_read: bool) -> Option<Units> {
        let entry = self.tables.iter().find(|entry| entry.table.id == table.id)?;
        Some(self.accounts[entry.account? as usize].tokens(is_read).rate())
    }
}

/// The shortage of an allocation that is used up, and of the burst credit where there is one.
fn allocation_short(throughput: &Throughput, at: LevelsNow, bound: Bound, now: Timestamp) -> Shortage {
    let level = if bound == Bound::Burst { at.burst() } else { at.allocation() };
    let retry = throughput.opens(at, now).unwrap_or(NEVER);
    Shortage { bound, level: Units::from_thousandths(level), retry, node: None }
}

/// Whether any partition has anything left beside this one, which has nothing until `retry`;
/// otherwise the first instant at which one has.
fn find_room_beside(
    layout: &Layout,
    index: usize,
    is_read: bool,
    retry: Timestamp,
    now: Timestamp,
) -> Result<(), Timestamp> {
    // From the next one on, so that one hot partition finds a neighbour with room at once.
    let others = layout.partitions().skip(index + 1).chain(layout.partitions().take(index));
    let mut until = retry;
    for other in others {
        let directions = other.lock();
        let throughput = directions.of(is_read);
        let at = throughput.now(now);
        if at.allocation() > 0 {
            return Ok(());
        }
        until = throughput.opens(at, now).map_or(until, |opens| until.min(opens));
    }
    Err(until)
}
