//! Ledgers of leased limits, compared answer by answer with the pure code.
//!
//! When a store's epoch began is its own affair. So every case asks once, which tells the number of
//! the epoch.

use core::time::Duration;
use std::collections::BTreeMap;

use tidegate_core::algorithm::{Bucket, Calendar, CivilUnit, Fixed, Verdict, WindowStart};
use tidegate_core::lease::{Ask, Epoch, Grant, HOLDERS_MAX, HolderName, LIFETIME_MAX, Ledger, Terms};
use tidegate_core::{Algorithm, Rate, Timestamp};

use super::harness::ConformanceStore;
use super::random::Random;
use super::trial::{LIMIT, Passed, Stopped, Trial, cost, ensure, key};
use crate::{Batch, Key, Kind, Note, NoteChange, NoteKind, OnLedger, Operation, Store};

/// How many keys a list plays on.
const KEYS: u64 = 3;
/// How many holders ask for each.
const HOLDERS: u64 = 8;
/// From which on they are streams of one peer, with leases of a lifetime.
const STREAMS: u64 = 5;
/// How long the leases of streams last.
const LIFETIME: Duration = Duration::from_secs(23);
/// Longer than a stream may be silent before another of its peer takes over its lease.
const STALE: Duration = Duration::from_secs(7);
/// The lease periods that keys change between.
const LEASE_PERIODS: [Duration; 4] =
    [Terms::PERIOD, Terms::PERIOD_MIN, Duration::from_micros(7_000_001), Terms::PERIOD_MAX];
/// Longer than any bucket here takes to refill.
const LONG: Duration = Duration::from_hours(3);

/// Buckets: fast, slow, odd, small, and between them as numbers that change.
pub fn bucket_ledgers_lend_as_the_pure_code_does<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    LedgerPlayer::new(trial, buckets())?.play(trial.can.operations / 4)
}

/// Windows aligned to the epoch and to the first ask.
pub fn fixed_window_ledgers_lend_as_the_pure_code_does<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    LedgerPlayer::new(trial, fixed(WindowStart::Epoch))?.play(trial.can.operations / 8)?;
    let other = Trial::new(trial.harness);
    LedgerPlayer::new(&other, fixed(WindowStart::FirstHit))?.play(trial.can.operations / 8)
}

/// Civil windows.
pub fn calendar_ledgers_lend_as_the_pure_code_does<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    LedgerPlayer::new(trial, calendars())?.play(trial.can.operations / 8)
}

/// More holders than have a place, and those that come when some have left.
pub fn a_ledger_of_too_many_holders_serves_them_as_the_pure_code_does<H: ConformanceStore>(
    trial: &Trial<'_, H>,
) -> Passed {
    for algorithm in [&buckets()[0], &fixed(WindowStart::Epoch)[0]] {
        let other = Trial::new(trial.harness);
        let mut player = LedgerPlayer::new(&other, vec![algorithm.clone()])?;
        let holders: Vec<_> = (0..HOLDERS_MAX as u64 + 20).map(|member| name(member, 1)).collect();
        for turn in 0..3 {
            for some in holders.chunks(Batch::OPERATIONS_MAX) {
                let asks = some.iter().map(|holder| {
                    let is_leaving = turn == 1 && holder.member % 16 == 0;
                    Ask { demand: 20, need: 1 + holder.member % 3, is_leaving, ..first(*holder, 1 + turn) }
                });
                player.run(asks.map(|ask| (0, OnLedger::Ask(ask))).collect())?;
                other.advance(Duration::from_millis(20));
            }
        }
    }
    Ok(())
}

/// The same of streams of peers, which find the places of those that were before them.
pub fn a_ledger_of_too_many_streams_serves_them_as_the_pure_code_does<H: ConformanceStore>(
    trial: &Trial<'_, H>,
) -> Passed {
    let mut player = LedgerPlayer::new(trial, vec![buckets()[1].clone()])?;
    for turn in 0..4 {
        let streams = (0..HOLDERS_MAX as u64 + 20).filter(|place| turn % 2 == 0 || place % 3 > 0);
        let asks: Vec<_> = streams
            .map(|place| {
                let holder = name(place / 2, 10 * turn + 1 + (place % 2) as u32);
                Ask { demand: 20, need: 1 + place % 3, lifetime: LIFETIME, ..first(holder, 1) }
            })
            .collect();
        for some in asks.chunks(Batch::OPERATIONS_MAX) {
            player.run(some.iter().map(|ask| (0, OnLedger::Ask(*ask))).collect())?;
            trial.advance(Duration::from_millis(20));
        }
        trial.advance(STALE);
    }
    Ok(())
}

