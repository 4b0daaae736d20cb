//! A refusal without its list of violated limits, for readers that need only the first of them.

use core::time::Duration;
use std::borrow::Cow;

use crate::refusal::{Plane, Reason, Refusal, Retry};
use crate::refusal_details::RefusalDetails;
use crate::text::Text;
use crate::time::Timestamp;

/// A refusal as far as the limit that binds longest says it. All texts are borrowed.
///
/// Counters and short answers need no more, so they take a view: of a [`Refusal`], or of a
/// [`crate::UnreadRefusal`], which is not put together for it.
///
/// ```
/// # use tidegate_core::{Cost, Decision, Gate, Limit, Reason, Timestamp};
/// let now = Timestamp::from_secs(1_800_000_000);
/// let gate = Gate::builder("api").limit(Limit::rate("per-user", "1/m")?.key(["user"])).build()?;
/// let ada = [("user", "ada")];
/// assert!(gate.check(&ada, Cost::ONE, now).is_admit());
/// let Decision::Refuse(unread) = gate.check(&ada, Cost::ONE, now) else { panic!("one a minute") };
/// let view = unread.view();
/// assert_eq!((view.name, view.reason), ("per-user", Reason::RateExceeded));
/// assert_eq!(view.scope.iter().collect::<Vec<_>>(), ada);
/// assert_eq!(unread.read().view().retry, view.retry);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RefusalView<'a> {
    /// The namespace of the request.
    pub namespace: &'a str,
    /// The name of the limit that binds longest (or of the table, node or resource).
    pub name: &'a str,
    /// Why that limit refused.
    pub reason: Reason,
    /// When to come back.
    pub retry: Retry,
    /// How long to wait before the first retry where `retry` names no instant.
    pub retry_hint: Option<Duration>,
    /// The units of that limit, as [`crate::Violated::limit`].
    pub limit: u64,
    /// The units that were left of it.
    pub remaining: u64,
    /// The attributes and values that name the counter; empty for a counter shared by all.
    pub scope: ScopeView<'a>,
    /// A sentence for people where the reason alone does not say enough.
    pub detail: Option<Cow<'a, str>>,
    /// The IANA name of the time zone of the limit's civil windows; `None` for a limit without.
    pub civil_zone: Option<&'a str>,
    /// The plane that refused.
    pub plane: Plane,
    /// The facts of that plane, as [`crate::RefusalFields::details`].
    pub details: Option<&'a RefusalDetails>,
}

impl RefusalView<'_> {
    /// How long to wait from `now`, where that is known: until the instant of `retry`, or the
    /// suggested wait before the first retry.
    pub fn wait(&self, now: Timestamp) -> Option<Duration> {
        match (self.retry, self.retry_hint) {
            (Retry::Backoff, Some(hint)) => Some(hint),
            (retry, _) => retry.after(now),
        }
    }
}

impl Refusal {
    /// The part of it that speaks of the limit that binds longest.
    pub fn view(&self) -> RefusalView<'_> {
        let first = self.violated.first().expect("a refusal names at least one violated limit");
        RefusalView {
            namespace: &self.namespace,
            name: &first.name,
            reason: first.reason,
            retry: first.retry,
            retry_hint: self.retry_hint,
            limit: first.limit,
            remaining: first.remaining,
            scope: ScopeView::Texts(&self.scope),
            detail: self.detail.as_deref().map(Cow::Borrowed),
            civil_zone: self.civil_zone.as_deref(),
            plane: self.plane(),
            details: self.details.as_deref(),
        }
    }
}

/// Attributes and values that name a counter, in the order of the policy.
#[derive(Clone, Debug)]
pub enum ScopeView<'a> {
    /// As a [`Refusal`] owns them.
    Texts(&'a [(Text, Text)]),
    /// One name of a policy with the value of a request, or its network.
    One((&'a str, Cow<'a, str>)),
    /// Several of them, or none.
    Several(Vec<(&'a str, Cow<'a, str>)>),
}

impl<'a> ScopeView<'a> {
    /// The scope of a counter that is named by one attribute.
    pub fn one(attribute: &'a str, value: &'a str) -> Self {
        Self::One((attribute, Cow::Borrowed(value)))
    }

    /// The attributes with their values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let (texts, pairs): (&[(Text, Text)], &[_]) = match self {
            Self::Texts(texts) => (texts, &[]),
            Self::One(pair) => (&[], core::slice::from_ref(pair)),
            Self::Several(pairs) => (&[], pairs),
        };
        let texts = texts.iter().map(|(name, value)| (&**name, &**value));
        texts.chain(pairs.iter().map(|(name, value)| (*name, &**value)))
    }

    /// The value at a position.
    pub fn value_at(&self, position: usize) -> Option<&str> {
        match self {
            Self::Texts(texts) => texts.get(position).map(|(_, value)| &**value),
            Self::One((_, value)) => (position == 0).then_some(&**value),
            Self::Several(pairs) => pairs.get(position).map(|(_, value)| &**value),
        }
    }
}
