//! Checks where the counters of exact limits are kept, and whether the limits of a namespace fit
//! that.

use tidegate_core::limit::{Consistency, Limit};

use super::bounded_size::{memory_between, size_between};
use super::bounded_span::between;
use super::name_and_path::{check_file, check_path};
use crate::path::Path;
use crate::policy::{Durability, Embedded, NamespacePolicy, Redis, RedisTls, StoreChoice, StoreKind};
use crate::printable::shown;
use crate::problem::Report;
use crate::raw::Config;
use crate::raw::limit::LimitConfig;
use crate::raw::store::{DurabilityConfig, StoreConfig, StoreKindConfig, StoreTlsConfig};

/// The store that `raw` asks for. `env` reads environment variables.
pub(super) fn store(
    raw: Option<&StoreConfig>,
    env: &dyn Fn(&str) -> Option<String>,
    path: &Path,
    report: &mut Report<'_>,
) -> StoreChoice {
    let none = StoreConfig::default();
    let raw = raw.unwrap_or(&none);
    let kind = raw.kind;
    let of_embedded = [
        ("path", raw.path.is_some()),
        ("durability", raw.durability.is_some()),
        ("interval", raw.interval.is_some()),
        ("memory", raw.memory.is_some()),
        ("disk", raw.disk.is_some()),
    ];
    let of_redis = [
        ("urls", raw.urls.is_some()),
        ("cluster", raw.cluster.is_some()),
        ("username", raw.username.is_some()),
        ("password_file", raw.password_file.is_some()),
        ("tls", raw.tls.is_some()),
        ("prefix", raw.prefix.is_some()),
        ("deadline", raw.deadline.is_some()),
        ("members", raw.members.is_some()),
    ];
    let mut belongs = |keys: &[(&str, bool)], to: StoreKindConfig, name: &str| {
        for (key, _) in keys.iter().filter(|(_, is_given)| *is_given && kind != Some(to)) {
            let fix = format!("use `kind: {name}`, or remove `{key}`");
            report.key(&path.key(key), format!("`{key}` belongs to `kind: {name}`"), fix);
        }
    };
    belongs(&of_embedded, StoreKindConfig::Embedded, "embedded");
    belongs(&of_redis, StoreKindConfig::Redis, "redis");
    StoreChoice::Named(match kind {
        None => return StoreChoice::ForQuotas(embedded(raw, env, path, report)),
        Some(StoreKindConfig::Memory) => StoreKind::Memory,
        Some(StoreKindConfig::Embedded) => StoreKind::Embedded(embedded(raw, env, path, report)),
        Some(StoreKindConfig::Redis) => StoreKind::Redis(redis(raw, path, report)),
    })
}

