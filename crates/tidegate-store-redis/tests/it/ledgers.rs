//! Ledgers that the script keeps, beside `tidegate_core::lease::Ledger` run on the same instants:
//! what is granted, what is said to be used, and what is kept are the same to the unit.
//!
//! Holders ask as holders do and as none would: asks are repeated, overtaken and lost, holders
//! leave, come again and speak of former epochs. Some ask for leases of a lifetime and are streams
//! of peers, which take over each other's stale leases. The numbers of limits change, the clock
//! stands, jumps and steps back, and epochs begin. `TIDEGATE_DIFFERENTIAL` says how many operations
//! there are, `TIDEGATE_DIFFERENTIAL_SEED` which.

use std::collections::HashMap;
use std::mem::{Discriminant, discriminant};
use std::time::Duration;

use tidegate_core::algorithm::{Bucket, Calendar, CivilUnit, Fixed, Verdict, WindowStart};
use tidegate_core::lease::{Ask, Epoch, Grant, HolderName, LIFETIME_MAX, Ledger, Terms};
use tidegate_core::{Algorithm, Cost, Rate, Timestamp, error_chain};
use tidegate_store::conformance::Random;
use tidegate_store::{Batch, FleetStore as _, Key, Kind, OnLedger, Operation, RequestId, Store};

use crate::differential::{DAY, MS, SECOND, number, send, told};
use crate::engine::{Stand, skip};

const START: u64 = 20_840 * DAY;

/// How far the clock steps back at most, in nanoseconds, and how many holders a key has.
#[derive(Clone, Copy)]
struct Manner {
    back: u64,
    holders: u64,
    /// How many peers every second holder is a stream of.
    peers: u64,
    keys: u64,
    /// Whether all of them come at about the same time, to few limits.
    is_crowd: bool,
}

/// The family of limits whose rates are too fast for leases of 90 s.
const FASTEST: usize = 10;

fn bucket(units: u64, per: u64, burst: u64) -> Algorithm {
    let rate = Rate::new(units, Duration::from_nanos(per)).unwrap();
    Algorithm::Bucket(Bucket::new(rate, burst).unwrap())
}

fn fixed(limit: u64, window: u64, start: WindowStart) -> Algorithm {
    Algorithm::Fixed(Fixed::new(limit, Duration::from_nanos(window), start).unwrap())
}

fn calendar(limit: u64, unit: CivilUnit, zone: &str) -> Algorithm {
    Algorithm::Calendar(Calendar::new(limit, unit, zone).unwrap())
}

/// Limits that keys change between: the same with other numbers.
fn families(manner: Manner) -> Vec<Vec<Algorithm>> {
    let (aligned, first) = (WindowStart::Epoch, WindowStart::FirstHit);
    let huge = Terms::LIMIT_MAX;
    let mut families = vec![
        vec![bucket(1000, SECOND, 1000), bucket(1000, SECOND, 40), bucket(300, SECOND, 2000)],
        vec![bucket(7, 300 * MS, 12), bucket(1, 3 * SECOND, 3), bucket(50, SECOND, 1)],
        vec![bucket(20_000, SECOND, 5), bucket(19_997, 999 * MS, 100_000)],
        // Ratios as long as they get.
        vec![bucket(999_999_999_989, 365 * DAY, 900_000_000_000), bucket(31_535_999_999_967, 365 * DAY, 77)],
        vec![
            fixed(100, 10 * SECOND, aligned),
            fixed(150, 10 * SECOND, aligned),
            fixed(5, 3 * SECOND, aligned),
        ],
        vec![fixed(100, 9 * SECOND, first), fixed(30, 9 * SECOND, first), fixed(1000, 4 * SECOND, first)],
        vec![fixed(10_000, DAY, aligned), fixed(huge, 366 * DAY, aligned), fixed(0, DAY, aligned)],
        vec![
            calendar(60, CivilUnit::Minute, "UTC"),
            calendar(500, CivilUnit::Hour, "Europe/Berlin"),
            calendar(10_000, CivilUnit::Day, "America/New_York"),
        ],
        vec![
            bucket(1000, SECOND, 1000),
            fixed(300, 10 * SECOND, aligned),
            calendar(900, CivilUnit::Minute, "UTC"),
        ],
        vec![calendar(huge / 2, CivilUnit::Year, "Asia/Kathmandu"), calendar(90, CivilUnit::Week, "UTC")],
    ];
    if manner.is_crowd {
        return vec![
            families.swap_remove(6),
            vec![bucket(100_000, SECOND, 100_000), bucket(3000, SECOND, 900)],
        ];
    }
    if manner.back == 0 {
        // As fast as anything that is lent. The units to come, seen from long before, are more
        // than can be counted.
        families.push(vec![
            bucket(8_999_999_999_999_999, 365 * DAY, huge),
            bucket(360_000_000, SECOND, 1 << 50),
            bucket(1_000_000, SECOND, 1 << 44),
        ]);
    }
    families
}

