//! Checks a route of the reverse proxy.

use core::num::NonZeroU64;
use core::time::Duration;

use http::{HeaderValue, Method};
use tidegate_core::Cost;
use tidegate_core::limit::Plans;

use super::super::bounded_span::{DAY, HOUR, MILLI, WEEK, between};
use super::super::claims;
use super::super::header::{HEADER_FIX, header_name, not_a_header};
use super::super::matcher;
use super::super::name_and_path::{ATTRIBUTE_NAME_BYTES_MAX, check_name};
use super::super::path_expression::{glob_of, is_expression};
use super::pass_through;
use crate::grammar::{GrammarError, PathPattern, ResponseValue, SourceScope, ValueSource};
use crate::measure::{format_size, size};
use crate::path::Path;
use crate::policy::proxy::{RefusalPage, Route, RouteCost, RouteHold};
use crate::printable::shown;
use crate::problem::Report;
use crate::raw::NamespaceConfig;
use crate::raw::claims::AccessForm;
use crate::raw::matcher::TextOrTexts;
use crate::raw::name_map::NameMap;
use crate::raw::proxy::{CostForm, ProxyConfig, RefusalForm, RouteConfig, RouteMatch, TimeoutsForm};
use crate::raw::resources::ResourceConfig;
use crate::suggestion::nearest;

const SCOPE: SourceScope = SourceScope::Proxied;

/// The settings that a route is checked against.
#[derive(Clone, Copy)]
pub(super) struct Surroundings<'a> {
    pub(super) proxy: &'a ProxyConfig,
    pub(super) namespaces: Option<&'a NameMap<NamespaceConfig>>,
    pub(super) resources: Option<&'a NameMap<ResourceConfig>>,
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

pub(super) fn route(
    raw: &RouteConfig,
    index: usize,
    around: Surroundings<'_>,
    path: &Path,
    report: &mut Report<'_>,
) -> Route {
    let Surroundings { proxy, namespaces, resources } = around;
    let name = raw.name.clone().unwrap_or_else(|| format!("route-{index}"));
    report.effective(&path.key("name"), name.as_str());
    check_name("route", &name, 128, |what, fix| report.value(&path.key("name"), what, fix));
    let upstreams = proxy.upstreams.iter().flatten().map(|(name, _)| name.as_str());
    let at = path.key("upstream");
    among(("upstream", &raw.upstream), upstreams, ("proxy.upstreams", &at), report);
    if let Some(name) = &raw.namespace {
        let known = namespaces.into_iter().flatten().map(|(name, _)| name.as_str());
        among(("namespace", name), known, ("namespaces", &path.key("namespace")), report);
    }
    let mut route = Route::new(name, raw.upstream.clone());
    route.namespace.clone_from(&raw.namespace);
    route.attributes = attributes(raw, proxy, path, report);
    if let Some(tenant) = &raw.tenant {
        let known = raw.attributes.iter().flatten().map(|(name, _)| name.as_str());
        among(("tenant", tenant), known, ("attributes", &path.key("tenant")), report);
        route.tenant = Some(tenant.clone());
    }
    if let Some(raw) = &raw.class {
        route.class = claims::class(raw, SCOPE, &path.key("class"), report);
    }
    if let Some(text) = &raw.feature {
        route.feature = claims::source(text, SCOPE, &path.key("feature"), report);
    }
    if let Some(text) = &raw.deadline {
        route.deadline = deadline(text, &path.key("deadline"), report);
    }
    if let Some(text) = &raw.attempt {
        let attempt = claims::source(text, SCOPE, &path.key("attempt"), report);
        route.attempt = attempt.unwrap_or(route.attempt);
    }
    if let Some(raw) = &raw.access {
        let namespace = route.namespace.as_deref();
        route.access = access(raw, namespace, namespaces, &path.key("access"), report).map(|mut access| {
            access.kind.get_or_insert(ValueSource::Method);
            access
        });
    }
    needs_keys(raw, proxy, path, report);
    forgeable(&route, namespaces, proxy, path, report);
    route.wait = between(("wait", raw.wait.as_ref()), Duration::ZERO, (Duration::ZERO, HOUR), path, report);
    route.retry = raw.retry.unwrap_or_default();
    route.hold = raw.hold.unwrap_or_default();
    holds_a_place(&route, resources, &path.key("hold"), report);
    route.upgrades = pass_through::upgrades(raw.upgrades.as_ref(), &path.key("upgrades"), report);
    if let Some(raw) = &raw.matches {
        matches(raw, &mut route, &path.key("match"), report);
    }
    if let Some(raw) = &raw.cost {
        cost(raw, &mut route.cost, &path.key("cost"), report);
    }
    if let Some(raw) = &raw.timeouts {
        timeouts(raw, &mut route, &path.key("timeouts"), report);
    }
    if let Some(raw) = &raw.refusal {
        route.refusal = refusal(raw, &path.key("refusal"), report);
    }
    route
}

