//! Random lives of a calendar beside a model that shares no code with it.
//!
//! The model knows every ticket, tenant and namespace exactly, and states the rules in its own
//! numbers: quarters of a request, seconds, and what must never happen.

use tidegate_test_support::SplitMix64;

use super::*;

/// A ticket that is out, and whether the present calendar spent it.
#[derive(Clone, Copy, Debug)]
struct TicketOut {
    sold: Booking,
    is_spent: bool,
}

/// The tickets that the present calendar sold for a second, in quarters of a request.
#[derive(Clone, Debug, Default)]
struct SecondSold {
    tickets: u16,
    spent: u16,
    weight: u32,
    by_tenant: BTreeMap<u64, u32>,
    by_tenant_beyond_room: BTreeMap<u64, u32>,
    by_namespace: BTreeMap<u32, u32>,
    beyond_room: u32,
    largest_room: u32,
}

impl SecondSold {
    fn takes(&self, weight: u32, room: u32) -> bool {
        self.tickets == 0 || (self.tickets < 1_000 && self.weight + weight <= room)
    }

    /// Whether a namespace has so much left of its part of the room, when so many namespaces ask,
    /// and the tickets beyond the room do as well.
    fn leaves_part(&self, namespace: u32, weight: u32, room: u32, asking: u32) -> bool {
        let held = self.by_namespace.get(&namespace).copied().unwrap_or(0);
        let holders = self.by_namespace.len() as u32 + u32::from(held == 0);
        let part = 4.max(room / holders.max(asking));
        let is_in_part = held == 0 || held + weight <= part;
        let all: u32 = self.by_namespace.values().map(|held| part.min(*held)).sum();
        let is_left = self.tickets < 1_000 && all + weight <= room && self.beyond_room + weight <= room;
        holders > 1 && is_in_part && is_left
    }

    fn unspent(&self) -> f64 {
        f64::from(self.weight) * f64::from(self.tickets - self.spent) / f64::from(self.tickets.max(1))
    }
}

/// The front of the calendar as the model saw it last, and what it gained and paid since it began.
#[derive(Clone, Copy, Debug)]
struct FrontSeen {
    second: u64,
    gained: f64,
    paid: f64,
}

/// A calendar, its clock and the model.
struct Life {
    random: SplitMix64,
    now: Timestamp,
    config: DeferralConfig,
    calendar: DeferralCalendar,
    issuer: TicketIssuer,
    bytes_max: usize,
    /// The clock stepped since the calendar began, so that it may have had to forget slots.
    has_stepped: bool,
    capacity: f64,
    in_force: Option<(f64, Timestamp)>,
    /// The seconds before the first number have at most this room, in quarters.
    kept: Option<(u64, u32)>,
    mean: f64,
    asks: u32,
    costs: u64,
    seconds: BTreeMap<u64, SecondSold>,
    tickets: Vec<TicketOut>,
    /// The second in which each namespace asked last.
    asked: BTreeMap<u32, u64>,
    namespaces: u64,
    front: Option<FrontSeen>,
    ticked: Option<Timestamp>,
    is_below_hard: bool,
    /// How often something that is worth seeing happened, by its name.
    seen: BTreeMap<&'static str, u32>,
}

impl Life {
    fn new(seed: u64) -> Self {
        let mut life = Self {
            random: SplitMix64::new(seed),
            now: NOW,
            config: config(20),
            calendar: calendar(20),
            issuer: ISSUER,
            bytes_max: TICKET_BYTES_MAX,
            has_stepped: false,
            capacity: 10.0,
            in_force: None,
            kept: None,
            mean: 1.0,
            asks: 0,
            costs: 1,
            seconds: BTreeMap::new(),
            tickets: Vec::new(),
            asked: BTreeMap::new(),
            namespaces: 1,
            front: None,
            ticked: None,
            is_below_hard: false,
            seen: BTreeMap::new(),
        };
        life.restart();
        life
    }

    fn step(&mut self) {
        match self.random.below(10_000) {
            0..4_500 => self.sell(),
            4_500..6_300 => self.present(),
            6_300..6_800 => self.present_two(),
            6_800..8_200 => self.spend(),
            8_200..8_700 => self.give_back(),
            8_700..9_200 => {
                let millis = self.random.below(700);
                self.pass(self.now.saturating_add(Duration::from_millis(millis)));
            }
            9_200..9_800 => self.tick(),
            9_800..9_950 => self.change_capacity(),
            9_950..9_980 => self.reconfigure(),
            9_980..9_984 => self.step_clock(),
            9_984..9_990 => self.pass(self.now.saturating_add(Duration::from_secs(30))),
            _ => self.restart(),
        }
    }

