//! The checks of a world: what each service was asked against what became of it.

use serde::Serialize;

use super::control::ControlView;
use crate::kit::MS;

/// A rule that holds under every design.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OverloadRule {
    /// Offered is admitted, shed, disabled, expired, cancelled and queued together, at every
    /// second.
    Conservation,
    /// There are never more places in flight than the limit, nor more than the world counts.
    Places,
    /// Each request is answered once.
    OneAnswer,
    /// No worker is idle for longer than a millisecond while requests wait.
    NoIdlePlace,
    /// After the last request nothing waits and nothing is in flight.
    EmptyAtEnd,
}

/// The longest time for which a worker may be idle while requests wait, in nanoseconds: a design
/// passes a place on at the instant at which it returns.
pub(crate) const IDLE_MAX: u64 = MS;

impl OverloadRule {
    /// All of them, in order.
    pub const ALL: [Self; 5] =
        [Self::Conservation, Self::Places, Self::OneAnswer, Self::NoIdlePlace, Self::EmptyAtEnd];

    /// The condition that must hold.
    pub const fn claim(self) -> &'static str {
        match self {
            Self::Conservation => {
                "offered = admitted + shed + disabled + expired + cancelled + queued, at every second"
            }
            Self::Places => "requests in flight never exceed the limit",
            Self::OneAnswer => "each request is answered once",
            Self::NoIdlePlace => "no worker is idle for more than 1 ms while requests wait",
            Self::EmptyAtEnd => "after the last request nothing waits and nothing is in flight",
        }
    }
}

/// A violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OverloadViolation {
    /// The rule.
    pub rule: OverloadRule,
    /// The seed that shows it again.
    pub seed: u64,
    /// When, in milliseconds since the world began.
    pub at_ms: u64,
    /// The service.
    pub service: String,
    /// The numbers.
    pub what: String,
}

/// The fates of the requests to one service; attempts, not operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ServiceLedger {
    /// Requests that arrived.
    pub offered: u64,
    /// Those that the service began to work on.
    pub admitted: u64,
    /// Those that were refused at once or pushed out of the queue.
    pub shed: u64,
    /// Those that were refused because their feature was off.
    pub disabled: u64,
    /// Those that were refused because they had waited too long or would have.
    pub expired: u64,
    /// Those whose clients hung up while they waited.
    pub cancelled: u64,
    /// Admitted ones that have ended.
    pub ended: u64,
}

impl ServiceLedger {
    /// The requests that wait, as the world counts them.
    pub const fn waiting(&self) -> u64 {
        self.offered - self.admitted - self.shed - self.disabled - self.expired - self.cancelled
    }

    /// The rule that the view of a design breaks, and the numbers.
    pub(crate) fn judge(&self, view: &ControlView, knows_all: bool) -> Option<(OverloadRule, String)> {
        if self.waiting() != view.queued as u64 {
            let what = format!("{self:?}, and the design has {} queued", view.queued);
            return Some((OverloadRule::Conservation, what));
        }
        let in_flight = self.admitted - self.ended;
        if knows_all && in_flight != view.in_flight as u64 {
            return Some((
                OverloadRule::Places,
                format!("{in_flight} at work, and the design counts {}", view.in_flight),
            ));
        }
        let is_over = !view.is_adaptive && view.limit.is_some_and(|limit| view.in_flight as f64 > limit);
        is_over
            .then(|| (OverloadRule::Places, format!("{} in flight, limit {:?}", view.in_flight, view.limit)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_the_design_lost_and_a_place_too_many_are_found() {
        let ledger =
            ServiceLedger { offered: 10, admitted: 5, shed: 2, ended: 3, ..ServiceLedger::default() };
        let view = ControlView { queued: 3, in_flight: 2, limit: Some(2.0), ..ControlView::default() };
        assert_eq!(ledger.judge(&view, true), None);
        let rule = |view: ControlView| ledger.judge(&view, true).map(|(rule, _)| rule);
        assert_eq!(rule(ControlView { queued: 2, ..view }), Some(OverloadRule::Conservation));
        assert_eq!(rule(ControlView { in_flight: 1, ..view }), Some(OverloadRule::Places));
        assert_eq!(rule(ControlView { limit: Some(1.0), ..view }), Some(OverloadRule::Places));
    }
}
