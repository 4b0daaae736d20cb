//! Commands that were read and whose replies are not written yet.

use std::sync::Arc;

use tidegate_net::connections::ConnectionActivity;

/// Reports a connection as busy from the first command that was read to the last reply written.
pub(super) struct UnansweredCommands {
    line: Arc<ConnectionActivity>,
    has_begun: bool,
}

impl UnansweredCommands {
    pub(super) fn new(line: Arc<ConnectionActivity>) -> Self {
        Self { line, has_begun: false }
    }

    /// The connection that is reported busy.
    pub(super) fn connection(&self) -> &Arc<ConnectionActivity> {
        &self.line
    }

    /// A command was read.
    pub(super) fn begin(&mut self) {
        if !self.has_begun {
            self.has_begun = true;
            self.line.request_started();
        }
    }

    /// All replies are written. Returns whether there were any.
    pub(super) fn end(&mut self) -> bool {
        let had_begun = core::mem::take(&mut self.has_begun);
        if had_begun {
            self.line.request_finished();
        }
        had_begun
    }
}
