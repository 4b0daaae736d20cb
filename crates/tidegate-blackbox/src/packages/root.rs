//! Folders that processes see as the root of the file system.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tidegate_test_support::{TemporaryFolder, fetched_folder, find_program};

use crate::attack::Failure;

/// The release of Debian whose base is the root.
const DEBIAN: &str = "bookworm";

/// The file that says that the base is complete.
const STAMP: &str = "installed";

/// A folder as the root of processes, removed when it is dropped.
#[derive(Debug)]
pub(crate) struct RootFolder {
    // Its content may have several owners, which only root can make and remove.
    folder: TemporaryFolder,
}

impl RootFolder {
    /// A root with nothing in it.
    pub(crate) fn empty() -> Result<Self, Failure> {
        needs(&["chroot"])?;
        is_root()?;
        Ok(Self { folder: TemporaryFolder::new() })
    }

    /// A root with Debian's base and nothing else, by debootstrap. The base is fetched once and
    /// kept in the user's cache.
    pub(crate) fn debian() -> Result<Self, Failure> {
        Self::debian_with(&[])
    }

    /// A root with Debian's base and these packages, kept beside it.
    pub(crate) fn debian_with(packages: &[&str]) -> Result<Self, Failure> {
        let root = Self::empty()?;
        let base = debian_base(packages)?;
        let mut copy = Command::new("cp");
        copy.args(["--archive", "--reflink=auto"]).arg(base.join("root/.")).arg(root.path());
        succeed(&mut copy)?;
        Ok(root)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The place of a path of the root.
    pub(crate) fn join(&self, path: &str) -> PathBuf {
        self.path().join(path.trim_start_matches('/'))
    }

    /// A command in the root, without input, in its folder `/`.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("chroot");
        command.arg(self.path()).arg(program).stdin(Stdio::null());
        clean(&mut command);
        command
    }

    /// Runs a script of the shell in the root; its output if it succeeds.
    pub(crate) fn shell(&self, script: &str) -> Result<String, Failure> {
        let mut command = self.command("/bin/sh");
        text(command.args(["-e", "-c", script]))
    }
}

/// Keeps from a process what only this machine has.
pub(crate) fn clean(command: &mut Command) {
    command.env_clear().env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    command.env("NO_COLOR", "1").env("LC_ALL", "C.UTF-8");
}

/// The folder of Debian's base with these packages, fetched if it is not there.
fn debian_base(packages: &[&str]) -> Result<PathBuf, Failure> {
    let set = [&["debian", DEBIAN][..], packages].concat().join("-");
    let base =
        fetched_folder(&set).ok_or_else(|| Failure::Skipped("set HOME or XDG_CACHE_HOME".to_owned()))?;
    if base.join(STAMP).is_file() {
        return Ok(base);
    }
    needs(&["debootstrap"])?;
    // An interrupted run has left a part of it.
    let _ = fs::remove_dir_all(&base);
    fs::create_dir_all(&base)?;
    let mut debootstrap = Command::new("debootstrap");
    debootstrap.arg("--variant=minbase");
    if !packages.is_empty() {
        debootstrap.arg(format!("--include={}", packages.join(",")));
    }
    debootstrap.arg(DEBIAN).arg(base.join("root"));
    succeed(&mut debootstrap).map_err(|failure| {
        Failure::Skipped(format!("debootstrap cannot fetch the base of Debian: {failure}"))
    })?;
    fs::write(base.join(STAMP), DEBIAN)?;
    Ok(base)
}

/// Skips a part unless this machine has all of these programs.
pub(crate) fn needs(programs: &[&str]) -> Result<(), Failure> {
    match programs.iter().find(|program| find_program(program).is_none()) {
        Some(missing) => Err(Failure::Skipped(format!(
            "{missing} is not installed; as root, run `apt-get install {missing}`"
        ))),
        None => Ok(()),
    }
}

/// Skips a part unless it runs as root.
fn is_root() -> Result<(), Failure> {
    let id = text(Command::new("id").arg("-u"))?;
    if id.trim() == "0" {
        Ok(())
    } else {
        Err(Failure::Skipped("a root of its own takes root; run the suite as root".to_owned()))
    }
}

/// Runs a command; the error has what it printed.
pub(crate) fn succeed(command: &mut Command) -> Result<Output, Failure> {
    let name = format!("{} {:?}", command.get_program().display(), command.get_args().collect::<Vec<_>>());
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Failure::Unfinished(format!("{name} cannot be started: {error}")))?;
    if output.status.success() {
        Ok(output)
    } else {
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        Err(Failure::GotThrough(format!("{name}: {}: {} {}", output.status, out.trim(), err.trim())))
    }
}

/// The standard output of a command that succeeds.
pub(crate) fn text(command: &mut Command) -> Result<String, Failure> {
    succeed(command).map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The files below a folder with their sizes, in the order of their paths.
pub(super) fn files_of(folder: &Path) -> Result<Vec<(String, u64)>, Failure> {
    let mut found = Vec::new();
    list(folder, folder, &mut found)?;
    Ok(found)
}

fn list(root: &Path, folder: &Path, found: &mut Vec<(String, u64)>) -> Result<(), Failure> {
    let mut entries = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(fs::DirEntry::path);
    for entry in entries {
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            list(root, &path, found)?;
        } else {
            let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            found.push((name, entry.metadata()?.len()));
        }
    }
    Ok(())
}
