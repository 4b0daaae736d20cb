//! The picture of a resource in a terminal.

use std::fmt::Write as _;

use console::Style;
use tidegate_sim::kit::chart::AreaShade;

use super::picture::{HistoryPicture, PictureArea, PictureChange};
use crate::local_time::LocalTime;

/// The lines of the areas, and of the refused units above.
const ROWS: usize = 18;
const ABOVE_ROWS: usize = 2;

/// The most lines of names of changes, between them.
const CHANGE_ROWS: usize = 3;

/// The columns left of the areas, and right of them.
const LEFT: usize = 6;
const RIGHT: usize = 6;

/// The narrowest and the widest picture, in columns.
const WIDTHS: (usize, usize) = (40, 240);

/// Parts of a cell that are filled from below, in eighths.
const EIGHTHS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/// The fills of areas where there are no colours: neighbours differ in darkness.
const FILLS: [&str; 6] = ["█", "░", "▓", "▒", "╳", "╱"];
const REST_FILL: &str = "▪";
const IDLE_FILL: &str = "·";

/// The colours of the 256 that are nearest to those of the file.
const COLORS: [u8; 6] = [68, 208, 71, 169, 37, 178];
const REST_COLOR: u8 = 246;
const IDLE_COLOR: u8 = 240;
const SOFT_COLOR: u8 = 136;
const HARD_COLOR: u8 = 196;
const REFUSED_COLOR: u8 = 135;
const CHANGE_COLOR: u8 = 39;

/// The colour of `soft` on an area, which is about as bright as its own.
const SOFT_ON_AREA_COLOR: u8 = 16;

/// How a picture is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TerminalLook {
    /// The columns of a line.
    pub(super) width: usize,
    pub(super) has_colors: bool,
}

impl TerminalLook {
    /// The width that a look of so many columns has in fact.
    pub(super) fn of_width(columns: usize, has_colors: bool) -> Self {
        Self { width: columns.clamp(WIDTHS.0, WIDTHS.1), has_colors }
    }

    /// How many columns the areas have.
    pub(super) const fn plot_columns(self) -> usize {
        self.width - LEFT - RIGHT
    }

    fn paint(self, text: &str, fore: Option<u8>, back: Option<u8>) -> String {
        if !self.has_colors || (fore.is_none() && back.is_none()) {
            return text.to_owned();
        }
        let mut style = Style::new().force_styling(true);
        if let Some(color) = fore {
            style = style.color256(color);
        }
        if let Some(color) = back {
            style = style.on_color256(color);
        }
        style.apply_to(text).to_string()
    }
}

/// The picture as lines of text.
pub(super) fn text(picture: &HistoryPicture, zone: &LocalTime, look: TerminalLook) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{}, {}", picture.title(), picture.measure);
    let _ = writeln!(text, "{}", zone.span(picture.span.0, picture.span.1));
    write_refused(&mut text, picture, look);
    write_changes(&mut text, picture, look);
    write_areas(&mut text, picture, look);
    write_time(&mut text, picture, zone, look);
    write_legend(&mut text, picture, look);
    for note in &picture.notes {
        let _ = writeln!(text, "{note}");
    }
    text
}

/// How many eighths of a cell whose lower end is `low` are below `value`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 8")]
fn eighths(value: f64, low: f64, cell: f64) -> usize {
    (((value - low) / cell).clamp(0.0, 1.0) * 8.0).round() as usize
}

#[expect(clippy::cast_precision_loss, reason = "a line of a terminal")]
const fn cells(count: usize) -> f64 {
    count as f64
}

/// The refused units of each second, as a line above the areas.
fn write_refused(text: &mut String, picture: &HistoryPicture, look: TerminalLook) {
    let most = picture.refused.iter().copied().fold(0.0, f64::max);
    if most <= 0.0 {
        let _ = writeln!(text, "{:LEFT$}no unit was refused", "");
        return;
    }
    let _ = writeln!(text, "{:LEFT$}refused units, at most {}/s", "", rate(most));
    let cell = most / cells(ABOVE_ROWS);
    for row in (0..ABOVE_ROWS).rev() {
        let low = cell * cells(row);
        let line: String = picture
            .refused
            .iter()
            .map(|value| {
                let is_first = row == 0 && *value > 0.0;
                EIGHTHS[eighths(*value, low, cell).max(usize::from(is_first))]
            })
            .collect();
        let _ = writeln!(text, "{:LEFT$}{}", "", look.paint(line.trim_end(), Some(REFUSED_COLOR), None));
    }
}