fn redis(raw: &StoreConfig, path: &Path, report: &mut Report<'_>) -> Redis {
    let urls = raw.urls.clone().unwrap_or_default();
    let cluster = raw.cluster.unwrap_or_default();
    let at = path.key("urls");
    if urls.is_empty() {
        let where_it_is = if raw.urls.is_some() { &at } else { path };
        report.value(
            where_it_is,
            "`kind: redis` needs `urls`",
            "add for example `urls: [redis://127.0.0.1:6379]`",
        );
    } else if urls.len() > Redis::URLS_MAX {
        report.value(
            &at,
            format!("there are {} addresses", urls.len()),
            format!("use at most {}", Redis::URLS_MAX),
        );
    } else if urls.len() > 1 && !cluster {
        let what = format!("there are {} addresses, and a single server has one", urls.len());
        report.value(&at, what, "add `cluster: true`, or leave one address");
    }
    for (index, url) in urls.iter().enumerate() {
        if let Err((what, fix)) = redis_url(url, cluster) {
            report.value(&at.index(index), what, fix);
        }
    }
    for (name, given) in [("username", raw.username.as_deref()), ("prefix", raw.prefix.as_deref())] {
        let Some(text) = given else { continue };
        if text.is_empty() || text.len() > Redis::NAME_BYTES_MAX || text.chars().any(char::is_control) {
            let what = format!("{name} \"{}\" cannot be used", shown(text));
            let fix = format!("write 1 to {} bytes without control characters", Redis::NAME_BYTES_MAX);
            report.value(&path.key(name), what, fix);
        }
    }
    if let Some(prefix) = raw.prefix.as_deref().filter(|prefix| prefix.contains(['{', '}'])) {
        let what =
            format!("prefix \"{}\" contains a brace, by which a cluster would place all keys", shown(prefix));
        report.value(&path.key("prefix"), what, "leave it out");
    }
    if let Some(file) = &raw.password_file {
        check_file(file, &path.key("password_file"), report);
    }
    let deadline = ("deadline", raw.deadline.as_ref());
    let bounds = (Redis::DEADLINE_MIN, Redis::DEADLINE_MAX);
    Redis {
        urls,
        cluster,
        username: raw.username.clone(),
        password_file: raw.password_file.clone(),
        tls: raw.tls.as_ref().map(|tls| redis_tls(tls, &path.key("tls"), report)).unwrap_or_default(),
        prefix: raw.prefix.as_deref().unwrap_or(Redis::PREFIX_DEFAULT).to_owned(),
        deadline: between(deadline, Redis::DEADLINE_DEFAULT, bounds, path, report),
        members: raw.members.unwrap_or(1),
    }
}

fn redis_url(url: &str, cluster: bool) -> Result<(), (String, String)> {
    const FORMS: &str = "write redis://host:port, rediss://host:port with TLS, or unix:///path";
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err((format!("\"{}\" is not the address of a server", shown(url)), FORMS.to_owned()));
    };
    if rest.contains('@') {
        // Not quoted: it may hold a password.
        let what = format!("an address of {scheme}:// holds credentials, which would be shown");
        return Err((what, "use `username` and `password_file`".to_owned()));
    }
    let is_form = matches!(scheme, "redis" | "rediss" | "unix") && url.len() <= Redis::URL_BYTES_MAX;
    let is_plain = !rest.is_empty() && !rest.chars().any(|c| c.is_control() || c == ' ');
    if !is_form || !is_plain {
        return Err((format!("\"{}\" is not the address of a server", shown(url)), FORMS.to_owned()));
    }
    if cluster && scheme == "unix" {
        let what = "the nodes of a cluster cannot be reached over a Unix socket".to_owned();
        return Err((what, "write redis://host:port or rediss://host:port".to_owned()));
    }
    Ok(())
}

fn redis_tls(raw: &StoreTlsConfig, path: &Path, report: &mut Report<'_>) -> RedisTls {
    for (name, file) in [("ca", &raw.ca), ("cert", &raw.cert), ("key", &raw.key)] {
        if let Some(file) = file {
            check_file(file, &path.key(name), report);
        }
    }
    if raw.cert.is_some() != raw.key.is_some() {
        let (has, lacks) = if raw.cert.is_some() { ("cert", "key") } else { ("key", "cert") };
        report.value(path, format!("there is `{has}` and no `{lacks}`"), "give both, or none");
    }
    RedisTls { ca: raw.ca.clone(), client: raw.cert.clone().zip(raw.key.clone()) }
}

fn embedded(
    raw: &StoreConfig,
    env: &dyn Fn(&str) -> Option<String>,
    path: &Path,
    report: &mut Report<'_>,
) -> Embedded {
    let mut embedded = Embedded {
        path: Embedded::PATH_DEFAULT.to_owned(),
        earlier_path: None,
        durability: durability(raw, path, report),
        memory_bytes: Embedded::MEMORY_BYTES_DEFAULT,
        disk_bytes: Embedded::DISK_BYTES_DEFAULT,
    };
    if let Some(directory) = &raw.path {
        embedded.path.clone_from(directory);
        check_path("the store", directory, &path.key("path"), report);
    } else if let Some(directory) = state_directory(env) {
        report.effective(&path.key("path"), directory.as_str());
        embedded.earlier_path = Some(core::mem::replace(&mut embedded.path, directory));
    }
    let bounds = (Embedded::MEMORY_BYTES_MIN, Embedded::MEMORY_BYTES_MAX);
    embedded.memory_bytes =
        memory_between(("memory", raw.memory.as_ref()), embedded.memory_bytes, bounds, path, report);
    let bounds = (Embedded::DISK_BYTES_MIN, Embedded::DISK_BYTES_MAX);
    embedded.disk_bytes =
        size_between(("disk", raw.disk.as_ref()), embedded.disk_bytes, bounds, path, report);
    embedded
}

