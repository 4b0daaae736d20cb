//! The link to the store: one connection that all callers share, and its replacement.
//!
//! A connection that failed is never used again. The next call opens another one; while the breaker
//! is open that is the next probe, so a server that answers again is reached by a connection made
//! after it does. A connection over which nothing comes back (the machine behind the address was
//! replaced, packets are dropped, the process is frozen) is replaced by one that the
//! [probe](crate::probe) has seen work.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redis::cluster::ClusterClient;
use redis::{Cmd, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisError, Value};
use tokio::runtime::Handle;

use crate::call::Call;
use crate::config::{RedisConfig, without_credentials};
use crate::connect::{Access, AccessNumber, tls};
use crate::dial::{Dial, DialError, Target};
use crate::error::OpenError;
use crate::script::Sha;

/// Where calls are sent.
pub(crate) struct Link {
    target: Arc<Target>,
    handle: Handle,
    current: Mutex<Arc<Dial>>,
}

impl Link {
    pub(crate) fn open(config: &RedisConfig, handle: Handle) -> Result<Self, OpenError> {
        let target = Arc::new(target(config)?);
        let current = Mutex::new(Arc::new(Dial::new(Arc::clone(&target), handle.clone())));
        Ok(Self { target, handle, current })
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Dial>> {
        // Every change is one assignment.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection that calls go over now.
    fn current(&self) -> Arc<Dial> {
        Arc::clone(&self.lock())
    }

    /// Another connection, which does not take calls before it is [put in place](Self::put).
    pub(crate) fn fresh(&self) -> Arc<Dial> {
        Arc::new(Dial::new(Arc::clone(&self.target), self.handle.clone()))
    }

    /// Has later calls go over `connection`; those under way end where they are.
    pub(crate) fn put(&self, connection: Arc<Dial>) {
        *self.lock() = connection;
    }

    /// Has later calls go over another connection than `failed`, unless they do already.
    fn replace(&self, failed: &Arc<Dial>) {
        let mut current = self.lock();
        if Arc::ptr_eq(&current, failed) {
            *current = self.fresh();
        }
    }

    /// Sends a call, and once more if the connection turns out to be broken: while nobody uses it,
    /// nobody sees that, and the server may be back long since. Under its id a batch is carried out
    /// once.
    pub(crate) async fn call(&self, sha: &Sha, call: &Call) -> Result<Value, DialError> {
        let connection = self.current();
        let answer = self.settled(&connection, connection.call(sha, call).await);
        match answer {
            Err(DialError::Sent(error)) if error.is_connection_dropped() && !is_protocol_error(&error) => {
                let connection = self.current();
                self.settled(&connection, connection.call(sha, call).await)
            }
            answer => answer,
        }
    }

    /// Sends one command.
    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, DialError> {
        let connection = self.current();
        self.settled(&connection, connection.send(command).await)
    }

    /// Replaces a connection that cannot take another call.
    fn settled(&self, connection: &Arc<Dial>, answer: Result<Value, DialError>) -> Result<Value, DialError> {
        let is_over = match &answer {
            Ok(_) => false,
            Err(DialError::NotConnected(_)) => true,
            // The library replaces the connections to the nodes of a cluster.
            Err(DialError::Sent(error)) => {
                !matches!(*self.target, Target::Cluster(..))
                    && (error.is_unrecoverable_error() || error.is_io_error() && !error.is_timeout())
            }
        };
        if is_over {
            self.replace(connection);
        }
        answer
    }
}

/// Whether a connection was ended because of what the server sent.
fn is_protocol_error(error: &RedisError) -> bool {
    crate::error::frame_error(error).is_some()
}

tidegate_core::debug_fields!(Link {});

fn target(config: &RedisConfig) -> Result<Target, OpenError> {
    let first = config.urls.first().ok_or(OpenError::NoUrl)?;
    let wrong = |what: String, url: &str| OpenError::Url { url: without_credentials(url), what };
    if let Some(url) = config.urls.iter().find(|url| is_sentinel(url)) {
        return Err(OpenError::Sentinel { url: without_credentials(url) });
    }
    let mut infos = Vec::with_capacity(config.urls.len());
    for url in &config.urls {
        let info = url.as_str().into_connection_info().map_err(|error| wrong(error.to_string(), url))?;
        if matches!(info.addr(), ConnectionAddr::TcpTls { insecure: true, .. }) {
            let what = "`#insecure` would trust any server; set `tls.ca` to its certificate authority";
            return Err(wrong(what.to_owned(), url));
        }
        infos.push(info);
    }
    let has_tls = infos.iter().any(|info| matches!(info.addr(), ConnectionAddr::TcpTls { .. }));
    let tls = if has_tls { Some(tls(&config.tls).map_err(|what| wrong(what, first))?) } else { None };
    // Those of the configuration win over those in an address.
    let of_address = |text: Option<&str>| text.map(ToOwned::to_owned);
    let settings = infos[0].redis_settings();
    let username = config.username.clone().or_else(|| of_address(settings.username()));
    let password =
        config.password.clone().or_else(|| of_address(settings.password()).map(crate::config::Secret::new));
    // Every call has a deadline of its own; this bounds how long the library remembers a call that
    // was given up.
    let response_timeout = config.deadline.saturating_mul(2).max(config.undo_deadline);
    let access = Arc::new(Access::new(username, password, tls, config.connect_timeout, response_timeout));
    if !config.cluster {
        let [info] = <[ConnectionInfo; 1]>::try_from(infos)
            .map_err(|infos| OpenError::SeveralUrls { count: infos.len() })?;
        return Ok(Target::Server(Box::new(info), access));
    }
    let number = AccessNumber::new(access);
    // A call that was cut off may be sent again: under its id it is carried out once.
    let client = ClusterClient::builder(infos)
        .username(number.username())
        .retries(3)
        // So that the error of a cluster that does not serve comes within the deadline.
        .min_retry_wait(1)
        .max_retry_wait(5)
        .connection_timeout(config.connect_timeout)
        .response_timeout(response_timeout)
        .build()
        .map_err(|error| wrong(error.to_string(), first))?;
    Ok(Target::Cluster(Box::new(client), number))
}

/// Whether an address is one of Redis Sentinel, which other clients write in several ways.
fn is_sentinel(url: &str) -> bool {
    url.split_once("://").is_some_and(|(scheme, _)| scheme.contains("sentinel"))
}