/// The changes of levels of features: the sign of each above its column, with its name where that
/// fits.
fn write_changes(text: &mut String, picture: &HistoryPicture, look: TerminalLook) {
    let columns = look.plot_columns();
    let mut rows: Vec<Vec<char>> = Vec::new();
    for change in &picture.changes {
        let place = column_of(change, columns);
        let label: Vec<char> = format!("{} {}", change.sign(), change.name).chars().collect();
        // A name that would end behind the areas stands left of its sign.
        let (begin, label) = if place + label.len() <= columns || place + 1 < label.len() {
            (place, label)
        } else {
            let words = label[2..].iter().chain(&[' ', label[0]]).copied().collect::<Vec<_>>();
            (place + 1 - words.len(), words)
        };
        let is_free = |row: &Vec<char>| {
            let end = (begin + label.len() + 1).min(columns);
            row[begin.saturating_sub(1)..end].iter().all(|sign| *sign == ' ')
        };
        let row = match rows.iter().position(is_free) {
            Some(row) => row,
            None if rows.len() < CHANGE_ROWS => {
                rows.push(vec![' '; columns]);
                rows.len() - 1
            }
            None => {
                // Its sign alone; the sentence below the picture has its name.
                rows[CHANGE_ROWS - 1][place] = change.sign();
                continue;
            }
        };
        for (cell, sign) in rows[row][begin..].iter_mut().zip(label) {
            *cell = sign;
        }
    }
    for row in rows {
        let line: String = row.into_iter().collect();
        let _ = writeln!(text, "{:LEFT$}{}", "", look.paint(line.trim_end(), Some(CHANGE_COLOR), None));
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a column of a terminal")]
fn column_of(change: &PictureChange, columns: usize) -> usize {
    ((change.part * cells(columns)).max(0.0) as usize).min(columns.saturating_sub(1))
}

fn rate(value: f64) -> String {
    if value < 10.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// The line of the areas that a value is on, from below.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to the number of lines")]
fn row_of(picture: &HistoryPicture, value: f64) -> usize {
    ((value / picture.top * cells(ROWS)).max(0.0) as usize).min(ROWS - 1)
}

fn write_areas(text: &mut String, picture: &HistoryPicture, look: TerminalLook) {
    let (soft, hard) = (row_of(picture, picture.soft), row_of(picture, picture.hard));
    let cell = picture.top / cells(ROWS);
    let labels = value_labels(picture);
    for row in (0..ROWS).rev() {
        let threshold = match row {
            row if row == hard => Some(("━", HARD_COLOR, "hard")),
            row if row == soft => Some(("╌", SOFT_COLOR, "soft")),
            _ => None,
        };
        let mut line = match labels.iter().find(|(labelled, _)| *labelled == row) {
            Some((_, label)) => format!("{label:>4} ┤"),
            None => format!("{:>4} │", ""),
        };
        for column in 0..look.plot_columns() {
            line.push_str(&cell_text(picture, column, (cell * cells(row), cell), threshold, look));
        }
        if let Some((_, color, name)) = threshold {
            let _ = write!(line, " {}", look.paint(name, Some(color), None));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
}

/// The lines of round values above zero, with their texts.
fn value_labels(picture: &HistoryPicture) -> Vec<(usize, String)> {
    let step = match picture.top {
        ..=1.6 => 0.2,
        ..=4.0 => 0.5,
        _ => 2.0,
    };
    let values = (1..).map(|count: u32| step * f64::from(count));
    values
        .take_while(|value| *value <= picture.top)
        .map(|value| (row_of(picture, value), format!("{value:.1}")))
        .collect()
}

fn color_of(area: &PictureArea) -> u8 {
    match area.shade {
        AreaShade::Own(index) => COLORS[index % COLORS.len()],
        AreaShade::Rest => REST_COLOR,
        AreaShade::Idle => IDLE_COLOR,
    }
}

fn fill_of(area: &PictureArea) -> &'static str {
    match area.shade {
        AreaShade::Own(index) => FILLS[index % FILLS.len()],
        AreaShade::Rest => REST_FILL,
        AreaShade::Idle => IDLE_FILL,
    }
}

/// One cell: what the areas, or a threshold, leave to be seen there.
fn cell_text(
    picture: &HistoryPicture,
    column: usize,
    (low, cell): (f64, f64),
    threshold: Option<(&'static str, u8, &'static str)>,
    look: TerminalLook,
) -> String {
    // The parts of the cell from below: an area, or nothing above all of them.
    let mut parts: Vec<(Option<&PictureArea>, f64)> = Vec::new();
    let mut below = 0.0;
    for area in &picture.areas {
        let above = below + area.heights[column];
        let part = (above.min(low + cell) - f64::max(below, low)).max(0.0) / cell;
        if part > 0.0 {
            parts.push((Some(area), part));
        }
        below = above;
    }
    let free = ((low + cell - below) / cell).clamp(0.0, 1.0);
    parts.push((None, free));
    let most = largest(&parts).map(|area| (color_of(area), fill_of(area)));
    if let Some((sign, color, _)) = threshold {
        let back = most.map(|(color, _)| color);
        let is_faint = color == SOFT_COLOR && back.is_some();
        return look.paint(sign, Some(if is_faint { SOFT_ON_AREA_COLOR } else { color }), back);
    }
    if !look.has_colors {
        return most.map_or(" ", |(_, fill)| fill).to_owned();
    }
    let (lowest, part) = parts[0];
    let Some(lowest) = lowest else { return " ".to_owned() };
    let above = largest(&parts[1..]).map(color_of);
    match eighths(part, 0.0, 1.0) {
        8 => look.paint(EIGHTHS[8], Some(color_of(lowest)), None),
        0 => above.map_or_else(|| " ".to_owned(), |color| look.paint(EIGHTHS[8], Some(color), None)),
        part => look.paint(EIGHTHS[part], Some(color_of(lowest)), above),
    }
}

/// The largest part of a cell.
fn largest<'a>(parts: &[(Option<&'a PictureArea>, f64)]) -> Option<&'a PictureArea> {
    let larger = |most: (Option<&'a PictureArea>, f64), one: &(Option<&'a PictureArea>, f64)| {
        if one.1 > most.1 { *one } else { most }
    };
    parts.iter().fold((None, 0.0), larger).0
}

