//! The invariants of the capacity plane, checked from a trace and from nothing else.
//!
//! An [`InvariantChecker`] is given the answers of a store, the ends of accesses, and the shape of
//! tables and nodes as routers know it, in their order. It keeps exact levels of every bucket, by
//! other formulas than those of the plane, and judges every event. Tests of `tidegate-capacity`
//! give it every event of small stores. The world of [`crate::capacity`] gives it every decision,
//! and the shape of tables each tenth of a second.
//!
//! | invariant | checked at | by |
//! |---|---|---|
//! | I1 table: its rate and its depth | each admission | `table_bound.rs` |
//! | I2 partition: rate, allocation, burst credit and one request | each admission | `partition_bound.rs` |
//! | I3 ceiling: a second of it and one request | each admission | `partition_bound.rs` |
//! | I4 isolation: a conforming partition is not refused by itself or its nodes | each refusal | `isolation.rs` |
//! | I5 node: bursts get what allocations leave | each admission | `node_bound.rs` |
//! | I6 placement: no node is promised more than it may be | each change | `node_promise.rs` |
//! | I7 groups: a burst write has room at every required member | each admission | `node_bound.rs` |
//! | I8 conservation: levels are those of the trace | each look, each end | `conservation.rs` |
//! | I9 leases: what is lent is bounded | each grant and spending | `lease_bound.rs` ([`LeaseChecker`]) |
//! | I10 ranges tile, owners decide, cuts and joins conserve | each decision and change | `range_tiles.rs` |
//! | I11 no ceiling falls because partitions were cut | each change | `range_tiles.rs` |
//! | I12 cuts and joins take their time | each change | `reshape_pace.rs` |
//! | I13 liveness: what can be served is served | each minute of a stationary demand | `liveness.rs` |
//! | I14 the bucket of a refusal is short | each refusal | `refusal_evidence.rs` |
//! | I15 billed units are admitted units | each admission, each look | `bill.rs` |
//! | I16 refill does not depend on its pattern | a property test of two planes; and I8 | tests of `tidegate-capacity` |
//!
//! I16 is a property test because a trace has one pattern of calls: two planes must be asked the
//! same in different ways. A level that a pattern changes is also found by I8, since the checker
//! computes it in one step.
//!
//! A bound over *every* span is one level that refills at the rate: it is below zero exactly if in
//! some span that ends now more than the rate and the depth was admitted.

pub mod trace;

mod bill;
mod books;
mod conservation;
mod invariant;
mod isolation;
mod lease_bound;
mod level;
mod liveness;
mod node_bound;
mod node_promise;
mod partition_bound;
mod range_tiles;
mod refusal_evidence;
mod reshape_pace;
mod table_bound;

use tidegate_capacity::view::{MemberPositions, NodesView, PartitionView, TableView};
use tidegate_capacity::{PartitionId, Position, TableMode, Units};
use tidegate_core::{AccessOperation, Timestamp};

use self::bill::UnitSums;
use self::books::{Books, NodeBook, PassedBy, TableBook, TableRate, flowed_past, index_of, tokens_of};
pub use self::invariant::{Invariant, InvariantViolation, Violations};
pub use self::lease_bound::{LeaseChecker, LeaseGrant, LeaseTerms};
use self::level::{DEBT_MAX, fine};
pub use self::liveness::LivenessTerms;
use self::node_promise::NodePromises;
use self::trace::{TracedAdmission, TracedRefusal, TracedReturn};

/// Judges the events of one store in their order.
///
/// Instants do not go back. Tables, nodes and accounts keep their positions.
#[derive(Debug, Default)]
pub struct InvariantChecker {
    books: Books,
    promises: NodePromises,
    is_operated: bool,
    violations: Violations,
}

/// An admitted access in the books, to be given back or settled.
#[derive(Debug)]
#[must_use = "an access that is settled is settled with it"]
pub struct TracedCharge {
    at: u64,
    table: usize,
    partition: PartitionId,
    position: Position,
    direction: usize,
    member: usize,
    members: MemberPositions,
    path: PassedBy,
    epoch: u32,
    has_tokens: bool,
    account: Option<usize>,
}

