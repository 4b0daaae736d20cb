//! Epochs: what a loss of the store's data means for what it lends, who notices it, and what an acknowledgement ends.

use std::time::Duration;

use tidegate::algorithm::{Fixed, WindowStart};
use tidegate::lease::{Ask, Grant, HolderName};
use tidegate::{Algorithm, Cost, Rate, Timestamp};
use tidegate_store::{Batch, Key, Kind, OnLedger, Operation, RequestId, Store, StoreError};
use tidegate_store_redis::{OnLoss, RedisStore};

use crate::cluster::Cluster;
use crate::engine::{Hands, Server, skip};

/// A minute of the year 2027 that has just begun.
const START: Timestamp = Timestamp::from_secs(20_840 * 86_400);

/// A server with a clock that tests set, and members that ask.
struct Fleet {
    server: Server,
    hands: Hands,
}

fn after(millis: u64) -> Timestamp {
    START.saturating_add(Duration::from_millis(millis))
}

fn rate() -> Algorithm {
    Algorithm::bucket(Rate::per_second(1000).unwrap()).unwrap()
}

fn window() -> Algorithm {
    Algorithm::Fixed(Fixed::new(1000, Duration::from_mins(1), WindowStart::Epoch).unwrap())
}

/// An ask for much, by a holder that has nothing.
fn ask(member: u64, seq: u32, epoch: u32) -> Ask {
    let holder = HolderName { member, incarnation: 1 };
    Ask { seq, acked: seq - 1, epoch, demand: 5000, ..Ask::first(holder, 1) }
}

fn key(name: &str) -> Key {
    Key::new("epochs", b"limit", name.as_bytes()).unwrap()
}

fn lent(name: &str, algorithm: Algorithm, ask: Ask) -> Operation {
    Operation::new(key(name), algorithm, Kind::Ledger(OnLedger::Ask(ask)))
}

async fn asks(store: &RedisStore, algorithm: Algorithm, ask: Ask) -> Grant {
    let operation = lent(if algorithm == rate() { "rate" } else { "window" }, algorithm, ask);
    store.run(&Batch::each(RequestId(1), [operation])).await.unwrap().grants[0].unwrap()
}

impl Fleet {
    fn start() -> Option<Self> {
        let hands = Hands::default();
        hands.set(START);
        Some(Self { server: Server::start(&[])?, hands })
    }

    fn member(&self) -> RedisStore {
        let mut config = self.server.config();
        config.clock = self.hands.clock();
        RedisStore::open(config).unwrap()
    }

    fn loses_all(&self) {
        let _: () = redis::cmd("FLUSHALL").query(&mut self.server.client()).unwrap();
    }

    fn marker(&self) -> String {
        redis::cmd("GET").arg("tidegate:epoch").query(&mut self.server.client()).unwrap()
    }

    fn set_marker(&self, marker: &str) {
        let _: () =
            redis::cmd("SET").arg("tidegate:epoch").arg(marker).query(&mut self.server.client()).unwrap();
    }

    /// The marker without its id.
    fn epoch(&self) -> String {
        self.marker().split_once('.').unwrap().1.to_owned()
    }
}

/// The number of the first epoch of a store that is new at the beginning.
const FIRST: u32 = 20_840 * 86_400;

#[tokio::test(flavor = "current_thread")]
async fn after_a_loss_rates_go_on_but_nothing_new_is_lent_until_all_leases_have_ended() {
    let name = "after_a_loss_rates_go_on_but_nothing_new_is_lent_until_all_leases_have_ended";
    let Some(fleet) = Fleet::start() else { return skip(name) };
    let member = fleet.member();
    member.now().await.unwrap();
    assert_eq!(fleet.epoch(), format!("{FIRST}.{FIRST}000000.0"));
    fleet.hands.set(after(2000));
    let before = asks(&member, rate(), ask(1, 1, 0)).await;
    assert!(before.epoch == FIRST && before.lump > 0 && before.rate > 0, "{before:?}");

    fleet.loses_all();
    fleet.hands.set(after(2100));
    // What is claimed is kept; whoever has nothing gets nothing.
    let claim = Ask { rate: before.rate, left: 100, ..ask(1, 2, FIRST) };
    let claimed = asks(&member, rate(), claim).await;
    assert_eq!((member.stats().lost, claimed.epoch), (1, FIRST + 3));
    assert_eq!((claimed.rate, claimed.held, claimed.lump), (before.rate, 100, 0), "{claimed:?}");
    assert_eq!(fleet.epoch(), format!("{}.{}100000.1", FIRST + 3, FIRST + 2));
    let fresh = asks(&member, rate(), ask(2, 1, 0)).await;
    assert_eq!((fresh.rate, fresh.lump), (0, 0), "{fresh:?}");
    // A period and a sixteenth of it.
    fleet.hands.set(after(2100 + 5312));
    let waits = asks(&member, rate(), ask(2, 2, FIRST + 3)).await;
    assert_eq!((waits.rate, waits.lump), (0, 0), "{waits:?}");
    fleet.hands.set(after(2100 + 5312 + 500));
    let lends = asks(&member, rate(), ask(2, 3, FIRST + 3)).await;
    assert!(lends.rate + lends.lump > 0, "{lends:?}");
}

