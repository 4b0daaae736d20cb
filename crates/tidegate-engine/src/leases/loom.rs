//! Interleavings of messages that are posted and taken, and of landings and requests that wait for
//! them.

use core::pin::pin;
use core::task::{Context, Poll};
use std::sync::Arc;
use std::task::Wake;

use loom::sync::atomic::{AtomicUsize, Ordering, fence};
use loom::thread;
use tidegate_core::Cost;
use tidegate_core::lease::{Ask, HolderName};
use tidegate_store::{Batch, RequestId};

use super::flight::{Flight, Landing};
use super::lease_batch::{DueAsk, Posted};
use super::leased_key::LeasedKey;
use super::outbox::Outbox;

/// Counts how often a task is woken.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wakes {
    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn flight() -> Arc<Flight> {
    Arc::new(Flight::new(Arc::new(LeasedKey::for_loom(7))))
}

fn post_ask(outbox: &Outbox) {
    let flight = flight();
    let ask = Ask::first(HolderName { member: 1, incarnation: 1 }, 0);
    outbox.post_ask(DueAsk { about: flight.about(), ask, flight, remote: None });
}

fn post_undo(outbox: &Outbox) {
    outbox.post_undo(Batch::each(RequestId(1), []));
}

fn post_refund(outbox: &Outbox) {
    outbox.post_refund((Arc::new(LeasedKey::for_loom(7)), Cost::ONE));
}

/// How many messages were taken.
fn count(posted: &Posted) -> usize {
    posted.asks.len() + posted.refunds.len() + posted.undos.len()
}

/// A task that polls the outbox again whenever it was woken, as an executor does.
struct Poller {
    outbox: Arc<Outbox>,
    wakes: Arc<Wakes>,
    /// The number of wake-ups before the last poll.
    seen: usize,
    taken: usize,
    is_first: bool,
}

impl Poller {
    fn new(outbox: &Arc<Outbox>) -> Self {
        let wakes = Arc::new(Wakes::default());
        Self { outbox: Arc::clone(outbox), wakes, seen: 0, taken: 0, is_first: true }
    }

    /// Polls as often as it may: at first, after a message, and when it was woken since.
    fn run(&mut self) {
        let waker = Arc::clone(&self.wakes).into();
        let mut context = Context::from_waker(&waker);
        while self.is_first || self.wakes.count() != self.seen {
            self.is_first = false;
            self.seen = self.wakes.count();
            while let Poll::Ready(posted) = self.outbox.poll(&mut context) {
                self.taken += count(&posted);
            }
        }
    }
}

#[test]
fn loom_an_ask_or_an_undo_posted_while_the_outbox_is_polled_is_taken_or_announced() {
    for post in [post_ask, post_undo, post_refund] {
        loom::model(move || {
            let outbox = Arc::new(Outbox::default());
            let mut poller = Poller::new(&outbox);
            let poster = thread::spawn(move || post(&outbox));
            poller.run();
            poster.join().unwrap();
            poller.run();
            assert_eq!(poller.taken, 1);
        });
    }
}

#[test]
fn loom_messages_of_two_threads_are_all_taken_by_the_task_that_polls() {
    loom::model(|| {
        let outbox = Arc::new(Outbox::default());
        let mut poller = Poller::new(&outbox);
        let posters = [post_ask, post_undo].map(|post| {
            let outbox = Arc::clone(&outbox);
            thread::spawn(move || post(&outbox))
        });
        poller.run();
        posters.into_iter().for_each(|poster| poster.join().unwrap());
        poller.run();
        assert_eq!(poller.taken, 2);
    });
}

#[test]
fn loom_a_message_that_its_poster_takes_itself_is_taken_once() {
    loom::model(|| {
        let outbox = Arc::new(Outbox::default());
        let mut poller = Poller::new(&outbox);
        let poster = {
            let outbox = Arc::clone(&outbox);
            thread::spawn(move || {
                post_ask(&outbox);
                let first = outbox.take().as_ref().map_or(0, count);
                post_undo(&outbox);
                first
            })
        };
        poller.run();
        let by_poster = poster.join().unwrap();
        poller.run();
        assert_eq!(by_poster + poller.taken, 2);
        assert!(outbox.take().is_none());
    });
}

