//! The refusal of the overload plane, with its details.

use core::time::Duration;
use std::sync::Arc;

use tidegate_core::{BindingSignal, Class, OverloadDetails, RefusalDetails};

use crate::cursor::Cursor;

/// A request that is not served now, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shed {
    /// The name of the resource; `None` for the default resource.
    pub resource: Option<Arc<str>>,
    /// The mechanism that refuses.
    pub binding: Binding,
    /// The signal that made that mechanism refuse.
    pub binding_signal: BindingSignal,
    /// The position of the resource's cursor.
    pub cursor: Cursor,
    /// The most requests that the resource works on at once.
    pub in_flight_max: u64,
    /// The shortest time before a retry: 1 to 32 seconds.
    pub retry_after_hint: Duration,
}

/// The mechanism that refuses a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Binding {
    /// The request's level is below the cursor.
    AdmissionCursor {
        /// The level of the request: its class, and the cohort of its tenant.
        level: u16,
    },
    /// All places in flight are taken.
    InFlight,
    /// The end of the request's work will not be reported, and it came ahead of the pace at which
    /// the places could serve such requests.
    Pace,
    /// The request has waited for longer than its class should in a queue that stands, or would.
    QueueDelay,
}

impl Binding {
    /// `admission_cursor`, `in_flight`, `pace` or `queue_delay`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AdmissionCursor { .. } => "admission_cursor",
            Self::InFlight => "in_flight",
            Self::Pace => "pace",
            Self::QueueDelay => "queue_delay",
        }
    }
}

impl Shed {
    /// The mechanism that refuses: `admission_cursor`, `in_flight`, `pace` or `queue_delay`.
    pub const fn name(&self) -> &'static str {
        self.binding.as_str()
    }

    /// The number of places in flight, or the level of the cursor.
    pub fn limit(&self) -> u64 {
        match self.binding {
            Binding::AdmissionCursor { .. } => u64::from(self.cursor.level()),
            Binding::InFlight | Binding::Pace | Binding::QueueDelay => self.in_flight_max,
        }
    }

    /// The level of the request that the cursor shed.
    pub const fn level(&self) -> Option<u16> {
        match self.binding {
            Binding::AdmissionCursor { level } => Some(level),
            Binding::InFlight | Binding::Pace | Binding::QueueDelay => None,
        }
    }

    /// The least important class that the cursor still serves, wholly or in part.
    pub fn class_served(&self) -> Class {
        self.cursor.class()
    }

    /// The details of the refusal.
    pub fn details(&self) -> RefusalDetails {
        let resource = self.resource.clone();
        RefusalDetails::Overload(OverloadDetails::new(
            resource,
            self.level(),
            self.cursor.level(),
            self.binding_signal,
        ))
    }

    /// The shortest time before a retry: 1 to 32 seconds.
    pub const fn retry_after_hint(&self) -> Duration {
        self.retry_after_hint
    }
}
