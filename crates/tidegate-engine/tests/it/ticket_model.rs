//! Random lives of a member that defers, beside a model that shares no code with it.
//!
//! The model knows of each ticket's text whose it is, when it is good, and what it was used for. It
//! states what must hold of every answer of the engine, and counts what the engine counts.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use core::ops::Range;
use core::time::Duration;

use tidegate_capacity::Capacity;
use tidegate_core::algorithm::Concurrency;
use tidegate_core::{Algorithm, Class, Limit, Reason, Refusal, RefusalDetails, Timestamp};
use tidegate_engine::{
    Answered, Decision, Engine, Event, NamespaceConfig, OfferOutcome, Outcome, Pending, Permit, Step,
    TicketFault, TicketReport,
};
use tidegate_overload::{
    Cursor, DeferralConfig, DeferralCounts, LoadLevel, Overload, OverloadBuilder, QueueConfig,
    ResourceConfig, Share, TicketClock, TicketIssuer, TicketState,
};
use tidegate_test_support::SplitMix64;

use self::known_keys::KnownKeys;
use self::known_resource::{KnownResource, quarters_of};
use self::known_ticket::{Caller, KnownTicket, RESOURCES, Worth};
use crate::world::{NOW, config, turn};

mod known_keys;
mod known_resource;
mod known_ticket;
mod seconds_sold;

const SECOND: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(100);
const HOUR: Duration = Duration::from_hours(1);
const NAMESPACES: [&str; 3] = ["shop", "blog", "few"];
const TENANTS: [&str; 6] = ["ada", "ben", "cem", "dan", "eve", "fay"];
/// The requests of one user in flight that namespace `few` allows.
const FEW: usize = 2;
/// The faults of a text that was changed.
const OF_THE_TEXT: [TicketFault; 4] =
    [TicketFault::Malformed, TicketFault::Version, TicketFault::UnknownKey, TicketFault::Forged];
/// The tickets that the model remembers.
const TICKETS_MAX: usize = 300;

/// A request that is served.
struct Served {
    permit: Permit,
    caller: Caller,
    ticket: Option<u64>,
}

/// A request that waits for its turn.
struct Waits {
    pending: Pending,
    caller: Caller,
    /// The ticket that it holds, and the one that it has shown.
    ticket: Option<u64>,
    shown: Option<Shown>,
}

/// A ticket as a request shows it: the known one that it is or was made of, and its text.
#[derive(Clone, Debug)]
struct Shown {
    id: u64,
    text: String,
    /// Whether the text was changed.
    is_damaged: bool,
}

struct Life {
    random: SplitMix64,
    now: Timestamp,
    engine: Engine,
    starts: u64,
    clock: TicketClock,
    keys: KnownKeys,
    resources: [KnownResource; 2],
    tickets: BTreeMap<u64, KnownTicket>,
    next_id: u64,
    served: Vec<Served>,
    waiting: Vec<Waits>,
    faults: [u64; TicketFault::ALL.len()],
    is_closed: bool,
    has_stepped: bool,
    is_busy: bool,
    ticks_since_reload: u32,
    costs: u64,
    seen: BTreeMap<&'static str, u64>,
}

impl Life {
    fn new(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let ahead = *random.choose(&[0, 2_000_000_000, -3_600_500_000_000]);
        let costs = *random.choose(&[1, 1, 5]);
        let mut life = Self {
            random,
            now: NOW,
            engine: Engine::builder(config()).build().unwrap(),
            starts: 0,
            clock: TicketClock::ahead_by(ahead),
            keys: KnownKeys::new(),
            resources: Default::default(),
            tickets: BTreeMap::new(),
            next_id: 0,
            served: Vec::new(),
            waiting: Vec::new(),
            faults: Default::default(),
            is_closed: false,
            has_stepped: false,
            is_busy: true,
            ticks_since_reload: 0,
            costs,
            seen: BTreeMap::new(),
        };
        life.restart();
        life
    }

