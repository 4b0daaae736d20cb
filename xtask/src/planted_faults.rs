//! The tests that plant a fault and expect other tests to find it, under
//! `--cfg tidegate_planted_faults`.

/// Part of the names of these tests, and of no other.
pub(crate) const FILTER: &str = "faults::";

/// Packages and the test binary that has their tests. The lease protocol of `tidegate-core` is
/// tested in the simulator too.
pub(crate) const PACKAGES: &[(&str, TestTarget)] = &[
    ("tidegate-core", TestTarget::Integration),
    ("tidegate-capacity", TestTarget::Unit),
    ("tidegate-capacity", TestTarget::Integration),
    ("tidegate-overload", TestTarget::Unit),
    ("tidegate-engine", TestTarget::Integration),
    ("tidegate-server", TestTarget::Integration),
    ("tidegate-sim", TestTarget::Integration),
];

/// A test binary of a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TestTarget {
    /// The tests in `src`.
    Unit,
    /// The tests in `tests/it`.
    Integration,
}

impl TestTarget {
    /// The kind of target that has these tests, as cargo names it.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Unit => "lib",
            Self::Integration => "test",
        }
    }

    /// Arguments of cargo that select this target.
    pub(crate) fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Unit => &["--lib"],
            Self::Integration => &["--test", "it"],
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// Whether a file below the folder mentions the cfg.
    fn mentions_cfg(folder: &Path) -> bool {
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).any(|path| {
            let is_source = path.extension().is_some_and(|extension| extension == "rs");
            mentions_cfg(&path)
                || is_source
                    && fs::read_to_string(path)
                        .is_ok_and(|text| text.contains("cfg(tidegate_planted_faults)"))
        })
    }

    #[test]
    fn every_crate_that_has_faults_is_tested_with_them() {
        let members = crate::workspace::members().unwrap();
        let mut having: Vec<_> = members
            .iter()
            .filter(|member| member.name != "xtask" && mentions_cfg(&member.folder))
            .map(|member| member.name.as_str())
            .collect();
        having.sort_unstable();
        let mut tested: Vec<_> = PACKAGES.iter().map(|(package, _)| *package).collect();
        tested.sort_unstable();
        // A crate with tests of both kinds is listed twice.
        tested.dedup();
        assert_eq!(having, tested);
    }
}
