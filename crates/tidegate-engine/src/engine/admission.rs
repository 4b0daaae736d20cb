//! Admission: the row of planes that every request goes through, and the way back.
//!
//! 1. Read only: the deadline, the admission cursor.
//! 2. Local limits, then leases; charged.
//! 3. Capacity units, charged.
//! 4. A place in flight.
//! 5. One batch to the store for all exact limits; the place is held meanwhile.
//!
//! Each plane admits, refuses or asks. [`Engine::pass_row`] has one exit for each of these answers
//! and for errors, and all but the first return what the request holds, the last first.

use std::sync::Arc;

use tidegate::gate::LocatedRequest;
use tidegate::{Class, Cost, Gate, Refusal, Timestamp};

use super::Engine;
use super::lease_plane::{Leased, Waited};
use super::refusal::{longest_hold, past_deadline, shed_by, throttled_by};
use crate::decision::{Decision, Refused, Step};
use crate::error::EngineError;
use crate::leases::Flights;
use crate::pending::{LimitQuestion, Pending};
use crate::permit::{Holds, Home, Permit, Place};
use crate::request::Request;

use tidegate_capacity::Admission;

/// The answer of the planes that decide without asking the store.
enum Passage {
    /// All of them admit.
    Passed,
    /// One of them refuses.
    Refused(Box<Refusal<'static>>),
    /// A lease has to be asked for first.
    Waits(Flights),
}

impl Engine {
    /// Decides a request, or says what to ask the store first.
    ///
    /// An error means that it could not be decided, and that nothing was charged.
    pub fn admit(&self, request: &Request<'_>, now: Timestamp) -> Result<Step, EngineError> {
        self.admit_one(request, Waited::default(), now)
    }

    /// [`Engine::admit`] for a request that may have waited for leases.
    pub(super) fn admit_one(
        &self,
        request: &Request<'_>,
        waited: Waited<'_>,
        now: Timestamp,
    ) -> Result<Step, EngineError> {
        let refused = |refusal| Step::Decided(Decision::Refuse(Refused::one(refusal)));
        let waits = |flights| Step::Ask(Pending(self.park(&[*request], flights, waited.rounds)));
        self.pass_row(request, 0, waited, now, refused, waits, |gate, first, question| match question {
            None => Step::Decided(Decision::Admit(Permit { first, rest: Vec::new() })),
            Some(question) => self.ask_one(first, gate, request, question, now),
        })
    }

