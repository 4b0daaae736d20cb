//! The decision on the stand-in of a request, which a resource in shadow mode has let through.

use tidegate_core::Timestamp;
use tidegate_overload::OfferOutcome;

use super::answer::{Mode, Stop};
use super::waited::Waited;
use crate::decision::Step;
use crate::engine::{Engine, Explained};
use crate::progress::Progress;
use crate::request::Request;

impl Engine {
    /// What the planes would say of the stand-in of a request; `None` if its resource enforces.
    pub(crate) fn explain_stand_in(&self, request: &Request<'_>, now: Timestamp) -> Option<Explained> {
        self.shadow_resource(request)?;
        let engine = &self.rehearsal.as_ref()?.engine;
        match engine.explain(&stand_in_of(request), now).ok()? {
            Progress::Done(explained) => Some(explained),
            Progress::Ask(_) => None,
        }
    }

    /// Decides on the stand-in of a request. `None`: it is decided, and its namespace is one that limits arrive
    /// for.
    pub(crate) fn admit_stand_in(&self, request: &Request<'_>, now: Timestamp) -> Option<Step<'static>> {
        let stand_in = &stand_in_of(request);
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

/// The stand-in of a request: only its resource has something to say about it.
pub(crate) fn stand_in_of<'a>(request: &Request<'a>) -> Request<'a> {
    Request { attributes: ().into(), access: None, waiting_connection: None, ..*request }
}
