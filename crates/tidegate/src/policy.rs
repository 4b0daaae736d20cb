//! Limits from a policy in YAML, the same file that `tidegate serve` reads.
//!
//! ```no_run
//! # #[cfg(feature = "tower")] {
//! use tidegate::tower::{AdmitLayer, extract};
//!
//! let engine = tidegate::policy::engine("tidegate.yaml")?;
//! let layer = AdmitLayer::new(engine, "api")?.attribute("user", extract::header("x-user"));
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A program decides by the limits of the namespaces. The sections for listeners, authorization and
//! logs are those of the daemon and are not looked at. Limits are kept in memory, so a policy with
//! quotas must say `store: { kind: memory }`: they begin anew with the process.

use core::fmt;
use std::path::Path;

use tidegate_engine::{BuildError, Engine, EngineConfig};
use tidegate_policy::policy::StoreKind;
pub use tidegate_policy::{Policy, Problem, Problems};

/// The largest policy file in bytes.
pub const FILE_BYTES_MAX: u64 = tidegate_policy::bounds::DOCUMENT_BYTES_MAX as u64;

/// Why a policy makes no engine. Its message names the file, and says where and what to write.
#[derive(Debug)]
#[non_exhaustive]
pub enum PolicyError {
    /// The file cannot be read.
    File {
        /// Its path.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// Its content is not a policy: every problem, with line and fix.
    Content(Problems),
    /// It has a section that only the daemon serves.
    DaemonOnly {
        /// The section.
        section: &'static str,
        /// The fix.
        fix: &'static str,
    },
    /// Its limits make no engine.
    Engine(BuildError),
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, .. } => {
                write!(f, "policy {path} cannot be read; check the path and its permissions")
            }
            Self::Content(problems) => problems.fmt(f),
            Self::DaemonOnly { section, fix } => {
                write!(f, "`{section}` of a policy is served by the daemon only; {fix}")
            }
            Self::Engine(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for PolicyError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::File { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// An engine with the limits of the policy in the file at `path`. `${NAME}` in it is read from the
/// environment.
pub fn engine(path: impl AsRef<Path>) -> Result<Engine, PolicyError> {
    let path = path.as_ref();
    let shown = path.display().to_string();
    let file = |source| PolicyError::File { path: shown.clone(), source };
    let bytes = std::fs::metadata(path).map_err(file)?.len();
    if bytes > FILE_BYTES_MAX {
        let problem = format!("it has {bytes} bytes, and at most {FILE_BYTES_MAX} are read");
        return Err(file(std::io::Error::new(std::io::ErrorKind::FileTooLarge, problem)));
    }
    let text = std::fs::read(path).map_err(file)?;
    let checked = tidegate_policy::parse_bytes(&shown, &text, &|name| std::env::var(name).ok());
    engine_of(&checked.map_err(PolicyError::Content)?.policy)
}

/// An engine with the limits of this policy.
pub fn engine_of(policy: &Policy) -> Result<Engine, PolicyError> {
    let daemon_only = |section, fix| Err(PolicyError::DaemonOnly { section, fix });
    match policy.store.kind(policy.quotas().next().is_some()) {
        StoreKind::Redis(_) => {
            return daemon_only("store: { kind: redis }", "leave it out and give the layer a `RedisStore`");
        }
        StoreKind::Embedded(_) => {
            return daemon_only(
                "store: { kind: embedded }",
                "write `store: { kind: memory }` if quotas may begin anew with the process",
            );
        }
        _ => {}
    }
    if policy.envoy_ratelimit.is_some() {
        return daemon_only("envoy_ratelimit", "remove it, or run `tidegate serve`");
    }
    if !policy.resources.is_empty() || !policy.nodes.is_empty() {
        return daemon_only("resources` and `nodes", "remove them, or run `tidegate serve`");
    }
    if policy.namespaces.iter().any(|namespace| !namespace.tables.is_empty()) {
        return daemon_only("tables", "remove them, or run `tidegate serve`");
    }
    let mut config = EngineConfig::default();
    config.table.bytes = policy.memory.keys_bytes;
    config.table.when_full = policy.memory.when_full;
    Engine::builder(config).namespaces(policy.namespace_configs()).build().map_err(PolicyError::Engine)
}
