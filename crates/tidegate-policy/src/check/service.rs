//! Checks the settings of the daemon.

use core::time::Duration;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use http::HeaderName;
use tidegate_core::{Rate, WhenFull};

use super::bounded_size::{memory_between, size_between};
use super::bounded_span::{HOUR, MILLI, between};
use super::header::{HEADER_FIX, header_name, not_a_header};
use super::name_and_path::{ATTRIBUTE_NAME_BYTES_MAX, check_file, check_name, check_path};
use crate::path::Path;
use crate::policy::{
    Address, Authorize, Bounds, Decisions, Http, Level, ListenerPolicy, ListenerRole, Log, Memory, Metering,
    Sample, Tls,
};
use crate::printable::shown;
use crate::problem::Report;
use crate::raw::NamespaceConfig;
use crate::raw::name_map::NameMap;
use crate::raw::service::{
    AuthorizeConfig, BoundsConfig, DecisionsForm, HttpConfig, LegacyHeadersConfig, LevelConfig, ListenConfig,
    ListenerForm, LogConfig, MemoryConfig, MeteringConfig, TlsForm, WhenFullConfig,
};
use crate::raw::text_or::TextOr;
use crate::suggestion::nearest;

const HTTP_DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

pub(super) fn listen(
    raw: &ListenConfig,
    is_authorized: bool,
    path: &Path,
    report: &mut Report<'_>,
) -> Vec<ListenerPolicy> {
    let mut listeners: Vec<ListenerPolicy> = Vec::new();
    for (role, raw) in raw.by_role() {
        let within = path.key(role.as_str());
        let listener = match raw {
            Some(raw) => listener(role, raw, &within, report),
            None if role == ListenerRole::Http => Some(ListenerPolicy::new(role, Address::Tcp(HTTP_DEFAULT))),
            None => None,
        };
        let Some(listener) = listener else { continue };
        let takes_any_port = matches!(listener.address, Address::Tcp(address) if address.port() == 0);
        if !takes_any_port && listeners.iter().any(|other| other.address == listener.address) {
            let (other, fix) = taken(role);
            report.value(&within, format!("{role} listens on {} as {other} does", listener.address), fix);
        }
        listeners.push(listener);
    }
    let http = listeners.iter().find(|listener| listener.role == ListenerRole::Http);
    if http.is_some_and(|http| !http.address.is_local()) && raw.admin.is_none() {
        let what = "metrics and the routes of operators are served nowhere, because http is not on loopback";
        report.warn(&path.key("http"), what, "add `admin: 127.0.0.1:8082` under `listen:`");
    }
    for (role, raw) in raw.by_role() {
        let listener = listeners.iter().find(|listener| listener.role == role);
        let is_authorized = is_authorized && role.asks_for_grants();
        guard(raw, listener, is_authorized, &path.key(role.as_str()), report);
    }
    listeners
}

/// The listener whose address one with this role takes, in words, and how to mend that.
fn taken(role: ListenerRole) -> (&'static str, String) {
    match (role, role.usual_port()) {
        (ListenerRole::Admin, _) => {
            ("http", "use another port, or remove `admin` to serve it on the http listener".to_owned())
        }
        (_, Some(port)) => ("another listener", format!("use another port, for example 127.0.0.1:{port}")),
        (_, None) => ("another listener", "use another port".to_owned()),
    }
}

fn listener(
    role: ListenerRole,
    raw: &TextOr<ListenerForm>,
    path: &Path,
    report: &mut Report<'_>,
) -> Option<ListenerPolicy> {
    let own = path;
    let (text, insecure, tls, path) = match raw {
        TextOr::Text(text) => (text, false, None, path.clone()),
        TextOr::Form(form) => {
            let tls = form.tls.as_ref().map(|form| tls(form, &path.key("tls"), report));
            (&form.address, form.insecure.unwrap_or(false), tls, path.key("address"))
        }
    };
    let address = match address(text, role != ListenerRole::Admin) {
        Ok(address) => address,
        Err((what, fix)) => {
            report.value(&path, what, fix);
            return None;
        }
    };
    report.effective(&own.key("address"), address.to_string());
    let mut listener = ListenerPolicy::new(role, address);
    (listener.insecure, listener.proxy_protocol, listener.tls) = (insecure, raw.expects_preamble(), tls);
    Some(listener)
}

