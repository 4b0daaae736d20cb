//! Why Redis could not be asked, and what to do about it.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use redis::{ErrorKind, RedisError, ServerErrorKind};
use tidegate_core::display::{HumanDuration, Quantity};
use tidegate_store::{Loss, StoreError};

use crate::dial::DialError;
use crate::resp_frame::FrameError;

/// Why a store cannot be opened. Whether the engine can be reached shows with the first batch.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// No address.
    #[error("no address of Redis or Valkey; name at least one, such as redis://127.0.0.1:6379")]
    NoUrl,
    /// Several addresses without a cluster.
    #[error("{count} addresses of one server; name one, or set `cluster`")]
    SeveralUrls {
        /// How many.
        count: usize,
    },
    /// An address of Redis Sentinel.
    #[error(
        "the address {url} is of Redis Sentinel, which is not supported; name the primary by an address that follows it, such as a DNS name or a virtual IP, or use a cluster"
    )]
    Sentinel {
        /// The address, without credentials.
        url: String,
    },
    /// An invalid address, or certificates that cannot be read.
    #[error(
        "the address {url} or its certificates cannot be used: {what}; write redis://host:port, or rediss:// for TLS"
    )]
    Url {
        /// The address, without credentials.
        url: String,
        /// The defect of the address.
        what: String,
    },
    /// A prefix with a brace.
    #[error(
        "the prefix \"{prefix}\" holds a brace, which would put all keys of a cluster into one slot; leave braces out"
    )]
    Prefix {
        /// The prefix.
        prefix: String,
    },
    /// Nothing runs the tasks of the store.
    #[error("a store in Redis needs a tokio runtime; open it within one")]
    NoRuntime,
    /// No random numbers for the marker of the epoch.
    #[error("cannot read random bytes from the operating system")]
    NoRandomness(#[source] getrandom::Error),
}

/// The cause of a [`StoreError::Unavailable`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The circuit breaker is open.
    #[error(
        "the circuit breaker is open after {calls} in a row; the store is probed every {interval} and used again when it answers; the last call failed: {last}",
        calls = Quantity(*failures, "failed call"),
        interval = HumanDuration(*every)
    )]
    CircuitOpen {
        /// After how many failures it opens.
        failures: u32,
        /// How often the store is asked at least.
        every: Duration,
        /// Why the last call failed.
        last: String,
    },
    /// The marker in the store has a higher lease protocol than this member.
    #[error(
        "the store is used by a newer lease protocol ({store}, this member speaks {member}); upgrade this member"
    )]
    NewerProtocol {
        /// The protocol of the store.
        store: u32,
        /// The protocol of this member.
        member: u32,
    },
    /// Too much waits to be sent.
    #[error(
        "of {queue} operations that may wait to be sent to it, this namespace has as many as it leaves free for others, or all wait; it is too slow for the traffic, or raise `queue`"
    )]
    QueueFull {
        /// The bound.
        queue: usize,
    },
    /// The deadline passed before it was sent.
    #[error("it could not be sent within {}; the calls before it took too long", HumanDuration(*deadline))]
    NotSent {
        /// The bound.
        deadline: Duration,
    },
    /// A key of the batch that the script cannot read. Nothing was charged.
    #[error(
        "the key \"{key}\" {reason}; something else writes under the prefix: type `DEL \"{key}\"` in redis-cli, which forgets what it counts, or choose another `prefix`"
    )]
    Key {
        /// The key, as redis-cli takes it between double quotes.
        key: String,
        /// The defect of the key.
        reason: KeyFault,
    },
    /// The hash of one kind of notes holds more than any fleet writes.
    #[error(
        "it has {notes} notes of one kind or more ({bytes} bytes), which no fleet writes; see which client writes under the prefix, and delete the keys, or choose another `prefix`"
    )]
    TooManyNotes {
        /// How many were read.
        notes: usize,
        /// Their names and values.
        bytes: usize,
    },
    /// The reply is RESP, and none that the script gives.
    #[error(
        "the server's reply is not one of the script's; see whether the address is that of Redis or Valkey, and whether something else writes under the prefix"
    )]
    Unreadable,
    /// Every attempt of one call met another epoch or another window.
    #[error("the store's epoch or clock changed again and again during one call; the next call follows it")]
    Unsettled,
    /// The member is closing down.
    #[error("the runtime of the store has stopped")]
    Stopped,
    /// Something the server or the connection said.
    #[error("{advice}")]
    Said {
        /// The remedy.
        advice: &'static str,
        /// The text of the server.
        #[source]
        source: RedisError,
    },
}