#[tokio::test(flavor = "current_thread")]
async fn a_window_gives_nothing_after_a_loss_until_it_ends_or_somebody_acknowledges_it() {
    let name = "a_window_gives_nothing_after_a_loss_until_it_ends_or_somebody_acknowledges_it";
    let Some(fleet) = Fleet::start() else { return skip(name) };
    let (member, other) = (fleet.member(), fleet.member());
    assert!(asks(&member, window(), ask(1, 1, 0)).await.lump > 0);
    other.now().await.unwrap();
    fleet.loses_all();
    fleet.hands.set(after(10_000));
    let nothing = asks(&member, window(), ask(1, 2, FIRST)).await;
    assert_eq!((nothing.lump, nothing.epoch), (0, FIRST + 11));
    // The second to notice takes over what the first has begun.
    assert_eq!(asks(&other, window(), ask(2, 1, 0)).await.epoch, FIRST + 11);
    let (loss, same) = (member.loss().unwrap(), other.loss().unwrap());
    assert!(loss.found.is_empty() && same.found.len() == 32 && same.expected == loss.expected, "{same:?}");

    fleet.hands.set(after(20_000));
    assert_eq!(member.acknowledge_loss(), Some(loss));
    let again = asks(&member, window(), ask(1, 3, FIRST + 11)).await;
    assert!(again.lump > 0 && again.epoch == FIRST + 12, "{again:?}");
    assert_eq!(fleet.epoch(), format!("{}.{}000000.0", FIRST + 12, FIRST + 20));
    // Others take that over without a word; their own knowledge of the loss stays theirs.
    let taken_over = asks(&other, window(), ask(2, 2, FIRST + 11)).await;
    assert!(taken_over.lump > 0 && taken_over.epoch == FIRST + 12, "{taken_over:?}");
    assert_eq!((member.stats().lost, other.stats().lost), (1, 1));
    // It is acknowledged once.
    other.acknowledge_loss();
    assert_eq!(asks(&other, window(), ask(2, 3, FIRST + 12)).await.epoch, FIRST + 12);

    // Without an acknowledgement the next window gives again.
    fleet.loses_all();
    assert_eq!(asks(&member, window(), ask(1, 4, FIRST + 12)).await.lump, 0);
    fleet.hands.set(after(60_000));
    assert!(asks(&member, window(), ask(1, 5, FIRST + 21)).await.lump > 0);
}

#[tokio::test(flavor = "current_thread")]
async fn a_new_member_that_took_the_store_for_new_is_corrected_by_one_that_knows_better() {
    let name = "a_new_member_that_took_the_store_for_new_is_corrected_by_one_that_knows_better";
    let Some(fleet) = Fleet::start() else { return skip(name) };
    let member = fleet.member();
    assert!(asks(&member, window(), ask(1, 1, 0)).await.lump > 0);
    fleet.loses_all();
    fleet.hands.set(after(1000));
    let newcomer = fleet.member();
    let wrongly = asks(&newcomer, window(), ask(2, 1, 0)).await;
    assert!(wrongly.lump > 0 && wrongly.epoch == FIRST + 1, "{wrongly:?}");
    let id = fleet.marker()[..32].to_owned();

    let told = asks(&member, window(), ask(1, 2, FIRST)).await;
    assert_eq!((told.lump, told.epoch), (0, FIRST + 2));
    assert_eq!(fleet.marker(), format!("{id}.{}.{}000000.1", FIRST + 2, FIRST + 1));
    assert_eq!((member.stats().lost, newcomer.stats().lost), (1, 0));
    // It finds the same store in another epoch.
    let told = asks(&newcomer, window(), ask(2, 2, FIRST + 1)).await;
    assert_eq!((told.lump, told.epoch), (0, FIRST + 2));
    assert_eq!((newcomer.stats().lost, newcomer.loss()), (0, None));
    // It has lost nothing, and may acknowledge what it has seen all the same.
    assert_eq!(newcomer.acknowledge_loss(), None);
    assert!(asks(&newcomer, window(), ask(2, 3, FIRST + 2)).await.lump > 0);
    assert!(fleet.epoch().ends_with(".0"));
}

