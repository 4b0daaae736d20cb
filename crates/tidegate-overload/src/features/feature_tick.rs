//! One tick of the features of a plane: what was asked for and what it cost, and the steps that
//! follow.

use std::sync::Arc;

use tidegate_core::{Class, Timestamp};

use crate::features::change_reason::ChangeReason;
use crate::features::clock_step::ClockStep;
use crate::features::config::{FeatureMode, FeatureScope};
use crate::features::control_load::ControlLoad;
use crate::features::degrade_control::{DegradeControl, NeedSource};
use crate::features::feature::FeatureId;
use crate::features::feature_event::{FeatureCause, FeatureEvent};
use crate::features::feature_part::FeaturePart;
use crate::features::feature_set::{FeatureControl, FeatureSet};
use crate::features::level_exchange::{RESERVE, highest_degraded};
use crate::features::level_position::LevelPosition;
use crate::features::level_word::LevelWord;
use crate::features::load_estimate::{CostScale, FeaturesTick};
use crate::features::resource_features::ResourceFeatures;
use crate::features::resource_load::ResourceLoad;
use crate::features::step_choice::{LevelStep, choose_relief};
use crate::features::tick_parts::{felt_after, offered_to_resource, parts_of, position_of};
use crate::overload::Overload;
use crate::resource_id::ResourceId;
use crate::sync::lock;
use crate::tick::TICK;

/// The signal of a change that the demand has caused.
const DEMAND: &str = "demand";

/// The features of one resource in a tick.
struct ResourceTick<'a> {
    ids: &'a [FeatureId],
    resource: Option<&'a Arc<str>>,
    load: &'a ResourceLoad,
    now: Timestamp,
}

impl FeatureSet {
    /// Moves the levels by the load of the tick, after the resources have had theirs.
    pub(crate) fn tick(&self, overload: &Overload, now: Timestamp) {
        if self.by_resource.is_empty() {
            return;
        }
        let mut control = lock(&self.control);
        let control = &mut *control;
        let last = control.last.replace(now);
        let step = last.and_then(|last| ClockStep::between(last, now));
        if let Some(step) = step {
            self.step(control, step, now);
        }
        self.end_pins(control, overload, now);
        // A tick without one before it, or after a gap, has counted in a time that is not known.
        let seconds = last.filter(|_| step.is_none()).map(|last| now.saturating_since(last).as_secs_f64());
        for (id, features) in &self.by_resource {
            let resource = overload.resource(*id);
            let Some(load) = resource.take_feature_load() else { continue };
            let name = resource.name.as_ref();
            let tick = ResourceTick { ids: features, resource: name, load: &load, now };
            let mut group = control.resources.remove(&name.cloned()).unwrap_or_default();
            match seconds.filter(|seconds| *seconds > 0.0) {
                Some(seconds) => self.tick_resource(control, &mut group, &tick, seconds),
                None => features.iter().for_each(|id| drop(self.slot(*id).feature.meter().take())),
            }
            control.resources.insert(name.cloned(), group);
        }
        if control.resources.len() > self.by_resource.len() {
            let name = |(id, _): &(ResourceId, _)| overload.resource(*id).name.clone();
            let names: Vec<_> = self.by_resource.iter().map(name).collect();
            control.resources.retain(|name, _| names.contains(name));
        }
        self.tell_released(control, now);
    }

    fn tick_resource(
        &self,
        control: &mut FeatureControl,
        group: &mut ResourceFeatures,
        tick: &ResourceTick<'_>,
        seconds: f64,
    ) {
        let (load, now) = (tick.load, tick.now);
        let work = self.observe(control, tick, seconds);
        group.estimate.observe(load, &work, seconds);
        let costs = group.estimate.costs(load);
        let (mut enforced, mut shadow) = self.parts(control, tick, &costs);
        self.note_moved(control, group, tick, &enforced);
        let control_load = group.estimate.load(load, enforced.iter().chain(&shadow), &costs);
        let is_degraded = |part: &FeaturePart| part.position > LevelPosition::BEST;
        let lost = group.loss.observe(&load.stale, now);
        if enforced.iter().chain(&shadow).any(is_degraded) {
            for signal in lost {
                let resource = tick.resource.cloned();
                self.events.push(FeatureEvent::SignalLost { resource, signal, at: now });
            }
        }
        let is_held = group.loss.held_by().is_some();
        self.control(control, &mut group.enforced, tick, &mut enforced, &control_load, is_held);
        // Features that only show their level give nothing to the others and take nothing.
        let would_give: f64 = shadow
            .iter()
            .map(|part| part.footprint(LevelPosition::BEST, part.demand) - part.at_position())
            .sum();
        let shadow_load = control_load.relieved(would_give);
        self.control(control, &mut group.shadow, tick, &mut shadow, &shadow_load, is_held);
        let limit = load.levels.brownout - load.levels.margin;
        group.room = limit - control_load.pressure.unwrap_or(0.0).max(control_load.demand_slow);
        self.note_footprints(
            control,
            tick,
            [(&group.enforced, &enforced), (&group.shadow, &shadow)],
            &control_load,
        );
    }

