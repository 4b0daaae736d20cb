//! `GET /v1/usage`, of a namespace and of a tenant: the requests and units that the meter has
//! counted.

use core::cmp::Reverse;

use http::StatusCode;
use tidegate_core::{Class, RequestOutcome, Timestamp};
use tidegate_engine::{NamespaceUsage, RowName, RowUsage, TenantUsage, Usage};
use tidegate_net::reply::{self, Reply};
use tidegate_policy::policy::authorization::Verb;
use tidegate_wire::text::shortened;
use tidegate_wire::usage::{
    NamespaceUsageBody, TenantUsageBody, UsageBody, UsageColumn, UsageColumns, UsageOfClass, UsageOutcomes,
    UsageRow, UsageRowKind, to_millis,
};
use tidegate_wire::{Fault, FaultCode};

use crate::api::parameters::{Accepted, Parameters};
use crate::api::route::{Route, RouteAccess, RouteCall, RouteFuture};
use crate::context::RequestScope;
use crate::engine_fault::SHOWN_BYTES;

/// The default and the largest number of rows of each list.
const ROWS_DEFAULT: usize = 10;
const ROWS_MAX: usize = 1000;

const USAGE: Accepted = Accepted { route: "/v1/usage", once: &["n", "by"], repeated: &[] };
const NAMESPACE: Accepted = Accepted { route: "/v1/usage/{namespace}", ..USAGE };
const TENANT: Accepted = Accepted { route: "/v1/usage/{namespace}/{tenant}", once: &[], repeated: &[] };

/// The routes. Those of a namespace are for callers that may inspect that namespace.
pub(crate) const ROUTES: &[Route] = &[
    Route::get(USAGE.route, "The use of all namespaces, features and resources", |call| {
        Box::pin(async move { call.scope.usage(call.query()) })
    })
    .answers("UsageBody")
    .query(USAGE),
    Route::get(NAMESPACE.route, "The use of a namespace, and its largest tenants", |call| {
        Box::pin(async move {
            let namespace = call.segment("namespace")?.unwrap_or_default();
            call.caller.may(Verb::Inspect, &namespace)?;
            call.scope.namespace_usage(&namespace, call.query())
        })
    })
    .access(RouteAccess::Operator)
    .answers("NamespaceUsageBody")
    .query(NAMESPACE),
    Route::get(TENANT.route, "The use of a tenant", tenant)
        .access(RouteAccess::Operator)
        .answers("TenantUsageBody")
        .query(TENANT),
    // The tenant whose name is empty.
    Route::get("/v1/usage/{namespace}/", "", tenant).access(RouteAccess::Operator),
];

