//! Other numbers for some keys, set while running.

use core::time::Duration;

use tidegate_core::algorithm::Bucket;
use tidegate_core::{Algorithm, Limit, Rate, Timestamp, error_chain};
use tidegate_engine::{
    AdminError, Engine, NamespaceConfig, OverrideState, RUNTIME_OVERRIDES_MAX, RuntimeOverride, TickAction,
};
use tidegate_store::NoteChange;

use crate::reload::{MINUTE, admit, engine, left, limit, namespace};
use crate::world::{NOW, bucket, config};

fn when(value: &str) -> Vec<(String, String)> {
    vec![("user".to_owned(), value.to_owned())]
}

fn raised(limit: &str, units: u64) -> RuntimeOverride {
    RuntimeOverride::new("api", limit, when("ada"), bucket(units, MINUTE), NOW)
}

fn states(engine: &Engine, now: Timestamp) -> Vec<(String, OverrideState)> {
    engine.overrides(now).map(|(one, state)| (one.limit.clone(), state)).collect()
}

fn note(change: &NoteChange) -> tidegate_store::Note {
    match change {
        NoteChange::Put(note) => note.clone(),
        NoteChange::Create(_) | NoteChange::Remove { .. } => panic!("{change:?}"),
    }
}

#[test]
fn a_raised_key_admits_the_difference_at_once_and_a_removed_override_refuses_at_once() {
    let first = engine([limit("a", bucket(10, MINUTE))]);
    drop(admit(&first, 10, NOW));
    let (second, _) = first.with_override(raised("a", 25), NOW).unwrap();
    assert_eq!((left(&first, NOW), left(&second, NOW)), (vec![0], vec![15]));
    drop(admit(&second, 2, NOW));
    let (replaced, _) = second.with_override(raised("a", 15), NOW).unwrap();
    assert_eq!((left(&replaced, NOW), replaced.overrides(NOW).count()), (vec![3], 1));
    let (third, removal) = replaced.without_override("api", "a", &when("ada")).unwrap();
    assert!(matches!(removal, NoteChange::Remove { .. }));
    assert_eq!((left(&third, NOW), third.overrides(NOW).count()), (vec![0], 0));
    assert!(admit(&third, 1, NOW).is_none());
}

#[test]
fn it_ends_at_its_instant_and_the_tick_says_that_it_has() {
    let end = NOW.saturating_add(Duration::from_millis(700));
    let mut one = raised("a", 25);
    one.until = Some(end);
    let (engine, _) = engine([limit("a", bucket(10, MINUTE))]).with_override(one, NOW).unwrap();
    let tick = engine.tick(NOW);
    assert_eq!((tick.next, tick.actions.is_empty()), (end, true));
    let almost = end.saturating_sub(Duration::from_nanos(1));
    assert_eq!((left(&engine, almost), left(&engine, end)), (vec![25], vec![10]));
    assert_eq!(states(&engine, almost), [("a".to_owned(), OverrideState::Active)]);
    assert_eq!(states(&engine, end), [("a".to_owned(), OverrideState::Expired)]);
    assert!(engine.tick(almost).actions.is_empty());
    assert_eq!(engine.tick(end).actions[..], [TickAction::RebuildOverrides]);
    let (swept, expired) = engine.without_expired(end).unwrap();
    assert_eq!((expired.len(), swept.overrides(end).count()), (1, 0));
    assert!(swept.tick(end).actions.is_empty());
    assert_eq!(left(&swept, end), [10]);
}

#[test]
fn it_is_dormant_while_its_limit_is_gone_and_follows_it_when_it_is_renamed() {
    let start = || limit("a", bucket(10, MINUTE));
    let (first, _) = engine([start()]).with_override(raised("a", 25), NOW).unwrap();
    let (gone, _) = first.reconfigured(namespace([])).unwrap();
    let dormant = OverrideState::Dormant("there is no limit \"a\" now".into());
    assert_eq!(states(&gone, NOW), [("a".to_owned(), dormant)]);
    let rolling =
        tidegate_core::Algorithm::Rolling(tidegate_core::algorithm::Rolling::new(10, MINUTE).unwrap());
    let (other, _) = gone.reconfigured(namespace([limit("a", rolling)])).unwrap();
    assert_eq!(left(&other, NOW), [10]);
    let why = "limit \"a\": numbers for rate of a limit that uses rolling; use rolling";
    assert_eq!(states(&other, NOW), [("a".to_owned(), OverrideState::Dormant(why.into()))]);
    let (back, _) = other.reconfigured(namespace([start()])).unwrap();
    assert_eq!((left(&back, NOW), states(&back, NOW)[0].1.clone()), (vec![25], OverrideState::Active));
    let (renamed, report) = back.reconfigured(namespace([limit("b", bucket(10, MINUTE)).was("a")])).unwrap();
    assert_eq!(left(&renamed, NOW), [25]);
    assert_eq!(states(&renamed, NOW), [("b".to_owned(), OverrideState::Active)]);
    let puts = report.notes.iter().filter_map(|change| match change {
        NoteChange::Put(note) => RuntimeOverride::from_note(note).ok(),
        NoteChange::Create(_) | NoteChange::Remove { .. } => None,
    });
    assert_eq!(puts.map(|one| one.limit).collect::<Vec<_>>(), ["b"]);
    assert!(renamed.without_override("api", "b", &when("ada")).is_ok());
}

