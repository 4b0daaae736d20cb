//! Where the engine is, and within which bounds it is asked.

use core::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Timestamp;

use crate::breaker::BreakerConfig;
use crate::marker::PROTOCOL;

/// How a [`RedisStore`](crate::RedisStore) reaches Redis or Valkey.
///
/// ```
/// # use std::time::Duration;
/// # use tidegate_store_redis::RedisConfig;
/// let mut config = RedisConfig::new(["redis://10.0.0.1:6379", "redis://10.0.0.2:6379"]);
/// config.deadline = Duration::from_millis(20);
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct RedisConfig {
    /// Addresses: `redis://host:port`, `rediss://` with TLS, `unix:///path`; a database as
    /// `redis://host/2`. One for a single server; for a cluster some of its nodes, the others are
    /// found.
    pub urls: Vec<String>,
    /// Whether it is a cluster. Default false.
    pub cluster: bool,
    /// The ACL user; `None` (default) is the server's default user. Wins over one in an address.
    pub username: Option<String>,
    /// The password of the user. Default none. Never shown.
    pub password: Option<Secret>,
    /// Certificates for `rediss://` addresses. Default: the machine's roots, no client certificate.
    pub tls: Tls,
    /// The prefix of every key, so that several fleets may share one server. Default
    /// `tidegate:`. It must not hold a brace.
    pub prefix: String,
    /// How long a batch may take, from the call until the answer; twice as long in a cluster, where
    /// one over several slots takes several calls. Default 50 ms.
    pub deadline: Duration,
    /// How long an [undo](tidegate_store::FleetStore::undo) may take, for which no caller waits.
    /// Default 2 s.
    pub undo_deadline: Duration,
    /// How long connecting may take. Default 1 s. Callers do not wait for it longer than for the
    /// deadline.
    pub connect_timeout: Duration,
    /// How many operations may wait to be sent. Default 32 768. One namespace may have as many of
    /// them as it leaves free: alone half of them, two a third each. Beyond that its batch is
    /// [`StoreError::Unavailable`](tidegate_store::StoreError::Unavailable), not sent.
    pub queue: usize,
    /// How many script calls are under way at once, in a cluster for each slot. Default 2; 0 counts
    /// as 1. Batches that arrive meanwhile are gathered and go in the next.
    pub calls: usize,
    /// How many operations go in one script call, which nothing else in the server interrupts.
    /// Default 256; a batch is never divided.
    pub gathered: usize,
    /// How long an answered batch is remembered, so that it is not carried out again when it is
    /// sent again, and can be undone. Default 1 minute, at most a day; each takes about 300 bytes
    /// of the server's memory for each operation.
    pub answers_kept: Duration,
    /// When batches are rejected because the store did not answer those before, and for how long.
    pub breaker: BreakerConfig,
    /// The reaction to a loss of the store's data. Default [`OnLoss::Report`].
    pub on_loss: OnLoss,
    /// Whose clock decides. Default [`Clock::Server`].
    pub clock: Clock,
    /// The lease protocol that this member speaks. Only tests have another number than this
    /// version's.
    #[doc(hidden)]
    pub protocol: u32,
}

impl From<&str> for RedisConfig {
    fn from(url: &str) -> Self {
        Self::new([url])
    }
}

impl From<String> for RedisConfig {
    fn from(url: String) -> Self {
        Self::new([url])
    }
}

impl RedisConfig {
    /// The longest [`RedisConfig::answers_kept`]: a day.
    pub const ANSWERS_KEPT_MAX: Duration = Duration::from_hours(24);

    /// How long a batch may take, whatever slots it has.
    pub(crate) fn batch_deadline(&self) -> Duration {
        if self.cluster { self.deadline.saturating_mul(2) } else { self.deadline }
    }

