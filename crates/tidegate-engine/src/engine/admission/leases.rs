//! Step 2, the leases: limits that this member spends from what the store has lent it.
//!
//! A request holds nothing while it waits for a lease: everything is given back, and when the ask
//! has landed it begins anew, as another attempt, so that it is not counted as demand twice. So a
//! slow store never keeps a counter charged for somebody who waits.

use core::task::{Context, Poll};
use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_capacity::Units;
use tidegate_core::algorithm::Verdict;
use tidegate_core::gate::{CounterPlace, LeasedLimit, LocatedRequest};
use tidegate_core::limit::{OnStoreFailure, WorkEnd};
use tidegate_core::{Cost, Gate, Permit, Reason, Refusal, Retry, Text, Timestamp, Violated};
use tidegate_store::{Batch, Key, OnLedger, Operation, Outcome, StoreError};

use super::answer::{Answer, Mode, Stop};
use super::located::Located;
use super::refusal::STORE_RETRY;
use super::store_silence::alone_denial;
use super::table_tokens::TableAsk;
use super::waited::{ROUNDS_MAX, Waited};
use crate::continuation::ExactName;
use crate::engine::Engine;
use crate::error::RequestError;
use crate::leases::{
    Asked, CorrectedBy, Flights, LeaseBatch, LeaseBatches, LeaseCharge, LeaseSubject, LeaseTotals, LeasedKey,
    Leases, LeasesView, Silence, Taken, TermsId,
};
use crate::limit_report::LimitReport;
use crate::permit::Holds;
use crate::request::Request;
use crate::table_leases::true_half_units;

/// The decision of the leases of a request.
pub(crate) enum Leased {
    /// All have what it costs, or this member has charged it alone.
    Held(SmallVec<[LeaseCharge; 1]>, Option<Box<Permit>>),
    /// One has not; nothing is held.
    Refused(Refusal),
    /// The store is asked first; nothing is held.
    Waits(Flights),
}

/// Why one leased limit refuses.
struct Refusing<'a> {
    limit: LeasedLimit<'a>,
    reason: Reason,
    retry: Retry,
    left: u64,
}

#[expect(clippy::inline_always, reason = "most requests have nothing to ask here")]
#[inline(always)]
pub(crate) fn step<'a>(
    engine: &'a Engine,
    located: &mut Located<'_, 'a>,
    mode: Mode,
    holds: &mut Option<Holds>,
    now: Timestamp,
) -> Answer {
    // Whether a lease refuses is known after it is spent, or from the store. Without leases tables
    // take their tokens here, and no limit waits for any.
    let (Some(holds), Some(leases), Mode::Charge) = (holds, engine.shared.leases(), mode) else {
        return Ok(());
    };
    if !located.has_leased() && located.request.access.is_none() {
        return Ok(());
    }
    let Located { request, gate, owner, waited, .. } = *located;
    let mut flights = Flights::new();
    if let (Some(gate), Some(stored)) = (gate, &located.stored)
        && gate.has_leased()
    {
        match engine.lease(leases, gate, request, stored, *waited, now)? {
            Leased::Held(charges, alone) => {
                holds.other_mut().leased = charges;
                if let Some(alone) = alone {
                    holds.limits.absorb(*alone);
                    holds.set_alone();
                }
            }
            Leased::Refused(refusal) => return Err(Stop::Refuse(Some(refusal))),
            Leased::Waits(waits) => flights = waits,
        }
    }
    if let Some(access) = located.access(engine)? {
        access.leased_limits = holds.leased().len();
        // Asked for even if the request waits for another lease, so that it waits once.
        let ask = TableAsk::new(owner, request, waited, gate.is_some());
        let tokens = engine.lease_tables(leases, &access.located, ask, now);
        if tokens.are_alone() {
            holds.set_alone();
        }
        holds.other_mut().leased.extend(tokens.held);
        flights.extend(tokens.flights);
        access.sources = tokens.sources;
    }
    if flights.is_empty() {
        return Ok(());
    }
    // A request holds nothing of its leases while it waits for others.
    engine.put_back(&core::mem::take(&mut holds.other_mut().leased), now);
    Err(Stop::Wait(flights))
}