/// A stream that takes over the lease of its peer's former one has its place and its rate, and a
/// lease as long as it asked for.
pub fn a_stream_takes_over_the_stale_lease_of_its_peer<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    let mut player = LedgerPlayer::new(trial, buckets())?;
    let ask = |holder, seq| Ask { demand: 900, need: 20, lifetime: LIFETIME, ..first(holder, seq) };
    let other = Ask { demand: 100, ..ask(name(2, 1), 1) };
    let other = player.run(vec![(0, OnLedger::Ask(other))])?;
    let given = player.run(vec![(0, OnLedger::Ask(ask(name(1, 1), 1)))])?;
    let ([Some(_)], [Some(given)]) = (&other[..], &given[..]) else {
        return Err(Stopped::Failed(format!("first asks were answered {other:?} and {given:?}")));
    };
    ensure!(given.ttl == LIFETIME, "a lease of {:?} where {LIFETIME:?} were asked for", given.ttl);
    trial.advance(STALE);
    let taken = player.run(vec![(0, OnLedger::Ask(ask(name(1, 2), 1)))])?;
    let [Some(taken)] = taken[..] else {
        return Err(Stopped::Failed(format!("a second stream was answered {taken:?}")));
    };
    ensure!(
        taken.members == 2 && taken.rate >= given.rate && taken.ttl == LIFETIME,
        "a stream that comes after another of its peer is granted {taken:?}, and the other {given:?}"
    );
    Ok(())
}

/// The tokens of an answer that was lost are given again, under whatever id they are asked for, and
/// cost nothing. The rest of the answer may differ.
pub fn a_repeated_ask_gets_the_same_grant_and_changes_nothing<H: ConformanceStore>(
    trial: &Trial<'_, H>,
) -> Passed {
    for (at, algorithm) in lendable(trial).into_iter().enumerate() {
        let mut player = LedgerPlayer::new(trial, vec![algorithm])?;
        let place = KEYS + at as u64;
        let ask = Ask { demand: 40, need: 3, ..first(name(7, 1), 1) };
        let batch = Batch::each(trial.id(), [player.operation(place, OnLedger::Ask(ask))]);
        let given = player.run_batch(&batch)?;
        let lump = given.first().copied().flatten().map_or(0, |grant| grant.lump);
        ensure!(lump >= 3, "a fresh limit lends {given:?} where three are needed");
        let (look, dump) = (player.look(place)?, trial.harness.dump(&trial.store));
        // The same batch again, and the same ask in another one.
        player.run_batch(&batch)?;
        player.run(vec![(place, OnLedger::Ask(ask))])?;
        let again = player.run(vec![(place, OnLedger::Ask(ask)), (place, OnLedger::Ask(ask))])?;
        for grant in again {
            let tells =
                |grant: Option<Grant>| grant.map(|grant| (grant.lump, grant.held, grant.rate, grant.ttl));
            ensure!(tells(grant) == tells(given[0]), "asked again {grant:?}, before {given:?}");
        }
        let (after, dumped) = (player.look(place)?, trial.harness.dump(&trial.store));
        ensure!(
            after == look && dumped == dump,
            "asked again: {after} used of {look}; {dump:?} became {dumped:?}"
        );
        // A later ask is another one, and the former is overtaken.
        trial.advance(Duration::from_secs(1));
        player.run(vec![(place, OnLedger::Ask(ask))])?;
        let next = Ask { seq: 2, acked: 1, left: lump, need: 0, ..ask };
        player.run(vec![(place, OnLedger::Ask(next))])?;
        let overtaken = player.run(vec![(place, OnLedger::Ask(ask))])?;
        ensure!(overtaken == [None], "an ask that was overtaken: {overtaken:?}");
    }
    Ok(())
}