    /// Steps 1 to 4, and the question of step 5: everything that is decided without asking the store
    /// and without waiting.
    ///
    /// Goes on with what the request then holds, the gate that charged it and the question for the
    /// store, if there is one; or with its refusal, or with the leases it waits for. In these cases
    /// and after an error it holds nothing, and it counts as offered demand only if the overload
    /// plane refused it.
    #[expect(clippy::inline_always, reason = "a permit is large, and is built where it is returned only so")]
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "three ways out, each built where it is returned")]
    pub(super) fn pass_row<T>(
        &self,
        request: &Request<'_>,
        at: usize,
        waited: Waited<'_>,
        now: Timestamp,
        refused: impl FnOnce(Box<Refusal<'static>>) -> T,
        waits: impl FnOnce(Flights) -> T,
        passed: impl FnOnce(&Arc<Gate>, Holds, Option<LimitQuestion>) -> T,
    ) -> Result<T, EngineError> {
        let namespace = self.find(request.namespace)?;
        let gate = &self.gates[namespace];
        let home = Home { namespace: namespace as u32, generation: self.generation };
        self.check_table(request)?;
        if let Some(refusal) = self.refuse_unseen(gate, request, now) {
            return Ok(refused(Box::new(refusal)));
        }
        // A gate without limits in a store has nothing to locate for later.
        let mut located = LocatedRequest::default();
        let checked = if gate.has_elsewhere() {
            gate.check_and_locate(request.attributes, &mut located, request.cost, now)
        } else {
            gate.check(request.attributes, request.cost, now)
        };
        let limits = match checked {
            tidegate::Decision::Admit(permit) => permit,
            tidegate::Decision::Refuse(refusal) => {
                self.withdraw(request.class, request.tenant, request.cost, now);
                return Ok(refused(Box::new(refusal.into_owned())));
            }
        };
        let longest_hold = longest_hold(gate, &limits);
        let mut holds = Holds { longest_hold, ..Holds::new(home, limits) };
        let passage = self.pass(gate, request, &located, waited, now, &mut holds);
        let question = match passage {
            Ok(Passage::Passed) if gate.has_elsewhere() => self.question(at, gate, request, &located, now),
            Ok(Passage::Passed) => Ok(None),
            Ok(Passage::Refused(refusal)) => {
                self.give_up(holds, request, Some(&refusal), now);
                return Ok(refused(refusal));
            }
            Ok(Passage::Waits(flights)) => {
                self.give_up(holds, request, None, now);
                return Ok(waits(flights));
            }
            Err(error) => Err(error),
        };
        match question {
            Ok(question) => Ok(passed(gate, holds, question)),
            Err(error) => {
                self.give_up(holds, request, None, now);
                Err(error)
            }
        }
    }

    /// The planes after the local limits, in their order. What they take is added to `holds`; the
    /// caller returns it unless the request has passed.
    #[expect(clippy::inline_always, reason = "as `Engine::pass_row`")]
    #[inline(always)]
    fn pass<'g>(
        &self,
        gate: &'g Arc<Gate>,
        request: &Request<'_>,
        located: &LocatedRequest<'g>,
        waited: Waited<'_>,
        now: Timestamp,
        holds: &mut Holds,
    ) -> Result<Passage, EngineError> {
        if let Some(leases) = self.leases_of(gate) {
            match self.lease(leases, gate, request, located, waited, now)? {
                Leased::Held(leased, alone) => {
                    holds.leased = leased;
                    if let Some(alone) = alone {
                        holds.limits.absorb(*alone);
                        holds.is_alone = true;
                    }
                }
                Leased::Refused(refusal) => return Ok(Passage::Refused(refusal)),
                Leased::Waits(flights) => return Ok(Passage::Waits(flights)),
            }
        }
        if let (Some(capacity), Some(access)) = (&self.shared.capacity, &request.access) {
            match capacity.admit(access, now)? {
                Admission::Admit(units) => holds.units = Some(units),
                Admission::Throttle(throttled) => {
                    return Ok(Passage::Refused(Box::new(throttled_by(gate, &throttled))));
                }
            }
        }
        if let Some(overload) = &self.shared.overload {
            match overload.acquire(now) {
                Ok(permit) => holds.place = Some(Place::new(overload, permit)),
                Err(shed) => {
                    return Ok(Passage::Refused(Box::new(shed_by(gate.namespace(), &shed, request.class))));
                }
            }
        }
        Ok(Passage::Passed)
    }

    /// Returns what a request holds that has not passed, and withdraws its demand unless the
    /// overload plane refused it.
    #[cold]
    fn give_up(&self, holds: Holds, request: &Request<'_>, refusal: Option<&Refusal<'_>>, now: Timestamp) {
        if refusal.is_none_or(|refusal| refusal.plane() != tidegate::Plane::Overload) {
            self.withdraw(request.class, request.tenant, request.cost, now);
        }
        let batch = self.take_back(holds, now);
        debug_assert!(batch.is_none(), "the store was not asked");
    }

    /// Takes back that a request was offered: a denial is metered, but is no demand on the system
    /// and must not use up what the cursor admits.
    pub(super) fn withdraw(&self, class: Class, tenant: Option<&str>, cost: Cost, offered_at: Timestamp) {
        if let Some(overload) = &self.shared.overload {
            overload.withdraw(class, tenant, cost, offered_at);
        }
    }

    /// Step 1: the refusal of a request past its deadline, or below the admission cursor. Nothing is
    /// charged.
    fn refuse_unseen(&self, gate: &Gate, request: &Request<'_>, now: Timestamp) -> Option<Refusal<'static>> {
        if request.deadline.is_some_and(|deadline| deadline <= now) {
            return Some(past_deadline(request.namespace));
        }
        let overload = self.shared.overload.as_ref()?;
        let shed = overload.admit_read_only(request.class, request.tenant, request.cost, now)?;
        Some(shed_by(gate.namespace(), &shed, request.class))
    }
}
