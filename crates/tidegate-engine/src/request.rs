//! The requests that the engine decides.

use core::num::NonZeroU64;
use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_capacity::{Access, AccessKind, IndexWrite};
use tidegate_core::{Attributes, Class, Cost, Timestamp};
use tidegate_overload::WaitingConnection;

/// A request as a protocol describes it. Everything but the namespace and the attributes has a
/// default.
///
/// ```
/// # use std::time::Duration;
/// # use tidegate_core::{Cost, Limit, Reason, Timestamp};
/// # use tidegate_engine::{Decision, Engine, EngineConfig, NamespaceConfig, Request, Step};
/// # let limit = Limit::rate("per-user", "10/s")?.key(["user"]);
/// # let api = NamespaceConfig::new("api", [limit]);
/// # let engine = Engine::builder(EngineConfig::default()).namespace(api).build()?;
/// # let now = Timestamp::from_secs(1_800_000_000);
/// let attributes = [("user", "ada")];
/// let deadline = now.saturating_add(Duration::from_secs(1));
/// let request = Request::new("api", &attributes).cost(Cost::new(8).unwrap()).deadline(deadline);
/// assert!(matches!(engine.admit(&request, now)?, Step::Decided(Decision::Admit(_))));
/// // Past its deadline a request is refused before anything is charged.
/// let late = deadline.saturating_add(Duration::from_secs(1));
/// let step = engine.admit(&request, late)?;
/// let Step::Decided(Decision::Refuse(refused)) = step else { panic!("it is late") };
/// assert_eq!(refused.reason(), Reason::DeadlineUnmeetable);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Request<'a> {
    /// The namespace whose limits apply.
    pub namespace: &'a str,
    /// The attributes that limits match on and count by.
    pub attributes: Attributes<'a>,
    /// The tenant that pays; decides the cohort when the system sheds. Default: `None`, one cohort
    /// for all such requests.
    pub tenant: Option<&'a str>,
    /// The feature of the service that it is for, such as `thumbnails`, as the request named it.
    /// Default: `None`. A feature of the resource with levels gives the request its level, or
    /// refuses it while it is off; any other name decides nothing. Any text is taken; one longer
    /// than 128 bytes is the name of no listed feature.
    pub feature: Option<&'a str>,
    /// The cost of the request. Default 1.
    pub cost: Cost,
    /// How much it matters. Default [`Class::SheddablePlus`].
    pub class: Class,
    /// The read or write of a partitioned table it makes, if any.
    pub access: Option<Access<'a>>,
    /// The thing it is served by, such as an upstream of the proxy: its concurrency limit, queue
    /// and cursor apply. Default: none named, which is the default resource of the overload plane.
    pub resource: Option<&'a str>,
    /// The number of earlier attempts. Demand counts first attempts only, those with 0.
    pub attempt: u32,
    /// When the caller stops waiting. A request past its deadline is refused before anything is
    /// charged.
    pub deadline: Option<Timestamp>,
    /// The deferral ticket that it shows, as the caller sent it: the resource that deferred it has
    /// a second reserved for it. Any text is taken; one that is no ticket of this engine counts for
    /// nothing. A protocol hands on at most 256 bytes. Default: `None`.
    pub ticket: Option<&'a str>,
    /// The operation of the service that it asks for, for which alone a ticket counts. Default:
    /// `None`, and its feature is its operation; see
    /// [`operation_or_feature`](Request::operation_or_feature).
    pub operation: Option<&'a str>,
    /// Until when it may wait, for a limit or for a place, instead of being refused. `None`, the
    /// default: it does not wait. With a ticket in its time it may wait for up to a second for its
    /// place, also if this instant is earlier, or has passed.
    pub may_wait_until: Option<Timestamp>,
    /// The memory in bytes that its caller holds while it waits, such as the head of an HTTP
    /// request and the buffers of its connection; the waiting room bounds the sum of these bytes
    /// and the engine's own copies. Default 0.
    pub waiting_bytes: usize,
    /// Its connection, if other requests may wait on the same one, as over HTTP/2: the memory of it
    /// counts beside `waiting_bytes`, once, as long as any request of the connection waits. Default
    /// `None`.
    pub waiting_connection: Option<WaitingConnection>,
    /// Whether the end of its work is reported by settling its permit. Default true. A request with
    /// `false` takes no place of its resource and waits for none: the place would be returned with
    /// the answer or when the permit expires, neither of which is the end of the work.
    pub end_known: bool,
    /// Whether its work is a stream, such as a list of events or a long poll: it keeps its place
    /// until [`Engine::begin_answer`](crate::Engine::begin_answer), and counts among the streams of
    /// its resource from its admission until it is settled. Default false. Without meaning where
    /// the end of its work is not known.
    pub is_stream: bool,
}

