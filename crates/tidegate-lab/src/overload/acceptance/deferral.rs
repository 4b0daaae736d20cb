//! E9: a batch that is too large comes back at the rate that is reserved for it, in order.

use tidegate_core::Class;
use tidegate_overload::{DeferralConfig, Share};
use tidegate_sim::kit::{GateLine, SECOND};
use tidegate_sim::overload::{
    ClientResult, ClientSpec, LoadPhase, OperationReturn, OverloadResult, OverloadRun, OverloadScenario,
    RetryPrecision, RetryRule, ServicePhase, ServiceSpec,
};

use super::figures::{FigureUnit, at_least, at_most, compared, values, values_of};
use crate::overload::RETURN_DESIGNS;

pub(super) const DESCRIPTION: &str = "A service of 1000 requests a second is asked for 10 000 sheddable ones within a second, and their callers come back \
     when the refusal says. Tickets should make them come back at the reserved rate, the share of the capacity: at most \
     1.2 times as many in any second, 99 % done within 1.3 times the ideal drain (the number deferred by the reserved \
     rate), 1.05 attempts after the first, and less than 1 % of the pairs served in another order than refused. Above: \
     a critical class asks for 0.7 of the capacity throughout. Halves: the service takes twice as long from the middle \
     of the drain on. Half lost: half of the callers never return, beside a critical class that asks for the whole \
     capacity; nothing should idle. Whole seconds: callers read the time from the header, rounded up.";

/// When the batch comes, and how long it takes.
const BATCH: f64 = 2.0;
const BATCH_RATE: f64 = 10_000.0;
/// The capacity of the service, in requests a second.
const CAPACITY: f64 = 1000.0;

/// A variant of the experiment.
#[derive(Clone, Copy, Debug)]
struct DeferralVariant {
    name: &'static str,
    /// The share in hundredths.
    share: u8,
    /// The part of the capacity that a critical class asks for throughout.
    above: f64,
    /// The second at which the service begins to take twice as long.
    halves_at: Option<f64>,
    /// The part of the callers that never return.
    lost: f64,
    precision: RetryPrecision,
    tenants: u32,
    seconds: u32,
}

const PLAIN: DeferralVariant = DeferralVariant {
    name: "share 0.2",
    share: 20,
    above: 0.0,
    halves_at: None,
    lost: 0.0,
    precision: RetryPrecision::Exact,
    tenants: 1000,
    seconds: 70,
};

/// The variants, in order.
const VARIANTS: [DeferralVariant; 8] = [
    PLAIN,
    DeferralVariant { name: "share 0.5", share: 50, seconds: 30, ..PLAIN },
    DeferralVariant { name: "one tenant", tenants: 1, ..PLAIN },
    DeferralVariant { name: "whole seconds", precision: RetryPrecision::WholeSeconds, ..PLAIN },
    DeferralVariant { name: "above", above: 0.7, ..PLAIN },
    DeferralVariant { name: "halves", halves_at: Some(24.0), ..PLAIN },
    DeferralVariant { name: "halves, 0.5", share: 50, halves_at: Some(11.0), seconds: 40, ..PLAIN },
    DeferralVariant { name: "half lost", above: 1.0, lost: 0.5, ..PLAIN },
];

pub(super) fn scenarios(seed: u64) -> Vec<OverloadScenario> {
    VARIANTS.iter().map(|variant| variant.scenario(seed)).collect()
}

impl DeferralVariant {
    fn scenario(self, seed: u64) -> OverloadScenario {
        let mut service = ServiceSpec::reference("main");
        let share = Share::percent(self.share);
        service.defer = Some(DeferralConfig { share, ..DeferralConfig::new([Class::Sheddable]) });
        service.phases = self.halves_at.map(|from| ServicePhase::slowed(from, 2.0)).into_iter().collect();
        let phase = |from, factor| LoadPhase { from, factor };
        let batch = |name: &str, part: f64, retry| ClientSpec {
            name: name.to_owned(),
            phases: vec![phase(0.0, 0.0), phase(BATCH, 1.0), phase(BATCH + 1.0, 0.0)],
            tenants: self.tenants,
            deadline_ms: 30_000,
            retry,
            keeps_returns: true,
            ..ClientSpec::bronze(BATCH_RATE * part)
        };
        let named = RetryRule::Named { attempts: 1000, precision: self.precision };
        let mut clients = vec![batch(RETURNING, 1.0 - self.lost, named)];
        if self.lost > 0.0 {
            clients.push(batch(LOST, self.lost, RetryRule::None));
        }
        if self.above > 0.0 {
            let above = ClientSpec { tenants: 50, ..ClientSpec::gold(CAPACITY * self.above) };
            clients.push(ClientSpec { name: ABOVE.to_owned(), ..above });
        }
        let scenario = OverloadScenario::new(seed, self.seconds, vec![service], clients);
        let (variant, designs) = (self.name.to_owned(), RETURN_DESIGNS.to_vec());
        OverloadScenario { variant, warm_up: 0.0, designs, ..scenario }
    }

