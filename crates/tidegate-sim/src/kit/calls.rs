//! Calls under way: messages that expect an answer, from the first copy sent to the last arrived.

use std::collections::VecDeque;

use super::network::PartyId;

/// The origin of a call: the thing that goes on when the call ends.
pub trait CallOrigin {
    /// The message that its copies carry.
    type Message: Clone + core::fmt::Debug;

    /// The message.
    fn message(&self) -> &Self::Message;
}

/// One call.
#[derive(Debug)]
pub struct Call<O: CallOrigin> {
    /// The party that calls.
    pub party: PartyId,
    /// The run of that party: a party that crashes and starts again has another.
    pub run: u64,
    /// `None` once the call has ended: by an answer, or at its deadline.
    origin: Option<O>,
    /// The message, where copies are still on their way although the call has ended.
    late: Option<Box<O::Message>>,
    /// Copies on their way.
    in_flight: u32,
}

/// A call that has ended.
#[derive(Debug)]
pub struct EndedCall<O> {
    /// The party that called.
    pub party: PartyId,
    /// The run that called.
    pub run: u64,
    /// The thing that goes on.
    pub origin: O,
}

/// The name of a call. Places are used again; the number tells calls of one place apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallName {
    place: u32,
    number: u32,
}

/// All calls under way, and when each is given up.
#[derive(Debug)]
pub struct Calls<O: CallOrigin> {
    places: Vec<(u32, Option<Call<O>>)>,
    free: Vec<u32>,
    /// Calls by when they are given up; all are given the same time.
    deadlines: VecDeque<(u64, CallName)>,
    deadline: u64,
}

impl<O: CallOrigin> Calls<O> {
    /// No calls yet. Each will be given up after `deadline` nanoseconds.
    pub fn new(deadline: u64) -> Self {
        Self { places: Vec::new(), free: Vec::new(), deadlines: VecDeque::new(), deadline }
    }

    /// Begins a call, of which `copies` are on their way.
    pub fn begin(&mut self, party: PartyId, run: u64, origin: O, copies: u32, now: u64) -> CallName {
        let call = Call { party, run, origin: Some(origin), late: None, in_flight: copies };
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push((0, None));
            self.places.len() as u32 - 1
        });
        let (number, kept) = &mut self.places[place as usize];
        *number = number.wrapping_add(1);
        *kept = Some(call);
        let name = CallName { place, number: *number };
        self.deadlines.push_back((now + self.deadline, name));
        name
    }

    /// When the next call is given up. It may have ended since; then nothing comes of it.
    pub fn next_deadline(&self) -> Option<u64> {
        self.deadlines.front().map(|(at, _)| *at)
    }

    /// The call of [`Calls::next_deadline`], once.
    pub fn pop_deadline(&mut self) -> Option<CallName> {
        self.deadlines.pop_front().map(|(_, name)| name)
    }

    /// The call of which a copy has arrived, and its message.
    pub fn message(&self, name: CallName) -> Option<(&Call<O>, &O::Message)> {
        let (number, call) = &self.places[name.place as usize];
        let call = call.as_ref().filter(|_| *number == name.number)?;
        let message = call.origin.as_ref().map(CallOrigin::message).or(call.late.as_deref())?;
        Some((call, message))
    }

    /// A copy has arrived and is done with.
    pub fn landed(&mut self, name: CallName) {
        if let Some(call) = self.get_mut(name) {
            call.in_flight -= 1;
            self.free_if_done(name);
        }
    }

    /// Ends the call; `None` if it had ended before.
    pub fn end(&mut self, name: CallName) -> Option<EndedCall<O>> {
        let call = self.get_mut(name)?;
        let origin = call.origin.take()?;
        if call.in_flight > 0 {
            call.late = Some(Box::new(origin.message().clone()));
        }
        let ended = EndedCall { party: call.party, run: call.run, origin };
        self.free_if_done(name);
        Some(ended)
    }

    fn free_if_done(&mut self, name: CallName) {
        let (_, kept) = &mut self.places[name.place as usize];
        if kept.as_ref().is_some_and(|call| call.origin.is_none() && call.in_flight == 0) {
            *kept = None;
            self.free.push(name.place);
        }
    }

    fn get_mut(&mut self, name: CallName) -> Option<&mut Call<O>> {
        let (number, call) = &mut self.places[name.place as usize];
        call.as_mut().filter(|_| *number == name.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl CallOrigin for &'static str {
        type Message = Self;

        fn message(&self) -> &Self {
            self
        }
    }

    #[test]
    fn a_copy_that_arrives_after_the_call_has_ended_still_has_its_message() {
        let mut calls = Calls::new(10);
        let name = calls.begin(3, 1, "deposit", 2, 0);
        assert_eq!(
            calls.end(name).map(|ended| (ended.party, ended.run, ended.origin)),
            Some((3, 1, "deposit"))
        );
        assert!(calls.end(name).is_none(), "it has ended");
        for _ in 0..2 {
            assert_eq!(
                calls.message(name).map(|(call, message)| (call.party, *message)),
                Some((3, "deposit"))
            );
            calls.landed(name);
        }
        assert!(calls.message(name).is_none(), "both copies have arrived");
    }

    #[test]
    fn a_place_is_used_again_and_an_old_name_does_not_reach_the_new_call() {
        let mut calls = Calls::new(10);
        let old = calls.begin(0, 1, "old", 0, 0);
        assert!(calls.end(old).is_some());
        let new = calls.begin(0, 1, "new", 1, 5);
        assert_eq!(calls.places.len(), 1);
        assert!(calls.message(old).is_none() && calls.end(old).is_none());
        assert_eq!(calls.next_deadline(), Some(10));
        assert_eq!((calls.pop_deadline(), calls.next_deadline()), (Some(old), Some(15)));
        assert_eq!(calls.end(new).map(|ended| ended.origin), Some("new"));
    }
}
