//! Programs that the gate needs beyond Rust, a C compiler and this checkout, and how they are
//! installed.
//!
//! Each of them may be missing and the gate still runs: a program that cannot be installed is named
//! together with the command that installs it, and tests that depend on it count as skipped.

mod fetched;
mod program;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::cargo::{cargo, forget_variables_of_a_build, output_of, succeeds, target_directory};
use crate::checkout;

pub(crate) use program::{end_within, find};

use program::quiet;

/// A program that the gate starts, most of them for end-to-end tests of the daemon, in a package of
/// Debian's.
#[derive(Clone, Copy)]
struct Packaged {
    program: &'static str,
    package: &'static str,
    /// The service that the package would have the system run from now on. The tests start the
    /// program themselves.
    service: Option<&'static str>,
}

const PACKAGED: &[Packaged] = &[
    Packaged { program: "curl", package: "curl", service: None },
    Packaged { program: "wrk", package: "wrk", service: None },
    Packaged { program: "nginx", package: "nginx-light", service: Some("nginx") },
    Packaged { program: "caddy", package: "caddy", service: Some("caddy") },
    Packaged { program: "haproxy", package: "haproxy", service: Some("haproxy") },
    Packaged { program: "redis-server", package: "redis-server", service: Some("redis-server") },
    Packaged { program: "redis-cli", package: "redis-tools", service: None },
    Packaged { program: "python3", package: "python3-venv", service: None },
    Packaged { program: "node", package: "nodejs", service: None },
    Packaged { program: "npm", package: "npm", service: None },
    Packaged { program: "valgrind", package: "valgrind", service: None },
];

/// Run as root around `apt-get`: packages that bring a service start it unless this file says that
/// nothing may be started. An existing file belongs to the system and stays as it is.
const WITHOUT_STARTING: &str = "\
file=/usr/sbin/policy-rc.d
if [ ! -e $file ]; then
  trap 'rm -f $file' EXIT
  printf '#!/bin/sh\\nexit 101\\n' >$file && chmod 755 $file
fi
\"$@\"";

/// Parts of the toolchain that a minimal installation leaves out: the program, and the component it
/// comes in.
const COMPONENTS: &[(&str, &str)] = &[("cargo-fmt", "rustfmt"), ("cargo-clippy", "clippy")];

/// The version of cargo-deny to install if it is missing. Any installed version is used.
const CARGO_DENY_VERSION: &str = "0.20.2";

/// How long the installation of another Rust may take; after this it is given up.
const RUST_DEADLINE: Duration = Duration::from_mins(5);

/// The version of cargo-deb to install if it is missing.
const CARGO_DEB_VERSION: &str = "3.8.0";

/// The version of cargo-cyclonedx to install if it is missing.
const CARGO_CYCLONEDX_VERSION: &str = "0.5.9";

/// How long the installation of one of them may take. Measured at 3.5 minutes on two cores; after
/// this it is given up.
const CARGO_PLUGIN_DEADLINE: Duration = Duration::from_mins(20);

/// How long the database of advisories may take to fetch: a few megabytes.
const ADVISORY_DATABASE_DEADLINE: Duration = Duration::from_mins(2);

/// Installs whatever is missing and can be; returns one line for each thing that is still missing.
pub(crate) fn set_up() -> Vec<String> {
    let mut missing = missing_components();
    missing.extend(missing_programs());
    missing.extend(fetched::missing());
    missing
}

fn missing_components() -> Vec<String> {
    let absent = || COMPONENTS.iter().filter(|(program, _)| find(program).is_none());
    if absent().next().is_some() && find("rustup").is_some() {
        let components: Vec<&str> = absent().map(|(_, component)| *component).collect();
        println!("missing: {}; installing with rustup", components.join(", "));
        succeeds(quiet("rustup").args(["component", "add"]).args(&components));
    }
    absent()
        .map(|(_, component)| format!("{component} is not installed; run `rustup component add {component}`"))
        .collect()
}

