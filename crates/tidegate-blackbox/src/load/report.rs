//! Results, as a table for people and as JSON for machines.

use std::fmt::Write as _;
use std::fs;
use std::thread::available_parallelism;

use serde_json::{Value, json};

use crate::load::findings::{Figure, Findings, Gate};

/// The width of the column with the names of figures.
const NAME_WIDTH: usize = 46;

/// The machine in words: processor, cores, memory.
pub fn machine() -> String {
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processors.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown processor", |(_, model)| model.trim());
    let cores = available_parallelism().map_or(0, std::num::NonZero::get);
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = memory.lines().find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next());
    let gib = kib.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) >> 20;
    format!("{cores} cores of {model}, {gib} GiB")
}

/// The rows of an experiment, under its name.
pub fn table(name: &str, findings: &Findings) -> String {
    let mut table = format!("{name}\n");
    for figure in findings.figures() {
        let (value, gate) = (value(figure), gate(figure));
        let word = figure.verdict.word();
        let line =
            format!("  {:<NAME_WIDTH$} {value:>12}  {gate:<14} {word:<14} {}", figure.name, figure.note);
        let _ = writeln!(table, "{}", line.trim_end());
    }
    table
}

/// A line that counts verdicts.
pub fn summary<'a>(all: impl Iterator<Item = &'a Findings>) -> String {
    let figures: Vec<&Figure> = all.flat_map(Findings::figures).collect();
    let count = |word: &str| figures.iter().filter(|figure| figure.verdict.word() == word).count();
    let (passed, failed) = (count("pass"), count("FAIL"));
    let (absent, uncounted) = (count("ABSENT"), count("DOES NOT COUNT"));
    format!("{passed} passed, {failed} failed, {absent} absent, {uncounted} do not count")
}

/// All experiments as JSON.
pub fn json<'a>(command: &str, all: impl Iterator<Item = (&'a str, &'a Findings)>) -> Value {
    let experiments = all.map(|(name, findings)| {
        let figures = findings.figures().iter().map(|figure| {
            json!({
                "figure": figure.name,
                "value": figure.value,
                "unit": figure.unit,
                "gate": figure.gate.map(|gate| match gate {
                    Gate::AtLeast(bound) => json!({ "at_least": bound }),
                    Gate::AtMost(bound) => json!({ "at_most": bound }),
                }),
                "verdict": figure.verdict.word().to_lowercase(),
                "note": figure.note,
            })
        });
        json!({ "experiment": name, "figures": figures.collect::<Vec<_>>() })
    });
    json!({ "machine": machine(), "command": command, "experiments": experiments.collect::<Vec<_>>() })
}

fn value(figure: &Figure) -> String {
    figure.value.map_or("-".to_owned(), |value| number(value, figure.unit))
}

fn gate(figure: &Figure) -> String {
    match figure.gate {
        None => String::new(),
        Some(Gate::AtLeast(bound)) => format!(">= {}", number(bound, figure.unit)),
        Some(Gate::AtMost(bound)) => format!("<= {}", number(bound, figure.unit)),
    }
}

fn number(value: f64, unit: &str) -> String {
    match unit {
        "" => format!("{value:.3}"),
        "%" => format!("{value:.2} %"),
        "ms" => format!("{value:.1} ms"),
        unit => format!("{value:.0} {unit}"),
    }
}
