//! A real Envoy with the filter for the rate limit quota service.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use tidegate_test_support::{ChildProcess, TemporaryFolder, fetched, free_port, holds_within};

use crate::attack::Failure;

/// How long an Envoy may take to start.
const START_MAX: Duration = Duration::from_secs(30);

/// Its configuration. Requests have the user of [`USER`], and are answered by Envoy itself.
const CONFIG: &str = include_str!("envoy.yaml");

/// The value of the only bucket of each Envoy.
pub(super) const USER: &str = "ada";

/// An Envoy, which can be killed and started again at the same address.
#[derive(Debug)]
pub(super) struct EnvoyProcess {
    // Before the folder, so that it does not outlive its files.
    process: Option<ChildProcess>,
    folder: TemporaryFolder,
    program: PathBuf,
    name: String,
    port: u16,
}

impl EnvoyProcess {
    /// Starts an Envoy of this name that reports to these daemons, one at a time.
    pub(super) fn start(name: &str, daemons: &[u16]) -> Result<Self, Failure> {
        let program = fetched("envoy", "lib/*/site-packages/envoy/_bin/envoy").ok_or_else(|| {
            // A suite that is about Envoys has not passed without one.
            let text = "Envoy is not installed, so nothing was tested; `cargo xtask test` installs it";
            Failure::Unfinished(text.to_owned())
        })?;
        let port = free_port();
        let endpoint = |daemon: &u16| {
            let address = format!("{{ address: 127.0.0.1, port_value: {daemon} }}");
            format!("{{ endpoint: {{ address: {{ socket_address: {address} }} }} }}")
        };
        let endpoints = daemons.iter().map(endpoint).collect::<Vec<_>>().join(", ");
        let (_, config) = CONFIG.split_once('\n').expect("a comment on the first line");
        let config =
            config.replace("PORT", &port.to_string()).replace("NAME", name).replace("ENDPOINTS", &endpoints);
        let folder = TemporaryFolder::new();
        folder.write("envoy.yaml", &config);
        let mut envoy = Self { process: None, folder, program, name: name.to_owned(), port };
        envoy.start_again()?;
        Ok(envoy)
    }

    /// Starts it again after [`EnvoyProcess::kill`], and waits until it listens.
    pub(super) fn start_again(&mut self) -> Result<(), Failure> {
        let log = fs::File::create(self.folder.join("envoy.log"))?;
        let mut command = Command::new(&self.program);
        command.args(["-c", "envoy.yaml", "--concurrency", "1", "--disable-hot-restart", "-l", "error"]);
        command.current_dir(self.folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let mut process = ChildProcess::spawn(&mut command)?;
        let address = self.address();
        let listens =
            holds_within(START_MAX, || !process.is_running() || TcpStream::connect(address).is_ok());
        if !listens || !process.is_running() {
            process.kill();
            let log = fs::read_to_string(self.folder.join("envoy.log")).unwrap_or_default();
            return Err(Failure::Unfinished(format!("{} does not start: {log}", self.name)));
        }
        self.process = Some(process);
        Ok(())
    }

    /// Kills it by its id.
    pub(super) fn kill(&mut self) {
        self.process = None;
    }

    /// Where it takes requests.
    pub(super) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// The name that it gives to daemons.
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}
