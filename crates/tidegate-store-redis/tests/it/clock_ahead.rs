//! State that the version before wrote under a clock that was years ahead.

use std::path::Path;
use std::time::Duration;

use tidegate_core::algorithm::{
    Bucket, Calendar, CivilUnit, Concurrency, Fixed, Rolling, SlidingCounter, Verdict, WindowStart,
};
use tidegate_core::lease::{Ask, HolderName};
use tidegate_core::{Algorithm, Cost, Rate, Timestamp};
use tidegate_store::{
    Batch, HolderId, Key, Kind, Note, NoteChange, NoteKind, OnLedger, Operation, RequestId, Store,
};
use tidegate_store_redis::RedisStore;

use crate::engine::{Hands, Server, skip};

/// Four years before the dump was written.
const BACK: Timestamp = Timestamp::from_secs(1_795_790_000);
const HOUR: Duration = Duration::from_hours(1);

fn algorithms() -> [(&'static str, Algorithm, Duration); 7] {
    let bucket = Bucket::new(Rate::new(5, HOUR).unwrap(), 5).unwrap();
    let day = Calendar::new(5, CivilUnit::Day, "Europe/Berlin").unwrap();
    [
        ("bucket", Algorithm::Bucket(bucket), HOUR),
        ("fixed", Algorithm::Fixed(Fixed::new(5, HOUR, WindowStart::Epoch).unwrap()), HOUR),
        ("first-hit", Algorithm::Fixed(Fixed::new(5, HOUR, WindowStart::FirstHit).unwrap()), HOUR),
        ("calendar", Algorithm::Calendar(day), 24 * HOUR),
        ("sliding", Algorithm::SlidingCounter(SlidingCounter::new(5, HOUR).unwrap()), HOUR),
        ("rolling", Algorithm::Rolling(Rolling::new(5, HOUR).unwrap()), HOUR),
        ("concurrency", Algorithm::Concurrency(Concurrency::new(5, HOUR).unwrap()), HOUR),
    ]
}

#[tokio::test(flavor = "current_thread")]
async fn a_dump_of_a_clock_that_was_ahead_locks_nobody_for_more_than_two_windows() {
    let name = "a_dump_of_a_clock_that_was_ahead_locks_nobody_for_more_than_two_windows";
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/clock-ahead.rdb");
    let Some(server) = Server::start_on_dump(&fixture) else { return skip(name) };
    let hands = Hands::default();
    hands.set(BACK);
    let mut id = 0;
    let mut told = Vec::new();
    // Three members one after the other, each of which sees the store for the first time.
    for member in 0..3 {
        let mut config = server.config();
        config.clock = hands.clock();
        let store = RedisStore::open(config).unwrap();
        let mut waits = Vec::new();
        for (limit, algorithm, window) in algorithms() {
            for (user, used) in [("bob", 1), ("ada", 5)] {
                id += 1;
                let key = Key::new("api", limit.as_bytes(), user.as_bytes()).unwrap();
                let admit = Operation::admit(key, algorithm.clone(), Cost::ONE, HolderId(id << 1 | 1));
                let kind = match admit.kind {
                    Kind::Check { .. } => Kind::Check { cost: Cost::new(5).unwrap() },
                    _ if used < 5 => continue,
                    kind => kind,
                };
                let batch = Batch::all_or_nothing(RequestId(id), [Operation { kind, ..admit }]);
                let outcome = store.run(&batch).await.unwrap().outcomes[0];
                let Verdict::Wait { until } = outcome.verdict else { panic!("{limit} {user}: {outcome}") };
                assert!(until.saturating_since(BACK) <= 2 * window, "{limit} {user}: {outcome}");
                assert!(outcome.used >= used, "{limit} {user} forgets: {outcome}");
                waits.push(until);
            }
        }
        if member == 0 {
            told = waits;
        } else {
            assert_eq!(waits, told, "a wait that was told is kept");
        }
        // The ledger is used up, and lends again when it has drained.
        let terms = Algorithm::Bucket(Bucket::new(Rate::per_second(100).unwrap(), 500).unwrap());
        let ask =
            Ask { need: 2, need_min: 1, ..Ask::first(HolderName { member: 2, incarnation: 1 }, member + 1) };
        let key = Key::new("api", b"lent", b"ada").unwrap();
        let operation = Operation::new(key, terms, Kind::Ledger(OnLedger::Ask(ask)));
        id += 1;
        let lent = store.run(&Batch::each(RequestId(id), [operation])).await.unwrap().grants[0].unwrap().lump;
        assert_eq!(lent > 0, member > 0, "{lent} lent to member {member}");
        hands.set(BACK.saturating_add(Duration::from_secs(5 * (member + 1))));
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_refund_under_a_clock_that_was_ahead_is_remembered_for_an_hour_and_no_longer() {
    let name = "a_refund_under_a_clock_that_was_ahead_is_remembered_for_an_hour_and_no_longer";
    let Some(server) = Server::start(&[]) else { return skip(name) };
    let hands = Hands::default();
    let mut config = server.config();
    config.clock = hands.clock();
    let store = RedisStore::open(config).unwrap();
    let mut id = 0;
    let mut refund = async |at: Timestamp| {
        hands.set(at);
        id += 1;
        let until = at.saturating_add(NoteKind::REFUND_KEPT);
        let note =
            Note { kind: NoteKind::Refund, name: (*b"order-1").into(), value: (*b"api").into(), until };
        let batch = Batch::each(RequestId(id), []).with_notes([NoteChange::Create(note)]);
        !store.run(&batch).await.unwrap().refused
    };
    assert!(refund(BACK.saturating_add(4 * 366 * 24 * HOUR)).await);
    assert!(!refund(BACK).await, "it was given");
    assert!(!refund(BACK.saturating_add(Duration::from_secs(3599))).await);
    assert!(refund(BACK.saturating_add(HOUR)).await, "its hour is over");
    assert!(!refund(BACK.saturating_add(HOUR)).await);
}