fn refusal(raw: &RefusalForm, path: &Path, report: &mut Report<'_>) -> Option<RefusalPage> {
    let media = raw.content_type.as_deref().unwrap_or("text/plain; charset=utf-8");
    let is_media = media.contains('/') && media.chars().all(|c| c == ' ' || c.is_ascii_graphic());
    let Some(content_type) = HeaderValue::from_str(media).ok().filter(|_| is_media) else {
        let what = format!("\"{}\" is not a media type", shown(media));
        report.value(&path.key("content_type"), what, "write one as text/html");
        return None;
    };
    Some(RefusalPage { content_type, body: raw.body.clone() })
}

/// The source of a wait; the name of a header alone is that header.
fn deadline(text: &str, path: &Path, report: &mut Report<'_>) -> Option<ValueSource> {
    if ValueSource::has_kind(text) {
        return claims::source(text, SCOPE, path, report);
    }
    let header = header_name(text);
    if header.is_none() {
        report.value(path, not_a_header(text), "write header.NAME, for example header.x-timeout-ms");
    }
    header.map(ValueSource::Header)
}

fn access(
    raw: &AccessForm,
    namespace: Option<&str>,
    namespaces: Option<&NameMap<NamespaceConfig>>,
    path: &Path,
    report: &mut Report<'_>,
) -> Option<crate::policy::claims::AccessSources> {
    let Some(name) = namespace else {
        let what = "the access is of no effect, because the route has no namespace";
        report.value(path, what, "add `namespace:`, the one that the table belongs to");
        return None;
    };
    let namespace = namespaces.and_then(|namespaces| namespaces.get(name))?;
    let tables = namespace.tables.iter().flatten().map(|table| table.name.as_str());
    claims::access(raw, SCOPE, (name, &tables.collect::<Vec<_>>()), path, report)
}

/// Reports `hold: first_byte` of a route whose requests have no place.
fn holds_a_place(
    route: &Route,
    resources: Option<&NameMap<ResourceConfig>>,
    path: &Path,
    report: &mut Report<'_>,
) {
    if route.hold == RouteHold::End {
        return;
    }
    let upstream = shown(&route.upstream);
    if route.namespace.is_none() {
        let what = "hold \"first_byte\" is of no effect, because the route has no namespace";
        let fix = "add `namespace:`, which may be one without limits, or remove `hold`";
        report.value(path, what, fix);
    } else if resources.is_none_or(|resources| resources.get(&route.upstream).is_none()) {
        let what = format!(
            "hold \"first_byte\" has no place to give back, because upstream \"{upstream}\" has no resource"
        );
        let fix = format!(
            "add `resources: {{ {upstream}: {{ concurrency: 20, streams: 1000 }} }}` with how many requests the \
             upstream works on at once, or remove `hold`"
        );
        report.value(path, what, fix);
    }
}

/// Reports sources that read a token where there are no keys to verify tokens with.
fn needs_keys(raw: &RouteConfig, proxy: &ProxyConfig, path: &Path, report: &mut Report<'_>) {
    if proxy.jwt.is_some() {
        return;
    }
    let within = path.key("attributes");
    let attributes = raw.attributes.iter().flatten().map(|(name, text)| (within.key(name), Some(text)));
    let class = raw.class.as_ref().and_then(|class| class.from.as_ref());
    let cost = raw.cost.as_ref().and_then(|cost| cost.from.as_ref());
    let claims = [
        ("class", class),
        ("cost", cost),
        ("feature", raw.feature.as_ref()),
        ("deadline", raw.deadline.as_ref()),
        ("attempt", raw.attempt.as_ref()),
    ];
    let claims = claims.map(|(key, text)| {
        let at = path.key(key);
        (if key == "class" || key == "cost" { at.key("from") } else { at }, text)
    });
    let access = raw.access.iter().flat_map(|access| {
        let at = path.key("access");
        [
            (at.key("table"), Some(&access.table)),
            (at.key("key"), Some(&access.key)),
            (at.key("kind"), access.kind.as_ref()),
            (at.key("size"), access.size.as_ref()),
        ]
    });
    for (at, text) in attributes.chain(claims).chain(access) {
        if let Some(text) = text.filter(|text| text.starts_with("jwt.")) {
            let what =
                format!("\"{}\" reads a token, and there are no keys to verify tokens with", shown(text));
            report.value(&at, what, "add `jwt:` under `proxy:`");
        }
    }
}