/// Asks on several keys and on one, each decided on what those before it left, beside counters.
pub fn asks_in_one_batch_are_answered_in_their_order<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    for algorithm in lendable(trial) {
        let other = Trial::new(trial.harness);
        let mut player = LedgerPlayer::new(&other, vec![algorithm.clone()])?;
        let ask = |member| OnLedger::Ask(Ask { demand: 30, need: 2, ..first(name(member, 1), 1) });
        let report = OnLedger::Report { cost: cost(3) };
        player.run(vec![(0, ask(1)), (1, ask(2)), (0, ask(3)), (0, report), (0, ask(4)), (2, ask(1))])?;
        player.run(vec![(0, OnLedger::Look), (1, OnLedger::Reset), (1, ask(5)), (1, OnLedger::Look)])?;
        // Between operations on counters, which say what they always do.
        let counter = other.admit(&key("a counter beside ledgers"), &algorithm);
        let lends = [player.operation(0, ask(6)), player.operation(2, ask(7))];
        let [first, second] = lends.clone();
        let answer = other.all([counter.clone(), first, counter, second])?;
        let used: Vec<_> = [0, 2].map(|index| answer.outcomes[index].used).to_vec();
        ensure!(used == [1, 2], "a counter beside ledgers: {:?}", answer.outcomes);
        let expected: Vec<_> =
            lends.iter().map(|operation| player.pure.run(operation, other.now()).grant).collect();
        ensure!(
            answer.grants[..] == expected[..],
            "beside counters {:?} were granted, not {expected:?}",
            answer.grants
        );
    }
    Ok(())
}

/// A ledger and the notes of its batch change together, or neither does.
pub fn an_ask_takes_effect_with_the_notes_beside_it<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    for (at, algorithm) in lendable(trial).into_iter().enumerate() {
        let mut player = LedgerPlayer::new(trial, vec![algorithm])?;
        let place = 2 * KEYS + at as u64;
        let until = trial.now().saturating_add(Duration::from_mins(10));
        let name = [at as u8, 1];
        let note = Note { kind: NoteKind::Permit, name: name.into(), value: [7].into(), until };
        let ask = Ask { demand: 40, need: 2, ..first(self::name(3, 1), 1) };
        let with_note = |ask| {
            let batch = Batch::each(trial.id(), [player.operation(place, OnLedger::Ask(ask))]);
            batch.with_notes([NoteChange::Create(note.clone())])
        };
        let (created, refused) = (with_note(ask), with_note(Ask { seq: 2, acked: 1, ..ask }));
        let given = player.run_batch(&created)?;
        ensure!(trial.notes(NoteKind::Permit)?.contains(&note), "the note beside an ask is not there");
        let look = player.look(place)?;
        let answer = trial.run(&refused)?;
        ensure!(answer.refused && answer.grants[..] == [None], "refused by its note: {answer:?}");
        ensure!(player.look(place)? == look, "a batch refused by its note has lent");
        if trial.can.answers > 0 {
            let again = trial.run(&created)?;
            let tells =
                |grant: Option<Grant>| grant.map(|grant| (grant.seq, grant.lump, grant.held, grant.rate));
            let same = again.grants.len() == 1 && tells(again.grants[0]) == tells(given[0]);
            ensure!(same && !again.refused, "an ask with a note, sent again: {again:?}, before {given:?}");
            ensure!(player.look(place)? == look, "an ask with a note, sent again, was lent again");
        }
    }
    Ok(())
}

