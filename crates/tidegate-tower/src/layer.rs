//! The layer that admits requests, and its settings.

use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use tidegate_core::{Class, Cost, Limit, Refusal};
use tidegate_driver::{Clock, Driver, EngineHandle};
use tidegate_engine::{
    BuildError, Engine, EngineConfig, NamespaceConfig, Outcome, RoomBounds, WAITING_BOUNDS,
};
use tidegate_store::DynStore;
use tidegate_wire::headers::OlderHeaders;
use tower_layer::Layer;

use crate::extract::{Extract, Head};
use crate::layer_error::LayerError;
use crate::service::Admit;
use crate::settings::Settings;

pub use tidegate_driver::admission::NAMESPACE;
pub use tidegate_driver::store_call::STORE_TIMEOUT;

/// The default of [`AdmitLayer::waiters_max`]: that of the engine.
pub const WAITERS_MAX: usize = WAITING_BOUNDS.requests;

/// Admits requests to a service, or refuses them with an answer that says why and when to come
/// back.
///
/// Clones share everything, and so do layers of one engine: they have one waiting room. The service
/// it wraps must be `Clone`, as axum, hyper and tonic ask for anyway.
///
/// ```
/// # use axum::{Router, body::Body, extract::Request, routing::get};
/// # use tidegate_core::Limit;
/// # use tidegate_tower::{AdmitLayer, extract};
/// # use tower::ServiceExt;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let limit = Limit::rate("per-user", "1/1m")?.key(["user"]);
/// let layer = AdmitLayer::from_limits([limit])?.attribute("user", extract::header("x-user"));
/// let app = Router::new().route("/", get(|| async { "hello" })).layer(layer.check_attributes()?);
///
/// let request = |user| Request::get("/").header("x-user", user).body(Body::empty());
/// assert_eq!(app.clone().oneshot(request("ada")?).await?.status(), 200);
/// let refused = app.clone().oneshot(request("ada")?).await?;
/// assert_eq!(refused.status(), 429);
/// assert!(refused.headers().contains_key("retry-after"));
/// assert_eq!(app.oneshot(request("bob")?).await?.status(), 200);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct AdmitLayer {
    pub(crate) settings: Arc<Settings>,
}

