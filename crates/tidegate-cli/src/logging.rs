//! Where log lines go and how they look.

use std::io::{self, IsTerminal};

use tidegate_policy::policy::{Format, Level};
use tracing_subscriber::EnvFilter;

/// Writes lines to standard error from now on. `TIDEGATE_LOG` (as `info,tidegate::refusal=off`) goes before the level.
pub(crate) fn start(level: Level, format: Format) {
    let filter = std::env::var("TIDEGATE_LOG").ok().and_then(|filter| filter.parse::<EnvFilter>().ok());
    let filter = filter.unwrap_or_else(|| EnvFilter::new(level.as_str()));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    match format {
        Format::Text => lines.with_ansi(io::stderr().is_terminal()).init(),
        Format::Json => lines.json().flatten_event(true).init(),
    }
}