/// Refused with a counter that is used up: nothing is lent, booked or given back.
pub fn a_refused_batch_leaves_every_ledger_as_it_was<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    for algorithm in lendable(trial) {
        let other = Trial::new(trial.harness);
        let mut player = LedgerPlayer::new(&other, vec![algorithm.clone()])?;
        let full = key("used up");
        let limit =
            Fixed::new(LIMIT, Duration::from_hours(1), WindowStart::FirstHit).expect("an hour is a window");
        other.spend(&full, &Algorithm::Fixed(limit.clone()), LIMIT)?;
        let ask = |member, seq| Ask { demand: 30, need: 2, ..first(name(member, 1), seq) };
        player.run(vec![(0, OnLedger::Ask(ask(1, 1))), (0, OnLedger::Report { cost: cost(2) })])?;
        let (looks, dump) = ([player.look(0)?, player.look(1)?], other.harness.dump(&other.store));
        for position in [0, 6] {
            let mut operations: Vec<_> = [
                (0, OnLedger::Ask(Ask { acked: 1, ..ask(1, 2) })),
                (1, OnLedger::Ask(ask(2, 1))),
                (0, OnLedger::Ask(ask(3, 1))),
                (0, OnLedger::Report { cost: cost(5) }),
                (0, OnLedger::Refund { cost: cost(1) }),
                (0, OnLedger::Reset),
            ]
            .map(|(place, what)| player.operation(place, what))
            .to_vec();
            operations.insert(position, other.admit(&full, &Algorithm::Fixed(limit.clone())));
            let answer = other.all(operations)?;
            ensure!(answer.refused, "a batch with a counter that is used up was admitted");
            ensure!(answer.grants[..] == [None; 3], "a refused batch lends {:?}", answer.grants);
            let moved = answer.outcomes.iter().any(|outcome| outcome.units > 0);
            ensure!(!moved, "a refused batch moved units: {:?}", answer.outcomes);
            let (after, dumped) = ([player.look(0)?, player.look(1)?], other.harness.dump(&other.store));
            ensure!(
                after == looks && dumped == dump,
                "a refused batch left {after:?} of {looks:?}; {dump:?} became {dumped:?}"
            );
        }
        player.run(vec![(0, OnLedger::Ask(Ask { acked: 1, ..ask(1, 2) })), (1, OnLedger::Ask(ask(2, 1)))])?;
    }
    Ok(())
}

/// The holders with their leases, and the reported and refunded units.
pub fn what_was_lent_survives_a_restart<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    let mut trial = Trial::new(trial.harness);
    for family in [buckets(), fixed(WindowStart::Epoch), fixed(WindowStart::FirstHit), calendars()] {
        if family.iter().any(|algorithm| !trial.store.supports(algorithm)) {
            continue;
        }
        let mut player = LedgerPlayer::new(&trial, family)?;
        player.play(300)?;
        let LedgerPlayer { families, random, pure, holders, of, periods, .. } = player;
        trial = trial.reopened()?;
        LedgerPlayer { trial: &trial, families, random, pure, holders, of, periods }.play(300)?;
        trial = Trial::new(trial.harness);
    }
    Ok(())
}

/// One algorithm with several sets of numbers, which keys change between.
type LedgerFamily = Vec<Algorithm>;

fn buckets() -> LedgerFamily {
    let numbers = [
        (100, 1000, 50),
        (1000, 1000, 20),
        (7, 300_000, 12),
        (1, 400, 3),
        (1000, 999, 4000),
        (1_000_000, 1000, 900_000),
    ];
    let bucket = |(units, millis, burst)| {
        let rate = Rate::new(units, Duration::from_millis(millis)).expect("slow enough");
        Algorithm::Bucket(Bucket::new(rate, burst).expect("refills soon enough"))
    };
    numbers.into_iter().map(bucket).collect()
}

fn fixed(start: WindowStart) -> LedgerFamily {
    let fixed =
        |limit| Algorithm::Fixed(Fixed::new(limit, Duration::from_secs(20), start).expect("a window"));
    [500, 2000, 12, 1_000_000, 0].into_iter().map(fixed).collect()
}

fn calendars() -> LedgerFamily {
    let calendar = |limit| Calendar::new(limit, CivilUnit::Minute, "Asia/Kolkata").expect("a zone");
    [500, 2000, 12, 1_000_000].into_iter().map(|limit| Algorithm::Calendar(calendar(limit))).collect()
}

/// One limit of each kind that is lent and that the store supports.
fn lendable<H: ConformanceStore>(trial: &Trial<'_, H>) -> Vec<Algorithm> {
    let all = [buckets(), fixed(WindowStart::Epoch), fixed(WindowStart::FirstHit), calendars()];
    let first = all.into_iter().filter_map(|family| family.into_iter().next());
    first.filter(|algorithm| trial.store.supports(algorithm)).collect()
}

/// The name of a holder of a list.
fn name_at(place: u64) -> HolderName {
    if place < STREAMS { name(place, 1) } else { name(STREAMS, place as u32 * 100_000) }
}

