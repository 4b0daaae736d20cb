//! Step 4: a place in flight of the resource, or its pace where nobody reports the end of the work.

use tidegate_core::{Refusal, Timestamp};
use tidegate_overload::{
    Obstacle, Overload, PlaceRefusal, RequestRecord, ResourceId, Shed, StreamPermit, TicketNumber,
    WaitsForPlace,
};

use super::answer::{Answer, Mode, Stop};
use super::located::{Located, LocatedFeature};
use super::refusal::shed_by;
use super::waited::Waited;
use crate::engine::Engine;
use crate::granted_level::GrantedLevel;
use crate::permit::Holds;
use crate::place::{OverloadPlane, Place};
use crate::request::Request;
use crate::spent_ticket::SpentTicket;

#[expect(clippy::inline_always, reason = "as `Engine::walk`")]
#[inline(always)]
pub(crate) fn step(
    engine: &Engine,
    located: &mut Located<'_, '_>,
    mode: Mode,
    holds: &mut Option<Holds>,
    now: Timestamp,
) -> Answer {
    let Located { request, waited, record, shadow, feature, ticket, is_shed, .. } = located;
    let (Some(plane), Some(record)) = (&engine.planes.overload, record) else {
        if let (Mode::Charge, Some(resource)) = (mode, *shadow) {
            engine.rehearse(request, resource, holds, now);
        }
        return Ok(());
    };
    let (overload, resource, level) = (&plane.overload, record.resource(), record.level());
    if *is_shed && let Some(shed) = overload.shed(record) {
        return Err(Stop::Refuse(Some(shed_by(request.namespace, &shed, request))));
    }
    // A request that may become a stream too many waits for no place: none would help it.
    let stream = match stream(overload, request, mode, record) {
        Ok(stream) => stream,
        Err(shed) => return Err(Stop::Refuse(Some(shed_by(request.namespace, &shed, request)))),
    };
    let shed = match mode {
        // The end of its work is not reported, so it is paced and takes no place.
        Mode::Charge if !request.end_known => {
            let shed = match ticket {
                Some(number) if !waited.had_ticket => pace_ticket(overload, record, *number, holds, now),
                Some(_) => overload.pace_ticket(record, now),
                None => overload.pace(record, now),
            };
            if let (None, Some(granted), Some(holds)) = (&shed, granted(*feature), holds) {
                overload.feature(granted.id).count_units(granted.grant, request.cost.units());
                holds.other_mut().feature = Some(granted);
            }
            shed
        }
        Mode::Charge if is_claimed(plane, resource, request, waited) => {
            close(overload, stream);
            Some(refuse(plane, record, PlaceRefusal::Claimed, request, waited, now))
        }
        Mode::Charge => {
            match overload.take_place(record, waits_for_place(resource, request, waited, now), now) {
                Ok(permit) => {
                    if let Some(holds) = holds {
                        let other = holds.other_mut();
                        let taken = other.place.insert(Place::new(plane, permit));
                        if let Some(stream) = stream {
                            taken.open_stream(stream);
                        }
                        if let Some(granted) = granted(*feature) {
                            taken.begin_feature(granted);
                            other.feature = Some(granted);
                        }
                        // A ticket of a request that waits is spent already.
                        if let Some(number) = *ticket
                            && !waited.had_ticket
                        {
                            let Some(spent) = spend(overload, resource, number, now) else {
                                return Err(Stop::Refuse(Some(spent_before(overload, record, request))));
                            };
                            other.rare_mut().ticket = Some(spent);
                        }
                    }
                    None
                }
                Err(shed) => {
                    close(overload, stream);
                    Some(shed)
                }
            }
        }
        Mode::Look | Mode::LookAtLimits => {
            let is_claimed = is_claimed(plane, resource, request, waited);
            let why = if is_claimed { PlaceRefusal::Claimed } else { PlaceRefusal::NoPlace };
            Some(refuse(plane, record, why, request, waited, now))
        }
        Mode::Explain if !request.end_known => overload.would_exceed_pace(resource, level, now),
        Mode::Explain if is_claimed(plane, resource, request, waited) => {
            Some(overload.would_refuse(resource, level, PlaceRefusal::Claimed))
        }
        Mode::Explain => overload.would_lack_place(resource, level),
    };
    match shed {
        Some(shed) => Err(Stop::Refuse(Some(shed_by(request.namespace, &shed, request)))),
        None => Ok(()),
    }
}

/// Opens the stream that the request may become, if it goes on to a place; the refusal of one too
/// many.
#[expect(clippy::inline_always, reason = "as `Engine::walk`")]
#[inline(always)]
fn stream(
    overload: &Overload,
    request: &Request<'_>,
    mode: Mode,
    record: &RequestRecord,
) -> Result<Option<StreamPermit>, Shed> {
    if !request.is_stream || !request.end_known { Ok(None) } else { open_stream(overload, mode, record) }
}

