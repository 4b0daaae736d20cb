//! A daemon, a gateway and a service, joined as a recipe joins them.
//!
//! A recipe's files name fixed addresses. Before they are used each of these is exchanged for a
//! free one:
//!
//! | in the recipe | is |
//! |---|---|
//! | `127.0.0.1:8080`, `127.0.0.1:8081` | the daemon: http, grpc |
//! | `127.0.0.1:3000` | the service |
//! | `127.0.0.1:8000` | where callers come |
//! | `127.0.0.1:8079` | what the gateway listens on for itself |
//!
//! Envoy's files write them as `address: 127.0.0.1, port_value: 8080`.
//!
//! The recipes give Tidegate a quarter of a second to take a connection and a second to answer. On
//! a busy machine Tidegate may take longer, so the copies give it more. Claims about a silent
//! Tidegate are checked with the second of the recipe.

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use tidegate_test_support::{ChildProcess, TemporaryFolder, holds_within, until};

use super::service::Service;
use crate::command::tidegate;
use crate::process::Daemon;

/// How long a gateway that was asked to end may take before it is killed.
const END_MAX: Duration = Duration::from_secs(5);

/// How long each gateway waits for a connection to Tidegate: in the recipe, and in the copy of it.
const PATIENT_CONNECT: &[(&str, &str)] = &[
    ("dial_timeout 250ms", "dial_timeout 15s"),
    ("connect_timeout: 0.25s", "connect_timeout: 15s"),
    ("timeout connect 250ms", "timeout connect 15s"),
    ("proxy_connect_timeout 250ms", "proxy_connect_timeout 15s"),
];

/// The same for an answer of Tidegate.
const PATIENT_READ: &[(&str, &str)] = &[
    ("response_header_timeout 1s", "response_header_timeout 15s"),
    (" timeout: 1s", " timeout: 15s"),
    ("timeout server 1s", "timeout server 15s"),
    ("proxy_read_timeout 1s", "proxy_read_timeout 15s"),
];

pub(crate) struct Stand {
    // Before the folder, so that no program outlives its files.
    gateway: Option<Gateway>,
    /// Starts the gateway.
    command: Option<Command>,
    daemon: Option<Daemon>,
    folder: TemporaryFolder,
    /// The copied files of the recipe.
    files: Vec<PathBuf>,
    pub(crate) service: Service,
    /// Where callers come.
    pub(crate) public: String,
    /// The daemon's HTTP API.
    pub(crate) api: String,
    /// Where the gateway asks the daemon.
    pub(crate) asked: String,
}

impl Stand {
    /// The recipe's files in a folder of their own, with the daemon running and the gateway not.
    pub(crate) fn of(recipe: &str) -> Self {
        let mut stand = Self::beside(recipe, &free_address(), &free_address());
        stand.start_daemon();
        stand
    }

    /// The same for a daemon that runs already, with its HTTP API and its gRPC there.
    pub(crate) fn beside(recipe: &str, api: &str, grpc: &str) -> Self {
        let folder = TemporaryFolder::new();
        let service = Service::start();
        let (api, grpc) = (api.to_owned(), grpc.to_owned());
        let (public, inner) = (free_address(), free_address());
        let exchanged = [
            ("127.0.0.1:8080", &api),
            ("127.0.0.1:8081", &grpc),
            ("127.0.0.1:3000", &service.address),
            ("127.0.0.1:8000", &public),
            ("127.0.0.1:8079", &inner),
        ];
        let recipes = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/gateways"));
        let mut files = Vec::new();
        for file in fs::read_dir(recipes.join(recipe)).unwrap().map(Result::unwrap) {
            let text = fs::read_to_string(file.path()).unwrap();
            let text = exchanged.iter().fold(text, |text, (from, to)| exchange(&text, from, to));
            let times = PATIENT_CONNECT.iter().chain(PATIENT_READ);
            let text = times.fold(text, |text, (theirs, ours)| text.replace(theirs, ours));
            let copy = folder.path().join(file.file_name());
            fs::write(&copy, text).unwrap();
            files.push(copy);
        }
        let asked = if recipe == "envoy" { grpc } else { api.clone() };
        Self { gateway: None, command: None, daemon: None, folder, files, service, public, api, asked }
    }

