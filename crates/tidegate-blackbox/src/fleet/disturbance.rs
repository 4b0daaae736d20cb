//! Faults of stores and members while a fleet is under load, step by step.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;
use tidegate_test_support::{holds_within, until};

use super::testbed::{DaemonFleet, StoreNodes, is_ready};
use crate::attack::Failure;
use crate::daemon::START_MAX;

/// How often a member that starts is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// One thing that goes wrong, or right again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FaultStep {
    KillStore,
    StartStore,
    PauseStore,
    ResumeStore,
    WipeStore,
    /// Nothing passes between the first member and the store.
    CutOff,
    Reconnect,
    /// Kills the primary that has the counter of the load.
    KillPrimary,
    /// Waits until a replica has taken the primary's place.
    AwaitReplica,
    KillMember,
    /// Starts a member, to which requests are sent once it is ready.
    StartMember,
}

impl FaultStep {
    /// Whether it counts when it is done; the others count when they begin.
    fn ends_something(self) -> bool {
        matches!(self, Self::StartStore | Self::ResumeStore | Self::Reconnect | Self::AwaitReplica)
    }
}

/// The steps that were carried out, and what was seen of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Disturbance {
    /// Steps with the seconds from the start of the run at which they count.
    pub(super) steps: Vec<(FaultStep, f64)>,
    /// How long after its start the new member was ready.
    pub(super) ready_after: Option<f64>,
    /// Units a second and units that members held when they were killed, by their own word.
    pub(super) held: Vec<(f64, u64)>,
}

impl Disturbance {
    /// Carries out steps at their seconds from `begun`, beside the load. `announce` gets the
    /// address of a member that was started, once it is ready.
    pub(super) fn carry_out(
        steps: &[(f64, FaultStep)],
        fleet: &mut DaemonFleet<'_>,
        begun: Instant,
        announce: impl Fn(SocketAddr),
    ) -> Result<Self, Failure> {
        let mut done = Self::default();
        let mut starting = None;
        let now = || begun.elapsed().as_secs_f64();
        let look = |starting: &mut Option<(SocketAddr, f64)>, ready_after: &mut Option<f64>| {
            if let Some((address, since)) = *starting
                && is_ready(address)
            {
                *ready_after = Some(now() - since);
                announce(address);
                *starting = None;
            }
        };
        for &(at, step) in steps {
            while now() < at {
                look(&mut starting, &mut done.ready_after);
                thread::sleep(LOOK.min(Duration::from_secs_f64((at - now()).max(0.0))));
            }
            let before = now();
            match step {
                FaultStep::KillMember => done.held.extend(held(&fleet.kill_member()?)),
                FaultStep::StartMember => starting = Some((fleet.start_member()?, before)),
                _ => disturb_store(step, fleet.store.as_mut().expect("such runs have a store"))?,
            }
            done.steps.push((step, if step.ends_something() { now() } else { before }));
        }
        holds_within(START_MAX, || {
            look(&mut starting, &mut done.ready_after);
            starting.is_none()
        });
        Ok(done)
    }

    /// When the first of these steps counts.
    pub(super) fn instant(&self, steps: &[FaultStep]) -> Option<f64> {
        self.steps.iter().find(|(step, _)| steps.contains(step)).map(|(_, at)| *at)
    }
}

/// Units a second and tokens that a member held, by its page of leases.
fn held(page: &Value) -> Option<(f64, u64)> {
    let own = page["members"].as_array()?.iter().find(|one| one["id"] == page["member"])?;
    let rates = own["leases"].as_array()?.iter().filter_map(|lease| lease["rate_per_s"].as_f64());
    Some((rates.sum(), own["tokens"].as_u64()?))
}

fn disturb_store(step: FaultStep, store: &mut StoreNodes) -> Result<(), Failure> {
    match step {
        FaultStep::KillStore => store.nodes[0].kill(),
        FaultStep::StartStore => store.start_again(0),
        FaultStep::PauseStore => store.nodes[0].signal("STOP"),
        FaultStep::ResumeStore => store.nodes[0].signal("CONT"),
        FaultStep::WipeStore => store.ask(0, &["FLUSHALL"])?,
        FaultStep::CutOff => store.set_cut_off(true),
        FaultStep::Reconnect => store.set_cut_off(false),
        FaultStep::KillPrimary => {
            let holds = |node: &usize| {
                let keys = store.ask::<Vec<Vec<u8>>>(*node, &["KEYS", "*ada*"]);
                keys.is_ok_and(|keys| !keys.is_empty())
            };
            let primary = (0..3).find(holds).expect("a primary has the counter of the load");
            store.nodes[primary].kill();
        }
        FaultStep::AwaitReplica => until("a replica takes over", || {
            store.nodes_that_say(&["INFO", "replication"], "role:master").any(|node| node >= 3)
        }),
        FaultStep::KillMember | FaultStep::StartMember => {}
    }
    Ok(())
}
