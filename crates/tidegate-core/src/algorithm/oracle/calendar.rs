//! Civil windows by their labels: what a clock on the wall shows, as text, at every minute.

use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::*;

const MINUTE: i64 = 60;
const DAY: i64 = 86_400;

/// Zones that differ in what happens when clocks change.
const ZONES: [&str; 9] = [
    "America/New_York",
    "Europe/Berlin",
    // Half an hour.
    "Australia/Lord_Howe",
    // Two hours.
    "Antarctica/Troll",
    // 2011-12-30 did not take place.
    "Pacific/Apia",
    // A quarter of an hour, once.
    "Asia/Kathmandu",
    // At a minute past midnight, so that a day begins twice.
    "America/St_Johns",
    // At midnight.
    "America/Havana",
    "UTC",
];

fn second(text: &str) -> i64 {
    text.parse::<jiff::Timestamp>().unwrap().as_second()
}

fn zone(name: &str) -> TimeZone {
    TimeZoneDatabase::bundled().get(name).unwrap()
}

/// The label of the unit on a wall clock. Later labels are greater as text.
fn shown(zone: &TimeZone, unit: CivilUnit, second: i64) -> String {
    let now = jiff::Timestamp::from_second(second).unwrap();
    let format = match unit {
        // A minute that is shown again an hour later is another one.
        CivilUnit::Minute => return now.strftime("%Y-%m-%d %H:%M").to_string(),
        CivilUnit::Hour => return hour_shown(zone, second),
        CivilUnit::Day => "%Y-%m-%d",
        CivilUnit::Week => "%G-W%V",
        CivilUnit::Month => "%Y-%m",
        CivilUnit::Year => "%Y",
    };
    now.to_zoned(zone.clone()).strftime(format).to_string()
}

/// The first minute from which on the wall has shown this hour without being set.
fn hour_shown(zone: &TimeZone, second: i64) -> String {
    let offset = |second| zone.to_offset(jiff::Timestamp::from_second(second).unwrap());
    let minutes = (second + i64::from(offset(second).seconds())).rem_euclid(60 * MINUTE) / MINUTE;
    let back = (0..=minutes).map(|ago| second - ago * MINUTE);
    let first = back.take_while(|at| offset(*at) == offset(second)).last();
    instant(first.unwrap_or(second)).to_string()
}

/// The latest label shown up to each minute of a span, by reading the wall at every minute from a
/// good day before.
fn labels(zone: &TimeZone, unit: CivilUnit, from: i64, until: i64) -> Vec<(i64, String)> {
    let mut latest = String::new();
    let mut labels = Vec::new();
    for second in (from - 26 * 3600..until).step_by(MINUTE as usize) {
        latest = latest.max(shown(zone, unit, second));
        if second >= from {
            labels.push((second, latest.clone()));
        }
    }
    labels
}

fn instant(second: i64) -> Timestamp {
    Timestamp::from_secs(second.unsigned_abs())
}

/// At every minute of the span: the count, the answer, and when the window ends.
fn every_minute_is_answered_by_its_label(name: &str, unit: CivilUnit, from: i64, until: i64) {
    let zone = zone(name);
    let labels = labels(&zone, unit, from, until);
    let calendar = Calendar::new(2, unit, name).unwrap();
    let mut state = State::EMPTY;
    let mut counted = (String::new(), 0);
    let mut waiting: Option<Timestamp> = None;
    for (second, label) in labels {
        let context = || format!("{name} {unit} {label} at {}", instant(second));
        if counted.0 != label {
            // The full window ended exactly here, as the refusal said.
            assert!(waiting.is_none_or(|until| until == instant(second)), "told {waiting:?}: {}", context());
            (counted, waiting) = ((label.clone(), 0), None);
        }
        assert_eq!(calendar.used(state, instant(second)), counted.1, "{}", context());
        let (verdict, next) = calendar.decide(state, Cost::ONE, instant(second));
        state = next;
        match verdict {
            Verdict::Admit => counted.1 += 1,
            Verdict::Wait { until } => {
                assert!(
                    waiting.is_none_or(|told| told == until),
                    "told {waiting:?}, then {until}: {}",
                    context()
                );
                waiting = Some(until);
                // A step back of any length stays in the window.
                for back in [MINUTE, 3600, 3 * DAY] {
                    let earlier = calendar.decide(state, Cost::ONE, instant(second - back));
                    assert_eq!(earlier, (verdict, state), "{}", context());
                }
            }
            Verdict::Never { .. } => panic!("{}", context()),
        }
        assert!(counted.1 <= 2, "{}", context());
    }
}