/// A holder as far as its asks go.
#[derive(Clone, Copy)]
struct Member {
    last: Ask,
    tokens: u64,
    taken_over: u32,
    rate: u32,
}

struct Player {
    random: Random,
    manner: Manner,
    families: Vec<Vec<Algorithm>>,
    members: HashMap<(Key, u64), Member>,
    /// With the kind of algorithm: another one begins another ledger.
    ledgers: HashMap<Key, (Discriminant<Algorithm>, Ledger)>,
    now: u64,
    ids: u128,
    epoch: Epoch,
    /// How often a stream took over leases of its peer: without and with one of its own.
    replaced: [usize; 2],
}

fn begin(member: u64, incarnation: u32) -> Member {
    let holder = HolderName { member: member.wrapping_mul(0x9e37_79b9_7f4a_7c15), incarnation };
    let (returned, unused) = (u32::MAX - incarnation % 3, u32::MAX - 7);
    let last = Ask { seq: 0, returned, unused, ..Ask::first(holder, 0) };
    Member { last, tokens: 0, taken_over: 0, rate: 0 }
}

/// A stream of a peer, which has the number of its place.
fn begin_stream(peer: u64, place: u64, incarnation: u32) -> Member {
    let mut member = begin((1 << 32) + peer, place as u32 * 100_000 + incarnation);
    member.last.lifetime = Duration::from_secs(23);
    member
}

/// Mostly as long as an Envoy asks for, sometimes less than the script counts, more than there is,
/// or none.
fn lifetime(random: &mut Random) -> Duration {
    match random.below(16) {
        0 => Duration::ZERO,
        1 => Duration::from_nanos(random.below(3000)),
        2 => Duration::from_nanos(random.below(90 * SECOND)),
        3 => LIFETIME_MAX,
        4 => Duration::from_secs(100_000_000_000),
        _ => Duration::from_secs(23),
    }
}

/// Units moved, units used, and when none will be.
type Usage = (u64, u64, Timestamp);

impl Player {
    fn turn(&mut self) {
        let micros = |nanos: u64| nanos.div_ceil(1000) * 1000;
        if self.manner.is_crowd && !self.random.once(3000) {
            // Now and then leases become stale, and ordinary ones may end.
            let most = if self.manner.peers > 0 && self.random.once(120) { 9 * SECOND } else { MS };
            self.now += micros(self.random.below(most));
            return;
        }
        let back = if self.manner.back > 0 { micros(self.random.below(self.manner.back)) } else { 0 };
        self.now = match self.random.below(200) {
            0..70 => self.now,
            70..140 => self.now + micros(self.random.below(200 * MS)),
            140..180 => self.now + micros(self.random.below(3 * SECOND)),
            180..186 => self.now + micros(self.random.below(20 * SECOND)),
            186 => self.now + micros(self.random.below(2 * 3600 * SECOND)),
            187 => self.now + micros(self.random.below(DAY)),
            188 => self.now / (60 * SECOND) * 60 * SECOND + 60 * SECOND - 1000,
            189..193 => self.now - back,
            _ => self.now + 1000,
        };
    }

