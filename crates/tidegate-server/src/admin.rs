//! What operators look at: metrics, health, the limits there are, the keys that are refused most.

use std::sync::atomic::Ordering;

use http::{HeaderValue, StatusCode};
use serde::Serialize;
use tidegate::limit::{Limit, Missing, Mode};
use tidegate_wire::{Fault, FaultCode};
use utoipa::ToSchema;

use crate::daemon::Daemon;
use crate::metrics;
use crate::refused_keys::RefusedKey;
use crate::reply::{self, Reply};

/// The limits of the policy in force.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LimitsAnswer {
    /// All namespaces, in the order of the policy.
    namespaces: Vec<NamespaceAnswer>,
}

/// One namespace.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NamespaceAnswer {
    /// Its name.
    name: String,
    /// Its limits, in the order of the policy.
    limits: Vec<LimitDescription>,
}

/// One limit.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LimitDescription {
    /// Its name.
    name: String,
    /// The attributes it counts by.
    key: Vec<String>,
    /// The attributes it looks at to see whether it applies.
    matches: Vec<String>,
    /// The most it ever admits at once, in units.
    limit: u64,
    /// The span it counts over in milliseconds; absent for concurrency.
    #[serde(skip_serializing_if = "Option::is_none")]
    window_ms: Option<u64>,
    /// `enforce` or `shadow`.
    #[schema(value_type = String)]
    mode: &'static str,
    /// What happens to a request that lacks an attribute of `key`: `skip`, `refuse` or `group`.
    #[schema(value_type = String)]
    missing: &'static str,
    /// How many keys have numbers of their own.
    overrides: usize,
}

/// The keys that were refused most since the daemon started.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TopKeys {
    /// How many refusals there were in all.
    refusals: u64,
    /// The keys, the most refused first, at most 100.
    keys: Vec<RefusedKey>,
}

/// Whether the daemon lives.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    /// `ok`, or `draining` when it takes no new work.
    #[schema(value_type = String, example = "ok")]
    status: &'static str,
}

impl Daemon {
    pub(crate) fn limits(&self, query: Option<&str>) -> Result<Reply, Fault> {
        let wanted = query.and_then(|query| query.strip_prefix("namespace="));
        let mut namespaces = Vec::new();
        for name in self.engine.namespaces().filter(|name| wanted.is_none_or(|wanted| wanted == *name)) {
            let limits = self.engine.limits(name).into_iter().flatten().map(describe).collect();
            namespaces.push(NamespaceAnswer { name: name.to_owned(), limits });
        }
        if let (Some(wanted), true) = (wanted, namespaces.is_empty()) {
            let detail = format_args!("namespace \"{wanted}\" does not exist");
            return Err(Fault::new(FaultCode::UnknownNamespace, detail).fix("leave the query out to see all"));
        }
        Ok(reply::json(StatusCode::OK, &LimitsAnswer { namespaces }))
    }

    pub(crate) fn top_keys(&self) -> Reply {
        let (keys, refusals) = self.refused_keys.top();
        reply::json(StatusCode::OK, &TopKeys { refusals, keys })
    }

    pub(crate) fn metrics_page(&self) -> Reply {
        let media_type = HeaderValue::from_static(metrics::MEDIA_TYPE);
        reply::with_body(StatusCode::OK, media_type, self.metrics.page().into_bytes())
    }

    /// The process lives as long as it answers.
    pub(crate) fn health(&self) -> Reply {
        let status = if self.is_ready.load(Ordering::Relaxed) { "ok" } else { "draining" };
        reply::json(StatusCode::OK, &Health { status })
    }

    /// Whether to send it work.
    pub(crate) fn readiness(&self) -> Reply {
        if self.is_ready.load(Ordering::Relaxed) {
            return reply::json(StatusCode::OK, &Health { status: "ok" });
        }
        reply::json(StatusCode::SERVICE_UNAVAILABLE, &Health { status: "draining" })
    }
}

fn describe(limit: &Limit) -> LimitDescription {
    let window = limit.algorithm.window();
    LimitDescription {
        name: limit.name.clone(),
        key: limit.key.iter().map(|part| part.attribute.clone()).collect(),
        matches: limit.matches.iter().map(|condition| condition.attribute.clone()).collect(),
        limit: limit.algorithm.limit(),
        window_ms: window.map(tidegate_wire::retry_after::millis_up),
        mode: match limit.mode {
            Mode::Enforce => "enforce",
            Mode::Shadow => "shadow",
        },
        missing: match limit.missing {
            Missing::Skip => "skip",
            Missing::Refuse => "refuse",
            Missing::Group => "group",
        },
        overrides: limit.overrides.len(),
    }
}
