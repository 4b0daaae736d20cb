//! The rules by which a rival drops a request that has waited.

use super::rival_queue::QueuedJob;
use tidegate_sim::kit::MS;
use tidegate_sim::overload::RefusalCause;

const INTERVAL: u64 = 100 * MS;
const TARGET: u64 = 5 * MS;

/// The rule, asked when the turn of a request has come.
#[derive(Clone, Debug)]
pub(super) enum DelayRule {
    Never,
    /// Past its deadline.
    Deadline,
    /// After so many nanoseconds.
    Longest(u64),
    /// Facebook's "Fail at Scale": after 5 ms while the queue stands, else after 100 ms.
    FailAtScale,
    /// `folly::Codel`.
    CoDel {
        interval_end: u64,
        min_delay: u64,
        is_overloaded: bool,
    },
}

impl DelayRule {
    pub(super) const fn codel() -> Self {
        Self::CoDel { interval_end: 0, min_delay: 0, is_overloaded: false }
    }

    /// The cause for which a request is dropped.
    pub(super) fn refuses(
        &mut self,
        queued: &QueuedJob,
        is_standing: bool,
        now: u64,
    ) -> Option<RefusalCause> {
        let delay = now - queued.arrived;
        match self {
            Self::Never => None,
            Self::Deadline => (now >= queued.deadline).then_some(RefusalCause::WaitedTooLong),
            Self::Longest(longest) => (delay > *longest).then_some(RefusalCause::WaitedTooLong),
            Self::FailAtScale => {
                let longest = if is_standing { TARGET } else { INTERVAL };
                (delay > longest).then_some(RefusalCause::QueueDelay)
            }
            Self::CoDel { interval_end, min_delay, is_overloaded } => {
                if now > *interval_end {
                    *interval_end = now + INTERVAL;
                    *is_overloaded = *min_delay > TARGET;
                    *min_delay = delay;
                    return None;
                }
                *min_delay = delay.min(*min_delay);
                (*is_overloaded && delay > 2 * TARGET).then_some(RefusalCause::QueueDelay)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::Class;

    use super::*;

    #[test]
    fn codel_drops_after_an_interval_whose_shortest_delay_was_above_target() {
        let mut rule = DelayRule::codel();
        let mut drops = |now: u64, delay: u64| {
            let queued =
                QueuedJob { job: 0, class: Class::Critical, arrived: now - delay, deadline: u64::MAX };
            rule.refuses(&queued, true, now).is_some()
        };
        // The first request ends the interval that never began; the interval from it on is judged.
        assert!(!drops(200 * MS, 20 * MS) && !drops(250 * MS, 20 * MS));
        assert!(!drops(301 * MS, 20 * MS) && drops(302 * MS, 11 * MS) && !drops(303 * MS, 10 * MS));
        // One short delay in an interval ends the overload at its end.
        assert!(!drops(350 * MS, MS) && drops(351 * MS, 11 * MS));
        assert!(!drops(402 * MS, 20 * MS) && !drops(403 * MS, 20 * MS));
    }
}
