//! The reservation calendar of a resource: which second of the horizon is sold to whom, and which
//! tickets were spent.
//!
//! A calendar is a plain value: `now` is an argument, and nothing here waits. It guarantees:
//!
//! * **No ticket is spent twice** at one calendar unless it was given back. Tickets of seconds
//!   that the calendar had to forget count as expired, also when the clock steps back.
//! * **No second is oversold.** The room of a second is the share of the capacity. Tickets of
//!   namespaces and tenants within their parts of it never exceed the room.
//! * **Memory is bounded**: seconds by twice the horizon, bits of spent tickets by a number of
//!   bytes.
//!
//! # The sale of a second
//! A sale takes the first second in which one of these holds:
//!
//! 1. All tickets sold there and the new one fit into the room. Free room is anyone's.
//! 2. The tickets of the tenant there and the new one fit into the tenant's part, or the new one
//!    is the tenant's first there; and those of all tenants, each counted up to its part, and the
//!    new one fit into the room, as do all that are sold beyond the room. A tenant with more than
//!    its part gives way: the fair queue, which serves tenants in turn, honours its tickets late.
//! 3. Nothing is sold there. The first ticket may be heavier than the room.
//!
//! While a service that starts shows more capacity with each tick, seconds before the last booked
//! one keep their room, and later ones have more. Otherwise the room of all seconds follows the
//! capacity. A tenant's part is that of the larger room.
//!
//! Tenants share 64 counters in each second. Two tenants with one counter count as one, which may
//! be more than a part. So a full calendar is sold beyond its room also without a tenant that holds
//! more than its part: by 13 % on average when 10 000 tenants share a room of 20 requests, by 4 %
//! for 40, by less than 1 % for 200, and by 10 % for 200 when 25 tenants share it.
//!
//! # Namespaces
//! A tenant is a name that a request brings, so tenants stand below namespaces. A second is divided
//! between the namespaces that asked for tickets within the last 10 s, or between the namespace of
//! the ticket and those that hold tickets of the second, if they are more. Each has an equal part
//! of the room, at least one request. Where that is one namespace, the rules above hold. Where it
//! is more than one, rules 1 and 3 hold, and in place of rule 2 one of these:
//!
//! * The tickets of the namespace there and the new one fit into the part of the namespace, or the
//!   new one is its first there. Namespaces within their parts together never exceed the room,
//!   unless a first ticket is heavier than the part, or the room has no request for each
//!   namespace.
//! * The new ticket fits into the part of its tenant beyond the room, a twentieth of the
//!   namespace's part, or is the tenant's first there. The tickets of all tenants of the namespace,
//!   counted up to each tenant's part and one request, and the new ticket fit into the namespace's
//!   part. With the new ticket no more is sold beyond the room than all namespaces hold, each
//!   counted up to its part.
//!
//! So a namespace with more than its part gives way, whatever tenants it invents, and within a
//! namespace a tenant gives way to others. The first rule needs no counter of tenants, which a
//! namespace could fill with names that it invents. Namespaces share 16 counters in each second,
//! so two of them count as one in a sixteenth of the seconds, and mostly pass those.
//!
//! # The bound of a second
//! All tickets of a second together weigh at most twice its room and one ticket. Rules 1 and 3 sell
//! the room once, or one ticket; each other rule also demands that all that was sold beyond the
//! room fits into the room with the new ticket. The last condition above keeps enough of that for
//! the parts of the namespaces among which the second is divided. A namespace that comes when
//! others were sold a second twice gets a later one: so when one namespace was alone, and its
//! tenants bought the seconds twice, which takes as many tickets as two horizons have room for.
//!
//! # Memory
//! A full hour at 1 000 tickets a second takes 450 KiB of bits, allocated as tickets are spent,
//! 928 KiB for the slots, 32 KiB for the index of free seconds, 16 KiB for hints, where several
//! namespaces ask 18 KiB more, and, while the calendar is pulled forward, at most 64 KiB more. A
//! calendar without tickets takes nothing.

use core::ops::Range;

use tidegate_core::Timestamp;