impl TracedCharge {
    /// The positions of the nodes that do the work, the one that answers first.
    pub fn nodes(&self) -> impl Iterator<Item = usize> {
        serving(self.members, self.direction, self.member)
    }

    /// Whether it was charged to the buckets that bound a table under this mode: its tokens, or
    /// those of its partitions.
    fn is_bounded_under(&self, mode: TableMode) -> bool {
        if mode == TableMode::Global { self.has_tokens } else { self.path != PassedBy::Spare }
    }
}

/// The violations of one event; nothing is allocated for none.
#[derive(Debug, Default)]
struct EventFindings(Vec<(Invariant, String)>);

impl EventFindings {
    #[inline]
    fn add(&mut self, invariant: Invariant, what: Option<String>) {
        if let Some(what) = what {
            self.0.push((invariant, what));
        }
    }
}

impl InvariantChecker {
    /// A checker of a store as it is now.
    pub fn new(nodes: &NodesView, tables: &[TableView]) -> Self {
        let mut checker = Self::default();
        checker.look_at_nodes(nodes);
        for view in tables {
            checker.begin_table(view);
        }
        checker.check_promises(nodes.at);
        checker
    }

    /// Allows partitions to be joined at any time, as an operator may.
    #[must_use]
    pub fn operated(mut self) -> Self {
        self.is_operated = true;
        self
    }

    /// The heaviest request for the table at this position; [`Units::LARGEST_REQUEST`] by
    /// default.
    pub fn set_largest_request(&mut self, table: usize, units: Units) {
        let table = &mut self.books.tables[table];
        table.largest = units.as_thousandths();
        table.bounds.iter_mut().for_each(table_bound::TableBound::begin_anew);
        table.renew_bounds(0);
    }

    /// Holds the table at this position to its provisioned throughput (I1) even while partitions
    /// have boosts. The control loops boost within the throughput that the table leaves unused.
    /// [`Capacity::allocate`](tidegate_capacity::Capacity::allocate) is not bounded so, and by
    /// default a table is held to the sum of its allocations.
    pub fn hold_to_throughput(&mut self, table: usize) {
        let table = &mut self.books.tables[table];
        table.held_to = TableRate::Throughput;
        table.renew_bounds(0);
    }

    /// The units that leases of several routers add to the depth of a table: its rate over a lease,
    /// and the units that members admit alone. Zero by default.
    pub fn set_lease_allowance(&mut self, table: usize, operation: AccessOperation, units: Units) {
        self.books.tables[table].bounds[index_of(operation)].allowance = units.as_thousandths();
    }

    /// From `since` on the demand for a table is stationary, and table, ceilings and nodes can
    /// serve it.
    pub fn stationary(
        &mut self,
        table: usize,
        operation: AccessOperation,
        since: Timestamp,
        terms: LivenessTerms,
    ) {
        self.books.tables[table].liveness[index_of(operation)].stationary(since.as_nanos(), terms);
    }

    /// The demand for a table is no longer stationary.
    pub fn disturbed(&mut self, table: usize, operation: AccessOperation, at: Timestamp) {
        let found = self.books.tables[table].liveness[index_of(operation)].disturb();
        self.note(Invariant::Liveness, Some(table), at, found);
    }

    /// The violations so far.
    pub const fn violations(&self) -> &Violations {
        &self.violations
    }

    /// Judges and books an access that was admitted. The charge is good for the end of the access;
    /// `None` if its partition does not exist.
    #[inline]
    pub fn admit(&mut self, admission: &TracedAdmission) -> Option<TracedCharge> {
        let (place, path) = self.book(admission)?;
        let TracedAdmission { access, partition, member, .. } = *admission;
        let table = &self.books.tables[access.table];
        let direction = index_of(access.operation);
        let book = &table.partitions[place];
        Some(TracedCharge {
            at: access.at.as_nanos(),
            table: access.table,
            partition,
            position: access.position,
            direction,
            member,
            members: book.members,
            path,
            epoch: book.directions[direction].epoch,
            has_tokens: table.mode == TableMode::Global && !table.bounds[direction].has_leases(),
            account: table.account,
        })
    }

