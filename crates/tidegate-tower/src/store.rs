//! Talking to the store: the part of a decision that waits, and what is to be told when nobody
//! waits any more.

use std::sync::Arc;
use std::time::Duration;

use tidegate_engine::{Answered, Decision, Outcome, Pending, Settled, Step};
use tidegate_store::{Answer, Batch, DynStore, StoreError};

use crate::layer::Settings;

/// How often an undo is sent, and the first pause between two attempts, which doubles: about 50 s
/// in all.
const UNDO_ATTEMPTS_MAX: u32 = 9;
const UNDO_PAUSE_MIN: Duration = Duration::from_millis(200);

impl Settings {
    /// Carries a batch to the store. A store that is late is as good as one that is gone.
    async fn ask(&self, batch: &Batch) -> Result<Answer, StoreError> {
        let Some(store) = &self.store else {
            let at = "the layer, which was given no store (`AdmitLayer::store`)".to_owned();
            return Err(StoreError::Unavailable { at, sent: false, source: None });
        };
        let after = self.store_timeout;
        match tokio::time::timeout(after, DynStore::run_boxed(&**store, batch)).await {
            Ok(answer) => answer,
            Err(_) => Err(StoreError::Timeout { after }),
        }
    }

    /// Carries a batch to the store that no key waits for, such as the undo of one that was given
    /// up: again after an error, with pauses that grow, as long as the store may remember what to
    /// undo.
    async fn undo(&self, batch: &Batch) -> Result<Answer, StoreError> {
        let mut pause = UNDO_PAUSE_MIN;
        for _ in 1..UNDO_ATTEMPTS_MAX {
            match self.ask(batch).await {
                Err(error) if error.is_transient() => tokio::time::sleep(pause).await,
                answer => return answer,
            }
            pause *= 2;
        }
        self.ask(batch).await
    }

    fn resume(self: &Arc<Self>, pending: Pending, answered: Answered) -> Step {
        let now = self.clock.now();
        let step = self.engine.load().resume(pending, answered, now);
        self.carry_lease_asks();
        step
    }

    /// Carries to the store what leases want to ask, without waiting for it. Called after
    /// everything that may leave an ask; so no task of its own is needed, as without requests
    /// nobody wants a lease.
    pub(crate) fn carry_lease_asks(self: &Arc<Self>) {
        let asks = self.engine.load().take_lease_asks();
        if asks.is_empty() {
            return;
        }
        let runtime = tokio::runtime::Handle::try_current();
        for asked in asks {
            let this = Arc::clone(self);
            let Ok(runtime) = &runtime else {
                let at = "the store, which nobody asks outside of a runtime".to_owned();
                let error = StoreError::Unavailable { at, sent: false, source: None };
                self.engine.load().lease_answered(asked, Err(error), self.clock.now());
                continue;
            };
            runtime.spawn(async move {
                let answer = if asked.asks() == 0 {
                    this.undo(asked.batch()).await
                } else {
                    this.ask(asked.batch()).await
                };
                this.engine.load().lease_answered(asked, answer, this.clock.now());
            });
        }
    }

    /// Tells the store what a settled permit gives back, without waiting for it; then whoever waits
    /// for that is woken.
    ///
    /// Outside of a tokio runtime there is nobody to carry it: what the store counts then stays
    /// charged until it drains or expires by itself. Less is admitted, never more.
    pub(crate) fn finish(self: &Arc<Self>, settled: Settled, has_lent: bool) {
        let Some(batch) = settled.batch else {
            if has_lent {
                self.queue.wake_lent();
            }
            return;
        };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let this = Arc::clone(self);
        runtime.spawn(async move {
            let _ = this.ask(&batch).await;
            if has_lent {
                this.queue.wake_lent();
            }
        });
    }
}

/// A request about which the store is being asked. Dropping it before it is decided gives
/// everything back: the store is asked once more under the same id, which charges nothing anew and
/// tells what there is to give back.
pub(crate) struct Asking {
    settings: Arc<Settings>,
    pending: Option<Pending>,
}

impl Asking {
    pub(crate) fn new(settings: &Arc<Settings>, pending: Pending) -> Self {
        Self { settings: Arc::clone(settings), pending: Some(pending) }
    }

    /// Talks to the store until the request is decided.
    pub(crate) async fn decide(mut self) -> Decision {
        loop {
            let pending = self.pending.as_ref().expect("only a decision or dropping takes it");
            let answered = pending.wants().bring(|batch| self.settings.ask(batch)).await;
            let pending = self.pending.take().expect("it was there before");
            match self.settings.resume(pending, answered) {
                Step::Decided(decision) => return decision,
                Step::Ask(next) => self.pending = Some(next),
            }
        }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        let Some(mut pending) = self.pending.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let settings = Arc::clone(&self.settings);
        runtime.spawn(async move {
            loop {
                let answered = pending.wants().bring(|batch| settings.ask(batch)).await;
                match settings.resume(pending, answered) {
                    Step::Decided(Decision::Admit(permit)) => {
                        let has_lent = permit.must_be_settled();
                        let now = settings.clock.now();
                        let settled = settings.engine.load().settle(permit, Outcome::Cancelled, now);
                        settings.finish(settled, has_lent);
                        return;
                    }
                    Step::Decided(Decision::Refuse(_)) => return,
                    Step::Ask(next) => pending = next,
                }
            }
        });
    }
}