fn name(member: u64, incarnation: u32) -> HolderName {
    // Members are numbers of 64 bits, which doubles do not tell apart.
    HolderName { member: u64::MAX - 3 * member, incarnation }
}

/// An ask of a holder that has nothing and wants nothing.
fn first(holder: HolderName, seq: u32) -> Ask {
    Ask { seq, ..Ask::first(holder, 0) }
}

/// The expected answers of the pure code.
struct LedgerModel {
    epoch: Epoch,
    ledgers: BTreeMap<Key, Ledger>,
}

/// The expected answer to one operation.
struct ExpectedAnswer {
    units: u64,
    grant: Option<Grant>,
    used: u64,
    limit: u64,
}

impl LedgerModel {
    fn run(&mut self, operation: &Operation, now: Timestamp) -> ExpectedAnswer {
        let terms = operation.terms(now).expect("limits that are lent");
        let Kind::Ledger(what) = operation.kind else { unreachable!("ledgers only") };
        let begun = || Ledger::begin(&terms, &self.epoch);
        let (mut units, mut grant) = (0, None);
        if what != OnLedger::Look {
            let ledger = self.ledgers.entry(operation.key.clone()).or_insert_with(begun);
            match what {
                OnLedger::Ask(ask) => {
                    grant = ledger.ask(now, &terms, &self.epoch, &ask).grant;
                    units = grant.map_or(0, |grant| grant.lump.into());
                }
                OnLedger::Report { cost } => units = ledger.report(now, &terms, &self.epoch, cost),
                OnLedger::Refund { cost } => units = ledger.refund(now, &terms, &self.epoch, cost),
                OnLedger::Reset => units = ledger.reset(now, &terms, &self.epoch),
                OnLedger::Look => {}
            }
        }
        let used = self.ledgers.get(&operation.key).map_or_else(
            || Ledger::begin(&terms, &self.epoch).level(now, &terms).0,
            |ledger| ledger.level(now, &terms).0,
        );
        ExpectedAnswer { units, grant, used, limit: terms.largest() }
    }
}

/// A holder as a list plays it: what it says need not make sense, only be answered alike.
#[derive(Clone, Copy)]
struct Played {
    /// The ask before the last one.
    former: Option<Ask>,
    last: Ask,
    held: u32,
    rate: u32,
    acked: u32,
}

/// Asks the store and the pure code the same.
struct LedgerPlayer<'t, 'h, H: ConformanceStore> {
    trial: &'t Trial<'h, H>,
    families: LedgerFamily,
    /// Which of the family each key counts by.
    of: BTreeMap<u64, usize>,
    /// The lease period of each key, where it is not [`Terms::PERIOD`].
    periods: BTreeMap<u64, Duration>,
    random: Random,
    pure: LedgerModel,
    holders: BTreeMap<(u64, u64), Played>,
}

impl<'t, 'h, H: ConformanceStore> LedgerPlayer<'t, 'h, H> {
    fn new(trial: &'t Trial<'h, H>, families: LedgerFamily) -> Result<Self, Stopped> {
        families.iter().try_for_each(|algorithm| trial.needs(algorithm))?;
        let ask = Kind::Ledger(OnLedger::Ask(first(name(0, 1), 1)));
        let scratch = Operation::new(key("which epoch"), families[0].clone(), ask);
        let answer = trial.all([scratch])?;
        let [Some(grant)] = answer.grants[..] else {
            return Err(Stopped::Failed(format!(
                "the first ask of a ledger was answered {:?}",
                answer.grants
            )));
        };
        ensure!(grant.epoch > 0, "the store's epoch is {}, and must be at least 1", grant.epoch);
        let epoch = Epoch { number: grant.epoch, began: trial.now(), is_after_loss: false };
        trial.advance(LONG);
        let (random, ledgers) = (trial.random(), BTreeMap::new());
        let (of, periods, holders) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Ok(Self { trial, families, of, periods, random, pure: LedgerModel { epoch, ledgers }, holders })
    }

