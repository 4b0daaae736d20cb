//! The facts behind a refusal of the capacity plane or the overload plane.
//!
//! The types are plain data: the planes fill them in, and this crate depends on no plane.

use core::fmt;
use std::sync::Arc;

use crate::text::Text;
use crate::time::Timestamp;

/// The facts behind a refusal, by the plane that refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusalDetails {
    /// The capacity plane throttled an access.
    Capacity(CapacityDetails),
    /// The overload plane shed a request.
    Overload(OverloadDetails),
    /// The feature that a request is for is off.
    Feature(FeatureDetails),
}

impl RefusalDetails {
    /// The details of the capacity plane, if it refused.
    pub const fn capacity(&self) -> Option<&CapacityDetails> {
        match self {
            Self::Capacity(details) => Some(details),
            Self::Overload(_) | Self::Feature(_) => None,
        }
    }

    /// The details of the overload plane, if it refused.
    pub const fn overload(&self) -> Option<&OverloadDetails> {
        match self {
            Self::Overload(details) => Some(details),
            Self::Capacity(_) | Self::Feature(_) => None,
        }
    }

    /// The details of a feature that is off.
    pub const fn feature(&self) -> Option<&FeatureDetails> {
        match self {
            Self::Feature(details) => Some(details),
            Self::Capacity(_) | Self::Overload(_) => None,
        }
    }
}

/// The feature that refused a request. [`crate::Refusal::name`] is its name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FeatureDetails {
    /// The feature.
    pub feature: Arc<str>,
    /// The level at which it is off.
    pub level: Arc<str>,
    /// The name of the resource that is relieved; `None` for the default resource.
    pub resource: Option<Arc<str>>,
}

impl FeatureDetails {
    /// The details of a feature that is off at this level, to relieve this resource.
    pub const fn new(feature: Arc<str>, level: Arc<str>, resource: Option<Arc<str>>) -> Self {
        Self { feature, level, resource }
    }
}

/// The part of a table that an access was throttled by.
///
/// Rates are in thousandths of a capacity unit a second, because an eventually consistent read
/// weighs half a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CapacityDetails {
    /// The table.
    pub table: Box<str>,
    /// The index of the table; `None`: the table itself.
    pub index: Option<Box<str>>,
    /// Read or write; each has throughput of its own.
    pub operation: AccessOperation,
    /// The number of the partition of the key.
    pub partition: u32,
    /// The keys of that partition as text: of a table by hash the first and the last hash, as 16
    /// hexadecimal digits each; by slot the first and the last slot; by range the first key and the
    /// one behind the last.
    pub key_range: Box<str>,
    /// The node on which the partition lies.
    pub node: Box<str>,
    /// The rate that the partition is allocated for this operation.
    pub rate_thousandths: u64,
    /// The rate that the partition may reach; `None` where its share is the bound.
    pub ceiling_thousandths: Option<u64>,
    /// The rate that the partition consumed lately; `None` where consumption is not observed.
    pub consumed_thousandths: Option<u64>,
    /// The burst credit left, in thousandths of a capacity unit; `None` where none is spent.
    pub burst_left_thousandths: Option<u64>,
}

impl CapacityDetails {
    /// The details of a partition without bursts, whose consumption is not observed.
    pub fn new(
        table: impl Into<Box<str>>,
        operation: AccessOperation,
        partition: u32,
        key_range: impl Into<Box<str>>,
        node: impl Into<Box<str>>,
        rate_thousandths: u64,
    ) -> Self {
        Self {
            table: table.into(),
            index: None,
            operation,
            partition,
            key_range: key_range.into(),
            node: node.into(),
            rate_thousandths,
            ceiling_thousandths: None,
            consumed_thousandths: None,
            burst_left_thousandths: None,
        }
    }
}

/// The two directions of an access to a table, each with throughput of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessOperation {
    /// Any read.
    Read,
    /// Any write.
    Write,
}

