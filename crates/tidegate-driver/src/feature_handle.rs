//! A feature for code that asks its level, or does its work, without a request of its own.

use core::time::Duration;

use tidegate_core::{Class, Refusal};
use tidegate_engine::{FeatureWork, WatchedFeature, WatchedLevel};

use crate::admission::{Admission, NAMESPACE};
use crate::driver::Driver;
use crate::feature_cancellation::{Cancellation, first_of};

/// How often the engine ticks at least while a guard waits for its cancellation.
const TICK_WHILE_WAITING: Duration = Duration::from_millis(100);

/// A feature of an [`Admission`], of the engine that was in force when it was made: after a reload
/// make another one.
///
/// ```
/// # use tidegate_core::{Class, Timestamp};
/// # use tidegate_driver::{Admission, Driver};
/// # use tidegate_engine::{Engine, EngineConfig, FeaturePinning, NamespaceConfig};
/// # use tidegate_overload::{FeatureConfig, FeatureLevelConfig, Overload, ResourceConfig};
/// # let mut thumbnails = FeatureConfig::new("thumbnails", Class::Sheddable);
/// # thumbnails.levels = [("full", 1.0), ("480p", 0.3), ("off", 0.0)]
/// #     .map(|(name, cost)| FeatureLevelConfig::new(name, cost))
/// #     .into();
/// # let overload =
/// #     Overload::builder(7).default_resource(ResourceConfig::new(8)).feature(thumbnails).build()?;
/// # let engine = Engine::builder(EngineConfig::default()).namespace(NamespaceConfig::new("default", []));
/// # let admission = Admission::new(engine.overload(overload).build()?);
/// let thumbnails = admission.feature("thumbnails").expect("the overload plane has it");
/// assert_eq!(thumbnails.level().name, "full");
/// // The work counts as in flight until the guard is dropped.
/// let guard = thumbnails.guard()?;
/// assert_eq!(guard.level_name(), "full");
/// drop(guard);
/// assert!(admission.feature("thumnails").is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct FeatureHandle {
    driver: Driver,
    feature: WatchedFeature,
}

impl Admission {
    /// The feature of this name, as requests of its class meet it; `None` if the overload plane of
    /// the engine has none.
    pub fn feature(&self, name: &str) -> Option<FeatureHandle> {
        let driver = self.driver();
        let feature = driver.engine().watched_feature(name, driver.now())?;
        Some(FeatureHandle { driver: driver.clone(), feature })
    }
}

impl FeatureHandle {
    /// The same feature as requests of this class meet it, where classes have levels of their own.
    #[must_use]
    pub fn class(self, class: Class) -> Self {
        let feature = self.feature.of(class, None, self.driver.now());
        Self { feature, ..self }
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.feature.name()
    }

    /// The level at this moment: one relaxed load, for code that asks often.
    #[inline]
    pub fn level(&self) -> WatchedLevel<'_> {
        self.feature.level()
    }

    /// Begins work of the feature, which counts as demand for it and as in flight until the guard
    /// is dropped. The error is the refusal of a feature that is off, with the instant at which it
    /// may be on again.
    ///
    /// Within a tokio runtime it keeps the engine ticking, see
    /// [`Driver::tick_if_due`](crate::Driver::tick_if_due).
    pub fn guard(&self) -> Result<FeatureGuard, Refusal> {
        let now = self.driver.now();
        self.driver.tick_if_due(now);
        let work = self.feature.begin(NAMESPACE, now)?;
        Ok(FeatureGuard { driver: self.driver.clone(), work: Some(work) })
    }
}

/// Work of a feature in flight. Dropping it ends the work, from whose time the feature learns what
/// its level costs; in a panic it learns nothing.
#[must_use = "dropping it ends the work"]
pub struct FeatureGuard {
    driver: Driver,
    /// `None` once it is dropped.
    work: Option<FeatureWork>,
}

impl FeatureGuard {
    /// The name of the level at which the work began.
    pub fn level_name(&self) -> &str {
        self.work.as_ref().map_or("", FeatureWork::level_name)
    }

    /// Ends when the work is to be cancelled: its feature was switched off, has `on_disable:
    /// cancel`, and the grace is over. Never for a feature that finishes its work.
    ///
    /// ```
    /// # async fn render(guard: tidegate_driver::FeatureGuard) -> Option<Vec<u8>> {
    /// # let work = async { vec![0] };
    /// tokio::select! {
    ///     image = work => Some(image),
    ///     () = guard.cancelled() => None,
    /// }
    /// # }
    /// ```
    pub fn cancelled(&self) -> Cancellation {
        let work = self.work.as_ref().and_then(FeatureWork::cancellable);
        let Some(work) = work else { return Box::pin(core::future::pending()) };
        let driver = self.driver.clone();
        Box::pin(async move {
            let ticks = async {
                // The task that ticks may be one of a runtime that does not run.
                loop {
                    driver.tick_until(driver.now().saturating_add(TICK_WHILE_WAITING)).await;
                }
            };
            first_of(driver.clone().until_cancelled(work), ticks).await;
        })
    }
}

impl Drop for FeatureGuard {
    fn drop(&mut self) {
        if let Some(work) = self.work.take().filter(|_| !std::thread::panicking()) {
            work.end(self.driver.now());
        }
    }
}

tidegate_core::debug_fields!(FeatureHandle { feature });
tidegate_core::debug_fields!(FeatureGuard { work });
