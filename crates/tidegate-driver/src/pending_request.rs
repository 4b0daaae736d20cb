//! Pending requests: the loop that brings what a request waits for and resumes it.

use std::sync::Arc;

use tidegate_engine::{
    Answered, Decision, DecisionAll, Engine, Outcome, Pending, PendingAll, Permit, Step, StepAll, Wants,
};
use tidegate_store::{Batch, StoreError};
use tokio::runtime::Handle;

use crate::driver::Driver;

/// A pending request, one or several that are decided together.
pub trait Undecided: Sized + Send + Sync + 'static {
    /// Its decision.
    type Decision: Send + 'static;

    /// The thing it waits for.
    fn wants(&self) -> Wants<'_>;

    /// Goes on with it.
    fn resume(self, engine: &Engine, answered: Answered, driver: &Driver) -> Resumed<Self>;

    /// Gives back what was admitted: the batches for the store, and whether something was lent.
    fn cancel(decision: Self::Decision, driver: &Driver) -> (Vec<Batch>, bool);
}

/// How far a pending request has come.
#[derive(Debug)]
pub enum Resumed<P: Undecided> {
    /// It is decided.
    Decided(P::Decision),
    /// It waits for something else.
    Pending(P),
}

/// A decision and the engine that made it, which knows the names of the permit's local limits.
#[derive(Debug)]
pub struct Decided<D> {
    /// The decision.
    pub decision: D,
    /// The engine that was in force when the request was decided.
    pub engine: Arc<Engine>,
}

impl Undecided for Pending {
    type Decision = Decision;

    fn wants(&self) -> Wants<'_> {
        Pending::wants(self)
    }

    fn resume(self, engine: &Engine, answered: Answered, driver: &Driver) -> Resumed<Self> {
        match engine.resume(self, answered, driver.now()) {
            Step::Decided(decision) => Resumed::Decided(decision),
            Step::Ask(pending) => Resumed::Pending(pending),
        }
    }

    fn cancel(decision: Decision, driver: &Driver) -> (Vec<Batch>, bool) {
        let Decision::Admit(permit) = decision else { return (Vec::new(), false) };
        let has_lent = permit.must_be_settled();
        let settled = driver.engine().settle(permit, Outcome::Cancelled, driver.now());
        (settled.batch.map(|batch| *batch).into_iter().collect(), has_lent)
    }
}

impl Undecided for PendingAll {
    type Decision = DecisionAll;

    fn wants(&self) -> Wants<'_> {
        PendingAll::wants(self)
    }

    fn resume(self, engine: &Engine, answered: Answered, driver: &Driver) -> Resumed<Self> {
        match engine.resume_all(self, answered, driver.now()) {
            StepAll::Decided(decision) => Resumed::Decided(decision),
            StepAll::Ask(pending) => Resumed::Pending(pending),
        }
    }

    fn cancel(decision: DecisionAll, driver: &Driver) -> (Vec<Batch>, bool) {
        let DecisionAll::Admit(permits) = decision else { return (Vec::new(), false) };
        let has_lent = permits.iter().any(Permit::must_be_settled);
        let settled = driver.engine().settle_all(permits, Outcome::Cancelled, driver.now());
        (settled.batches, has_lent)
    }
}

/// A pending request that is being driven. [`PendingRequest::decided`] drives it to its decision.
///
/// Dropping it, or that future, gives everything back: the request is carried to its decision in
/// the background, by the same batches under the same ids, which charge nothing twice, and then
/// cancelled.
#[derive(Debug)]
#[must_use = "dropping it cancels the request"]
pub struct PendingRequest<P: Undecided> {
    driver: Driver,
    pending: Option<P>,
}

impl Driver {
    /// Drives a pending request.
    pub fn drive<P: Undecided>(&self, pending: P) -> PendingRequest<P> {
        PendingRequest { driver: self.clone(), pending: Some(pending) }
    }

    /// Brings what a pending request wants.
    async fn bring(&self, wants: Wants<'_>) -> Answered {
        wants.bring(|batch| self.call_store(batch)).await
    }

    /// Resumes a pending request by the engine in force.
    fn resume<P: Undecided>(&self, pending: P, answered: Answered) -> (Resumed<P>, Arc<Engine>) {
        let engine = self.handle().engine();
        let resumed = pending.resume(&engine, answered, self);
        self.renew_leases();
        (resumed, engine)
    }

    fn give_back<P: Undecided>(&self, decision: P::Decision) {
        let (batches, has_lent) = P::cancel(decision, self);
        if batches.is_empty() {
            self.announce_returned(has_lent);
        } else {
            self.send_in_background(batches, has_lent, || {});
        }
    }
}

impl<P: Undecided> PendingRequest<P> {
    /// Brings what the request wants until it is decided.
    pub async fn decided(mut self) -> Decided<P::Decision> {
        loop {
            let pending = self.pending.as_ref().expect("only its decision and dropping it take it");
            let answered = self.driver.bring(pending.wants()).await;
            let pending = self.pending.take().expect("it was there before");
            match self.driver.resume(pending, answered) {
                (Resumed::Decided(decision), engine) => return Decided { decision, engine },
                (Resumed::Pending(next), _) => self.pending = Some(next),
            }
        }
    }
}

impl<P: Undecided> Drop for PendingRequest<P> {
    fn drop(&mut self) {
        let Some(pending) = self.pending.take() else { return };
        if let Wants::Lease(_) = pending.wants() {
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
async fn cancel<P: Undecided>(driver: Driver, mut pending: P) {
    loop {
        let answered = with_unknown_outcome(driver.bring(pending.wants()).await);
        match driver.resume(pending, answered).0 {
            Resumed::Decided(decision) => return driver.give_back::<P>(decision),
            Resumed::Pending(next) => pending = next,
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
fn cancel_without_runtime<P: Undecided>(driver: &Driver, pending: P) {
    let late = StoreError::Timeout { after: driver.link().timeout };
    let engine = driver.handle().engine();
    match pending.resume(&engine, Answered::Store(Err(late)), driver) {
        Resumed::Decided(decision) => driver.give_back::<P>(decision),
        // The rest would have to be asked for. It is given up, as if its answer were lost.
        Resumed::Pending(_) => {}
    }
}
