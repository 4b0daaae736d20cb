//! The Debian package: examined, installed in a root without a running systemd, and under systemd.
//!
//! - `booted_debian`: a root of Debian 12 with a running systemd
//! - `debian_root`: that root, and commands in it
//! - `quota_load`: callers that count the answers of a quota while its daemon is replaced
//! - `service`: the package installed, replaced and removed under a running systemd

mod booted_debian;
mod debian_root;
mod quota_load;
mod service;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tidegate_test_support::TemporaryFolder;

use self::debian_root::{DebianRoot, ScriptOutput, ran};
pub(super) use self::service::run as run_service;
use crate::attack::{AttackResult, Failure, RunContext, require};
use crate::findings::Findings;

/// The name of the package's file ends with this.
const PACKAGE: &str = "_amd64.deb";

/// Files that must be in the package, beside further man pages.
const FILES: [&str; 9] = [
    "usr/bin/tidegate",
    "usr/lib/systemd/system/tidegate.service",
    "etc/tidegate/tidegate.yaml",
    "usr/share/man/man1/tidegate.1.gz",
    "usr/share/bash-completion/completions/tidegate",
    "usr/share/zsh/vendor-completions/_tidegate",
    "usr/share/fish/vendor_completions.d/tidegate.fish",
    "usr/share/doc/tidegate/copyright",
    "usr/share/doc/tidegate/THIRD-PARTY-NOTICES",
];

/// The package by itself, and in a root where no systemd runs.
pub(super) fn run(context: &RunContext, findings: &mut Findings) -> Result<(), Failure> {
    let package = context.artifact(PACKAGE)?;
    let mebibytes = fs::metadata(&package)?.len() as f64 / f64::from(1 << 20);
    findings.shown("size of the package", mebibytes, "MiB", &package.display().to_string());
    findings.claimed("lintian finds no error", lintian(&package));
    findings.claimed("it has what the documents name, with its own paths", contents(&package));
    let root = DebianRoot::new()?;
    let inside = root.bring(&package)?;
    findings.claimed("systemd-analyze finds nothing in its unit", verified(&root, &inside));
    findings.claimed("apt installs it, and it answers and refuses", first_minute(&root));
    findings.claimed("remove keeps policy and state, purge keeps neither", removed(&root));
    Ok(())
}

fn lintian(package: &Path) -> AttackResult {
    let ran = ran(Command::new("lintian").args(["--tag-display-limit", "0"]).arg(package))?;
    let errors: Vec<&str> = ran.output.lines().filter(|line| line.starts_with("E:")).collect();
    require!(errors.is_empty() && ran.is_success, "{}", ran.output)?;
    let warnings = ran.output.lines().filter(|line| line.starts_with("W:")).count();
    Ok(format!("{warnings} warnings"))
}

fn contents(package: &Path) -> AttackResult {
    let folder = TemporaryFolder::new();
    let unpacked = ran(Command::new("dpkg-deb").arg("--raw-extract").arg(package).arg(folder.path()))?;
    require!(unpacked.is_success, "{}", unpacked.output)?;
    for file in FILES {
        let length = fs::metadata(folder.join(file)).map_or(0, |file| file.len());
        require!(length > 0, "{file} is not in the package, or empty")?;
    }
    let unit = fs::read_to_string(folder.join("usr/lib/systemd/system/tidegate.service"))?;
    require!(unit.contains("\nExecStart=/usr/bin/tidegate serve "), "the unit starts another file:\n{unit}")?;
    let conffiles = fs::read_to_string(folder.join("DEBIAN/conffiles"))?;
    require!(conffiles.trim() == "/etc/tidegate/tidegate.yaml", "conffiles: {conffiles}")?;
    let pages = fs::read_dir(folder.join("usr/share/man/man1"))?.count();
    Ok(format!("{} files and {pages} man pages", FILES.len()))
}

