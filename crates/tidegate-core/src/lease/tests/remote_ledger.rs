//! The ledger beside asks with a lifetime: what it lends, takes over, and never exceeds.

use core::time::Duration;

use super::super::*;
use super::world::{Chance, MS, SECOND, START};
use crate::algorithm::{Algorithm, Bucket};
use crate::rate::Rate;
use crate::time::Timestamp;

const LIFETIME: Duration = Duration::from_secs(23);
const EPOCH: Epoch = Epoch { number: 1, began: Timestamp::from_nanos(START), is_after_loss: false };

fn terms(rate: u64, burst: u64) -> Terms {
    let bucket = Bucket::new(Rate::per_second(rate).unwrap(), burst).unwrap();
    Terms::from_algorithm(&Algorithm::Bucket(bucket), EPOCH.began).unwrap()
}

/// So long after the epoch began that every bucket here is full.
fn at(seconds: u64) -> Timestamp {
    Timestamp::from_nanos(START + (1_000 + seconds) * SECOND)
}

fn ordinary(member: u64, incarnation: u32, demand: u32, need: u64) -> Ask {
    Ask { demand, epoch: 1, ..Ask::first(HolderName { member, incarnation }, need) }
}

fn remote(member: u64, incarnation: u32, demand: u32, need: u64) -> Ask {
    Ask { lifetime: LIFETIME, ..ordinary(member, incarnation, demand, need) }
}

/// A ledger that answers asks, and its terms.
struct Desk(Ledger, Terms);

impl Desk {
    fn new(rate: u64, burst: u64) -> Self {
        let terms = terms(rate, burst);
        Self(Ledger::begin(&terms, &EPOCH), terms)
    }

    fn ask(&mut self, now: Timestamp, ask: Ask) -> Grant {
        self.0.ask(now, &self.1, &EPOCH, &ask).grant.unwrap()
    }
}

#[test]
fn a_lease_lasts_as_long_as_its_ask_says_and_90_seconds_at_most() {
    for (lifetime, ttl) in [
        (Duration::from_micros(1), Duration::from_micros(1)),
        (LIFETIME, LIFETIME),
        (LIFETIME_MAX, LIFETIME_MAX),
        (Duration::MAX, LIFETIME_MAX),
    ] {
        let mut desk = Desk::new(10, 100);
        // Of so low a demand an ordinary holder gets no rate, and of 50 units a period all but one.
        let grant = desk.ask(at(0), Ask { lifetime, ..remote(9, 1, 1, 16) });
        assert_eq!((grant.ttl, grant.lump, grant.held, grant.again), (ttl, 16, 16, Duration::ZERO));
        assert!(grant.rate > 0 && grant.rate < 50, "{grant:?}");
        let grant = desk.ask(at(0), ordinary(8, 1, 1, 16));
        assert_eq!(grant.rate, 0, "{grant:?}");
    }
}

/// The peer of a lease that is taken over may have spent what it had in hand a moment before.
#[test]
fn tokens_of_a_replaced_lease_count_as_spent_when_it_is_replaced_or_has_ended() {
    // When the next stream asks, and how many of the 50 that the first was granted count as used.
    for (seconds, used) in [(6, 50), (22, 50), (23, 50), (24, 40), (28, 0)] {
        let mut desk = Desk::new(10, 100);
        assert_eq!(desk.ask(at(0), remote(9, 1, 5, 50)).lump, 50);
        let grant = desk.ask(at(seconds), remote(9, 2, 5, 50));
        assert_eq!(grant.members, 1, "after {seconds} s");
        let rest = desk.ask(at(seconds), Ask { need_min: 1, ..ordinary(1, 1, 0, 100) });
        let lent = grant.lump + rest.lump;
        // A unit that a lease is yet to release is used as a whole.
        assert!((99 - used..=100 - used).contains(&lent), "after {seconds} s: {lent}");
    }
}

#[test]
fn a_lease_is_replaced_after_six_seconds_without_an_ask_by_its_own_member_only() {
    let mut desk = Desk::new(10, 100);
    desk.ask(at(0), remote(9, 1, 5, 10));
    let soon = at(6).saturating_sub(Duration::from_micros(1));
    assert_eq!(desk.ask(soon, remote(9, 2, 5, 10)).members, 2, "not for so long");
    assert_eq!(desk.ask(at(6), remote(7, 1, 5, 10)).members, 3, "of another member");
    assert_eq!(desk.ask(at(6), ordinary(9, 3, 5, 1)).members, 4, "an ordinary ask replaces nothing");
    let leaving = Ask { seq: 2, is_leaving: true, ..remote(9, 2, 0, 0) };
    assert_eq!(desk.ask(at(6), leaving).members, 3, "nor does one that leaves");
    let mut names: Vec<_> = desk.0.holders().map(|view| view.holder.incarnation).collect();
    assert_eq!(names, [1, 1, 3]);
    assert_eq!(desk.ask(at(6), remote(9, 4, 5, 10)).members, 3, "the first is replaced");
    names = desk.0.holders().map(|view| view.holder.incarnation).collect();
    assert_eq!(names, [1, 3, 4]);
}