    fn saw(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    fn step(&mut self) {
        let load = if self.is_busy { 3_000 } else { 800 };
        match self.random.below(10_000) {
            chance if chance < load => {
                let caller = self.any_caller();
                self.ask(caller, None);
            }
            0..5_500 => self.come_back(),
            5_500..6_800 => self.show_a_bad_one(),
            6_800..8_300 => self.end_one(),
            8_300..8_700 => self.go_on(),
            8_700..9_850 => self.pass(),
            9_850..9_890 => self.is_busy = !self.is_busy,
            9_890..9_920 => {
                let millis = 500 + self.random.below(8_000);
                self.now = self.now.saturating_add(Duration::from_millis(millis));
            }
            9_920..9_950 => self.pin(),
            9_950..9_970 => self.reload(),
            9_970..9_985 => self.rotate(),
            9_985..9_992 => self.step_clock(),
            _ => self.restart(),
        }
    }

    /// The instant on the clock of tickets.
    fn ticket_now(&self) -> Timestamp {
        self.clock.from_member(self.now)
    }

    fn any_caller(&mut self) -> Caller {
        let random = &mut self.random;
        Caller {
            namespace: random.choose::<&'static str>(&NAMESPACES),
            tenant: [("user", *random.choose(&TENANTS))],
            resource: usize::from(random.below(5) == 0),
            operation: *random.choose(&[None, None, Some("export")]),
            class: *random.choose(&[Class::Sheddable, Class::Sheddable, Class::SheddablePlus]),
            cost: 1 + random.below(self.costs),
        }
    }

    fn any_ticket(&mut self) -> Option<u64> {
        let mut found = None;
        let now = self.ticket_now();
        for _ in 0..6 {
            let from = self.next_id.saturating_sub(1 + self.random.below(TICKETS_MAX as u64));
            let (id, ticket) = self.tickets.range(from..).next()?;
            found = Some(*id);
            if !ticket.is_spent && ticket.not_before <= now && now < ticket.expires {
                break;
            }
        }
        found
    }

    /// A bearer comes back with its ticket, now and then at a lower cost or class.
    fn come_back(&mut self) {
        let Some(id) = self.any_ticket() else { return };
        let KnownTicket { text, bearer, .. } = self.tickets[&id].clone();
        let mut caller = bearer;
        if self.random.below(10) == 0 {
            caller.cost = 1;
            caller.class = Class::Sheddable;
        }
        self.ask(caller, Some(Shown { id, text, is_damaged: false }));
    }

    /// A caller shows a ticket of another request, or a damaged one. The ticket keeps its worth for
    /// its bearer.
    fn show_a_bad_one(&mut self) {
        let Some(id) = self.any_ticket() else { return };
        let KnownTicket { mut text, bearer, .. } = self.tickets[&id].clone();
        let mut caller = bearer;
        let mut is_damaged = false;
        match self.random.below(8) {
            0 => caller.namespace = self.random.choose::<&'static str>(&NAMESPACES),
            1 => caller.tenant = [("user", *self.random.choose(&TENANTS))],
            2 => caller.resource = 1 - caller.resource,
            3 => caller.operation = *self.random.choose(&[None, Some("export"), Some("delete")]),
            4 => caller.cost = *self.random.choose(&[bearer.cost.saturating_add(1), u64::MAX]),
            5 => caller.class = Class::SheddablePlus,
            6 => {
                is_damaged = true;
                text.truncate(self.random.below(text.len() as u64) as usize);
            }
            _ => {
                is_damaged = true;
                // One bit of the text; some such texts are not base64.
                let at = self.random.below(text.len() as u64) as usize;
                let bit = 1 << self.random.below(7);
                let byte = [text.as_bytes()[at] ^ bit];
                text.replace_range(at..=at, core::str::from_utf8(&byte).unwrap());
            }
        }
        let before = self.worth_to_bearer(id);
        self.ask(caller, Some(Shown { id, text, is_damaged }));
        if caller != bearer || is_damaged {
            let is_good = |ticket: &KnownTicket| ticket.fault_for(&caller, &self.keys.keys).is_none();
            let is_lower = !is_damaged && self.tickets.get(&id).is_some_and(is_good);
            let after = self.worth_to_bearer(id);
            let is_known = self.tickets.contains_key(&id);
            let is_same = before == after || !is_known || changes_by_itself(before, after);
            assert!(is_lower || is_same, "{before:?} became {after:?} by {caller:?}");
        }
    }

    fn worth_to_bearer(&self, id: u64) -> Option<TicketReport> {
        let ticket = self.tickets.get(&id)?;
        self.engine.ticket_report(&ticket.bearer.request(Some(&ticket.text)), self.now)
    }

    /// The worth of a ticket that is shown now, which the report of the engine must agree with.
    fn worth(&mut self, caller: &Caller, shown: &Shown) -> Worth {
        let report = self.engine.ticket_report(&caller.request(Some(&shown.text)), self.now);
        let report = report.expect("a ticket is shown");
        if !self.resources[caller.resource].defers(caller.class) {
            assert_eq!(report, TicketReport::NotDeferred);
            return Worth::None;
        }
        let ticket = &self.tickets[&shown.id];
        if shown.is_damaged {
            let TicketReport::Faulty(fault) = report else { panic!("{shown:?} is {report:?}") };
            assert!(OF_THE_TEXT.contains(&fault), "{fault:?}");
            return Worth::Faulty(fault);
        }
        if let Some(fault) = ticket.fault_for(caller, &self.keys.keys) {
            assert_eq!(report, TicketReport::Faulty(fault), "{ticket:?} for {caller:?}");
            return Worth::Faulty(fault);
        }
        let TicketReport::Good { terms, state } = report else { panic!("{ticket:?} is {report:?}") };
        assert_eq!((terms.deferrals, terms.cost.units()), (ticket.deferrals, ticket.bearer.cost));
        assert_eq!(self.clock.from_member(terms.not_before), ticket.not_before);
        let now = self.ticket_now();
        match state {
            TicketState::Due => {
                assert!(!ticket.is_spent && now < ticket.expires, "{ticket:?} is due at {now}");
                if now < ticket.not_before {
                    let slot = ticket.slot();
                    let (level, deferral) = self.load(caller.resource);
                    let to = deferral.and_then(|(_, pulled_to)| pulled_to).unwrap_or(now.as_secs());
                    // Where requests were not deferred, the calendar hears of the level at a tick.
                    let is_below_hard = level < LoadLevel::Hard || self.ticks_since_reload == 0;
                    assert!(is_below_hard && slot <= to, "{ticket:?} is due at {level:?} before {to}");
                    self.saw("due early");
                }
                Worth::Due
            }
            TicketState::Early { come_back } => {
                assert!(!ticket.is_spent && now < ticket.not_before, "{ticket:?} is early at {now}");
                assert!(come_back > self.now && come_back <= self.clock.to_member(ticket.not_before));
                Worth::Early
            }
            TicketState::Expired => {
                let is_forgotten = ticket.is_over(now) || self.has_stepped;
                assert!(now >= ticket.expires || self.has_stepped, "{ticket:?} is expired at {now}");
                assert!(!ticket.is_spent || is_forgotten, "{ticket:?} is not remembered at {now}");
                Worth::Expired
            }
            TicketState::Spent => {
                assert!(ticket.is_spent, "{ticket:?} is good");
                Worth::Spent
            }
            TicketState::NoRoom => panic!("there is room for {ticket:?}"),
        }
    }

    /// The worth of a ticket that a request held until it was refused. It is not looked at: the
    /// refusal may have replaced it.
    fn worth_after_wait(&self, caller: &Caller, shown: &Shown) -> Worth {
        let Some(ticket) = self.tickets.get(&shown.id) else { return Worth::None };
        if !self.resources[caller.resource].defers(caller.class) {
            return Worth::None;
        }
        match ticket.fault_for(caller, &self.keys.keys) {
            Some(fault) => Worth::Faulty(fault),
            None if self.ticket_now() < ticket.expires => Worth::Due,
            None => Worth::Expired,
        }
    }

    /// The load level of a resource, its shown capacity and the last second that is due early.
    fn load(&self, resource: usize) -> (LoadLevel, Option<(f64, Option<u64>)>) {
        let mut all = self.engine.resource_stats(self.now);
        let stats = all.find(|one| one.name == Some(RESOURCES[resource])).unwrap();
        let deferral = stats.deferral.map(|one| (one.capacity, one.calendar.pulled_to));
        (stats.level, deferral)
    }

    fn in_flight(&self, resource: usize) -> u64 {
        self.served.iter().filter(|one| one.caller.resource == resource).count() as u64
    }

    /// Whether a caller has all the requests in flight that its own limit allows.
    fn is_over_limit(&self, caller: &Caller) -> bool {
        let is_own = |one: &&Served| (one.caller.namespace, one.caller.tenant) == ("few", caller.tenant);
        caller.namespace == "few" && self.served.iter().filter(is_own).count() >= FEW
    }

    fn ask(&mut self, caller: Caller, shown: Option<Shown>) {
        let worth = shown.as_ref().map_or(Worth::None, |shown| self.worth(&caller, shown));
        let known = &self.resources[caller.resource];
        let (defers, is_free) = (known.defers(caller.class), self.in_flight(caller.resource) < known.places);
        let is_over = self.is_over_limit(&caller);
        self.count_shown(worth, caller.resource);
        let mut request = caller.request(shown.as_ref().map(|shown| &*shown.text));
        let is_patient = self.random.below(8) == 0;
        if is_patient {
            let millis = 50 + self.random.below(3_000);
            request = request.may_wait_until(self.now.saturating_add(Duration::from_millis(millis)));
        }
        let step = self.engine.admit(&request, self.now).unwrap();
        let used = (worth == Worth::Due).then(|| shown.as_ref().expect("a ticket is due").id);
        match step {
            Step::Decided(Decision::Admit(permit)) => {
                assert!(is_free && !is_over, "{caller:?} is admitted");
                let may_pass = used.is_some() || !self.is_closed;
                if self.is_closed {
                    self.saw("passes a closed cursor");
                }
                assert!(may_pass, "{caller:?} passes a closed cursor with a ticket that is {worth:?}");
                self.admitted(permit, caller, used);
            }
            Step::Decided(Decision::Refuse(refused)) => {
                let refusal = refused.into_refusal();
                let is_early = worth == Worth::Early;
                if is_over && defers && !is_early {
                    assert_ne!(refusal.reason(), Reason::Deferred, "{refusal:?} over a limit");
                    let is_told = refusal.reason() == Reason::ConcurrencyExceeded;
                    assert!(is_patient || is_told, "{refusal:?} over a limit");
                    if used.is_some() {
                        self.saw("denied by a limit");
                    }
                }
                // The return of an early ticket is no new demand.
                let is_deferred = refusal.reason() == Reason::Deferred && !is_early;
                self.resources[caller.resource].deferred += u64::from(is_deferred);
                self.refused(&refusal, &caller, shown.as_ref(), worth);
            }
            Step::Ask(pending) => {
                assert!(is_patient && worth != Worth::Early, "{caller:?} waits, {worth:?}");
                if let Some(id) = used {
                    self.spend(id, caller.resource);
                    self.saw("waits with its ticket");
                }
                self.waiting.push(Waits { pending, caller, ticket: used, shown });
            }
        }
        self.check_counts(caller.resource);
    }

    fn count_shown(&mut self, worth: Worth, resource: usize) {
        let known = &mut self.resources[resource];
        match worth {
            Worth::Faulty(fault) => self.faults[fault as usize] += 1,
            Worth::Early => known.early += 1,
            Worth::Expired => known.expired += 1,
            Worth::Spent => known.replayed += 1,
            Worth::None | Worth::Due => {}
        }
        self.saw(match worth {
            Worth::None => "no ticket",
            Worth::Faulty(_) => "faulty",
            Worth::Due => "due",
            Worth::Early => "early",
            Worth::Expired => "expired",
            Worth::Spent => "spent",
        });
    }

    fn spend(&mut self, id: u64, resource: usize) {
        if let Some(ticket) = self.tickets.get_mut(&id) {
            assert!(!ticket.is_spent, "{ticket:?} is used twice");
            ticket.is_spent = true;
        }
        self.resources[resource].spent += 1;
    }

    /// A request is served, with a ticket that is spent now.
    fn admitted(&mut self, permit: Permit, caller: Caller, used: Option<u64>) {
        if let Some(id) = used {
            self.spend(id, caller.resource);
        }
        self.begin(permit, caller, used);
    }

    /// A request is served, with a ticket that was spent.
    fn begin(&mut self, permit: Permit, caller: Caller, used: Option<u64>) {
        if let Some(ticket) = used.and_then(|id| self.tickets.get_mut(&id)) {
            ticket.served += 1;
            assert!(ticket.served <= ticket.starts, "{ticket:?} serves more than one at a start");
            if ticket.served == 2 {
                self.saw("served once more after a restart");
            }
        }
        self.served.push(Served { permit, caller, ticket: used });
        if used.is_some() {
            self.saw("served with a ticket");
        }
    }

    fn give_back(&mut self, id: u64, resource: usize) {
        self.resources[resource].spent -= 1;
        if let Some(ticket) = self.tickets.get_mut(&id) {
            ticket.is_spent = false;
        }
        self.saw("given back");
    }

    /// A request is refused: with a ticket if, and only if, it is to have one.
    fn refused(&mut self, refusal: &Refusal, caller: &Caller, shown: Option<&Shown>, worth: Worth) {
        let details = refusal.details.as_deref().and_then(RefusalDetails::overload);
        let told = details.and_then(|details| details.ticket.as_deref()).cloned();
        assert_eq!(refusal.reason() == Reason::Deferred, told.is_some(), "{refusal:?}");
        let defers = self.resources[caller.resource].defers(caller.class);
        let Some(told) = told else {
            assert_ne!(worth, Worth::Early, "{refusal:?}");
            if defers && matches!(refusal.reason(), Reason::OverloadShed | Reason::QueueFull) {
                let known = &mut self.resources[caller.resource];
                known.full += 1;
                known.seconds.ask(caller.namespace, self.clock.from_member(self.now).as_secs());
                self.saw("the calendar is full");
            }
            return;
        };
        assert!(defers, "{caller:?} gets a ticket");
        let (not_before, now) = (self.clock.from_member(told.not_before), self.ticket_now());
        assert!(not_before > now, "{told:?}");
        if let Some(shown) = shown.filter(|shown| *shown.text == *told.text) {
            // The same one: early, or still good for a while.
            let ticket = &self.tickets[&shown.id];
            assert_eq!(ticket.deferrals, told.deferrals);
            assert_eq!(self.clock.from_member(told.expires), ticket.expires);
            match worth {
                Worth::Early => assert!(not_before <= ticket.not_before),
                Worth::Due => assert!(not_before < ticket.expires),
                other => panic!("{told:?} is {other:?}"),
            }
            self.saw("the same ticket");
            return;
        }
        assert_ne!(worth, Worth::Early, "{told:?} in the place of a good one");
        self.sold(&told, caller);
        let deferrals = match (worth, shown) {
            (Worth::Due | Worth::Expired, Some(shown)) => {
                let (now, has_stepped) = (self.ticket_now(), self.has_stepped);
                let ticket = self.tickets.get_mut(&shown.id).expect("it is shown");
                // Another one has taken its place, for the lack of time.
                let is_late = now.saturating_add(SECOND) >= ticket.expires;
                assert!(is_late || worth == Worth::Expired || has_stepped, "{ticket:?} is replaced at {now}");
                // That of a second that is over is expired for good.
                ticket.is_spent |= !ticket.is_over(now);
                ticket.deferrals.saturating_add(1)
            }
            _ => 1,
        };
        assert_eq!(told.deferrals, deferrals, "{told:?}");
        let known = KnownTicket {
            text: told.text.to_string(),
            bearer: *caller,
            key: self.keys.signing(),
            not_before,
            expires: self.clock.from_member(told.expires),
            deferrals,
            is_spent: false,
            served: 0,
            starts: 1,
        };
        assert!(
            self.tickets.values().rev().take(50).all(|one| one.text != known.text),
            "{known:?} is not new"
        );
        assert_eq!(known.expires, known.not_before.saturating_add(5 * SECOND));
        self.tickets.insert(self.next_id, known);
        self.next_id += 1;
        if self.tickets.len() > TICKETS_MAX {
            self.tickets.pop_first();
        }
    }

    /// A new ticket is sold: no second beyond its share.
    fn sold(&mut self, told: &tidegate_core::DeferralTicket, caller: &Caller) {
        let (_, deferral) = self.load(caller.resource);
        let (now, slot) = (self.ticket_now().as_secs(), self.clock.from_member(told.not_before).as_secs());
        let known = &mut self.resources[caller.resource];
        let defer = known.defer.expect("it defers");
        assert!((now + 1..=now + defer.horizon.as_secs()).contains(&slot), "{slot} at {now}");
        let (capacity, _) = deferral.expect("it defers");
        // A capacity that has fallen by a sixteenth may still count in full.
        let room = quarters_of(defer.share, capacity * 16.0 / 15.0);
        known.sold += 1;
        known.seconds.ask(caller.namespace, now);
        if known.seconds.sell(slot, caller, room, self.costs == 1) {
            self.saw("sold beyond the room");
        }
    }

    /// A request ends that is served.
    fn end_one(&mut self) {
        let count = self.served.len() as u64;
        if count == 0 || (self.is_busy && self.random.below(3) > 0) {
            return;
        }
        let Served { permit, caller, ticket } = self.served.swap_remove(self.random.below(count) as usize);
        let outcome = match self.random.below(10) {
            0..3 => Outcome::Cancelled,
            3 => Outcome::Failed,
            4 => Outcome::Abandoned,
            _ => Outcome::Succeeded,
        };
        drop(self.engine.settle(permit, outcome, self.now));
        if let Some(id) = ticket.filter(|_| outcome == Outcome::Cancelled) {
            if let Some(ticket) = self.tickets.get_mut(&id) {
                ticket.served -= 1;
            }
            self.give_back(id, caller.resource);
        }
        self.check_counts(caller.resource);
    }

    /// A request that waits goes on, or its caller leaves.
    fn go_on(&mut self) {
        let count = self.waiting.len() as u64;
        if count == 0 {
            return;
        }
        let at = self.random.below(count) as usize;
        let is_unknown = |shown: &Shown| !self.tickets.contains_key(&shown.id);
        let is_forgotten = self.waiting[at].shown.as_ref().is_some_and(is_unknown);
        let leaves = is_forgotten || self.random.below(5) == 0;
        let is_called = turn(&self.waiting[at].pending).is_called();
        if !leaves && !is_called && turn(&self.waiting[at].pending).wake_at() > self.now {
            return;
        }
        let Waits { pending, caller, ticket, shown } = self.waiting.swap_remove(at);
        if leaves {
            drop(pending);
            if let Some(id) = ticket {
                self.give_back(id, caller.resource);
            }
            self.saw("left the queue");
            self.check_counts(caller.resource);
            return;
        }
        // It is looked at anew, and not counted again.
        let before = match (&ticket, &shown) {
            (None, Some(shown)) => self.worth(&caller, shown),
            _ => Worth::None,
        };
        match self.engine.resume(pending, Answered::Turn, self.now) {
            Step::Decided(Decision::Admit(permit)) => match (ticket, before, &shown) {
                (None, Worth::Due, Some(shown)) => self.admitted(permit, caller, Some(shown.id)),
                _ => self.begin(permit, caller, ticket),
            },
            Step::Decided(Decision::Refuse(refused)) => {
                let refusal = refused.into_refusal();
                let worth = match (ticket, &shown) {
                    (Some(id), Some(shown)) => {
                        self.give_back(id, caller.resource);
                        self.worth_after_wait(&caller, shown)
                    }
                    _ => before,
                };
                let is_deferred = refusal.reason() == Reason::Deferred;
                self.resources[caller.resource].deferred += u64::from(is_deferred);
                self.refused(&refusal, &caller, shown.as_ref(), worth);
            }
            Step::Ask(pending) => self.waiting.push(Waits { pending, caller, ticket, shown }),
        }
        self.check_counts(caller.resource);
    }

    fn pass(&mut self) {
        let millis = 10 + self.random.below(90);
        self.now = self.now.saturating_add(Duration::from_millis(millis));
        if self.random.below(10) < 6 {
            self.now = self.now.saturating_add(TICK);
            drop(self.engine.tick(self.now));
            self.ticks_since_reload += 1;
        }
    }

    fn pin(&mut self) {
        self.is_closed = !self.is_closed;
        let level = self.is_closed.then(|| Cursor::CLOSED.level());
        let until = self.now.saturating_add(10_000 * HOUR);
        for resource in RESOURCES {
            let pin = Event::Pin { resource: Some(resource), level, until };
            self.engine.event(pin, self.now).unwrap();
        }
    }

    fn new_resources(&mut self) -> OverloadBuilder {
        let mut builder = Overload::builder(7);
        for (known, name) in self.resources.iter_mut().zip(RESOURCES) {
            let random = &mut self.random;
            let share = *random.choose(&[Share::percent(20), Share::percent(50), DeferralConfig::SHARE_MAX]);
            let horizon = Duration::from_secs(*random.choose(&[10, 20, 60]));
            let classes: &[Class] = if random.below(3) == 0 {
                &[Class::Sheddable, Class::SheddablePlus]
            } else {
                &[Class::Sheddable]
            };
            let defer = DeferralConfig { share, horizon, ..DeferralConfig::new(classes.iter().copied()) };
            known.defer = (random.below(5) > 0).then_some(defer);
            known.places = 2 + random.below(6);
            let mut resource = ResourceConfig::new(known.places).queue(QueueConfig::default());
            resource.defer = known.defer;
            builder = builder.resource(name, resource);
        }
        builder
    }

    fn reload(&mut self) {
        let resources = self.new_resources();
        self.engine = self.engine.with_planes(Capacity::builder(), resources, self.now).unwrap();
        self.ticks_since_reload = 0;
        self.saw("reload");
        self.check_all();
    }

    fn rotate(&mut self) {
        let new = [self.random.below(250) as u8 + 2; 32];
        let keys = match self.random.below(4) {
            0 => self.keys.give_two(new),
            1 => self.keys.give_one(self.keys.signing()),
            _ => self.keys.give_one(new),
        };
        self.engine.rotate_ticket_keys(keys);
        self.saw("rotation");
    }

    fn step_clock(&mut self) {
        let is_back = self.random.below(2) == 0;
        self.now = if is_back { self.now.saturating_sub(HOUR) } else { self.now.saturating_add(HOUR) };
        self.has_stepped = true;
        self.saw("clock step");
        self.check_all();
    }

    /// The member starts again with the keys it was given: bookings and spent tickets are
    /// forgotten.
    fn restart(&mut self) {
        self.served.clear();
        self.waiting.clear();
        self.starts += 1;
        self.resources = Default::default();
        let hold = Duration::from_hours(24);
        let few = Algorithm::Concurrency(Concurrency::new(FEW as u64, hold).unwrap());
        let namespaces = [
            NamespaceConfig::new("shop", []),
            NamespaceConfig::new("blog", []),
            NamespaceConfig::new("few", [Limit::new("few", few).key(["user"])]),
        ];
        let mut config = config();
        config.table.bytes = 1 << 16;
        let bare = Engine::builder(config).namespaces(namespaces).build().unwrap();
        let resources = self.new_resources();
        self.engine = bare.with_planes(Capacity::builder(), resources, self.now).unwrap();
        self.engine.set_ticket_keys(Some(self.keys.restart()));
        self.engine.set_ticket_issuer(TicketIssuer { member: 1, start: self.starts });
        self.engine.set_ticket_clock(self.clock);
        (self.faults, self.is_closed, self.has_stepped) = (Default::default(), false, false);
        for ticket in self.tickets.values_mut() {
            ticket.is_spent = false;
            ticket.starts += 1;
        }
        self.saw("restart");
    }

    fn check_all(&mut self) {
        (0..RESOURCES.len()).for_each(|resource| self.check_counts(resource));
        let now = self.ticket_now().as_secs();
        self.resources.iter_mut().for_each(|known| known.seconds.forget(now));
    }

    /// The counts of the engine for a resource are those of the model.
    fn check_counts(&self, resource: usize) {
        let mut all = self.engine.resource_stats(self.now);
        let stats = all.find(|one| one.name == Some(RESOURCES[resource])).unwrap();
        let known = &self.resources[resource];
        assert_eq!(stats.in_flight, self.in_flight(resource));
        assert_eq!(stats.count(OfferOutcome::Deferred), known.deferred, "deferred requests");
        if let Some(deferral) = stats.deferral {
            let DeferralCounts { sold, full, redeemed, given_back, early, expired, replayed, .. } =
                deferral.counts;
            assert_eq!(
                (sold, full, early, expired, replayed, redeemed - given_back),
                (known.sold, known.full, known.early, known.expired, known.replayed, known.spent),
                "sold, full, early, expired, replayed and spent"
            );
            assert_eq!(deferral.counts.unremembered, 0);
        }
        let faults = self.engine.ticket_faults().map(|(_, count)| count);
        assert_eq!(faults, self.faults, "of {:?}", TicketFault::ALL);
    }
}

/// Whether a ticket may be worth this after any request. One that was due before its time is early
/// again once a ticket for an earlier second is sold, and a spent one whose second is over is
/// forgotten.
fn changes_by_itself(before: Option<TicketReport>, after: Option<TicketReport>) -> bool {
    let (Some(TicketReport::Good { state: before, .. }), Some(TicketReport::Good { state: after, .. })) =
        (before, after)
    else {
        return false;
    };
    let is_early_again = before == TicketState::Due && matches!(after, TicketState::Early { .. });
    is_early_again || (before == TicketState::Spent && after == TicketState::Expired)
}

/// Lives so many steps with each seed, and tells what happened in them. A failure names its seed
/// and step.
fn live(seeds: Range<u64>, steps: u32) -> BTreeMap<&'static str, u64> {
    let mut seen = BTreeMap::new();
    let mut failed = Vec::new();
    for seed in seeds {
        let mut life = Life::new(seed);
        let failure = (0..steps).find(|_| catch_unwind(AssertUnwindSafe(|| life.step())).is_err());
        failed.extend(failure.map(|step| format!("seed {seed} in step {step}")));
        for (what, count) in life.seen {
            *seen.entry(what).or_insert(0) += count;
        }
    }
    assert!(failed.is_empty(), "the rules are broken: {failed:?}");
    println!("{seen:#?}");
    seen
}

#[test]
pub(crate) fn a_short_random_life_of_a_member_keeps_to_the_rules_of_tickets() {
    live(0..1, 10_000);
}

#[test]
fn random_lives_of_a_member_keep_to_the_rules_of_tickets_and_see_everything() {
    let seen = live(0..20, 50_000);
    for what in [
        "no ticket",
        "faulty",
        "due",
        "due early",
        "early",
        "expired",
        "spent",
        "served with a ticket",
        "served once more after a restart",
        "passes a closed cursor",
        "denied by a limit",
        "given back",
        "waits with its ticket",
        "left the queue",
        "the same ticket",
        "sold beyond the room",
        "the calendar is full",
        "reload",
        "rotation",
        "clock step",
        "restart",
    ] {
        let count = seen.get(what).copied().unwrap_or(0);
        assert!(count >= 50, "{what}: {count} times");
    }
}

#[test]
#[ignore = "twenty million steps take minutes"]
fn random_lives_of_twenty_million_steps_keep_to_the_rules_of_tickets() {
    live(1_000..1_200, 100_000);
}
