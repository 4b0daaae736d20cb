//! The connection: to one server, or to a cluster whose redirects and failovers the library follows.

use core::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig};
use redis::cluster::{ClusterClient, ClusterConfig};
use redis::cluster_async::ClusterConnection;
use redis::{
    Client, ClientTlsConfig, Cmd, ConnectionInfo, IntoConnectionInfo, RedisError, RedisResult,
    TlsCertificates, Value,
};

use crate::call::Call;
use crate::config::{RedisConfig, without_credentials};
use crate::error::OpenError;
use crate::script::Sha;

/// Where calls are sent: one connection that all callers share, and how to open another one.
///
/// The client library opens a broken connection again by itself, but not every one: it keeps one on which nothing comes back (the
/// machine behind the address was replaced, packets are dropped), and one that was refused at the greeting (a wrong
/// password, too many clients). Then a [`Link::fresh`] one that works takes its place.
pub(crate) struct Link {
    opener: Opener,
    current: Mutex<Connection>,
}

/// One connection. Cheap to clone; connects when first used.
#[derive(Clone)]
pub(crate) enum Connection {
    Server(ConnectionManager),
    Cluster(ClusterConnection),
}

enum Opener {
    Server(Client, ConnectionManagerConfig),
    Cluster(ClusterClient, ClusterConfig),
}

impl Opener {
    fn connection(&self) -> RedisResult<Connection> {
        Ok(match self {
            Self::Server(client, config) => {
                Connection::Server(client.get_connection_manager_lazy(config.clone())?)
            }
            Self::Cluster(client, config) => {
                Connection::Cluster(client.get_pending_async_connection_with_config(config.clone()))
            }
        })
    }
}

impl Link {
    pub(crate) fn open(config: &RedisConfig) -> Result<Self, OpenError> {
        let first = config.urls.first().ok_or(OpenError::NoUrl)?;
        let wrong = |error: RedisError, url: &str| {
            let url = without_credentials(url);
            OpenError::Url { url, what: error.to_string() }
        };
        if let Some(url) = config.urls.iter().find(|url| is_sentinel(url)) {
            return Err(OpenError::Sentinel { url: without_credentials(url) });
        }
        let infos: Vec<_> = config
            .urls
            .iter()
            .map(|url| info(url, config).map_err(|error| wrong(error, url)))
            .collect::<Result<_, _>>()?;
        let certificates = TlsCertificates {
            client_tls: config
                .tls
                .client
                .clone()
                .map(|(client_cert, client_key)| ClientTlsConfig { client_cert, client_key }),
            root_cert: config.tls.roots.clone(),
        };
        let tls = first.starts_with("rediss://");
        // Every call has a deadline of its own; this bounds how long the library remembers a call that was given up.
        let response_timeout = config.deadline.saturating_mul(2).max(config.undo_deadline);
        let opener = if config.cluster {
            // A call that was cut off may be sent again: under its id it is carried out once.
            let mut builder = ClusterClient::builder(infos)
                .retries(3)
                // So that the error of a cluster that does not serve comes within the deadline.
                .min_retry_wait(1)
                .max_retry_wait(5);
            if tls {
                builder = builder.certs(certificates);
            }
            if let Some(username) = &config.username {
                builder = builder.username(username);
            }
            if let Some(password) = &config.password {
                builder = builder.password(password.reveal());
            }
            let client = builder.build().map_err(|error| wrong(error, first))?;
            let timeouts = ClusterConfig::new()
                .set_connection_timeout(config.connect_timeout)
                .set_response_timeout(response_timeout);
            Opener::Cluster(client, timeouts)
        } else {
            let [info] = <[ConnectionInfo; 1]>::try_from(infos)
                .map_err(|infos| OpenError::SeveralUrls { count: infos.len() })?;
            let client = if tls { Client::build_with_tls(info, certificates) } else { Client::open(info) };
            let client = client.map_err(|error| wrong(error, first))?;
            let config = ConnectionManagerConfig::new()
                .set_connection_timeout(Some(config.connect_timeout))
                // The breaker says when to try again; the library waits as briefly as it can.
                .set_number_of_retries(1)
                .set_max_delay(config.breaker.cool_down)
                .set_response_timeout(Some(response_timeout));
            Opener::Server(client, config)
        };
        let current = opener.connection().map_err(|error| wrong(error, first))?;
        Ok(Self { opener, current: Mutex::new(current) })
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        // Every change is one assignment.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection that calls go over now.
    pub(crate) fn current(&self) -> Connection {
        self.lock().clone()
    }

    /// Another connection, which does not take calls before it is [put in place](Self::put).
    pub(crate) fn fresh(&self) -> RedisResult<Connection> {
        self.opener.connection()
    }

    /// Has later calls go over `connection`; those under way end where they are.
    pub(crate) fn put(&self, connection: Connection) {
        *self.lock() = connection;
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Link")
    }
}

impl Connection {
    /// Sends a call, and once more if the connection turns out to be broken: while nobody uses it, nobody sees that, and the server
    /// may be back long since. Under its id a batch is carried out once.
    pub(crate) async fn call(&mut self, sha: &Sha, call: &Call) -> RedisResult<Value> {
        match self.attempt(sha, call).await {
            Err(error) if error.is_connection_dropped() && !error.is_connection_refusal() => {
                self.attempt(sha, call).await
            }
            answer => answer,
        }
    }

    /// By the name of the script, and with its text where the server does not know it.
    async fn attempt(&mut self, sha: &Sha, call: &Call) -> RedisResult<Value> {
        match self.send(&command("EVALSHA", &sha.hash, call)).await {
            Err(error) if error.code() == Some("NOSCRIPT") => {
                self.send(&command("EVAL", sha.text, call)).await
            }
            answer => answer,
        }
    }

    pub(crate) async fn send(&mut self, command: &Cmd) -> RedisResult<Value> {
        let reply = match self {
            Self::Server(connection) => connection.req_packed_command(command).await?,
            Self::Cluster(connection) => connection.req_packed_command(command).await?,
        };
        reply.extract_error()
    }
}

/// Whether an address is one of Redis Sentinel, which other clients write in several ways.
fn is_sentinel(url: &str) -> bool {
    url.split_once("://").is_some_and(|(scheme, _)| scheme.contains("sentinel"))
}

fn info(url: &str, config: &RedisConfig) -> RedisResult<ConnectionInfo> {
    let info = url.into_connection_info()?;
    let mut settings = info.redis_settings().clone();
    if let Some(username) = &config.username {
        settings = settings.set_username(username);
    }
    if let Some(password) = &config.password {
        settings = settings.set_password(password.reveal());
    }
    Ok(info.set_redis_settings(settings))
}

fn command(name: &str, script: &str, call: &Call) -> Cmd {
    let mut command = Cmd::new();
    command.arg(name).arg(script).arg(call.keys.len());
    for part in call.keys.iter().chain(&call.args) {
        command.arg(part.as_slice());
    }
    command
}
