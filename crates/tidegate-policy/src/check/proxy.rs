//! Checks the reverse proxy.

use core::num::NonZeroU64;
use core::time::Duration;
use std::collections::BTreeMap;

use tidegate::{Class, Cost};

use super::matcher;
use super::name_and_path::{ATTRIBUTE_NAME_BYTES_MAX, check_name, check_path};
use super::path_expression::{glob_of, is_expression};
use crate::measure::{size, span};
use crate::path::Path;
use crate::policy::proxy::{Health, Jwt, Proxy, Retry, Route, Trust, Upstream, UpstreamTls};
use crate::printable::shown;
use crate::problem::Report;
use crate::raw::NamespaceConfig;
use crate::raw::proxy::{
    ClassConfig, ClientHeaderConfig, CostForm, HealthConfig, JwtConfig, PathsConfig, ProxyConfig,
    RetryConfig, RouteConfig, RouteMatch, TimeoutsForm, UpstreamEntry, UpstreamTlsForm,
};
use crate::raw::service::{ListenConfig, ListenerConfig};
use crate::suggestion::nearest;
use header::{header, is_header};

mod header;
mod pass_through;
mod server;

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);
const WEEK: Duration = Duration::from_hours(168);

pub(super) fn proxy(
    raw: &ProxyConfig,
    namespaces: Option<&BTreeMap<String, NamespaceConfig>>,
    listen: Option<&ListenConfig>,
    path: &Path,
    report: &mut Report<'_>,
) -> Proxy {
    let mut proxy = Proxy {
        forwarded: raw.client_header == Some(ClientHeaderConfig::Forwarded),
        normalise: raw.paths == Some(PathsConfig::Normalise),
        waiting: raw.waiting.map_or(Proxy::WAITING_DEFAULT, |waiting| waiting as usize),
        keep_headers: pass_through::keep_headers(
            raw.keep_headers.as_ref(),
            &path.key("keep_headers"),
            report,
        ),
        access_log: raw.access_log.unwrap_or(false),
        jwt: raw.jwt.as_ref().and_then(|raw| jwt(raw, &path.key("jwt"), report)),
        ..Proxy::default()
    };
    let within = path.key("upstreams");
    for (name, entry) in raw.upstreams.iter().flatten() {
        proxy.upstreams.push(upstream(name, entry, &within.key(name), report));
    }
    let within = path.key("trusted");
    let trusted = raw.trusted.as_deref().unwrap_or_default();
    if trusted.len() > Proxy::COUNT_MAX {
        let what = format!("{} networks", trusted.len());
        report.value(&within, what, format!("use at most {}", Proxy::COUNT_MAX));
    }
    for (index, network) in trusted.iter().take(Proxy::COUNT_MAX).enumerate() {
        if network == "unix" {
            proxy.trusts_unix = true;
            continue;
        }
        let is_address = network.parse::<core::net::IpAddr>().is_ok();
        match tidegate::Matcher::cidr(network) {
            Err(error) if !is_address => report.error(&within.index(index), &error),
            _ => proxy.trusted.push(network.clone()),
        }
    }
    let within = path.key("routes");
    let routes = raw.routes.as_deref().unwrap_or_default();
    if routes.len() > Proxy::COUNT_MAX {
        let what = format!("{} routes", routes.len());
        report.value(&within, what, format!("use at most {}", Proxy::COUNT_MAX));
    }
    for (index, one) in routes.iter().take(Proxy::COUNT_MAX).enumerate() {
        let at = within.index(index);
        let checked = route(one, index, raw, namespaces, &at, report);
        if let Some(first) = proxy.routes.iter().position(|known| known.name == checked.name) {
            let what = format!("duplicate route name \"{}\"", shown(&checked.name));
            let line = report.line_of(&within.index(first));
            report.value(&at.key("name"), what, format!("first defined at line {line}; rename one of them"));
        }
        proxy.routes.push(checked);
    }
    let has_listener = listen.is_some_and(|listen| listen.proxy.is_some());
    if let Some(listen) = listen {
        peers(listen, &proxy, report);
    }
    if has_listener && proxy.routes.is_empty() {
        report.warn(path, "there is no route, so every request is answered 404", "add one under `routes:`");
    }
    if !has_listener && !proxy.routes.is_empty() {
        let fix = "add `proxy: 127.0.0.1:8000` under `listen:`";
        report.warn(&within, "there are routes, and no listener that takes requests for them", fix);
    }
    proxy
}

