//! How long the steps of the gate took, and their parts: test binaries, crates, sets of features.

use std::fmt::Write;
use std::time::{Duration, Instant};

/// Steps or parts of one step with their times, in the order in which they ran.
#[derive(Clone, Debug, Default)]
pub(crate) struct StepTimes {
    finished: Vec<(String, Duration)>,
    running: Option<(String, Instant)>,
}

impl StepTimes {
    /// Ends the part that is running, if there is one, and begins the part `name`.
    pub(crate) fn begin(&mut self, name: String, now: Instant) {
        self.end(now);
        self.running = Some((name, now));
    }

    /// Ends the part that is running, if there is one.
    pub(crate) fn end(&mut self, now: Instant) {
        if let Some((name, began)) = self.running.take() {
            self.finished.push((name, now.saturating_duration_since(began)));
        }
    }

    /// Adds the parts of the step `name`, or the step itself if it has no parts.
    pub(crate) fn add_step(&mut self, name: &str, took: Duration, parts: &Self) {
        if parts.finished.is_empty() {
            self.finished.push((name.to_owned(), took));
        }
        for (part, took) in &parts.finished {
            self.finished.push((format!("{name}: {part}"), *took));
        }
    }

    /// A table of the `count` slowest, slowest first, a line each.
    pub(crate) fn slowest(&self, count: usize) -> String {
        let mut slowest: Vec<&(String, Duration)> = self.finished.iter().collect();
        slowest.sort_by_key(|(_, took)| std::cmp::Reverse(*took));
        slowest.truncate(count);
        let mut text = String::new();
        for (name, took) in slowest {
            let time = format!("{:.1} s", took.as_secs_f64());
            let _ = writeln!(text, "{time:>9}   {name}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_ends_where_the_next_begins_and_only_the_slowest_are_listed() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut parts = StepTimes::default();
        parts.begin("quick".to_owned(), at(0));
        parts.begin("slow".to_owned(), at(1));
        parts.begin("middling".to_owned(), at(31));
        parts.end(at(36));
        parts.end(at(90));
        let mut gate = StepTimes::default();
        gate.add_step("format", Duration::from_secs(2), &StepTimes::default());
        gate.add_step("tests", Duration::from_secs(36), &parts);
        assert_eq!(
            gate.slowest(3),
            "   30.0 s   tests: slow\n    5.0 s   tests: middling\n    2.0 s   format\n"
        );
    }
}