/// The rate of a replaced lease counts until it ends, or until the grant that took its place has
/// arrived.
#[test]
fn the_rate_of_a_replaced_lease_is_lent_to_no_other_before_the_next_ask_acknowledges_its_own() {
    let mut desk = Desk::new(100, 100);
    let first = desk.ask(at(0), remote(9, 1, 1_000, 10)).rate;
    assert_eq!(first, 493, "all that is leased of 500");
    let own = desk.ask(at(6), remote(9, 2, 1_000, 10)).rate;
    assert_eq!((own, desk.0.rates_out(at(6))), (493, 493));
    // The answer is lost, and the peer spends on by the first.
    let low = Ask { seq: 2, ..remote(9, 2, 1, 10) };
    assert!(desk.ask(at(7), low).rate <= 493);
    assert_eq!(desk.0.rates_out(at(7)), 493);
    assert_eq!(desk.ask(at(7), ordinary(1, 1, 1_000, 1)).rate, 0);
    let heard = Ask { seq: 3, acked: 2, ..remote(9, 2, 1, 10) };
    let rate = desk.ask(at(8), heard).rate;
    assert_eq!(desk.0.rates_out(at(8)), u64::from(rate).max(3), "{rate}");
}

/// A holder whose grant before the last has ended replaces another: the ended one does not come
/// back for as long as the replaced one lasts.
#[test]
fn a_rate_that_has_ended_does_not_last_on_with_that_of_a_replaced_lease() {
    let mut desk = Desk::new(100, 100);
    let short = Duration::from_secs(8);
    assert_eq!(desk.ask(at(0), Ask { lifetime: short, ..remote(9, 2, 1_000, 0) }).rate, 493);
    let low = desk.ask(at(1), Ask { seq: 2, acked: 1, ..remote(9, 2, 10, 0) }).rate;
    assert!((100..400).contains(&low), "{low}");
    // The first stream of the peer, which is not heard of again.
    assert_eq!(desk.ask(at(2), remote(9, 1, 10, 0)).rate, 0);
    desk.ask(at(9), Ask { seq: 3, acked: 1, ..remote(9, 2, 10, 0) });
    assert_eq!(desk.0.holders().count(), 1, "it is replaced");
    assert!(desk.0.rates_out(at(9)) < 400, "{}", desk.0.rates_out(at(9)));
    assert!(desk.ask(at(9), ordinary(1, 1, 1_000, 0)).rate > 90);
}

/// A peer that went to another member and back at once holds a rate at either. It spends by one.
#[test]
fn two_rates_of_one_peer_are_used_up_once() {
    let mut desk = Desk::new(100, 100);
    let other = desk.ask(at(0), remote(9, 1, 200, 0)).rate;
    let own = desk.ask(at(5), remote(9, 2, 1_000, 0)).rate;
    assert!(other > 200 && own > 50, "{other} {own}");
    let used = desk.0.level(at(7), &desk.1).0;
    desk.ask(at(7), Ask { seq: 2, ..remote(9, 2, 1_000, 0) });
    assert_eq!(desk.0.holders().count(), 1);
    let level = desk.0.level(at(7), &desk.1).0;
    assert!(level.abs_diff(used) <= 1, "{used} were used, and then {level}");
}

#[test]
fn a_stream_finds_a_place_among_256_holders_where_its_peer_has_a_stale_one() {
    let mut desk = Desk::new(1_000, 1_000);
    for member in 0..HOLDERS_MAX as u64 {
        desk.ask(at(0), remote(member, 1, 5, 1));
    }
    assert!(desk.ask(at(5), remote(9, 2, 5, 1)).is_spot(), "no place");
    let grant = desk.ask(at(6), remote(9, 2, 5, 1));
    assert!(
        !grant.is_spot()
            && grant.ttl == LIFETIME
            && desk.0.has_holder(HolderName { member: 9, incarnation: 2 })
    );
    assert_eq!(desk.0.holders().count(), HOLDERS_MAX);
    assert!(desk.ask(at(6), remote(HOLDERS_MAX as u64, 1, 5, 1)).is_spot(), "a peer without one");
}

