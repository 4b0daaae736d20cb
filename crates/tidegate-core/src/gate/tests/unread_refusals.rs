use proptest::prelude::*;

use super::*;

/// A gate that refuses each of these names once it is used up.
fn used_up(limits: Vec<Limit>) -> Gate {
    let gate = gate(limits);
    for name in ["bucket", "rolling", "approximate", "fixed", "concurrency"] {
        // Permits of concurrency limits stay held.
        core::mem::forget(gate.check(&[(name, "x")], Cost::ONE, NOW));
    }
    gate
}

#[test]
fn a_refusal_reads_the_same_after_its_counters_have_changed() {
    let gate = used_up(one_of_each(1));
    let all = ["bucket", "rolling", "approximate", "fixed", "concurrency"].map(|name| (name, "x"));
    for count in 1..=all.len() {
        let attributes = &all[all.len() - count..];
        let expected = gate.check(attributes, Cost::ONE, NOW).into_result().unwrap_err();
        assert_eq!(expected.violated.len(), count);
        let Decision::Refuse(unread) = gate.check(attributes, Cost::ONE, NOW) else { panic!("used up") };
        gate.reset(attributes, None, NOW);
        let again = gate.check(attributes, Cost::ONE, NOW);
        assert!(again.is_admit(), "{count} of them are reset");
        core::mem::forget(again);
        assert_eq!(unread.read(), expected);
        assert_eq!(
            (unread.name(), unread.reason(), unread.retry()),
            (expected.name(), expected.reason(), expected.retry())
        );
        assert_eq!(unread.to_string(), expected.to_string());
    }
}

#[test]
fn a_refusal_outlives_the_list_of_attributes_in_any_form_and_names_its_counter() {
    let long = "a value that is longer than any that is kept in place";
    for keys in [&["user"][..], &["user", "route"], &["user", "missing", "route", "plan"], &[]] {
        let mut limit = Limit::new("limit", bucket(1, Duration::from_mins(1))).key(keys.iter().copied());
        limit.missing = crate::limit::Missing::Group;
        let gate = gate([limit]);
        let values = [("user", long), ("route", "r1"), ("plan", "gold")];
        assert!(gate.check(&values, Cost::ONE, NOW).is_admit());
        let owned = values.map(|(name, value)| (name, value.to_owned()));
        let map = std::collections::HashMap::from(owned.clone());
        let decisions = [
            gate.check(&[values[0], values[1], values[2]], Cost::ONE, NOW),
            gate.check(&owned.clone(), Cost::ONE, NOW),
            gate.check(&map.clone(), Cost::ONE, NOW),
        ];
        for decision in decisions {
            let refusal = decision.into_result().unwrap_err();
            let scope: Vec<_> = refusal.scope.iter().map(|(name, value)| (&**name, &**value)).collect();
            let value_of = |key: &&str| values.iter().find(|(name, _)| name == key).copied();
            assert_eq!(scope, keys.iter().filter_map(value_of).collect::<Vec<_>>());
        }
    }
}

#[test]
fn the_first_of_two_pairs_with_one_name_counts_wherever_they_stand() {
    let gate = gate([per_second("a", 1), per_second("b", 1), per_second("c", 1)]);
    let lists: [&[(&str, &str)]; 5] = [
        &[("a", "1"), ("b", "2"), ("c", "3")],
        &[("a", "1"), ("b", "2"), ("b", "9"), ("c", "3")],
        &[("a", "1"), ("a", "9"), ("b", "2"), ("c", "3")],
        &[("b", "2"), ("a", "1"), ("b", "9"), ("c", "3"), ("a", "9")],
        &[("x", "9"), ("c", "3"), ("b", "2"), ("a", "1"), ("c", "9")],
    ];
    for list in lists {
        assert_eq!(gate.counter_keys(list, NOW), gate.counter_keys(lists[0], NOW), "{list:?}");
    }
    assert!(gate.check(lists[0], Cost::ONE, NOW).is_admit());
    for list in lists {
        let refusal = gate.check(list, Cost::ONE, NOW).into_result().unwrap_err();
        let violated: Vec<_> = refusal.violated.iter().map(|one| &*one.name).collect();
        assert_eq!(violated, ["a", "b", "c"], "{list:?}");
        assert_eq!(refusal.scope.as_slice(), [("a".into(), "1".into())], "{list:?}");
    }
}

proptest! {
    /// The only limit of a gate is decided in registers, several in memory.
    #[test]
    fn an_only_limit_decides_as_it_does_beside_another(
        kind in 0..5_usize,
        blocks in any::<bool>(),
        steps in prop::collection::vec((0..8_u8, 1..4_u64, 0..400_u64, 0..3_usize), 1..60),
    ) {
        let mut limit = one_of_each_in(3, Duration::from_secs(1)).swap_remove(kind);
        let name = limit.name.clone();
        if blocks && name != "concurrency" {
            limit.on_exceed = crate::limit::OnExceed::Block(Duration::from_millis(150));
        }
        let roomy = Limit::new("roomy", bucket(1_000_000, Duration::from_secs(1)));
        let (alone, beside) = (gate([limit.clone()]), gate([limit, roomy]));
        let mut now = NOW;
        let mut held = Vec::new();
        for (operation, units, wait, value) in steps {
            now = now.saturating_add(Duration::from_millis(wait));
            let attributes = [(name.as_str(), ["ada", "bob", "a longer value than others"][value])];
            match operation {
                0 => held.clear(),
                1 => {
                    if let Some((one, other)) = held.pop() {
                        alone.take_back(one, now);
                        beside.take_back(other, now);
                    }
                }
                _ => {
                    let one = alone.check(&attributes, cost(units), now).into_result();
                    let other = beside.check(&attributes, cost(units), now).into_result();
                    match (one, other) {
                        (Ok(one), Ok(other)) => {
                            prop_assert_eq!(alone.statuses(&one).next(), beside.statuses(&other).next());
                            held.push((one, other));
                        }
                        (one, other) => prop_assert_eq!(one.err(), other.err()),
                    }
                }
            }
        }
    }
}