    fn ask(&mut self, key: &Key, scale: u64, is_fastest: bool) -> Ask {
        let random = &mut self.random;
        let place = random.below(self.manner.holders);
        let peer = (place % 2 == 1 && !is_fastest && self.manner.peers > 0)
            .then(|| place / 2 % self.manner.peers.max(1));
        let begin = |incarnation| match peer {
            Some(peer) => begin_stream(peer, place, incarnation),
            None => begin(place, incarnation),
        };
        let member = self.members.entry((key.clone(), place)).or_insert_with(|| begin(1));
        let mut ask = member.last;
        match random.below(100) {
            // The same again, as far as it was sent.
            0..10 if ask.seq > 0 => return ask,
            10..14 if ask.seq > 1 => {
                ask.seq -= 1;
                return ask;
            }
            14..17 => {
                *member = begin(ask.holder.incarnation % 100_000 + 1);
                ask = member.last;
            }
            // A number that no holder reports.
            17..20 if !self.manner.is_crowd => {
                let any = |random: &mut Random| (random.next_u64() >> random.below(64)) as u32;
                ask.seq = ask.seq.saturating_add(1 + any(random) % 3);
                (ask.acked, ask.epoch, ask.gives_up) = (any(random), any(random), random.once(2));
                (ask.left, ask.returned, ask.unused) = (any(random), any(random), any(random));
                (ask.demand, ask.need) = (any(random), random.next_u64() >> random.below(64));
                ask.need_min = random.below(ask.need.saturating_add(1).max(1));
                member.last = ask;
                return ask;
            }
            _ => {}
        }
        if peer.is_some() {
            ask.lifetime = lifetime(random);
        }
        ask.seq += 1;
        ask.acked = member.taken_over;
        if random.once(8) {
            ask.acked = ask.acked.saturating_sub(1);
        }
        ask.epoch = match random.below(12) {
            0 => 0,
            1 => self.epoch.number.saturating_sub(1),
            2 => self.epoch.number + 1,
            _ => self.epoch.number,
        };
        let spent = random.below(member.tokens + 1);
        let returned = random.below(member.tokens - spent + 1);
        member.tokens -= spent + returned;
        ask.left = member.tokens as u32;
        ask.returned = ask.returned.wrapping_add(returned as u32);
        if random.once(2) {
            ask.unused = ask.unused.wrapping_add(random.below(u64::from(member.rate) + 2) as u32);
        }
        ask.demand = match random.below(6) {
            0 => 0,
            1 | 2 => ask.demand,
            // Enough for a lease with a rate.
            3 => 80 + random.below(3000) as u32,
            _ => random.below(scale.saturating_mul(2).min(1 << 32)) as u32,
        };
        ask.need = match random.below(8) {
            0..4 => 0,
            4..6 => 1,
            6 => 1 + random.below(scale.max(1)),
            _ if self.manner.is_crowd => 2,
            _ => random.next_u64() >> random.below(64),
        };
        ask.is_leaving = random.once(40);
        ask.need_min = if random.once(2) { ask.need } else { ask.need.min(1 + random.below(3)) };
        ask.gives_up = random.once(10);
        member.last = ask;
        ask
    }

    fn operation(&mut self) -> Operation {
        let family = self.random.below(self.families.len() as u64) as usize;
        let algorithm = if self.random.once(9) {
            self.random.pick(&self.families[family]).clone()
        } else {
            self.families[family][0].clone()
        };
        let key = Key::new("ledgers", &[family as u8], &[self.random.below(self.manner.keys) as u8]).unwrap();
        let terms = Terms::from_algorithm(&algorithm, Timestamp::from_nanos(self.now)).unwrap();
        let scale = if terms.quota() > 0 { terms.quota() } else { terms.largest().max(1) };
        // Less than there is, so that somebody without a place finds something.
        let scale = if self.manner.is_crowd { 1 + scale / 1000 } else { scale };
        let cost = match self.random.below(20) {
            0 => u64::MAX,
            1..4 => 1 + self.random.below(terms.largest().saturating_mul(4).max(1)),
            _ => 1 + self.random.below(scale / 4 + 1),
        };
        let cost = Cost::new(cost).unwrap();
        let on = match self.random.below(100) {
            0..78 => OnLedger::Ask(self.ask(&key, scale, family == FASTEST)),
            78..84 => OnLedger::Look,
            84..89 if !self.manner.is_crowd => OnLedger::Report { cost },
            84..97 => OnLedger::Refund { cost },
            _ => OnLedger::Reset,
        };
        let operation = Operation::new(key, algorithm, Kind::Ledger(on));
        // Members that disagree about the lease period, as while a fleet is reloaded.
        let other = match self.random.below(8) {
            0 => Terms::PERIOD_MIN,
            1 => Duration::from_micros(7_000_001),
            2 => Terms::PERIOD_MAX,
            _ => Terms::PERIOD,
        };
        let changed = operation.clone().with_lease_period(other);
        // The largest rates give more in a longer period than can be lent.
        if changed.terms(Timestamp::from_nanos(self.now)).is_ok() { changed } else { operation }
    }

