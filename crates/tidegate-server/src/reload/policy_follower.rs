//! The follower of the policy file: it reloads the file when it changes, while requests go on.

use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;
use std::time::SystemTime;

use tidegate_core::error_chain;
use tidegate_policy::Policy;

use crate::context::DaemonContext;
use crate::reload::changes::ReloadError;
use crate::reload::policy_file::{LOOK_EVERY, PolicyFile, PolicyFileLook};
use crate::service_manager::ServiceState;

/// A number made of the text of a policy: the same for the same text wherever this version runs.
pub(crate) fn fingerprint(text: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    hasher.write(text);
    format!("{:016x}", hasher.finish())
}

/// How many lines of a comparison are logged; a policy may assign 100 000 plans.
const LINES_LOGGED_MAX: usize = 1000;

/// Takes over every policy that appears in `file`, in place of `policy`, until the daemon ends.
pub(crate) async fn follow(daemon: Arc<DaemonContext>, mut file: PolicyFile, mut policy: Policy) {
    let mut last = daemon.in_force.load().version.fingerprint.clone();
    loop {
        let is_asked = tokio::select! {
            () = daemon.changes.asked.notified() => true,
            () = tokio::time::sleep(LOOK_EVERY) => false,
        };
        if is_asked {
            daemon.tell_service_manager(ServiceState::Reloading).await;
        }
        let looked = tokio::task::spawn_blocking(move || {
            let look = if is_asked { file.read_now() } else { file.look(SystemTime::now()) };
            (file, look)
        });
        let Ok((given_back, look)) = looked.await else {
            tracing::error!("the policy file is no longer followed: reading it failed");
            daemon.tell_service_manager(ServiceState::Ready).await;
            return;
        };
        file = given_back;
        let is_news = !matches!(look, PolicyFileLook::Nothing);
        if is_news && !is_asked {
            daemon.tell_service_manager(ServiceState::Reloading).await;
        }
        match look {
            PolicyFileLook::Nothing => {}
            PolicyFileLook::Unreadable(error) => tell(&daemon, &file, &error.into()),
            PolicyFileLook::Changed(bytes) => {
                let fingerprint = fingerprint(&bytes);
                if fingerprint == last {
                    tell_unchanged(&daemon, &file, is_asked);
                } else {
                    match take_over(&daemon, &file, &policy, &bytes, fingerprint.clone()).await {
                        Ok(new) => {
                            policy = new;
                            last = fingerprint;
                        }
                        Err(error) => tell(&daemon, &file, &error),
                    }
                }
            }
        }
        if is_news || is_asked {
            daemon.tell_service_manager(ServiceState::Ready).await;
        }
    }
}

/// Says that the file has the text of the policy in force.
fn tell_unchanged(daemon: &DaemonContext, file: &PolicyFile, is_asked: bool) {
    let policy = file.path().display();
    // An error of the file in between is over.
    let was_rejected = daemon.changes.status().last_error.take().is_some();
    if was_rejected {
        let version = daemon.in_force.load().version.number;
        tracing::info!(
            target: "tidegate::reload", %policy, version,
            "the policy file is valid again, and the same as the policy in force"
        );
    } else if is_asked {
        tracing::info!(target: "tidegate::reload", %policy, "the policy is as it was");
    }
}

async fn take_over(
    daemon: &DaemonContext,
    file: &PolicyFile,
    running: &Policy,
    bytes: &[u8],
    fingerprint: String,
) -> Result<Policy, ReloadError> {
    let name = file.path().display().to_string();
    let checked = tidegate_policy::parse_bytes(&name, bytes, &|variable| std::env::var(variable).ok())?;
    if checked.lacks_namespaces && !running.namespaces.is_empty() {
        return Err(ReloadError::NoNamespaces { in_force: running.namespaces.len() });
    }
    for warning in &checked.warnings {
        tracing::warn!(target: "tidegate::reload", "{warning}");
    }
    let (policy, comparison) = daemon.take_over(running, &checked.policy, fingerprint).await?;
    let version = daemon.in_force.load().version.number;
    tracing::info!(target: "tidegate::reload", policy = name, version, "a new policy is in force");
    let text = comparison.to_string();
    for line in text.lines().take(LINES_LOGGED_MAX) {
        tracing::info!(target: "tidegate::reload", "{line}");
    }
    let left_off = text.lines().count().saturating_sub(LINES_LOGGED_MAX);
    if left_off > 0 {
        tracing::info!(target: "tidegate::reload", "and {left_off} lines more: see `tidegate validate NEW --against OLD`");
    }
    Ok(policy)
}

fn tell(daemon: &DaemonContext, file: &PolicyFile, error: &ReloadError) {
    daemon.reload_failed(error);
    let policy = file.path().display();
    tracing::error!(target: "tidegate::reload", %policy, "the policy in force stays: {}", error_chain(error));
}
