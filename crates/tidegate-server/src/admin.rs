//! The pages for operators: metrics, health, limits, members, and the keys that are refused most.

pub(crate) mod access_explanation;
pub(crate) mod blocks;
pub(crate) mod explain;
pub(crate) mod features;
pub(crate) mod figures;
pub(crate) mod limit_descriptions;
pub mod overrides;
pub(crate) mod permits;
pub(crate) mod readiness;
pub(crate) mod resource_history;
pub(crate) mod resource_rates;
pub(crate) mod resources;
pub(crate) mod tables;
pub(crate) mod ticket_explanation;
pub(crate) mod usage;

use core::time::Duration;
use std::borrow::Cow;

use http::{HeaderValue, StatusCode};
use serde::Serialize;
use tidegate_core::Reason;
use tidegate_core::rate::parse_span;
use tidegate_engine::{RequestError, numbers_in_words};
use tidegate_net::reply::{self, Reply};
use tidegate_policy::envoy::FileRule;
use tidegate_policy::nearest;
use tidegate_policy::policy::authorization::Verb;
use tidegate_wire::leases::AcknowledgedBody;
use tidegate_wire::retry_after::millis_up;
use tidegate_wire::text::shortened;
use tidegate_wire::{Fault, FaultCode};

use crate::admin::limit_descriptions::{
    DomainAnswer, NamespaceAnswer, RuleAnswer, TableDescription, describe_namespace,
};
use crate::admin::overrides::OverrideAnswer;
use crate::api::parameters::Accepted;
use crate::api::route::{Route, RouteAccess};
use crate::authorization::Caller;
use crate::context::RequestScope;
use crate::engine_fault::{SHOWN_BYTES, engine_fault};
use crate::envoy::envoy_files::EnvoyFiles;
use crate::fleet::members;
use crate::metrics;
use crate::protocol::RESP_NAMESPACE;
use crate::records::refused_keys::{KeyGroups, KeySelection, SCOPE_OF_SHED, WINDOW_DEFAULT, WINDOW_MAX};
use crate::reload::reload_status::LastError;

/// The routes of the pages for operators.
pub(crate) const ROUTES: &[Route] = &[
    Route::get("/v1/limits", "The limits there are", |call| {
        Box::pin(async move { call.scope.limits(call.query()) })
    })
    .answers("LimitsAnswer")
    .query(LIMITS),
    Route::get("/v1/keys/top", "The keys that were refused most within a window", |call| {
        Box::pin(async move { call.scope.top_keys(call.query()) })
    })
    .answers("TopKeysBody")
    .query(TOP_KEYS),
    Route::get("/v1/leases", "Members that share the store, and the leases that each holds", |call| {
        Box::pin(async move { call.scope.leases().await })
    })
    .answers("LeasesBody"),
    Route::post(
        "/v1/leases/acknowledge",
        "Count quotas anew after the shared store has lost its data, on this member; POST without a body",
        |call| {
            Box::pin(async move {
                call.caller.may_everywhere(Verb::Change)?;
                call.body.discard();
                call.scope.acknowledge_loss(call.caller).await
            })
        },
    )
    .access(RouteAccess::Operator)
    .answers("AcknowledgedBody"),
    Route::get("/rlconfig", "The limits of the files of envoyproxy/ratelimit, as text", |call| {
        Box::pin(async move { call.scope.rlconfig() })
    }),
    Route::get("/metrics", "Metrics in the OpenMetrics text format", |call| {
        Box::pin(async move { Ok(call.scope.metrics_page()) })
    }),
    Route::get("/healthz", "Whether the daemon lives", |call| {
        Box::pin(async move { Ok(call.scope.health()) })
    })
    .access(RouteAccess::Everyone)
    .answers("Health"),
    Route::get("/readyz", "Whether to send it work", |call| {
        Box::pin(async move { Ok(call.scope.readiness()) })
    })
    .access(RouteAccess::Everyone)
    .answers("Health"),
];

