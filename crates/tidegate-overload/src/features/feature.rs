//! One feature as requests see it: the level they get, and the counts they leave.

use core::time::Duration;
use std::sync::Arc;

use tidegate_core::{Class, Timestamp};

use crate::cursor::RequestLevel;
use crate::fault::Fault;
use crate::features::clock_step::ClockStep;
use crate::features::config::{FeatureConfig, FeatureMode, FeatureScope, OnDisable};
use crate::features::feature_meter::{FeatureInFlight, FeatureMeter};
use crate::features::level_word::LevelWord;
use crate::sync::{AtomicU64, Ordering};
use crate::tick::TICK;

/// The number of a feature within its overload plane. Only `Overload::find_feature` and
/// `Overload::features` make one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FeatureId(pub(crate) u16);

impl FeatureId {
    /// Its position among the features of its plane.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The level that one request gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a request has the level that it was granted"]
pub struct FeatureGrant {
    /// The position of the level, best first; its name is [`Feature::level_name`].
    pub level: u8,
    /// Whether the feature is off at this level: the request is refused.
    pub is_off: bool,
    /// Whether the feature only shows its level: the request is admitted, and gets the best level.
    pub is_shadow: bool,
    class: Class,
    cohort: u8,
    /// The settings of the feature that the position is of.
    settings: u32,
}

impl FeatureGrant {
    /// The class of the request.
    pub const fn class(&self) -> Class {
        self.class
    }

    /// Whether the request is refused: the feature is off, and follows its level.
    #[inline]
    pub const fn is_refused(&self) -> bool {
        self.is_off && !self.is_shadow
    }

    /// The position of the level at which the request works: the best one in shadow mode.
    #[inline]
    pub const fn level_in_force(&self) -> u8 {
        if self.is_shadow { 0 } else { self.level }
    }
}

/// The work in flight of one request that has a feature. Dropping it does not end it: its owner
/// passes it to [`Feature::end`].
#[derive(Debug)]
#[must_use = "a use that is not ended stays in flight"]
pub struct FeatureUse {
    level: u8,
    class: Class,
    settings: u32,
}

/// The word that every request of the feature reads and only ticks and pins write, alone in its
/// cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct LevelCell(AtomicU64);

/// One feature of an [`Overload`](crate::Overload) plane: its level, and the counts of its
/// requests.
///
/// ```
/// # use std::time::Duration;
/// # use tidegate_core::{Class, Timestamp};
/// # use tidegate_overload::{FeatureConfig, FeatureLevelConfig, Overload, ResourceConfig};
/// # let now = Timestamp::from_secs(1_800_000_000);
/// let mut thumbnails = FeatureConfig::new("thumbnails", Class::Sheddable);
/// thumbnails.levels = [("full", 1.0), ("480p", 0.3), ("off", 0.0)]
///     .map(|(name, cost)| FeatureLevelConfig::new(name, cost))
///     .into();
/// let overload =
///     Overload::builder(7).default_resource(ResourceConfig::new(8)).feature(thumbnails).build()?;
/// let id = overload.find_feature("thumbnails").expect("it is configured");
/// let feature = overload.feature(id);
/// // A first attempt asks for the feature, gets a level, works and ends.
/// let level = overload.request_level(1, Class::Sheddable, Some("acme"), now);
/// feature.count_offered(level);
/// let grant = feature.grant(level);
/// assert_eq!(&**feature.level_name(grant.level), "full");
/// let work = feature.begin(grant);
/// feature.end(work, Some(Duration::from_millis(40)));
/// # Ok::<(), tidegate_overload::OverloadError>(())
/// ```
#[derive(Debug)]
pub struct Feature {
    levels: LevelCell,
    name: Arc<str>,
    config: FeatureConfig,
    /// At least one.
    level_names: Box<[Arc<str>]>,
    /// The position of the level at which it is off; one beyond all levels where none is.
    off: u8,
    /// Tells the positions of these settings from those of settings before.
    settings: u32,
    meter: FeatureMeter,
    /// The earliest instant at which a level that is off may be left, in nanoseconds, and how long
    /// that was after the last tick. Relaxed, as those below: each is one word, ordered with
    /// nothing.
    retry_at: AtomicU64,
    retry_in: AtomicU64,
    /// The instant from which work of each class is cancelled that has been switched off.
    cancel_at: [AtomicU64; Class::ALL.len()],
}

/// The name of the only level of a feature that has none.
const ONLY_LEVEL: &str = "on";

impl Feature {
    /// A feature of checked settings whose uses in flight are counted there.
    pub(crate) fn new(
        config: FeatureConfig,
        settings: u32,
        in_flight: Arc<FeatureInFlight>,
        levels: LevelWord,
    ) -> Self {
        let mut names: Vec<Arc<str>> = config.levels.iter().map(|level| level.name.as_str().into()).collect();
        if names.is_empty() {
            names.push(ONLY_LEVEL.into());
        }
        let off = config.levels.iter().position(crate::FeatureLevelConfig::is_off);
        Self {
            levels: LevelCell(AtomicU64::new(levels.to_bits())),
            name: config.name.as_str().into(),
            level_names: names.into(),
            off: off.unwrap_or(FeatureConfig::LEVELS_MAX) as u8,
            settings,
            meter: FeatureMeter::new(&config, in_flight),
            config,
            retry_at: AtomicU64::new(0),
            retry_in: AtomicU64::new(0),
            cancel_at: core::array::from_fn(|_| AtomicU64::new(u64::MAX)),
        }
    }

