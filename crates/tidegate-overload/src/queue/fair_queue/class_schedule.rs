//! The turn of the classes: by weight, with a capped reserve for the highest and a floor for
//! background classes.
//!
//! Each class has a start tag: the virtual time at which its next request starts. The class with
//! the smallest tag is next; a served cost moves its tag on by cost / weight, and the virtual time
//! of the queue is the start tag of what was served last. A class that did not wait starts at the
//! virtual time, so that it neither hoards credit nor pays for what it was served meanwhile.
//!
//! Requests served out of this order, by reserve or by floor, do not move the virtual time, and
//! their class is at most one request ahead of it.

use tidegate_core::Class;

use super::queue_config::{QueueConfig, Share};

/// Virtual time: cost divided by weight, in parts of [`SCALE`].
type VirtualTime = u128;

const SCALE: u128 = 1 << 32;

/// After so many requests a [`Ledger`] forgets half of them.
const LEDGER_REQUESTS: u32 = 1024;

/// The part of the served cost that one class got, while it competed with others.
#[derive(Clone, Copy, Debug, Default)]
struct Ledger {
    own: f64,
    total: f64,
    requests: u32,
}

impl Ledger {
    #[expect(clippy::cast_precision_loss, reason = "costs are below 2^32")]
    fn record(&mut self, cost: u64, is_own: bool) {
        self.total += cost as f64;
        if is_own {
            self.own += cost as f64;
        }
        self.requests += 1;
        if self.requests >= LEDGER_REQUESTS {
            *self = Self { own: self.own / 2.0, total: self.total / 2.0, requests: LEDGER_REQUESTS / 2 };
        }
    }

    /// Whether the class got no more than its share.
    fn is_within(&self, share: Share) -> bool {
        share > Share::NONE && self.own <= share.as_ratio() * self.total
    }

    /// Whether the class got less than its share.
    fn is_below(&self, share: Share) -> bool {
        self.own < share.as_ratio() * self.total
    }
}

/// Which class is next.
#[derive(Clone, Debug, Default)]
pub(super) struct ClassSchedule {
    virtual_time: VirtualTime,
    starts: [VirtualTime; 4],
    reserve: Ledger,
    background: [Ledger; 4],
    tickets: Ledger,
}

impl ClassSchedule {
    /// The next of the classes that wait.
    pub(super) fn next(&self, config: &QueueConfig, waits: [bool; 4]) -> Option<Class> {
        let is_foreground = |class: &Class| config.min_shares[*class as usize].is_none();
        let waiting = || Class::ALL.into_iter().rev().filter(|class| waits[*class as usize]);
        let below = waiting().find(|class| {
            let share = config.min_shares[*class as usize];
            share.is_some_and(|share| self.background[*class as usize].is_below(share))
        });
        below
            .or_else(|| waiting().find(|class| self.is_reserved(config, *class)))
            .or_else(|| self.first(waiting().filter(is_foreground)))
            .or_else(|| self.first(waiting()))
    }

    /// Whether a request with a ticket is next whatever its class is: such requests got less than
    /// their share.
    pub(super) fn is_reserved_for_tickets(&self, config: &QueueConfig) -> bool {
        self.tickets.is_within(config.ticket_share)
    }

    /// Notes a cost that was served while requests with and without tickets waited.
    pub(super) fn record_tickets(&mut self, cost: u64, has_ticket: bool) {
        self.tickets.record(cost, has_ticket);
    }

    fn is_reserved(&self, config: &QueueConfig, class: Class) -> bool {
        class == Class::CriticalPlus && self.reserve.is_within(config.reserve_share)
    }

    /// The class with the smallest start tag; of equal ones the first.
    fn first(&self, classes: impl Iterator<Item = Class>) -> Option<Class> {
        classes.min_by_key(|class| self.start(*class))
    }

    fn start(&self, class: Class) -> VirtualTime {
        self.starts[class as usize].max(self.virtual_time)
    }

    /// A request of a class is served while these classes wait, its own among them; `has_reserve`:
    /// out of the part that is reserved for tickets.
    pub(super) fn charge(
        &mut self,
        config: &QueueConfig,
        class: Class,
        cost: u64,
        waits: [bool; 4],
        has_reserve: bool,
    ) {
        let foreground = |other: Class| waits[other as usize] && config.min_shares[other as usize].is_none();
        let others = |class: Class| Class::ALL.into_iter().filter(move |other| *other != class);
        let is_contested = others(class).any(foreground);
        let is_reserved = has_reserve || self.is_reserved(config, class);
        let is_by_weight = config.min_shares[class as usize].is_none() && !is_reserved || !is_contested;
        let start = self.start(class);
        let step = step(config, class, cost);
        if is_by_weight {
            let first = others(class).filter(|other| foreground(*other)).map(|other| self.start(other)).min();
            self.virtual_time = first.map_or(start, |first| first.min(start));
            self.starts[class as usize] = start + step;
        } else {
            self.starts[class as usize] = start.max(self.virtual_time + step);
        }
        if waits[Class::CriticalPlus as usize] && others(Class::CriticalPlus).any(foreground) {
            self.reserve.record(cost, class == Class::CriticalPlus);
        }
        for background in Class::ALL.into_iter().filter(|one| waits[*one as usize]) {
            if config.min_shares[background as usize].is_some() && others(background).any(foreground) {
                self.background[background as usize].record(cost, class == background);
            }
        }
    }

    /// The true cost of a served request has become known. A class is never credited with more than
    /// the virtual time has passed.
    pub(super) fn correct(&mut self, config: &QueueConfig, class: Class, charged: u64, cost: u64) {
        let start = self.start(class);
        let (more, less) = (
            step(config, class, cost.saturating_sub(charged)),
            step(config, class, charged.saturating_sub(cost)),
        );
        self.starts[class as usize] = (start + more).saturating_sub(less).max(self.virtual_time);
    }

    /// Nothing waits any more: a busy period ends, and with it what the classes owe.
    pub(super) fn rest(&mut self) {
        self.virtual_time = self.starts.into_iter().fold(self.virtual_time, VirtualTime::max);
    }
}

fn step(config: &QueueConfig, class: Class, cost: u64) -> VirtualTime {
    u128::from(cost) * SCALE / u128::from(config.weights[class as usize].max(1))
}
