//! Many callers at once.

use core::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tidegate_core::algorithm::Verdict;

use super::executor::take_turns;
use super::harness::ConformanceStore;
use super::trial::{Passed, Stopped, Trial, ensure, every_algorithm, key};
use crate::{Answer, Batch, HolderId, Operation, RequestId, Store, StoreError};

/// How many are admitted in all.
const ADMITTED: u64 = 100;
/// How many callers there are.
const CALLERS: u64 = 4;

/// Whether the answer admits everything it was asked.
fn admits(answer: Result<Answer, StoreError>) -> Result<u64, Stopped> {
    Ok(u64::from(answer?.outcomes.iter().all(|outcome| outcome.verdict == Verdict::Admit)))
}

/// Ids for callers that cannot share the trial's.
fn id(caller: u64, turn: u64) -> RequestId {
    RequestId(u128::from(caller + 1) << 64 | u128::from(turn))
}

/// Several batches in flight on one thread: a store that awaits between reading and writing loses a
/// charge here.
pub fn tasks_that_take_turns_admit_exactly_the_limit<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    type Task<'a> = Pin<Box<dyn Future<Output = Result<Answer, StoreError>> + Send + 'a>>;
    for algorithm in every_algorithm(ADMITTED) {
        if !trial.store.supports(&algorithm) {
            continue;
        }
        let key = key("tasks");
        let mut admitted = 0;
        for round in 0..ADMITTED {
            let batches: Vec<_> = (0..CALLERS)
                .map(|_| Batch::all_or_nothing(trial.id(), [trial.admit(&key, &algorithm)]))
                .collect();
            let tasks: Vec<Task<'_>> =
                batches.iter().map(|batch| Box::pin(trial.store.run(batch)) as Task<'_>).collect();
            for answer in trial.harness.block_on(take_turns(tasks)) {
                admitted += admits(answer)?;
            }
            let expected = ((round + 1) * CALLERS).min(ADMITTED);
            ensure!(
                admitted == expected,
                "{CALLERS} tasks had {admitted} of {} admitted, not {expected}",
                algorithm.name()
            );
        }
        trial.one(Operation { kind: crate::Kind::Reset, ..trial.admit(&key, &algorithm) })?;
    }
    Ok(())
}

/// Runs `turn` for every caller and turn, one thread a caller, and adds up.
fn on_threads(turns: u64, turn: impl Fn(u64, u64) -> Result<u64, Stopped> + Sync) -> Result<u64, Stopped> {
    let (total, turn) = (AtomicU64::new(0), &turn);
    let callers = |caller| {
        let total = &total;
        move || -> Passed {
            for count in 0..turns {
                // The scope that joins the threads orders the total with its reader.
                total.fetch_add(turn(caller, count)?, Ordering::Relaxed);
            }
            Ok(())
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..CALLERS).map(|caller| scope.spawn(callers(caller))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no case panics"))
    })?;
    Ok(total.load(Ordering::Relaxed))
}

/// Threads that ask for more than there is get all there is.
pub fn threads_admit_exactly_the_limit<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    for (kind, algorithm) in every_algorithm(ADMITTED).into_iter().enumerate() {
        if !trial.store.supports(&algorithm) {
            continue;
        }
        let (store, harness, algorithm) = (&trial.store, trial.harness, &algorithm);
        let key = key(&format!("threads {kind}"));
        let admitted = on_threads(ADMITTED, |caller, turn| {
            let id = id(caller, turn + ADMITTED * kind as u64);
            let admit =
                Operation::admit(key.clone(), algorithm.clone(), tidegate_core::Cost::ONE, HolderId(id.0));
            admits(harness.block_on(store.run(&Batch::all_or_nothing(id, [admit]))))
        })?;
        ensure!(admitted == ADMITTED, "{CALLERS} threads had {admitted} of {} admitted", algorithm.name());
    }
    Ok(())
}

/// Batches over several keys, in different orders: no deadlock, no charge lost, no half of a batch.
pub fn threads_that_share_some_keys_lose_no_charge<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    for (kind, algorithm) in every_algorithm(ADMITTED).into_iter().enumerate() {
        if !trial.store.supports(&algorithm) {
            continue;
        }
        let (store, harness, algorithm) = (&trial.store, trial.harness, &algorithm);
        let shared = key(&format!("shared {kind}"));
        let own = |caller: u64| key(&format!("own {kind} {caller}"));
        let admitted = on_threads(ADMITTED, |caller, turn| {
            let id = id(caller, turn + ADMITTED * kind as u64);
            let admit = |key: &crate::Key| {
                Operation::admit(key.clone(), algorithm.clone(), tidegate_core::Cost::ONE, HolderId(id.0))
            };
            let mut operations = [admit(&shared), admit(&own(caller)), admit(&own((caller + 1) % CALLERS))];
            operations.rotate_left((caller % 3) as usize);
            admits(harness.block_on(store.run(&Batch::all_or_nothing(id, operations))))
        })?;
        ensure!(admitted == ADMITTED, "{CALLERS} threads had {admitted} of {} admitted", algorithm.name());
        let mut used = 0;
        for caller in 0..CALLERS {
            used += trial.peek(&trial.admit(&own(caller), algorithm))?.used;
        }
        ensure!(used == 2 * admitted, "{admitted} batches of {} charged {used} beside", algorithm.name());
    }
    Ok(())
}
