//! The command of an image in the root of the image, as a container runtime would start it:
//! read-only but for the volume, as its user, without capabilities, with no new privileges, and on
//! a loopback of its own, so that its port is free.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tidegate_test_support::{ChildProcess, holds_within};

use super::root::{RootFolder, clean, needs, succeed};
use super::served::{end_by_term, mebibytes_of};
use crate::attack::{AttackResult, Failure, require};

/// How long it may take to answer its health check.
const HEALTHY_MAX: Duration = Duration::from_secs(45);

/// Mounts a volume that is its user's, for as long as it runs.
pub(super) const OWN_VOLUME: &str =
    "mount -t tmpfs -o uid=65532,gid=65532,mode=0755 none \"$root/var/lib/tidegate\"";

/// Mounts a volume that is root's, which its user may not write.
pub(super) const FOREIGN_VOLUME: &str = "mount -t tmpfs -o mode=0755 none \"$root/var/lib/tidegate\"";

/// Mounts a volume that nobody may write.
pub(super) const READ_ONLY_VOLUME: &str =
    "mount -t tmpfs -o ro,uid=65532,gid=65532 none \"$root/var/lib/tidegate\"";

/// Mounts a folder of the machine as the volume.
pub(super) fn bound(folder: &Path) -> String {
    format!("mount --bind '{}' \"$root/var/lib/tidegate\"", folder.display())
}

/// Makes the container and becomes its process: each program replaces the one before.
const SCRIPT: &str = "\
root=$1 volume=$2 user=$3 folder=$4
shift 4
ip link set lo up
mount --bind \"$root\" \"$root\"
eval \"$volume\"
mount -o remount,bind,ro \"$root\"
exec setpriv --no-new-privs unshare --root=\"$root\" --wd=\"$folder\" --setgid=\"${user#*:}\" \
  --setuid=\"${user%:*}\" \"$@\"";

/// A running container.
#[derive(Debug)]
pub(super) struct ImageContainer {
    process: ChildProcess,
    began: Instant,
    user: String,
    health: Vec<String>,
}

impl ImageContainer {
    /// Starts the command that `config` names. `volume` is a script that mounts the volume.
    pub(super) fn start(root: &RootFolder, config: &Value, volume: &str) -> Result<Self, Failure> {
        let mut command = Self::command(root, config, volume)?;
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let process = ChildProcess::spawn(&mut command)?;
        let settings = &config["config"];
        let health = words(&settings["Healthcheck"]["Test"]).into_iter().skip(1).collect();
        let user = settings["User"].as_str().unwrap_or_default().to_owned();
        Ok(Self { process, began: Instant::now(), user, health })
    }

    /// The command that becomes the container.
    pub(super) fn command(root: &RootFolder, config: &Value, volume: &str) -> Result<Command, Failure> {
        needs(&["unshare", "setpriv", "ip", "nsenter"])?;
        succeed(Command::new("unshare").args(["--mount", "--net", "true"]))
            .map_err(|failure| Failure::Skipped(format!("namespaces cannot be made: {failure}")))?;
        let settings = &config["config"];
        let word = |name: &str| settings[name].as_str().unwrap_or_default().to_owned();
        let mut command = Command::new("unshare");
        command.args(["--mount", "--net", "sh", "-e", "-c", SCRIPT, "sh"]);
        command.arg(root.path()).arg(volume).arg(word("User")).arg(word("WorkingDir"));
        command.args(words(&settings["Entrypoint"])).args(words(&settings["Cmd"]));
        clean(&mut command);
        command.stdin(Stdio::null());
        Ok(command)
    }

    /// Waits until its health check passes; the time since the start.
    pub(super) fn until_healthy(&self) -> Result<Duration, Failure> {
        let Some((program, arguments)) = self.health.split_first() else {
            return Err(Failure::GotThrough("the image has no health check".to_owned()));
        };
        let is_healthy = holds_within(HEALTHY_MAX, || {
            let status =
                self.inside(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
            status.is_ok_and(|status| status.success())
        });
        require!(is_healthy, "the health check {:?} does not pass", self.health)?;
        Ok(self.began.elapsed())
    }

    /// Runs the program of the image beside the daemon; its exit code and all that it printed.
    pub(super) fn run(&self, arguments: &[&str]) -> Result<(Option<i32>, String), Failure> {
        let output = self.inside("/usr/bin/tidegate").args(arguments).output()?;
        let text =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        Ok((output.status.code(), text.trim().to_owned()))
    }

    /// A command in the same root and on the same loopback.
    fn inside(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        let (user, group) = self.user.split_once(':').unwrap_or((&self.user, &self.user));
        command.args(["--target", &self.id().to_string(), "--mount", "--net", "--root", "--wd"]);
        command.args(["--setuid", user, "--setgid", group, program]).stdin(Stdio::null());
        clean(&mut command);
        command
    }

    /// The id of its process.
    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    /// The memory that it has now, in MiB.
    pub(super) fn mebibytes(&self) -> Option<f64> {
        mebibytes_of(self.id())
    }

    /// Ends it by the signal that the image names.
    pub(super) fn end(self) -> AttackResult {
        end_by_term(self.process)
    }
}

/// The texts of a list.
fn words(list: &Value) -> Vec<String> {
    let items = list.as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}
