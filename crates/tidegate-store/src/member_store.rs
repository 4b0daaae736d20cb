//! A store that members share, as one of them sees it: on its own clock, and without what was lost.
//!
//! Such a store decides on a clock of its own, and says when to come back on that. A member counts
//! in its own time everywhere else, and the two may be seconds apart. Here everything that passes
//! is moved from one clock to the other; what is decided stays the store's.
//!
//! A store that has lost its counters decides on counters that have begun anew. Rates may; the
//! quota of a window may not, so that it is not decided there until its usage is known again.

use core::fmt;
use core::time::Duration;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use tidegate_core::algorithm::{Counter, State, Verdict, WindowStart};
use tidegate_core::{Algorithm, Cost, Timestamp};

use crate::{Answer, Batch, FleetStore, Kind, Note, NoteChange, NoteKind, RequestId, Store, StoreError};

/// Makes the id of the undo of a batch from the id of that batch.
const UNDO_OF_LOST: u128 = 0x756e_646f_206f_6620_6c6f_7374_2064_6174;

/// Changes of the offset below this are ignored: smaller than any retry time, larger than most
/// round trips.
const FOLLOWED_MIN: i64 = 5_000_000;

/// The offset before the first answer.
const UNKNOWN: i64 = i64::MIN;

/// A shared store whose instants, in both directions, are on the clock of its member.
///
/// Each answer measures the offset of the clocks to within its round trip; before the first answer
/// it counts as zero, and a batch that names an instant is preceded by an empty one that measures
/// it. Changes of the offset by more than five milliseconds are followed.
///
/// A batch with a quota whose usage the store has lost is [`StoreError::DataLost`], until the loss
/// is acknowledged or the window of its instant has ended. If the batch itself was the first to
/// find the loss, it is undone.
pub struct MemberStore<S, C> {
    store: S,
    now: C,
    /// By how many nanoseconds the store's clock is ahead, or [`UNKNOWN`]. One word, so that nobody
    /// sees an offset that is known and not there yet.
    ahead: AtomicI64,
    /// How often the clock was looked at with a batch of its own.
    looks: AtomicU64,
}

impl<S: Store + FleetStore, C: Fn() -> Timestamp + Send + Sync> MemberStore<S, C> {
    /// The same store, on the clock `now`.
    pub const fn new(store: S, now: C) -> Self {
        Self { store, now, ahead: AtomicI64::new(UNKNOWN), looks: AtomicU64::new(0) }
    }

    /// By how many nanoseconds the store's clock is ahead of the caller's; negative if it is
    /// behind. 0 until it has answered.
    pub fn ahead_nanos(&self) -> i64 {
        self.known_offset().unwrap_or(0)
    }

    fn known_offset(&self) -> Option<i64> {
        // Relaxed here and below: a number alone, which orders nothing.
        Some(self.ahead.load(Ordering::Relaxed)).filter(|ahead| *ahead != UNKNOWN)
    }

    fn learn(&self, store_now: Timestamp) {
        let ahead = distance(store_now, (self.now)()).max(UNKNOWN + 1);
        let is_followed = |known: i64| ahead.saturating_sub(known).saturating_abs() > FOLLOWED_MIN;
        if self.known_offset().is_none_or(is_followed) {
            self.ahead.store(ahead, Ordering::Relaxed);
        }
    }

    /// Measures the offset for a batch that is sent next. No batch has its id, nor does another
    /// look: a store may remember the ids of empty batches too.
    async fn look_at_clock(&self, next: RequestId) -> Result<(), StoreError> {
        let look = u128::from(self.looks.fetch_add(1, Ordering::Relaxed));
        let empty = Batch::each(RequestId(!next.0 ^ look << 64), []);
        self.learn(self.store.run(&empty).await?.store_now);
        Ok(())
    }

    /// The error of a batch with a quota whose usage was lost; none once the window of the loss has
    /// ended.
    fn lost_for(&self, batch: &Batch) -> Option<StoreError> {
        let asks =
            |kind: &Kind| matches!(kind, Kind::Check { .. } | Kind::Peek { .. } | Kind::Acquire { .. });
        let mut quotas = batch.operations.iter().filter(|one| asks(&one.kind) && one.algorithm.is_quota());
        let loss = quotas.find_map(|one| {
            let loss = self.store.loss_of(&one.key)?;
            (self.store.about_now() < known_again(&one.algorithm, loss.began)).then_some(loss)
        })?;
        Some(StoreError::DataLost { expected: loss.expected, found: loss.found })
    }

