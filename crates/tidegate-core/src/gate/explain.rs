//! Explanations: whether each limit of a namespace applies to a request, what it counts, and why it
//! would refuse.
//!
//! Whether a limit applies, which counter it falls on, which numbers count and what it would answer
//! are found by the same steps that [`Gate::check`] takes, so an explanation cannot differ from a
//! decision. Nothing is written. One refusal is not foreseen: that of a table without room for a
//! key that it does not hold yet.

use core::time::Duration;

use super::Gate;
use super::build::{Compiled, PlanFoundBy, PlanIndex};
use super::numbers::{Numbers, NumbersSource, ZoneSource};
use super::probe::{Answer, LocatedCounter, Probe};
use crate::algorithm::Algorithm;
use crate::attributes::Attributes;
use crate::cost::Cost;
use crate::limit::{Mode, RefundOn};
use crate::refusal::{Reason, Retry};
use crate::scope::Keyed;
use crate::table::KeyHash;
use crate::time::Timestamp;

/// The relation of one limit to a request.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Explanation {
    /// The name of the limit.
    pub name: String,
    /// Whether it is a shadow limit, which refuses nothing.
    pub is_shadow: bool,
    /// Whether it applies, and what follows from that.
    pub standing: Standing,
}

/// Whether a limit applies to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Standing {
    /// It does not apply: the request does not meet one of its conditions. The fields describe the
    /// first condition that does not hold.
    Unmatched {
        /// The attribute of the condition.
        attribute: String,
        /// Its value; `None` if the request lacks it.
        value: Option<String>,
        /// A description of the values that the condition accepts.
        wants: String,
    },
    /// It does not apply: the request lacks this attribute of its key, and the limit skips such
    /// requests.
    Skipped {
        /// The first attribute of the key that is lacking.
        lacks: String,
    },
    /// It refuses every request that lacks this attribute of its key.
    Insists {
        /// The first attribute of the key that is lacking.
        lacks: String,
    },
    /// It does not apply: the plan of the request is unlimited.
    Unlimited {
        /// The plan, and how it was found.
        plan: FoundPlan,
    },
    /// It applies and has a counter.
    Counts(Box<Counting>),
}

/// The counter of a request under one limit.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Counting {
    /// The attributes that name the counter, each with its value as it is counted: of an IPv6
    /// address the network. `None` where the request lacks it and the limit groups all such
    /// requests. Empty for one counter for all.
    pub key: Vec<(String, Option<String>)>,
    /// The attributes of the key that count by addresses, and whose values are no addresses: these
    /// count as written.
    pub no_addresses: Vec<String>,
    /// The algorithm with the numbers that count for this key.
    pub algorithm: Algorithm,
    /// Whose numbers these are.
    pub numbers_of: NumbersOf,
    /// How the time zone of a calendar was found; `None` for a limit that takes its zone from no
    /// attribute.
    pub zone: Option<FoundZone>,
    /// For how long a key that exceeds it is blocked; `None` for not at all.
    pub blocks_for: Option<Duration>,
    /// The endings of work on which the charge is given back.
    pub refund_on: RefundOn,
    /// Where it is decided.
    pub decided_by: DecidedBy,
    /// The content of the counter and the answer of the limit. `None` where a store decides and was
    /// not asked, or where the store did not answer and the limit admits uncounted.
    pub level: Option<Level>,
}

/// Whose numbers a limit uses for a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NumbersOf {
    /// The limit's own.
    Limit,
    /// Those of the request's plan.
    Plan(FoundPlan),
    /// An override of the policy, for keys with these values.
    Policy {
        /// The attributes with the values they must have.
        when: Vec<(String, String)>,
    },
    /// An override set at run time, for keys with these values.
    RunTime {
        /// The attributes with the values they must have.
        when: Vec<(String, String)>,
        /// The first instant at which it no longer counts; `None` if it has no end.
        until: Option<Timestamp>,
    },
}

/// The plan of a request, and how it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FoundPlan {
    /// The name of the plan.
    pub name: String,
    /// Why the request has it.
    pub found_by: PlanSource,
}

/// Why a request has its plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanSource {
    /// It is assigned to the value of an attribute.
    Assigned {
        /// The attribute.
        attribute: String,
        /// Its value.
        value: String,
    },
    /// An attribute names it.
    Attribute {
        /// The attribute.
        attribute: String,
    },
    /// It is the default.
    Default {
        /// The value of the attribute that should name a plan and names none; `None` if the request
        /// lacks the attribute.
        unknown: Option<String>,
    },
}

/// The time zone that counts for a request, and how it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FoundZone {
    /// The attribute that the limit takes its zone from.
    pub attribute: String,
    /// Its value; `None` if the request lacks it.
    pub value: Option<String>,
    /// Which zone counts.
    pub counts: ZoneOf,
}

