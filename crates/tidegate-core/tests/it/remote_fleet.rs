//! The model of a limit that an Envoy and another member share: what may happen next, and what must
//! hold.
//!
//! The Envoy confirms nothing, and the ledger never hears the end of its spending: its stream ends
//! or its member dies at any instant, and the Envoy goes on until its assignment ends. It may come
//! back on another stream, to the same member or to another one, and may have been started anew.
//! The other member takes all that the ledger has free, at any instant.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use stateright::{Model, Property};
use tidegate_core::algorithm::{Algorithm, Bucket};
#[cfg(tidegate_planted_faults)]
use tidegate_core::lease::Fault;
use tidegate_core::lease::{
    Ask, Assignment, Epoch, Grant, HolderName, Ledger, LedgerLevel, RemoteBucket, Terms, TokenBucket,
};
use tidegate_core::{Rate, Timestamp};

use crate::envoy_bucket::{EnvoyBucket, EnvoyCounts, EnvoyFill, EnvoyOrder};

/// A step of time. A message to the Envoy is taken in the instant in which it was sent or in the
/// next one, or its stream ends: within 4 s, as the protocol demands.
const TICK: Duration = Duration::from_millis(3_900);

/// The life of an assignment, which ends between two instants. Its lease lasts 23 s.
const TTL: Duration = Duration::from_secs(10);

/// The time of the rate of a lease.
const PERIOD: Duration = Duration::from_secs(16);

const START_S: u64 = 1_800_000_000;
const KEY: u64 = 1;
const PEER: u64 = 1 << 63;
const OTHER: HolderName = HolderName { member: 1, incarnation: 1 };

/// Units that refill in a tick, and a unit in the monitor's parts.
const RATE: u64 = 6;
const UNIT: u64 = 1_000;

/// A configuration: the limit, what may happen, and how far to look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RemoteFleet {
    pub(crate) burst: u64,
    /// Instants that are looked at, from 0.
    pub(crate) ticks: u8,
    /// How often each may happen.
    pub(crate) reports: u8,
    pub(crate) ends: u8,
    pub(crate) returns: u8,
    #[cfg(tidegate_planted_faults)]
    pub(crate) fault: Option<Fault>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RemoteState {
    tick: u8,
    ledger: Ledger,
    /// The last ask of the other member.
    other_seq: u32,
    peer: Peer,
    /// Under way, in an order that means nothing.
    messages: Vec<Message>,
    reports: u8,
    ends: u8,
    returns: u8,
    /// How full a bucket of burst and a tenth of a second would be.
    admitted: u64,
    wrong: Option<&'static str>,
}