    fn batch(&mut self) -> Batch {
        self.ids += 1;
        let count = [1, 1, 1, 2, 4][self.random.below(5) as usize];
        let mut operations: Vec<_> = (0..count).map(|_| self.operation()).collect();
        let id = RequestId(0x7469_6465_0000_0000_0000_0000_0000_0000 + self.ids);
        if self.random.once(12) {
            // Refused by the last one, and nothing of it may be left.
            let never = fixed(0, SECOND, WindowStart::Epoch);
            let check = Kind::Check { cost: Cost::ONE };
            operations.push(Operation::new(Key::new("ledgers", b"never", b"").unwrap(), never, check));
            return Batch::all_or_nothing(id, operations);
        }
        if self.random.once(3) { Batch::all_or_nothing(id, operations) } else { Batch::each(id, operations) }
    }

    /// The step of the pure code and its expected answer: for each operation of a ledger units
    /// moved, units used and when none will be, and the grants.
    fn expected(&mut self, batch: &Batch) -> (Vec<Usage>, Vec<Option<Grant>>) {
        let now = Timestamp::from_nanos(self.now);
        let is_refused = batch.operations.iter().any(|one| matches!(one.kind, Kind::Check { .. }));
        let (mut outcomes, mut grants) = (Vec::new(), Vec::new());
        for operation in &batch.operations {
            let Kind::Ledger(on) = operation.kind else { continue };
            let terms = operation.terms(now).unwrap();
            let kind = discriminant(&operation.algorithm);
            if is_refused || on == OnLedger::Look {
                let known = self.ledgers.get(&operation.key);
                let known =
                    known.filter(|known| known.0 == kind && known.1.epoch() == self.epoch.number).cloned();
                let ledger = known.map_or_else(|| Ledger::begin(&terms, &self.epoch), |known| known.1);
                let (used, reset_at) = ledger.level(now, &terms);
                outcomes.push((0, used, reset_at));
                grants.extend(matches!(on, OnLedger::Ask(_)).then_some(None));
                continue;
            }
            let begun = || (kind, Ledger::begin(&terms, &self.epoch));
            let known = self.ledgers.entry(operation.key.clone()).or_insert_with(begun);
            if known.0 != kind {
                *known = begun();
            }
            let ledger = &mut known.1;
            let units = match &on {
                OnLedger::Ask(ask) => {
                    let (had_own, before) = (ledger.has_holder(ask.holder), streams(ledger, ask, now));
                    let grant = ledger.ask(now, &terms, &self.epoch, ask).grant;
                    let is_replaced = terms.quota() > 0 && streams(ledger, ask, now) < before;
                    self.replaced[usize::from(had_own)] += usize::from(is_replaced);
                    grants.push(grant);
                    grant.map_or(0, |grant| u64::from(grant.lump))
                }
                OnLedger::Report { cost } => ledger.report(now, &terms, &self.epoch, *cost),
                OnLedger::Refund { cost } => ledger.refund(now, &terms, &self.epoch, *cost),
                OnLedger::Reset => ledger.reset(now, &terms, &self.epoch),
                OnLedger::Look => 0,
            };
            let (used, reset_at) = ledger.level(now, &terms);
            outcomes.push((units, used, reset_at));
        }
        (outcomes, grants)
    }

