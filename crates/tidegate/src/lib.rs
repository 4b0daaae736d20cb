//! Admission control for multi-tenant services: may this request go ahead, and if not, why, and
//! when should it come back?
//!
//! ```
//! use tidegate::{Clock, Cost, Gate, Limit, SystemClock};
//!
//! let gate = Gate::builder("api").limit(Limit::rate("per-user", "100/s")?.key(["user"])).build()?;
//! let clock = SystemClock::new();
//! let user = String::from("ada");
//! let decision = gate.check(&[("user", &user)], Cost::ONE, clock.now());
//! if let Some(refusal) = decision.refusal() {
//!     println!("{refusal}");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`Gate`] holds [limits](Limit) in process; a request is charged to all that match, or to none.
//! It is pure: `now` is an argument, and no thread is started. A [`SystemClock`] reads the time for
//! it. With the feature
//!
//! | feature | there is |
//! |---|---|
//! | `driver` | [`Admission`], for workers, consumers and clients: waiting, cancellation, and limits that members share |
//! | `redis` | [`redis`], the store in Redis or Valkey that they share |
//! | `tower` | [`tower`], layers for axum, hyper and tonic |
//! | `policy` | [`policy`], limits from a YAML file that `tidegate serve` reads as well |
//! | `calendar`, `cidr`, `regex` (default) | limits by civil windows; matchers of networks; of patterns |
//!
//! The chapter [for Rust programs](https://github.com/tidegate/tidegate/blob/main/docs/rust.md) goes
//! from the first program to a fleet.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[doc(inline)]
pub use tidegate_core::*;

#[doc(inline)]
pub use tidegate_clock::{Clock, ClockWait, Drift, ManualClock, SystemClock};

#[cfg(feature = "policy")]
pub mod policy;

#[cfg(feature = "driver")]
pub use tidegate_driver::{
    Admission, AdmissionBuilder, Driver, EngineHandle, FeatureGuard, FeatureHandle, FeatureLevel, Hold,
    UntilReadyError, Verdict,
};
#[cfg(feature = "driver")]
pub use tidegate_engine::{BuildError, Request, RequestError};

/// The pipeline behind [`Admission`] and the layers, for programs that configure it themselves.
#[cfg(feature = "driver")]
pub mod engine {
    pub use tidegate_engine::*;
}

/// The contract of stores that members share, and the store in memory.
#[cfg(feature = "driver")]
pub mod store {
    pub use tidegate_store::*;
}

/// Limits that members share in Redis 7 or Valkey.
#[cfg(feature = "redis")]
pub mod redis {
    pub use tidegate_store_redis::*;
}

/// Layers for axum, hyper and tonic.
#[cfg(feature = "tower")]
pub mod tower {
    pub use tidegate_tower::*;
}

/// The programs of the README are tested as those of this documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The programs of the chapter for Rust programs are tested as well.
#[cfg(all(doctest, feature = "policy", feature = "redis", feature = "tower"))]
#[doc = include_str!("../../../docs/rust.md")]
struct RustChapter;

/// So are those of the page about tower layers.
#[cfg(all(doctest, feature = "driver", feature = "tower"))]
#[doc = include_str!("../../../docs/tower.md")]
struct TowerPage;
