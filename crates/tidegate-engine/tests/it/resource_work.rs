//! The work of a resource in each span of its history, against a list of who held its places when.

use core::time::Duration;
use std::collections::BTreeMap;

use tidegate_core::{Class, Cost, Reason, Timestamp};
use tidegate_engine::{
    Answered, Completion, Decision, Engine, MeterConfig, NamespaceConfig, Outcome, Pending, Permit, PermitId,
    Progress, Request, RowName, SpanEnd, Step, Wants,
};
use tidegate_overload::{
    AreaMeasure, AreaOwner, HistorySample, HistorySet, Overload, QueueConfig, ResourceConfig, SignalConfig,
    SignalSource, areas,
};
use tidegate_test_support::SplitMix64;

use crate::world::{NOW, config};

const PLACES: u32 = 40;
const STEP: Duration = Duration::from_millis(100);
const FEATURES: [&str; 3] = ["checkout", "reports", "search"];
const NAMESPACES: [&str; 2] = ["blog", "shop"];

#[derive(Clone, Copy, Debug)]
struct Asked {
    feature: Option<&'static str>,
    namespace: &'static str,
    class: Class,
    cost: u64,
    length: Duration,
}

impl Asked {
    fn request(&self) -> Request<'static> {
        let mut request = Request::new(self.namespace, ()).class(self.class).resource("app");
        request.cost = Cost::new(self.cost).unwrap();
        request.feature = self.feature;
        request
    }

    fn name(&self, by: AreaOwner) -> &'static str {
        match by {
            AreaOwner::Feature => self.feature.unwrap_or("none"),
            AreaOwner::Class => self.class.as_str(),
            AreaOwner::Namespace => self.namespace,
        }
    }
}

/// A time for which a request held a place; `until` is in the future while it does.
#[derive(Clone, Copy, Debug)]
struct Held {
    asked: Asked,
    from: Timestamp,
    until: Timestamp,
}

