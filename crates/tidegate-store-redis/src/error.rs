//! Why the engine could not be asked, and what to do about it.

use redis::{ErrorKind, RedisError, ServerErrorKind};
use tidegate::Timestamp;
use tidegate_store::StoreError;

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
    /// An address that is none, or certificates that cannot be read.
    #[error(
        "the address {url} or its certificates cannot be used: {what}; write redis://host:port, or rediss:// for TLS"
    )]
    Url {
        /// The address, without credentials.
        url: String,
        /// What is wrong.
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
    #[error("the machine gives no random numbers; see its entropy source")]
    NoRandomness(#[source] getrandom::Error),
}

/// What went wrong underneath a [`StoreError::Unavailable`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The breaker is open.
    #[error(
        "it did not answer {failures} times in a row and is left alone for up to {cool_down:?}; it is tried again by itself"
    )]
    LeftAlone {
        /// How often.
        failures: u32,
        /// The longest it is left alone.
        cool_down: std::time::Duration,
    },
    /// Too much waits to be sent.
    #[error(
        "{queue} operations wait to be sent to it already; it is too slow for the traffic, or raise `queue`"
    )]
    QueueFull {
        /// The bound.
        queue: usize,
    },
    /// The deadline passed before it was sent.
    #[error("it could not be sent within {deadline:?}; the calls before it took too long")]
    NotSent {
        /// The bound.
        deadline: std::time::Duration,
    },
    /// The member is closing down.
    #[error("the runtime of the store has stopped")]
    Stopped,
    /// Something the server or the connection said.
    #[error("{advice}")]
    Said {
        /// What to do.
        advice: &'static str,
        /// What was said.
        #[source]
        source: RedisError,
    },
}

/// An error of the client library as one of stores. `at` is where it came from, `now` about what the server's clock shows.
pub(crate) fn told(error: RedisError, at: &str, now: Timestamp) -> StoreError {
    // A full server says so before anything is written.
    if error.code() == Some("OOM") {
        return StoreError::Full { until: now.saturating_add(std::time::Duration::from_secs(1)) };
    }
    let (sent, advice) = advice(&error);
    let source = Fault::Said { advice, source: error };
    StoreError::Unavailable { at: at.to_owned(), sent, source: Some(Box::new(source)) }
}

/// Whether the batch may have taken effect, and what to do.
fn advice(error: &RedisError) -> (bool, &'static str) {
    if error.is_connection_refusal() {
        return (false, "nothing listens there; start the server, or correct the address");
    }
    // Who has not said who they are may send but a few short arguments.
    if error.detail().is_some_and(|detail| detail.contains("unauthenticated")) {
        return (
            false,
            "it asks for a password; set `password`, and `username` if it is not the default user's",
        );
    }
    match (error.kind(), error.code()) {
        (ErrorKind::AuthenticationFailed, _) | (_, Some("WRONGPASS" | "NOAUTH")) => {
            (false, "it does not take the user and password; correct `username` and `password`")
        }
        // A script that may not write has done nothing before, unless it may do some of what it needs.
        (_, Some("NOPERM")) => (
            true,
            "the user may not do what the script does; allow its keys, +evalsha, +eval, and reading and writing of strings, hashes, lists and sorted sets",
        ),
        (ErrorKind::Server(ServerErrorKind::ReadOnly), _) | (_, Some("READONLY")) => {
            (false, "it is a replica; name the primary, or wait for the failover to end")
        }
        (_, Some("LOADING")) => (false, "it is reading its data from disk; it serves when that has ended"),
        (_, Some("BUSY")) => {
            (false, "a script of somebody else is running on it for too long; SCRIPT KILL ends it")
        }
        (_, Some("CLUSTERDOWN")) => (false, "the cluster has no primary for the slot; see CLUSTER INFO"),
        (_, Some("MASTERDOWN" | "TRYAGAIN" | "CROSSSLOT" | "MOVED" | "ASK")) => {
            (false, "the slot is on its way to another node; it is followed by itself")
        }
        (_, Some("MISCONF" | "NOREPLICAS")) => {
            (false, "it takes no writes, since it cannot save or has too few replicas; see its log")
        }
        (_, Some("WRONGTYPE")) => {
            (true, "something else uses keys under the prefix; choose another `prefix`")
        }
        (ErrorKind::ClusterConnectionNotFound, _) => (
            false,
            "no node of the cluster can be reached; see whether they run, and the addresses they announce",
        ),
        (ErrorKind::InvalidClientConfig, _) => (false, "the addresses or certificates cannot be used"),
        (ErrorKind::Server(_) | ErrorKind::Extension, _) => {
            (true, "the server could not run the script; see what it says")
        }
        _ => (true, "the connection broke; it is opened again by itself"),
    }
}
