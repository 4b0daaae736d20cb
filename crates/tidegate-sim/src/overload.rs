//! The overload world: services under more load than they can bear, every design beside the others.
//!
//! **Real parts.** Under the design `tidegate` a [`tidegate_engine::Engine`] decides: the same
//! lines that run in the daemon, driven as its driver does. Simulated are services, clients and
//! time. The other designs are baselines, which exist here only.
//!
//! **Comparable.** Every design gets the same operations at the same instants, and the same call
//! takes the same work. Only retries depend on what a design answered.
//!
//! **Reproducible.** All chance comes from the seed. The same scenario gives the same report, byte
//! for byte.
//!
//! **Checks.** A ledger of the world's own is compared with what the design says at each second
//! ([`OverloadRule`]).

pub mod client;
pub mod control;
pub mod design;
pub mod experiment;
pub mod ledger;
pub mod report;
pub mod run;
pub mod scenario;
pub mod service;
pub mod summary;
pub mod tally;
pub mod world;

mod acceptance;
mod arrivals;
mod design_world;
mod plane_settings;
mod rivals;
mod tidegate_control;
mod workers;

pub use client::{ClientSpec, LoadPhase, RetryRule};
pub use control::RefusalCause;
pub use design::OverloadDesign;
pub use experiment::OverloadExperiment;
pub use ledger::{OverloadRule, OverloadViolation, ServiceLedger};
pub use report::OverloadReport;
pub use run::{OverloadResult, OverloadRun, ServiceResult};
pub use scenario::{OverloadFault, OverloadScenario, OverloadScenarioError, TimedFault};
pub use service::{ServicePhase, ServiceSpec, ServiceTime};
pub use summary::{VariantClient, VariantDesign, VariantSummary};
pub use tally::{ClientResult, ClientStep, ServiceStep, TenantResult};
pub use world::{OverloadWorld, simulate};