impl Held {
    fn within(&self, sample: &HistorySample) -> Duration {
        self.until.min(sample.until).saturating_since(self.from.max(sample.from))
    }
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a test has few of them")]
enum Holding {
    Permit(Permit),
    Kept(PermitId),
    /// Its owner forgets it: its place expires.
    Forgotten,
}

struct World {
    engine: Engine,
    histories: HistorySet,
    now: Timestamp,
    random: SplitMix64,
    waiting: Vec<(Pending, Asked)>,
    holding: Vec<(Holding, Held)>,
    held: Vec<Held>,
    /// When units were refused.
    refused: Vec<(Timestamp, u64)>,
    /// When somebody waited for a place. A place that is promised is in use as well.
    waited: Vec<(Timestamp, u64)>,
    admitted: Vec<(Timestamp, u64)>,
}

fn engine() -> Engine {
    let in_flight =
        SignalConfig { smoothing: Duration::ZERO, ..SignalConfig::new("places", SignalSource::InFlight) };
    let mut queue = QueueConfig::default();
    queue.delay_targets = [None; 4];
    let overload = Overload::builder(7)
        .resource("app", ResourceConfig::new(u64::from(PLACES)).queue(queue))
        .signal(in_flight)
        .build()
        .unwrap();
    Engine::builder(config())
        .namespaces(NAMESPACES.map(|name| NamespaceConfig::new(name, [])))
        .overload(overload)
        .metering(MeterConfig::default(), NOW)
        .features(FEATURES)
        .build()
        .unwrap()
}

fn name(row: &RowName) -> String {
    match row {
        RowName::Named(name) => name.to_string(),
        RowName::None => "none".to_owned(),
        RowName::Other => "other".to_owned(),
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let (waiting, holding, held, refused, waited, admitted) = Default::default();
        let (engine, histories, random) = (engine(), HistorySet::new(16 << 20), SplitMix64::new(seed));
        Self { engine, histories, now: NOW, random, waiting, holding, held, refused, waited, admitted }
    }

    fn below(&mut self, end: u64) -> u64 {
        self.random.next_u64() % end
    }

    fn draw(&mut self) -> Asked {
        // Which features are busy changes every 40 seconds.
        let era = self.now.saturating_since(NOW).as_secs() / 40 + 1;
        let feature = match self.below(10) {
            0 => None,
            1..7 => Some(FEATURES[(era % 3) as usize]),
            _ => Some(FEATURES[self.below(3) as usize]),
        };
        let millis = match self.below(60) {
            0 => 25_000 + self.below(60_000),
            1..4 => 3_000 + self.below(12_000),
            _ => 1 + self.below(700),
        };
        Asked {
            feature,
            namespace: NAMESPACES[usize::from(self.below(4) > 0)],
            class: Class::ALL[self.below(4) as usize],
            cost: self.below(4) + 1,
            length: Duration::from_millis(millis),
        }
    }

    fn took(&mut self, step: Step<'static>, asked: Asked) {
        match step {
            Step::Decided(Decision::Admit(permit)) => self.admit(permit, asked),
            Step::Decided(Decision::Refuse(refused)) => {
                assert!(matches!(
                    refused.reason(),
                    Reason::OverloadShed | Reason::QueueFull | Reason::DeadlineUnmeetable
                ));
                self.refused.push((self.now, asked.cost));
            }
            Step::Ask(pending) => {
                self.waited.push((self.now, 1));
                self.waiting.push((pending, asked));
            }
        }
    }

    fn admit(&mut self, permit: Permit, asked: Asked) {
        self.admitted.push((self.now, asked.cost));
        if self.below(20) == 0 {
            drop(self.engine.settle(permit, Outcome::Cancelled, self.now));
            return;
        }
        let held = Held { asked, from: self.now, until: self.now.saturating_add(asked.length) };
        self.held.push(held);
        let holding = match self.below(12) {
            0 | 1 => {
                // Every other one is forgotten by its owner, and expires at its end.
                let is_forgotten = self.below(2) == 0;
                let expires =
                    if is_forgotten { held.until } else { held.until.saturating_add(Duration::from_mins(1)) };
                let Progress::Done(id) = self.engine.keep(permit, expires, self.now).unwrap() else {
                    panic!("no store is asked")
                };
                if is_forgotten { Holding::Forgotten } else { Holding::Kept(id) }
            }
            _ => Holding::Permit(permit),
        };
        self.holding.push((holding, held));
    }

    /// Ends what is over by now.
    fn end(&mut self) {
        let now = self.now;
        for (holding, held) in self.holding.extract_if(.., |(_, held)| held.until <= now).collect::<Vec<_>>()
        {
            let mut completion = Completion::from(Outcome::Succeeded);
            // Its caller says when it ended, which may be a while ago.
            completion.ended_after = Some(held.asked.length);
            match holding {
                Holding::Permit(permit) => drop(self.engine.settle(permit, completion, now)),
                // It may have expired where the clock was set forward.
                Holding::Kept(id) => drop(self.engine.settle_kept(id, completion, now)),
                Holding::Forgotten => {}
            }
        }
    }

    fn wait(&mut self) {
        let now = self.now;
        let is_due = |(pending, _): &mut (Pending, Asked)| match pending.wants() {
            Wants::Turn(turn) => turn.is_called() || turn.wake_at() <= now,
            other => panic!("should wait for its turn: {other:?}"),
        };
        for (pending, asked) in self.waiting.extract_if(.., is_due).collect::<Vec<_>>() {
            let step = self.engine.resume(pending, Answered::Turn, now);
            self.took(step, asked);
        }
    }

    fn step(&mut self, arrivals: u64) {
        self.now = self.now.saturating_add(STEP);
        self.end();
        drop(self.engine.tick(self.now));
        self.observe();
        self.wait();
        for _ in 0..self.below(2 * arrivals + 1) {
            let asked = self.draw();
            let wait = self.now.saturating_add(Duration::from_secs(2));
            let request = asked.request();
            let request = if self.below(3) == 0 { request } else { request.may_wait_until(wait) };
            let step = self.engine.admit(&request, self.now).unwrap().into_owned();
            self.took(step, asked);
        }
    }

    /// As the daemon does.
    fn observe(&mut self) {
        if let Some(end) = self.histories.span_end(self.now) {
            for work in self.engine.take_resource_work(end) {
                let Some(span) = self.histories.shares(&work.resource) else { continue };
                for share in &work.shares {
                    let (feature, namespace) = (name(&share.feature), name(&share.namespace));
                    span.add(&feature, share.class, &namespace, share.place_time, share.units);
                    span.offer(share.units + share.refused_units);
                    span.refuse(share.refused_units);
                }
            }
        }
        self.histories.observe(self.engine.resource_pressures(), self.now);
    }

    fn samples(&self) -> Vec<HistorySample> {
        self.histories.history("app").unwrap().samples().cloned().collect()
    }

    /// The time for which each held places in the span of a sample.
    fn truth(&self, sample: &HistorySample, by: AreaOwner) -> BTreeMap<&'static str, f64> {
        let mut truth = BTreeMap::new();
        for held in &self.held {
            let seconds = held.within(sample).as_secs_f64();
            if seconds > 0.0 {
                *truth.entry(held.asked.name(by)).or_default() += seconds;
            }
        }
        truth
    }
}

fn units_within(units: &[(Timestamp, u64)], sample: &HistorySample) -> u64 {
    let within = units.iter().filter(|(at, _)| sample.from <= *at && *at < sample.until);
    within.map(|(_, units)| units).sum()
}

