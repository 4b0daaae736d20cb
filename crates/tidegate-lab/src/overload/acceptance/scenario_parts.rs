//! Parts of the scenarios of experiments.

use tidegate_sim::overload::{ClientSpec, OverloadResult, OverloadScenario, ServiceSpec};

use crate::overload::DESIGNS;

/// A variant with one service under every design.
pub(super) fn variant(
    name: &str,
    seed: u64,
    seconds: u32,
    service: ServiceSpec,
    clients: Vec<ClientSpec>,
) -> OverloadScenario {
    let scenario = OverloadScenario::new(seed, seconds, vec![service], clients);
    OverloadScenario { variant: name.to_owned(), designs: DESIGNS.to_vec(), ..scenario }
}

/// The part of the operations that begin between two seconds and succeed.
pub(super) fn success_in(result: &OverloadResult, from: f64, until: f64) -> f64 {
    let steps = || result.clients.iter().flat_map(|client| client.steps_in(from, until));
    let began: u32 = steps().map(|step| step.began).sum();
    f64::from(steps().map(|step| step.succeeded).sum::<u32>()) / f64::from(began.max(1))
}