    /// The requests a second that are reserved for those who come back.
    fn reserved(self) -> f64 {
        CAPACITY * f64::from(self.share) / 100.0
    }
}

/// The names of the clients.
const RETURNING: &str = "batch";
const LOST: &str = "lost";
const ABOVE: &str = "above";

pub(super) fn judge(runs: &[&OverloadRun]) -> Vec<GateLine> {
    let mut lines = Vec::new();
    for variant in VARIANTS {
        let of = |figure: fn(&DeferralVariant, &OverloadResult) -> f64| {
            values(runs, variant.name, |_, result| figure(&variant, result))
        };
        let named = |what: &str| format!("{}: {what}", variant.name);
        let (times, share) = (FigureUnit::Times, FigureUnit::Share);
        lines.push(at_most(
            named("returns in a second, relative to the reserved rate"),
            &of(peak),
            1.2,
            times,
        ));
        let what = named("part of the deferred that is done within 1.3 times the ideal drain");
        lines.push(at_least(what, &of(done_in_time), 0.99, share));
        lines.push(at_most(named("attempts after the first"), &of(attempts), 1.05, times));
        lines.push(at_most(named("pairs in another order"), &of(inversions), 0.01, share));
        if variant.lost > 0.0 {
            let what = named("part of the capacity that is served until the ideal drain is over");
            lines.push(at_least(what, &of(served_part), 0.95, share));
        }
    }
    lines.extend(VARIANTS.iter().flat_map(|variant| comparison(runs, *variant)));
    lines
}

/// The figures of a variant under all designs, with more that have no bound.
fn comparison(runs: &[&OverloadRun], variant: DeferralVariant) -> Vec<GateLine> {
    type FigureOfRun = fn(&DeferralVariant, &OverloadResult) -> f64;
    let mut figures: Vec<(&str, FigureOfRun, FigureUnit)> = vec![
        ("returns in a second", peak, FigureUnit::Times),
        ("part done in time", done_in_time, FigureUnit::Share),
        ("attempts after the first", attempts, FigureUnit::Times),
        ("pairs in another order", inversions, FigureUnit::Share),
        ("time until all are done, relative to the ideal drain", drain, FigureUnit::Times),
    ];
    if variant.above > 0.0 {
        figures.push(("success of the class above", success_above, FigureUnit::Share));
    }
    let pairs =
        RETURN_DESIGNS.into_iter().flat_map(|design| figures.iter().map(move |figure| (design, *figure)));
    let lines = pairs.filter_map(|(design, (what, figure, unit))| {
        let values = values_of(runs, variant.name, design, |result| figure(&variant, result));
        let what = format!("{}, {}: {what}", variant.name, design.name);
        (!values.is_empty()).then(|| compared(what, &values, unit))
    });
    lines.collect()
}

/// The part of the operations of the class above that succeed, of those that begin from a second
/// after the batch on until the ideal drain is over. The batch itself is no return.
fn success_above(variant: &DeferralVariant, result: &OverloadResult) -> f64 {
    let from = BATCH + 2.0;
    let steps = result.client(ABOVE).map(|client| client.steps_in(from, from + ideal_drain(variant, result)));
    let steps = steps.unwrap_or_default();
    let began: u32 = steps.iter().map(|step| step.began).sum();
    f64::from(steps.iter().map(|step| step.succeeded).sum::<u32>()) / f64::from(began.max(1))
}

/// The operations of a client that were refused at first.
fn returns<'a>(result: &'a OverloadResult, client: &str) -> &'a [OperationReturn] {
    result.client(client).map_or(&[], |client| &client.returns)
}

/// The most returns in ten steps in a row, relative to the reserved rate.
fn peak(variant: &DeferralVariant, result: &OverloadResult) -> f64 {
    let steps = result.client(RETURNING).map_or(&[][..], |client| &client.steps);
    let sum = |steps: &[tidegate_sim::overload::ClientStep]| steps.iter().map(|step| step.returned).sum();
    let most: u32 = steps.windows(10).map(sum).max().unwrap_or(u32::MAX);
    f64::from(most) / variant.reserved()
}

