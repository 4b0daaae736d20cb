//! The files of envoyproxy/ratelimit, as they are: read, matched, and decided upon.
//!
//! [`Files`] reads a folder of them and says what is wrong with any. [`Files::resolve`] finds the
//! limits of a request and gives a [`Resolved`], which says step by step [what the engine is
//! asked](Resolved::ask) and then [what is answered](Resolved::answer):
//!
//! ```
//! use tidegate_policy::envoy::{Ask, Code, Descriptor, Files, Settings, Text};
//!
//! let file = "
//! domain: shop
//! descriptors:
//!   - key: user
//!     rate_limit: { unit: minute, requests_per_unit: 10 }
//! ";
//! let text = Text { name: "shop.yaml", bytes: file.as_bytes() };
//! let read = Files::read(&[text], Settings::default())?;
//! let request = [Descriptor::new([("user", "ada")])];
//! let resolved = read.files.resolve("shop", &request, 0)?;
//! let Some(Ask::Carry { limits, .. }) = resolved.ask() else { panic!("a limit is in force") };
//! assert_eq!((limits[0].cost, limits[0].algorithm.limit()), (1, 10));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Without the keys that are ours (`algorithm`, `window`, `burst`, `rate_limits`) and with
//! [`Semantics::Strict`] the answers are those of the peer; where they are not, on purpose,
//! `docs/compat.md` says so.

mod answer;

mod difference;
mod files;
mod glob;
mod limit;
mod metric;
mod metric_keys;
mod read;
mod request;
mod resolve;
mod scalar;
mod tree;
mod unit;

pub use crate::policy::envoy::{Headers, Semantics, Settings};
pub use answer::{Answer, Code, CurrentLimit, DescriptorDecision, Status};

pub use files::{FileRule, Files, Read, Text, is_such_a_file};
pub use metric::{Counts, MetricKey};
pub use metric_keys::{METRIC_KEYS_MAX, MetricKeys, MetricName};
pub use request::{DESCRIPTORS_MAX, Descriptor, DescriptorLimit, RequestError};
pub use resolve::{Ask, Resolved};
pub use unit::Unit;
