//! The permit of an admitted request, from its admission to the end of its work.

use core::time::Duration;

use tidegate_engine::{Completion, Outcome, Permit};

use crate::driver::Driver;

/// The permit of an admitted request, with the driver that settles it. It is settled once.
///
/// Dropping it settles it as [abandoned](Outcome::Abandoned), and in a panic as
/// [failed](Outcome::Failed): what is lent is given back, what was spent stays spent, since the
/// work was begun. Its end is then no sample of latency.
///
/// ```
/// # use tidegate_core::{Cost, Limit};
/// # use tidegate_driver::Admission;
/// # use tidegate_engine::{Completion, Request};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let admission = Admission::builder().limit(Limit::rate("tokens", "1000/1d")?).build()?;
/// let request = Request::new("default", ()).cost(Cost::new(300).unwrap());
/// let hold = admission.admit(&request).await?.into_result()?;
/// // The work cost 120 units rather than the 300 that were charged.
/// hold.settle(Completion::from_cost(120));
/// assert_eq!(admission.peek(&request).await?[0].remaining, 880);
/// // A hold that is given back before the work begins costs nothing.
/// admission.admit(&request).await?.into_result()?.cancelled();
/// assert_eq!(admission.peek(&request).await?[0].remaining, 880);
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping a hold settles it as abandoned"]
pub struct Hold {
    driver: Driver,
    permit: Option<Permit>,
    /// The time from the admission to the beginning of the answer.
    first_byte_after: Option<Duration>,
}

impl Hold {
    /// Holds a permit that the engine of `driver` gave.
    pub fn new(driver: &Driver, permit: Permit) -> Self {
        Self { driver: driver.clone(), permit: Some(permit), first_byte_after: None }
    }

    /// The permit.
    pub fn permit(&self) -> &Permit {
        self.permit.as_ref().expect("only settling and dropping take it")
    }

    /// The answer to the request begins: a resource that finds its limit by latency learns how long
    /// that took. Nothing is measured for a permit without a place.
    pub fn answer_begun(&mut self) {
        let permit = self.permit();
        if permit.holds_place() {
            self.first_byte_after = Some(self.driver.now().saturating_since(permit.admitted_at()));
        }
    }

    /// [`Hold::answer_begun`] of an answer with this status. A
    /// [stream](tidegate_engine::Request::is_stream) gives its place back.
    pub fn answer_begun_with(&mut self, status: u16) {
        self.answer_begun();
        let (driver, permit) = (&self.driver, self.permit.as_mut());
        if let Some(permit) = permit.filter(|permit| permit.awaits_answer()) {
            let outcome = if status < 500 { Outcome::Succeeded } else { Outcome::Failed };
            driver.begin_answer(permit, Completion::from(outcome).with_status(status));
        }
    }

    /// Takes the permit out, for a caller that settles it by itself.
    pub fn into_permit(mut self) -> Permit {
        self.permit.take().expect("only settling and dropping take it")
    }

    /// Settles it with this completion, by the engine in force. The store is told in the
    /// background.
    pub fn settle(mut self, completion: impl Into<Completion>) {
        self.settle_once(completion.into());
    }

    /// The work was done.
    pub fn succeeded(self) {
        self.settle(Outcome::Succeeded);
    }

    /// The work was tried and failed; what was spent stays spent, unless a limit gives it back.
    pub fn failed(self) {
        self.settle(Outcome::Failed);
    }

    /// The work was never begun: everything is given back.
    pub fn cancelled(self) {
        self.settle(Outcome::Cancelled);
    }

    fn settle_once(&mut self, mut completion: Completion) {
        if let Some(permit) = self.permit.take() {
            completion.first_byte_after = completion.first_byte_after.or(self.first_byte_after);
            self.driver.settle(permit, completion);
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let outcome = if std::thread::panicking() { Outcome::Failed } else { Outcome::Abandoned };
        self.settle_once(Completion::from(outcome).unsampled());
    }
}

tidegate_core::debug_fields!(Hold { permit });
