//! Long random lists of operations, compared answer by answer with the model.

use core::time::Duration;

use tidegate_core::algorithm::{
    Bucket, Calendar, CivilUnit, Concurrency, Fixed, Rolling, SlidingCounter, Verdict, WindowStart,
};
use tidegate_core::{Algorithm, Rate, Timestamp};

use super::harness::ConformanceStore;
use super::model::Model;
use super::random::Random;
use super::trial::{Passed, Trial, cost, ensure, key};
use crate::{Answer, Batch, BatchMode, CarryOver, HolderId, Key, Kind, Operation, Outcome, RequestId, Store};

/// How many keys a list plays on: few, so that they meet.
const KEYS: u64 = 5;
/// How many holders ask for permits.
const HOLDERS: u64 = 9;

/// Token buckets with whole and with odd rates.
pub fn bucket_agrees_with_the_pure_code<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    compare(trial, vec![buckets()])
}

/// Token buckets that keep the instant at which they are full when their numbers change.
pub fn bucket_that_keeps_its_instant_agrees_with_the_pure_code<H: ConformanceStore>(
    trial: &Trial<'_, H>,
) -> Passed {
    compare_keeping(trial, vec![buckets()], CarryOver::Instant)
}

/// Windows aligned to the epoch and to the first hit.
pub fn fixed_window_agrees_with_the_pure_code<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    compare(trial, vec![fixed(WindowStart::Epoch)])?;
    let other = Trial::new(trial.harness);
    compare(&other, vec![fixed(WindowStart::FirstHit)])
}

/// Civil windows, across changes of daylight saving time.
pub fn calendar_agrees_with_the_pure_code<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    compare(trial, vec![calendars()])
}

/// Sliding counters.
pub fn sliding_counter_agrees_with_the_pure_code<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    compare(trial, vec![sliding_counters()])
}

/// Exact windows, by lists of instants.
pub fn rolling_window_agrees_with_a_list_of_instants<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    compare(trial, vec![rolling()])
}

/// Permits, by a list of them.
pub fn concurrency_agrees_with_a_list_of_permits<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    compare(trial, vec![concurrency()])
}

/// Batches over limits of all kinds.
pub fn all_algorithms_together_agree_with_the_model<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    let all = vec![
        buckets(),
        fixed(WindowStart::Epoch),
        fixed(WindowStart::FirstHit),
        calendars(),
        sliding_counters(),
        rolling(),
        concurrency(),
    ];
    let supported =
        all.into_iter().filter(|family| family.iter().all(|algorithm| trial.store.supports(algorithm)));
    compare(trial, supported.collect())
}

/// One algorithm with several sets of numbers, which keys change between.
type LimitFamily = Vec<Algorithm>;

fn buckets() -> LimitFamily {
    let numbers = [(10, 1000, 10), (7, 300, 12), (1, 50, 3), (1000, 999, 40)];
    let bucket = |(units, millis, burst)| {
        let rate = Rate::new(units, Duration::from_millis(millis)).expect("slow enough");
        Algorithm::Bucket(Bucket::new(rate, burst).expect("refills soon enough"))
    };
    numbers.into_iter().map(bucket).collect()
}

fn fixed(start: WindowStart) -> LimitFamily {
    // One window length: another one is another unit, which a key does not change to.
    let fixed = |limit| Algorithm::Fixed(Fixed::new(limit, Duration::from_secs(1), start).expect("a window"));
    [10, 15, 4, 0].into_iter().map(fixed).collect()
}

fn calendars() -> LimitFamily {
    let calendar = |limit| Calendar::new(limit, CivilUnit::Day, "Europe/Berlin").expect("a zone");
    [10, 15, 4].into_iter().map(|limit| Algorithm::Calendar(calendar(limit))).collect()
}

fn sliding_counters() -> LimitFamily {
    let counter = |limit| SlidingCounter::new(limit, Duration::from_secs(1)).expect("a window");
    [10, 15, 4].into_iter().map(|limit| Algorithm::SlidingCounter(counter(limit))).collect()
}

