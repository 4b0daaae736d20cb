//! Results, as a table for people and as JSON for machines.

use std::fmt::{self, Write as _};
use std::fs;
use std::io::{self, Write as _};
use std::thread::available_parallelism;

use serde_json::{Value, json};

use crate::attack::Failure;
use crate::findings::{Figure, Gate, Verdict};
use crate::trial::Outcome;

/// The width of the column with the names of figures.
const NAME_WIDTH: usize = 46;

/// The most characters of a note that are printed for people. JSON has all.
const NOTE_CHARS_MAX: usize = 700;

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

/// Prints a text and the end of a line.
pub fn show(text: impl fmt::Display) -> Result<(), Failure> {
    writeln!(io::stdout(), "{text}").map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::Unread,
        _ => Failure::Unfinished(format!("cannot write: {error}")),
    })
}

/// The figures of a trial, under its name.
pub fn table(outcome: &Outcome) -> String {
    let mut table = format!("{}: {}\n", outcome.trial.name, outcome.trial.claim);
    for figure in outcome.findings.figures() {
        let (value, gate, word) = (value(figure), gate(figure), figure.verdict.word());
        let (name, note) = (&figure.name, shortened(&figure.note));
        let line = format!("  {name:<NAME_WIDTH$} {value:>12}  {gate:<14} {word:<14} {note}");
        let _ = writeln!(table, "{}", line.trim_end());
    }
    table
}

/// A text on one line, of [`NOTE_CHARS_MAX`] characters at most.
fn shortened(text: &str) -> String {
    let line: String =
        text.chars().take(NOTE_CHARS_MAX).map(|char| if char == '\n' { ' ' } else { char }).collect();
    if text.chars().count() > NOTE_CHARS_MAX { line + "..." } else { line }
}

/// A line for each trial with its verdict, memory and time, and one that counts figures.
pub fn summary(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    for Outcome { trial, findings, mebibytes, took } in outcomes {
        let (name, word, seconds) = (trial.name, findings.verdict().word(), took.as_secs_f64());
        let _ = writeln!(text, "{name:<NAME_WIDTH$} {word:<14} +{mebibytes:>4.0} MiB {seconds:>7.1} s");
    }
    let figures = || outcomes.iter().flat_map(|outcome| outcome.findings.figures());
    let counts = Verdict::COUNTED.map(|verdict| {
        let count = figures().filter(|figure| figure.verdict == verdict).count();
        format!("{count} {}", verdict.word().to_lowercase())
    });
    text + "\n" + &counts.join(", ")
}

/// All trials as JSON.
pub fn json(command: &str, outcomes: &[Outcome]) -> Value {
    let trials = outcomes.iter().map(|outcome| {
        let figures = outcome.findings.figures().iter().map(|figure| {
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
        json!({
            "trial": outcome.trial.name,
            "claim": outcome.trial.claim,
            "verdict": outcome.findings.verdict().word().to_lowercase(),
            "memory_above_idle_mib": outcome.mebibytes,
            "took_ms": outcome.took.as_millis() as u64,
            "figures": figures.collect::<Vec<_>>(),
        })
    });
    json!({ "machine": machine(), "command": command, "trials": trials.collect::<Vec<_>>() })
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
