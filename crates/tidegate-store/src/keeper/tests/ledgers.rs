//! Ledgers of leased limits in a keeper: their room, their epochs, and what they share a key with.

use core::time::Duration;

use tidegate_core::algorithm::{Bucket, Verdict};
use tidegate_core::lease::{Ask, Grant, HOLDERS_MAX, HolderName};

use super::*;
use crate::OnLedger;

/// 100 a second, and a burst of 50.
fn bucket() -> Algorithm {
    Algorithm::Bucket(Bucket::new(Rate::per_second(100).unwrap(), 50).unwrap())
}

fn on(name: u64, kind: Kind) -> Operation {
    Operation::new(Key::new("api", b"lent", &name.to_be_bytes()).unwrap(), bucket(), kind)
}

fn ask(member: u64, seq: u32) -> Ask {
    let holder = HolderName { member, incarnation: 1 };
    Ask { seq, acked: seq - 1, epoch: 1, demand: 10, ..Ask::first(holder, 1) }
}

fn asks(name: u64, ask: Ask) -> Operation {
    on(name, Kind::Ledger(OnLedger::Ask(ask)))
}

const LOOK: Kind = Kind::Ledger(OnLedger::Look);

/// A keeper of so many bytes, and how batches are run on it.
struct Held(Keeper, u128);

impl Held {
    fn new(change: impl FnOnce(&mut MemoryConfig)) -> Self {
        let mut config = MemoryConfig { bytes: 0, ..MemoryConfig::new([1, 2, 3, 4]) };
        change(&mut config);
        Self(Keeper::new(config), 0)
    }

    fn try_run(&mut self, operation: Operation, now: Timestamp) -> Result<Answer, StoreError> {
        self.1 += 1;
        let ran = self.0.run(&Batch::each(RequestId(self.1), [operation]), now)?;
        assert!(self.0.stats().bytes_used <= MemoryConfig::BYTES_MIN);
        Ok(ran.answer)
    }

    fn grant(&mut self, name: u64, ask: Ask, now: Timestamp) -> Grant {
        self.try_run(asks(name, ask), now).unwrap().grants[0].unwrap()
    }

    fn used(&mut self, name: u64, now: Timestamp) -> u64 {
        self.try_run(on(name, LOOK), now).unwrap().outcomes[0].used
    }
}

#[test]
fn asks_are_not_remembered_by_their_batch_and_looking_keeps_nothing() {
    let mut held = Held::new(|_| ());
    held.used(1, START);
    assert_eq!((held.0.stats().keys, held.0.stats().answers), (0, 0));
    held.grant(1, ask(1, 1), START);
    assert_eq!((held.0.stats().keys, held.0.stats().answers), (1, 0));
    held.try_run(on(1, Kind::Ledger(OnLedger::Report { cost: Cost::ONE })), START).unwrap();
    assert_eq!(held.0.stats().answers, 1);
}

#[test]
fn a_ledger_and_a_counter_under_one_key_replace_each_other() {
    let mut held = Held::new(|_| ());
    let check = Kind::Check { cost: Cost::new(20).unwrap() };
    held.try_run(on(1, check), START).unwrap();
    let charged = RequestId(held.1);
    // The ledger knows nothing of what was counted.
    assert_eq!(held.used(1, START), 0);
    let grant = held.grant(1, ask(1, 1), START);
    assert!(grant.lump >= 1);
    let undone = held.try_run(on(1, Kind::Undo { batch: charged }), START).unwrap();
    assert_eq!(undone.outcomes[0].units, 0);
    // Looking at the counter finds none, and changes none.
    let peek = Kind::Peek { cost: Cost::new(50).unwrap() };
    assert_eq!(held.try_run(on(1, peek), START).unwrap().outcomes[0].verdict, Verdict::Admit);
    assert!(held.used(1, START) >= u64::from(grant.lump));
    let refund = held.try_run(on(1, Kind::Refund { cost: Cost::ONE }), START).unwrap();
    assert_eq!(refund.outcomes[0].units, 0);
    assert!(held.used(1, START) >= u64::from(grant.lump));
    // A charge takes the key over.
    assert_eq!(held.try_run(on(1, check), START).unwrap().outcomes[0].used, 20);
    assert_eq!(held.used(1, START), 0);
}

