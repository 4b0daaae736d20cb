//! State that an earlier version has left in Redis is read, and goes on to count.

use std::path::Path;
use std::time::Duration;

use tidegate_core::algorithm::{Calendar, CivilUnit, Fixed, WindowStart};
use tidegate_core::lease::{Ask, HolderName};
use tidegate_core::{Algorithm, Cost, Rate, Timestamp};
use tidegate_store::{Batch, FleetStore as _, Key, Kind, NoteKind, OnLedger, Operation, RequestId, Store};
use tidegate_store_redis::RedisStore;

use crate::engine::{Hands, Server, skip};

/// When the dump was written.
const WRITTEN: Timestamp = Timestamp::from_nanos(1_795_357_984_711_095_000);
/// The marker in it.
const MARKER: &str = "a7c62173a70f942fbca67ff3a0ed3e53.1795357976.1795357976325483.0";

const DAY: Duration = Duration::from_hours(24);

/// The key of user `ada` under a limit, as the server names it: its parts, each behind its length
/// and one.
fn key(names: &[Vec<u8>], what: &[u8], limit: &[u8]) -> Key {
    let has = |name: &[u8], part: &[u8]| name.windows(part.len()).any(|window| window == part);
    let name =
        names.iter().find(|name| has(name, what) && has(name, limit) && name.ends_with(b"ada")).unwrap();
    let at = name.windows(what.len()).position(|window| window == what).unwrap();
    let (mut rest, mut parts) = (&name[at + what.len()..], Vec::new());
    while let Some((length, after)) = rest.split_first() {
        let (part, after) = after.split_at(usize::from(*length) - 1);
        parts.push(Some(part));
        rest = after;
    }
    Key::from_parts(parts).unwrap()
}

#[tokio::test(flavor = "current_thread")]
async fn a_dump_of_the_version_before_protocols_is_opened_without_a_loss() {
    let name = "a_dump_of_the_version_before_protocols_is_opened_without_a_loss";
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/four-part-marker.rdb");
    let Some(server) = Server::start_on_dump(&fixture) else { return skip(name) };
    let hands = Hands::default();
    hands.set(WRITTEN);
    let mut config = server.config();
    config.clock = hands.clock();
    let store = RedisStore::open(config).unwrap();
    let mut client = server.client();
    let marker = |client: &mut redis::Connection| -> String {
        redis::cmd("GET").arg("tidegate:epoch").query(client).unwrap()
    };
    assert_eq!(marker(&mut client), MARKER);
    let names: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query(&mut client).unwrap();

    let bucket = Algorithm::bucket(Rate::new(1000, DAY * 365).unwrap()).unwrap();
    let year = Algorithm::Calendar(Calendar::new(1000, CivilUnit::Year, "UTC").unwrap());
    let peek = |what: &[u8], limit: &[u8], algorithm: &Algorithm| {
        Operation::new(key(&names, what, limit), algorithm.clone(), Kind::Peek { cost: Cost::ONE })
    };
    let batch = Batch::each(RequestId(1), [peek(b"}c:", b"bucket", &bucket), peek(b"}c:", b"year", &year)]);
    let answer = store.run(&batch).await.unwrap();
    let used: Vec<_> = answer.outcomes.iter().map(|outcome| outcome.used).collect();
    assert_eq!(used, [600, 600]);
    // The marker is raised, and neither an epoch nor a loss began.
    assert_eq!(marker(&mut client), format!("{MARKER}.2"));
    assert_eq!((store.stats().lost, store.loss()), (0, None));

    let overrides = store.notes(NoteKind::Override).await.unwrap();
    assert_eq!(overrides.len(), 1, "{overrides:?}");
    assert_eq!(store.notes(NoteKind::Member).await.unwrap().len(), 2);
    assert_eq!(store.notes(NoteKind::Audit).await.unwrap().len(), 1);

    // Ledgers: a holder that asks for the first time is answered.
    let lent = Algorithm::Fixed(Fixed::new(100_000, DAY * 366, WindowStart::Epoch).unwrap());
    let rate = Algorithm::bucket(Rate::per_minute(6000).unwrap()).unwrap();
    for (limit, algorithm) in [(&b"lent"[..], lent), (b"rate", rate)] {
        let ask = Ask { demand: 100, ..Ask::first(HolderName { member: 1, incarnation: 1 }, 1) };
        let operation =
            Operation::new(key(&names, b"}g:", limit), algorithm, Kind::Ledger(OnLedger::Ask(ask)));
        let answer = store.run(&Batch::each(RequestId(2), [operation])).await.unwrap();
        let grant = answer.grants[0].unwrap();
        assert_eq!(grant.epoch, 1_795_357_976, "{grant:?}");
    }

    // And what is charged on top counts on.
    let check = Operation { kind: Kind::Check { cost: Cost::ONE }, ..peek(b"}c:", b"bucket", &bucket) };
    let answer = store.run(&Batch::all_or_nothing(RequestId(3), [check])).await.unwrap();
    assert_eq!((answer.refused, answer.outcomes[0].used), (false, 601));
}