/// Whether who connects can be known as the listener and the routes need it.
fn peers(listen: &ListenConfig, proxy: &Proxy, report: &mut Report<'_>) {
    let within = Path::default().key("listen");
    let others =
        [("http", &listen.http), ("admin", &listen.admin), ("grpc", &listen.grpc), ("resp", &listen.resp)];
    for (name, listener) in others {
        if listener.as_ref().is_some_and(ListenerConfig::expects_preamble) {
            let what = "the PROXY protocol is only read where requests are passed on";
            let path = within.key(name).key("proxy_protocol");
            report.value(&path, what, "remove it, or set it on `proxy`");
        }
    }
    let Some(listener) = &listen.proxy else { return };
    let path = within.key("proxy");
    let is_unix = listener.address().starts_with("unix:");
    let trusts_any = if is_unix { proxy.trusts_unix } else { !proxy.trusted.is_empty() };
    if listener.expects_preamble() && !trusts_any {
        let what =
            "every connection would be closed, because no peer is trusted to name the client's address";
        let fix = if is_unix {
            "add `trusted: [unix]` under `proxy:`"
        } else {
            "add the address of the balancer to `trusted:` under `proxy:`"
        };
        report.value(&path.key("proxy_protocol"), what, fix);
    }
    let mut sources = proxy.routes.iter().flat_map(|route| &route.attributes);
    if is_unix && !proxy.trusts_unix && sources.any(|(_, source)| source == "client_ip") {
        let what = "client_ip is always absent, because peers on a Unix socket have no address";
        let fix = "add `trusted: [unix]` under `proxy:` if they send X-Forwarded-For and may be believed";
        report.warn(&path, what, fix);
    }
}

/// A span within bounds, or `default` where none is given or it is wrong.
fn between(
    (name, text): (&str, Option<&String>),
    default: Duration,
    (least, most): (Duration, Duration),
    path: &Path,
    report: &mut Report<'_>,
) -> Duration {
    let Some(text) = text else { return default };
    match span(name, text) {
        Ok(given) if (least..=most).contains(&given) => return given,
        Ok(_) => {
            let what = format!("{name} \"{}\" is out of range", shown(text));
            let format = |span: Duration| match span {
                Duration::ZERO => "0s".to_owned(),
                span => tidegate::rate::format_span(span),
            };
            let fix = format!("use a span from {} to {}", format(least), format(most));
            report.value(&path.key(name), what, fix);
        }
        Err((what, fix)) => report.value(&path.key(name), what, fix),
    }
    default
}

const MILLI: Duration = Duration::from_millis(1);

