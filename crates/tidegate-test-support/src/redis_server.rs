//! Redis servers that tests start and stop.
//!
//! A [`RedisServer`] listens on loopback, on a port that nobody else listens on, and writes only to
//! a folder of its own. It is stopped by the id of its process, and its folder removed, when it is
//! dropped. A machine without the program has none: a test then prints [`skip`] and returns.
//!
//! ```
//! use tidegate_test_support::{RedisServer, skip};
//!
//! let Some(server) = RedisServer::start(&[]) else { return skip("this example") };
//! assert!(std::net::TcpStream::connect(("127.0.0.1", server.port())).is_ok());
//! ```

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use crate::{ChildProcess, PATIENCE, TemporaryFolder, find_program, holds_within};

/// How many ports are tried until one is free.
const PORTS_TRIED_MAX: usize = 1000;

/// The program, if the machine has it.
pub fn program() -> Option<PathBuf> {
    find_program("redis-server")
}

/// Says past the test harness that `test` could not run because the program is missing.
pub fn skip(test: &str) {
    let _ = writeln!(std::io::stdout(), "skipped: {test}: redis-server is not installed");
}

/// A port on which nothing listens, of which the port 10 000 above is free too, as a cluster needs.
/// No other test gets it, also of another process, until this process ends: its server may not
/// listen yet, or be away for a while.
///
/// # Panics
///
/// If the machine has no such port.
pub fn free_port() -> u16 {
    static GIVEN: Mutex<Vec<File>> = Mutex::new(Vec::new());
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    for _ in 0..PORTS_TRIED_MAX {
        let any = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let any = any.expect("a port of loopback is free").port();
        // Ports that the system hands out are high; those of clusters leave room for their bus.
        let port = 20_000 + any % 10_000;
        if let Some(reservation) = reserve(port)
            && is_free(port)
            && is_free(port + 10_000)
        {
            given.push(reservation);
            return port;
        }
    }
    panic!("no free port after {PORTS_TRIED_MAX} tries")
}

/// A locked file that stands for the port; `None` if somebody else has it. The system lets go of it
/// when the process ends.
fn reserve(port: u16) -> Option<File> {
    let file = File::create(std::env::temp_dir().join(format!("tidegate-port-{port}"))).ok()?;
    file.try_lock().ok()?;
    Some(file)
}

/// One server, which writes no snapshots and is stopped when dropped.
#[derive(Debug)]
pub struct RedisServer {
    // Before the folder, so that the server does not outlive its files.
    process: ChildProcess,
    port: u16,
    folder: TemporaryFolder,
}

impl RedisServer {
    /// A server with these further arguments on a free port; `None` if the program is missing.
    ///
    /// # Panics
    ///
    /// If it does not listen within 30 seconds, as each function that starts one.
    pub fn start(arguments: &[&str]) -> Option<Self> {
        Self::start_on(free_port(), arguments)
    }

    /// The same on this port.
    pub fn start_on(port: u16, arguments: &[&str]) -> Option<Self> {
        Self::start_in(port, TemporaryFolder::new(), arguments)
    }

    /// A server that begins with a copy of the dump at `path`.
    ///
    /// # Panics
    ///
    /// Also if the dump cannot be copied.
    pub fn start_on_dump(path: &Path) -> Option<Self> {
        program()?;
        let port = free_port();
        let folder = TemporaryFolder::new();
        std::fs::copy(path, folder.join("dump.rdb")).expect("the dump can be copied");
        Self::start_in(port, folder, &[])
    }

    fn start_in(port: u16, folder: TemporaryFolder, arguments: &[&str]) -> Option<Self> {
        let process = spawn(&program()?, port, folder.path(), arguments);
        let mut server = Self { process, port, folder };
        server.wait();
        Some(server)
    }

    /// Kills the process; its port and its files stay.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts it again after [`RedisServer::kill`].
    ///
    /// # Panics
    ///
    /// Also if the program is gone.
    pub fn start_again(&mut self, arguments: &[&str]) {
        let program = program().expect("the program was there before");
        self.process = spawn(&program, self.port, self.folder.path(), arguments);
        self.wait();
    }

    fn wait(&mut self) {
        let port = self.port;
        let listens = holds_within(PATIENCE, || {
            let ended = self.process.try_wait().ok().flatten();
            assert!(ended.is_none(), "redis-server on {port} ended at once: {ended:?}");
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        assert!(listens, "redis-server does not listen on {port}");
    }

    /// The port of loopback that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address as a URL.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Sends it a command, written as a line, that is answered with OK.
    ///
    /// # Panics
    ///
    /// If the answer is another one.
    pub fn send(&self, command: &str) {
        let mut reply = [0; 5];
        let sent = TcpStream::connect(("127.0.0.1", self.port)).and_then(|mut stream| {
            stream.write_all(format!("{command}\r\n").as_bytes())?;
            stream.read_exact(&mut reply)
        });
        assert!(sent.is_ok() && &reply == b"+OK\r\n", "{command}: {sent:?} {}", reply.escape_ascii());
    }

    /// Where it keeps its files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The id of its process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Sends its process a signal, such as `STOP`.
    ///
    /// # Panics
    ///
    /// If that cannot be done.
    pub fn signal(&self, name: &str) {
        assert!(self.process.signal(name), "redis-server on {} cannot be sent {name}", self.port);
    }
}

fn spawn(program: &Path, port: u16, folder: &Path, arguments: &[&str]) -> ChildProcess {
    let mut command = Command::new(program);
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    command.arg("--dir").arg(folder).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    ChildProcess::spawn(&mut command).expect("redis-server can be started")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_given_once_whoever_asks_for_it() {
        let (one, other) = (free_port(), free_port());
        assert_ne!(one, other);
        // A file that is opened anew is locked as if by another process.
        assert!(reserve(one).is_none() && reserve(other).is_none());
    }
}
