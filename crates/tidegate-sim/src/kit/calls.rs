//! Batches on their way to the store and back.

use tidegate_engine::{LeaseBatch, Pending};
use tidegate_store::Batch;

use crate::fleet::load::Arrival;

/// The origin of a call.
#[derive(Debug)]
pub(crate) enum Asked {
    /// A request, for its exact limits.
    Request(Pending, Arrival),
    /// A member, for its leases.
    Leases(LeaseBatch),
}

impl Asked {
    pub(crate) fn batch(&self) -> &Batch {
        match self {
            Self::Request(pending, _) => pending.batch().expect("only those that ask the store are carried"),
            Self::Leases(batch) => batch.batch(),
        }
    }
}

/// One call, from the first copy sent to the last arrived.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) member: u32,
    pub(crate) run: u64,
    /// `None` once it has ended: by an answer, or because it took too long.
    pub(crate) asked: Option<Asked>,
    /// The batch, where copies are still on their way although the call has ended.
    late: Option<Box<Batch>>,
    /// Copies on their way to the store.
    pub(crate) flying: u32,
}

/// The name of a call. Places are used again; the number tells calls of one place apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallName {
    place: u32,
    number: u32,
}

/// All calls under way.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    places: Vec<(u32, Option<Call>)>,
    free: Vec<u32>,
}

impl Calls {
    pub(crate) fn begin(&mut self, member: u32, run: u64, asked: Asked, flying: u32) -> CallName {
        let call = Call { member, run, asked: Some(asked), late: None, flying };
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push((0, None));
            self.places.len() as u32 - 1
        });
        let (number, kept) = &mut self.places[place as usize];
        *number = number.wrapping_add(1);
        *kept = Some(call);
        CallName { place, number: *number }
    }

    /// The batch of a call of which a copy has arrived at the store, and whose it is.
    pub(crate) fn batch(&self, name: CallName) -> Option<(&Call, &Batch)> {
        let call = self.get(name)?;
        let batch = call.asked.as_ref().map(Asked::batch).or(call.late.as_deref())?;
        Some((call, batch))
    }

    /// A copy has arrived at the store.
    pub(crate) fn landed(&mut self, name: CallName) {
        if let Some(call) = self.get_mut(name) {
            call.flying -= 1;
            self.free_if_done(name);
        }
    }

    /// The call has ended; `None` if it had before.
    pub(crate) fn end(&mut self, name: CallName) -> Option<(u32, u64, Asked)> {
        let call = self.get_mut(name)?;
        let asked = call.asked.take()?;
        if call.flying > 0 {
            call.late = Some(Box::new(asked.batch().clone()));
        }
        let ended = (call.member, call.run, asked);
        self.free_if_done(name);
        Some(ended)
    }

    fn free_if_done(&mut self, name: CallName) {
        let (_, kept) = &mut self.places[name.place as usize];
        if kept.as_ref().is_some_and(|call| call.asked.is_none() && call.flying == 0) {
            *kept = None;
            self.free.push(name.place);
        }
    }

    fn get(&self, name: CallName) -> Option<&Call> {
        let (number, call) = &self.places[name.place as usize];
        call.as_ref().filter(|_| *number == name.number)
    }

    fn get_mut(&mut self, name: CallName) -> Option<&mut Call> {
        let (number, call) = &mut self.places[name.place as usize];
        call.as_mut().filter(|_| *number == name.number)
    }
}
