//! Tables for people, and files with all figures.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use serde::Serialize;
use serde_json::Value;

use crate::attack::Failure;
use crate::report::{self, show};

/// The machine in words, with what else it does.
pub(crate) fn machine() -> String {
    let output = Command::new("redis-server").arg("--version").output();
    let version =
        output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let version = version.split_whitespace().find_map(|word| word.strip_prefix("v=")).unwrap_or("?");
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split_whitespace().next().unwrap_or("?");
    format!("{}, Redis {version}; load before: {load}", report::machine())
}

/// The name of a value in reports.
pub(super) fn name_of(value: impl Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|name| Some(name.as_str()?.to_owned())).unwrap_or_default()
}

/// A table in Markdown with a row for each run, and a file with all figures of each.
pub(super) struct FigureTable<'arguments> {
    columns: Vec<&'static str>,
    json: Option<&'arguments Path>,
}

impl<'arguments> FigureTable<'arguments> {
    pub(super) fn begin(columns: &'static str, json: Option<&'arguments Path>) -> Result<Self, Failure> {
        let columns: Vec<_> = columns.split_whitespace().collect();
        let (titles, rule) = (columns.join(" | "), "---|".repeat(columns.len()));
        show(format_args!("\n{}\n\n| {titles} |\n|{rule}", machine()))?;
        Ok(Self { columns, json })
    }

    /// Adds the figures of a run.
    pub(super) fn add(&self, figures: &Value) -> Result<(), Failure> {
        let cells: Vec<String> = self.columns.iter().map(|column| cell(&figures[*column])).collect();
        show(format_args!("| {} |", cells.join(" | ")))?;
        let Some(path) = self.json else { return Ok(()) };
        Ok(writeln!(File::options().create(true).append(true).open(path)?, "{figures}")?)
    }
}

/// A figure for people.
fn cell(figure: &Value) -> String {
    match figure {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_f64() {
            Some(value) if value.fract() != 0.0 => format!("{value:.3}"),
            Some(value) => format!("{value:.0}"),
            None => number.to_string(),
        },
        Value::Array(all) => all.iter().map(cell).collect::<Vec<_>>().join(", "),
        Value::Object(all) => {
            all.iter().map(|(name, value)| format!("{name} {}", cell(value))).collect::<Vec<_>>().join(", ")
        }
        Value::Bool(value) => value.to_string(),
    }
}
