//! Checks the reverse proxy.

use core::time::Duration;

use super::name_and_path::{check_name, check_path};
use crate::grammar::{ServerUrl, ValueSource, is_server_name};
use crate::path::Path;
use crate::policy::ListenerRole;
use crate::policy::proxy::{Health, Jwt, Proxy, Trust, Upstream, UpstreamTls};
use crate::printable::shown;
use crate::problem::Report;
use crate::raw::NamespaceConfig;
use crate::raw::name_map::NameMap;
use crate::raw::proxy::{HealthConfig, JwtConfig, ProxyConfig, UpstreamEntry, UpstreamTlsForm};
use crate::raw::resources::ResourceConfig;
use crate::raw::service::ListenConfig;
use crate::raw::text_or::TextOr;

use super::bounded_span::{HOUR, MILLI, between};
use route::{Surroundings, route};

mod pass_through;
mod route;
mod server;

pub(super) fn proxy(
    raw: &ProxyConfig,
    namespaces: Option<&NameMap<NamespaceConfig>>,
    resources: Option<&NameMap<ResourceConfig>>,
    listen: Option<&ListenConfig>,
    path: &Path,
    report: &mut Report<'_>,
) -> Proxy {
    let mut proxy = Proxy {
        client_header: raw.client_header.unwrap_or_default(),
        unusual_paths: raw.paths.unwrap_or_default(),
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
    report.check_count(&within, trusted.len(), "networks", Proxy::COUNT_MAX);
    for (index, network) in trusted.iter().take(Proxy::COUNT_MAX).enumerate() {
        if network == "unix" {
            proxy.trusts_unix = true;
            continue;
        }
        match network.parse() {
            Ok(network) => proxy.trusted.push(network),
            Err(error) => report.error(&within.index(index), &error),
        }
    }
    let within = path.key("routes");
    let routes = raw.routes.as_deref().unwrap_or_default();
    report.check_count(&within, routes.len(), "routes", Proxy::COUNT_MAX);
    for (index, one) in routes.iter().take(Proxy::COUNT_MAX).enumerate() {
        let at = within.index(index);
        let checked = route(one, index, Surroundings { proxy: raw, namespaces, resources }, &at, report);
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
    for (role, listener) in listen.by_role().filter(|(role, _)| *role != ListenerRole::Proxy) {
        if listener.is_some_and(TextOr::expects_preamble) {
            let what = "the PROXY protocol is only read where requests are passed on";
            let path = within.key(role.as_str()).key("proxy_protocol");
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
    if is_unix && !proxy.trusts_unix && sources.any(|(_, source)| *source == ValueSource::ClientIp) {
        let what = "client_ip is always absent, because peers on a Unix socket have no address";
        let fix = "add `trusted: [unix]` under `proxy:` if they send X-Forwarded-For and may be believed";
        report.warn(&path, what, fix);
    }
}

fn upstream(name: &str, entry: &UpstreamEntry, path: &Path, report: &mut Report<'_>) -> Upstream {
    check_name("upstream", name, 128, |what, fix| report.key(path, what, fix));
    let mut upstream = Upstream::new(name, []);
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
        let parsed = server.parse::<ServerUrl>().map_err(|error| (error.what, error.fix));
        match parsed.and_then(|server| server::check(&server, upstream.tls.as_ref()).map(|()| server)) {
            Ok(server) => upstream.servers.push(server),
            Err((what, fix)) => report.value(&at.index(index), what, fix),
        }
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
        && !is_server_name(name)
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
