//! Random lists of batches on the script and on the pure code: the answers are the same.
//!
//! The pure code is that of the memory store. Both are given the same clock, which moves in
//! microseconds, stands still, jumps and steps back; instants are compared as a clock of
//! microseconds tells them. Several batches are sent at once, so that the script also meets them
//! gathered. `TIDEGATE_DIFFERENTIAL` says how many operations there are,
//! `TIDEGATE_DIFFERENTIAL_SEED` which.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use futures_util::future::join_all;
use tidegate_core::algorithm::{
    Bucket, Calendar, Charged, CivilUnit, Concurrency, Counter, Fixed, Rolling, SlidingCounter, State,
    Verdict, Weekday, WindowStart,
};
use tidegate_core::{Algorithm, Cost, Rate, Timestamp, error_chain};
use tidegate_store::conformance::Random;
use tidegate_store::{
    Answer, Batch, BatchMode, CarryOver, FleetStore as _, HolderId, Key, Kind, MemoryConfig, MemoryStore,
    Note, NoteChange, NoteKind, Operation, Outcome, RequestId, Store, StoreError,
};
use tidegate_store_redis::RedisStore;

use crate::engine::{Stand, skip};

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1000 * MS;
pub(crate) const DAY: u64 = 86_400 * SECOND;

/// Algorithms that keys change between: the same with other numbers.
fn families() -> Vec<Vec<Algorithm>> {
    let nanos = Duration::from_nanos;
    let bucket = |units, per, burst, debt| {
        let rate = Rate::new(units, nanos(per)).unwrap();
        Algorithm::Bucket(Bucket::new(rate, burst).unwrap().with_debt(debt).unwrap())
    };
    let fixed = |limit, window, start| Algorithm::Fixed(Fixed::new(limit, nanos(window), start).unwrap());
    let calendar = |limit, unit, zone, day| {
        Algorithm::Calendar(Calendar::new(limit, unit, zone).unwrap().with_week_start(day))
    };
    let sliding =
        |limit, window| Algorithm::SlidingCounter(SlidingCounter::new(limit, nanos(window)).unwrap());
    let rolling = |limit, window| Algorithm::Rolling(Rolling::new(limit, nanos(window)).unwrap());
    let permits = |limit, hold| Algorithm::Concurrency(Concurrency::new(limit, nanos(hold)).unwrap());
    let monday = Weekday::Monday;
    vec![
        vec![
            bucket(10, SECOND, 10, 0),
            bucket(7, 300 * MS, 12, 0),
            bucket(1, 50 * MS, 3, 9),
            bucket(1000, 999 * MS, 40, 5),
            bucket(1, 100 * MS, 10, 0),
            bucket(10, SECOND, 25, 0),
        ],
        // Ratios and states as long as they get.
        vec![
            bucket(1_000_000_007, SECOND * 7 + 3, 50, 0),
            bucket(31_535_999_999_999_967, 365 * DAY, 1 << 44, 1 << 44),
            bucket(3, 365 * DAY, 3, 0),
            bucket(11, 30 * DAY + 1, 11, 100),
        ],
        vec![
            fixed(10, SECOND, WindowStart::Epoch),
            fixed(15, SECOND, WindowStart::Epoch),
            fixed(4, 1_001_000, WindowStart::Epoch),
            fixed(0, SECOND, WindowStart::Epoch),
            fixed(12, 366 * DAY, WindowStart::Epoch),
        ],
        vec![
            fixed(10, SECOND, WindowStart::FirstHit),
            fixed(15, SECOND, WindowStart::FirstHit),
            fixed(4, 1_001_000, WindowStart::FirstHit),
            fixed(3, 7 * SECOND, WindowStart::Epoch),
            fixed(12, 366 * DAY, WindowStart::FirstHit),
        ],
        vec![
            calendar(10, CivilUnit::Day, "Europe/Berlin", monday),
            calendar(15, CivilUnit::Day, "Europe/Berlin", monday),
            calendar(4, CivilUnit::Day, "America/New_York", monday),
            calendar(9, CivilUnit::Hour, "Europe/Berlin", monday),
        ],
        vec![
            calendar(10, CivilUnit::Minute, "UTC", monday),
            calendar(5, CivilUnit::Week, "Asia/Kathmandu", monday),
            calendar(5, CivilUnit::Week, "Asia/Kathmandu", Weekday::Sunday),
            calendar(8, CivilUnit::Month, "UTC", monday),
            calendar(8, CivilUnit::Year, "America/Sao_Paulo", monday),
        ],
        vec![
            sliding(10, SECOND),
            sliding(15, SECOND),
            sliding(4, 700 * MS),
            sliding(7, 3 * SECOND),
            sliding(0, SECOND),
        ],
        // Products above 2^53.
        vec![sliding(8_000_000, DAY), sliding(7_999_999, DAY), sliding(100_000_000, 366 * DAY)],
        vec![
            rolling(10, SECOND),
            rolling(15, 1500 * MS),
            rolling(4, 700 * MS),
            rolling(0, SECOND),
            rolling(300, 9 * SECOND),
        ],
        vec![permits(4, SECOND), permits(6, 500 * MS), permits(2, 1500 * MS), permits(0, SECOND)],
    ]
}