fn matches(raw: &RouteMatch, route: &mut Route, path: &Path, report: &mut Report<'_>) {
    if let Some(pattern) = &raw.path {
        route.path = pattern_of(pattern, &path.key("path"), report);
    }
    let host = raw.host.as_ref();
    if let Some(raw) = host {
        pass_through::hosts(raw, &path.key("host"), report);
    }
    route.host = host.and_then(|raw| matcher::matcher(raw, &path.key("host"), report));
    headers(raw, route, &path.key("headers"), report);
    for (index, name) in raw.method.iter().flatten().enumerate() {
        let at = path.key("method").index(index);
        let is_capital = !name.contains(|c: char| c.is_ascii_lowercase());
        if let Some(method) =
            Method::from_bytes(name.as_bytes()).ok().filter(|_| is_capital && name.len() <= 256)
        {
            pass_through::method(&method, &at, report);
            route.methods.push(method);
        } else {
            let what = format!("\"{}\" is not a method", shown(name));
            report.value(&at, what, "write it in capitals, for example GET");
        }
    }
}

/// The headers that a route wants.
fn headers(raw: &RouteMatch, route: &mut Route, path: &Path, report: &mut Report<'_>) {
    let count = raw.headers.as_ref().map_or(0, NameMap::len);
    if !report.check_count(path, count, "headers", Route::HEADERS_MAX) {
        return;
    }
    for (name, raw) in raw.headers.iter().flatten() {
        let at = path.key(name);
        let Some(header) = header_name(name) else {
            report.key(&at, not_a_header(name), HEADER_FIX);
            continue;
        };
        if route.headers.iter().any(|(source, _)| *source == ValueSource::Header(header.clone())) {
            let what = format!("duplicate header \"{}\": names of headers have no case", shown(name));
            report.key(&at, what, "keep one");
        }
        if header == http::header::HOST {
            report.key(
                &at,
                "the host is matched in its canonical spelling",
                "write `host:` beside `headers:`",
            );
            continue;
        }
        if let Some((what, fix)) = matcher::pattern_as_text(raw) {
            report.warn(&at, what, fix);
        }
        let matcher = matcher::matcher(raw, &at, report);
        route.headers.extend(matcher.map(|matcher| (ValueSource::Header(header), matcher)));
    }
}

fn pattern_of(pattern: &str, path: &Path, report: &mut Report<'_>) -> Option<PathPattern> {
    if is_expression(pattern) {
        let what = format!("path \"{}\" is a regular expression, and paths are globs", shown(pattern));
        let fix = match glob_of(pattern) {
            Some(glob) => format!("write {}", shown(&glob)),
            None => "write a glob, for example /v1/* or /v1/*/items".to_owned(),
        };
        report.value(path, what, fix);
        return None;
    }
    match PathPattern::parse(pattern) {
        Ok(pattern) => Some(pattern),
        Err(error) => {
            report.value(path, error.what, error.fix);
            None
        }
    }
}

fn attributes(
    raw: &RouteConfig,
    proxy: &ProxyConfig,
    path: &Path,
    report: &mut Report<'_>,
) -> Vec<(String, ValueSource)> {
    let within = path.key("attributes");
    let count = raw.attributes.as_ref().map_or(0, NameMap::len);
    report.check_count(&within, count, "attributes", tidegate_core::Attributes::MAX);
    let has_trusted = proxy.trusted.iter().flatten().next().is_some();
    let mut all = Vec::new();
    for (name, text) in raw.attributes.iter().flatten().take(tidegate_core::Attributes::MAX) {
        let at = within.key(name);
        check_name("attribute", name, ATTRIBUTE_NAME_BYTES_MAX, |what, fix| report.key(&at, what, fix));
        let Some(source) = claims::source(text, SCOPE, &at, report) else { continue };
        pass_through::client_address(&source, has_trusted, &at, report);
        all.push((name.clone(), source));
    }
    all
}