#[test]
fn only_the_namespace_it_is_for_is_made_anew() {
    let space = |name: &str| NamespaceConfig::new(name, [limit("a", bucket(10, MINUTE))]);
    let first = Engine::builder(config()).namespaces([space("api"), space("web")]).build().unwrap();
    let (second, _) = first.with_override(raised("a", 25), NOW).unwrap();
    assert_eq!(left(&second, NOW), [25]);
    let web = |engine: &Engine| -> *const Limit { engine.limits("web").unwrap().next().unwrap() };
    assert_eq!(web(&first), web(&second));
}

#[test]
fn it_is_read_back_from_its_note_and_applies_after_a_restart() {
    let mut one = raised("a", 25);
    one.until = Some(NOW.saturating_add(MINUTE));
    one.reason = "a big customer".into();
    one.by = "ops".into();
    let (first, change) = engine([limit("a", bucket(10, MINUTE))]).with_override(one, NOW).unwrap();
    let note = note(&change);
    assert_eq!(note.until, NOW.saturating_add(MINUTE));
    let read = RuntimeOverride::from_note(&note).unwrap();
    assert_eq!(&read, first.overrides(NOW).next().unwrap().0);
    let restarted = Engine::builder(config())
        .namespaces(namespace([limit("a", bucket(10, MINUTE))]))
        .overrides([read])
        .build()
        .unwrap();
    assert_eq!(left(&restarted, NOW), [25]);
    let (_, removal) = restarted.without_override("api", "a", &when("ada")).unwrap();
    assert!(matches!(removal, NoteChange::Remove { name, .. } if name == note.name), "the same note");
}

/// 1000/s over `10/s, burst 20` kept 20 in versions before; today it is as long: 2 s.
#[test]
fn an_override_that_kept_the_burst_of_its_limit_follows_the_rate() {
    let bucket = |per_second: u64, burst: u64| {
        Algorithm::Bucket(Bucket::new(Rate::per_second(per_second).unwrap(), burst).unwrap())
    };
    let when = || when("ada");
    let mut one = RuntimeOverride::new("api", "a", when(), bucket(1000, 20), NOW);
    one.burst_follows_rate = false;
    // A note of a version before says nothing of it.
    let read = RuntimeOverride::from_note(&one.to_note().unwrap()).unwrap();
    assert_eq!(read, one);
    let mut own_burst = limit("a", bucket(10, 20));
    assert_eq!(one.following_the_rate(&own_burst).unwrap().algorithm, bucket(1000, 2000));
    let slower = RuntimeOverride { algorithm: bucket(1, 20), ..one.clone() };
    assert_eq!(slower.following_the_rate(&own_burst).unwrap().algorithm, bucket(1, 2));
    // It had a burst of its own, or the rate of its limit; or it was set today.
    for algorithm in [bucket(1000, 21), bucket(10, 20)] {
        let other = RuntimeOverride { algorithm, ..one.clone() };
        assert_eq!(other.following_the_rate(&own_burst), None);
    }
    let today = RuntimeOverride { burst_follows_rate: true, ..one.clone() };
    assert_eq!(today.following_the_rate(&own_burst), None);
    assert_eq!(RuntimeOverride::from_note(&today.to_note().unwrap()).unwrap(), today);
    own_burst.has_default_burst = true;
    assert_eq!(one.following_the_rate(&own_burst), None, "the units of the new rate");
}

