//! The state shared by the deciding threads and the writer: everything under one lock, which
//! no thread holds while the disk is asked.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tidegate_core::Timestamp;
use tidegate_store::keeper::{Keeper, Ran};
use tidegate_store::{Answer, Batch, Key, StoreError};
use tokio::sync::oneshot;

use crate::config::Durability;
use crate::disk::{Disk, Standing};
use crate::error::Failure;
use crate::stats::RedbStats;

/// When so many counters and notes have changed they are written, however long the interval: taking
/// them keeps those who decide waiting for a fraction of a millisecond.
pub(crate) const CHANGED_COMMIT: usize = 4 << 10;

/// When so many have changed and are not written, those who would change more wait for a commit, so
/// that the disk sets the pace rather than memory the end.
pub(crate) const CHANGED_MAX: usize = 16 << 10;

/// For how many commits a charge waits to know what space they leave: others may go on taking some.
const SPACE_WAITS_MAX: usize = 3;

/// How long after a charge found no room drained counters are looked for: once for all that come
/// meanwhile.
const SWEEP_EACH: Duration = Duration::from_millis(100);

/// How often counters are read without the lock before they are read under it, where others commit
/// in between.
const READS_MAX: usize = 3;

/// The store, without the handle that closes it.
pub(crate) struct Shared {
    clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
    pub(crate) durability: Durability,
    pub(crate) disk: Disk,
    state: Mutex<State>,
    /// Wakes the writer.
    wake: Condvar,
    /// Hears when commits begin to fail, and when they succeed again.
    pub(crate) listener: OnceLock<Listener>,
    /// The hook of a test while counters are read.
    #[cfg(test)]
    pub(crate) while_reading: Mutex<Option<WhileReading>>,
}

