//! The checkers of a run. They see the trace, and the shape of tables as routers know it, and keep
//! levels of their own; they share no formula with the plane.

mod bill;
mod books;
mod ceiling_bound;
mod ceiling_of_keys;
mod level;
mod node_bound;
mod partition_bound;
mod range_tiles;
mod refusal_evidence;
mod table_bound;
mod write_members;

use std::collections::BTreeMap;

use tidegate_capacity::TableMode;

use self::bill::Billing;
use self::books::{Books, PartitionBook};
use self::ceiling_bound::CeilingBound;
use self::ceiling_of_keys::KeyCeiling;
use self::node_bound::NodeBound;
use self::partition_bound::PartitionBound;
use self::range_tiles::Tiling;
use self::refusal_evidence::RefusalEvidence;
use self::table_bound::TableBound;
use self::write_members::WriteMembers;
use crate::capacity::invariant::{Breach, Invariant};
use crate::capacity::scenario::CapacityScenario;
use crate::capacity::trace::{DecisionAnswer, DecisionEvent, PartitionRecord};
use crate::kit::{Findings, MS};

pub(crate) use self::books::LOOK_EVERY;

/// All checkers of one run.
#[derive(Debug)]
pub(crate) struct Judge {
    seed: u64,
    books: Books,
    is_write: Vec<bool>,
    tables: Vec<TableJudge>,
    nodes: Vec<NodeBound>,
    findings: Findings<Invariant, Breach>,
}

/// The checkers of one table, and of its partitions by their place.
#[derive(Debug)]
struct TableJudge {
    table: TableBound,
    billing: Billing,
    partitions: Vec<(PartitionBound, CeilingBound)>,
}

impl Judge {
    pub(crate) fn new(
        scenario: &CapacityScenario,
        mode_of: impl Fn(usize) -> TableMode,
        partitions: &[Vec<PartitionRecord>],
    ) -> Self {
        let books = Books::new(scenario, mode_of, partitions);
        let tables = (0..books.tables.len()).map(|table| TableJudge {
            table: TableBound::new(&books, table),
            billing: Billing::default(),
            partitions: vec![Default::default(); books.tables[table].partitions.len()],
        });
        let mut judge = Self {
            seed: scenario.seed,
            tables: tables.collect(),
            nodes: books.nodes.iter().map(|node| NodeBound::new(node.rate)).collect(),
            is_write: scenario.tables.iter().map(|table| table.is_write).collect(),
            books,
            findings: Findings::default(),
        };
        for table in 0..judge.tables.len() {
            let found = Tiling::tile(judge.books.tables[table].partitions.iter().map(|one| &one.range));
            judge.note(Invariant::Tiling, table, 0, found);
        }
        judge
    }

    /// Judges one decision, and books it.
    pub(crate) fn decide(&mut self, event: &DecisionEvent<'_>) {
        let DecisionEvent { at, table, position, cost, answer } = *event;
        let id = match answer {
            DecisionAnswer::Admitted { partition, .. } => partition,
            DecisionAnswer::Refused(throttled) => throttled.partition,
        };
        let Some(place) = self.books.tables[table].place_of(id) else {
            let found = Some(format!("partition {id}, which does not exist, decided on a key at {position}"));
            self.note(Invariant::Tiling, table, at, found);
            return;
        };
        let found = Tiling::decide(&self.books.tables[table].partitions[place], position);
        self.note(Invariant::Tiling, table, at, found);
        match answer {
            DecisionAnswer::Refused(throttled) => {
                let found = RefusalEvidence::refuse(&self.books, table, place, throttled, cost, at);
                self.note(Invariant::RefusalEvidence, table, at, found);
            }
            DecisionAnswer::Admitted { billed, .. } => self.admit(event, place, billed),
        }
    }