/// The three facts from which the bound of a bucket follows, after every step, whatever holders say
/// and however long leases last. Ordinary asks are answered as by members that know no lifetimes,
/// so this holds as well while some members of a fleet are of an earlier version.
#[test]
fn ordinary_asks_beside_leases_of_any_length_keep_to_the_rate_and_the_burst() {
    let (mut replaced, mut granted, mut spots) = (0, 0, 0);
    for seed in 1..=60 {
        let mut chance = Chance::new(seed);
        let numbers = [(20, 20), (1_000, 300), (7, 100), (100_000, 5), (1, 16)][chance.below(5) as usize];
        let terms = terms(numbers.0, numbers.1);
        let mut ledger = Ledger::begin(&terms, &EPOCH);
        let holders = if chance.below(4) == 0 { 400 } else { 8 };
        let mut asks: Vec<_> = (0..holders)
            .map(|place| match place % 2 {
                0 => Ask { seq: 0, ..ordinary(place, 1, 0, 0) },
                _ => Ask { seq: 0, ..remote((1 << 63) | (place % 5), place as u32, 0, 0) },
            })
            .collect();
        let mut now = at(0);
        for _ in 0..1_500 {
            let span = [0, 0, 20 * MS, SECOND, 3 * SECOND, 30 * SECOND][chance.below(6) as usize];
            now = now.saturating_add(Duration::from_nanos(chance.below(span / 1000 + 1) * 1000));
            let ask = &mut asks[chance.below(holders) as usize];
            ask.seq += 1;
            ask.acked = ask.seq - 1 - u32::from(ask.seq > 1 && chance.below(5) == 0);
            let most = [10, 200, 5 * numbers.0][chance.below(3) as usize];
            ask.demand = chance.below(most) as u32;
            let most = [1, 3, numbers.1][chance.below(3) as usize];
            ask.need = chance.below(most + 1);
            ask.need_min = ask.need.min(1 + chance.below(3));
            ask.left = chance.below(u64::from(ask.left) + 1) as u32;
            ask.returned = ask.returned.wrapping_add(chance.below(4) as u32);
            ask.unused = ask.unused.wrapping_add(chance.below(9) as u32);
            ask.gives_up = ask.lifetime.is_zero() && chance.below(10) == 0;
            if !ask.lifetime.is_zero() {
                ask.lifetime = [LIFETIME, Duration::from_secs(1), LIFETIME_MAX][chance.below(3) as usize];
            }
            let (before, stood) =
                (ledger.units_used(), ledger.holders().filter(|view| view.until > now).count());
            let answer = ledger.ask(now, &terms, &EPOCH, ask);
            let grant = answer.grant.unwrap();
            ask.left = grant.held;
            (granted, spots) = (granted + u64::from(grant.rate > 0), spots + u64::from(grant.is_spot()));
            replaced += u64::from(ledger.holders().count() < stood);
            let moved = answer.movement;
            assert_eq!(
                ledger.units_used() + moved.drained + moved.credited,
                before + moved.held_up + moved.debited,
                "conservation, seed {seed}: {moved:?}"
            );
            let held: u64 = ledger.holders().map(|view| u64::from(view.held)).sum();
            let level = ledger.level(now, &terms).0;
            assert!(ledger.rates_out(now) <= terms.quota(), "seed {seed}: {}", ledger.rates_out(now));
            // Rounding may leave more than the burst, and then no burst is granted. A unit of which
            // a part is yet to come counts as a whole.
            let is_within = grant.lump == 0 || level <= terms.largest() + 1;
            assert!(is_within, "seed {seed}: {level} of {}, {grant:?}", terms.largest());
            assert!(
                level >= held && ledger.units_used() >= ledger.tokens_out(now),
                "seed {seed}: {held} in hand"
            );
            assert_eq!(Ledger::from_bytes(&ledger.to_bytes()).as_ref(), Ok(&ledger), "seed {seed}");
        }
    }
    assert!(replaced > 100 && granted > 1_000 && spots > 1_000, "{replaced} {granted} {spots}");
}

/// Two peers come back by other streams at the same time, before their leases may be taken over.
#[test]
fn the_demand_of_a_peer_that_has_come_back_counts_once() {
    let mut desk = Desk::new(20, 100);
    for (member, seconds) in [(8, 0), (9, 0), (8, 5), (9, 5)] {
        desk.ask(at(seconds), remote(member, seconds as u32, 45, 4));
    }
    // The half of 100 units a period, but for what is never lent.
    assert_eq!(desk.ask(at(6), Ask { seq: 2, ..remote(8, 5, 45, 4) }).rate, 49);
}
