//! The image of containers.

use crate::attack::{Failure, RunContext};
use crate::findings::Findings;

pub(super) fn run(context: &RunContext, findings: &mut Findings) -> Result<(), Failure> {
    let image = context.artifact(".oci.tar")?;
    findings.held("there is one image", &image.display().to_string());
    Ok(())
}
