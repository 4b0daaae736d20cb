//! The counters of a request that is decided more than once: attributes read, limits matched and
//! keys hashed a single time.

use smallvec::SmallVec;

use super::decide::Decision;
use super::unread_refusal::UnreadRefusal;
use super::{CounterPlace, Gate};
use crate::attributes::Attributes;
use crate::cost::Cost;
use crate::scope::{Keyed, Values};
use crate::time::Timestamp;

/// The counters of one request under the limits of its gate, to be decided later without its
/// attributes: see [`Gate::locate_counters`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocatedCounters(SmallVec<[CounterPlace; 1]>);

impl LocatedCounters {
    /// The number of limits that apply to the request.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no limit applies to the request.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The [keys](CounterPlace::key) of the counters.
    pub fn keys(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().map(|place| place.key())
    }
}

impl Gate {
    /// The counters of a request, for deciding it more than once. Good for this gate alone.
    ///
    /// `None` where its attributes are needed each time: a store decides or lends one of the
    /// limits, the numbers of a limit that matches may be others later (it has overrides or takes
    /// its time zone from the request), or the request lacks a part of a key.
    pub fn locate_counters<'a>(
        &'a self,
        attributes: impl Into<Attributes<'a>>,
        now: Timestamp,
    ) -> Option<LocatedCounters> {
        if self.has_store_limits() {
            return None;
        }
        let mut values = Values::new();
        self.names.read(attributes.into(), &mut values);
        let plan = self.plan_of(&values);
        let mut places = SmallVec::new();
        for (index, limit) in self.limits.iter().enumerate().filter(|(_, limit)| limit.matches(&values)) {
            if !limit.has_lasting_numbers() {
                return None;
            }
            let Some((_, spec)) = self.numbers(limit, &values, plan, now) else { continue };
            match limit.key(&values) {
                Keyed::On(key) => places.push(CounterPlace { limit: index as u16, key, spec }),
                Keyed::Skipped => {}
                Keyed::Lacks(_) => return None,
            }
        }
        Some(LocatedCounters(places))
    }

    /// [`Gate::check`] of a located request. Its attributes are read only for a refusal.
    pub fn check_counters<'a>(
        &'a self,
        counters: &LocatedCounters,
        attributes: impl Into<Attributes<'a>>,
        cost: Cost,
        now: Timestamp,
    ) -> Decision<'a> {
        let mut probes = self.probes_at(&counters.0);
        self.touch(&probes);
        self.decide(&mut probes, attributes.into(), cost, now)
    }

    /// [`Gate::find_refusal`] of a located request. Its attributes are read only for a refusal.
    pub fn find_counter_refusal<'a>(
        &'a self,
        counters: &LocatedCounters,
        attributes: impl Into<Attributes<'a>>,
        cost: Cost,
        now: Timestamp,
    ) -> Option<UnreadRefusal<'a>> {
        self.refusal_of(&mut self.probes_at(&counters.0), attributes.into(), cost, now)
    }
}
