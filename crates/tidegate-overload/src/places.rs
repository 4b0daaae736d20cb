//! Places in flight: how many a resource has, whose they are, how long they are kept, and the pace
//! of work that takes none.

#![expect(
    clippy::cast_precision_loss,
    reason = "counts and microseconds are far below 2^53, and their means are rough numbers"
)]

pub(crate) mod adaptive_limit;
pub(crate) mod concurrency;
pub(crate) mod fleet_share;
pub(crate) mod held_parts;
pub(crate) mod held_times;
pub(crate) mod in_flight;
pub(crate) mod instances;
pub(crate) mod latency;
pub(crate) mod pacer;
pub(crate) mod place_bounds;
pub(crate) mod place_parts;
pub(crate) mod service_times;
pub(crate) mod stream_places;
pub(crate) mod unsettled_places;
