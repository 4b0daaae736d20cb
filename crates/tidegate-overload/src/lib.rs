//! The overload plane: what the system can bear right now, and who is served first when it cannot
//! bear all.
//!
//! This version has two of its mechanisms: a bound on the work in flight, and the admission cursor,
//! which sheds the least important classes first. Both are pure: requests, signals and `now` go in,
//! answers come out.
//!
//! ```
//! use tidegate::{Class, Cost, Timestamp};
//! use tidegate_overload::{Overload, OverloadConfig};
//!
//! let now = Timestamp::from_secs(1_800_000_000);
//! let overload = Overload::new(OverloadConfig { in_flight_max: 1, seed: 7 })?;
//! assert!(overload.admit_read_only(Class::Critical, Some("tenant"), Cost::ONE, now).is_none());
//! let permit = overload.acquire(now).expect("one place is free");
//! assert!(overload.acquire(now).is_err());
//! overload.give_back(permit);
//! # Ok::<(), tidegate_overload::OverloadError>(())
//! ```

#![forbid(unsafe_code)]

mod backoff;
mod cursor;
mod in_flight;
mod overload;

pub use cursor::{COHORTS, Cursor};
pub use in_flight::InFlightPermit;
pub use overload::{Overload, OverloadConfig, OverloadError, Shed, Signal, TICK};