/// Reports a listener beyond loopback whose callers need no authorization.
fn guard(
    raw: Option<&TextOr<ListenerForm>>,
    listener: Option<&ListenerPolicy>,
    is_authorized: bool,
    path: &Path,
    report: &mut Report<'_>,
) {
    let (Some(raw), Some(listener)) = (raw, listener) else { return };
    if listener.address.is_local() || listener.insecure || listener.asks_for_certificates() || is_authorized {
        return;
    }
    let path = match raw {
        TextOr::Text(_) => path.clone(),
        TextOr::Form(_) => path.key("address"),
    };
    let address = &listener.address;
    let what = format!("{address} is reachable from other machines, and callers are not authenticated");
    let fix = format!(
        "listen on 127.0.0.1, write `authorization:`, set tls.client_ca, or write {{ address: \"{address}\", insecure: true }} where a network or a proxy guards it"
    );
    report.value(&path, what, fix);
}

fn tls(form: &TlsForm, path: &Path, report: &mut Report<'_>) -> Tls {
    let files =
        [("cert", Some(&form.cert)), ("key", Some(&form.key)), ("client_ca", form.client_ca.as_ref())];
    for (name, file) in files {
        if let Some(file) = file {
            check_file(file, &path.key(name), report);
        }
    }
    Tls { cert: form.cert.clone(), key: form.key.clone(), client_ca: form.client_ca.clone() }
}

fn address(text: &str, unix: bool) -> Result<Address, (String, String)> {
    if let Some(socket) = text.strip_prefix("unix:") {
        if !unix {
            let what = "a Unix socket is only available for http, proxy, grpc and resp".to_owned();
            return Err((what, "use an address with a port, for example 127.0.0.1:8082".to_owned()));
        }
        if socket.is_empty() || socket.len() > Address::SOCKET_PATH_BYTES_MAX || socket.contains('\0') {
            let what = format!("\"{}\" is not the path of a Unix socket", shown(text));
            let fix = format!("write unix: and a path of 1 to {} bytes", Address::SOCKET_PATH_BYTES_MAX);
            return Err((what, fix));
        }
        return Ok(Address::Unix(socket.into()));
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(Address::Tcp(address));
    }
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    if let Some((_, port)) = text.rsplit_once(':').filter(|(_, port)| is_port(port))
        && port.parse::<u16>().is_err()
    {
        let what = format!("port {} of \"{}\" is out of range", shown(port), shown(text));
        return Err((what, "use a port up to 65535; with 0 the system chooses a free one".to_owned()));
    }
    let what = format!("\"{}\" is not an address with a port", shown(text));
    let fix = match text.rsplit_once(':') {
        Some(("", port)) if port.parse::<u16>().is_ok() => {
            format!("write 127.0.0.1:{port}, or 0.0.0.0:{port} for all")
        }
        Some(("localhost", port)) if port.parse::<u16>().is_ok() => format!("write 127.0.0.1:{port}"),
        _ => match (text.parse::<IpAddr>(), text.parse::<u16>()) {
            (Ok(IpAddr::V4(ip)), _) => format!("add a port: {ip}:8080"),
            (Ok(IpAddr::V6(ip)), _) => format!("add a port: \"[{ip}]:8080\""),
            (_, Ok(port)) => format!("write 127.0.0.1:{port}"),
            _ => "write an IP address and a port, for example 127.0.0.1:8080 or \"[::1]:8080\"".to_owned(),
        },
    };
    Err((what, fix))
}

