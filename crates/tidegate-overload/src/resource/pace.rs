//! The pace of requests whose end is not reported.

use tidegate_core::{BindingSignal, OverloadMechanism, Timestamp};

use super::{Resource, ResourceControl};
use crate::cursor::RequestLevel;
use crate::cursor::namespace_slots::NamespaceTick;
use crate::places::pacer::PaceVerdict;
use crate::shed::Shed;

impl Resource {
    /// Moves the pace; the part of the places' time for which work was admitted in pace.
    pub(super) fn tick_pace(
        &self,
        control: &mut ResourceControl,
        ticks: &[NamespaceTick],
        now: Timestamp,
    ) -> f64 {
        let active = ticks.iter().map(|tick| (tick.slot, tick.namespace));
        let paces = |slot| self.namespaces.pace_of(slot);
        let ResourceControl { pace_demands, shares, .. } = control;
        self.pacer.tick(pace_demands, paces, active, shares, self.in_flight.max(), now)
    }

    /// Whether one more request whose end is not reported is in pace; it then counts.
    #[inline]
    pub(crate) fn paces(&self, level: RequestLevel, now: Timestamp) -> PaceVerdict {
        self.pacer.admits(self.namespaces.pace(level.namespace()), self.in_flight.max(), now)
    }

    /// The same for a request with a ticket.
    pub(crate) fn paces_ticket(&self, level: RequestLevel, now: Timestamp) -> PaceVerdict {
        self.pacer.admits_ticket(self.namespaces.pace(level.namespace()), self.in_flight.max(), now)
    }

    /// Whether it would be.
    pub(crate) fn would_pace(&self, level: RequestLevel, now: Timestamp) -> bool {
        self.pacer.would_admit(self.namespaces.pace(level.namespace()), self.in_flight.max(), now)
    }

    /// Takes back a request that was in pace and did not go ahead after all.
    pub(crate) fn unpace(&self, level: RequestLevel, now: Timestamp) {
        self.pacer.give_back(self.namespaces.pace(level.namespace()), self.in_flight.max(), now);
    }

    /// The same for a request with a ticket.
    pub(crate) fn unpace_ticket(&self, level: RequestLevel, now: Timestamp) {
        self.pacer.give_back_ticket(self.namespaces.pace(level.namespace()), self.in_flight.max(), now);
    }

    /// Bounds a namespace to half of the pace.
    #[cfg(test)]
    pub(crate) fn halve_pace(&self, level: RequestLevel) {
        self.namespaces.pace(level.namespace()).halve();
    }

    /// The refusal of a request whose end is not reported and that is ahead of the pace.
    #[cold]
    pub(crate) fn ahead_of_pace(&self, level: RequestLevel) -> Shed {
        self.refusal(OverloadMechanism::Pace, BindingSignal::InFlight, level)
    }
}