#[test]
fn every_minute_around_every_change_of_clocks_is_answered_by_its_label() {
    for name in ZONES {
        let zone = zone(name);
        let (from, until) = (second("1985-01-01T00:00:00Z"), second("2030-01-01T00:00:00Z"));
        let start = jiff::Timestamp::from_second(from).unwrap();
        let changes: Vec<i64> = zone
            .following(start)
            .map(|change| change.timestamp().as_second())
            .take_while(|change| *change < until)
            .collect();
        // Where there are many, they are alike.
        let sample = if changes.len() > 30 { 3 } else { 1 };
        for (index, change) in changes.iter().enumerate().step_by(sample) {
            let around = (change - change % MINUTE - 5 * 3600, change + 5 * 3600);
            every_minute_is_answered_by_its_label(name, CivilUnit::Hour, around.0, around.1);
            if index % 6 == 0 || name == "Pacific/Apia" {
                let around = (around.0 - 22 * 3600, around.1 + 22 * 3600);
                every_minute_is_answered_by_its_label(name, CivilUnit::Day, around.0, around.1);
                every_minute_is_answered_by_its_label(name, CivilUnit::Minute, around.0, around.1);
            }
        }
    }
}

#[test]
fn every_minute_around_the_ends_of_years_and_leap_days_is_answered_by_its_label() {
    for name in ZONES {
        for unit in [CivilUnit::Day, CivilUnit::Week, CivilUnit::Month, CivilUnit::Year] {
            for end in [
                "1999-12-31T12:00:00Z",
                "2000-02-29T12:00:00Z",
                "2024-02-29T12:00:00Z",
                "2025-02-28T12:00:00Z",
                "2027-01-01T00:00:00Z",
                "2100-02-28T12:00:00Z",
            ] {
                let around = second(end);
                every_minute_is_answered_by_its_label(name, unit, around - 20 * 3600, around + 30 * 3600);
            }
        }
    }
}

