//! The time of the machine: what every caller of a gate reads first.

use tidegate_clock::{Clock, SystemClock};
use tidegate_core::Timestamp;

use crate::clock::InstantClock;
use crate::timing::{Candidate, Scenario, Side};

/// The clock, the clock as it was, and that of the rivals.
pub(super) fn now() -> Scenario {
    let (clock, former) = (SystemClock::new(), InstantClock::new());
    let candidates = vec![
        each("`Instant` and the wall clock at the start", Side::Floor, move || former.now()),
        each("**tidegate**, `SystemClock`", Side::Ours, move || clock.now()),
        #[cfg(feature = "rivals")]
        {
            let quanta = quanta::Clock::new();
            let start = quanta.now();
            let now = move || Timestamp::MAX.saturating_sub(quanta.now() - start);
            each("quanta 0.12, `Clock::now`", Side::Rival, now)
        },
    ];
    Scenario { title: "The time of the machine".to_owned(), admits: Some(true), calls: 2_000_000, candidates }
}

fn each(name: &str, side: Side, now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Candidate {
    Candidate::each(name, side, move |_| now() > Timestamp::MIN)
}
