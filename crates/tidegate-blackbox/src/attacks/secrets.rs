//! Files that the policy names and that are not what they should be.

use std::fs::File;
use std::process::Command;

use tidegate_test_support::TemporaryFolder;

use crate::attack::{AttackResult, Failure, MEBIBYTES_ABOVE_IDLE_MAX, RunContext, require};
use crate::daemon::{Daemon, START_MAX};

/// The size of a file that is no password. It is sparse, and takes no disk.
const FILE_BYTES: u64 = 1 << 30;

/// A pipe in place of a file does not hang the start.
pub(crate) fn pipes_for_files(context: &RunContext) -> AttackResult {
    let mut hung = Vec::new();
    for setting in ["token_file", "password_file", "cert"] {
        let folder = TemporaryFolder::new();
        let pipe = folder.path().join("pipe");
        let status = Command::new("mkfifo").arg(&pipe).status();
        if !status.is_ok_and(|status| status.success()) {
            return Err(Failure::Skipped("mkfifo is not installed".to_owned()));
        }
        let pipe = pipe.display();
        let policy = match setting {
            "token_file" => format!(
                "listen: {{ http: '127.0.0.1:0' }}\n\
                 authorization: [{{ name: pipe, token_file: {pipe}, namespaces: ['*'] }}]\n"
            ),
            "password_file" => format!(
                "listen: {{ http: '127.0.0.1:0' }}\n\
                 store: {{ kind: redis, urls: ['redis://127.0.0.1:1'], password_file: {pipe} }}\n"
            ),
            _ => format!(
                "listen: {{ http: {{ address: '127.0.0.1:0', tls: {{ cert: {pipe}, key: {pipe} }} }} }}\n"
            ),
        };
        let policy =
            format!("{policy}namespaces: {{ honest: {{ limits: [{{ name: rate, rate: 1000/s }}] }} }}\n");
        if let Err(failure) = Daemon::try_start(context, folder, &policy)?
            && failure.status.is_none()
        {
            hung.push(setting);
        }
    }
    let seconds = START_MAX.as_secs();
    require!(hung.is_empty(), "the start hangs for {seconds} s with a pipe as {}", hung.join(", "))?;
    Ok("a pipe as token_file, password_file or cert ends the start with an error".to_owned())
}

/// A huge file in place of a password is not read whole.
pub(crate) fn huge_files(context: &RunContext) -> AttackResult {
    let mut read = Vec::new();
    for setting in ["password_file", "token_file"] {
        let folder = TemporaryFolder::new();
        let path = folder.path().join("huge");
        File::create(&path)?.set_len(FILE_BYTES)?;
        let path = path.display();
        let policy = if setting == "token_file" {
            format!("authorization: [{{ name: huge, token_file: {path}, namespaces: ['*'] }}]\n")
        } else {
            format!("store: {{ kind: redis, urls: ['redis://127.0.0.1:1'], password_file: {path} }}\n")
        };
        let policy = format!(
            "listen: {{ http: '127.0.0.1:0' }}\n{policy}\
             namespaces: {{ honest: {{ limits: [{{ name: rate, rate: 1000/s }}] }} }}\n"
        );
        let peak = match Daemon::try_start(context, folder, &policy)? {
            Ok(daemon) => daemon.start_peak_bytes(),
            Err(failure) => failure.peak_bytes,
        };
        if peak > u64::from(MEBIBYTES_ABOVE_IDLE_MAX) << 20 {
            read.push(format!("{setting} takes {} MiB", peak >> 20));
        }
    }
    require!(read.is_empty(), "a file of 1 GiB as {}", read.join(", "))?;
    Ok("a file of 1 GiB as password_file or token_file is not read whole".to_owned())
}
