//! All or none: in sequence, byte for byte; under threads, no later decision differs.

use proptest::prelude::*;

use super::*;

const NAMES: [&str; 5] = ["bucket", "rolling", "approximate", "fixed", "concurrency"];

fn attributes_of(subset: u32) -> Vec<(&'static str, &'static str)> {
    NAMES
        .iter()
        .enumerate()
        .filter(|(index, _)| subset & 1 << index != 0)
        .map(|(_, name)| (*name, "x"))
        .collect()
}

#[test]
fn every_subset_of_refusing_limits_leaves_the_table_byte_for_byte_as_it_was() {
    for subset in 1..1_u32 << NAMES.len() {
        let gate = gate(one_of_each(3));
        // Use up exactly the limits of the subset, and hold the permits.
        let refusing = attributes_of(subset);
        let mut held = Vec::new();
        for name in refusing.chunks(1) {
            for _ in 0..3 {
                held.push(gate.check(name, Cost::ONE, NOW));
            }
        }
        let all = attributes_of(u32::MAX);
        let before = gate.table().fingerprint();
        let rings = gate.table().stats(NOW).ring_bytes;
        for _ in 0..3 {
            let refusal =
                gate.check(all.as_slice(), Cost::ONE, NOW).into_result().expect_err("some limit is used up");
            let mut violated: Vec<_> = refusal.violated.iter().map(|one| one.name.to_string()).collect();
            let mut expected: Vec<_> =
                attributes_of(subset).iter().map(|(name, _)| (*name).to_owned()).collect();
            violated.sort();
            expected.sort();
            assert_eq!(violated, expected, "subset {subset:#b}");
        }
        assert_eq!(gate.table().fingerprint(), before, "subset {subset:#b} wrote to the table");
        assert_eq!(gate.table().stats(NOW).ring_bytes, rings);
        // And the others still have all of theirs.
        for (name, value) in attributes_of(!subset & 0b11111) {
            assert_eq!(
                gate.peek(&[(name, value)], Cost::ONE, NOW).limits[0].remaining,
                3,
                "subset {subset:#b}"
            );
        }
    }
}

#[test]
fn a_refusal_that_is_looked_for_is_that_of_a_check_and_charges_nothing() {
    for subset in 0..1_u32 << NAMES.len() {
        let gate = gate(one_of_each(3));
        let mut held = Vec::new();
        for name in attributes_of(subset).chunks(1) {
            held.extend((0..3).map(|_| gate.check(name, Cost::ONE, NOW)));
        }
        let before = gate.table().fingerprint();
        for asked in [attributes_of(u32::MAX), attributes_of(1), attributes_of(!subset)] {
            let found = gate.find_refusal(asked.as_slice(), Cost::ONE, NOW);
            assert_eq!(gate.table().fingerprint(), before, "subset {subset:#b}");
            let found = found.map(|unread| unread.read());
            assert_eq!(found, gate.check(asked.as_slice(), Cost::ONE, NOW).into_result().err());
            if found.is_none() {
                // It was charged by the check.
                break;
            }
        }
    }
}

#[test]
fn taking_an_admitted_request_back_restores_every_kind_of_state() {
    for limit in one_of_each(3) {
        let name = limit.name.clone();
        let gate = gate([limit]);
        let attributes = [(name.as_str(), "x")];
        let untouched = gate.table().fingerprint();
        let Decision::Admit(permit) = gate.check(&attributes, Cost::ONE, NOW) else { panic!("{name}") };
        gate.take_back(permit, NOW);
        if name != "rolling" && name != "concurrency" {
            assert_eq!(gate.table().fingerprint(), untouched, "{name}");
        }
        let first = gate.check(&attributes, Cost::ONE, NOW);
        let used = gate.table().fingerprint();
        let Decision::Admit(permit) = gate.check(&attributes, Cost::ONE, NOW) else { panic!("{name}") };
        gate.take_back(permit, NOW);
        assert_eq!(gate.table().fingerprint(), used, "{name}");
        assert_eq!(gate.peek(&attributes, Cost::ONE, NOW).limits[0].remaining, 2, "{name}");
        drop(first);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Refused requests between others change no answer of the others.
    #[test]
    fn no_later_decision_differs_for_requests_that_were_refused(
        steps in proptest::collection::vec((0_u32..32, 1_u64..4, 0_u64..20_000), 1..120),
    ) {
        let with = gate(one_of_each(6));
        let mut admitted = Vec::new();
        let mut held = Vec::new();
        let mut now = NOW;
        for (subset, units, millis) in &steps {
            now = now.saturating_add(Duration::from_millis(*millis));
            let attributes = attributes_of(*subset);
            let decision = with.check(attributes.as_slice(), cost(*units), now);
            if decision.is_admit() {
                admitted.push((*subset, *units, now));
            }
            held.extend(match decision {
                Decision::Admit(permit) => Some(permit),
                Decision::Refuse(_) => None,
            });
        }
        // The same list without those that were refused: all are admitted, and what is left is the
        // same.
        let without = gate(one_of_each(6));
        let mut also_held = Vec::new();
        for (subset, units, at) in admitted {
            let attributes = attributes_of(subset);
            let Decision::Admit(permit) = without.check(attributes.as_slice(), cost(units), at) else {
                panic!("admitted only because of a refused request");
            };
            also_held.push(permit);
        }
        let all = attributes_of(u32::MAX);
        for millis in [0, 1, 500, 30_000, 59_999, 60_000, 120_000] {
            let later = now.saturating_add(Duration::from_millis(millis));
            let (one, other) = (with.peek(all.as_slice(), Cost::ONE, later), without.peek(all.as_slice(), Cost::ONE, later));
            prop_assert_eq!(one.limits, other.limits);
            prop_assert_eq!(one.refusal, other.refusal);
        }
    }
}

/// Four threads send requests over every subset of the limits, at one instant. Afterwards each
/// limit holds exactly what was admitted: nothing of the refused ones is left, and nothing of the
/// admitted ones is lost.
#[test]
#[expect(clippy::disallowed_methods, reason = "threads are what is tested")]
fn under_threads_each_limit_holds_exactly_what_was_admitted() {
    for round in 0..20_u64 {
        let gate = Arc::new(gate(one_of_each(500)));
        let threads: Vec<_> = (0..4_u64)
            .map(|thread| {
                let gate = Arc::clone(&gate);
                std::thread::spawn(move || {
                    let mut counts = [0_u64; 5];
                    let mut random = (round << 8 | thread) + 0x9E37_79B9;
                    let mut held = Vec::new();
                    for _ in 0..2000 {
                        random ^= random << 13;
                        random ^= random >> 7;
                        random ^= random << 17;
                        let subset = (random % 31 + 1) as u32;
                        let attributes = attributes_of(subset);
                        if let Decision::Admit(permit) = gate.check(attributes.as_slice(), Cost::ONE, NOW) {
                            held.push(permit);
                            for (index, count) in counts.iter_mut().enumerate() {
                                *count += u64::from(subset & 1 << index != 0);
                            }
                        }
                    }
                    (counts, held)
                })
            })
            .collect();
        let finished: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        for (index, name) in NAMES.iter().enumerate() {
            let admitted: u64 = finished.iter().map(|(counts, _)| counts[index]).sum();
            let left = gate.peek(&[(*name, "x")], Cost::ONE, NOW).limits[0].remaining;
            assert_eq!(admitted + left, 500, "{name} in round {round}");
        }
    }
}
