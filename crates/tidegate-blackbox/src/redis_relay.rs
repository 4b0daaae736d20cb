//! A real Redis server, and a relay in front of it that plays the faults of servers and networks.

use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tidegate_test_support::{PATIENCE, holds_within};

use crate::attack::Failure;
use crate::resp::{self, Value};

/// The socket of a server, in its folder.
const SOCKET: &str = "redis.sock";

/// How often a stalled connection looks whether it may go on.
const LOOK: Duration = Duration::from_millis(10);

/// How much [`RelayMode::Floods`] sends on a connection at most, in bytes.
const FLOOD_BYTES_MAX: usize = 1 << 30;

/// A server that also listens on a Unix socket in its folder.
#[derive(Debug)]
pub struct RedisServer(tidegate_test_support::RedisServer);

impl RedisServer {
    /// Starts it.
    pub fn start() -> Result<Self, Failure> {
        let server = tidegate_test_support::RedisServer::start(&["--unixsocket", SOCKET]);
        let missing = || Failure::Skipped("redis-server is not installed".to_owned());
        let server = Self(server.ok_or_else(missing)?);
        // It listens on its port first.
        if !holds_within(PATIENCE, || server.ask(&["PING"]).is_ok()) {
            return Err(Failure::Unfinished(format!("redis-server does not answer after {PATIENCE:?}")));
        }
        Ok(server)
    }

    /// Where its socket is.
    pub fn socket(&self) -> PathBuf {
        self.0.folder().join(SOCKET)
    }

    /// Sends a command and reads its reply.
    pub fn ask(&self, words: &[&str]) -> std::io::Result<Value> {
        let mut stream = UnixStream::connect(self.socket())?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(&resp::command(words))?;
        resp::read_value(&mut BufReader::new(stream))
    }

    /// All its keys.
    pub fn keys(&self) -> std::io::Result<Vec<Vec<u8>>> {
        let Value::Array(keys) = self.ask(&["KEYS", "*"])? else { return Ok(Vec::new()) };
        Ok(keys
            .into_iter()
            .filter_map(|key| if let Value::Text(key) = key { Some(key) } else { None })
            .collect())
    }
}

/// The behaviour of the relay.
#[derive(Clone, Debug)]
pub enum RelayMode {
    /// Passes bytes on.
    Passes,
    /// Accepts connections and passes nothing on, either way.
    Frozen,
    /// Connections that are open fall silent for good; new ones are served.
    HalfOpen,
    /// Sends these bytes to every connection when it begins and whenever it sends something.
    Speaks(Vec<u8>),
    /// Answers every command with this error.
    Fails(&'static str),
    /// Answers every connection with this error once, and closes it.
    Rejects(&'static str),
    /// Answers the first command with a text of a gigabyte.
    Floods,
}

#[derive(Debug)]
struct RelayState {
    mode: Mutex<RelayMode>,
    server: Mutex<PathBuf>,
    /// Connections accepted before this one fall silent in [`RelayMode::HalfOpen`].
    silent_below: AtomicU64,
    accepted: AtomicU64,
    /// Counts changes of the mode that end the connections before.
    ended_below: AtomicU64,
}

/// A relay on a port of its own. Its threads end with the process.
#[derive(Debug)]
pub struct RedisRelay {
    address: SocketAddr,
    state: Arc<RelayState>,
}

impl RedisRelay {
    /// Starts a relay in front of `server`.
    pub fn start(server: &RedisServer) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let state = Arc::new(RelayState {
            mode: Mutex::new(RelayMode::Passes),
            server: Mutex::new(server.socket()),
            silent_below: AtomicU64::new(0),
            accepted: AtomicU64::new(0),
            ended_below: AtomicU64::new(0),
        });
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                // SeqCst throughout: the counters are compared with each other, and speed is of no
                // matter here.
                let number = shared.accepted.fetch_add(1, Ordering::SeqCst);
                let state = Arc::clone(&shared);
                thread::spawn(move || serve(stream, number, &state));
            }
        });
        Ok(Self { address, state })
    }

    /// Its address as `redis://HOST:PORT`.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// How many connections it has accepted.
    pub fn accepted(&self) -> u64 {
        self.state.accepted.load(Ordering::SeqCst)
    }

    /// Changes what it does. `ends_connections` closes those that are open.
    pub fn set_mode(&self, mode: RelayMode, ends_connections: bool) {
        let accepted = self.accepted();
        if matches!(mode, RelayMode::HalfOpen) {
            self.state.silent_below.store(accepted, Ordering::SeqCst);
        }
        *self.state.mode.lock().unwrap_or_else(PoisonError::into_inner) = mode;
        if ends_connections {
            self.state.ended_below.store(accepted, Ordering::SeqCst);
        }
    }

    /// Relays new connections to another server from now on.
    pub fn move_to(&self, server: &RedisServer) {
        *self.state.server.lock().unwrap_or_else(PoisonError::into_inner) = server.socket();
    }
}