#[tokio::test(flavor = "current_thread")]
async fn an_acknowledgement_ends_what_its_member_has_seen_and_nothing_later() {
    let name = "an_acknowledgement_ends_what_its_member_has_seen_and_nothing_later";
    let Some(fleet) = Fleet::start() else { return skip(name) };
    let member = fleet.member();
    member.now().await.unwrap();
    fleet.loses_all();
    member.now().await.unwrap();
    let id = fleet.marker()[..32].to_owned();
    member.acknowledge_loss().unwrap();
    // Somebody else has noticed something meanwhile.
    let later = format!("{id}.{}.{FIRST}000000.1", FIRST + 7);
    fleet.set_marker(&later);
    assert_eq!(asks(&member, window(), ask(1, 1, 0)).await.lump, 0);
    assert_eq!(fleet.marker(), later);
    assert_eq!((member.stats().lost, member.loss()), (1, None));
    // And so where all is lost once more.
    member.acknowledge_loss();
    fleet.loses_all();
    assert_eq!(asks(&member, window(), ask(1, 2, FIRST + 7)).await.lump, 0);
    assert_eq!(member.stats().lost, 2);
    assert_eq!(fleet.epoch(), format!("{}.{FIRST}000000.1", FIRST + 8));
    // Acknowledged a last time it is over, and stays so.
    member.acknowledge_loss().unwrap();
    assert!(asks(&member, window(), ask(1, 3, FIRST + 8)).await.lump > 0);
    let marker = fleet.marker();
    member.now().await.unwrap();
    assert_eq!(fleet.marker(), marker);
}

#[tokio::test(flavor = "current_thread")]
async fn a_marker_without_an_epoch_counts_as_the_first_and_is_left_as_it_is() {
    let name = "a_marker_without_an_epoch_counts_as_the_first_and_is_left_as_it_is";
    let Some(fleet) = Fleet::start() else { return skip(name) };
    let old = "0123456789abcdef0123456789abcdef";
    fleet.set_marker(old);
    let (member, other) = (fleet.member(), fleet.member());
    let grant = asks(&member, rate(), ask(1, 1, 0)).await;
    // It began so long ago that the bucket is full.
    assert!(grant.epoch == 1 && grant.lump > 0, "{grant:?}");
    other.now().await.unwrap();
    member.acknowledge_loss();
    asks(&member, rate(), ask(1, 2, 1)).await;
    assert_eq!((fleet.marker().as_str(), member.stats().lost), (old, 0));

    fleet.loses_all();
    assert_eq!(asks(&member, rate(), ask(1, 3, 1)).await.epoch, FIRST + 1);
    assert_eq!(asks(&other, rate(), ask(2, 1, 0)).await.epoch, FIRST + 1);
    assert_eq!(other.loss().unwrap().expected, old);
}

#[tokio::test(flavor = "current_thread")]
async fn numbers_of_epochs_grow_even_where_the_clock_has_stepped_back() {
    let name = "numbers_of_epochs_grow_even_where_the_clock_has_stepped_back";
    let Some(fleet) = Fleet::start() else { return skip(name) };
    let member = fleet.member();
    member.now().await.unwrap();
    fleet.hands.set(Timestamp::from_secs(5));
    fleet.loses_all();
    member.now().await.unwrap();
    assert_eq!(fleet.epoch(), format!("{}.5000000.1", FIRST + 1));
    // A marker of another life whose number is higher: the next is higher still.
    fleet.set_marker(&format!("{}.4000000000.5000000.0", "f".repeat(32)));
    member.now().await.unwrap();
    assert_eq!(fleet.marker(), format!("{}.4000000001.5000000.1", "f".repeat(32)));
    // A member that knew only earlier ones has noticed the loss first.
    fleet.set_marker(&format!("{}.{}.5000000.1", "a".repeat(32), FIRST));
    member.now().await.unwrap();
    assert_eq!(fleet.marker(), format!("{}.4000000002.5000000.1", "a".repeat(32)));
    // A failover has brought an earlier epoch of the same life back, without a loss that could be told.
    let lost = member.stats().lost;
    fleet.set_marker(&format!("{}.{}.5000000.1", "a".repeat(32), FIRST));
    member.now().await.unwrap();
    assert_eq!(fleet.marker(), format!("{}.4000000002.5000000.1", "a".repeat(32)));
    assert_eq!(member.stats().lost, lost);
    // There is none above the highest.
    fleet.set_marker(&format!("{}.{}.5000000.0", "e".repeat(32), u32::MAX));
    member.now().await.unwrap();
    assert_eq!(fleet.marker(), format!("{}.{}.5000000.1", "e".repeat(32), u32::MAX));
}