use super::booked_slot::BookedSlot;
use super::calendar_stats::CalendarStats;
use super::deferral_config::DeferralConfig;
use super::foreign_tickets::ForeignTickets;
use super::forgotten_slots::ForgottenSlots;
use super::namespace_asks::NamespaceAsks;
use super::part_hints::PartHints;
use super::pulled_front::{CalendarLoad, PulledFront};
use super::slot_book::SlotBook;
use super::slot_index::SlotIndex;
use super::slot_room::SlotRoom;
use super::spent_bits::{WORD_BYTES, bytes_of_tickets};
use super::ticket_number::{Booking, TicketAsk, TicketIssuer, TicketNumber, TicketState, is_slot_over};
use super::ticket_sale::TicketSale;
use super::typical_cost::TypicalCost;
use crate::fault::Fault;

/// The seconds that are kept beyond twice the horizon.
const SLOTS_BEYOND: u64 = 10;
/// How many seconds one ask looks at for a tenant beyond its part, where several namespaces share
/// the calendar. The next ask of the tenant goes on from there.
const TENANT_LOOKS: usize = 16;

/// The reservation calendar of a resource.
///
/// ```
/// # use core::time::Duration;
/// # use tidegate_core::{Class, Timestamp};
/// # use tidegate_overload::{
/// #     DeferralCalendar, DeferralConfig, TICKET_BYTES_MAX, TicketAsk, TicketIssuer, TicketState,
/// # };
/// let config = DeferralConfig::new([Class::Sheddable]);
/// let issuer = TicketIssuer { member: 1, start: 1 };
/// let mut calendar = DeferralCalendar::new(config, issuer, TICKET_BYTES_MAX);
/// let now = Timestamp::from_secs(1_800_000_000);
/// let sold = calendar.sell(TicketAsk { namespace: 1, tenant: 7, cost: 1 }, 100.0, now).expect("all is free");
/// assert_eq!(sold.number.slot, 1_800_000_001);
/// let state = calendar.state(sold.number, sold.not_before, sold.expires, now);
/// assert_eq!(state, TicketState::Early { come_back: sold.not_before });
/// let then = sold.not_before;
/// assert_eq!(calendar.state(sold.number, sold.not_before, sold.expires, then), TicketState::Due);
/// assert!(calendar.spend(sold.number, then));
/// assert_eq!(calendar.state(sold.number, sold.not_before, sold.expires, then), TicketState::Spent);
/// ```
#[derive(Clone, Debug)]
pub struct DeferralCalendar {
    config: DeferralConfig,
    issuer: TicketIssuer,
    bytes_max: usize,
    /// Twice the longest horizon so far and a few: a shorter horizon drops no slot.
    slots_max: usize,
    typical: TypicalCost,
    room: SlotRoom,
    book: SlotBook,
    /// The bytes of the bits of all tickets sold, allocated or not.
    reserved: usize,
    index: SlotIndex,
    hints: PartHints,
    namespaces: NamespaceAsks,
    namespace_hints: PartHints,
    forgotten: ForgottenSlots,
    foreign: ForeignTickets,
    front: PulledFront,
}

/// The bytes of spent bits that a full calendar of an hour needs for its own tickets: the default
/// bound of a resource.
pub const TICKET_BYTES_MAX: usize =
    DeferralConfig::HORIZON_MAX.as_secs() as usize * bytes_of_tickets(super::ticket_number::SLOT_TICKETS_MAX);

impl DeferralCalendar {
    /// An empty calendar. `issuer` must differ from that of every other calendar with the same
    /// key.
    ///
    /// `bytes_max` bounds the bits of spent tickets; [`TICKET_BYTES_MAX`] is enough for any
    /// horizon without foreign tickets. When it is smaller, the calendar is full earlier; at 0 it
    /// sells nothing.
    pub fn new(config: DeferralConfig, issuer: TicketIssuer, bytes_max: usize) -> Self {
        Self {
            config,
            issuer,
            bytes_max,
            slots_max: slots_max_of(&config),
            typical: TypicalCost::new(),
            room: SlotRoom::new(),
            book: SlotBook::default(),
            reserved: 0,
            index: SlotIndex::default(),
            hints: PartHints::default(),
            namespaces: NamespaceAsks::default(),
            namespace_hints: PartHints::default(),
            forgotten: ForgottenSlots::default(),
            foreign: ForeignTickets::default(),
            front: PulledFront::default(),
        }
    }

    /// Sells by other settings from now on. Tickets that are out stay good; a shorter horizon
    /// sells no further than it reaches.
    pub fn reconfigure(&mut self, config: DeferralConfig) {
        self.config = config;
        self.slots_max = self.slots_max.max(slots_max_of(&config));
        self.room.release();
        self.clear_hints();
    }