impl RelayState {
    fn mode(&self) -> RelayMode {
        self.mode.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn is_ended(&self, number: u64) -> bool {
        number < self.ended_below.load(Ordering::SeqCst)
    }

    /// Waits while connection `number` is to pass nothing on. False when it is to be closed.
    fn may_go_on(&self, number: u64) -> bool {
        loop {
            if self.is_ended(number) {
                return false;
            }
            let is_silent =
                number < self.silent_below.load(Ordering::SeqCst) || matches!(self.mode(), RelayMode::Frozen);
            if !is_silent {
                return true;
            }
            thread::sleep(LOOK);
        }
    }
}

/// Serves one connection of the daemon to its end.
fn serve(client: TcpStream, number: u64, state: &Arc<RelayState>) {
    let _ = client.set_nodelay(true);
    // A short time-out, so that a connection without traffic sees that it is to be closed.
    let _ = client.set_read_timeout(Some(LOOK));
    if !state.may_go_on(number) {
        return;
    }
    match state.mode() {
        RelayMode::Speaks(bytes) => return speak(client, number, &bytes, state),
        RelayMode::Rejects(error) => {
            let _ = (&client).write_all(format!("-{error}\r\n").as_bytes());
            return;
        }
        RelayMode::Floods => return flood(client),
        _ => {}
    }
    let path = state.server.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let Ok(server) = UnixStream::connect(path) else { return };
    let _ = server.set_read_timeout(Some(LOOK));
    let (Ok(from_server), Ok(to_client)) = (server.try_clone(), client.try_clone()) else { return };
    let is_closed = Arc::new(AtomicBool::new(false));
    let (shared, closed) = (Arc::clone(state), Arc::clone(&is_closed));
    thread::spawn(move || {
        copy(from_server, to_client, number, &shared, &closed, |_, _| false);
    });
    copy(client, server, number, state, &is_closed, |bytes, client| match state.mode() {
        RelayMode::Fails(error) => {
            // The client library sends whole commands, so a chunk holds as many as lines that begin
            // with `*`.
            let commands =
                bytes.windows(2).filter(|pair| pair[0] == b'*' && pair[1].is_ascii_digit()).count();
            let _ = client.write_all(format!("-{error}\r\n").repeat(commands.max(1)).as_bytes());
            true
        }
        _ => false,
    });
}

/// Copies until either end closes. `instead` may answer a chunk to the side it came from.
fn copy<From: Read, To: Write>(
    mut from: From,
    mut to: To,
    number: u64,
    state: &RelayState,
    is_closed: &AtomicBool,
    instead: impl Fn(&[u8], &mut From) -> bool,
) {
    let mut buffer = vec![0; 65_536];
    while !is_closed.load(Ordering::SeqCst) && !state.is_ended(number) {
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => {
                if !state.may_go_on(number) {
                    break;
                }
                if !instead(&buffer[..count], &mut from) && to.write_all(&buffer[..count]).is_err() {
                    break;
                }
            }
            Err(error)
                if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {}
            Err(_) => break,
        }
    }
    is_closed.store(true, Ordering::SeqCst);
}

fn speak(mut client: TcpStream, number: u64, bytes: &[u8], state: &RelayState) {
    let mut buffer = [0; 4096];
    if client.write_all(bytes).is_err() {
        return;
    }
    while !state.is_ended(number) {
        match client.read(&mut buffer) {
            Ok(0) => return,
            Ok(_) if client.write_all(bytes).is_err() => return,
            _ => {}
        }
    }
}

fn flood(mut client: TcpStream) {
    let _ = client.set_read_timeout(Some(Duration::from_secs(5)));
    let _ = client.set_write_timeout(Some(Duration::from_secs(2)));
    let mut buffer = vec![b'a'; 65_536];
    if client.read(&mut buffer).is_err() {
        return;
    }
    if client.write_all(format!("${FLOOD_BYTES_MAX}\r\n").as_bytes()).is_err() {
        return;
    }
    buffer.fill(b'a');
    for _ in 0..FLOOD_BYTES_MAX / buffer.len() {
        if client.write_all(&buffer).is_err() {
            return;
        }
    }
}
