//! The settings outside of `namespaces:`, each as one line of text, and which of them need a
//! restart.

use core::fmt::Write as _;
use core::hash::{Hash, Hasher};
use core::time::Duration;

use serde::Serialize;
use tidegate_capacity::{AccountConfig, NodeConfig, TableConfig};
use tidegate_core::limit::Plans;
use tidegate_core::rate::format_span;
use tidegate_core::{Class, WhenFull};

use crate::grammar::ValueSource;
use crate::measure::format_size;
use crate::policy::authorization::{Credential, Grant, Namespaces, Verb};
use crate::policy::claims::{ClassSource, RequestClaims};
use crate::policy::envoy::{EnvoyRatelimit, Headers, Semantics, Settings};
use crate::policy::proxy::Proxy;
use crate::policy::resources::{
    AdaptivePolicy, ConcurrencyPolicy, QueuePolicy, ResourcePolicy, ResourceShare, SignalPolicy,
    SignalSourcePolicy,
};
use crate::policy::{
    Durability, Format, Listener, NamespacePolicy, Policy, Redis, Sample, StoreChoice, StoreKind, Tls,
};
use crate::printable::shown;

/// A setting that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SettingChange {
    /// Its path in the policy, as `http.bounds.body`.
    pub path: &'static str,
    /// How it was; `none` where it was not set and has no default.
    pub old: String,
    /// How it is.
    pub new: String,
    /// Whether a running daemon goes on with the old one until it is started anew.
    pub needs_restart: bool,
}

/// The settings that a running daemon applies; all others take effect at a restart.
const TAKEN_OVER: [&str; 15] = [
    "namespaces.NAME.plans",
    "namespaces.NAME.costs",
    "namespaces.NAME.tables",
    "namespaces.NAME.request",
    "memory.waiting",
    "nodes",
    "accounts",
    "resources",
    "signals",
    "authorization",
    "proxy",
    "authorize.headers",
    "authorize.namespace",
    "http.legacy_headers",
    "log.refusals",
];

pub(super) fn compare(old: &Policy, new: &Policy) -> Vec<SettingChange> {
    // Files of `envoy_ratelimit` are not read here, so they count as having no quotas.
    let has_quotas = |policy: &Policy| policy.quotas().next().is_some();
    // A store that was opened for quotas stays open when the last of them is gone; that needs no
    // restart.
    let keeps_store = matches!(
        (&old.store, &new.store),
        (StoreChoice::ForQuotas(_), StoreChoice::ForQuotas(_)) if has_quotas(old)
    );
    settings(old, has_quotas(old))
        .into_iter()
        .zip(settings(new, keeps_store || has_quotas(new)))
        .filter(|((_, old), (_, new))| old != new)
        .map(|((path, old), (_, new))| {
            let needs_restart = !TAKEN_OVER.contains(&path) && !path.starts_with("envoy_ratelimit.");
            SettingChange { path, old, new, needs_restart }
        })
        .collect()
}

/// The entries of a list in one line; `none` if it is empty.
fn entries(all: impl Iterator<Item = String>) -> String {
    let all: Vec<String> = all.collect();
    if all.is_empty() { none() } else { all.join("; ") }
}

/// How the plan of a request is found; the numbers of plans are those of limits. `None` without
/// plans.
fn plans_in_words(namespace: &NamespacePolicy) -> Option<String> {
    let plans = namespace.plans.as_ref()?;
    let Plans { names, attribute, assigned, default, .. } = plans;
    let mut words = format!("{}: {} by {attribute}", namespace.name, names.join(", "));
    // Writing to a string does not fail.
    if let Some(default) = default {
        let _ = write!(words, ", otherwise {default}");
    }
    if !assigned.is_empty() {
        let _ = write!(words, ", {} assigned ({:08x})", assigned.len(), hash_of(assigned));
    }
    Some(words)
}

/// The rows of a cost table in a line; `None` without any.
fn costs_in_words(namespace: &NamespacePolicy) -> Option<String> {
    let rows = &namespace.costs;
    // Matchers have no equality; their printed form is complete.
    let hash = hash_of(&format!("{rows:?}"));
    (!rows.is_empty()).then(|| format!("{}: {} rows ({hash:08x})", namespace.name, rows.len()))
}

