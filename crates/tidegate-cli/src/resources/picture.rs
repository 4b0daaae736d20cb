//! The history of a resource in columns, for a terminal and for a file.

use std::collections::BTreeMap;

use tidegate_sim::kit::chart::AreaShade;
use tidegate_wire::resource_history::{HistoryBody, HistorySampleBody};
use tidegate_wire::text::shortened;

use crate::columns::one_line;
use crate::local_time::{LocalTime, millis_of};

/// How many areas have a colour of their own. The others are one area.
const OWN_AREAS: usize = 6;

/// How much of a name is shown, in bytes.
const NAME_BYTES: usize = 20;

/// The names that the daemon gives to what it does not name, and to pressure without work.
const OTHER: &str = "other";
const UNATTRIBUTED: &str = "unattributed";

/// How many areas the sentence about the highest pressure names.
const NAMED_AT_HIGHEST: usize = 3;

/// The most changes of levels that a picture shows; it names the last ones.
const CHANGES_MAX: usize = 8;

const HOUR_MS: i64 = 3_600_000;

/// The highest value of an axis; areas above it are cut off.
const TOP_MAX: f64 = 10.0;

/// A history in columns of equal time.
#[derive(Clone, Debug)]
pub(super) struct HistoryPicture {
    pub(super) resource: String,
    pub(super) by: String,
    /// The span that is shown, in milliseconds since 1970.
    pub(super) span: (i64, i64),
    /// The areas, the lowest first.
    pub(super) areas: Vec<PictureArea>,
    /// Whether the pressure of each column is known.
    pub(super) is_known: Vec<bool>,
    /// Units refused a second, by column.
    pub(super) refused: Vec<f64>,
    pub(super) soft: f64,
    pub(super) hard: f64,
    /// The value at the top of the axis.
    pub(super) top: f64,
    /// Sentences about what the picture does not show.
    pub(super) notes: Vec<String>,
    /// The last changes of levels of features in the span, the oldest first.
    pub(super) changes: Vec<PictureChange>,
    /// The measure that areas are parts of, in words.
    pub(super) measure: &'static str,
}

/// An area of a picture.
#[derive(Clone, Debug)]
pub(super) struct PictureArea {
    pub(super) name: String,
    pub(super) shade: AreaShade,
    /// Its part of all areas together, 0 to 1.
    pub(super) part: f64,
    /// Its height in each column.
    pub(super) heights: Vec<f64>,
}

/// A change of the level of a feature.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PictureChange {
    /// Its place in the span, 0 at the beginning and 1 at the end.
    pub(super) part: f64,
    /// The feature and its level: `thumbnails off`.
    pub(super) name: String,
    /// Whether the level is worse than the one before.
    pub(super) is_worse: bool,
}

impl PictureChange {
    /// The sign of its direction.
    pub(super) const fn sign(&self) -> char {
        if self.is_worse { '▼' } else { '▲' }
    }
}

/// A sample between two instants in milliseconds.
struct TimedSample<'a> {
    from: i64,
    until: i64,
    body: &'a HistorySampleBody,
}

impl<'a> TimedSample<'a> {
    /// `None` for a sample without a length, which no picture can show.
    fn new(body: &'a HistorySampleBody) -> Option<Self> {
        let sample = Self { from: millis_of(&body.from)?, until: millis_of(&body.until)?, body };
        (sample.from < sample.until).then_some(sample)
    }
}

