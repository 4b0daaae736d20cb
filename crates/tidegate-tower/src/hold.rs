//! The hold of an admitted request, from its admission to the end of its answer.

use std::sync::Arc;

use http::response::Parts;
use http::{Extensions, HeaderMap};
use tidegate_core::Timestamp;
use tidegate_core::limit::Mode;
use tidegate_driver::{FeatureLevel, Hold};
use tidegate_engine::{Completion, Engine, LimitReport, Outcome, Permit};
use tidegate_wire::Allowance;
use tidegate_wire::headers::{ShownFeature, limit_headers};

use crate::settings::Settings;

/// The hold of a request with what its answer needs. Dropping it settles the hold as abandoned.
pub(crate) struct ResponseHold {
    settings: Arc<Settings>,
    hold: Option<Hold>,
    limits: Vec<LimitReport>,
    /// The level of its feature, if that has levels and follows them.
    feature: Option<FeatureLevel>,
    true_cost: Option<u64>,
    /// The status of the answer.
    status: Option<u16>,
}

impl ResponseHold {
    /// Holds a permit. `engine` made the decision.
    pub(crate) fn new(settings: &Arc<Settings>, permit: Permit, engine: &Engine) -> Self {
        let mut limits = engine.statuses(&permit);
        // Callers heed limits that bind them. Most namespaces have no shadow limit, and then
        // nothing is compared.
        let shadow = engine.limits(&settings.namespace).into_iter().flatten();
        for limit in shadow.filter(|limit| limit.mode == Mode::Shadow) {
            limits.retain(|one| one.name != limit.name);
        }
        let feature = engine.granted_feature(&permit).map(FeatureLevel::from);
        let hold = Some(Hold::new(&settings.driver, permit));
        Self { settings: Arc::clone(settings), hold, limits, feature, true_cost: None, status: None }
    }

    /// Tells the service the level of the request's feature.
    pub(crate) fn tell_feature(&self, extensions: &mut Extensions) {
        if let Some(level) = &self.feature {
            extensions.insert(level.clone());
        }
    }

    /// Adds the allowances of the limits and the level of the feature to an answer, and reads its
    /// status and the true cost of the request from it.
    pub(crate) fn answer(&mut self, head: &mut Parts) {
        self.status = Some(head.status.as_u16());
        let headers = &mut head.headers;
        self.read_cost(headers);
        if let Some(hold) = &mut self.hold {
            hold.answer_begun();
        }
        if !self.limits.is_empty() {
            let now = self.settings.driver.now();
            limit_headers(headers, self.limits.iter().map(|one| allowance(one, now)), self.settings.older);
        }
        if let Some(level) = &self.feature {
            ShownFeature::new(level.feature(), level.name()).write(headers);
        }
    }

    /// Reads the true cost of the request from the headers or trailers of its answer.
    pub(crate) fn read_cost(&mut self, headers: &HeaderMap) {
        let Some(name) = &self.settings.cost_header else { return };
        let value = headers.get(name).and_then(|value| value.to_str().ok()?.parse().ok());
        self.true_cost = value.or(self.true_cost);
    }

    /// Settles the hold, the first time it is called: the work has ended.
    pub(crate) fn settle(&mut self, outcome: Outcome) {
        self.settle_once(Completion::from(outcome));
    }

    fn settle_once(&mut self, mut completion: Completion) {
        let Some(hold) = self.hold.take() else { return };
        if let Some(observe) = &self.settings.on_settled {
            observe(completion.outcome);
        }
        completion.true_cost = self.true_cost;
        completion.status = self.status;
        hold.settle(completion);
    }
}

impl Drop for ResponseHold {
    fn drop(&mut self) {
        // The service panics, or the caller went away.
        let outcome = if std::thread::panicking() { Outcome::Failed } else { Outcome::Abandoned };
        self.settle_once(Completion::from(outcome).unsampled());
    }
}

fn allowance(one: &LimitReport, now: Timestamp) -> Allowance<'_> {
    let reset = one.reset_at.saturating_since(now);
    Allowance {
        name: &one.name,
        limit: one.limit,
        remaining: one.remaining,
        wait_seconds: one.window.map(|_| tidegate_wire::retry_after::seconds_up(reset)),
        window: one.window,
    }
}
