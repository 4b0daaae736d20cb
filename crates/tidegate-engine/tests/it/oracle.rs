//! Checks with reloads in between, beside a second implementation that keeps the whole history and
//! knows only the rule: what is used stays used, in units; the numbers in force decide; and what is
//! used of a bucket drains by the numbers it was last charged under.

use core::time::Duration;

use proptest::prelude::*;
use tidegate_core::algorithm::{Bucket, Fixed, Rolling, WindowStart};
use tidegate_core::{Algorithm, Limit, Rate};
use tidegate_engine::Engine;

use crate::reload::{admit, engine, namespace};
use crate::world::NOW;

const WINDOW: u64 = 60;

/// The numbers of the three limits.
#[derive(Clone, Copy, Debug)]
struct Numbers {
    /// Seconds in which the bucket refills one unit: 1, 2 or 4, so that a quarter of a unit is the
    /// smallest part.
    refill: u64,
    burst: u64,
    fixed: u64,
    rolling: u64,
    /// Whether the limits have their other names.
    is_renamed: bool,
}

impl Numbers {
    fn limits(self) -> Vec<Limit> {
        let window = Duration::from_secs(WINDOW);
        let rate = Rate::new(1, Duration::from_secs(self.refill)).unwrap();
        let algorithms = [
            ("bucket", "tub", Algorithm::Bucket(Bucket::new(rate, self.burst).unwrap())),
            ("fixed", "set", Algorithm::Fixed(Fixed::new(self.fixed, window, WindowStart::Epoch).unwrap())),
            ("rolling", "moving", Algorithm::Rolling(Rolling::new(self.rolling, window).unwrap())),
        ];
        let named = algorithms.into_iter().map(|(name, other, algorithm)| {
            let (name, was) = if self.is_renamed { (other, name) } else { (name, other) };
            Limit::new(name, algorithm).key(["user"]).was(was)
        });
        named.collect()
    }
}

/// Everything that was admitted: when, in seconds, and how many units.
#[derive(Debug, Default)]
struct History {
    admitted: Vec<(u64, u64)>,
    /// Quarters of a unit used of the bucket, at the second `at`.
    quarters: u64,
    at: u64,
    /// Seconds in which it drains a unit.
    refill: u64,
}

impl History {
    fn decide(&mut self, numbers: Numbers, now: u64, units: u64) -> bool {
        let sum = |is_counted: &dyn Fn(u64) -> bool| -> u64 {
            self.admitted.iter().filter(|(at, _)| is_counted(*at)).map(|(_, units)| units).sum()
        };
        let in_window = sum(&|at| (at + NOW.as_secs()) / WINDOW == (now + NOW.as_secs()) / WINDOW);
        let lately = sum(&|at| at + WINDOW > now);
        let fits = self.quarters + 4 * units <= 4 * numbers.burst
            && in_window + units <= numbers.fixed
            && lately + units <= numbers.rolling;
        if fits {
            self.quarters += 4 * units;
            self.refill = numbers.refill;
            self.admitted.push((now, units));
        }
        fits
    }

    /// Lets the bucket drain until `now`.
    fn pass(&mut self, now: u64) {
        let drained = ((now - self.at) * 4).checked_div(self.refill);
        self.quarters = self.quarters.saturating_sub(drained.unwrap_or(0));
        self.at = now;
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Check { wait: u64, units: u64 },
    Reload(Numbers),
}

fn numbers() -> impl Strategy<Value = Numbers> {
    let refill = prop::sample::select(vec![1_u64, 2, 4]);
    (refill, 1..12_u64, 1..25_u64, 1..25_u64, any::<bool>()).prop_map(
        |(refill, burst, fixed, rolling, is_renamed)| Numbers { refill, burst, fixed, rolling, is_renamed },
    )
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..12_u64, 1..4_u64).prop_map(|(wait, units)| Event::Check { wait, units }),
        1 => numbers().prop_map(Event::Reload),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn reloads_between_checks_admit_what_the_history_says(
        first in numbers(),
        events in prop::collection::vec(event(), 1..120),
    ) {
        let mut each: Engine = engine(first.limits());
        let (mut in_force, mut history, mut now) = (first, History::default(), 0);
        for event in events {
            match event {
                Event::Reload(numbers) => {
                    each = each.reconfigured(namespace(numbers.limits())).unwrap().0;
                    in_force = numbers;
                }
                Event::Check { wait, units } => {
                    now += wait;
                    history.pass(now);
                    let at = NOW.saturating_add(Duration::from_secs(now));
                    let expected = history.decide(in_force, now, units);
                    prop_assert_eq!(admit(&each, units, at).is_some(), expected, "{:?} at {}", in_force, now);
                }
            }
        }
    }
}