/// Makes up batches and the time between them.
struct Player {
    random: Random,
    families: Vec<Vec<Algorithm>>,
    ids: u128,
    sent: Vec<Batch>,
    now: u64,
    latest: u64,
    wait: Option<u64>,
}

impl Player {
    fn id(&mut self) -> RequestId {
        self.ids += 1;
        RequestId(0x7469_6465_0000_0000_0000_0000_0000_0000 + self.ids)
    }

    fn turn(&mut self) {
        let micros = |nanos: u64| nanos.div_ceil(1000) * 1000;
        // Not where that is years away.
        let wait = self.wait.filter(|until| *until < self.now + 3 * DAY).map_or(self.now, micros);
        self.now = match self.random.below(100) {
            0..35 => self.now,
            35..65 => self.now + micros(self.random.below(100 * MS)),
            65..75 => self.now + micros(self.random.below(2 * SECOND)),
            75..77 => self.now + micros(self.random.below(40 * 3600 * SECOND)),
            77 => self.now + micros(self.random.below(DAY / 20)),
            // As told, or one step earlier.
            78..85 => wait.max(self.now),
            85..90 => (wait - 1000).max(self.now),
            90..94 => self.now - micros(self.random.below(2 * SECOND)),
            94..96 => self.now - micros(self.random.below(DAY)),
            _ => self.now + 1000,
        };
        self.latest = self.latest.max(self.now);
    }

    /// Those that are sent at once, sometimes with several that ask for the same.
    fn batches(&mut self) -> Vec<Batch> {
        let count = [1, 1, 1, 2, 5][self.random.below(5) as usize];
        let mut batches: Vec<_> = (0..count).map(|_| self.batch()).collect();
        if self.random.once(4) {
            let check = self.operation();
            for _ in 0..2 + self.random.below(6) {
                let place = self.random.below(batches.len() as u64 + 1) as usize;
                let batch = Batch::all_or_nothing(self.id(), [check.clone()]);
                batches.insert(place, batch);
            }
        }
        batches
    }

    fn batch(&mut self) -> Batch {
        if self.random.once(25) && !self.sent.is_empty() {
            // Its notes are written once, whatever the clock shows now.
            return self.random.pick(&self.sent).clone();
        }
        let mode = if self.random.once(4) { BatchMode::Each } else { BatchMode::AllOrNothing };
        let count = [1, 1, 1, 1, 2, 2, 3, 4, 7][self.random.below(9) as usize];
        let id = self.id();
        let operations = (0..count).map(|_| self.operation()).collect();
        // A note that has ended is there again when the clock steps back, until it is forgotten,
        // which is not when the pure code forgets it.
        let notes = if self.now == self.latest && self.random.once(12) {
            (0..=self.random.below(3)).map(|_| self.note()).collect()
        } else {
            Vec::new()
        };
        Batch { id, mode, operations, notes }
    }

    fn note(&mut self) -> NoteChange {
        let kind = *self.random.pick(&NoteKind::ALL);
        let name: Box<[u8]> = [b'a' + self.random.below(3) as u8].into();
        let until = match self.random.below(3) {
            0 => Timestamp::MAX,
            _ => Timestamp::from_nanos(
                self.now.saturating_add(self.random.below(4 * SECOND)).saturating_sub(SECOND / 2),
            ),
        };
        let value = self.random.next_u64().to_be_bytes()[..self.random.below(9) as usize].into();
        match self.random.below(4) {
            0 => NoteChange::Remove { kind, name },
            1 => NoteChange::Create(Note { kind, name, value, until }),
            _ => NoteChange::Put(Note { kind, name, value, until }),
        }
    }

