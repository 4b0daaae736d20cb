//! How far admissions exceed a bound, over all spans of time.
//!
//! An admission happened at some instant between asking and answering. So a span *certainly* holds
//! the requests that were asked and answered within it, and *possibly* those that were under way at
//! its ends. Certainly beyond a bound is an error; possibly beyond it says how sharp the
//! measurement is.

/// An admitted request: when it was asked and answered, in seconds from the start of the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Admission {
    pub(crate) asked: f64,
    pub(crate) answered: f64,
}

/// More than a limit allows, for what happened between two instants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct AllowedExcess {
    pub(crate) begin: f64,
    pub(crate) end: f64,
    /// Units a second beside the limit's rate, from `begin` to `end`.
    pub(crate) rate: f64,
    /// Units once in each span that meets the exception, wherever in the span they were spent.
    pub(crate) units: f64,
}

/// The units that a limit allows in a span, without its burst.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Allowance {
    /// Units a second.
    pub(crate) rate: f64,
    pub(crate) exceptions: Vec<AllowedExcess>,
}

impl Allowance {
    /// That of a limit to which nothing happened.
    pub(crate) fn per_second(rate: f64) -> Self {
        Self { rate, exceptions: Vec::new() }
    }

    /// The units that have accrued at `at`, with those of the exceptions that `is_counted` selects.
    fn accrued(&self, at: f64, is_counted: impl Fn(&AllowedExcess) -> bool) -> f64 {
        let extra = self.exceptions.iter().map(|one| {
            let units = if is_counted(one) { one.units } else { 0.0 };
            one.rate * (at.min(one.end) - one.begin).max(0.0) + units
        });
        self.rate * at + extra.sum::<f64>()
    }

    fn until_start(&self, start: f64) -> f64 {
        self.accrued(start, |one| one.end < start)
    }

    fn until_end(&self, end: f64) -> f64 {
        self.accrued(end, |one| one.begin <= end)
    }

    /// The most units beyond this allowance that any span certainly holds; 0 if none does.
    ///
    /// Ends are taken in order. A tree over all starts in order has, for each start, how many of
    /// the admissions so far were asked from there on.
    pub(crate) fn certainly_beyond(&self, admissions: &[Admission]) -> f64 {
        let mut admissions = admissions.to_vec();
        admissions.sort_by(|one, other| one.asked.total_cmp(&other.asked));
        let mut by_answer: Vec<usize> = (0..admissions.len()).collect();
        by_answer.sort_by(|one, other| admissions[*one].answered.total_cmp(&admissions[*other].answered));
        let leaves = admissions.len().next_power_of_two();
        // Of each part of the starts: its admissions, and the best start with all after it.
        let mut nodes = vec![(0.0, f64::NEG_INFINITY); 2 * leaves];
        let mut most = 0.0_f64;
        for index in by_answer {
            let Admission { asked, answered } = admissions[index];
            let mut node = leaves + index;
            // Only now: a span that begins later than it ends holds nothing.
            nodes[node] = (1.0, self.until_start(asked) + 1.0);
            while node > 1 {
                node /= 2;
                let (left, right) = (nodes[2 * node], nodes[2 * node + 1]);
                nodes[node] = (left.0 + right.0, right.1.max(left.1 + right.0));
            }
            most = most.max(nodes[1].1 - self.until_end(answered));
        }
        most
    }
}

/// The most units by which any span exceeds `rate`: for certain, by the instants of the answers,
/// and possibly.
pub(crate) fn beyond_rate(admissions: &[Admission], rate: f64) -> [f64; 3] {
    let allowance = Allowance::per_second(rate);
    let answers: Vec<Admission> =
        admissions.iter().map(|one| Admission { asked: one.answered, ..*one }).collect();
    let certain = allowance.certainly_beyond(admissions);
    [certain, allowance.certainly_beyond(&answers), possibly_beyond(admissions, rate)]
}

/// The most units beyond `rate` that any span possibly holds.
fn possibly_beyond(admissions: &[Admission], rate: f64) -> f64 {
    let asked = admissions.iter().map(|one| (one.asked, false));
    let mut events: Vec<_> = asked.chain(admissions.iter().map(|one| (one.answered, true))).collect();
    events.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
    let (mut asked, mut answered) = (0.0, 0.0);
    let (mut best_start, mut most) = (f64::NEG_INFINITY, 0.0_f64);
    for (at, is_answer) in events {
        best_start = best_start.max(rate * at - answered);
        *(if is_answer { &mut answered } else { &mut asked }) += 1.0;
        most = most.max(best_start + asked - rate * at);
    }
    most
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Half of the instants are multiples of a quarter, so that several are equal.
    fn instant() -> impl Strategy<Value = f64> {
        prop_oneof![0.0..6.0, (0_u8..24).prop_map(|quarters| f64::from(quarters) / 4.0)]
    }

    prop_compose! {
        fn admission()(asked in instant(), took in 0.0..1.0) -> Admission {
            Admission { asked, answered: asked + took }
        }
    }

    prop_compose! {
        fn exception()(begin in instant(), length in 0.0..2.0, rate in 0.0..3.0, units in 0.0..4.0) -> AllowedExcess {
            AllowedExcess { begin, end: begin + length, rate, units }
        }
    }

    /// The same by counting every span.
    fn counted(
        admissions: &[Admission],
        is_held: impl Fn(Admission, f64, f64) -> bool,
        allowed: impl Fn(f64, f64) -> f64,
    ) -> f64 {
        let instants = || admissions.iter().flat_map(|one| [one.asked, one.answered]);
        let spans = instants().flat_map(|start| instants().map(move |end| (start, end)));
        let excess = spans.filter(|(start, end)| start <= end).map(|(start, end)| {
            admissions.iter().filter(|one| is_held(**one, start, end)).count() as f64 - allowed(start, end)
        });
        excess.fold(0.0, f64::max)
    }

    proptest! {
        #[test]
        fn an_excess_over_a_rate_is_that_of_counting_every_span(
            admissions in prop::collection::vec(admission(), 0..14),
            rate in prop_oneof![Just(1.0), Just(3.0), Just(7.0)],
        ) {
            let allowed = |start, end| rate * (end - start);
            let certain =
                counted(&admissions, |one, start, end| one.asked >= start && one.answered <= end, allowed);
            let answers =
                counted(&admissions, |one, start, end| (start..=end).contains(&one.answered), allowed);
            let possible =
                counted(&admissions, |one, start, end| one.answered >= start && one.asked <= end, allowed);
            let found = beyond_rate(&admissions, rate);
            for (found, expected) in found.into_iter().zip([certain, answers, possible]) {
                prop_assert!((found - expected).abs() < 1e-9, "{found} {expected}");
            }
        }

        #[test]
        fn an_excess_over_an_allowance_is_that_of_adding_up_what_each_span_may_hold(
            admissions in prop::collection::vec(admission(), 0..14),
            exceptions in prop::collection::vec(exception(), 0..4),
        ) {
            let allowed = |start: f64, end: f64| {
                let met = exceptions.iter().map(|one| {
                    let units = if end >= one.begin && start <= one.end { one.units } else { 0.0 };
                    one.rate * (end.min(one.end) - start.max(one.begin)).max(0.0) + units
                });
                (end - start) + met.sum::<f64>()
            };
            let expected =
                counted(&admissions, |one, start, end| one.asked >= start && one.answered <= end, allowed);
            let found = Allowance { rate: 1.0, exceptions: exceptions.clone() }.certainly_beyond(&admissions);
            prop_assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        }
    }
}
