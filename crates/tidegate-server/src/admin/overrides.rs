//! Other numbers for one key, set while running: `PUT` and
//! `DELETE /v1/overrides/{namespace}/{limit}?{attribute}={value}`.
//!
//! The address names the override, so that setting it twice is setting it once; the body has its
//! numbers. The history of changes, with author and reason, is stored beside the override and kept
//! for [`HISTORY_KEPT`].

use core::time::Duration;
use std::borrow::Cow;

use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tidegate_core::Timestamp;
use tidegate_engine::{AdminError, Engine, OverrideState, RequestError, RuntimeOverride};
use tidegate_net::query;
use tidegate_net::reply::{self, Reply};
use tidegate_policy::policy::authorization::Verb;
use tidegate_store::StoreError;
use tidegate_wire::operation::read;
use tidegate_wire::{Fault, FaultCode};

use crate::api::parameters::Accepted;
use crate::api::route::{Route, RouteCall, RouteFuture};
use crate::authorization::Caller;
use crate::context::RequestScope;
use crate::fleet::override_history::{AuditEntry, audit_note};
pub use crate::fleet::override_history::{HISTORY_KEPT, HISTORY_MAX};

/// The longest an override may be set for.
const EXPIRES_MAX: Duration = Duration::from_hours(24 * 3660);

/// The parameters of `GET /v1/overrides`.
const OVERRIDES: Accepted = Accepted { route: "/v1/overrides", once: &["namespace"], repeated: &[] };

/// The routes.
pub(crate) const ROUTES: &[Route] = &[
    Route::get("/v1/overrides", "Numbers of single keys set while running", |call| {
        Box::pin(async move { call.scope.overrides(call.query()) })
    })
    .answers("OverridesAnswer")
    .query(OVERRIDES),
    Route::put("/v1/overrides/{namespace}/{limit}", "Set the numbers of some keys", set)
        .takes("OverrideBody")
        .answers("OverrideAnswer"),
    Route::delete("/v1/overrides/{namespace}/{limit}", "Take numbers away again", remove)
        .takes("RemovalBody")
        .answers("OverrideAnswer"),
    // For an error that says how an address looks.
    Route::put("/v1/overrides/{namespace}", "", set),
    Route::delete("/v1/overrides/{namespace}", "", remove),
];

fn set(call: RouteCall<'_>) -> RouteFuture<'_> {
    let address = OverridePath::read(&call);
    call.with_body(|scope, caller, body| async move { scope.set_override(caller, address?, &body).await })
}

fn remove(call: RouteCall<'_>) -> RouteFuture<'_> {
    let address = OverridePath::read(&call);
    call.with_body(|scope, caller, body| async move { scope.remove_override(caller, address?, &body).await })
}

/// The body of a request that sets an override.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct OverrideBody {
    /// The numbers, in the words of the policy: `{"rate": "200/s", "burst": 400}` or
    /// `{"limit": 50}`. Numbers that are left out are those of the limit.
    #[cfg_attr(test, schema(value_type = Object))]
    #[serde(deserialize_with = "tidegate_wire::object::without_duplicates")]
    numbers: Map<String, Value>,
    /// After how many milliseconds it no longer applies. Without it, it applies until it is
    /// deleted.
    #[serde(default)]
    expires_ms: Option<u64>,
    /// The reason, for later readers; 1 to 1024 bytes.
    reason: String,
    /// The author, as the caller says; at most 1024 bytes. Nothing verifies it: the history has the
    /// grant beside it.
    #[serde(default)]
    by: String,
}

/// Why an override is taken away.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct RemovalBody {
    /// The reason, for later readers; at most 1024 bytes.
    #[serde(default)]
    reason: String,
    /// The author of the removal, as the caller says; at most 1024 bytes. Nothing verifies it: the
    /// history has the grant beside it.
    #[serde(default)]
    by: String,
}

/// One override.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct OverrideAnswer {
    namespace: String,
    limit: String,
    /// The attributes it is for, with their values.
    #[cfg_attr(test, schema(value_type = Object))]
    when: Map<String, Value>,
    /// The numbers, in words.
    numbers: String,
    /// `active`, `dormant` (its limit is gone or does not take it any more) or `expired`.
    #[cfg_attr(test, schema(value_type = String))]
    state: &'static str,
    /// Why it is dormant.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// When it ends, as RFC 3339; absent if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
    reason: String,
    by: String,
    /// When it was set, as RFC 3339.
    set_at: String,
}