    fn operation(&mut self) -> Operation {
        let family = self.random.below(self.families.len() as u64) as usize;
        let algorithm = if self.random.once(6) {
            self.random.pick(&self.families[family]).clone()
        } else {
            self.families[family][0].clone()
        };
        let of_key = self.random.below(4) as u8;
        let key = Key::new("differential", &[family as u8], &[of_key]).unwrap();
        // Half of the keys are of limits that arrive with the request.
        let carry_over = if of_key < 2 { CarryOver::Units } else { CarryOver::Instant };
        let wide = self.families[family][0].limit() > 1000;
        let units = Cost::new(match self.random.below(40) {
            0 => u64::MAX - self.random.below(3),
            1 => 1 + self.random.below(1 << 50),
            2..4 => 1 + self.random.below(60),
            4..12 => 1 + self.random.below(10),
            _ if wide => 1 + self.random.below(self.families[family][0].limit()),
            _ => 1 + self.random.below(2),
        })
        .unwrap();
        let permits = matches!(algorithm, Algorithm::Concurrency(_));
        let holder = HolderId(u128::from(self.random.below(9)) << 64 | 7);
        let kind = match self.random.below(100) {
            0..60 if permits => Kind::Acquire { holder },
            0..60 => Kind::Check { cost: units },
            60..75 if permits => Kind::Release { holder },
            60..67 => Kind::Report { cost: units },
            67..75 => Kind::Refund { cost: units },
            75..85 => return Operation { carry_over, ..self.undo(key, algorithm) },
            85..87 => Kind::Reset,
            87..90 => {
                let until = self.now + self.random.below(1500 * MS);
                Kind::Block {
                    until: if self.random.once(9) { Timestamp::MAX } else { Timestamp::from_nanos(until) },
                }
            }
            _ => Kind::Peek { cost: units },
        };
        let operation = Operation { carry_over, ..Operation::new(key, algorithm, kind) };
        if self.random.once(10) { operation.shadow() } else { operation }
    }

    fn undo(&mut self, key: Key, algorithm: Algorithm) -> Operation {
        let lately = self.sent.len().saturating_sub(12);
        let charged: Vec<_> = self.sent[lately..]
            .iter()
            .flat_map(|sent| sent.operations.iter().map(|operation| (sent.id, operation)))
            .filter(|(_, operation)| operation.kind.may_charge())
            .collect();
        if charged.is_empty() || self.random.once(30) {
            return Operation::new(key, algorithm, Kind::Undo { batch: RequestId(1) });
        }
        let (batch, operation) = *self.random.pick(&charged);
        let undo = Operation { kind: Kind::Undo { batch }, ..operation.clone() };
        // Mostly with the numbers of the charge.
        if self.random.once(8) { Operation { algorithm, key, ..undo } } else { undo }
    }

    fn learn(&mut self, batch: Batch, answer: &Answer) {
        let waits = answer.outcomes.iter().filter_map(|outcome| match outcome.verdict {
            Verdict::Wait { until } => Some(until.as_nanos()),
            _ => None,
        });
        self.wait = waits.max().or(self.wait);
        if self.sent.iter().all(|sent| sent.id != batch.id) && !batch.is_forgettable() {
            self.sent.push(batch);
            if self.sent.len() > 200 {
                self.sent.remove(0);
            }
        }
    }
}

/// An instant as a clock of microseconds tells it.
pub(crate) fn told(instant: Timestamp) -> Timestamp {
    Timestamp::from_nanos(instant.as_nanos().checked_next_multiple_of(1000).unwrap_or(u64::MAX))
}

fn told_answer(mut answer: Answer) -> Answer {
    let tell = |outcome: &mut Outcome| {
        if let Verdict::Wait { until } = &mut outcome.verdict {
            *until = told(*until);
        }
        outcome.reset_at = told(outcome.reset_at);
        outcome.blocked_until = outcome.blocked_until.map(told);
    };
    answer.outcomes.iter_mut().for_each(tell);
    answer
}

type Asking<'a> = Pin<Box<dyn Future<Output = Result<Answer, StoreError>> + 'a>>;

