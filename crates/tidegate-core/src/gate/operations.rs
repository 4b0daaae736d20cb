//! The other operations on a counter: peek, report, refund, reset, block.

use super::Gate;
use super::build::Compiled;
use super::permit::LimitStatus;
use super::probe::{Answer, LocatedCounter, Probe, Probes};
use super::unread_refusal::RefusalNumbers;
use crate::Limit;
use crate::algorithm::Algorithm;
use crate::attributes::Attributes;
use crate::cost::Cost;
use crate::limit::Mode;
use crate::refusal::{Refusal, ScopeValues};
use crate::scope::Keyed;
use crate::time::Timestamp;

/// The result of a check that changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peek<'a> {
    /// The refusal it would get, if any.
    pub refusal: Option<Refusal>,
    /// The status of the matching limits now, in the order of the policy.
    pub limits: Vec<LimitStatus<'a>>,
}

/// A limit could not be charged or blocked: the table has no room for another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key table has no room for another key before {until}; give it more memory")]
pub struct TableFull {
    /// When the first of the keys in the way drains.
    pub until: Timestamp,
}

/// A limit that a request meets, wherever it is decided.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct MetLimit<'a> {
    /// The limit.
    pub limit: &'a Limit,
    /// Its algorithm, with the numbers for this key.
    pub algorithm: &'a Algorithm,
    /// The key as a seeded fingerprint, as [`CounterPlace::key`](super::CounterPlace::key).
    pub key: u64,
    /// The first instant at which the key is no longer blocked here, if it is.
    pub blocked_until: Option<Timestamp>,
}

impl Gate {
    /// The answer of [`Gate::check`], without changing anything.
    pub fn peek<'a>(&'a self, attributes: impl Into<Attributes<'a>>, cost: Cost, now: Timestamp) -> Peek<'a> {
        let attributes = attributes.into();
        let mut probes = self.located(attributes, now);
        // A block for exceeding is only set by real requests.
        let mut refused = None;
        self.assess_all(&mut probes, cost, now, |one| RefusalNumbers::add(&mut refused, one, (now, cost)));
        let limits = probes.iter().filter_map(|probe| self.status(probe, now)).collect();
        Peek { refusal: refused.map(|numbers| self.unread(numbers, attributes).read()), limits }
    }

