//! The experiments, one file a question.

pub(super) mod calm;
pub(super) mod kills;
pub(super) mod neighbour;
pub(super) mod operator_acts;
pub(super) mod shares;
pub(super) mod ten_envoys;
