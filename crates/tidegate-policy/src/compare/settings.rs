//! The settings besides the limits, each by its path with its value in words, and which of them
//! need a restart.

use core::fmt;
use core::time::Duration;

use serde::Serialize;
use tidegate_capacity::{AccountConfig, NodeConfig, TableConfig, Units};
use tidegate_core::limit::{Condition, PlanAssignment, Plans};
use tidegate_core::rate::format_span;
use tidegate_core::{Class, Cost};
use tidegate_overload::{AdaptiveLimitConfig, FleetShare, QueueConfig, ResourceConfig, SignalConfig};

use super::leaves::{SettingLeaves, differences};
use crate::measure::format_size;
use crate::policy::authorization::{Credential, Grant, Namespaces, Verb};
use crate::policy::claims::{AccessSources, ClassSource, RequestClaims};
use crate::policy::envoy::{EnvoyRatelimit, Headers};
use crate::policy::proxy::{Proxy, Route, RouteCost, Upstream};
use crate::policy::resources::ResourcePolicy;
use crate::policy::{
    Bounds, Decisions, Durability, Embedded, ListenerPolicy, ListenerRole, NamespacePolicy, Policy, Redis,
    StoreChoice, StoreKind, Tls,
};
use crate::schema::reloads;

/// A setting that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SettingChange {
    /// Its path in the policy, as `http.bounds.body`, or `resources.checkout.queue.bytes` for a
    /// setting of something that has a name.
    pub path: String,
    /// How it was; `none` where it was not set and has no default.
    pub old: String,
    /// How it is.
    pub new: String,
    /// Whether a running daemon goes on with the old one until it is started anew.
    pub needs_restart: bool,
}

pub(super) fn compare(old: &Policy, new: &Policy) -> Vec<SettingChange> {
    // Files of `envoy_ratelimit` are not read here, so they count as having no quotas.
    let has_quotas = |policy: &Policy| policy.quotas().next().is_some();
    // A store that was opened for quotas stays open when the last of them is gone; that needs no
    // restart.
    let keeps_store = matches!(
        (&old.store, &new.store),
        (StoreChoice::ForQuotas(_), StoreChoice::ForQuotas(_)) if has_quotas(old)
    );
    let (old, new) =
        (settings(old, new, has_quotas(old)), settings(new, old, keeps_store || has_quotas(new)));
    let changes = differences(old, new);
    changes
        .into_iter()
        .map(|(path, old, new)| SettingChange { needs_restart: !reloads(&path), path, old, new })
        .collect()
}

/// The settings of a namespace besides its limits.
fn namespace_leaves(leaves: &mut SettingLeaves, namespace: &NamespacePolicy, is_in_both: bool) {
    leaves.under(&namespace.name, |leaves| {
        if let Some(plans) = &namespace.plans {
            leaves.under("plans", |leaves| plans_leaves(leaves, plans));
        }
        for (index, row) in namespace.costs.iter().enumerate() {
            let words = format!("{} for {}", row.cost.units(), conditions_in_words(&row.matches));
            leaves.add_shortened(&format!("costs[{index}]"), words, &row.matches);
        }
        leaves
            .under("tables", |leaves| namespace.tables.iter().for_each(|table| table_leaves(leaves, table)));
        // Of a namespace that comes or goes only what it says itself.
        if is_in_both || namespace.request != RequestClaims::default() {
            leaves.under("request", |leaves| request_leaves(leaves, &namespace.request));
        }
    });
}

/// How the plan of a request is found; the numbers of plans are those of limits.
fn plans_leaves(leaves: &mut SettingLeaves, plans: &Plans) {
    let Plans { names, attribute, assigned, default, .. } = plans;
    leaves.add("numbers", names.join(", "));
    leaves.add("attribute", attribute);
    leaves.add_some("default", default.as_ref());
    leaves.under("assigned", |leaves| {
        for PlanAssignment { attribute, value, plan, .. } in assigned {
            leaves.add(&format!("{attribute}={value}"), plan);
        }
    });
}