    /// Takes back what a batch was admitted for on counters that had begun anew.
    async fn undo_lost(&self, batch: &Batch, answer: &Answer) {
        let undo = Batch::undo_of(batch, RequestId(batch.id.0 ^ UNDO_OF_LOST));
        if !answer.refused
            && !undo.operations.is_empty()
            && FleetStore::undo(&self.store, &undo).await.is_err()
        {
            self.store.undo_failed();
        }
    }

    fn in_its_time(&self, batch: &Batch) -> Batch {
        let ahead = self.ahead_nanos();
        let mut batch = batch.clone();
        for operation in &mut batch.operations {
            if let Kind::Block { until } = &mut operation.kind {
                *until = moved(*until, ahead);
            }
        }
        for change in &mut batch.notes {
            if let NoteChange::Put(note) | NoteChange::Create(note) = change {
                note.until = moved(note.until, ahead);
            }
        }
        batch
    }

    fn in_our_time(&self, mut answer: Answer) -> Answer {
        let back = self.ahead_nanos().saturating_neg();
        answer.store_now = moved(answer.store_now, back);
        for outcome in &mut answer.outcomes {
            if let Verdict::Wait { until } = &mut outcome.verdict {
                *until = moved(*until, back);
            }
            outcome.reset_at = moved(outcome.reset_at, back);
            outcome.blocked_until = outcome.blocked_until.map(|until| moved(until, back));
        }
        answer
    }
}

impl<S: Store + FleetStore, C: Fn() -> Timestamp + Send + Sync> Store for MemberStore<S, C> {
    async fn run(&self, batch: &Batch) -> Result<Answer, StoreError> {
        if self.lost_for(batch).is_some() {
            // Another member may have acknowledged the loss since.
            FleetStore::now(&self.store).await?;
            if let Some(error) = self.lost_for(batch) {
                return Err(error);
            }
        }
        let asks_of_time = |kind: &Kind| matches!(kind, Kind::Block { .. });
        let must_move = !batch.notes.is_empty() || batch.operations.iter().any(|one| asks_of_time(&one.kind));
        let ran = if must_move {
            if self.known_offset().is_none() {
                self.look_at_clock(batch.id).await?;
            }
            self.store.run(&self.in_its_time(batch)).await
        } else {
            self.store.run(batch).await
        };
        let answer = ran.map_err(|error| match error {
            StoreError::Full { until } => {
                StoreError::Full { until: moved(until, self.ahead_nanos().saturating_neg()) }
            }
            error => error,
        })?;
        self.learn(answer.store_now);
        match self.lost_for(batch) {
            None => Ok(self.in_our_time(answer)),
            Some(error) => {
                self.undo_lost(batch, &answer).await;
                Err(error)
            }
        }
    }

    async fn notes(&self, kind: NoteKind) -> Result<Vec<Note>, StoreError> {
        let mut notes = self.store.notes(kind).await?;
        let back = self.ahead_nanos().saturating_neg();
        for note in &mut notes {
            note.until = moved(note.until, back);
        }
        Ok(notes)
    }

    fn supports(&self, algorithm: &Algorithm) -> bool {
        self.store.supports(algorithm)
    }

    fn deadline(&self) -> Option<Duration> {
        self.store.deadline()
    }
}

tidegate_core::debug_fields!(MemberStore<S: fmt::Debug, C> { store, ahead });

/// When it is known again how much is used of a limit whose counters were lost at `began`: at the
/// end of the window of that instant, where all keys have the same windows.
fn known_again(algorithm: &Algorithm, began: Timestamp) -> Timestamp {
    fn window_end(counter: &impl Counter, at: Timestamp) -> Timestamp {
        counter.reset_at(counter.charge(State::EMPTY, Cost::ONE, at), at)
    }
    match algorithm {
        Algorithm::Fixed(fixed) if fixed.start() == WindowStart::Epoch => window_end(fixed, began),
        Algorithm::Calendar(calendar) => window_end(calendar, began),
        _ => began.saturating_add(algorithm.window().unwrap_or(Duration::MAX)),
    }
}

