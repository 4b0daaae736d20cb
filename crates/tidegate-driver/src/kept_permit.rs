//! A permit that is kept under a name, until the caller that is to settle it knows the name.

use tidegate_engine::{Asking, Completion, Outcome, PermitId, Progress, RequestError};
use tokio::runtime::Handle;

use crate::driver::Driver;

/// A kept permit whose name its caller does not know yet.
///
/// Dropping it settles it as [cancelled](Outcome::Cancelled), since nobody else could settle it
/// before it expires.
#[derive(Debug)]
#[must_use = "dropping it cancels the permit"]
pub struct UntoldPermit {
    driver: Driver,
    id: Option<PermitId>,
}

impl UntoldPermit {
    /// Its name.
    pub fn id(&self) -> PermitId {
        self.id.expect("only telling, settling and dropping take it")
    }

    /// The caller knows the name, and settles the permit.
    pub fn told(mut self) -> PermitId {
        self.id.take().expect("only telling, settling and dropping take it")
    }

    /// Settles the permit with this completion, unless its caller has.
    pub fn settle(mut self, completion: impl Into<Completion>) {
        if let Some(id) = self.id.take() {
            self.driver.settle_kept(id, completion);
        }
    }
}

impl Drop for UntoldPermit {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.driver.settle_kept(id, Outcome::Cancelled);
        }
    }
}

/// The store is asked to remember a permit. Dropped before it has answered, the question is carried
/// to its end in the background and the permit is settled as cancelled.
struct PermitKeepRequest {
    driver: Driver,
    asking: Option<Box<Asking<PermitId>>>,
}

impl Driver {
    /// Brings an engine's `keep` to its end.
    ///
    /// Dropping the future settles the permit as cancelled, also while the store is asked.
    pub async fn keep(&self, begun: Progress<PermitId>) -> Result<UntoldPermit, RequestError> {
        let asking = match begun {
            Progress::Done(id) => return Ok(self.untold(id)),
            Progress::Ask(asking) => asking,
        };
        let mut request = PermitKeepRequest { driver: self.clone(), asking: Some(asking) };
        loop {
            let asking = request.asking.as_ref().expect("only its answer and dropping take it");
            let answer = self.call_store(asking.batch()).await;
            let asking = request.asking.take().expect("it was there before");
            match self.resume_operation(*asking, answer)? {
                Progress::Done(id) => return Ok(self.untold(id)),
                Progress::Ask(next) => request.asking = Some(next),
            }
        }
    }

    /// A permit that was kept without asking the store.
    pub fn untold(&self, id: PermitId) -> UntoldPermit {
        UntoldPermit { driver: self.clone(), id: Some(id) }
    }

    /// Settles a kept permit by the engine in force, and tells the store in the background. A
    /// permit that was settled or has expired is left alone.
    pub fn settle_kept(&self, id: PermitId, completion: impl Into<Completion>) {
        if let Ok(settled) = self.engine().settle_kept(id, completion, self.now()) {
            self.return_settled(settled);
        }
    }
}

impl Drop for PermitKeepRequest {
    fn drop(&mut self) {
        let Some(asking) = self.asking.take() else { return };
        // Without a runtime the store cannot be asked, and the permit stays until it expires.
        let Ok(runtime) = Handle::try_current() else { return };
        let driver = self.driver.clone();
        runtime.spawn(async move {
            // The store knows the batch by its id, so that a second call changes nothing.
            if let Ok(id) = driver.complete(Progress::Ask(asking)).await {
                driver.settle_kept(id, Outcome::Cancelled);
            }
        });
    }
}

tidegate_core::debug_fields!(PermitKeepRequest { asking });