/// Sends all of them at once.
pub(crate) async fn send(store: &RedisStore, batches: &[Batch]) -> Vec<Result<Answer, StoreError>> {
    join_all(batches.iter().map(|batch| Box::pin(store.run(batch)) as Asking<'_>)).await
}

/// A number that the environment gives.
pub(crate) fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap())
}

async fn play(stand: Stand, operations: usize, seed: u64) {
    let Stand { store, hands, .. } = &stand;
    let mut bounds = MemoryConfig::new([1, 2, 3, 4]);
    bounds.answers_kept = Duration::MAX;
    let clock = hands.clone();
    let pure = MemoryStore::new(bounds, move || clock.now());
    let mut player = Player {
        random: Random::new(seed),
        families: families(),
        ids: 0,
        sent: Vec::new(),
        now: 20_840 * DAY,
        latest: 0,
        wait: None,
    };
    let (mut done, mut taken) = (0, 0);
    while done < operations {
        player.turn();
        hands.set(Timestamp::from_nanos(player.now));
        let batches = player.batches();
        let answers = send(store, &batches).await;
        let group = batches.clone();
        for (batch, told) in batches.into_iter().zip(answers) {
            let expected = told_answer(pure.run_now(&batch).unwrap());
            let answer =
                told.unwrap_or_else(|error| panic!("{batch:?}\nwas answered {}", error_chain(&error)));
            done += batch.operations.len();
            taken += usize::from(!answer.refused);
            assert!(
                answer == expected,
                "after {done} operations of seed {seed:#x}, at {}:\n  {batch:?}\nwas answered\n  {answer:?}\nnot\n  {expected:?}\nsent with {group:#?}",
                player.now
            );
            player.learn(batch, &expected);
        }
        if player.now == player.latest && player.random.once(50) {
            for kind in NoteKind::ALL {
                assert_eq!(
                    store.notes(kind).await.unwrap(),
                    pure.notes_now(kind),
                    "seed {seed:#x}, at {}",
                    player.now
                );
            }
        }
    }
    let stats = store.stats();
    assert_eq!((stats.disagreed, stats.lost), (0, 0), "{stats:?}");
    assert!(stats.calls < stats.batches, "nothing was gathered: {stats:?}");
    println!(
        "{done} operations of seed {seed:#x}, {taken} of {} batches admitted, {} calls",
        stats.batches, stats.calls
    );
}

#[tokio::test(flavor = "current_thread")]
async fn the_script_answers_as_the_pure_code() {
    let Some(stand) = Stand::start_in_order() else { return skip("the_script_answers_as_the_pure_code") };
    let operations = number("TIDEGATE_DIFFERENTIAL").unwrap_or(20_000) as usize;
    let seed = number("TIDEGATE_DIFFERENTIAL_SEED").unwrap_or(0x7469_6465);
    play(stand, operations, seed).await;
}

/// The state as it is kept: behind the layout, the block and the batch that began it.
fn kept_state(bytes: &[u8]) -> u64 {
    let number = |at: usize| f64::from_be_bytes(bytes[at..at + 8].try_into().unwrap());
    #[expect(clippy::cast_sign_loss, reason = "both halves are whole numbers below 2^32")]
    let state = (number(25) as u64) << 32 | number(33) as u64;
    state
}

/// A difference of one tick, a third of a nanosecond, hardly shows in what is answered.
#[tokio::test(flavor = "current_thread")]
async fn states_of_buckets_are_those_of_the_pure_code_to_the_tick() {
    let name = "states_of_buckets_are_those_of_the_pure_code_to_the_tick";
    let Some(mut stand) = Stand::start() else { return skip(name) };
    let Stand { store, hands, client, .. } = &mut stand;
    let mut random = Random::new(7);
    for round in 0..3000_u64 {
        // Spans whose multiples are instants, so that the clock reads a whole number of ticks
        // without a rest, and any others.
        let per =
            if round % 2 == 0 { 1000 * (1 + random.below(1 << 20)) } else { 1 + random.below(365 * DAY) };
        let digits = random.below(50);
        let units = 1 + random.below(per.min(1 + (1 << digits)));
        let rate = Rate::new(units, Duration::from_nanos(per)).unwrap();
        let Ok(bucket) = Bucket::new(rate, 1 + random.below(10)) else { continue };
        let about = 20_000 * DAY + random.below(30_000 * DAY);
        let now = if per % 1000 == 0 { about / per * per } else { about / 1000 * 1000 };
        hands.set(Timestamp::from_nanos(now));
        let key = Key::new("tick", b"limit", &round.to_be_bytes()).unwrap();
        let check =
            Operation::new(key.clone(), Algorithm::Bucket(bucket.clone()), Kind::Check { cost: Cost::ONE });
        let mode = if round % 3 == 0 { BatchMode::Each } else { BatchMode::AllOrNothing };
        let id = RequestId(u128::from(round) + 1);
        let batch = Batch { id, mode, operations: [check].into_iter().collect(), notes: Vec::new() };
        store.run(&batch).await.unwrap();
        let name: Vec<Vec<u8>> = redis::cmd("KEYS").arg("tidegate:{*}c:*").query(client).unwrap();
        let [name] = name.as_slice() else { panic!("{name:?}") };
        let bytes: Vec<u8> = redis::cmd("GETDEL").arg(name).query(client).unwrap();
        let expected = bucket.decide(State::EMPTY, Cost::ONE, Timestamp::from_nanos(now)).1.to_bits();
        assert_eq!(kept_state(&bytes), expected, "{rate} at {now}");
    }
}