fn tenant(call: RouteCall<'_>) -> RouteFuture<'_> {
    Box::pin(async move {
        let namespace = call.segment("namespace")?.unwrap_or_default();
        call.caller.may(Verb::Inspect, &namespace)?;
        let tenant = call.segment("tenant")?.unwrap_or_default();
        TENANT.read(call.query())?;
        call.scope.tenant_usage(&namespace, &tenant)
    })
}

/// The rows that a query asks for.
#[derive(Clone, Copy, Debug)]
struct UsagePage {
    n: usize,
    by: UsageColumn,
}

impl UsagePage {
    fn read(parameters: &Parameters<'_>) -> Result<Self, Fault> {
        let fix = || format!("use one of {}; without by it is offered", UsageColumn::names());
        let by = parameters.parsed("by", "a column", UsageColumn::from_name, fix)?;
        let n = parameters.number("n", ROWS_DEFAULT, ROWS_MAX)?;
        Ok(Self { n, by: by.unwrap_or(UsageColumn::Offered) })
    }

    /// The `n` largest rows, in the order of their numbers and names, and how many there are beyond
    /// them. Only rows that are shown get their names and all their columns.
    fn largest<T>(
        self,
        rows: Vec<T>,
        of: impl Fn(&T) -> (&[Usage], &str),
        body: impl Fn(&T) -> UsageRow,
    ) -> (Vec<UsageRow>, usize) {
        let number = |row: &T| {
            of(row).0.iter().fold(0, |sum: u64, class| sum.saturating_add(number_of_class(self.by, class)))
        };
        let mut ranked: Vec<(Reverse<u64>, T)> =
            rows.into_iter().map(|row| (Reverse(number(&row)), row)).collect();
        let order = |one: &(Reverse<u64>, T), other: &(Reverse<u64>, T)| {
            one.0.cmp(&other.0).then_with(|| of(&one.1).1.cmp(of(&other.1).1))
        };
        let more = ranked.len().saturating_sub(self.n);
        if more > 0 {
            ranked.select_nth_unstable_by(self.n, order);
            ranked.truncate(self.n);
        }
        ranked.sort_unstable_by(order);
        (ranked.iter().map(|(_, row)| body(row)).collect(), more)
    }
}

/// The number of a class by which rows are sorted; of times in nanoseconds.
fn number_of_class(by: UsageColumn, usage: &Usage) -> u64 {
    match by {
        UsageColumn::Offered => usage.offered(),
        UsageColumn::Units => usage.units,
        UsageColumn::RefusedUnits => usage.refused_units,
        UsageColumn::PlaceTime => u64::try_from(usage.place_time.as_nanos()).unwrap_or(u64::MAX),
        UsageColumn::ReportedAdmitted => usage.reported_admitted,
        UsageColumn::ReportedDenied => usage.reported_denied,
        UsageColumn::Outcome(outcome) => usage.outcome(outcome),
    }
}

impl RequestScope<'_> {
    /// Answers `GET /v1/usage`.
    fn usage(&self, query: Option<&str>) -> Result<Reply, Fault> {
        let page = UsagePage::read(&USAGE.read(query)?)?;
        let engine = &self.in_force.engine;
        let report = engine.usage().ok_or_else(not_metered)?;
        let total = Usage::sum(report.namespaces.iter().flat_map(|row| &row.classes));
        let (namespaces, more_namespaces) = page.largest(
            report.namespaces,
            |row| (&row.classes, name_of(&row.name)),
            |row| named(&row.name, row.since, &row.classes),
        );
        let rows = |rows: Vec<RowUsage>| {
            page.largest(
                rows,
                |row| (&row.classes, name_of(&row.name)),
                |row| named(&row.name, row.since, &row.classes),
            )
        };
        let (features, more_features) = rows(report.features);
        let (resources, more_resources) = rows(report.resources);
        let body = UsageBody {
            member: self.daemon.member.clone(),
            since: instant(report.since),
            by: page.by.as_str().to_owned(),
            total: columns(&total),
            namespaces,
            more_namespaces,
            features,
            more_features,
            resources,
            more_resources,
            metering_bytes: engine.metering_bytes() as u64,
        };
        Ok(reply::json(StatusCode::OK, &body))
    }

    /// Answers `GET /v1/usage/{namespace}`.
    fn namespace_usage(&self, namespace: &str, query: Option<&str>) -> Result<Reply, Fault> {
        let page = UsagePage::read(&NAMESPACE.read(query)?)?;
        let (usage, tenants) = self.usage_of(namespace)?;
        let NamespaceUsage { name, since, classes, no_tenant, other, tenants: tracked, .. } = &usage;
        let (tenants, more) =
            page.largest(tenants, |row: &TenantUsage| (&row.classes, &row.name), tenant_row);
        let body = NamespaceUsageBody {
            member: self.daemon.member.clone(),
            by: page.by.as_str().to_owned(),
            namespace: named(name, *since, classes),
            no_tenant: named(&RowName::None, *since, no_tenant),
            other: named(&RowName::Other, *since, other),
            tracked: *tracked,
            more,
            tenants,
        };
        Ok(reply::json(StatusCode::OK, &body))
    }

    /// Answers `GET /v1/usage/{namespace}/{tenant}`.
    fn tenant_usage(&self, namespace: &str, tenant: &str) -> Result<Reply, Fault> {
        let Some(usage) = self.in_force.engine.tenant_usage(namespace, tenant) else {
            let is_counted = self.in_force.engine.namespace_usage(namespace).is_some();
            if !is_counted {
                return Err(self.not_counted(namespace));
            }
            let shown = shortened(tenant, SHOWN_BYTES);
            let detail = format_args!(
                "tenant \"{shown}\" is not tracked: it made no request, or made room for others"
            );
            let fix = "what it used is in `other` of GET /v1/usage/{namespace}; raise `metering.tenants` to track more";
            return Err(Fault::new(FaultCode::UnknownTenant, detail).fix(fix));
        };
        let body = TenantUsageBody {
            member: self.daemon.member.clone(),
            namespace: namespace.to_owned(),
            tenant: tenant_row(&usage),
        };
        Ok(reply::json(StatusCode::OK, &body))
    }

    /// The usage of a namespace that exists, or that a policy before this one had.
    fn usage_of(&self, namespace: &str) -> Result<(NamespaceUsage, Vec<TenantUsage>), Fault> {
        self.in_force.engine.usage_of(namespace).ok_or_else(|| self.not_counted(namespace))
    }

    /// The fault of a namespace that is not counted.
    fn not_counted(&self, namespace: &str) -> Fault {
        if self.in_force.engine.is_metered() { self.unknown_namespace(namespace) } else { not_metered() }
    }
}

