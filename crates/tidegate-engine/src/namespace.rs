//! A namespace as it is configured.

use tidegate_core::Limit;

/// A namespace: an isolated set of limits.
///
/// ```
/// # use tidegate_core::Limit;
/// # use tidegate_engine::NamespaceConfig;
/// let api = NamespaceConfig::new("api", [Limit::rate("per-user", "100/s")?.key(["user"])]);
/// assert_eq!((api.name.as_str(), api.limits.len()), ("api", 1));
/// # Ok::<(), tidegate_core::GateError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NamespaceConfig {
    /// Its name, 1 to [`NamespaceConfig::NAME_BYTES_MAX`] bytes.
    pub name: String,
    /// Its limits.
    pub limits: Vec<Limit>,
}

impl NamespaceConfig {
    /// The longest name in bytes.
    pub const NAME_BYTES_MAX: usize = 128;

    /// A namespace of this name with these limits; without limits it admits everything. The engine
    /// that is built of it checks both.
    pub fn new(name: impl Into<String>, limits: impl IntoIterator<Item = Limit>) -> Self {
        Self { name: name.into(), limits: limits.into_iter().collect() }
    }
}
