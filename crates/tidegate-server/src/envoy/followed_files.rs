//! The files of envoyproxy/ratelimit that a daemon follows while they change.

use std::sync::Arc;

use tidegate_core::error_chain;
use tidegate_net::file_backed::Refresh;

use crate::context::DaemonContext;
use crate::envoy::envoy_files::EnvoyFiles;
use crate::reload::reload_status::Changes;
use tidegate_clock::Clock;

/// Files that a daemon follows while they change.
pub(crate) struct FollowedFiles {
    pub(crate) files: EnvoyFiles,
    pub(crate) changes: Arc<Changes>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl DaemonContext {
    /// The files of envoyproxy/ratelimit in force, to be watched.
    pub(crate) fn followed_files(&self) -> Option<FollowedFiles> {
        let files = self.in_force.load().config.envoy_ratelimit.clone()?;
        Some(FollowedFiles { files, changes: Arc::clone(&self.changes), clock: Arc::clone(&self.clock) })
    }
}

impl FollowedFiles {
    /// Reads the files on request: an error that persists is logged and counted once more.
    pub(crate) fn look_again(&self) {
        *self.files.logged() = None;
        self.look();
    }
}

impl Refresh for FollowedFiles {
    fn look(&self) {
        let path = self.files.path().display();
        let refreshed = self.files.refresh();
        let mut logged = self.files.logged();
        match refreshed {
            Ok(changed) => {
                if changed {
                    tracing::info!(target: "tidegate::reload", %path, "new files of envoy_ratelimit are in force");
                } else if logged.is_some() {
                    tracing::info!(target: "tidegate::reload", %path, "the files of envoy_ratelimit are as they were");
                }
                *logged = None;
                self.changes.files_looked_at(Ok(changed), self.clock.now());
            }
            Err(error) => {
                let error = error_chain(&error);
                if logged.as_ref() != Some(&error) {
                    tracing::error!(target: "tidegate::reload", %path, "the files in force stay: {error}");
                    self.changes.files_looked_at(Err(&error), self.clock.now());
                    *logged = Some(error);
                }
            }
        }
    }
}
