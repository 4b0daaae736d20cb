//! From the configuration as it is written to one that works: everything that depends on what the
//! values mean.

mod algorithm;
mod authorization;
mod bounded_part;
mod bounded_size;
mod bounded_span;
mod claims;
mod costs;
mod defaults;
pub(crate) mod document;
mod envoy;
mod escape;
mod features;
mod header;
mod limit;
mod matcher;
mod name_and_path;
mod path_expression;
mod planes;
mod plans;
mod proxy;
mod renames;
mod resources;
mod rlqs;
pub(crate) mod route_attributes;
mod routes_and_limits;
mod service;
mod store;
mod store_silence;
mod tables;
mod unreachable_route;
mod zone;

use std::collections::BTreeMap;

use self::features::ResourceNames;
use self::limit::LimitSurroundings;
use self::name_and_path::check_name;
use tidegate_core::gate::GateBuilder;
use tidegate_core::limit::Plans;
use tidegate_core::{Algorithm, Limit};

use crate::compare::leaves::PolicySettings;
use crate::path::Path;
use crate::policy::claims::RequestClaims;
use crate::policy::{NamespacePolicy, Policy, StoreChoice, StoreKind};
use crate::printable::shown;
use crate::problem::Report;
use crate::raw::limit::NumbersConfig;
use crate::raw::name_map::NameMap;
use crate::raw::rlqs::RlqsConfig;
use crate::raw::{Config, NamespaceConfig};

/// The settings in `config`. They are complete only if `report` has no problem afterwards. `env`
/// reads environment variables.
pub(crate) fn check(
    mut config: Config,
    env: &dyn Fn(&str) -> Option<String>,
    report: &mut Report<'_>,
) -> Policy {
    let top = Path::default();
    let store = store::store(config.store.as_ref(), env, &top.key("store"), report);
    let is_shared = matches!(store, StoreChoice::Named(StoreKind::Redis(_)));
    for (name, namespace) in config.namespaces.iter_mut().flatten() {
        defaults::apply(namespace, is_shared, &top.key("namespaces").key(name), report);
    }
    let namespaces = namespaces(&config, is_shared, &top.key("namespaces"), report);
    store::check(&config, &namespaces, &store, &top.key("namespaces"), report);
    if is_shared && !report.has_problems() {
        warn_of_shared_store(&config, &namespaces, &top.key("namespaces"), report);
    }
    let nodes = planes::nodes(config.nodes.as_deref(), &top.key("nodes"), report);
    let accounts = planes::accounts(config.accounts.as_deref(), &top.key("accounts"), report);
    tables::placement(&nodes, &accounts, &namespaces, &top, report);
    let resources = resources::resources(
        config.resources.as_ref(),
        config.namespaces.as_ref(),
        config.proxy.as_ref().is_some_and(|proxy| proxy.jwt.is_some()),
        &top.key("resources"),
        report,
    );
    let signals = resources::signals(config.signals.as_deref(), &resources, &top.key("signals"), report);
    let names: Vec<&str> = resources.iter().map(|resource| resource.name.as_str()).collect();
    let names = ResourceNames { names: &names, key: "resources" };
    let features = features::features(config.features.as_deref(), names, &top.key("features"), report);
    let envoy_ratelimit =
        config.envoy_ratelimit.as_ref().map(|raw| envoy::envoy(raw, &top.key("envoy_ratelimit"), report));
    let raw_proxy = config.proxy.unwrap_or_default();
    let mut proxy = proxy::proxy(
        &raw_proxy,
        config.namespaces.as_ref(),
        config.resources.as_ref(),
        config.listen.as_ref(),
        &top.key("proxy"),
        report,
    );
    resources::deferral::give_operations(&mut proxy.routes, &resources);
    let listen = config.listen.as_ref();
    let has_other_listeners = listen.is_some_and(|listen| listen.grpc.is_some() || listen.resp.is_some());
    let has_proxy = listen.is_some_and(|listen| listen.proxy.is_some());
    let is_only_proxied = has_proxy && !has_other_listeners && config.authorize.is_none();
    let has_api_callers = !is_only_proxied || listen.is_some_and(|listen| listen.http.is_some());
    // Sections are compared with each other only when each of them is complete.
    if !report.has_problems() {
        features::warn(&features, &namespaces, config.namespaces.as_ref(), &proxy.routes, report);
        routes_and_limits::warn(&namespaces, &proxy.routes, is_only_proxied, report);
        let raw_routes = raw_proxy.routes.as_deref().unwrap_or_default();
        unreachable_route::warn(&proxy.routes, raw_routes, &top.key("proxy").key("routes"), report);
        let raw = config.resources.iter().flat_map(NameMap::values);
        resources::queue_mismatch::warn_all(resources.iter().zip(raw), &proxy.routes, &top, report);
    }
    let grants = config.authorization.as_deref();
    let authorization = authorization::authorization(grants, &top.key("authorization"), report);
    let is_authorized = !authorization.is_empty();
    let policy = Policy {
        settings: PolicySettings::default(),
        authorization,
        proxy,
        envoy_ratelimit,
        listen: service::listen(
            &config.listen.unwrap_or_default(),
            is_authorized,
            &top.key("listen"),
            report,
        ),
        store,
        memory: service::memory(&config.memory.unwrap_or_default(), &top.key("memory"), report),
        metering: service::metering(&config.metering.unwrap_or_default(), &top.key("metering"), report),
        authorize: service::authorize(
            config.authorize.unwrap_or_default(),
            config.namespaces.as_ref(),
            &top.key("authorize"),
            report,
        ),
        namespaces,
        nodes,
        accounts,
        resources,
        signals,
        features,
        rlqs: rlqs::rlqs(
            config.rlqs.as_ref().unwrap_or(&RlqsConfig::default()),
            config.namespaces.as_ref(),
            &top.key("rlqs"),
            report,
        ),
        http: service::http(&config.http.unwrap_or_default(), &top.key("http"), report),
        log: service::log(&config.log.unwrap_or_default(), &top.key("log"), report),
    };
    if matches!(policy.store, StoreChoice::ForQuotas(_)) {
        let is_memory = policy.store.kind(policy.quotas().next().is_some()) == StoreKind::Memory;
        let kind = if is_memory { "memory" } else { "embedded" };
        report.effective(&top.key("store").key("kind"), kind);
    }
    if !report.has_problems() {
        resources::resource_mismatch::warn(&policy, has_api_callers, report);
        rlqs::warn(&policy, config.rlqs.is_some(), report);
        features::feature_mismatch::warn(&policy, has_api_callers, report);
    }
    policy
}

