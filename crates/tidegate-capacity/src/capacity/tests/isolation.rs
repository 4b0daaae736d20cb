//! Victims that stay within their base rates beside a neighbour that asks for ten times its own.

use tidegate_core::AccessOperation;
use tidegate_test_support::SplitMix64;

use super::*;
use crate::admission::throttled::Bound;
use crate::control::reshape::SplitShares;
use crate::levels::Share;
use crate::table_config::{Ceilings, TableMode};

const NODES: [&str; 4] = ["a", "b", "c", "d"];
const SECONDS: u64 = 40;

/// A key of each partition of a table.
fn keys_of(capacity: &Capacity, table: &str) -> Vec<Vec<u8>> {
    (0..capacity.partitions(SHOP, table, START).unwrap().len())
        .map(|index| key_in(capacity, table, index))
        .collect()
}

/// Sixteen keys by Zipf's law with exponent 1.2, in a table of as many tickets.
fn zipf_tickets() -> Vec<u64> {
    let has_ticket = |rank: u32, ticket: u32| f64::from(ticket) < 1000.0 / f64::from(rank).powf(1.2);
    (1..=16)
        .flat_map(|rank| (0..1000).filter(move |ticket| has_ticket(rank, *ticket)).map(move |_| rank.into()))
        .collect()
}

/// I4 and E-ISO-1.
#[test]
fn victims_within_their_base_are_never_refused_while_a_neighbour_is_cut_moved_and_ten_times_over() {
    for mode in [TableMode::Burst, TableMode::Global] {
        isolate(mode);
    }
}

fn isolate(mode: TableMode) {
    let now = Timestamp::from_secs(1_795_210_800);
    let table = |name: &str, units| TableConfig::new(SHOP, name, units, units).partitions(4).nodes(NODES);
    let builder = NODES.iter().fold(Capacity::builder(), |builder, node| builder.node(*node, 2400));
    let capacity = builder
        .table(table("victim", 400).mode(mode))
        .table(table("attacker", 400).mode(mode).ceilings(Ceilings { read: 3000, write: 1000 }))
        .build_at(now)
        .unwrap();
    let victims = keys_of(&capacity, "victim");
    let tickets = zipf_tickets();
    let (mut dice, mut attacked, mut splits, mut moves, mut own_moves) = (SplitMix64::new(3), 0_u64, 0, 0, 0);
    let (mut victim_asked, mut victim_moving) = (0_u64, 0_u64);
    // Steps of a millisecond: each partition of the victim has 0.1 unit for reads and for writes.
    for millis in 0..SECONDS * 1000 {
        let at = now.saturating_add(Duration::from_millis(millis));
        for _ in 0..8 {
            let rank = tickets[dice.below(tickets.len() as u64) as usize];
            let key = format!("hot-{rank}");
            let access = if dice.below(2) == 0 {
                Access::write("attacker", key.as_bytes(), 1)
            } else {
                let strong = AccessKind::Read { consistency: ReadConsistency::Strong };
                Access::new("attacker", key.as_bytes(), strong, 1)
            };
            attacked += u64::from(matches!(capacity.admit(SHOP, &access, at).unwrap(), Admission::Admit(_)));
        }
        if millis % 10 == 0 {
            let strong = AccessKind::Read { consistency: ReadConsistency::Strong };
            for key in &victims {
                for access in [Access::write("victim", key, 1), Access::new("victim", key, strong, 1)] {
                    victim_asked += 1;
                    if let Admission::Throttle(throttled) = capacity.admit(SHOP, &access, at).unwrap() {
                        assert_eq!(throttled.bound, Bound::Move, "{throttled:?}");
                        victim_moving += 1;
                    }
                }
            }
        }
        if millis % 100 == 50 {
            let ids: Vec<_> = capacity.partitions(SHOP, "attacker", at).unwrap().collect();
            let one = &ids[dice.below(ids.len() as u64) as usize];
            let (first, last) = one.range.words();
            let middle = Position::from_hash(first + (last - first) / 2 + 1);
            let shares = SplitShares { read: Share::from_parts(1, dice.below(9)), write: Share::HALF };
            splits += u64::from(capacity.split(SHOP, "attacker", one.id, middle, shares, at).is_ok());
            let ids: Vec<_> = capacity.partitions(SHOP, "attacker", at).unwrap().map(|one| one.id).collect();
            let id = ids[dice.below(ids.len() as u64) as usize];
            let to = NODES[dice.below(4) as usize];
            moves += u64::from(capacity.place(SHOP, "attacker", id.0, to, at).is_ok());
            let rate = Units::whole(dice.below(300));
            let _ = capacity.allocate(SHOP, "attacker", id, AccessOperation::Write, rate, at);
        }
        if millis % 2000 == 1000 {
            let ids: Vec<_> = capacity.partitions(SHOP, "victim", at).unwrap().map(|one| one.id).collect();
            let id = ids[dice.below(4) as usize];
            capacity.gate(SHOP, "victim", id, at.saturating_add(Duration::from_millis(2))).unwrap();
            let to = NODES.iter().cycle().skip(dice.below(4) as usize).take(4);
            let mut to = to.filter(|node| capacity.place(SHOP, "victim", id.0, node, at).is_ok());
            own_moves += u64::from(to.next().is_some());
        }
    }
    assert!(splits >= 200 && moves >= 200 && own_moves == 20, "{splits} {moves} {own_moves}");
    assert!(attacked > 400 * SECONDS, "the attacker uses what it can: {attacked}");
    assert!(victim_moving * 1000 <= victim_asked, "{victim_moving} of {victim_asked}");
}