impl OverrideAnswer {
    pub(crate) fn is_of(&self, namespace: &str) -> bool {
        self.namespace == namespace
    }
}

/// All overrides set at run time, and how they came to be.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct OverridesAnswer {
    overrides: Vec<OverrideAnswer>,
    /// The last 1000 changes, the latest first.
    history: Vec<AuditEntry>,
}

/// The override that a path and a query name.
struct OverridePath {
    namespace: String,
    limit: String,
    when: Vec<(String, String)>,
}

/// Why an override was not changed.
enum Unchanged {
    Fault(Box<Fault>),
    Engine(AdminError),
    Store(StoreError),
}

impl From<StoreError> for Unchanged {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<AdminError> for Unchanged {
    fn from(error: AdminError) -> Self {
        Self::Engine(error)
    }
}

impl From<RequestError> for Unchanged {
    fn from(error: RequestError) -> Self {
        Self::Engine(error.into())
    }
}

impl From<Fault> for Unchanged {
    fn from(fault: Fault) -> Self {
        Self::Fault(Box::new(fault))
    }
}

impl RequestScope<'_> {
    /// All overrides and their history, or those of one namespace.
    pub(crate) fn overrides(&self, query: Option<&str>) -> Result<Reply, Fault> {
        let parameters = OVERRIDES.read(query)?;
        let wanted = parameters.get("namespace");
        let mut overrides = self.described();
        overrides.retain(|one| wanted.is_none_or(|wanted| one.is_of(wanted)));
        let is_wanted = |entry: &&AuditEntry| wanted.is_none_or(|wanted| entry.namespace == wanted);
        let history: Vec<_> = self.daemon.history.entries().iter().rev().filter(is_wanted).cloned().collect();
        if let Some(namespace) = wanted.filter(|_| overrides.is_empty() && history.is_empty()) {
            self.check_selection(namespace, None)?;
        }
        Ok(reply::json(StatusCode::OK, &OverridesAnswer { overrides, history }))
    }

    /// Every override set at run time.
    pub(crate) fn described(&self) -> Vec<OverrideAnswer> {
        let engine = &self.in_force.engine;
        engine.overrides(self.daemon.clock.now()).map(|(one, state)| describe(one, &state)).collect()
    }

    async fn set_override(
        &self,
        caller: &Caller,
        address: OverridePath,
        body: &[u8],
    ) -> Result<Reply, Fault> {
        let grant = caller.permitted(Verb::Change, &address.namespace)?.map(str::to_owned);
        let body: OverrideBody = read(body)?;
        let expires = body.expires_ms.map(Duration::from_millis);
        check_text(&body.reason, "reason", 1)?;
        check_text(&body.by, "by", 0)?;
        if expires.is_some_and(|span| span.is_zero() || span > EXPIRES_MAX) {
            let detail = format_args!(
                "expires_ms {} is not 1 to {}",
                body.expires_ms.unwrap_or(0),
                EXPIRES_MAX.as_millis()
            );
            return Err(Fault::new(FaultCode::MalformedBody, detail).field("expires_ms"));
        }
        let mut entry = None;
        let changed = self.daemon.change_engine(|engine, now| {
            let limit = engine
                .limits(&address.namespace)?
                .find(|limit| limit.name == address.limit)
                .ok_or_else(|| unknown_limit(&address))?;
            let numbers = Value::Object(body.numbers).to_string();
            let numbers = tidegate_policy::parse_numbers(limit, &numbers)
                .map_err(|problems| Fault::new(FaultCode::MalformedBody, problems).field("numbers"))?;
            let mut one = RuntimeOverride::new(
                &address.namespace,
                &address.limit,
                address.when.clone(),
                numbers.algorithm,
                now,
            );
            one.fixes_zone = numbers.fixes_zone;
            one.until = expires.map(|span| now.saturating_add(span));
            one.reason = body.reason;
            one.by = body.by;
            let audit = AuditEntry {
                at: now.to_whole_millis().to_string(),
                change: Cow::Borrowed("set"),
                namespace: address.namespace.clone(),
                limit: address.limit.clone(),
                when: object(&address.when),
                before: address.find(engine, now).map(|(known, _)| known.numbers_in_words()),
                after: Some(one.numbers_in_words()),
                reason: one.reason.clone(),
                by: one.by.clone(),
                grant: grant.clone(),
            };
            let (engine, note) = engine.with_override(one, now)?;
            let notes = vec![note, audit_note(&audit, now)];
            entry = Some(audit);
            Ok::<_, Unchanged>((engine, notes))
        });
        changed.await.map_err(|error| self.fault(error))?;
        self.record(entry);
        let now = self.daemon.clock.now();
        let in_force = self.daemon.in_force.load_full();
        match address.find(&in_force.engine, now) {
            Some((one, state)) => Ok(reply::json(StatusCode::OK, &describe(one, &state))),
            None => Err(Fault::new(FaultCode::Internal, "the override was removed in the meantime")),
        }
    }