fn warn_of_shared_store(
    config: &Config,
    namespaces: &[NamespacePolicy],
    path: &Path,
    report: &mut Report<'_>,
) {
    let members = config.store.as_ref().and_then(|store| store.members);
    for (namespace, raw) in namespaces.iter().zip(config.namespaces.iter().flat_map(NameMap::values)) {
        let path = path.key(&namespace.name);
        let raw = raw.limits.as_deref().unwrap_or_default();
        store_silence::warn(namespace, raw, members, &path.key("limits"), report);
        tables::warn_uncounted(namespace, &path, report);
    }
}

fn namespaces(
    config: &Config,
    is_shared: bool,
    path: &Path,
    report: &mut Report<'_>,
) -> Vec<NamespacePolicy> {
    let Some(raw) = config.namespaces.as_ref().filter(|raw| !raw.is_empty()) else {
        // Neither a policy that only names files of envoyproxy/ratelimit needs a namespace, nor one
        // whose limits arrive with `CL.THROTTLE`.
        let serves_resp = config.listen.as_ref().is_some_and(|listen| listen.resp.is_some());
        if config.envoy_ratelimit.is_none() && !serves_resp {
            report.warn(
                path,
                "there is no namespace, so every check is answered 404",
                "add one under `namespaces:`",
            );
        }
        return Vec::new();
    };
    if raw.len() > NamespacePolicy::COUNT_MAX {
        let what = format!("{} namespaces", raw.len());
        report.value(path, what, format!("use at most {}", NamespacePolicy::COUNT_MAX));
        return Vec::new();
    }
    raw.into_iter()
        .map(|(name, namespace)| one_namespace(name, namespace, is_shared, &path.key(name), report))
        .collect()
}