fn rolling() -> LimitFamily {
    let numbers = [(10, 1000), (15, 1500), (4, 700), (0, 1000)];
    let rolling = |(limit, millis)| Rolling::new(limit, Duration::from_millis(millis)).expect("a window");
    numbers.into_iter().map(|numbers| Algorithm::Rolling(rolling(numbers))).collect()
}

fn concurrency() -> LimitFamily {
    let numbers = [(4, 1000), (6, 500), (2, 1500)];
    let concurrency =
        |(limit, millis)| Concurrency::new(limit, Duration::from_millis(millis)).expect("a hold");
    numbers.into_iter().map(|numbers| Algorithm::Concurrency(concurrency(numbers))).collect()
}

/// Plays a random list on the store and on the model.
fn compare<H: ConformanceStore>(trial: &Trial<'_, H>, families: Vec<LimitFamily>) -> Passed {
    compare_keeping(trial, families, CarryOver::Units)
}

fn compare_keeping<H: ConformanceStore>(
    trial: &Trial<'_, H>,
    families: Vec<LimitFamily>,
    carry_over: CarryOver,
) -> Passed {
    for algorithm in families.iter().flatten() {
        trial.needs(algorithm)?;
    }
    let mut moves = ListPlayer { random: trial.random(), families, carry_over, sent: Vec::new(), wait: None };
    let mut model = Model::default();
    let mut played = 0;
    while played < trial.can.operations {
        trial.set_now(moves.next_instant(trial));
        moves.forget(trial.now(), trial.can.answers_kept);
        let again = trial.can.answers >= 1000 && moves.random.once(20);
        let (batch, expected) = if again && let Some(sent) = moves.sent_lately() {
            sent
        } else {
            let batch = moves.batch(trial);
            let answer = told(trial, model.run(&batch, trial.now()));
            (batch, answer)
        };
        let answer = trial.run(&batch)?;
        played += batch.operations.len();
        ensure!(
            answer == expected,
            "after {played} operations of seed {:#x}, at {}:\n  {batch:?}\nwas answered\n  {answer:?}\nnot\n  {expected:?}",
            trial.can.seed,
            trial.now()
        );
        moves.learn(batch, answer);
    }
    ensure!(moves.wait.is_some(), "{played} operations of seed {:#x} were all admitted", trial.can.seed);
    Ok(())
}

/// An answer as the store tells instants.
fn told<H: ConformanceStore>(trial: &Trial<'_, H>, answer: Answer) -> Answer {
    let outcome = |outcome: Outcome| {
        let verdict = match outcome.verdict {
            Verdict::Wait { until } => Verdict::Wait { until: trial.told(until) },
            verdict => verdict,
        };
        Outcome { verdict, reset_at: trial.told(outcome.reset_at), ..outcome }
    };
    Answer { outcomes: answer.outcomes.into_iter().map(outcome).collect(), ..answer }
}

/// Makes up batches and the time between them.
struct ListPlayer {
    random: Random,
    families: Vec<LimitFamily>,
    carry_over: CarryOver,
    /// Batches with their answers, the latest last.
    sent: Vec<(Batch, Answer)>,
    /// The latest instant a refusal said to wait for.
    wait: Option<Timestamp>,
}

impl ListPlayer {
    /// How many batches are remembered, to be sent again or undone.
    const SENT_MAX: usize = Model::CHARGES_MAX - 56;

    fn next_instant<H: ConformanceStore>(&mut self, trial: &Trial<'_, H>) -> Timestamp {
        let now = trial.now();
        let later = |nanos| trial.told(now.saturating_add(Duration::from_nanos(nanos)));
        match self.random.below(100) {
            0..40 => now,
            40..75 => later(self.random.below(100_000_000)),
            75..85 => later(self.random.below(2_000_000_000)),
            // Days, for calendars; a restart of everything for the others.
            85..87 => later(self.random.below(40 * 3_600_000_000_000)),
            // As told, or one step earlier.
            87..94 => self.wait.map_or(now, |until| trial.told(until).max(now)),
            _ => {
                let until = self.wait.map_or(now, |until| trial.told(until));
                until.saturating_sub(Duration::from_nanos(trial.step())).max(now)
            }
        }
    }

