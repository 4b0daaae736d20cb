//! Programs of this machine: where they are, and running one within a deadline.

use std::env;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Waits until the process ends, and kills it at the deadline.
pub(crate) fn end_within(deadline: Duration, child: &mut Child) -> Result<ExitStatus, String> {
    let began = Instant::now();
    loop {
        match child.try_wait().map_err(|error| format!("it could not be waited for: {error}"))? {
            Some(status) => return Ok(status),
            None if began.elapsed() < deadline => sleep(Duration::from_millis(200)),
            None => {
                // It may end by itself at this very moment; either way it is over.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("it took more than {} minutes", deadline.as_secs() / 60));
            }
        }
    }
}

/// The path of the program: in `PATH`, or where cargo installs programs.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let cargo_home = env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo")));
    let path = env::var_os("PATH").unwrap_or_default();
    // Servers are not in everyone's path.
    let folders = env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    let folders = folders.chain(cargo_home.map(|home| home.join("bin")));
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// A command without input.
pub(super) fn quiet(program: &str) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    command
}