/// Which time zone counts for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ZoneOf {
    /// That of the attribute.
    Attribute,
    /// That of the limit, because the request lacks the attribute.
    LimitMissing,
    /// That of the limit, because the attribute names no zone.
    LimitUnknown,
    /// That of the limit, because the requests of this namespace have named more zones than are
    /// kept.
    LimitTooMany,
    /// That of an override.
    Override,
}

/// Where a limit is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DecidedBy {
    /// By this member, in its own table.
    Member,
    /// In one step in the store.
    Store,
    /// By this member, from tokens that the store has lent it.
    Lease,
}

/// The content of a counter, and the answer of its limit to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Level {
    /// The largest number of units it admits at once.
    pub limit: u64,
    /// Units used, rounded up; above the limit when in debt or when a lower limit came.
    pub used: u64,
    /// Units left, rounded down; 0 when in debt, and while the key is blocked.
    pub remaining: u64,
    /// When nothing is used any more and no block lasts, if nothing else is charged; `now` if
    /// nothing is.
    pub reset_at: Timestamp,
    /// Its answer to the request now.
    pub outlook: Outlook,
}

impl Level {
    /// A level, for callers that asked a store.
    pub const fn new(limit: u64, used: u64, remaining: u64, reset_at: Timestamp, outlook: Outlook) -> Self {
        Self { limit, used, remaining, reset_at, outlook }
    }
}

/// The answer of a limit to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// It may go ahead.
    Admit,
    /// It may not.
    Refuse {
        /// Why.
        reason: Reason,
        /// When it would be admitted.
        retry: Retry,
    },
}

impl Explanation {
    /// Whether the request would be refused because of this limit. A shadow limit refuses nothing.
    pub fn refuses(&self) -> bool {
        let would = match &self.standing {
            Standing::Unmatched { .. } | Standing::Skipped { .. } | Standing::Unlimited { .. } => false,
            Standing::Insists { .. } => true,
            Standing::Counts(counting) => {
                counting.level.as_ref().is_some_and(|level| level.outlook != Outlook::Admit)
            }
        };
        would && !self.is_shadow
    }
}

