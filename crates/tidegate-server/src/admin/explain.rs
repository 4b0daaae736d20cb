//! Explanations of a decision, limit by limit: `POST /v1/explain`, and the same for a policy that
//! no daemon runs.

use core::num::NonZeroU64;
use core::time::Duration;

use http::StatusCode;
use tidegate_clock::{Clock, SystemClock};
use tidegate_core::display::{CivilInstant, HumanDuration};
use tidegate_core::gate::{
    self, Counting, Explanation, FoundPlan, FoundZone, Level, Outlook, PlanSource, Standing,
};
use tidegate_core::{Cost, Reason, Refusal, Retry, Timestamp, random_seed};
use tidegate_engine::{
    Engine, EngineConfig, Explained, FeatureReport, LeaseConfig, LoadReport, Progress, Request,
    numbers_in_words,
};
use tidegate_net::reply::{self, Reply};
use tidegate_policy::Policy;
use tidegate_policy::envoy::{Code, DescriptorDecision, FileRule};
use tidegate_policy::policy::StoreKind;
use tidegate_store::{MemoryConfig, MemoryStore};
use tidegate_wire::explanation::{
    CounterExplanation, DecidedBy, ExpectedDecision, ExplanationBody, FeatureExplanation, LevelExplanation,
    LimitExplanation, LoadExplanation, NumbersOf, PlanExplanation, PlanFoundBy, PlaneExplanation, Unmatched,
    ZoneExplanation, ZoneOf,
};
use tidegate_wire::headers::ShownFeature;
use tidegate_wire::operation::{Explain, ExplainedDoor, read};
use tidegate_wire::problem::sentence;
use tidegate_wire::problem_details::details_of;
use tidegate_wire::reason::RetryKind;
use tidegate_wire::retry_after::{millis, millis_of, millis_up};
use tidegate_wire::text::shortened;
use tidegate_wire::{Fault, FaultCode};

use crate::admin::access_explanation::explain_access;
use crate::admin::ticket_explanation::explain_ticket;
use crate::api::operations::NamedAccess;
use crate::api::route::{Route, RouteAccess};
use crate::authorization::Caller;
use crate::claims::{OwnClaims, value_in};
use crate::context::RequestScope;
use crate::engine_fault::{build_fault, engine_fault};
use crate::envoy::envoy_files::CurrentFiles;
use crate::envoy::file_domains::{descriptors_of, malformed};
use crate::planes::with_planes;
use crate::policy_config::namespaces;

/// The route of explanations.
pub(crate) const ROUTES: &[Route] = &[Route::post(
    "/v1/explain",
    "What each limit and its resource are to a request, and why; charges nothing",
    |call| call.with_body(|scope, _, body| async move { scope.explain(&body).await }),
)
.access(RouteAccess::Inspector)
.takes("Explain")
.answers("ExplanationBody")];

/// The table of an engine that only explains: of one request.
const TABLE_BYTES: usize = 1 << 16;

/// How much of a value is shown in a sentence, in bytes. Beside the sentence it stands whole.
const SHOWN_BYTES: usize = 64;

