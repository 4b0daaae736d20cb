//! One connection to the store, from its first use to its end.

use core::fmt;
use std::sync::{Arc, OnceLock};

use redis::aio::ConnectionLike;
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::{Cmd, ConnectionInfo, RedisError, RedisResult, Value};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::call::Call;
use crate::connect::{Access, AccessNumber, ServerConnection};
use crate::script::Sha;

/// Where to connect to, and how.
pub(crate) enum Target {
    Server(Box<ConnectionInfo>, Arc<Access>),
    Cluster(Box<ClusterClient>, #[expect(dead_code, reason = "it keeps the access registered")] AccessNumber),
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Server(..) => "Server",
            Self::Cluster(..) => "Cluster",
        })
    }
}

/// Takes commands. Cheap to clone; all clones share one connection, or the connections to the nodes
/// of a cluster.
#[derive(Clone)]
pub(crate) enum Connection {
    Server(ServerConnection),
    Cluster(ClusterConnection<ServerConnection>),
}

/// The result of connecting so far.
type Connected = Option<RedisResult<Connection>>;

/// One attempt to connect and the connection that comes of it. Callers share it; a failed one is
/// replaced and never tried again.
pub(crate) struct Dial {
    target: Arc<Target>,
    handle: Handle,
    attempt: OnceLock<Attempt>,
}

tidegate_core::debug_fields!(Dial { target });

/// The task that connects. It ends with the dial, so that an attempt nobody waits for leaves no
/// connection.
struct Attempt {
    connected: watch::Receiver<Connected>,
    task: AbortHandle,
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Why a call over a connection was not answered.
#[derive(Clone, Debug)]
pub(crate) enum DialError {
    /// There is no connection; the call was not sent.
    NotConnected(RedisError),
    /// The server's or the connection's error after the call was sent.
    Sent(RedisError),
}

impl Dial {
    /// Connects when it is first used, on the runtime of `handle`.
    pub(crate) fn new(target: Arc<Target>, handle: Handle) -> Self {
        Self { target, handle, attempt: OnceLock::new() }
    }

    async fn connection(&self) -> RedisResult<Connection> {
        let mut connected = self.attempt.get_or_init(|| self.begin()).connected.clone();
        let gone = || RedisError::from(std::io::Error::from(std::io::ErrorKind::NotConnected));
        let connected = connected.wait_for(Option::is_some).await.map_err(|_| gone())?;
        connected.clone().unwrap_or_else(|| Err(gone()))
    }

    fn begin(&self) -> Attempt {
        let (sender, connected) = watch::channel(None);
        let target = Arc::clone(&self.target);
        let task = self.handle.spawn(async move {
            let connection = match &*target {
                Target::Server(info, access) => access.connect(info).await.map(Connection::Server),
                // Each node has the connect timeout; the library asks all that are named at once.
                Target::Cluster(client, _) => {
                    client.get_async_generic_connection().await.map(Connection::Cluster)
                }
            };
            let _ = sender.send(Some(connection));
        });
        Attempt { connected, task: task.abort_handle() }
    }

    /// Sends a call: by the name of the script, and with its text where the server does not know
    /// it.
    pub(crate) async fn call(&self, sha: &Sha, call: &Call) -> Result<Value, DialError> {
        match self.send(&command("EVALSHA", &sha.hash, call)).await {
            Err(DialError::Sent(error)) if error.code() == Some("NOSCRIPT") => {
                self.send(&command("EVAL", sha.text, call)).await
            }
            answer => answer,
        }
    }

    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, DialError> {
        let mut connection = self.connection().await.map_err(DialError::NotConnected)?;
        let reply = match &mut connection {
            Connection::Server(connection) => connection.req_packed_command(command).await,
            Connection::Cluster(connection) => connection.req_packed_command(command).await,
        };
        reply.and_then(Value::extract_error).map_err(DialError::Sent)
    }
}

fn command(name: &str, script: &str, call: &Call) -> Cmd {
    let mut command = Cmd::new();
    command.arg(name).arg(script).arg(call.keys.len());
    for part in call.keys.iter().chain(&call.args) {
        command.arg(part.as_slice());
    }
    command
}