    async fn remove_override(
        &self,
        caller: &Caller,
        address: OverridePath,
        body: &[u8],
    ) -> Result<Reply, Fault> {
        let grant = caller.permitted(Verb::Change, &address.namespace)?.map(str::to_owned);
        let body: RemovalBody = if body.is_empty() { RemovalBody::default() } else { read(body)? };
        check_text(&body.reason, "reason", 0)?;
        check_text(&body.by, "by", 0)?;
        let mut entry = None;
        let mut removed = None;
        let changed = self.daemon.change_engine(|engine, now| {
            let Some((known, _)) = address.find(engine, now) else {
                let detail = format_args!(
                    "limit \"{}\" of namespace \"{}\" has no override for these attributes",
                    address.limit, address.namespace
                );
                return Err(Fault::new(FaultCode::UnknownLimit, detail).fix("see GET /v1/overrides").into());
            };
            let audit = AuditEntry {
                at: now.to_whole_millis().to_string(),
                change: Cow::Borrowed("removed"),
                namespace: address.namespace.clone(),
                limit: address.limit.clone(),
                when: object(&address.when),
                before: Some(known.numbers_in_words()),
                after: None,
                reason: body.reason,
                by: body.by,
                grant: grant.clone(),
            };
            let (engine, note) =
                engine.without_override(&address.namespace, &address.limit, &address.when)?;
            let notes = vec![note, audit_note(&audit, now)];
            entry = Some(audit);
            removed = Some(known.clone());
            Ok((engine, notes))
        });
        changed.await.map_err(|error: Unchanged| self.fault(error))?;
        self.record(entry);
        let removed = removed.expect("set before the change was made");
        Ok(reply::json(StatusCode::OK, &describe(&removed, &OverrideState::Expired)))
    }

    fn fault(&self, unchanged: Unchanged) -> Fault {
        match unchanged {
            Unchanged::Fault(fault) => *fault,
            Unchanged::Engine(error) => self.admin_fault(&error, self.daemon.clock.now()),
            Unchanged::Store(error) => {
                let fault = Fault::new(FaultCode::StoreUnavailable, error);
                fault.fix("nothing is changed; repeat it when the store answers").retry_after(1)
            }
        }
    }

    /// Logs a change and adds it to the history.
    fn record(&self, entry: Option<AuditEntry>) {
        let Some(entry) = entry else { return };
        tracing::info!(
            target: "tidegate::audit",
            change = &*entry.change,
            namespace = entry.namespace,
            limit = entry.limit,
            when = entry.when_text(),
            before = entry.before,
            after = entry.after,
            reason = entry.reason,
            by = entry.by,
            grant = entry.grant,
            "an override was changed"
        );
        self.daemon.history.push(entry);
    }
}

impl OverridePath {
    /// Reads the segments of the path, and the query.
    fn read(call: &RouteCall<'_>) -> Result<Self, Fault> {
        Self::new(call.segment("namespace")?, call.segment("limit")?, call.query())
    }