fn cost(raw: &CostForm, cost: &mut RouteCost, path: &Path, report: &mut Report<'_>) {
    cost.units = raw.units.and_then(Cost::new);
    cost.from = raw.from.as_deref().and_then(|text| claims::source(text, SCOPE, &path.key("from"), report));
    if let Some(text) = &raw.body {
        match size("body", text, 1, 1 << 40) {
            Ok(bytes) => {
                report.effective(&path.key("body"), format_size(bytes));
                cost.body_bytes = NonZeroU64::new(bytes);
            }
            Err((what, fix)) => report.value(&path.key("body"), what, fix),
        }
    }
    let at = path.key("from_response");
    let texts: Vec<(Path, &str)> = match &raw.from_response {
        None => Vec::new(),
        Some(TextOrTexts::One(text)) => vec![(at.clone(), text.as_str())],
        Some(TextOrTexts::List(texts)) => {
            texts.iter().enumerate().map(|(index, text)| (at.index(index), text.as_str())).collect()
        }
    };
    if !report.check_count(&at, texts.len(), "places of the true cost", RouteCost::FROM_RESPONSE_MAX) {
        return;
    }
    cost.from_response =
        texts.into_iter().filter_map(|(at, text)| response_value(text, &at, report)).collect();
}

/// Where an answer says a number; the name of a header alone is that header.
fn response_value(text: &str, path: &Path, report: &mut Report<'_>) -> Option<ResponseValue> {
    let error = match text.parse() {
        Ok(value) => return Some(value),
        Err(GrammarError { what, fix }) => (what, fix),
    };
    if !text.contains(['.', '+', ' '])
        && !["header", "json", "sse"].contains(&text)
        && let Some(name) = header_name(text)
    {
        return Some(ResponseValue::Header(name));
    }
    report.value(path, error.0, error.1);
    None
}

/// Warns of attributes that choose numbers or windows and that a client writes itself.
fn forgeable(
    route: &Route,
    namespaces: Option<&NameMap<NamespaceConfig>>,
    proxy: &ProxyConfig,
    path: &Path,
    report: &mut Report<'_>,
) {
    let has_trusted = proxy.trusted.iter().flatten().next().is_some();
    let namespace = route.namespace.as_ref().and_then(|name| namespaces?.get(name));
    let Some(namespace) = namespace.filter(|_| !has_trusted) else { return };
    let within = path.key("attributes");
    let of_client = |attribute: &str| {
        route.attributes.iter().find(|(name, source)| {
            let is_written =
                matches!(source, ValueSource::Header(_) | ValueSource::Query(_) | ValueSource::Cookie(_));
            name == attribute && is_written
        })
    };
    let plan = namespace.plans.as_ref().map(|plans| plans.attribute.as_deref().unwrap_or(Plans::ATTRIBUTE));
    if let Some((name, source)) = plan.and_then(of_client) {
        let what = format!("any client may write {source} and so choose its plan");
        let fix = "take it from a token (jwt.CLAIM), assign plans in `plans.assigned`, or name the proxies in front under `trusted:`";
        report.warn(&within.key(name), what, fix);
    }
    let mut zones = namespace
        .limits
        .iter()
        .flatten()
        .filter_map(|limit| limit.calendar.as_ref().and_then(|calendar| calendar.zone_from.as_deref()));
    if let Some((name, source)) = zones.find_map(of_client) {
        let what = format!("any client may write {source} and so choose when its window ends");
        let fix = "take it from a token (jwt.CLAIM), or name the proxies in front under `trusted:`";
        report.warn(&within.key(name), what, fix);
    }
}

fn timeouts(raw: &TimeoutsForm, route: &mut Route, path: &Path, report: &mut Report<'_>) {
    let first_byte = ("first_byte", raw.first_byte.as_ref());
    route.timeouts.first_byte = between(first_byte, route.timeouts.first_byte, (MILLI, DAY), path, report);
    route.timeouts.idle =
        between(("idle", raw.idle.as_ref()), route.timeouts.idle, (MILLI, DAY), path, report);
    if raw.total.is_some() {
        route.timeouts.total =
            Some(between(("total", raw.total.as_ref()), WEEK, (MILLI, WEEK), path, report));
    }
}
