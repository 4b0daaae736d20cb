//! The choice of the store for a policy's quotas, and the report when no store can be opened.

use std::io;
use std::path::{self, Path, PathBuf};

use tidegate_policy::Policy;
use tidegate_policy::policy::{Embedded, StoreChoice, StoreKind};
use tidegate_store_redb::{OpenError, RedbStore};

use crate::envoy::envoy_files::EnvoyFiles;
use crate::no_store::{NoStore, quota_of_files};

/// The store of a daemon with this policy and these files of envoyproxy/ratelimit, with the
/// directory that is opened.
///
/// A policy that names no store gets one in files if there is a quota to keep.
pub(crate) fn store_kind(policy: &Policy, files: Option<&EnvoyFiles>) -> StoreKind {
    let mut kind = policy.store.kind(first_quota(policy, files).is_some());
    if let StoreKind::Embedded(Embedded { path, earlier_path: Some(earlier), .. }) = &mut kind
        && !RedbStore::is_at(Path::new(path))
        && RedbStore::is_at(Path::new(earlier))
    {
        path.clone_from(earlier);
    }
    kind
}

/// Checks that a daemon without a store may take this policy over with these files, which then
/// refuse quotas that come later. The policy may if it has no quotas, or says that they are kept in
/// memory.
pub(crate) fn check_without_store(policy: &Policy, files: Option<&EnvoyFiles>) -> Result<(), NoStore> {
    let Some(place) = place_of_quotas(policy) else { return Ok(()) };
    if let Some(quota) = first_quota(policy, files) {
        return Err(NoStore { quota, place });
    }
    if let Some(files) = files {
        files.refuse_quotas(place);
    }
    Ok(())
}

/// Where a daemon that is started with this policy keeps quotas, as a message says it; `None` if in
/// memory.
fn place_of_quotas(policy: &Policy) -> Option<String> {
    match policy.store.kind(true) {
        StoreKind::Embedded(embedded) => Some(format!("{} (`store.path`)", embedded.path)),
        StoreKind::Redis(redis) => redis.urls.into_iter().next(),
        _ => None,
    }
}

/// A quota that a store has to keep, as a message names it.
fn first_quota(policy: &Policy, files: Option<&EnvoyFiles>) -> Option<String> {
    let of_policy = policy.quotas().next();
    let of_policy =
        of_policy.map(|(namespace, limit)| format!("limit \"{}\" of namespace \"{namespace}\"", limit.name));
    of_policy.or_else(|| files.and_then(|files| files.get().quotas().next().map(quota_of_files)))
}

/// The store in files cannot be used, so the daemon does not start.
///
/// The cause stands in the message, before the fix, so the error has no source of its own.
#[derive(Debug, thiserror::Error)]
#[error("{}", text(*is_default, directory, error))]
pub struct UnusableStore {
    is_default: bool,
    directory: PathBuf,
    error: OpenError,
}

impl UnusableStore {
    /// The store in `directory`, which `choice` led to, cannot be opened.
    pub(crate) fn new(choice: &StoreChoice, directory: &str, error: OpenError) -> Self {
        let directory = Path::new(directory);
        Self {
            is_default: matches!(choice, StoreChoice::ForQuotas(_)),
            directory: path::absolute(directory).unwrap_or_else(|_| directory.to_owned()),
            error,
        }
    }

    /// The error of the store.
    pub fn error(&self) -> &OpenError {
        &self.error
    }
}

fn text(is_default: bool, directory: &Path, error: &OpenError) -> String {
    let what = if is_default { "quotas are kept in" } else { "the store is kept in" };
    let (cause, fix) = cause_and_fix(error);
    let directory = directory.display();
    format!(
        "{what} {directory}, which {cause}; {fix}set `store.path` to another directory, or set `store: {{ kind: memory }}`, \
         with which a restart forgets quotas"
    )
}

/// The reason why the directory cannot be used, and the fix besides using another one.
fn cause_and_fix(error: &OpenError) -> (String, String) {
    let plain = |fix: &str| fix.to_owned();
    match error {
        OpenError::NoParent { parent, .. } => {
            (format!("cannot be made: {} is missing", parent.display()), plain("create that directory, "))
        }
        OpenError::NotADirectory { .. } => ("is not a directory".to_owned(), plain("move it away, ")),
        OpenError::NotWritable { source, .. } => {
            let fix = if source.kind() == io::ErrorKind::ReadOnlyFilesystem {
                "mount that file system for writing (in a pod, without `readOnly`), "
            } else {
                "make it writable for this user (in a pod, by `fsGroup`), "
            };
            (format!("cannot be made or written: {source}"), plain(fix))
        }
        OpenError::NoSpace { source, .. } => {
            (format!("has no space left: {source}"), plain("free some space, "))
        }
        OpenError::InUse { user, .. } => (
            format!("{user} uses"),
            plain("stop that one, let the daemons share a store with `store: { kind: redis, urls: [..] }`, "),
        ),
        OpenError::Io { source, .. } => (format!("cannot be opened: {source}"), String::new()),
        other => (format!("cannot be opened: {other}"), String::new()),
    }
}