    fn new(namespace: Option<String>, limit: Option<String>, query: Option<&str>) -> Result<Self, Fault> {
        let malformed = |detail: &str| {
            Fault::new(FaultCode::MalformedQuery, detail)
                .fix("PUT /v1/overrides/{namespace}/{limit}?{attribute}={value}")
        };
        let (Some(namespace), Some(limit)) = (namespace, limit) else {
            return Err(malformed("the path names no namespace and limit"));
        };
        let mut when: Vec<(String, String)> = Vec::new();
        for parameter in query::parameters(query.unwrap_or("")) {
            let decoded = parameter.decoded().map_err(|error| malformed(&format!("the query {error}")))?;
            let (name, value) = (decoded.0.into_owned(), decoded.1.into_owned());
            if when.iter().any(|(known, _)| *known == name) {
                return Err(malformed("duplicate attribute in the query"));
            }
            when.push((name, value));
        }
        if when.is_empty() {
            return Err(malformed("the query names no attribute: an override is for some keys, not for all"));
        }
        when.sort();
        Ok(Self { namespace, limit, when })
    }

    /// The override at this address, if there is one, and whether it applies at `now`.
    fn find<'e>(&self, engine: &'e Engine, now: Timestamp) -> Option<(&'e RuntimeOverride, OverrideState)> {
        engine.overrides(now).find(|(one, _)| {
            let mut when = one.when.clone();
            when.sort();
            one.namespace == self.namespace && one.limit == self.limit && when == self.when
        })
    }
}

fn unknown_limit(address: &OverridePath) -> Fault {
    let detail = format_args!("namespace \"{}\" has no limit \"{}\"", address.namespace, address.limit);
    Fault::new(FaultCode::UnknownLimit, detail).fix("see GET /v1/limits for the limits there are")
}

fn check_text(text: &str, field: &'static str, least: usize) -> Result<(), Fault> {
    if (least..=RuntimeOverride::TEXT_BYTES_MAX).contains(&text.len()) {
        return Ok(());
    }
    let detail =
        format_args!("{field} has {} bytes, not {least} to {}", text.len(), RuntimeOverride::TEXT_BYTES_MAX);
    Err(Fault::new(FaultCode::MalformedBody, detail).field(field))
}

fn object(when: &[(String, String)]) -> Map<String, Value> {
    when.iter().map(|(name, value)| (name.clone(), Value::String(value.clone()))).collect()
}

fn describe(one: &RuntimeOverride, state: &OverrideState) -> OverrideAnswer {
    let (state, why) = match state {
        OverrideState::Active => ("active", None),
        OverrideState::Dormant(why) => ("dormant", Some(why.clone())),
        OverrideState::Expired => ("expired", None),
        _ => ("unknown", None),
    };
    OverrideAnswer {
        namespace: one.namespace.clone(),
        limit: one.limit.clone(),
        when: object(&one.when),
        numbers: one.numbers_in_words(),
        state,
        why,
        until: one.until.map(|until| until.to_whole_millis().to_string()),
        reason: one.reason.clone(),
        by: one.by.clone(),
        set_at: one.set_at.to_whole_millis().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &[&str], query: Option<&str>) -> Result<OverridePath, Fault> {
        let segment = |index: usize| path.get(index).map(|&text| text.to_owned());
        OverridePath::new(segment(0), segment(1), query)
    }

    #[test]
    fn an_address_names_namespace_limit_and_attributes_in_any_order() {
        let address = read(&["api", "per user"], Some("user=ada+l&app=%C3%BC")).unwrap();
        assert_eq!((address.namespace.as_str(), address.limit.as_str()), ("api", "per user"));
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(address.when, [pair("app", "\u{fc}"), pair("user", "ada l")]);
    }

    #[test]
    fn an_address_that_names_no_override_says_how_one_looks() {
        for (path, query, hint) in [
            (&[][..], Some("user=ada"), "no namespace and limit"),
            (&["api"], Some("user=ada"), "no namespace and limit"),
            (&["api", "per-user"], None, "not for all"),
            (&["api", "per-user"], Some("user=a&user=b"), "duplicate"),
            (&["api", "per-user"], Some("user=%ff"), "not UTF-8"),
            (&["api", "per-user"], Some("user=100%"), "a % without two digits"),
        ] {
            let Err(fault) = read(path, query) else { panic!("{path:?} was taken") };
            assert!(fault.detail.contains(hint), "{path:?}: {}", fault.detail);
        }
    }
}
