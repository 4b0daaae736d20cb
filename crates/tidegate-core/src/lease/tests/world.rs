//! One key of a fleet, from a seed.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::*;
use crate::algorithm::Algorithm;
use crate::cost::Cost;
use crate::time::Timestamp;

pub(super) const START: u64 = 1_800_000_000_000_000_000;
pub(super) const MS: u64 = 1_000_000;
pub(super) const SECOND: u64 = 1_000_000_000;

/// Chance from a seed; good enough to choose what to try.
pub(super) struct Chance(u64);

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound.max(1)
    }

    pub(super) fn in_a_thousand(&mut self, chances: u64) -> bool {
        self.below(1000) < chances
    }
}

/// The faults, each in thousandths per message or step of a millisecond.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trouble {
    pub(super) lost: u64,
    pub(super) repeated: u64,
    pub(super) crashes: u64,
    pub(super) forgets: u64,
    /// The most that a message takes, in milliseconds.
    pub(super) delay_ms: u64,
    /// How much clocks run apart at most, in thousandths.
    pub(super) drift: u64,
    /// How often what was taken is put back, at once or up to two seconds later.
    pub(super) undone: u64,
}

/// The tokens spent from the grants of one epoch. They must fit into a bucket, the limit's own plus
/// a tenth of a second, or into a window.
#[derive(Default)]
struct Monitor {
    /// Parts of a unit, by the span of the rate in nanoseconds times a thousand.
    level: u128,
    at: u64,
    in_window: u64,
    window_end: u64,
    /// Units given back before they were spent: charged for a request whose answer is still under
    /// way.
    early: u64,
}

pub(super) struct Member {
    pub(super) holder: Holder,
    incarnation: u32,
    /// How far its clock runs ahead of the true one, in millionths.
    drift: i64,
    waiting: Vec<u64>,
    asked_at: u64,
    asked_seq: u32,
    pub(super) admitted: u64,
    pub(super) refused: u64,
    /// Requests that it was to decide alone.
    pub(super) alone: u64,
}

#[derive(Clone, Copy)]
enum Message {
    Ask(Ask),
    Grant(u32, Grant, LedgerLevel),
}

pub(super) struct World {
    pub(super) algorithm: Algorithm,
    pub(super) now: u64,
    pub(super) ledger: Option<Ledger>,
    pub(super) epoch: Epoch,
    pub(super) members: Vec<Member>,
    pub(super) chance: Chance,
    pub(super) trouble: Trouble,
    pub(super) calls: u64,
    pub(super) is_store_down: bool,
    /// When each epoch ended.
    ended: BTreeMap<u32, u64>,
    messages: Vec<(u64, usize, Message)>,
    /// Taken and to be put back: when, by which member, since which ask, and how much.
    undone: Vec<(u64, usize, Stamp, u64)>,
    /// By epochs.
    monitors: BTreeMap<u32, Monitor>,
    terms: Terms,
}

impl World {
    pub(super) fn new(algorithm: Algorithm, members: usize, trouble: Trouble, seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        for _ in 0..16 {
            chance.below(2);
        }
        let epoch = Epoch { number: 1, began: Timestamp::from_nanos(START), is_after_loss: false };
        let terms = Terms::from_algorithm(&algorithm, Timestamp::from_nanos(START)).unwrap();
        let members = (0..members)
            .map(|_| Member {
                holder: Holder::new(1),
                incarnation: 1,
                drift: i64::try_from(chance.below(2 * trouble.drift * 1000 + 1)).unwrap()
                    - i64::try_from(trouble.drift * 1000).unwrap(),
                waiting: Vec::new(),
                asked_at: 0,
                asked_seq: 0,
                admitted: 0,
                refused: 0,
                alone: 0,
            })
            .collect();
        Self {
            algorithm,
            now: START,
            ledger: None,
            epoch,
            members,
            chance,
            trouble,
            calls: 0,
            is_store_down: false,
            ended: BTreeMap::new(),
            messages: Vec::new(),
            undone: Vec::new(),
            monitors: BTreeMap::new(),
            terms,
        }
    }

    pub(super) fn terms(&self) -> Terms {
        Terms::from_algorithm(&self.algorithm, Timestamp::from_nanos(self.now)).unwrap()
    }

