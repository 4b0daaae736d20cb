//! The hold of an admitted request, from its admission to the end of its answer.

use std::sync::Arc;

use http::HeaderMap;
use http::response::Parts;
use tidegate_core::Timestamp;
use tidegate_core::limit::Mode;
use tidegate_driver::Hold;
use tidegate_engine::{Completion, Engine, LimitReport, Outcome, Permit};
use tidegate_wire::Allowance;
use tidegate_wire::headers::limit_headers;

use crate::settings::Settings;

/// The hold of a request with what its answer needs. Dropping it settles the hold as abandoned.
pub(crate) struct ResponseHold {
    settings: Arc<Settings>,
    hold: Option<Hold>,
    limits: Vec<LimitReport>,
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
        let hold = Hold::new(&settings.driver, permit);
        Self { settings: Arc::clone(settings), hold: Some(hold), limits, true_cost: None, status: None }
    }

    /// Adds the allowances of the limits to an answer, and reads its status and the true cost of
    /// the request from it.
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
