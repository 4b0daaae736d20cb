//! The clock on a machine whose counter does what a test says.

use core::cell::RefCell;

use proptest::prelude::*;

use super::*;
use crate::segment::{SEGMENT_NS, SPEED_SPAN_NS};

/// How far a reading may be from `Instant`.
const DEVIATION_NS_MAX: u64 = 100_000;

/// The ticks of a sound counter in a microsecond.
const TICKS_EACH_US: u64 = 2_600;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
const YEAR: u64 = 365 * 24 * 3600 * SECOND;

/// A machine of two cores, with a thread on each.
#[derive(Debug)]
struct ScriptedReadings {
    state: RefCell<Script>,
    threads: [ThreadReadings; 2],
}

#[derive(Debug, Default)]
struct Script {
    /// `Instant`.
    ns: u64,
    /// The counter of core 0.
    ticks: u64,
    /// Ticks in 1000 us.
    speed: u64,
    /// The part of a tick that has passed, in millionths.
    part: u128,
    /// By how much the counter of core 1 is ahead.
    core_1_ahead: i64,
    thread: usize,
    core: usize,
    /// How long the thread is put aside before it reads the counter, and before it reads `Instant`.
    put_aside_ns: [u64; 2],
    /// How often `Instant` was read.
    instants: u64,
}

impl Script {
    fn pass(&mut self, ns: u64) {
        self.ns += ns;
        self.run_counter(ns);
    }

    fn run_counter(&mut self, ns: u64) {
        let part = u128::from(ns) * u128::from(self.speed) + self.part;
        self.ticks = self.ticks.wrapping_add((part / 1_000_000) as u64);
        self.part = part % 1_000_000;
    }
}

impl Readings for ScriptedReadings {
    fn ticks(&self) -> u64 {
        let mut state = self.state.borrow_mut();
        let took = 10 + state.put_aside_ns[0];
        state.pass(took);
        state.ticks.wrapping_add_signed(if state.core == 1 { state.core_1_ahead } else { 0 })
    }

    fn elapsed_ns(&self) -> u64 {
        let mut state = self.state.borrow_mut();
        let took = 26 + state.put_aside_ns[1];
        state.pass(took);
        state.instants += 1;
        state.ns
    }

    fn on_thread<T>(&self, read: impl FnOnce(&ThreadReadings) -> T) -> T {
        let thread = self.state.borrow().thread;
        read(&self.threads[thread])
    }
}

/// A clock on such a machine, with the readings that it gave.
struct Watched {
    clock: AnchoredCounter<ScriptedReadings>,
    latest: [u64; 2],
    /// The furthest that a reading was ahead of `Instant`, and behind it.
    ahead_ns: u64,
    behind_ns: u64,
}

impl Watched {
    /// Started with these clocks; the speed is not known yet.
    fn starting_at(ticks: u64, ns: u64) -> Self {
        let state = Script { ns, ticks, speed: TICKS_EACH_US * 1_000, ..Script::default() };
        let readings =
            ScriptedReadings { state: RefCell::new(state), threads: [const { ThreadReadings::new() }; 2] };
        let clock = AnchoredCounter::new(readings, true);
        Self { clock, latest: [0; 2], ahead_ns: 0, behind_ns: 0 }
    }

    /// A clock that reads the counter.
    fn at_work() -> Self {
        let mut watched = Self::starting_at(77 * TICKS_EACH_US * SECOND / 1_000, 1_000);
        watched.read();
        watched.script(|script| script.pass(SPEED_SPAN_NS));
        watched.read();
        let before = watched.instants();
        for _ in 0..1_000 {
            watched.read();
        }
        assert!(watched.is_trusted() && watched.instants() - before < 15, "it reads the counter");
        watched
    }

    fn script<T>(&self, change: impl FnOnce(&mut Script) -> T) -> T {
        change(&mut self.clock.readings.state.borrow_mut())
    }

    fn instants(&self) -> u64 {
        self.script(|script| script.instants)
    }

    fn is_trusted(&self) -> bool {
        self.clock.segment.read().is_some()
    }

    /// Reads the clock once, and never finds it back.
    fn read(&mut self) -> u64 {
        let before = self.script(|script| script.ns);
        let read = self.clock.elapsed_ns();
        let (thread, after) = self.script(|script| (script.thread, script.ns));
        assert!(read >= self.latest[thread], "back by {} ns", self.latest[thread] - read);
        self.latest[thread] = read;
        self.ahead_ns = self.ahead_ns.max(read.saturating_sub(after));
        self.behind_ns = self.behind_ns.max(before.saturating_sub(read));
        read
    }