    /// Forgets batches that the store need not remember.
    fn forget(&mut self, now: Timestamp, kept: Duration) {
        self.sent.retain(|(_, answer)| now.saturating_since(answer.store_now) < kept);
    }

    fn sent_lately(&mut self) -> Option<(Batch, Answer)> {
        if self.sent.is_empty() {
            return None;
        }
        let index = self.random.below(self.sent.len() as u64) as usize;
        Some(self.sent[index].clone())
    }

    fn batch<H: ConformanceStore>(&mut self, trial: &Trial<'_, H>) -> Batch {
        let mode = if self.random.once(4) { BatchMode::Each } else { BatchMode::AllOrNothing };
        let count = [1, 1, 1, 2, 2, 3, 4, 7][self.random.below(8) as usize];
        let operations = (0..count).map(|_| self.operation(trial)).collect();
        Batch { id: trial.id(), mode, operations, notes: Vec::new() }
    }

    fn operation<H: ConformanceStore>(&mut self, trial: &Trial<'_, H>) -> Operation {
        let family = self.random.below(self.families.len() as u64) as usize;
        let algorithms = &self.families[family];
        // Mostly the first numbers, so that there is something to change.
        let algorithm =
            if self.random.once(8) { self.random.pick(algorithms) } else { &algorithms[0] }.clone();
        let name = key(&format!("{family} {}", self.random.below(KEYS)));
        let units = cost(match self.random.below(20) {
            0 => u64::MAX - self.random.below(3),
            1 => 1 + self.random.below(60),
            2..6 => 1 + self.random.below(10),
            _ => 1 + self.random.below(2),
        });
        let permits = matches!(algorithm, Algorithm::Concurrency(_));
        let holder = HolderId(u128::from(self.random.below(HOLDERS)));
        let kind = match self.random.below(100) {
            0..60 if permits => Kind::Acquire { holder },
            0..60 => Kind::Check { cost: units },
            60..75 if permits => Kind::Release { holder },
            60..67 => Kind::Report { cost: units },
            67..75 => Kind::Refund { cost: units },
            75..85 if trial.can.answers >= 1000 => return self.undo(name, algorithm),
            85..87 => Kind::Reset,
            87..90 => {
                let ahead = Duration::from_nanos(self.random.below(1_500_000_000));
                Kind::Block { until: trial.told(trial.now().saturating_add(ahead)) }
            }
            _ => Kind::Peek { cost: units },
        };
        let carry_over = self.carry_over;
        let operation = Operation { carry_over, ..Operation::new(name, algorithm, kind) };
        if self.random.once(10) { operation.shadow() } else { operation }
    }

    /// Takes back one charge of a batch sent lately, or, on this key, a batch that never was.
    fn undo(&mut self, key: Key, algorithm: Algorithm) -> Operation {
        let lately = self.sent.len().saturating_sub(12);
        let charged: Vec<_> = self.sent[lately..]
            .iter()
            .flat_map(|(sent, _)| sent.operations.iter().map(|operation| (sent.id, operation)))
            .filter(|(_, operation)| operation.kind.may_charge())
            .collect();
        if charged.is_empty() || self.random.once(30) {
            let kind = Kind::Undo { batch: RequestId(1) };
            return Operation { carry_over: self.carry_over, ..Operation::new(key, algorithm, kind) };
        }
        let (batch, operation) = *self.random.pick(&charged);
        Operation { kind: Kind::Undo { batch }, ..operation.clone() }
    }

    fn learn(&mut self, batch: Batch, answer: Answer) {
        let mut waits = answer.outcomes.iter().filter_map(|outcome| match outcome.verdict {
            Verdict::Wait { until } => Some(until),
            _ => None,
        });
        self.wait = waits.next_back().or(self.wait);
        // A batch that only looks may be answered anew.
        if batch.is_forgettable() || self.sent.iter().any(|(sent, _)| sent.id == batch.id) {
            return;
        }
        self.sent.push((batch, answer));
        if self.sent.len() > Self::SENT_MAX {
            self.sent.remove(0);
        }
    }
}
