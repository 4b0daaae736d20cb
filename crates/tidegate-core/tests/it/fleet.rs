//! The model: what a fleet of two may do next, and what must hold whatever it does.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use stateright::{Model, Property};
use tidegate_core::algorithm::{Algorithm, Bucket, Fixed, WindowStart};
#[cfg(tidegate_planted_faults)]
use tidegate_core::lease::Fault;
use tidegate_core::lease::{Ask, Epoch, Grant, Holder, Ledger, LedgerLevel, Take, Terms};
use tidegate_core::{Cost, Rate, Timestamp};

/// A step of time: an instant is a whole number of them, and everything happens at an instant.
const TICK: Duration = Duration::from_secs(4);

/// The beginning, at a border of windows of every length used here.
const START_S: u64 = 1_800_000_000 / 240 * 240;

/// A unit in the monitor's parts. A clock that is a hundredth too fast lets a hundredth more
/// trickle in.
const UNIT: u64 = 1_000;
const PER_TICK: u64 = 2_020;

/// A configuration: the limit, what may go wrong, and how far to look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fleet {
    pub(crate) limit: Limit,
    /// Instants that are looked at, from 0.
    pub(crate) ticks: u8,
    /// Requests of a member in one instant.
    pub(crate) takes: u8,
    /// Messages under way at once; a member with one more to send does not get that far.
    pub(crate) messages: usize,
    /// How often each may happen.
    pub(crate) lost: u8,
    pub(crate) repeated: u8,
    pub(crate) crashes: u8,
    pub(crate) forgets: u8,
    /// How often nothing may happen for a whole lease and a tick.
    pub(crate) leaps: u8,
    /// How much the clocks of the two members run ahead, in hundredths.
    pub(crate) drift: [i64; 2],
    /// Whether requests may be repeated attempts too.
    pub(crate) retries: bool,
    #[cfg(tidegate_planted_faults)]
    pub(crate) fault: Option<Fault>,
}

