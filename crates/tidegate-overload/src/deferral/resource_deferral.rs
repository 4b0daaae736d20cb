//! Deferral at one resource: its settings, its calendar and its counts. All instants here are on
//! the [clock of tickets](crate::TicketClock).

use core::time::Duration;

use tidegate_core::{Class, Timestamp};

use crate::cursor::namespace_slots::NamespaceTick;
use crate::deferral::calendar::{DeferralCalendar, TICKET_BYTES_MAX};
use crate::deferral::calendar_stats::CalendarStats;
use crate::deferral::deferral_config::DeferralConfig;
use crate::deferral::pulled_front::CalendarLoad;
use crate::deferral::shown_capacity::{ShownCapacity, ShownUse};
use crate::deferral::steady_capacity::SteadyCapacity;
use crate::deferral::ticket_number::{Booking, TicketAsk, TicketIssuer, TicketNumber, TicketState};
use crate::tick::TICK;

/// How often a start is looked at before its first tick. The highest of many looks would be far
/// above the capacity.
const LOOK: Duration = Duration::from_millis(10);

/// The bit of [`Resource`](crate::Resource)'s word that says that its level is at least hard.
pub(crate) const HARD: u8 = 1 << 7;

/// The deferrals of one resource since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeferralCounts {
    /// The tickets that were sold.
    pub sold: u64,
    /// The requests that found no room in the calendar.
    pub full: u64,
    /// The tickets that were spent, by an admission or by a request that waits for a place.
    pub redeemed: u64,
    /// Those of them that are good again, since their request was not served after all.
    pub given_back: u64,
    /// The tickets that were presented before their time.
    pub early: u64,
    /// The tickets that were presented after it.
    pub expired: u64,
    /// The tickets that were presented a second time here.
    pub replayed: u64,
    /// The tickets for which no more could be remembered, that were sold elsewhere.
    pub unremembered: u64,
}

/// The state of deferral at one resource.
#[derive(Debug, Default)]
pub(crate) struct Deferral {
    config: Option<DeferralConfig>,
    issuer: TicketIssuer,
    /// The number of its calendar among those that the process has had.
    number: Option<u64>,
    /// Made with the first ticket, and kept when the settings are gone: tickets are out.
    calendar: Option<Box<DeferralCalendar>>,
    capacity: ShownCapacity,
    steady: SteadyCapacity,
    ticked: Option<Timestamp>,
    /// When the work since the last tick was last taken in.
    begun: Option<Timestamp>,
    counts: DeferralCounts,
}

/// The load of a resource as deferral sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeferralTick<'a> {
    pub(crate) ticks: &'a [NamespaceTick],
    pub(crate) shown: ShownUse,
    /// The time of work whose end is not reported, in seconds; 0: not known.
    pub(crate) typical: f64,
    pub(crate) is_below_hard: bool,
}

impl Deferral {
    /// Without a ticket, by these settings.
    pub(crate) fn new(config: Option<DeferralConfig>) -> Self {
        Self { config, ..Self::default() }
    }

    /// Goes on with other settings.
    pub(crate) fn reconfigure(&mut self, config: Option<DeferralConfig>) {
        self.config = config;
        if let (Some(calendar), Some(config)) = (&mut self.calendar, config) {
            calendar.reconfigure(config);
        }
    }

    /// The name under which it sells tickets from the first one on.
    pub(crate) fn set_issuer(&mut self, issuer: TicketIssuer) {
        self.issuer = issuer;
    }

    /// Gives its calendar a number if it has none.
    pub(crate) fn number_calendar(&mut self, next: impl FnOnce() -> u64) {
        self.number.get_or_insert_with(next);
    }

    pub(crate) const fn config(&self) -> Option<&DeferralConfig> {
        self.config.as_ref()
    }

    /// Takes in a tick.
    pub(crate) fn tick(&mut self, tick: &DeferralTick<'_>, now: Timestamp) {
        let Some(config) = self.config else { return };
        self.ticked = Some(now);
        let (is_first, is_rising) = (self.capacity.is_first(), self.capacity.is_rising());
        self.capacity.tick(tick.ticks, tick.shown, tick.typical);
        if is_first || is_rising {
            self.steady.release();
        }
        let shown = self.capacity.get(tick.shown.places);
        let (capacity, is_new) = self.steady.tick(shown);
        let spare = shown * (1.0 - tick.shown.in_use).max(config.share.as_ratio());
        let load = CalendarLoad { capacity, spare, is_below_hard: tick.is_below_hard };
        if let Some(calendar) = &mut self.calendar {
            if is_rising {
                calendar.keep_room_of_sold(now);
            } else if is_new {
                calendar.release_room();
            }
            calendar.tick(load, now);
        }
    }

    /// Whether the work since the last tick counts as well now, by [`Deferral::begin`].
    pub(crate) fn looks_at_start(&self, now: Timestamp) -> bool {
        let is_early = |begun: Timestamp| now.abs_diff(begun) < LOOK;
        self.capacity.is_first() && !(self.capacity.has_ended() && self.begun.is_some_and(is_early))
    }

