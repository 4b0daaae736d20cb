use proptest::prelude::*;

use super::*;
use crate::algorithm::{Calendar, CivilUnit};
use crate::limit::Missing;
use crate::refusal::Refusal;
use crate::refusal_view::RefusalView;

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
        assert_views_agree(&unread, &expected);
    }
}

/// Holds the view of a refusal that nobody has read against the view of the whole one.
fn assert_views_agree(unread: &UnreadRefusal<'_>, read: &Refusal) {
    let fields = |view: &RefusalView<'_>| {
        let scope: Vec<_> = view.scope.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let last = scope.len().checked_sub(1).and_then(|last| view.scope.value_at(last));
        assert_eq!(last.map(str::len), view.scope.iter().last().map(|(_, value)| value.len()));
        let units = (view.limit, view.remaining);
        let texts = (view.namespace, view.name, view.detail.as_deref(), view.civil_zone);
        let retry = (view.retry, view.retry_hint, view.wait(NOW));
        format!(
            "{texts:?} {:?} {:?} {retry:?} {units:?} {scope:?} {:?}",
            view.reason, view.plane, view.details
        )
    };
    assert_eq!(fields(&unread.view()), fields(&read.view()));
}

#[test]
fn a_refusal_outlives_the_list_of_attributes_in_any_form_and_names_its_counter() {
    let long = "a value that is longer than any that is kept in place";
    for keys in [&["user"][..], &["user", "route"], &["user", "missing", "route", "plan"], &[]] {
        let mut limit = Limit::new("limit", bucket(1, Duration::from_mins(1))).key(keys.iter().copied());
        limit.missing = Missing::Group;
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
            if let Decision::Refuse(unread) = &decision {
                assert_views_agree(unread, &unread.read());
            }
            let refusal = decision.into_result().unwrap_err();
            let scope: Vec<_> = refusal.scope.iter().map(|(name, value)| (&**name, &**value)).collect();
            let value_of = |key: &&str| values.iter().find(|(name, _)| name == key).copied();
            assert_eq!(scope, keys.iter().filter_map(value_of).collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_view_names_networks_zones_and_missing_attributes_as_the_whole_refusal_does() {
    let day = Calendar::new(1, CivilUnit::Day, "Europe/Berlin").unwrap();
    let mut required = per_second("required", 1).key(["account"]);
    required.missing = Missing::Refuse;
    let address = ("ip", "2001:db8:1:2:3::4");
    for (limit, attributes, cost) in [
        (per_second("per-address", 1).key(["ip"]), &[address][..], 1),
        (Limit::new("daily", Algorithm::Calendar(day)).key(["account"]), &[("account", "a")], 1),
        (required, &[address], 1),
        (per_second("small", 1).key(Vec::<&str>::new()), &[], 9),
    ] {
        let gate = gate([limit]);
        drop(gate.check(attributes, Cost::ONE, NOW));
        let Decision::Refuse(unread) = gate.check(attributes, self::cost(cost), NOW) else {
            panic!("used up")
        };
        assert_views_agree(&unread, &unread.read());
        if attributes == [address] && unread.reason() == Reason::RateExceeded {
            assert_eq!(unread.view().scope.value_at(0), Some("2001:db8:1:2::/64"));
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
                    let one = alone.check(&attributes, cost(units), now);
                    if let Decision::Refuse(unread) = &one {
                        assert_views_agree(unread, &unread.read());
                    }
                    let one = one.into_result();
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