/// The lent units.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    /// Two units a tick, and a burst; leases of so many ticks.
    Bucket { burst: u64, period: u32 },
    /// So many units in a window of so many ticks; leases of so many ticks.
    Window { limit: u64, length: u32, period: u32 },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    tick: u8,
    ledger: Option<Ledger>,
    epoch: u32,
    began: u8,
    members: [Member; 2],
    /// Under way, in an order that means nothing.
    messages: Vec<Message>,
    lost: u8,
    repeated: u8,
    crashes: u8,
    forgets: u8,
    leaps: u8,
    /// By epochs from the first on: for a bucket of burst and a tenth of a second, how full it
    /// would be by what was spent from its grants; for a window, what it has admitted.
    admitted: Vec<u64>,
    /// When each epoch but the first began.
    begun: Vec<u8>,
    /// The violations.
    wrong: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Member {
    holder: Holder,
    incarnation: u32,
    takes: u8,
    /// The instant at which an ask was sent that is not answered.
    asked: Option<u8>,
    /// Whether a request waits for the answer.
    waits: bool,
    has_demand: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Message {
    Ask(Ask),
    Grant { member: usize, incarnation: u32, grant: Grant, level: LedgerLevel },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Time passes for everyone.
    Tick,
    /// So does a whole lease and a tick.
    Leap,
    /// A request reaches a member, for the first time or again.
    Take {
        member: usize,
        attempt: u32,
    },
    /// A member does what its timer says.
    Wake {
        member: usize,
    },
    /// A member waits no longer.
    GiveUp {
        member: usize,
    },
    /// A message arrives, whichever was sent first.
    Deliver {
        message: usize,
    },
    /// A message arrives and will arrive once more.
    Repeat {
        message: usize,
    },
    Lose {
        message: usize,
    },
    Crash {
        member: usize,
    },
    /// The store loses the record.
    Forget,
}

impl Fleet {
    fn algorithm(&self) -> Algorithm {
        match self.limit {
            Limit::Bucket { burst, .. } => {
                Algorithm::Bucket(Bucket::new(Rate::new(2, TICK).unwrap(), burst).unwrap())
            }
            Limit::Window { limit, length, .. } => {
                Algorithm::Fixed(Fixed::new(limit, TICK * length, WindowStart::Epoch).unwrap())
            }
        }
    }

    /// Whether a mistake is planted.
    #[cfg_attr(not(tidegate_planted_faults), expect(clippy::unused_self, reason = "a field under the cfg"))]
    fn has_fault(&self) -> bool {
        #[cfg(tidegate_planted_faults)]
        return self.fault.is_some();
        #[cfg(not(tidegate_planted_faults))]
        false
    }

    fn terms(&self, tick: u8) -> Terms {
        let (Limit::Bucket { period, .. } | Limit::Window { period, .. }) = self.limit;
        let terms =
            Terms::from_algorithm(&self.algorithm(), at(tick)).unwrap().with_period(TICK * period).unwrap();
        // A model has few requests, and leases are what it is about.
        let terms = terms.with_leased_min(1);
        #[cfg(tidegate_planted_faults)]
        if let Some(fault) = self.fault {
            return terms.with_fault(fault);
        }
        terms
    }

    fn local(&self, member: usize, tick: u8) -> Timestamp {
        let passed = i64::from(tick) * i64::try_from(TICK.as_nanos()).unwrap();
        let shown = passed + passed * self.drift[member] / 100;
        at(0).saturating_add(Duration::from_nanos(u64::try_from(shown).unwrap()))
    }

    /// The most that may be admitted, in the monitor's units.
    fn most(&self) -> u64 {
        match self.limit {
            // A tenth of a second is a fortieth of a tick, and a tick gives two units.
            Limit::Bucket { burst, .. } => burst * UNIT + UNIT / 20,
            Limit::Window { limit, .. } => limit * UNIT,
        }
    }

    fn leap(&self) -> u8 {
        let (Limit::Bucket { period, .. } | Limit::Window { period, .. }) = self.limit;
        u8::try_from(period + 1).unwrap()
    }

    /// Whether time goes no further.
    fn is_last(&self, state: &State) -> bool {
        state.tick - state.leaps * self.leap() + 1 >= self.ticks
    }

    fn pass(&self, state: &mut State) {
        state.tick += 1;
        match self.limit {
            Limit::Bucket { .. } => {
                state.admitted.iter_mut().for_each(|admitted| *admitted = admitted.saturating_sub(PER_TICK));
            }
            Limit::Window { length, .. } if u32::from(state.tick).is_multiple_of(length) => {
                state.admitted.fill(0);
            }
            Limit::Window { .. } => {}
        }
        for member in &mut state.members {
            member.takes = 0;
        }
    }

    fn take(&self, state: &mut State, index: usize, attempt: u32) {
        let (terms, now) = (self.terms(state.tick), self.local(index, state.tick));
        let member = &mut state.members[index];
        member.has_demand |= attempt == 0;
        match member.holder.take(&terms, Cost::ONE, attempt, now) {
            Take::Taken { renew } => {
                self.admit(state, index);
                if renew {
                    self.send(state, index, 0);
                }
            }
            Take::Ask => {
                member.waits = true;
                self.send(state, index, 1);
            }
            Take::Pending => member.waits = true,
            Take::Wait { renew: true, .. } | Take::Alone { renew: true } => self.send(state, index, 0),
            // Admissions of a member alone are no part of the grants.
            _ => {}
        }
    }

    /// A member admits a unit of what it was granted.
    fn admit(&self, state: &mut State, index: usize) {
        let epoch = usize::try_from(state.members[index].holder.epoch()).unwrap();
        state.admitted[epoch - 1] += UNIT;
        if state.admitted[epoch - 1] > self.most() {
            state.wrong = Some("more was admitted than the limit and its bound allow");
        }
        let (Limit::Bucket { period, .. } | Limit::Window { period, .. }) = self.limit;
        if let Some(ended) = state.begun.get(epoch - 1)
            && u32::from(state.tick - ended) * 16 > period * 17
        {
            state.wrong = Some("something was spent of an epoch that has ended for long");
        }
    }

    fn send(&self, state: &mut State, index: usize, need: u64) {
        let (terms, now) = (self.terms(state.tick), self.local(index, state.tick));
        let member = &mut state.members[index];
        let Some(ask) = member.holder.ask(&terms, index as u64, need, now) else { return };
        member.asked = Some(state.tick);
        if ask.demand > 0 && !member.has_demand {
            state.wrong = Some("demand was told that no first attempt made");
        }
        state.messages.push(Message::Ask(ask));
    }

    fn wake(&self, state: &mut State, index: usize) {
        let (terms, now) = (self.terms(state.tick), self.local(index, state.tick));
        if state.members[index].holder.poll_due(&terms, now) {
            self.send(state, index, 0);
        }
    }

    fn arrive(&self, state: &mut State, message: Message) {
        let terms = self.terms(state.tick);
        match message {
            Message::Ask(ask) => {
                let epoch =
                    Epoch { number: state.epoch, began: at(state.began), is_after_loss: state.epoch > 1 };
                let ledger = state.ledger.get_or_insert_with(|| Ledger::begin(&terms, &epoch));
                let now = at(state.tick);
                let before = ledger.used(now, &terms);
                let answer = ledger.ask(now, &terms, &epoch, &ask);
                let (after, moved) = (ledger.used(now, &terms), answer.movement);
                let in_hand: u64 =
                    ledger.holders().filter(|view| view.until > now).map(|view| u64::from(view.held)).sum();
                // Nothing drains between two looks at one instant, so only grants and returns are
                // left.
                if !self.has_fault() && after + moved.credited > before + moved.debited + moved.held_up {
                    state.wrong = Some("something came into being that nobody granted");
                }
                if !self.has_fault() && in_hand > after {
                    state.wrong = Some("more is in hand than was counted as used");
                }
                if let Some(grant) = answer.grant {
                    let member = usize::try_from(ask.holder.member).unwrap();
                    let incarnation = ask.holder.incarnation;
                    let (used, reset_at) = ledger.level(now, &terms);
                    let level = LedgerLevel { used, reset_in: reset_at.saturating_since(now) };
                    state.messages.push(Message::Grant { member, incarnation, grant, level });
                }
            }
            Message::Grant { member, incarnation, grant, level } => {
                let now = self.local(member, state.tick);
                let index = member;
                let member = &mut state.members[index];
                if member.incarnation == incarnation {
                    let units = member.holder.granted(&terms, &grant, level, now);
                    member.asked = None;
                    match (std::mem::take(&mut member.waits), units) {
                        (true, 1..) => {
                            member.holder.charge(&terms, Cost::ONE, now);
                            self.admit(state, index);
                        }
                        (true, 0) => self.take(state, index, 1),
                        (false, _) => {}
                    }
                }
            }
        }
    }

    /// Whether from this state on, with nothing going wrong any more and both members asked all the
    /// time, at least one unit in three ticks is used within three leases, or the whole next
    /// window, and never too much is.
    ///
    /// Which member is served is not asked: a burst of 1 is in one hand at a time.
    fn recovers(&self, state: &State) -> bool {
        let mut state = state.clone();
        let (ticks, least) = match self.limit {
            // A loss is waited out first.
            Limit::Bucket { period, .. } => (3 * period + 1, u64::from(period)),
            Limit::Window { limit, length, .. } => (2 * length, limit),
        };
        let mut served = 0;
        for _ in 0..ticks {
            self.pass(&mut state);
            let before: u64 = state.admitted.iter().sum();
            for round in 0..2 {
                for member in 0..2 {
                    self.wake(&mut state, member);
                    // The order of the members changes.
                    let member = (member + round + usize::from(state.tick)) % 2;
                    self.take(&mut state, member, 0);
                }
                while let Some(message) = state.messages.pop() {
                    self.arrive(&mut state, message);
                }
            }
            served += (state.admitted.iter().sum::<u64>() - before) / UNIT;
            // An answer that was lost before: nobody waits for ever.
            for member in 0..2 {
                if state.members[member].asked.take().is_some() {
                    let now = self.local(member, state.tick);
                    state.members[member].holder.lost(now);
                }
            }
        }
        served >= least && state.wrong.is_none()
    }
}

impl Model for Fleet {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let member = Member {
            holder: Holder::new(1),
            incarnation: 1,
            takes: 0,
            asked: None,
            waits: false,
            has_demand: false,
        };
        vec![State {
            tick: 0,
            ledger: None,
            epoch: 1,
            began: 0,
            members: [member.clone(), member],
            messages: Vec::new(),
            lost: 0,
            repeated: 0,
            crashes: 0,
            forgets: 0,
            leaps: 0,
            admitted: vec![0],
            begun: Vec::new(),
            wrong: None,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.wrong.is_some() {
            return;
        }
        if !self.is_last(state) {
            actions.push(Action::Tick);
        }
        if state.leaps < self.leaps {
            actions.push(Action::Leap);
        }
        let has_room = state.messages.len() < self.messages;
        for (index, member) in state.members.iter().enumerate() {
            if member.takes < self.takes && has_room {
                actions.push(Action::Take { member: index, attempt: 0 });
                if self.retries {
                    actions.push(Action::Take { member: index, attempt: 1 });
                }
            }
            let now = self.local(index, state.tick);
            let is_window = matches!(self.limit, Limit::Window { .. });
            if is_window && has_room && member.holder.wake_at().is_some_and(|wake_at| wake_at <= now) {
                actions.push(Action::Wake { member: index });
            }
            // Nobody gives up at the instant at which it asked.
            if member.asked.is_some_and(|asked| asked < state.tick) {
                actions.push(Action::GiveUp { member: index });
            }
            if state.crashes < self.crashes {
                actions.push(Action::Crash { member: index });
            }
        }
        for message in 0..state.messages.len() {
            actions.push(Action::Deliver { message });
            if state.repeated < self.repeated && has_room {
                actions.push(Action::Repeat { message });
            }
            if state.lost < self.lost {
                actions.push(Action::Lose { message });
            }
        }
        if state.forgets < self.forgets {
            actions.push(Action::Forget);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Tick => self.pass(&mut state),
            Action::Leap => {
                state.leaps += 1;
                (0..self.leap()).for_each(|_| self.pass(&mut state));
            }
            Action::Take { member, attempt } => {
                state.members[member].takes += 1;
                self.take(&mut state, member, attempt);
            }
            Action::Wake { member } => self.wake(&mut state, member),
            Action::GiveUp { member } => {
                (state.members[member].asked, state.members[member].waits) = (None, false);
                let now = self.local(member, state.tick);
                state.members[member].holder.lost(now);
            }
            Action::Deliver { message } => {
                let message = state.messages.remove(message);
                self.arrive(&mut state, message);
            }
            Action::Repeat { message } => {
                state.repeated += 1;
                self.arrive(&mut state, last.messages[message]);
            }
            Action::Lose { message } => {
                state.lost += 1;
                state.messages.remove(message);
            }
            Action::Crash { member } => {
                state.crashes += 1;
                let incarnation = state.members[member].incarnation + 1;
                state.members[member] = Member {
                    holder: Holder::new(incarnation),
                    incarnation,
                    takes: 0,
                    asked: None,
                    waits: false,
                    has_demand: false,
                };
            }
            Action::Forget => {
                state.forgets += 1;
                (state.ledger, state.epoch, state.began) = (None, state.epoch + 1, state.tick);
                state.admitted.push(0);
                state.begun.push(state.tick);
            }
        }
        state.messages.sort_by_cached_key(|message| {
            let mut hasher = DefaultHasher::new();
            message.hash(&mut hasher);
            hasher.finish()
        });
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(SAFE, |_, state: &State| state.wrong.is_none()),
            Property::always(LIVE, |fleet: &Fleet, state: &State| {
                fleet.has_fault() || state.wrong.is_some() || !fleet.is_last(state) || fleet.recovers(state)
            }),
            Property::sometimes(BUSY, |fleet: &Fleet, state: &State| {
                state.admitted.iter().any(|admitted| admitted + UNIT > fleet.most()) && state.tick > 0
            }),
        ]
    }
}

/// Never over the bound, no sum that does not add up, no retry taken for demand.
pub(crate) const SAFE: &str = "nothing is seen that must not be";
/// Tokens flow again once nothing goes wrong any more.
pub(crate) const LIVE: &str = "the limit is used again once nothing goes wrong";
/// The model is no empty one: the whole limit is used.
pub(crate) const BUSY: &str = "the limit is used up";

fn at(tick: u8) -> Timestamp {
    Timestamp::from_secs(START_S).saturating_add(TICK * u32::from(tick))
}