    /// Lets the next sale take over any capacity, also one that is higher than that of the last
    /// sale, for all seconds. Each sale may look at every booked second then.
    pub(crate) fn release_room(&mut self) {
        if self.room.sold_before() > 0 {
            self.clear_hints();
        }
        self.room.release();
    }

    /// The same for the last booked second and those that follow it. Those before it keep their
    /// room, and get less if the capacity falls.
    pub(crate) fn keep_room_of_sold(&mut self, now: Timestamp) {
        let last = self.book.last().map(BookedSlot::second).filter(|last| *last > now.as_secs());
        self.room.keep(last.unwrap_or(0));
    }

    /// Sells a ticket for the first second with room; `None` if the whole horizon is sold, or the
    /// memory for the bits of its tickets.
    ///
    /// `capacity` is what the resource shows now, in requests a second. A lower one than before
    /// counts at once; a higher one from the next tick, or from a sale over 100 ms later, and at a
    /// start for new seconds alone. Seconds that are sold keep their tickets when the capacity
    /// falls.
    pub fn sell(&mut self, ask: TicketAsk, capacity: f64, now: Timestamp) -> Option<Booking> {
        self.forget(now);
        let weight = self.typical.weigh(ask.cost);
        let before = self.room;
        self.room.sale(self.config.share, capacity, now);
        self.follow_room(before);
        if self.namespaces.ask(ask.namespace, now) {
            self.clear_hints();
        }
        let window = self.window(now);
        self.index.follow(&self.book, &self.forgotten, &window, self.room.part());
        let TicketAsk { namespace, tenant, .. } = ask;
        let (room, asking) = (self.room.all(), self.namespaces.asking());
        let sale = TicketSale { namespace, tenant, weight, room, asking };
        let second = self.first_second(&sale)?;
        self.reserve_ticket(second)?;
        let sale = TicketSale { room: self.room.of(second), ..sale };
        let slot = self.book.get_or_add(second);
        let sold = slot.sell(self.issuer, &sale);
        self.index.update(slot);
        self.namespaces.sold(namespace, second);
        self.front.sold(second);
        Some(sold)
    }

    /// The state of a ticket with this number and these instants. The caller has verified its
    /// signature.
    ///
    /// A ticket that was spent is [`TicketState::Spent`] as long as it is remembered, also after
    /// its expiry.
    pub fn state(
        &self,
        number: TicketNumber,
        not_before: Timestamp,
        expires: Timestamp,
        now: Timestamp,
    ) -> TicketState {
        let is_own = number.issuer == self.issuer;
        let own = self.book.get(number.slot).filter(|slot| is_own && slot.has_sold(number.sequence));
        let is_spent = match own {
            Some(slot) => slot.is_spent(number.sequence),
            None => self.foreign.is_spent(number),
        };
        if is_spent {
            return TicketState::Spent;
        }
        let is_unknown = is_own && own.is_none();
        if now >= expires || is_unknown || self.is_forgotten(number.slot, now) {
            return TicketState::Expired;
        }
        if !is_own && self.foreign.is_dropped(number.slot) {
            return TicketState::NoRoom;
        }
        if now < not_before && !self.front.is_past(number.slot) {
            return TicketState::Early { come_back: self.front.come_back(number.slot, not_before, now) };
        }
        if is_own || self.has_room_for(number) { TicketState::Due } else { TicketState::NoRoom }
    }

    /// Spends a ticket; false if it was spent already, if it is over, or if it cannot be
    /// remembered as spent ([`TicketState::NoRoom`]). The bearer must not be admitted by the
    /// ticket then.
    ///
    /// A ticket is remembered until 8 s after the beginning of its second. A bearer that may wait
    /// for longer spends the ticket before it waits, and gives it back if it is not admitted.
    pub fn spend(&mut self, number: TicketNumber, now: Timestamp) -> bool {
        self.forget(now);
        if self.is_forgotten(number.slot, now) {
            return false;
        }
        if Fault::SpentForgotten.is_planted() {
            return true;
        }
        if number.issuer == self.issuer {
            self.book.get_mut(number.slot).is_some_and(|slot| slot.spend(number.sequence))
        } else {
            self.has_room_for(number) && self.foreign.spend(number)
        }
    }

    /// Makes a spent ticket good again, because its bearer was not admitted after all.
    pub fn give_back(&mut self, number: TicketNumber, now: Timestamp) {
        self.forget(now);
        if number.issuer == self.issuer {
            if let Some(slot) = self.book.get_mut(number.slot) {
                slot.give_back(number.sequence);
            }
        } else {
            self.foreign.give_back(number);
        }
    }