impl AccessOperation {
    /// `read` or `write`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// The state of the resource that shed a request. [`crate::Refusal::name`] is the name of the
/// mechanism.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OverloadDetails {
    /// The name of the resource; `None` for the default resource.
    pub resource: Option<Arc<str>>,
    /// The mechanism that refused the request.
    pub mechanism: OverloadMechanism,
    /// The position of the resource's admission cursor, on the scale of levels: requests of a lower
    /// level are shed. 0 is open.
    pub cursor: u16,
    /// The signal that made the mechanism refuse.
    pub binding_signal: BindingSignal,
    /// The ticket with which the request may come back; `None` where it is not deferred.
    pub ticket: Option<Box<DeferralTicket>>,
}

/// A ticket for a second that is reserved for its bearer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeferralTicket {
    /// Its text, at most 256 bytes of URL-safe base64.
    pub text: Text,
    /// The instant from which it is honoured.
    pub not_before: Timestamp,
    /// The instant from which it is not honoured any more.
    pub expires: Timestamp,
    /// How often the request was deferred, this time included; at least 1.
    pub deferrals: u8,
}

impl DeferralTicket {
    /// A ticket with this text for this time.
    pub const fn new(text: Text, not_before: Timestamp, expires: Timestamp, deferrals: u8) -> Self {
        Self { text, not_before, expires, deferrals }
    }
}

impl OverloadDetails {
    /// The details of a request that was shed by `resource`.
    pub const fn new(
        resource: Option<Arc<str>>,
        mechanism: OverloadMechanism,
        cursor: u16,
        binding_signal: BindingSignal,
    ) -> Self {
        Self { resource, mechanism, cursor, binding_signal, ticket: None }
    }
}

/// The mechanism of the overload plane that refuses a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OverloadMechanism {
    /// The request's level is below the cursor.
    AdmissionCursor {
        /// The level of the request: its class (0 is the least important) times 128, plus the
        /// cohort of its tenant.
        level: u16,
    },
    /// It has a ticket and came before its time.
    Ticket,
    /// All places in flight are taken, or claimed by requests that wait for one.
    InFlight,
    /// All streams of the resource are open, or all of the namespace's part of them.
    Streams,
    /// The end of the request's work will not be reported, and it came ahead of the pace at which
    /// the places could serve such requests.
    Pace,
    /// The request has waited for longer than its class should in a queue that stands, or would.
    QueueDelay,
    /// The queue has no room for the request.
    QueueFull,
    /// The deadline of the request leaves it too little time to wait for a place, or for its work.
    Deadline,
}

impl OverloadMechanism {
    /// `admission_cursor`, `ticket`, `in_flight`, `streams`, `pace`, `queue_delay`, `queue` or
    /// `deadline`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AdmissionCursor { .. } => "admission_cursor",
            Self::Ticket => "ticket",
            Self::InFlight => "in_flight",
            Self::Streams => "streams",
            Self::Pace => "pace",
            Self::QueueDelay => "queue_delay",
            Self::QueueFull => "queue",
            Self::Deadline => "deadline",
        }
    }

    /// The level of the request that the cursor shed; `None` where the level played no part.
    pub const fn level(self) -> Option<u16> {
        match self {
            Self::AdmissionCursor { level } => Some(level),
            Self::Ticket
            | Self::InFlight
            | Self::Streams
            | Self::Pace
            | Self::QueueDelay
            | Self::QueueFull
            | Self::Deadline => None,
        }
    }
}

/// The signal that made a resource refuse: of several the one with the highest pressure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BindingSignal {
    /// The demand for places in flight, as the resource itself measures it.
    #[default]
    InFlight,
    /// A pressure that was measured outside and reported.
    Pressure,
    /// An operator's pin of the admission cursor.
    Pin,
    /// The delay of the resource's own queue, relative to its target.
    QueueDelay,
}

impl BindingSignal {
    /// `in_flight`, `pressure`, `pin` or `queue_delay`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InFlight => "in_flight",
            Self::Pressure => "pressure",
            Self::Pin => "pin",
            Self::QueueDelay => "queue_delay",
        }
    }
}