#[test]
fn at_every_point_the_areas_are_of_those_that_held_the_places_and_add_up_to_the_pressure() {
    let mut world = World::new(44);
    for step in 0..10 * 60 * 4 {
        world.step([0, 1, 2, 1, 3][step / 300 % 5]);
    }
    let samples = world.samples();
    assert!(samples.len() >= 22, "{}", samples.len());
    let longest = world.held.iter().map(|held| held.asked.length).max().unwrap();
    assert!(longest > Duration::from_mins(1), "{longest:?}");
    let (mut refused, mut unwaited) = (0, 0);
    for sample in &samples {
        let pressure = sample.pressure.unwrap();
        for by in AreaOwner::ALL {
            let (shown, truth) = (areas(sample, by), world.truth(sample, by));
            let sum: f64 = shown.iter().map(|(_, height)| height).sum();
            assert!((sum - pressure).abs() <= 0.01 * pressure, "{sum} of {pressure}");
            let all: f64 = truth.values().sum();
            if all == 0.0 {
                continue;
            }
            assert_eq!(AreaMeasure::from_sample(sample), AreaMeasure::PlaceTime);
            for (name, seconds) in &truth {
                let height = shown.iter().find(|(shown, _)| shown == name).map_or(0.0, |(_, height)| *height);
                let expected = pressure * seconds / all;
                assert!(
                    (height - expected).abs() <= 0.01 * pressure,
                    "{name} at {}: {height}, not {expected} of {pressure}",
                    sample.from
                );
            }
            // The pressure is the part of the places in use, which it follows within a second.
            let in_use = all / (f64::from(PLACES) * sample.length().as_secs_f64());
            let has_waited = units_within(&world.waited, sample) > 0;
            unwaited += u32::from(!has_waited);
            assert!(
                has_waited || (pressure - in_use).abs() <= 0.05,
                "{by:?} at {}: {pressure}, {in_use}",
                sample.from
            );
        }
        let (of_refused, of_admitted) =
            (units_within(&world.refused, sample), units_within(&world.admitted, sample));
        assert_eq!(sample.refused_units, of_refused);
        assert_eq!(sample.offered_units, of_refused + of_admitted);
        refused += of_refused;
    }
    assert!(refused > 100 && unwaited > 5, "{refused} {unwaited}");
}

#[test]
fn the_first_span_has_the_work_that_was_done_in_it() {
    let mut world = World::new(1);
    let long = Asked {
        feature: Some("reports"),
        namespace: "shop",
        class: Class::Sheddable,
        cost: 3,
        length: Duration::from_secs(100),
    };
    // It holds its place before the first look already.
    let Step::Decided(Decision::Admit(permit)) = world.engine.admit(&long.request(), world.now).unwrap()
    else {
        panic!("there is room")
    };
    world.holding.push((
        Holding::Permit(permit),
        Held { asked: long, from: NOW, until: NOW.saturating_add(long.length) },
    ));
    (0..105).for_each(|_| world.step(0));
    let samples = world.samples();
    let [first] = &samples[..] else { panic!("{samples:?}") };
    let held: Vec<_> =
        first.features.iter().map(|row| (&*row.name, row.totals.place_time_ns / 100_000_000)).collect();
    // Beginnings are rounded to 2 ms.
    assert!(held == [("reports", 100)] || held == [("reports", 99)], "{held:?}");
    // Its units were admitted before.
    assert_eq!(first.offered_units, 0);
}

#[test]
fn a_request_that_is_undone_or_forgotten_after_a_while_takes_nothing_from_the_others() {
    let mut world = World::new(1);
    let asked = Asked {
        feature: Some("reports"),
        namespace: "shop",
        class: Class::Sheddable,
        cost: 1,
        length: Duration::from_secs(100),
    };
    let mut permits = Vec::new();
    for _ in 0..3 {
        let Step::Decided(Decision::Admit(permit)) = world.engine.admit(&asked.request(), world.now).unwrap()
        else {
            panic!("there is room")
        };
        permits.push(permit);
    }
    (0..150).for_each(|_| world.step(0));
    drop(world.engine.settle(permits.remove(0), Outcome::Cancelled, world.now));
    drop(permits.remove(0));
    (0..160).for_each(|_| world.step(0));
    let seconds: Vec<u64> = world
        .samples()
        .iter()
        .map(|sample| (sample.features[0].totals.place_time_ns + 100_000_000) / 1_000_000_000)
        .collect();
    // One is undone and one is dropped: neither has a place time in the second span.
    assert_eq!(seconds, [30, 10, 10]);
}