fn missing_programs() -> Vec<String> {
    let absent = || PACKAGED.iter().copied().filter(|packaged| !packaged.is_there());
    let wanted: Vec<Packaged> = absent().collect();
    if wanted.is_empty() {
        return Vec::new();
    }
    let packages: Vec<&str> = wanted.iter().map(|packaged| packaged.package).collect();
    println!("missing: {}", packages.join(", "));
    let by_hand = format!("apt-get install {}", packages.join(" "));
    if find("apt-get").is_some() {
        match root_command() {
            Some(root) => {
                println!("installing: {by_hand}");
                install(&root, &packages);
                // One package that this system does not know keeps all the others away.
                for packaged in absent() {
                    succeeds(&mut apt_get(&root, INSTALL, &[packaged.package]));
                }
                disable(&root, wanted.iter().filter(|packaged| packaged.is_there()));
            }
            None => println!("cannot install it without root or passwordless sudo"),
        }
    }
    absent()
        .map(|Packaged { program, package, .. }| {
            format!("{program} is not installed; as root, run `apt-get install {package}`")
        })
        .collect()
}

impl Packaged {
    fn is_there(&self) -> bool {
        // Debian's Python comes without the part that makes folders of its own for what is
        // installed.
        let complete = |python| succeeds(quiet(python).args(["-c", "import venv, ensurepip"]));
        find(self.program).is_some() && (self.program != "python3" || complete(self.program))
    }
}

const INSTALL: &[&str] = &["install", "--yes", "--no-install-recommends"];

fn install(root: &[&str], packages: &[&str]) {
    // A machine whose package lists were removed knows no package at all until they are fetched.
    if !succeeds(&mut apt_get(root, INSTALL, packages)) {
        succeeds(&mut apt_get(root, &["update"], &[]));
        succeeds(&mut apt_get(root, INSTALL, packages));
    }
}

/// Has the services of packages that were just installed stay off after the next start of the
/// machine, too.
fn disable<'a>(root: &[&str], installed: impl Iterator<Item = &'a Packaged>) {
    let services: Vec<&str> = installed.filter_map(|packaged| packaged.service).collect();
    if services.is_empty() || find("systemctl").is_none() {
        return;
    }
    let mut words = root.iter().chain(&["systemctl", "disable"]).chain(&services);
    let mut command = quiet(words.next().expect("the chain above has words of its own"));
    succeeds(command.args(words));
}

/// The words before a command that must run as root; none when we are root already, `None` when we
/// cannot be.
fn root_command() -> Option<Vec<&'static str>> {
    let id = quiet("id").arg("-u").stderr(Stdio::null()).output().ok()?;
    if id.stdout.trim_ascii() == b"0" {
        return Some(Vec::new());
    }
    let may_sudo = quiet("sudo").args(["-n", "true"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    may_sudo.is_ok_and(|status| status.success()).then(|| vec!["sudo", "-n"])
}

fn apt_get(root: &[&str], arguments: &[&str], packages: &[&str]) -> Command {
    // Without a network, and beside another installation, this must end rather than wait.
    let bounded = ["Acquire::Retries=1", "Acquire::http::Timeout=30", "DPkg::Lock::Timeout=120"];
    let shell = ["sh", "-c", WITHOUT_STARTING, "sh"];
    let words = root.iter().chain(&shell);
    let words = words.chain(&["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q"]).chain(arguments);
    let mut words = words.chain(packages);
    let mut command = quiet(words.next().expect("the chain above has words of its own"));
    command.args(words);
    for option in bounded {
        command.args(["-o", option]);
    }
    command
}

/// The path of valgrind.
pub(crate) fn valgrind() -> Result<PathBuf, String> {
    let missing = "valgrind is not installed; as root, run `apt-get install valgrind`";
    find("valgrind").ok_or_else(|| missing.to_owned())
}

/// Fetches the database of advisories, which `cargo deny` keeps in the home directory of cargo.
pub(crate) fn advisory_database() -> Result<(), String> {
    let by_hand = "cargo deny fetch db";
    let mut fetch = cargo(&["deny", "fetch", "db"]);
    let mut child = fetch.spawn().map_err(|error| format!("cargo could not be started: {error}"))?;
    let status = end_within(ADVISORY_DATABASE_DEADLINE, &mut child).map_err(|error| {
        format!("the database of advisories could not be fetched: {error}; run `{by_hand}`")
    })?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("the database of advisories could not be fetched; run `{by_hand}`"))
    }
}

