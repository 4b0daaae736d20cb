//! Warns about routes that never take a request, because an earlier one takes all of theirs.

use tidegate_core::Matcher;

use crate::grammar::ValueSource;
use crate::path::Path;
use crate::policy::proxy::Route;
use crate::printable::shown;
use crate::problem::Report;
use crate::raw::matcher::MatcherConfig;
use crate::raw::proxy::RouteConfig;

/// `routes` are the checked routes of `raw`, in the same order.
pub(super) fn warn(routes: &[Route], raw: &[RouteConfig], path: &Path, report: &mut Report<'_>) {
    for (index, (route, raw)) in routes.iter().zip(raw).enumerate() {
        let Some(earlier) = routes[..index].iter().find(|earlier| takes_all_of(earlier, route, raw)) else {
            continue;
        };
        let (name, earlier) = (shown(&route.name), shown(&earlier.name));
        let what = format!("route \"{name}\" is never reached: route \"{earlier}\" takes its requests first");
        report.warn(&path.index(index), what, format!("put it before \"{earlier}\", or remove it"));
    }
}

/// Whether `earlier` certainly takes every request that `later` would take.
fn takes_all_of(earlier: &Route, later: &Route, raw: &RouteConfig) -> bool {
    let has_methods = earlier.methods.is_empty()
        || (!later.methods.is_empty() && later.methods.iter().all(|method| earlier.methods.contains(method)));
    let has_path = match (&earlier.path, &later.path) {
        (None, _) => true,
        (Some(_), None) => earlier.path.as_ref().is_some_and(|path| path.as_str() == "/*"),
        (Some(earlier), Some(later)) => earlier == later || is_prefix_of(earlier.as_str(), later.as_str()),
    };
    has_methods && has_path && has_host(earlier, raw) && has_headers(earlier, raw)
}

/// Whether `earlier` is a text with one star at its end, and every path of the pattern `later`
/// begins with that text.
fn is_prefix_of(earlier: &str, later: &str) -> bool {
    let literal = later.split('*').next().unwrap_or_default();
    earlier.strip_suffix('*').is_some_and(|start| !start.contains('*') && literal.starts_with(start))
}

/// Whether `earlier` takes every host that the route of `raw` takes.
fn has_host(earlier: &Route, raw: &RouteConfig) -> bool {
    let Some(matcher) = &earlier.host else { return true };
    takes_all_values_of(matcher, raw.matches.as_ref().and_then(|matches| matches.host.as_ref()))
}

/// Whether the headers of every request that the route of `raw` takes are as `earlier` wants them.
fn has_headers(earlier: &Route, raw: &RouteConfig) -> bool {
    let later = raw.matches.as_ref().and_then(|matches| matches.headers.as_ref());
    let value_of = |source: &ValueSource| {
        let ValueSource::Header(name) = source else { return None };
        later?
            .into_iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name.as_str()))
            .map(|(_, value)| value)
    };
    earlier.headers.iter().all(|(source, matcher)| takes_all_values_of(matcher, value_of(source)))
}

/// Whether a matcher takes every value of `later`; only plain values are compared.
fn takes_all_values_of(matcher: &Matcher, later: Option<&MatcherConfig>) -> bool {
    match later {
        Some(MatcherConfig::Exact(value)) => matcher.matches(Some(value)),
        Some(MatcherConfig::OneOf(values)) => values.iter().all(|value| matcher.matches(Some(value))),
        Some(MatcherConfig::Form(_)) | None => false,
    }
}
