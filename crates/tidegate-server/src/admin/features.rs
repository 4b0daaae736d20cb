//! `GET /v1/features`, and `PUT` and `DELETE /v1/features/{name}/pin`: the levels of the features,
//! the reasons of these, and the pins of operators.
//!
//! A pin is written into the store before the level changes, so that it outlives a restart and
//! reaches every member. A store that does not answer leaves everything as it is.

use core::time::Duration;

use http::StatusCode;
use tidegate_core::display::HumanDuration;
use tidegate_core::{Class, Timestamp};
use tidegate_engine::{AdminError, Engine, FeaturePinning};
use tidegate_net::reply::{self, Reply};
use tidegate_overload::{
    COHORTS, FEATURE_PIN_MAX, FeatureMode, FeaturePinError, FeatureReason, FeatureScope, FeatureView,
    LevelThresholds, OnDisable,
};
use tidegate_policy::nearest;
use tidegate_policy::policy::authorization::Verb;
use tidegate_store::StoreError;
use tidegate_wire::features::{
    ClassLevelBody, FeatureBody, FeaturePinBody, FeaturePinRequest, FeatureUnpinRequest, FeaturesBody,
};
use tidegate_wire::operation::read;
use tidegate_wire::retry_after::millis_up;
use tidegate_wire::text::shortened;
use tidegate_wire::{Fault, FaultCode};

use crate::admin::figures::figure;
use crate::api::parameters::Accepted;
use crate::api::route::{Route, RouteCall, RouteFuture};
use crate::authorization::Caller;
use crate::context::RequestScope;
use crate::engine_fault::SHOWN_BYTES;

/// The parameters of `GET /v1/features`.
const FEATURES: Accepted = Accepted { route: "/v1/features", once: &["resource"], repeated: &[] };

/// The parameters of `GET /v1/features/{name}`: none.
const FEATURE: Accepted = Accepted { route: "/v1/features/{name}", once: &[], repeated: &[] };

/// How many features an error lists.
const LISTED_MAX: usize = 8;

/// The routes.
pub(crate) const ROUTES: &[Route] = &[
    Route::get(FEATURES.route, "The levels of the features of this member, with their reasons", |call| {
        Box::pin(async move { call.scope.features(call.query()) })
    })
    .answers("FeaturesBody")
    .query(FEATURES),
    Route::get(FEATURE.route, "The level of one feature of this member, with its reason", |call| {
        Box::pin(async move {
            let name = call.segment("name")?.unwrap_or_default();
            call.scope.feature(&name, call.query())
        })
    })
    .answers("FeatureBody")
    .query(FEATURE),
    Route::put("/v1/features/{name}/pin", "Pin a feature at a level for a while, at all members", pin)
        .takes("FeaturePinRequest")
        .answers("FeatureBody"),
    Route::delete("/v1/features/{name}/pin", "End the pin of a feature, at all members", unpin)
        .takes("FeatureUnpinRequest")
        .answers("FeatureBody"),
];

fn pin(call: RouteCall<'_>) -> RouteFuture<'_> {
    let name = call.segment("name");
    call.with_body(|scope, caller, body| async move {
        scope.pin_feature(caller, &name?.unwrap_or_default(), &body).await
    })
}

fn unpin(call: RouteCall<'_>) -> RouteFuture<'_> {
    let name = call.segment("name");
    call.with_body(|scope, caller, body| async move {
        scope.unpin_feature(caller, &name?.unwrap_or_default(), &body).await
    })
}

/// A change of a pin, as the audit log has it.
struct PinChange<'a> {
    change: &'static str,
    feature: &'a str,
    /// The level and the end of the pin before, if there was one.
    before: Option<String>,
    after: Option<String>,
    by: Option<&'a str>,
    reason: Option<&'a str>,
    grant: Option<&'a str>,
}

impl PinChange<'_> {
    fn log(&self) {
        tracing::info!(
            target: "tidegate::audit",
            change = self.change,
            feature = self.feature,
            before = self.before,
            after = self.after,
            reason = self.reason,
            by = self.by,
            grant = self.grant,
            "the pin of a feature was changed"
        );
    }
}

/// The features of an engine as bodies.
struct FeatureBodies<'a> {
    scope: RequestScope<'a>,
    engine: &'a Engine,
    pins: Vec<FeaturePinning>,
    now: Timestamp,
}