/// Why the script cannot read a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFault {
    /// It has another type than this store writes.
    #[error("has another type than this store writes (WRONGTYPE)")]
    WrongType,
    /// Its bytes are too short, too long, or of no algorithm.
    #[error("holds bytes that this store did not write")]
    Damaged,
}

/// Why a call brought no answers.
#[derive(Debug)]
pub(crate) enum CallError {
    /// No answer within this time.
    Timeout(Duration),
    /// There was no connection to send it over.
    NotConnected(RedisError),
    Said(RedisError),
    Lost(Loss),
    NewerProtocol {
        store: u32,
        member: u32,
    },
    Unreadable,
    Unsettled,
}

impl CallError {
    /// Whether the store fails, rather than a batch that it was asked to carry out.
    pub(crate) fn is_of_the_store(&self) -> bool {
        match self {
            Self::Timeout(_) | Self::NotConnected(_) | Self::NewerProtocol { .. } | Self::Unreadable => true,
            Self::Lost(_) | Self::Unsettled => false,
            Self::Said(error) if is_refused_connection(error) => true,
            Self::Said(error) => match error.kind() {
                ErrorKind::Server(ServerErrorKind::ResponseError | ServerErrorKind::NoPerm) => false,
                ErrorKind::Extension => matches!(error.code(), Some("BUSY" | "MISCONF" | "NOREPLICAS")),
                _ => true,
            },
        }
    }

    /// Whether another connection to the same address may answer.
    pub(crate) fn is_of_the_connection(&self) -> bool {
        match self {
            Self::Timeout(_) | Self::NotConnected(_) | Self::Unreadable => true,
            Self::Said(error) => {
                is_refused_connection(error)
                    || !matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension)
                    || error.code() == Some("READONLY")
            }
            Self::Lost(_) | Self::NewerProtocol { .. } | Self::Unsettled => false,
        }
    }

    /// Whether one of the batches of the call may be to blame while the others could be carried
    /// out.
    pub(crate) fn is_of_a_batch(&self) -> bool {
        let Self::Said(error) = self else { return false };
        // The script itself fails on values that it did not write.
        let is_script_error = error.kind() == ErrorKind::Server(ServerErrorKind::ResponseError)
            && detail_has(error, "user_script");
        error.code() == Some("WRONGTYPE") || is_script_error
    }
}

impl From<DialError> for CallError {
    fn from(error: DialError) -> Self {
        match error {
            DialError::NotConnected(error) => Self::NotConnected(error),
            DialError::Sent(error) => Self::Said(error),
        }
    }
}

/// Why the bytes of the server were no reply, if that is what ended the connection.
pub(crate) fn frame_error(error: &RedisError) -> Option<&FrameError> {
    let cause = error.source()?.downcast_ref::<Arc<dyn Error + Send + Sync>>()?;
    cause.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref()
}

/// Whether the server did not let a connection in.
pub(crate) fn is_refused_connection(error: &RedisError) -> bool {
    error.kind() == ErrorKind::AuthenticationFailed
        || matches!(error.code(), Some("WRONGPASS" | "NOAUTH"))
        || detail_has(error, "max number of clients")
}

fn detail_has(error: &RedisError, text: &str) -> bool {
    error.detail().is_some_and(|detail| detail.contains(text))
}

/// An error of the client library as one of stores. `at` is where it came from, `sent` whether a
/// batch was sent before.
pub(crate) fn said(error: RedisError, sent: bool, at: &str) -> StoreError {
    let (may_have_taken_effect, advice) = advice(&error);
    let source = Fault::Said { advice, source: error };
    StoreError::Unavailable {
        at: at.to_owned(),
        sent: sent && may_have_taken_effect,
        source: Some(Box::new(source)),
    }
}

