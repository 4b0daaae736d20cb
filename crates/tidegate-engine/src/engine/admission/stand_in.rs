//! The decision on the stand-in of a request, which a resource in shadow mode has let through.

use tidegate_core::Timestamp;
use tidegate_overload::OfferOutcome;

use super::answer::{Mode, Stop};
use super::waited::Waited;
use crate::decision::Step;
use crate::engine::Engine;
use crate::request::Request;

impl Engine {
    /// Decides on a stand-in. `None`: it is decided, and its namespace is one that limits arrive
    /// for.
    pub(crate) fn admit_stand_in(&self, stand_in: &Request<'_>, now: Timestamp) -> Option<Step<'static>> {
        if self.gate(stand_in.namespace).is_ok() {
            return Some(self.admit(stand_in, now).ok()?.into_owned());
        }
        let (waited, mut holds) = (Waited::default(), None);
        let mut located = self.locate_beside_limits(stand_in, &waited, now);
        let outcome = match self.walk(&mut located, Mode::Charge, &mut holds, now) {
            Ok(()) => OfferOutcome::Admitted,
            Err(Stop::Refuse(by_plane)) => located.refused(by_plane).offer_outcome(),
            Err(Stop::Wait(_) | Stop::Fail(_)) => OfferOutcome::Failed,
        };
        self.decided(None, &located, outcome, now);
        None
    }
}
