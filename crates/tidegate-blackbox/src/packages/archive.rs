//! The archive in a root with Debian's base and nothing else.

use crate::attack::{Failure, RunContext};
use crate::findings::Findings;

pub(super) fn run(context: &RunContext, findings: &mut Findings) -> Result<(), Failure> {
    let archive = context.artifact(".tar.gz")?;
    findings.held("there is one archive", &archive.display().to_string());
    Ok(())
}