    /// Most answers arrive.
    fn learn(&mut self, batch: &Batch, grants: &[Option<Grant>]) {
        let mut grants = grants.iter();
        for operation in &batch.operations {
            let Kind::Ledger(OnLedger::Ask(ask)) = operation.kind else { continue };
            let Some(Some(grant)) = grants.next() else { continue };
            let places = 0..self.manner.holders;
            let arrives = !self.random.once(6);
            for place in places {
                let member = self.members.get_mut(&(operation.key.clone(), place));
                let Some(member) = member.filter(|member| member.last.holder == ask.holder) else { continue };
                if arrives && grant.seq == member.last.seq && member.taken_over < grant.seq {
                    member.taken_over = grant.seq;
                    member.tokens = u64::from(grant.held).min(member.tokens + u64::from(grant.lump));
                    member.rate = grant.rate;
                }
            }
        }
    }
}

/// How many leases the other streams of the peer that asks have.
fn streams(ledger: &Ledger, ask: &Ask, now: Timestamp) -> usize {
    let others = ledger.holders().filter(|view| view.until > now && view.holder != ask.holder);
    others.filter(|view| view.holder.member == ask.holder.member).count()
}

/// The numbers in a record of the pure code, which are written seven bits a byte.
fn pure_numbers(ledger: &Ledger) -> Vec<u64> {
    let (mut numbers, mut number, mut shift) = (Vec::new(), 0, 0);
    for byte in &ledger.to_bytes()[1..] {
        number |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if *byte < 0x80 {
            numbers.push(number);
            (number, shift) = (0, 0);
        }
    }
    numbers
}

/// How many bytes each number of the script's record takes: of the head, and of each lease.
const HEAD: [usize; 10] = [4, 8, 8, 8, 8, 8, 8, 8, 4, 8];
const LEASE: [usize; 14] = [8, 4, 4, 4, 4, 4, 4, 8, 4, 8, 8, 4, 4, 4];

/// Whether a number of eight bytes is no double: the name of a member.
const fn is_name(place: usize, of: usize) -> bool {
    place == 0 && of == LEASE.len()
}

/// The same of a record of the script.
fn kept_numbers(bytes: &[u8]) -> Vec<u64> {
    assert!(bytes[0] == 1 && (7..10).contains(&bytes[1]), "the layout, and the kind of limit");
    let (mut numbers, mut rest, mut widths) = (Vec::new(), &bytes[2..], &HEAD[..]);
    while !rest.is_empty() {
        for (place, width) in widths.iter().enumerate() {
            let (number, after) = rest.split_at(*width);
            rest = after;
            numbers.push(match <[u8; 8]>::try_from(number) {
                Ok(long) if is_name(place, widths.len()) => u64::from_be_bytes(long),
                #[expect(
                    clippy::cast_sign_loss,
                    reason = "every number is whole and not negative, which is asserted"
                )]
                Ok(double) => {
                    let double = f64::from_be_bytes(double);
                    assert!(double >= 0.0 && double.fract() == 0.0, "{double} is no number of a ledger");
                    double as u64
                }
                Err(_) => u32::from_be_bytes(number.try_into().unwrap()).into(),
            });
        }
        widths = &LEASE[..];
    }
    numbers
}

/// The record that the script would keep of `numbers`.
fn kept_bytes(kind: u8, numbers: &[u64]) -> Vec<u8> {
    let (mut bytes, mut rest, mut widths) = (vec![1, kind], numbers, &HEAD[..]);
    while !rest.is_empty() {
        for (place, width) in widths.iter().enumerate() {
            #[expect(clippy::cast_precision_loss, reason = "below 2^53")]
            match width {
                4 => bytes.extend((rest[place] as u32).to_be_bytes()),
                _ if is_name(place, widths.len()) => bytes.extend(rest[place].to_be_bytes()),
                _ => bytes.extend((rest[place] as f64).to_be_bytes()),
            }
        }
        rest = &rest[widths.len()..];
        widths = &LEASE[..];
    }
    bytes
}

fn name_of(client: &mut redis::Connection, key: &Key) -> Vec<u8> {
    let names: Vec<Vec<u8>> = redis::cmd("KEYS").arg("tidegate:{*}g:*").query(client).unwrap();
    names.into_iter().find(|name| name.ends_with(key.as_bytes())).unwrap()
}

fn marker(client: &mut redis::Connection) -> (String, Epoch) {
    let marker: String = redis::cmd("GET").arg("tidegate:epoch").query(client).unwrap();
    let parts: Vec<_> = marker.split('.').collect();
    let began = Timestamp::from_nanos(parts[2].parse::<u64>().unwrap() * 1000);
    (parts[0].to_owned(), Epoch { number: parts[1].parse().unwrap(), began, is_after_loss: parts[3] == "1" })
}