/// Hears what a store says of its disk.
pub(crate) type Listener = Box<dyn Fn(DiskReport<'_>) + Send + Sync>;

/// A state of the disk, reported once for each change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DiskReport<'a> {
    /// A commit failed for this reason; those before did not. Charges are refused until one
    /// succeeds.
    Failing(&'a str),
    /// A commit succeeded again, after so many failures. The batches answered meanwhile are on
    /// disk.
    Recovered {
        /// The failed attempts.
        failures: u64,
    },
    /// A charge found no room for its counter within [`RedbConfig::disk`](crate::RedbConfig::disk).
    /// Said at most once a minute.
    Full {
        /// The bytes that counters take.
        used: u64,
        /// The bytes they may take.
        max: u64,
    },
}

/// The hook of a test while counters are read.
#[cfg(test)]
pub(crate) type WhileReading = Box<dyn FnOnce() + Send>;

pub(crate) struct State {
    pub(crate) keeper: Keeper,
    /// How many batches have changed something.
    pub(crate) changed: u64,
    /// How many of them are on disk: the first so many.
    pub(crate) durable: u64,
    /// Those who wait until so many are, in the order of these numbers.
    pub(crate) waiting: VecDeque<(u64, Waiter)>,
    /// Since when something has changed that is not on disk, where it is written after an interval.
    pub(crate) changed_since: Option<Instant>,
    /// Whether somebody wants everything to be written now.
    pub(crate) wanted: bool,
    /// Counts commits: what was read from disk before one need not be true after it.
    pub(crate) commits: u64,
    pub(crate) failing: Option<Failure>,
    pub(crate) stop: bool,
    /// When to look for drained counters on disk because a charge found no room.
    pub(crate) sweep_at: Option<Instant>,
    /// Whether the writer waits to be woken.
    pub(crate) idle: bool,
    pub(crate) stats: RedbStats,
}

/// Where to tell how the commit went.
pub(crate) type Waiter = oneshot::Sender<Result<(), Failure>>;
pub(crate) type Written = oneshot::Receiver<Result<(), Failure>>;

/// How far a batch has come.
pub(crate) enum Step {
    Answered(Answer),
    /// It is answered when this says so.
    Decided(Answer, Written),
    /// There is room for it after the next commit.
    Later(Written),
}

impl Shared {
    pub(crate) fn new(
        keeper: Keeper,
        disk: Disk,
        durability: Durability,
        clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
    ) -> Self {
        let state = State {
            keeper,
            changed: 0,
            durable: 0,
            waiting: VecDeque::new(),
            changed_since: None,
            wanted: false,
            commits: 0,
            failing: None,
            stop: false,
            sweep_at: None,
            idle: false,
            stats: RedbStats::default(),
        };
        Self {
            clock,
            durability,
            disk,
            state: Mutex::new(state),
            wake: Condvar::new(),
            listener: OnceLock::new(),
            #[cfg(test)]
            while_reading: Mutex::default(),
        }
    }

    /// Tells the listener, if there is one. Not under the lock: what it does takes as long as it
    /// takes.
    pub(crate) fn tell(&self, report: DiskReport<'_>) {
        if let Some(listener) = self.listener.get() {
            listener(report);
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in a batch panics once it has begun to change counters.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits, for the writer, until it is woken or `until` has come.
    pub(crate) fn idle<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        until: Option<Instant>,
    ) -> MutexGuard<'a, State> {
        state.idle = true;
        let mut state = match until {
            None => self.wake.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some(until) => {
                let left = until.saturating_duration_since(Instant::now());
                self.wake.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
            }
        };
        state.idle = false;
        state
    }

    /// Wakes the writer if it waits.
    pub(crate) fn wake(&self, state: &mut State) {
        if std::mem::take(&mut state.idle) {
            self.wake.notify_one();
        }
    }

    /// The error of a batch that cannot go on because of the disk.
    pub(crate) fn unavailable(&self, failure: Failure, sent: bool) -> StoreError {
        let at = self.disk.path().display().to_string();
        StoreError::Unavailable { at, sent, source: Some(Box::new(failure)) }
    }

    /// Decides a batch that has waited for so many commits, as soon as the counters it is about are
    /// in memory.
    pub(crate) fn step(&self, batch: &Batch, waited: usize) -> Result<Step, StoreError> {
        batch.check()?;
        let mut read = Read::default();
        for reads in 0.. {
            let mut state = self.state();
            let now = self.now();
            // A peek is answered as the check would be that it stands for.
            if let (Some(failure), false) = (&state.failing, batch.is_empty()) {
                return Err(self.unavailable(failure.clone(), false));
            }
            if !batch.is_read_only() && state.keeper.unsaved() >= CHANGED_MAX {
                return Ok(Step::Later(self.wait_for_commit(&mut state)));
            }
            let unknown = state.keeper.unknown(batch);
            if !unknown.is_empty() && !read.is_of(&unknown, state.commits) {
                let commits = state.commits;
                let held = if reads < READS_MAX {
                    drop(state);
                    None
                } else {
                    Some(state)
                };
                let found = self.disk.read(&unknown).map_err(|failure| self.unavailable(failure, false))?;
                read = Read { commits, keys: unknown, found };
                #[cfg(test)]
                self.work_while_reading();
                // Under the lock nothing comes in between.
                match held {
                    None => continue,
                    Some(held) => state = held,
                }
            }
            if !read.found.is_empty() {
                state.stats.loaded += read.found.len() as u64;
                let found = read.found.iter().map(|(key, bytes)| (&**key, &**bytes));
                let loaded = state.keeper.load(batch, found, now);
                loaded.map_err(|error| self.unavailable(Failure::new(error.to_string()), false))?;
            }
            return self.decide(&mut state, batch, waited, now);
        }
        unreachable!("the last reading is under the lock")
    }

    #[cfg(test)]
    fn work_while_reading(&self) {
        let work = self.while_reading.lock().unwrap().take();
        if let Some(work) = work {
            work();
        }
    }

    fn decide(
        &self,
        state: &mut State,
        batch: &Batch,
        waited: usize,
        now: Timestamp,
    ) -> Result<Step, StoreError> {
        let full = state.keeper.stats().full;
        let ran = match state.keeper.run(batch, now) {
            Err(StoreError::Full { .. })
                if state.keeper.waits_for_writing()
                    && (waited < SPACE_WAITS_MAX || !state.keeper.waits_for_space()) =>
            {
                return Ok(Step::Later(self.wait_for_commit(state)));
            }
            Err(error @ StoreError::Full { .. }) => {
                self.want_room(state);
                return Err(error);
            }
            ran => ran?,
        };
        if state.keeper.stats().full > full {
            // It was admitted without being counted.
            self.want_room(state);
        }
        let Ran { answer, again, changed, .. } = ran;
        if changed {
            state.changed += 1;
        }
        match self.durability {
            // An answer that is given again may be one that nobody has yet, and the note in the way
            // of a batch may not be on disk yet: both wait for all that has happened.
            Durability::Sync
                if (changed || again && !answer.refused || answer.refused && !batch.notes.is_empty())
                    && state.durable < state.changed =>
            {
                let written = state.wait(state.changed);
                self.wake(state);
                return Ok(Step::Decided(answer, written));
            }
            Durability::Sync => {}
            Durability::Interval(_) => {
                if state.changed_since.is_none() && state.keeper.unsaved() > 0 {
                    state.changed_since = Some(Instant::now());
                    self.wake(state);
                }
            }
        }
        if state.keeper.unsaved() >= CHANGED_COMMIT {
            self.wake(state);
        }
        Ok(Step::Answered(answer))
    }

    /// Has the writer look for drained counters.
    fn want_room(&self, state: &mut State) {
        if state.sweep_at.is_none() {
            state.sweep_at = Instant::now().checked_add(SWEEP_EACH);
            self.wake(state);
        }
    }

    fn wait_for_commit(&self, state: &mut State) -> Written {
        state.wanted = true;
        self.wake(state);
        state.wait(state.changed)
    }

    /// Wants everything that has changed to be on disk, also where the disk has failed before.
    pub(crate) fn flush(&self) -> Option<Written> {
        let mut state = self.state();
        if state.keeper.unsaved() == 0 && state.durable == state.changed {
            return None;
        }
        Some(self.wait_for_commit(&mut state))
    }
}

impl State {
    fn wait(&mut self, until: u64) -> Written {
        let (waiter, written) = oneshot::channel();
        self.waiting.push_back((until, waiter));
        written
    }

    /// When the writer has something to do; `None` if not before it is woken.
    pub(crate) fn due(&self, durability: Durability) -> Due {
        match (self.due_to_write(durability), self.sweep_at) {
            (Due::Now, _) => Due::Now,
            (_, Some(at)) if at <= Instant::now() => Due::Now,
            (Due::Never, Some(at)) => Due::At(at),
            (Due::At(one), Some(other)) => Due::At(one.min(other)),
            (due, None) => due,
        }
    }

    fn due_to_write(&self, durability: Durability) -> Due {
        let unsaved = self.keeper.unsaved();
        if unsaved == 0 && self.waiting.is_empty() {
            return Due::Never;
        }
        let waited_for = !self.waiting.is_empty() || self.wanted || self.stop;
        if waited_for || unsaved >= CHANGED_COMMIT {
            return Due::Now;
        }
        match (durability, self.changed_since) {
            (Durability::Interval(interval), Some(since)) => match since.checked_add(interval) {
                Some(at) if at > Instant::now() => Due::At(at),
                Some(_) => Due::Now,
                None => Due::Never,
            },
            _ => Due::Never,
        }
    }
}

/// When the writer has something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Now,
    At(Instant),
    Never,
}

/// The counters read from disk, and when.
#[derive(Default)]
struct Read<'a> {
    commits: u64,
    keys: Vec<&'a Key>,
    found: Vec<Standing>,
}

impl Read<'_> {
    /// Whether it says all of these keys, after this many commits: one that was known a moment ago
    /// may have made room.
    fn is_of(&self, keys: &[&Key], commits: u64) -> bool {
        !self.keys.is_empty() && self.commits == commits && keys.iter().all(|key| self.keys.contains(key))
    }
}

tidegate_core::debug_fields!(Shared { durability, disk });

/// How long the writer waits before it tries a disk again that has failed: this long at first, and
/// twice as long each time up to the second.
pub(crate) const RETRY: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));