impl RequestScope<'_> {
    /// Answers `GET /v1/features`.
    fn features(&self, query: Option<&str>) -> Result<Reply, Fault> {
        let parameters = FEATURES.read(query)?;
        let wanted = parameters.get("resource");
        if let Some(name) = wanted {
            self.in_force.config.planes.check_resource(name)?;
        }
        let bodies = self.bodies(&self.in_force.engine);
        let mut features = bodies.all();
        features.retain(|feature| wanted.is_none_or(|wanted| wanted == feature.resource));
        let member = self.daemon.member.clone();
        Ok(reply::json(StatusCode::OK, &FeaturesBody { member, features }))
    }

    /// Answers `GET /v1/features/{name}`.
    fn feature(&self, name: &str, query: Option<&str>) -> Result<Reply, Fault> {
        FEATURE.read(query)?;
        self.bodies(&self.in_force.engine).one(name)
    }

    async fn pin_feature(&self, caller: &Caller, name: &str, body: &[u8]) -> Result<Reply, Fault> {
        caller.may_everywhere(Verb::Feature)?;
        let request: FeaturePinRequest = read(body)?;
        // Neither a reload nor the notes of other members come between the store and the engine.
        let turn = self.daemon.changes.turn.lock().await;
        let in_force = self.daemon.in_force.load_full();
        let (engine, now) = (&in_force.engine, self.daemon.clock.now());
        let pin = FeaturePinning {
            feature: name.to_owned(),
            until: end(&request, now)?,
            level: request.level,
            by: request.by.filter(|by| !by.is_empty()),
            reason: request.reason.filter(|reason| !reason.is_empty()),
        };
        let fault = |error: AdminError| self.pin_fault(&error, name);
        let note = engine.check_feature_pin(&pin, now).map_err(fault)?;
        let before = pin_in_words(&engine.feature_pins(now), name);
        self.daemon.store_notes(engine, &[note]).await.map_err(unchanged)?;
        engine.pin_feature(pin.clone(), now).map_err(fault)?;
        drop(turn);
        PinChange {
            change: "pinned",
            feature: name,
            before,
            after: pin_in_words(core::slice::from_ref(&pin), name),
            by: pin.by.as_deref(),
            reason: pin.reason.as_deref(),
            grant: caller.grant_everywhere(Verb::Feature),
        }
        .log();
        self.bodies(engine).one(name)
    }

    async fn unpin_feature(&self, caller: &Caller, name: &str, body: &[u8]) -> Result<Reply, Fault> {
        caller.may_everywhere(Verb::Feature)?;
        let request = if body.is_empty() { FeatureUnpinRequest::default() } else { read(body)? };
        for (what, text) in [("by", &request.by), ("reason", &request.reason)] {
            check_text(what, text.as_deref())?;
        }
        let turn = self.daemon.changes.turn.lock().await;
        let in_force = self.daemon.in_force.load_full();
        let (engine, now) = (&in_force.engine, self.daemon.clock.now());
        let fault = |error: AdminError| self.pin_fault(&error, name);
        let note = engine.check_feature_unpin(name).map_err(fault)?;
        let before = pin_in_words(&engine.feature_pins(now), name);
        // Also without a pin here: this member may not have read it yet.
        self.daemon.store_notes(engine, &[note]).await.map_err(unchanged)?;
        engine.unpin_feature(name, now).map_err(fault)?;
        drop(turn);
        PinChange {
            change: "unpinned",
            feature: name,
            before,
            after: None,
            by: request.by.as_deref(),
            reason: request.reason.as_deref(),
            grant: caller.grant_everywhere(Verb::Feature),
        }
        .log();
        self.bodies(engine).one(name)
    }

    fn bodies<'b>(&'b self, engine: &'b Engine) -> FeatureBodies<'b> {
        let now = self.daemon.clock.now();
        FeatureBodies { scope: *self, engine, pins: engine.feature_pins(now), now }
    }

    /// The fault of a pin that was not set or ended.
    fn pin_fault(&self, error: &AdminError, name: &str) -> Fault {
        let text = error.to_string();
        // The messages of pins end with the fix.
        let (detail, fix) = text.rsplit_once("; ").unwrap_or((&text, "see GET /v1/features"));
        let fault = |code: FaultCode, field: Option<&'static str>| {
            let fault = Fault::new(code, detail).fix(fix.to_owned());
            match field {
                Some(field) => fault.field(field),
                None => fault,
            }
        };
        match error {
            AdminError::FeaturePin(FeaturePinError::UnknownFeature { .. }) => self.unknown_feature(name),
            AdminError::FeaturePin(FeaturePinError::NoLevels { .. }) => fault(FaultCode::NotAvailable, None),
            AdminError::FeaturePin(FeaturePinError::UnknownLevel { .. }) => {
                fault(FaultCode::MalformedBody, Some("level"))
            }
            AdminError::FeaturePin(_) => fault(FaultCode::MalformedBody, Some("expires_ms")),
            AdminError::FeaturePinText { what, .. } => fault(FaultCode::MalformedBody, Some(what)),
            error => self.admin_fault(error, self.daemon.clock.now()),
        }
    }

    /// The fault of a feature that does not exist, or has no levels.
    fn unknown_feature(&self, name: &str) -> Fault {
        let shown = shortened(name, SHOWN_BYTES);
        if self.in_force.config.planes.feature(name).is_some_and(|feature| feature.levels.is_empty()) {
            let detail = format_args!("feature \"{shown}\" has no levels: it is counted and never degraded");
            let fix = "add `levels` to it under `features:` of the policy; GET /v1/usage counts it";
            return Fault::new(FaultCode::NotAvailable, detail).fix(fix);
        }
        let now = self.daemon.clock.now();
        let mut known: Vec<_> =
            self.in_force.engine.feature_views(now).into_iter().map(|feature| feature.name).collect();
        known.sort_unstable();
        let near = nearest(name, known.iter().map(|name| &**name));
        let listed: Vec<&str> = known.iter().take(LISTED_MAX).map(|name| &**name).collect();
        let fix = match (near, known.len()) {
            (_, 0) => "add it under `features:` of the policy, with `levels`".to_owned(),
            (Some(near), _) => format!("did you mean \"{near}\"? see GET /v1/features"),
            (None, 1..=LISTED_MAX) => format!("use one of {}", listed.join(", ")),
            (None, _) => format!("use one of {}, ..; see GET /v1/features", listed.join(", ")),
        };
        let detail = format_args!("feature \"{shown}\" does not exist");
        Fault::new(FaultCode::UnknownFeature, detail).fix(fix)
    }
}