impl Engine {
    /// Lets a request ask for its leases that another request makes wait; the leases it then waits
    /// for as well.
    pub(crate) fn ask_ahead(&self, request: &Request<'_>, waited: Waited<'_>, now: Timestamp) -> Flights {
        let Ok((gate, issuer)) = self.gate_of(request) else { return Flights::new() };
        let mut located = self.locate(request, (gate, issuer), &waited, now);
        located.stored = Some(gate.locate_store_limits(request.attributes, now));
        let mut holds = Some(Holds::nothing(issuer, request.cost, now));
        let asked = step(self, &mut located, Mode::Charge, &mut holds, now);
        let batch = holds.and_then(|holds| self.take_back(holds, now));
        debug_assert!(batch.is_none(), "the store was not asked");
        match asked {
            Err(Stop::Wait(flights)) => flights,
            Ok(()) | Err(_) => Flights::new(),
        }
    }

    /// Whether a request may spend leases: of a limit, or of a table of its access. `false` is
    /// certain; `true` is said of every request in a namespace with leased limits, and of every
    /// access in one with leased tables.
    pub(crate) fn may_spend_leases(&self, located: &Located<'_, '_>) -> bool {
        let request = located.request;
        located.has_leased()
            || (request.access.is_some() && self.planes.table_leases.has_any_of(request.namespace))
    }