/// Lets the first epoch of a server begin at [`START`]; its id, and what it is.
async fn begun(stand: &mut Stand) -> (String, Epoch) {
    stand.hands.set(Timestamp::from_nanos(START));
    stand.store.now().await.unwrap();
    marker(&mut stand.client)
}

async fn play(mut stand: Stand, operations: usize, seed: u64, manner: Manner) {
    let (id, epoch) = begun(&mut stand).await;
    let Stand { store, hands, client, .. } = &mut stand;
    assert_eq!(
        epoch,
        Epoch { number: (START / SECOND) as u32, began: Timestamp::from_nanos(START), is_after_loss: false }
    );
    let mut player = Player {
        random: Random::new(seed),
        manner,
        families: families(manner),
        members: HashMap::new(),
        ledgers: HashMap::new(),
        // Buckets begin empty.
        now: START + 3 * SECOND,
        ids: 0,
        epoch,
        replaced: [0; 2],
    };
    let mut names = HashMap::<Key, Vec<u8>>::new();
    let (mut done, mut asks, mut granted, mut learned, mut without_place) = (0, 0, 0, 0, 0);
    while done < operations {
        player.turn();
        if player.random.once(700) {
            // Another epoch, seldom one after a loss.
            let number = player.epoch.number + 1;
            let began = player.now.max(START) / 1000;
            let is_after_loss = player.random.once(2);
            let text = format!("{id}.{number}.{began}.{}", u8::from(is_after_loss));
            let _: () = redis::cmd("SET").arg("tidegate:epoch").arg(text).query(client).unwrap();
            player.epoch = Epoch { number, began: Timestamp::from_nanos(began * 1000), is_after_loss };
            learned += usize::from(is_after_loss);
        }
        let now = Timestamp::from_nanos(player.now);
        hands.set(now);
        let count = [1, 1, 2, 5][player.random.below(4) as usize];
        let batches: Vec<_> = (0..count).map(|_| player.batch()).collect();
        let answers = send(store, &batches).await;
        for (batch, answer) in batches.iter().zip(answers) {
            let answer =
                answer.unwrap_or_else(|error| panic!("{batch:?}\nwas answered {}", error_chain(&error)));
            let (outcomes, grants) = player.expected(batch);
            let place = format!("after {done} operations of seed {seed:#x}, at {}: {batch:#?}", player.now);
            assert_eq!(answer.grants[..], grants[..], "{place}");
            assert_eq!((answer.store_now, answer.outcomes.len()), (now, batch.operations.len()), "{place}");
            let of_ledgers = answer.outcomes.iter().zip(&batch.operations);
            let of_ledgers = of_ledgers.filter(|(_, one)| matches!(one.kind, Kind::Ledger(_)));
            for (((outcome, operation), (units, used, reset_at)), index) in of_ledgers.zip(outcomes).zip(0..)
            {
                let limit = operation.algorithm.limit();
                let moved = (outcome.verdict, outcome.limit, outcome.units, outcome.used, outcome.remaining);
                let expected = (Verdict::Admit, limit, units, used, limit.saturating_sub(used));
                assert_eq!(moved, expected, "operation {index}, {place}");
                // From the year 2255 on the script says never.
                let reset_at = told(reset_at);
                let reset_at =
                    if reset_at.as_nanos() / 1000 < (1 << 53) - 1 { reset_at } else { Timestamp::MAX };
                assert_eq!(outcome.reset_at, reset_at, "operation {index}, {place}");
            }
            done += batch.operations.len();
            asks += answer.grants.len();
            granted +=
                answer.grants.iter().flatten().filter(|grant| grant.lump > 0 || grant.rate > 0).count();
            let spots =
                answer.grants.iter().flatten().filter(|grant| grant.members >= 256 && grant.keep == 0);
            without_place += spots.count();
            player.learn(batch, &answer.grants);
        }
        for operation in batches.iter().flat_map(|batch| &batch.operations) {
            let Some((_, ledger)) = player.ledgers.get(&operation.key) else { continue };
            let name = names.entry(operation.key.clone()).or_insert_with(|| name_of(client, &operation.key));
            let kept: Vec<u8> = redis::cmd("GET").arg(&*name).query(client).unwrap();
            assert_eq!(
                kept_numbers(&kept),
                pure_numbers(ledger),
                "after {done} operations of seed {seed:#x}, at {}: {:?} in {batches:#?}",
                player.now,
                operation.key
            );
        }
    }
    let stats = store.stats();
    assert_eq!((stats.disagreed, stats.lost, stats.asks), (0, 0, asks as u64), "{stats:?}");
    assert!(stats.calls < stats.batches, "nothing was gathered: {stats:?}");
    assert!(
        granted * if manner.is_crowd { 50 } else { 5 } > asks,
        "{granted} of {asks} asks were granted something"
    );
    assert!(without_place > 0 || !manner.is_crowd, "everybody found a place");
    let replaced = player.replaced;
    assert!(replaced.iter().all(|times| *times > 0 || manner.peers == 0), "replaced leases: {replaced:?}");
    println!(
        "{done} operations of seed {seed:#x}, {asks} asks, {granted} granted something, {learned} losses, {without_place} without a place, {replaced:?} replaced leases"
    );
}