fn upstream(name: &str, entry: &UpstreamEntry, path: &Path, report: &mut Report<'_>) -> Upstream {
    check_name("upstream", name, 128, |what, fix| report.key(path, what, fix));
    let mut upstream = Upstream {
        name: name.to_owned(),
        servers: Vec::new(),
        tls: None,
        http2: false,
        connect_timeout: Duration::from_secs(5),
        idle_connections: 64,
        failures: 3,
        out_for: Duration::from_secs(10),
        health: None,
    };
    let (servers, at) = match entry {
        UpstreamEntry::Servers(servers) => (servers, path.clone()),
        UpstreamEntry::Form(form) => {
            upstream.http2 = form.http2.unwrap_or(false);
            let timeout = ("connect_timeout", form.connect_timeout.as_ref());
            upstream.connect_timeout =
                between(timeout, upstream.connect_timeout, (MILLI, HOUR), path, report);
            upstream.idle_connections = form.idle_connections.map_or(64, |count| count as usize);
            upstream.failures = form.failures.unwrap_or(3);
            let out_for = ("out_for", form.out_for.as_ref());
            upstream.out_for = between(out_for, upstream.out_for, (MILLI, HOUR), path, report);
            upstream.tls = form.tls.as_ref().map(|raw| upstream_tls(raw, &path.key("tls"), report));
            upstream.health = form.health.as_ref().map(|raw| health(raw, &path.key("health"), report));
            (&form.servers, path.key("servers"))
        }
    };
    if servers.is_empty() || servers.len() > Proxy::SERVERS_MAX {
        let what = format!("upstream \"{}\" has {} servers", shown(name), servers.len());
        report.value(&at, what, format!("list 1 to {}", Proxy::SERVERS_MAX));
    }
    for (index, server) in servers.iter().take(Proxy::SERVERS_MAX).enumerate() {
        if let Err((what, fix)) = server::check(server, upstream.tls.as_ref()) {
            report.value(&at.index(index), what, fix);
        }
        upstream.servers.push(server.clone());
    }
    upstream
}

fn upstream_tls(raw: &UpstreamTlsForm, path: &Path, report: &mut Report<'_>) -> UpstreamTls {
    for (name, file) in [("ca", &raw.ca), ("cert", &raw.cert), ("key", &raw.key)] {
        if let Some(file) = file {
            check_path(name, file, &path.key(name), report);
        }
    }
    match (&raw.cert, &raw.key) {
        (Some(_), None) => report.value(path, "cert without its key", "name its private key as `key`"),
        (None, Some(_)) => report.value(path, "key without a certificate", "name its certificate as `cert`"),
        _ => {}
    }
    if let Some(name) = &raw.server_name
        && !server::is_name(name)
    {
        let what = format!("\"{}\" is not the name of a server", shown(name));
        report.value(&path.key("server_name"), what, "write a host name or an address, without a port");
    }
    UpstreamTls {
        ca: raw.ca.clone(),
        identity: raw.cert.clone().zip(raw.key.clone()),
        server_name: raw.server_name.clone(),
    }
}

fn health(raw: &HealthConfig, path: &Path, report: &mut Report<'_>) -> Health {
    if !is_target(&raw.path) {
        let what = format!("\"{}\" is not a path", shown(&raw.path));
        report.value(&path.key("path"), what, "write one from /, for example /healthz");
    }
    let least = Duration::from_millis(10);
    let interval = ("interval", raw.interval.as_ref());
    Health {
        path: raw.path.clone(),
        interval: between(interval, Duration::from_secs(5), (least, HOUR), path, report),
        timeout: between(
            ("timeout", raw.timeout.as_ref()),
            Duration::from_secs(1),
            (MILLI, HOUR),
            path,
            report,
        ),
    }
}

fn is_target(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_graphic() && !"\"<>\\^`{|}#".contains(c);
    text.starts_with('/') && text.len() <= 1024 && text.chars().all(is_plain)
}

fn jwt(raw: &JwtConfig, path: &Path, report: &mut Report<'_>) -> Option<Jwt> {
    let files = [
        ("secret_file", &raw.secret_file, Trust::SecretFile as fn(String) -> Trust),
        ("keys_file", &raw.keys_file, Trust::KeysFile),
        ("jwks_file", &raw.jwks_file, Trust::JwksFile),
    ];
    let mut trusts = Vec::new();
    for (name, file, trust) in files {
        if let Some(file) = file {
            check_path(name, file, &path.key(name), report);
            trusts.push(trust(file.clone()));
        }
    }
    if raw.unverified == Some(true) {
        trusts.push(Trust::Unverified);
    }
    let count = trusts.len();
    let leeway = ("leeway", raw.leeway.as_ref());
    let leeway = between(leeway, Duration::from_mins(1), (Duration::ZERO, HOUR), path, report);
    if count != 1 {
        let what = format!("expected one way to verify tokens, found {count}");
        report.value(
            path,
            what,
            "give one of `secret_file`, `keys_file`, `jwks_file` and `unverified: true`",
        );
        return None;
    }
    Some(Jwt {
        trust: trusts.pop()?,
        issuer: raw.issuer.clone(),
        audiences: raw.audiences.clone().unwrap_or_default(),
        leeway,
    })
}

