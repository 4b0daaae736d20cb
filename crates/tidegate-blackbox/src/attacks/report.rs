//! Results of the suite, as a table for people and as JSON for machines.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::attack::{Failure, Outcome};

/// The most characters of what an attack has seen that are printed for people. JSON has all.
const DETAIL_CHARS_MAX: usize = 700;

impl Outcome {
    /// One word: `held`, `FAILED` or `skipped`.
    pub fn word(&self) -> &'static str {
        match &self.seen {
            Ok(_) => "held",
            Err(Failure::Skipped(_)) => "skipped",
            Err(_) => "FAILED",
        }
    }

    /// The observation, in a sentence.
    pub fn detail(&self) -> String {
        match &self.seen {
            Ok(text) | Err(Failure::GotThrough(text) | Failure::Skipped(text)) => text.clone(),
            Err(Failure::Unfinished(text)) => format!("the attack could not be finished: {text}"),
        }
    }

    /// Whether it counts as a failure of the run.
    pub fn is_failure(&self) -> bool {
        matches!(&self.seen, Err(Failure::GotThrough(_) | Failure::Unfinished(_)))
    }
}

/// A paragraph for each attack, to be printed when it has ended.
pub fn paragraph(outcome: &Outcome) -> String {
    let (name, word) = (outcome.attack.name, outcome.word());
    let (memory, took) = (mebibytes(outcome), outcome.took.as_secs_f64());
    format!(
        "{word:<8}{name}  (+{memory} MiB, {took:.1} s)\n        expected: {}\n        seen:     {}",
        outcome.attack.expects,
        shortened(&outcome.detail())
    )
}

/// A text on one line, of [`DETAIL_CHARS_MAX`] characters at most.
fn shortened(text: &str) -> String {
    let line: String =
        text.chars().take(DETAIL_CHARS_MAX).map(|char| if char == '\n' { ' ' } else { char }).collect();
    if text.chars().count() > DETAIL_CHARS_MAX { line + "..." } else { line }
}

/// A table of all attacks, and a line that counts.
pub fn table(outcomes: &[Outcome]) -> String {
    let width = outcomes.iter().map(|outcome| outcome.attack.name.len()).max().unwrap_or(0);
    let mut table = format!("{:<width$}  {:<8}{:>11}{:>9}\n", "attack", "result", "memory", "time");
    for outcome in outcomes {
        let (memory, took) = (mebibytes(outcome), outcome.took.as_secs_f64());
        let (name, word) = (outcome.attack.name, outcome.word());
        let _ = writeln!(table, "{name:<width$}  {word:<8}{memory:>7} MiB{took:>7.1} s");
    }
    let count = |word: &str| outcomes.iter().filter(|outcome| outcome.word() == word).count();
    let (held, failed, skipped) = (count("held"), count("FAILED"), count("skipped"));
    let _ = writeln!(table, "\n{held} held, {failed} failed, {skipped} skipped");
    for outcome in outcomes.iter().filter(|outcome| outcome.word() == "skipped") {
        let _ = writeln!(table, "skipped: {}: {}", outcome.attack.name, outcome.detail());
    }
    table
}

/// All attacks as a JSON array.
pub fn json(outcomes: &[Outcome]) -> Value {
    let each = outcomes.iter().map(|outcome| {
        json!({
            "attack": outcome.attack.name,
            "expected": outcome.attack.expects,
            "result": outcome.word().to_lowercase(),
            "seen": outcome.detail(),
            "memory_above_idle_bytes": outcome.memory_above_idle,
            "took_ms": outcome.took.as_millis() as u64,
        })
    });
    Value::Array(each.collect())
}

fn mebibytes(outcome: &Outcome) -> u64 {
    outcome.memory_above_idle >> 20
}