impl FeatureBodies<'_> {
    fn all(&self) -> Vec<FeatureBody> {
        let views = self.engine.feature_views(self.now);
        let mut features: Vec<FeatureBody> = views.iter().map(|view| self.body(view)).collect();
        features.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        features
    }

    /// The answer about one feature.
    fn one(&self, name: &str) -> Result<Reply, Fault> {
        let views = self.engine.feature_views(self.now);
        let view = views.iter().find(|view| *view.name == *name);
        let view = view.ok_or_else(|| self.scope.unknown_feature(name))?;
        Ok(reply::json(StatusCode::OK, &self.body(view)))
    }

    fn body(&self, view: &FeatureView) -> FeatureBody {
        let levels = self.scope.in_force.config.planes.levels(view.resource_name.as_deref());
        let pinning = self.pins.iter().find(|pin| *pin.feature == *view.name);
        let pin = view.pin.map(|pin| FeaturePinBody {
            level: level_name(view, pin.level).to_owned(),
            until: instant(pin.until),
            by: pinning.and_then(|pinning| pinning.by.clone()),
            reason: pinning.and_then(|pinning| pinning.reason.clone()),
        });
        let (reason, pressure, signal) = match &view.reason {
            FeatureReason::NoLevels | FeatureReason::Best => ("best", None, None),
            FeatureReason::Pinned => ("pinned", None, None),
            FeatureReason::Degraded { pressure, signal } => {
                ("degraded", signal.is_some().then(|| figure(*pressure)), signal.clone())
            }
            FeatureReason::Held { signal } => ("held", None, Some(signal.clone())),
            _ => ("unknown", None, None),
        };
        let classes = (view.scope == FeatureScope::Class).then_some(Class::ALL);
        let class_levels = classes.into_iter().flatten().rev().map(|class| ClassLevelBody {
            class: class.as_str().to_owned(),
            level: level_name(view, view.class_levels[class as usize]).to_owned(),
        });
        let grace = match view.on_disable {
            OnDisable::Cancel { grace } => Some(grace),
            _ => None,
        };
        FeatureBody {
            name: view.name.to_string(),
            member: self.scope.daemon.member.clone(),
            resource: view.resource_name.as_deref().unwrap_or_default().to_owned(),
            class: view.class.as_str().to_owned(),
            scope: match view.scope {
                FeatureScope::Class => "class",
                FeatureScope::Tenant => "tenant",
                _ => "global",
            }
            .to_owned(),
            mode: if view.mode == FeatureMode::Shadow { "shadow" } else { "enforce" }.to_owned(),
            on_disable: if grace.is_some() { "cancel" } else { "finish" }.to_owned(),
            grace_ms: grace.map(millis_up),
            levels: view.levels.iter().map(ToString::to_string).collect(),
            level: view.level_name.to_string(),
            level_index: view.level,
            class_levels: class_levels.collect(),
            tenants: (view.moved > 0).then(|| figure(f64::from(view.moved) / f64::from(COHORTS))),
            since: view.since.map(instant),
            reason: reason.to_owned(),
            detail: detail(view, pin.as_ref(), &levels),
            pressure,
            signal,
            footprint: figure(view.footprint),
            footprint_better: view.footprint_better.map(figure),
            room: figure(view.room),
            threshold: levels.brownout,
            margin: levels.margin,
            settle_ms: millis_up(levels.settle),
            in_flight: view.in_flight,
            transitions: view.transitions,
            released_after_ms: view.released_after.map(millis_up),
            pin,
            // Nothing is restored while a pin is in force.
            earliest: view.earliest.map(|at| instant(view.pin.map_or(at, |pin| at.max(pin.until)))),
        }
    }
}

