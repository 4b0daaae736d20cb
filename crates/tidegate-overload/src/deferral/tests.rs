#![expect(
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "the numbers of these tests are small"
)]

use core::time::Duration;
use std::collections::BTreeMap;

use tidegate_core::{Class, Timestamp};

use super::calendar::{DeferralCalendar, TICKET_BYTES_MAX};
use super::deferral_config::DeferralConfig;
use super::pulled_front::CalendarLoad;
use super::ticket_number::{
    Booking, SLOT_TICKETS_MAX, TICKET_VALID, TicketAsk, TicketIssuer, TicketNumber, TicketState,
};
use crate::queue::fair_queue::Share;

#[cfg(tidegate_planted_faults)]
mod faults;
mod memory;
mod model;
mod namespaces;
mod pulled_forward;
mod sale;
mod spent_tickets;

const START: u64 = 1_800_000_000;
const NOW: Timestamp = Timestamp::from_secs(START);
const ISSUER: TicketIssuer = TicketIssuer { member: 1, start: 1 };

fn after(millis: u64) -> Timestamp {
    NOW.saturating_add(Duration::from_millis(millis))
}

/// All of the capacity is for sale, so many seconds ahead.
fn config(horizon: u64) -> DeferralConfig {
    DeferralConfig {
        share: Share::WHOLE,
        horizon: Duration::from_secs(horizon),
        ..DeferralConfig::new([Class::Sheddable])
    }
}

fn calendar(horizon: u64) -> DeferralCalendar {
    DeferralCalendar::new(config(horizon), ISSUER, TICKET_BYTES_MAX)
}

const fn ask(tenant: u64) -> TicketAsk {
    TicketAsk { namespace: 1, tenant, cost: 1 }
}

/// The state of a ticket.
fn state(calendar: &DeferralCalendar, sold: Booking, now: Timestamp) -> TicketState {
    calendar.state(sold.number, sold.not_before, sold.expires, now)
}

/// The tickets sold for each second, counted from [`START`].
fn sold_by_second(bookings: &[Booking]) -> BTreeMap<u64, usize> {
    let mut seconds = BTreeMap::new();
    for sold in bookings {
        *seconds.entry(sold.number.slot - START).or_default() += 1;
    }
    seconds
}