/// Plays in its own server, so many of `TIDEGATE_DIFFERENTIAL` operations.
async fn run(test: &str, in_gate: u64, part: u64, manner: Manner) {
    let Some(stand) = Stand::start_in_order() else { return skip(test) };
    let operations = number("TIDEGATE_DIFFERENTIAL").map_or(in_gate, |all| all / part) as usize;
    let seed = number("TIDEGATE_DIFFERENTIAL_SEED").unwrap_or(0x6c65_6467);
    play(stand, operations, seed, manner).await;
}

#[tokio::test(flavor = "current_thread")]
async fn the_script_lends_as_the_pure_code() {
    let name = "the_script_lends_as_the_pure_code";
    run(name, 10_000, 2, Manner { back: 0, holders: 6, peers: 0, keys: 3, is_crowd: false }).await;
}

#[tokio::test(flavor = "current_thread")]
async fn the_script_lends_as_the_pure_code_while_the_clock_steps_back() {
    let name = "the_script_lends_as_the_pure_code_while_the_clock_steps_back";
    run(name, 7000, 3, Manner { back: 2 * SECOND, holders: 6, peers: 1, keys: 3, is_crowd: false }).await;
}

#[tokio::test(flavor = "current_thread")]
async fn the_script_lends_as_the_pure_code_while_the_clock_steps_back_by_hours() {
    let name = "the_script_lends_as_the_pure_code_while_the_clock_steps_back_by_hours";
    run(name, 3000, 8, Manner { back: 3 * 3600 * SECOND, holders: 3, peers: 0, keys: 2, is_crowd: false })
        .await;
}

#[tokio::test(flavor = "current_thread")]
async fn more_holders_than_have_a_place_are_served_as_by_the_pure_code() {
    let name = "more_holders_than_have_a_place_are_served_as_by_the_pure_code";
    run(name, 6000, 25, Manner { back: 0, holders: 2000, peers: 0, keys: 1, is_crowd: true }).await;
}

#[tokio::test(flavor = "current_thread")]
async fn streams_of_peers_take_over_their_stale_leases_as_by_the_pure_code() {
    let name = "streams_of_peers_take_over_their_stale_leases_as_by_the_pure_code";
    run(name, 10_000, 3, Manner { back: 0, holders: 12, peers: 2, keys: 1, is_crowd: false }).await;
}

#[tokio::test(flavor = "current_thread")]
async fn streams_of_peers_are_served_among_too_many_holders_as_by_the_pure_code() {
    let name = "streams_of_peers_are_served_among_too_many_holders_as_by_the_pure_code";
    run(name, 6000, 25, Manner { back: 0, holders: 2000, peers: 60, keys: 1, is_crowd: true }).await;
}

