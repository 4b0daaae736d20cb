//! The overload world: services under more load than they can bear, every design beside the others.
//!
//! **Real parts.** Under the design `tidegate` a [`tidegate_engine::Engine`] decides: the same
//! lines that run in the daemon, driven as its driver does. Simulated are services, clients and
//! time. A laboratory gives other designs as an [`OverloadDesign`] with an [`AdmissionControl`].
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
pub mod controlled_services;
pub mod design;
pub mod feature_spec;
pub mod feature_tally;
pub mod ledger;
pub mod report;
pub mod run;
pub mod scenario;
pub mod scenario_error;
pub mod service;
pub mod service_file;
pub mod summary;
pub mod tally;
pub mod world;

mod arrivals;
mod concurrency_form;
mod design_world;
mod plane_settings;
mod tidegate_control;
mod workers;

pub use client::{ArrivalPattern, ClientSpec, LoadPhase, RetryPrecision, RetryRule};
pub use control::{
    AdmissionControl, ArrivedRequest, ControlView, FeatureControlView, FeatureMove, JobEnd, JobId,
    RefusalCause, Verdict,
};
pub use controlled_services::ControlledServices;
pub use design::OverloadDesign;
pub use feature_spec::FeatureSpec;
pub use feature_tally::{FeatureResult, FeatureStep, FeatureTransition};
pub use ledger::{OverloadRule, OverloadViolation, ServiceLedger};
pub use report::OverloadReport;
pub use run::{OverloadResult, OverloadRun, ServiceResult};
pub use scenario::{OverloadFault, OverloadScenario, TimedFault};
pub use scenario_error::OverloadScenarioError;
pub use service::{ServicePhase, ServiceSpec, ServiceTime};
pub use service_file::{ServiceFile, UnknownServiceError};
pub use summary::{VariantClient, VariantDesign, VariantFeature, VariantSummary};
pub use tally::{ClientResult, ClientStep, OperationReturn, ServiceStep, TenantResult};
pub use world::{OverloadWorld, simulate};