    /// Reads it again and again for `span_ns` of `Instant`.
    fn read_for(&mut self, span_ns: u64) {
        let end = self.script(|script| script.ns) + span_ns;
        while self.script(|script| script.ns) < end {
            self.read();
            self.script(|script| script.pass(2));
        }
    }

    #[track_caller]
    fn assert_near(&self) {
        assert!(
            self.ahead_ns <= DEVIATION_NS_MAX && self.behind_ns <= DEVIATION_NS_MAX,
            "{} ns ahead, {} ns behind",
            self.ahead_ns,
            self.behind_ns
        );
    }
}

#[test]
fn a_sound_counter_serves_nearly_all_readings_and_is_a_microsecond_away() {
    let mut watched = Watched::at_work();
    let before = watched.instants();
    let began = watched.script(|script| script.ns);
    let mut readings = 0;
    while watched.script(|script| script.ns) < began + 5 * MS {
        watched.read();
        readings += 1;
    }
    let instants = watched.instants() - before;
    assert!(readings > 300_000 && instants * 100 < readings, "{instants} instants for {readings}");
    assert!(watched.is_trusted());
    assert!(watched.ahead_ns <= 1_000 && watched.behind_ns <= 1_000);
}

#[test]
fn a_start_reads_instant_until_the_speed_is_known() {
    let mut watched = Watched::starting_at(5, 0);
    let mut readings = 0;
    while watched.script(|script| script.ns) < SPEED_SPAN_NS {
        assert_eq!(watched.read(), watched.script(|script| script.ns));
        readings += 1;
    }
    assert!(watched.instants() >= readings);
    watched.read_for(MS);
    let before = watched.instants();
    watched.read_for(SEGMENT_NS);
    assert!(watched.instants() - before < 40);
}

#[test]
fn a_counter_that_is_not_invariant_is_never_read() {
    let mut watched = Watched::at_work();
    watched.clock = AnchoredCounter::new(watched.clock.readings, false);
    for _ in 0..1_000 {
        watched.script(|script| script.pass(SPEED_SPAN_NS));
        let before = watched.instants();
        assert_eq!(watched.read(), watched.script(|script| script.ns));
        assert_eq!(watched.instants() - before, 1);
    }
}

#[test]
fn after_a_gap_of_any_length_a_sound_counter_is_trusted() {
    let mut watched = Watched::at_work();
    let mut gap = 1;
    while gap < 30 * YEAR {
        for _ in 0..3 {
            watched.script(|script| script.pass(gap));
            watched.read();
        }
        watched.read_for(2 * SEGMENT_NS);
        gap *= 7;
    }
    assert!(watched.is_trusted());
    assert!(watched.ahead_ns <= 1_000 && watched.behind_ns <= 1_000);
}

#[test]
fn a_counter_that_instant_runs_apart_from_as_linux_lets_it_is_trusted() {
    let mut watched = Watched::at_work();
    for part in [1_000_500, 999_500, 1_000_000] {
        watched.script(|script| script.speed = TICKS_EACH_US * part / 1_000);
        for _ in 0..25_000 {
            watched.script(|script| script.pass(1_000));
            watched.read();
        }
        watched.script(|script| script.pass(3_600 * SECOND));
        watched.read_for(MS);
        assert!(watched.is_trusted(), "{part}");
    }
    assert!(watched.ahead_ns <= 1_000 && watched.behind_ns <= 1_000);
}

#[test]
fn a_counter_that_jumps_is_not_followed() {
    let us = TICKS_EACH_US.cast_signed();
    for jump_us in [-10_000_000, -1_000, -100, -30, -10, 10, 30, 100, 1_000, 10_000_000, i64::MAX / us] {
        let mut watched = Watched::at_work();
        watched.script(|script| script.ticks = script.ticks.wrapping_add_signed(jump_us * us));
        watched.read_for(4 * SEGMENT_NS);
        watched.assert_near();
        assert!(!watched.is_trusted(), "{jump_us}");
        let before = watched.instants();
        assert_eq!(watched.read(), watched.script(|script| script.ns));
        assert_eq!(watched.instants() - before, 1, "Instant alone serves from then on");
    }
}

#[test]
fn a_counter_that_stops_is_given_up_at_once() {
    let mut watched = Watched::at_work();
    watched.script(|script| script.speed = 0);
    watched.read_for(SEGMENT_NS);
    assert!(!watched.is_trusted());
    assert!(watched.behind_ns <= 2 * NOISE_NS, "{} ns behind", watched.behind_ns);
    watched.assert_near();
}