impl RequestScope<'_> {
    /// Answers `POST /v1/explain`.
    pub(crate) async fn explain(&self, body: &[u8]) -> Result<Reply, Fault> {
        let check: Explain<'_> = read(body)?;
        let pairs = self.bounded(&check.attributes)?;
        let own = OwnClaims::from_class(check.class.map(|class| class.0));
        let own = own.feature(check.feature.as_deref()).ticket(check.ticket.as_deref());
        let cost = check.cost.map(|cost| cost.0);
        let mut request = self.request_of(&check.namespace, &pairs, cost, own, &Caller::ANYONE)?;
        let named = self.in_force.config.claims.of_namespace(&check.namespace);
        let is_found = check.tenant.is_some() || request.tenant.is_some();
        let is_routed = match check.door {
            Some(door) => door == ExplainedDoor::Proxy,
            None => !is_found,
        };
        let route =
            self.in_force.config.claims.tenant_at_route(&check.namespace, check.resource.as_deref(), &pairs);
        let route = route.filter(|_| is_routed);
        if is_routed || check.tenant.is_some() {
            let by_route = route.map(|(tenant, _)| tenant);
            request.tenant = check.tenant.as_deref().or(by_route);
            let source = named.class.from.as_ref().filter(|_| route.is_none());
            let entry = || source.and_then(|from| value_in(from, &pairs)?.parse().ok());
            let default = route.map_or(named.class.default, |(_, route)| route.class);
            request.class = named.class_of(own.class.or_else(entry), request.tenant, default);
        }
        // An explanation takes no place.
        let access = NamedAccess::from_body(check.access.as_ref())?;
        self.add_named(&mut request, check.resource.as_deref(), &access, &Caller::ANYONE)?;
        let now = self.daemon.clock.now();
        let planes = &self.in_force.config.planes;
        let wait = match (check.wait_ms, check.door) {
            (0, Some(ExplainedDoor::Check)) => Duration::ZERO,
            (0, _) => planes.wait(request.resource, request.class),
            (millis, _) => {
                planes.bounded_wait(Duration::from_millis(millis), request.resource, request.class)
            }
        };
        request.may_wait_until = Some(now.saturating_add(wait));
        if let Some(files) = self.files_of(request.namespace) {
            let explained = self.explain_domain(&files, &request, now).await?;
            return Ok(reply::json(StatusCode::OK, &explained));
        }
        let explained = self.complete(self.in_force.engine.explain(&request, now)).await?;
        // Waits count from the answer: the store may have taken a while.
        let now = self.daemon.clock.now();
        let mut body = body_of(&request, &explained, now);
        body.load = explained.load.as_ref().map(|load| explain_load(load, request.tenant, now));
        body.ticket = explain_ticket(&self.in_force.engine, &request, now);
        if let Some(load) = body.load.as_mut().filter(|_| route.is_some() && check.tenant.is_none()) {
            load.door = Some(ExplainedDoor::Proxy);
        }
        add_plan_and_cost(&mut body, &self.in_force.engine, &request, cost.is_some());
        Ok(reply::json(StatusCode::OK, &body))
    }
}

impl RequestScope<'_> {
    /// Explains each rule of a domain of files for a request with attributes, in the order of the
    /// files.
    async fn explain_domain(
        &self,
        files: &CurrentFiles,
        request: &Request<'_>,
        now: Timestamp,
    ) -> Result<ExplanationBody, Fault> {
        let domain = request.namespace;
        let pairs: Vec<(&str, &str)> = request.attributes.iter().collect();
        let descriptors = descriptors_of(files, domain, &pairs, request.cost, true)?;
        let (mut decisions, mut is_over) = (Vec::new(), false);
        if !descriptors.is_empty() {
            let mut resolved = files.resolve(domain, &descriptors, 0).map_err(malformed)?;
            self.ask_counters(&mut resolved, now).await?;
            decisions = resolved.decisions(now);
            is_over = resolved.answer(now).overall_code == Code::OverLimit;
        }
        let is_shared = self.daemon.shared.is_some();
        let limits = files.rules_of(domain).into_iter().flatten().map(|rule| {
            let met = decisions.iter().find(|one| one.rule == Some(rule.name));
            match met {
                Some(met) => {
                    let entries = &descriptors[met.descriptor].entries;
                    let is_stored = is_shared || (self.daemon.asks_store && is_quota(met));
                    explain_rule(rule.name, met, entries, is_stored, now)
                }
                None => unmet_rule(&rule, &pairs),
            }
        });
        let would = if is_over { ExpectedDecision::Refuse } else { ExpectedDecision::Admit };
        Ok(body_of_limits(request, would, limits.collect(), now))
    }
}

/// Why a rule does not apply to a request with these attributes.
fn unmet_rule(rule: &FileRule<'_>, attributes: &[(&str, &str)]) -> LimitExplanation {
    let bare = bare(rule.name, rule.is_shadow);
    if rule.limits.is_empty() {
        return unapplied(bare, "it is unlimited, so it counts nothing".to_owned());
    }
    match rule.unmet(attributes) {
        Some((attribute, value, wants)) => {
            let wants = wants.map_or_else(|| "any value".to_owned(), |wants| format!("\"{wants}\""));
            unmatched(bare, attribute, value, wants)
        }
        None => unapplied(bare, "another rule that fits its attributes better comes before it".to_owned()),
    }
}

fn is_quota(decision: &DescriptorDecision<'_>) -> bool {
    decision.window.is_some_and(|window| window >= Duration::from_hours(1))
}

