//! The memory store at its bounds.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::algorithm::{Concurrency, Rolling, Verdict};
use tidegate_core::{Algorithm, Cost, Rate, Timestamp, WhenFull};

use crate::{Batch, HolderId, Key, Kind, MemoryConfig, MemoryStore, Operation, RequestId, StoreError};

const START: Timestamp = Timestamp::from_secs(1_800_000_000);
const MINUTE: Duration = Duration::from_mins(1);

struct World {
    now: Arc<AtomicU64>,
    store: MemoryStore,
    ids: u128,
}

impl World {
    fn new(change: impl FnOnce(&mut MemoryConfig)) -> Self {
        let mut config = MemoryConfig { bytes: MemoryConfig::BYTES_MIN, ..MemoryConfig::new([1, 2, 3, 4]) };
        change(&mut config);
        let now = Arc::new(AtomicU64::new(START.as_nanos()));
        let clock = Arc::clone(&now);
        // One thread.
        let store = MemoryStore::new(config, move || Timestamp::from_nanos(clock.load(Ordering::Relaxed)));
        Self { now, store, ids: 0 }
    }

    fn at(&self, now: Timestamp) {
        self.now.store(now.as_nanos(), Ordering::Relaxed);
    }

    fn run(&mut self, operation: Operation) -> Result<crate::Outcome, StoreError> {
        self.ids += 1;
        Ok(self.store.run_now(&Batch::all_or_nothing(RequestId(self.ids), [operation]))?.outcomes[0])
    }

    fn check(&mut self, name: u64) -> Result<crate::Outcome, StoreError> {
        self.run(on(name, &bucket(), Kind::Check { cost: Cost::ONE }))
    }

    /// Charges new keys until there is no room; how many there were.
    fn fill(&mut self) -> (u64, StoreError) {
        for name in 0.. {
            if let Err(full) = self.check(name) {
                return (name, full);
            }
        }
        unreachable!("keys are not bounded")
    }
}

/// Ten units in a minute: one unit drains in six seconds.
fn bucket() -> Algorithm {
    Algorithm::bucket(Rate::per_minute(10).unwrap()).unwrap()
}

fn on(name: u64, algorithm: &Algorithm, kind: Kind) -> Operation {
    Operation::new(Key::new("api", b"limit", &name.to_be_bytes()).unwrap(), algorithm.clone(), kind)
}

#[test]
fn a_full_store_says_when_the_first_counter_drains_and_then_takes_a_new_one() {
    let mut world = World::new(|_| {});
    let (keys, full) = world.fill();
    assert!(keys > 300, "{keys} keys in 256 KiB");
    let drains = START.saturating_add(Duration::from_secs(6));
    assert!(matches!(full, StoreError::Full { until } if until == drains), "{full}");
    assert!(full.is_transient() && !full.is_outcome_unknown());
    let stats = world.store.stats();
    assert_eq!((stats.keys as u64, stats.full), (keys, 1));
    assert!(stats.bytes_used <= MemoryConfig::BYTES_MIN, "{stats:?}");

    // Known keys go on counting.
    assert_eq!(world.check(0).unwrap().remaining, 8);
    world.at(Timestamp::from_nanos(drains.as_nanos() - 1));
    assert!(world.check(keys).is_err());
    world.at(drains);
    assert_eq!(world.check(keys).unwrap().remaining, 9);
    // The one that was charged twice has not drained, and was not the one to go.
    assert_eq!(world.check(0).unwrap().remaining, 8);
    assert!(world.store.stats().bytes_used <= MemoryConfig::BYTES_MIN);
}

#[test]
fn a_counter_that_was_given_back_makes_room_as_soon_as_it_has_drained() {
    let mut world = World::new(|_| {});
    let all = |name| on(name, &bucket(), Kind::Check { cost: Cost::new(10).unwrap() });
    let mut keys = 0;
    while world.run(all(keys)).is_ok() {
        keys += 1;
    }
    world.run(on(3, &bucket(), Kind::Refund { cost: Cost::new(9).unwrap() })).unwrap();
    let drains = START.saturating_add(Duration::from_secs(6));
    let full = world.check(keys).unwrap_err();
    assert!(matches!(full, StoreError::Full { until } if until == drains), "{full}");
    world.at(drains);
    assert!(world.check(keys).is_ok());
}