impl<'a> Request<'a> {
    /// A request of cost 1 and the default class.
    pub fn new(namespace: &'a str, attributes: impl Into<Attributes<'a>>) -> Self {
        Self {
            namespace,
            attributes: attributes.into(),
            tenant: None,
            feature: None,
            cost: Cost::ONE,
            class: Class::default(),
            access: None,
            resource: None,
            attempt: 0,
            deadline: None,
            ticket: None,
            operation: None,
            may_wait_until: None,
            waiting_bytes: 0,
            waiting_connection: None,
            end_known: true,
            is_stream: false,
        }
    }

    /// The same request with this cost.
    #[must_use]
    pub fn cost(mut self, cost: Cost) -> Self {
        self.cost = cost;
        self
    }

    /// The same request in this class.
    #[must_use]
    pub fn class(mut self, class: Class) -> Self {
        self.class = class;
        self
    }

    /// The same request for this tenant.
    #[must_use]
    pub fn tenant(mut self, tenant: &'a str) -> Self {
        self.tenant = Some(tenant);
        self
    }

    /// The same request for this feature of the service.
    #[must_use]
    pub fn feature(mut self, feature: &'a str) -> Self {
        self.feature = Some(feature);
        self
    }

    /// The same request with an access to a partitioned table.
    #[must_use]
    pub fn access(mut self, access: Access<'a>) -> Self {
        self.access = Some(access);
        self
    }

    /// The same request for this resource.
    #[must_use]
    pub fn resource(mut self, resource: &'a str) -> Self {
        self.resource = Some(resource);
        self
    }

    /// The same request with this deferral ticket.
    #[must_use]
    pub fn ticket(mut self, ticket: &'a str) -> Self {
        self.ticket = Some(ticket);
        self
    }

    /// The same request for this operation of the service.
    #[must_use]
    pub fn operation(mut self, operation: &'a str) -> Self {
        self.operation = Some(operation);
        self
    }

    /// The operation that its tickets are for: its own, or else its feature.
    pub fn operation_or_feature(&self) -> Option<&'a str> {
        self.operation.or(self.feature)
    }

    /// The same request, which may wait until this instant.
    #[must_use]
    pub fn may_wait_until(mut self, until: Timestamp) -> Self {
        self.may_wait_until = Some(until);
        self
    }

    /// The same request, the end of whose work is not reported.
    #[must_use]
    pub fn end_unknown(mut self) -> Self {
        self.end_known = false;
        self
    }

    /// The same request, whose work is a stream.
    #[must_use]
    pub fn stream(mut self) -> Self {
        self.is_stream = true;
        self
    }

    /// The same request with this deadline.
    #[must_use]
    pub fn deadline(mut self, deadline: Timestamp) -> Self {
        self.deadline = Some(deadline);
        self
    }
}

/// The bytes of a name or value beside its text, in a copy.
const TEXT_BYTES: usize = 16;

impl Request<'_> {
    /// Whether it has nothing that a plane beside the limits and the resources asks for.
    #[inline]
    pub(crate) const fn brings_only_limits(&self) -> bool {
        self.access.is_none() && self.deadline.is_none()
    }

    /// Whether it names neither tenant nor feature.
    #[inline]
    pub(crate) const fn has_no_names(&self) -> bool {
        self.tenant.is_none() && self.feature.is_none()
    }

    /// Whether its copy has [`OwnedRareParts`].
    const fn has_rare_parts(&self) -> bool {
        self.access.is_some() || self.ticket.is_some() || self.operation.is_some()
    }

    /// The bytes that the copy of a waiting request takes beside its fixed size, and the refusal
    /// that is kept beside it, whose scope has attributes.
    pub(crate) fn copied_bytes(&self) -> usize {
        let of_text = |text: &str| text.len() + TEXT_BYTES;
        let attributes: usize =
            self.attributes.iter().map(|(name, value)| of_text(name) + of_text(value)).sum();
        let words = [self.tenant, self.feature, self.resource, self.ticket, self.operation];
        let words: usize = words.into_iter().flatten().map(of_text).sum();
        let access = self.access.map_or(0, |access| {
            let writes = access.index_writes.unwrap_or_default();
            let writes = writes
                .iter()
                .map(|write| size_of::<OwnedIndexWrite>() + of_text(write.index) + write.key.len());
            of_text(access.table) + access.key.len() + writes.sum::<usize>()
        });
        let rare_parts = if self.has_rare_parts() { size_of::<OwnedRareParts>() } else { 0 };
        2 * (attributes + words) + access + rare_parts
    }
}

