//! The answers of the engine.

use core::fmt;
use std::borrow::Cow;

use tidegate_core::{Plane, Reason, Refusal, RefusalView, RequestOutcome, Retry, UnreadRefusal};
use tidegate_overload::OfferOutcome;

use crate::continuation::Pending;
use crate::demand::outcome_of;
use crate::error::RequestError;
use crate::permit::Permit;

/// The next step of the caller.
#[derive(Debug)]
#[must_use = "an undecided request holds its charges"]
#[expect(
    clippy::large_enum_variant,
    reason = "most steps are decisions, and a box for each would cost more than the move"
)]
pub enum Step<'a> {
    /// Answer the request, or all requests of the batch.
    Decided(Decision<'a>),
    /// Bring what [`Pending::wants`] and hand it to `Engine::resume`.
    Ask(Pending),
}

impl Step<'_> {
    /// The same step, which borrows nothing: a refusal is read.
    pub fn into_owned(self) -> Step<'static> {
        match self {
            Self::Decided(decision) => Step::Decided(decision.into_owned()),
            Self::Ask(pending) => Step::Ask(pending),
        }
    }
}

/// The decision about a request, or about a batch of which all go ahead or none does.
#[derive(Debug)]
#[must_use = "dropping a permit returns its loans"]
#[expect(clippy::large_enum_variant, reason = "a box for each admission would cost more than the move")]
pub enum Decision<'a> {
    /// The request may go ahead; of a batch, all of them may.
    Admit(Permit),
    /// It may not, and this is why; of a batch, none may, and nothing stays charged.
    Refuse(Refused<'a>),
}

impl Decision<'_> {
    /// The same decision, which borrows nothing: a refusal is read.
    pub fn into_owned(self) -> Decision<'static> {
        match self {
            Self::Admit(permit) => Decision::Admit(permit),
            Self::Refuse(refused) => Decision::Refuse(refused.into_owned()),
        }
    }
}

/// The refusal of a request; of a batch, those of the requests that would be refused.
///
/// Its reason, name and retry are those of the first of them, which is the only one of a single
/// request. A refusal by limits that are decided here is put together when it is read, from what
/// the engine and the request say: until then it allocates nothing.
#[derive(Clone, Debug)]
pub struct Refused<'a>(RefusedForm<'a>);

#[derive(Clone, Debug)]
enum RefusedForm<'a> {
    Unread(UnreadRefusal<'a>),
    Read(Refusal),
    /// The refusals of some requests of a batch, each with the position of its request; at least
    /// one.
    OfBatch(Box<[(usize, Refusal)]>),
}

impl<'a> Refused<'a> {
    /// The refusal of this plane, or else of the limits that are decided here.
    #[inline]
    pub(crate) fn by(plane: Option<Refusal>, limits: Option<UnreadRefusal<'a>>) -> Self {
        match plane {
            Some(refusal) => refusal.into(),
            None => limits.expect("a stop without a refusal is one of the limits").into(),
        }
    }

    /// The refusals of some requests of a batch; `None` without any.
    pub(crate) fn from_batch(refusals: Vec<(usize, Refusal)>) -> Option<Self> {
        (!refusals.is_empty()).then(|| Self(RefusedForm::OfBatch(refusals.into_boxed_slice())))
    }

    /// The first refusal, if it is read.
    pub(crate) fn as_read(&self) -> Result<&Refusal, &UnreadRefusal<'a>> {
        match &self.0 {
            RefusedForm::Unread(unread) => Err(unread),
            RefusedForm::Read(refusal) => Ok(refusal),
            RefusedForm::OfBatch(all) => Ok(&all[0].1),
        }
    }

    /// Why: the reason of the limit that binds longest.
    pub fn reason(&self) -> Reason {
        self.as_read().map_or_else(UnreadRefusal::reason, Refusal::reason)
    }

    /// The name of the limit that binds longest.
    pub fn name(&self) -> &str {
        self.as_read().map_or_else(|unread| unread.name(), Refusal::name)
    }

    /// When to come back.
    pub fn retry(&self) -> Retry {
        self.as_read().map_or_else(UnreadRefusal::retry, Refusal::retry)
    }

    /// The plane that refuses.
    pub fn plane(&self) -> Plane {
        self.as_read().map_or(Plane::Limits, Refusal::plane)
    }

    /// The part of it about the limit that binds longest; for a batch, about its first request.
    pub fn view(&self) -> RefusalView<'_> {
        self.as_read().map_or_else(|unread| unread.view(), Refusal::view)
    }

    /// The refusal of a single request, or the first of a batch.
    pub fn read(&self) -> Cow<'_, Refusal> {
        self.as_read().map_or_else(|unread| Cow::Owned(unread.read()), Cow::Borrowed)
    }

    /// The outcome of the request as its resource counts it.
    pub(crate) fn offer_outcome(&self) -> OfferOutcome {
        match self.as_read() {
            Ok(refusal) => outcome_of(refusal),
            Err(unread) if unread.outcome() == RequestOutcome::Denied => OfferOutcome::Denied,
            Err(unread) => OfferOutcome::of_refusal(unread.reason()),
        }
    }

    /// The refusal of a single request, or the first of a batch.
    pub fn into_refusal(self) -> Refusal {
        match self.0 {
            RefusedForm::Unread(unread) => unread.read(),
            RefusedForm::Read(refusal) => refusal,
            RefusedForm::OfBatch(all) => {
                let first = all.into_iter().next();
                first.expect("there is at least one").1
            }
        }
    }

    /// For each of `count` requests of a batch its refusal, in their order; `None` for those that
    /// were not asked or would have been admitted.
    pub fn into_each(self, count: usize) -> Vec<Option<Refusal>> {
        let mut each = Vec::new();
        each.resize_with(count, || None);
        let all = match self.0 {
            RefusedForm::OfBatch(all) => all,
            one => Box::new([(0, Self(one).into_refusal())]),
        };
        for (at, refusal) in all {
            if let Some(place) = each.get_mut(at) {
                *place = Some(refusal);
            }
        }
        each
    }

    /// The same, which borrows nothing: it is read.
    pub fn into_owned(self) -> Refused<'static> {
        Refused(match self.0 {
            RefusedForm::Unread(unread) => RefusedForm::Read(unread.read()),
            RefusedForm::Read(refusal) => RefusedForm::Read(refusal),
            RefusedForm::OfBatch(all) => RefusedForm::OfBatch(all),
        })
    }
}

impl From<Refusal> for Refused<'_> {
    fn from(refusal: Refusal) -> Self {
        Self(RefusedForm::Read(refusal))
    }
}

impl<'a> From<UnreadRefusal<'a>> for Refused<'a> {
    #[inline]
    fn from(unread: UnreadRefusal<'a>) -> Self {
        Self(RefusedForm::Unread(unread))
    }
}

impl fmt::Display for Refused<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_read() {
            Ok(refusal) => refusal.fmt(f),
            Err(unread) => unread.fmt(f),
        }
    }
}

/// Why several requests could not be decided; nothing was charged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError {
    /// One of them could not be.
    #[error("request {at} cannot be decided")]
    Request {
        /// Its position among the requests, from 0.
        at: usize,
        /// Why.
        #[source]
        source: RequestError,
    },
    /// The batch is too large.
    #[error("{given} requests are more than the {max} that are decided together; ask in several parts", max = crate::BATCH_REQUESTS_MAX)]
    TooMany {
        /// The number of requests.
        given: usize,
    },
}