    fn pass(&mut self, to: Timestamp) {
        self.now = to;
        let over = self.now.as_secs().saturating_sub(9_000);
        self.seconds = self.seconds.split_off(&over);
        // Most of what is over is of no more interest.
        let past = self.now.as_secs().saturating_sub(15);
        let is_kept = |slot: u64| slot >= past || (slot >= over && slot.is_multiple_of(8));
        self.tickets.retain(|ticket| is_kept(ticket.sold.number.slot));
    }

    fn saw(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    /// Quarters of a request that a second holds at the capacity in force.
    fn room(&self) -> u32 {
        let capacity = self.in_force.map_or(0.0, |(capacity, _)| capacity);
        let quarters = self.config.share.as_ratio() * capacity * 4.0 + 1e-6;
        if quarters >= 4_000.0 {
            4_000
        } else if quarters >= 4.0 {
            quarters as u32
        } else {
            4
        }
    }

    /// The same of one second, which may keep the room of before a rise.
    fn room_of(&self, second: u64) -> u32 {
        let kept = self.kept.filter(|(before, _)| second < *before);
        kept.map_or(self.room(), |(_, kept)| kept.min(self.room()))
    }

    /// A fall takes room from all seconds.
    fn take_over(&mut self, capacity: f64, at: Timestamp) {
        self.in_force = Some((capacity, at));
        let room = self.room();
        self.kept = self.kept.map(|(before, kept)| (before, kept.min(room)));
    }

    /// From now on a rise makes room in the last second that is sold and in later ones alone, or
    /// in all.
    fn keep_or_release(&mut self) {
        if self.random.below(2) == 0 {
            self.calendar.release_room();
            (self.kept, self.in_force) = (None, None);
        } else if self.in_force.is_some() && !self.has_stepped {
            self.calendar.keep_room_of_sold(self.now);
            let last = self.seconds.last_key_value().map(|(second, _)| *second);
            let room = self.kept.map_or(self.room(), |(_, kept)| kept.min(self.room()));
            self.kept = last.filter(|last| *last > self.now.as_secs()).map(|last| (last, room));
            self.in_force = None;
        }
    }

    /// A sale shows the capacity: a lower one counts at once, a higher one after 100 ms.
    fn show(&mut self) {
        let Some((shown, at)) = self.in_force else {
            self.take_over(self.capacity, self.now);
            return;
        };
        let apart = self.now.as_nanos().abs_diff(at.as_nanos());
        if apart >= 100_000_000 {
            self.take_over(self.capacity, self.now);
        } else if self.capacity < shown {
            self.take_over(self.capacity, at);
        }
    }

    fn weight(&mut self, cost: u64) -> u32 {
        let cost = cost as f64;
        // Ties are frequent among the first asks, so the last bit of the mean matters.
        let weight = (cost / self.mean * 4.0).round();
        let gain = if self.asks < 252 { 4.0 / (4.0 + f64::from(self.asks)) } else { 1.0 / 64.0 };
        let counted = if cost < 1.0 { 1.0 } else { cost.min(self.mean * 8.0) };
        self.mean += (counted - self.mean) * gain;
        self.asks += 1;
        if weight < 4.0 {
            4
        } else if weight > 32.0 {
            32
        } else {
            weight as u32
        }
    }

    fn sell(&mut self) {
        let tenant = if self.random.below(3) == 0 { self.random.below(100) } else { 7 };
        let cost = match self.costs {
            1 => 10,
            most if self.random.below(1_000) == 0 => most.saturating_mul(1 << 40),
            most => self.random.below(most),
        };
        let namespace = if self.random.below(2) == 0 { self.random.below(self.namespaces) as u32 } else { 0 };
        let tenant = tenant << 8 | u64::from(namespace);
        let ask = TicketAsk { namespace, tenant, cost };
        let booking = self.calendar.sell(ask, self.capacity, self.now);
        self.show();
        self.asked.insert(namespace, self.now.as_secs());
        let is_late = |asked: u64| self.now.as_secs().abs_diff(asked) > 10;
        self.asked.retain(|_, asked| !is_late(*asked));
        let asking = self.asked.len() as u32;
        let (weight, room_of_new) = (self.weight(cost), self.room());
        let first = self.now.as_secs() + 1;
        let last = first + self.config.horizon.as_secs() - 1;
        let end = booking.map_or(last + 1, |sold| sold.number.slot);
        if !self.has_stepped && self.bytes_max >= 10_000 {
            let takes = |second: &u64, room: u32| {
                self.seconds.get(second).is_none_or(|sold| sold.takes(weight, room))
            };
            let passed = (first..end).find(|second| takes(second, self.room_of(*second)));
            let is_kept_from_it = (first..end).any(|second| takes(&second, room_of_new));
            let sold = passed.map(|second| self.seconds.get(&second));
            assert_eq!(passed, None, "{weight} fits into {sold:?}, and {booking:?} is sold");
            if is_kept_from_it {
                self.saw("a sold second keeps its room");
            }
        }
        let has_part = |second: &u64| {
            let room = self.room_of(*second);
            self.seconds.get(second).is_some_and(|sold| sold.leaves_part(namespace, weight, room, asking))
        };
        if !self.has_stepped && self.bytes_max >= 10_000 && self.namespaces > 1 {
            // Namespaces that share a counter pass a second now and then.
            match (first..=end.min(last)).find(has_part) {
                Some(second) if second < end => self.saw("a namespace's second is passed"),
                Some(_) => self.saw("a namespace's second is sold"),
                None => {}
            }
        }
        let Some(sold) = booking else {
            self.saw("full");
            return;
        };
        let slot = sold.number.slot;
        assert!((first..=last).contains(&slot), "{sold:?} is outside of the horizon");
        assert_eq!(sold.not_before.as_secs(), slot);
        assert_eq!(sold.expires.as_nanos() - sold.not_before.as_nanos(), 5_000_000_000);
        assert_eq!(sold.number.issuer, self.issuer);
        let room = self.room_of(slot);
        let second = self.seconds.entry(slot).or_default();
        assert_eq!(sold.number.sequence, second.tickets, "a number was given twice or left out");
        let is_first = second.tickets == 0;
        second.tickets += 1;
        assert!(second.tickets <= 1_000);
        second.weight += weight;
        second.largest_room = second.largest_room.max(room);
        let own = second.by_tenant.entry(tenant).or_default();
        *own += weight;
        let is_beyond = !is_first && second.weight > room;
        let own_of_namespace = second.by_namespace.entry(namespace).or_default();
        let held_before = *own_of_namespace;
        *own_of_namespace += weight;
        if is_beyond {
            let is_part = |own: u32| own == weight || own <= 4.max(room_of_new / 20);
            let own_beyond = second.by_tenant_beyond_room.entry(tenant).or_default();
            *own_beyond += weight;
            // Where namespaces share a second, tenants have parts of what is sold beyond the room.
            let is_shared = asking > 1 || second.by_namespace.len() > 1;
            let is_in_part = is_part(*own) || (is_shared && is_part(*own_beyond));
            // Two namespaces with one counter count as one.
            let (part, own_of_namespace) = (4.max(room / asking), held_before + weight);
            let is_in_namespace_part = held_before == 0 || own_of_namespace <= part;
            assert!(
                is_in_part || is_in_namespace_part,
                "a tenant holds {own} of {room} beyond the room, and its namespace {own_of_namespace}"
            );
            second.beyond_room += weight;
            if !is_in_namespace_part {
                // A namespace beyond its part leaves the parts of others.
                let all: u32 = second.by_namespace.values().map(|held| part.min(*held)).sum();
                assert!(second.beyond_room <= all, "{second:?}: parts are sold to {namespace}");
            }
        }
        assert!(second.beyond_room <= second.largest_room, "{second:?} is oversold");
        assert!(second.weight <= 2 * second.largest_room + 32, "{second:?} is oversold");
        if is_beyond {
            self.saw("sold beyond the room");
        }
        if let Some(front) = &mut self.front {
            front.second = front.second.min(slot - 1);
        }
        self.tickets.push(TicketOut { sold, is_spent: false });
        if self.tickets.len() > 2_000 {
            let place = self.random.below(1_000) as usize;
            self.tickets.remove(place);
        }
    }

    fn choose(&mut self) -> Option<usize> {
        let count = self.tickets.len() as u64;
        (count > 0).then(|| self.random.below(count) as usize)
    }

    /// Whether the calendar remembers a slot for certain.
    fn is_over(&self, ticket: TicketOut) -> bool {
        self.now > Timestamp::from_secs(ticket.sold.number.slot + 8)
    }

    fn present(&mut self) {
        if let Some(place) = self.choose() {
            self.state_of(self.tickets[place]);
        }
    }

    fn state_of(&mut self, ticket: TicketOut) -> TicketState {
        let TicketOut { sold, is_spent } = ticket;
        let state = state(&self.calendar, sold, self.now);
        let is_certain = !self.has_stepped && self.bytes_max >= 10_000;
        match state {
            TicketState::Due => {
                assert!(!is_spent && self.now < sold.expires, "{ticket:?} is due at {}", self.now);
                if self.now < sold.not_before {
                    let front = self.calendar.stats(self.now).pulled_to.unwrap_or(self.now.as_secs());
                    assert!(self.is_below_hard && sold.number.slot <= front, "{sold:?} beyond {front}");
                    self.saw("due early");
                }
            }
            TicketState::Early { come_back } => {
                assert!(!is_spent && self.now < sold.not_before, "{ticket:?} is early at {}", self.now);
                assert!(self.now < come_back && come_back <= sold.not_before);
                if come_back < sold.not_before {
                    self.saw("early, and told an earlier time");
                }
            }
            TicketState::Expired => {
                assert!(!is_certain || self.now >= sold.expires, "{ticket:?} expired at {}", self.now);
                assert!(!is_certain || !is_spent || self.is_over(ticket), "{ticket:?} is not remembered");
            }
            TicketState::Spent => assert!(is_spent, "{ticket:?} was not spent"),
            TicketState::NoRoom => {
                assert!(sold.number.issuer != self.issuer && self.bytes_max < 10_000);
                self.saw("no room");
            }
        }
        state
    }

    /// Of two early tickets, that of the earlier slot is due first.
    fn present_two(&mut self) {
        let (Some(one), Some(other)) = (self.choose(), self.choose()) else { return };
        let (mut early, mut late) = (self.tickets[one], self.tickets[other]);
        if early.sold.number.slot > late.sold.number.slot {
            (early, late) = (late, early);
        }
        let is_late_due = self.state_of(late) == TicketState::Due;
        if is_late_due && self.now < late.sold.not_before {
            let state = self.state_of(early);
            assert!(!matches!(state, TicketState::Early { .. }), "{late:?} is due before {early:?}");
        }
    }

    fn spend(&mut self) {
        let Some(place) = self.choose() else { return };
        let ticket = self.tickets[place];
        let number = ticket.sold.number;
        let is_done = self.calendar.spend(number, self.now);
        if is_done {
            assert!(!ticket.is_spent, "{ticket:?} is spent twice");
            assert!(!self.is_over(ticket));
            self.tickets[place].is_spent = true;
            self.count_spent(number, 1);
            self.saw(if number.issuer == self.issuer { "spent" } else { "foreign spent" });
        } else {
            let may_be_unknown = self.has_stepped || self.bytes_max < 10_000;
            assert!(ticket.is_spent || self.is_over(ticket) || may_be_unknown, "{ticket:?} is good");
        }
    }

    fn give_back(&mut self) {
        let choices = [(); 8].map(|()| self.choose());
        let is_spent = |place: &usize| self.tickets[*place].is_spent;
        let spent = choices.into_iter().flatten().find(is_spent);
        let Some(place) = spent.or(choices[0]) else { return };
        let ticket = self.tickets[place];
        self.calendar.give_back(ticket.sold.number, self.now);
        if ticket.is_spent && !self.is_over(ticket) && !self.has_stepped {
            self.tickets[place].is_spent = false;
            self.count_spent(ticket.sold.number, -1);
            self.saw("given back");
        } else if ticket.is_spent && self.has_stepped {
            // The ticket is good again if the calendar still knows it.
            let then = state(&self.calendar, ticket.sold, ticket.sold.not_before);
            assert!(then != TicketState::Spent || self.is_over(ticket), "{ticket:?} is not good again");
            if then == TicketState::Due {
                self.tickets[place].is_spent = false;
                self.count_spent(ticket.sold.number, -1);
            }
        }
    }

    fn count_spent(&mut self, number: TicketNumber, change: i16) {
        if number.issuer == self.issuer
            && let Some(second) = self.seconds.get_mut(&number.slot)
        {
            second.spent = second.spent.saturating_add_signed(change);
        }
    }

    fn tick(&mut self) {
        if self.random.below(20) == 0 {
            self.is_below_hard = !self.is_below_hard;
        }
        let spare = self.random.below(4) as f64 * self.capacity / 2.0;
        let load = CalendarLoad { capacity: self.capacity, spare, is_below_hard: self.is_below_hard };
        self.calendar.tick(load, self.now);
        self.take_over(self.capacity, self.now);
        let ticked = self.ticked.replace(self.now).unwrap_or(self.now);
        if !self.is_below_hard {
            self.front = None;
            assert_eq!(self.calendar.stats(self.now).pulled_to, None);
            return;
        }
        let seconds = (self.now.saturating_since(ticked).as_secs_f64()).min(1.0);
        let present = self.now.as_secs();
        let begun = FrontSeen { second: present, gained: 0.0, paid: 0.0 };
        let mut front = self.front.filter(|_| self.now >= ticked).unwrap_or(begun);
        front.gained += 4.0 * spare * seconds;
        let from = front.second.max(present);
        let to = self.calendar.stats(self.now).pulled_to.unwrap_or(present);
        assert!(to >= from, "the front went from {from} back to {to}");
        if to > from && !self.has_stepped {
            let passed = self.seconds.range(from + 1..=to);
            front.paid += passed.map(|(_, second)| second.unspent()).sum::<f64>();
            assert!(front.paid <= front.gained + 1e-3, "{front:?}");
            self.saw("pulled forward");
        }
        front.second = to;
        self.front = Some(front);
    }

    fn change_capacity(&mut self) {
        if self.random.below(2) == 0 {
            self.keep_or_release();
        }
        self.capacity = match self.random.below(10) {
            0 => 0.0,
            1 => 5_000.0,
            2 => 300.0,
            _ => self.random.below(60) as f64,
        };
    }

    fn new_config(&mut self) -> DeferralConfig {
        let share = *self.random.choose(&[Share::WHOLE, Share::percent(20), Share::percent(50)]);
        DeferralConfig { share, ..config(*self.random.choose(&[10, 10, 20, 60])) }
    }

    fn reconfigure(&mut self) {
        self.config = self.new_config();
        (self.in_force, self.kept) = (None, None);
        self.calendar.reconfigure(self.config);
    }

    fn step_clock(&mut self) {
        let hour = Duration::from_hours(1);
        let is_back = self.random.below(2) == 0;
        let to = if is_back { self.now.saturating_sub(hour) } else { self.now.saturating_add(hour) };
        self.pass(to);
        self.has_stepped = true;
        self.saw("clock step");
    }

    /// A new calendar, to which all tickets that are out are foreign.
    fn restart(&mut self) {
        self.config = self.new_config();
        self.issuer.start += 1;
        self.bytes_max = *self.random.choose(&[TICKET_BYTES_MAX, TICKET_BYTES_MAX, 1_500]);
        self.calendar = DeferralCalendar::new(self.config, self.issuer, self.bytes_max);
        (self.has_stepped, self.in_force, self.front, self.ticked) = (false, None, None, None);
        self.kept = None;
        (self.mean, self.asks) = (1.0, 0);
        self.is_below_hard = false;
        self.costs = *self.random.choose(&[1, 1, 40, 100_000]);
        self.namespaces = *self.random.choose(&[1, 1, 2, 3, 5]);
        self.seconds.clear();
        self.asked.clear();
        self.tickets.iter_mut().for_each(|ticket| ticket.is_spent = false);
    }

    fn check_bounds(&self) {
        let stats = self.calendar.stats(self.now);
        assert!(stats.spent_bytes <= self.bytes_max, "{stats:?}");
        assert!(stats.slots_booked <= 130, "{stats:?}");
    }
}

/// Lives so many steps, and tells what happened in them.
fn live(seed: u64, steps: u32) -> BTreeMap<&'static str, u32> {
    let mut life = Life::new(seed);
    for step in 0..steps {
        life.step();
        if step % 64 == 0 {
            life.check_bounds();
        }
    }
    println!("seed {seed}, {steps} steps: {:?}", life.seen);
    life.seen
}