    /// The defaults for one server, or for the cluster that these are nodes of once
    /// [`RedisConfig::cluster`] is set.
    pub fn new(urls: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            urls: urls.into_iter().map(Into::into).collect(),
            cluster: false,
            username: None,
            password: None,
            tls: Tls::default(),
            prefix: "tidegate:".to_owned(),
            deadline: Duration::from_millis(50),
            undo_deadline: Duration::from_secs(2),
            connect_timeout: Duration::from_secs(1),
            queue: 1 << 15,
            calls: 2,
            gathered: 256,
            answers_kept: Duration::from_mins(1),
            breaker: BreakerConfig::default(),
            on_loss: OnLoss::default(),
            clock: Clock::Server,
            protocol: PROTOCOL,
        }
    }
}

impl fmt::Debug for RedisConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisConfig")
            .field("urls", &self.urls.iter().map(|url| without_credentials(url)).collect::<Vec<_>>())
            .field("cluster", &self.cluster)
            .field("username", &self.username)
            .field("password", &self.password)
            .field("tls", &self.tls)
            .field("prefix", &self.prefix)
            .field("deadline", &self.deadline)
            .field("undo_deadline", &self.undo_deadline)
            .field("queue", &self.queue)
            .field("calls", &self.calls)
            .field("gathered", &self.gathered)
            .field("answers_kept", &self.answers_kept)
            .field("breaker", &self.breaker)
            .field("on_loss", &self.on_loss)
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

/// An address as it may be shown.
pub(crate) fn without_credentials(url: &str) -> String {
    match (url.find("://"), url.rfind('@')) {
        (Some(scheme), Some(at)) if scheme + 3 <= at => format!("{}{}", &url[..scheme + 3], &url[at + 1..]),
        _ => url.to_owned(),
    }
}

/// A text that is never shown.
///
/// ```
/// # use tidegate_store_redis::{RedisConfig, Secret};
/// let mut config = RedisConfig::new(["rediss://store.internal:6380"]);
/// config.username = Some("tidegate".to_owned());
/// config.password = Some(Secret::new("correct horse"));
/// assert!(!format!("{config:?}").contains("horse"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// Certificates, as PEM.
///
/// ```
/// # use tidegate_store_redis::{RedisConfig, RedisStore, Tls};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let mut config = RedisConfig::new(["rediss://store.internal:6380"]);
/// config.tls = Tls { roots: Some(b"not a certificate".to_vec()), client: None };
/// // Certificates are read when the store is opened.
/// let error = RedisStore::open(config).unwrap_err();
/// assert!(error.to_string().contains("rediss://store.internal:6380 or its certificates"));
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Tls {
    /// The roots the server's certificate must come from; `None` (default) are the machine's.
    pub roots: Option<Vec<u8>>,
    /// The certificate and the key this member shows; `None` (default) shows none.
    pub client: Option<(Vec<u8>, Vec<u8>)>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (roots, client) = (self.roots.is_some(), self.client.is_some());
        f.debug_struct("Tls").field("own_roots", &roots).field("client_certificate", &client).finish()
    }
}

/// The treatment of batches when the store is found to have lost its data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLoss {
    /// They are decided on the data that is left, at first none;
    /// [`stats`](tidegate_store::FleetStore::stats) reports the loss.
    #[default]
    Report,
    /// They are [`StoreError::DataLost`](tidegate_store::StoreError::DataLost) until a member
    /// [acknowledges](tidegate_store::FleetStore::acknowledge_loss) the loss.
    Refuse,
}

/// Whose clock decides.
#[derive(Clone, Default)]
pub enum Clock {
    /// The server's, which all members share.
    #[default]
    Server,
    /// This one, for tests and simulations. Counters then do not expire by themselves. Read once a
    /// call; whole microseconds count, and 1970 does not.
    Given(Arc<dyn Fn() -> Timestamp + Send + Sync>),
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Server => "Server",
            Self::Given(_) => "Given",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_secret_is_shown() {
        let mut config = RedisConfig::new(["redis://ada:hunter2@store:6379/1", "rediss://store:6380"]);
        config.password = Some(Secret::new("hunter2"));
        config.tls.client = Some((b"cert".to_vec(), b"hunter2".to_vec()));
        let shown = format!("{config:?}");
        assert!(!shown.contains("hunter2") && !shown.contains("ada"), "{shown}");
        assert!(shown.contains("redis://store:6379/1") && shown.contains("rediss://store:6380"), "{shown}");
    }
}