    /// Takes in the work that has ended since the last tick, before a sale of a resource whose work
    /// has just begun.
    pub(crate) fn begin(&mut self, ended: (u64, u64), shown: ShownUse, now: Timestamp) {
        self.begun = Some(now);
        // A resource without a tick has begun within the last one.
        let since_tick = self.ticked.map_or(TICK, |ticked| now.saturating_since(ticked));
        self.capacity.begin(ended, shown, since_tick);
        self.steady.release();
        if let Some(calendar) = &mut self.calendar {
            if self.capacity.is_rising() {
                calendar.keep_room_of_sold(now);
            } else {
                calendar.release_room();
            }
        }
    }

    /// The calendar, made with the first use; `None` where requests are not deferred.
    fn calendar(&mut self) -> Option<&mut DeferralCalendar> {
        // A resource that was gone and came back has another calendar, which sells numbers anew:
        // it counts as one of a later start.
        let TicketIssuer { member, start } = self.issuer;
        let issuer = TicketIssuer { member, start: start.wrapping_add(self.number.unwrap_or(0)) };
        let config = self.config?;
        let new = || Box::new(DeferralCalendar::new(config, issuer, TICKET_BYTES_MAX));
        Some(self.calendar.get_or_insert_with(new))
    }

    /// Sells a ticket; `None` if the calendar is full.
    pub(crate) fn sell(&mut self, ask: TicketAsk, places: u64, now: Timestamp) -> Option<Booking> {
        let capacity = self.steady.at_sale(self.capacity.get(places));
        let booking = self.calendar()?.sell(ask, capacity, now);
        let count = if booking.is_some() { &mut self.counts.sold } else { &mut self.counts.full };
        *count += 1;
        booking
    }

    /// The worth of a ticket now; counts nothing.
    pub(crate) fn look(
        &self,
        number: TicketNumber,
        (not_before, expires): (Timestamp, Timestamp),
        now: Timestamp,
    ) -> TicketState {
        match &self.calendar {
            Some(calendar) => calendar.state(number, not_before, expires, now),
            None if now < not_before => TicketState::Early { come_back: not_before },
            None if now >= expires => TicketState::Expired,
            None => TicketState::Due,
        }
    }

    /// [`Deferral::look`] for a ticket that is presented.
    pub(crate) fn present(
        &mut self,
        number: TicketNumber,
        times: (Timestamp, Timestamp),
        now: Timestamp,
    ) -> TicketState {
        let state = self.look(number, times, now);
        match state {
            TicketState::Due => {}
            TicketState::Early { .. } => self.counts.early += 1,
            TicketState::Expired => self.counts.expired += 1,
            TicketState::Spent => self.counts.replayed += 1,
            TicketState::NoRoom => self.counts.unremembered += 1,
        }
        state
    }

    /// Spends a ticket; whether it was good.
    pub(crate) fn spend(&mut self, number: TicketNumber, now: Timestamp) -> bool {
        let Some(calendar) = self.calendar() else { return false };
        let is_spent = calendar.spend(number, now);
        let count = if is_spent { &mut self.counts.redeemed } else { &mut self.counts.replayed };
        *count += 1;
        is_spent
    }

    /// Makes a ticket worth nothing that another one replaces.
    pub(crate) fn replace(&mut self, number: TicketNumber, now: Timestamp) {
        if let Some(calendar) = &mut self.calendar {
            calendar.spend(number, now);
        }
    }

    /// Takes back that a ticket was spent.
    pub(crate) fn give_back(&mut self, number: TicketNumber, now: Timestamp) {
        if let Some(calendar) = &mut self.calendar {
            calendar.give_back(number, now);
            self.counts.given_back += 1;
        }
    }

    /// The numbers for views.
    pub(crate) fn stats(&self, places: u64, now: Timestamp) -> Option<DeferralStats> {
        let config = self.config?;
        let calendar = self.calendar.as_ref().map(|calendar| calendar.stats(now));
        let capacity = self.capacity.get(places);
        Some(DeferralStats { config, capacity, calendar: calendar.unwrap_or_default(), counts: self.counts })
    }
}

/// Deferral at one resource, for metrics and operators.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct DeferralStats {
    /// The settings.
    pub config: DeferralConfig,
    /// The requests a second that the resource has shown it can serve.
    pub capacity: f64,
    /// The calendar.
    pub calendar: CalendarStats,
    /// The tickets since the start.
    pub counts: DeferralCounts,
}

/// The word that says at a glance which classes are deferred, and whether before they wait.
pub(crate) fn deferral_word(config: Option<&DeferralConfig>, is_hard: bool) -> u8 {
    let Some(config) = config else { return 0 };
    let classes = Class::ALL.into_iter().filter(|class| config.takes(*class));
    classes.fold(if is_hard { HARD } else { 0 }, |word, class| word | 1 << class as u8)
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_looked_at_every_10_ms_and_at_once_when_the_clock_was_set_back() {
        let mut deferral = Deferral::new(Some(DeferralConfig::new([Class::Sheddable])));
        let now = Timestamp::from_secs(1_800_000_000);
        let shown = ShownUse { places: 10, in_flight: 10, in_use: 1.0 };
        assert!(deferral.looks_at_start(now));
        deferral.begin((0, 0), shown, now);
        assert!(deferral.looks_at_start(now), "no work has ended yet");
        deferral.begin((4, 4_000), shown, now);
        let after = |millis| now.saturating_add(Duration::from_millis(millis));
        assert!(!deferral.looks_at_start(now) && !deferral.looks_at_start(after(9)));
        assert!(deferral.looks_at_start(after(10)));
        assert!(deferral.looks_at_start(now.saturating_sub(Duration::from_hours(1))));
    }
}