#[tokio::test(flavor = "current_thread")]
async fn where_a_loss_refuses_nothing_is_lent_until_it_is_acknowledged() {
    let name = "where_a_loss_refuses_nothing_is_lent_until_it_is_acknowledged";
    let Some(fleet) = Fleet::start() else { return skip(name) };
    let mut config = fleet.server.config();
    (config.clock, config.on_loss) = (fleet.hands.clock(), OnLoss::Refuse);
    let member = RedisStore::open(config).unwrap();
    assert!(asks(&member, window(), ask(1, 1, 0)).await.lump > 0);
    fleet.loses_all();
    let batch = Batch::each(RequestId(1), [lent("window", window(), ask(1, 2, FIRST))]);
    for _ in 0..3 {
        let error = member.run(&batch).await.unwrap_err();
        assert!(matches!(error, StoreError::DataLost { .. }), "{error}");
    }
    let names: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut fleet.server.client()).unwrap();
    assert_eq!(names, ["tidegate:epoch"], "an ask was decided in the call that found the loss");
    member.acknowledge_loss().unwrap();
    assert!(member.run(&batch).await.unwrap().grants[0].unwrap().lump > 0);
}

#[tokio::test(flavor = "current_thread")]
async fn asks_that_come_together_share_a_call_and_are_not_remembered() {
    let name = "asks_that_come_together_share_a_call_and_are_not_remembered";
    let Some(fleet) = Fleet::start() else { return skip(name) };
    let member = fleet.member();
    member.now().await.unwrap();
    let calls = member.stats().calls;
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..100_u64 {
        let member = member.clone();
        let operation = lent(&caller.to_string(), window(), ask(caller, 1, 0));
        let batch = Batch::each(RequestId(7), [operation]);
        callers.spawn(async move { member.run(&batch).await.unwrap().grants[0].unwrap().lump });
    }
    assert!(callers.join_all().await.into_iter().all(|lump| lump > 0));
    let stats = member.stats();
    assert!(stats.calls - calls <= 3 && stats.asks == 100, "{stats:?}");
    let names: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query(&mut fleet.server.client()).unwrap();
    assert_eq!(names.len(), 101, "a marker and a record for each");
}

#[tokio::test(flavor = "current_thread")]
async fn a_ledger_and_a_counter_of_one_key_are_two_things() {
    let Some(fleet) = Fleet::start() else {
        return skip("a_ledger_and_a_counter_of_one_key_are_two_things");
    };
    let member = fleet.member();
    let check = Operation::new(key("window"), window(), Kind::Check { cost: Cost::new(7).unwrap() });
    let both = [check.clone(), lent("window", window(), ask(1, 1, 0)), check];
    let answer = member.run(&Batch::all_or_nothing(RequestId(2), both)).await.unwrap();
    let used: Vec<_> = answer.outcomes.iter().map(|outcome| outcome.used).collect();
    assert_eq!(used, [7, answer.grants[0].unwrap().lump.into(), 14]);
    // A ledger knows what it has been asked, under whatever id.
    let repeated = [lent("window", window(), ask(1, 1, 0))];
    let repeated = member.run(&Batch::each(RequestId(3), repeated)).await.unwrap();
    let (again, first) = (repeated.grants[0].unwrap(), answer.grants[0].unwrap());
    assert_eq!(
        (again.lump, again.held, repeated.outcomes[0].used),
        (first.lump, first.held, first.lump.into())
    );
}