/// A name that must be among `known`.
fn among<'a>(
    (kind, name): (&str, &str),
    known: impl Iterator<Item = &'a str> + Clone,
    (place, path): (&str, &Path),
    report: &mut Report<'_>,
) {
    if known.clone().any(|known| known == name) {
        return;
    }
    let what = format!("{kind} \"{}\" is not under `{place}:`", shown(name));
    let fix = match nearest(name, known) {
        Some(near) => format!("did you mean {near}?"),
        None if kind == "namespace" => {
            "add it there, or name one that is; the proxy does not serve domains of `envoy_ratelimit` files"
                .to_owned()
        }
        None => "add it there, or name one that is".to_owned(),
    };
    report.value(path, what, fix);
}

fn route(
    raw: &RouteConfig,
    index: usize,
    proxy: &ProxyConfig,
    namespaces: Option<&BTreeMap<String, NamespaceConfig>>,
    path: &Path,
    report: &mut Report<'_>,
) -> Route {
    let name = raw.name.clone().unwrap_or_else(|| format!("route-{index}"));
    check_name("route", &name, 128, |what, fix| report.value(&path.key("name"), what, fix));
    let upstreams = proxy.upstreams.iter().flatten().map(|(name, _)| name.as_str());
    let at = path.key("upstream");
    among(("upstream", &raw.upstream), upstreams, ("proxy.upstreams", &at), report);
    if let Some(name) = &raw.namespace {
        let known = namespaces.into_iter().flatten().map(|(name, _)| name.as_str());
        among(("namespace", name), known, ("namespaces", &path.key("namespace")), report);
    }
    let attributes = attributes(raw, proxy, path, report);
    if let Some(tenant) = &raw.tenant {
        let known = attributes.iter().map(|(name, _)| name.as_str());
        among(("tenant", tenant), known, ("attributes", &path.key("tenant")), report);
    }
    let mut route = Route {
        name,
        path: None,
        host: None,
        methods: Vec::new(),
        upstream: raw.upstream.clone(),
        namespace: raw.namespace.clone(),
        attributes,
        class_header: None,
        class: Class::default(),
        tenant: raw.tenant.clone(),
        deadline_header: header(raw.deadline.as_deref(), &path.key("deadline"), report),
        cost: Cost::ONE,
        cost_body_bytes: None,
        cost_header: None,
        wait: between(("wait", raw.wait.as_ref()), Duration::ZERO, (Duration::ZERO, HOUR), path, report),
        first_byte: Duration::from_mins(1),
        idle: Duration::from_mins(1),
        total: None,
        retry: match raw.retry.unwrap_or_default() {
            RetryConfig::Off => Retry::Off,
            RetryConfig::Connect => Retry::Connect,
            RetryConfig::Idempotent => Retry::Idempotent,
        },
        upgrades: pass_through::upgrades(raw.upgrades.as_ref(), &path.key("upgrades"), report),
        refusal: None,
    };
    if let Some(raw) = &raw.matches {
        matches(raw, &mut route, &path.key("match"), report);
    }
    if let Some(raw) = &raw.class {
        let at = path.key("class").key("from");
        if let Some(from) = &raw.from {
            if let Some(name) = from.strip_prefix("header.") {
                route.class_header = header(Some(name), &at, report);
            } else {
                let what = format!("\"{}\" is not where a class is found", shown(from));
                report.value(&at, what, "write header.NAME");
            }
        }
        route.class = class(raw.default.unwrap_or_default());
    }
    if let Some(raw) = &raw.cost {
        cost(raw, &mut route, &path.key("cost"), report);
    }
    if let Some(raw) = &raw.timeouts {
        timeouts(raw, &mut route, &path.key("timeouts"), report);
    }
    if let Some(raw) = &raw.refusal {
        let media = raw.content_type.clone().unwrap_or_else(|| "text/plain; charset=utf-8".to_owned());
        if !media.contains('/') || !media.chars().all(|c| c == ' ' || c.is_ascii_graphic()) {
            let what = format!("\"{}\" is not a media type", shown(&media));
            report.value(&path.key("refusal").key("content_type"), what, "write one as text/html");
        }
        route.refusal = Some((media, raw.body.clone()));
    }
    route
}

