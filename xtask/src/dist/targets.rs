//! The targets of what is given away, and which of them can be built on this machine.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::cargo::output_of;
use crate::prerequisites;

/// How long the standard library of a target may take to fetch: 30 MB.
const STANDARD_LIBRARY_DEADLINE: Duration = Duration::from_mins(5);

/// A target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReleaseTarget {
    /// Its name, as rustc knows it.
    pub(super) triple: &'static str,
    /// Its architecture as Debian and Docker call it.
    pub(super) architecture: &'static str,
    pub(super) libc: Libc,
}

/// The C library of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Libc {
    /// That of the distribution, which is no older than this.
    Glibc { oldest: GlibcVersion },
    /// Linked in: the binary is one static file.
    Musl,
}

/// A version of glibc.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GlibcVersion {
    pub(super) major: u32,
    pub(super) minor: u32,
}

/// All targets, in the order in which they are built.
pub(super) const TARGETS: [ReleaseTarget; 3] = [
    ReleaseTarget {
        triple: "x86_64-unknown-linux-gnu",
        architecture: "amd64",
        // Debian 12.
        libc: Libc::Glibc { oldest: GlibcVersion { major: 2, minor: 36 } },
    },
    ReleaseTarget { triple: "x86_64-unknown-linux-musl", architecture: "amd64", libc: Libc::Musl },
    ReleaseTarget { triple: "aarch64-unknown-linux-musl", architecture: "arm64", libc: Libc::Musl },
];

/// How a binary is compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Toolchain {
    /// `cargo build`: the C compiler of the machine serves.
    Cargo,
    /// `cargo zigbuild`, for another architecture. The folder has the program and its Python.
    Zigbuild { folder: PathBuf },
}

impl ReleaseTarget {
    /// The target of this name; the error lists all.
    pub(super) fn named(name: &str) -> Result<Self, String> {
        TARGETS.into_iter().find(|target| target.triple == name).ok_or_else(|| {
            let known: Vec<&str> = TARGETS.iter().map(|target| target.triple).collect();
            format!("target {name:?} is unknown; use one of: {}", known.join(", "))
        })
    }

    /// Whether a binary of this target runs on this machine.
    pub(super) fn runs_here(self) -> bool {
        std::env::consts::OS == "linux" && self.triple.starts_with(std::env::consts::ARCH)
    }

    /// The target with glibc whose binaries run on this machine.
    pub(super) fn with_glibc_here() -> Option<Self> {
        TARGETS.into_iter().find(|target| matches!(target.libc, Libc::Glibc { .. }) && target.runs_here())
    }

    /// The tools that compile it, installed first where they can be; the reason why not.
    pub(super) fn toolchain(self) -> Result<Toolchain, String> {
        self.standard_library()?;
        match self.libc {
            Libc::Glibc { .. } if self.runs_here() => Ok(Toolchain::Cargo),
            Libc::Glibc { .. } => Err(format!(
                "{}: this machine is {}, and no glibc of another architecture is used; run it there",
                self.triple,
                std::env::consts::ARCH
            )),
            Libc::Musl if self.runs_here() && prerequisites::find("musl-gcc").is_some() => {
                Ok(Toolchain::Cargo)
            }
            Libc::Musl if self.runs_here() => prerequisites::zigbuild().map_or_else(
                |why| {
                    let install = "as root, run `apt-get install musl-tools`";
                    Err(format!("{}: musl-gcc is not installed; {install}; {why}", self.triple))
                },
                |folder| Ok(Toolchain::Zigbuild { folder }),
            ),
            Libc::Musl => prerequisites::zigbuild()
                .map(|folder| Toolchain::Zigbuild { folder })
                .map_err(|why| format!("{}: a C compiler for it is missing: {why}", self.triple)),
        }
    }

    /// Fetches the standard library where it is missing.
    fn standard_library(self) -> Result<(), String> {
        if self.has_standard_library() {
            return Ok(());
        }
        let by_hand = format!("rustup target add {}", self.triple);
        let missing = |why: &str| {
            format!("{}: its standard library cannot be had: {why}; run `{by_hand}`", self.triple)
        };
        if prerequisites::find("rustup").is_none() {
            return Err(missing("rustup is not installed"));
        }
        println!("missing: the standard library of {}; installing: {by_hand}", self.triple);
        let mut add = Command::new("rustup");
        add.args(["target", "add", self.triple]).stdin(Stdio::null());
        let mut child = add.spawn().map_err(|error| missing(&error.to_string()))?;
        let status =
            prerequisites::end_within(STANDARD_LIBRARY_DEADLINE, &mut child).map_err(|why| missing(&why))?;
        if status.success() && self.has_standard_library() { Ok(()) } else { Err(missing("rustup failed")) }
    }

    fn has_standard_library(self) -> bool {
        let folder =
            output_of(Command::new("rustc").args(["--print", "target-libdir", "--target", self.triple]));
        let Ok(entries) =
            folder.and_then(|folder| std::fs::read_dir(folder.trim()).map_err(|error| error.to_string()))
        else {
            return false;
        };
        entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with("libstd-"))
    }

    /// The highest version of glibc that a symbol of the binary needs; nothing for a static one.
    pub(super) fn check_glibc(self, binary: &[u8]) -> Result<Option<GlibcVersion>, String> {
        let needed = GlibcVersion::needed_by(binary);
        match (self.libc, needed) {
            (Libc::Glibc { oldest }, Some(needed)) if needed > oldest => Err(format!(
                "{}: the binary needs glibc {needed}, and {oldest} is promised; build it on Debian 12",
                self.triple
            )),
            (_, needed) => Ok(needed),
        }
    }
}

impl GlibcVersion {
    /// The highest version among the names `GLIBC_2.34` of a binary.
    fn needed_by(binary: &[u8]) -> Option<Self> {
        const MARK: &[u8] = b"GLIBC_";
        let starts = binary.windows(MARK.len()).enumerate().filter(|(_, window)| *window == MARK);
        let versions = starts.filter_map(|(start, _)| {
            let rest = &binary[start + MARK.len()..];
            let length = rest.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
            let (major, rest) = str::from_utf8(&rest[..length]).ok()?.split_once('.')?;
            let minor = rest.split('.').next()?;
            Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()? })
        });
        versions.max()
    }
}

impl std::fmt::Display for GlibcVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_target_is_told_which_there_are() {
        let error = ReleaseTarget::named("x86_64-pc-windows-msvc").unwrap_err();
        for ReleaseTarget { triple, .. } in TARGETS {
            assert!(error.contains(triple), "{error}");
            assert_eq!(ReleaseTarget::named(triple).unwrap().triple, triple);
        }
    }

    #[test]
    fn the_highest_glibc_that_a_symbol_needs_is_compared_with_the_promise() {
        let [debian, musl, _] = TARGETS;
        let at = |minor| Some(GlibcVersion { major: 2, minor });
        let binary = b"\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.9\0GLIBC_PRIVATE\0";
        assert_eq!(debian.check_glibc(binary), Ok(at(34)));
        assert_eq!(debian.check_glibc(b"\0GLIBC_2.36\0"), Ok(at(36)));
        let error = debian.check_glibc(b"\0GLIBC_2.39\0").unwrap_err();
        assert!(error.contains("needs glibc 2.39, and 2.36 is promised"), "{error}");
        assert_eq!(musl.check_glibc(b"static"), Ok(None));
    }
}