    /// The time on the clock of a member.
    fn local(&self, index: usize) -> Timestamp {
        let passed = i128::from(self.now - START);
        let shown = i128::from(START) + passed + passed * i128::from(self.members[index].drift) / 1_000_000;
        Timestamp::from_nanos(u64::try_from(shown).unwrap())
    }

    /// A millisecond passes; messages that are due arrive, and whatever goes wrong does.
    pub(super) fn step(&mut self) {
        self.now += MS;
        self.terms = self.terms();
        while let Some(due) = self.messages.iter().position(|(at, ..)| *at <= self.now) {
            let (_, index, message) = self.messages.swap_remove(due);
            match message {
                Message::Ask(ask) => self.answer(index, &ask),
                Message::Grant(incarnation, grant, level) => self.deliver(index, incarnation, &grant, level),
            }
        }
        while let Some(due) = self.undone.iter().position(|(at, ..)| *at <= self.now) {
            let (_, index, stamp, cost) = self.undone.swap_remove(due);
            let now = self.local(index);
            let holder = &mut self.members[index].holder;
            assert!(holder.put_back(&self.terms, Cost::new(cost).unwrap(), stamp, now) <= cost);
        }
        if self.chance.in_a_thousand(self.trouble.forgets) && self.chance.below(20) == 0 {
            self.forget();
        }
        for index in 0..self.members.len() {
            if self.chance.in_a_thousand(self.trouble.crashes) && self.chance.below(20) == 0 {
                self.crash(index);
            }
            let now = self.local(index);
            if self.members[index].asked_at > 0 && self.now - self.members[index].asked_at > 90 * MS {
                self.members[index].holder.lost(now);
                self.members[index].asked_at = 0;
                self.members[index].refused += self.members[index].waiting.drain(..).count() as u64;
            }
            let holder = &mut self.members[index].holder;
            if holder.wake_at().is_some_and(|at| at <= now) && holder.poll_due(&self.terms, now) {
                self.send(index, 0);
            }
        }
    }

    /// The store loses what it has.
    pub(super) fn forget(&mut self) {
        self.ledger = None;
        let began = Timestamp::from_nanos(self.now);
        self.ended.insert(self.epoch.number, self.now);
        self.epoch = Epoch { number: self.epoch.number + 1, began, is_after_loss: true };
    }

    pub(super) fn crash(&mut self, index: usize) {
        let member = &mut self.members[index];
        member.incarnation += 1;
        member.holder = Holder::new(member.incarnation);
        member.waiting.clear();
        member.asked_at = 0;
    }

    pub(super) fn request(&mut self, index: usize, cost: u64, attempt: u32) {
        let now = self.local(index);
        let taken = self.members[index].holder.take(&self.terms, Cost::new(cost).unwrap(), attempt, now);
        match taken {
            Take::Taken { renew } => {
                if self.chance.in_a_thousand(self.trouble.undone) {
                    let later = if self.chance.below(2) == 0 { 0 } else { self.chance.below(2000) * MS };
                    let stamp = self.members[index].holder.stamp();
                    self.undone.push((self.now + later, index, stamp, cost));
                } else {
                    self.admit(index, cost);
                }
                if renew {
                    self.send(index, 0);
                }
            }
            Take::Ask => {
                self.members[index].waiting.push(cost);
                self.send(index, cost);
            }
            Take::Pending => self.members[index].waiting.push(cost),
            Take::Wait { renew, .. } => {
                self.members[index].refused += 1;
                if renew {
                    self.send(index, 0);
                }
            }
            Take::Alone { renew } => {
                self.members[index].alone += 1;
                if renew {
                    self.send(index, 0);
                }
            }
            Take::Lost { .. } | Take::Never { .. } => self.members[index].refused += 1,
        }
    }

    pub(super) fn leave(&mut self, index: usize) {
        let now = self.local(index);
        let ask = self.members[index].holder.leave(&self.terms, index as u64, now);
        self.post(index, Message::Ask(ask));
        self.crash(index);
    }

    fn send(&mut self, index: usize, need: u64) {
        let now = self.local(index);
        if let Some(ask) = self.members[index].holder.ask(&self.terms, index as u64, need, now) {
            self.members[index].asked_at = self.now;
            self.members[index].asked_seq = ask.seq;
            self.calls += 1;
            self.post(index, Message::Ask(ask));
        }
    }

