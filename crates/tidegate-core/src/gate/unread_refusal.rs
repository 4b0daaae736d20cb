//! Refusals that nobody has read yet: the numbers of a decision, without any text.
//!
//! A limiter refuses when there is a flood, and most of those refusals are only counted. So a
//! decision keeps in place what was true when it was made, and a reader joins the names and values
//! to that, from the gate that decided and from the attributes of the request. The table is not
//! read again, and a gate never changes, so that a refusal reads the same later.

use core::fmt;
use core::time::Duration;
use std::borrow::Cow;

use smallvec::SmallVec;

use super::Gate;
use super::build::Compiled;
use super::probe::{Answer, Probe};
use crate::algorithm::{Algorithm, State};
use crate::attributes::{Attributes, PairAttributes};
use crate::cost::Cost;
use crate::refusal::{Reason, Refusal, RefusalFields, Retry, ScopeValues, Violated};
use crate::refusal_view::{RefusalView, ScopeView};
use crate::request_outcome::RequestOutcome;
use crate::scope::Part;
use crate::table::SpecId;
use crate::text::Text;
use crate::time::Timestamp;

/// A refusal by a [`Gate`] that is put together when somebody reads it.
///
/// ```
/// # use tidegate_core::{Cost, Decision, Gate, Limit, Timestamp};
/// let now = Timestamp::from_secs(1_800_000_000);
/// let gate = Gate::builder("api").limit(Limit::rate("per-user", "1/m")?.key(["user"])).build()?;
/// let ada = [("user", "ada")];
/// assert!(gate.check(&ada, Cost::ONE, now).is_admit());
/// let Decision::Refuse(unread) = gate.check(&ada, Cost::ONE, now) else { panic!("one a minute") };
/// assert_eq!(unread.name(), "per-user");
/// assert_eq!(unread.read().scope[0].1, "ada");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct UnreadRefusal<'a> {
    gate: &'a Gate,
    scope: BindingScope<'a>,
    numbers: RefusalNumbers,
}

