//! Advice about the places of synthetic services: right for each of them, over three seeds.

use core::ops::RangeInclusive;

use tidegate_overload::ConcurrencyAdvice;
use tidegate_sim::overload::{
    ClientSpec, LoadPhase, OverloadDesign, OverloadScenario, ServicePhase, ServiceSpec, ServiceTime, simulate,
};

const EXPONENTIAL: ServiceTime = ServiceTime::Exponential { mean_ms: 40.0 };
const CONSTANT: ServiceTime = ServiceTime::Constant { ms: 40.0 };
/// Mostly about 10 ms, and sometimes a second.
const LONG_TAIL: ServiceTime = ServiceTime::Lognormal { mean_ms: 40.0, sigma: 1.5 };

/// The steps of a run are 100 ms.
const STEPS_A_SECOND: usize = 10;

/// A service and the requests a second that it is asked for.
#[derive(Clone)]
struct SyntheticService {
    service: ServiceSpec,
    client: ClientSpec,
    design: OverloadDesign,
    seconds: u32,
    /// The percent of the second half for which advice is given at least.
    given_min: usize,
}

impl SyntheticService {
    fn new(workers: u32, places: u32, service_time: ServiceTime, rate: f64) -> Self {
        let mut service = ServiceSpec::reference("main");
        (service.workers, service.places, service.service_time) = (workers, Some(places), service_time);
        let mut client = ClientSpec::gold(rate);
        client.deadline_ms = 5_000;
        // A mean of times of which a few are very long is known less often, and may never be.
        let given_min = if service_time == LONG_TAIL { 0 } else { 50 };
        Self { service, client, design: OverloadDesign::TIDEGATE, seconds: 120, given_min }
    }

    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// Ten seconds of light load and ten seconds of heavy load by turns.
    fn by_turns(self, light: f64, heavy: f64) -> Self {
        self.with(|it| {
            let phase = |turn: u32| LoadPhase {
                from: f64::from(10 * turn),
                factor: if turn.is_multiple_of(2) { light } else { heavy },
            };
            it.client.phases = (0..40).map(phase).collect();
        })
    }

    /// The advice of each second of the second half.
    fn advice(&self, seed: u64) -> Vec<Option<ConcurrencyAdvice>> {
        let mut scenario =
            OverloadScenario::new(seed, self.seconds, vec![self.service.clone()], vec![self.client.clone()]);
        scenario.designs = vec![self.design];
        let run = simulate(&scenario).expect("the scenario is in range");
        assert_eq!(run.designs[0].violations, []);
        let steps = &run.designs[0].services[0].steps;
        let seconds = self.seconds as usize;
        let steps = &steps[seconds / 2 * STEPS_A_SECOND..seconds * STEPS_A_SECOND];
        steps.iter().step_by(STEPS_A_SECOND).map(|step| step.advice).collect()
    }

    /// All advice of all seeds is of this kind, with a suggestion in this range, and is given for
    /// its part of the time.
    #[track_caller]
    fn assert_advised(&self, name: &str, kind: &str, suggested: RangeInclusive<u64>) {
        for seed in 1..=3 {
            let seconds = self.advice(seed);
            let given: Vec<_> = seconds.iter().flatten().collect();
            let what = format!("{name}, seed {seed}: {} of {} seconds", given.len(), seconds.len());
            println!("{what}: {}", given.last().map_or_else(String::new, ToString::to_string));
            assert!(given.len() * 100 >= self.given_min * seconds.len(), "{what}");
            for advice in given {
                assert_eq!(advice.as_str(), kind, "{what}: {advice}");
                assert!(suggested.contains(&advice.suggested()), "{what}: {advice}");
            }
        }
    }

    #[track_caller]
    fn assert_not_advised(&self, name: &str) {
        for seed in 1..=3 {
            let given = self.advice(seed).into_iter().flatten().next();
            let given = given.map_or_else(String::new, |advice| advice.to_string());
            assert_eq!(given, "", "{name}, seed {seed}");
        }
    }
}

#[test]
fn places_far_below_the_workers_may_be_too_few() {
    for time in [EXPONENTIAL, CONSTANT, LONG_TAIL] {
        let few = SyntheticService::new(20, 2, time, 250.0);
        few.assert_advised("always full", "too_low", 8..=8);
        few.clone().with(|it| it.client.wait_ms = 0).assert_advised("without a queue", "too_low", 8..=8);
        few.by_turns(0.15, 2.0).assert_advised("by turns", "too_low", 8..=8);
    }
    let external = ServiceTime::Exponential { mean_ms: 500.0 };
    let slow = SyntheticService::new(300, 4, external, 32.0).with(|it| it.seconds = 300);
    slow.assert_advised("a slow external service", "too_low", 15..=16);
}