/// The seconds in which the reserved rate serves all that were deferred, those that never return
/// included.
fn ideal_drain(variant: &DeferralVariant, result: &OverloadResult) -> f64 {
    let deferred = returns(result, RETURNING).len() + returns(result, LOST).len();
    deferred as f64 / variant.reserved()
}

/// The instant of the first refusal, in nanoseconds.
fn first_refusal(result: &OverloadResult) -> u64 {
    let all = returns(result, RETURNING).iter().chain(returns(result, LOST));
    all.map(|one| one.refused_at).min().unwrap_or(0)
}

/// The part of the deferred operations that was done within 1.3 times the ideal drain.
fn done_in_time(variant: &DeferralVariant, result: &OverloadResult) -> f64 {
    let limit = first_refusal(result) + (1.3 * ideal_drain(variant, result) * SECOND as f64) as u64;
    let is_in_time = |one: &&OperationReturn| one.served.is_some_and(|(_, ended_at)| ended_at <= limit);
    let deferred = returns(result, RETURNING);
    deferred.iter().filter(is_in_time).count() as f64 / deferred.len().max(1) as f64
}

/// The time from the first refusal until the last deferred operation is done, relative to the ideal
/// drain.
fn drain(variant: &DeferralVariant, result: &OverloadResult) -> f64 {
    let ends = returns(result, RETURNING).iter().map(|one| one.served.map_or(u64::MAX, |(_, ended)| ended));
    let last = ends.max().unwrap_or(u64::MAX);
    (last - first_refusal(result)) as f64 / SECOND as f64 / ideal_drain(variant, result)
}

/// The attempts after the first of a deferred operation.
fn attempts(_: &DeferralVariant, result: &OverloadResult) -> f64 {
    let deferred = returns(result, RETURNING);
    let returned: u64 = deferred.iter().map(|one| u64::from(one.returns)).sum();
    returned as f64 / deferred.len().max(1) as f64
}

/// The part of the pairs of deferred operations that was served in another order than refused. One
/// that was never served counts as served last.
fn inversions(_: &DeferralVariant, result: &OverloadResult) -> f64 {
    let started = |one: &OperationReturn| one.served.map_or(u64::MAX, |(started_at, _)| started_at);
    let mut pairs: Vec<(u64, u64)> =
        returns(result, RETURNING).iter().map(|one| (one.refused_at, started(one))).collect();
    pairs.sort_unstable();
    let served: Vec<u64> = pairs.into_iter().map(|(_, started_at)| started_at).collect();
    let count = served.len() as f64;
    inverted(served).1 as f64 / (count * (count - 1.0) / 2.0).max(1.0)
}

/// The numbers in rising order, and how many pairs of them were in falling order.
fn inverted(mut numbers: Vec<u64>) -> (Vec<u64>, u64) {
    if numbers.len() < 2 {
        return (numbers, 0);
    }
    let right = numbers.split_off(numbers.len() / 2);
    let ((left, in_left), (right, in_right)) = (inverted(numbers), inverted(right));
    let (mut merged, mut count) = (Vec::with_capacity(left.len() + right.len()), in_left + in_right);
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some(first), Some(second)) = (left.peek(), right.peek()) {
        if second < first {
            count += left.len() as u64;
            merged.extend(right.next());
        } else {
            merged.extend(left.next());
        }
    }
    merged.extend(left);
    merged.extend(right);
    (merged, count)
}

/// The work that began in each second from the end of the batch until the ideal drain is over, as a
/// part of the capacity.
fn served_part(variant: &DeferralVariant, result: &OverloadResult) -> f64 {
    let (from, until) = (BATCH + 1.0, BATCH + 1.0 + ideal_drain(variant, result));
    let started = |client: &ClientResult| -> u32 {
        client.steps_in(from, until).iter().map(|step| step.started_units).sum()
    };
    let started: u32 = result.clients.iter().map(started).sum();
    f64::from(started) / CAPACITY / (until - from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inverted_pairs_are_counted_as_by_looking_at_each() {
        for seed in 0..50 {
            let mut chance = tidegate_sim::kit::Chance::new(seed, 1);
            let numbers: Vec<u64> = (0..chance.below(60)).map(|_| chance.below(20)).collect();
            let pairs = (0..numbers.len()).flat_map(|right| (0..right).map(move |left| (left, right)));
            let falling = pairs.filter(|(left, right)| numbers[*right] < numbers[*left]).count();
            let mut sorted = numbers.clone();
            sorted.sort_unstable();
            assert_eq!(inverted(numbers), (sorted, falling as u64), "{seed}");
        }
    }
}