    fn admit(&mut self, event: &DecisionEvent<'_>, place: usize, billed: i64) {
        let DecisionEvent { at, table, cost, .. } = *event;
        let is_write = self.is_write[table];
        let path = self.books.path(table, place, cost, at);
        if is_write {
            let found = WriteMembers::admit(&self.books, table, place, path, cost, at);
            self.note(Invariant::WriteMembers, table, at, found);
        }
        let book = &self.books.tables[table];
        let partition = &book.partitions[place];
        let judge = &mut self.tables[table];
        let (in_partition, in_ceiling) = &mut judge.partitions[place];
        let found = [
            (Invariant::TableBound, judge.table.admit(book.tokens.rate, cost, at)),
            (Invariant::PartitionBound, in_partition.admit(book, partition, cost, at)),
            (Invariant::CeilingBound, in_ceiling.admit(book, partition, cost, at)),
            (Invariant::NodeBound, self.nodes[partition.members[0]].charge(path, cost, at)),
            (Invariant::Billing, judge.billing.admit(cost, billed)),
        ];
        if is_write {
            for follower in partition.members.iter().skip(1) {
                // Followers apply the write; their room is judged by I7.
                let _ = self.nodes[*follower].charge(books::PassedBy::Allocation, cost, at);
            }
        }
        for (invariant, found) in found {
            self.note(invariant, table, at, found);
        }
        self.books.charge(event, place, path, is_write);
    }

    /// Judges the partitions of a table as routers know them at `at`, in the order of their ranges.
    pub(crate) fn look(&mut self, table: usize, records: &[PartitionRecord], at: u64) {
        let told = records.iter().map(|record| record.admitted).sum();
        let found = self.tables[table].billing.compare(told);
        self.note(Invariant::Billing, table, at, found);
        let is_same = |one: &PartitionBook, record: &PartitionRecord| {
            one.id == record.id && one.range == record.range && one.ceiling.rate == record.ceiling
        };
        let book = &mut self.books.tables[table];
        let is_unchanged = book.partitions.len() == records.len()
            && book.partitions.iter().zip(records).all(|(one, record)| is_same(one, record));
        if is_unchanged {
            for (one, record) in book.partitions.iter_mut().zip(records) {
                one.members[0] = record.leader;
                one.resolve(record, at);
                if one.levels.rate != record.rate {
                    one.levels = one.levels.with_rate(record.rate, at);
                }
            }
            return;
        }
        let found = Tiling::tile(records.iter().map(|record| &record.range));
        let is_tiled = found.is_none();
        self.note(Invariant::Tiling, table, at, found);
        if is_tiled {
            self.reshape(table, records, at);
        }
    }

    /// Judges each run of partitions that were replaced by others with the same keys.
    fn reshape(&mut self, table: usize, records: &[PartitionRecord], at: u64) {
        let mut place = 0;
        let mut record = 0;
        while record < records.len() && place < self.books.tables[table].partitions.len() {
            let book = &self.books.tables[table];
            let (mut to, mut until) = (place + 1, record + 1);
            // Both tile the keys, so that both ends meet at the last at the latest.
            while book.partitions[to - 1].range.end != records[until - 1].range.end {
                let (old, new) = (book.partitions[to - 1].range.end, records[until - 1].range.end);
                let is_old_first = new.is_none() || old.is_some_and(|old| Some(old) < new);
                if is_old_first { to += 1 } else { until += 1 }
            }
            let made = &records[record..until];
            let is_kept = to == place + 1 && made.len() == 1 && book.partitions[place].id == made[0].id;
            let found = [
                (Invariant::KeyCeiling, KeyCeiling::replace(book, place, to, made)),
                (Invariant::Tiling, if is_kept { None } else { Tiling::replace(book, place, to, made, at) }),
            ];
            for (invariant, found) in found {
                self.note(invariant, table, at, found);
            }
            if !is_kept {
                self.books.tables[table].replace(place, to, made, at);
                // The ceiling of each key goes on; the allocations begin anew.
                let (_, ceiling) = self.tables[table].partitions[place].clone();
                let judged = made.iter().map(|_| (PartitionBound::default(), ceiling.clone()));
                self.tables[table].partitions.splice(place..to, judged);
            }
            place += made.len();
            record = until;
        }
        self.tables[table].table.reshape(&self.books.tables[table]);
    }

    #[inline]
    fn note(&mut self, invariant: Invariant, table: usize, at: u64, found: Option<String>) {
        let Some(what) = found else { return };
        let (seed, table) = (self.seed, self.books.tables[table].name.clone());
        self.findings.add(invariant, || Breach { invariant, seed, at_ms: at / MS, table, what });
    }

    /// How often each invariant was breached.
    pub(crate) fn counts(&self) -> &BTreeMap<Invariant, u64> {
        self.findings.counts()
    }

    /// The first breaches of each invariant.
    pub(crate) fn breaches(&self) -> &[Breach] {
        self.findings.kept()
    }
}

#[cfg(test)]
mod tests;
