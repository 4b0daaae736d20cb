//! A request whose counters were located before is decided as one whose attributes are read.

use super::*;
use crate::limit::{Missing, Mode, Override};

#[test]
fn located_counters_are_decided_as_the_attributes_are() {
    let seed = [1, 2, 3, 4];
    let table = || Arc::new(KeyTable::new(TableConfig { bytes: 1 << 20, ..TableConfig::seeded(seed) }));
    let mut shadow = per_second("bucket", 2);
    (shadow.name, shadow.mode) = ("shadow".to_owned(), Mode::Shadow);
    let blocks = Limit::new("blocks", bucket(9, Duration::from_secs(1))).key(["bucket"]);
    let blocks = blocks.block_on_exceed(Duration::from_millis(30));
    let limits =
        || one_of_each_in(7, Duration::from_millis(100)).into_iter().chain([shadow.clone(), blocks.clone()]);
    let of = |table| Gate::builder("api").limits(limits()).table(table).build().unwrap();
    let (tables, mut now) = ([table(), table()], NOW);
    let [by_attributes, by_counters] = tables.each_ref().map(|table| of(Arc::clone(table)));
    let mut held: [Vec<Permit>; 2] = Default::default();
    let mut admitted = 0;
    for step in 0..4000_u64 {
        now = now.saturating_add(Duration::from_millis(step * 7 % 23));
        let value = ["x", "y", "z"][(step % 3) as usize];
        // Now and then some limits do not apply.
        let names = ["bucket", "rolling", "approximate", "fixed", "concurrency"];
        let attributes: Vec<_> =
            names.iter().take(1 + (step % 5) as usize).map(|name| (*name, value)).collect();
        let cost = cost(1 + step % 3);
        let counters = by_counters.locate_counters(&attributes, now).unwrap();
        let looked = by_counters.find_counter_refusal(&counters, &attributes, cost, now);
        let expected = by_attributes.check(&attributes, cost, now);
        assert_eq!(looked.is_none(), expected.is_admit(), "{step}");
        let found = by_counters.check_counters(&counters, &attributes, cost, now);
        match (expected, found) {
            (Decision::Admit(one), Decision::Admit(other)) => {
                admitted += 1;
                held[0].push(one);
                held[1].push(other);
            }
            (Decision::Refuse(refusal), Decision::Refuse(found)) => {
                assert_eq!(found.read(), refusal.read(), "{step}");
            }
            (expected, found) => panic!("{step}: {expected:?}, but {found:?}"),
        }
        if step % 4 == 0 {
            held = Default::default();
        }
        assert_eq!(tables[0].fingerprint(), tables[1].fingerprint(), "{step}");
    }
    assert!((500..3500).contains(&admitted), "{admitted}");
}

#[test]
fn counters_are_not_located_where_attributes_are_needed_each_time() {
    let located = |limit: Limit, attributes: &[(&str, &str)]| {
        let gate = gate([limit]);
        gate.locate_counters(attributes, NOW).map(|counters| counters.keys().count())
    };
    let plain = || per_second("user", 5);
    assert_eq!(located(plain(), &[("user", "ada")]), Some(1));
    assert_eq!(located(plain().missing(Missing::Skip), &[]), Some(0));
    assert_eq!(located(plain().missing(Missing::Refuse), &[]), None, "it is refused for what it lacks");
    let mut overridden = plain();
    let when = vec![("user".to_owned(), "ada".to_owned())];
    overridden.overrides.push(Override::new(when, bucket(50, Duration::from_secs(1))));
    assert_eq!(located(overridden, &[("user", "bob")]), None, "its numbers may change");
}
