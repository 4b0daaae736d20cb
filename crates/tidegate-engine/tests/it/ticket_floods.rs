//! Tickets for hostile callers: tenants with names of 2 KiB, a tenant that collects tickets and
//! never returns, and 100 000 tenants within a second.

use core::time::Duration;
use std::collections::{BTreeMap, HashSet};

use tidegate_core::{Class, DeferralTicket, Reason, Refusal};
use tidegate_engine::{Outcome, Permit, Request, TicketFault};
use tidegate_overload::{DeferralConfig, OfferOutcome, QueueConfig, ResourceConfig, Share};

use crate::tickets::{batch, close, faults, stats, ticket_of, world_of};
use crate::world::World;

const TICK: Duration = Duration::from_millis(100);
const SECOND: Duration = Duration::from_secs(1);
const REQUESTS: u64 = 100_000;
/// The most bytes of a calendar beside the bits for spent tickets: its slots, the index of free
/// seconds, hints, the namespaces' hints, and what it takes more while it is pulled forward.
const BESIDE_BITS: u64 = (928 + 32 + 16 + 18 + 64) << 10;

/// A resource with so many places, half of whose work is for tickets, that has served a request of
/// 100 ms at each of its places for a second.
fn busy(places: u64) -> World {
    let defer = DeferralConfig { share: Share::HALF, ..DeferralConfig::new([Class::Sheddable]) };
    let world = world_of(&ResourceConfig::new(places).queue(QueueConfig::default()).defer(defer));
    for _ in 0..10 {
        let held = fill(&world);
        serve(&world, held);
    }
    world
}

/// Requests of another class that take all places.
fn fill(world: &World) -> Vec<Permit> {
    let places = world.stats().in_flight_max;
    let request = batch("shop").class(Class::CriticalPlus).tenant("gold");
    (0..places).map(|_| world.begin(&request).admitted()).collect()
}

/// Ends the work after 100 ms, with the tick that is due.
fn serve(world: &World, held: Vec<Permit>) {
    world.advance(TICK);
    for permit in held {
        drop(world.engine.settle(permit, Outcome::Succeeded, world.now()));
    }
    drop(world.engine.tick(world.now()));
}

/// Lets the resource work until the ticket is due, and presents it when places are free.
fn return_in_time(world: &World, request: &Request<'_>, ticket: &DeferralTicket) {
    while world.now() < ticket.not_before {
        let held = fill(world);
        serve(world, held);
    }
    assert!(world.now() < ticket.expires);
    let before = stats(world).counts.redeemed;
    drop(world.begin(&request.ticket(&ticket.text)).admitted());
    assert_eq!(stats(world).counts.redeemed, before + 1);
}

#[test]
fn a_tenant_of_2_kib_has_a_ticket_as_short_as_others_that_no_tenant_with_another_last_byte_can_use() {
    let world = world_of(
        &ResourceConfig::new(2).queue(QueueConfig::default()).defer(DeferralConfig::new([Class::Sheddable])),
    );
    close(&world);
    let names = ["x".repeat(2_047) + "a", "x".repeat(2_047) + "b", "x".repeat(2_047)];
    let [own, other, cut] = names.each_ref().map(|name| batch("shop").tenant(name));
    let ticket = ticket_of(&world.begin(&own).refused());
    assert_eq!(ticket.text.len(), ticket_of(&world.begin(&batch("shop")).refused()).text.len());
    world.advance(ticket.not_before.saturating_since(world.now()));
    for (wrong, request) in [other, cut].into_iter().enumerate() {
        let refused = ticket_of(&world.begin(&request.ticket(&ticket.text)).refused());
        assert_ne!(refused.text, ticket.text);
        assert_eq!(
            (faults(&world, TicketFault::Tenant), stats(&world).counts.redeemed),
            (wrong as u64 + 1, 0)
        );
    }
    drop(world.begin(&own.ticket(&ticket.text)).admitted());
    assert_eq!(stats(&world).counts.redeemed, 1);
}

#[test]
fn a_tenant_that_collects_100_000_tickets_and_never_returns_costs_others_no_second_and_little_memory() {
    // It serves 100 requests a second.
    let world = busy(10);
    let mut last = world.now();
    let collect = || {
        for _ in 0..100 {
            let held = fill(&world);
            for _ in 0..REQUESTS / 100 {
                last = ticket_of(&world.begin(&batch("shop")).refused()).not_before.max(last);
            }
            serve(&world, held);
        }
    };
    let allocated = allocation_counter::measure(collect).bytes_current.cast_unsigned();
    let deferral = stats(&world);
    println!("{allocated} bytes, {deferral:?}");
    assert_eq!(deferral.counts.sold, REQUESTS);
    assert!(last > world.now().saturating_add(1_900 * SECOND), "50 in each second: {last}");
    assert!(allocated <= BESIDE_BITS, "{allocated} bytes, and nobody has spent a ticket");
    let held = fill(&world);
    let eve = batch("shop").tenant("eve");
    let ticket = ticket_of(&world.begin(&eve).refused());
    let wait = ticket.not_before.saturating_since(world.now());
    assert!(wait <= 3 * SECOND, "one of the next seconds, and not {wait:?}");
    serve(&world, held);
    return_in_time(&world, &eve, &ticket);
}

#[test]
fn of_100_000_tenants_within_a_second_each_gets_a_ticket_or_the_time_of_a_retry() {
    // It serves 20 requests a second.
    let world = busy(2);
    let (offered_before, now) = (world.stats().class(Class::Sheddable).offered, world.now());
    let (mut texts, mut seconds) = (HashSet::new(), BTreeMap::<u64, u64>::new());
    let mut shed = 0;
    let mut ask = |refusal: Refusal| {
        if refusal.reason() == Reason::Deferred {
            let ticket = ticket_of(&refusal);
            *seconds.entry(ticket.not_before.as_secs()).or_default() += 1;
            assert!(texts.insert(ticket.text.to_string()), "a ticket of its own");
        } else {
            assert_eq!(refusal.reason(), Reason::OverloadShed, "{refusal:?}");
            assert!(refusal.retry_hint.is_some_and(|hint| hint >= SECOND), "{refusal:?}");
            shed += 1;
        }
    };
    for tick in 0..10 {
        let held = fill(&world);
        for number in 0..REQUESTS / 10 {
            let tenant = format!("tenant-{tick}-{number}");
            ask(world.begin(&batch("shop").tenant(&tenant)).refused());
        }
        serve(&world, held);
    }
    let sold = texts.len() as u64;
    let (deferral, resource) = (stats(&world), world.stats());
    println!("{sold} tickets, {shed} without, {deferral:?}");
    assert_eq!((sold + shed, deferral.counts.sold, deferral.counts.full), (REQUESTS, sold, shed));
    assert_eq!(resource.class(Class::Sheddable).offered - offered_before, REQUESTS);
    assert_eq!((resource.count(OfferOutcome::Deferred), resource.undecided()), (sold, 0));
    assert!(sold >= 36_000 && shed >= 10_000, "half of what is served in an hour: {sold}, {shed}");
    let (first, last) = (*seconds.keys().next().unwrap(), *seconds.keys().last().unwrap());
    assert!(first > now.as_secs() && last <= world.now().as_secs() + 3_600, "{first} to {last}");
    let most = seconds.values().max().unwrap();
    assert!(*most <= 21, "twice the room and one: {most}");
    assert!(deferral.calendar.bytes as u64 <= BESIDE_BITS, "nobody has spent a ticket: {deferral:?}");
}