/// The values that a request has for the parts of the limit that binds longest, in their order.
#[derive(Clone)]
pub(super) enum BindingScope<'a> {
    One(Option<&'a str>),
    /// Those of few parts; behind the last part nothing.
    Few([Option<&'a str>; 3]),
    Many(Box<[Option<&'a str>]>),
    /// Those of attributes that are no slice of `&str`: nobody says how long they live.
    Copied(Box<[Option<Text>]>),
}

impl BindingScope<'_> {
    fn values(&self) -> impl Iterator<Item = Option<&str>> {
        let (borrowed, copied): (&[Option<&str>], &[Option<Text>]) = match self {
            Self::One(value) => (core::slice::from_ref(value), &[]),
            Self::Few(values) => (values, &[]),
            Self::Many(values) => (values, &[]),
            Self::Copied(values) => (&[], values),
        };
        borrowed.iter().copied().chain(copied.iter().map(Option::as_deref))
    }
}

/// The numbers of a refusal by the limits of a gate: which limits refused, by which of their
/// numbers, and what was left. They are the same size whatever the limits are called, and own no
/// text.
#[derive(Clone, Debug)]
pub(super) struct RefusalNumbers {
    refused_at: Timestamp,
    cost: Cost,
    /// The first limit that refused, in the order of the policy.
    first: ViolatedNumbers,
    /// The others. Few limits refuse at once: three are kept in place, more on the heap.
    others: SmallVec<[ViolatedNumbers; 2]>,
}

/// The numbers of one limit that a request violated.
#[derive(Clone, Copy, Debug)]
pub(super) struct ViolatedNumbers {
    pub(super) limit: u16,
    spec: SpecId,
    /// For a concurrency limit that has no free permit: until when the first retry should wait.
    /// `None`: as the limit answers in the state of `left`, which a reader asks anew.
    answer: Option<Answer>,
    left: Left,
}

/// How the units left are known.
#[derive(Clone, Copy, Debug)]
enum Left {
    Units(u64),
    /// By the state that was decided on: a reader divides, if there is one.
    OfState(State),
}

impl RefusalNumbers {
    #[inline]
    pub(super) fn new((refused_at, cost): (Timestamp, Cost), first: ViolatedNumbers) -> Self {
        Self { refused_at, cost, first, others: SmallVec::new() }
    }

    /// The limits that refused, in the order of the policy.
    pub(super) fn violated(&self) -> impl Iterator<Item = &ViolatedNumbers> {
        core::iter::once(&self.first).chain(&self.others)
    }

    pub(super) fn violated_mut(&mut self) -> impl Iterator<Item = &mut ViolatedNumbers> {
        core::iter::once(&mut self.first).chain(&mut self.others)
    }

    /// Adds a limit that refused.
    pub(super) fn add(refused: &mut Option<Self>, one: ViolatedNumbers, asked: (Timestamp, Cost)) {
        match refused {
            None => *refused = Some(Self::new(asked, one)),
            Some(refused) => refused.others.push(one),
        }
    }
}

impl ViolatedNumbers {
    /// The numbers of a limit whose state is one word, and that lacks room in it.
    #[inline]
    pub(super) const fn by_state((limit, spec): (u16, SpecId), state: State) -> Self {
        Self { limit, spec, answer: None, left: Left::OfState(state) }
    }

    /// Whether its key may be blocked for it: the limit has no room now.
    pub(super) const fn is_wait(&self) -> bool {
        matches!(self.answer, Some(Answer::Wait { .. }))
    }

    /// Says that the limit has blocked the key until then.
    pub(super) fn block(&mut self, until: Timestamp) {
        (self.answer, self.left) = (Some(Answer::Blocked { until }), Left::Units(0));
    }
}

impl<'a> UnreadRefusal<'a> {
    /// The refusal, with its texts.
    pub fn read(&self) -> Refusal {
        self.gate.refusal_with(&self.numbers, self.scope.values())
    }

    /// The part of the refusal that speaks of the limit that binds longest; its texts are borrowed.
    pub fn view(&self) -> RefusalView<'_> {
        let now = self.numbers.refused_at;
        let binding = self.gate.binding(&self.numbers);
        let parts = &*binding.limit.scope.parts;
        let pair = |(part, value): (&Part, Option<_>)| {
            Some((self.gate.names.get(part.attribute), part.shown(value?)))
        };
        let mut pairs = parts.iter().zip(self.scope.values()).filter_map(pair);
        let scope = match (parts.len(), pairs.next()) {
            (1, Some(only)) => ScopeView::One(only),
            (_, first) => ScopeView::Several(first.into_iter().chain(pairs).collect()),
        };
        let reason = binding.reason();
        RefusalView {
            namespace: &self.gate.namespace_text,
            name: &binding.limit.name,
            reason,
            retry: binding.retry(now),
            retry_hint: binding.retry_hint(now),
            limit: binding.units(),
            remaining: binding.remaining(now),
            scope,
            detail: self.gate.detail(&binding).map(|detail| Cow::Owned(detail.to_string())),
            civil_zone: binding.algorithm.civil_zone(),
            plane: reason.plane(),
            details: None,
        }
    }

    /// Why: the reason of the limit that binds longest.
    pub fn reason(&self) -> Reason {
        self.gate.binding(&self.numbers).reason()
    }

    /// The outcome of the request. Unless a table is full, no reason has to be found for it.
    pub fn outcome(&self) -> RequestOutcome {
        let is_full = |one: &ViolatedNumbers| matches!(one.answer, Some(Answer::Full { .. }));
        if self.numbers.violated().any(is_full) {
            RequestOutcome::of_refusal(self.reason())
        } else {
            RequestOutcome::Denied
        }
    }

    /// The name of the limit that binds longest.
    pub fn name(&self) -> &'a str {
        &self.gate.binding(&self.numbers).limit.limit.name
    }

    /// When to come back: when the limit that binds longest would admit the request.
    pub fn retry(&self) -> Retry {
        self.gate.binding(&self.numbers).retry(self.numbers.refused_at)
    }

    pub(super) const fn numbers(&self) -> &RefusalNumbers {
        &self.numbers
    }

    /// Adds a limit that refused, too.
    pub(super) fn add(&mut self, one: ViolatedNumbers) {
        self.numbers.others.push(one);
    }

    pub(super) const fn numbers_mut(&mut self) -> &mut RefusalNumbers {
        &mut self.numbers
    }

    /// Keeps the values of the request with these attributes.
    pub(super) fn find_scope(&mut self, attributes: PairAttributes<'_, 'a>) {
        self.scope = self.gate.binding_scope(&self.numbers, attributes);
    }
}

impl From<UnreadRefusal<'_>> for Refusal {
    fn from(unread: UnreadRefusal<'_>) -> Self {
        unread.read()
    }
}

impl fmt::Display for UnreadRefusal<'_> {
    /// As [`Refusal`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.read().fmt(f)
    }
}

impl fmt::Debug for UnreadRefusal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UnreadRefusal({self})")
    }
}

/// A violated limit with what the policy says of it.
#[derive(Clone, Copy)]
struct ReadLimit<'g> {
    limit: &'g Compiled,
    algorithm: &'g Algorithm,
    answer: Answer,
    left: Left,
}

