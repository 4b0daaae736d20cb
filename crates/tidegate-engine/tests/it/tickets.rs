//! Deferral: refused requests get tickets, and come back with them.

use core::time::Duration;

use tidegate_capacity::Capacity;
use tidegate_core::{
    Attributes, Class, Cost, DeferralTicket, Limit, Reason, Refusal, RefusalDetails, Retry, Timestamp,
};
use tidegate_engine::{
    Completion, Engine, Event, NamespaceConfig, OfferOutcome, Outcome, Request, TicketFault, TicketKeys,
    TicketReport,
};
use tidegate_overload::{
    Cursor, DeferralConfig, DeferralStats, LoadLevel, Overload, QueueConfig, ResourceConfig, Share,
    TicketClock, TicketIssuer, TicketState,
};

use crate::world::{NOW, World, bucket, config};

const SECOND: Duration = Duration::from_secs(1);
const KEY: [u8; 32] = [7; 32];
const ISSUER: TicketIssuer = TicketIssuer { member: 1, start: 1 };

fn app() -> ResourceConfig {
    let defer = DeferralConfig { share: Share::HALF, ..DeferralConfig::new([Class::Sheddable]) };
    ResourceConfig::new(2).queue(QueueConfig::default()).defer(defer)
}

pub(crate) fn world_of(resource: &ResourceConfig) -> World {
    let one = Limit::new("one", bucket(1, Duration::from_hours(1)));
    let namespaces = [
        NamespaceConfig::new("shop", []),
        NamespaceConfig::new("blog", []),
        NamespaceConfig::new("once", [one]),
    ];
    let engine = Engine::builder(config()).namespaces(namespaces).build().unwrap();
    let resources = Overload::builder(7).resource("app", *resource);
    let engine = engine.with_planes(Capacity::builder(), resources, NOW).unwrap();
    engine.set_ticket_keys(Some(TicketKeys::new(&KEY).unwrap()));
    engine.set_ticket_issuer(ISSUER);
    World::of(engine)
}

fn world() -> World {
    world_of(&app())
}

/// A request of the class that is deferred.
pub(crate) fn batch(namespace: &str) -> Request<'_> {
    Request::new(namespace, Attributes::default()).resource("app").class(Class::Sheddable).tenant("ada")
}

pub(crate) fn ticket_of(refusal: &Refusal) -> DeferralTicket {
    assert_eq!(refusal.reason(), Reason::Deferred, "{refusal:?}");
    let details = refusal.details.as_deref().and_then(RefusalDetails::overload).unwrap();
    let ticket = details.ticket.as_deref().unwrap().clone();
    assert_eq!(refusal.retry(), Retry::At(ticket.not_before));
    ticket
}

pub(crate) fn stats(world: &World) -> DeferralStats {
    world.stats().deferral.unwrap()
}

/// An operator lets nothing but the highest class pass for a minute.
pub(crate) fn close(world: &World) {
    let until = world.now().saturating_add(60 * SECOND);
    let pin = Event::Pin { resource: Some("app"), level: Some(Cursor::CLOSED.level()), until };
    world.engine.event(pin, world.now()).unwrap();
}

/// Lets time pass until then, with all ticks.
fn tick_until(world: &World, until: Timestamp) {
    while world.now() < until {
        world.advance(Duration::from_millis(100));
        drop(world.engine.tick(world.now()));
    }
}

fn fill(world: &World) -> [tidegate_engine::Permit; 2] {
    [world.begin(&batch("shop")).admitted(), world.begin(&batch("shop")).admitted()]
}

#[test]
fn a_request_without_a_place_gets_a_ticket_and_is_admitted_with_it_once() {
    let world = world();
    let held = fill(&world);
    let ticket = ticket_of(&world.begin(&batch("shop")).refused());
    assert!(ticket.not_before > world.now() && ticket.deferrals == 1, "{ticket:?}");
    assert_eq!(world.stats().count(OfferOutcome::Deferred), 1);
    drop(held);
    world.advance(ticket.not_before.saturating_since(world.now()));
    let back = batch("shop").ticket(&ticket.text);
    let permit = world.begin(&back).admitted();
    assert_eq!(stats(&world).counts.redeemed, 1);
    drop(world.engine.settle(permit, Outcome::Succeeded, world.now()));
    // A second time it is a request without a ticket.
    drop(world.begin(&back).admitted());
    let counts = stats(&world).counts;
    assert_eq!((counts.redeemed, counts.replayed), (1, 1));
}