impl AdmitLayer {
    /// A layer with these limits and an engine of its own, in the namespace [`NAMESPACE`].
    ///
    /// ```
    /// use tidegate_core::Limit;
    /// use tidegate_tower::{AdmitLayer, extract};
    ///
    /// let limit = Limit::rate("per-user", "100/s")?.key(["user"]);
    /// let layer = AdmitLayer::from_limits([limit])?.attribute("user", extract::header("x-user"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_limits(limits: impl IntoIterator<Item = Limit>) -> Result<Self, BuildError> {
        let namespace = NamespaceConfig::new(NAMESPACE, limits);
        let engine = Engine::builder(EngineConfig::default()).namespace(namespace).build()?;
        Ok(Self::with_driver(Driver::new(engine), NAMESPACE.into()))
    }

    /// A layer that decides by the limits of a namespace of this engine: an `Engine`, an `Arc` of
    /// one, or an [`EngineHandle`] to replace it later. An error if the engine has no such
    /// namespace.
    ///
    /// By default requests have no attributes, cost 1, the default class and no deadline, and no
    /// request waits.
    pub fn new(engine: impl Into<EngineHandle>, namespace: impl Into<Arc<str>>) -> Result<Self, LayerError> {
        let (driver, namespace) = (Driver::new(engine), namespace.into());
        let known: Vec<String> = driver.engine().namespaces().map(str::to_owned).collect();
        if !known.iter().any(|one| **one == *namespace) {
            return Err(LayerError::UnknownNamespace { namespace: namespace.to_string(), known });
        }
        Ok(Self::with_driver(driver, namespace))
    }

    fn with_driver(driver: Driver, namespace: Arc<str>) -> Self {
        let settings = Settings {
            driver,
            namespace,
            resource: None,
            attributes: Vec::new(),
            tenant: None,
            feature: None,
            class: None,
            ticket: None,
            operation: None,
            cost: None,
            timeout: None,
            cost_header: None,
            older: OlderHeaders::default(),
            on_refusal: None,
            on_settled: None,
            waits: [Duration::ZERO; Class::ALL.len()],
        };
        Self { settings: Arc::new(settings) }
    }

    fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(&mut self.settings));
        self
    }

    /// The resource of the engine's overload plane by which requests are served: its bound on
    /// requests in flight, its line and its cursor apply to them, so that layers of one engine
    /// before different services do not take each other's places. Default: the default resource. An
    /// error if the engine has no such resource.
    ///
    /// ```
    /// use tidegate_core::Limit;
    /// use tidegate_engine::{Engine, EngineConfig, NamespaceConfig};
    /// use tidegate_overload::{Overload, ResourceConfig};
    /// use tidegate_tower::AdmitLayer;
    ///
    /// let overload = Overload::builder(7).resource("search", ResourceConfig::new(64)).build()?;
    /// let limit = Limit::rate("all", "1000/s")?;
    /// let engine = Engine::builder(EngineConfig::default())
    ///     .namespace(NamespaceConfig::new("api", [limit]))
    ///     .overload(overload)
    ///     .build()?;
    /// let layer = AdmitLayer::new(engine, "api")?.resource("search")?;
    /// assert!(layer.resource("serach").is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn resource(self, name: impl Into<Arc<str>>) -> Result<Self, LayerError> {
        let name = name.into();
        let now = self.settings.driver.now();
        let engine = self.settings.driver.engine();
        let known = engine.resource_stats(now).filter_map(|one| one.name.map(str::to_owned));
        let known: Vec<String> = known.collect();
        drop(engine);
        if !known.iter().any(|one| **one == *name) {
            return Err(LayerError::UnknownResource { resource: name.to_string(), known });
        }
        Ok(self.with(|settings| settings.resource = Some(name)))
    }

    /// Adds an attribute that limits match on and count by. Where a name is given twice, the first
    /// that finds something counts. At most [`tidegate_core::Attributes::MAX`] of a request are
    /// looked at.
    #[must_use]
    pub fn attribute(self, name: impl Into<Box<str>>, extract: impl Extract) -> Self {
        self.with(|settings| settings.attributes.push((name.into(), Arc::new(extract))))
    }

    /// Fails if no limit of the namespace looks at one of the attributes so far, as after a typing
    /// error in a name. Without this call such an attribute has no effect.
    pub fn check_attributes(self) -> Result<Self, LayerError> {
        let mut known: Vec<String> = Vec::new();
        let engine = self.settings.driver.engine();
        for limit in engine.limits(&self.settings.namespace).into_iter().flatten() {
            known.extend(limit.attributes().map(str::to_owned));
        }
        drop(engine);
        known.sort_unstable();
        known.dedup();
        let unused =
            self.settings.attributes.iter().find(|(name, _)| !known.iter().any(|one| **one == **name));
        match unused {
            None => Ok(self),
            Some((attribute, _)) => Err(LayerError::UnusedAttribute {
                namespace: self.settings.namespace.to_string(),
                attribute: attribute.to_string(),
                known,
            }),
        }
    }

    /// The tenant of a request, which decides the cohort it is shed with. Default: the attribute
    /// `tenant`, if there is one.
    #[must_use]
    pub fn tenant(self, extract: impl Extract) -> Self {
        self.with(|settings| settings.tenant = Some(Arc::new(extract)))
    }

    /// The feature of the service that a request is for, such as `thumbnails`. Default: the
    /// attribute `feature`, if there is one. A name of any length is taken; one that is longer than
    /// 128 bytes is of no listed feature.
    ///
    /// If the overload plane has a feature of this name with levels, on the resource of the layer,
    /// the request is served at its level, which the service finds in the extensions of the request
    /// as a [`FeatureLevel`](crate::FeatureLevel) and the caller in the header `tidegate-feature`.
    /// A feature that is off refuses with `feature_disabled`. Any other name decides nothing.
    #[must_use]
    pub fn feature(self, extract: impl Extract) -> Self {
        self.with(|settings| settings.feature = Some(Arc::new(extract)))
    }

    /// The deferral ticket that a request shows. Default: the header `tidegate-ticket`. A text that
    /// is no ticket counts for nothing: one that is longer than 256 bytes, or that an extractor
    /// rejects, is no error of the request. The service finds the header as it came.
    #[must_use]
    pub fn ticket(self, extract: impl Extract) -> Self {
        self.with(|settings| settings.ticket = Some(Arc::new(extract)))
    }

    /// The operation of the service that a request asks for, for which alone a ticket counts.
    /// Default: the feature of the request. A name of any length is taken.
    #[must_use]
    pub fn operation(self, extract: impl Extract) -> Self {
        self.with(|settings| settings.operation = Some(Arc::new(extract)))
    }

    /// The class of a request, by name. Absent is the default class; an
    /// unknown name is rejected.
    ///
    /// A caller that can set its class can jump the queue: read the class from a place that callers
    /// cannot write, or let an earlier layer check it.
    #[must_use]
    pub fn class(self, extract: impl Extract) -> Self {
        self.with(|settings| settings.class = Some(Arc::new(extract)))
    }

    /// The cost of a request, in units of the limits. Default: by the cost table of the namespace,
    /// otherwise 1.
    #[must_use]
    pub fn cost(self, cost: impl Fn(&Head<'_>) -> Cost + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.cost = Some(Arc::new(cost)))
    }

    /// The header or trailer of the answer in which the service says what the request truly cost,
    /// in whole units: the limits are brought to it when the answer ends, up or down. Without the
    /// header, or with one that is no number, the cost stays what it was. The header is left in the
    /// answer.
    ///
    /// # Panics
    ///
    /// If `name` is no header name: that is a mistake in the program and shows at its start.
    #[must_use]
    pub fn cost_from_response(self, name: &str) -> Self {
        let name = name.parse().expect("a header name is made of letters, digits and `-`");
        self.with(|settings| settings.cost_header = Some(name))
    }

    /// How long the caller waits; see [`crate::timeout`]. A request is not kept waiting beyond it,
    /// and one that comes too late is refused before anything is charged. Default: for ever.
    #[must_use]
    pub fn deadline(self, timeout: impl Fn(&Head<'_>) -> Option<Duration> + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.timeout = Some(Arc::new(timeout)))
    }

    /// How long a request that is refused may wait for its turn instead. Default zero: no
    /// request waits.
    ///
    /// It waits if what refused says when it admits again, and that is within this time and the
    /// deadline; and for a place under a concurrency limit or in flight, until one is given back.
    /// Requests that wait for the same counter are served the higher class first, and first come
    /// first served within a class. Those that wait for a place of a resource with a
    /// [`QueueConfig`](tidegate_overload::QueueConfig) are served in the order of its fair queue,
    /// which sheds a request also before its wait is over.
    #[must_use]
    pub fn wait(self, wait: Duration) -> Self {
        self.with(|settings| settings.waits = [wait; Class::ALL.len()])
    }

    /// How long a request of one class may wait, after [`AdmitLayer::wait`] has set the time of
    /// all. Zero: no request of this class waits.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate_core::{Class, Limit};
    /// # use tidegate_tower::AdmitLayer;
    /// let layer = AdmitLayer::from_limits([Limit::rate("all", "100/s")?])?
    ///     .wait(Duration::from_millis(500))
    ///     .wait_of(Class::Sheddable, Duration::ZERO);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn wait_of(self, class: Class, wait: Duration) -> Self {
        self.with(|settings| settings.waits[class as usize] = wait)
    }

    /// The most requests that wait at once, at all layers of the engine together: the last call at
    /// any of these layers counts. Default [`WAITERS_MAX`]; zero lets no request wait.
    ///
    /// Above it a request of a higher class takes the position of the least important one that
    /// waits, and others are refused at once. A request that waits for a place, or has lost its
    /// position, is refused with `queue_full`.
    #[must_use]
    pub fn waiters_max(self, max: usize) -> Self {
        let unbounded = usize::MAX;
        self.settings.driver.engine().set_waiting_bounds(RoomBounds::new(max, unbounded));
        self
    }

    /// The store that decides limits of an engine that asks one (`EngineConfig::asks_store`).
    ///
    /// Without a store, such limits are decided as their `on_store_failure` says.
    #[must_use]
    pub fn store(self, store: Arc<dyn DynStore>) -> Self {
        self.with(|settings| settings.driver = settings.driver.clone().store(store))
    }

    /// How long one call to the store may take. Default [`STORE_TIMEOUT`]. After it the request is
    /// decided without the store, as its limits say; zero never waits for a store that does not
    /// answer at once.
    #[must_use]
    pub fn store_timeout(self, timeout: Duration) -> Self {
        self.with(|settings| settings.driver = settings.driver.clone().store_timeout(timeout))
    }

    /// Changes the answer to a refused request. It gets the answer as it would be sent, with its
    /// headers, and may return it with another status or body, or another one altogether.
    #[must_use]
    pub fn on_refusal(
        self,
        change: impl Fn(&Refusal, Response<Bytes>) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        self.with(|settings| settings.on_refusal = Some(Arc::new(change)))
    }

    /// Called with how each admitted request ended: for metrics. It must not panic.
    #[must_use]
    pub fn on_settled(self, observe: impl Fn(Outcome) + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.on_settled = Some(Arc::new(observe)))
    }

    /// Which of the older header families are sent beside `RateLimit`. None by default.
    #[must_use]
    pub fn older_headers(self, older: OlderHeaders) -> Self {
        self.with(|settings| settings.older = older)
    }

    /// The clock that decisions use. Default: the time of the machine.
    #[must_use]
    pub fn clock(self, clock: Arc<dyn Clock>) -> Self {
        self.with(|settings| settings.driver = settings.driver.clone().clock(clock))
    }

    /// How many requests wait now.
    pub fn waiting(&self) -> usize {
        self.settings.driver.engine().waiting()
    }
}

impl<S> Layer<S> for AdmitLayer {
    type Service = Admit<S>;

    fn layer(&self, inner: S) -> Admit<S> {
        Admit::new(inner, Arc::clone(&self.settings))
    }
}

tidegate_core::debug_fields!(AdmitLayer { namespace: settings.namespace });