impl fmt::Display for RefusalDetails {
    /// One line for operators:
    ///
    /// ```text
    /// table "orders", write, partition 2 (8000000000000000-bfffffffffffffff) on node "n1", rate 2.5/s
    /// resource "checkout", level 12, cursor 129, binding signal pressure
    /// feature "thumbnails", level off, resource "checkout"
    /// ```
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capacity(details) => details.fmt(f),
            Self::Overload(details) => details.fmt(f),
            Self::Feature(details) => details.fmt(f),
        }
    }
}

impl fmt::Display for FeatureDetails {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { feature, level, resource } = self;
        write!(f, "feature \"{feature}\", level {level}, ")?;
        match resource {
            Some(resource) => write!(f, "resource \"{resource}\""),
            None => f.write_str("the default resource"),
        }
    }
}

impl fmt::Display for CapacityDetails {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, operation, partition, key_range, node, .. } = self;
        let rate = Thousandths(self.rate_thousandths);
        write!(f, "table \"{table}\"")?;
        if let Some(index) = &self.index {
            write!(f, ", index \"{index}\"")?;
        }
        write!(
            f,
            ", {}, partition {partition} ({key_range}) on node \"{node}\", rate {rate}/s",
            operation.as_str()
        )?;
        if let Some(ceiling) = self.ceiling_thousandths.map(Thousandths) {
            write!(f, ", ceiling {ceiling}/s")?;
        }
        if let Some(consumed) = self.consumed_thousandths.map(Thousandths) {
            write!(f, ", consumed {consumed}/s")?;
        }
        self.burst_left_thousandths.map(Thousandths).map_or(Ok(()), |left| write!(f, ", burst left {left}"))
    }
}

impl fmt::Display for OverloadDetails {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.resource {
            Some(resource) => write!(f, "resource \"{resource}\"")?,
            None => f.write_str("default resource")?,
        }
        if let Some(level) = self.mechanism.level() {
            write!(f, ", level {level}")?;
        }
        write!(f, ", cursor {}, binding signal {}", self.cursor, self.binding_signal.as_str())
    }
}

/// An amount in thousandths, shown as `12` or `0.5`.
struct Thousandths(u64);

impl fmt::Display for Thousandths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / 1000, self.0 % 1000);
        if part == 0 {
            return write!(f, "{whole}");
        }
        write!(f, "{whole}.{}", format_args!("{part:03}").to_string().trim_end_matches('0'))
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    #[test]
    fn details_read_as_one_line_and_leave_out_what_is_not_known() {
        let range = "8000000000000000-ffffffffffffffff";
        let mut capacity = CapacityDetails::new("orders", AccessOperation::Write, 1, range, "n1", 2_500);
        let text = "table \"orders\", write, partition 1 (8000000000000000-ffffffffffffffff) on node \"n1\", rate 2.5/s";
        assert_eq!(RefusalDetails::Capacity(capacity.clone()).to_string(), text);
        capacity.ceiling_thousandths = Some(3_000_000);
        capacity.consumed_thousandths = Some(50);
        capacity.burst_left_thousandths = Some(0);
        let more = format!("{text}, ceiling 3000/s, consumed 0.05/s, burst left 0");
        assert_eq!(RefusalDetails::Capacity(capacity.clone()).to_string(), more);
        capacity.index = Some("by-user".into());
        let of_index = more.replace("\"orders\", write", "\"orders\", index \"by-user\", write");
        assert_eq!(RefusalDetails::Capacity(capacity).to_string(), of_index);
        let by_cursor = OverloadMechanism::AdmissionCursor { level: 12 };
        let shed = OverloadDetails::new(Some("checkout".into()), by_cursor, 129, BindingSignal::Pressure);
        assert_eq!(
            RefusalDetails::Overload(shed).to_string(),
            "resource \"checkout\", level 12, cursor 129, binding signal pressure"
        );
        let full = OverloadDetails::new(None, OverloadMechanism::InFlight, 0, BindingSignal::InFlight);
        let full = RefusalDetails::Overload(full);
        assert_eq!(full.to_string(), "default resource, cursor 0, binding signal in_flight");
        assert!(full.capacity().is_none() && full.overload().is_some());
    }
}