    /// Takes what a request costs from the leases of its keys: from all, or from none.
    pub(crate) fn lease<'g>(
        &self,
        leases: &Leases,
        gate: &'g Gate,
        request: &Request<'_>,
        located: &LocatedRequest<'g>,
        waited: Waited<'_>,
        now: Timestamp,
    ) -> Result<Leased, RequestError> {
        let limits = gate.leased_limits(located, now);
        let mut held = SmallVec::<[LeaseCharge; 1]>::new();
        let mut flights = Flights::new();
        let mut refusing = Vec::new();
        let mut alone: SmallVec<[(&LeasedLimit<'_>, CounterPlace); 1]> = SmallVec::new();
        let mut silence = None;
        let mut result = Ok(());
        for limit in &limits {
            if let Some(until) = limit.blocked_until {
                if limit.is_shadow {
                    continue;
                }
                refusing.push(Refusing {
                    limit: *limit,
                    reason: Reason::Blocked,
                    retry: Retry::At(until),
                    left: 0,
                });
                continue;
            }
            let asked = Asked {
                subject: subject_of(limit),
                owner: gate.owner(),
                cost: request.cost,
                attempt: if waited.rounds > 0 { request.attempt.max(1) } else { request.attempt },
                landed: waited.landed,
                must_decide: waited.rounds >= ROUNDS_MAX,
            };
            let (reason, retry, left) = match leases.take(&asked, now, || about(gate, limit, located)) {
                Ok(Taken::All(charge)) => {
                    held.push(LeaseCharge { refund_on: limit.refund_on, ..charge });
                    continue;
                }
                Ok(Taken::Waits(flight)) => {
                    flights.push(flight);
                    continue;
                }
                Ok(Taken::Wait { until, left }) => (limit.reason, Retry::At(until), left),
                Ok(Taken::Never { left }) => (Reason::CostExceedsLimit, Retry::Never, left),
                Ok(Taken::Silent(silent)) => {
                    silence = Some(silent.why);
                    match limit.on_store_failure {
                        OnStoreFailure::Allow => {
                            held.push(LeaseCharge::fixed(silent.about, None, now));
                            continue;
                        }
                        OnStoreFailure::Local => {
                            let share = silent.share;
                            alone.push((limit, gate.alone(limit.place(), share.holders, share.members)));
                            continue;
                        }
                        _ => (Reason::StoreUnavailable, Retry::At(now.saturating_add(STORE_RETRY)), 0),
                    }
                }
                Ok(Taken::Full { until }) => {
                    if self.shared.config.table.when_full == tidegate_core::WhenFull::Admit {
                        continue;
                    }
                    (Reason::TableFull, Retry::At(until), 0)
                }
                Err(error) => {
                    result = Err(error);
                    break;
                }
            };
            if limit.is_shadow {
                if let Ok(about) = about(gate, limit, located) {
                    let charge = LeaseCharge::fixed(Arc::new(about), None, now);
                    held.push(LeaseCharge { shadow_refused: true, ..charge });
                }
                continue;
            }
            refusing.push(Refusing { limit: *limit, reason, retry, left });
        }
        let mut permit = None;
        if result.is_ok() && refusing.is_empty() && flights.is_empty() && !alone.is_empty() {
            match self.charge_alone(gate, &alone, request.cost, now) {
                Ok(charged) => permit = Some(charged),
                Err(violated) => refusing = violated,
            }
        }
        let goes_ahead = result.is_ok() && refusing.is_empty() && flights.is_empty();
        if !goes_ahead {
            self.put_back(&held, now);
        }
        if !refusing.is_empty() {
            held.iter().for_each(|charge| leases.return_idle(charge, now));
        }
        held.iter().filter(|charge| charge.renew).for_each(|charge| leases.renew(charge, now));
        if goes_ahead {
            return Ok(Leased::Held(held, permit));
        }
        result?;
        if refusing.is_empty() {
            return Ok(Leased::Waits(flights));
        }
        Ok(Leased::Refused(refused_by(gate, refusing, silence, located, now)))
    }

    /// Charges limits whose store is silent by this member's shares of them: all of them, or none.
    fn charge_alone<'a>(
        &self,
        gate: &Gate,
        alone: &[(&LeasedLimit<'a>, CounterPlace)],
        cost: Cost,
        now: Timestamp,
    ) -> Result<Box<Permit>, Vec<Refusing<'a>>> {
        let places: SmallVec<[CounterPlace; 1]> = alone.iter().map(|(_, place)| *place).collect();
        match gate.check_located(&places, cost, now) {
            Ok(charged) => {
                self.decided_alone(gate, &charged, now);
                Ok(Box::new(charged))
            }
            Err(violated) => {
                let refusing = violated.into_iter().map(|(at, violated)| {
                    let limit = *alone[at].0;
                    let (reason, retry) = alone_denial(&violated, limit.algorithm.limit(), cost, now);
                    Refusing { limit, reason, retry, left: violated.remaining }
                });
                Err(refusing.collect())
            }
        }
    }

    /// Puts back everything that was taken for a request that does not go ahead.
    pub(crate) fn put_back(&self, held: &[LeaseCharge], now: Timestamp) {
        let Some(leases) = self.shared.leases() else { return };
        held.iter().rev().for_each(|charge| leases.undo(charge, now));
    }

    /// Brings what was taken to what the end of the work says; what the store is to do, where
    /// leases do not have it.
    pub(crate) fn settle_leased(
        &self,
        held: &[LeaseCharge],
        end: &WorkEnd,
        true_units: Option<Units>,
        now: Timestamp,
    ) -> Vec<Operation> {
        let Some(leases) = self.shared.leases() else { return Vec::new() };
        let mut operations = Vec::new();
        for charge in held {
            let units = match charge.corrected_by {
                CorrectedBy::Cost if self.shared.table.is_refunded(charge.refund_on, end) => Some(0),
                CorrectedBy::Cost => end.true_units,
                CorrectedBy::Units => true_units.map(true_half_units),
                CorrectedBy::Nothing => None,
            };
            let (Some(cost), Some(units)) = (charge.cost, units) else { continue };
            let surplus = cost.units().saturating_sub(units);
            let surplus = surplus - if surplus > 0 { leases.put_back(charge, surplus, now) } else { 0 };
            // Of a window that has ended nothing is left to be given back.
            let surplus = if charge.lasts(now) { surplus } else { 0 };
            let missing = units.saturating_sub(cost.units());
            let refund = Cost::new(surplus).map(|cost| OnLedger::Refund { cost });
            let report = Cost::new(missing).map(|cost| OnLedger::Report { cost });
            if let Some(what) = refund.or(report) {
                operations.push(charge.about.operation(what));
            }
        }
        match leases.own_ledgers() {
            Some(ledgers) => {
                ledgers.run(&operations, now);
                Vec::new()
            }
            None => operations,
        }
    }

    /// The quota that leased limits had left when a permit was given. A limit that admits uncounted
    /// while the store is away has no report: nobody knows what is left of it.
    pub(crate) fn leased_reports(
        held: &[LeaseCharge],
        now: Timestamp,
    ) -> impl Iterator<Item = LimitReport> + '_ {
        let is_known = |charge: &&LeaseCharge| {
            !charge.about.is_table && (charge.cost.is_some() || charge.shadow_refused)
        };
        held.iter().filter(is_known).map(move |charge| {
            let algorithm = &charge.about.algorithm;
            LimitReport {
                name: charge.about.names()[0].1.to_owned(),
                limit: algorithm.limit(),
                remaining: charge.balance.map_or(0, |balance| balance.remaining(algorithm, now)),
                reset_at: charge.balance.map_or_else(|| algorithm.full_again(now), |one| one.reset_at(now)),
                window: algorithm.window(),
                civil_zone: algorithm.civil_zone().map(str::to_owned),
                shadow_refused: charge.shadow_refused,
                blocked_until: None,
            }
        })
    }

    /// Brings what the store says of ledgers to what this member can do: its own tokens are left,
    /// too, and there is room for `cost` or not.
    pub(crate) fn with_leases(
        &self,
        names: &[ExactName],
        outcomes: &mut [Outcome],
        cost: Option<Cost>,
        now: Timestamp,
    ) {
        for (name, outcome) in names.iter().zip(outcomes) {
            let Some(lease) = &name.lease else { continue };
            let in_hand = self.in_hand(lease.key, now);
            outcome.remaining = outcome.remaining.saturating_add(in_hand).min(outcome.limit);
            outcome.used = outcome.used.saturating_sub(in_hand);
            outcome.blocked_until = lease.blocked_until;
            let Some(cost) = cost.map(Cost::units) else { continue };
            if let Some(until) = lease.blocked_until {
                outcome.verdict = Verdict::Wait { until };
            } else if cost > outcome.limit {
                outcome.verdict = Verdict::Never { largest: outcome.limit };
            } else if cost > outcome.remaining {
                outcome.verdict = Verdict::Wait { until: lease.algorithm.room_at(cost, outcome.reset_at) };
            }
        }
    }

    /// Whole tokens that this member has in hand of a key.
    fn in_hand(&self, key: u64, now: Timestamp) -> u64 {
        self.shared.leases().map_or(0, |leases| leases.tokens(key, now))
    }

    /// The batches that the leases of this member send to the store: carry each batch there, and
    /// what became of it handed to [`Engine::lease_answered`], also if it failed. Pending until
    /// there is something; then the context's waker is woken. One caller at a time. Where nothing
    /// is leased there are only batches that give back what the store did not take before.
    ///
    /// Asks are left by [`Engine::admit`], [`Engine::resume`] and [`Engine::tick`]; see
    /// [`Engine::take_lease_asks`] for those who look for them after each of these.
    pub fn poll_lease_asks(&self, context: &mut Context<'_>) -> Poll<LeaseBatches> {
        self.shared.outbox.poll_batches(context, || self.next_batch_id())
    }

    /// The batches that the leases of this member send to the store by now, as
    /// [`Engine::poll_lease_asks`]; usually nothing, which costs next to nothing to find out.
    pub fn take_lease_asks(&self) -> LeaseBatches {
        self.shared.outbox.take_batches(|| self.next_batch_id())
    }

    /// Posts a batch that takes something back, or gives it back, for the task that takes the asks
    /// of leases; the store may have none.
    pub(crate) fn post_undo(&self, undo: Batch) {
        self.shared.outbox.post_undo(undo);
    }

    /// Takes in what the store has answered, or that it has not; requests that wait for it go on.
    pub fn lease_answered(
        &self,
        asked: LeaseBatch,
        answer: Result<tidegate_store::Answer, StoreError>,
        now: Timestamp,
    ) {
        if let Some(leases) = self.shared.leases() {
            let answered = leases.answered(asked, answer, now);
            self.forget_shares(&answered, now);
            if self.has_decided_alone(now) {
                answered.into_iter().for_each(|key| self.shared.table.forget_key(key, now));
            }
        }
    }

    /// Gives all leases back, when the member stops: the batches to carry to the store. Their
    /// answers do not matter to this member, but hand them to [`Engine::lease_answered`] all the
    /// same for the requests that wait. A lease that is not given back ends by itself within a
    /// period; tokens of a window that are not are lost until the window ends.
    pub fn leave_leases(&self, now: Timestamp) -> LeaseBatches {
        match self.shared.leases() {
            Some(leases) => leases.leave(now, || self.next_batch_id()),
            None => self.take_lease_asks(),
        }
    }

    /// The leases of this member with the most demand, at most `max`, and what all of them have.
    /// Looks at every lease: for people, not for each request.
    pub fn leases(&self, max: usize, now: Timestamp) -> LeasesView {
        self.shared.leases().map_or_else(LeasesView::default, |leases| leases.views(max, now))
    }

    /// All leases of this member in sum; `None` where nothing is leased.
    pub fn lease_totals(&self) -> Option<LeaseTotals> {
        self.shared.leases().map(Leases::totals)
    }
}

