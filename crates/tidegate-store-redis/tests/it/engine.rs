//! Servers that the tests start and stop.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tidegate_core::Timestamp;
use tidegate_store_redis::{Circuit, Clock, RedisConfig, RedisStore};

/// The program, if the machine has it.
pub(crate) fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join("redis-server")).find(|program| program.is_file())
}

/// Says past the test harness that a test could not run.
pub(crate) fn skip(test: &str) {
    let _ = writeln!(std::io::stdout(), "skipped: {test}: redis-server is not installed");
}

/// A port nobody listens on, of which the port 10 000 above is free too, as a cluster needs. No
/// other test gets it: its server may not listen yet.
pub(crate) fn free_port() -> u16 {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    let mut given = GIVEN.lock().unwrap();
    for _ in 0..1000 {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        // Ports that the system hands out are high; those of clusters leave room for their bus.
        let port = 20_000 + port % 10_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok()
            && TcpListener::bind(("127.0.0.1", port + 10_000)).is_ok()
            && given.insert(port)
        {
            return port;
        }
    }
    panic!("no free port")
}

/// One server, which keeps nothing on disk and is killed when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    port: u16,
    folder: PathBuf,
}

impl Server {
    /// A server with these further arguments; `None` if the program is missing.
    pub(crate) fn start(arguments: &[&str]) -> Option<Self> {
        Self::start_on(free_port(), arguments)
    }

    pub(crate) fn start_on(port: u16, arguments: &[&str]) -> Option<Self> {
        let folder = std::env::temp_dir().join(format!("tidegate-redis-{}-{port}", std::process::id()));
        let program = program()?;
        std::fs::create_dir_all(&folder).unwrap();
        let child = Self::spawn(program, port, &folder, arguments);
        let server = Self { child, port, folder };
        server.wait();
        Some(server)
    }

    /// Starts the program in `folder`, where it finds what it kept there.
    fn spawn(program: PathBuf, port: u16, folder: &Path, arguments: &[&str]) -> Child {
        let mut command = Command::new(program);
        command.args([
            "--port",
            &port.to_string(),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
        ]);
        command.args(["--dir"]).arg(folder).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// A server on a copy of the dump at `path`.
    pub(crate) fn start_on_dump(path: &Path) -> Option<Self> {
        let port = free_port();
        let folder = std::env::temp_dir().join(format!("tidegate-redis-{}-{port}", std::process::id()));
        let program = program()?;
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::copy(path, folder.join("dump.rdb")).unwrap();
        let child = Self::spawn(program, port, &folder, &[]);
        let server = Self { child, port, folder };
        server.wait();
        Some(server)
    }

    /// Kills the process, and keeps its port and its files.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again after [`Self::kill`].
    pub(crate) fn start_again(&mut self, arguments: &[&str]) {
        self.child = Self::spawn(program().unwrap(), self.port, &self.folder, arguments);
        self.wait();
    }

    fn wait(&self) {
        let since = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(
                since.elapsed() < Duration::from_secs(20),
                "redis-server does not listen on {}",
                self.port
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Where it keeps its files.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The process, for signals.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn client(&self) -> redis::Connection {
        redis::Client::open(self.url()).unwrap().get_connection().unwrap()
    }

    /// A configuration that waits long, since tests run beside others.
    pub(crate) fn config(&self) -> RedisConfig {
        patient(RedisConfig::new([self.url()]))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A configuration for tests that are not about time.
pub(crate) fn patient(mut config: RedisConfig) -> RedisConfig {
    config.deadline = Duration::from_secs(20);
    config.answers_kept = Duration::from_mins(10);
    config
}

/// A clock that tests set, whole microseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hands(Arc<AtomicU64>);

impl Hands {
    pub(crate) fn set(&self, now: Timestamp) {
        // Set by the thread that then asks.
        self.0.store(now.as_nanos(), Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.0.load(Ordering::Relaxed))
    }

    pub(crate) fn clock(&self) -> Clock {
        let hands = self.clone();
        Clock::Given(Arc::new(move || hands.now()))
    }
}

/// A store of a server of its own, on a clock that tests set, and a connection to look behind it.
pub(crate) struct Stand {
    pub(crate) store: RedisStore,
    pub(crate) hands: Hands,
    pub(crate) client: redis::Connection,
    /// Last, since fields are dropped in order.
    _server: Server,
}

impl Stand {
    /// As [`Server::config`] has it; `None` if the program is missing.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with(|_| ())
    }

    /// One call after the other, so that all is done in the order in which it was sent.
    pub(crate) fn start_in_order() -> Option<Self> {
        Self::start_with(|config| config.calls = 1)
    }

    fn start_with(change: impl FnOnce(&mut RedisConfig)) -> Option<Self> {
        let (server, hands) = (Server::start(&[])?, Hands::default());
        let mut config = server.config();
        config.clock = hands.clock();
        change(&mut config);
        let (store, client) = (RedisStore::open(config).unwrap(), server.client());
        Some(Self { store, hands, client, _server: server })
    }
}

/// How soon a store is used again once it can be.
pub(crate) const FOUND_WITHIN: Duration = Duration::from_secs(1);

/// Waits, without traffic, until the store has been found again, which takes no longer than a
/// second.
pub(crate) async fn is_found_within_a_second(store: &RedisStore) {
    let since = Instant::now();
    while store.stats().circuit != Circuit::Closed {
        assert!(since.elapsed() < FOUND_WITHIN, "{:?}", store.stats());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    println!("found again after {:?}", since.elapsed());
}