#[test]
fn loom_a_member_that_leaves_takes_what_another_thread_posted() {
    loom::model(|| {
        let outbox = Arc::new(Outbox::default());
        let poster = {
            let outbox = Arc::clone(&outbox);
            // A thread that posts takes what is there then, unless another thread was faster.
            thread::spawn(move || {
                let mut taken = 0;
                for post in [post_ask, post_undo] {
                    post(&outbox);
                    taken += outbox.take().as_ref().map_or(0, count);
                }
                taken
            })
        };
        let by_leaver = outbox.take().as_ref().map_or(0, count);
        assert_eq!(poster.join().unwrap() + by_leaver, 2);
    });
}

/// The driver sends asks only while fewer renewals are in flight than may be; a renewal that ends
/// looks for asks. Both sides have a fence between their write and their look.
#[test]
fn loom_an_ask_that_finds_every_renewal_in_flight_is_taken_by_the_renewal_that_ends() {
    loom::model(|| {
        let (outbox, free) = (Arc::new(Outbox::default()), Arc::new(AtomicUsize::new(0)));
        let look = |outbox: &Outbox, free: &AtomicUsize| {
            fence(Ordering::SeqCst);
            let is_free = free.load(Ordering::Relaxed) > 0;
            if is_free { outbox.take().as_ref().map_or(0, count) } else { 0 }
        };
        let poster = {
            let (outbox, free) = (Arc::clone(&outbox), Arc::clone(&free));
            thread::spawn(move || {
                post_ask(&outbox);
                look(&outbox, &free)
            })
        };
        free.store(1, Ordering::Relaxed);
        let by_renewal = look(&outbox, &free);
        assert_eq!(poster.join().unwrap() + by_renewal, 1);
    });
}

#[test]
fn loom_every_request_that_waits_for_an_ask_is_woken_when_the_ask_lands() {
    loom::model(|| {
        let flight = flight();
        let lander = {
            let flight = Arc::clone(&flight);
            thread::spawn(move || flight.land(2))
        };
        let flights = [flight];
        let requests = [Arc::new(Wakes::default()), Arc::new(Wakes::default())];
        let waits = requests.each_ref().map(|wakes| {
            let waker = Arc::clone(wakes).into();
            pin!(Landing(&flights)).poll(&mut Context::from_waker(&waker)).is_pending()
        });
        lander.join().unwrap();
        assert_eq!(requests.each_ref().map(|wakes| wakes.count()), waits.map(usize::from));
        assert!(Landing(&flights).is_over());
    });
}

#[test]
fn loom_the_units_of_a_landing_are_taken_once() {
    loom::model(|| {
        let flight = flight();
        flight.land(1);
        let other = {
            let flight = Arc::clone(&flight);
            thread::spawn(move || flight.take(1))
        };
        let is_mine = flight.take(1);
        assert_ne!(other.join().unwrap(), is_mine);
    });
}

#[test]
fn loom_a_request_that_waits_for_two_asks_is_woken_by_the_last_that_lands() {
    loom::model(|| {
        let flights = [flight(), flight()];
        let landers = flights.each_ref().map(|flight| {
            let flight = Arc::clone(flight);
            thread::spawn(move || flight.land(0))
        });
        let wakes = Arc::new(Wakes::default());
        let waker = Arc::clone(&wakes).into();
        let mut context = Context::from_waker(&waker);
        let mut is_over = pin!(Landing(&flights)).poll(&mut context).is_ready();
        landers.into_iter().for_each(|lander| lander.join().unwrap());
        if wakes.count() > 0 {
            is_over = pin!(Landing(&flights)).poll(&mut context).is_ready();
        }
        assert!(is_over);
    });
}