#[test]
fn a_counter_that_becomes_one_percent_faster_or_slower_is_given_up_within_its_span() {
    for percent in [101, 99] {
        let mut watched = Watched::at_work();
        watched.script(|script| script.speed = TICKS_EACH_US * 10 * percent);
        watched.read_for(SPEED_SPAN_NS);
        assert!(!watched.is_trusted(), "{percent} %");
        assert!(watched.ahead_ns <= 2_000 && watched.behind_ns <= 2_000);
    }
}

#[test]
fn a_counter_that_slows_down_leaves_no_reading_of_a_steady_thread_late() {
    for (slower, pause_ns) in [(2, 0), (10, 0), (1_000, 0), (10, 1_000), (1_000, 1_000), (1_000, 10_000)] {
        let mut watched = Watched::at_work();
        for _ in 0..50 {
            watched.script(|script| script.pass(pause_ns));
            watched.read();
        }
        watched.script(|script| script.speed /= slower);
        for _ in 0..20_000 {
            watched.script(|script| script.pass(pause_ns));
            watched.read();
        }
        assert!(!watched.is_trusted(), "{slower} times slower, read each {pause_ns} ns");
        watched.assert_near();
    }
}

#[test]
fn a_thread_that_moves_to_a_core_with_another_counter_never_goes_back() {
    let us = TICKS_EACH_US.cast_signed();
    for ahead_us in [-3_600_000_000, -90, -40, -3, -1, 1, 3, 40, 90, 3_600_000_000] {
        let mut watched = Watched::at_work();
        watched.script(|script| script.core_1_ahead = ahead_us * us);
        for _ in 0..200 {
            watched.script(|script| script.core ^= 1);
            watched.read_for(2_000);
        }
        watched.assert_near();
        assert_eq!(watched.is_trusted(), ahead_us.abs() <= 3, "{ahead_us}");
    }
}

#[test]
fn two_threads_on_two_cores_whose_counters_differ_are_both_near() {
    for ahead_us in [-1_000_000, -90, -40, -3, 3, 40, 90, 1_000_000] {
        let mut watched = Watched::at_work();
        let ahead = ahead_us * TICKS_EACH_US.cast_signed();
        watched.script(|script| script.core_1_ahead = ahead);
        for _ in 0..200 {
            watched.script(|script| (script.core, script.thread) = (script.core ^ 1, script.thread ^ 1));
            watched.read_for(2_000);
        }
        watched.assert_near();
        assert_eq!(watched.is_trusted(), ahead_us.abs() <= 3, "{ahead_us}");
    }
}

#[test]
fn a_suspend_that_stops_both_clocks_is_not_noticed_and_one_that_stops_one_ends_the_trust() {
    let hour = 3_600 * SECOND;
    // Both stop: nothing has changed when they go on.
    let mut both_stop = Watched::at_work();
    both_stop.read_for(MS);
    assert!(both_stop.is_trusted());

    let mut counter_goes_on = Watched::at_work();
    counter_goes_on.script(|script| script.run_counter(hour));
    counter_goes_on.read_for(MS);
    counter_goes_on.assert_near();
    assert!(!counter_goes_on.is_trusted());

    let mut counter_is_reset = Watched::at_work();
    counter_is_reset.script(|script| script.ticks = 12);
    counter_is_reset.read_for(MS);
    counter_is_reset.assert_near();
    assert!(!counter_is_reset.is_trusted());
}

#[test]
fn a_counter_that_a_suspend_stopped_is_found_by_the_first_reading_of_another_segment() {
    let mut watched = Watched::at_work();
    // Thread 1 has read five times in an earlier segment, and would not compare its sixth reading.
    watched.script(|script| script.thread = 1);
    watched.script(|script| script.pass(SEGMENT_NS));
    for _ in 0..5 {
        watched.read();
    }
    watched.script(|script| script.thread = 0);
    watched.script(|script| script.pass(SEGMENT_NS));
    watched.read();
    watched.script(|script| (script.thread, script.ns) = (1, script.ns + 3_600 * SECOND));
    assert_eq!(watched.read(), watched.script(|script| script.ns));
    assert!(!watched.is_trusted());
}

#[test]
fn a_counter_that_a_suspend_stopped_is_found_after_as_many_readings_as_were_made() {
    let mut watched = Watched::at_work();
    watched.script(|script| script.pass(SEGMENT_NS));
    for _ in 0..100 {
        watched.read();
    }
    watched.script(|script| script.ns += 3_600 * SECOND);
    for _ in 0..100 {
        watched.read();
    }
    assert!(!watched.is_trusted());
    assert_eq!(watched.read(), watched.script(|script| script.ns));
}

