//! The part of one member of a fleet in the numbers of a resource.

use crate::queue::waiting_room::RoomUse;

/// Which numbers of a resource are those of a fleet, of which each member has an equal part.
///
/// A part is rounded down, so that all parts together are within the whole, but it is at least 1:
/// with more members than places the fleet has as many places as members. Numbers that each member
/// finds by itself, such as an adaptive limit, are divided by what the members measure already.
///
/// ```
/// # use tidegate_core::Timestamp;
/// # use tidegate_overload::{FleetShare, Overload, ResourceConfig};
/// # let now = Timestamp::from_secs(1_800_000_000);
/// let config = ResourceConfig::new(10).share(FleetShare::PlacesAndQueue);
/// let overload = Overload::new(config, 7)?;
/// let resource = overload.find(None).expect("it is the default resource");
/// overload.set_members(3);
/// assert_eq!(overload.stats(resource, now).in_flight_max, 3);
/// # Ok::<(), tidegate_overload::OverloadError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FleetShare {
    /// None: each member has the whole numbers.
    #[default]
    None,
    /// The bounds on what waits, and on streams.
    Queue,
    /// The places in flight, and the bounds on what waits and on streams.
    PlacesAndQueue,
}

impl FleetShare {
    /// The places of one of `members`, of which 0 counts as 1.
    pub(crate) fn places(self, whole: u64, members: u32) -> u64 {
        match self {
            Self::None | Self::Queue => whole,
            Self::PlacesAndQueue => (whole / u64::from(members.max(1))).max(1),
        }
    }

    /// The streams of one of `members`, of which 0 counts as 1.
    pub(crate) fn streams(self, whole: u64, members: u32) -> u64 {
        match self {
            Self::None => whole,
            Self::Queue | Self::PlacesAndQueue => (whole / u64::from(members.max(1))).max(1),
        }
    }

    /// The bounds on what waits at one of `members`, of which 0 counts as 1. A bound of 0 stays.
    pub(crate) fn waiting(self, whole: RoomUse, members: u32) -> RoomUse {
        let members = members.max(1) as usize;
        let part = |whole: usize| (whole / members).max(whole.min(1));
        match self {
            Self::None => whole,
            Self::Queue | Self::PlacesAndQueue => RoomUse::new(part(whole.requests), part(whole.bytes)),
        }
    }
}