#[test]
fn a_ticket_that_comes_early_gets_the_rest_of_its_wait_and_stays_good() {
    let world = world();
    let held = fill(&world);
    let ticket = ticket_of(&world.begin(&batch("shop")).refused());
    let back = batch("shop").ticket(&ticket.text);
    let again = ticket_of(&world.begin(&back).refused());
    assert_eq!((&again.text, again.not_before), (&ticket.text, ticket.not_before));
    assert_eq!(stats(&world).counts.early, 1);
    drop(held);
    world.advance(ticket.not_before.saturating_since(world.now()));
    drop(world.begin(&back).admitted());
    assert_eq!(stats(&world).counts.redeemed, 1);
}

#[test]
fn a_ticket_that_comes_early_is_told_so_although_its_caller_may_wait() {
    let world = world();
    let held = fill(&world);
    let ticket = ticket_of(&world.begin(&batch("shop")).refused());
    drop(held);
    let until = ticket.not_before.saturating_add(SECOND);
    let again = ticket_of(&world.begin(&batch("shop").ticket(&ticket.text).may_wait_until(until)).refused());
    assert_eq!((&again.text, again.not_before), (&ticket.text, ticket.not_before));
    assert_eq!((stats(&world).counts.early, world.engine.waiting()), (1, 0));
}

#[test]
fn the_cursor_lets_a_ticket_pass_in_its_time_and_sheds_the_request_without_it() {
    let world = world();
    close(&world);
    let ticket = ticket_of(&world.begin(&batch("shop")).refused());
    world.advance(ticket.not_before.saturating_since(world.now()));
    drop(world.begin(&batch("shop").ticket(&ticket.text)).admitted());
    let other = Request::new("shop", Attributes::default()).resource("app").class(Class::SheddablePlus);
    assert_eq!(world.begin(&other).refused().reason(), Reason::OverloadShed, "its class is not deferred");
}

#[test]
fn whoever_is_over_a_limit_of_its_own_is_told_so_and_gets_no_ticket() {
    let world = world();
    drop(world.begin(&batch("once")).admitted());
    for is_shed in [false, true] {
        if is_shed {
            close(&world);
        }
        let held = (!is_shed).then(|| fill(&world));
        assert_eq!(world.begin(&batch("once")).refused().reason(), Reason::QuotaExceeded, "{is_shed}");
        drop(held);
    }
    assert_eq!(stats(&world).counts.sold, 0);
}

#[test]
fn a_ticket_is_spent_by_an_admission_and_not_by_being_shown() {
    let world = world();
    let held = fill(&world);
    let ticket = ticket_of(&world.begin(&batch("shop")).refused());
    world.advance(ticket.not_before.saturating_since(world.now()));
    let back = batch("shop").ticket(&ticket.text);
    // Without a place it stays good, and its caller is to come back before it expires.
    let kept = ticket_of(&world.begin(&back).refused());
    assert_eq!(kept.text, ticket.text);
    assert!(kept.not_before > world.now() && kept.not_before < ticket.expires);
    drop(held);
    // Cancelled before it was served, it is good again.
    let permit = world.begin(&back).admitted();
    drop(world.engine.settle(permit, Outcome::Cancelled, world.now()));
    let counts = stats(&world).counts;
    assert_eq!((counts.redeemed, counts.given_back), (1, 1));
    let permit = world.begin(&back).admitted();
    drop(world.engine.settle(permit, Completion::from(Outcome::Failed), world.now()));
    assert_eq!(stats(&world).counts.redeemed, 2);
}

#[test]
fn an_expired_ticket_brings_a_new_one_with_one_deferral_more() {
    let world = world();
    let held = fill(&world);
    let mut text = None;
    for deferral in 1..=3_u8 {
        let request = text.as_deref().map_or(batch("shop"), |text| batch("shop").ticket(text));
        let ticket = ticket_of(&world.begin(&request).refused());
        assert_eq!(ticket.deferrals, deferral);
        world.advance(ticket.expires.saturating_since(world.now()) + SECOND);
        text = Some(ticket.text.to_string());
    }
    assert_eq!(stats(&world).counts.expired, 2);
    drop(held);
}