/// The axis of time, with its marks below.
fn write_time(text: &mut String, picture: &HistoryPicture, zone: &LocalTime, look: TerminalLook) {
    let columns = look.plot_columns();
    let mut axis = vec!["─"; columns];
    let mut labels = vec![' '; look.width + 8];
    let (from, until) = picture.span;
    for (at, label) in zone.marks(picture.span, columns / 9) {
        let place =
            usize::try_from((at - from) * i64::try_from(columns).unwrap_or(1) / (until - from).max(1));
        let place = place.unwrap_or(0).min(columns - 1);
        axis[place] = "┬";
        let begin = (LEFT + place).saturating_sub(2);
        label.chars().enumerate().for_each(|(index, c)| labels[begin + index] = c);
    }
    let _ = writeln!(text, " 0.0 └{}", axis.concat());
    let labels: String = labels.into_iter().collect();
    let _ = writeln!(text, "{}", labels.trim_end());
}

/// The names of areas and thresholds, on as many lines as they take.
fn write_legend(text: &mut String, picture: &HistoryPicture, look: TerminalLook) {
    let areas = picture.areas.iter().rev().map(|area| {
        let sign = if look.has_colors { "█" } else { fill_of(area) };
        let words = format!(" {} {:.0} %", area.name, area.part * 100.0);
        (sign, Some(color_of(area)), words)
    });
    let lines = [
        ("━", Some(HARD_COLOR), format!(" hard {:.2}", picture.hard)),
        ("╌", Some(SOFT_COLOR), format!(" soft {:.2}", picture.soft)),
    ];
    let (mut line, mut width) = (String::new(), 0);
    for (sign, color, words) in areas.chain(lines) {
        let needed = 1 + words.chars().count();
        if width > 0 && LEFT + width + 3 + needed > look.width {
            let _ = writeln!(text, "{:LEFT$}{line}", "");
            (line, width) = (String::new(), 0);
        }
        if width > 0 {
            line.push_str("   ");
            width += 3;
        }
        line.push_str(&look.paint(sign, color, None));
        line.push_str(&words);
        width += needed;
    }
    let _ = writeln!(text, "{:LEFT$}{line}", "");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A picture of one column, with an area that ends in the middle of a cell.
    fn picture(heights: &[f64]) -> HistoryPicture {
        let area = |(index, height): (usize, &f64)| PictureArea {
            name: format!("f{index}"),
            shade: AreaShade::Own(index),
            part: 0.5,
            heights: vec![*height],
        };
        HistoryPicture {
            resource: "app".to_owned(),
            by: "feature".to_owned(),
            span: (0, 600_000),
            areas: heights.iter().enumerate().map(area).collect(),
            is_known: vec![true],
            refused: vec![0.0],
            soft: 0.7,
            hard: 0.9,
            top: 1.0,
            notes: Vec::new(),
            changes: Vec::new(),
            measure: "divided by units",
        }
    }

    fn cell(heights: &[f64], row: usize, has_colors: bool) -> String {
        let look = TerminalLook { width: 80, has_colors };
        let cell = 1.0 / cells(ROWS);
        cell_text(&picture(heights), 0, (cell * cells(row), cell), None, look)
    }

    #[test]
    fn a_cell_in_colours_shows_where_one_area_ends_and_the_next_begins() {
        let half = 0.5 / cells(ROWS);
        assert_eq!(cell(&[half], 0, true), "\u{1b}[38;5;68m▄\u{1b}[0m");
        assert_eq!(cell(&[half, 1.0], 0, true), "\u{1b}[38;5;68m\u{1b}[48;5;208m▄\u{1b}[0m");
        assert_eq!(cell(&[half], 1, true), " ");
        assert_eq!(cell(&[1.0], 1, true), "\u{1b}[38;5;68m█\u{1b}[0m");
    }

    #[test]
    fn a_cell_without_colours_has_the_sign_of_its_largest_part() {
        let most = 0.6 / cells(ROWS);
        assert_eq!(cell(&[most, 1.0], 0, false), FILLS[0]);
        assert_eq!(cell(&[most / 2.0, 1.0], 0, false), FILLS[1]);
        assert_eq!(cell(&[most / 2.0], 0, false), " ");
    }

    #[test]
    fn changes_have_their_names_on_lines_that_do_not_touch_each_other() {
        let look = TerminalLook::of_width(40, false);
        let drawn = |changes: &[(f64, &str, bool)]| {
            let mut picture = picture(&[0.5]);
            let change = |(part, name, is_worse): &(f64, &str, bool)| PictureChange {
                part: *part,
                name: (*name).to_owned(),
                is_worse: *is_worse,
            };
            picture.changes = changes.iter().map(change).collect();
            let mut text = String::new();
            write_changes(&mut text, &picture, look);
            text
        };
        assert_eq!(drawn(&[]), "");
        let [left, indent] = [" ".repeat(LEFT), " ".repeat(LEFT + 14)];
        assert_eq!(
            drawn(&[(0.0, "a off", true), (0.5, "a full", false)]),
            format!("{left}▼ a off       ▲ a full\n")
        );
        assert_eq!(drawn(&[(1.0, "a off", true)]), format!("{left}{}a off ▼\n", " ".repeat(21)));
        let near =
            [(0.5, "a off", true), (0.53, "a full", false), (0.56, "b off", true), (0.6, "c off", true)];
        assert_eq!(drawn(&near), format!("{indent}▼ a off\n{indent}▲ a full\n{indent} ▼▼b off\n"));
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_no_colour_is_where_none_may_be() {
        let zone = LocalTime::named("UTC");
        for width in [40, 80, 200] {
            let look = TerminalLook::of_width(width, false);
            let mut picture = picture(&[0.5, 0.3]);
            let columns = look.plot_columns();
            picture.areas.iter_mut().for_each(|area| area.heights = vec![area.heights[0]; columns]);
            picture.refused = vec![3.0; columns];
            let text = text(&picture, &zone, look);
            assert!(!text.contains('\u{1b}'));
            // The headline may be wrapped; the picture may not.
            for line in text.lines().skip(2) {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
        assert_eq!(
            (TerminalLook::of_width(1, false).width, TerminalLook::of_width(9999, false).width),
            WIDTHS
        );
    }
}