/// Explains a rule that applies to a request.
fn explain_rule(
    name: &str,
    met: &DescriptorDecision<'_>,
    entries: &[(&str, &str)],
    is_stored: bool,
    now: Timestamp,
) -> LimitExplanation {
    let DescriptorDecision { limit, remaining, used, .. } = *met;
    let level =
        LevelExplanation { limit, used, remaining, reset_ms: millis_up(met.reset_at.saturating_since(now)) };
    let counted = LimitExplanation {
        would: Some(ExpectedDecision::Admit),
        because: format!("{remaining} of {limit} left"),
        counter: Some(CounterExplanation {
            key: entries.iter().map(|(key, value)| ((*key).to_owned(), Some((*value).to_owned()))).collect(),
            numbers: met.algorithm.map_or_else(|| limit.to_string(), numbers_in_words),
            decided_by: if is_stored { DecidedBy::Store } else { DecidedBy::Member },
            level: Some(level),
            ..CounterExplanation::default()
        }),
        ..bare(name, met.is_shadow)
    };
    match met.refusal {
        Some((reason, retry)) => {
            refused(counted, refusal(reason, retry, met.hits, (remaining, limit), now), reason, retry, now)
        }
        None => counted,
    }
}

/// A limit with a condition that does not hold.
fn unmatched(
    bare: LimitExplanation,
    attribute: &str,
    value: Option<&str>,
    wants: String,
) -> LimitExplanation {
    let because = match value {
        Some(value) => format!("{attribute} is \"{}\"; it wants {wants}", shortened(value, SHOWN_BYTES)),
        None => format!("the request has no {attribute}; it wants {wants}"),
    };
    let (attribute, value) = (attribute.to_owned(), value.map(str::to_owned));
    LimitExplanation { unmatched: Some(Unmatched { attribute, value, wants }), ..unapplied(bare, because) }
}

/// A limit of which nothing more is known yet.
fn bare(name: &str, is_shadow: bool) -> LimitExplanation {
    LimitExplanation {
        name: name.to_owned(),
        applies: true,
        shadow: is_shadow,
        ..LimitExplanation::default()
    }
}

/// A limit that does not apply.
fn unapplied(bare: LimitExplanation, because: String) -> LimitExplanation {
    LimitExplanation { applies: false, because, ..bare }
}

/// Explains the limits of a policy for a request now, as if nothing had been charged yet. `units`
/// is its cost; `None` for the cost that the policy gives it.
///
/// Errors: the namespace does not exist, or the limits make no engine.
pub fn explain_fresh(
    policy: &Policy,
    namespace: &str,
    attributes: &[(&str, &str)],
    units: Option<NonZeroU64>,
) -> Result<ExplanationBody, Fault> {
    let now = SystemClock::new().now();
    let fault = |error| engine_fault(&error, now);
    let mut config = EngineConfig::seeded(random_seed());
    config.table.bytes = TABLE_BYTES;
    // So that it says where a daemon would decide each limit.
    let store = policy.store.kind(policy.quotas().next().is_some());
    config.asks_store = store != StoreKind::Memory;
    if matches!(store, StoreKind::Redis(_)) {
        config.leases.insert(LeaseConfig::new(0)).holders_max = 1;
    }
    let engine = Engine::builder(config).namespaces(namespaces(policy)).build();
    let engine = engine.map_err(|error| build_fault(&error))?;
    let engine = with_planes(&engine, policy, now).map_err(|error| build_fault(&error))?;
    if policy.envoy_ratelimit.is_some() && engine.limits(namespace).is_err() {
        let what =
            format!("\"{namespace}\" is no namespace of the policy; domains of its `envoy_ratelimit` files");
        let fix = "ask the daemon that runs with it: `tidegate explain --at URL`";
        let what = format!("{what} are explained by a daemon only");
        return Err(Fault::new(FaultCode::UnknownNamespace, what).fix(fix));
    }
    let store = MemoryStore::new(MemoryConfig::new(random_seed()), move || now);
    let own = units.and_then(|units| Cost::new(units.get()));
    let cost = own.map_or_else(|| engine.cost_of(namespace, attributes), Ok).map_err(fault)?;
    let request = Request::new(namespace, attributes).cost(cost);
    let mut progress = engine.explain(&request, now).map_err(fault)?;
    let explained = loop {
        match progress {
            Progress::Done(explained) => break explained,
            Progress::Ask(asking) => {
                let answer = store.run_now(asking.batch());
                progress = asking.resume(&engine, answer, now).map_err(fault)?;
            }
        }
    };
    let mut body = body_of(&request, &explained, now);
    add_plan_and_cost(&mut body, &engine, &request, own.is_some());
    Ok(body)
}

