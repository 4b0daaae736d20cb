//! One member of the fleet: an engine of its own, and a clock of its own.

use tidegate_capacity::{Capacity, CapacityBuilder, Ceilings, NodeConfig, TableConfig, TableMode};
use tidegate_core::limit::OnStoreFailure;
use tidegate_core::{Limit, TableConfig as KeyTableConfig, error_chain};
use tidegate_engine::{Engine, EngineConfig, LeaseConfig, NamespaceConfig, Pending};

use crate::fleet::arrival::Arrival;
use crate::fleet::scenario::{Chaos, DecisionSite, Numbers, Scenario, ScenarioError, Subject};
use crate::kit::{Chance, Clock, Room};

/// The namespace of the simulated limit.
pub(crate) const NAMESPACE: &str = "fleet";
/// The attribute that is the key.
pub(crate) const ATTRIBUTE: &str = "key";

/// A member, running or not.
#[derive(Debug)]
pub(crate) struct Member {
    /// `None` while it is down.
    pub(crate) engine: Option<Engine>,
    pub(crate) clock: Clock,
    /// A number that no other run of any member has.
    pub(crate) run: u64,
    /// When it is to be woken next, in true time.
    pub(crate) wake: u64,
    /// When it was woken last.
    pub(crate) woken: u64,
    /// Requests that wait for a lease.
    pub(crate) parked: Room<(Pending, Arrival)>,
}

/// Makes the engines of a fleet.
#[derive(Debug)]
pub(crate) struct MemberFactory {
    chance: Chance,
    scenario: Scenario,
    limit: Limit,
    table_bytes: usize,
    runs: u64,
}

impl MemberFactory {
    pub(crate) fn new(scenario: &Scenario) -> Result<Self, ScenarioError> {
        let consistency = match scenario.consistency {
            DecisionSite::Local => tidegate_core::limit::Consistency::Local,
            DecisionSite::Exact => tidegate_core::limit::Consistency::Exact,
            DecisionSite::Leased => tidegate_core::limit::Consistency::Leased,
        };
        let failure = if scenario.limit.is_quota() { OnStoreFailure::Refuse } else { OnStoreFailure::Local };
        let limit = Limit::new("per-key", scenario.algorithm()?)
            .key([ATTRIBUTE])
            .consistency(consistency)
            .on_store_failure(failure)
            .lease_period(scenario.lease_period());
        // Decisions that a member makes alone are in its table: four words a key, so that every key
        // finds a place. Beside a store that is only for silences, and of the many keys of a large
        // fleet not all are asked for in one.
        let keys_max = if scenario.consistency == DecisionSite::Local { usize::MAX } else { 1 << 12 };
        let keys = (scenario.keys as usize).min(keys_max);
        let table_bytes = (keys * 64).clamp(KeyTableConfig::BYTES_MIN, KeyTableConfig::BYTES_DEFAULT);
        Ok(Self {
            chance: Chance::new(scenario.seed, 6),
            scenario: scenario.clone(),
            limit,
            table_bytes,
            runs: 0,
        })
    }

    /// A member that begins to run.
    pub(crate) fn member(&mut self) -> Result<Member, ScenarioError> {
        let clock = match self.scenario.chaos {
            Chaos::None => Clock::TRUE,
            Chaos::Some => Clock::drawn(&mut self.chance),
        };
        let mut member =
            Member { engine: None, clock, run: 0, wake: u64::MAX, woken: 0, parked: Room::default() };
        self.start(&mut member)?;
        Ok(member)
    }

    /// Starts a member, which remembers nothing.
    pub(crate) fn start(&mut self, member: &mut Member) -> Result<(), ScenarioError> {
        self.runs += 1;
        let mut leases = LeaseConfig::new(self.runs);
        (leases.holders_max, leases.locks_max) = (self.scenario.holders_max as usize, 1);
        let mut config = EngineConfig::seeded(self.chance.seeds());
        (config.table.bytes, config.table.ring_share_percent) = (self.table_bytes, 0);
        (config.permits_max, config.permit_key) = (0, [0; 2]);
        (config.asks_store, config.leases) = (true, Some(leases));
        let engine = match self.scenario.subject {
            Subject::Limit => {
                let namespace = NamespaceConfig::new(NAMESPACE, [self.limit.clone()]);
                Engine::builder(config).namespace(namespace)
            }
            Subject::Table => {
                let namespace = NamespaceConfig::new(NAMESPACE, []);
                Engine::builder(config).namespace(namespace).capacity(tables(&self.scenario)?)
            }
        };
        let engine = engine.build();
        let engine = engine.map_err(|error| ScenarioError::Engine(error_chain(&error)))?;
        // As `store.members` of the policy says, so that a member knows it before the store has
        // answered.
        let told = engine.with_members(self.scenario.members);
        told.map_err(|error| ScenarioError::Engine(error_chain(&error)))?;
        member.engine = Some(engine);
        member.run = self.runs;
        member.wake = u64::MAX;
        member.parked.clear();
        Ok(())
    }
}

/// The tables of the keys. Their only partition serves whatever the table has.
fn tables(scenario: &Scenario) -> Result<Capacity, ScenarioError> {
    let rate = match scenario.limit {
        Numbers::Bucket { units, .. } | Numbers::Window { units, .. } => u64::from(units / 2).max(1),
    };
    let node = TableConfig::UNITS_PER_SECOND_MAX;
    let tables = (0..scenario.keys).map(|key| {
        TableConfig::new(NAMESPACE, KeyName::from_key(key).as_str(), rate, 1)
            .nodes(["node"])
            .mode(TableMode::Global)
            .ceilings(Ceilings { read: node, write: node })
    });
    let builder = Capacity::builder().node_config(NodeConfig::new("node", node).reserve_percent(0));
    let capacity = tables.fold(builder, CapacityBuilder::table).build();
    capacity.map_err(|error| ScenarioError::Engine(error_chain(&error)))
}

/// The name of a key: a letter and its number, without taking memory.
#[derive(Debug)]
pub(crate) struct KeyName {
    bytes: [u8; 11],
    from: usize,
}

impl KeyName {
    pub(crate) fn from_key(mut key: u32) -> Self {
        let mut bytes = [b'k'; 11];
        let mut from = bytes.len();
        loop {
            from -= 1;
            bytes[from] = b'0' + (key % 10) as u8;
            key /= 10;
            if key == 0 {
                return Self { bytes, from: from - 1 };
            }
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[self.from..]).expect("letters and digits")
    }

    /// The key in whose name these bytes end, as those of a key of a store do; or end but for the
    /// operation on a table.
    pub(crate) fn read(bytes: &[u8]) -> u32 {
        let end = bytes.iter().rposition(u8::is_ascii_digit).map_or(0, |last| last + 1);
        let bytes = &bytes[..end];
        let digits = bytes.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        bytes[bytes.len() - digits..].iter().fold(0, |key, digit| key * 10 + u32::from(digit - b'0'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_key_is_read_back_from_the_end_of_longer_ones() {
        for key in [0, 7, 10, 999, u32::MAX - 1] {
            let name = KeyName::from_key(key);
            assert_eq!(name.as_str(), format!("k{key}"));
            assert_eq!(KeyName::read(format!("1\x05api\x08k{key}").as_bytes()), key);
            assert_eq!(KeyName::read(format!("1\x05api\x08k{key}\x05read").as_bytes()), key);
        }
    }
}
