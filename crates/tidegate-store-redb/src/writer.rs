//! The one who writes: takes all that has changed, commits it, and tells those who wait.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_store::keeper::{DrainCheck, SpaceUsage};

use crate::disk::{Committed, Sweep, SweepEffort};
use crate::error::Failure;
use crate::shared::{DiskReport, Due, RETRY, Shared, Waiter};

/// Runs until the store is closed.
pub(crate) fn write(shared: &Arc<Shared>, check: DrainCheck) {
    let mut sweep = Sweep::new(check);
    let (first, longest) = RETRY;
    let (mut retry, mut retry_at) = (first, None);
    let (mut failures, mut said_full) = (0, None);
    loop {
        let mut state = shared.state();
        loop {
            if state.failing.is_some() && !state.stop && !state.wanted {
                let at = *retry_at.get_or_insert_with(|| Instant::now() + retry);
                if at <= Instant::now() {
                    break;
                }
                state = shared.idle(state, Some(at));
                continue;
            }
            match state.due(shared.durability) {
                Due::Now => break,
                Due::Never if state.stop => return,
                Due::Never => state = shared.idle(state, None),
                Due::At(at) => state = shared.idle(state, Some(at)),
            }
        }
        let (failing, stop) = (state.failing.is_some(), state.stop);
        state.wanted = false;
        drop(state);
        // A database that has failed once takes no more.
        let opened = if failing { reopen(shared) } else { Ok(()) };
        match opened.and_then(|()| commit(shared, &mut sweep)) {
            Ok(found_no_room) => {
                (retry, retry_at) = (first, None);
                if failures > 0 {
                    shared.tell(DiskReport::Recovered { failures: core::mem::take(&mut failures) });
                }
                if found_no_room && said_full.is_none_or(|said: Instant| said.elapsed() >= FULL_EACH) {
                    said_full = Some(Instant::now());
                    tell_full(shared);
                }
            }
            Err(failure) => {
                fail(shared, &failure);
                if failures == 0 {
                    shared.tell(DiskReport::Failing(&failure.to_string()));
                }
                failures += 1;
                (retry, retry_at) = ((retry * 2).min(longest), None);
                if stop {
                    return;
                }
            }
        }
    }
}

/// How often it is said that there is no room.
const FULL_EACH: Duration = Duration::from_mins(1);

fn tell_full(shared: &Shared) {
    let state = shared.state();
    let (used, max) = (state.keeper.space_used(), state.keeper.space().map_or(0, |space| space.bytes));
    drop(state);
    shared.tell(DiskReport::Full { used, max });
}

/// Opens the database anew. Whether the commit that failed is in it, only the database knows.
fn reopen(shared: &Shared) -> Result<(), Failure> {
    shared.disk.reopen()?;
    let written = shared.disk.measure()?;
    shared.state().keeper.measured(written);
    Ok(())
}

/// Writes all that has changed so far. Whether a charge has found no room since the last time.
fn commit(shared: &Shared, sweep: &mut Sweep) -> Result<bool, Failure> {
    let (mut changes, upto, effort) = {
        let mut state = shared.state();
        state.changed_since = None;
        let is_tight = |bytes| state.keeper.space_used() > bytes / 2;
        let effort = match state.keeper.space() {
            _ if state.sweep_at.is_some_and(|at| at <= Instant::now()) => SweepEffort::Most,
            Some(space) if is_tight(space.bytes) => SweepEffort::More,
            _ => SweepEffort::Little,
        };
        if effort == SweepEffort::Most {
            state.sweep_at = None;
        }
        (state.keeper.hand_out(), state.changed, effort)
    };
    let begun = Instant::now();
    let committed = if changes.is_empty() && effort != SweepEffort::Most {
        Ok(None)
    } else {
        shared.disk.commit(&mut changes, sweep, effort, shared.now()).map(Some)
    };
    let took = begun.elapsed();
    let bytes_on_disk = shared.disk.bytes();
    let mut state = shared.state();
    let committed = match committed {
        Ok(committed) => committed,
        Err(failure) => {
            state.keeper.not_written();
            return Err(failure);
        }
    };
    let nothing = SpaceUsage::default();
    state.keeper.written(committed.as_ref().map_or(&nothing, |committed| &committed.space));
    state.failing = None;
    state.stats.bytes_on_disk = bytes_on_disk;
    if let Some(Committed { swept, first_drain, .. }) = committed {
        state.keeper.drains_first_at(first_drain);
        let batches = upto - state.durable;
        state.commits += 1;
        let writing = &mut state.stats;
        writing.commits += 1;
        writing.batches += batches;
        writing.batches_last = batches;
        writing.batches_max = writing.batches_max.max(batches);
        writing.commit_last = took;
        writing.commit_max = writing.commit_max.max(took);
        writing.commit_total += took;
        writing.swept += swept;
    }
    state.durable = upto;
    let first_left = state.waiting.partition_point(|(until, _)| *until <= upto);
    let written: Vec<_> = state.waiting.drain(..first_left).collect();
    drop(state);
    tell(written, &Ok(()));
    Ok(effort == SweepEffort::Most)
}

/// Tells everybody who waits that it cannot be written now.
fn fail(shared: &Shared, failure: &Failure) {
    let mut state = shared.state();
    state.failing = Some(failure.clone());
    state.stats.failures += 1;
    state.stats.last_error = Some(failure.to_string());
    let waiting: Vec<_> = state.waiting.drain(..).collect();
    drop(state);
    tell(waiting, &Err(failure.clone()));
}

fn tell(waiting: Vec<(u64, Waiter)>, how: &Result<(), Failure>) {
    for (_, waiter) in waiting {
        // A caller that has stopped listening need not know.
        let _ = waiter.send(how.clone());
    }
}