#[test]
fn another_epoch_begins_every_ledger_anew_and_full() {
    let mut held = Held::new(|_| ());
    assert_eq!(held.0.epoch(), Keeper::FIRST_EPOCH);
    assert_eq!(held.grant(1, ask(1, 1), START).epoch, 1);
    let lost = Epoch { number: 2, began: after(10), is_after_loss: true };
    held.0.begin_epoch(lost);
    for name in [1, 2] {
        assert_eq!(held.used(name, after(10)), 0, "{name}");
        let grant = held.grant(name, ask(3, 1), after(10));
        assert_eq!(grant.epoch, 2, "{name}");
        assert!(grant.lump > 0, "{name}");
    }
}

#[test]
fn drained_ledgers_make_room_and_those_that_lend_do_not() {
    let mut held = Held::new(|_| ());
    let mut kept = 0;
    let until = loop {
        match held.try_run(asks(kept, ask(1, 1)), START) {
            Ok(_) => kept += 1,
            Err(StoreError::Full { until }) => break until,
            Err(other) => panic!("{other}"),
        }
    };
    assert!(kept > 20 && until > START);
    // A known holder is served all the same.
    assert!(held.grant(0, ask(1, 2), START).seq == 2);
    let before = until.saturating_sub(Duration::from_micros(1));
    assert!(held.try_run(asks(kept, ask(1, 1)), before).is_err());
    held.try_run(asks(kept, ask(1, 1)), until).unwrap();
    assert!(held.0.stats().keys <= kept as usize);
}

#[test]
fn a_ledger_that_lent_since_it_would_have_drained_does_not_make_room() {
    let mut held = Held::new(|_| ());
    let report = Kind::Ledger(OnLedger::Report { cost: Cost::ONE });
    let millis = |millis| START.saturating_add(Duration::from_millis(millis));
    // Somebody was there and left, so the first has a place for a lease when there is room for
    // nothing any more.
    held.grant(0, ask(2, 1), START);
    held.grant(0, Ask { is_leaving: true, ..ask(2, 2) }, START);
    let mut kept = 0;
    while held.try_run(on(kept, report), START).is_ok() {
        kept += 1;
    }
    let grant = held.grant(0, ask(1, 1), millis(5));
    // Each unit has drained after ten milliseconds; there is room for all but one again.
    for name in kept..2 * kept - 1 {
        held.try_run(on(name, report), millis(11)).unwrap();
    }
    assert!(matches!(held.try_run(on(2 * kept, report), millis(11)), Err(StoreError::Full { .. })));
    assert_eq!(held.grant(0, ask(1, 1), millis(11)).lump, grant.lump);
    assert!(held.used(0, millis(11)) >= u64::from(grant.lump));
}

#[test]
fn what_holders_take_is_counted() {
    let mut held = Held::new(|_| ());
    let empty = held.0.stats().bytes_used;
    held.grant(1, ask(1, 1), START);
    let first = held.0.stats().bytes_used - empty;
    for member in 2..=HOLDERS_MAX as u64 + 9 {
        held.grant(1, ask(member, 1), START);
    }
    let all = held.0.stats().bytes_used - empty;
    assert!(first > 200 && all > first + HOLDERS_MAX * 64 && all < 120 * HOLDERS_MAX * 2, "{first} {all}");
    // When they have gone and another is asked for more room, all of it comes back.
    for name in 2..2000 {
        let _ = held.try_run(asks(name, ask(1, 1)), after(3600));
    }
    assert_eq!(held.used(1, after(3600)), 0);
    assert!(held.0.stats().bytes_used <= MemoryConfig::BYTES_MIN);
}

#[test]
fn where_what_has_no_room_is_admitted_everyone_is_lent_what_the_first_would_be_and_told_so() {
    let mut held = Held::new(|config| config.when_full = WhenFull::Admit);
    let mut name = 0;
    let uncounted = loop {
        let answer = held.try_run(asks(name, ask(1, 1)), START).unwrap();
        if !answer.outcomes[0].counted {
            break answer;
        }
        name += 1;
    };
    assert_eq!(uncounted.grants[0].map(|grant| grant.lump), Some(held.grant(0, ask(1, 1), START).lump));
    assert_eq!(uncounted.outcomes[0].used, 0);
}