    /// Charges `cost` to every limit that matches whether or not there is room, as for work already
    /// done.
    ///
    /// The debt this leaves is bounded by [`crate::algorithm::REPORT_DEBT_LIMITS`]. Concurrency
    /// limits are left alone. A limit that [blocks](crate::limit::OnExceed::Block) a key that
    /// exceeds it blocks the key when the report leaves nothing of it. Limits for which the table
    /// has no room are not charged, and the first such is the error.
    pub fn report<'a>(
        &'a self,
        attributes: impl Into<Attributes<'a>>,
        cost: Cost,
        now: Timestamp,
    ) -> Result<Vec<LimitStatus<'a>>, TableFull> {
        self.report_probes(self.located(attributes.into(), now), cost, now)
    }

    pub(super) fn report_probes<'a>(
        &'a self,
        probes: Probes<'a>,
        cost: Cost,
        now: Timestamp,
    ) -> Result<Vec<LimitStatus<'a>>, TableFull> {
        let mut full = None;
        let mut limits = Vec::new();
        for mut probe in probes {
            if matches!(probe.answer, Answer::Lacks { .. }) {
                continue;
            }
            if let Err(Answer::Full { until }) = self.table.charge_firmly(&mut probe, cost, now) {
                self.table.count_full();
                full = full.or(Some(TableFull { until }));
            }
            probe.entry = self.table.look(probe.key);
            self.block_exhausted(&mut probe, now);
            limits.extend(self.status(&probe, now));
        }
        full.map_or(Ok(limits), Err)
    }

    /// Blocks the key of a probe that was reported, if its limit blocks keys that exceed it and has
    /// nothing left. A block that lasts already is not prolonged.
    fn block_exhausted(&self, probe: &mut Probe<'_>, now: Timestamp) {
        let limit = self.limit_of(probe);
        let Some(span) = limit.limit.blocks_for() else { return };
        if let Some(until) = self.blocked_until(probe.key, now) {
            probe.answer = Answer::Blocked { until };
        } else if self.table.remaining(probe, now) == 0 {
            let until = now.saturating_add(span);
            // A table too full to remember the block leaves the limit exhausted.
            if self.block_key(limit, probe.key, until, now).is_ok() {
                probe.answer = Answer::Blocked { until };
            }
        }
    }

    /// Gives `cost` units back to every limit that matches; never more than are used.
    ///
    /// A repeated call gives back again: a caller that needs exactly one refund keeps its refund
    /// key.
    pub fn refund<'a>(&'a self, attributes: impl Into<Attributes<'a>>, cost: Cost, now: Timestamp) {
        for mut probe in self.located(attributes.into(), now) {
            if !matches!(probe.answer, Answer::Lacks { .. }) {
                self.table.refund_units(&mut probe, cost, now);
            }
        }
    }

    /// Forgets what is used, and lifts blocks, for the counters of a request: under all limits that
    /// match, or only under `limit`, for which the attributes of its key are enough. The number of
    /// counters forgotten.
    pub fn reset<'a>(
        &'a self,
        attributes: impl Into<Attributes<'a>>,
        limit: Option<&str>,
        now: Timestamp,
    ) -> usize {
        let mut forgotten = 0;
        let probes = match limit {
            None => self.located(attributes.into(), now),
            Some(name) => self.located_under(attributes.into(), name, now),
        };
        for probe in probes {
            let compiled = self.limit_of(&probe);
            if matches!(probe.answer, Answer::Lacks { .. }) {
                continue;
            }
            let was_blocked = self.blocked_until(probe.key, now).is_some();
            // Lifting an existing block overwrites its word and cannot fail for lack of room.
            let _ = self.block_key(compiled, probe.key, Timestamp::MIN, now);
            forgotten += usize::from(self.table.forget(probe.key, now) || was_blocked);
        }
        forgotten
    }

    /// Refuses the key of a request under one limit until an instant, with reason `blocked`; an
    /// instant that has passed lifts the block. The attributes of the limit's key are enough.
    /// `Ok(false)` if there is no such limit or one of them is missing.
    pub fn block<'a>(
        &'a self,
        attributes: impl Into<Attributes<'a>>,
        limit: &str,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<bool, TableFull> {
        let values = self.names.values(attributes.into());
        let Some(compiled) = self.limits.iter().find(|compiled| compiled.limit.name == limit) else {
            return Ok(false);
        };
        let Keyed::On(key) = compiled.key(&values) else { return Ok(false) };
        self.block_key(compiled, key, until, now).map_err(|until| TableFull { until })?;
        Ok(true)
    }

    /// The limits that a request meets, wherever they are decided, with the numbers of its plan or
    /// override.
    pub fn met_limits<'a>(
        &'a self,
        attributes: impl Into<Attributes<'a>>,
        now: Timestamp,
    ) -> Vec<MetLimit<'a>> {
        let values = self.names.values(attributes.into());
        let plan = self.plan_of(&values);
        let met = self.limits.iter().filter(|compiled| compiled.matches(&values)).filter_map(|compiled| {
            let Keyed::On(key) = compiled.key(&values) else { return None };
            let (algorithm, _) = self.numbers(compiled, &values, plan, now)?;
            let blocked_until = if compiled.has_blocks() { self.blocked_until(key, now) } else { None };
            Some(MetLimit { limit: &compiled.limit, algorithm, key: key.0, blocked_until })
        });
        met.collect()
    }

    /// The limits under which a request has a counter, or the one called `limit` by the attributes
    /// of its key alone, each with the attributes that name the counter, for people.
    pub fn counters<'a>(
        &'a self,
        attributes: impl Into<Attributes<'a>>,
        limit: Option<&str>,
    ) -> Vec<(&'a str, ScopeValues)> {
        let values = self.names.values(attributes.into());
        let is_meant = |compiled: &&Compiled| {
            limit.map_or_else(|| compiled.matches(&values), |name| name == compiled.limit.name)
                && matches!(compiled.key(&values), Keyed::On(_))
        };
        let limits = self.limits.iter().filter(is_meant);
        let scope = |limit: &'a Compiled| self.scope_values(&limit.scope.parts, &values);
        limits.map(|limit| (&*limit.limit.name, scope(limit))).collect()
    }

    /// The algorithm by which a request counts under the limit of this name, with the numbers of
    /// its plan or override. `None` if there is no such limit, or it is unlimited under that plan.
    pub fn numbers_in_force<'a>(
        &'a self,
        attributes: impl Into<Attributes<'a>>,
        limit: &str,
        now: Timestamp,
    ) -> Option<&'a Algorithm> {
        let values = self.names.values(attributes.into());
        let compiled = self.limits.iter().find(|compiled| compiled.limit.name == limit)?;
        self.numbers(compiled, &values, self.plan_of(&values), now).map(|(algorithm, _)| algorithm)
    }

    /// The limit with this [identity](super::LocalLimit::identity), and the attributes that name
    /// its counter, for people.
    pub fn counter_of<'a>(
        &'a self,
        identity: &[u8],
        attributes: impl Into<Attributes<'a>>,
    ) -> Option<(&'a str, ScopeValues)> {
        let limit = self.limits.iter().find(|limit| limit.identity() == identity)?;
        let values = self.names.values(attributes.into());
        Some((&limit.limit.name, self.scope_values(&limit.scope.parts, &values)))
    }

    /// The counter of a request under the limits of this name that are decided here, whether or not
    /// the limit applies to the request otherwise.
    fn located_under<'a>(&'a self, attributes: Attributes<'a>, name: &str, now: Timestamp) -> Probes<'a> {
        let values = self.names.values(attributes);
        let plan = self.plan_of(&values);
        let named = self.limits.iter().enumerate().filter(|(_, limit)| limit.limit.name == name);
        let here = named.filter(|(_, limit)| !limit.is_in_store);
        here.filter_map(|(index, limit)| {
            let keyed = limit.key(&values);
            let (algorithm, spec) = self.numbers(limit, &values, plan, now)?;
            let (limit, refund_on) = (index as u16, limit.refund_on);
            let located = LocatedCounter { limit, keyed, algorithm, spec, refund_on };
            matches!(keyed, Keyed::On(_)).then(|| Probe::unread(located, &self.table))
        })
        .collect()
    }

    fn located<'a>(&'a self, attributes: Attributes<'_>, now: Timestamp) -> Probes<'a> {
        let mut probes = Probes::new();
        self.locate(attributes, now, &mut probes);
        probes
    }

    pub(super) fn status<'a>(&'a self, probe: &Probe<'a>, now: Timestamp) -> Option<LimitStatus<'a>> {
        if matches!(probe.answer, Answer::Lacks { .. }) {
            return None;
        }
        let limit = self.limit_of(probe);
        Some(LimitStatus {
            name: &limit.limit.name,
            limit: probe.algorithm.limit(),
            remaining: self.table.remaining(probe, now),
            reset_at: self.table.reset_at(probe, now),
            window: probe.algorithm.window(),
            civil_zone: probe.algorithm.civil_zone(),
            shadow_refused: limit.limit.mode == Mode::Shadow && probe.answer != Answer::Admit,
            blocked_until: match probe.answer {
                Answer::Blocked { until } => Some(until),
                _ => None,
            },
        })
    }
}