    /// The name.
    pub const fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The settings.
    pub const fn config(&self) -> &FeatureConfig {
        &self.config
    }

    /// The name of the level at a position, best first; that of the worst for a position beyond it.
    /// A feature without levels has one, `on`.
    pub fn level_name(&self, position: u8) -> &Arc<str> {
        let last = self.level_names.len() - 1;
        &self.level_names[usize::from(position).min(last)]
    }

    /// The name of the level that a request was granted; `None` for a feature without levels, one
    /// that only shows its level, and one whose settings have changed since.
    pub fn granted_level(&self, grant: FeatureGrant) -> Option<&Arc<str>> {
        let is_told = !self.config.levels.is_empty() && !grant.is_shadow && grant.settings == self.settings;
        is_told.then(|| self.level_name(grant.level))
    }

    /// The level that a request gets at this moment: one load, and no lock.
    #[inline]
    pub fn grant(&self, level: RequestLevel) -> FeatureGrant {
        let word = self.word();
        let position = word.level(level.class(), level.cohort());
        FeatureGrant {
            level: position,
            is_off: position == self.off,
            is_shadow: self.config.mode == FeatureMode::Shadow,
            class: level.class(),
            cohort: level.cohort() as u8,
            settings: self.settings,
        }
    }

    /// Counts a first attempt that asks for the feature, whatever becomes of it: what was refused
    /// is a part of the demand. Called once for each request.
    ///
    /// It is [offered](crate::Overload::offer) to the resource too, and withdrawn from there as
    /// [`OfferOutcome::Disabled`](crate::OfferOutcome::Disabled) if the feature is off.
    #[inline]
    pub fn count_offered(&self, level: RequestLevel) {
        if Fault::RefusedLeftOut.is_planted() && self.grant(level).is_refused() {
            return;
        }
        self.meter.offer(level);
    }

    /// Begins the work of a request that was admitted and has a place.
    #[inline]
    pub fn begin(&self, grant: FeatureGrant) -> FeatureUse {
        self.meter.in_flight.begin(grant.class);
        FeatureUse { level: grant.level_in_force(), class: grant.class, settings: grant.settings }
    }

    /// Learns the cost of a level from work that kept its place for so long, and ends later.
    #[inline]
    pub fn learn(&self, work: &FeatureUse, place_time: Duration) {
        if work.settings == self.settings {
            self.meter.end(work.level, place_time);
        }
    }

    /// Ends the work of a request. `place_time`: the time for which it kept its place, from which
    /// the cost of its level is learned; `None`: it says nothing of the cost, as for a tunnel or a
    /// caller that left at once.
    #[inline]
    #[expect(clippy::needless_pass_by_value, reason = "a use is used up, so that it does not end twice")]
    pub fn end(&self, work: FeatureUse, place_time: Option<Duration>) {
        self.meter.in_flight.end(work.class);
        if let Some(time) = place_time {
            self.learn(&work, time);
        }
    }

    /// Counts a request that was admitted and whose end is not known, with its units.
    #[inline]
    pub fn count_units(&self, grant: FeatureGrant, units: u64) {
        if grant.settings == self.settings {
            self.meter.price(grant.level_in_force(), units);
        }
    }

    /// The name of the level that a request gets now that was granted this before.
    pub fn renewed_level(&self, grant: FeatureGrant) -> &Arc<str> {
        self.level_name(self.word().level(grant.class, grant.cohort.into()))
    }

    /// The requests in flight.
    pub fn in_flight(&self) -> u64 {
        self.meter.in_flight.count()
    }

