//! Keys that something else has written under the prefix: they fail the batches that name them and
//! no others.

use std::time::Duration;

use tidegate_core::algorithm::{Concurrency, Rolling};
use tidegate_core::lease::{Ask, HolderName};
use tidegate_core::{Algorithm, Cost, Rate, error_chain};
use tidegate_store::{
    Batch, FleetStore as _, HolderId, Key, Kind, Note, NoteChange, NoteKind, OnLedger, Operation, RequestId,
    Store,
};
use tidegate_store_redis::{Circuit, RedisStore};

use crate::engine::{Server, skip};

/// Batches of other callers in the call of the one that fails.
const OTHERS: u128 = 60;

/// Calls it takes to send them all: one under way while the others are gathered, theirs, and room
/// for a second group.
const CALLS_MAX: u64 = 3;

fn bucket() -> Algorithm {
    Algorithm::bucket(Rate::per_hour(1000).unwrap()).unwrap()
}

fn rolling() -> Algorithm {
    Algorithm::Rolling(Rolling::new(1000, Duration::from_hours(1)).unwrap())
}

fn concurrency() -> Algorithm {
    Algorithm::Concurrency(Concurrency::new(1000, Duration::from_hours(1)).unwrap())
}

fn key(name: &str) -> Key {
    Key::new("api", b"limit", name.as_bytes()).unwrap()
}

fn charge(name: &str, algorithm: Algorithm, id: u128) -> Operation {
    Operation::admit(key(name), algorithm, Cost::ONE, HolderId(id))
}

fn ledger(name: &str) -> Operation {
    let on = OnLedger::Report { cost: Cost::ONE };
    Operation::new(key(name), bucket(), Kind::Ledger(on))
}

/// A key that is damaged, and what the error for its batch says.
struct Damage {
    name: &'static str,
    batch: fn(u128) -> Batch,
    /// Which key of the batch to damage, and which one the error names: a counter's own key stands
    /// for what belongs to it.
    part: &'static str,
    named: &'static str,
    how: How,
    says: &'static str,
}

