//! The cursor in front of a queue, in virtual time: ten workers, exponential service of 10 ms, and
//! a queue per class with folly's `CoDel`.

use std::collections::{BTreeMap, VecDeque};

use tidegate_test_support::SplitMix64;

use super::*;
use crate::queue::queue_observation::QueueObservation;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;
const WORKERS: u64 = 10;
/// The requests that ten workers serve in a second.
const CAPACITY: f64 = 1000.0;
/// The share of the capacity that the gold tenant asks for.
const GOLD: f64 = 0.2;

/// folly's `CoDel`: overloaded is a whole interval in which no wait was below the target.
struct Codel {
    target: u64,
    interval_end: u64,
    least: u64,
    is_overloaded: bool,
}

impl Codel {
    fn is_shed(&mut self, delay: u64, now: u64) -> bool {
        if now >= self.interval_end {
            self.interval_end = now + 100 * MS;
            self.is_overloaded = self.least != u64::MAX && self.least > self.target;
            self.least = delay;
        } else {
            self.least = self.least.min(delay);
        }
        self.is_overloaded && delay > 2 * self.target
    }
}

/// A span in nanoseconds, exponential with this mean.
fn span(chance: &mut SplitMix64, mean_ns: f64) -> u64 {
    (-(1.0 - chance.fraction()).ln() * mean_ns) as u64 + 1
}

struct Line {
    waiting: VecDeque<u64>,
    codel: Codel,
    /// The least wait of this tick.
    least: u64,
}

impl Line {
    fn new(target: u64) -> Self {
        let codel = Codel { target, interval_end: 0, least: u64::MAX, is_overloaded: false };
        Self { waiting: VecDeque::new(), codel, least: u64::MAX }
    }
}

/// The clients.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bronze {
    OneTenant,
    ManyTenants,
    AllClasses,
}

/// The numbers of one second of the run.
#[derive(Clone, Copy, Debug, Default)]
struct Second {
    served: u64,
    refused: u64,
    cursor_min: u16,
    cursor_max: u16,
    /// How often the cursor became open.
    opened: u64,
}

struct World {
    overload: Overload,
    chance: SplitMix64,
    lines: BTreeMap<Class, Line>,
    /// The ends of the work in flight.
    busy: Vec<(u64, InFlightPermit)>,
    seen: QueueObservation,
    second: Second,
}

impl World {
    fn at(ns: u64) -> Timestamp {
        START.saturating_add(Duration::from_nanos(ns))
    }

    fn run(seed: u64, bronze: Bronze, seconds: u64, load: impl Fn(u64) -> f64) -> Vec<Second> {
        let mut lines = BTreeMap::new();
        for class in Class::ALL {
            lines.insert(class, Line::new(if class >= Class::Critical { 5 * MS } else { 20 * MS }));
        }
        let mut world = Self {
            overload: overload(WORKERS),
            chance: SplitMix64::new(seed),
            lines,
            busy: Vec::new(),
            seen: QueueObservation::NONE,
            second: Second { cursor_min: u16::MAX, ..Second::default() },
        };
        let (mut now, mut tick, mut all) = (0, 0, Vec::new());
        let mut arrival = 0;
        while now < seconds * SECOND {
            let end = world.busy.iter().map(|(end, _)| *end).min().unwrap_or(u64::MAX);
            now = arrival.min(end).min(tick);
            if now == end {
                let index = world.busy.iter().position(|(at, _)| *at == now).unwrap();
                world.overload.give_back(world.busy.swap_remove(index).1);
                world.serve(now);
            } else if now == arrival {
                let times = load(now / SECOND);
                world.arrive(bronze, times, now);
                arrival = now + span(&mut world.chance, 1e9 / (times * CAPACITY));
            } else {
                world.tick(now);
                tick = now + 100 * MS;
                if tick.is_multiple_of(SECOND) {
                    all.push(core::mem::take(&mut world.second));
                    world.second.cursor_min = u16::MAX;
                }
            }
        }
        all
    }

    fn arrive(&mut self, bronze: Bronze, times: f64, now: u64) {
        let is_gold = self.chance.fraction() * times < GOLD;
        let number = (self.chance.fraction() * 1000.0) as u32;
        let (class, tenant) = match bronze {
            _ if is_gold => (Class::Critical, "gold".to_owned()),
            Bronze::OneTenant => (Class::Sheddable, "bronze".to_owned()),
            Bronze::ManyTenants => (Class::Sheddable, number.to_string()),
            Bronze::AllClasses => (Class::ALL[number as usize % 3], number.to_string()),
        };
        let level = self.overload.request_level(1, class, Some(&tenant), Self::at(now));
        if shed_by_cursor(&self.overload, ONLY, level, true).is_some() {
            self.second.refused += 1;
            return;
        }
        self.lines.get_mut(&class).unwrap().waiting.push_back(now);
        self.serve(now);
    }