#[test]
fn places_far_above_the_workers_are_too_many() {
    for time in [EXPONENTIAL, CONSTANT] {
        let many = SyntheticService::new(8, 40, time, 190.0);
        many.assert_advised("nearly full", "too_high", 5..=12);
        // Its places are all in use, or few are: the moments between show what is wrong.
        let many = many.by_turns(0.6, 1.5).with(|it| (it.seconds, it.given_min) = (400, 30));
        many.assert_advised("by turns", "too_high", 5..=12);
    }
    let single = SyntheticService::new(1, 10, EXPONENTIAL, 22.0).with(|it| it.seconds = 300);
    single.assert_advised("one worker", "too_high", 1..=3);
}

#[test]
fn places_as_many_as_workers_are_right_at_any_load_up_to_twice_the_capacity() {
    for time in [EXPONENTIAL, CONSTANT, LONG_TAIL] {
        for load in [0.5, 0.9, 2.0] {
            SyntheticService::new(10, 10, time, 250.0 * load).assert_not_advised("as many as workers");
        }
        SyntheticService::new(10, 10, time, 250.0).by_turns(0.4, 2.0).assert_not_advised("by turns");
    }
}

#[test]
fn a_rehearsal_tells_too_few_places_from_a_service_at_its_limit() {
    let rehearsed = |workers, places, rate| {
        SyntheticService::new(workers, places, EXPONENTIAL, rate)
            .with(|it| it.design = OverloadDesign::TIDEGATE_SHADOW)
    };
    let few = rehearsed(20, 4, 400.0);
    few.assert_advised("too few places", "too_low", 15..=16);
    let says = few.advice(1).into_iter().flatten().next().unwrap().to_string();
    assert!(says.contains("no longer when more places are in use"), "{says}");
    rehearsed(10, 10, 1_250.0).assert_not_advised("as many as workers");
    rehearsed(10, 10, 200.0).assert_not_advised("as many as workers");
}

#[test]
fn a_right_number_at_five_times_its_load_is_called_too_low_on_a_condition_unless_a_signal_shows_better() {
    // Nothing that the gate measures tells this service from one with more workers.
    let overloaded = SyntheticService::new(10, 10, EXPONENTIAL, 1_250.0);
    for advice in (1..=3).flat_map(|seed| overloaded.advice(seed)).flatten() {
        assert_eq!((advice.as_str(), advice.suggested()), ("too_low", 40), "{advice}");
        assert!(advice.to_string().contains("If the service can work on more at once"), "{advice}");
    }
    overloaded
        .with(|it| it.service.measured_noise = Some(0.02))
        .assert_not_advised("with its use as a signal");
    let few = SyntheticService::new(20, 2, EXPONENTIAL, 250.0);
    let few = few.with(|it| it.service.measured_noise = Some(0.02));
    few.assert_advised("mostly idle by its signal", "too_low", 8..=8);
}

#[test]
fn a_quiet_resource_is_not_advised() {
    SyntheticService::new(10, 2, EXPONENTIAL, 0.3).assert_not_advised("a request in three seconds");
    SyntheticService::new(20, 40, EXPONENTIAL, 10.0).assert_not_advised("hardly used");
    let load_is_over = SyntheticService::new(20, 2, EXPONENTIAL, 250.0).with(|it| {
        it.client.phases = vec![LoadPhase { from: 1.0, factor: 0.0 }];
    });
    load_is_over.assert_not_advised("its load is over");
}

#[test]
fn a_service_that_slows_down_is_not_one_with_too_many_places() {
    for from in [30.0, 65.0, 90.0] {
        let mut slow = SyntheticService::new(300, 40, EXPONENTIAL, 200.0);
        slow.service.phases = vec![ServicePhase::slowed(from, 4.0)];
        slow.assert_not_advised("a step");
    }
    let mut worse = SyntheticService::new(300, 60, EXPONENTIAL, 200.0);
    worse.service.phases = (0..12_u32)
        .map(|step| ServicePhase::slowed(f64::from(10 * step), 1.0 + f64::from(step) / 2.0))
        .collect();
    worse.assert_not_advised("slower and slower");
    let mut spells = SyntheticService::new(300, 60, EXPONENTIAL, 200.0);
    let spell = |spell: u32| {
        let from = f64::from(spell * 10);
        [ServicePhase::slowed(from, 1.0), ServicePhase::slowed(from + 5.0, 5.0)]
    };
    spells.service.phases = (0..12).flat_map(spell).collect();
    spells.assert_not_advised("slow spells");
}

#[test]
fn an_adaptive_limit_is_not_advised_while_it_can_move() {
    for (workers, rate) in [(8, 300.0), (40, 600.0)] {
        let adaptive = SyntheticService::new(workers, 20, EXPONENTIAL, rate);
        adaptive.with(|it| it.service.is_adaptive = true).assert_not_advised("adaptive");
    }
}