/// A number that differs when the value does.
fn hash_of(value: &impl Hash) -> u32 {
    let mut hash = std::collections::hash_map::DefaultHasher::new();
    value.hash(&mut hash);
    hash.finish() as u32
}

fn tables_in_words(namespace: &NamespacePolicy) -> impl Iterator<Item = String> {
    namespace.tables.iter().map(|table| {
        let TableConfig {
            name, read_units_per_second: read, write_units_per_second: write, partitions, ..
        } = table;
        let mut words =
            format!("{}/{name}: read {read}, write {write}, partitions {partitions}", namespace.name);
        let plain = TableConfig::new(&namespace.name, name, *read, *write).partitions(*partitions);
        if *table != plain {
            // The rest is compared as a whole.
            let rest = format!("{table:?}");
            let _ = write!(words, ", {} ({:08x})", table.mode.as_str(), hash_of(&rest));
        }
        words
    })
}

fn nodes_in_words(nodes: &[NodeConfig]) -> impl Iterator<Item = String> {
    nodes.iter().map(|NodeConfig { name, units_per_second: units, reserve_percent, .. }| {
        format!("{name}: {units} units, reserve {reserve_percent} %")
    })
}

fn accounts_in_words(accounts: &[AccountConfig]) -> impl Iterator<Item = String> {
    accounts.iter().map(|account| {
        let AccountConfig { name, read_units_per_second: read, write_units_per_second: write, .. } = account;
        format!("{name}: read {read}, write {write}")
    })
}

/// Where the requests of a namespace say more about themselves; `None` for the defaults.
fn request_in_words(namespace: &NamespacePolicy) -> Option<String> {
    let request = &namespace.request;
    if *request == RequestClaims::default() {
        return None;
    }
    let RequestClaims { tenant, class, tenants, deadline, attempt, access } = request;
    let mut words = format!("{}: tenant {tenant}, deadline {deadline}, attempt {attempt}", namespace.name);
    let ClassSource { from, default, ceiling } = class;
    // Writing to a string does not fail.
    let _ = match from {
        Some(from) => write!(words, ", class {from}, {default} to {ceiling}"),
        None => write!(words, ", class {default} to {ceiling}"),
    };
    if !tenants.is_empty() {
        let classes: Vec<String> =
            tenants.iter().map(|(tenant, class)| format!("{tenant}: {class}")).collect();
        let _ = write!(words, ", tenants {{ {} }}", classes.join(", "));
    }
    if let Some(access) = access {
        let sources: Vec<String> = access.sources().map(ValueSource::to_string).collect();
        let _ = write!(words, ", access {}", sources.join(" "));
    }
    Some(words)
}

fn resource_in_words(resource: &ResourcePolicy) -> String {
    let ResourcePolicy { name, concurrency, share, reserve_percent, queue, shares, status, show_load } =
        resource;
    let mut words = format!("{name}: concurrency {}", concurrency_in_words(*concurrency));
    if *share == ResourceShare::Auto {
        words.push_str(", share auto");
    }
    if *reserve_percent != ResourcePolicy::RESERVE_PERCENT {
        // Writing to a string does not fail.
        let _ = write!(words, ", reserve {reserve_percent} %");
    }
    if let Some(queue) = queue {
        words.push_str(&queue_in_words(queue));
    }
    if !shares.is_empty() {
        let shares: Vec<String> =
            shares.iter().map(|(namespace, share)| format!("{}: {share}", shown(namespace))).collect();
        let _ = write!(words, ", shares {{ {} }}", shares.join(", "));
    }
    if let Some(status) = status {
        let _ = write!(words, ", status {status}");
    }
    if *show_load {
        words.push_str(", show_load");
    }
    words
}

fn concurrency_in_words(concurrency: ConcurrencyPolicy) -> String {
    match concurrency {
        ConcurrencyPolicy::Fixed(places) => places.to_string(),
        ConcurrencyPolicy::Adaptive(adaptive) => {
            let AdaptivePolicy { algorithm, min, max, initial, ceiling } = adaptive;
            let ceiling = ceiling.map_or_else(String::new, |ceiling| format!(", ceiling {}", span(ceiling)));
            format!("{} from {min} to {max}, at first {initial}{ceiling}", algorithm.as_str())
        }
    }
}

