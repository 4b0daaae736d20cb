//! The reasons for which a ticket does not count.

use core::fmt;

/// The reason for which a ticket does not count. The list is closed: metrics have a label for each.
///
/// [`Display`](fmt::Display) is a sentence for the caller, with what to do. It shows nothing of the
/// ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TicketFault {
    /// The text is no ticket: too long, cut, not base64, or with values that no ticket has.
    Malformed,
    /// This member does not read the version.
    Version,
    /// No key has the number of the key that signed, for example because it was rotated away.
    UnknownKey,
    /// The signature is not that of the key.
    Forged,
    /// The ticket was sold for another namespace.
    Namespace,
    /// The ticket was sold for another resource.
    Resource,
    /// The ticket was sold for another operation.
    Operation,
    /// The ticket was sold to another tenant.
    Tenant,
    /// The request has a higher class than the ticket.
    Class,
    /// The request has a higher cost than the ticket.
    Cost,
}

impl TicketFault {
    /// All faults, in the order in which a ticket is examined.
    pub const ALL: [Self; 10] = [
        Self::Malformed,
        Self::Version,
        Self::UnknownKey,
        Self::Forged,
        Self::Namespace,
        Self::Resource,
        Self::Operation,
        Self::Tenant,
        Self::Class,
        Self::Cost,
    ];

    /// The name in metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Version => "version",
            Self::UnknownKey => "unknown_key",
            Self::Forged => "forged",
            Self::Namespace => "namespace",
            Self::Resource => "resource",
            Self::Operation => "operation",
            Self::Tenant => "tenant",
            Self::Class => "class",
            Self::Cost => "cost",
        }
    }
}

impl fmt::Display for TicketFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "the ticket is malformed; send it exactly as the refusal gave it",
            Self::Version => "the ticket has an unknown version; send the request without it",
            Self::UnknownKey => "the key of the ticket is no longer valid; send the request without it",
            Self::Forged => "the signature of the ticket is wrong; send it exactly as the refusal gave it",
            Self::Namespace => {
                "the ticket is for another namespace; send it with the request it was given for"
            }
            Self::Resource => "the ticket is for another resource; send it with the request it was given for",
            Self::Operation => {
                "the ticket is for another operation; send it with the request it was given for"
            }
            Self::Tenant => "the ticket is for another tenant; send it as the tenant it was given to",
            Self::Class => {
                "the ticket is for a lower class; send the request with the class that was deferred"
            }
            Self::Cost => "the ticket is for a lower cost; send the request with the cost that was deferred",
        })
    }
}

impl std::error::Error for TicketFault {}