const fn class(raw: ClassConfig) -> Class {
    match raw {
        ClassConfig::CriticalPlus => Class::CriticalPlus,
        ClassConfig::Critical => Class::Critical,
        ClassConfig::SheddablePlus => Class::SheddablePlus,
        ClassConfig::Sheddable => Class::Sheddable,
    }
}

fn matches(raw: &RouteMatch, route: &mut Route, path: &Path, report: &mut Report<'_>) {
    if let Some(pattern) = &raw.path {
        let at = path.key("path");
        let inner = pattern.strip_prefix('/').unwrap_or(pattern);
        let mut parts = inner.split('/').rev();
        let last = parts.next().unwrap_or_default();
        if is_expression(pattern) {
            let what = format!("path \"{}\" is a regular expression, and paths are globs", shown(pattern));
            let fix = match glob_of(pattern) {
                Some(glob) => format!("write {}", shown(&glob)),
                None => "write a glob, for example /v1/* or /v1/*/items".to_owned(),
            };
            report.value(&at, what, fix);
        } else if !pattern.starts_with('/') {
            let what = format!("path \"{}\" does not begin with /", shown(pattern));
            report.value(&at, what, format!("write /{}", shown(pattern)));
        } else if pattern.len() > 1024 {
            report.value(
                &at,
                format!("a path of {} bytes", pattern.len()),
                "use at most 1024, or end it with *",
            );
        } else if pattern.contains(|c: char| c.is_ascii_control() || c == '\\')
            || parts.any(|part| matches!(part, "" | "." | ".."))
            || matches!(last, "." | "..")
        {
            let what = format!(
                "path \"{}\" contains a segment that the proxy rejects before it matches routes",
                shown(pattern)
            );
            report.value(&at, what, "leave out //, /./, /../, backslashes and control characters");
        }
        route.path = Some(pattern.clone());
    }
    let host = raw.host.as_ref();
    if let Some(raw) = host {
        pass_through::hosts(raw, &path.key("host"), report);
    }
    route.host = host.and_then(|raw| matcher::matcher(raw, &path.key("host"), report));
    for (index, method) in raw.method.iter().flatten().enumerate() {
        if is_header(method) && !method.contains(|c: char| c.is_ascii_lowercase()) {
            pass_through::method(method, &path.key("method").index(index), report);
            route.methods.push(method.clone());
        } else {
            let what = format!("\"{}\" is not a method", shown(method));
            report.value(&path.key("method").index(index), what, "write it in capitals, for example GET");
        }
    }
}