pub(super) fn memory(raw: &MemoryConfig, path: &Path, report: &mut Report<'_>) -> Memory {
    let keys = (Memory::KEYS_BYTES_MIN, Memory::KEYS_BYTES_MAX);
    let waiting = (Memory::WAITING_BYTES_MIN, Memory::KEYS_BYTES_MAX);
    let size = |name, text: &Option<String>, default, bounds, report: &mut Report<'_>| {
        memory_between((name, text.as_ref()), default, bounds, path, report)
    };
    Memory {
        keys_bytes: size("keys", &raw.keys, Memory::KEYS_BYTES_DEFAULT, keys, report),
        waiting_bytes: size("waiting", &raw.waiting, Memory::WAITING_BYTES_DEFAULT, waiting, report),
        when_full: match raw.when_full.unwrap_or_default() {
            WhenFullConfig::Refuse => WhenFull::Refuse,
            WhenFullConfig::Admit => WhenFull::Admit,
        },
    }
}

pub(super) fn metering(raw: &MeteringConfig, path: &Path, report: &mut Report<'_>) -> Metering {
    let bounds = (Metering::HISTORY_BYTES_MIN, Metering::HISTORY_BYTES_MAX);
    let history_bytes = match raw.history.as_deref() {
        Some("off" | "0") => {
            report.effective(&path.key("history"), "off");
            0
        }
        _ => memory_between(
            ("history", raw.history.as_ref()),
            Metering::HISTORY_BYTES_DEFAULT,
            bounds,
            path,
            report,
        ),
    };
    Metering { tenants: raw.tenants.unwrap_or(Metering::TENANTS_DEFAULT), history_bytes }
}

pub(super) fn authorize(
    raw: AuthorizeConfig,
    namespaces: Option<&NameMap<NamespaceConfig>>,
    path: &Path,
    report: &mut Report<'_>,
) -> Authorize {
    let within = path.key("headers");
    let mut headers: Vec<(HeaderName, String)> = Vec::new();
    let count = raw.headers.as_ref().map_or(0, NameMap::len);
    report.check_count(&within, count, "headers", tidegate_core::Attributes::MAX);
    for (header, attribute) in raw.headers.into_iter().flatten().take(tidegate_core::Attributes::MAX) {
        let at = within.key(&header);
        let Some(name) = header_name(&header) else {
            report.key(&at, not_a_header(&header), HEADER_FIX);
            continue;
        };
        if headers.iter().any(|(known, _)| *known == name) {
            let what = format!("duplicate header \"{}\" (names ignore case)", shown(&header));
            report.key(&at, what, "keep one of them");
        } else if let Some((other, _)) = headers.iter().find(|(_, known)| *known == attribute) {
            let what = format!("attribute \"{}\" is already set by header \"{other}\"", shown(&attribute));
            report.value(&at, what, "keep one of the headers, or use another attribute");
        }
        check_name("attribute", &attribute, ATTRIBUTE_NAME_BYTES_MAX, |what, fix| {
            report.value(&at, what, fix);
        });
        headers.push((name, attribute));
    }
    if let Some(name) = &raw.namespace {
        let known = || namespaces.into_iter().flatten().map(|(name, _)| name.as_str());
        if !known().any(|known| known == name) {
            let what = format!("namespace \"{}\" is not under `namespaces:`", shown(name));
            let fix = match nearest(name, known()) {
                Some(near) => format!("did you mean {near}?"),
                None => "add it there, or name one that is".to_owned(),
            };
            report.value(&path.key("namespace"), what, fix);
        }
    }
    Authorize { headers, namespace: raw.namespace }
}

pub(super) fn http(raw: &HttpConfig, path: &Path, report: &mut Report<'_>) -> Http {
    let legacy = raw.legacy_headers.as_deref().unwrap_or_default();
    let bounds = raw.bounds.as_ref().map(|raw| bounds(raw, &path.key("bounds"), report));
    Http {
        rate_limit_headers: legacy.contains(&LegacyHeadersConfig::RateLimit),
        x_rate_limit_headers: legacy.contains(&LegacyHeadersConfig::XRateLimit),
        bounds: bounds.unwrap_or_default(),
    }
}