/// An access that outlives what its caller has lent.
#[derive(Clone, Debug)]
struct OwnedAccess {
    table: Box<str>,
    key: Box<[u8]>,
    kind: AccessKind,
    size: u64,
    index_writes: Option<Box<[OwnedIndexWrite]>>,
}

#[derive(Clone, Debug)]
struct OwnedIndexWrite {
    index: Box<str>,
    key: Box<[u8]>,
    size: u64,
}

impl OwnedAccess {
    fn from_access(access: &Access<'_>) -> Self {
        let owned = |write: &IndexWrite<'_>| OwnedIndexWrite {
            index: write.index.into(),
            key: write.key.into(),
            size: write.size,
        };
        Self {
            table: access.table.into(),
            key: access.key.into(),
            kind: access.kind,
            size: access.size,
            index_writes: access.index_writes.map(|writes| writes.iter().map(owned).collect()),
        }
    }
}

/// The parts that most requests lack, in one box, because many requests may wait.
#[derive(Clone, Debug)]
struct OwnedRareParts {
    access: Option<OwnedAccess>,
    ticket: Option<Box<str>>,
    operation: Option<Box<str>>,
}

impl OwnedRareParts {
    /// The rare parts of a request; `None` if it has none of them.
    fn from_request(request: &Request<'_>) -> Option<Box<Self>> {
        request.has_rare_parts().then(|| {
            Box::new(Self {
                access: request.access.as_ref().map(OwnedAccess::from_access),
                ticket: request.ticket.map(Into::into),
                operation: request.operation.map(Into::into),
            })
        })
    }
}

/// The parts of an [`OwnedRequest`] that a [`Request`] borrows as lists.
#[derive(Debug)]
pub(crate) struct LentLists<'a> {
    attributes: Pairs<'a>,
    index_writes: Option<SmallVec<[IndexWrite<'a>; 2]>>,
}

/// Names and values that outlive what their caller has lent, in one piece of memory.
#[derive(Clone, Debug)]
pub(crate) struct OwnedPairs {
    text: Box<str>,
    /// Where each name and each value ends, in turn.
    ends: SmallVec<[usize; 4]>,
}

/// The same again, as they are handed on.
pub(crate) type Pairs<'a> = SmallVec<[(&'a str, &'a str); 2]>;

impl OwnedPairs {
    pub(crate) fn from_attributes(attributes: Attributes<'_>) -> Self {
        Self::new(&attributes.iter())
    }

    pub(crate) fn new<'a>(pairs: &(impl Iterator<Item = (&'a str, &'a str)> + Clone)) -> Self {
        let parts = || pairs.clone().flat_map(|(name, value)| [name, value]);
        let mut text = String::with_capacity(parts().map(str::len).sum());
        let mut ends = SmallVec::new();
        for part in parts() {
            text.push_str(part);
            ends.push(text.len());
        }
        Self { text: text.into(), ends }
    }

    pub(crate) fn pairs(&self) -> Pairs<'_> {
        let mut from = 0;
        let mut part = |end: usize| &self.text[core::mem::replace(&mut from, end)..end];
        self.ends.chunks_exact(2).map(|ends| (part(ends[0]), part(ends[1]))).collect()
    }

    /// Calls `act` with the attributes.
    pub(crate) fn with<R>(&self, act: impl FnOnce(Attributes<'_>) -> R) -> R {
        act(Attributes::new(&self.pairs()))
    }
}

/// A request that outlives what its caller has lent.
#[derive(Debug)]
pub(crate) struct OwnedRequest {
    namespace: Arc<str>,
    attributes: OwnedPairs,
    tenant: Option<Box<str>>,
    feature: Option<Box<str>>,
    cost: Cost,
    class: Class,
    rare_parts: Option<Box<OwnedRareParts>>,
    resource: Option<Box<str>>,
    attempt: u32,
    /// The latest instant for none.
    deadline: Timestamp,
    /// The earliest instant for none.
    may_wait_until: Timestamp,
    waiting_bytes: u32,
    connection_bytes: u32,
    connection_id: Option<NonZeroU64>,
    end_known: bool,
    is_stream: bool,
}

