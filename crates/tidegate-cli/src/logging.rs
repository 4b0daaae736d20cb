//! Where log lines go and how they look.

use std::io::{self, IsTerminal, Stderr, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidegate_policy::policy::{Format, Level};
use tracing::Metadata;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Libraries whose warnings are about single connections, so that any peer can cause as many as it
/// likes. The daemon counts such connections itself. Their errors are written.
const CONNECTION_LIBRARIES: &str =
    "h2=error,hyper=error,hyper_util=error,rustls=error,tonic=error,tower=error";

/// How many lines of libraries are written a second. Above it they are left out and counted.
const LIBRARY_LINES_MAX: u32 = 1;

/// Writes lines to standard error from now on. `TIDEGATE_LOG` (as
/// `info,tidegate::refusal=off`) goes before the level.
pub(crate) fn start(level: Level, format: Format) {
    let asked = std::env::var("TIDEGATE_LOG").ok().and_then(|filter| filter.parse::<Targets>().ok());
    let filter = asked.unwrap_or_else(|| default_filter(level));
    let lines = tracing_subscriber::fmt::layer().with_writer(BoundedStderr::default());
    let lines = match format {
        Format::Text => lines.with_ansi(io::stderr().is_terminal()).boxed(),
        Format::Json => lines.json().flatten_event(true).boxed(),
    };
    tracing_subscriber::registry().with(lines).with(filter).init();
}

/// The filter unless `TIDEGATE_LOG` gives another.
fn default_filter(level: Level) -> Targets {
    let filter = format!("{},{CONNECTION_LIBRARIES}", level.as_str());
    filter.parse().expect("a level and names with levels are a filter")
}

/// Standard error, with a bound on the lines of libraries: what they report is up to peers.
#[derive(Debug, Default)]
struct BoundedStderr(Mutex<LibraryLines>);

/// The lines of libraries within one second.
#[derive(Debug, Default)]
struct LibraryLines {
    since: Option<Instant>,
    written: u32,
    left_out: u64,
}

impl LibraryLines {
    /// Whether to write a line at `now`; if it is the first of its second, how many were left out
    /// before it.
    fn take(&mut self, now: Instant) -> (bool, u64) {
        if self.since.is_none_or(|since| now.duration_since(since) >= Duration::from_secs(1)) {
            (self.since, self.written) = (Some(now), 0);
        }
        if self.written >= LIBRARY_LINES_MAX {
            self.left_out += 1;
            return (false, 0);
        }
        self.written += 1;
        (true, core::mem::take(&mut self.left_out))
    }
}

/// Where one line goes.
#[derive(Debug)]
enum LineWriter {
    Stderr(Stderr),
    Nowhere,
}

impl Write for LineWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stderr(stderr) => stderr.write(bytes),
            Self::Nowhere => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stderr(stderr) => stderr.flush(),
            Self::Nowhere => Ok(()),
        }
    }
}

impl<'a> MakeWriter<'a> for BoundedStderr {
    type Writer = LineWriter;

    fn make_writer(&'a self) -> LineWriter {
        LineWriter::Stderr(io::stderr())
    }

    fn make_writer_for(&'a self, line: &Metadata<'_>) -> LineWriter {
        if line.target().starts_with("tidegate") {
            return self.make_writer();
        }
        let taken = self.0.lock().unwrap_or_else(PoisonError::into_inner).take(Instant::now());
        let (is_written, left_out) = taken;
        if !is_written {
            return LineWriter::Nowhere;
        }
        if left_out > 0 {
            tracing::warn!(target: "tidegate::log", left_out, "log lines of libraries were left out");
        }
        self.make_writer()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_write_one_line_a_second_and_the_next_one_says_how_many_were_left_out() {
        let mut lines = LibraryLines::default();
        let start = Instant::now();
        assert_eq!(lines.take(start), (true, 0));
        for millis in 1..1000 {
            assert_eq!(lines.take(start + Duration::from_millis(millis)), (false, 0));
        }
        assert_eq!(lines.take(start + Duration::from_secs(1)), (true, 999));
        assert_eq!(lines.take(start + Duration::from_secs(5)), (true, 0));
    }

    #[test]
    fn warnings_about_single_connections_are_left_out_unless_asked_for() {
        let filter = default_filter(Level::Info);
        for library in ["h2", "hyper", "rustls", "tonic"] {
            assert!(!filter.would_enable(&format!("{library}::conn"), &tracing::Level::WARN), "{library}");
            assert!(filter.would_enable(library, &tracing::Level::ERROR), "{library}");
        }
        assert!(filter.would_enable("tidegate::refusal", &tracing::Level::INFO));
    }

    #[test]
    fn the_filter_of_the_documents_is_one() {
        let filter: Targets = "info,tidegate::refusal=off".parse().unwrap();
        assert!(filter.would_enable("tidegate::reload", &tracing::Level::INFO));
        assert!(!filter.would_enable("tidegate::refusal", &tracing::Level::ERROR));
    }
}