fn queue_in_words(queue: &QueuePolicy) -> String {
    let QueuePolicy {
        requests,
        bytes,
        wait,
        weights,
        delay_targets,
        min_share_percent,
        priority_share_percent,
        lifo,
    } = queue;
    let by_class = |text: &dyn Fn(Class) -> Option<String>| {
        let all = Class::ALL.into_iter().filter_map(|class| Some(format!("{class}: {}", text(class)?)));
        all.collect::<Vec<_>>().join(", ")
    };
    let at = |class: Class| class as usize;
    let wait_of = |wait: Duration| if wait.is_zero() { "off".to_owned() } else { span(wait) };
    let wait = if wait.iter().all(|one| *one == wait[0]) {
        wait_of(wait[0])
    } else {
        format!("{{ {} }}", by_class(&|class| Some(wait_of(wait[at(class)]))))
    };
    let mut words = format!(", queue {requests} requests, {}, wait {wait}", size(*bytes));
    // Settings as they are unless told otherwise are left out. Writing to a string does not fail.
    if *weights != QueuePolicy::WEIGHTS {
        let _ = write!(words, ", weights {{ {} }}", by_class(&|class| Some(weights[at(class)].to_string())));
    }
    if *delay_targets != QueuePolicy::DELAY_TARGETS {
        let text = |class| Some(delay_targets[at(class)].map_or_else(|| "off".to_owned(), span));
        let _ = write!(words, ", delay_target {{ {} }}", by_class(&text));
    }
    if min_share_percent.iter().any(Option::is_some) {
        let text = |class| min_share_percent[at(class)].map(|percent| format!("{percent} %"));
        let _ = write!(words, ", min_share {{ {} }}", by_class(&text));
    }
    if *priority_share_percent != QueuePolicy::PRIORITY_SHARE_PERCENT {
        let _ = write!(words, ", priority_share {priority_share_percent} %");
    }
    if lifo.contains(&true) {
        let classes: Vec<&str> =
            Class::ALL.into_iter().filter(|class| lifo[at(*class)]).map(Class::as_str).collect();
        let _ = write!(words, ", lifo {}", classes.join(", "));
    }
    words
}

fn signal_in_words(signal: &SignalPolicy) -> String {
    let SignalPolicy { name, source, target, unit, smoothing, resource } = signal;
    let source = match source {
        SignalSourcePolicy::InFlight => "in_flight".to_owned(),
        SignalSourcePolicy::QueueDelay => "queue_delay".to_owned(),
        SignalSourcePolicy::SlowAnswers { slower_than } => {
            format!("slow_answers above {}", span(*slower_than))
        }
        SignalSourcePolicy::Push { ttl } => format!("push for {}", span(*ttl)),
    };
    let resource = resource.as_ref().map_or_else(String::new, |name| format!(" of {name}"));
    let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
    format!("{name}{resource}: {source}, target {target}{unit}, smoothing {}", span(*smoothing))
}