impl Gate {
    /// Explains each limit for a request of this cost, in the order of the policy, without changing
    /// anything.
    ///
    /// [`Gate::check`] would admit the request if and only if no explanation
    /// [refuses](Explanation::refuses). Where a store decides a limit, the caller asks the store
    /// and fills in the level.
    pub fn explain<'a>(
        &self,
        attributes: impl Into<Attributes<'a>>,
        cost: Cost,
        now: Timestamp,
    ) -> Vec<Explanation> {
        let values = self.names.values(attributes.into());
        let limits = self.limits.iter().enumerate();
        limits
            .map(|(index, limit)| Explanation {
                name: limit.limit.name.clone(),
                is_shadow: limit.limit.mode == Mode::Shadow,
                standing: self.standing(index as u16, limit, &values, cost, now),
            })
            .collect()
    }

    /// The plan of a request, with how it was found; `None` for a request without one.
    pub fn plan_for<'a>(&self, attributes: impl Into<Attributes<'a>>) -> Option<FoundPlan> {
        let values = self.names.values(attributes.into());
        self.plan_found(&values).map(|found| self.found_plan(found, &values))
    }

    fn standing(
        &self,
        index: u16,
        limit: &Compiled,
        values: &[Option<&str>],
        cost: Cost,
        now: Timestamp,
    ) -> Standing {
        if let Some((attribute, matcher)) = limit.unmet(values) {
            return Standing::Unmatched {
                attribute: self.names.get(*attribute).to_owned(),
                value: values[usize::from(*attribute)].map(str::to_owned),
                wants: matcher.to_string(),
            };
        }
        let found = self.plan_found(values);
        let numbers = Self::numbers_before_zone(limit, values, found.map(|(plan, _)| plan), now);
        let plan = found.map(|found| self.found_plan(found, values));
        let Some(numbers) = numbers else {
            return Standing::Unlimited { plan: plan.expect("only a plan leaves a limit without numbers") };
        };
        match limit.key(values) {
            Keyed::On(key) => {
                let counting = self.counting((index, limit, key), (numbers, plan), values, cost, now);
                Standing::Counts(Box::new(counting))
            }
            Keyed::Lacks(attribute) => Standing::Insists { lacks: self.names.get(attribute).to_owned() },
            Keyed::Skipped => {
                let mut parts = limit.scope.parts.iter();
                let lacking = parts.find(|part| values[usize::from(part.attribute)].is_none());
                let lacking = lacking.expect("a limit is only skipped for what is lacking");
                Standing::Skipped { lacks: self.names.get(lacking.attribute).to_owned() }
            }
        }
    }

    fn counting(
        &self,
        (index, limit, key): (u16, &Compiled, KeyHash),
        ((numbers, source), plan): ((Numbers<'_>, NumbersSource<'_>), Option<FoundPlan>),
        values: &[Option<&str>],
        cost: Cost,
        now: Timestamp,
    ) -> Counting {
        let ((algorithm, spec), zone) = self.in_zone(limit, numbers, source, values);
        let is_in_store = limit.is_in_store;
        let level = (!is_in_store).then(|| {
            let counter = LocatedCounter {
                limit: index,
                keyed: Keyed::On(key),
                algorithm,
                spec,
                refund_on: limit.refund_on,
            };
            let mut probe = Probe::unread(counter, &self.table);
            self.assess(&mut probe, self.table.blocks.any(), cost, now);
            self.level(&probe, now)
        });
        let numbers_of = match (source, plan) {
            (NumbersSource::Plan, Some(plan)) => NumbersOf::Plan(plan),
            (NumbersSource::Limit | NumbersSource::Plan, _) => NumbersOf::Limit,
            (NumbersSource::Override(one), _) if one.is_policy => {
                NumbersOf::Policy { when: one.when.to_vec() }
            }
            (NumbersSource::Override(one), _) => NumbersOf::RunTime {
                when: one.when.to_vec(),
                until: (one.until != Timestamp::MAX).then_some(one.until),
            },
        };
        let part = |part: &crate::scope::Part| {
            let value = values[usize::from(part.attribute)];
            (self.names.get(part.attribute).to_owned(), value.map(|value| String::from(part.shown(value))))
        };
        let parts = || limit.scope.parts.iter();
        let is_no_address = |part: &&crate::scope::Part| {
            values[usize::from(part.attribute)].is_some_and(|value| part.is_no_address(value))
        };
        let no_addresses = parts().filter(is_no_address);
        Counting {
            key: parts().map(part).collect(),
            no_addresses: no_addresses.map(|part| self.names.get(part.attribute).to_owned()).collect(),
            algorithm: algorithm.clone(),
            numbers_of,
            zone: self.found_zone(limit, zone, values),
            blocks_for: limit.limit.on_exceed.blocks_for(),
            refund_on: limit.limit.refund_on.clone(),
            decided_by: match is_in_store {
                true if limit.is_leased() => DecidedBy::Lease,
                true => DecidedBy::Store,
                false => DecidedBy::Member,
            },
            level,
        }
    }

    /// The plan of a request, for people.
    fn found_plan(&self, (plan, found_by): (PlanIndex, PlanFoundBy), values: &[Option<&str>]) -> FoundPlan {
        let plans = self.plans.as_ref().expect("the plan was found among them");
        let value = |attribute: u16| values[usize::from(attribute)].map(str::to_owned);
        let name_of = |attribute: u16| self.names.get(attribute).to_owned();
        let found_by = match found_by {
            PlanFoundBy::Assignment(attribute) => PlanSource::Assigned {
                attribute: name_of(attribute),
                value: value(attribute).unwrap_or_default(),
            },
            PlanFoundBy::Attribute => PlanSource::Attribute { attribute: name_of(plans.attribute()) },
            PlanFoundBy::Default => PlanSource::Default { unknown: value(plans.attribute()) },
        };
        FoundPlan { name: plans.name(plan).to_owned(), found_by }
    }

    /// The time zone of a request, for people.
    fn found_zone(
        &self,
        limit: &Compiled,
        source: Option<ZoneSource>,
        values: &[Option<&str>],
    ) -> Option<FoundZone> {
        let attribute = limit.zone_from?;
        Some(FoundZone {
            attribute: self.names.get(attribute).to_owned(),
            value: values[usize::from(attribute)].map(str::to_owned),
            counts: match source? {
                ZoneSource::Attribute => ZoneOf::Attribute,
                ZoneSource::Missing => ZoneOf::LimitMissing,
                ZoneSource::Unknown => ZoneOf::LimitUnknown,
                ZoneSource::TooMany => ZoneOf::LimitTooMany,
                ZoneSource::Override => ZoneOf::Override,
            },
        })
    }

    /// The level of a probe that was assessed.
    pub(super) fn level(&self, probe: &Probe<'_>, now: Timestamp) -> Level {
        let state = self.table.state(probe, now);
        let outlook = match probe.answer {
            Answer::Admit => Outlook::Admit,
            _ => Outlook::Refuse {
                reason: probe.answer.reason(probe.algorithm),
                retry: probe.answer.retry(probe.algorithm, now),
            },
        };
        Level {
            limit: probe.algorithm.limit(),
            used: self.table.state_used(probe.algorithm, state, now),
            remaining: self.table.remaining(probe, now),
            reset_at: self.table.reset_at(probe, now),
            outlook,
        }
    }
}