/// Every call brings the period of this version; a record of another is brought to it.
#[tokio::test(flavor = "current_thread")]
async fn rates_of_another_period_are_brought_to_this_one() {
    let name = "rates_of_another_period_are_brought_to_this_one";
    let Some(mut stand) = Stand::start() else { return skip(name) };
    let (_, epoch) = begun(&mut stand).await;
    let Stand { store, hands, client, .. } = &mut stand;
    let mut random = Random::new(11);
    for round in 0..200_u64 {
        let algorithm = match round % 3 {
            0 => bucket(2_000_000 + random.below(1000), SECOND, 1 << 40),
            1 => bucket(1 + random.below(2000), SECOND, 1 + random.below(500)),
            _ => fixed(1000, DAY, WindowStart::Epoch),
        };
        let mut now = START + SECOND + random.below(1000) * MS;
        let terms = Terms::from_algorithm(&algorithm, Timestamp::from_nanos(now)).unwrap();
        let period = Duration::from_micros(4_000_000 + random.below(56_000_000));
        let other = terms.clone().with_period(period).unwrap();
        let kind = if round % 3 == 2 { 8 } else { 7 };
        let mut ledger = Ledger::begin(&terms, &epoch);
        for place in 0..=random.below(5) {
            for seq in 1..4 {
                let demand = random.below(terms.quota().max(10)) as u32;
                let ask = Ask { seq, acked: seq - 1, epoch: epoch.number, demand, ..begin(place, 1).last };
                now += random.below(300) * MS;
                ledger.ask(Timestamp::from_nanos(now), &other, &epoch, &ask);
            }
        }
        let key = Key::new("ledgers", b"period", &round.to_be_bytes()).unwrap();
        let on = |on| Operation::new(key.clone(), algorithm.clone(), Kind::Ledger(on));
        hands.set(Timestamp::from_nanos(now));
        let id = RequestId(u128::from(round) + 1);
        store.run(&Batch::each(id, [on(OnLedger::Reset)])).await.unwrap();
        let name = name_of(client, &key);
        let _: () =
            redis::cmd("SET").arg(&name).arg(kept_bytes(kind, &pure_numbers(&ledger))).query(client).unwrap();
        let ask = Ask { seq: 4, acked: 3, epoch: epoch.number, need: 1, demand: 7, ..begin(0, 1).last };
        let answer = store.run(&Batch::each(id, [on(OnLedger::Ask(ask))])).await.unwrap();
        let expected = ledger.ask(Timestamp::from_nanos(now), &terms, &epoch, &ask).grant;
        assert_eq!(answer.grants[..], [expected], "round {round}, from {period:?}");
        let kept: Vec<u8> = redis::cmd("GETDEL").arg(&name).query(client).unwrap();
        assert_eq!(kept_numbers(&kept), pure_numbers(&ledger), "round {round}, from {period:?}");
    }
}

/// Where a quotient is counted in digits, a remainder that is just as large as the divisor is a
/// unit more.
#[tokio::test(flavor = "current_thread")]
async fn what_drains_is_counted_exactly_where_products_are_beyond_doubles() {
    let name = "what_drains_is_counted_exactly_where_products_are_beyond_doubles";
    let Some(mut stand) = Stand::start() else { return skip(name) };
    let (_, epoch) = begun(&mut stand).await;
    let Stand { store, hands, client, .. } = &mut stand;
    // Powers of two, so that such remainders are met.
    let algorithm = bucket(3_000_000_001, 8_388_608_000, 1 << 44);
    let terms = Terms::from_algorithm(&algorithm, Timestamp::from_nanos(START)).unwrap();
    let mut ledger = Ledger::begin(&terms, &epoch);
    let key = Key::new("ledgers", b"digits", b"").unwrap();
    let (mut random, mut now) = (Random::new(5), START);
    for id in 1..3000 {
        now += 65_536_000 * random.below(256);
        hands.set(Timestamp::from_nanos(now));
        let cost = Cost::new(1 + random.below(1 << 34)).unwrap();
        let report = Kind::Ledger(OnLedger::Report { cost });
        let operation = Operation::new(key.clone(), algorithm.clone(), report);
        store.run(&Batch::each(RequestId(id), [operation])).await.unwrap();
        ledger.report(Timestamp::from_nanos(now), &terms, &epoch, cost);
        let name = name_of(client, &key);
        let kept: Vec<u8> = redis::cmd("GET").arg(name).query(client).unwrap();
        assert_eq!(kept_numbers(&kept), pure_numbers(&ledger), "step {id}");
    }
}
