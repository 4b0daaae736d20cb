//! The advice about the places of a resource.

use core::time::Duration;

use tidegate_core::{BindingSignal, Timestamp};

use super::{Resource, ResourceControl};
use crate::advice::advice_rule::PlaceTerms;
use crate::advice::concurrency_advice::ConcurrencyAdvice;
use crate::outcome::ClassStats;
use crate::sync::lock;

impl Resource {
    /// Takes in for how long the service worked at a request to a resource in shadow mode, for
    /// [`Resource::advice`]: one that was admitted as one of `places_in_use` requests at work, which
    /// may be more than the resource has places; 0 counts as 1. Its stand-in has the permit.
    pub fn observe_place_time(&self, places_in_use: u64, took: Duration) {
        self.times_by_use.add(u32::try_from(places_in_use).unwrap_or(u32::MAX).max(1), took);
    }

    /// Advice to change the places of the resource, by what was measured in the last minute;
    /// `None`: they are not plainly wrong, or not enough is known. At most two seconds old, or ten
    /// times the time of a request.
    pub fn advice(&self) -> Option<ConcurrencyAdvice> {
        lock(&self.control).advice.advice()
    }

    /// Advises anew once its span is over.
    pub(super) fn tick_advice(&self, control: &mut ResourceControl, now: Timestamp) {
        // The number of instances changes what the places in use say about a service.
        if control.instances.is_some() || !control.advice.is_span_over(control.service_times.typical(), now) {
            return;
        }
        let is_adaptive = self.adaptive.is_present();
        let places = self.in_flight.max();
        let shed_by = control.cursor.binding_signal(now);
        let terms = PlaceTerms {
            places,
            adaptive_at_max: is_adaptive.then_some(places >= control.config.in_flight_max),
            pushed_pressure: control.signals.worst_pushed(),
            is_shed_by_others: matches!(shed_by, BindingSignal::Pin | BindingSignal::Pressure),
        };
        let all = self.classes().iter().fold(ClassStats::default(), ClassStats::plus);
        let asked = all.offered.saturating_sub(all.refused_before_load());
        let refused = all.refused_for_places();
        control.advice.end_span(&self.times_by_use, asked, refused, &terms, now);
    }
}
