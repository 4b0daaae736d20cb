//! The knowledge of the model about one ticket.

use tidegate_core::{Class, Cost, Timestamp};
use tidegate_engine::{Request, TicketFault};

/// A caller and its request. A ticket is for the caller that was deferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) namespace: &'static str,
    pub(crate) tenant: [(&'static str, &'static str); 1],
    pub(crate) resource: usize,
    pub(crate) operation: Option<&'static str>,
    pub(crate) class: Class,
    pub(crate) cost: u64,
}

pub(crate) const RESOURCES: [&str; 2] = ["app", "db"];

impl Caller {
    pub(crate) fn request<'a>(&'a self, ticket: Option<&'a str>) -> Request<'a> {
        let mut request = Request::new(self.namespace, &self.tenant)
            .resource(RESOURCES[self.resource])
            .tenant(self.tenant[0].1)
            .class(self.class)
            .cost(Cost::new(self.cost).unwrap());
        request.operation = self.operation;
        request.ticket = ticket;
        request
    }
}

/// A ticket that is out.
#[derive(Clone, Debug)]
pub(crate) struct KnownTicket {
    pub(crate) text: String,
    pub(crate) bearer: Caller,
    pub(crate) key: [u8; 32],
    /// On the clock of tickets.
    pub(crate) not_before: Timestamp,
    pub(crate) expires: Timestamp,
    pub(crate) deferrals: u8,
    /// Whether a request has it, or another ticket took its place, since the start of the member.
    pub(crate) is_spent: bool,
    /// The requests that were served with it, and the starts at which it was out.
    pub(crate) served: u32,
    pub(crate) starts: u32,
}

impl KnownTicket {
    pub(crate) fn slot(&self) -> u64 {
        self.not_before.as_secs()
    }

    /// Whether every spent ticket of its second may be forgotten.
    pub(crate) fn is_over(&self, now: Timestamp) -> bool {
        now > Timestamp::from_secs(self.slot() + 8)
    }

    /// Why it does not count for a caller, by the first thing that is another one's.
    pub(crate) fn fault_for(&self, caller: &Caller, keys: &[[u8; 32]]) -> Option<TicketFault> {
        let Self { bearer, .. } = self;
        if !keys.contains(&self.key) {
            Some(TicketFault::UnknownKey)
        } else if bearer.namespace != caller.namespace {
            Some(TicketFault::Namespace)
        } else if bearer.resource != caller.resource {
            Some(TicketFault::Resource)
        } else if bearer.operation != caller.operation {
            Some(TicketFault::Operation)
        } else if bearer.tenant != caller.tenant {
            Some(TicketFault::Tenant)
        } else if caller.class > bearer.class {
            Some(TicketFault::Class)
        } else if caller.cost > bearer.cost {
            Some(TicketFault::Cost)
        } else {
            None
        }
    }
}

/// The worth that the model expects of a ticket that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Worth {
    /// No ticket is shown, or the class of the request is not deferred.
    None,
    Faulty(TicketFault),
    Due,
    Early,
    Expired,
    Spent,
}
