//! A namespace as it is configured.

use tidegate_core::Limit;

/// A namespace: an isolated set of limits.
#[derive(Clone, Debug)]
pub struct NamespaceConfig {
    /// Its name, 1 to [`NamespaceConfig::NAME_BYTES_MAX`] bytes.
    pub name: String,
    /// Its limits.
    pub limits: Vec<Limit>,
}

impl NamespaceConfig {
    /// The longest name in bytes.
    pub const NAME_BYTES_MAX: usize = 128;
}
