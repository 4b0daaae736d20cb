//! A real Redis server, and a relay in front of it that plays the faults of servers and networks.

use std::io::Result;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use redis::Value;
use tidegate_test_support::RedisServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::attack::Failure;
use crate::loopback;
use crate::resp::{self, RespConnection};

/// How much [`RelayMode::Floods`] sends on a connection at most, in bytes.
const FLOOD_BYTES_MAX: usize = 1 << 30;

/// How long such a connection waits for a reader.
const FLOOD_WAIT_MAX: Duration = Duration::from_secs(2);

/// Starts a server with these further arguments.
pub fn start_server(arguments: &[&str]) -> std::result::Result<RedisServer, Failure> {
    let server = RedisServer::start(arguments);
    server.ok_or_else(|| Failure::Skipped("redis-server is not installed".to_owned()))
}

fn address(server: &RedisServer) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, server.port()).into()
}

/// Sends a command to a server and reads its reply.
pub fn ask(server: &RedisServer, words: &[&str]) -> Result<Value> {
    RespConnection::open(address(server))?.ask(words)
}

/// All keys of a server that are text.
pub fn keys(server: &RedisServer) -> Result<Vec<String>> {
    let Value::Array(keys) = ask(server, &["KEYS", "*"])? else { return Ok(Vec::new()) };
    Ok(keys.iter().filter_map(|key| resp::text(key).map(str::to_owned)).collect())
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
    Speaks(&'static [u8]),
    /// Answers every command with this error.
    Fails(&'static str),
    /// Answers every connection with this error once, and closes it.
    Rejects(&'static str),
    /// Answers the first command with a text of a gigabyte.
    Floods,
}

#[derive(Debug)]
struct RelayState {
    mode: RelayMode,
    accepted: u64,
    /// Connections accepted before this one fall silent in [`RelayMode::HalfOpen`].
    silent_below: u64,
    /// Connections accepted before this one are closed.
    ended_below: u64,
}

impl RelayState {
    /// Whether connection `number` passes something on.
    fn passes(&self, number: u64) -> bool {
        number >= self.silent_below && !matches!(self.mode, RelayMode::Frozen)
    }
}

/// A relay on a port of its own. Its thread ends with the process.
#[derive(Debug)]
pub struct RedisRelay {
    address: SocketAddr,
    state: watch::Sender<RelayState>,
}

impl RedisRelay {
    /// Starts a relay in front of `server`.
    pub fn start(server: &RedisServer) -> Result<Self> {
        let state = watch::Sender::new(RelayState {
            mode: RelayMode::Passes,
            accepted: 0,
            silent_below: 0,
            ended_below: 0,
        });
        let (shared, server) = (state.clone(), address(server));
        let address = loopback::start(move |stream, number| {
            shared.send_modify(|state| state.accepted = number + 1);
            let (mut ended, state) = (shared.subscribe(), shared.subscribe());
            async move {
                tokio::select! {
                    _ = ended.wait_for(|state| number < state.ended_below) => {}
                    // The end of a connection is no concern of the others.
                    _ = relay(stream, server, number, state) => {}
                }
            }
        })?;
        Ok(Self { address, state })
    }

    /// Its address as `redis://HOST:PORT`.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// How many connections it has accepted.
    pub fn accepted(&self) -> u64 {
        self.state.borrow().accepted
    }

    /// Changes what it does. `ends_connections` closes those that are open.
    pub fn set_mode(&self, mode: RelayMode, ends_connections: bool) {
        self.state.send_modify(|state| {
            if matches!(mode, RelayMode::HalfOpen) {
                state.silent_below = state.accepted;
            }
            if ends_connections {
                state.ended_below = state.accepted;
            }
            state.mode = mode;
        });
    }
}

/// Serves one connection of the daemon to its end.
async fn relay(
    mut client: TcpStream,
    server: SocketAddr,
    number: u64,
    state: watch::Receiver<RelayState>,
) -> Result<()> {
    let mut passing = state.clone();
    let mut passes = async || passing.wait_for(|state| state.passes(number)).await.is_ok();
    passes().await;
    let mode = state.borrow().mode.clone();
    match mode {
        RelayMode::Speaks(bytes) => return speak(client, bytes).await,
        RelayMode::Rejects(error) => return client.write_all(format!("-{error}\r\n").as_bytes()).await,
        RelayMode::Floods => return flood(client).await,
        _ => {}
    }
    let mut server = TcpStream::connect(server).await?;
    let (mut sent, mut replied) = (vec![0; 65_536], vec![0; 65_536]);
    loop {
        tokio::select! {
            count = client.read(&mut sent) => {
                let bytes = &sent[..count?];
                if bytes.is_empty() || !passes().await {
                    return Ok(());
                }
                let mode = state.borrow().mode.clone();
                match mode {
                    RelayMode::Fails(error) => client.write_all(&errors(bytes, error)).await?,
                    _ => server.write_all(bytes).await?,
                }
            }
            count = server.read(&mut replied) => {
                let bytes = &replied[..count?];
                if bytes.is_empty() || !passes().await {
                    return Ok(());
                }
                client.write_all(bytes).await?;
            }
        }
    }
}

/// An error for each command in these bytes. The client library sends whole commands, so there are
/// as many as lines that begin with `*`.
fn errors(commands: &[u8], error: &str) -> Vec<u8> {
    let count = commands.windows(2).filter(|pair| pair[0] == b'*' && pair[1].is_ascii_digit()).count();
    format!("-{error}\r\n").repeat(count.max(1)).into_bytes()
}

async fn speak(mut client: TcpStream, bytes: &[u8]) -> Result<()> {
    let mut buffer = [0; 4096];
    loop {
        client.write_all(bytes).await?;
        if client.read(&mut buffer).await? == 0 {
            return Ok(());
        }
    }
}

async fn flood(mut client: TcpStream) -> Result<()> {
    let mut buffer = vec![0; 65_536];
    if client.read(&mut buffer).await? == 0 {
        return Ok(());
    }
    client.write_all(format!("${FLOOD_BYTES_MAX}\r\n").as_bytes()).await?;
    buffer.fill(b'a');
    for _ in 0..FLOOD_BYTES_MAX / buffer.len() {
        timeout(FLOOD_WAIT_MAX, client.write_all(&buffer)).await??;
    }
    Ok(())
}