/// The `rustc --version` that runs where no other version is asked for; empty without one.
pub(crate) fn running_rust() -> String {
    output_of(Command::new("rustc").arg("--version")).unwrap_or_default()
}

/// Whether this is the version of Rust that runs where no other version is asked for.
pub(crate) fn is_running_rust(version: &str) -> bool {
    running_rust().starts_with(&format!("rustc {version}."))
}

/// The cargo of this version of Rust: the one that runs this program, or that of rustup, which
/// installs the version first where it is missing.
pub(crate) fn cargo_of(version: &str) -> Result<Command, String> {
    if is_running_rust(version) {
        return Ok(cargo(&[]));
    }
    rust(version)?;
    let mut command = Command::new("rustup");
    command.args(["run", version, "cargo"]).current_dir(checkout::root()).stdin(Stdio::null());
    forget_variables_of_a_build(&mut command);
    Ok(command)
}

/// Whether this version of Rust can be run by rustup, installing it first where it is not.
fn rust(version: &str) -> Result<(), String> {
    let runs = || {
        let mut run = Command::new("rustup");
        run.args(["run", version, "rustc", "--version"]);
        run.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        run.status().is_ok_and(|status| status.success())
    };
    if runs() {
        return Ok(());
    }
    let by_hand = format!("rustup toolchain install {version} --profile minimal");
    println!("missing: Rust {version}; installing: {by_hand}");
    let mut install = Command::new("rustup");
    install.args(["toolchain", "install", version, "--profile", "minimal"]).stdin(Stdio::null());
    let missing = |why: String| format!("Rust {version} could not be installed: {why}; run `{by_hand}`");
    let mut child = install.spawn().map_err(|error| missing(error.to_string()))?;
    let status = end_within(RUST_DEADLINE, &mut child).map_err(missing)?;
    if status.success() && runs() { Ok(()) } else { Err(missing("rustup failed".to_owned())) }
}

/// Whether `cargo deny` can be run, installing it first where it is not.
pub(crate) fn cargo_deny() -> Result<(), String> {
    cargo_plugin("cargo-deny", CARGO_DENY_VERSION)
}

/// Whether `cargo deb` can be run, which makes the Debian package, installing it first where it is
/// not.
pub(crate) fn cargo_deb() -> Result<(), String> {
    cargo_plugin("cargo-deb", CARGO_DEB_VERSION)
}

/// Whether `cargo cyclonedx` can be run, which lists the crates in a binary, installing it first
/// where it is not.
pub(crate) fn cargo_cyclonedx() -> Result<(), String> {
    cargo_plugin("cargo-cyclonedx", CARGO_CYCLONEDX_VERSION)
}

/// The folder with `cargo-zigbuild` and a Python that has the C compiler of Zig, which compiles for
/// other architectures, fetching both first where they are not there.
pub(crate) fn zigbuild() -> Result<PathBuf, String> {
    fetched::zigbuild()
}

/// Whether this program of cargo's can be run, installing it first where it is not. Any installed
/// version is used.
fn cargo_plugin(name: &str, version: &str) -> Result<(), String> {
    if find(name).is_some() {
        return Ok(());
    }
    let by_hand = format!("cargo install --locked {name} --version {version}");
    println!("missing: {name}; installing: {by_hand}");
    let mut install = cargo(&["install", "--locked", name, "--version", version]);
    // Unoptimised it is built in half the time, and is quick enough for one workspace.
    install.arg("--debug");
    // A folder of its own, since the program is not part of the workspace; kept, so that an
    // interrupted build continues.
    install.env("CARGO_TARGET_DIR", target_directory().join(name));
    let mut child = install.spawn().map_err(|error| format!("cargo could not be started: {error}"))?;
    let status = end_within(CARGO_PLUGIN_DEADLINE, &mut child)
        .map_err(|error| format!("{name} could not be installed: {error}; run `{by_hand}`"))?;
    if status.success() && find(name).is_some() {
        Ok(())
    } else {
        Err(format!("{name} could not be installed; run `{by_hand}`"))
    }
}