    fn operation(&self, place: u64, what: OnLedger) -> Operation {
        let algorithm = &self.families[self.of.get(&place).copied().unwrap_or(0)];
        let operation = Operation::new(key(&format!("lent {place}")), algorithm.clone(), Kind::Ledger(what));
        match self.periods.get(&place) {
            Some(period) => operation.with_lease_period(*period),
            None => operation,
        }
    }

    /// Runs these on both and compares everything that is said; what was granted.
    fn run(&mut self, operations: Vec<(u64, OnLedger)>) -> Result<Vec<Option<Grant>>, Stopped> {
        let operations = operations.into_iter().map(|(place, what)| self.operation(place, what));
        let batch = Batch::each(self.trial.id(), operations);
        self.run_batch(&batch)
    }

    fn run_batch(&mut self, batch: &Batch) -> Result<Vec<Option<Grant>>, Stopped> {
        let now = self.trial.now();
        let answer = self.trial.run(batch)?;
        ensure!(!answer.refused, "a batch of nothing but ledgers was refused: {answer:?}");
        let mut expected = Vec::new();
        for (operation, outcome) in batch.operations.iter().zip(&answer.outcomes) {
            let said = self.pure.run(operation, now);
            if operation.kind.ask().is_some() {
                expected.push(said.grant);
            }
            let (kind, name) = (operation.kind, operation.algorithm.name());
            let told = (outcome.verdict, outcome.limit, outcome.used, outcome.remaining, outcome.counted);
            let left = said.limit.saturating_sub(said.used);
            ensure!(
                told == (Verdict::Admit, said.limit, said.used, left, true),
                "{kind:?} of a {name} limit at {now}: {outcome:?}, and the pure code has {} of {} used",
                said.used,
                said.limit
            );
            ensure!(
                outcome.units == said.units,
                "{kind:?} of a {name} limit at {now}: {outcome:?}, and {} units",
                said.units
            );
            ensure!(outcome.reset_at >= now, "{kind:?} of a {name} limit at {now}: {outcome:?}");
        }
        ensure!(
            answer.grants[..] == expected[..],
            "at {now} {:?} were granted {:?}, and by the pure code {expected:?}",
            batch.operations,
            answer.grants
        );
        Ok(expected)
    }

    /// The used units.
    fn look(&mut self, place: u64) -> Result<u64, Stopped> {
        self.run(vec![(place, OnLedger::Look)])?;
        let operation = self.operation(place, OnLedger::Look);
        Ok(self.pure.run(&operation, self.trial.now()).used)
    }

    /// Plays a random list.
    fn play(&mut self, operations: usize) -> Passed {
        let mut played = 0;
        while played < operations {
            self.pass();
            if self.random.once(60) {
                let (place, which) = (self.random.below(KEYS), self.random.below(self.families.len() as u64));
                self.of.insert(place, which as usize);
            }
            if self.random.once(30) {
                // As while a fleet is reloaded, and members disagree.
                let place = self.random.below(KEYS);
                self.periods.insert(place, *self.random.pick(&LEASE_PERIODS));
            }
            let count = if self.random.once(4) { 1 + self.random.below(4) } else { 1 };
            let mut chosen = Vec::new();
            let mut asked = Vec::new();
            for _ in 0..count {
                let place = self.random.below(KEYS);
                let what = self.choose(place, &mut asked);
                chosen.push((place, what));
            }
            played += chosen.len();
            for (holder, grant) in asked.into_iter().zip(self.run(chosen)?) {
                self.heard(holder, grant);
            }
        }
        Ok(())
    }

    /// Mostly nothing or a moment passes, now and then a window, and sometimes the clock steps
    /// back.
    fn pass(&mut self) {
        let most: u64 = match self.random.below(100) {
            0..40 => 0,
            40..70 => 50_000_000,
            70..85 => 1_000_000_000,
            85..95 => 6_000_000_000,
            95..98 => 70_000_000_000,
            _ => {
                let back = Duration::from_millis(self.random.below(2000));
                self.trial.set_now(self.trial.now().saturating_sub(back));
                return;
            }
        };
        let step = self.trial.step();
        self.trial.advance(Duration::from_nanos(self.random.below(most + 1) / step * step));
    }

