//! The refusal of the overload plane, with its details.

use core::time::Duration;
use std::sync::Arc;

use tidegate_core::{BindingSignal, OverloadDetails, OverloadMechanism, RefusalDetails};

use crate::cursor::Cursor;

/// A request that is not served now, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shed {
    /// The name of the resource; `None` for the default resource.
    pub resource: Option<Arc<str>>,
    /// The mechanism that refuses.
    pub mechanism: OverloadMechanism,
    /// The signal that made that mechanism refuse.
    pub binding_signal: BindingSignal,
    /// The position of the resource's cursor.
    pub cursor: Cursor,
    /// The most requests that the resource works on at once; of [`OverloadMechanism::Streams`] the
    /// most streams.
    pub in_flight_max: u64,
    /// The shortest time before a retry: 1 to 32 seconds.
    pub retry_after_hint: Duration,
}

impl Shed {
    /// The mechanism that refuses: `admission_cursor`, `in_flight`, `streams`, `pace`,
    /// `queue_delay` or `queue`.
    pub const fn name(&self) -> &'static str {
        self.mechanism.as_str()
    }

    /// The number of places in flight or of streams, or the level of the cursor.
    pub fn limit(&self) -> u64 {
        match self.mechanism {
            OverloadMechanism::AdmissionCursor { .. } => u64::from(self.cursor.level()),
            _ => self.in_flight_max,
        }
    }

    /// The details of the refusal.
    pub fn details(&self) -> RefusalDetails {
        let resource = self.resource.clone();
        RefusalDetails::Overload(OverloadDetails::new(
            resource,
            self.mechanism,
            self.cursor.level(),
            self.binding_signal,
        ))
    }

    /// The shortest time before a retry: 1 to 32 seconds.
    pub const fn retry_after_hint(&self) -> Duration {
        self.retry_after_hint
    }
}

/// Why a request gets no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlaceRefusal {
    /// All are taken, by [`Overload::has_place`](crate::Overload::has_place).
    NoPlace,
    /// Requests that wait claim those that are free.
    Claimed,
    /// It has waited for one for too long, or would.
    Delayed,
    /// The queue for them has no room.
    QueueFull,
    /// Its deadline leaves no time to wait for one, or for the work once it has one.
    TooLate,
}
