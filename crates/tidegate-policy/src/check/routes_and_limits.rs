//! Warns about routes and limits that do not fit each other. Each warning holds for every request
//! of the proxy.

use tidegate_core::limit::{Limit, Mode};
use tidegate_core::{Algorithm, Cost};

use super::route_attributes::RouteAttributes;
use crate::path::Path;
use crate::policy::NamespacePolicy;
use crate::policy::proxy::Route;
use crate::printable::shown;
use crate::problem::Report;
use crate::suggestion::nearest;

/// Warns about every route and the limits of its namespace.
///
/// `is_only_proxied` tells whether nothing in the policy prepares for other protocols: those bring
/// what attributes they like.
pub(super) fn warn(
    namespaces: &[NamespacePolicy],
    routes: &[Route],
    is_only_proxied: bool,
    report: &mut Report<'_>,
) {
    let top = Path::default();
    let within = top.key("proxy").key("routes");
    for namespace in namespaces {
        let of_namespace = |route: &&Route| route.namespace.as_ref() == Some(&namespace.name);
        let fed: Vec<RouteAttributes<'_>> =
            routes.iter().filter(of_namespace).map(RouteAttributes::Of).collect();
        if is_only_proxied && !fed.is_empty() {
            let path = top.key("namespaces").key(&namespace.name).key("limits");
            unfed_limits(namespace, &fed, &path, report);
        }
    }
    for (index, route) in routes.iter().enumerate() {
        let namespace = namespaces.iter().find(|known| route.namespace.as_ref() == Some(&known.name));
        for limit in namespace.iter().flat_map(|namespace| &namespace.limits) {
            if report.has_all_warnings() {
                return;
            }
            if limit.mode == Mode::Enforce {
                refused_route(route, limit, &within.index(index), report);
                too_costly(route, limit, &within.index(index).key("cost").key("units"), report);
            }
        }
    }
}

/// Warns about limits that no route of their namespace can feed.
fn unfed_limits(
    namespace: &NamespacePolicy,
    routes: &[RouteAttributes<'_>],
    path: &Path,
    report: &mut Report<'_>,
) {
    for (index, limit) in namespace.limits.iter().enumerate() {
        if report.has_all_warnings() {
            return;
        }
        let reasons: Option<Vec<&str>> = routes.iter().map(|route| route.never_fits(limit)).collect();
        let Some(attribute) = reasons.as_deref().and_then(<[&str]>::first) else { continue };
        let name = shown(&namespace.name);
        let why = if routes.iter().any(|route| route.sets(attribute)) {
            format!("no route of namespace \"{name}\" has the attributes that its `key` and `match` ask for")
        } else {
            format!("no route of namespace \"{name}\" sets \"{}\"", shown(attribute))
        };
        let what = format!("limit \"{}\" counts no request of the proxy: {why}", shown(&limit.name));
        let known = routes.iter().flat_map(|route| route.names());
        let fix = match nearest(attribute, known) {
            Some(near) if !routes.iter().any(|route| route.sets(attribute)) => {
                format!("did you mean {near}?")
            }
            _ => "change `attributes` of a route or the limit, unless it is for callers of the HTTP API only"
                .to_owned(),
        };
        report.warn(&path.index(index), what, fix);
    }
}

/// Warns about a route of which a limit refuses every request.
fn refused_route(route: &Route, limit: &Limit, path: &Path, report: &mut Report<'_>) {
    let Some(attribute) = RouteAttributes::Of(route).always_lacks(limit) else { return };
    let what = format!(
        "every request of route \"{}\" is refused: limit \"{}\" needs attribute \"{}\", which the route does not set",
        shown(&route.name),
        shown(&limit.name),
        shown(attribute)
    );
    let fix = match nearest(attribute, RouteAttributes::Of(route).names()) {
        Some(near) => format!("did you mean {near}, which it sets?"),
        None => "add it to `attributes` of the route, or use `missing: group` or `missing: skip`".to_owned(),
    };
    report.warn(path, what, fix);
}

/// Warns about a route whose requests cost more than a limit ever admits at once.
fn too_costly(route: &Route, limit: &Limit, path: &Path, report: &mut Report<'_>) {
    // Rows of the cost table are held against limits where they are checked.
    let Some(cost) = route.cost.units else { return };
    let fits = |algorithm: &Algorithm| is_admitted_at_once(algorithm, cost);
    let of_plans = || limit.plans.iter().map(|one| one.algorithm.as_ref());
    let is_fitting = fits(&limit.algorithm)
        || limit.overrides.iter().any(|changed| fits(&changed.algorithm))
        || of_plans().any(|algorithm| algorithm.is_none_or(fits));
    // A limit of 0 is warned about by itself.
    let attributes = RouteAttributes::Of(route);
    let is_of_no_effect = attributes.never_fits(limit).is_some() || attributes.always_lacks(limit).is_some();
    if is_fitting || is_of_no_effect || limit.algorithm.limit() == 0 {
        return;
    }
    let (number, most) = match &limit.algorithm {
        Algorithm::Bucket(bucket) => ("burst", bucket.burst()),
        other => ("limit", other.limit()),
    };
    let what = format!(
        "limit \"{}\" never admits a request of route \"{}\" that it applies to: the cost of {} is above its {number} of {most}",
        shown(&limit.name),
        shown(&route.name),
        cost.units(),
    );
    report.warn(path, what, format!("lower the cost, or raise the {number}"));
}

/// Whether a limit that nothing is used of admits such a cost.
pub(super) fn is_admitted_at_once(algorithm: &Algorithm, cost: Cost) -> bool {
    match algorithm {
        // A permit is one place, whatever the request costs.
        Algorithm::Concurrency(_) => true,
        other => cost.units() <= other.largest_cost(),
    }
}
