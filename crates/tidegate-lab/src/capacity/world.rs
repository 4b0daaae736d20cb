//! What worlds of the laboratory have beside those of `tidegate simulate`: routers with leases, an
//! operator, and clients that hold requests back.

mod operator;
mod routers;
mod script;
mod shaper;

pub(crate) use routers::routers;
pub(crate) use script::{ScriptedStep, StepKind, script_of};
pub(crate) use shaper::SHAPED;