#[derive(Clone, Copy)]
enum How {
    List,
    Text,
    /// The first bytes only.
    Cut(usize),
    Longer,
    Bytes(&'static [u8]),
    /// Each entry of a list or hash.
    Entries,
}

const WRONG_TYPE: &str = "has another type than this store writes (WRONGTYPE)";
const DAMAGED: &str = "holds bytes that this store did not write";

fn one(id: u128, operation: Operation) -> Batch {
    Batch::all_or_nothing(RequestId(id), [operation])
}

fn damages() -> Vec<Damage> {
    fn word(id: u128) -> Batch {
        one(id, charge("planted", bucket(), id))
    }
    /// A counter that is fine goes before the one that is not, and must not be charged.
    fn two(id: u128) -> Batch {
        let both = [charge("innocent", bucket(), id), charge("planted", bucket(), id)];
        Batch::all_or_nothing(RequestId(id), both)
    }
    fn two_rolling(id: u128) -> Batch {
        let both = [charge("innocent", bucket(), id), charge("planted", rolling(), id)];
        Batch::all_or_nothing(RequestId(id), both)
    }
    fn each_rolling(id: u128) -> Batch {
        let both = [charge("innocent", bucket(), id), charge("planted", rolling(), id)];
        Batch::each(RequestId(id), both)
    }
    fn permit(id: u128) -> Batch {
        one(id, charge("planted", concurrency(), 7))
    }
    fn lent(id: u128) -> Batch {
        Batch::each(RequestId(id), [ledger("planted")])
    }
    fn asked(id: u128) -> Batch {
        let ask = Ask::first(HolderName { member: 7, incarnation: u32::try_from(id).unwrap() }, 1);
        Batch::each(
            RequestId(id),
            [Operation::new(key("planted"), bucket(), Kind::Ledger(OnLedger::Ask(ask)))],
        )
    }
    fn noted(id: u128) -> Batch {
        let until = tidegate_core::Timestamp::MAX;
        let note = Note { kind: NoteKind::Override, name: b"n"[..].into(), value: b"v"[..].into(), until };
        let mut batch = Batch::all_or_nothing(RequestId(id), [charge("innocent", bucket(), id)]);
        batch.notes.push(NoteChange::Put(note));
        batch
    }
    let damage = |name, batch, part, named, how, says| Damage { name, batch, part, named, how, says };
    vec![
        damage("a counter that is a list", word as fn(u128) -> Batch, "}c:", "}c:", How::List, WRONG_TYPE),
        damage("a counter cut short", word, "}c:", "}c:", How::Cut(20), DAMAGED),
        damage("a counter cut within its numbers", word, "}c:", "}c:", How::Cut(51), DAMAGED),
        damage("a counter that is longer", word, "}c:", "}c:", How::Longer, DAMAGED),
        damage("an empty counter", word, "}c:", "}c:", How::Bytes(b""), DAMAGED),
        damage("a counter of no algorithm", word, "}c:", "}c:", How::Bytes(&[1; 100]), DAMAGED),
        damage("a counter that is text", word, "}c:", "}c:", How::Text, DAMAGED),
        damage("a counter in another layout", word, "}c:", "}c:", How::Bytes(b"\x03text"), "layout 3"),
        damage("the second counter of a batch", two, "}c:", "}c:", How::List, WRONG_TYPE),
        damage("instants that are text", two_rolling, "}l:", "}c:", How::Text, WRONG_TYPE),
        damage("instants that are damaged", two_rolling, "}l:", "}c:", How::Entries, DAMAGED),
        damage("instants of one of several", each_rolling, "}l:", "}c:", How::Entries, DAMAGED),
        damage("expiries that are text", permit, "}e:", "}c:", How::Text, WRONG_TYPE),
        damage("holders that are text", permit, "}h:", "}c:", How::Text, WRONG_TYPE),
        damage("holders that are damaged", permit, "}h:", "}c:", How::Entries, DAMAGED),
        damage("a ledger that is a list", lent, "}g:", "}g:", How::List, WRONG_TYPE),
        damage("a ledger cut short", lent, "}g:", "}g:", How::Cut(30), DAMAGED),
        damage("a lease cut short", asked, "}g:", "}g:", How::Cut(90), DAMAGED),
        damage("notes that are a list", noted, "n:", "n:", How::List, WRONG_TYPE),
        damage("a note that is damaged", noted, "n:", "n:", How::Entries, DAMAGED),
    ]
}

fn keys(client: &mut redis::Connection, part: &str) -> Vec<Vec<u8>> {
    let names: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query(client).unwrap();
    let has = |name: &[u8], part: &str| name.windows(part.len()).any(|window| window == part.as_bytes());
    let owner = if part == "n:" { part } else { "planted" };
    names.into_iter().filter(|name| has(name, part) && has(name, owner)).collect()
}

fn run(client: &mut redis::Connection, command: &[&[u8]]) -> redis::Value {
    let mut sent = redis::Cmd::new();
    for part in command {
        sent.arg(*part);
    }
    sent.query(client).unwrap()
}

fn damage(client: &mut redis::Connection, name: &[u8], how: How) {
    let _ = match how {
        How::List => {
            run(client, &[b"DEL", name]);
            run(client, &[b"RPUSH", name, b"stranger"])
        }
        How::Text => run(client, &[b"SET", name, b"stranger"]),
        How::Bytes(bytes) => run(client, &[b"SET", name, bytes]),
        How::Cut(length) => {
            let bytes: Vec<u8> = redis::cmd("GET").arg(name).query(client).unwrap();
            assert!(bytes.len() > length, "{}", bytes.len());
            run(client, &[b"SET", name, &bytes[..length]])
        }
        How::Longer => run(client, &[b"APPEND", name, b"x"]),
        How::Entries => {
            let kind: String = redis::cmd("TYPE").arg(name).query(client).unwrap();
            if kind == "list" {
                run(client, &[b"LSET", name, b"0", b"short"])
            } else {
                let fields: Vec<Vec<u8>> = redis::cmd("HKEYS").arg(name).query(client).unwrap();
                run(client, &[b"HSET", name, &fields[0], b"short"])
            }
        }
    };
}

async fn used(store: &RedisStore, name: &str, id: u128) -> u64 {
    let peek = Operation::new(key(name), bucket(), Kind::Peek { cost: Cost::ONE });
    store.run(&Batch::each(RequestId(id), [peek])).await.unwrap().outcomes[0].used
}

#[tokio::test(flavor = "current_thread")]
async fn a_key_that_cannot_be_read_fails_its_own_batches_only_and_the_error_says_what_to_type() {
    let test = "a_key_that_cannot_be_read_fails_its_own_batches_only_and_the_error_says_what_to_type";
    let Some(server) = Server::start(&[]) else { return skip(test) };
    let mut client = server.client();
    for case in damages() {
        let name = case.name;
        let _ = run(&mut client, &[b"FLUSHALL"]);
        let mut config = server.config();
        // Everything that waits goes in one call.
        config.calls = 1;
        let store = RedisStore::open(config).unwrap();
        store.run(&(case.batch)(1)).await.unwrap();
        let innocent = used(&store, "innocent", 2).await;
        let damaged = keys(&mut client, case.part);
        assert_eq!(damaged.len(), 1, "{name}: {damaged:?}");
        let named = keys(&mut client, case.named).swap_remove(0);
        damage(&mut client, &damaged[0], case.how);

        let calls = store.stats().calls;
        let mut callers = tokio::task::JoinSet::new();
        for id in 0..OTHERS {
            let store = store.clone();
            let batch = if id == OTHERS / 2 {
                (case.batch)(1000)
            } else {
                one(2000 + id, charge(&format!("user {}", id % 20), bucket(), id))
            };
            callers.spawn(async move { (id, store.run(&batch).await) });
        }
        let mut error = None;
        for (id, answer) in callers.join_all().await {
            match answer {
                Ok(answer) => assert!(id != OTHERS / 2 && !answer.refused, "{name}: {answer:?}"),
                Err(wrong) => {
                    assert_eq!(id, OTHERS / 2, "{name}: {}", error_chain(&wrong));
                    error = Some(wrong);
                }
            }
        }
        let error = error.unwrap();
        let told = error_chain(&error);
        assert!(told.contains(case.says) && !error.is_outcome_unknown(), "{name}: {told}");
        assert!(store.stats().calls - calls <= CALLS_MAX, "{name}: {} calls", store.stats().calls - calls);
        assert_eq!(store.stats().circuit, Circuit::Closed, "{name}");
        for user in 0..20 {
            let expected = (0..OTHERS).filter(|id| id % 20 == user && *id != OTHERS / 2).count() as u64;
            assert_eq!(used(&store, &format!("user {user}"), 3000 + user).await, expected, "{name}");
        }
        assert_eq!(used(&store, "innocent", 4000).await, innocent, "{name}");

        // The command that the error suggests repairs the data.
        let typed = format!("`DEL \"{}\"`", named.escape_ascii());
        assert!(told.contains(&typed), "{name}: {told} does not say {typed}");
        let _ = run(&mut client, &[b"DEL", &named]);
        store.run(&(case.batch)(1001)).await.unwrap();
    }
}
