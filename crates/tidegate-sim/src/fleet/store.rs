//! The store: a keeper on a clock of its own, with spares that lag behind.

use std::collections::VecDeque;

use tidegate_core::Timestamp;
use tidegate_core::lease::Epoch;
use tidegate_store::{Answer, Batch, Keeper, MemoryConfig, RequestId, StoreError};

use crate::fleet::scenario::{Chaos, Scenario};
use crate::kit::{Chance, Clock, MS};

/// The store behind the network.
#[derive(Debug)]
pub(crate) struct SimulatedStore {
    config: MemoryConfig,
    pub(crate) clock: Clock,
    keeper: Keeper,
    /// Those that take over, in this order. Each has all the first one had some time ago.
    spares: VecDeque<Keeper>,
    lag: u64,
    /// Batches that the spares have not received yet.
    log: VecDeque<Written>,
    epoch: Epoch,
    /// How many disturbances refuse connections.
    away: u32,
    /// Until when it does nothing.
    paused_until: u64,
    pub(crate) batches: u64,
}

/// A batch that was carried out.
#[derive(Debug)]
struct Written {
    at: u64,
    store_now: Timestamp,
    batch: Batch,
}

/// The result of a batch that reached the store.
#[derive(Debug)]
pub(crate) enum Served {
    /// It refused the connection.
    Away,
    /// It looks at it then.
    Later(u64),
    /// It did, at that instant of its clock; and whether it only said again what it had said
    /// before.
    Done { answer: Box<Result<Answer, StoreError>>, at: Timestamp, again: bool },
}

/// How much a keeper may hold: more than any scenario needs, so that it is never full.
const BYTES: usize = 64 << 30;

impl SimulatedStore {
    /// A store with as many spares as it will fail over.
    pub(crate) fn new(scenario: &Scenario, failovers: usize) -> Self {
        let mut chance = Chance::new(scenario.seed, 5);
        let clock = match scenario.chaos {
            Chaos::None => Clock::TRUE,
            Chaos::Some => Clock::drawn(&mut chance),
        };
        let mut config = MemoryConfig::new(chance.seeds());
        config.bytes = BYTES;
        // The store is new: nothing was there before the world began.
        let epoch = Epoch { number: 1, began: clock.at(0), is_after_loss: false };
        let made = |_| keeper_of(config, epoch);
        Self {
            config,
            clock,
            keeper: keeper_of(config, epoch),
            spares: (0..failovers).map(made).collect(),
            lag: chance.between(5, 500) * MS,
            log: VecDeque::new(),
            epoch,
            away: 0,
            paused_until: 0,
            batches: 0,
        }
    }

    /// Refuses connections once more, or once less.
    pub(crate) fn set_away(&mut self, is_away: bool) {
        self.away = if is_away { self.away + 1 } else { self.away.saturating_sub(1) };
    }

    pub(crate) fn pause_until(&mut self, until: u64) {
        self.paused_until = until;
    }

    pub(crate) fn serve(&mut self, batch: &Batch, now: u64) -> Served {
        if self.away > 0 {
            return Served::Away;
        }
        if now < self.paused_until {
            return Served::Later(self.paused_until);
        }
        let store_now = self.clock.at(now);
        self.batches += 1;
        match self.keeper.run(batch, store_now) {
            Ok(ran) => {
                if !self.spares.is_empty() {
                    self.replicate(now);
                    self.log.push_back(Written { at: now, store_now, batch: batch.clone() });
                }
                Served::Done { answer: Box::new(Ok(ran.answer)), at: store_now, again: ran.again }
            }
            Err(error) => Served::Done { answer: Box::new(Err(error)), at: store_now, again: false },
        }
    }

    /// Lets the spares have what is old enough.
    fn replicate(&mut self, now: u64) {
        while self.log.front().is_some_and(|written| written.at + self.lag <= now) {
            let Some(written) = self.log.pop_front() else { return };
            for spare in &mut self.spares {
                // It did so where it was first carried out.
                let _ = spare.run(&written.batch, written.store_now);
            }
        }
    }

    /// The next spare takes over. The batches that it lacks.
    pub(crate) fn fail_over(&mut self, now: u64) -> Vec<RequestId> {
        self.replicate(now);
        if let Some(spare) = self.spares.pop_front() {
            self.keeper = spare;
        }
        self.begin_epoch(now);
        self.log.drain(..).map(|written| written.batch.id).collect()
    }

    /// Everything is lost.
    pub(crate) fn empty(&mut self, now: u64) {
        self.keeper = keeper_of(self.config, self.epoch);
        // The spares copy that as well.
        for spare in &mut self.spares {
            *spare = keeper_of(self.config, self.epoch);
        }
        self.log.clear();
        self.begin_epoch(now);
    }

    /// The number of the epoch.
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch.number
    }

    fn begin_epoch(&mut self, now: u64) {
        self.epoch = Epoch { number: self.epoch.number + 1, began: self.clock.at(now), is_after_loss: true };
        self.keeper.begin_epoch(self.epoch);
        for spare in &mut self.spares {
            spare.begin_epoch(self.epoch);
        }
    }
}

fn keeper_of(config: MemoryConfig, epoch: Epoch) -> Keeper {
    let mut keeper = Keeper::new(config);
    keeper.begin_epoch(epoch);
    keeper
}