fn bounds(raw: &BoundsConfig, path: &Path, report: &mut Report<'_>) -> Bounds {
    let mut bounds = Bounds::default();
    let sizes = [
        ("body", &raw.body, (1 << 10, 64 << 20), &mut bounds.body_bytes),
        ("headers", &raw.headers, (8 << 10, 1 << 20), &mut bounds.header_bytes),
        ("attribute", &raw.attribute, (16, 64 << 10), &mut bounds.attribute_bytes),
    ];
    for (name, text, within, bytes) in sizes {
        *bytes = memory_between((name, text.as_ref()), *bytes, within, path, report);
    }
    let spans = [
        ("request_timeout", &raw.request_timeout, 10 * MILLI, &mut bounds.request_timeout),
        ("drain_timeout", &raw.drain_timeout, Duration::ZERO, &mut bounds.drain_timeout),
    ];
    for (name, text, least, timeout) in spans {
        *timeout = between((name, text.as_ref()), *timeout, (least, HOUR), path, report);
    }
    bounds.headers = raw.header_count.map_or(bounds.headers, usize::from);
    bounds.attributes = raw.attributes.map_or(bounds.attributes, usize::from);
    bounds.connections = raw.connections.map_or(bounds.connections, |count| count as usize);
    bounds
}

pub(super) fn log(raw: &LogConfig, path: &Path, report: &mut Report<'_>) -> Log {
    let refusals = match raw.refusals.as_deref() {
        None => Rate::per_second(10).ok(),
        Some("off") => None,
        Some(text) => match text.parse::<Rate>() {
            Ok(rate) => {
                report.effective(&path.key("refusals"), rate.to_string());
                Some(rate)
            }
            Err(tidegate_core::RateError::Zero(_)) => {
                report.value(
                    &path.key("refusals"),
                    format!("\"{}\" writes no line", shown(text)),
                    "write off",
                );
                None
            }
            Err(error) => {
                report.error(&path.key("refusals"), &error);
                None
            }
        },
    };
    Log {
        level: match raw.level.unwrap_or_default() {
            LevelConfig::Error => Level::Error,
            LevelConfig::Warn => Level::Warn,
            LevelConfig::Info => Level::Info,
            LevelConfig::Debug => Level::Debug,
            LevelConfig::Trace => Level::Trace,
        },
        format: raw.format.unwrap_or_default(),
        refusals,
        decisions: raw.decisions.as_ref().map(|raw| decisions(raw, &path.key("decisions"), report)),
    }
}

fn decisions(raw: &TextOr<DecisionsForm>, path: &Path, report: &mut Report<'_>) -> Decisions {
    let text = match raw {
        TextOr::Text(text) => text,
        TextOr::Form(form) => &form.path,
    };
    let mut decisions = Decisions {
        path: text.clone(),
        size_bytes: Decisions::SIZE_BYTES_DEFAULT,
        files: Decisions::FILES_DEFAULT,
        queue: Decisions::QUEUE_DEFAULT,
        sample: Sample::All,
    };
    let TextOr::Form(form) = raw else {
        check_path("the decision log", text, path, report);
        return decisions;
    };
    check_path("the decision log", text, &path.key("path"), report);
    let bounds = (Decisions::SIZE_BYTES_MIN, Decisions::SIZE_BYTES_MAX);
    decisions.size_bytes =
        size_between(("size", form.size.as_ref()), decisions.size_bytes, bounds, path, report);
    decisions.files = form.files.unwrap_or(decisions.files);
    decisions.queue = form.queue.map_or(decisions.queue, |lines| lines as usize);
    decisions.sample = form.sample.unwrap_or_default();
    decisions
}
