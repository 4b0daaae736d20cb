//! Tickets of one resource. All instants here are on the [clock of tickets](crate::TicketClock).

use tidegate_core::{Class, Timestamp};

use super::{DeferralTick, HARD, Resource, ResourceControl, deferral_word, in_use};
use crate::cursor::cursor_control::TickMeasures;
use crate::deferral::resource_deferral::DeferralStats;
use crate::deferral::shown_capacity::ShownUse;
use crate::deferral::ticket_number::{Booking, TicketAsk, TicketIssuer, TicketNumber, TicketState};
use crate::levels::load_level::LoadLevel;
use crate::sync::{Ordering, lock};

impl Resource {
    /// Whether refused requests of a class get tickets.
    #[inline]
    pub fn defers(&self, class: Class) -> bool {
        self.deferral_word.load(Ordering::Relaxed) >> class as u8 & 1 == 1
    }

    /// Whether requests of a class are deferred rather than wait for a place: the load level is at
    /// least hard.
    pub fn defers_before_queue(&self, class: Class) -> bool {
        self.defers(class) && self.deferral_word.load(Ordering::Relaxed) & HARD != 0
    }

    /// Sells a ticket for a request that is refused; `None` where requests are not deferred, or if
    /// the calendar is full. `now` and the instants of the booking are on the
    /// [clock of tickets](crate::TicketClock), as in all functions of tickets here.
    pub fn sell_ticket(&self, ask: TicketAsk, now: Timestamp) -> Option<Booking> {
        let mut deferral = lock(&self.deferral);
        if deferral.looks_at_start(now) {
            deferral.begin(self.namespaces.ended_since_tick(), self.shown_use(1.0), now);
        }
        deferral.sell(ask, self.in_flight.max(), now)
    }

    /// The worth of a ticket that is presented now and is good between two instants; it is counted.
    pub fn present_ticket(
        &self,
        number: TicketNumber,
        times: (Timestamp, Timestamp),
        now: Timestamp,
    ) -> TicketState {
        lock(&self.deferral).present(number, times, now)
    }

    /// The same, and nothing is counted.
    pub fn look_at_ticket(
        &self,
        number: TicketNumber,
        times: (Timestamp, Timestamp),
        now: Timestamp,
    ) -> TicketState {
        lock(&self.deferral).look(number, times, now)
    }

    /// Spends a ticket of a request that is admitted; whether it was good still.
    pub fn spend_ticket(&self, number: TicketNumber, now: Timestamp) -> bool {
        lock(&self.deferral).spend(number, now)
    }

    /// Makes a ticket worth nothing, in place of which another one was sold.
    pub fn replace_ticket(&self, number: TicketNumber, now: Timestamp) {
        lock(&self.deferral).replace(number, now);
    }

    /// Makes a ticket good again whose request was not served after all.
    pub fn give_ticket_back(&self, number: TicketNumber, now: Timestamp) {
        lock(&self.deferral).give_back(number, now);
    }

    /// The most deferrals of one request that raise it; 0 where requests are not deferred.
    pub fn max_deferrals(&self) -> u8 {
        lock(&self.deferral).config().map_or(0, |config| config.max_deferrals)
    }

    /// Deferral in numbers; `None` where requests are not deferred.
    pub fn deferral_stats(&self, now: Timestamp) -> Option<DeferralStats> {
        lock(&self.deferral).stats(self.in_flight.max(), now)
    }

    /// Gives its calendar a number if it has none.
    pub(crate) fn number_calendar(&self, next: impl FnOnce() -> u64) {
        lock(&self.deferral).number_calendar(next);
    }

    pub(crate) fn set_ticket_issuer(&self, issuer: TicketIssuer) {
        lock(&self.deferral).set_issuer(issuer);
    }

    /// Notes what requests see of deferral without its lock.
    pub(super) fn note_deferral(&self, control: &ResourceControl) {
        let is_hard = control.levels.level() >= LoadLevel::Hard;
        let word = deferral_word(control.config.defer.as_ref(), is_hard);
        self.deferral_word.store(word, Ordering::Relaxed);
    }

    /// The use of the places now, of which a part was in use since the last tick.
    fn shown_use(&self, in_use: f64) -> ShownUse {
        ShownUse { places: self.in_flight.max(), in_flight: self.in_flight.count(), in_use }
    }

    pub(super) fn tick_deferral(
        &self,
        control: &ResourceControl,
        measures: &TickMeasures<'_>,
        now: Timestamp,
    ) {
        self.note_deferral(control);
        let tick = DeferralTick {
            ticks: measures.namespaces,
            shown: self.shown_use(in_use(measures)),
            typical: self.pacer.service().as_secs_f64(),
            is_below_hard: control.levels.level() < LoadLevel::Hard,
        };
        lock(&self.deferral).tick(&tick, now);
    }
}
