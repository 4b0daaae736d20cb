//! `GET /v1/resources` and `PUT /v1/signals/{name}`: the load of the resources of the overload
//! plane, and the signals that it is made of.

use core::time::Duration;

use http::StatusCode;
use tidegate_core::{Class, Timestamp};
use tidegate_engine::{AdminError, Engine, Event, PushedValue, QueueCounts, ResourceStats, SignalError};
use tidegate_net::reply::{self, Reply};
use tidegate_overload::{DeferralStats, OfferOutcome, SignalStats, StreamStats, cohorts_change};
use tidegate_policy::policy::authorization::Verb;
use tidegate_wire::headers::ShownLoad;
use tidegate_wire::operation::read;
use tidegate_wire::resources::{
    AdviceBody, ClassBody, CursorBody, DeferralBody, ResourceBody, ResourcesBody, SignalAnswer, SignalBody,
    SignalValue, StreamsBody,
};
use tidegate_wire::{Fault, FaultCode};

use crate::admin::figures::{figure, millis};
use crate::admin::resource_rates;
use crate::api::route::{Route, RouteCall, RouteFuture};
use crate::authorization::Caller;
use crate::context::RequestScope;

/// The routes.
pub(crate) const ROUTES: &[Route] = &[
    Route::get("/v1/resources", "The load of the resources, and their signals", |call| {
        Box::pin(async move { Ok(call.scope.resources()) })
    })
    .answers("ResourcesBody"),
    Route::get("/v1/resources/{name}", "The load of one resource, with its last ten seconds", |call| {
        Box::pin(async move {
            let name = call.segment("name")?.unwrap_or_default();
            call.scope.resource(&name)
        })
    })
    .answers("ResourceBody"),
    Route::put("/v1/signals/{name}", "Send a value of a signal", push)
        .takes("SignalValue")
        .answers("SignalAnswer"),
];

fn push(call: RouteCall<'_>) -> RouteFuture<'_> {
    let name = call.segment("name");
    call.with_body(|scope, caller, body| async move {
        scope.push_signal(caller, &name?.unwrap_or_default(), &body)
    })
}

impl RequestScope<'_> {
    /// The load of the resource of a request, with the cursor of its namespace, if answers about
    /// this resource show it.
    pub(crate) fn shown_load(&self, resource: Option<&str>, namespace: &str) -> Option<ShownLoad> {
        let resource = resource.filter(|name| self.in_force.config.planes.shows_load(name))?;
        let (level, cursor) = self.in_force.engine.load_of(resource, namespace)?;
        Some(ShownLoad {
            level: level.as_str(),
            position: cursor.level(),
            class: cursor.class(),
            cohort: cursor.cohort(),
        })
    }

    /// The answer with the load of this resource, if answers about it show it.
    pub(crate) fn with_load(&self, mut reply: Reply, resource: Option<&str>, namespace: &str) -> Reply {
        if let Some(load) = self.shown_load(resource, namespace) {
            load.write(reply.headers_mut());
        }
        reply
    }

    /// Answers `GET /v1/resources`.
    fn resources(&self) -> Reply {
        let (engine, now) = (&self.in_force.engine, self.daemon.clock.now());
        // The default resource has no name, no bound and no signals of the policy.
        let named = engine.resource_stats(now).filter_map(|stats| Some((stats.name?, stats)));
        let mut resources: Vec<ResourceBody> =
            named.map(|(name, stats)| body(name, &stats, engine, now)).collect();
        resources.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        reply::json(StatusCode::OK, &ResourcesBody { resources })
    }

    /// Answers `GET /v1/resources/{name}`.
    fn resource(&self, name: &str) -> Result<Reply, Fault> {
        let (engine, now) = (&self.in_force.engine, self.daemon.clock.now());
        let stats = engine.resource_stats(now).find(|stats| stats.name == Some(name));
        let stats = stats.ok_or_else(|| self.in_force.config.planes.unknown_resource(name))?;
        Ok(reply::json(StatusCode::OK, &body(name, &stats, engine, now)))
    }

    /// Answers `PUT /v1/signals/{name}`.
    fn push_signal(&self, caller: &Caller, name: &str, body: &[u8]) -> Result<Reply, Fault> {
        caller.may_everywhere(Verb::Signal)?;
        let SignalValue { value, ttl_ms } = read(body)?;
        let ttl = ttl_ms.map(checked_ttl).transpose()?;
        let (engine, now) = (&self.in_force.engine, self.daemon.clock.now());
        let pushed = PushedValue { ttl, ..PushedValue::new(value) };
        engine.event(Event::PushedSignal { name, value: pushed }, now).map_err(|error| match &error {
            AdminError::Signal(signal) => signal_fault(signal),
            error => self.admin_fault(error, now),
        })?;
        let of_signal = |stats: ResourceStats<'_>| {
            let is_pushed = stats.signals.iter().any(|signal| signal.name == name && signal.age.is_some());
            stats.name.filter(|_| is_pushed).map(str::to_owned)
        };
        let mut resources: Vec<String> = engine.resource_stats(now).filter_map(of_signal).collect();
        resources.sort_unstable();
        Ok(reply::json(StatusCode::OK, &SignalAnswer { name: name.to_owned(), value, resources }))
    }
}

/// The time that a value counts, if it is within the bounds of the policy.
fn checked_ttl(millis: u64) -> Result<Duration, Fault> {
    let ttl = Duration::from_millis(millis);
    if (PushedValue::TTL_MIN..=PushedValue::TTL_MAX).contains(&ttl) {
        return Ok(ttl);
    }
    let (min, max) = (PushedValue::TTL_MIN.as_millis(), PushedValue::TTL_MAX.as_millis());
    let detail = format_args!("ttl_ms {millis} is out of range");
    let fix = format!("use {min} to {max}, or leave it out for the `ttl` of the policy");
    Err(Fault::new(FaultCode::MalformedBody, detail).field("ttl_ms").fix(fix))
}

