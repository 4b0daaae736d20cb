//! The figures that the parts of a suite print, as rows of named numbers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The word before a row in the output of a part.
const MARK: &str = "acceptance: ";

/// Rows of named numbers. A part prints a row as `acceptance: ROW | NAME=NUMBER NAME=NUMBER`; rows
/// of one name are added up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Figures {
    rows: BTreeMap<String, BTreeMap<String, u64>>,
    /// The names of the numbers, in the order in which they were first seen.
    columns: Vec<String>,
}

impl Figures {
    /// Reads a line of output; whether it has a row. The test harness may print in front of it.
    pub(super) fn read(&mut self, line: &str) -> bool {
        let row = line.split_once(MARK).and_then(|(_, row)| row.split_once(" | "));
        let Some((row, numbers)) = row else { return false };
        let entries = numbers.split_whitespace().filter_map(|entry| {
            let (name, number) = entry.split_once('=')?;
            Some((name, number.parse().ok()?))
        });
        let entries: Vec<(&str, u64)> = entries.collect();
        for (name, number) in &entries {
            self.count(row.trim(), name, *number);
        }
        !entries.is_empty()
    }

    /// Adds to one number.
    pub(super) fn count(&mut self, row: &str, column: &str, number: u64) {
        if !self.columns.iter().any(|known| known == column) {
            self.columns.push(column.to_owned());
        }
        *self.rows.entry(row.to_owned()).or_default().entry(column.to_owned()).or_default() += number;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The sum of figures.
    pub(super) fn sum<'a>(all: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut sum = Self::default();
        all.into_iter().for_each(|figures| sum.add(figures));
        sum
    }

    fn add(&mut self, other: &Self) {
        for column in &other.columns {
            for (row, numbers) in &other.rows {
                if let Some(number) = numbers.get(column) {
                    self.count(row, column, *number);
                }
            }
        }
    }

    /// The rows that have a number of this name.
    pub(super) fn column<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a str, u64)> {
        self.rows.iter().filter_map(move |(row, numbers)| Some((row.as_str(), *numbers.get(name)?)))
    }

    /// A table in Markdown.
    pub(super) fn table(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let first = [String::new()];
        let mut text = line(first.into_iter().chain(self.columns.iter().cloned()).collect());
        text.push_str(&line(vec!["---".to_owned(); self.columns.len() + 1]));
        for (row, numbers) in &self.rows {
            let cell = |column: &String| numbers.get(column).map_or(String::new(), |number| grouped(*number));
            text.push_str(&line([row.clone()].into_iter().chain(self.columns.iter().map(cell)).collect()));
        }
        text
    }
}

/// A number with a space between groups of three digits, from five digits on.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    if digits.len() < 5 {
        return digits;
    }
    let groups = digits.as_bytes().rchunks(3).rev().map(|group| String::from_utf8_lossy(group).into_owned());
    groups.collect::<Vec<_>>().join(" ")
}
