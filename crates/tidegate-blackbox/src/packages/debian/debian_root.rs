//! A root with Debian 12 and systemd, and scripts in it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::attack::Failure;
use crate::packages::root::RootFolder;

/// The packages of the root beside the base.
const INCLUDED: [&str; 4] = ["systemd", "systemd-sysv", "dbus", "iproute2"];

/// The whole environment of every script.
pub(super) const ENVIRONMENT: [&str; 4] = [
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME=/root",
    "DEBIAN_FRONTEND=noninteractive",
    "LC_ALL=C.UTF-8",
];

/// The result of a command that was run.
#[derive(Debug)]
pub(super) struct ScriptOutput {
    pub(super) is_success: bool,
    /// Standard output, and standard error after it.
    pub(super) output: String,
}

/// Runs a command to its end, without input. A program that is not installed is the reason to skip.
pub(super) fn ran(command: &mut Command) -> Result<ScriptOutput, Failure> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| {
        let program = command.get_program().display();
        match error.kind() {
            io::ErrorKind::NotFound => Failure::Skipped(format!("{program} is not installed")),
            _ => Failure::Unfinished(format!("{program}: {error}")),
        }
    })?;
    let text = [output.stdout, output.stderr].concat();
    let is_success = output.status.success();
    Ok(ScriptOutput { is_success, output: String::from_utf8_lossy(&text).into_owned() })
}

/// A root that is gone when the value is dropped.
#[derive(Debug)]
pub(super) struct DebianRoot(RootFolder);

impl DebianRoot {
    pub(super) fn new() -> Result<Self, Failure> {
        RootFolder::debian_with(&INCLUDED).map(Self)
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Copies a file to its top, and returns the path that scripts in it use.
    pub(super) fn bring(&self, file: &Path) -> Result<PathBuf, Failure> {
        let name = file.file_name().unwrap_or_default();
        fs::copy(file, self.path().join(name))?;
        Ok(Path::new("/").join(name))
    }

    /// Runs a script in it.
    pub(super) fn sh(&self, script: &str) -> Result<ScriptOutput, Failure> {
        ran(self.chroot(&mut Command::new("chroot"), script))
    }

    /// Runs a script in it that has a loopback of its own and no other network.
    pub(super) fn sh_without_network(&self, script: &str) -> Result<ScriptOutput, Failure> {
        ran(self.chroot(Command::new("unshare").args(["--net", "--", "chroot"]), script))
    }

    fn chroot<'a>(&self, command: &'a mut Command, script: &str) -> &'a mut Command {
        command.arg(self.path()).args(["env", "-i"]).args(ENVIRONMENT).args(["sh", "-c", script])
    }
}
