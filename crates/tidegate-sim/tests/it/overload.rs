//! The overload world.

use tidegate_sim::overload::*;

#[test]
fn all() {
    for experiment in OverloadExperiment::ALL {
        let began = std::time::Instant::now();
        let runs = experiment.scenarios(1).iter().map(|s| simulate(s).unwrap()).collect();
        println!("{}", OverloadReport::new(runs));
        println!("{:?}", began.elapsed());
    }
}