#[test]
fn a_thread_that_is_put_aside_between_its_readings_does_not_end_the_trust() {
    let mut watched = Watched::at_work();
    for put_aside_ns in [1_000, 5_000, 50_000, 5 * MS, SECOND] {
        for put_aside_ns in [[0, put_aside_ns], [put_aside_ns, 0], [put_aside_ns; 2]] {
            watched.script(|script| script.put_aside_ns = put_aside_ns);
            for _ in 0..100 {
                watched.read();
            }
        }
        watched.script(|script| script.put_aside_ns = [0; 2]);
        watched.read_for(2 * SEGMENT_NS);
        assert!(watched.is_trusted(), "{put_aside_ns}");
    }
}

#[test]
fn a_counter_that_is_broken_from_the_start_is_given_up() {
    for speed in [0, 1, TICKS_EACH_US * 1_000_000] {
        let mut watched = Watched::starting_at(5, 0);
        watched.script(|script| script.speed = speed);
        watched.read_for(2 * SPEED_SPAN_NS);
        assert!(!watched.is_trusted(), "{speed}");
        watched.assert_near();
    }
    let mut set_back = Watched::starting_at(u64::MAX / 2, 0);
    set_back.read();
    set_back.script(|script| script.ticks = 0);
    set_back.read_for(2 * SPEED_SPAN_NS);
    assert!(!set_back.is_trusted());
    set_back.assert_near();
}

#[test]
fn the_time_goes_on_where_the_counter_wraps_and_after_a_century() {
    // The counter wraps around 5 ms after the speed is known.
    let until = TICKS_EACH_US * (SPEED_SPAN_NS + 5 * MS) / 1_000;
    let mut watched = Watched::starting_at(u64::MAX - until, 100 * YEAR);
    watched.read_for(SPEED_SPAN_NS + 10 * MS);
    assert!(!watched.is_trusted(), "it went back");
    watched.assert_near();

    let mut old = Watched::starting_at(100 * YEAR, 100 * YEAR);
    old.read_for(SPEED_SPAN_NS + 10 * MS);
    assert!(old.is_trusted());
    old.script(|script| script.pass(100 * YEAR));
    old.read_for(MS);
    assert!(old.is_trusted());
    assert!(old.ahead_ns <= 1_000 && old.behind_ns <= 1_000);
}

/// One thing that happens to a machine.
#[derive(Clone, Debug)]
enum Event {
    Pass(u64),
    Jump(i64),
    Speed(u64),
    PutAside(u64),
    Move { thread: usize, core: usize },
    Read(u8),
}

fn event() -> impl Strategy<Value = Event> {
    let span = prop_oneof![0..1_000_u64, 0..SEGMENT_NS * 2, 0..SPEED_SPAN_NS * 2, 0..SECOND];
    prop_oneof![
        2 => span.clone().prop_map(Event::Pass),
        1 => (-1_000_000..1_000_000_i64).prop_map(Event::Jump),
        1 => any::<i64>().prop_map(Event::Jump),
        1 => (0..TICKS_EACH_US * 2_000).prop_map(Event::Speed),
        1 => span.prop_map(Event::PutAside),
        1 => (0..2_usize, 0..2_usize).prop_map(|(thread, core)| Event::Move { thread, core }),
        5 => any::<u8>().prop_map(Event::Read),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn whatever_the_counter_does_no_thread_goes_back_or_gets_ahead_of_instant(
        ahead in -300_000..300_000_i64,
        events in proptest::collection::vec(event(), 1..60),
    ) {
        let mut watched = Watched::at_work();
        watched.script(|script| script.core_1_ahead = ahead);
        for event in events {
            match event {
                Event::Pass(ns) => watched.script(|script| script.pass(ns)),
                Event::Jump(ticks) => {
                    watched.script(|script| script.ticks = script.ticks.wrapping_add_signed(ticks));
                }
                Event::Speed(speed) => watched.script(|script| script.speed = speed),
                Event::PutAside(ns) => watched.script(|script| script.put_aside_ns = [ns, ns / 3]),
                Event::Move { thread, core } => {
                    watched.script(|script| (script.thread, script.core) = (thread, core));
                }
                Event::Read(times) => (0..times).for_each(|_| { watched.read(); }),
            }
        }
        prop_assert!(watched.ahead_ns <= SEGMENT_NS + NOISE_NS);
    }
}