#[test]
fn windows_of_every_zone_follow_each_other_without_gap_and_with_growing_numbers() {
    let database = TimeZoneDatabase::bundled();
    for name in database.available() {
        let zone = database.get(name.as_str()).unwrap();
        let start = jiff::Timestamp::from_second(3 * DAY).unwrap();
        let changes = zone.following(start).map(|change| change.timestamp().as_second());
        for change in changes.take_while(|change| *change < second("2028-01-01T00:00:00Z")) {
            for (unit, span) in [(CivilUnit::Hour, 4 * 3600), (CivilUnit::Day, DAY)] {
                let calendar = Calendar::new(1, unit, name.as_str()).unwrap();
                let mut now = instant(change - span);
                let mut state = calendar.decide(State::EMPTY, Cost::ONE, now).1;
                while now < instant(change + span) {
                    let context = || format!("{name} {unit} {now}");
                    let (Verdict::Wait { until }, _) = calendar.decide(state, Cost::ONE, now) else {
                        panic!("full, but admits: {}", context());
                    };
                    assert!(until > now, "{}", context());
                    let last = Timestamp::from_nanos(until.as_nanos() - 1);
                    assert_eq!(
                        calendar.decide(state, Cost::ONE, last).0,
                        Verdict::Wait { until },
                        "{}",
                        context()
                    );
                    // Seen from afar, as after a step back, the window ends at the same instant.
                    let fresh = Calendar::new(1, unit, name.as_str()).unwrap();
                    assert_eq!(fresh.reset_at(state, Timestamp::MIN), until, "{}", context());
                    let (verdict, next) = calendar.decide(state, Cost::ONE, until);
                    assert_eq!(verdict, Verdict::Admit, "{}", context());
                    let change_shown = shown(&zone, unit, until.as_secs().cast_signed());
                    assert!(change_shown > shown(&zone, unit, now.as_secs().cast_signed()), "{}", context());
                    (state, now) = (next, until);
                }
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Letter {
    Check(u64),
    Report(u64),
    Refund(u64),
    Undo(usize),
    Move(i64),
    Limit(u64),
}

#[derive(Clone)]
struct World<'a> {
    calendar: Calendar,
    labels: &'a [(i64, String)],
    minute: usize,
    state: State,
    log: Vec<(&'a str, u64)>,
    charges: Vec<Charged>,
}

impl World<'_> {
    /// The label in force: the one now, or a later one that was used.
    fn label(&self) -> &str {
        let now = self.labels[self.minute].1.as_str();
        self.log.iter().map(|(label, _)| *label).fold(now, Ord::max)
    }

    fn used(&self) -> u64 {
        let label = self.label();
        self.log.iter().filter(|(of, _)| *of == label).map(|(_, units)| units).sum()
    }

    fn now(&self) -> Timestamp {
        instant(self.labels[self.minute].0)
    }

    fn push(&mut self, units: u64, after: State) {
        let label = self.label().to_owned();
        // The same text, from the table that outlives the world.
        let label = self.labels.iter().find(|(_, of)| *of == label).unwrap().1.as_str();
        self.log.push((label, units));
        self.charges.push(Charged { before: self.state, after, cost: cost(units) });
        self.state = after;
    }

    fn take(&mut self, letter: Letter) {
        let now = self.now();
        assert_eq!(self.calendar.used(self.state, now), self.used());
        match letter {
            Letter::Check(units) => {
                let (admitted, next) = decide_and_check(&self.calendar, self.state, units, now);
                assert_eq!(admitted, self.used() + units <= self.calendar.limit());
                if admitted {
                    self.push(units, next);
                }
            }
            Letter::Report(units) => self.push(units, self.calendar.charge(self.state, cost(units), now)),
            Letter::Refund(mut units) => {
                self.state = self.calendar.refund(self.state, cost(units), now);
                let label = self.label().to_owned();
                for entry in self.log.iter_mut().filter(|(of, _)| *of == label) {
                    let back = entry.1.min(units);
                    (entry.1, units) = (entry.1 - back, units - back);
                }
                self.charges.clear();
            }
            Letter::Undo(on_top) => {
                let Some(index) = self.charges.len().checked_sub(on_top + 1) else { return };
                let charge = self.charges[index];
                self.charges.clear();
                let exactly = self.state == charge.after;
                self.state = self.calendar.undo(self.state, &charge, now);
                let entry = self.log.len() - on_top - 1;
                if exactly {
                    assert_eq!(self.state, charge.before);
                    self.log.remove(entry);
                } else {
                    self.log[entry].1 = 0;
                }
            }
            Letter::Move(minutes) => {
                let to = self.minute.saturating_add_signed(minutes as isize);
                self.minute = to.min(self.labels.len() - 1);
            }
            Letter::Limit(limit) => {
                let next = Calendar::new(limit, self.calendar.unit(), self.calendar.zone()).unwrap();
                self.state = next.carry_over(self.state, &self.calendar, now);
                self.calendar = next;
            }
        }
    }
}

/// Every sequence of operations on an hour that is repeated, a day that is skipped and the end of a
/// year.
#[test]
fn every_short_sequence_is_answered_by_the_log() {
    use Letter::{Check, Limit, Move, Refund, Report, Undo};
    for (name, unit, from, until) in [
        ("Europe/Berlin", CivilUnit::Hour, "2026-10-24T22:30:00Z", "2026-10-25T03:00:00Z"),
        ("Antarctica/Troll", CivilUnit::Hour, "2026-10-24T22:30:00Z", "2026-10-25T05:00:00Z"),
        ("Pacific/Apia", CivilUnit::Day, "2011-12-30T08:00:00Z", "2011-12-30T12:00:00Z"),
        ("America/New_York", CivilUnit::Year, "2027-01-01T03:00:00Z", "2027-01-01T07:00:00Z"),
    ] {
        let labels = labels(&zone(name), unit, second(from), second(until));
        let calendar = Calendar::new(3, unit, name).unwrap();
        let world = World {
            calendar,
            labels: &labels,
            minute: 20,
            state: State::EMPTY,
            log: Vec::new(),
            charges: Vec::new(),
        };
        let letters = [
            Check(1),
            Check(2),
            Report(2),
            Refund(1),
            Undo(0),
            Undo(1),
            Move(37),
            Move(65),
            Move(-50),
            Limit(2),
        ];
        every_sequence(&world, &letters, 4, &|world, letter| world.take(letter));
    }
}