#[test]
fn a_batch_makes_no_room_by_forgetting_its_own_counters() {
    let mut world = World::new(|_| {});
    let (keys, _) = world.fill();
    for name in 1..keys {
        world.check(name).unwrap();
    }
    world.at(START.saturating_add(Duration::from_secs(6)));
    let check = |name| on(name, &bucket(), Kind::Check { cost: Cost::ONE });
    let batch = Batch::all_or_nothing(RequestId(u128::MAX), [check(0), check(keys)]);
    assert!(matches!(world.store.run_now(&batch), Err(StoreError::Full { .. })));
    assert_eq!(world.store.stats().keys as u64, keys);
    assert!(world.check(keys).is_ok(), "by itself the new key takes the place of the drained one");
}

#[test]
fn a_flood_of_new_keys_neither_costs_memory_nor_frees_who_is_refused() {
    let mut world = World::new(|_| {});
    for _ in 0..10 {
        assert_eq!(world.check(u64::MAX).unwrap().verdict, Verdict::Admit);
    }
    let (mut taken, mut refused) = (0, 0);
    for flood in 0..50_000_u64 {
        // A millisecond each, over almost a minute.
        world.at(START.saturating_add(Duration::from_millis(flood / 10)));
        match world.check(flood) {
            Ok(outcome) => taken += u64::from(outcome.verdict == Verdict::Admit),
            Err(StoreError::Full { .. }) => refused += 1,
            Err(other) => panic!("{other}"),
        }
        assert!(world.store.stats().bytes_used <= MemoryConfig::BYTES_MIN);
    }
    assert!(taken > 0 && refused > 0, "{taken} {refused}");
    assert_ne!(world.check(u64::MAX).unwrap().verdict, Verdict::Admit, "the flood has freed a refused key");
}

#[test]
fn a_full_store_that_admits_says_that_it_does_not_count() {
    let mut world = World::new(|config| config.when_full = WhenFull::Admit);
    let mut keys = 0;
    while world.check(keys).unwrap().counted {
        keys += 1;
    }
    let uncounted = world.check(keys).unwrap();
    assert_eq!((uncounted.verdict, uncounted.counted, uncounted.used), (Verdict::Admit, false, 0));
    assert_eq!(world.check(0).unwrap().used, 2, "known keys go on counting");
    // In one batch with a known key, that one is counted.
    world.ids += 1;
    let check = |name| on(name, &bucket(), Kind::Check { cost: Cost::ONE });
    let batch = Batch::all_or_nothing(RequestId(world.ids), [check(0), check(keys)]);
    let answer = world.store.run_now(&batch).unwrap();
    let seen: Vec<_> = answer.outcomes.iter().map(|outcome| (outcome.counted, outcome.used)).collect();
    assert_eq!(seen, [(true, 3), (false, 0)]);
    assert_eq!(world.store.run_now(&batch).unwrap(), answer, "sent again");
    assert!(world.store.stats().bytes_used <= MemoryConfig::BYTES_MIN);
    assert!(world.store.stats().full >= 3);
}

#[test]
fn a_refusal_needs_no_room() {
    let mut world = World::new(|_| {});
    let (keys, _) = world.fill();
    let huge = on(keys, &bucket(), Kind::Check { cost: Cost::new(11).unwrap() });
    assert_eq!(world.run(huge).unwrap().verdict, Verdict::Never { largest: 10 });
    for kind in [
        Kind::Peek { cost: Cost::ONE },
        Kind::Refund { cost: Cost::ONE },
        Kind::Reset,
        Kind::Undo { batch: RequestId(1) },
        Kind::Block { until: START },
    ] {
        let answered = world.run(on(keys, &bucket(), kind));
        let lifts = matches!(kind, Kind::Block { .. });
        assert!(answered.is_ok() || lifts, "{kind:?}: {answered:?}");
    }
}