#[test]
fn what_cannot_be_set_is_an_error_and_changes_nothing() {
    let first = engine([limit("a", bucket(10, MINUTE))]);
    let error = |one: RuntimeOverride| error_chain(&first.with_override(one, NOW).unwrap_err());
    assert_eq!(
        error(raised("b", 1)),
        "limit \"b\" of namespace \"api\" does not exist or does not apply to these attributes"
    );
    assert!(
        error(RuntimeOverride { namespace: "web".into(), ..raised("a", 1) }).contains("namespace \"web\"")
    );
    let foreign = vec![("app".to_owned(), "x".to_owned())];
    assert!(error(RuntimeOverride { when: foreign, ..raised("a", 1) }).contains("\"app\" is not one"));
    let past = RuntimeOverride { until: Some(NOW), ..raised("a", 1) };
    assert!(error(past).ends_with("has passed; use a later one, or leave it out"));
    let long = RuntimeOverride { reason: "x".repeat(1025), ..raised("a", 1) };
    assert_eq!(error(long), "override of limit \"a\": `reason` has 1025 bytes; use at most 1024");
    let unknown = first.without_override("api", "a", &when("ada")).unwrap_err();
    assert!(matches!(unknown, AdminError::UnknownOverride { .. }), "{unknown}");
}

#[test]
fn one_too_many_is_an_error_and_changing_one_is_not() {
    let many = (0..RUNTIME_OVERRIDES_MAX)
        .map(|number| RuntimeOverride { when: when(&number.to_string()), ..raised("a", 20) });
    let full = Engine::builder(config())
        .namespaces(namespace([limit("a", bucket(10, MINUTE))]))
        .overrides(many)
        .build()
        .unwrap();
    let one = raised("a", 25);
    assert!(matches!(full.with_override(one.clone(), NOW), Err(AdminError::TooManyOverrides)));
    let known = RuntimeOverride { when: when("77"), ..one.clone() };
    let (changed, _) = full.with_override(known, NOW).unwrap();
    assert_eq!(changed.overrides(NOW).count(), RUNTIME_OVERRIDES_MAX);
    let (less, _) = changed.without_override("api", "a", &when("78")).unwrap();
    assert!(less.with_override(one, NOW).is_ok());
}

#[test]
fn changes_of_an_override_beyond_all_spec_numbers_leave_reloads_and_usage_as_they_are() {
    let mut engine = engine([limit("a", bucket(1000, MINUTE))]);
    drop(admit(&engine, 10, NOW));
    // One override takes 65 536 numbers until ticks reclaim them; without ticks the next change
    // says so.
    let mut refused = 0;
    for change in 0..200_000_u64 {
        let one = raised("a", 1000 + change);
        match engine.with_override(one, NOW) {
            Ok((next, _)) => engine = next,
            Err(error) => {
                assert!(error_chain(&error).contains("retry in a few seconds"), "{error:?}");
                refused += 1;
                while engine.tick(NOW).next < NOW.saturating_add(Duration::from_millis(500)) {}
            }
        }
    }
    assert!((1..=3).contains(&refused), "{refused}");
    let limit = tidegate_core::Limit::new("a", bucket(777, MINUTE)).key(["user"]);
    let (engine, _) = engine.reconfigured(namespace([limit])).unwrap();
    let (engine, _) = engine.without_override("api", "a", &when("ada")).unwrap();
    assert_eq!(left(&engine, NOW), vec![767]);
}

#[test]
fn a_namespace_leaves_the_others_their_share_of_overrides() {
    let two = ["api", "batch"].map(|name| NamespaceConfig::new(name, [limit("a", bucket(10, MINUTE))]));
    let of = |namespace: &str, number: usize| {
        let when = when(&number.to_string());
        RuntimeOverride::new(namespace, "a", when, bucket(20, MINUTE), NOW)
    };
    // A quarter is the share of each.
    let most = RUNTIME_OVERRIDES_MAX / 4 * 3;
    let hostile = |count: usize| (0..count).map(|number| of("api", number));
    let build = |overrides: Vec<RuntimeOverride>| {
        Engine::builder(config()).namespaces(two.clone()).overrides(overrides).build().unwrap()
    };
    let almost = build(hostile(most - 1).collect());
    almost.with_override(of("api", most), NOW).expect("what is nobody's share goes to the first");
    let engine = build(hostile(most).collect());
    let error = engine.with_override(of("api", most), NOW).unwrap_err();
    assert_eq!(
        error.to_string(),
        "namespace \"api\" has used its share of the 10000 run-time overrides; remove one of its own"
    );
    engine.with_override(of("api", 7), NOW).expect("an override that is set can be changed");
    let both = hostile(most).chain((0..RUNTIME_OVERRIDES_MAX - most - 1).map(|number| of("batch", number)));
    build(both.collect()).with_override(of("batch", most), NOW).expect("the share of the other is whole");
}