    /// Takes over the capacity, and pulls the calendar forward while the level is below Hard. To
    /// be called once in 100 ms.
    pub fn tick(&mut self, load: CalendarLoad, now: Timestamp) {
        self.forget(now);
        let before = self.room;
        self.room.tick(self.config.share, load.capacity, now);
        self.follow_room(before);
        let window = self.window(now);
        self.front.tick(&self.book, load, window.end.saturating_sub(1), now);
    }

    /// Figures of the calendar. Costs a look at every booked second.
    pub fn stats(&self, now: Timestamp) -> CalendarStats {
        let ahead = || self.book.starting_at(now.as_secs());
        let own_spent: usize = self.book.iter().map(|slot| usize::from(slot.spent())).sum();
        let bits: usize = self.book.iter().map(BookedSlot::bits_bytes).sum();
        CalendarStats {
            booked: ahead().map(|slot| u64::from(slot.tickets() - slot.spent())).sum(),
            slots_booked: ahead().count(),
            last_slot: self.book.last().map(BookedSlot::second).filter(|last| *last >= now.as_secs()),
            pulled_to: self.front.front().filter(|front| *front > now.as_secs()),
            spent: own_spent + self.foreign.spent(),
            spent_bytes: bits + self.foreign.bytes(),
            bytes: bits
                + self.foreign.bytes()
                + self.book.ring_bytes()
                + self.index.bytes()
                + self.hints.bytes()
                + self.namespace_hints.bytes()
                + self.namespaces.bytes()
                + self.front.bytes(),
        }
    }

    /// The seconds for sale: the next whole one, and the horizon from there.
    fn window(&self, now: Timestamp) -> Range<u64> {
        let first = now.as_secs() + 1;
        first..first + self.config.horizon.as_secs()
    }

    /// The first second in which a ticket may be sold.
    fn first_second(&mut self, sale: &TicketSale) -> Option<u64> {
        let free = self.first_of_rooms(0, sale.weight, SlotIndex::first_sold);
        let end = free.unwrap_or(self.index.window().end);
        let found = if self.namespaces.is_lone() {
            self.first_of_tenants(sale, end)
        } else {
            self.first_of_namespaces(sale, end)
        };
        found.or(free)
    }

    /// The first second from `start` on in which so much is sold, by one of the trees, that the
    /// ticket fits into the room of the second.
    fn first_of_rooms(
        &self,
        start: u64,
        weight: u16,
        first: fn(&SlotIndex, Range<u64>, u16) -> Option<u64>,
    ) -> Option<u64> {
        let kept = self.room.sold_before();
        let ranges = [(start..kept, self.room.of(0)), (start.max(kept)..u64::MAX, self.room.all())];
        ranges.into_iter().find_map(|(seconds, room)| {
            // A ticket heavier than the room leaves nothing, and finds a second without tickets.
            let left = if Fault::SlotOversold.is_planted() { room } else { room.saturating_sub(weight) };
            first(&self.index, seconds, left)
        })
    }

    /// The first second before `end` with room by the part of the tenant, where all tickets are of
    /// one namespace.
    fn first_of_tenants(&mut self, sale: &TicketSale, end: u64) -> Option<u64> {
        let (name, weight) = (name_of(sale), sale.weight);
        let mut next = self.hints.first(name, weight).max(self.index.window().start);
        if next >= end {
            return None;
        }
        let (part, mut found) = (self.room.part(), None);
        while let Some(second) = self.first_of_rooms(next, weight, SlotIndex::first_effective) {
            if second >= end {
                break;
            }
            let held = self.book.get(second).map_or(0, |slot| slot.held_by(sale.tenant));
            if held == 0 || held + weight <= part {
                found = Some(second);
                break;
            }
            next = second + 1;
        }
        self.hints.set(name, weight, found.unwrap_or(end));
        found
    }