/// Between any two rates, on a key that holds enough not to drain in between.
#[tokio::test(flavor = "current_thread")]
async fn a_kept_instant_is_that_of_the_pure_code_to_the_tick() {
    let name = "a_kept_instant_is_that_of_the_pure_code_to_the_tick";
    let Some(mut stand) = Stand::start() else { return skip(name) };
    let Stand { store, hands, client, .. } = &mut stand;
    let mut random = Random::new(11);
    let mut bucket = || loop {
        let per = 1000 + random.below(30 * DAY);
        let digits = random.below(40);
        let rate =
            Rate::new(1 + random.below(per.min(1 + (1 << digits))), Duration::from_nanos(per)).unwrap();
        // Some would take longer than a year to drain.
        if let Ok(bucket) = Bucket::new(rate, 1 + random.below(1000)) {
            break bucket;
        }
    };
    for round in 0..2000_u64 {
        let now = Timestamp::from_nanos(20_000 * DAY + round * 1_234_567_000);
        hands.set(now);
        let key = Key::new("tick", b"limit", &round.to_be_bytes()).unwrap();
        let on = |bucket: &Bucket, kind| {
            Operation::new(key.clone(), Algorithm::Bucket(bucket.clone()), kind).keeping_instant()
        };
        let [first, second] = [bucket(), bucket()];
        // The answer to a batch of one check is written by another part of the script than that to
        // several.
        let mode = if round % 3 == 0 { BatchMode::Each } else { BatchMode::AllOrNothing };
        let mut ids = 3 * u128::from(round);
        let mut batch = |operation: Operation| {
            ids += 1;
            let operations = [operation].into_iter().collect();
            Batch { id: RequestId(ids), mode, operations, notes: Vec::new() }
        };
        let filled = Cost::new(first.burst()).unwrap();
        let fill = batch(on(&first, Kind::Check { cost: filled }));
        store.run(&fill).await.unwrap();
        let before = first.decide(State::EMPTY, filled, now).1;
        let report = batch(on(&second, Kind::Report { cost: Cost::ONE }));
        store.run(&report).await.unwrap();
        let carried = second.carry_instant(before, &first, now);
        let after = second.charge(carried, Cost::ONE, now);
        let name: Vec<Vec<u8>> = redis::cmd("KEYS").arg("tidegate:{*}c:*").query(client).unwrap();
        let [name] = name.as_slice() else { panic!("{name:?}") };
        let kept = |client: &mut redis::Connection| {
            // An empty counter is not kept.
            let bytes: Option<Vec<u8>> = redis::cmd("GET").arg(name).query(client).unwrap();
            bytes.map_or(0, |bytes| kept_state(&bytes))
        };
        assert_eq!(kept(client), after.to_bits(), "{} to {} at {now}", first.rate(), second.rate());

        let undo = batch(Operation { kind: Kind::Undo { batch: fill.id }, ..fill.operations[0].clone() });
        store.run(&undo).await.unwrap();
        let charged = Charged { before: State::EMPTY, after: before, cost: filled };
        let undone = second.undo_instant(after, &charged, &first, now);
        assert_eq!(kept(client), undone.to_bits(), "{} undone, now {}", first.rate(), second.rate());
        let _: () = redis::cmd("DEL").arg(name).query(client).unwrap();
    }
}