/// Whether the batch may have taken effect, and what to do.
fn advice(error: &RedisError) -> (bool, &'static str) {
    if error.is_connection_refusal() {
        return (false, "nothing listens there; start the server, or correct the address");
    }
    match frame_error(error) {
        Some(FrameError::NotResp { is_tls: true, .. }) => {
            return (true, "the server speaks TLS there; write rediss:// in the address");
        }
        Some(FrameError::NotResp { .. }) => {
            return (true, "something else than Redis or Valkey answers there; correct the address");
        }
        Some(_) => {
            return (
                true,
                "the connection was closed for a reply that no Redis gives; see what answers there",
            );
        }
        None => {}
    }
    if error.is_timeout() {
        return (true, "it accepts connections and does not answer; see its log, and what lies in between");
    }
    // A connection that has not authenticated may send but a few short arguments.
    if detail_has(error, "unauthenticated") {
        return (
            false,
            "it asks for a password; set `password`, and `username` if it is not the default user's",
        );
    }
    if detail_has(error, "max number of clients") {
        return (
            false,
            "it has as many clients as its `maxclients` allows; raise that, or close other clients",
        );
    }
    if detail_has(error, "unknown command") {
        return (
            false,
            "it runs no scripts, as Redis Sentinel does not; name the primary itself, since Sentinel is not supported",
        );
    }
    match (error.kind(), error.code()) {
        (ErrorKind::AuthenticationFailed, _) | (_, Some("WRONGPASS" | "NOAUTH")) => {
            (false, "it does not take the user and password; correct `username` and `password`")
        }
        // The script writes only after it has decided everything, and its first write is the one
        // that is refused.
        (_, Some("OOM")) => (
            false,
            "it is out of memory (OOM); raise its `maxmemory`, keep `noeviction`, and see what else it holds",
        ),
        // A script that may not write has done nothing before, unless it may do some of what it
        // needs.
        (_, Some("NOPERM")) => (
            true,
            "the user may not do what the script does; allow its keys, +evalsha, +eval, and reading and writing of strings, hashes, lists and sorted sets",
        ),
        (ErrorKind::Server(ServerErrorKind::ReadOnly), _) | (_, Some("READONLY")) => {
            (false, "it is a replica (READONLY); name the primary, or wait for the failover to end")
        }
        (_, Some("LOADING")) => {
            (false, "it is reading its data from disk (LOADING); it serves when that has ended")
        }
        (_, Some("BUSY")) => (
            false,
            "another client's script has been running on it for too long (BUSY); SCRIPT KILL ends that script",
        ),
        (_, Some("CLUSTERDOWN")) => (
            false,
            "the cluster has no primary for the slot (CLUSTERDOWN); see CLUSTER INFO, and start or fail over the missing node",
        ),
        (_, Some("CROSSSLOT")) => (false, "it is a node of a cluster; set `cluster: true`"),
        (_, Some("MASTERDOWN" | "TRYAGAIN" | "MOVED" | "ASK")) => {
            (false, "the slot is moving to another node; the next call follows it")
        }
        (_, Some("MISCONF")) => (
            false,
            "it takes no writes because it could not save its data (MISCONF); see its log, and free its disk or correct its `dir`",
        ),
        (_, Some("NOREPLICAS")) => (
            false,
            "it takes no writes because it has too few replicas (NOREPLICAS); start a replica, or lower `min-replicas-to-write`",
        ),
        (_, Some("WRONGTYPE")) => (
            true,
            "a key under the prefix has another type than this store writes (WRONGTYPE); something else uses the prefix: delete the key, or choose another `prefix`",
        ),
        (ErrorKind::ClusterConnectionNotFound, _) => (
            false,
            "no node of the cluster can be reached; see whether they run, and the addresses they announce",
        ),
        (ErrorKind::InvalidClientConfig, _) => (false, "the addresses or certificates cannot be used"),
        (ErrorKind::Server(_) | ErrorKind::Extension, _) => {
            (true, "the server could not run the script; see what it says")
        }
        _ => (
            true,
            "the connection broke and another one is opened; if that goes on, see the server's log, its `maxclients`, and what lies in between",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_counts_are_told_as_people_read_them() {
        let (every, last) = (Duration::from_millis(250), "no answer".to_owned());
        let open = Fault::CircuitOpen { failures: 1, every, last }.to_string();
        assert!(
            open.contains("after 1 failed call in a row; the store is probed every 250 ms and"),
            "{open}"
        );
        let late = Fault::NotSent { deadline: Duration::from_secs(90) }.to_string();
        assert!(late.contains("within 1 min 30 s;"), "{late}");
    }
}