impl OwnedRequest {
    /// `namespace` is the request's.
    pub(crate) fn new(request: &Request<'_>, namespace: Arc<str>) -> Self {
        Self {
            namespace,
            attributes: OwnedPairs::from_attributes(request.attributes),
            tenant: request.tenant.map(Into::into),
            feature: request.feature.map(Into::into),
            cost: request.cost,
            class: request.class,
            rare_parts: OwnedRareParts::from_request(request),
            resource: request.resource.map(Into::into),
            attempt: request.attempt,
            deadline: request.deadline.unwrap_or(Timestamp::MAX),
            may_wait_until: request.may_wait_until.unwrap_or(Timestamp::MIN),
            waiting_bytes: u32::try_from(request.waiting_bytes).unwrap_or(u32::MAX),
            connection_bytes: request.waiting_connection.map_or(0, |connection| connection.bytes),
            connection_id: request.waiting_connection.map(|connection| connection.id),
            end_known: request.end_known,
            is_stream: request.is_stream,
        }
    }

    fn access(&self) -> Option<&OwnedAccess> {
        self.rare_parts.as_ref()?.access.as_ref()
    }

    /// Its lists, for [`OwnedRequest::with`].
    pub(crate) fn lists(&self) -> LentLists<'_> {
        let writes = self.access().and_then(|access| access.index_writes.as_deref());
        let index_writes = writes.map(|writes| {
            let lent = writes.iter();
            lent.map(|write| IndexWrite { index: &write.index, key: &write.key, size: write.size }).collect()
        });
        LentLists { attributes: self.attributes.pairs(), index_writes }
    }

    /// The request with its lists.
    pub(crate) fn with<'a>(&'a self, lists: &'a LentLists<'_>) -> Request<'a> {
        Request {
            namespace: &self.namespace,
            attributes: Attributes::new(&lists.attributes),
            tenant: self.tenant.as_deref(),
            feature: self.feature.as_deref(),
            cost: self.cost,
            class: self.class,
            access: self.access().map(|access| {
                let index_writes = lists.index_writes.as_deref();
                Access { index_writes, ..Access::new(&access.table, &access.key, access.kind, access.size) }
            }),
            resource: self.resource.as_deref(),
            attempt: self.attempt,
            ticket: self.rare_parts.as_ref().and_then(|parts| parts.ticket.as_deref()),
            operation: self.rare_parts.as_ref().and_then(|parts| parts.operation.as_deref()),
            deadline: (self.deadline < Timestamp::MAX).then_some(self.deadline),
            may_wait_until: (self.may_wait_until > Timestamp::MIN).then_some(self.may_wait_until),
            waiting_bytes: self.waiting_bytes as usize,
            waiting_connection: self
                .connection_id
                .map(|id| WaitingConnection { id, bytes: self.connection_bytes }),
            end_known: self.end_known,
            is_stream: self.is_stream,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_waits_keeps_its_feature_and_counts_its_bytes() {
        let attributes = [("user", "ada")];
        let request = Request::new("api", &attributes);
        for name in ["", "thumbnails", "a\tb", &"x".repeat(2048)] {
            let named = request.feature(name);
            let owned = OwnedRequest::new(&named, "api".into());
            assert_eq!(owned.with(&owned.lists()).feature, Some(name));
            assert_eq!(named.copied_bytes(), request.copied_bytes() + 2 * (name.len() + TEXT_BYTES));
        }
        let owned = OwnedRequest::new(&request, "api".into());
        assert_eq!(owned.with(&owned.lists()).feature, None);
    }

    #[test]
    fn a_request_that_waits_keeps_its_ticket_and_its_operation_and_counts_their_bytes() {
        let plain = Request::new("api", ()).feature("thumbnails");
        assert_eq!(plain.operation_or_feature(), Some("thumbnails"));
        for text in ["", "AbC-_", &"x".repeat(256)] {
            let shown = plain.ticket(text).operation("export");
            assert_eq!(shown.operation_or_feature(), Some("export"));
            let owned = OwnedRequest::new(&shown, "api".into());
            let lists = owned.lists();
            let again = owned.with(&lists);
            assert_eq!((again.ticket, again.operation), (Some(text), Some("export")));
            let bytes = text.len() + "export".len() + 2 * TEXT_BYTES;
            let copied = 2 * bytes + size_of::<OwnedRareParts>();
            assert_eq!(shown.copied_bytes(), plain.copied_bytes() + copied);
        }
        let owned = OwnedRequest::new(&plain, "api".into());
        let lists = owned.lists();
        assert_eq!((owned.with(&lists).ticket, owned.with(&lists).operation), (None, None));
    }
}