/// The first directory that systemd has made for the service.
fn state_directory(env: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let directories = env(Embedded::STATE_DIRECTORY)?;
    directories.split(':').find(|directory| !directory.is_empty()).map(str::to_owned)
}

fn durability(raw: &StoreConfig, path: &Path, report: &mut Report<'_>) -> Durability {
    match raw.durability.unwrap_or_default() {
        DurabilityConfig::Sync => {
            if raw.interval.is_some() {
                let fix = "use `durability: interval`, or remove `interval`";
                report.key(&path.key("interval"), "`interval` belongs to `durability: interval`", fix);
            }
            Durability::Sync
        }
        DurabilityConfig::Interval => {
            let interval = ("interval", raw.interval.as_ref());
            let bounds = (Durability::INTERVAL_MIN, Durability::INTERVAL_MAX);
            Durability::Interval(between(interval, Durability::INTERVAL_DEFAULT, bounds, path, report))
        }
    }
}

/// Checks that the limits of each namespace fit the store, and warns about quotas that it does not
/// keep.
pub(super) fn check(
    config: &Config,
    namespaces: &[NamespacePolicy],
    store: &StoreChoice,
    path: &Path,
    report: &mut Report<'_>,
) {
    // Files of `envoy_ratelimit` may have quotas; they are read later.
    let mut stored = namespaces.iter().flat_map(NamespacePolicy::stored_limits);
    let has_quotas = stored.any(|limit| limit.algorithm.is_quota());
    if store.kind(has_quotas || config.envoy_ratelimit.is_some()) == StoreKind::Memory {
        return;
    }
    for namespace in namespaces {
        let path = path.key(&namespace.name).key("limits");
        let exact = namespace.limits.iter().filter(|limit| limit.consistency == Consistency::Exact).count();
        if exact > StoreKind::EXACT_LIMITS_MAX {
            let what = format!("{exact} limits of one namespace are exact");
            let fix = format!(
                "use at most {}, since a request may ask for all of them at once; make some `consistency: local`, or split the namespace",
                StoreKind::EXACT_LIMITS_MAX
            );
            report.value(&path, what, fix);
        }
        let raw = config.namespaces.as_ref().and_then(|all| all.get(&namespace.name));
        let raw = raw.and_then(|raw| raw.limits.as_deref()).unwrap_or_default();
        warn_of_local_quotas(namespace, raw, &path, report);
    }
}

/// Warns about quotas that are decided in this process while there is a store that would keep them.
fn warn_of_local_quotas(
    namespace: &NamespacePolicy,
    raw: &[LimitConfig],
    path: &Path,
    report: &mut Report<'_>,
) {
    let is_local_quota =
        |limit: &&Limit| limit.algorithm.is_quota() && limit.consistency == Consistency::Local;
    for limit in namespace.limits.iter().filter(is_local_quota) {
        let index = raw.iter().position(|one| one.name == limit.name).unwrap_or_default();
        let (name, fix) = match raw.get(index) {
            Some(one) if one.consistency.is_none() => ("share", "remove `share`"),
            _ => ("consistency", "use `consistency: exact`"),
        };
        let what = format!("a restart forgets quota \"{}\", because no store keeps it", shown(&limit.name));
        report.warn(&path.index(index).key(name), what, fix);
    }
}