#[test]
fn a_ledger_is_written_and_read_again_with_everything_it_knows() {
    let mut world = World::new(0);
    let first = world.run([asks(1, ask(1, 1))]);
    assert!(first.changed);
    assert!(!world.run([on(1, LOOK)]).changed);
    world.run([asks(1, ask(2, 1)), on(1, Kind::Ledger(OnLedger::Report { cost: Cost::ONE }))]);
    let used = world.run([on(1, LOOK)]).answer.outcomes[0];
    assert_eq!(world.write(), (1, 0));
    let written = world.disk.values().next().unwrap().clone();
    world.keeper = World::new(0).keeper;
    assert_eq!(world.run([on(1, LOOK)]).answer.outcomes[0], used);
    let again = world.run([asks(1, ask(1, 1))]).answer.grants[0].unwrap();
    let grant = first.answer.grants[0].unwrap();
    assert_eq!(
        (again.lump, again.held, again.rate, again.ttl),
        (grant.lump, grant.held, grant.rate, grant.ttl)
    );
    // It goes from where it is written once nothing of it is left.
    let mut check = DrainCheck::new([1, 2, 3, 4]);
    assert_eq!(check.has_drained(&written, START), Ok(false));
    assert_eq!(check.has_drained(&written, after(60)), Ok(true));
}

#[test]
fn a_ledger_stays_until_its_longest_lease_has_ended() {
    let stream = Ask { lifetime: Duration::from_secs(23), ..ask(1 << 63, 1) };
    let mut world = World::new(0);
    let grant = world.run([asks(1, stream)]).answer.grants[0].unwrap();
    assert!(grant.ttl == stream.lifetime && grant.rate > 0, "{grant:?}");
    world.write();
    let written = world.disk.values().next().unwrap().clone();
    world.keeper = World::new(0).keeper;
    // It is read again, and the same ask gets the same for the rest of the time.
    world.now = after(22);
    let again = world.run([asks(1, stream)]).answer.grants[0].unwrap();
    assert_eq!((again.ttl, again.held, again.rate), (Duration::from_secs(1), grant.held, grant.rate));
    let mut check = DrainCheck::new([1, 2, 3, 4]);
    assert_eq!(check.has_drained(&written, after(22)), Ok(false));
    let drained = check.drained_at(&written, after(22)).unwrap();
    assert!((after(23)..after(24)).contains(&drained), "{drained}");
    assert_eq!(check.has_drained(&written, drained), Ok(true));

    // In memory it does not make room for others before that.
    let mut held = Held::new(|_| ());
    held.grant(0, stream, START);
    let mut kept = 1;
    while held.try_run(asks(kept, stream), START).is_ok() {
        kept += 1;
    }
    assert!(matches!(held.try_run(asks(kept, stream), after(22)), Err(StoreError::Full { .. })));
    held.try_run(asks(kept, stream), drained).unwrap();
}

#[test]
fn a_clock_that_stepped_back_lends_what_was_left_and_nothing_drains_before_it_has_come_to_where_it_was() {
    let mut world = World::new(0);
    world.now = after(3600);
    let spent = Ask { need: 45, need_min: 45, ..ask(1, 1) };
    world.run([asks(1, spent)]);
    world.write();
    world.keeper = World::new(0).keeper;
    let mut lent = 0;
    // Half a second drains it: less than that.
    for (turn, millis) in [510, 600, 800, 999].into_iter().enumerate() {
        world.now = START.saturating_add(Duration::from_millis(3_599_000 + millis));
        let more = Ask { need: 2, need_min: 1, ..ask(5, turn as u32 + 1) };
        lent += world.run([asks(1, more)]).answer.grants[0].unwrap().lump;
    }
    assert!(lent <= 5, "{lent} of the five that were left");
    world.now = after(3601);
    let more = Ask { need: 2, need_min: 1, ..ask(5, 9) };
    assert!(world.run([asks(1, more)]).answer.grants[0].unwrap().lump > 0);
}

#[test]
fn a_ledger_of_a_clock_that_was_ahead_is_used_up_and_lends_again_within_a_drain() {
    for ahead in [3600, 40 * 86_400, 1461 * 86_400] {
        let mut world = World::new(0);
        world.now = after(ahead);
        let spent = Ask { need: 45, need_min: 45, ..ask(1, 1) };
        world.run([asks(1, spent)]);
        world.write();
        world.keeper = World::new(0).keeper;
        world.now = START;
        let more = |seq| Ask { need: 2, need_min: 1, ..ask(5, seq) };
        assert_eq!(world.run([asks(1, more(1))]).answer.grants[0].unwrap().lump, 0, "it is used up");
        world.now = START.saturating_add(Duration::from_millis(500));
        assert!(world.run([asks(1, more(2))]).answer.grants[0].unwrap().lump > 0, "{ahead} s ahead");
    }
}
