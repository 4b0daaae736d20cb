//! A request as a gate has located it: attributes read, limits matched and keys hashed, once.

use smallvec::SmallVec;

use super::decide::Decision;
use super::probe::{LocatedKey, Probes};
use super::{Gate, LeftToStore};
use crate::attributes::Attributes;
use crate::cost::Cost;
use crate::scope::{Keyed, Values};
use crate::time::Timestamp;

/// The limits of one request that a store decides or lends, with the keys it falls on.
///
/// [`Gate::check_and_locate`] fills it while it decides the other limits, so that no attribute is
/// read and no key hashed a second time for [`Gate::leased_limits`] and [`Gate::exact_limits`].
#[derive(Debug, Default)]
pub struct LocatedRequest<'g> {
    pub(super) values: Values<'g>,
    pub(super) in_store: SmallVec<[LocatedKey<'g>; 2]>,
}

impl Gate {
    /// Whether a store decides or lends any of the limits.
    #[inline]
    pub const fn has_store_limits(&self) -> bool {
        !matches!(self.left_to_store, LeftToStore::Nothing)
    }

    /// [`Gate::check`] that also locates the limits which a store decides or lends. `located` is
    /// a new one for each request.
    pub fn check_and_locate<'a>(
        &'a self,
        attributes: impl Into<Attributes<'a>>,
        located: &mut LocatedRequest<'a>,
        cost: Cost,
        now: Timestamp,
    ) -> Decision<'a> {
        let LocatedRequest { values, in_store } = located;
        let attributes = attributes.into();
        self.names.read(attributes, values);
        let mut probes = Probes::new();
        self.locate_all(values, now, &mut probes, in_store);
        self.touch(&probes);
        self.decide(&mut probes, attributes, cost, now)
    }

    /// The limits of a request that a store decides or lends, without deciding the others.
    pub fn locate_store_limits<'a>(
        &'a self,
        attributes: impl Into<Attributes<'a>>,
        now: Timestamp,
    ) -> LocatedRequest<'a> {
        let mut located = LocatedRequest::default();
        self.names.read(attributes.into(), &mut located.values);
        self.locate_all(&located.values, now, &mut Probes::new(), &mut located.in_store);
        located
    }

    /// The limits of this name that a store decides or lends, by the attributes of their keys
    /// alone.
    pub(super) fn locate_named_store_limits<'a>(
        &'a self,
        attributes: impl Into<Attributes<'a>>,
        name: &str,
        now: Timestamp,
    ) -> LocatedRequest<'a> {
        let mut located = LocatedRequest::default();
        let LocatedRequest { values, in_store } = &mut located;
        self.names.read(attributes.into(), values);
        let plan = self.plan_of(values);
        let named = self.limits.iter().enumerate().filter(|(_, limit)| limit.limit.name == name);
        for (index, limit) in named.filter(|(_, limit)| limit.is_in_store) {
            if let (Keyed::On(key), Some((algorithm, spec))) =
                (limit.key(values), self.numbers(limit, values, plan, now))
            {
                in_store.push(LocatedKey { limit: index as u16, key, algorithm, spec });
            }
        }
        located
    }

    /// The counters of a request: the [key](super::CounterPlace::key) and the name of each limit
    /// that applies, in the order of the policy.
    pub fn counter_keys<'a>(
        &'a self,
        attributes: impl Into<Attributes<'a>>,
        now: Timestamp,
    ) -> SmallVec<[(&'a str, u64); 4]> {
        let mut values = Values::new();
        self.names.read(attributes.into(), &mut values);
        let (mut probes, mut in_store) = (Probes::new(), SmallVec::new());
        self.locate_all(&values, now, &mut probes, &mut in_store);
        let here = probes.iter().map(|probe| (probe.limit, probe.key));
        let all = here.chain(in_store.iter().map(|located| (located.limit, located.key)));
        all.map(|(limit, key)| (&*self.limits[usize::from(limit)].limit.name, key.0)).collect()
    }
}