impl HistoryPicture {
    /// The last `hours` of a history in so many columns. An error says what is wrong with it.
    pub(super) fn new(
        history: &HistoryBody,
        hours: u8,
        columns: usize,
        zone: &LocalTime,
    ) -> Result<Self, String> {
        let samples: Vec<TimedSample<'_>> = history.samples.iter().filter_map(TimedSample::new).collect();
        let resource = one_line(shortened(&history.resource, NAME_BYTES).as_ref());
        let Some(last) = samples.last() else {
            return Err(format!("{resource} has no samples yet; the first comes after 10 s"));
        };
        let begin = samples.iter().map(|sample| sample.from).min().unwrap_or(last.from);
        let from = (last.until - i64::from(hours) * HOUR_MS).max(begin);
        // A clock that was set back may have left nothing else.
        let span = (from.min(last.from), last.until);
        let mut grid = ColumnGrid::new(span, columns);
        for sample in &samples {
            grid.add(sample);
        }
        let mut notes = notes(history, span.0, zone);
        let changes = changes(history, span, zone, &mut notes);
        notes.splice(0..0, highest(&samples, span.0, zone));
        let (soft, hard) = (last.body.soft, last.body.hard);
        let mut picture = Self {
            resource,
            by: history.by.clone(),
            span,
            areas: grid.areas(&history.by),
            is_known: grid.known_ms.iter().map(|known| *known > 0.0).collect(),
            refused: grid.refused(),
            soft,
            hard,
            top: 0.0,
            notes,
            changes,
            measure: measure(&samples),
        };
        let highest = (0..columns).map(|column| picture.pressure(column)).fold(0.0, f64::max);
        picture.top = (highest.max(hard * 1.08) * 10.0).ceil() / 10.0;
        if picture.top > TOP_MAX {
            picture.notes.push(format!("Pressure rises to {highest:.1}; the picture ends at {TOP_MAX:.0}."));
            picture.top = TOP_MAX;
        }
        Ok(picture)
    }

    /// The pressure in a column; 0 where it is not known.
    pub(super) fn pressure(&self, column: usize) -> f64 {
        self.areas.iter().map(|area| area.heights[column]).sum()
    }

    /// The first line of a picture.
    pub(super) fn title(&self) -> String {
        format!("{}: pressure by {}", self.resource, self.by)
    }
}