/// Adds the plan of a request, and the row of the cost table that it meets unless it says its cost.
fn add_plan_and_cost(body: &mut ExplanationBody, engine: &Engine, request: &Request<'_>, says_cost: bool) {
    let (namespace, attributes) = (request.namespace, request.attributes);
    if !says_cost {
        body.cost_row = engine.cost_row(namespace, attributes).ok().flatten();
    }
    let plan = engine.plan_for(namespace, attributes).ok().flatten();
    body.plan = plan.as_ref().map(plan_of);
    if plan.is_none()
        && let Ok((Some(plans), _)) = engine.namespace_settings(namespace)
    {
        body.unknown_plan = attributes.get(&plans.attribute).map(str::to_owned);
    }
}

fn body_of(request: &Request<'_>, explained: &Explained, now: Timestamp) -> ExplanationBody {
    let would = match explained.wait() {
        Some(_) => ExpectedDecision::Wait,
        None if explained.is_refused() => ExpectedDecision::Refuse,
        None => ExpectedDecision::Admit,
    };
    let limits = explained.limits.iter().map(|one| limit(one, request.cost.units(), now));
    ExplanationBody {
        store_failure: explained.store_failure.clone(),
        planes: explained.planes.iter().map(|refusal| plane(refusal, now)).collect(),
        rehearsed: explained.rehearsed.iter().map(|refusal| plane(refusal, now)).collect(),
        access: explained.access.iter().map(explain_access).collect(),
        ..body_of_limits(request, would, limits.collect(), now)
    }
}

fn body_of_limits(
    request: &Request<'_>,
    would: ExpectedDecision,
    limits: Vec<LimitExplanation>,
    now: Timestamp,
) -> ExplanationBody {
    ExplanationBody {
        namespace: request.namespace.to_owned(),
        cost: request.cost.units(),
        would,
        at: now.to_whole_millis().to_string(),
        limits,
        ..ExplanationBody::default()
    }
}

/// Explains the resource of a request of `tenant`.
fn explain_load(load: &LoadReport, tenant: Option<&str>, now: Timestamp) -> LoadExplanation {
    let LoadReport { level, in_flight, in_flight_max, .. } = *load;
    let cursor = load.cursor.level();
    let says = match load.is_below_cursor {
        true => "shed",
        // Each class has a position of its own, and this one is that of a higher class.
        false if level < cursor => "not shed, for its own class is served",
        false => "not shed",
    };
    LoadExplanation {
        resource: load.resource.as_deref().map(str::to_owned),
        shadow: load.is_shadow,
        class: load.class.as_str().to_owned(),
        tenant: tenant.map(|tenant| shortened(tenant, SHOWN_BYTES).into_owned()),
        door: None,
        level,
        cursor,
        in_flight,
        in_flight_max,
        would: if load.is_below_cursor { ExpectedDecision::Refuse } else { ExpectedDecision::Admit },
        wait_max_ms: load.wait.map(|wait| millis_up(wait.longest)),
        wait_estimate_ms: load.wait.and_then(|wait| wait.estimated).map(millis_up),
        feature: load.feature.as_ref().map(|feature| explain_feature(feature, now)),
        because: format!("its level is {level}, the cursor of its namespace at {cursor}: {says}"),
    }
}

/// Explains the level of the feature of a request.
fn explain_feature(feature: &FeatureReport, now: Timestamp) -> FeatureExplanation {
    let FeatureReport { name, level, is_off, is_shadow, class, .. } = feature;
    let retry = feature.retry_at.map(|at| at.saturating_since(now));
    let because = match (is_off, is_shadow) {
        (false, false) => "its requests are served at that level",
        (true, false) => "its requests are refused",
        (_, true) => "it only shows that level, and its requests are served at the best one",
    };
    let again = retry
        .filter(|_| !is_shadow)
        .map(|retry| format!("; on again in {} at the earliest", HumanDuration(retry)));
    FeatureExplanation {
        name: name.to_string(),
        level: level.to_string(),
        is_off: *is_off,
        shadow: *is_shadow,
        class: class.as_str().to_owned(),
        retry_after_ms: retry.map(millis_up),
        because: because.to_owned() + &again.unwrap_or_default(),
    }
}