impl Engine {
    /// The key in the store of a leased limit of a located request; an error if it is too long.
    pub(crate) fn leased_key<'g>(
        gate: &'g Gate,
        limit: &LeasedLimit<'_>,
        located: &LocatedRequest<'g>,
    ) -> Result<LeasedKey, RequestError> {
        about(gate, limit, located)
    }
}

/// The limit and key that a lease of this key belongs to.
fn about<'g>(
    gate: &'g Gate,
    limit: &LeasedLimit<'_>,
    located: &LocatedRequest<'g>,
) -> Result<LeasedKey, RequestError> {
    let name = gate.store_name(limit, located);
    let key = Key::new(gate.namespace(), name.identity, &name.key).map_err(RequestError::KeyTooLong)?;
    let scope = name.scope.iter().map(|(name, value)| (&**name, &**value));
    let names = core::iter::once((gate.namespace(), limit.name)).chain(scope);
    Ok(LeasedKey::new(&subject_of(limit), key, &names))
}

pub(crate) fn subject_of<'a>(limit: &LeasedLimit<'a>) -> LeaseSubject<'a> {
    LeaseSubject {
        key: limit.key(),
        name: limit.name,
        algorithm: limit.algorithm,
        terms: TermsId { algorithm: limit.numbers().into(), period: limit.lease_period },
        is_table: false,
    }
}

