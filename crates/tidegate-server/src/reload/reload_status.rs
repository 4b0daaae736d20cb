//! The results of changes of the policy, and the lock that puts those changes in order.

use core::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use tidegate_core::Timestamp;
use tokio::sync::Notify;
#[cfg(test)]
use utoipa::ToSchema;

/// The lock for changes of the policy and the overrides, and the results of earlier ones.
#[derive(Default)]
pub(crate) struct Changes {
    /// Held while the policy or an override is changed.
    pub(crate) turn: tokio::sync::Mutex<()>,
    status: Mutex<ReloadStatus>,
    /// Notified to have the policy file read at once.
    pub(crate) asked: Notify,
}

/// Counts and errors of reloads.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReloadStatus {
    /// Policies that were taken over since the start, the first not among them.
    pub(crate) succeeded: u64,
    /// Policies that were not.
    pub(crate) failed: u64,
    /// Why the last one was not; gone with the next that is.
    pub(crate) last_error: Option<LastError>,
    /// Why the files of envoyproxy/ratelimit were last not taken over; gone when they can be again.
    pub(crate) files_error: Option<LastError>,
    /// Settings of the policy in force that only count after a restart.
    pub(crate) restart_needed: Vec<String>,
}

/// Why a policy was not taken over.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(ToSchema))]
pub(crate) struct LastError {
    /// When, as RFC 3339.
    pub(crate) at: String,
    /// Every problem, one a line.
    pub(crate) problems: String,
}

impl ReloadStatus {
    /// The current error of the policy, or of the files that it names.
    pub(crate) fn error(&self) -> Option<&LastError> {
        self.last_error.as_ref().or(self.files_error.as_ref())
    }
}

impl Changes {
    /// The files of envoyproxy/ratelimit were looked at: whether they were taken over anew, or why
    /// they were not.
    pub(crate) fn files_looked_at(&self, result: Result<bool, &str>, now: Timestamp) {
        let mut status = self.status();
        match result {
            Ok(changed) => {
                status.succeeded += u64::from(changed);
                status.files_error = None;
            }
            Err(problems) => {
                status.failed += 1;
                status.files_error =
                    Some(LastError { at: now.to_whole_millis().to_string(), problems: problems.to_owned() });
            }
        }
    }

    pub(crate) fn status(&self) -> MutexGuard<'_, ReloadStatus> {
        // Every change of it is one assignment after another: a panic elsewhere leaves it readable.
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").field("status", &*self.status()).finish_non_exhaustive()
    }
}