    /// Gives free workers to what waits: three of four times the highest class, else the lowest.
    fn serve(&mut self, now: u64) {
        while self.overload.has_place(ONLY, Class::Critical) {
            let is_low = self.chance.fraction() < 0.1;
            let mut classes = Class::ALL.into_iter().filter(|class| !self.lines[class].waiting.is_empty());
            let Some(class) = (if is_low { classes.next() } else { classes.next_back() }) else {
                self.seen.is_empty = true;
                return;
            };
            let line = self.lines.get_mut(&class).unwrap();
            let delay = now - line.waiting.pop_front().unwrap();
            line.least = line.least.min(delay);
            if line.codel.is_shed(delay, now) {
                self.seen.shed += 1;
                self.second.refused += 1;
                continue;
            }
            let permit = take_place(&self.overload, ONLY, level_of(class), Self::at(now)).unwrap();
            self.busy.push((now + span(&mut self.chance, 10.0 * MS as f64), permit));
            self.second.served += 1;
        }
    }

    fn tick(&mut self, now: u64) {
        for line in self.lines.values_mut() {
            // The request that waits longest counts although it was not served.
            let head = line.waiting.front().map_or(u64::MAX, |since| now - since);
            let least = if line.least == u64::MAX { head } else { line.least };
            if least != u64::MAX {
                self.seen.delay_ratio = self.seen.delay_ratio.max(least as f64 / line.codel.target as f64);
            }
            line.least = u64::MAX;
        }
        let before = self.overload.resource(ONLY).cursor();
        let seen = core::mem::replace(&mut self.seen, QueueObservation::NONE);
        self.overload.resource(ONLY).observe_queue(seen);
        self.overload.tick(Self::at(now));
        let cursor = self.overload.resource(ONLY).cursor();
        let second = &mut self.second;
        second.opened += u64::from(before > cursor && cursor == Cursor::OPEN);
        second.cursor_min = second.cursor_min.min(cursor.level());
        second.cursor_max = second.cursor_max.max(cursor.level());
    }
}

const SEEDS: core::ops::RangeInclusive<u64> = 1..=5;

#[test]
fn a_steady_overload_moves_the_cursor_by_a_tenth_of_its_span_at_most_and_keeps_all_workers_busy() {
    for bronze in [Bronze::OneTenant, Bronze::ManyTenants, Bronze::AllClasses] {
        for (times, seed) in
            [2.0, 5.0, 10.0].into_iter().flat_map(|times| SEEDS.map(move |seed| (times, seed)))
        {
            let seconds = World::run(seed, bronze, 12, |_| times);
            let steady = &seconds[2..];
            let served: u64 = steady.iter().map(|second| second.served).sum();
            let goodput = served as f64 / (steady.len() as f64 * CAPACITY);
            let moved = steady.iter().map(|second| second.cursor_max - second.cursor_min).max().unwrap();
            println!("{bronze:?} {times}x seed {seed}: goodput {goodput:.3}, moved {moved}");
            assert!(goodput >= 0.95, "{bronze:?} {times}x seed {seed}: {goodput}");
            assert!(moved <= 38, "{bronze:?} {times}x seed {seed}: {steady:?}");
        }
    }
}

#[test]
fn the_cursor_is_open_within_a_second_after_the_load_has_eased() {
    for bronze in [Bronze::OneTenant, Bronze::ManyTenants, Bronze::AllClasses] {
        for (times, seed) in
            [2.0, 5.0, 10.0].into_iter().flat_map(|times| SEEDS.map(move |seed| (times, seed)))
        {
            let seconds =
                World::run(seed, bronze, 10, |second| if (1..6).contains(&second) { times } else { 0.5 });
            let after = &seconds[7..];
            assert!(
                after.iter().all(|second| second.cursor_max == 0),
                "{bronze:?} {times}x {seed}: {seconds:?}"
            );
            assert!(
                after.iter().all(|second| second.refused == 0),
                "{bronze:?} {times}x {seed}: {seconds:?}"
            );
        }
    }
}

#[test]
fn a_square_wave_opens_the_cursor_once_a_period_and_it_does_not_cycle() {
    for bronze in [Bronze::ManyTenants, Bronze::AllClasses] {
        for seed in SEEDS {
            let seconds = World::run(seed, bronze, 20, |second| if second % 4 < 2 { 5.0 } else { 0.5 });
            let opened: u64 = seconds.iter().map(|second| second.opened).sum();
            assert!((4..=5).contains(&opened), "{bronze:?} seed {seed}: {seconds:?}");
            let high = seconds.iter().enumerate().filter(|(second, _)| second % 4 == 1);
            for (number, second) in high {
                assert!(second.cursor_min > 0, "{bronze:?} seed {seed}, second {number}: {second:?}");
            }
        }
    }
}