fn plane(refusal: &Refusal, now: Timestamp) -> PlaneExplanation {
    let view = refusal.view();
    let details = details_of(&view);
    let member =
        |wanted: &str| details.as_ref().filter(|(name, _)| *name == wanted).map(|(_, json)| json.clone());
    let feature = ShownFeature::from_refusal(view.details);
    PlaneExplanation {
        plane: refusal.plane().as_str().to_owned(),
        name: refusal.name().to_owned(),
        reason: refusal.reason().as_str().to_owned(),
        because: sentence(refusal, now),
        retry: RetryKind::from(refusal.retry()).as_str().to_owned(),
        retry_after_ms: millis_of(&view, now),
        capacity: member("capacity"),
        overload: member("overload"),
        feature: feature.as_ref().map(|one| one.name.to_string()),
        feature_level: feature.as_ref().map(|one| one.level.to_string()),
    }
}

fn limit(one: &Explanation, cost: u64, now: Timestamp) -> LimitExplanation {
    let bare = bare(&one.name, one.is_shadow);
    match &one.standing {
        Standing::Unmatched { attribute, value, wants } => {
            unmatched(bare, attribute, value.as_deref(), wants.clone())
        }
        Standing::Skipped { lacks } => {
            let why =
                format!("the request has no {lacks}, and without it the limit is skipped (missing: skip)");
            LimitExplanation { lacks: Some(lacks.clone()), ..unapplied(bare, why) }
        }
        Standing::Insists { lacks } => {
            let why = format!("the request has no {lacks}, and without it all are refused (missing: refuse)");
            let bare = LimitExplanation { lacks: Some(lacks.clone()), ..bare };
            refused(bare, why, Reason::AttributeMissing, Retry::Never, now)
        }
        Standing::Unlimited { plan } => {
            let why = format!("plan {} is unlimited", shortened(&plan.name, SHOWN_BYTES));
            LimitExplanation { plan: Some(plan_of(plan)), ..unapplied(bare, why) }
        }
        Standing::Counts(counting) => {
            let plan = match &counting.numbers_of {
                gate::NumbersOf::Plan(plan) => Some(plan_of(plan)),
                _ => None,
            };
            let counted = LimitExplanation {
                would: Some(ExpectedDecision::Admit),
                because: admission(counting),
                plan,
                counter: Some(counter(counting, now)),
                ..bare
            };
            let mut counted = match counting.level {
                Some(Level { outlook: Outlook::Refuse { reason, retry }, limit, remaining, .. }) => {
                    let of = match reason {
                        Reason::CostExceedsLimit => counting.algorithm.largest_cost(),
                        _ => limit,
                    };
                    refused(counted, refusal(reason, retry, cost, (remaining, of), now), reason, retry, now)
                }
                _ => counted,
            };
            if let names @ [_, ..] = counting.no_addresses.as_slice() {
                counted.because.extend(["; ", as_written(names).as_str()]);
            }
            counted
        }
    }
}

/// Attributes whose values should be addresses and are none.
fn as_written(names: &[String]) -> String {
    match names {
        [name] => format!("{name} is no address and counts as written"),
        names => format!("{} are no addresses and count as written", names.join(" and ")),
    }
}

fn refused(
    limit: LimitExplanation,
    because: String,
    reason: Reason,
    retry: Retry,
    now: Timestamp,
) -> LimitExplanation {
    LimitExplanation {
        would: Some(ExpectedDecision::Refuse),
        because,
        reason: Some(reason.as_str().to_owned()),
        retry: Some(RetryKind::from(retry).as_str().to_owned()),
        retry_after_ms: millis(retry, now),
        ..limit
    }
}

/// Why a limit that counts admits.
fn admission(counting: &Counting) -> String {
    match &counting.level {
        Some(level) if level.used == 0 => {
            format!("{} of {} left, nothing is used", level.remaining, level.limit)
        }
        Some(level) => format!("{} of {} left", level.remaining, level.limit),
        None => "the store does not answer, and it then lets requests pass uncounted".to_owned(),
    }
}

