//! The one who writes: takes all that has changed, commits it, and tells those who wait.

use std::sync::Arc;
use std::time::Instant;

use tidegate_store::keeper::DrainCheck;

use crate::disk::Sweep;
use crate::error::Failure;
use crate::shared::{Due, RETRY, Shared, Waiter};

/// Runs until the store is closed.
pub(crate) fn write(shared: &Arc<Shared>, check: DrainCheck) {
    let mut sweep = Sweep::new(check);
    let (first, longest) = RETRY;
    let (mut retry, mut retry_at) = (first, None);
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
        let opened = if failing { shared.disk.reopen() } else { Ok(()) };
        match opened.and_then(|()| commit(shared, &mut sweep)) {
            Ok(()) => (retry, retry_at) = (first, None),
            Err(failure) => {
                fail(shared, &failure);
                (retry, retry_at) = ((retry * 2).min(longest), None);
                if stop {
                    return;
                }
            }
        }
    }
}

/// Writes all that has changed so far.
fn commit(shared: &Shared, sweep: &mut Sweep) -> Result<(), Failure> {
    let (mut changes, upto) = {
        let mut state = shared.state();
        state.changed_since = None;
        (state.keeper.hand_out(), state.changed)
    };
    let begun = Instant::now();
    let committed = if changes.is_empty() {
        Ok(None)
    } else {
        shared.disk.commit(&mut changes, sweep, shared.now()).map(Some)
    };
    let took = begun.elapsed();
    let bytes_on_disk = shared.disk.bytes();
    let mut state = shared.state();
    let swept = match committed {
        Ok(swept) => swept,
        Err(failure) => {
            state.keeper.not_written();
            return Err(failure);
        }
    };
    state.keeper.written();
    state.failing = None;
    state.stats.bytes_on_disk = bytes_on_disk;
    if let Some(swept) = swept {
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
    Ok(())
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
        // Whoever does not listen any more need not know.
        let _ = waiter.send(how.clone());
    }
}