/// A table or index with every number that counts, its defaults included.
fn table_leaves(leaves: &mut SettingLeaves, table: &TableConfig) {
    leaves.under(&table.name, |leaves| {
        leaves.add("partition_by", word_of(table.partition_by));
        let prefix = Some(String::from_utf8_lossy(&table.key_prefix)).filter(|prefix| !prefix.is_empty());
        leaves.add_some("key_prefix", prefix);
        match &table.on_demand {
            None => {
                leaves.add("provisioned.read", table.read_units_per_second);
                leaves.add("provisioned.write", table.write_units_per_second);
            }
            Some(terms) => {
                for (direction, terms) in [("read", &terms.read), ("write", &terms.write)] {
                    leaves.add(&format!("on_demand.initial.{direction}"), terms.initial.as_f64());
                    leaves.add_some(&format!("on_demand.max.{direction}"), terms.max.map(Units::as_f64));
                }
                leaves.add("on_demand.growth", span(terms.read.growth));
            }
        }
        if let Some(warm) = table.warm {
            leaves.add("warm.read", warm.read);
            leaves.add("warm.write", warm.write);
        }
        leaves.add("mode", table.mode.as_str());
        leaves.add("burst", span(table.burst));
        leaves.add("partitions.min", table.partitions);
        leaves.add_some("partitions.ceiling.read", table.read_ceiling);
        leaves.add_some("partitions.ceiling.write", table.write_ceiling);
        leaves.add("partitions.split", table.splits);
        leaves.add("partitions.merge", table.merges);
        leaves.add("max_access.read", format_size(table.read_bytes_max));
        leaves.add("max_access.write", format_size(table.write_bytes_max));
        leaves.add("replicas", table.replicas);
        leaves.add("reads", word_of(table.reads));
        leaves.add("write_check", word_of(table.write_check));
        leaves.add("write_quorum", word_of(table.write_quorum));
        leaves.add_some("account", table.account.as_ref());
    });
}

/// Where the requests of a namespace say more about themselves.
fn request_leaves(leaves: &mut SettingLeaves, request: &RequestClaims) {
    let RequestClaims { tenant, class, tenants, deadline, attempt, access } = request;
    leaves.add("tenant", tenant);
    leaves.add("deadline", deadline);
    leaves.add("attempt", attempt);
    class_leaves(leaves, class);
    leaves.add_map("tenants", tenants);
    if let Some(access) = access {
        access_leaves(leaves, access);
    }
}

fn class_leaves(leaves: &mut SettingLeaves, class: &ClassSource) {
    let ClassSource { from, default, ceiling } = class;
    leaves.add_some("class.from", from.as_ref());
    leaves.add("class.default", default);
    leaves.add("class.ceiling", ceiling);
}

fn access_leaves(leaves: &mut SettingLeaves, access: &AccessSources) {
    let AccessSources { table, key, kind, size, .. } = access;
    leaves.add("access.table", table);
    leaves.add("access.key", key);
    leaves.add_some("access.kind", kind.as_ref());
    leaves.add_some("access.size", size.as_ref());
}

fn resource_leaves(leaves: &mut SettingLeaves, resource: &ResourcePolicy) {
    let ResourcePolicy { name, config, waits, shares, status, show_load } = resource;
    leaves.under(name, |leaves| {
        leaves.add("concurrency", concurrency_in_words(config));
        leaves.add("share", if config.share == FleetShare::None { "full" } else { "auto" });
        leaves.add("reserve", format_args!("{} %", config.reserve));
        if let Some((queue, waiting)) = config.queue.zip(config.waiting_max) {
            leaves.under("queue", |leaves| {
                leaves.add("requests", waiting.requests);
                leaves.add("bytes", size(waiting.bytes));
                queue_leaves(leaves, &queue, waits.as_ref());
            });
        }
        leaves.add_map("shares", shares);
        leaves.add_some("status", *status);
        leaves.add("show_load", show_load);
    });
}

fn queue_leaves(
    leaves: &mut SettingLeaves,
    queue: &QueueConfig,
    waits: Option<&[Duration; Class::ALL.len()]>,
) {
    let QueueConfig { weights, delay_targets, lifo, min_shares, reserve_share, .. } = queue;
    leaves.add("priority_share", format_args!("{} %", reserve_share.as_percent()));
    for class in Class::ALL {
        let at = class as usize;
        let wait = waits.map_or_else(|| "as its route says".to_owned(), |waits| span_or_off(Some(waits[at])));
        leaves.add(&format!("wait.{class}"), wait);
        leaves.add(&format!("weights.{class}"), weights[at]);
        leaves.add(&format!("delay_target.{class}"), span_or_off(delay_targets[at]));
        let min_share = min_shares[at].map(|share| format!("{} %", share.as_percent()));
        leaves.add_some(&format!("min_share.{class}"), min_share);
    }
    let lifo = Class::ALL.into_iter().filter(|class| lifo[*class as usize]).map(Class::as_str);
    let lifo: Vec<&str> = lifo.collect();
    leaves.add_some("lifo", Some(lifo.join(", ")).filter(|classes| !classes.is_empty()));
}