/// The Envoy, and what its member knows of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Peer {
    /// `None` once the member is dead.
    bucket: Option<RemoteBucket>,
    incarnation: u32,
    is_open: bool,
    /// Assignments on the stream in their order, with the instants in which they were sent.
    told: Vec<(u8, Assignment)>,
    envoy: EnvoyBucket,
    /// The instant of its last report.
    reported: u8,
    /// Since when nobody hears it.
    unheard_since: Option<u8>,
    /// Whether it spent in a later instant than that, and the limit was then used up but for one
    /// unit, which the ledger may lose by rounding up what is to come.
    has_used_up: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Message {
    Ask(Ask),
    Grant(HolderName, Grant),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RemoteAction {
    /// Time passes.
    Tick,
    /// Requests reach the other member until the ledger has nothing for them.
    AskOther,
    /// Requests reach the Envoy until it refuses one.
    AskEnvoy,
    /// The Envoy reports.
    Report,
    /// A message to or from the ledger arrives, whichever was sent first.
    Deliver { message: usize },
    /// The Envoy takes the next assignment.
    Obey,
    /// The member learns that the Envoy has taken all.
    Learn,
    /// The stream ends.
    Cut,
    /// The member of the stream dies.
    Die,
    /// The Envoy opens another stream, to the same member if that lives, or to another one.
    Return { is_same: bool, is_new: bool },
}

impl RemoteFleet {
    fn terms(&self) -> Terms {
        let rate = Rate::new(RATE, TICK).unwrap();
        let algorithm = Algorithm::Bucket(Bucket::new(rate, self.burst).unwrap());
        let terms = Terms::from_algorithm(&algorithm, at(0)).unwrap().with_period(PERIOD).unwrap();
        let terms = terms.with_leased_min(1);
        #[cfg(tidegate_planted_faults)]
        if let Some(fault) = self.fault {
            return terms.with_fault(fault);
        }
        terms
    }

    fn peer_bucket(&self, incarnation: u32, now: Timestamp) -> RemoteBucket {
        let mut bucket = RemoteBucket::new(HolderName { member: PEER, incarnation }, TTL, now);
        bucket.set_limits(&[(KEY, Arc::new(self.terms()))], now);
        bucket
    }

    /// A burst and a tenth of a second of the rate, in the monitor's parts.
    fn most(&self) -> u64 {
        self.burst * UNIT + RATE * UNIT * 100 / TICK.as_millis() as u64
    }

    fn admit(&self, state: &mut RemoteState) {
        state.admitted += UNIT;
        if state.admitted > self.most() {
            state.wrong = Some("more was admitted than the limit and its bound allow");
        }
    }

    fn pass(state: &mut RemoteState) {
        let is_late = state.peer.told.iter().any(|(sent, _)| *sent < state.tick);
        state.tick += 1;
        state.admitted = state.admitted.saturating_sub(RATE * UNIT);
        if is_late {
            Self::cut(state);
        }
        Self::step(state);
    }

    fn cut(state: &mut RemoteState) {
        state.peer.told.clear();
        state.peer.is_open = false;
        state.peer.unheard_since = Some(state.tick);
        if let Some(bucket) = &mut state.peer.bucket {
            bucket.closed();
        }
    }

    /// The member of the stream does what is due.
    fn step(state: &mut RemoteState) {
        let Some(bucket) = &mut state.peer.bucket else { return };
        let step = bucket.step(2, at(state.tick));
        state.messages.extend(step.asks.iter().map(|(_, ask)| Message::Ask(*ask)));
        state.peer.told.extend(step.tell.into_iter().map(|assignment| (state.tick, assignment)));
    }

    fn report(state: &mut RemoteState) {
        let now = at(state.tick);
        state.peer.reported = state.tick;
        let EnvoyCounts { allowed, denied, elapsed_s } = state.peer.envoy.report(now.as_nanos());
        if let Some(bucket) = state.peer.bucket.as_mut().filter(|_| state.peer.is_open) {
            bucket.report(allowed, denied, Duration::from_secs(elapsed_s), now);
            Self::step(state);
        }
    }

    fn ask_other(&self, state: &mut RemoteState) {
        let seq = state.other_seq + 1;
        let first = Ask::first(OTHER, self.burst);
        let ask = Ask { seq, acked: state.other_seq, epoch: epoch().number, need_min: 1, ..first };
        let grant = state.ledger.ask(at(state.tick), &self.terms(), &epoch(), &ask).grant;
        state.other_seq = seq;
        (0..grant.unwrap().lump).for_each(|_| self.admit(state));
    }

    fn ask_envoy(&self, state: &mut RemoteState) {
        let now = at(state.tick).as_nanos();
        while state.wrong.is_none() && state.peer.envoy.admits(now) {
            self.admit(state);
            let is_later = state.peer.unheard_since.is_some_and(|since| since < state.tick);
            state.peer.has_used_up |= is_later && state.admitted + 2 * UNIT > self.most();
        }
        if state.peer.envoy.is_new() {
            Self::report(state);
        }
    }

    fn arrive(&self, state: &mut RemoteState, message: Message) {
        let now = at(state.tick);
        match message {
            Message::Ask(ask) => {
                let grant = state.ledger.ask(now, &self.terms(), &epoch(), &ask).grant;
                state.messages.extend(grant.map(|grant| Message::Grant(ask.holder, grant)));
            }
            Message::Grant(holder, grant) => {
                let is_own = state.peer.incarnation == holder.incarnation;
                if let Some(bucket) = state.peer.bucket.as_mut().filter(|_| is_own) {
                    bucket.granted(KEY, &grant, LedgerLevel::default(), now);
                    Self::step(state);
                }
            }
        }
    }

    fn come_back(&self, state: &mut RemoteState, is_same: bool, is_new: bool) {
        let now = at(state.tick);
        match &mut state.peer.bucket {
            Some(bucket) if is_same => bucket.opened(now),
            place => {
                state.peer.incarnation += 1;
                *place = Some(self.peer_bucket(state.peer.incarnation, now));
            }
        }
        (state.peer.is_open, state.peer.unheard_since) = (true, None);
        if is_new {
            state.peer.envoy = EnvoyBucket::new(0);
        } else {
            Self::report(state);
        }
    }
}

impl Model for RemoteFleet {
    type State = RemoteState;
    type Action = RemoteAction;

    fn init_states(&self) -> Vec<RemoteState> {
        vec![RemoteState {
            tick: 0,
            ledger: Ledger::begin(&self.terms(), &epoch()),
            other_seq: 0,
            peer: Peer {
                bucket: Some(self.peer_bucket(1, at(0))),
                incarnation: 1,
                is_open: true,
                told: Vec::new(),
                envoy: EnvoyBucket::new(0),
                reported: 0,
                unheard_since: None,
                has_used_up: false,
            },
            messages: Vec::new(),
            reports: 0,
            ends: 0,
            returns: 0,
            admitted: 0,
            wrong: None,
        }]
    }

    fn actions(&self, state: &RemoteState, actions: &mut Vec<RemoteAction>) {
        if state.wrong.is_some() {
            return;
        }
        if state.tick + 1 < self.ticks {
            actions.push(RemoteAction::Tick);
        }
        let peer = &state.peer;
        let is_known = peer.envoy.is_known();
        actions.push(RemoteAction::AskOther);
        if !is_known || peer.envoy.clone().admits(at(state.tick).as_nanos()) {
            actions.push(RemoteAction::AskEnvoy);
        }
        actions.extend((0..state.messages.len()).map(|message| RemoteAction::Deliver { message }));
        if peer.is_open && is_known && state.reports < self.reports {
            actions.push(RemoteAction::Report);
        }
        if peer.is_open {
            actions.push(if peer.told.is_empty() { RemoteAction::Learn } else { RemoteAction::Obey });
        }
        if peer.is_open && is_known && state.ends < self.ends {
            actions.extend([RemoteAction::Cut, RemoteAction::Die]);
        }
        if !peer.is_open && state.returns < self.returns {
            for is_new in [false, true] {
                actions.push(RemoteAction::Return { is_same: false, is_new });
                // An Envoy that has its bucket still says so by the seconds since its last report.
                let is_told_apart = peer.reported < state.tick;
                if peer.bucket.is_some() && (is_new || is_told_apart) {
                    actions.push(RemoteAction::Return { is_same: true, is_new });
                }
            }
        }
    }

    fn next_state(&self, last: &RemoteState, action: RemoteAction) -> Option<RemoteState> {
        let mut state = last.clone();
        match action {
            RemoteAction::Tick => Self::pass(&mut state),
            RemoteAction::AskOther => {
                self.ask_other(&mut state);
                if state.admitted == last.admitted {
                    return None;
                }
            }
            RemoteAction::AskEnvoy => self.ask_envoy(&mut state),
            RemoteAction::Report => {
                state.reports += 1;
                Self::report(&mut state);
            }
            RemoteAction::Deliver { message } => {
                let message = state.messages.remove(message);
                self.arrive(&mut state, message);
            }
            RemoteAction::Obey => {
                let (_, assignment) = state.peer.told.remove(0);
                state.peer.envoy.obey(order_of(assignment), at(state.tick).as_nanos());
            }
            RemoteAction::Learn => {
                state.peer.bucket.as_mut()?.taken(at(state.tick));
                Self::step(&mut state);
            }
            RemoteAction::Cut => {
                state.ends += 1;
                Self::cut(&mut state);
                Self::step(&mut state);
            }
            RemoteAction::Die => {
                state.ends += 1;
                Self::cut(&mut state);
                state.peer.bucket = None;
            }
            RemoteAction::Return { is_same, is_new } => {
                state.returns += 1;
                self.come_back(&mut state, is_same, is_new);
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
            Property::always(REMOTE_SAFE, |_, state: &RemoteState| state.wrong.is_none()),
            Property::sometimes(UNHEARD, |_, state: &RemoteState| state.peer.has_used_up),
        ]
    }
}

/// Never over the bound.
pub(crate) const REMOTE_SAFE: &str = "never more is admitted than the limit and its bound allow";
/// The model is no empty one.
pub(crate) const UNHEARD: &str = "an Envoy that nobody hears any more uses the limit up";

fn order_of(assignment: Assignment) -> EnvoyOrder {
    match assignment {
        Assignment::Bucket(TokenBucket { max_tokens, tokens_per_fill, interval_s }, ttl) => {
            EnvoyOrder::Fill(EnvoyFill { max_tokens, tokens_per_fill, interval_s }, ttl)
        }
        Assignment::Deny(ttl) => EnvoyOrder::Deny(ttl),
        Assignment::Abandon => EnvoyOrder::Abandon,
    }
}

fn epoch() -> Epoch {
    Epoch { number: 1, began: at(0), is_after_loss: false }
}

fn at(tick: u8) -> Timestamp {
    Timestamp::from_secs(START_S).saturating_add(TICK * u32::from(tick))
}
