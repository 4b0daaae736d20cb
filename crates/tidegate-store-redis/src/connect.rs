//! Connecting to one server: its addresses, TCP, TLS, and the greeting.
//!
//! The client library can connect by itself. It is given a stream instead, because the replies on
//! that stream are bounded (see [`BoundedStream`]) and because a peer that is gone has to show: TCP
//! probes it, and gives up on bytes that nobody acknowledges.

use core::fmt;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster_async::Connect;
use redis::io::tcp::socket2::{SockRef, TcpKeepalive};
use redis::{
    AsyncConnectionConfig, Cmd, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, Pipeline,
    RedisConnectionInfo, RedisError, RedisFuture, RedisResult, Value,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::bounded_stream::{BoundedStream, Greeted};
use crate::config::{Secret, Tls};

/// After how much silence TCP probes whether the peer is still there, and how often it does then.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(5);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(1);
const KEEPALIVE_PROBES: u32 = 3;

/// For how long bytes may stay unacknowledged before the connection is given up.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(4);

/// How many addresses of one name are tried; the resolver's first ones.
const ADDRESSES_MAX: usize = 8;

/// Everything it takes to connect beside an address.
pub(crate) struct Access {
    username: Option<String>,
    password: Option<Secret>,
    tls: Option<Arc<ClientConfig>>,
    connect_timeout: Duration,
    response_timeout: Duration,
}

tidegate_core::debug_fields!(Access {});

impl Access {
    pub(crate) fn new(
        username: Option<String>,
        password: Option<Secret>,
        tls: Option<Arc<ClientConfig>>,
        connect_timeout: Duration,
        response_timeout: Duration,
    ) -> Self {
        Self { username, password, tls, connect_timeout, response_timeout }
    }

    /// Connects and greets, within the connect timeout.
    pub(crate) async fn connect(&self, info: &ConnectionInfo) -> RedisResult<ServerConnection> {
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(self.response_timeout));
        let connecting = self.connect_with(info.addr(), self.settings(info.redis_settings()), config);
        match timeout(self.connect_timeout, connecting).await {
            Ok(connected) => connected,
            Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
        }
    }

    /// The settings of an address, with the user and password of this store.
    fn settings(&self, settings: &RedisConnectionInfo) -> RedisConnectionInfo {
        let mut settings = settings.clone();
        if let Some(username) = &self.username {
            settings = settings.set_username(username);
        }
        if let Some(password) = &self.password {
            settings = settings.set_password(password.reveal());
        }
        settings
    }

    async fn connect_with(
        &self,
        address: &ConnectionAddr,
        settings: RedisConnectionInfo,
        config: AsyncConnectionConfig,
    ) -> RedisResult<ServerConnection> {
        match address {
            ConnectionAddr::Tcp(host, port) => greet(connect_tcp(host, *port).await?, settings, config).await,
            ConnectionAddr::TcpTls { host, port, .. } => {
                let Some(tls) = &self.tls else {
                    return Err(io::Error::new(io::ErrorKind::Unsupported, "no TLS is configured").into());
                };
                let name = ServerName::try_from(host.clone())
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
                let stream = connect_tcp(host, *port).await?;
                let stream = TlsConnector::from(Arc::clone(tls)).connect(name, stream).await?;
                greet(stream, settings, config).await
            }
            ConnectionAddr::Unix(path) => greet(UnixStream::connect(path).await?, settings, config).await,
            _ => Err(io::Error::new(io::ErrorKind::Unsupported, "no such kind of address").into()),
        }
    }
}

/// TLS for `rediss://` addresses, or what is wrong with its certificates.
pub(crate) fn tls(config: &Tls) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    if let Some(pem) = &config.roots {
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| format!("the root certificates: {error}"))?;
            roots.add(certificate).map_err(|error| format!("the root certificates: {error}"))?;
        }
    } else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    if roots.is_empty() {
        return Err("there is no root certificate to trust".to_owned());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let tls = match &config.client {
        None => builder.with_no_client_auth(),
        Some((certificates, key)) => {
            let wrong = |error: &dyn fmt::Display| format!("the client certificate: {error}");
            let certificates = CertificateDer::pem_slice_iter(certificates)
                .collect::<Result<_, _>>()
                .map_err(|e| wrong(&e))?;
            let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| wrong(&error))?;
            builder.with_client_auth_cert(certificates, key).map_err(|error| wrong(&error))?
        }
    };
    Ok(Arc::new(tls))
}

