//! The state of a resource as one request meets it.

use core::time::Duration;
use std::sync::Arc;

use tidegate_core::Class;

use crate::{Cursor, FeatureReport};

/// The resource of a request, and the level of the request there.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LoadReport {
    /// The name of the resource; `None` for the default resource.
    pub resource: Option<Arc<str>>,
    /// Whether it is in shadow mode: it refuses and delays nobody, and the rest is what it would
    /// say if it enforced.
    pub is_shadow: bool,
    /// The class of the request.
    pub class: Class,
    /// The level of the request: its class (0 is the least important) times 128, plus the cohort of
    /// its tenant, which changes every hour.
    pub level: u16,
    /// The position of the cursor of the request's namespace, in the most important class of which
    /// requests are shed. A class below it may be served: each class has a position of its own.
    pub cursor: Cursor,
    /// Whether that cursor sheds the request now.
    pub is_below_cursor: bool,
    /// Requests in flight.
    pub in_flight: u64,
    /// The most requests in flight of this class.
    pub in_flight_max: u64,
    /// The level of its feature; `None` if the resource has no feature that the request names.
    pub feature: Option<FeatureReport>,
    /// How the request would wait for a place; `None` if it finds one now, or would be refused.
    pub wait: Option<PlaceWait>,
}

/// How a request would wait for a place of its resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlaceWait {
    /// For how long at most: then it would be refused.
    pub longest: Duration,
    /// For how long by the rate at which places come free; `None` before that was measured. Later
    /// requests of higher weight can make it longer.
    pub estimated: Option<Duration>,
}