#[test]
fn where_no_end_is_known_areas_are_by_units() {
    let mut world = World::new(1);
    for step in 0..150 {
        for (feature, cost) in [("checkout", 3), ("search", 1)] {
            let asked =
                Asked { feature: Some(feature), cost, ..Asked { length: Duration::ZERO, ..world.draw() } };
            let request = asked.request().class(Class::CriticalPlus).end_unknown();
            let Step::Decided(Decision::Admit(permit)) = world.engine.admit(&request, world.now).unwrap()
            else {
                panic!("there is room at {step}")
            };
            assert!(!permit.holds_place());
            drop(permit);
        }
        world.step(0);
    }
    let samples = world.samples();
    assert_eq!(AreaMeasure::from_sample(&samples[0]), AreaMeasure::Units);
    let units: Vec<_> = samples[0].features.iter().map(|row| (&*row.name, row.totals.units)).collect();
    assert_eq!(units, [("checkout", 300), ("search", 100)]);
}

#[test]
fn where_some_ends_are_known_areas_are_by_place_time_alone_and_add_up_to_the_pressure() {
    let mut world = World::new(1);
    let asked = |feature, cost, length| Asked {
        feature: Some(feature),
        namespace: "shop",
        class: Class::CriticalPlus,
        cost,
        length: Duration::from_secs(length),
    };
    for step in 0..150 {
        // The end of most work is not known, and that of one feature only of a part.
        for one in [asked("search", 4, 0), asked("reports", 2, 0)] {
            let request = one.request().end_unknown();
            let admitted = world.engine.admit(&request, world.now).unwrap().into_owned();
            let Step::Decided(Decision::Admit(permit)) = admitted else { panic!("there is room at {step}") };
            drop(permit);
        }
        for one in [asked("checkout", 1, 2), asked("reports", 1, 1)] {
            let admitted = world.engine.admit(&one.request(), world.now).unwrap().into_owned();
            let Step::Decided(Decision::Admit(permit)) = admitted else { panic!("there is room at {step}") };
            let held = Held { asked: one, from: world.now, until: world.now.saturating_add(one.length) };
            world.held.push(held);
            world.holding.push((Holding::Permit(permit), held));
        }
        world.step(0);
    }
    let samples = world.samples();
    assert_eq!(AreaMeasure::from_sample(&samples[0]), AreaMeasure::PlaceTime);
    let units: BTreeMap<_, _> =
        samples[0].features.iter().map(|row| (&*row.name, row.totals.units)).collect();
    assert_eq!(units, [("checkout", 100), ("reports", 300), ("search", 400)].into());
    let pressure = samples[0].pressure.unwrap();
    let shown: BTreeMap<_, _> = areas(&samples[0], AreaOwner::Feature).into_iter().collect();
    // The work without a known end has units, and no area.
    let names: Vec<_> = shown.keys().copied().collect();
    assert_eq!(names, ["checkout", "reports"]);
    let sum: f64 = shown.values().sum();
    assert!(pressure > 0.1 && (sum - pressure).abs() <= 0.01 * pressure, "{sum} of {pressure}");
    let truth = world.truth(&samples[0], AreaOwner::Feature);
    let all: f64 = truth.values().sum();
    for (name, seconds) in truth {
        assert!((shown[name] - pressure * seconds / all).abs() <= 0.01 * pressure, "{name}: {shown:?}");
    }
}

#[test]
fn a_step_of_the_clock_in_either_direction_gives_no_request_more_than_the_span() {
    let hour = Duration::from_hours(1);
    for is_forward in [true, false] {
        let mut world = World::new(3);
        (0..450).for_each(|_| world.step(2));
        world.now = if is_forward { world.now.saturating_add(hour) } else { world.now.saturating_sub(hour) };
        (0..450).for_each(|_| world.step(2));
        for sample in world.samples() {
            let held: u64 = sample.classes.iter().map(|totals| totals.place_time_ns).sum();
            let most = f64::from(PLACES) * sample.length().as_secs_f64();
            let seconds = Duration::from_nanos(held).as_secs_f64();
            // Requests whose times the step has moved may count as all that came in the span.
            assert!(seconds <= 3.0 * most, "{seconds} of {most} at {}", sample.from);
        }
        assert_eq!(world.histories.history("app").unwrap().breaks().count(), 1);
    }
}

#[test]
fn the_memory_of_work_is_in_the_bytes_of_the_meter() {
    let mut world = World::new(1);
    world.observe();
    let before = world.engine.metering_bytes();
    (0..50).for_each(|_| world.step(2));
    // A reader lets the rows have what threads have counted.
    drop(world.engine.usage());
    let (after, work) =
        (world.engine.metering_bytes(), world.engine.take_resource_work(SpanEnd::at(world.now)));
    let [app] = &work[..] else { panic!("{work:?}") };
    assert!(app.bytes > 1_000 && app.shares.len() > 10, "{app:?}");
    assert!(after - before > app.bytes / 2, "{before} to {after}, of them {}", app.bytes);
}
