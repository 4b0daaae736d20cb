//! The short ways to a decision, for limits that apply to every request and attributes that are a
//! slice of pairs: they answer, charge and block as the way for all others does.

use proptest::prelude::*;

use super::*;
use crate::attributes::PairAttributes;
use crate::limit::{Missing, Mode, OnExceed};

const NAMES: [&str; 4] = ["user", "app", "session", "plan"];

fn algorithm() -> impl Strategy<Value = Algorithm> {
    let window = prop_oneof![Just(50), Just(60_000), Just(6 * 3_600_000)].prop_map(Duration::from_millis);
    (0..6_usize, 1..8_u64, window).prop_map(|(kind, units, window)| match kind {
        0 => bucket(units, window),
        1 => {
            let Algorithm::Bucket(bucket) = bucket(units, window) else { unreachable!("made so") };
            Algorithm::Bucket(bucket.with_debt(units).unwrap())
        }
        2 => Algorithm::Fixed(Fixed::new(units, window, WindowStart::Epoch).unwrap()),
        3 => Algorithm::SlidingCounter(SlidingCounter::new(units, window).unwrap()),
        4 => Algorithm::Rolling(Rolling::new(units, window).unwrap()),
        _ => Algorithm::Concurrency(Concurrency::new(units, window).unwrap()),
    })
}

fn limits() -> impl Strategy<Value = Vec<Limit>> {
    let limit = (algorithm(), 0..20_u8, 0..20_u8, 0..20_u8);
    prop::collection::vec(limit, 1..=NAMES.len()).prop_map(|limits| {
        let limits = limits.into_iter().zip(NAMES).map(|((algorithm, mode, block, parts), name)| {
            let key = if parts == 0 { vec![name, "route"] } else { vec![name] };
            let mut limit = Limit::new(name, algorithm).key(key);
            limit.missing = if parts == 1 { Missing::Refuse } else { Missing::Skip };
            limit.mode = if mode == 0 { Mode::Shadow } else { Mode::Enforce };
            if block == 0 {
                limit.on_exceed = OnExceed::Block(Duration::from_mins(1));
            }
            limit
        });
        limits.collect()
    })
}

#[derive(Clone, Debug)]
enum Act {
    /// A check, or as many in one batch.
    Check {
        values: [u8; 4],
        given: u8,
        in_order: bool,
        units: u64,
        batch: usize,
    },
    /// The oldest permit is given back.
    Release,
    Block {
        value: u8,
    },
    Step {
        ms: i64,
    },
}

fn act() -> impl Strategy<Value = Act> {
    let check = ([0..3_u8, 0..3_u8, 0..2_u8, 0..2_u8], 0..16_u8, any::<bool>(), 1..4_u64, 1..40_usize)
        .prop_map(|(values, given, in_order, units, batch)| {
            // Most requests have all attributes, and most are alone.
            let (given, batch) = (if given < 4 { given + 11 } else { 15 }, batch.saturating_sub(30).max(1));
            Act::Check { values, given, in_order, units, batch }
        });
    prop_oneof![
        12 => check,
        2 => Just(Act::Release),
        1 => (0..3_u8).prop_map(|value| Act::Block { value }),
        4 => prop_oneof![0..20_i64, 0..90_000_i64, -90_000..0_i64, 0..10_000_000_i64].prop_map(|ms| Act::Step { ms }),
    ]
}

/// A decision as a reader sees it.
fn told(gate: &Gate, decision: &Decision<'_>) -> String {
    match decision {
        Decision::Admit(permit) => format!("{:?}", gate.statuses(permit).collect::<Vec<_>>()),
        Decision::Refuse(unread) => format!("{:?} {:?}", unread.read(), unread.retry()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn a_short_way_decides_as_the_long_way(limits in limits(), acts in prop::collection::vec(act(), 1..60)) {
        let [short, long] = [(); 2].map(|()| gate(limits.clone()));
        let (mut now, mut permits) = (NOW, Vec::new());
        for act in acts {
            match act {
                Act::Check { values, given, in_order, units, batch } => {
                    let values = values.map(|value| format!("{value}"));
                    let all = NAMES.iter().copied().zip(values).enumerate();
                    let mut pairs: Vec<(&str, String)> =
                        all.filter(|(at, _)| given >> at & 1 == 1).map(|(_, pair)| pair).collect();
                    pairs.push(("route", "r1".to_owned()));
                    if !in_order {
                        pairs.reverse();
                    }
                    let borrowed: Vec<(&str, &str)> =
                        pairs.iter().map(|(name, value)| (*name, value.as_str())).collect();
                    let (pairs, cost) = (PairAttributes::from(&pairs), cost(units));
                    prop_assert!(pairs.as_pairs().is_none(), "what is no slice of `&str` goes the long way");
                    let mut count = 0;
                    let mut compare = |at: usize, decision: Decision<'_>| {
                        let expected = long.check(pairs, cost, now);
                        assert_eq!((at, told(&short, &decision)), (count, told(&long, &expected)));
                        if let (Decision::Admit(one), Decision::Admit(other)) = (decision, expected) {
                            permits.push((one, other));
                        }
                        count += 1;
                    };
                    if batch == 1 {
                        compare(0, short.check(&borrowed[..], cost, now));
                    } else {
                        let requests = vec![(PairAttributes::new(&borrowed), cost); batch];
                        short.check_batch(&requests, now, compare);
                    }
                    prop_assert_eq!(count, batch);
                    let [one, other] = [&short, &long].map(|gate| format!("{:?}", gate.peek(pairs, cost, now)));
                    prop_assert_eq!(one, other);
                }
                Act::Release if !permits.is_empty() => {
                    let (one, other) = permits.remove(0);
                    one.take_back(&short.table, now);
                    other.take_back(&long.table, now);
                }
                Act::Release => {}
                Act::Block { value } => {
                    let (value, until) = (format!("{value}"), now.saturating_add(Duration::from_secs(1)));
                    let key = NAMES.map(|name| (name, value.as_str()));
                    let [one, other] =
                        [&short, &long].map(|gate| gate.block(&key, &limits[0].name, until, now));
                    prop_assert_eq!(format!("{one:?}"), format!("{other:?}"));
                }
                Act::Step { ms } => now = Timestamp::from_nanos(now.as_nanos().saturating_add_signed(ms * 1_000_000)),
            }
            // A word of the others is the handle of a slot, and which slot is free differs.
            if limits.iter().all(|limit| limit.algorithm.is_counter()) {
                prop_assert_eq!(short.table.fingerprint(), long.table.fingerprint());
            }
        }
    }
}