/// Every setting in the order of the reference; always the same paths. `has_quotas` decides the
/// store of a policy that names none.
fn settings(policy: &Policy, has_quotas: bool) -> Vec<(&'static str, String)> {
    let Policy {
        listen,
        store,
        memory,
        namespaces,
        nodes,
        accounts,
        resources,
        signals,
        authorization,
        authorize,
        proxy,
        envoy_ratelimit,
        http,
        log,
    } = policy;
    let mut all = vec![
        ("listen.http", listener(&listen.http)),
        ("listen.admin", listen.admin.as_ref().map_or_else(none, listener)),
        ("listen.proxy", listen.proxy.as_ref().map_or_else(none, listener)),
        ("listen.grpc", listen.grpc.as_ref().map_or_else(none, listener)),
        ("listen.resp", listen.resp.as_ref().map_or_else(none, listener)),
    ];
    all.extend(store_settings(&store.kind(has_quotas)));
    all.push(("memory.keys", size(memory.keys_bytes)));
    all.push(("memory.waiting", size(memory.waiting_bytes)));
    let when_full = match memory.when_full {
        WhenFull::Refuse => "refuse",
        WhenFull::Admit => "admit",
    };
    all.push(("memory.when_full", when_full.to_owned()));
    all.push(("namespaces.NAME.plans", entries(namespaces.iter().filter_map(plans_in_words))));
    all.push(("namespaces.NAME.costs", entries(namespaces.iter().filter_map(costs_in_words))));
    all.push(("namespaces.NAME.tables", entries(namespaces.iter().flat_map(tables_in_words))));
    all.push(("namespaces.NAME.request", entries(namespaces.iter().filter_map(request_in_words))));
    all.push(("nodes", entries(nodes_in_words(nodes))));
    all.push(("accounts", entries(accounts_in_words(accounts))));
    all.push(("resources", entries(resources.iter().map(resource_in_words))));
    all.push(("signals", entries(signals.iter().map(signal_in_words))));
    let grants: Vec<String> = authorization.iter().map(grant).collect();
    all.push(("authorization", entries(grants.into_iter())));
    let headers = authorize.headers.iter().map(|(header, attribute)| format!("{header}: {attribute}"));
    all.push(("authorize.headers", format!("{{ {} }}", headers.collect::<Vec<_>>().join(", "))));
    all.push(("authorize.namespace", authorize.namespace.clone().unwrap_or_else(none)));
    all.push(("proxy", proxy_in_words(proxy)));
    all.extend(envoy_settings(envoy_ratelimit.as_ref()));
    let legacy = [("x_rate_limit", http.x_rate_limit_headers), ("rate_limit", http.rate_limit_headers)];
    let legacy: Vec<&str> =
        legacy.into_iter().filter_map(|(name, is_sent)| is_sent.then_some(name)).collect();
    let bounds = &http.bounds;
    all.extend([
        ("http.legacy_headers", format!("[{}]", legacy.join(", "))),
        ("http.bounds.body", size(bounds.body_bytes)),
        ("http.bounds.headers", size(bounds.header_bytes)),
        ("http.bounds.header_count", bounds.headers.to_string()),
        ("http.bounds.attributes", bounds.attributes.to_string()),
        ("http.bounds.attribute", size(bounds.attribute_bytes)),
        ("http.bounds.connections", bounds.connections.to_string()),
        ("http.bounds.request_timeout", span(bounds.request_timeout)),
        ("http.bounds.drain_timeout", span(bounds.drain_timeout)),
        ("log.level", log.level.as_str().to_owned()),
        ("log.format", if log.format == Format::Json { "json" } else { "text" }.to_owned()),
        ("log.refusals", log.refusals.map_or_else(|| "off".to_owned(), |rate| rate.to_string())),
    ]);
    let decisions = log.decisions.as_ref();
    let sample = |sample| match sample {
        Sample::All => "all".to_owned(),
        Sample::Refusals => "refusals".to_owned(),
    };
    all.extend([
        ("log.decisions.path", decisions.map_or_else(none, |log| log.path.clone())),
        ("log.decisions.size", decisions.map_or_else(none, |log| format_size(log.size_bytes))),
        ("log.decisions.files", decisions.map_or_else(none, |log| log.files.to_string())),
        ("log.decisions.queue", decisions.map_or_else(none, |log| log.queue.to_string())),
        ("log.decisions.sample", decisions.map_or_else(none, |log| sample(log.sample))),
    ]);
    all
}