/// The unit, as the package has it, with the binary beside it.
fn verified(root: &DebianRoot, package: &Path) -> AttackResult {
    let ran = root.sh(&format!(
        "printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d && chmod +x /usr/sbin/policy-rc.d && \
         apt-get install -y {} && systemd-analyze verify /lib/systemd/system/tidegate.service > /verified 2>&1",
        package.display()
    ))?;
    let said = fs::read_to_string(root.path().join("verified")).unwrap_or_default();
    require!(ran.is_success && said.is_empty(), "{said}{}", ran.output)?;
    Ok("no output".to_owned())
}

/// Serves in a network of its own, so that no port of this machine matters.
const FIRST_MINUTE: &str = "
    ip link set lo up || exit 90
    tidegate validate /etc/tidegate/tidegate.yaml || exit 91
    tidegate serve --config /etc/tidegate/tidegate.yaml > /serve.log 2>&1 &
    daemon=$!
    until tidegate check api user=ada > /dev/null 2>&1; do kill -0 $daemon || exit 92; sleep 0.05; done
    for call in 1 2 3 4 5 6; do tidegate check api user=eve || exit 93; done
    sed -i '/mode: shadow/d' /etc/tidegate/tidegate.yaml
    kill -HUP $daemon
    until grep -q 'a new policy is in force' /serve.log; do kill -0 $daemon || exit 94; sleep 0.05; done
    tidegate check api user=eve
    kill -TERM $daemon
    wait $daemon || exit 95
";

fn first_minute(root: &DebianRoot) -> AttackResult {
    let ScriptOutput { is_success, output } = root.sh_without_network(FIRST_MINUTE)?;
    require!(is_success, "{output}")?;
    let refusal = output.lines().find(|line| line.starts_with("refused: "));
    let refusal = refusal.ok_or_else(|| Failure::GotThrough(output.clone()))?;
    require!(refusal.contains("per-user for user=eve") && refusal.contains("come back in"), "{refusal}")?;
    Ok(refusal.to_owned())
}

fn removed(root: &DebianRoot) -> AttackResult {
    let ran = root.sh("
        mkdir -p /var/lib/private/tidegate/store && ln -sfn private/tidegate /var/lib/tidegate
        apt-get remove -y tidegate < /dev/null || exit 90
        test -e /etc/tidegate/tidegate.yaml -a -d /var/lib/tidegate/store -a ! -e /usr/bin/tidegate || exit 91
        apt-get purge -y tidegate < /dev/null || exit 92
        for gone in /etc/tidegate /var/lib/tidegate /var/lib/private/tidegate; do
            if test -e $gone -o -L $gone; then echo $gone is there; exit 93; fi
        done
        find / -xdev -name '*tidegate*' -not -path '/proc/*' -not -name '*.deb' -not -path '/var/log/*' > /left
        test ! -s /left
    ")?;
    let left = fs::read_to_string(root.path().join("left")).unwrap_or_default();
    require!(ran.is_success, "{left}{}", ran.output)?;
    Ok("no file is left".to_owned())
}

/// The same files in a package of another version.
fn repackaged(package: &Path, version: &str, into: &Path) -> Result<PathBuf, Failure> {
    let folder = TemporaryFolder::new();
    let raw = folder.join("raw");
    let unpacked = ran(Command::new("dpkg-deb").arg("--raw-extract").arg(package).arg(&raw))?;
    require!(unpacked.is_success, "{}", unpacked.output)?;
    let control = raw.join("DEBIAN/control");
    let text = fs::read_to_string(&control)?;
    let lines = text.lines().map(|line| {
        if line.starts_with("Version: ") { format!("Version: {version}\n") } else { format!("{line}\n") }
    });
    fs::write(&control, lines.collect::<String>())?;
    let path = into.join(format!("tidegate_{version}_amd64.deb"));
    let mut dpkg = Command::new("dpkg-deb");
    let built = ran(dpkg.args(["--root-owner-group", "-Zgzip", "-z1", "--build"]).arg(&raw).arg(&path))?;
    require!(built.is_success, "{}", built.output)?;
    Ok(path)
}