#[tokio::test(flavor = "current_thread")]
async fn a_ledger_expires_when_it_would_answer_as_none() {
    let Some(server) = Server::start(&[]) else {
        return skip("a_ledger_expires_when_it_would_answer_as_none");
    };
    let store = RedisStore::open(server.config()).unwrap();
    let minute = Duration::from_mins(1);
    // The margin of ten seconds; a lease of a few; what it drains in.
    let limits = [
        (rate(), 10_000..=18_000),
        (Algorithm::bucket(Rate::new(10, minute).unwrap()).unwrap(), 69_000..=77_000),
        (Algorithm::Fixed(Fixed::new(10, minute, WindowStart::FirstHit).unwrap()), 69_000..=70_000),
    ];
    for (index, (algorithm, kept)) in limits.into_iter().enumerate() {
        let operation = lent(&index.to_string(), algorithm.clone(), ask(1, 1, 0));
        store.run(&Batch::each(RequestId(1), [operation])).await.unwrap();
        let mut client = server.client();
        let names: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*g:*").query(&mut client).unwrap();
        let left: i64 = redis::cmd("PTTL").arg(&names[0]).query(&mut client).unwrap();
        assert!(kept.contains(&left), "{algorithm:?} is kept for {left} ms");
        let _: () = redis::cmd("DEL").arg(&names[0]).query(&mut client).unwrap();
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_ledger_in_another_layout_is_an_error_and_is_left_alone() {
    let Some(fleet) = Fleet::start() else {
        return skip("a_ledger_in_another_layout_is_an_error_and_is_left_alone");
    };
    let member = fleet.member();
    asks(&member, window(), ask(1, 1, 0)).await;
    let mut client = fleet.server.client();
    let names: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*g:*").query(&mut client).unwrap();
    let _: () = redis::cmd("SETRANGE").arg(&names[0]).arg(0).arg(b"\x09").query(&mut client).unwrap();
    let batch = Batch::each(RequestId(1), [lent("window", window(), ask(1, 2, FIRST))]);
    let error = member.run(&batch).await.unwrap_err();
    assert!(error.to_string().contains("layout 9") && !error.is_outcome_unknown(), "{error}");
}

#[tokio::test(flavor = "current_thread")]
async fn asks_over_several_slots_are_granted_in_their_order_and_nothing_of_a_refused_batch_is_lent() {
    let name = "asks_over_several_slots_are_granted_in_their_order_and_nothing_of_a_refused_batch_is_lent";
    let Some(cluster) = Cluster::start() else { return skip(name) };
    let hands = Hands::default();
    hands.set(START);
    let mut config = cluster.config();
    config.clock = hands.clock();
    let store = RedisStore::open(config).unwrap();
    let names = ["a", "b", "c", "d", "a"];
    let each = names.iter().zip(1..).map(|(name, seq)| lent(name, window(), ask(u64::from(seq), seq, 0)));
    let answer = store.run(&Batch::each(RequestId(1), each)).await.unwrap();
    let seqs: Vec<_> = answer.grants.iter().map(|grant| grant.unwrap().seq).collect();
    assert_eq!(seqs, [1, 2, 3, 4, 5]);
    assert!(
        answer
            .outcomes
            .iter()
            .zip(&answer.grants)
            .all(|(outcome, grant)| { outcome.units == u64::from(grant.unwrap().lump) && outcome.units > 0 })
    );

    let look = |name: &str| Operation::new(key(name), window(), Kind::Ledger(OnLedger::Look));
    let used = async |id| {
        let looks = names[..4].iter().map(|name| look(name));
        let answer = store.run(&Batch::each(RequestId(id), looks)).await.unwrap();
        answer.outcomes.iter().map(|outcome| outcome.used).collect::<Vec<_>>()
    };
    let before = used(2).await;
    let never = Algorithm::Fixed(Fixed::new(0, Duration::from_mins(1), WindowStart::Epoch).unwrap());
    let mut refused: Vec<_> = names.iter().map(|name| lent(name, window(), ask(9, 1, 0))).collect();
    refused.push(Operation::new(key("never"), never, Kind::Check { cost: Cost::ONE }));
    let answer = store.run(&Batch::all_or_nothing(RequestId(3), refused)).await.unwrap();
    assert!(answer.refused && answer.grants[..] == [None; 5], "{answer:?}");
    assert_eq!(used(4).await, before);
    assert_eq!(store.stats().stranded, 0);

    // A slot that nobody has used yet is as old as the cluster, so its first bucket is not empty.
    hands.set(after(30_000));
    let first = store.run(&Batch::each(RequestId(5), [lent("first", rate(), ask(1, 1, 0))])).await.unwrap();
    let grant = first.grants[0].unwrap();
    assert!(grant.epoch == FIRST && grant.lump > 0, "{grant:?}");
}
