//! How far it is, for those who wait.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar on standard error that shows itself after a second, if standard error is a terminal; gone
/// at the end.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    since: Instant,
}

/// A shorter run needs no progress bar.
const QUIET: Duration = Duration::from_secs(1);

impl Progress {
    pub(crate) fn new(all: u64, what: &str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(all), ProgressDrawTarget::hidden());
        let style = format!("{{wide_bar}} {{pos}} of {{len}} {what}, {{eta}} left");
        bar.set_style(ProgressStyle::with_template(&style).expect("the template is right"));
        Self { bar, since: Instant::now() }
    }

    /// So many are done.
    pub(crate) fn at(&self, done: u64) {
        self.bar.set_position(done);
        if self.bar.is_hidden() && self.since.elapsed() >= QUIET {
            // It stays hidden where standard error is no terminal.
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
