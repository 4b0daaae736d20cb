//! What an admitted request holds, from its admission to the end of its answer.

use std::sync::Arc;

use http::HeaderMap;
use tidegate::Timestamp;
use tidegate::limit::Mode;
use tidegate_engine::{LimitReport, Outcome, Permit};
use tidegate_wire::Allowance;
use tidegate_wire::headers::limit_headers;

use crate::layer::Settings;

/// The permit of a request, which is settled once. Dropping it before settles it as failed: what is
/// lent is given back, what was spent stays spent, since the work was begun.
pub(crate) struct Hold {
    settings: Arc<Settings>,
    permit: Option<Permit>,
    limits: Vec<LimitReport>,
    true_cost: Option<u64>,
}

impl Hold {
    pub(crate) fn new(settings: &Arc<Settings>, permit: Permit) -> Self {
        let engine = settings.engine.load();
        let mut limits = engine.statuses(&permit);
        // Callers shall heed what binds them. Most namespaces have no shadow limit, and then
        // nothing is compared.
        let shadow = engine.limits(&settings.namespace).into_iter().flatten();
        for limit in shadow.filter(|limit| limit.mode == Mode::Shadow) {
            limits.retain(|one| one.name != limit.name);
        }
        drop(engine);
        Self { settings: Arc::clone(settings), permit: Some(permit), limits, true_cost: None }
    }

    /// Adds what the limits have left to an answer, and reads from it what the request truly cost.
    pub(crate) fn answer(&mut self, headers: &mut HeaderMap) {
        self.read_cost(headers);
        if !self.limits.is_empty() {
            let now = self.settings.clock.now();
            limit_headers(headers, self.limits.iter().map(|one| allowance(one, now)), self.settings.older);
        }
    }

    /// Reads what the request truly cost from the headers or trailers of its answer.
    pub(crate) fn read_cost(&mut self, headers: &HeaderMap) {
        let Some(name) = &self.settings.cost_header else { return };
        let value = headers.get(name).and_then(|value| value.to_str().ok()?.parse().ok());
        self.true_cost = value.or(self.true_cost);
    }

    /// Settles the permit, the first time it is called.
    pub(crate) fn settle(&mut self, outcome: Outcome) {
        let Some(permit) = self.permit.take() else { return };
        if let Some(observe) = &self.settings.on_settled {
            observe(outcome);
        }
        let has_lent = permit.must_be_settled();
        let now = self.settings.clock.now();
        let outcome = self.true_cost.map_or(outcome, Outcome::Cost);
        let settled = self.settings.engine.load().settle(permit, outcome, now);
        self.settings.finish(settled, has_lent);
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.settle(Outcome::Failed);
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
