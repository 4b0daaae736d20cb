//! An upstream as a process, which may be killed.

use std::io::{BufRead, BufReader, Error, Result};
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use crate::http1;
use tidegate_test_support::ChildProcess;

use crate::load::service::{COUNTS_PATH, ServiceCounts};

/// The command of this package that is a service; its argument is the workers.
pub const SERVE_COMMAND: &str = "serve-upstream";

/// A service that is killed, by its id, when the value is dropped. It also ends by itself when its
/// standard input does, so it does not outlive a suite that was killed.
#[derive(Debug)]
pub struct ServiceProcess {
    process: ChildProcess,
    address: SocketAddr,
}

impl ServiceProcess {
    /// Starts this program again, as a service with `workers` workers.
    pub fn start(workers: usize) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(SERVE_COMMAND).arg(workers.to_string());
        let mut process = ChildProcess::spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()))?;
        let mut line = String::new();
        if let Some(output) = process.child().stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        if let Ok(address) = line.trim().parse() {
            return Ok(Self { process, address });
        }
        Err(Error::other(format!("the upstream printed no address but {line:?}")))
    }

    /// The id of its process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its counts so far.
    pub fn counts(&self) -> Result<ServiceCounts> {
        let answer = http1::ask(self.address, http1::get(COUNTS_PATH))?;
        let counts: [u64; 5] = serde_json::from_slice(&answer.body).map_err(Error::other)?;
        let [served, present, present_max, attended_max, departed] = counts;
        Ok(ServiceCounts { served, present, present_max, attended_max, departed })
    }

    /// Kills it, as `kill -9` does.
    pub fn kill(&mut self) {
        self.process.kill();
    }
}
