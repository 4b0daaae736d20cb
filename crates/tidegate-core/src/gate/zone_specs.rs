//! The calendars of time zones that requests name.
//!
//! A calendar limit may take its time zone from an attribute. Each zone is a spec of its own, since
//! the state of a counter is read by the zone it was written under. The specs are made when the
//! first request names the zone: there are about 600 zones, and most gates meet few of them.

use core::hash::Hasher;
use std::sync::OnceLock;

use super::kept_specs::{HashedKey, KeptSpecs};
use crate::algorithm::{Algorithm, Calendar};
use crate::shares::Owner;
use crate::table::{KeyTable, Spec, SpecId, SpecOwner, SpecPin};

/// How many calendars of one gate may differ in their zone alone. A request that names one more is
/// counted by the zone of its limit.
///
/// A limit has one for each zone and each set of numbers: its own, each plan's and each override's.
pub(crate) const ZONE_SPECS_MAX: usize = 1 << 13;

const LISTS: usize = 1 << 10;

/// The numbers that a zone was asked for, and the zone as the IANA database writes it.
type ZoneKey = (SpecId, Box<str>);

#[derive(Debug, Default)]
pub(crate) struct ZoneSpecs(OnceLock<Box<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    by_zone: KeptSpecs<ZoneKey, LISTS>,
    by_spec: KeptSpecs<SpecId, LISTS>,
}

/// A calendar with another zone than that of the limit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Zoned<'g> {
    /// It counts in the zone that the request names.
    Named(&'g Algorithm, SpecId),
    /// The request names the zone that the calendar has anyway.
    Same,
    /// There is no such zone.
    Unknown,
    /// [`ZONE_SPECS_MAX`] is reached.
    TooMany,
}

impl ZoneSpecs {
    /// `calendar`, which has this spec, in the time zone `zone`.
    pub(crate) fn in_zone<'g>(
        &'g self,
        (calendar, spec): (&'g Calendar, SpecId),
        zone: &str,
        (owner, table): (Owner, &KeyTable),
    ) -> Zoned<'g> {
        if calendar.zone() == zone {
            return Zoned::Same;
        }
        let kept = self.0.get_or_init(Box::default);
        let hash = |zone: &str| {
            let mut hasher = table.hasher();
            hasher.write_u32(spec.get());
            hasher.write(zone.as_bytes());
            hasher.finish()
        };
        let found = |zone: &str| {
            let pin = kept.by_zone.find(hash(zone), |(of, name)| *of == spec && **name == *zone)?;
            Some(Zoned::Named(pin.algorithm()?, pin.id()))
        };
        if let Some(known) = found(zone) {
            return known;
        }
        // A zone that was not asked for yet, or a name in other letters.
        let Ok(other) = calendar.in_zone(zone) else { return Zoned::Unknown };
        if other.zone() == calendar.zone() {
            return Zoned::Same;
        }
        let name: Box<str> = other.zone().into();
        if let Some(known) = found(&name) {
            return known;
        }
        if kept.by_zone.len() >= ZONE_SPECS_MAX {
            return Zoned::TooMany;
        }
        let spec_of = Spec::Algorithm(Algorithm::Calendar(other));
        let pin = || table.specs.intern(spec_of.clone(), SpecOwner::policy(owner));
        let (Some(pin), Some(again)) = (pin(), pin()) else { return Zoned::TooMany };
        kept.by_spec.keep(HashedKey { key: pin.id(), hash: u64::from(pin.id().get()) }, again);
        kept.by_zone.keep(HashedKey { key: (spec, name.clone()), hash: hash(&name) }, pin);
        found(&name).unwrap_or(Zoned::TooMany)
    }

    /// The algorithm of a calendar with this spec that was made here.
    pub(crate) fn algorithm_of(&self, spec: SpecId) -> Option<&Algorithm> {
        let kept = self.0.get()?;
        kept.by_spec.find(u64::from(spec.get()), |key| *key == spec).and_then(SpecPin::algorithm)
    }
}