#[test]
pub(super) fn a_short_random_life_keeps_to_the_rules() {
    live(1, 20_000);
}

#[test]
fn random_lives_of_a_million_steps_keep_to_the_rules_and_see_everything() {
    let mut seen = BTreeMap::new();
    for seed in 2..12 {
        for (what, count) in live(seed, 100_000) {
            *seen.entry(what).or_insert(0) += count;
        }
    }
    let passed = seen.get("a namespace's second is passed").copied().unwrap_or(0);
    let sold = seen.get("a namespace's second is sold").copied().unwrap_or(0);
    assert!(passed <= sold / 3, "{passed} seconds are passed in which a namespace has a part, {sold} not");
    for what in [
        "a namespace's second is sold",
        "full",
        "a sold second keeps its room",
        "sold beyond the room",
        "due early",
        "early, and told an earlier time",
        "no room",
        "spent",
        "foreign spent",
        "given back",
        "pulled forward",
        "clock step",
    ] {
        let count = seen.get(what).copied().unwrap_or(0);
        assert!(count >= 100, "{what}: {count} times");
    }
}

#[test]
#[ignore = "fifty million steps take ten seconds"]
fn random_lives_of_fifty_million_steps_keep_to_the_rules() {
    for seed in 100..600 {
        live(seed, 100_000);
    }
}