#[test]
fn instants_and_permits_count_against_the_bytes() {
    let rolling = Algorithm::Rolling(Rolling::new(1 << 20, MINUTE).unwrap());
    let mut world = World::new(|_| {});
    let mut charged = 0_u64;
    let full = loop {
        world.at(START.saturating_add(Duration::from_nanos(charged)));
        match world.run(on(0, &rolling, Kind::Check { cost: Cost::ONE })) {
            Ok(_) => charged += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(full, StoreError::Full { .. }), "{full}");
    assert!((1000..16_384).contains(&charged), "{charged} instants in 256 KiB");
    assert!(world.store.stats().bytes_used <= MemoryConfig::BYTES_MIN);
    world.run(on(0, &rolling, Kind::Reset)).unwrap();
    assert_eq!(world.store.stats().bytes_used, 0);

    let permits = Algorithm::Concurrency(Concurrency::new(1 << 16, MINUTE).unwrap());
    let mut held = 0_u64;
    while world.run(on(1, &permits, Kind::Acquire { holder: HolderId(u128::from(held)) })).is_ok() {
        held += 1;
    }
    assert!((500..8192).contains(&held), "{held} permits in 256 KiB");
    assert!(world.store.stats().bytes_used <= MemoryConfig::BYTES_MIN);
    // Given back, there is room again.
    world.run(on(1, &permits, Kind::Release { holder: HolderId(0) })).unwrap();
    assert!(world.run(on(1, &permits, Kind::Acquire { holder: HolderId(u128::MAX) })).is_ok());
}

#[test]
fn the_largest_batch_of_the_longest_keys_fits_the_smallest_store() {
    let world = World::new(|config| config.bytes = 0);
    let operations = (0..Batch::OPERATIONS_MAX).map(|index| {
        let mut name = vec![b'x'; Key::BYTES_MAX - 2];
        name[0] = index as u8;
        let key = Key::from_parts([Some(&name[..])]).unwrap();
        Operation::new(key, bucket(), Kind::Check { cost: Cost::ONE })
    });
    let answer = world.store.run_now(&Batch::all_or_nothing(RequestId(1), operations)).unwrap();
    assert!(!answer.refused);
    assert!(world.store.stats().bytes_used <= MemoryConfig::BYTES_MIN);
}

#[test]
fn the_oldest_answer_is_forgotten_first_and_charged_again() {
    let mut world = World::new(|config| config.answers = 3);
    let check = |name| on(name, &bucket(), Kind::Check { cost: Cost::ONE });
    let batch = |id| Batch::all_or_nothing(RequestId(id), [check(7)]);
    for id in 1..=4 {
        world.store.run_now(&batch(id)).unwrap();
    }
    world.ids = 10;
    assert_eq!(world.store.stats().answers, 3);
    assert_eq!(world.store.run_now(&batch(2)).unwrap().outcomes[0].used, 2, "remembered");
    assert_eq!(world.store.run_now(&batch(1)).unwrap().outcomes[0].used, 5, "forgotten, so charged again");
    // An undo of a forgotten batch gives nothing back.
    let forgotten = Batch::undo_of(&batch(2), RequestId(100));
    assert_eq!(world.store.run_now(&forgotten).unwrap().outcomes[0].units, 0);
    // A batch larger than the bound is not remembered, and takes nobody's place.
    let large = Batch::all_or_nothing(RequestId(200), (0..4).map(check));
    world.store.run_now(&large).unwrap();
    assert_eq!(world.store.run_now(&large).unwrap().outcomes[0].used, 2);
    assert_eq!(world.store.stats().answers, 3);
}

#[test]
fn answers_are_forgotten_after_their_time_also_when_the_clock_steps_back() {
    let world = World::new(|config| config.answers_kept = MINUTE);
    let batch = |id| {
        Batch::all_or_nothing(
            RequestId(id),
            [on(7, &bucket(), Kind::Report { cost: Cost::new(50).unwrap() })],
        )
    };
    let used = |id| world.store.run_now(&batch(id)).unwrap().outcomes[0].used;
    assert_eq!(used(1), 50);
    world.at(Timestamp::from_nanos(START.saturating_add(MINUTE).as_nanos() - 1));
    assert_eq!(used(1), 50);
    world.at(START.saturating_add(MINUTE));
    let charged_again = used(1);
    assert!(charged_again > 50, "{charged_again}");
    world.at(START);
    assert_eq!(used(1), charged_again);
    let before = used(2);
    world.at(START.saturating_add(MINUTE * 3 / 2));
    assert_eq!(used(2), before, "remembered since the latest instant seen");
    assert_eq!(world.store.stats().answers, 2);
}

#[test]
fn an_answer_given_after_a_step_back_is_kept_as_if_there_had_been_none() {
    let world = World::new(|config| (config.answers, config.answers_kept) = (2, MINUTE));
    let batch =
        |id| Batch::all_or_nothing(RequestId(id), [on(7, &bucket(), Kind::Report { cost: Cost::ONE })]);
    world.at(START.saturating_add(MINUTE));
    world.store.run_now(&batch(1)).unwrap();
    world.at(START);
    let first = world.store.run_now(&batch(2)).unwrap();
    // Takes the place of the first, so that the second is the oldest.
    world.store.run_now(&batch(3)).unwrap();
    world.at(START.saturating_add(MINUTE * 3 / 2));
    assert_eq!(world.store.run_now(&batch(2)).unwrap(), first);
}

#[test]
fn peeks_are_not_remembered() {
    let mut world = World::new(|_| {});
    let peek = Batch::all_or_nothing(RequestId(1), [on(1, &bucket(), Kind::Peek { cost: Cost::ONE })]);
    assert_eq!(world.store.run_now(&peek).unwrap().outcomes[0].used, 0);
    world.ids = 1;
    world.check(1).unwrap();
    assert_eq!(world.store.run_now(&peek).unwrap().outcomes[0].used, 1);
    assert_eq!(world.store.stats().answers, 1);
}

#[test]
fn an_id_used_again_is_an_error_that_names_it() {
    let world = World::new(|_| {});
    let batch =
        |name| Batch::all_or_nothing(RequestId(5), [on(name, &bucket(), Kind::Check { cost: Cost::ONE })]);
    world.store.run_now(&batch(1)).unwrap();
    let error = world.store.run_now(&batch(2)).unwrap_err();
    assert!(matches!(error, StoreError::IdReused { id: RequestId(5) }), "{error}");
    let each = Batch { mode: crate::BatchMode::Each, ..batch(1) };
    assert!(world.store.run_now(&each).is_err(), "another mode is another batch");
}

#[test]
fn a_clock_that_was_years_ahead_keeps_no_key_out_for_years() {
    for algorithm in [
        bucket(),
        Algorithm::Rolling(Rolling::new(10, MINUTE).unwrap()),
        Algorithm::Concurrency(Concurrency::new(10, MINUTE).unwrap()),
    ] {
        let mut world = World::new(|_| {});
        let charge = |holder| match algorithm {
            Algorithm::Concurrency(_) => Kind::Acquire { holder: HolderId(holder) },
            _ => Kind::Check { cost: Cost::ONE },
        };
        world.at(START.saturating_add(Duration::from_hours(24 * 3650)));
        for holder in 0..10 {
            world.run(on(1, &algorithm, charge(holder))).unwrap();
        }
        world.at(START);
        let verdict = world.run(on(1, &algorithm, charge(99))).unwrap().verdict;
        let Verdict::Wait { until } = verdict else {
            panic!("{} admits after a step back", algorithm.name())
        };
        let longest = MINUTE * 101;
        assert!(until <= START.saturating_add(longest), "{} waits until {until}", algorithm.name());
        world.at(until);
        assert_eq!(world.run(on(1, &algorithm, charge(99))).unwrap().verdict, Verdict::Admit);
    }
}