fn concurrency_in_words(config: &ResourceConfig) -> String {
    let Some(adaptive) = config.adaptive else { return config.in_flight_max.to_string() };
    let AdaptiveLimitConfig { algorithm, min, max, initial, ceiling, .. } = adaptive;
    let ceiling = ceiling.map_or_else(String::new, |ceiling| format!(", ceiling {}", span(ceiling)));
    format!("{} from {min} to {max}, at first {initial}{ceiling}", word_of(algorithm))
}

fn signal_in_words(signal: &SignalConfig) -> String {
    let SignalConfig { source, target, unit, smoothing, resource, ttl, .. } = signal;
    let ttl = ttl.map_or_else(String::new, |ttl| format!(" for {}", span(ttl)));
    let resource = resource.as_ref().map_or_else(String::new, |name| format!(" of {name}"));
    let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
    format!("{source}{ttl}{resource}, target {target}{unit}, smoothing {}", span(*smoothing))
}

fn node_in_words(node: &NodeConfig) -> String {
    format!("{} units/s, reserve {} %", node.units_per_second, node.reserve_percent)
}

fn account_in_words(account: &AccountConfig) -> String {
    format!("read {}, write {}", account.read_units_per_second, account.write_units_per_second)
}

/// Every setting in the order of the reference, to be compared with `other`. `has_quotas` decides
/// the store of a policy that names none.
fn settings(policy: &Policy, other: &Policy, has_quotas: bool) -> SettingLeaves {
    let Policy {
        // Read by role.
        listen: _,
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
    let mut all = SettingLeaves::default();
    all.under("listen", |all| {
        for role in ListenerRole::ALL {
            all.add_some(role.as_str(), policy.listener(role).map(listener));
        }
    });
    all.under("store", |all| store_leaves(all, &store.kind(has_quotas)));
    all.add("memory.keys", size(memory.keys_bytes));
    all.add("memory.waiting", size(memory.waiting_bytes));
    all.add("memory.when_full", word_of(memory.when_full));
    all.under("namespaces", |all| {
        for namespace in namespaces {
            namespace_leaves(all, namespace, other.namespace(&namespace.name).is_some());
        }
    });
    all.add_map("nodes", nodes.iter().map(|one| (&one.name, node_in_words(one))));
    all.add_map("accounts", accounts.iter().map(|one| (&one.name, account_in_words(one))));
    all.under("resources", |all| resources.iter().for_each(|one| resource_leaves(all, one)));
    all.add_map("signals", signals.iter().map(|one| (&one.name, signal_in_words(one))));
    all.under("authorization", |all| {
        for one in authorization {
            all.add(&one.name, grant(one));
            if let Credential::Token(token) = &one.credential {
                all.add_opaque(&format!("{}.token", one.name), token.reveal());
            }
        }
    });
    let headers = authorize.headers.iter().map(|(header, attribute)| format!("{header}: {attribute}"));
    all.add("authorize.headers", format_args!("{{ {} }}", headers.collect::<Vec<_>>().join(", ")));
    all.add_some("authorize.namespace", authorize.namespace.as_ref());
    all.under("proxy", |all| proxy_leaves(all, proxy));
    if let Some(envoy) = envoy_ratelimit {
        all.under("envoy_ratelimit", |all| envoy_leaves(all, envoy));
    }
    let legacy = [("x_rate_limit", http.x_rate_limit_headers), ("rate_limit", http.rate_limit_headers)];
    let legacy: Vec<&str> =
        legacy.into_iter().filter_map(|(name, is_sent)| is_sent.then_some(name)).collect();
    all.add("http.legacy_headers", format_args!("[{}]", legacy.join(", ")));
    all.under("http.bounds", |all| bounds_leaves(all, &http.bounds));
    all.add("log.level", log.level.as_str());
    all.add("log.format", word_of(log.format));
    all.add("log.refusals", log.refusals.map_or_else(|| "off".to_owned(), |rate| rate.to_string()));
    if let Some(Decisions { path, size_bytes, files, queue, sample }) = &log.decisions {
        all.add("log.decisions.path", path);
        all.add("log.decisions.size", format_size(*size_bytes));
        all.add("log.decisions.files", files);
        all.add("log.decisions.queue", queue);
        all.add("log.decisions.sample", word_of(sample));
    }
    all
}

fn bounds_leaves(leaves: &mut SettingLeaves, bounds: &Bounds) {
    leaves.add("body", size(bounds.body_bytes));
    leaves.add("headers", size(bounds.header_bytes));
    leaves.add("header_count", bounds.headers);
    leaves.add("attributes", bounds.attributes);
    leaves.add("attribute", size(bounds.attribute_bytes));
    leaves.add("connections", bounds.connections);
    leaves.add("request_timeout", span(bounds.request_timeout));
    leaves.add("drain_timeout", span(bounds.drain_timeout));
}

fn store_leaves(leaves: &mut SettingLeaves, store: &StoreKind) {
    match store {
        StoreKind::Memory => leaves.add("kind", "memory"),
        StoreKind::Embedded(Embedded { path, durability, memory_bytes, disk_bytes, .. }) => {
            leaves.add("kind", "embedded");
            leaves.add("path", path);
            let interval = match durability {
                Durability::Sync => None,
                Durability::Interval(every) => Some(span(*every)),
            };
            leaves.add("durability", if interval.is_some() { "interval" } else { "sync" });
            leaves.add_some("interval", interval);
            leaves.add("memory", size(*memory_bytes));
            leaves.add("disk", format_size(*disk_bytes));
        }
        StoreKind::Redis(Redis {
            urls,
            cluster,
            username,
            password_file,
            tls,
            prefix,
            deadline,
            members,
        }) => {
            leaves.add("kind", "redis");
            leaves.add_list("urls", urls.iter().cloned());
            leaves.add("cluster", cluster);
            leaves.add_some("username", username.as_ref());
            leaves.add_some("password_file", password_file.as_ref());
            leaves.add_some("tls.ca", tls.ca.as_ref());
            leaves.add_some("tls.cert", tls.client.as_ref().map(|(cert, _)| cert));
            leaves.add_some("tls.key", tls.client.as_ref().map(|(_, key)| key));
            leaves.add("prefix", prefix);
            leaves.add("deadline", span(*deadline));
            leaves.add("members", members);
        }
    }
}

fn listener(listener: &ListenerPolicy) -> String {
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

fn envoy_leaves(leaves: &mut SettingLeaves, EnvoyRatelimit { path, settings }: &EnvoyRatelimit) {
    let Headers { enabled, limit, remaining, reset, retry_after } = &settings.headers;
    let of_peer = enabled.then_some([limit.as_str(), remaining, reset]);
    let own = retry_after.then_some("Retry-After");
    let headers: Vec<&str> = of_peer.into_iter().flatten().chain(own).collect();
    leaves.add("path", path);
    leaves.add("semantics", word_of(settings.semantics));
    leaves.add("shadow", settings.shadow);
    leaves.add("quota_mode", settings.quota_mode);
    leaves.add("near_limit_ratio", settings.near_limit_ratio);
    leaves.add("headers", if headers.is_empty() { "off".to_owned() } else { headers.join(", ") });
    leaves.add("dynamic_metadata", settings.dynamic_metadata);
    leaves.add("merge_domains", settings.merge_domains);
    leaves.add("stop_increment_when_over_limit", settings.stop_increment_when_over_limit);
}

/// A grant in words, without its token.
fn grant(grant: &Grant) -> String {
    let Grant { credential, namespaces, verbs, ceiling, .. } = grant;
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
    format!("{credential}: {} in {namespaces}{ceiling}", verbs.join(", "))
}

/// The reverse proxy. A setting without words of its own is told as changed, without how it was: it
/// may hold what only the upstream should see.
fn proxy_leaves(leaves: &mut SettingLeaves, proxy: &Proxy) {
    let Proxy {
        upstreams,
        trusted,
        trusts_unix,
        client_header,
        unusual_paths,
        jwt,
        routes,
        waiting,
        keep_headers,
        access_log,
    } = proxy;
    leaves.add("waiting", waiting);
    leaves.add("access_log", access_log);
    let unix = trusts_unix.then(|| "unix".to_owned());
    leaves.add_list("trusted", trusted.iter().map(ToString::to_string).chain(unix));
    leaves.add("client_header", word_of(client_header));
    leaves.add("unusual_paths", word_of(unusual_paths));
    leaves.add_opaque_some("jwt", jwt.as_ref());
    leaves.add_list("keep_headers", keep_headers.iter().map(ToString::to_string));
    leaves.under("upstreams", |leaves| {
        for upstream in upstreams {
            let Upstream {
                name,
                servers,
                tls,
                http2,
                connect_timeout,
                idle_connections,
                failures,
                out_for,
                health,
            } = upstream;
            leaves.under(name, |leaves| {
                leaves.add_list("servers", servers.iter().map(ToString::to_string));
                leaves.add_opaque_some("tls", tls.as_ref());
                leaves.add("http2", http2);
                leaves.add("connect_timeout", span(*connect_timeout));
                leaves.add("idle_connections", idle_connections);
                leaves.add("failures", failures);
                leaves.add("out_for", span(*out_for));
                if let Some(health) = health {
                    leaves.add("health.path", &health.path);
                    leaves.add("health.interval", span(health.interval));
                    leaves.add("health.timeout", span(health.timeout));
                }
            });
        }
    });
    leaves.under("routes", |leaves| routes.iter().for_each(|route| route_leaves(leaves, route)));
    let order: Vec<&str> = routes.iter().map(|route| route.name.as_str()).collect();
    leaves.add_opaque("routes.order", order);
}

fn route_leaves(leaves: &mut SettingLeaves, route: &Route) {
    let Route {
        name,
        path,
        host,
        methods,
        headers,
        upstream,
        namespace,
        attributes,
        tenant,
        class,
        deadline,
        attempt,
        access,
        cost,
        wait,
        timeouts,
        retry,
        upgrades,
        refusal,
    } = route;
    leaves.under(name, |leaves| {
        leaves.add_some("match.path", path.as_ref());
        if let Some(host) = host {
            leaves.add_shortened("match.host", host.to_string(), host);
        }
        leaves.add_list("match.methods", methods.iter().map(ToString::to_string));
        if !headers.is_empty() {
            leaves.add_opaque("match.headers", headers);
        }
        leaves.add("upstream", upstream);
        leaves.add_some("namespace", namespace.as_ref());
        leaves.add_map("attributes", attributes.iter().map(|(name, from)| (name, from)));
        leaves.add_some("tenant", tenant.as_ref());
        class_leaves(leaves, class);
        leaves.add_some("deadline", deadline.as_ref());
        leaves.add("attempt", attempt);
        if let Some(access) = access {
            access_leaves(leaves, access);
        }
        let RouteCost { units, from, body_bytes, from_response, .. } = cost;
        leaves.add_some("cost.units", units.map(Cost::units));
        leaves.add_some("cost.from", from.as_ref());
        leaves.add_some("cost.body_bytes", *body_bytes);
        leaves.add_list("cost.from_response", from_response.iter().map(ToString::to_string));
        leaves.add("wait", span_or_off(Some(*wait)));
        leaves.add("timeouts.first_byte", span(timeouts.first_byte));
        leaves.add("timeouts.idle", span(timeouts.idle));
        leaves.add_some("timeouts.total", timeouts.total.map(span));
        leaves.add("retry", word_of(retry));
        leaves.add_list("upgrades", upgrades.iter().cloned());
        leaves.add_opaque_some("refusal", refusal.as_ref());
    });
}

/// Conditions as a policy reads: `operation: "Export", path: a value like "/v1/*"`.
pub(super) fn conditions_in_words(conditions: &[Condition]) -> String {
    let words = conditions.iter().map(|one| format!("{}: {}", one.attribute, one.matcher));
    let words: Vec<String> = words.collect();
    if words.is_empty() { "every request".to_owned() } else { words.join(", ") }
}

/// A word of a policy from the name of a variant: `BurstOnly` is `burst_only`.
pub(super) fn word_of(variant: impl fmt::Debug) -> String {
    let mut word = String::new();
    for letter in format!("{variant:?}").chars() {
        if letter.is_ascii_uppercase() && !word.is_empty() {
            word.push('_');
        }
        word.push(letter.to_ascii_lowercase());
    }
    word
}

/// A span that none or a zero turns off.
fn span_or_off(span: Option<Duration>) -> String {
    span.filter(|span| !span.is_zero()).map_or_else(|| "off".to_owned(), format_span)
}

fn size(bytes: usize) -> String {
    format_size(bytes as u64)
}

fn span(span: Duration) -> String {
    format_span(span)
}