    /// Judges and books an access that was admitted: the place of its partition, and the path.
    fn book(&mut self, admission: &TracedAdmission) -> Option<(usize, PassedBy)> {
        let TracedAdmission { access, partition: id, member, billed } = admission;
        let (index, moment, direction) = (access.table, access.at, index_of(access.operation));
        let (cost, at) = (access.units.as_thousandths(), moment.as_nanos());
        let place = self.place_of(index, *id, access.position, moment)?;
        let Books { tables, nodes, accounts } = &mut self.books;
        let table = &mut tables[index];
        let mut found = EventFindings::default();
        let mode = table.mode;
        let bill = table.sums[direction].admit(cost, billed.as_thousandths());
        found.add(Invariant::Billing, bill);
        found.add(Invariant::TableBound, table.bounds[direction].admit(cost, at));
        table.sums[direction].offer(cost, access.is_first);
        table.liveness[direction].decide(cost, false, at);
        let partition = &table.partitions[place];
        let members = partition.members;
        let path = partition.directions[direction].path(mode, cost, at);
        if direction == 1 {
            let short = node_bound::check_members(table, partition, nodes, path, cost, at);
            found.add(Invariant::WriteMembers, short);
        }
        let book = &mut table.partitions[place].directions[direction];
        book.asked.add(cost, book.base, at);
        let beyond = book.bound.admit((*id, &book.levels, mode), cost, table.largest, at);
        found.add(Invariant::PartitionBound, beyond);
        book.charge(path, mode, cost, at);
        let ceiling = &mut book.ceilings[*member];
        let after = ceiling.charge(cost, at);
        let beyond = partition_bound::check_ceiling(*id, ceiling, after, table.largest);
        found.add(Invariant::CeilingBound, beyond);
        if mode == TableMode::Global && !table.bounds[direction].has_leases() {
            let _ = table.tokens[direction].charge(cost, at);
        }
        if let Some(account) = table.account.and_then(|account| accounts.get_mut(account)) {
            let _ = account[direction].charge(cost, at);
        }
        for (follower, node) in serving(members, direction, *member).enumerate() {
            let node = &mut nodes[node];
            let after = node.level.charge(cost, at);
            if follower == 0 {
                found.add(Invariant::NodeBound, node_bound::check_node(path, node, after));
            }
        }
        self.note_all(found, Some(index), moment);
        Some((place, path))
    }

    /// Judges an access that was refused.
    #[inline]
    pub fn refuse(&mut self, refusal: &TracedRefusal) {
        let access = &refusal.access;
        let (index, moment, direction) = (access.table, access.at, index_of(access.operation));
        let (cost, at) = (access.units.as_thousandths(), moment.as_nanos());
        let Some(place) = self.place_of(index, refusal.partition, access.position, moment) else { return };
        let evidence = refusal_evidence::refuse(&self.books, place, refusal);
        self.note(Invariant::RefusalEvidence, Some(index), moment, evidence);
        let table = &mut self.books.tables[index];
        table.sums[direction].offer(cost, access.is_first);
        table.liveness[direction].decide(cost, true, at);
        let may_nodes_refuse = direction == 1 && table.is_every_write_checked;
        let book = &mut table.partitions[place].directions[direction];
        let terms = (refusal.bound, may_nodes_refuse);
        let found = isolation::refuse(refusal.partition, book, terms, cost, at);
        self.note(Invariant::Isolation, Some(index), moment, found);
    }

    /// Judges and books the end of an access.
    #[expect(clippy::needless_pass_by_value, reason = "a charge is used up, so that it ends once")]
    pub fn end(&mut self, charge: TracedCharge, end: &TracedReturn) {
        let (surplus, now) = (end.surplus.as_thousandths(), end.at.as_nanos());
        let found = conservation::check_parts(surplus, &end.settlement);
        self.note(Invariant::Conservation, Some(charge.table), end.at, found);
        if surplus >= 0 {
            self.give_back(&charge, surplus, end.settlement.overflow, now);
            return;
        }
        let booked = -end.settlement.returned.as_thousandths();
        let unbooked = end.settlement.unbooked.as_thousandths();
        let found = self.charge_more(&charge, booked, unbooked, now);
        self.note(Invariant::Conservation, Some(charge.table), end.at, found);
    }