/// The reason of the level of a feature in words, as `pressure 0.93 by cpu; back when 0.07 of 0.18
/// fits`.
fn detail(view: &FeatureView, pin: Option<&FeaturePinBody>, levels: &LevelThresholds) -> String {
    let back = || {
        let needed = (view.footprint_better.unwrap_or(view.footprint) - view.footprint).max(0.0);
        if view.room >= needed {
            let settle = HumanDuration(levels.settle);
            return format!("{needed:.2} fits; back when it has fit for {settle}");
        }
        format!("back when {:.2} of {needed:.2} fits", view.room.max(0.0))
    };
    match &view.reason {
        FeatureReason::Pinned => {
            let Some(FeaturePinBody { level, until, by, reason }) = pin else { return "pinned".to_owned() };
            let by = by.as_ref().map_or_else(String::new, |by| format!(" by {by}"));
            let reason = reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
            format!("pinned at {level} until {until}{by}{reason}")
        }
        FeatureReason::Degraded { pressure, signal: Some(signal) } => {
            format!("pressure {pressure:.2} by {signal}; {}", back())
        }
        FeatureReason::Degraded { signal: None, .. } => format!("it was pinned; {}", back()),
        FeatureReason::Held { signal } => {
            format!("signal {signal} is stale, so nothing is restored; {}", back())
        }
        _ => "the best level".to_owned(),
    }
}

/// The instant at which a pin ends.
fn end(request: &FeaturePinRequest, now: Timestamp) -> Result<Timestamp, Fault> {
    let fault = |field: &'static str, detail: String, fix: &str| {
        Fault::new(FaultCode::MalformedBody, detail).field(field).fix(fix.to_owned())
    };
    match (request.expires_ms, &request.until) {
        (None, None) => {
            let fix = "send \"expires_ms\", as 600000 for ten minutes; at most 2592000000, 30 days";
            Err(fault("expires_ms", "a pin without an end".to_owned(), fix))
        }
        (Some(_), Some(_)) => {
            let what = "a pin with two ends: expires_ms and until".to_owned();
            Err(fault("until", what, "leave one of them out"))
        }
        (Some(millis), None) => {
            let span = Duration::from_millis(millis);
            if span.is_zero() || span > FEATURE_PIN_MAX {
                let what = format!("expires_ms {millis} is not 1 to {}", FEATURE_PIN_MAX.as_millis());
                return Err(fault(
                    "expires_ms",
                    what,
                    "use at most 2592000000, 30 days, and pin again later",
                ));
            }
            Ok(now.saturating_add(span))
        }
        (None, Some(text)) => {
            let shown = shortened(text, SHOWN_BYTES);
            let fix = "write it as 2026-11-20T20:40:00Z";
            let instant: jiff::Timestamp = text.parse().map_err(|_| {
                fault("until", format!("until \"{shown}\" is not an instant of RFC 3339"), fix)
            })?;
            let until =
                Timestamp::from_nanos(u64::try_from(instant.as_nanosecond().max(0)).unwrap_or(u64::MAX));
            if until <= now {
                let what = format!("until {shown} is over: here it is {}", now.to_whole_millis());
                return Err(fault("until", what, "use an instant to come"));
            }
            if until.saturating_since(now) > FEATURE_PIN_MAX {
                let what = format!("until {shown} is more than 30 days away");
                return Err(fault("until", what, "use an earlier instant, and pin again later"));
            }
            Ok(until)
        }
    }
}

fn check_text(what: &'static str, text: Option<&str>) -> Result<(), Fault> {
    let bytes = text.map_or(0, str::len);
    if bytes <= FeaturePinning::TEXT_BYTES_MAX {
        return Ok(());
    }
    let detail = format_args!("{what} has {bytes} bytes, not 0 to {}", FeaturePinning::TEXT_BYTES_MAX);
    Err(Fault::new(FaultCode::MalformedBody, detail).field(what))
}

fn unchanged(error: StoreError) -> Fault {
    let fault = Fault::new(FaultCode::StoreUnavailable, error);
    fault.fix("nothing is changed; repeat it when the store answers").retry_after(1)
}

/// The level and the end of the pin of a feature.
fn pin_in_words(pins: &[FeaturePinning], feature: &str) -> Option<String> {
    let pin = pins.iter().find(|pin| pin.feature == feature)?;
    Some(format!("{} until {}", pin.level, instant(pin.until)))
}

fn level_name(view: &FeatureView, level: u8) -> &str {
    view.levels.get(usize::from(level)).map_or("", |name| name)
}

fn instant(at: Timestamp) -> String {
    at.to_whole_millis().to_string()
}
