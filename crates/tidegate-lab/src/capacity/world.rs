//! Parts of worlds that `tidegate simulate` does not have: routers with leases, an operator, and
//! clients that hold requests back.

mod operator;
mod routers;
mod script;
mod shaper;

pub(crate) use operator::script_of;
pub(crate) use routers::routers;
pub(crate) use script::{ScriptedStep, StepKind};
pub(crate) use shaper::SHAPED;