    /// The first second before `end` with room by the part of the namespace, or by that of the
    /// tenant in it, where several namespaces share the calendar.
    ///
    /// All seconds before `end` are booked. The hint of the namespace passes each of them once; a
    /// tenant beyond its part looks at a few seconds for each ask.
    fn first_of_namespaces(&mut self, sale: &TicketSale, end: u64) -> Option<u64> {
        let (namespace, name, weight) = ([sale.namespace.into(), 0], name_of(sale), sale.weight);
        let start = self.namespace_hints.first(namespace, weight).max(self.index.window().start);
        if start >= end {
            return None;
        }
        let sale_in = |slot: &BookedSlot| TicketSale { room: self.room.of(slot.second()), ..*sale };
        let booked = |start| self.book.starting_at(start).take_while(|slot| slot.second() < end);
        let is_for_sale = |slot: &&BookedSlot| !self.forgotten.contains(slot.second());
        let mut seconds = booked(start).filter(is_for_sale);
        let first = seconds.find(|slot| slot.has_namespace_room(&sale_in(slot)));
        let first = first.map_or(end, BookedSlot::second);
        let start = self.hints.first(name, weight).max(first);
        let mut seconds = booked(start).filter(is_for_sale).take(TENANT_LOOKS);
        let mut next = start;
        let found = seconds.find(|slot| {
            next = slot.second();
            slot.has_part_room(&sale_in(slot))
        });
        let found = found.map(BookedSlot::second);
        if start > first || found != Some(start) {
            self.hints.set(name, weight, found.unwrap_or(next));
        }
        self.namespace_hints.set(namespace, weight, first);
        found
    }

    /// Makes room in memory for one more ticket of a second; `None` if the memory is full.
    fn reserve_ticket(&mut self, second: u64) -> Option<()> {
        let tickets = self.book.get(second).map(BookedSlot::tickets);
        let is_new_word =
            tickets.is_none_or(|tickets| bytes_of_tickets(tickets + 1) > bytes_of_tickets(tickets));
        if is_new_word {
            if self.reserved + WORD_BYTES > self.bytes_max {
                return None;
            }
            while self.reserved + WORD_BYTES + self.foreign.bytes() > self.bytes_max {
                self.foreign.drop_last();
            }
        }
        if tickets.is_none() && self.book.len() >= self.slots_max {
            if self.book.last().is_some_and(|last| last.second() < second) {
                return None;
            }
            self.drop_last();
        }
        self.reserved += if is_new_word { WORD_BYTES } else { 0 };
        Some(())
    }

    /// Drops the farthest slot. Steps of the clock alone book more slots than the horizon has.
    fn drop_last(&mut self) {
        if let Some(last) = self.book.pop_last() {
            self.reserved -= last.reserved_bytes();
            self.forgotten.add(last.second());
            self.index.invalidate();
        }
    }

    /// Forgets the slots that are over.
    fn forget(&mut self, now: Timestamp) {
        let before = self.forgotten.through();
        while self.book.first().is_some_and(|first| is_slot_over(first.second(), now)) {
            let Some(first) = self.book.pop_first() else { break };
            self.reserved -= first.reserved_bytes();
            self.forgotten.add_past(first.second());
        }
        self.foreign.forget(&mut self.forgotten, now);
        self.forgotten.advance(now);
        let through = self.forgotten.through();
        if through > before && through >= self.index.window().start {
            // The clock leapt beyond seconds for sale. It may leap back before the next sale.
            self.index.invalidate();
        }
    }

    /// Whether the tickets of a slot count as expired.
    fn is_forgotten(&self, slot: u64, now: Timestamp) -> bool {
        is_slot_over(slot, now) || self.forgotten.contains(slot)
    }

    /// Whether a foreign ticket can be remembered as spent. The bits of the own tickets that were
    /// sold have precedence.
    fn has_room_for(&self, number: TicketNumber) -> bool {
        let left = self.bytes_max.saturating_sub(self.reserved + self.foreign.bytes());
        self.foreign.growth(number).is_some_and(|growth| growth <= left)
    }

    /// A room that grew, or another part, may make room in seconds that had none.
    fn follow_room(&mut self, before: SlotRoom) {
        if self.room.all() > before.all() || self.room.part() != before.part() {
            self.clear_hints();
        }
    }

    /// Looks at all seconds again.
    fn clear_hints(&mut self) {
        self.hints.clear();
        self.namespace_hints.clear();
    }
}

/// The name of a tenant for hints.
fn name_of(sale: &TicketSale) -> [u64; 2] {
    [sale.namespace.into(), sale.tenant]
}

/// The largest number of slots that are kept under these settings.
fn slots_max_of(config: &DeferralConfig) -> usize {
    usize::try_from(2 * config.horizon.as_secs() + SLOTS_BEYOND).unwrap_or(usize::MAX)
}