    fn post(&mut self, index: usize, message: Message) {
        let mut copies = 1;
        if self.chance.in_a_thousand(self.trouble.lost) {
            copies = 0;
        } else if self.chance.in_a_thousand(self.trouble.repeated) {
            copies = 2;
        }
        for _ in 0..copies {
            // Most messages are fast, a few are as slow as can be.
            let most =
                if self.chance.below(8) == 0 { self.trouble.delay_ms } else { self.trouble.delay_ms.min(3) };
            let at = self.now + self.chance.below(most * MS + 1);
            self.messages.push((at, index, message));
        }
    }

    fn answer(&mut self, index: usize, ask: &Ask) {
        if self.is_store_down {
            return;
        }
        let now = Timestamp::from_nanos(self.now);
        let ledger = self.ledger.get_or_insert_with(|| Ledger::begin(&self.terms, &self.epoch));
        let before = ledger.units_used();
        let is_same_epoch = ledger.epoch() == self.epoch.number;
        let answer = ledger.ask(now, &self.terms, &self.epoch, ask);
        let moved = answer.movement;
        if is_same_epoch {
            assert_eq!(
                ledger.units_used() + moved.drained + moved.credited,
                before + moved.held_up + moved.debited,
                "conservation: {moved:?}"
            );
        }
        assert!(
            ledger.tokens_out(now) <= self.terms.largest() + self.terms.quota(),
            "more lent than there is"
        );
        let stored = ledger.to_bytes();
        assert_eq!(Ledger::from_bytes(&stored).as_ref(), Ok(&*ledger));
        if let Some(grant) = answer.grant {
            let (used, reset_at) = ledger.level(now, &self.terms);
            let level = LedgerLevel { used, reset_in: reset_at.saturating_since(now) };
            self.post(index, Message::Grant(ask.holder.incarnation, grant, level));
        }
    }

    fn deliver(&mut self, index: usize, incarnation: u32, grant: &Grant, level: LedgerLevel) {
        if self.members[index].incarnation != incarnation {
            return;
        }
        let now = self.local(index);
        let mut units = self.members[index].holder.granted(&self.terms, grant, level, now);
        // A duplicate answer does not belong to the ask in flight.
        if grant.seq != self.members[index].asked_seq {
            return;
        }
        self.members[index].asked_at = 0;
        for cost in std::mem::take(&mut self.members[index].waiting) {
            if cost <= units {
                units -= cost;
                self.members[index].holder.charge(&self.terms, Cost::new(cost).unwrap(), now);
                self.admit(index, cost);
                continue;
            }
            let taken = self.members[index].holder.take(&self.terms, Cost::new(cost).unwrap(), 1, now);
            match taken {
                Take::Taken { .. } => self.admit(index, cost),
                Take::Ask => {
                    self.members[index].waiting.push(cost);
                    self.send(index, cost);
                }
                Take::Pending => self.members[index].waiting.push(cost),
                _ => self.members[index].refused += 1,
            }
        }
    }

    fn admit(&mut self, index: usize, full_cost: u64) {
        let cost = full_cost;
        self.members[index].admitted += cost;
        let epoch = self.members[index].holder.epoch();
        if let Some(ended) = self.ended.get(&epoch) {
            let most = self.terms.period() * 17 / 16;
            assert!(
                self.now - ended <= most.as_nanos() as u64,
                "spent of epoch {epoch} when it had ended for long"
            );
        }
        let monitor = self.monitors.entry(epoch).or_default();
        let cost = cost - monitor.early.min(cost);
        monitor.early -= monitor.early.min(full_cost);
        if let Algorithm::Bucket(bucket) = &self.algorithm {
            let (units, per) = (u128::from(bucket.rate().units()), u128::from(bucket.rate().per_ns()));
            // A clock that runs fast lets that much more trickle in.
            let drained = u128::from(self.now - monitor.at) * units * u128::from(1000 + self.trouble.drift);
            monitor.at = self.now;
            monitor.level = monitor.level.saturating_sub(drained) + u128::from(cost) * per * 1000;
            let most = u128::from(bucket.burst()) * per * 1000 + units * u128::from(100 * SECOND);
            let beyond = monitor.level.saturating_sub(most);
            assert!(beyond == 0, "{} units too much at {}", beyond / per / 1000, self.now - START);
        } else if let Some(window) = self.algorithm.window() {
            let window = window.as_nanos() as u64;
            let end = (self.now / window + 1) * window;
            if end > monitor.window_end {
                (monitor.in_window, monitor.window_end, monitor.early) = (0, end, 0);
            }
            monitor.in_window += cost;
            assert!(monitor.in_window <= self.algorithm.limit(), "{} in a window", monitor.in_window);
        }
    }

