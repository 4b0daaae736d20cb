//! `GET /v1/resources/{name}/history`: the last day of a resource.

use std::sync::PoisonError;

use http::StatusCode;
use tidegate_core::Timestamp;
use tidegate_engine::{ResourceShare, RowName};
use tidegate_net::reply::{self, Reply};
use tidegate_overload::{
    AreaMeasure, AreaOwner, HistorySample, HistorySet, LevelMark, OTHER_NAME, ResourceHistory, SpanShares,
    areas,
};
use tidegate_wire::resource_history::{AreaBody, HistoryBody, HistorySampleBody, LevelMarkBody, SpanBody};
use tidegate_wire::{Fault, FaultCode};

use crate::api::parameters::{Accepted, Parameters};
use crate::api::route::Route;
use crate::context::{DaemonContext, RequestScope};

const HISTORY: Accepted =
    Accepted { route: "/v1/resources/{name}/history", once: &["by", "since"], repeated: &[] };

/// The route.
pub(crate) const ROUTES: &[Route] =
    &[Route::get(HISTORY.route, "The pressure of a resource over the last day, by whose work", |call| {
        Box::pin(async move {
            let name = call.segment("name")?.unwrap_or_default();
            call.scope.resource_history(&name, call.query())
        })
    })
    .answers("HistoryBody")
    .query(HISTORY)];

/// The name of the work of requests that name no feature, and of those without a namespace.
const UNNAMED: &str = "none";

/// Adds a part of the work of a resource to the sample that is being made.
fn add_work(span: &mut SpanShares, share: &ResourceShare) {
    let name = |row: &RowName| match row {
        RowName::Named(name) => name.to_string(),
        RowName::None => UNNAMED.to_owned(),
        RowName::Other => OTHER_NAME.to_owned(),
    };
    let (feature, namespace) = (name(&share.feature), name(&share.namespace));
    span.add(&feature, share.class, &namespace, share.place_time, share.units);
    span.offer(share.units.saturating_add(share.refused_units));
    span.refuse(share.refused_units);
}

impl DaemonContext {
    /// Takes the pressure of each resource into its history.
    pub(crate) fn observe_resources(&self) {
        let (in_force, now) = (self.in_force.load(), self.clock.now());
        self.with_histories(|histories| {
            if let Some(end) = histories.span_end(now) {
                for work in in_force.engine.take_resource_work(end) {
                    if let Some(span) = histories.shares(&work.resource) {
                        work.shares.iter().for_each(|share| add_work(span, share));
                    }
                    histories.set_work_bytes(&work.resource, work.bytes);
                }
            }
            histories.observe(in_force.engine.resource_pressures(), now);
            for (name, levels) in in_force.config.planes.all_levels() {
                histories.set_levels(name, levels);
            }
        });
    }

    /// Runs with the histories of all resources, of which one caller at a time has use.
    pub(crate) fn with_histories<R>(&self, run: impl FnOnce(&mut HistorySet) -> R) -> R {
        // No call leaves them half changed.
        run(&mut self.histories.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl RequestScope<'_> {
    fn resource_history(&self, name: &str, query: Option<&str>) -> Result<Reply, Fault> {
        let parameters = HISTORY.read(query)?;
        let by = owner(&parameters)?;
        let since = since(&parameters)?;
        self.in_force.config.planes.check_resource(name)?;
        if self.daemon.with_histories(|histories| histories.bytes_max()) == 0 {
            let fix = "write `metering: { history: 16MiB }` into the policy and restart the daemon";
            return Err(Fault::new(FaultCode::NotAvailable, "`metering.history` is off").fix(fix));
        }
        let body = self.daemon.with_histories(|histories| match histories.history(name) {
            Some(history) => body(name, history, by, since),
            None => body(name, &ResourceHistory::new(0), by, since),
        });
        Ok(reply::json(StatusCode::OK, &body))
    }
}

fn owner(parameters: &Parameters<'_>) -> Result<AreaOwner, Fault> {
    let fix = || "without by it is feature".to_owned();
    let owner = parameters.parsed("by", "feature, class or namespace", AreaOwner::from_name, fix)?;
    Ok(owner.unwrap_or_default())
}

/// The instant of `since`, or the first there is.
fn since(parameters: &Parameters<'_>) -> Result<Timestamp, Fault> {
    let parse = |text: &str| {
        let nanos = text.parse::<jiff::Timestamp>().ok()?.as_nanosecond();
        Some(Timestamp::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX)))
    };
    let fix = || "write it as 2026-11-20T20:40:00Z".to_owned();
    let since = parameters.parsed("since", "an instant of RFC 3339", parse, fix)?;
    Ok(since.unwrap_or(Timestamp::MIN))
}

/// The samples that end after `since`.
fn body(resource: &str, history: &ResourceHistory, by: AreaOwner, since: Timestamp) -> HistoryBody {
    let (mut gaps, mut repeated) = (Vec::new(), Vec::new());
    for one in history.breaks().filter(|one| one.until.max(one.from) > since) {
        if one.from > one.until {
            gaps.push(span(one.until, one.from));
        } else {
            repeated.push(span(one.from, one.until));
        }
    }
    let shown = history.samples().filter(|sample| sample.until > since);
    HistoryBody {
        resource: resource.to_owned(),
        by: by.as_str().to_owned(),
        complete_since: history.complete_since().map(instant),
        dropped: history.dropped(),
        gaps,
        repeated,
        marks: history.marks().filter(|mark| mark.at > since).map(mark_body).collect(),
        marks_dropped: history.marks_dropped(),
        samples: shown.map(|sample| sample_body(sample, by)).collect(),
    }
}

fn sample_body(sample: &HistorySample, by: AreaOwner) -> HistorySampleBody {
    let work = sample.work(by);
    let area = |(name, height): (&str, f64)| {
        let totals = work.iter().find(|(known, _)| *known == name).map(|(_, totals)| *totals);
        let totals = totals.unwrap_or_default();
        AreaBody {
            name: name.to_owned(),
            height,
            place_seconds: core::time::Duration::from_nanos(totals.place_time_ns).as_secs_f64(),
            units: totals.units,
        }
    };
    HistorySampleBody {
        from: instant(sample.from),
        until: instant(sample.until),
        pressure: sample.pressure,
        soft: sample.soft,
        hard: sample.hard,
        offered_units: sample.offered_units,
        refused_units: sample.refused_units,
        divided_by: AreaMeasure::from_sample(sample).as_str().to_owned(),
        areas: areas(sample, by).into_iter().map(area).collect(),
    }
}

fn mark_body(mark: &LevelMark) -> LevelMarkBody {
    LevelMarkBody {
        at: instant(mark.at),
        feature: mark.feature.to_string(),
        level: mark.level.to_string(),
        is_worse: mark.is_worse,
        is_shadow: mark.is_shadow,
    }
}

fn span(from: Timestamp, until: Timestamp) -> SpanBody {
    SpanBody { from: instant(from), until: instant(until) }
}

fn instant(at: Timestamp) -> String {
    at.to_whole_millis().to_string()
}