    fn give_back(&mut self, charge: &TracedCharge, units: i64, overflow: Units, now: u64) {
        let since = now.saturating_sub(charge.at);
        let Books { tables, nodes, accounts } = &mut self.books;
        let table = &mut tables[charge.table];
        let direction = charge.direction;
        let owner = table.owner(charge.position);
        let partition = &mut table.partitions[owner];
        let book = &mut partition.directions[direction];
        let is_same = partition.id == charge.partition && book.epoch == charge.epoch;
        book.note_return(now);
        let levels = &mut book.levels;
        match charge.path {
            PassedBy::Allocation => {
                // Had they not been charged, some might have flowed on into the burst credit.
                let spilled = if is_same { flowed_past(levels.rate, since) } else { 0 };
                levels.give_to_allocation(units, spilled, now);
            }
            PassedBy::Burst => levels.give_to_burst(units, now),
            PassedBy::Spare => {}
            PassedBy::Either => levels.give_to_either(units, now),
        }
        if is_same {
            // All of them may have flowed past by then.
            book.ceilings[charge.member].give(units, fine(units), now);
        }
        book.overflow += overflow.as_thousandths();
        if charge.path != PassedBy::Spare {
            book.bound.give(units, &book.levels, now);
        }
        if charge.is_bounded_under(table.mode) {
            table.bounds[direction].give(units, now);
        }
        table.sums[direction].book(-units);
        if charge.has_tokens {
            table.tokens[direction].give(units, 0, now);
        }
        if let Some(account) = charge.account.and_then(|account| accounts.get_mut(account)) {
            account[direction].give(units, 0, now);
        }
        for node in serving(charge.members, direction, charge.member) {
            let level = &mut nodes[node].level;
            level.give(units, flowed_past(level.rate, since), now);
        }
    }

    fn charge_more(&mut self, charge: &TracedCharge, booked: i64, unbooked: i64, now: u64) -> Option<String> {
        let Books { tables, nodes, accounts } = &mut self.books;
        let table = &mut tables[charge.table];
        let direction = charge.direction;
        let owner = table.owner(charge.position);
        let book = &mut table.partitions[owner].directions[direction];
        book.note_change(now);
        match charge.path {
            PassedBy::Spare => {}
            PassedBy::Either => book.levels.charge_either(booked, true, now),
            path => book.levels.correct(booked, path == PassedBy::Burst, now),
        }
        let found = conservation::check_unbooked(book, charge.path, booked, unbooked, now);
        book.asked.add(booked, book.base, now);
        book.ceilings[charge.member].correct(booked, DEBT_MAX, now);
        if charge.path != PassedBy::Spare {
            book.bound.correct(booked, &book.levels, table.largest, now);
        }
        if charge.is_bounded_under(table.mode) {
            table.bounds[direction].correct(booked, table.partitions.len(), now);
        }
        table.sums[direction].book(booked);
        if charge.has_tokens {
            table.tokens[direction].correct(booked, DEBT_MAX, now);
        }
        if let Some(account) = charge.account.and_then(|account| accounts.get_mut(account)) {
            account[direction].correct(booked, DEBT_MAX, now);
        }
        for node in serving(charge.members, direction, charge.member) {
            let _ = nodes[node].level.charge(booked, now);
        }
        found
    }

    /// Judges the nodes and accounts as they are shown.
    pub fn look_at_nodes(&mut self, view: &NodesView) {
        let now = view.at.as_nanos();
        let Books { nodes, accounts, .. } = &mut self.books;
        let mut found = None;
        for (place, shown) in view.nodes.iter().enumerate() {
            let fresh = NodeBook::shown(shown, now);
            let Some(node) = nodes.get_mut(place) else {
                nodes.push(fresh);
                continue;
            };
            node.level.adopt_terms(&fresh.level, now);
            (node.reserve, node.promisable) = (fresh.reserve, fresh.promisable);
            let differs = conservation::compare_bucket("node", place, &mut node.level, shown.left, now);
            found = found.or(differs);
        }
        for (place, shown) in view.accounts.iter().enumerate() {
            let fresh = shown.map(|tokens| tokens_of(&tokens, now));
            let Some(both) = accounts.get_mut(place) else {
                accounts.push(fresh);
                continue;
            };
            for ((level, fresh), shown) in both.iter_mut().zip(fresh).zip(shown) {
                level.adopt_terms(&fresh, now);
                found = found.or(conservation::compare_bucket("account", place, level, shown.left, now));
            }
        }
        self.note(Invariant::Conservation, None, view.at, found);
    }

