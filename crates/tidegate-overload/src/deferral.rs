//! Deferral: a refused request of a low class gets a ticket for a second that is reserved for it.
//!
//! All that are told the same time come back at the same time. The calendar sells each second of
//! its horizon up to a part of what the resource serves, so that they come back one after the
//! other, in the order in which they were refused.

pub(crate) mod booked_slot;
pub(crate) mod calendar;
pub(crate) mod calendar_stats;
pub(crate) mod deferral_config;
pub(crate) mod foreign_tickets;
pub(crate) mod forgotten_slots;
pub(crate) mod namespace_asks;
pub(crate) mod namespace_weights;
pub(crate) mod part_hints;
pub(crate) mod pulled_front;
pub(crate) mod resource_deferral;
pub(crate) mod shown_capacity;
pub(crate) mod slot_book;
pub(crate) mod slot_index;
pub(crate) mod slot_room;
pub(crate) mod spent_bits;
pub(crate) mod steady_capacity;
pub(crate) mod tenant_sketch;
#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests;
pub(crate) mod ticket_clock;
pub(crate) mod ticket_number;
pub(crate) mod ticket_sale;
pub(crate) mod typical_cost;