    /// Work that was done is reported to the ledger by itself; how much was booked.
    pub(super) fn report(&mut self, units: u64) -> u64 {
        let now = Timestamp::from_nanos(self.now);
        let ledger = self.ledger.get_or_insert_with(|| Ledger::begin(&self.terms, &self.epoch));
        let before = ledger.used_in(now, &self.terms, &self.epoch);
        let booked = ledger.report(now, &self.terms, &self.epoch, Cost::new(units).unwrap());
        assert!(booked <= units && ledger.units_used() == before + booked, "conservation of a report");
        booked
    }

    /// Units that were admitted are given back because they were not needed after all; how many
    /// were.
    pub(super) fn refund(&mut self, units: u64) -> u64 {
        self.give_back(units, |ledger, now, terms, epoch| {
            ledger.refund(now, terms, epoch, Cost::new(units).unwrap())
        })
    }

    /// Units that were admitted in this epoch and have not drained.
    pub(super) fn refundable(&self) -> u64 {
        let Some(monitor) = self.monitors.get(&self.epoch.number) else { return 0 };
        match &self.algorithm {
            Algorithm::Bucket(bucket) => {
                let drained = u128::from(self.now - monitor.at) * u128::from(bucket.rate().units()) * 1010;
                let level = monitor.level.saturating_sub(drained);
                u64::try_from(level / (u128::from(bucket.rate().per_ns()) * 1000)).unwrap()
            }
            _ if self.now < monitor.window_end => monitor.in_window,
            _ => 0,
        }
    }

    /// Resets the ledger and returns the units that were used.
    pub(super) fn reset(&mut self) -> u64 {
        self.give_back(u64::MAX, Ledger::reset)
    }

    fn give_back(
        &mut self,
        most: u64,
        how: impl FnOnce(&mut Ledger, Timestamp, &Terms, &Epoch) -> u64,
    ) -> u64 {
        let now = Timestamp::from_nanos(self.now);
        let ledger = self.ledger.get_or_insert_with(|| Ledger::begin(&self.terms, &self.epoch));
        let before = ledger.used_in(now, &self.terms, &self.epoch);
        let units = how(ledger, now, &self.terms, &self.epoch);
        assert!(units <= most && ledger.units_used() + units == before, "conservation of a refund");
        assert!(ledger.units_used() >= ledger.tokens_out(now), "less than is in hand");
        // It was not spent: it makes room for as much and no more.
        let monitor = self.monitors.entry(self.epoch.number).or_default();
        if let Algorithm::Bucket(bucket) = &self.algorithm {
            let per = u128::from(bucket.rate().per_ns()) * 1000;
            let fastest = u128::from(bucket.rate().units()) * u128::from(1000 + self.trouble.drift);
            monitor.level = monitor.level.saturating_sub(u128::from(self.now - monitor.at) * fastest);
            monitor.at = self.now;
            let early = (u128::from(units) * per).saturating_sub(monitor.level).div_ceil(per);
            monitor.early += u64::try_from(early).unwrap();
            monitor.level = monitor.level.saturating_sub(u128::from(units) * per);
        } else {
            if self.now >= monitor.window_end {
                let window = self.algorithm.window().map_or(1, |window| window.as_nanos() as u64);
                (monitor.in_window, monitor.window_end, monitor.early) =
                    (0, (self.now / window + 1) * window, 0);
            }
            monitor.early += units.saturating_sub(monitor.in_window);
            monitor.in_window = monitor.in_window.saturating_sub(units);
        }
        units
    }

    pub(super) fn admitted(&self) -> u64 {
        self.members.iter().map(|member| member.admitted).sum()
    }

    pub(super) fn decisions(&self) -> u64 {
        self.members.iter().map(|member| member.admitted + member.refused).sum()
    }

    /// Runs even traffic of so many units a second at each member for so long.
    pub(super) fn run(&mut self, seconds: u64, each: &[u64]) {
        let mut due = vec![0_u64; each.len()];
        for _ in 0..seconds * 1000 {
            self.step();
            for (index, per_second) in each.iter().enumerate() {
                due[index] += per_second;
                while due[index] >= 1000 {
                    due[index] -= 1000;
                    self.request(index, 1, 0);
                }
            }
        }
    }

    pub(super) fn span(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }
}
