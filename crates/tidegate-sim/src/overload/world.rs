//! A scenario under all of its designs, second by second.

use super::design_world::OverloadDesignWorld;
use super::run::OverloadRun;
use super::scenario::OverloadScenario;
use super::scenario_error::OverloadScenarioError;

/// A scenario that is being simulated.
#[derive(Debug)]
pub struct OverloadWorld {
    scenario: OverloadScenario,
    designs: Vec<OverloadDesignWorld>,
    second: u32,
}

impl OverloadWorld {
    /// The world before its first second.
    pub fn new(scenario: &OverloadScenario) -> Result<Self, OverloadScenarioError> {
        scenario.check()?;
        let designs = scenario.designs.iter().map(|design| OverloadDesignWorld::new(*design, scenario));
        Ok(Self { scenario: scenario.clone(), designs: designs.collect::<Result<_, _>>()?, second: 0 })
    }

    /// Simulates the next second under each design; `false` after the last.
    pub fn next_second(&mut self) -> bool {
        if self.second == self.scenario.seconds {
            return false;
        }
        self.second += 1;
        self.designs.iter_mut().for_each(|design| design.run_to(self.second));
        true
    }

    /// The results, after unfinished operations are carried to their end.
    pub fn into_run(self) -> OverloadRun {
        let designs = self.designs.into_iter().map(OverloadDesignWorld::into_result).collect();
        OverloadRun { scenario: self.scenario, designs }
    }
}

/// Simulates a scenario from beginning to end.
pub fn simulate(scenario: &OverloadScenario) -> Result<OverloadRun, OverloadScenarioError> {
    let mut world = OverloadWorld::new(scenario)?;
    while world.next_second() {}
    Ok(world.into_run())
}