    /// Takes the counts of the features since the last tick. The work of all of them.
    fn observe(&self, control: &mut FeatureControl, tick: &ResourceTick<'_>, seconds: f64) -> FeaturesTick {
        let mut all = FeaturesTick::default();
        for id in tick.ids {
            let (feature, state) = (&self.slot(*id).feature, &mut control.states[id.index()]);
            let counts = feature.meter().take();
            state.observe(&counts, seconds, tick.load.demand_half_life);
            state.costs.learn(&counts.levels);
            for level in &counts.levels {
                all.work = all.work.plus(level);
            }
            all.offered += offered_to_resource(feature, &counts);
        }
        all
    }

    /// The parts of the features that follow their levels, and of those that only show them.
    fn parts(
        &self,
        control: &FeatureControl,
        tick: &ResourceTick<'_>,
        costs: &CostScale,
    ) -> (Vec<FeaturePart>, Vec<FeaturePart>) {
        let (mut enforced, mut shadow) = (Vec::new(), Vec::new());
        for id in tick.ids {
            let (feature, state) = (&self.slot(*id).feature, &control.states[id.index()]);
            let parts = match feature.config().mode {
                FeatureMode::Enforce => &mut enforced,
                FeatureMode::Shadow => &mut shadow,
            };
            parts_of(*id, feature, state, costs, (tick.now, tick.load.levels.settle), parts);
        }
        (enforced, shadow)
    }

    /// Notes what pins and reloads have changed since the last tick.
    fn note_moved(
        &self,
        control: &mut FeatureControl,
        group: &mut ResourceFeatures,
        tick: &ResourceTick<'_>,
        parts: &[FeaturePart],
    ) {
        for id in tick.ids {
            let state = &mut control.states[id.index()];
            if let Some(from) = state.reloaded_from.take() {
                self.tell_reloaded(state, *id, from, tick.now, tick.resource);
            }
            let Some(before) = state.moved_from.take() else { continue };
            let config = self.slot(*id).feature.config();
            let own = parts.iter().filter(|part| part.feature == id.index());
            let relief: f64 = own
                .map(|part| {
                    let before = position_of(before, config, part.part);
                    part.footprint(before, part.demand) - part.at_position()
                })
                .sum();
            let until = tick.now.saturating_add(felt_after(config, state));
            let controls = match config.mode {
                FeatureMode::Enforce => &mut group.enforced,
                FeatureMode::Shadow => &mut group.shadow,
            };
            controls.changed(relief, until);
            controls.drop_exchange();
        }
    }

    /// Degrades, or else exchanges levels, or takes one step back.
    fn control(
        &self,
        control: &mut FeatureControl,
        degrade: &mut DegradeControl,
        tick: &ResourceTick<'_>,
        parts: &mut [FeaturePart],
        load: &ControlLoad,
        is_held: bool,
    ) {
        if parts.is_empty() {
            return;
        }
        let (levels, now) = (&tick.load.levels, tick.now);
        let signal = || tick.load.pressure.as_ref().map(|worst| worst.signal.clone());
        degrade.settle(Some(load).filter(|_| !is_held), levels, now);
        let is_degraded = parts.iter().any(FeaturePart::is_degraded);
        if let Some(need) = degrade.need(load, is_degraded, levels, now) {
            let signal = match need.source {
                NeedSource::Pressure => signal(),
                NeedSource::Demand => Some(DEMAND.to_owned()),
            };
            let reason = ChangeReason { cause: FeatureCause::Pressure, pressure: Some(need.load), signal };
            degrade.plan_exchange(need.relief, &reason);
            for step in choose_relief(parts, need.relief) {
                self.take_step(control, degrade, tick, &mut parts[step.part], step, &reason, load.scale);
            }
            return;
        }
        let room = ChangeReason { cause: FeatureCause::Room, pressure: load.pressure, signal: signal() };
        let steps = degrade.exchange_steps(parts, load, levels, now);
        if !steps.is_empty() {
            for step in steps {
                let part = &mut parts[step.part];
                let need = || degrade.exchange().map(|exchange| exchange.reason().clone());
                let reason = if step.to > part.position { need() } else { None };
                let reason = reason.unwrap_or_else(|| room.clone());
                self.take_step(control, degrade, tick, part, step, &reason, load.scale);
            }
            return;
        }
        if let Some(step) = degrade.restore(parts, load, levels, now) {
            degrade.drop_exchange();
            self.take_step(control, degrade, tick, &mut parts[step.part], step, &room, load.scale);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "a step is taken at two places")]
    fn take_step(
        &self,
        control: &mut FeatureControl,
        degrade: &mut DegradeControl,
        tick: &ResourceTick<'_>,
        part: &mut FeaturePart,
        step: LevelStep,
        reason: &ChangeReason,
        scale: f64,
    ) {
        let id = FeatureId(part.feature as u16);
        let feature = &self.slot(id).feature;
        let config = feature.config();
        let is_shadow = config.mode == FeatureMode::Shadow;
        let relief = if step.to < part.position { -part.growth(step.to) } else { part.relief(step.to) };
        part.position = step.to;
        if !is_shadow {
            part.in_force = step.to;
        }
        let word = match config.scope {
            FeatureScope::Global | FeatureScope::Tenant => {
                LevelWord::uniform(step.to.level(), step.to.moved())
            }
            FeatureScope::Class => feature.word().with_class(Class::ALL[part.part], step.to.level()),
        };
        let state = &mut control.states[part.feature];
        self.change(state, id, word, reason, tick.now, tick.resource);
        state.parts[part.part].changed(tick.now);
        // Nothing is released by a level that is only shown, so nothing is waited for.
        let felt = if is_shadow { 0.0 } else { relief * scale };
        degrade.changed(felt, tick.now.saturating_add(felt_after(config, state)));
        degrade.moved(relief);
    }

