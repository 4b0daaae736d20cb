//! Pending requests: the loop that brings what a request waits for and resumes it.

use core::future::poll_fn;
use core::pin::pin;
use core::task::Poll;
use std::sync::Arc;

use tidegate_engine::{Answered, Decision, Engine, Outcome, Pending, Request, RequestError, Step, Wants};
use tidegate_store::StoreError;
use tokio::runtime::Handle;

use crate::driver::Driver;
use crate::timer;

/// A decision and the engine that made it, which knows the names of the permit's local limits.
#[derive(Debug)]
pub struct Decided {
    /// The decision.
    pub decision: Decision<'static>,
    /// The engine that was in force when the request was decided.
    pub engine: Arc<Engine>,
}

/// A pending request that is being driven. [`PendingRequest::decided`] drives it to its decision.
///
/// Dropping it, or that future, gives everything back: the request is carried to its decision in
/// the background, by the same batches under the same ids, which charge nothing twice, and then
/// cancelled.
#[derive(Debug)]
#[must_use = "dropping it cancels the request"]
pub struct PendingRequest {
    driver: Driver,
    pending: Option<Pending>,
}

impl Driver {
    /// Drives a pending request.
    pub fn drive(&self, pending: Pending) -> PendingRequest {
        PendingRequest { driver: self.clone(), pending: Some(pending) }
    }

    /// Decides a request by `engine`, such as the one that was in force when the request was read.
    /// Waits for the store and for leases, and for its turn if the request may wait. Dropping the
    /// future gives back what the request holds.
    pub async fn decide(
        &self,
        engine: &Engine,
        request: &Request<'_>,
    ) -> Result<Decision<'static>, RequestError> {
        match engine.admit(request, self.now())? {
            Step::Decided(decision) => Ok(decision.into_owned()),
            Step::Ask(pending) => Ok(Box::pin(self.drive(pending).decided()).await.decision),
        }
    }

    /// Brings what a pending request wants.
    async fn bring(&self, wants: Wants<'_>) -> Answered {
        match wants {
            Wants::Store(batch) => Answered::Store(self.link().call(batch).await),
            Wants::Lease(landing) => {
                landing.await;
                Answered::Lease
            }
            Wants::Turn(turn) => {
                let (mut turn, mut sleep) =
                    (pin!(turn), pin!(timer::sleep_until(self.time(), turn.wake_at())));
                poll_fn(|context| match turn.as_mut().poll(context) {
                    Poll::Ready(()) => Poll::Ready(()),
                    Poll::Pending => sleep.as_mut().poll(context),
                })
                .await;
                Answered::Turn
            }
        }
    }

    /// Resumes a pending request by the engine in force.
    fn resume(&self, pending: Pending, answered: Answered) -> (Step<'static>, Arc<Engine>) {
        let engine = self.handle().engine();
        let step = engine.resume(pending, answered, self.now());
        self.renew_leases();
        (step, engine)
    }

    fn give_back(&self, decision: Decision<'_>) {
        if let Decision::Admit(permit) = decision {
            self.settle(permit, Outcome::Cancelled);
        }
    }
}

impl PendingRequest {
    /// Brings what the request wants until it is decided.
    pub async fn decided(mut self) -> Decided {
        loop {
            let pending = self.pending.as_ref().expect("only its decision and dropping it take it");
            let answered = self.driver.bring(pending.wants()).await;
            let pending = self.pending.take().expect("it was there before");
            match self.driver.resume(pending, answered) {
                (Step::Decided(decision), engine) => return Decided { decision, engine },
                (Step::Ask(next), _) => self.pending = Some(next),
            }
        }
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        let Some(pending) = self.pending.take() else { return };
        if let Wants::Lease(_) | Wants::Turn(_) = pending.wants() {
            // It holds nothing.
            return;
        }
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(cancel(self.driver.clone(), pending))),
            Err(_) => cancel_without_runtime(&self.driver, pending),
        }
    }
}

/// Carries an abandoned request to its decision, and gives back what it is admitted to.
async fn cancel(driver: Driver, mut pending: Pending) {
    loop {
        let answered = with_unknown_outcome(driver.bring(pending.wants()).await);
        match driver.resume(pending, answered).0 {
            Step::Decided(decision) => return driver.give_back(decision),
            // It may wait for its turn, and holds nothing then.
            Step::Ask(next) if matches!(next.wants(), Wants::Turn(_)) => return,
            Step::Ask(next) => pending = next,
        }
    }
}

/// The same, where the batch was sent before and its answer is not known: a second call that does
/// not reach the store says nothing about the first one, which must be undone.
fn with_unknown_outcome(answered: Answered) -> Answered {
    match answered {
        Answered::Store(Err(StoreError::Unavailable { at, sent: false, source })) => {
            Answered::Store(Err(StoreError::Unavailable { at, sent: true, source }))
        }
        answered => answered,
    }
}

/// Gives back what an abandoned request holds here, where the store cannot be called: it is decided
/// as if the store were late, and the engine keeps the undo for the next renewal of leases.
fn cancel_without_runtime(driver: &Driver, pending: Pending) {
    let late = StoreError::Timeout { after: driver.link().timeout };
    let engine = driver.handle().engine();
    match engine.resume(pending, Answered::Store(Err(late)), driver.now()) {
        Step::Decided(decision) => driver.give_back(decision),
        // The rest would have to be asked for. It is given up, as if its answer were lost.
        Step::Ask(_) => {}
    }
}