/// The fault of a value that was not taken in.
fn signal_fault(signal: &SignalError) -> Fault {
    let code = match signal {
        SignalError::Unknown { .. } | SignalError::NotPushed { .. } => FaultCode::UnknownSignal,
        _ => FaultCode::MalformedBody,
    };
    // The messages of signals end with the fix.
    let text = signal.to_string();
    let (detail, fix) = text.rsplit_once("; ").unwrap_or((&text, "see `signals` of the policy"));
    let fix = match signal {
        SignalError::Unknown { known, .. } | SignalError::NotPushed { known, .. } if known.is_empty() => {
            "add it under `signals:` of the policy, with `source: push`"
        }
        _ => fix,
    };
    let fault = Fault::new(code, detail).fix(fix.to_owned());
    if code == FaultCode::MalformedBody { fault.field("value") } else { fault }
}

fn body(name: &str, stats: &ResourceStats<'_>, engine: &Engine, now: Timestamp) -> ResourceBody {
    let counts = &engine.queue_counts(stats.id).unwrap_or_default();
    ResourceBody {
        name: name.to_owned(),
        shadow: stats.is_shadow,
        level: stats.level.as_str().to_owned(),
        pressure: figure(stats.pressure.unwrap_or(0.0)),
        binding_signal: stats.binding_signal.clone(),
        in_flight: stats.in_flight,
        in_flight_max: stats.in_flight_max,
        streams: stats.streams.map(|StreamStats { open, max, refused, .. }| StreamsBody {
            open,
            max,
            refused,
        }),
        deferral: stats.deferral.as_ref().map(deferral_body),
        concurrency: stats.concurrency.as_str().to_owned(),
        advice: stats.advice.map(|advice| AdviceBody {
            kind: advice.as_str().to_owned(),
            suggested: advice.suggested(),
            text: advice.to_string(),
        }),
        cursor: CursorBody {
            position: stats.cursor.level(),
            class: stats.cursor.class().as_str().to_owned(),
            cohort: stats.cursor.cohort(),
            pinned_until: stats.pinned_until.map(|until| until.to_whole_millis().to_string()),
            cohorts_change: cohorts_change(now).to_string(),
        },
        queued: counts.iter().map(|counts| counts.waiting).sum(),
        queue_delay_ms: counts.iter().map(|counts| millis(counts.delay)).fold(0.0, f64::max),
        retry_after_s: stats.retry_after.as_secs(),
        recent: resource_rates::recent(stats, engine),
        classes: Class::ALL.into_iter().rev().map(|class| class_body(class, stats, counts)).collect(),
        signals: stats.signals.iter().map(signal_body).collect(),
    }
}

/// The tickets of a resource.
fn deferral_body(stats: &DeferralStats) -> DeferralBody {
    let DeferralStats { config, capacity, calendar, counts, .. } = stats;
    let end_of = |second: u64| Timestamp::from_secs(second.saturating_add(1)).to_string();
    let classes = Class::ALL.into_iter().rev().filter(|class| config.takes(*class));
    DeferralBody {
        classes: classes.map(|class| class.as_str().to_owned()).collect(),
        share: config.share.as_ratio(),
        horizon_s: config.horizon.as_secs(),
        max_deferrals: config.max_deferrals,
        capacity: figure(*capacity),
        booked: calendar.booked,
        booked_until: calendar.last_slot.map(end_of),
        pulled_to: calendar.pulled_to.map(end_of),
        sold: counts.sold,
        full: counts.full,
        redeemed: counts.redeemed,
        given_back: counts.given_back,
        early: counts.early,
        expired: counts.expired,
        replayed: counts.replayed,
        unremembered: counts.unremembered,
    }
}

/// The numbers of a class.
fn class_body(
    class: Class,
    stats: &ResourceStats<'_>,
    counts: &[QueueCounts; Class::ALL.len()],
) -> ClassBody {
    let (of_class, queue) = (stats.class(class), &counts[class as usize]);
    let denied =
        [OfferOutcome::Denied, OfferOutcome::Throttled, OfferOutcome::Unavailable, OfferOutcome::Failed];
    ClassBody {
        class: class.as_str().to_owned(),
        offered: of_class.offered,
        admitted: of_class.count(OfferOutcome::Admitted) + of_class.would_be_refused(),
        shed: of_class.refused_by_load(),
        deferred: of_class.count(OfferOutcome::Deferred),
        expired: of_class.count(OfferOutcome::Expired),
        cancelled: of_class.count(OfferOutcome::Cancelled),
        denied: denied.iter().map(|outcome| of_class.count(*outcome)).sum(),
        queued: queue.waiting,
        wait_ms: if queue.served == 0 {
            0.0
        } else {
            #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
            let served = queue.served as f64;
            figure(millis(queue.wait_sum) / served)
        },
    }
}

/// A signal as answers show it.
fn signal_body(signal: &SignalStats) -> SignalBody {
    SignalBody {
        name: signal.name.clone(),
        source: signal.source.as_str().to_owned(),
        value: signal.value.map(figure),
        target: signal.target,
        unit: signal.unit.clone(),
        pressure: figure(signal.pressure.unwrap_or(0.0)),
        age_ms: signal.age.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
        is_stale: signal.is_stale || signal.age.is_none(),
    }
}
