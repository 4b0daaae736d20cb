//! One request as its resource counts it.

use tidegate_core::Timestamp;

use crate::cursor::RequestLevel;
use crate::resource_id::ResourceId;

/// One request as its resource counts it. [`Overload::end`] takes back as one, where the request
/// comes to nothing, all that [`Overload::offer`], [`Overload::take_place`] and [`Overload::pace`]
/// have counted of it.
///
/// [`Overload::offer`]: crate::Overload::offer
/// [`Overload::take_place`]: crate::Overload::take_place
/// [`Overload::pace`]: crate::Overload::pace
/// [`Overload::end`]: crate::Overload::end
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestRecord {
    resource: ResourceId,
    level: RequestLevel,
    is_offered: bool,
    /// The slot of the namespace in which it was offered.
    slot: u8,
    served: ServedBy,
    /// When it was counted as offered and as served, if it was.
    offered_at: Timestamp,
    served_at: Timestamp,
}

/// How a request was counted as served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServedBy {
    /// It was not.
    None,
    /// It got a place.
    Place,
    /// It was paced, since its end is not reported.
    Pace,
    /// The same with a ticket, which takes no turn of its namespace.
    TicketPace,
    /// It was paced while the pace was not known.
    UnknownPace,
}

impl RequestRecord {
    /// A request of this level for a resource, of which nothing is counted yet.
    #[inline]
    pub const fn new(resource: ResourceId, level: RequestLevel) -> Self {
        let (offered_at, served_at) = (Timestamp::MIN, Timestamp::MIN);
        Self { resource, level, is_offered: false, slot: 0, served: ServedBy::None, offered_at, served_at }
    }

    /// The resource it is for.
    #[inline]
    pub const fn resource(&self) -> ResourceId {
        self.resource
    }

    /// Its level there.
    #[inline]
    pub const fn level(&self) -> RequestLevel {
        self.level
    }

    /// The same request at another level, before anything is counted of it.
    #[must_use]
    pub const fn at_level(self, level: RequestLevel) -> Self {
        Self { level, ..self }
    }

    /// Whether anything is counted of it, so that it has to be [ended](crate::Overload::end).
    #[inline]
    pub fn is_counted(&self) -> bool {
        self.is_offered || self.served != ServedBy::None
    }

    /// The same request, served as a later attempt of it was, which was not offered.
    #[inline]
    #[must_use]
    pub fn served_as(self, later: &Self) -> Self {
        Self { served: later.served, served_at: later.served_at, ..self }
    }

    #[inline]
    pub(crate) fn offered(&mut self, slot: u8, now: Timestamp) {
        (self.is_offered, self.slot, self.offered_at) = (true, slot, now);
    }

    /// The slot in which it was offered.
    #[inline]
    pub(crate) const fn slot(&self) -> u8 {
        self.slot
    }

    #[inline]
    pub(crate) fn served(&mut self, by: ServedBy, now: Timestamp) {
        (self.served, self.served_at) = (by, now);
    }

    /// When it was offered, if it was.
    #[inline]
    pub(crate) fn offered_at(&self) -> Option<Timestamp> {
        self.is_offered.then_some(self.offered_at)
    }

    /// How it was served, and when; it is not any more.
    #[inline]
    pub(crate) fn take_served(&mut self) -> (ServedBy, Timestamp) {
        (core::mem::replace(&mut self.served, ServedBy::None), self.served_at)
    }
}
