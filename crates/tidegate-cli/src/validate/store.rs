//! Where a daemon would keep what it counts. Nothing is opened or made.

use std::fmt;

use serde::Serialize;
use tidegate_policy::Policy;
use tidegate_policy::envoy::Files;
use tidegate_policy::policy::{Embedded, StoreKind};

/// How many limits a line names.
const NAMED_MAX: usize = 3;

/// The store of a daemon, and the limits that it keeps there.
#[derive(Debug, Serialize)]
pub(super) struct StoreUse {
    kind: &'static str,
    /// The directory or the first address; `None` for memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<String>,
    /// The limits that are kept there, as `namespace/limit`, then those of files of
    /// envoyproxy/ratelimit. For memory: those over an hour or longer, which a restart forgets.
    limits: Vec<String>,
    /// Whether `limits` are quotas, all of them.
    #[serde(skip)]
    are_quotas: bool,
}

impl StoreUse {
    /// The store of a daemon with this policy and the files that it names.
    pub(super) fn from_policy(policy: &Policy, files: Option<&Files>) -> Self {
        let of_files: Vec<String> = files.into_iter().flat_map(Files::quotas).map(str::to_owned).collect();
        let kind = policy.store.kind(policy.quotas().next().is_some() || !of_files.is_empty());
        let is_memory = kind == StoreKind::Memory;
        let mut are_quotas = true;
        let mut limits = Vec::new();
        for (namespace, limit) in policy.stored_limits() {
            let is_quota = limit.algorithm.is_quota();
            if is_quota || !is_memory {
                are_quotas &= is_quota;
                limits.push(format!("{namespace}/{}", limit.name));
            }
        }
        limits.extend(of_files);
        let (kind, place) = match kind {
            StoreKind::Embedded(embedded) => ("embedded", Some(embedded.path)),
            StoreKind::Redis(redis) => ("redis", redis.urls.into_iter().next()),
            _ => ("memory", None),
        };
        Self { kind, place, limits, are_quotas }
    }

    /// The store of a daemon whose policy has nothing but these files.
    pub(super) fn from_files(files: &Files) -> Self {
        let limits: Vec<String> = files.quotas().map(str::to_owned).collect();
        let place = (!limits.is_empty()).then(|| Embedded::PATH_DEFAULT.to_owned());
        let kind = if place.is_some() { "embedded" } else { "memory" };
        Self { kind, place, limits, are_quotas: true }
    }
}

impl StoreUse {
    /// The warning about quotas that a restart forgets; `None` if there are none.
    pub(super) fn forgetting(&self) -> Option<String> {
        let forgets = self.place.is_none() && !self.limits.is_empty();
        forgets.then(|| format!("quotas are kept in memory, and a restart forgets them: {}", self.named()))
    }

    /// The first of the limits, and how many more there are.
    fn named(&self) -> String {
        let named = self.limits.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
        match self.limits.len().saturating_sub(NAMED_MAX) {
            0 => named,
            more => format!("{named} and {more} more"),
        }
    }
}

impl fmt::Display for StoreUse {
    /// A line that ends with a line break; nothing where no limit is kept anywhere but in memory.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.are_quotas { "quotas" } else { "limits" };
        match &self.place {
            Some(place) if !self.limits.is_empty() => {
                writeln!(f, "{what} are kept in {place}: {}", self.named())
            }
            _ => Ok(()),
        }
    }
}
