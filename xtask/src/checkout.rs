//! The folder of the checkout.

use std::path::Path;

/// The folder that holds the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the workspace")
}