#[cold]
fn open_stream(
    overload: &Overload,
    mode: Mode,
    record: &RequestRecord,
) -> Result<Option<StreamPermit>, Shed> {
    match mode {
        Mode::Charge => overload.open_stream(record).map(Some),
        // There is no place: the stream is only looked at, and its want counted.
        Mode::Look | Mode::LookAtLimits => {
            overload.open_stream(record).map(|stream| overload.close_stream(stream))?;
            Ok(None)
        }
        Mode::Explain => overload.would_lack_stream(record.resource(), record.level()).map_or(Ok(None), Err),
    }
}

/// Closes a stream whose request gets no place.
fn close(overload: &Overload, stream: Option<StreamPermit>) {
    if let Some(stream) = stream {
        overload.close_stream(stream);
    }
}

/// The level of the feature that the request was granted.
#[inline]
fn granted(feature: Option<LocatedFeature>) -> Option<GrantedLevel> {
    let LocatedFeature { id, grant } = feature?;
    Some(GrantedLevel { id, grant: grant? })
}

/// How a request goes on that is charged so far: where there is no place for it, the planes before
/// the place are only looked at. A request that may spend leases is charged all the same, since
/// whether a lease refuses is known after it is spent.
#[inline]
pub(crate) fn mode_by_place(engine: &Engine, located: &Located<'_, '_>, mode: Mode) -> Mode {
    let Located { request, record, .. } = located;
    if located.is_shed {
        return Mode::Look;
    }
    if mode == Mode::Charge
        && let (Some(overload), Some(record)) = (engine.overload(), record)
        && request.end_known
        && !overload.has_place(record.resource(), request.class)
        && !engine.may_spend_leases(located)
    {
        return Mode::Look;
    }
    mode
}

/// Paces a request with a ticket, and spends the ticket if the request is in pace. A request whose
/// ticket is not good any more is paced as one without.
#[cold]
fn pace_ticket(
    overload: &Overload,
    record: &mut RequestRecord,
    number: TicketNumber,
    holds: &mut Option<Holds>,
    now: Timestamp,
) -> Option<Shed> {
    let Some(spent) = spend(overload, record.resource(), number, now) else {
        return overload.pace(record, now);
    };
    let shed = overload.pace_ticket(record, now);
    match (&shed, holds) {
        (None, Some(holds)) => holds.other_mut().rare_mut().ticket = Some(spent),
        (None, None) => {}
        (Some(_), _) => spent.give_back(),
    }
    shed
}

/// Spends a ticket of a request that is about to be served; `None` if it is not good any more.
#[cold]
fn spend(overload: &Overload, id: ResourceId, number: TicketNumber, now: Timestamp) -> Option<SpentTicket> {
    SpentTicket::spend(overload.shared_resource(id), number, overload.ticket_clock().from_member(now))
}

/// The refusal of a request whose ticket another request has spent since the ticket was looked at.
#[cold]
fn spent_before(overload: &Overload, record: &RequestRecord, request: &Request<'_>) -> Refusal {
    let shed = overload.refuse(record.resource(), record.level(), PlaceRefusal::Claimed);
    shed_by(request.namespace, &shed, request)
}

#[cold]
fn refuse(
    plane: &OverloadPlane,
    record: &RequestRecord,
    why: PlaceRefusal,
    request: &Request<'_>,
    waited: &Waited<'_>,
    now: Timestamp,
) -> Shed {
    let (overload, resource, level) = (&plane.overload, record.resource(), record.level());
    if waits_for_place(resource, request, waited, now) == WaitsForPlace::No {
        overload.resource(resource).count_unplaced(level);
    }
    overload.refuse(resource, level, why)
}

/// Whether a request waits for a place of its resource where none is free.
#[inline]
fn waits_for_place(
    resource: ResourceId,
    request: &Request<'_>,
    waited: &Waited<'_>,
    now: Timestamp,
) -> WaitsForPlace {
    if waited.next_of == Some(Obstacle::Place(resource)) {
        WaitsForPlace::Called
    } else if request.may_wait_until.is_some_and(|until| until > now) {
        WaitsForPlace::IfTaken
    } else {
        WaitsForPlace::No
    }
}

/// Whether requests of the same class or a higher one wait for the places of a resource, so that a
/// free one is theirs.
#[expect(clippy::inline_always, reason = "as `Engine::walk`")]
#[inline(always)]
fn is_claimed(
    plane: &OverloadPlane,
    resource: ResourceId,
    request: &Request<'_>,
    waited: &Waited<'_>,
) -> bool {
    let obstacle = Obstacle::Place(resource);
    plane.room.count() > 0
        && waited.next_of != Some(obstacle)
        && plane.room.waits_from(obstacle, request.class)
}
