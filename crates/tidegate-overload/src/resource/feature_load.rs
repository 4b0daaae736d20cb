//! The load that features follow.

use super::{Resource, ResourceControl, in_use};
use crate::cursor::cursor_control::TickMeasures;
use crate::cursor::namespace_slots::NamespaceTick;
use crate::features::resource_load::{ResourceLoad, WorstPressure};
use crate::sync::lock;

impl Resource {
    /// The load of a tick, as features see it.
    pub(super) fn feature_load(
        &self,
        control: &ResourceControl,
        measures: &TickMeasures<'_>,
    ) -> ResourceLoad {
        let sum = |of: fn(&NamespaceTick) -> u64| {
            measures.namespaces.iter().map(of).fold(0_u64, u64::saturating_add)
        };
        let pressure = control.pressure.and_then(|(smoothed, index)| {
            let (signal, source, last) = control.signals.last(index)?;
            Some(WorstPressure { smoothed, last, signal: signal.to_owned(), source })
        });
        ResourceLoad {
            pressure,
            stale: control.signals.stale_pushed().map(str::to_owned).collect(),
            in_use: in_use(measures),
            offered: sum(|tick| tick.offered.as_ref().map_or(0, |offered| offered.iter().sum())),
            served: sum(|tick| tick.served.iter().sum()),
            ended: sum(|tick| tick.ended.iter().sum()),
            held_us: sum(|tick| tick.held_us.iter().sum()),
            places: self.in_flight.max(),
            levels: *control.levels.thresholds(),
            demand_half_life: control.config.demand_half_life,
        }
    }

    /// Whether the ticks note the load for features.
    pub(crate) fn set_has_features(&self, has_features: bool) {
        let mut control = lock(&self.control);
        control.has_features = has_features;
        control.feature_load = None;
    }

    /// The load of the last tick, once.
    pub(crate) fn take_feature_load(&self) -> Option<ResourceLoad> {
        lock(&self.control).feature_load.take()
    }
}
