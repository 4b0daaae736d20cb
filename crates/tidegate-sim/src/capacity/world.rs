//! The world of the capacity plane: the same requests for every design, decided by the product's
//! own code.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tidegate_capacity::Access;

use crate::capacity::demand::stream_source::StreamSource;
use crate::capacity::design_world::DesignWorld;
use crate::capacity::fluid::FluidShares;
use crate::capacity::judge::LOOK_EVERY;
use crate::capacity::judge::trace::CheckedRequest;
use crate::capacity::run::CapacityRun;
use crate::capacity::scenario::{CapacityScenario, CapacityScenarioError, TableRole};
use crate::capacity::tally::HeatCounts;
use crate::capacity::world_names::WorldNames;
use crate::kit::SECOND;

/// A scenario under way.
#[derive(Debug)]
pub struct CapacityWorld {
    scenario: CapacityScenario,
    names: WorldNames,
    streams: Vec<StreamSource>,
    /// When each stream has its next request, the soonest first.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    fluid: Vec<FluidShares>,
    offered: Vec<HeatCounts>,
    designs: Vec<DesignWorld>,
    seconds: u32,
    next_look: u64,
}

impl CapacityWorld {
    /// The world of a scenario at its beginning: buckets are full, as after a long idle time.
    pub fn new(scenario: &CapacityScenario) -> Result<Self, CapacityScenarioError> {
        scenario.check()?;
        let streams = StreamSource::all(scenario);
        let names = WorldNames::from_scenario(scenario);
        let fluid = fluid_of(scenario, &streams);
        let designs = scenario
            .designs
            .iter()
            .map(|design| DesignWorld::new(scenario, &names, &streams, &fluid, *design));
        Ok(Self {
            offered: scenario.tables.iter().map(|_| HeatCounts::new(scenario.seconds)).collect(),
            designs: designs.collect::<Result<_, _>>()?,
            fluid,
            scenario: scenario.clone(),
            names,
            next: streams.iter().map(|stream| stream.source.next_at()).zip(0..).map(Reverse).collect(),
            streams,
            seconds: 0,
            next_look: LOOK_EVERY,
        })
    }

    /// The seconds that have passed.
    pub const fn seconds(&self) -> u32 {
        self.seconds
    }

    /// Simulates the next second; false if the last one has passed.
    pub fn next_second(&mut self) -> bool {
        if self.seconds >= self.scenario.seconds {
            return false;
        }
        let end = u64::from(self.seconds + 1) * SECOND;
        while let Some(Reverse((at, stream))) = self.next.peek().copied().filter(|next| next.0.0 < end) {
            while self.next_look <= at {
                self.look();
            }
            self.ask(stream, at);
        }
        while self.next_look <= end {
            self.look();
        }
        self.seconds += 1;
        true
    }

    fn ask(&mut self, stream: usize, at: u64) {
        let source = &mut self.streams[stream];
        let key = source.source.take();
        if let Some(mut next) = self.next.peek_mut() {
            *next = Reverse((source.source.next_at(), stream));
        }
        let (table, cost) = (source.table, i64::from(source.units) * 1000);
        if let Some(shaper) = &mut source.shaper
            && !shaper.lets_pass(key.word, cost, at)
        {
            return;
        }
        self.offered[table].add(at, key.word);
        let (kind, size) = source.access;
        let access = Access::new(&self.scenario.tables[table].name, &key.bytes, kind, size);
        let position = source.source.keys().position(key.word);
        let operation = source.kind.operation();
        let request = CheckedRequest { at, stream, table, operation, position, cost };
        for design in &mut self.designs {
            design.grow(&self.scenario, &self.names, at);
            design.ask(&request, &access, key.word);
        }
    }

    /// Looks at the shape of all tables.
    fn look(&mut self) {
        let at = self.next_look;
        self.next_look += LOOK_EVERY;
        for design in &mut self.designs {
            design.look(&self.scenario, &self.names, at);
        }
    }

    /// The results.
    pub fn into_run(self) -> CapacityRun {
        let Self { scenario, fluid, offered, designs, .. } = self;
        let designs = designs.into_iter().map(|design| design.into_result(&scenario)).collect();
        CapacityRun { scenario, fluid, offered, designs }
    }
}

/// The fluid model of each table that is compared; of none of an experiment, whose tables have what
/// the model does not know.
fn fluid_of(scenario: &CapacityScenario, streams: &[StreamSource]) -> Vec<FluidShares> {
    if scenario.experiment.is_some() {
        return Vec::new();
    }
    let tables = scenario.tables.iter().enumerate();
    let compared = tables.filter(|(_, spec)| spec.role == TableRole::Compared);
    let first = |table| streams.iter().find(|stream| stream.table == table);
    compared
        .filter_map(|(table, spec)| Some(FluidShares::new(spec, &first(table)?.source, scenario.seconds)))
        .collect()
}
