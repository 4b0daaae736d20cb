//! Epochs: what a loss of the store's data means for what it lends, who notices it, and what an
//! acknowledgement ends.

use std::time::Duration;

use tidegate_core::algorithm::{Fixed, WindowStart};
use tidegate_core::lease::{Ask, Grant, HolderName};
use tidegate_core::{Algorithm, Cost, Rate, Timestamp};
use tidegate_store::{Batch, FleetStore as _, Key, Kind, OnLedger, Operation, RequestId, Store, StoreError};
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

/// A quota, whose windows wait after a loss.
fn window() -> Algorithm {
    Algorithm::Fixed(Fixed::new(1000, Duration::from_hours(1), WindowStart::Epoch).unwrap())
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

fn protocol(member: &RedisStore) -> Option<u32> {
    member.newer_protocol()
}

#[tokio::test(flavor = "current_thread")]
async fn a_loss_that_a_member_notices_is_one_epoch_and_one_acknowledgement_ends_it_for_all() {
    let name = "a_loss_that_a_member_notices_is_one_epoch_and_one_acknowledgement_ends_it_for_all";
    let Some(fleet) = Fleet::start() else { return skip(name) };
    let (member, other) = (fleet.member(), fleet.member());
    assert!(asks(&member, window(), ask(1, 1, 0)).await.lump > 0);
    assert_eq!(fleet.epoch(), format!("{FIRST}.{FIRST}000000.0.2"));
    other.now().await.unwrap();
    fleet.loses_all();
    fleet.hands.set(after(10_000));
    let nothing = asks(&member, window(), ask(1, 2, FIRST)).await;
    assert_eq!((nothing.lump, nothing.epoch), (0, FIRST + 11));
    assert_eq!(fleet.epoch(), format!("{}.{}000000.1.2", FIRST + 11, FIRST + 10));
    // The second member to notice takes over what the first has begun.
    let marker = fleet.marker();
    fleet.hands.set(after(11_000));
    assert_eq!(asks(&other, window(), ask(2, 1, 0)).await.epoch, FIRST + 11);
    assert_eq!(fleet.marker(), marker);
    let (loss, same) = (member.loss().unwrap(), other.loss().unwrap());
    assert!(loss.found.is_empty() && same.found.len() == 32 && same.expected == loss.expected, "{same:?}");
    assert_eq!((loss.began, same.began), (after(10_000), after(10_000)));
    // A member that starts after the loss finds it in the marker.
    let newcomer = fleet.member();
    newcomer.now().await.unwrap();
    assert_eq!(newcomer.loss().unwrap().began, after(10_000));

    fleet.hands.set(after(20_000));
    assert_eq!(member.acknowledge_loss(), Some(loss));
    member.now().await.unwrap();
    let acknowledged = format!("{}.{}000000.0.2.{}000000", FIRST + 11, FIRST + 10, FIRST + 20);
    assert_eq!(fleet.epoch(), acknowledged, "the same epoch without the flag");
    assert_eq!(other.loss().unwrap().began, after(10_000), "it has not called yet");
    other.now().await.unwrap();
    newcomer.now().await.unwrap();
    assert_eq!((member.loss(), other.loss(), newcomer.loss()), (None, None, None));
    assert_eq!((member.stats().lost, other.stats().lost, newcomer.stats().lost), (1, 1, 0));
    assert_eq!(fleet.epoch(), acknowledged);
}

#[tokio::test(flavor = "current_thread")]
async fn a_member_that_notices_a_loss_only_after_the_acknowledgement_follows_the_acknowledgement() {
    let name = "a_member_that_notices_a_loss_only_after_the_acknowledgement_follows_the_acknowledgement";
    let Some(fleet) = Fleet::start() else { return skip(name) };
    let (member, silent) = (fleet.member(), fleet.member());
    member.now().await.unwrap();
    silent.now().await.unwrap();
    fleet.loses_all();
    fleet.hands.set(after(10_000));
    member.now().await.unwrap();
    fleet.hands.set(after(20_000));
    member.acknowledge_loss().unwrap();
    member.now().await.unwrap();
    let marker = fleet.marker();
    fleet.hands.set(after(30_000));
    silent.now().await.unwrap();
    assert_eq!((silent.stats().lost, silent.loss(), fleet.marker()), (1, None, marker));
}

#[tokio::test(flavor = "current_thread")]
async fn an_epoch_of_a_restarted_member_that_took_the_wiped_store_for_new_is_kept_and_marked_as_after_a_loss()
{
    let name =
        "an_epoch_of_a_restarted_member_that_took_the_wiped_store_for_new_is_kept_and_marked_as_after_a_loss";
    let Some(fleet) = Fleet::start() else { return skip(name) };
    let member = fleet.member();
    assert!(asks(&member, window(), ask(1, 1, 0)).await.lump > 0);
    fleet.loses_all();
    fleet.hands.set(after(5000));
    let newcomer = fleet.member();
    let first = asks(&newcomer, window(), ask(2, 1, 0)).await;
    assert!(first.lump > 0 && first.epoch == FIRST + 5, "{first:?}");
    let id = fleet.marker()[..32].to_owned();

    fleet.hands.set(after(6000));
    let operation = lent("window", window(), ask(1, 2, FIRST));
    let answer = member.run(&Batch::each(RequestId(1), [operation])).await.unwrap();
    assert_eq!(answer.grants[0].unwrap().epoch, FIRST + 5, "no further epoch begins");
    assert_eq!(fleet.marker(), format!("{id}.{}.{}000000.1.2", FIRST + 5, FIRST + 5));
    assert_eq!((member.stats().lost, newcomer.stats().lost), (1, 0));
    assert_eq!(newcomer.loss(), None, "it has not called since");
    newcomer.now().await.unwrap();
    assert_eq!(newcomer.loss().unwrap().began, after(5000));
    assert_eq!((newcomer.stats().lost, fleet.marker().starts_with(&id)), (0, true));
}

#[tokio::test(flavor = "current_thread")]
async fn an_acknowledgement_ends_losses_that_began_before_it_and_none_that_is_noticed_later() {
    let name = "an_acknowledgement_ends_losses_that_began_before_it_and_none_that_is_noticed_later";
    let Some(fleet) = Fleet::start() else { return skip(name) };
    let member = fleet.member();
    member.now().await.unwrap();
    fleet.loses_all();
    member.now().await.unwrap();
    let id = fleet.marker()[..32].to_owned();
    fleet.hands.set(after(1000));
    member.acknowledge_loss().unwrap();
    assert_eq!(member.loss(), None);
    // Another member has noticed another loss meanwhile.
    let later = format!("{id}.{}.{}000000.1.2", FIRST + 7, FIRST + 2);
    fleet.set_marker(&later);
    member.now().await.unwrap();
    assert_eq!(fleet.marker(), format!("{later}.{}000000", FIRST + 1));
    assert_eq!((member.stats().lost, member.loss().unwrap().began), (1, after(2000)));
    // And so where all is lost once more.
    fleet.hands.set(after(3000));
    member.acknowledge_loss().unwrap();
    fleet.loses_all();
    fleet.hands.set(after(4000));
    member.now().await.unwrap();
    assert_eq!((member.stats().lost, member.loss().unwrap().began), (2, after(4000)));
    assert!(
        fleet.epoch().starts_with(&format!("{}.{}000000.1.2", FIRST + 8, FIRST + 4)),
        "{}",
        fleet.epoch()
    );
    // Acknowledged a last time it is over, and stays so.
    member.acknowledge_loss().unwrap();
    member.now().await.unwrap();
    let marker = fleet.marker();
    assert!(fleet.epoch().starts_with(&format!("{}.{}000000.0.2.", FIRST + 8, FIRST + 4)), "{marker}");
    member.now().await.unwrap();
    assert_eq!((fleet.marker(), member.loss()), (marker, None));
}

#[tokio::test(flavor = "current_thread")]
async fn a_marker_of_an_earlier_version_is_raised_in_place_and_nothing_else_about_it_changes() {
    let name = "a_marker_of_an_earlier_version_is_raised_in_place_and_nothing_else_about_it_changes";
    let Some(fleet) = Fleet::start() else { return skip(name) };
    let id = "0123456789abcdef0123456789abcdef";
    for (old, raised) in [
        (id.to_owned(), format!("{id}.1.0.0.2")),
        (format!("{id}.7.5000000.0"), format!("{id}.7.5000000.0.2")),
        (format!("{id}.7.5000000.1"), format!("{id}.7.5000000.1.2")),
        (format!("{id}.7.5000000.1.1"), format!("{id}.7.5000000.1.2")),
    ] {
        fleet.set_marker(&old);
        let (member, other) = (fleet.member(), fleet.member());
        member.now().await.unwrap();
        assert_eq!(fleet.marker(), raised);
        other.now().await.unwrap();
        assert_eq!((fleet.marker(), member.stats().lost, other.stats().lost), (raised.clone(), 0, 0));
        assert_eq!(member.loss().is_some(), raised.contains(".1.2"));
    }
    fleet.set_marker(id);
    let (member, other) = (fleet.member(), fleet.member());
    member.now().await.unwrap();
    other.now().await.unwrap();
    fleet.loses_all();
    assert_eq!(asks(&member, rate(), ask(1, 3, 1)).await.epoch, FIRST + 1);
    assert_eq!(asks(&other, rate(), ask(2, 1, 0)).await.epoch, FIRST + 1);
    assert_eq!(other.loss().unwrap().expected, id);
}

#[tokio::test(flavor = "current_thread")]
async fn a_member_of_an_older_protocol_decides_nothing_on_a_store_that_a_newer_one_has_raised() {
    let name = "a_member_of_an_older_protocol_decides_nothing_on_a_store_that_a_newer_one_has_raised";
    let Some(fleet) = Fleet::start() else { return skip(name) };
    let mut config = fleet.server.config();
    (config.clock, config.protocol) = (fleet.hands.clock(), 1);
    config.breaker.failures = 1000;
    let older = RedisStore::open(config).unwrap();
    assert!(asks(&older, window(), ask(1, 1, 0)).await.lump > 0);
    assert_eq!((fleet.epoch(), protocol(&older)), (format!("{FIRST}.{FIRST}000000.0.1"), None));

    let newer = fleet.member();
    newer.now().await.unwrap();
    let raised = fleet.marker();
    assert!(raised.ends_with(&format!(".{FIRST}.{FIRST}000000.0.2")), "{raised}");
    assert_eq!((newer.stats().lost, protocol(&newer)), (0, None));

    let names = |fleet: &Fleet| -> Vec<String> {
        let mut names: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut fleet.server.client()).unwrap();
        names.sort();
        names
    };
    let before = names(&fleet);
    // As much as a member that has just started as one that was there before.
    let mut config = fleet.server.config();
    (config.clock, config.protocol) = (fleet.hands.clock(), 1);
    let started = RedisStore::open(config).unwrap();
    for member in [&older, &started] {
        let check = Operation::new(key("other"), rate(), Kind::Check { cost: Cost::ONE });
        let error = member.run(&Batch::each(RequestId(2), [check])).await.unwrap_err();
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(
            cause.contains("newer lease protocol (2, this member speaks 1); upgrade this member"),
            "{cause}"
        );
        assert!(!error.is_outcome_unknown() && error.is_transient(), "{error}");
        assert_eq!((protocol(member), member.stats().lost), (Some(2), 0));
    }
    assert_eq!((names(&fleet), fleet.marker()), (before, raised));
    // An older member never lowers the number, also where it notices a loss first.
    fleet.loses_all();
    fleet.hands.set(after(1000));
    newer.now().await.unwrap();
    let error = older.now().await.unwrap_err();
    assert!(error.to_string().contains("is unavailable"), "{error}");
    assert!(fleet.epoch().ends_with(".1.2"), "{}", fleet.epoch());
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
    assert_eq!(fleet.epoch(), format!("{}.5000000.1.2", FIRST + 1));
    // A marker of another life whose number is higher: that epoch is kept, as one after a loss.
    fleet.set_marker(&format!("{}.4000000000.5000000.0.2", "f".repeat(32)));
    member.now().await.unwrap();
    assert_eq!(fleet.marker(), format!("{}.4000000000.5000000.1.2", "f".repeat(32)));
    // One whose number is not higher holders would not obey: another epoch begins.
    fleet.set_marker(&format!("{}.{}.5000000.1.2", "a".repeat(32), FIRST));
    member.now().await.unwrap();
    assert_eq!(fleet.marker(), format!("{}.4000000001.5000000.1.2", "a".repeat(32)));
    // A failover has brought an earlier epoch of the same life back, without a loss that could be
    // told.
    let lost = member.stats().lost;
    fleet.set_marker(&format!("{}.{}.5000000.1.2", "a".repeat(32), FIRST));
    member.now().await.unwrap();
    assert_eq!(fleet.marker(), format!("{}.4000000001.5000000.1.2", "a".repeat(32)));
    assert_eq!(member.stats().lost, lost);
    // No epoch exists above the highest.
    fleet.set_marker(&format!("{}.{}.5000000.0.2", "e".repeat(32), u32::MAX));
    member.now().await.unwrap();
    fleet.loses_all();
    member.now().await.unwrap();
    assert!(fleet.epoch().starts_with(&format!("{}.5000000.1.2", u32::MAX)), "{}", fleet.epoch());
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
    assert_eq!(names, ["tidegate:epoch"], "an ask was decided although the loss is not acknowledged");
    // Another member may acknowledge it, also one that has not noticed anything.
    let mut config = fleet.server.config();
    (config.clock, config.on_loss) = (fleet.hands.clock(), OnLoss::Refuse);
    let other = RedisStore::open(config).unwrap();
    assert!(matches!(other.now().await, Err(StoreError::DataLost { .. })));
    fleet.hands.set(after(1));
    other.acknowledge_loss().unwrap();
    other.now().await.unwrap();
    assert!(member.run(&batch).await.unwrap().grants[0].is_some());
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
    // The margin of ten seconds; a lease of a few, or as long as it was asked for; what it drains
    // in.
    let member = ask(1, 1, 0);
    let limits = [
        (rate(), member, 10_000..=18_000),
        (rate(), Ask { lifetime: minute, ..member }, 69_000..=71_000),
        (Algorithm::bucket(Rate::new(10, minute).unwrap()).unwrap(), member, 10_000..=77_000),
        (Algorithm::Fixed(Fixed::new(10, minute, WindowStart::FirstHit).unwrap()), member, 69_000..=70_000),
    ];
    for (index, (algorithm, ask, kept)) in limits.into_iter().enumerate() {
        let operation = lent(&index.to_string(), algorithm.clone(), ask);
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
    assert_eq!(store.stats().undo_failed, 0);

    // A slot that nobody has used yet is as old as the cluster, so its first bucket is not empty.
    hands.set(after(30_000));
    let first = store.run(&Batch::each(RequestId(5), [lent("first", rate(), ask(1, 1, 0))])).await.unwrap();
    let grant = first.grants[0].unwrap();
    assert!(grant.epoch == FIRST && grant.lump > 0, "{grant:?}");
}

#[tokio::test(flavor = "current_thread")]
async fn an_acknowledgement_reaches_slots_that_its_member_has_never_touched() {
    let name = "an_acknowledgement_reaches_slots_that_its_member_has_never_touched";
    let Some(cluster) = Cluster::start() else { return skip(name) };
    let hands = Hands::default();
    hands.set(START);
    let mut config = cluster.config();
    config.clock = hands.clock();
    let open = || RedisStore::open(config.clone()).unwrap();
    let (member, other) = (open(), open());
    let look = |id: u128, name: &str| {
        let peek = Operation::new(key(name), rate(), Kind::Check { cost: Cost::ONE });
        Batch::each(RequestId(id), [peek])
    };
    member.now().await.unwrap();
    other.now().await.unwrap();
    other.run(&look(1, "slot")).await.unwrap();
    cluster.loses_all();
    hands.set(after(1000));
    // Only the slot of a counter is called there, and only the slot of notes here.
    other.run(&look(2, "slot")).await.unwrap();
    assert_eq!(other.loss_of(&key("slot")).unwrap().began, after(1000));
    assert!(member.loss_of(&key("slot")).is_none());
    hands.set(after(2000));
    member.acknowledge_loss();
    member.now().await.unwrap();
    // The next look at the slot of notes tells every member.
    other.now().await.unwrap();
    assert_eq!((other.loss_of(&key("slot")), other.loss()), (None, None));
    let started = open();
    started.run(&look(3, "slot")).await.unwrap();
    assert_eq!((started.loss_of(&key("slot")), started.loss()), (None, None));
    // A loss that is noticed later is not acknowledged.
    cluster.loses_all();
    hands.set(after(3000));
    other.run(&look(4, "slot")).await.unwrap();
    member.now().await.unwrap();
    other.now().await.unwrap();
    assert_eq!(other.loss_of(&key("slot")).unwrap().began, after(3000));
    assert!(member.loss().is_some());
}
