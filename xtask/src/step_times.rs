//! How long the steps of a command took, and their parts: builds, test programs, sets of features.

use std::fmt::Write;
use std::time::{Duration, Instant};

/// Steps or parts of one step with their times.
#[derive(Clone, Debug, Default)]
pub(crate) struct StepTimes {
    finished: Vec<(String, Duration)>,
}

impl StepTimes {
    /// Adds a part that has taken this long.
    pub(crate) fn add(&mut self, name: String, took: Duration) {
        self.finished.push((name, took));
    }

    /// Runs a part and adds its time.
    pub(crate) fn measure<T>(&mut self, name: String, run: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let result = run();
        self.add(name, began.elapsed());
        result
    }

    /// Adds the parts of the step `name`, or the step itself if it has no parts.
    pub(crate) fn add_step(&mut self, name: &str, took: Duration, parts: &Self) {
        if parts.finished.is_empty() {
            self.add(name.to_owned(), took);
        }
        for (part, took) in &parts.finished {
            self.add(format!("{name}: {part}"), *took);
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

/// A time as people read it, in whole seconds.
pub(crate) fn in_words(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_slowest_are_listed_and_a_step_with_parts_counts_as_its_parts() {
        let mut parts = StepTimes::default();
        for (name, seconds) in [("quick", 1), ("slow", 30), ("middling", 5)] {
            parts.add(name.to_owned(), Duration::from_secs(seconds));
        }
        let mut gate = StepTimes::default();
        gate.add_step("format", Duration::from_secs(2), &StepTimes::default());
        gate.add_step("tests", Duration::from_secs(36), &parts);
        assert_eq!(
            gate.slowest(3),
            "   30.0 s   tests: slow\n    5.0 s   tests: middling\n    2.0 s   format\n"
        );
    }

    #[test]
    fn what_is_measured_returns_its_result() {
        let mut times = StepTimes::default();
        assert_eq!(times.measure("a part".to_owned(), || 7), 7);
        assert!(times.slowest(1).ends_with("   a part\n"));
    }
}