/// The limits of the policy in force.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct LimitsAnswer {
    /// The policy in force, and the result of the last reload.
    policy: PolicyAnswer,
    /// All namespaces, in the order of the policy.
    namespaces: Vec<NamespaceAnswer>,
    /// The domains of envoyproxy/ratelimit's files that no namespace hides, in alphabetical order;
    /// absent without such domains.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    domains: Vec<DomainAnswer>,
    /// Numbers of single keys set while running. They win over those of the policy.
    overrides: Vec<OverrideAnswer>,
}

/// Which policy is in force.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct PolicyAnswer {
    /// 1 for the policy of the start, one more for each that replaced it.
    version: u64,
    /// A number made of its text: the same on every member that runs the same; empty if it came
    /// from no file.
    fingerprint: String,
    /// When it came into force, as RFC 3339.
    since: String,
    /// How long ago that was.
    age_ms: u64,
    /// Why a later policy was not taken over; absent if the last one was.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<LastError>,
    /// Settings of it that only count after a restart, by their path.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    restart_needed: Vec<String>,
}

/// The parameters of `/v1/keys/top`.
const TOP_KEYS: Accepted = Accepted {
    route: "/v1/keys/top",
    once: &["namespace", "limit", "reason", "by", "window", "n"],
    repeated: &["key"],
};

/// The default and the largest number of keys that `/v1/keys/top` lists.
const TOP_KEYS_DEFAULT: usize = 20;
const TOP_KEYS_MAX: usize = 1000;

/// The shortest window of `/v1/keys/top`.
const WINDOW_MIN: Duration = Duration::from_secs(1);

/// The parameters of `/v1/limits`.
const LIMITS: Accepted = Accepted { route: "/v1/limits", once: &["namespace"], repeated: &[] };

/// The status of a daemon that is ready.
const READY: &str = "ok";

/// Whether the daemon lives.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct Health {
    /// `ok`, or why it should not be sent work: `draining`; `waiting for the store`, with the limit
    /// that refuses without it, until the shared store has answered once; or that the store is used
    /// by a newer lease protocol.
    #[cfg_attr(test, schema(value_type = String, example = "ok"))]
    status: Cow<'static, str>,
}

