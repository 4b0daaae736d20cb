//! The delay of one namespace in one class: whether its queue stands, and since when.
//!
//! Each namespace has its own. The requests of a namespace within its part are served soon after
//! they arrive, and would say that the queue of a namespace beside it that is far over its part
//! does not stand.

use core::time::Duration;

use tidegate_core::Timestamp;

use super::delay_control::DelayControl;

/// After a queue has stood, no wait counts as a burst for so long.
pub(super) const STOOD_RECENTLY: Duration = Duration::from_secs(2);

/// The delay of one namespace in one class.
#[derive(Clone, Copy, Debug)]
pub(super) struct NamespaceDelay {
    pub(super) control: DelayControl,
    /// The instant since which requests have waited without a break.
    pub(super) busy_since: Option<Timestamp>,
    /// The last turn at which no request had to wait for longer than the target.
    pub(super) within_target_at: Option<Timestamp>,
    /// The last tick at which the queue stood.
    pub(super) stood_at: Option<Timestamp>,
    /// The shortest delay of the turns since the last tick.
    pub(super) delay_min: Option<Duration>,
    /// Whether nothing waited at some instant since the last tick.
    pub(super) was_empty: bool,
}

impl NamespaceDelay {
    pub(super) const fn new() -> Self {
        Self {
            control: DelayControl::new(),
            busy_since: None,
            within_target_at: None,
            stood_at: None,
            delay_min: None,
            was_empty: true,
        }
    }

    /// A request waits from now on.
    pub(super) fn enter(&mut self, now: Timestamp) {
        self.busy_since.get_or_insert(now);
    }

    /// The last request has left.
    pub(super) const fn emptied(&mut self) {
        self.busy_since = None;
        self.was_empty = true;
    }

    /// Begins the next tick.
    pub(super) const fn begin_tick(&mut self) {
        self.delay_min = None;
        self.was_empty = self.busy_since.is_none();
    }

    /// Whether it may be forgotten: nothing waits, and the queue has not stood lately.
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        let stood = self.stood_at.is_some_and(|at| now.saturating_since(at) < STOOD_RECENTLY);
        self.busy_since.is_none() && !stood
    }
}
