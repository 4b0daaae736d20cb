//! A bound on requests in flight with a queue before it, and no limits.

use core::time::Duration;
use std::sync::Arc;

use tidegate_core::Class;
use tidegate_driver::Clock;
use tidegate_engine::{Engine, EngineConfig, NamespaceConfig};
use tidegate_overload::{Overload, OverloadError, ResourceConfig};
use tower_layer::Layer;

use crate::extract::{Extract, Head};
use crate::layer::AdmitLayer;
use crate::service::Admit;

/// The namespace of an engine that has no limits.
const NAMESPACE: &str = "service";

/// The key table of an engine without limits: it stays empty.
const TABLE_BYTES: usize = 1 << 16;

/// Bounds how many requests are in flight, by the overload plane: above the bound they are refused
/// with 503 `overload_shed`, and while more is wanted than fits, the least important classes are
/// shed first.
///
/// A request is in flight from its admission to the end of its answer's body. With
/// [`ConcurrencyLayer::wait`] it waits for a place: in order of class and arrival, or in a fair
/// queue with [`ConcurrencyLayer::from_resource`]. A service with limits as well gives its engine
/// an overload plane and needs no layer of its own for this.
///
/// ```
/// # use std::time::Duration;
/// let layer = tidegate_tower::ConcurrencyLayer::new(100)?.wait(Duration::from_millis(200));
/// let app: axum::Router = axum::Router::new().layer(layer);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ConcurrencyLayer(AdmitLayer);

impl ConcurrencyLayer {
    /// A layer that lets through so many requests at a time; 0 is an error.
    pub fn new(in_flight_max: u64) -> Result<Self, OverloadError> {
        let [seed, ..] = EngineConfig::default().table.seed;
        Self::seeded(in_flight_max, seed)
    }

    /// As [`ConcurrencyLayer::new`]. `seed` decides which tenants of a class are shed together: the
    /// same seed on every member of a fleet sheds the same ones.
    pub fn seeded(in_flight_max: u64, seed: u64) -> Result<Self, OverloadError> {
        Self::from_resource(ResourceConfig::new(in_flight_max), seed)
    }

    /// A layer with all settings of a resource: its bound on requests in flight, its reserve, and
    /// its queue. `seed` is as for [`ConcurrencyLayer::seeded`]. A setting that cannot work is an
    /// error.
    ///
    /// With [`ResourceConfig::queue`], what waits is served by weighted fair queuing over classes
    /// and tenants, and is shed when the queue stands or the answer would come too late.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use tidegate_core::Class;
    /// use tidegate_tower::{ConcurrencyLayer, QueueConfig, ResourceConfig, extract};
    ///
    /// let resource = ResourceConfig::new(100).queue(QueueConfig::default());
    /// let layer = ConcurrencyLayer::from_resource(resource, 7)?
    ///     .class(extract::header("x-class"))
    ///     .tenant(extract::header("x-tenant"))
    ///     .wait(Duration::from_millis(500))
    ///     .wait_of(Class::Sheddable, Duration::from_millis(50));
    /// let app: axum::Router = axum::Router::new().layer(layer);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_resource(resource: ResourceConfig, seed: u64) -> Result<Self, OverloadError> {
        let overload = Overload::new(resource, seed)?;
        let mut config = EngineConfig::default();
        config.table.bytes = TABLE_BYTES;
        config.permits_max = 0;
        let namespace = NamespaceConfig::new(NAMESPACE, []);
        let engine = Engine::builder(config).namespace(namespace).overload(overload).build();
        let engine = engine.expect("a namespace without limits makes an engine");
        let layer = AdmitLayer::new(engine, NAMESPACE).expect("the engine has this namespace");
        Ok(Self(layer))
    }

    /// How long a request may wait for a place; see [`AdmitLayer::wait`].
    #[must_use]
    pub fn wait(self, wait: Duration) -> Self {
        Self(self.0.wait(wait))
    }

    /// How long a request of one class may wait; see [`AdmitLayer::wait_of`].
    #[must_use]
    pub fn wait_of(self, class: Class, wait: Duration) -> Self {
        Self(self.0.wait_of(class, wait))
    }

    /// How long the caller waits for its answer; see [`AdmitLayer::deadline`].
    #[must_use]
    pub fn deadline(self, timeout: impl Fn(&Head<'_>) -> Option<Duration> + Send + Sync + 'static) -> Self {
        Self(self.0.deadline(timeout))
    }

    /// How many requests wait at most; see [`AdmitLayer::waiters_max`].
    #[must_use]
    pub fn waiters_max(self, max: usize) -> Self {
        Self(self.0.waiters_max(max))
    }

    /// The class of a request; see [`AdmitLayer::class`].
    #[must_use]
    pub fn class(self, extract: impl Extract) -> Self {
        Self(self.0.class(extract))
    }

    /// The tenant, which pays for the request; see [`AdmitLayer::tenant`].
    #[must_use]
    pub fn tenant(self, extract: impl Extract) -> Self {
        Self(self.0.tenant(extract))
    }

    /// The feature that a request is for; see [`AdmitLayer::feature`].
    #[must_use]
    pub fn feature(self, extract: impl Extract) -> Self {
        Self(self.0.feature(extract))
    }

    /// The deferral ticket that a request shows; see [`AdmitLayer::ticket`].
    #[must_use]
    pub fn ticket(self, extract: impl Extract) -> Self {
        Self(self.0.ticket(extract))
    }

    /// The operation that a request asks for; see [`AdmitLayer::operation`].
    #[must_use]
    pub fn operation(self, extract: impl Extract) -> Self {
        Self(self.0.operation(extract))
    }

    /// The clock that waiting uses; see [`AdmitLayer::clock`].
    #[must_use]
    pub fn clock(self, clock: Arc<dyn Clock>) -> Self {
        Self(self.0.clock(clock))
    }

    /// How many requests wait now.
    pub fn waiting(&self) -> usize {
        self.0.waiting()
    }
}

impl<S> Layer<S> for ConcurrencyLayer {
    type Service = Admit<S>;

    fn layer(&self, inner: S) -> Admit<S> {
        self.0.layer(inner)
    }
}
