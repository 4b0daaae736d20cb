//! The end of a hold: its units are given back, or replaced by the true weight of the access.

use tidegate_core::{AccessOperation, Timestamp};

use crate::admission::hold::{NodeCharges, UnitsHold};
use crate::capacity::Capacity;
use crate::fault::Fault;
use crate::table::Table;
use crate::units::Units;

/// The outcome of a settlement: everything that was asked for is in one of the three.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settlement {
    /// Units given back to the partition, or charged to it if negative.
    pub returned: Units,
    /// Units given back for which nothing had room: the bucket had filled up since, the table is
    /// gone, or a change of rates left no room.
    pub overflow: Units,
    /// Units of a true weight beyond the deepest debt, which were not charged.
    pub unbooked: Units,
}

impl Capacity {
    /// Takes back the charge of `hold`, as if the access had not been made.
    ///
    /// If nothing was charged since, the state is bit for bit the same as before the charge.
    /// Otherwise no later access is admitted that would not have been admitted without the charge,
    /// provided that instants come in order and that the partition was not cut, joined or boosted
    /// in the meantime. Units that would have overflowed are not given back.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a hold is used up, so that it is not given back twice"
    )]
    pub fn give_back(&self, hold: UnitsHold, now: Timestamp) -> Settlement {
        for index in hold.indexes.iter().flatten().rev() {
            self.take_back(index, index.units(), now);
        }
        self.take_back(&hold, hold.units(), now)
    }

    /// Replaces the charge of `hold` by the true weight of the access. With `None` the weight is
    /// not known, and the charge stays. Charges of indexes stay.
    ///
    /// A surplus is given back, under the rules of [`Capacity::give_back`]; a shortfall is charged
    /// even if nothing is left. The debt of a partition never exceeds [`Units::LARGEST_REQUEST`];
    /// the part of the shortfall that would exceed it is not booked. A negative weight counts as 0.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a hold is used up, so that it is not given back twice"
    )]
    pub fn settle(&self, hold: UnitsHold, true_units: Option<Units>, now: Timestamp) -> Settlement {
        let Some(true_units) = true_units else { return Settlement::default() };
        let true_units = true_units.max(Units::ZERO);
        let more = true_units.as_thousandths() - hold.units().as_thousandths();
        if more <= 0 {
            return self.take_back(&hold, Units::from_thousandths(-more), now);
        }
        self.charge_more(&hold, more.cast_unsigned(), now)
    }

    /// The units that the partition of the key of `hold` has left of its allocation at `now`, for
    /// reads or for writes as the access; negative in debt. `None` if the table is gone.
    pub fn left_of(&self, hold: &UnitsHold, now: Timestamp) -> Option<Units> {
        let partition = self.table_of(hold)?.layout.owner(hold.position);
        Some(partition.directions.of(hold.is_read).status(now).left)
    }

    /// Forgets what was spent of the [share](crate::TokenSource::Share) of the table at this
    /// position among [`Capacity::tables`], once the lender answers: the share is full when it is
    /// needed again.
    pub fn forget_share(&self, table: u32, operation: AccessOperation, now: Timestamp) {
        if let Some(entry) = self.tables.get(table as usize) {
            entry.table.share(operation == AccessOperation::Read).fill(now);
        }
    }

    fn charge_more(&self, hold: &UnitsHold, more: u64, now: Timestamp) -> Settlement {
        let Some(table) = self.table_of(hold).filter(|_| !Fault::ShortfallForgotten.is_planted()) else {
            return Settlement { unbooked: Units::from_rate(more), ..Settlement::default() };
        };
        let booked = {
            let mut partition = table.layout.owner(hold.position);
            let throughput = partition.directions.of_mut(hold.is_read);
            let charge = &hold.on_partition;
            throughput.charge_more(charge.path, usize::from(charge.member), more, now)
        };
        for charge in hold.on_nodes.as_slice() {
            if let Some(node) = self.node(charge.id.number) {
                let _ = node.charge(booked, now);
            }
        }
        if let Some(charge) = &hold.on_table {
            table.charge_more_tokens(hold.is_read, charge, booked, now);
        }
        if let Some(charge) = &hold.on_account
            && let Some(account) = self.accounts.iter().find(|account| account.id == charge.account)
        {
            account.tokens(hold.is_read).charge_more(booked, now);
        }
        Settlement {
            returned: Units::from_thousandths(-booked.cast_signed()),
            unbooked: Units::from_rate(more - booked),
            ..Settlement::default()
        }
    }

    /// Takes back `units` of a hold, at most all of them, without those of its indexes.
    pub(crate) fn take_back(&self, hold: &UnitsHold, units: Units, now: Timestamp) -> Settlement {
        let (cost, units) = (u64::from(hold.units), units.as_thousandths().cast_unsigned());
        let charged_at = hold.charged_at();
        if !Fault::NodeForgotten.is_planted() {
            self.return_node_charges(&hold.on_nodes, units, charged_at, now);
        }
        let Some(table) = self.table_of(hold) else {
            return Settlement { overflow: Units::from_rate(units), ..Settlement::default() };
        };
        let lost = {
            let mut partition = if Fault::GivenBackByIndex.is_planted() {
                let plan = table.layout.plan();
                table.layout.lock(&plan, (hold.partition.0 as usize).min(plan.len() - 1))
            } else {
                table.layout.owner(hold.position)
            };
            let is_charged = partition.id == hold.partition;
            let throughput = partition.directions.of_mut(hold.is_read);
            if is_charged {
                throughput.give_back(&hold.on_partition, cost, units, now)
            } else {
                throughput.give_back_anew(hold.on_partition.path, units, now)
            }
        };
        if let Some(charge) = &hold.on_account
            && let Some(account) = self.accounts.iter().find(|account| account.id == charge.account)
        {
            account.tokens(hold.is_read).give_back(&charge.tokens, cost, units, now);
        }
        if let Some(charge) = &hold.on_table {
            table.give_back_tokens(hold.is_read, charge, cost, units, now);
        }
        table.used_up(hold.is_read).forget();
        Settlement {
            returned: Units::from_rate(units - lost),
            overflow: Units::from_rate(lost),
            unbooked: Units::ZERO,
        }
    }

    /// Gives `units` back to each node that was charged, the last first; those of a node that is
    /// gone are lost with it.
    pub(crate) fn return_node_charges(
        &self,
        charges: &NodeCharges,
        units: u64,
        at: Timestamp,
        now: Timestamp,
    ) {
        for charge in charges.as_slice().iter().rev() {
            if let Some(node) = self.node(charge.id.number) {
                node.give_back(charge, units, at, now);
            }
        }
    }

    /// The table of a hold; `None` if it is gone.
    fn table_of(&self, hold: &UnitsHold) -> Option<&Table> {
        let at_its_place = self.tables.get(hold.table as usize).map(|entry| &*entry.table);
        at_its_place
            .filter(|table| table.id == hold.table_id)
            .or_else(|| self.tables.iter().map(|entry| &*entry.table).find(|table| table.id == hold.table_id))
    }
}