    /// A file of the recipe, or the place for another one beside it.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn start_daemon(&mut self) {
        let mut command = tidegate();
        // Where it keeps the quotas of the recipe.
        command.args(["serve", "--config", "tidegate.yaml"]).current_dir(self.folder.path());
        let mut daemon = Daemon::spawn(command);
        assert_eq!(daemon.address(), self.api);
        self.daemon = Some(daemon);
        // The first request touches fresh memory; on a busy machine a gateway might
        // not wait for that.
        let look = r#"{"namespace":"api","attributes":{"api_key":"first"},"peek":true}"#;
        crate::process::post(&self.api, "/v1/check", look);
    }

    pub(crate) fn stop_daemon(&mut self) {
        let mut daemon = self.daemon.take().unwrap();
        daemon.signal("TERM");
        let (code, err) = daemon.end();
        assert_eq!(code, Some(0), "{err}");
    }

    /// Has the daemon started next run the policy with one text in place of another.
    pub(crate) fn change_policy(&self, from: &str, to: &str) {
        self.change("tidegate.yaml", from, to);
    }

    /// Writes one text in place of another in a file of the recipe.
    pub(crate) fn change(&self, file: &str, from: &str, to: &str) {
        let text = fs::read_to_string(self.file(file)).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(self.file(file), text.replace(from, to)).unwrap();
    }

    /// Starts the gateway in the folder, and returns when it takes connections.
    pub(crate) fn start_gateway(&mut self, mut command: Command) {
        self.gateway = None;
        self.gateway = Some(Gateway::start(&mut command, self.folder.path(), &self.public));
        self.command = Some(command);
    }

    /// Starts the gateway again. It waits for an answer of Tidegate no longer than the recipe says.
    pub(crate) fn wait_as_the_recipe_says(&mut self) {
        let mut changed = 0;
        for file in &self.files {
            let patient = fs::read_to_string(file).unwrap();
            let text =
                PATIENT_READ.iter().fold(patient.clone(), |text, (theirs, ours)| text.replace(ours, theirs));
            changed += usize::from(text != patient);
            fs::write(file, text).unwrap();
        }
        assert!(changed > 0, "the recipe says no time to wait for an answer");
        let command = self.command.take().unwrap();
        self.start_gateway(command);
    }

    /// Kills the gateway, which cannot say good-bye to anything.
    pub(crate) fn kill_gateway(&mut self) {
        self.gateway.take().unwrap().0.kill();
    }

    /// The output of the gateway.
    pub(crate) fn gateway_log(&self) -> String {
        fs::read_to_string(self.file("gateway.log")).unwrap_or_default()
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The end is where the reason is.
            let log = self.gateway_log();
            let end = log.len().saturating_sub(4096);
            eprintln!("the gateway's log ends with: {}", String::from_utf8_lossy(&log.as_bytes()[end..]));
        }
    }
}

/// A gateway that is gone when the test is.
pub(crate) struct Gateway(ChildProcess);

impl Gateway {
    /// Starts a gateway in the folder, where its output goes to `gateway.log`, and returns when it
    /// takes connections at this address.
    pub(crate) fn start(command: &mut Command, folder: &Path, public: &str) -> Self {
        let log = folder.join("gateway.log");
        let file = File::create(&log).unwrap();
        command.current_dir(folder).stdin(Stdio::null());
        command.stdout(file.try_clone().unwrap()).stderr(file);
        let started = ChildProcess::spawn(command);
        let mut gateway = Self(started.unwrap_or_else(|error| panic!("{command:?}: {error}")));
        until("the gateway takes connections", || {
            if let Some(status) = gateway.0.try_wait().unwrap() {
                panic!("it ended ({status}): {}", fs::read_to_string(&log).unwrap_or_default());
            }
            TcpStream::connect(public).is_ok()
        });
        gateway
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // Kindly: nginx takes its workers with it only when it is asked. If that does not help, the
        // process is killed.
        let _ = self.0.signal("TERM") && holds_within(END_MAX, || !self.0.is_running());
    }
}

/// A free address on loopback, below the ports that the system gives to
/// connections.
pub(crate) fn free_address() -> String {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let number = u32::from(NEXT.fetch_add(1, Ordering::Relaxed)) + std::process::id() * 61;
        let address = format!("127.0.0.1:{}", 12_000 + number % 20_000);
        if TcpListener::bind(&address).is_ok() {
            return address;
        }
    }
}

/// The text with one address in place of another, in either spelling, where it is not the beginning
/// of a longer one.
pub(crate) fn exchange(text: &str, from: &str, to: &str) -> String {
    let in_two = |address: &str| address.replace(':', ", port_value: ");
    [(from.to_owned(), to.to_owned()), (in_two(from), in_two(to))].iter().fold(
        text.to_owned(),
        |text, (from, to)| {
            let mut parts = text.split(from.as_str());
            let mut exchanged = parts.next().unwrap_or_default().to_owned();
            for part in parts {
                let longer = part.starts_with(|next: char| next.is_ascii_digit());
                exchanged.push_str(if longer { from } else { to });
                exchanged.push_str(part);
            }
            exchanged
        },
    )
}
