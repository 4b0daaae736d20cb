//! Loans that requests may wait for: places in flight, and permits of concurrency limits.

use core::time::Duration;
use std::sync::Arc as StdArc;

use smallvec::SmallVec;
use tidegate_core::{OverloadMechanism, Refusal, RefusalDetails, Timestamp};
use tidegate_overload::{
    Entrant, FeatureId, FeatureUse, InFlightPermit, LatencySample, Obstacle, Overload, ResourceId,
    StreamPermit, UnsettledPlace,
};

use crate::granted_level::GrantedLevel;
use crate::permit_id::PermitId;
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
    /// The work of a feature that has the place.
    feature: Option<(FeatureId, FeatureUse)>,
    /// The parts that few places have, in one box: most pay for one test.
    parts: Option<Box<RareParts>>,
}

/// The parts of a place that few have.
#[derive(Debug, Default)]
struct RareParts {
    /// The request as the fair queue of the resource has charged it, if it waited there.
    charged: Option<Entrant>,
    /// Its entry, if only a settlement by its caller tells the end of its work.
    unsettled: Option<UnsettledEntry>,
    /// Its stream, if its work may become one.
    stream: Option<OpenStream>,
}

/// The stream of a request.
#[derive(Debug)]
struct OpenStream {
    permit: StreamPermit,
    /// How long the place was kept; `None` until the stream has begun.
    begun_after: Option<Duration>,
}

/// The entry of a place among those that may expire before they are settled.
#[derive(Clone, Copy, Debug)]
struct UnsettledEntry {
    resource: ResourceId,
    namespace: u32,
    place: UnsettledPlace,
}

impl Place {
    #[inline]
    pub(crate) fn new(plane: &StdArc<OverloadPlane>, permit: InFlightPermit) -> Self {
        Self { plane: StdArc::clone(plane), permit: Some(permit), feature: None, parts: None }
    }

    fn parts_mut(&mut self) -> &mut RareParts {
        self.parts.get_or_insert_default()
    }

    fn stream(&self) -> Option<&OpenStream> {
        self.parts.as_ref()?.stream.as_ref()
    }

    /// Begins work of a feature at this level.
    #[cold]
    pub(crate) fn begin_feature(&mut self, granted: GrantedLevel) {
        let feature = self.plane.overload.feature(granted.id);
        self.feature = Some((granted.id, feature.begin(granted.grant)));
    }

    /// Counts as a stream from now on, and keeps its place until that begins.
    #[cold]
    pub(crate) fn open_stream(&mut self, permit: StreamPermit) {
        self.parts_mut().stream = Some(OpenStream { permit, begun_after: None });
    }

    /// Whether the place is given back when the answer begins.
    pub(crate) fn awaits_answer(&self) -> bool {
        self.permit.is_some() && self.stream().is_some()
    }

    /// Gives the place back: the work has become a stream, which goes on.
    pub(crate) fn begin_stream(&mut self, admitted: Timestamp, now: Timestamp) {
        self.settle(admitted, now);
        let Some(parts) = &mut self.parts else { return };
        if let (Some(stream), Some(permit)) = (&mut parts.stream, self.permit.take()) {
            stream.begun_after = Some(now.saturating_since(admitted));
            parts.charged = None;
            self.give_back(permit);
        }
    }

    /// How long the place was kept of work that has become a stream.
    pub(crate) fn kept_before_stream(&self) -> Option<Duration> {
        self.stream()?.begun_after
    }

    fn give_back(&self, permit: InFlightPermit) {
        let resource = permit.resource();
        self.plane.overload.give_back(permit);
        self.plane.room.returned(Obstacle::Place(resource));
    }

    /// Remembers what the fair queue of the resource has charged.
    pub(crate) fn charge(&mut self, entrant: Entrant) {
        self.parts_mut().charged = Some(entrant);
    }

    /// Counts the time since the work was admitted, and corrects what the fair queue of the
    /// resource has charged by it.
    pub(crate) fn settle(&self, admitted: Timestamp, now: Timestamp) {
        let Some(permit) = &self.permit else { return };
        let held = now.saturating_since(admitted);
        self.plane.overload.resource(permit.resource()).count_held(permit, held);
        if let Some(entrant) = self.parts.as_ref().and_then(|parts| parts.charged.as_ref()) {
            self.plane.room.settle(permit.resource(), entrant, held, now);
        }
    }

    /// Only a settlement by this name will tell the end of its work.
    pub(crate) fn await_settlement(&mut self, id: PermitId, admitted: Timestamp) {
        if let Some(permit) = &self.permit {
            let place = self.plane.overload.await_settlement(permit, id.to_bits(), admitted);
            let entry = UnsettledEntry { resource: permit.resource(), namespace: permit.namespace(), place };
            self.parts_mut().unsettled = Some(entry);
        }
    }

    /// Takes out what it gives back if it is the place of this entry, which expires. It remembers
    /// that it has.
    pub(crate) fn expire(&mut self, entry: UnsettledPlace) -> Option<Self> {
        let parts = self.parts.as_mut()?;
        parts.unsettled.as_ref().filter(|known| known.place == entry)?;
        let permit = self.permit.take()?;
        let expired = RareParts { charged: parts.charged.take(), ..RareParts::default() };
        let (plane, feature) = (StdArc::clone(&self.plane), self.feature.take());
        Some(Self { plane, permit: Some(permit), feature, parts: Some(Box::new(expired)) })
    }

    /// Whether it has expired before it was settled.
    pub(crate) fn has_expired(&self) -> bool {
        self.permit.is_none() && self.stream().is_none()
    }

    /// Learns how long work took whose end its caller tells, also after its place has expired.
    pub(crate) fn learn_settled(&self, admitted: Timestamp, now: Timestamp) {
        let unsettled = self.parts.as_ref().and_then(|parts| parts.unsettled.as_ref());
        if let Some(UnsettledEntry { resource, namespace, .. }) = unsettled {
            let took = now.saturating_since(admitted);
            self.plane.overload.learn_settled(*resource, *namespace, took, now);
        }
    }

    /// Learns the cost of its feature at the level of the work, which had the place for so long.
    pub(crate) fn learn_feature(&self, held: Duration) {
        if let Some((id, work)) = &self.feature {
            self.plane.overload.feature(*id).learn(work, held);
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
        if let Some((id, work)) = self.feature.take() {
            self.plane.overload.feature(id).end(work, None);
        }
        let parts = self.parts.take();
        if let Some(permit) = self.permit.take() {
            if let Some(entry) = parts.as_ref().and_then(|parts| parts.unsettled) {
                self.plane.overload.forget_unsettled(entry.resource, entry.namespace, entry.place);
            }
            self.give_back(permit);
        }
        if let Some(stream) = parts.and_then(|parts| parts.stream) {
            self.plane.overload.close_stream(stream.permit);
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
    /// How long the permit is held that is held longest, if it is not returned before; `None` if
    /// none expires.
    pub(crate) longest_hold: Option<Duration>,
}

impl Drop for Loan {
    fn drop(&mut self) {
        for key in &self.keys {
            self.room.returned(Obstacle::Counter(*key));
        }
    }
}