    /// Judges a table as it is shown, after a change or at any time.
    pub fn look_at_table(&mut self, view: &TableView) {
        if self.look(view, false) {
            self.check_promises(view.at);
        }
    }

    /// Judges all tables and nodes after a reload, which may change rates and cut tables anew.
    pub fn reload(&mut self, nodes: &NodesView, tables: &[TableView]) {
        self.look_at_nodes(nodes);
        for view in tables {
            self.look(view, true);
        }
        self.check_promises(nodes.at);
    }

    fn begin_table(&mut self, view: &TableView) {
        assert_eq!(view.table, self.books.tables.len(), "tables are shown in their order");
        let mut table = TableBook::shown(view);
        table.renew_bounds(view.at.as_nanos());
        self.promises.change(view.table, &table, self.books.nodes.len());
        self.books.tables.push(table);
        let found = range_tiles::check_tiles(view.partitions.iter().map(|one| &one.range));
        self.note(Invariant::Tiling, Some(view.table), view.at, found);
        self.note(Invariant::Tiling, Some(view.table), view.at, range_tiles::check_shares(view));
    }

    /// Whether what nodes are promised has changed.
    fn look(&mut self, view: &TableView, is_reload: bool) -> bool {
        let (index, now) = (view.table, view.at.as_nanos());
        let table = &mut self.books.tables[index];
        let mut found = EventFindings::default();
        let mut is_tiled = true;
        let is_same = |(one, shown): (&books::PartitionBook, &PartitionView)| {
            one.id == shown.id && one.range == shown.range
        };
        let is_kept = table.partitions.len() == view.partitions.len()
            && table.partitions.iter().zip(&view.partitions).all(is_same);
        let mut has_changed = table.mode != view.mode || is_reload;
        if table.mode != view.mode {
            let directions = table.partitions.iter_mut().flat_map(|one| &mut one.directions);
            directions.for_each(|direction| direction.bound = partition_bound::PartitionBound::default());
        }
        table.mode = view.mode;
        table.account = view.account;
        (table.is_every_write_checked, table.is_majority_enough) =
            (view.is_every_write_checked, view.is_majority_enough);
        table.is_indexed = view.is_indexed;
        let has_units = table.provisioned == view.provisioned;
        table.provisioned = view.provisioned;
        if !is_kept {
            let tiles = range_tiles::check_tiles(view.partitions.iter().map(|one| &one.range));
            is_tiled = tiles.is_none();
            found.add(Invariant::Tiling, tiles);
            if is_tiled {
                reshape(table, view, is_reload || !has_units, self.is_operated, &mut found);
            }
            has_changed = true;
        }
        if (has_changed || !has_units) && is_tiled {
            found.add(Invariant::Tiling, range_tiles::check_shares(view));
        }
        for (one, shown) in table.partitions.iter_mut().zip(&view.partitions).filter(|_| is_tiled) {
            if one.members != shown.members {
                one.members = shown.members;
                has_changed = true;
            }
            for (book, shown) in one.directions.iter_mut().zip(&shown.directions) {
                let rates = [shown.base, shown.rate, shown.ceiling].map(Units::as_thousandths);
                if [book.base, book.levels.rate, book.ceilings[0].rate] != rates
                    || book.levels.burst_max != shown.burst_max.as_thousandths()
                {
                    if !is_reload && rates[2] < book.ceilings[0].rate {
                        let what = format!("the ceiling of partition {} fell to {}", one.id, shown.ceiling);
                        found.add(Invariant::KeyCeiling, Some(what));
                    }
                    book.set_rates(shown, view.mode, now);
                    has_changed = true;
                }
                let differs = conservation::compare_levels(one.id, book, shown, now);
                found.add(Invariant::Conservation, differs);
            }
        }
        for (direction, tokens) in view.tokens.iter().enumerate() {
            let fresh = tokens_of(tokens, now);
            let level = &mut table.tokens[direction];
            has_changed |= level.adopt_terms(&fresh, now);
            if !table.bounds[direction].has_leases() {
                let name = "tokens of the table";
                let differs = conservation::compare_bucket(name, index, level, tokens.left, now);
                found.add(Invariant::Conservation, differs);
            }
            let sums = table.sums[direction].compare(UnitSums::from_view(view, direction), view.is_indexed);
            found.add(Invariant::Billing, sums);
            found.add(Invariant::Liveness, table.liveness[direction].look(now));
        }
        if has_changed {
            table.renew_bounds(now);
            self.promises.change(index, table, self.books.nodes.len());
        }
        self.note_all(found, Some(index), view.at);
        has_changed
    }