/// The refusal by these limits, the one that binds longest first. Keys that exceeded a limit which
/// blocks for that are blocked.
fn refused_by<'g>(
    gate: &'g Gate,
    mut refusing: Vec<Refusing<'_>>,
    silence: Option<Silence>,
    located: &LocatedRequest<'g>,
    now: Timestamp,
) -> Refusal {
    for one in &mut refusing {
        if let (Some(span), true) = (one.limit.block_on_exceed, one.reason == one.limit.reason) {
            let until = now.saturating_add(span);
            if gate.block_leased(&one.limit, until, now) {
                (one.reason, one.retry) = (Reason::Blocked, Retry::At(until));
            }
        }
    }
    refusing.sort_by(|one, other| Retry::longest_first(one.retry, other.retry));
    let is_away = refusing[0].reason == Reason::StoreUnavailable;
    let scope = gate.store_name(&refusing[0].limit, located).scope;
    let civil_zone = refusing[0].limit.algorithm.civil_zone().map(Text::from);
    let mut violated = refusing.into_iter().map(|one| Violated {
        name: Text::from(one.limit.name),
        reason: one.reason,
        retry: one.retry,
        limit: one.limit.algorithm.limit(),
        remaining: one.left.min(one.limit.algorithm.limit()),
        window: one.limit.algorithm.window(),
    });
    let first = violated.next().expect("only called when some limit refuses");
    let mut refusal = Refusal::new(gate.namespace(), scope, first);
    refusal.violated.extend(violated);
    refusal.civil_zone = civil_zone;
    if is_away {
        refusal.detail = silence.map(|silence| Text::from_static(silence.detail()));
    }
    refusal
}