/// Why a limit refuses, and when it would not.
fn refusal(
    reason: Reason,
    retry: Retry,
    cost: u64,
    (remaining, limit): (u64, u64),
    now: Timestamp,
) -> String {
    let left = format!("{remaining} of {limit} left");
    let why = match reason {
        Reason::CostExceedsLimit => {
            return format!("a cost of {cost} is more than it ever admits at once, {limit}");
        }
        Reason::Blocked => "the key is blocked".to_owned(),
        Reason::StoreUnavailable => "the store that decides it does not answer".to_owned(),
        Reason::TableFull => "there is no memory for another key".to_owned(),
        Reason::ConcurrencyExceeded => format!("all places are taken: {left}"),
        _ if remaining == 0 => format!("used up: {left}"),
        _ => format!("not enough for a cost of {cost}: {left}"),
    };
    match millis(retry, now) {
        Some(wait) => format!("{why}; again in {}", HumanDuration::from_millis(wait)),
        None => why,
    }
}

/// When the civil window that something is used of ends, on a clock in its zone.
fn window_end(counting: &Counting) -> Option<String> {
    let zone = counting.algorithm.civil_zone()?;
    let level = counting.level.as_ref().filter(|level| level.used > 0)?;
    Some(CivilInstant { at: level.reset_at, zone }.to_string())
}

fn plan_of(plan: &FoundPlan) -> PlanExplanation {
    let (found_by, attribute, value) = match &plan.found_by {
        PlanSource::Assigned { attribute, value } => (PlanFoundBy::Assigned, Some(attribute), Some(value)),
        PlanSource::Attribute { attribute } => (PlanFoundBy::Attribute, Some(attribute), Some(&plan.name)),
        PlanSource::Default { unknown } => (PlanFoundBy::Default, None, unknown.as_ref()),
    };
    PlanExplanation {
        name: plan.name.clone(),
        found_by,
        attribute: attribute.cloned(),
        value: value.cloned(),
    }
}

fn zone_of(zone: &FoundZone) -> ZoneExplanation {
    let because = match zone.counts {
        gate::ZoneOf::LimitUnknown => Some("it is no IANA time zone"),
        gate::ZoneOf::LimitTooMany => Some("requests of this namespace have named too many time zones"),
        _ => None,
    };
    ZoneExplanation {
        attribute: zone.attribute.clone(),
        value: zone.value.clone(),
        zone_of: match zone.counts {
            gate::ZoneOf::Attribute => ZoneOf::Attribute,
            gate::ZoneOf::Override => ZoneOf::Override,
            _ => ZoneOf::Limit,
        },
        because: because.map(str::to_owned),
    }
}

fn counter(counting: &Counting, now: Timestamp) -> CounterExplanation {
    let pairs = |when: &[(String, String)]| when.iter().cloned().collect();
    let (numbers_of, overrides, until) = match &counting.numbers_of {
        gate::NumbersOf::Limit => (NumbersOf::Limit, None, None),
        gate::NumbersOf::Plan(_) => (NumbersOf::Plan, None, None),
        gate::NumbersOf::Policy { when } => (NumbersOf::Policy, Some(pairs(when)), None),
        gate::NumbersOf::RunTime { when, until } => {
            (NumbersOf::RunTime, Some(pairs(when)), until.map(|until| until.to_whole_millis().to_string()))
        }
    };
    CounterExplanation {
        key: counting.key.iter().cloned().collect(),
        numbers: numbers_in_words(&counting.algorithm),
        numbers_of,
        overrides,
        until,
        decided_by: match counting.decided_by {
            gate::DecidedBy::Member => DecidedBy::Member,
            gate::DecidedBy::Store => DecidedBy::Store,
            gate::DecidedBy::Lease => DecidedBy::Lease,
        },
        zone: counting.zone.as_ref().map(zone_of),
        refund_on: Some(counting.refund_on.to_string()).filter(|endings| !endings.is_empty()),
        window_end: window_end(counting),
        blocks_for_ms: counting.blocks_for.map(millis_up),
        level: counting.level.as_ref().map(|level| LevelExplanation {
            limit: level.limit,
            used: level.used,
            remaining: level.remaining,
            reset_ms: millis_up(level.reset_at.saturating_since(now)),
        }),
    }
}