impl ReadLimit<'_> {
    fn reason(&self) -> Reason {
        self.answer.reason(self.algorithm)
    }

    fn retry(&self, now: Timestamp) -> Retry {
        self.answer.retry(self.algorithm, now)
    }

    /// The delay before the first retry of a request that found no free permit.
    fn retry_hint(&self, now: Timestamp) -> Option<Duration> {
        match (self.algorithm, self.answer) {
            (Algorithm::Concurrency(_), Answer::Wait { until }) => Some(until.saturating_since(now)),
            _ => None,
        }
    }

    /// How long it binds. A permit that is expected back soon binds for less long than a window
    /// that ends later.
    fn binds(&self, now: Timestamp) -> Retry {
        match (self.algorithm, self.answer) {
            (Algorithm::Concurrency(_), Answer::Wait { until }) => Retry::At(until),
            _ => self.retry(now),
        }
    }

    /// The most that it ever admits at once.
    fn units(&self) -> u64 {
        match self.answer {
            Answer::Never { largest } => largest,
            _ => self.algorithm.limit(),
        }
    }

    fn remaining(&self, now: Timestamp) -> u64 {
        match self.left {
            Left::Units(units) => units,
            Left::OfState(state) => self.algorithm.remaining(state, now),
        }
    }

    #[inline]
    fn violated(&self, now: Timestamp) -> Violated {
        Violated {
            name: self.limit.name.clone(),
            reason: self.reason(),
            retry: self.retry(now),
            limit: self.units(),
            remaining: self.remaining(now),
            window: self.algorithm.window(),
        }
    }
}

