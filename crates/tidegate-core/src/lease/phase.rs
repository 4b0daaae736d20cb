//! The phases of a [holder](super::Holder): its contact with the ledger, and the supply that its
//! last lease was granted from. The two change independently; `holder.rs` has the diagram.
//!
//! While the contact is [`Contact::Silent`] or [`Contact::Retrying`], a request that exceeds the
//! lease is decided by the member alone. A grant without a lease (of nothing, or of units for
//! waiting requests only) leaves the supply as it is.

/// The contact of a holder with its ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Contact {
    /// The last ask was answered, or there was none.
    #[default]
    Answered,
    /// An ask is in flight, and the one before was answered.
    Asking,
    /// So many asks in a row were not answered.
    Silent(u8),
    /// An ask is in flight after so many in a row that were not answered.
    Retrying(u8),
    /// The holder has given everything back and asks no more.
    Left,
}

impl Contact {
    /// Whether an ask is in flight.
    pub(super) const fn is_asking(self) -> bool {
        matches!(self, Self::Asking | Self::Retrying(_))
    }

    /// Whether the holder has left.
    pub(super) const fn has_left(self) -> bool {
        matches!(self, Self::Left)
    }

    /// Whether the next ask may be sent as far as the contact says.
    pub(super) const fn may_ask(self) -> bool {
        matches!(self, Self::Answered | Self::Silent(_))
    }

    /// How many asks in a row were not answered.
    pub(super) const fn unanswered(self) -> u8 {
        match self {
            Self::Silent(unanswered) | Self::Retrying(unanswered) => unanswered,
            Self::Answered | Self::Asking | Self::Left => 0,
        }
    }

    /// An ask is sent.
    #[must_use]
    pub(super) const fn ask(self) -> Self {
        match self {
            Self::Answered => Self::Asking,
            Self::Silent(unanswered) => Self::Retrying(unanswered),
            Self::Asking | Self::Retrying(_) | Self::Left => self,
        }
    }

    /// The ask in flight is over, and it counts neither as answered nor as unanswered yet.
    #[must_use]
    pub(super) const fn land(self) -> Self {
        match self {
            Self::Asking => Self::Answered,
            Self::Retrying(unanswered) => Self::Silent(unanswered),
            Self::Answered | Self::Silent(_) | Self::Left => self,
        }
    }

    /// The ask that is over counts as not answered.
    #[must_use]
    pub(super) const fn miss(self) -> Self {
        match self {
            Self::Left => self,
            _ => Self::Silent(self.unanswered().saturating_add(1)),
        }
    }
}

/// The supply of the key when the last lease was granted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Supply {
    /// Nothing is known yet, or the supply exceeds the demand.
    #[default]
    Ample,
    /// The demand here is too low for a lease ahead: the grant was for the requests that waited.
    Cold,
    /// The supply is below the demand, and the holder has its share.
    Scarce,
    /// The supply is below the demand, and the holder was granted less than its share.
    Short,
}
