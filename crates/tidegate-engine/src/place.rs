//! Loans that requests may wait for: places in flight, and permits of concurrency limits.

use std::sync::Arc as StdArc;

use smallvec::SmallVec;
use tidegate_core::{OverloadMechanism, Refusal, RefusalDetails, Timestamp};
use tidegate_overload::{Entrant, InFlightPermit, LatencySample, Obstacle, Overload};

use crate::sync::Arc;
use crate::waiting_room::Room;

/// Whether a request was refused because all places in flight of its resource were taken, or
/// claimed by requests that wait for one. The return of a place ends this, so that the refusal has
/// no instant to retry at.
pub fn lacks_in_flight_place(refusal: &Refusal) -> bool {
    let details = refusal.details.as_deref().and_then(RefusalDetails::overload);
    details.is_some_and(|details| details.mechanism == OverloadMechanism::InFlight)
}

/// The overload plane with the room in which requests wait for its places.
///
/// Each place in flight counts itself in an `Arc` of this. Aligned, so that the count shares no
/// cache line with what every other request reads.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct OverloadPlane {
    pub(crate) overload: Overload,
    pub(crate) room: Arc<Room>,
}

/// A place in flight, returned by dropping it.
#[derive(Debug)]
pub(crate) struct Place {
    plane: StdArc<OverloadPlane>,
    permit: Option<InFlightPermit>,
    /// The request as the fair queue of the resource has charged it, if it waited there.
    charged: Option<Box<Entrant>>,
}

impl Place {
    #[inline]
    pub(crate) fn new(plane: &StdArc<OverloadPlane>, permit: InFlightPermit) -> Self {
        Self { plane: StdArc::clone(plane), permit: Some(permit), charged: None }
    }

    /// Remembers what the fair queue of the resource has charged.
    pub(crate) fn charge(&mut self, entrant: Entrant) {
        self.charged = Some(Box::new(entrant));
    }

    /// Counts the time since the work was admitted, and corrects what the fair queue of the
    /// resource has charged by it.
    pub(crate) fn settle(&self, admitted: Timestamp, now: Timestamp) {
        let Some(permit) = &self.permit else { return };
        let held = now.saturating_since(admitted);
        self.plane.overload.count_held(permit, held);
        if let Some(entrant) = &self.charged {
            self.plane.room.settle(permit.resource(), entrant, held, now);
        }
    }

    /// Reports the end of the work to the resource.
    #[cold]
    pub(crate) fn sample(&self, sample: LatencySample, admitted: Timestamp, now: Timestamp) {
        if let Some(permit) = &self.permit {
            self.plane.overload.sample(permit, sample, admitted, now);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            let resource = permit.resource();
            self.plane.overload.give_back(permit);
            self.plane.room.returned(Obstacle::Place(resource));
        }
    }
}

/// The concurrency limits that lent a permit to a request. Dropped after the permits are returned,
/// it calls the requests that wait for one.
#[derive(Debug)]
pub(crate) struct Loan {
    pub(crate) room: Arc<Room>,
    /// The fingerprints of the keys.
    pub(crate) keys: SmallVec<[u64; 2]>,
}

impl Drop for Loan {
    fn drop(&mut self) {
        for key in &self.keys {
            self.room.returned(Obstacle::Counter(*key));
        }
    }
}