fn distance(ahead: Timestamp, behind: Timestamp) -> i64 {
    let forward = ahead.as_nanos().saturating_sub(behind.as_nanos());
    let back = behind.as_nanos().saturating_sub(ahead.as_nanos());
    i64::try_from(forward).unwrap_or(i64::MAX).saturating_sub(i64::try_from(back).unwrap_or(i64::MAX))
}

/// The same instant on a clock that is `by` ahead. An instant that never comes stays one.
fn moved(instant: Timestamp, by: i64) -> Timestamp {
    if instant == Timestamp::MAX || instant == Timestamp::MIN {
        return instant;
    }
    Timestamp::from_nanos(instant.as_nanos().saturating_add_signed(by))
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use core::future::Future;
    use core::pin::pin;
    use core::task::{Context, Poll, Waker};
    use core::time::Duration;
    use std::collections::HashMap;
    use std::sync::atomic::AtomicU64;
    use std::sync::{Arc, Mutex};

    use tidegate_core::algorithm::{Calendar, CivilUnit, Fixed};
    use tidegate_core::lease::{Ask, HolderName};
    use tidegate_core::{Algorithm, Cost, Rate};

    use super::*;
    use crate::{
        FleetCall, FleetStats, Key, Loss, MemoryConfig, MemoryStore, OnLedger, Operation, RequestId,
    };

    /// A store whose clock is an hour ahead of ours, and both clocks.
    struct World {
        ours: Arc<AtomicU64>,
        ahead: Arc<AtomicU64>,
        next: AtomicU64,
    }

    const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);
    const HOUR: Duration = Duration::from_hours(1);

    impl World {
        fn new() -> Self {
            let ours = Arc::new(AtomicU64::new(NOW.as_nanos()));
            let ahead = Arc::new(AtomicU64::new(u64::try_from(HOUR.as_nanos()).unwrap()));
            Self { ours, ahead, next: AtomicU64::new(1) }
        }

        fn now(&self) -> Timestamp {
            Timestamp::from_nanos(self.ours.load(Ordering::Relaxed))
        }

        fn pass(&self, span: Duration) {
            self.ours.fetch_add(u64::try_from(span.as_nanos()).unwrap(), Ordering::Relaxed);
        }

        fn store(
            &self,
        ) -> MemberStore<TestFleetStore<MemoryStore>, impl Fn() -> Timestamp + Send + Sync + use<>> {
            let (ours, ahead) = (Arc::clone(&self.ours), Arc::clone(&self.ahead));
            let its = {
                let ours = Arc::clone(&ours);
                move || Timestamp::from_nanos(ours.load(Ordering::Relaxed) + ahead.load(Ordering::Relaxed))
            };
            let inner = MemoryStore::new(MemoryConfig::new([1, 2, 3, 4]), its);
            MemberStore::new(TestFleetStore::new(inner), move || {
                Timestamp::from_nanos(ours.load(Ordering::Relaxed))
            })
        }

        fn one(&self, kind: Kind) -> Batch {
            let algorithm = Algorithm::bucket(Rate::per_second(1).unwrap()).unwrap();
            let key = Key::new("api", b"per-user", b"ada").unwrap();
            let id = RequestId(self.next.fetch_add(1, Ordering::Relaxed).into());
            Batch::all_or_nothing(id, [Operation::new(key, algorithm, kind)])
        }
    }

    fn now_or_never<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("a store in memory never waits"),
        }
    }

    #[test]
    fn when_to_come_back_is_told_on_the_clock_of_who_asks() {
        let world = World::new();
        let store = world.store();
        let check = Kind::Check { cost: Cost::ONE };
        let first = now_or_never(store.run(&world.one(check))).unwrap();
        assert_eq!(
            (first.store_now, first.outcomes[0].reset_at),
            (NOW, NOW.saturating_add(Duration::from_secs(1)))
        );
        let refused = now_or_never(store.run(&world.one(check))).unwrap();
        let until = NOW.saturating_add(Duration::from_secs(1));
        assert_eq!(refused.outcomes[0].verdict, Verdict::Wait { until });
        world.pass(Duration::from_secs(1));
        assert!(!now_or_never(store.run(&world.one(check))).unwrap().refused, "and it is true");
    }

    #[test]
    fn a_block_ends_when_whoever_blocked_meant_it_to_also_before_the_store_was_ever_asked() {
        let world = World::new();
        let store = world.store();
        let until = world.now().saturating_add(Duration::from_mins(10));
        let blocked = now_or_never(store.run(&world.one(Kind::Block { until }))).unwrap();
        assert_eq!(blocked.outcomes[0].blocked_until, Some(until));
        world.pass(Duration::from_mins(10) - Duration::from_nanos(1));
        let check = Kind::Check { cost: Cost::ONE };
        assert!(now_or_never(store.run(&world.one(check))).unwrap().refused);
        world.pass(Duration::from_nanos(1));
        assert!(!now_or_never(store.run(&world.one(check))).unwrap().refused);
    }

    /// A shared store in memory that remembers the ids of all batches, also of those without
    /// operations, and can be told that it has lost what it held.
    struct TestFleetStore<S> {
        store: S,
        known: Mutex<HashMap<RequestId, Batch>>,
        loss: Mutex<Option<Loss>>,
        undone: AtomicU64,
    }

    impl<S: Store> TestFleetStore<S> {
        fn new(store: S) -> Self {
            Self { store, known: Mutex::default(), loss: Mutex::default(), undone: AtomicU64::new(0) }
        }
    }

    impl<S: Store> Store for TestFleetStore<S> {
        async fn run(&self, batch: &Batch) -> Result<Answer, StoreError> {
            let known = self.known.lock().unwrap().insert(batch.id, batch.clone());
            match known.filter(|known| known != batch) {
                Some(_) => Err(StoreError::IdReused { id: batch.id }),
                None => self.store.run(batch).await,
            }
        }

        async fn notes(&self, kind: NoteKind) -> Result<Vec<Note>, StoreError> {
            self.store.notes(kind).await
        }
    }

    impl<S: Store> FleetStore for TestFleetStore<S> {
        fn now(&self) -> FleetCall<'_, Timestamp> {
            Box::pin(async { Ok(NOW) })
        }

        fn about_now(&self) -> Timestamp {
            NOW.saturating_add(HOUR)
        }

        fn loss_of(&self, _key: &Key) -> Option<Loss> {
            self.loss.lock().unwrap().clone()
        }

        fn acknowledge_loss(&self) -> Option<Loss> {
            self.loss.lock().unwrap().take()
        }

        fn undo<'a>(&'a self, batch: &'a Batch) -> FleetCall<'a, ()> {
            self.undone.fetch_add(1, Ordering::Relaxed);
            Box::pin(async { self.store.run(batch).await.map(drop) })
        }

        fn undo_failed(&self) {}

        fn undo_horizon(&self) -> Duration {
            HOUR
        }

        fn is_silence(&self, _error: &StoreError) -> bool {
            false
        }

        fn stats(&self) -> FleetStats {
            panic!("no test asks for it")
        }
    }

    #[test]
    fn a_quota_whose_usage_was_lost_is_not_decided_until_the_loss_is_acknowledged() {
        let world = World::new();
        let store = world.store();
        let day = Algorithm::bucket(Rate::new(10, Duration::from_hours(24)).unwrap()).unwrap();
        let ask = |algorithm: &Algorithm| {
            let mut batch = world.one(Kind::Check { cost: Cost::ONE });
            batch.operations[0].algorithm = algorithm.clone();
            batch
        };
        let used = |algorithm: &Algorithm| {
            let mut batch = ask(algorithm);
            batch.operations[0].kind = Kind::Peek { cost: Cost::ONE };
            now_or_never(store.store.store.run(&batch)).unwrap().outcomes[0].used
        };
        now_or_never(store.run(&ask(&day))).unwrap();
        let loss = Loss { slot: None, expected: "a".into(), found: String::new(), began: NOW };
        *store.store.loss.lock().unwrap() = Some(loss);
        let error = now_or_never(store.run(&ask(&day))).unwrap_err();
        assert!(matches!(error, StoreError::DataLost { .. }), "{error}");
        assert_eq!((used(&day), store.store.undone.load(Ordering::Relaxed)), (1, 0), "it was not asked");
        // A rate begins anew.
        let rate = Algorithm::bucket(Rate::per_second(1).unwrap()).unwrap();
        now_or_never(store.run(&ask(&rate))).unwrap();
        assert!(store.store.acknowledge_loss().is_some());
        now_or_never(store.run(&ask(&day))).unwrap();
        assert_eq!(used(&day), 2);
    }

    #[test]
    fn the_first_look_at_the_clock_has_an_id_of_its_own() {
        let world = World::new();
        let store = world.store();
        let until = world.now().saturating_add(Duration::from_mins(10));
        let block = world.one(Kind::Block { until });
        let blocked = now_or_never(store.run(&block)).unwrap();
        assert_eq!(blocked.outcomes[0].blocked_until, Some(until));
        let again = now_or_never(store.run(&block)).unwrap();
        assert_eq!(again.outcomes[0].blocked_until, Some(until), "sent again it is answered again");
        // Each look is another batch, also for a batch that is sent again.
        now_or_never(store.look_at_clock(block.id)).unwrap();
        assert_eq!(store.store.known.lock().unwrap().len(), 3);
    }

    #[test]
    fn a_note_ends_on_the_clock_of_who_wrote_it_and_one_for_ever_does_not() {
        let world = World::new();
        let store = world.store();
        let note =
            |name: &[u8], until| Note { kind: NoteKind::Refund, name: name.into(), value: [].into(), until };
        let until = NOW.saturating_add(Duration::from_mins(1));
        let notes = [note(b"a", until), note(b"b", Timestamp::MAX)];
        let batch = Batch::each(RequestId(99), []).with_notes(notes.clone().map(NoteChange::Put));
        now_or_never(store.run(&batch)).unwrap();
        assert_eq!(now_or_never(store.notes(NoteKind::Refund)).unwrap(), notes);
        world.pass(Duration::from_mins(1));
        assert_eq!(now_or_never(store.notes(NoteKind::Refund)).unwrap(), notes[1..]);
    }

    #[test]
    fn a_grant_says_how_long_and_not_until_when_so_it_passes_as_it_is() {
        let world = World::new();
        let store = world.store();
        let ask = Ask::first(HolderName { member: 1, incarnation: 1 }, 1);
        let batch = Batch { id: RequestId(5), ..world.one(Kind::Ledger(OnLedger::Ask(ask))) };
        let answer = now_or_never(store.run(&batch)).unwrap();
        let inside = now_or_never(store.store.run(&Batch { id: RequestId(6), ..batch })).unwrap();
        let (grant, again) = (answer.grants[0].unwrap(), inside.grants[0].unwrap());
        assert_eq!((grant.lump, grant.ttl, grant.epoch), (1, again.ttl, 1));
        assert!(!grant.ttl.is_zero());
        assert_eq!((answer.store_now, answer.grants.len()), (NOW, 1));
        assert!(answer.outcomes[0].reset_at > NOW);
    }

    #[test]
    fn a_clock_that_is_set_is_followed_and_the_time_an_answer_takes_is_not() {
        let world = World::new();
        let store = world.store();
        let peek = Kind::Peek { cost: Cost::ONE };
        let ahead = |seconds: u64| i64::try_from(seconds * 1_000_000_000).unwrap();
        now_or_never(store.run(&world.one(peek))).unwrap();
        assert_eq!(store.ahead_nanos(), ahead(3600));
        world.ahead.fetch_add(4_000_000, Ordering::Relaxed);
        now_or_never(store.run(&world.one(peek))).unwrap();
        assert_eq!(store.ahead_nanos(), ahead(3600));
        world.ahead.store(30_000_000_000, Ordering::Relaxed);
        now_or_never(store.run(&world.one(peek))).unwrap();
        assert_eq!(store.ahead_nanos(), ahead(30));
    }

    #[test]
    fn a_quota_is_known_again_at_the_end_of_the_window_in_which_it_was_lost() {
        let hour = Duration::from_hours(1);
        let day = Timestamp::from_secs(20_840 * 86_400);
        let lost = day.saturating_add(23 * hour);
        let fixed = |start| Algorithm::Fixed(Fixed::new(10, 24 * hour, start).unwrap());
        let calendar = |zone| Algorithm::Calendar(Calendar::new(10, CivilUnit::Day, zone).unwrap());
        let rate = Algorithm::bucket(Rate::new(10, 24 * hour).unwrap()).unwrap();
        for (algorithm, hours) in [
            (fixed(WindowStart::Epoch), 1),
            (fixed(WindowStart::FirstHit), 24),
            (calendar("UTC"), 1),
            (calendar("Asia/Tokyo"), 16),
            (rate, 24),
        ] {
            assert_eq!(known_again(&algorithm, lost), lost.saturating_add(hours * hour), "{algorithm:?}");
        }
    }
}