impl RequestScope<'_> {
    pub(crate) fn limits(&self, query: Option<&str>) -> Result<Reply, Fault> {
        let parameters = LIMITS.read(query)?;
        let wanted = parameters.get("namespace");
        let mut namespaces = Vec::new();
        for name in
            self.in_force.engine.namespaces().filter(|name| wanted.is_none_or(|wanted| wanted == *name))
        {
            let limits = self.in_force.engine.limits(name).into_iter().flatten();
            let settings = self.in_force.engine.namespace_settings(name).unwrap_or((None, &[]));
            let statuses = &self.in_force.config.statuses;
            namespaces.push(describe_namespace(name, limits, settings, self.tables_of(name), statuses));
        }
        let domains = self.domains(wanted);
        if let (Some(wanted), true) = (wanted, namespaces.is_empty() && domains.is_empty()) {
            return Err(self.unknown_namespace(wanted));
        }
        let mut overrides = self.described();
        overrides.retain(|one| wanted.is_none_or(|wanted| one.is_of(wanted)));
        Ok(reply::json(
            StatusCode::OK,
            &LimitsAnswer { policy: self.policy(), namespaces, domains, overrides },
        ))
    }

    fn tables_of(&self, namespace: &str) -> Vec<TableDescription> {
        let all = self.in_force.engine.table_statuses(0, self.daemon.clock.now());
        let own = all.filter(|table| table.namespace == namespace);
        own.map(|table| TableDescription {
            name: table.name.to_owned(),
            read_units_per_second: table.read.rate.whole_left(),
            write_units_per_second: table.write.rate.whole_left(),
        })
        .collect()
    }

    /// The domains of files that answer here, or the one that is wanted.
    fn domains(&self, wanted: Option<&str>) -> Vec<DomainAnswer> {
        let Some(files) = self.in_force.config.envoy_ratelimit.as_ref().map(EnvoyFiles::get) else {
            return Vec::new();
        };
        let names = files.domains().filter(|name| wanted.is_none_or(|wanted| wanted == *name));
        let served = names.filter(|name| self.in_force.engine.limits(name).is_err());
        served
            .map(|name| DomainAnswer {
                name: name.to_owned(),
                rules: files.rules_of(name).into_iter().flatten().map(|rule| describe_rule(&rule)).collect(),
            })
            .collect()
    }

    fn policy(&self) -> PolicyAnswer {
        let version = &self.in_force.version;
        let status = self.daemon.changes.status().clone();
        PolicyAnswer {
            version: version.number,
            fingerprint: version.fingerprint.clone(),
            since: version.since.to_whole_millis().to_string(),
            age_ms: millis_up(self.daemon.clock.now().saturating_since(version.since)),
            last_error: status.error().cloned(),
            restart_needed: status.restart_needed,
        }
    }

    /// The keys that were refused most.
    pub(crate) fn top_keys(&self, query: Option<&str>) -> Result<Reply, Fault> {
        let parameters = TOP_KEYS.read(query)?;
        let selection = KeySelection {
            namespace: parameters.get("namespace"),
            limit: parameters.get("limit"),
            reason: parameters.parsed(
                "reason",
                "a reason",
                |text| Reason::ALL.into_iter().find(|known| known.as_str() == text),
                || {
                    let all: Vec<&str> = Reason::ALL.into_iter().map(Reason::as_str).collect();
                    format!("use one of {}", all.join(", "))
                },
            )?,
            key: parameters.pairs("key")?,
            tenants: Some(&self.in_force.config.claims),
        };
        let by = parameters.parsed(
            "by",
            "a way to group keys",
            |text| (text == "tenant").then_some(KeyGroups::Tenants),
            || "write it as by=tenant; without it each key is listed".to_owned(),
        )?;
        let window = parameters.parsed(
            "window",
            "a span from 1s to 1h",
            |text| parse_span(text).filter(|span| (WINDOW_MIN..=WINDOW_MAX).contains(span)),
            || "write it as 30s, 5m or 1h; without it the window is 1m".to_owned(),
        )?;
        let n = parameters.number("n", TOP_KEYS_DEFAULT, TOP_KEYS_MAX)?;
        let now = self.daemon.clock.now();
        let refused = &self.daemon.refused_keys;
        let window = window.unwrap_or(WINDOW_DEFAULT);
        let mut top = refused.top(&selection, by.unwrap_or_default(), window, n, now);
        let other = selection.key.iter().map(|(attribute, _)| &**attribute);
        let mut other = other.filter(|attribute| !SCOPE_OF_SHED.contains(attribute));
        if let Some((namespace, attribute)) = selection.namespace.zip(other.next()) {
            let attribute = shortened(attribute, SHOWN_BYTES);
            let because = self.in_force.config.claims.why_no_tenant(namespace, &attribute);
            top.without_tenant =
                because.and_then(|because| refused.without_tenant(&selection, window, because, now));
        }
        if let Some(namespace) = selection.namespace.filter(|_| top.keys.is_empty()) {
            self.check_selection(namespace, selection.limit)?;
        }
        Ok(reply::json(StatusCode::OK, &top))
    }

    /// Checks, for a selection without results, that its namespace and its limit exist.
    pub(crate) fn check_selection(&self, namespace: &str, limit: Option<&str>) -> Result<(), Fault> {
        let limits: Option<Vec<String>> = match self.in_force.engine.limits(namespace) {
            Ok(limits) => Some(limits.map(|limit| limit.name.clone()).collect()),
            Err(_) => self.files_of(namespace).and_then(|files| {
                let rules = files.rules_of(namespace)?.map(|rule| rule.name.to_owned());
                // Limits may come with descriptors as well.
                Some(rules.chain([metrics::OVERRIDE.to_owned()]).collect())
            }),
        };
        match (limits, limit) {
            (None, _) if namespace == RESP_NAMESPACE || self.daemon.refused_keys.knows(namespace) => Ok(()),
            (None, _) => Err(self.unknown_namespace(namespace)),
            (Some(_), Some(limit)) if metrics::limits::MECHANISMS.contains(&limit) => Ok(()),
            (Some(limits), Some(limit)) if !limits.iter().any(|known| known == limit) => {
                let shown = shortened(limit, SHOWN_BYTES);
                let detail = format_args!("namespace \"{namespace}\" has no limit \"{shown}\"");
                let known = limits.iter().map(String::as_str).chain(metrics::limits::MECHANISMS);
                let fix = match nearest(limit, known) {
                    Some(near) => format!("did you mean \"{near}\"?"),
                    None => "see GET /v1/limits for the limits there are".to_owned(),
                };
                Err(Fault::new(FaultCode::UnknownLimit, detail).fix(fix))
            }
            (Some(_), _) => Ok(()),
        }
    }

    /// The members that share the store, and the leases of each. A daemon that shares none, and
    /// lends limits by itself, is the only member.
    pub(crate) async fn leases(&self) -> Result<Reply, Fault> {
        let now = self.daemon.clock.now();
        let Some(members) = &self.daemon.members else {
            if self.in_force.engine.lease_totals().is_some() {
                let alone =
                    members::alone(&self.daemon.member, self.daemon.since, &self.in_force.engine, now);
                return Ok(reply::json(StatusCode::OK, &alone));
            }
            let detail = "this daemon shares no store with others, so nothing is leased";
            return Err(Fault::new(FaultCode::UnknownRoute, detail).fix("use `store: { kind: redis }`"));
        };
        // While the store does not answer, the page shows the members seen last.
        let _ = self.daemon.see_members().await;
        let answer = members.answer(&self.in_force.engine, self.daemon.clock.now());
        Ok(reply::json(StatusCode::OK, &answer))
    }

    /// The limits of the files of envoyproxy/ratelimit, a line for each.
    pub(crate) fn rlconfig(&self) -> Result<Reply, Fault> {
        let Some(files) = &self.in_force.config.envoy_ratelimit else {
            let detail = "the policy has no `envoy_ratelimit`, so there are no files to show";
            let fix = "name them under `envoy_ratelimit.path`; limits of namespaces are at /v1/limits";
            return Err(Fault::new(FaultCode::UnknownRoute, detail).fix(fix));
        };
        let media_type = HeaderValue::from_static("text/plain; charset=utf-8");
        Ok(reply::with_body(StatusCode::OK, media_type, files.get().dump().into_bytes()))
    }

    /// Acknowledges for all members that the shared store has lost its data: quotas go on counting
    /// from what there is.
    pub(crate) async fn acknowledge_loss(&self, caller: &Caller) -> Result<Reply, Fault> {
        let Some(shared) = &self.daemon.shared else {
            return Ok(reply::json(StatusCode::OK, &AcknowledgedBody { acknowledged: false }));
        };
        let loss = shared.acknowledge_loss().await;
        let loss =
            loss.map_err(|error| engine_fault(&RequestError::Store(error), self.daemon.clock.now()))?;
        if let Some(loss) = &loss {
            tracing::warn!(
                target: "tidegate::audit",
                grant = caller.grant_everywhere(Verb::Change),
                expected = loss.expected,
                found = loss.found,
                "the loss of the store's counters is acknowledged here for all members; quotas count from what there is"
            );
        }
        Ok(reply::json(StatusCode::OK, &AcknowledgedBody { acknowledged: loss.is_some() }))
    }

    pub(crate) fn metrics_page(&self) -> Reply {
        let media_type = HeaderValue::from_static(metrics::MEDIA_TYPE);
        reply::with_body(StatusCode::OK, media_type, self.daemon.metrics.page().into_bytes())
    }

    /// The process lives as long as it answers.
    pub(crate) fn health(&self) -> Reply {
        reply::json(StatusCode::OK, &self.health_body())
    }

    /// Whether to send it work.
    pub(crate) fn readiness(&self) -> Reply {
        let body = self.health_body();
        let status = if body.status == READY { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        reply::json(status, &body)
    }

    fn health_body(&self) -> Health {
        Health { status: self.daemon.unready().map_or(Cow::Borrowed(READY), Cow::Owned) }
    }
}

fn describe_rule(rule: &FileRule<'_>) -> RuleAnswer {
    let entries = rule.entries.iter().map(|(key, value)| ((*key).to_owned(), value.map(str::to_owned)));
    RuleAnswer {
        name: rule.name.to_owned(),
        entries: entries.collect(),
        limits: rule.limits.iter().map(|limit| numbers_in_words(limit)).collect(),
        mode: if rule.is_shadow { "shadow" } else { "enforce" }.to_owned(),
    }
}