    /// The instant from which the work of a request that was granted this is to be cancelled, which
    /// may be past: its feature was switched off with [`OnDisable::Cancel`], and the grace ends
    /// then.
    ///
    /// `None` while the feature is on for the request, and always for a feature that finishes its
    /// work or only shows its level.
    pub fn cancel_at(&self, grant: FeatureGrant) -> Option<Timestamp> {
        if !self.cancels() || self.word().level(grant.class, grant.cohort.into()) != self.off {
            return None;
        }
        let at = self.cancel_at[grant.class as usize].load(Ordering::Relaxed);
        (at != u64::MAX).then_some(Timestamp::from_nanos(at))
    }

    /// Whether work in flight is cancelled when the feature is switched off.
    pub fn cancels(&self) -> bool {
        self.config.on_disable != OnDisable::Finish && self.config.mode != FeatureMode::Shadow
    }

    /// The requests in flight of the classes that the load degrades.
    pub(crate) fn in_flight_degraded(&self) -> u64 {
        self.degraded_classes().map(|class| self.meter.in_flight.of_class(class)).sum()
    }

    /// The classes whose requests the load degrades: those up to the feature's own, where each
    /// class has a level of its own, and else all of them.
    pub(crate) fn degraded_classes(&self) -> impl Iterator<Item = Class> {
        let (scope, own) = (self.config.scope, self.config.class);
        Class::ALL.into_iter().filter(move |class| scope != FeatureScope::Class || *class <= own)
    }

    pub(crate) const fn meter(&self) -> &FeatureMeter {
        &self.meter
    }

    pub(crate) const fn settings(&self) -> u32 {
        self.settings
    }

    #[inline]
    pub(crate) fn word(&self) -> LevelWord {
        // Relaxed: one word, ordered with nothing; a request beside a change has either level.
        LevelWord::from_bits(self.levels.0.load(Ordering::Relaxed))
    }

    pub(crate) fn set_word(&self, word: LevelWord) {
        self.levels.0.store(word.to_bits(), Ordering::Relaxed);
    }

    /// Whether the feature is off at a position.
    pub(crate) const fn is_off(&self, position: u8) -> bool {
        position == self.off
    }

    /// The position of the worst level; 0 for a feature without levels.
    pub(crate) fn worst(&self) -> u8 {
        (self.level_names.len() - 1) as u8
    }

    /// The position of the worst level that any request has.
    pub(crate) fn worst_level(&self) -> u8 {
        self.word().worst()
    }

    pub(crate) fn worst_level_name(&self) -> Arc<str> {
        Arc::clone(self.level_name(self.worst_level()))
    }

    /// The position of the level of this name.
    pub(crate) fn position(&self, level: &str) -> Option<u8> {
        let found = self.config.levels.iter().position(|known| known.name == level);
        found.map(|position| position as u8)
    }

    /// Sets the instant from which the work of a class in flight is cancelled while it is off.
    pub(crate) fn set_cancel_at(&self, class: Class, at: Option<Timestamp>) {
        self.cancel_at[class as usize].store(at.map_or(u64::MAX, Timestamp::as_nanos), Ordering::Relaxed);
    }

    /// The clock has stepped: work that is cancelled later has as long as before.
    pub(crate) fn step_cancel_at(&self, step: ClockStep) {
        for at in self.cancel_at.iter().filter(|at| at.load(Ordering::Relaxed) != u64::MAX) {
            let shifted = step.shifted(Timestamp::from_nanos(at.load(Ordering::Relaxed)));
            at.store(shifted.as_nanos(), Ordering::Relaxed);
        }
    }

    /// Sets the earliest instant at which it may be on again, by a tick at `now`.
    pub(crate) fn set_retry(&self, at: Timestamp, now: Timestamp) {
        let wait = u64::try_from(at.saturating_since(now).as_nanos()).unwrap_or(u64::MAX);
        self.retry_at.store(at.as_nanos(), Ordering::Relaxed);
        self.retry_in.store(wait, Ordering::Relaxed);
    }

    /// The earliest instant at which it may be on again: at least a tick from `now`, and no later
    /// than the last tick said, also where the clock has stepped back since.
    pub(crate) fn retry(&self, now: Timestamp) -> Timestamp {
        let at = Timestamp::from_nanos(self.retry_at.load(Ordering::Relaxed));
        let wait = Duration::from_nanos(self.retry_in.load(Ordering::Relaxed)).max(TICK);
        at.clamp(now.saturating_add(TICK), now.saturating_add(wait))
    }
}