/// The first of the host's addresses that accepts.
async fn connect_tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let addresses = lookup_host((host, port)).await?.take(ADDRESSES_MAX);
    let mut attempts: JoinSet<_> = addresses.map(connect_to).collect();
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    while let Some(attempt) = attempts.join_next().await {
        match attempt {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => failure = error,
            Err(error) => failure = io::Error::other(error),
        }
    }
    Err(failure)
}

async fn connect_to(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let socket = SockRef::from(&stream);
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_AFTER).with_interval(KEEPALIVE_EVERY);
    socket.set_tcp_keepalive(&keepalive.with_retries(KEEPALIVE_PROBES))?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED_MAX))?;
    Ok(stream)
}

async fn greet(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    settings: RedisConnectionInfo,
    config: AsyncConnectionConfig,
) -> RedisResult<ServerConnection> {
    let greeted = Greeted::default();
    let stream = BoundedStream::new(stream, greeted.clone());
    let (commands, driver) = MultiplexedConnection::new_with_config(&settings, stream, config).await?;
    greeted.set();
    let driver = Arc::new(Driver(tokio::spawn(driver).abort_handle()));
    Ok(ServerConnection { commands, _driver: driver })
}

/// A connection that has been greeted. It closes when its last clone is dropped, whatever the
/// server still owes.
#[derive(Clone, Debug)]
pub(crate) struct ServerConnection {
    commands: MultiplexedConnection,
    _driver: Arc<Driver>,
}

/// The task that reads and writes.
#[derive(Debug)]
struct Driver(AbortHandle);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl ConnectionLike for ServerConnection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        self.commands.req_packed_command(command)
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.commands.req_packed_commands(pipeline, offset, count)
    }

    fn get_db(&self) -> i64 {
        self.commands.get_db()
    }
}

/// The access of every store to a cluster in this process, by number.
///
/// The client library makes the connections to the nodes of a cluster, by a function that is given
/// an address and settings and nothing of ours. The number stands in the settings as the name of
/// the user.
static ACCESSES: Mutex<BTreeMap<u64, Weak<Access>>> = Mutex::new(BTreeMap::new());

fn accesses() -> MutexGuard<'static, BTreeMap<u64, Weak<Access>>> {
    // Every change is one insertion or removal.
    ACCESSES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The place of one access among those of this process, for as long as it lives.
#[derive(Debug)]
pub(crate) struct AccessNumber {
    number: u64,
    _access: Arc<Access>,
}

impl AccessNumber {
    pub(crate) fn new(access: Arc<Access>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // Only that no two are the same counts.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        accesses().insert(number, Arc::downgrade(&access));
        Self { number, _access: access }
    }

    /// The name of the user under which the library is to connect.
    pub(crate) fn username(&self) -> String {
        self.number.to_string()
    }
}

impl Drop for AccessNumber {
    fn drop(&mut self) {
        accesses().remove(&self.number);
    }
}

impl Connect for ServerConnection {
    fn connect_with_config<'a, T>(info: T, config: AsyncConnectionConfig) -> RedisFuture<'a, Self>
    where
        T: IntoConnectionInfo + Send + 'a,
    {
        Box::pin(async move {
            let info = info.into_connection_info()?;
            let number = info.redis_settings().username().and_then(|name| name.parse().ok());
            let access = number.and_then(|number: u64| accesses().get(&number)?.upgrade());
            let Some(access) = access else {
                return Err(RedisError::from(io::Error::other("the store has been closed")));
            };
            let settings =
                access.settings(&RedisConnectionInfo::default().set_db(info.redis_settings().db()));
            let config = config.set_response_timeout(Some(access.response_timeout));
            let connecting = access.connect_with(info.addr(), settings, config);
            match timeout(access.connect_timeout, connecting).await {
                Ok(connected) => connected,
                Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
            }
        })
    }
}