    /// Notes what the views show, and the earliest instant of a better level.
    fn note_footprints(
        &self,
        control: &mut FeatureControl,
        tick: &ResourceTick<'_>,
        parts: [(&DegradeControl, &Vec<FeaturePart>); 2],
        load: &ControlLoad,
    ) {
        let (levels, now) = (&tick.load.levels, tick.now);
        let limit = levels.brownout - levels.margin;
        for id in tick.ids {
            let state = &mut control.states[id.index()];
            (state.footprint, state.footprint_better, state.exchange_room) = (0.0, 0.0, None);
        }
        let mut retries: Vec<Option<Timestamp>> = vec![None; control.states.len()];
        for (degrade, class, part) in parts.into_iter().flat_map(|(degrade, parts)| {
            let class = highest_degraded(parts);
            parts.iter().map(move |part| (degrade, class, part))
        }) {
            let state = &mut control.states[part.feature];
            state.footprint += part.at_position();
            let growth = part.growth(part.position.better());
            state.footprint_better += part.at_position() + growth;
            if part.position == LevelPosition::BEST {
                continue;
            }
            let fits_below = |limit: f64| {
                load.pressure.is_some_and(|pressure| pressure + growth * load.scale <= limit)
                    && load.demand_slow + growth <= limit
            };
            let mut fits = fits_below(limit);
            let mut since = degrade.settled_since(now);
            if let Some(exchange) = degrade.exchange()
                && class == Some(part.class)
            {
                let limit = levels.brownout - RESERVE;
                let free = limit - load.pressure.unwrap_or(0.0).max(load.demand_slow);
                state.exchange_room = Some(exchange.room().min(free));
                if exchange.has_begun() || !fits {
                    since = degrade.felt_since(now);
                    fits = growth <= exchange.room() && fits_below(limit);
                }
            }
            let own = &mut state.parts[part.part];
            own.fits_since = if fits { own.fits_since.or(Some(now)) } else { None };
            let settled = own.fits_since.unwrap_or(now).max(since);
            let config = self.slot(FeatureId(part.feature as u16)).feature.config();
            let dwelt = own.changed_at.map_or(now, |at| at.saturating_add(config.min_dwell));
            let unpinned = state.pin.map_or(now, |pin| pin.until);
            let earliest = settled.saturating_add(levels.settle).max(dwelt).max(unpinned);
            let earliest = earliest.max(now.saturating_add(TICK));
            let before = &mut retries[part.feature];
            *before = Some(before.map_or(earliest, |before| before.min(earliest)));
        }
        for id in tick.ids {
            if let Some(at) = retries[id.index()] {
                self.slot(*id).feature.set_retry(at, now);
            }
        }
    }

    /// Ends the pins that are over.
    fn end_pins(&self, control: &mut FeatureControl, overload: &Overload, now: Timestamp) {
        for (id, _) in self.configured() {
            if control.states[id.index()].pin.is_some_and(|pin| pin.until <= now) {
                self.end_pin(control, overload, id, true, now);
            }
        }
    }

    /// Tells which features have ended the work that was in flight when they were switched off.
    fn tell_released(&self, control: &mut FeatureControl, now: Timestamp) {
        for (id, slot) in self.configured() {
            let state = &mut control.states[id.index()];
            if let Some(since) = state.releasing_since
                && slot.feature.in_flight_degraded() == 0
            {
                self.tell_release(state, &slot.feature, now.saturating_since(since), now);
            }
        }
    }

    /// The clock has stepped, or nothing ran for a while: nothing is concluded from that.
    fn step(&self, control: &mut FeatureControl, step: ClockStep, now: Timestamp) {
        for (id, slot) in self.configured() {
            let state = &mut control.states[id.index()];
            state.step(step);
            state.since = state.since.map(|since| since.min(now));
            if let Some(pin) = &mut state.pin {
                pin.until = pin.until.min(now.saturating_add(crate::FEATURE_PIN_MAX));
            }
            slot.feature.step_cancel_at(step);
        }
        for group in control.resources.values_mut() {
            group.enforced.step(step);
            group.shadow.step(step);
            group.loss.step(step);
        }
    }
}