fn store_settings(store: &StoreKind) -> [(&'static str, String); 16] {
    let (kind, embedded, redis) = match store {
        StoreKind::Memory => ("memory", None, None),
        StoreKind::Embedded(embedded) => ("embedded", Some(embedded), None),
        StoreKind::Redis(redis) => ("redis", None, Some(redis)),
    };
    let (durability, interval) = match embedded.map(|embedded| embedded.durability) {
        None => (none(), none()),
        Some(Durability::Sync) => ("sync".to_owned(), none()),
        Some(Durability::Interval(every)) => ("interval".to_owned(), span(every)),
    };
    let said = |of: &dyn Fn(&Redis) -> Option<String>| redis.and_then(of).unwrap_or_else(none);
    [
        ("store.kind", kind.to_owned()),
        ("store.path", embedded.map_or_else(none, |embedded| embedded.path.clone())),
        ("store.durability", durability),
        ("store.interval", interval),
        ("store.memory", embedded.map_or_else(none, |embedded| size(embedded.memory_bytes))),
        ("store.disk", embedded.map_or_else(none, |embedded| format_size(embedded.disk_bytes))),
        ("store.urls", said(&|redis| Some(redis.urls.join(", ")))),
        ("store.cluster", said(&|redis| Some(redis.cluster.to_string()))),
        ("store.username", said(&|redis| redis.username.clone())),
        ("store.password_file", said(&|redis| redis.password_file.clone())),
        ("store.tls.ca", said(&|redis| redis.tls.ca.clone())),
        ("store.tls.cert", said(&|redis| redis.tls.client.as_ref().map(|(cert, _)| cert.clone()))),
        ("store.tls.key", said(&|redis| redis.tls.client.as_ref().map(|(_, key)| key.clone()))),
        ("store.prefix", said(&|redis| Some(redis.prefix.clone()))),
        ("store.deadline", said(&|redis| Some(span(redis.deadline)))),
        ("store.members", said(&|redis| Some(redis.members.to_string()))),
    ]
}

fn listener(listener: &Listener) -> String {
    let mut text = listener.address.to_string();
    match &listener.tls {
        None => {}
        Some(Tls { cert, key, client_ca: None }) => text.extend([" with ", cert, " and ", key]),
        Some(Tls { cert, key, client_ca: Some(ca) }) => {
            text.extend([" with ", cert, " and ", key, ", clients by ", ca]);
        }
    }
    if listener.proxy_protocol {
        text.push_str(", after the PROXY protocol");
    }
    text
}

fn envoy_settings(envoy: Option<&EnvoyRatelimit>) -> [(&'static str, String); 9] {
    let settings = envoy.map(|envoy| &envoy.settings);
    let said = |of: fn(&Settings) -> String| settings.map_or_else(none, of);
    let semantics = |settings: &Settings| match settings.semantics {
        Semantics::Strict => "strict".to_owned(),
        Semantics::Tidegate => "tidegate".to_owned(),
    };
    let headers = |settings: &Settings| {
        let Headers { enabled, limit, remaining, reset, retry_after } = &settings.headers;
        let of_peer = enabled.then_some([limit.as_str(), remaining, reset]);
        let own = retry_after.then_some("Retry-After");
        let all: Vec<&str> = of_peer.into_iter().flatten().chain(own).collect();
        if all.is_empty() { "off".to_owned() } else { all.join(", ") }
    };
    [
        ("envoy_ratelimit.path", envoy.map_or_else(none, |envoy| envoy.path.clone())),
        ("envoy_ratelimit.semantics", said(semantics)),
        ("envoy_ratelimit.shadow", said(|settings| settings.shadow.to_string())),
        ("envoy_ratelimit.quota_mode", said(|settings| settings.quota_mode.to_string())),
        ("envoy_ratelimit.near_limit_ratio", said(|settings| settings.near_limit_ratio.to_string())),
        ("envoy_ratelimit.headers", said(headers)),
        ("envoy_ratelimit.dynamic_metadata", said(|settings| settings.dynamic_metadata.to_string())),
        ("envoy_ratelimit.merge_domains", said(|settings| settings.merge_domains.to_string())),
        (
            "envoy_ratelimit.stop_increment_when_over_limit",
            said(|settings| settings.stop_increment_when_over_limit.to_string()),
        ),
    ]
}

/// A grant in words. A token is not told from another: nothing may be made of it.
fn grant(grant: &Grant) -> String {
    let Grant { name, credential, namespaces, verbs, ceiling } = grant;
    let credential = match credential {
        Credential::TokenFile(file) => format!("tokens in {file}"),
        Credential::Token(_) => "a token".to_owned(),
        Credential::Certificate(name) => format!("certificate {name}"),
    };
    let namespaces = match namespaces {
        Namespaces::All => "*".to_owned(),
        Namespaces::Some(names) => names.join(", "),
    };
    let verbs: Vec<&str> = verbs.iter().map(Verb::as_str).collect();
    let ceiling = match ceiling {
        Class::CriticalPlus => String::new(),
        ceiling => format!(", at most {ceiling}"),
    };
    format!("{name} by {credential}: {} in {namespaces}{ceiling}", verbs.join(", "))
}

/// The reverse proxy in a line: how much of it there is, and a number made of all of it, which
/// differs when it does.
fn proxy_in_words(proxy: &Proxy) -> String {
    let (upstreams, routes) = (proxy.upstreams.len(), proxy.routes.len());
    format!("{upstreams} upstreams, {routes} routes ({:08x})", hash_of(&format!("{proxy:?}")))
}

fn size(bytes: usize) -> String {
    format_size(bytes as u64)
}

fn span(span: Duration) -> String {
    format_span(span)
}

fn none() -> String {
    "none".to_owned()
}