    fn check_promises(&mut self, at: Timestamp) {
        let found = self.promises.check(&self.books.nodes);
        self.note(Invariant::NodePromise, None, at, found);
    }

    /// The place of the partition that decided on a key.
    #[inline]
    fn place_of(
        &mut self,
        table: usize,
        id: PartitionId,
        position: Position,
        at: Timestamp,
    ) -> Option<usize> {
        let Some(place) = self.books.tables[table].place_of(id) else {
            let what = format!("partition {id}, which does not exist, decided on a key at {position}");
            self.note(Invariant::Tiling, Some(table), at, Some(what));
            return None;
        };
        let found = range_tiles::check_owner(&self.books.tables[table].partitions[place], position);
        self.note(Invariant::Tiling, Some(table), at, found);
        Some(place)
    }

    #[inline]
    fn note_all(&mut self, found: EventFindings, table: Option<usize>, at: Timestamp) {
        for (invariant, what) in found.0 {
            self.violations.add(invariant, || InvariantViolation { invariant, at, table, what });
        }
    }

    #[inline]
    fn note(&mut self, invariant: Invariant, table: Option<usize>, at: Timestamp, found: Option<String>) {
        let Some(what) = found else { return };
        self.violations.add(invariant, || InvariantViolation { invariant, at, table, what });
    }
}

/// Replaces each run of partitions that has become others with the same keys.
fn reshape(
    table: &mut TableBook,
    view: &TableView,
    is_reload: bool,
    is_operated: bool,
    found: &mut EventFindings,
) {
    let now = view.at.as_nanos();
    let shown = &view.partitions;
    found.add(Invariant::Tiling, range_tiles::check_numbers(table, shown));
    let (mut place, mut next) = (0, 0);
    while next < shown.len() && place < table.partitions.len() {
        let (mut to, mut until) = (place + 1, next + 1);
        // Both tile the keys, so that both ends meet at the last at the latest.
        while table.partitions[to - 1].range.end != shown[until - 1].range.end {
            let (old, new) = (table.partitions[to - 1].range.end, shown[until - 1].range.end);
            let is_old_first = new.is_none() || old.is_some_and(|old| Some(old) < new);
            if is_old_first { to += 1 } else { until += 1 }
        }
        let made = &shown[next..until];
        let before = &table.partitions[place..to];
        if before.len() > 1 || made.len() > 1 || before[0].id != made[0].id {
            found.add(Invariant::Tiling, range_tiles::check_replaced(before, made, is_reload, now));
            if !is_reload {
                found.add(Invariant::KeyCeiling, range_tiles::check_ceilings(before, made));
            }
            let ranges: Vec<_> = before.iter().map(|one| (one.id, one.range)).collect();
            let hasty = table.pace.replace(&ranges, made, now);
            found.add(Invariant::ReshapePace, hasty.filter(|_| !is_reload && !is_operated));
            table.replace(place, to, made, now);
        }
        place += made.len();
        next = until;
    }
    table.number();
}

/// The nodes that do the work of an access, the one that answers first.
#[inline]
fn serving(members: MemberPositions, direction: usize, member: usize) -> impl Iterator<Item = usize> {
    let count = if direction == 0 { 1 } else { members.count() };
    (0..count).map(move |step| members.node(if direction == 0 { member } else { step }))
}