fn one_namespace(
    name: &str,
    raw: &NamespaceConfig,
    is_shared: bool,
    path: &Path,
    report: &mut Report<'_>,
) -> NamespacePolicy {
    check_name("namespace", name, NamespacePolicy::NAME_BYTES_MAX, |what, fix| report.key(path, what, fix));
    let within = path.key("limits");
    let raw_limits = raw.limits.as_deref().unwrap_or_default();
    if raw_limits.is_empty() && raw.tables.is_none() {
        let what = format!("namespace \"{}\" has no limits, so it admits everything", shown(name));
        report.warn(path, what, "add some under `limits:`");
    }
    let mut namespace = NamespacePolicy {
        name: name.to_owned(),
        limits: Vec::new(),
        statuses: BTreeMap::new(),
        plans: None,
        costs: Vec::new(),
        tables: Vec::new(),
        request: RequestClaims::default(),
    };
    namespace.plans = plans::plans(raw, &path.key("plans"), report);
    namespace.costs = costs::costs(raw.costs.as_ref(), &path.key("costs"), report);
    namespace.tables = tables::tables(name, raw.tables.as_deref(), &path.key("tables"), report);
    let tables: Vec<&str> = namespace.tables.iter().map(|table| table.name.as_str()).collect();
    namespace.request = claims::request(raw.request.as_ref(), (name, &tables), &path.key("request"), report);
    if raw_limits.len() > GateBuilder::LIMITS_MAX {
        let what = format!("{} limits in one namespace", raw_limits.len());
        report.value(
            &within,
            what,
            format!("use at most {}, or split the namespace", GateBuilder::LIMITS_MAX),
        );
        return namespace;
    }
    count_attributes(raw, &within, report);
    let plans_path = path.key("plans");
    let around = LimitSurroundings { is_shared, plans: raw.plans.as_ref(), plans_path: &plans_path };
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, one) in raw_limits.iter().enumerate() {
        if report.is_full() {
            break;
        }
        let at = within.index(index);
        if let Some(first) = names.get(one.name.as_str()).filter(|_| !one.name.is_empty()) {
            let what = format!("duplicate limit name \"{}\"", shown(&one.name));
            let line = report.line_of(&within.index(*first).key("name"));
            report.value(&at.key("name"), what, format!("first defined at line {line}; rename one of them"));
        } else {
            names.insert(&one.name, index);
        }
        limit::check(one, around, &at, &mut namespace, report);
    }
    costs::warn(&namespace.costs, &namespace.limits, &path.key("costs"), report);
    renames::check(raw_limits, &within, report);
    escape::warn(&namespace, raw_limits, path, report);
    namespace
}

/// The algorithm of a limit with the numbers of an override, or what is wrong with them.
pub(crate) fn numbers(limit: &Limit, raw: &NumbersConfig, report: &mut Report<'_>) -> Option<Algorithm> {
    let texts = algorithm::SpelledNumbers::from_algorithm(&limit.algorithm);
    let written = algorithm::WrittenAlgorithm::from_limit(limit, &texts)?;
    written.overridden(raw, None, algorithm::ChangedBy::Override, &Path::default(), report)?.build(report)
}

fn count_attributes(raw: &NamespaceConfig, path: &Path, report: &mut Report<'_>) {
    let mut all: Vec<&str> = raw
        .limits
        .iter()
        .flatten()
        .flat_map(|limit| {
            let keys = limit.key.iter().flatten().map(limit::attribute_of);
            let zone = limit.calendar.as_ref().and_then(|calendar| calendar.zone_from.as_deref());
            let conditions = limit.matches.iter().flatten().map(|(attribute, _)| attribute.as_str());
            keys.chain(conditions).chain(zone)
        })
        .collect();
    if let Some(plans) = &raw.plans {
        all.extend(plans.assigned.iter().flatten().map(|(attribute, _)| attribute.as_str()));
        all.push(plans.attribute.as_deref().unwrap_or(Plans::ATTRIBUTE));
    }
    all.sort_unstable();
    all.dedup();
    if all.len() > GateBuilder::ATTRIBUTES_MAX {
        let what = format!("the limits of the namespace look at {} attributes", all.len());
        report.value(path, what, format!("use at most {}", GateBuilder::ATTRIBUTES_MAX));
    }
}
