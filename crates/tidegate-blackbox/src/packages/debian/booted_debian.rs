//! A root of Debian with a running systemd, in a container of `systemd-nspawn`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tidegate_test_support::{ChildProcess, holds_within};

use super::debian_root::{DebianRoot, ENVIRONMENT, ScriptOutput, ran};
use crate::attack::{Failure, require};

/// How long systemd may take to boot.
const BOOT_MAX: Duration = Duration::from_mins(1);

/// How long it may take to end.
const END_MAX: Duration = Duration::from_secs(30);

/// A container that is ended, by its id, when the value is dropped.
#[derive(Debug)]
pub(super) struct BootedDebian {
    process: ChildProcess,
    /// Its first process, as this machine numbers it.
    init: u32,
    root: DebianRoot,
}

impl BootedDebian {
    /// Boots Debian, with a network of its own that has loopback alone.
    pub(super) fn boot() -> Result<Self, Failure> {
        // Before a root is made in vain.
        ran(Command::new("systemd-nspawn").arg("--version"))?;
        ran(Command::new("nsenter").arg("--version"))?;
        let root = DebianRoot::new()?;
        let mut nspawn = Command::new("systemd-nspawn");
        nspawn.args([
            "--quiet",
            "--boot",
            "--register=no",
            "--keep-unit",
            "--private-network",
            "--console=pipe",
        ]);
        nspawn.arg("--directory").arg(root.path());
        let process =
            ChildProcess::spawn(nspawn.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()))?;
        let mut this = Self { process, init: 0, root };
        let is_up = holds_within(BOOT_MAX, || {
            this.init = first_child(this.process.id()).unwrap_or(0);
            this.init != 0 && this.sh("systemctl is-active multi-user.target").is_ok_and(|ran| ran.is_success)
        });
        if is_up {
            Ok(this)
        } else {
            Err(Failure::Skipped("systemd does not boot in a container here".to_owned()))
        }
    }

    /// Runs a script in it.
    pub(super) fn sh(&self, script: &str) -> Result<ScriptOutput, Failure> {
        let init = self.init.to_string();
        let mut enter = Command::new("nsenter");
        enter.args(["--target", &init, "--mount", "--uts", "--ipc", "--net", "--pid", "--", "env", "-i"]);
        ran(enter.args(ENVIRONMENT).args(["sh", "-c", script]))
    }

    /// The output of a script that must succeed.
    pub(super) fn output(&self, script: &str) -> Result<String, Failure> {
        let ScriptOutput { is_success, output } = self.sh(script)?;
        require!(is_success, "{}: {output}", script.trim())?;
        Ok(output)
    }

    /// Copies a file to its top, and returns the path that commands in it use.
    pub(super) fn bring(&self, file: &Path) -> Result<PathBuf, Failure> {
        self.root.bring(file)
    }

    /// A path in it as this machine reaches it, also below what only the container has mounted.
    pub(super) fn outside(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.init))
    }
}

impl Drop for BootedDebian {
    fn drop(&mut self) {
        // systemd-nspawn has systemd power off.
        self.process.signal("TERM");
        holds_within(END_MAX, || !self.process.is_running());
    }
}

fn first_child(process: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}