#[test]
fn a_ticket_that_is_shown_a_second_time_counts_for_nothing_and_not_as_a_deferral() {
    let world = world();
    let held = fill(&world);
    let ticket = ticket_of(&world.begin(&batch("shop")).refused());
    drop(held);
    world.advance(ticket.not_before.saturating_since(world.now()));
    let back = batch("shop").ticket(&ticket.text);
    let held = [world.begin(&back).admitted(), world.begin(&batch("shop")).admitted()];
    assert_eq!(ticket_of(&world.begin(&back).refused()).deferrals, 1);
    assert_eq!(stats(&world).counts.replayed, 1);
    drop(held);
}

#[test]
fn a_ticket_of_anything_else_counts_for_nothing_and_says_why() {
    let world = world();
    let held = fill(&world);
    let of = |namespace| batch(namespace).cost(Cost::new(5).unwrap());
    let heavy = of("shop").operation("export");
    let ticket = ticket_of(&world.begin(&heavy).refused());
    drop(held);
    world.advance(ticket.not_before.saturating_since(world.now()));
    let text = ticket.text.to_string();
    let other = if text.as_bytes()[150] == b'A' { "B" } else { "A" };
    let forged = format!("{}{other}{}", &text[..150], &text[151..]);
    let cases: [(Request<'_>, TicketFault); 7] = [
        (heavy.tenant("eve").ticket(&text), TicketFault::Tenant),
        (of("blog").operation("export").ticket(&text), TicketFault::Namespace),
        (heavy.operation("delete").ticket(&text), TicketFault::Operation),
        (of("shop").ticket(&text), TicketFault::Operation),
        (heavy.cost(Cost::new(6).unwrap()).ticket(&text), TicketFault::Cost),
        (heavy.ticket("nonsense"), TicketFault::Malformed),
        (heavy.ticket(&forged), TicketFault::Forged),
    ];
    for (request, fault) in cases {
        let before = faults(&world, fault);
        drop(world.begin(&request).admitted());
        assert_eq!(faults(&world, fault), before + 1, "{fault:?}");
    }
    assert_eq!(stats(&world).counts.redeemed, 0);
    // At a lower cost it counts.
    drop(world.begin(&heavy.cost(Cost::new(4).unwrap()).ticket(&text)).admitted());
    assert_eq!(stats(&world).counts.redeemed, 1);
}

#[test]
fn a_ticket_that_counts_for_nothing_is_counted_once_although_its_request_waits() {
    let world = world();
    let held = fill(&world);
    let old = ticket_of(&world.begin(&batch("shop")).refused());
    world.advance(old.expires.saturating_since(world.now()));
    let until = world.now().saturating_add(SECOND);
    let waiting = ["nonsense", &*old.text]
        .map(|text| world.begin(&batch("shop").ticket(text).may_wait_until(until)).waits());
    drop(held);
    let served = waiting.map(|one| world.resume(one).admitted());
    assert_eq!((faults(&world, TicketFault::Malformed), stats(&world).counts.expired), (1, 1));
    drop(served);
}

pub(crate) fn faults(world: &World, fault: TicketFault) -> u64 {
    world.engine.ticket_faults().into_iter().find(|(one, _)| *one == fault).unwrap().1
}

#[test]
fn from_hard_on_a_request_is_deferred_rather_than_wait_and_one_with_a_ticket_waits() {
    let world = world();
    let held = fill(&world);
    // Below hard it waits.
    let until = world.now().saturating_add(SECOND);
    drop(world.begin(&batch("shop").may_wait_until(until)).waits());
    tick_until(&world, world.now().saturating_add(3 * SECOND));
    assert!(world.stats().level >= LoadLevel::Hard);
    let until = world.now().saturating_add(SECOND);
    let ticket = ticket_of(&world.begin(&batch("shop").may_wait_until(until)).refused());
    tick_until(&world, ticket.not_before);
    let text = ticket.text.to_string();
    let until = world.now().saturating_add(SECOND);
    let waits = world.begin(&batch("shop").may_wait_until(until).ticket(&text)).waits();
    drop(held);
    drop(world.resume(waits).admitted());
    assert_eq!(stats(&world).counts.redeemed, 1);
}

/// Callers that wait for the whole seconds of `Retry-After` come back with the tickets of a second
/// at once, and there are places for a few of them only.
#[test]
fn a_request_with_a_ticket_waits_for_a_second_where_others_may_wait_for_less() {
    let world = world();
    let held = fill(&world);
    let tickets = [(), ()].map(|()| ticket_of(&world.begin(&batch("shop")).refused()));
    tick_until(&world, tickets[1].not_before);
    let until = world.now().saturating_add(SECOND / 4);
    let patient = || batch("shop").may_wait_until(until);
    // The first one finds no line, and the second one joins that of the first.
    let waits = tickets.each_ref().map(|ticket| world.begin(&patient().ticket(&ticket.text)).waits());
    let without = world.begin(&patient().class(Class::Critical)).waits();
    world.advance(SECOND / 2);
    assert_eq!(world.resume(without).refused().reason(), Reason::OverloadShed);
    let waits = waits.map(|waits| world.resume(waits).waits());
    world.advance(SECOND / 4);
    drop(held);
    for waits in waits {
        drop(world.resume(waits).admitted());
    }
    assert_eq!(stats(&world).counts.redeemed, 2);
}

/// As behind a route of the proxy without `wait`, whose callers could wait.
#[test]
fn a_caller_that_waits_for_nothing_else_waits_for_the_place_of_its_ticket() {
    let world = world();
    let held = fill(&world);
    let ticket = ticket_of(&world.begin(&batch("shop")).refused());
    let now = world.now();
    let early = batch("shop").ticket(&ticket.text).may_wait_until(now);
    assert_eq!(world.begin(&early).refused().reason(), Reason::Deferred);
    tick_until(&world, ticket.not_before);
    let patient = |request| Request::may_wait_until(request, world.now());
    let waits = world.begin(&patient(batch("shop").ticket(&ticket.text))).waits();
    // A ticket that counts for nothing lets nobody wait.
    assert_eq!(world.begin(&patient(batch("shop").ticket("nonsense"))).refused().reason(), Reason::Deferred);
    assert_eq!(
        world.begin(&patient(batch("blog").ticket(&ticket.text))).refused().reason(),
        Reason::Deferred
    );
    world.advance(SECOND / 2);
    drop(held);
    drop(world.resume(waits).admitted());
    assert_eq!(stats(&world).counts.redeemed, 1);
}

/// A caller that does not wait is told so at once, and one that does keeps a quarter of the time
/// until its deadline for its work.
#[test]
fn a_ticket_makes_no_caller_wait_that_does_not_wait_and_none_for_all_of_its_time() {
    let world = world();
    let held = fill(&world);
    let ticket = ticket_of(&world.begin(&batch("shop")).refused());
    tick_until(&world, ticket.not_before);
    let back = batch("shop").ticket(&ticket.text);
    assert_eq!(world.begin(&back).refused().reason(), Reason::Deferred);
    let deadline = world.now().saturating_add(SECOND);
    let until = world.now().saturating_add(SECOND / 4);
    let waits = world.begin(&back.may_wait_until(until).deadline(deadline)).waits();
    world.advance(SECOND / 4);
    let waits = world.resume(waits).waits();
    world.advance(SECOND / 2);
    let again = ticket_of(&world.resume(waits).refused());
    assert_eq!(again.text, ticket.text, "it is good still");
    drop(held);
    drop(world.begin(&back).admitted());
}

#[test]
fn a_namespace_that_names_a_new_tenant_each_time_moves_the_ticket_of_another_by_no_second() {
    let world = world();
    let held = fill(&world);
    let mut last = world.now();
    for number in 0..3_000 {
        let tenant = number.to_string();
        last = ticket_of(&world.begin(&batch("shop").tenant(&tenant)).refused()).not_before;
    }
    assert!(last > world.now().saturating_add(200 * SECOND), "{last}");
    let other = ticket_of(&world.begin(&batch("blog")).refused());
    let wait = other.not_before.saturating_since(world.now());
    assert!(wait <= 3 * SECOND, "one of the next two seconds, and not {wait:?}");
    drop(held);
}

#[test]
fn without_keys_nobody_gets_a_ticket() {
    let world = world();
    world.engine.set_ticket_keys(None);
    let held = fill(&world);
    assert_eq!(world.begin(&batch("shop")).refused().reason(), Reason::OverloadShed);
    drop(held);
}

#[test]
fn members_whose_clocks_differ_honour_a_ticket_at_the_same_moment_on_the_clock_of_their_store() {
    // The clock of the store is an hour ahead of one member, and that of the other is a second off.
    const AHEAD: i64 = 3_600_000_000_000;
    let (seller, other) = (world(), world());
    seller.engine.set_ticket_clock(TicketClock::ahead_by(AHEAD));
    other.engine.set_ticket_clock(TicketClock::ahead_by(AHEAD - 1_000_000_000));
    other.engine.set_ticket_issuer(TicketIssuer { member: 2, start: 1 });
    let held = fill(&seller);
    let ticket = ticket_of(&seller.begin(&batch("shop")).refused());
    drop(held);
    let wait = ticket.not_before.saturating_since(seller.now());
    assert!(wait <= 60 * SECOND && wait > Duration::ZERO, "on the clock of the member: {wait:?}");
    let back = batch("shop").ticket(&ticket.text);
    other.advance(SECOND);
    // A nanosecond before its time it is early at both, and then good at both.
    let before = wait.saturating_sub(Duration::from_nanos(1));
    for world in [&seller, &other] {
        world.advance(before);
        let told = ticket_of(&world.begin(&back).refused());
        assert_eq!(told.not_before, world.now().saturating_add(Duration::from_nanos(1)));
        assert_eq!(told.expires, told.not_before.saturating_add(5 * SECOND));
        world.advance(Duration::from_nanos(1));
        drop(world.begin(&back).admitted());
        assert_eq!(stats(world).counts.redeemed, 1);
    }
}

#[test]
fn a_ticket_that_is_replaced_is_spent_and_no_other_one_whatever_the_clock_of_tickets_is() {
    for ahead in [-3_600_000_000_000, 0, 3_600_000_000_000] {
        let world = world();
        world.engine.set_ticket_clock(TicketClock::ahead_by(ahead));
        let held = fill(&world);
        let [first, second] = [(); 2].map(|()| ticket_of(&world.begin(&batch("shop")).refused()));
        // Half a second before the first one expires there is still no place, so it is replaced.
        let late = first.expires.saturating_sub(Duration::from_millis(500));
        world.advance(late.saturating_since(world.now()));
        let back = batch("shop").ticket(&first.text);
        assert_ne!(ticket_of(&world.begin(&back).refused()).text, first.text, "{ahead}");
        let state = |text: &str| match world.engine.ticket_report(&batch("shop").ticket(text), world.now()) {
            Some(TicketReport::Good { state, .. }) => state,
            other => panic!("{ahead}: {other:?}"),
        };
        assert_eq!(
            (state(&first.text), state(&second.text)),
            (TicketState::Spent, TicketState::Due),
            "{ahead}"
        );
        drop(held);
    }
}

#[test]
fn a_report_says_what_a_ticket_is_worth_and_counts_nothing() {
    let world = world();
    let held = fill(&world);
    let ticket = ticket_of(&world.begin(&batch("shop")).refused());
    drop(held);
    let back = batch("shop").ticket(&ticket.text);
    let state = || match world.engine.ticket_report(&back, world.now()) {
        Some(TicketReport::Good { state, terms }) if terms.deferrals == 1 => state,
        other => panic!("{other:?}"),
    };
    let report = |request: Request<'_>| world.engine.ticket_report(&request, world.now());
    assert_eq!(report(batch("shop")), None, "without a ticket");
    assert_eq!(report(back.class(Class::Critical)), Some(TicketReport::NotDeferred));
    assert_eq!(report(back.tenant("eve")), Some(TicketReport::Faulty(TicketFault::Tenant)));
    assert_eq!(state(), TicketState::Early { come_back: ticket.not_before });
    world.advance(ticket.not_before.saturating_since(world.now()));
    assert_eq!(state(), TicketState::Due);
    assert_eq!((stats(&world).counts.early, faults(&world, TicketFault::Tenant)), (0, 0));
    drop(world.begin(&back).admitted());
    assert_eq!(state(), TicketState::Spent);
    // Until its calendar forgets it, it stays spent; then it is expired.
    tick_until(&world, world.now().saturating_add(60 * SECOND));
    assert_eq!(state(), TicketState::Expired);
    let counts = stats(&world).counts;
    assert_eq!((counts.redeemed, counts.replayed, counts.expired), (1, 0, 0));
}