impl Gate {
    /// The refusal that these numbers are of, with these values of the parts of the limit that
    /// binds longest.
    fn refusal_with<'v>(
        &self,
        numbers: &RefusalNumbers,
        values: impl Iterator<Item = Option<&'v str>>,
    ) -> Refusal {
        let now = numbers.refused_at;
        let binding = self.binding(numbers);
        let mut refusal = Refusal::from(RefusalFields {
            namespace: self.namespace_text.clone(),
            scope: ScopeValues::new(),
            violated: SmallVec::new(),
            detail: self.detail(&binding),
            details: None,
            retry_hint: binding.retry_hint(now),
            civil_zone: binding.algorithm.civil_zone().map(Text::from),
        });
        // The lists are filled where they stay, since they are large to move.
        for (part, value) in binding.limit.scope.parts.iter().zip(values) {
            self.push_shown(*part, value, &mut refusal.scope);
        }
        if numbers.others.is_empty() {
            refusal.violated.push(binding.violated(now));
            return refusal;
        }
        let mut refusing: SmallVec<[ReadLimit<'_>; 3]> =
            numbers.violated().map(|one| self.read_limit(*one, numbers)).collect();
        // Stable: of two that bind equally long the first in the policy is named.
        refusing.sort_by(|one, other| Retry::longest_first(one.binds(now), other.binds(now)));
        refusal.violated.extend(refusing.iter().map(|limit| limit.violated(now)));
        refusal
    }

    fn detail(&self, binding: &ReadLimit<'_>) -> Option<Text> {
        let Answer::Lacks { attribute } = binding.answer else { return None };
        Some(Text::from(format!(
            "the request lacks the attribute \"{}\", which limit \"{}\" requires",
            self.names.get(attribute),
            binding.limit.limit.name
        )))
    }

    fn read_limit(&self, violated: ViolatedNumbers, numbers: &RefusalNumbers) -> ReadLimit<'_> {
        let ViolatedNumbers { limit, spec, answer, left } = violated;
        let limit = &self.limits[usize::from(limit)];
        let algorithm = self.algorithm_of(limit, spec).unwrap_or(limit.algorithm());
        let answer = match (answer, left) {
            (Some(answer), _) => answer,
            (None, Left::OfState(state)) => {
                let (cost, now) = (numbers.cost, numbers.refused_at);
                match algorithm {
                    Algorithm::Bucket(bucket) => bucket.refusal(state, cost, now).into(),
                    other => self.table.verdict(other, state, cost, now).0.into(),
                }
            }
            (None, Left::Units(_)) => Answer::Admit,
        };
        ReadLimit { limit, algorithm, answer, left }
    }

    /// The limit that binds longest; of two that bind equally long the first in the policy.
    fn binding(&self, numbers: &RefusalNumbers) -> ReadLimit<'_> {
        let now = numbers.refused_at;
        if numbers.others.is_empty() {
            return self.read_limit(numbers.first, numbers);
        }
        let mut limits = numbers.violated().map(|one| self.read_limit(*one, numbers));
        let first = limits.next().expect("a refusal names at least one violated limit");
        limits.fold(first, |longest, other| {
            let is_longer = Retry::longest_first(other.binds(now), longest.binds(now)).is_lt();
            if is_longer { other } else { longest }
        })
    }

    /// The refusal with these numbers, of a request with these attributes.
    #[expect(clippy::inline_always, reason = "as `KeyTable::look`")]
    #[inline(always)]
    pub(super) fn unread<'a>(
        &'a self,
        numbers: RefusalNumbers,
        attributes: PairAttributes<'_, 'a>,
    ) -> UnreadRefusal<'a> {
        let scope = self.binding_scope(&numbers, attributes);
        UnreadRefusal { gate: self, scope, numbers }
    }

    #[inline(never)]
    fn binding_scope<'a>(
        &self,
        numbers: &RefusalNumbers,
        attributes: PairAttributes<'_, 'a>,
    ) -> BindingScope<'a> {
        // The only one binds, whatever it answers.
        let limit = if numbers.others.is_empty() {
            &self.limits[usize::from(numbers.first.limit)]
        } else {
            self.binding(numbers).limit
        };
        let parts = &*limit.scope.parts;
        let names = parts.iter().map(|part| self.names.get(part.attribute));
        match (parts, attributes.as_pairs()) {
            ([part], Some(pairs)) => {
                BindingScope::One(Attributes::find(pairs, self.names.get(part.attribute)))
            }
            ([_, _] | [_, _, _], Some(pairs)) => {
                let mut values = [None; 3];
                for (value, name) in values.iter_mut().zip(names) {
                    *value = Attributes::find(pairs, name);
                }
                BindingScope::Few(values)
            }
            (_, Some(pairs)) => BindingScope::Many(names.map(|name| Attributes::find(pairs, name)).collect()),
            (_, None) => {
                BindingScope::Copied(names.map(|name| attributes.get(name).map(Text::from)).collect())
            }
        }
    }

    /// The refusal by one limit that counts by one attribute, of which the request has this value.
    #[expect(clippy::inline_always, reason = "as `KeyTable::look`")]
    #[inline(always)]
    pub(super) fn unread_by_one<'a>(
        &'a self,
        (asked, first): ((Timestamp, Cost), ViolatedNumbers),
        value: Option<&'a str>,
    ) -> UnreadRefusal<'a> {
        let numbers = RefusalNumbers::new(asked, first);
        UnreadRefusal { gate: self, scope: BindingScope::One(value), numbers }
    }

    /// The numbers of a limit that answered so, by these numbers of its own, in this state.
    #[expect(clippy::inline_always, reason = "as `KeyTable::look`")]
    #[inline(always)]
    pub(super) fn violated_numbers(
        &self,
        (limit, spec, algorithm): (u16, SpecId, &Algorithm),
        answer: Answer,
        state: State,
        now: Timestamp,
    ) -> ViolatedNumbers {
        let (answer, left) = match answer {
            Answer::Wait { .. } | Answer::Never { .. } | Answer::Full { .. } if algorithm.is_counter() => {
                (answer, Left::OfState(state))
            }
            Answer::Admit | Answer::Blocked { .. } | Answer::Lacks { .. } => (answer, Left::Units(0)),
            _ => self.slots_left(algorithm, answer, state, now),
        };
        ViolatedNumbers { limit, spec, answer: Some(answer), left }
    }

    /// The answer, with the units left, of an algorithm that keeps more than a word.
    #[inline(never)]
    fn slots_left(
        &self,
        algorithm: &Algorithm,
        answer: Answer,
        state: State,
        now: Timestamp,
    ) -> (Answer, Left) {
        let left = Left::Units(self.table.state_remaining(algorithm, state, now));
        match (algorithm, answer) {
            (Algorithm::Concurrency(concurrency), Answer::Wait { .. }) => {
                let hint = self.table.retry_hint(concurrency, state, now);
                (Answer::Wait { until: now.saturating_add(hint) }, left)
            }
            _ => (answer, left),
        }
    }

    /// The numbers of a probe that refuses.
    pub(super) fn violated_probe(&self, probe: &Probe<'_>, now: Timestamp) -> ViolatedNumbers {
        let state = self.table.state(probe, now);
        self.violated_numbers((probe.limit, probe.spec, probe.algorithm), probe.answer, state, now)
    }

    /// One of the limits that refused, as a reader is told of it.
    pub(super) fn violated(&self, one: ViolatedNumbers, numbers: &RefusalNumbers) -> Violated {
        self.read_limit(one, numbers).violated(numbers.refused_at)
    }

    /// The attributes of these parts that a request has, with their values for people.
    pub(super) fn scope_values(&self, parts: &[Part], values: &[Option<&str>]) -> ScopeValues {
        let mut present = ScopeValues::new();
        for part in parts {
            self.push_shown(*part, values[usize::from(part.attribute)], &mut present);
        }
        present
    }

    /// Adds the attribute of a part, with its value for people, if the request has one.
    #[inline]
    fn push_shown(&self, part: Part, value: Option<&str>, scope: &mut ScopeValues) {
        if let Some(value) = value {
            scope.push((self.names.text(part.attribute), part.shown_text(value)));
        }
    }
}