fn attributes(
    raw: &RouteConfig,
    proxy: &ProxyConfig,
    path: &Path,
    report: &mut Report<'_>,
) -> Vec<(String, String)> {
    let within = path.key("attributes");
    let count = raw.attributes.as_ref().map_or(0, BTreeMap::len);
    if count > tidegate::Attributes::MAX {
        let what = format!("{count} attributes");
        report.value(&within, what, format!("use at most {}", tidegate::Attributes::MAX));
    }
    let mut all = Vec::new();
    for (name, source) in raw.attributes.iter().flatten().take(tidegate::Attributes::MAX) {
        let at = within.key(name);
        check_name("attribute", name, ATTRIBUTE_NAME_BYTES_MAX, |what, fix| report.key(&at, what, fix));
        if !is_source(source) {
            let what = format!("\"{}\" is not a source of an attribute", shown(source));
            let fix = "write header.NAME, cookie.NAME, query.NAME, path, path.N, method, host, jwt.CLAIM, client_ip, \
                       or text in double quotes";
            report.value(&at, what, fix);
        }
        let has_trusted = proxy.trusted.iter().flatten().next().is_some();
        pass_through::client_address(source, has_trusted, &at, report);
        if source.starts_with("jwt.") && proxy.jwt.is_none() {
            let what =
                format!("\"{}\" reads a token, and there are no keys to verify tokens with", shown(source));
            report.value(&at, what, "add `jwt:` under `proxy:`");
        }
        all.push((name.clone(), source.clone()));
    }
    all
}

/// Whether `text` says where an attribute is found.
fn is_source(text: &str) -> bool {
    if text.len() > 256 {
        return false;
    }
    if let Some(rest) = text.strip_prefix('"') {
        return rest.strip_suffix('"').is_some_and(|inner| !inner.contains('"'));
    }
    match text.split_once('.') {
        None => matches!(text, "path" | "method" | "host" | "client_ip"),
        Some(("header", name)) => is_header(name),
        Some(("cookie", name)) => {
            let is_name = |c: char| c.is_ascii_graphic() && !"()<>@,;:\\\"/[]?={}".contains(c);
            !name.is_empty() && name.chars().all(is_name)
        }
        Some(("query", name)) => !name.is_empty(),
        Some(("path", index)) => {
            (1..=4).contains(&index.len()) && index.bytes().all(|byte| byte.is_ascii_digit())
        }
        Some(("jwt", claim)) => is_claim(claim),
        Some(_) => false,
    }
}

/// Names with dots between them, each as it is or in double quotes.
fn is_claim(mut rest: &str) -> bool {
    loop {
        let (name, tail) = match rest.strip_prefix('"') {
            Some(quoted) => match quoted.split_once('"') {
                Some((name, "")) => (name, None),
                Some((name, tail)) => match tail.strip_prefix('.') {
                    Some(tail) => (name, Some(tail)),
                    None => return false,
                },
                None => return false,
            },
            None => match rest.split_once('.') {
                Some((name, tail)) => (name, Some(tail)),
                None => (rest, None),
            },
        };
        if name.is_empty() || name.contains('"') {
            return false;
        }
        match tail {
            Some(tail) => rest = tail,
            None => return true,
        }
    }
}

fn cost(raw: &CostForm, route: &mut Route, path: &Path, report: &mut Report<'_>) {
    route.cost = raw.units.and_then(Cost::new).unwrap_or(Cost::ONE);
    if let Some(text) = &raw.body {
        match size("body", text, 1, 1 << 40) {
            Ok(bytes) => route.cost_body_bytes = NonZeroU64::new(bytes),
            Err((what, fix)) => report.value(&path.key("body"), what, fix),
        }
    }
    route.cost_header = header(raw.from_response.as_deref(), &path.key("from_response"), report);
}

fn timeouts(raw: &TimeoutsForm, route: &mut Route, path: &Path, report: &mut Report<'_>) {
    let first_byte = ("first_byte", raw.first_byte.as_ref());
    route.first_byte = between(first_byte, route.first_byte, (MILLI, DAY), path, report);
    route.idle = between(("idle", raw.idle.as_ref()), route.idle, (MILLI, DAY), path, report);
    if raw.total.is_some() {
        route.total = Some(between(("total", raw.total.as_ref()), WEEK, (MILLI, WEEK), path, report));
    }
}