/// The measure that samples are divided by, in words.
fn measure(samples: &[TimedSample<'_>]) -> &'static str {
    let has = |measure: &str| samples.iter().any(|sample| sample.body.divided_by == measure);
    match (has("place_time"), has("units")) {
        (true, false) => "divided by place time",
        (true, true) => "divided by place time, by units where no end is known",
        (false, true) => "divided by units",
        (false, false) => "no work is known",
    }
}

/// A sentence about the highest pressure since `from`: when it was, and whose work it came from.
fn highest(samples: &[TimedSample<'_>], from: i64, zone: &LocalTime) -> Option<String> {
    let shown = samples.iter().filter(|sample| sample.until > from);
    let known = shown.filter_map(|sample| Some((sample.body.pressure?, sample)));
    let (pressure, sample) = known.max_by(|one, other| one.0.total_cmp(&other.0))?;
    let mut areas: Vec<_> = sample.body.areas.iter().filter(|area| area.height > 0.0).collect();
    areas.sort_by(|one, other| other.height.total_cmp(&one.height));
    let words = areas.iter().take(NAMED_AT_HIGHEST).map(|area| {
        let name = one_line(shortened(&area.name, NAME_BYTES).as_ref());
        format!("{name} {:.2}", area.height)
    });
    let words: Vec<String> = words.collect();
    let begin = if words.is_empty() { "" } else { ": " };
    Some(format!("Highest {pressure:.2} at {}{begin}{}.", zone.clock(sample.from), words.join(", ")))
}

/// The last changes of levels in the span, with a sentence that has their times.
#[expect(clippy::cast_precision_loss, reason = "milliseconds of a day")]
fn changes(
    history: &HistoryBody,
    (from, until): (i64, i64),
    zone: &LocalTime,
    notes: &mut Vec<String>,
) -> Vec<PictureChange> {
    let marks = history.marks.iter().filter_map(|mark| Some((millis_of(&mark.at)?, mark)));
    let shown: Vec<_> = marks.filter(|(at, _)| (from..=until).contains(at)).collect();
    let earlier = shown.len().saturating_sub(CHANGES_MAX);
    let mut words = Vec::new();
    let mut changes = Vec::new();
    for (at, mark) in &shown[earlier..] {
        let name = |name: &str| one_line(shortened(name, NAME_BYTES).as_ref());
        let shadow = if mark.is_shadow { " (shadow)" } else { "" };
        let change = PictureChange {
            part: (at - from) as f64 / (until - from).max(1) as f64,
            name: format!("{} {}{shadow}", name(&mark.feature), name(&mark.level)),
            is_worse: mark.is_worse,
        };
        words.push(format!("{} at {}", change.name, zone.clock(*at)));
        changes.push(change);
    }
    if !words.is_empty() {
        let more = if earlier > 0 { format!(", after {earlier} changes before") } else { String::new() };
        notes.push(format!("Levels of features: {}{more}.", words.join(", ")));
    }
    if history.marks_dropped > 0 {
        notes.push(format!("{} changes of levels were dropped, the oldest first.", history.marks_dropped));
    }
    changes
}

/// Sentences about breaks and about samples that are missing.
fn notes(history: &HistoryBody, from: i64, zone: &LocalTime) -> Vec<String> {
    let mut notes = Vec::new();
    let is_shown = |until: &str| millis_of(until).is_some_and(|until| until > from);
    let mut tell = |spans: &[tidegate_wire::resource_history::SpanBody], what: &str, more: &str| {
        let shown: Vec<_> = spans.iter().filter(|span| is_shown(&span.until)).collect();
        for span in shown.iter().take(3) {
            if let Some((from, until)) = millis_of(&span.from).zip(millis_of(&span.until)) {
                notes.push(format!("{what} {}.", zone.span(from, until)));
            }
        }
        if shown.len() > 3 {
            notes.push(format!("And {} more {more}.", shown.len() - 3));
        }
    };
    tell(&history.gaps, "No samples from", "gaps");
    tell(&history.repeated, "The clock was set back; mean of two looks from", "spans that are repeated");
    if history.dropped > 0 {
        notes.push(format!(
            "{} samples were dropped for want of room; raise `metering.history` of the policy.",
            history.dropped
        ));
    }
    notes
}

/// Sums of samples by column, each weighted by the time that it has in the column.
struct ColumnGrid<'a> {
    span: (i64, i64),
    columns: usize,
    known_ms: Vec<f64>,
    sampled_ms: Vec<f64>,
    refused_units: Vec<f64>,
    heights: BTreeMap<&'a str, Vec<f64>>,
}

impl<'a> ColumnGrid<'a> {
    fn new(span: (i64, i64), columns: usize) -> Self {
        Self {
            span,
            columns,
            known_ms: vec![0.0; columns],
            sampled_ms: vec![0.0; columns],
            refused_units: vec![0.0; columns],
            heights: BTreeMap::new(),
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "pixels and milliseconds of a day, which are within the span"
    )]
    fn add(&mut self, sample: &TimedSample<'a>) {
        let width = (self.span.1 - self.span.0) as f64 / self.columns as f64;
        let place = |at: i64| ((at.clamp(self.span.0, self.span.1) - self.span.0) as f64 / width).max(0.0);
        let (from, until) = (place(sample.from), place(sample.until));
        let whole_ms = (sample.until - sample.from) as f64;
        for column in from as usize..(until.ceil() as usize).min(self.columns) {
            let left = column as f64;
            let overlap_ms = (until.min(left + 1.0) - from.max(left)) * width;
            if overlap_ms <= 0.0 {
                continue;
            }
            self.sampled_ms[column] += overlap_ms;
            self.refused_units[column] += sample.body.refused_units as f64 * overlap_ms / whole_ms;
            if sample.body.pressure.is_none() {
                continue;
            }
            self.known_ms[column] += overlap_ms;
            for area in &sample.body.areas {
                let heights = self.heights.entry(&area.name).or_insert_with(|| vec![0.0; self.columns]);
                heights[column] += area.height.max(0.0) * overlap_ms;
            }
        }
    }

    /// Units a second.
    fn refused(&self) -> Vec<f64> {
        let sums = self.refused_units.iter().zip(&self.sampled_ms);
        sums.map(|(units, ms)| if *ms > 0.0 { units * 1000.0 / ms } else { 0.0 }).collect()
    }

    /// The areas, the one with the most first; classes the most important one first.
    fn areas(&self, by: &str) -> Vec<PictureArea> {
        let mean = |heights: &[f64]| -> Vec<f64> {
            let sums = heights.iter().zip(&self.known_ms);
            sums.map(|(sum, ms)| if *ms > 0.0 { sum / ms } else { 0.0 }).collect()
        };
        let is_own = |name: &str| name != OTHER && name != UNATTRIBUTED;
        let mut own: Vec<(&str, f64)> = self
            .heights
            .iter()
            .filter(|(name, _)| is_own(name))
            .map(|(name, heights)| (*name, heights.iter().sum()))
            .collect();
        let class = |name: &str| {
            ["critical_plus", "critical", "sheddable_plus", "sheddable"].iter().position(|one| *one == name)
        };
        own.sort_by(|one, other| match by {
            "class" => class(one.0).cmp(&class(other.0)),
            _ => other.1.total_cmp(&one.1).then_with(|| one.0.cmp(other.0)),
        });
        let rest: Vec<&str> = own.iter().skip(OWN_AREAS).map(|(name, _)| *name).chain([OTHER]).collect();
        let named = own.iter().take(OWN_AREAS).enumerate().map(|(index, (name, _))| {
            let name = one_line(shortened(name, NAME_BYTES).as_ref());
            (name, AreaShade::Own(index), mean(&self.heights[own[index].0]))
        });
        let sum_of = |names: &[&str]| {
            let mut sums = vec![0.0; self.columns];
            for heights in names.iter().filter_map(|name| self.heights.get(name)) {
                sums.iter_mut().zip(heights).for_each(|(sum, height)| *sum += height);
            }
            mean(&sums)
        };
        let grey = [
            (OTHER.to_owned(), AreaShade::Rest, sum_of(&rest)),
            (UNATTRIBUTED.to_owned(), AreaShade::Idle, sum_of(&[UNATTRIBUTED])),
        ];
        let all: Vec<(String, AreaShade, Vec<f64>)> = named.chain(grey).collect();
        let total: f64 = all.iter().flat_map(|(_, _, heights)| heights).sum();
        let areas = all.into_iter().map(|(name, shade, heights)| {
            let sum: f64 = heights.iter().sum();
            PictureArea { name, shade, part: if total > 0.0 { sum / total } else { 0.0 }, heights }
        });
        areas.filter(|area| area.heights.iter().any(|height| *height > 0.0)).collect()
    }
}

#[cfg(test)]
mod tests {
    use tidegate_wire::resource_history::{AreaBody, LevelMarkBody, SpanBody};

    use super::*;

    /// The instant so many seconds after noon.
    fn at(second: i64) -> String {
        jiff::Timestamp::from_second(1_795_953_600 + second).unwrap().to_string()
    }

    fn sample(from: i64, until: i64, areas: &[(&str, f64)]) -> HistorySampleBody {
        HistorySampleBody {
            from: at(from),
            until: at(until),
            pressure: Some(areas.iter().map(|(_, height)| height).sum()),
            soft: 0.7,
            hard: 0.9,
            offered_units: 100,
            refused_units: 20,
            divided_by: "place_time".to_owned(),
            areas: areas
                .iter()
                .map(|(name, height)| AreaBody {
                    name: (*name).to_owned(),
                    height: *height,
                    place_seconds: 1.0,
                    units: 1,
                })
                .collect(),
        }
    }

    fn history(samples: Vec<HistorySampleBody>) -> HistoryBody {
        HistoryBody {
            resource: "app".to_owned(),
            by: "feature".to_owned(),
            complete_since: Some(at(0)),
            dropped: 0,
            gaps: Vec::new(),
            repeated: Vec::new(),
            marks: Vec::new(),
            marks_dropped: 0,
            samples,
        }
    }

    fn picture(history: &HistoryBody, hours: u8, columns: usize) -> HistoryPicture {
        HistoryPicture::new(history, hours, columns, &LocalTime::named("UTC")).unwrap()
    }

    fn area<'a>(picture: &'a HistoryPicture, name: &str) -> &'a [f64] {
        &picture.areas.iter().find(|area| area.name == name).unwrap().heights
    }

    fn assert_near(heights: &[f64], expected: &[f64]) {
        let is_near = heights.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-9);
        assert!(heights.len() == expected.len() && is_near, "{heights:?} is not {expected:?}");
    }

    #[test]
    fn a_column_has_the_mean_of_its_samples_weighted_by_time() {
        let samples = vec![
            sample(0, 10, &[("a", 0.2)]),
            sample(10, 20, &[("a", 0.4)]),
            sample(20, 80, &[("a", 0.6), ("b", 0.3)]),
        ];
        let picture = picture(&history(samples), 24, 2);
        assert_near(area(&picture, "a"), &[(0.2 + 0.4 + 2.0 * 0.6) / 4.0, 0.6]);
        assert_near(area(&picture, "b"), &[0.15, 0.3]);
        assert_eq!(picture.measure, "divided by place time");
        assert_near(&picture.refused, &[(20.0 + 20.0 + 20.0 / 3.0) / 40.0, 20.0 / 60.0]);
        assert_eq!(picture.areas.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn the_areas_of_each_column_add_up_to_its_pressure() {
        let names: Vec<String> = (0..40).map(|index| format!("feature-{index}")).collect();
        let areas: Vec<(&str, f64)> = names.iter().map(|name| (name.as_str(), 0.02)).collect();
        let picture = picture(&history(vec![sample(0, 10, &areas)]), 24, 1);
        assert_eq!(picture.areas.len(), OWN_AREAS + 1, "six of their own, and the others");
        assert_near(&[picture.pressure(0)], &[0.8]);
        assert_near(area(&picture, OTHER), &[34.0 * 0.02]);
    }

    #[test]
    fn a_gap_and_samples_without_a_pressure_leave_columns_unknown() {
        let mut silent = sample(30, 40, &[]);
        silent.pressure = None;
        let samples = vec![sample(0, 10, &[("a", 0.5)]), silent, sample(40, 50, &[("a", 0.5)])];
        let mut history = history(samples);
        history.gaps = vec![SpanBody { from: at(10), until: at(30) }];
        let picture = picture(&history, 24, 5);
        assert_eq!(picture.is_known, [true, false, false, false, true]);
        assert_eq!(picture.notes[1..], ["No samples from 29 Nov 2026, 12:00:10 to 12:00:30 UTC."]);
    }

    #[test]
    fn the_highest_pressure_is_told_with_its_time_and_those_it_came_from() {
        let areas = [("a", 0.1), ("b", 0.5), ("c", 0.2), ("d", 0.15)];
        let samples = vec![
            sample(0, 10, &[("before", 2.0)]),
            sample(3600, 3660, &areas[..3]),
            sample(3660, 3720, &areas),
            sample(3720, 7200, &[("a", 0.9)]),
        ];
        let told = |samples: &[HistorySampleBody], hours| {
            picture(&history(samples.to_vec()), hours, 10).notes[0].clone()
        };
        assert_eq!(told(&samples, 1), "Highest 0.95 at 13:01: b 0.50, c 0.20, d 0.15.");
        assert_eq!(told(&samples, 24), "Highest 2.00 at 12:00: before 2.00.");
    }

    #[test]
    fn the_last_hours_are_drawn_and_no_more_than_there_are() {
        let minutes = (0..180).map(|minute| sample(minute * 60, minute * 60 + 60, &[("a", 0.5)]));
        let history = history(minutes.collect());
        let span = |hours| {
            let (from, until) = picture(&history, hours, 10).span;
            (until - from) / 60_000
        };
        assert_eq!((span(1), span(2), span(24)), (60, 120, 180));
    }

    #[test]
    fn a_clock_that_was_set_back_is_told_and_drawn_as_a_mean() {
        let samples = vec![sample(0, 3600, &[("a", 0.2)]), sample(1800, 3600, &[("a", 0.6)])];
        let mut history = history(samples);
        history.repeated = vec![SpanBody { from: at(1800), until: at(3600) }];
        history.dropped = 7;
        let picture = picture(&history, 24, 2);
        assert_near(area(&picture, "a"), &[0.2, 0.4]);
        assert_eq!(picture.notes.len(), 3, "{:?}", picture.notes);
        assert!(picture.notes[2].contains("7 samples were dropped"), "{:?}", picture.notes);
    }

    #[test]
    fn changes_of_levels_stand_at_their_place_and_are_told_with_their_times() {
        let mut history = history(vec![sample(0, 3600, &[("a", 0.2)])]);
        let mark = |second: i64, level: &str, is_worse: bool| LevelMarkBody {
            at: at(second),
            feature: "thumbnails".to_owned(),
            level: level.to_owned(),
            is_worse,
            is_shadow: false,
        };
        history.marks = vec![mark(-1, "gone", true), mark(900, "off", true), mark(2700, "full", false)];
        let drawn = picture(&history, 24, 4);
        let names: Vec<_> =
            drawn.changes.iter().map(|one| (one.part, one.name.as_str(), one.sign())).collect();
        assert_eq!(names, [(0.25, "thumbnails off", '▼'), (0.75, "thumbnails full", '▲')]);
        let told = "Levels of features: thumbnails off at 12:15, thumbnails full at 12:45.";
        assert_eq!(drawn.notes[1..], [told]);
        // A flood of changes is no flood of words.
        history.marks = (0..200).map(|second| mark(second, "off", true)).collect();
        history.marks_dropped = 3;
        let drawn = picture(&history, 24, 4);
        assert_eq!(drawn.changes.len(), CHANGES_MAX);
        assert!(drawn.notes[1].ends_with(", after 192 changes before."), "{:?}", drawn.notes);
        assert!(drawn.notes[2].starts_with("3 changes"), "{:?}", drawn.notes);
    }

    #[test]
    fn a_pressure_beyond_all_is_cut_off_and_told() {
        let picture = picture(&history(vec![sample(0, 10, &[("a", 900.0)])]), 24, 1);
        assert!((picture.top - TOP_MAX).abs() < 1e-9);
        assert_eq!(picture.notes[1..], ["Pressure rises to 900.0; the picture ends at 10."]);
    }

    #[test]
    fn a_history_without_samples_and_one_with_nonsense_are_told() {
        let zone = LocalTime::named("UTC");
        let mut nonsense = sample(0, 10, &[("a", 0.5)]);
        nonsense.from = "yesterday".to_owned();
        for samples in [vec![], vec![nonsense], vec![sample(10, 10, &[])]] {
            let error = HistoryPicture::new(&history(samples), 24, 80, &zone).unwrap_err();
            assert_eq!(error, "app has no samples yet; the first comes after 10 s");
        }
    }

    #[test]
    fn classes_stand_in_the_order_of_their_importance() {
        let mut history = history(vec![sample(
            0,
            10,
            &[("sheddable", 0.5), ("critical_plus", 0.1), ("unattributed", 0.1)],
        )]);
        history.by = "class".to_owned();
        let picture = picture(&history, 24, 1);
        let names: Vec<&str> = picture.areas.iter().map(|area| area.name.as_str()).collect();
        assert_eq!(names, ["critical_plus", "sheddable", "unattributed"]);
    }
}