    /// Draws the next operation on a key; an ask is added to `asked`.
    fn choose(&mut self, place: u64, asked: &mut Vec<(u64, u64)>) -> OnLedger {
        let limit = self.operation(place, OnLedger::Look).algorithm.limit().max(1);
        let some = |random: &mut Random| {
            let most = if random.once(3) { limit } else { limit.min(9) };
            cost(1 + random.below(most))
        };
        match self.random.below(100) {
            0..5 => return OnLedger::Look,
            5..9 => return OnLedger::Report { cost: some(&mut self.random) },
            9..13 => return OnLedger::Refund { cost: some(&mut self.random) },
            13 => return OnLedger::Reset,
            14 if self.random.once(4) => return OnLedger::Report { cost: cost(1 << 50) },
            _ => {}
        }
        let holder = (place, self.random.below(HOLDERS));
        asked.push(holder);
        let known = self.holders.get(&holder).copied();
        let ask = match known {
            Some(played) if self.random.once(10) => return OnLedger::Ask(played.last),
            Some(Played { former: Some(former), .. }) if self.random.once(20) => {
                return OnLedger::Ask(former);
            }
            Some(played) => self.next(&played, limit),
            None => Ask { need: self.random.below(4), ..first(name_at(holder.1), 1) },
        };
        let lifetime = if holder.1 < STREAMS { Duration::ZERO } else { self.lifetime() };
        let ask = Ask { lifetime, ..ask };
        let mut played = known.unwrap_or(Played { former: None, last: ask, held: 0, rate: 0, acked: 0 });
        played.former = known.map(|played| played.last);
        played.last = ask;
        if ask.is_leaving {
            // It comes back as another holder.
            let holder = HolderName { incarnation: ask.holder.incarnation + 1, ..ask.holder };
            played = Played { former: Some(ask), last: first(holder, 0), held: 0, rate: 0, acked: 0 };
        }
        self.holders.insert(holder, played);
        OnLedger::Ask(ask)
    }

    /// How long a stream wants its lease to last, or a holder that no longer is one.
    fn lifetime(&mut self) -> Duration {
        match self.random.below(12) {
            0 => Duration::ZERO,
            1 => Duration::from_nanos(self.random.below(3_000)),
            2 => LIFETIME_MAX,
            3 => Duration::MAX,
            4 => Duration::from_nanos(self.random.below(90_000_000_000)),
            _ => LIFETIME,
        }
    }

    fn next(&mut self, played: &Played, limit: u64) -> Ask {
        let random = &mut self.random;
        let left = random.below(u64::from(played.held) + 1) as u32;
        let spent = played.held - left;
        // Sometimes more comes back than there was.
        let gone = if random.once(20) { u64::from(spent) + 3 } else { random.below(u64::from(spent) + 1) };
        let demand = match random.below(5) {
            0 => 0,
            1 => random.below(40),
            2 => random.below(3 * limit + 1).min(1 << 31),
            // Enough for a lease with a rate.
            3 => 80 + random.below(3000),
            _ => u64::from(played.last.demand),
        };
        let need = match random.below(8) {
            0..4 => 0,
            4..6 => 1 + random.below(3),
            6 => 1 + random.below(limit),
            _ => 1 + random.below(2 * limit),
        };
        Ask {
            seq: played.last.seq + 1 + u32::from(random.once(15)),
            acked: if random.once(5) { played.acked.saturating_sub(1) } else { played.acked },
            epoch: if random.once(30) { 0 } else { self.pure.epoch.number },
            left: if random.once(40) { left + 5 } else { left },
            returned: played.last.returned.wrapping_add(gone as u32),
            unused: played.last.unused.wrapping_add(if random.once(2) { random.below(9) as u32 } else { 0 }),
            demand: demand as u32,
            need,
            need_min: if random.once(2) { need } else { need.min(1 + random.below(3)) },
            is_leaving: random.once(40),
            gives_up: random.once(10),
            ..played.last
        }
    }

    fn heard(&mut self, holder: (u64, u64), grant: Option<Grant>) {
        let Some(played) = self.holders.get_mut(&holder) else { return };
        if let Some(grant) = grant
            && grant.seq == played.last.seq
            && !self.random.once(8)
        {
            (played.held, played.rate, played.acked) = (grant.held, grant.rate, grant.seq);
        }
    }
}
