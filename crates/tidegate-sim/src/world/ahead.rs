//! Looking ahead: what is about to happen is known, and what it will look at can be loaded before.
//!
//! Of a large fleet each member is met again only after all the others, and nothing of it is near
//! by then. So waiting for memory is most of what simulating it takes, unless the loads of many
//! overlap. Nothing here changes anything.

use core::hint::black_box;

use tidegate_store::{Answer, Batch, Operation, StoreError};

use super::{Event, Simulation};
use crate::calls::Asked;
use crate::member::KeyName;

impl Simulation {
    /// Starts loading what the requests and events of the next slot will look at.
    pub(super) fn look_ahead(&mut self) {
        self.near_until = self.queue.near_until();
        self.arrivals.bring_near(self.near_until);
        // Each step waits for memory at most once, and for all together.
        let mut near = 0;
        for event in self.queue.near() {
            near ^= match event {
                Event::Arrives(name) => self.calls.touch(*name),
                Event::Answers(name, answer) => self.calls.touch(*name) ^ touch_answer(answer),
                Event::Wakes { member, .. } => self.members[*member as usize].touch(),
                _ => 0,
            };
        }
        for arrival in self.arrivals.near() {
            near ^= self.members[arrival.member as usize].touch();
        }
        for event in self.queue.near() {
            if let Event::Arrives(name) | Event::Answers(name, _) = event
                && let Some((call, batch)) = self.calls.batch(*name)
            {
                near ^= touch_batch(batch) ^ self.members[call.member as usize].touch();
                if let (Event::Answers(..), Some(Asked::Leases(asked))) = (event, &call.asked) {
                    asked.touch();
                }
            }
        }
        black_box(near);
        for event in self.queue.near() {
            match event {
                Event::Arrives(name) => {
                    if let Some((_, batch)) = self.calls.batch(*name) {
                        self.store.touch(batch);
                    }
                }
                Event::Answers(name, _) => {
                    if let Some((call, batch)) = self.calls.batch(*name) {
                        self.members[call.member as usize].touch_engine();
                        let keys = batch.operations.iter().map(|one| KeyName::read(one.key.as_bytes()));
                        black_box(keys.fold(0, |near, key| near ^ self.watch.touch(key)));
                    }
                }
                Event::Wakes { member, .. } => self.members[*member as usize].touch_engine(),
                _ => {}
            }
        }
        for arrival in self.arrivals.near() {
            self.members[arrival.member as usize].touch_engine();
        }
    }
}

fn touch_answer(answer: &Result<Answer, StoreError>) -> u64 {
    answer.as_ref().map_or(0, |answer| {
        let outcome = answer.outcomes.first().map_or(0, |outcome| outcome.remaining);
        let grant = answer.grants.iter().flatten().next().map_or(0, |grant| grant.seq);
        answer.store_now.as_nanos() ^ outcome ^ u64::from(grant)
    })
}

fn touch_batch(batch: &Batch) -> u64 {
    let last = |operation: &Operation| operation.key.as_bytes().last().copied();
    batch.id.0 as u64 ^ u64::from(batch.operations.first().and_then(last).unwrap_or(0))
}
