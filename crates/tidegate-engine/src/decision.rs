//! The answers of the engine.

use core::fmt;
use core::ops::Deref;

use tidegate_core::Refusal;

use crate::continuation::Pending;
use crate::error::RequestError;
use crate::permit::Permit;

/// The next step of the caller.
#[derive(Debug)]
#[must_use = "an undecided request holds its charges"]
#[expect(
    clippy::large_enum_variant,
    reason = "most steps are decisions, and a box for each would cost more than the move"
)]
pub enum Step {
    /// Answer the request, or all requests of the batch.
    Decided(Decision),
    /// Bring what [`Pending::wants`] and hand it to `Engine::resume`.
    Ask(Pending),
}

/// The decision about a request, or about a batch of which all go ahead or none does.
#[derive(Debug)]
#[must_use = "dropping a permit returns its loans"]
#[expect(clippy::large_enum_variant, reason = "a box for each admission would cost more than the move")]
pub enum Decision {
    /// The request may go ahead; of a batch, all of them may.
    Admit(Permit),
    /// It may not, and this is why; of a batch, none may, and nothing stays charged.
    Refuse(Refused),
}

/// The refusal of a request; of a batch, those of the requests that would be refused.
///
/// It reads as the first of them, which is the only one of a single request.
#[derive(Debug)]
pub struct Refused {
    at: usize,
    refusal: Refusal,
    /// The refusals of other requests of the batch, each with the position of its request.
    others: Vec<(usize, Refusal)>,
}

impl Refused {
    /// The refusal of a single request.
    pub(crate) fn one(refusal: Refusal) -> Self {
        Self { at: 0, refusal, others: Vec::new() }
    }

    /// The refusals of some requests of a batch; `None` without any.
    pub(crate) fn from_batch(refusals: impl IntoIterator<Item = (usize, Refusal)>) -> Option<Self> {
        let mut refusals = refusals.into_iter();
        let (at, refusal) = refusals.next()?;
        Some(Self { at, refusal, others: refusals.collect() })
    }

    /// The refusal of a single request, or the first of a batch.
    pub fn into_refusal(self) -> Refusal {
        self.refusal
    }

    /// For each of `count` requests of a batch its refusal, in their order; `None` for those that
    /// were not asked or would have been admitted.
    pub fn into_each(self, count: usize) -> Vec<Option<Refusal>> {
        let mut each = Vec::new();
        each.resize_with(count.max(self.at + 1), || None);
        for (at, refusal) in core::iter::once((self.at, self.refusal)).chain(self.others) {
            if let Some(place) = each.get_mut(at) {
                *place = Some(refusal);
            }
        }
        each.truncate(count);
        each
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.refusal.fmt(f)
    }
}

impl Deref for Refused {
    type Target = Refusal;

    fn deref(&self) -> &Self::Target {
        &self.refusal
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