/// The fault of an engine without a meter, which a daemon that a policy describes has.
fn not_metered() -> Fault {
    Fault::new(FaultCode::NotAvailable, "this daemon counts no use")
        .fix("build the engine with `EngineBuilder::metering`, as a daemon with a policy does")
}

fn tenant_row(usage: &TenantUsage) -> UsageRow {
    UsageRow {
        name: Some((*usage.name).to_owned()),
        is_cut: usage.is_cut,
        ..row(UsageRowKind::Named, usage.since, &usage.classes)
    }
}

fn named(name: &RowName, since: Timestamp, classes: &[Usage; 4]) -> UsageRow {
    match name {
        RowName::Named(name) => {
            UsageRow { name: Some((**name).to_owned()), ..row(UsageRowKind::Named, since, classes) }
        }
        RowName::None => row(UsageRowKind::None, since, classes),
        RowName::Other => row(UsageRowKind::Other, since, classes),
    }
}

fn name_of(name: &RowName) -> &str {
    match name {
        RowName::Named(name) => name,
        RowName::None | RowName::Other => "",
    }
}

fn row(kind: UsageRowKind, since: Timestamp, classes: &[Usage; 4]) -> UsageRow {
    let counted = Class::ALL.into_iter().zip(classes).rev();
    let counted = counted.filter(|(_, usage)| **usage != Usage::default());
    let classes_body = counted
        .map(|(class, usage)| UsageOfClass { class: class.as_str().to_owned(), usage: columns(usage) });
    UsageRow {
        row: kind,
        since: instant(since),
        total: columns(&Usage::sum(classes)),
        classes: classes_body.collect(),
        ..UsageRow::default()
    }
}

fn columns(usage: &Usage) -> UsageColumns {
    UsageColumns {
        offered: usage.offered(),
        outcomes: UsageOutcomes::from_counts(|outcome: RequestOutcome| usage.outcome(outcome)),
        under_way: usage.under_way,
        repeated: usage.repeated,
        units: usage.units,
        refused_units: usage.refused_units,
        true_units: usage.true_units,
        place_time_seconds: to_millis(usage.place_time.as_secs_f64()),
        wait_seconds: to_millis(usage.waited.as_secs_f64()),
        reported: usage.reported,
        refunded: usage.refunded,
        settled_more: usage.settled_more,
        settled_less: usage.settled_less,
        reported_admitted: usage.reported_admitted,
        reported_denied: usage.reported_denied,
        saturated: usage.is_saturated,
    }
}

fn instant(at: Timestamp) -> String {
    at.to_whole_millis().to_string()
}
