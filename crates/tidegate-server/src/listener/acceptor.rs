//! The accept loop of one listener, which admits as many connections as the listener has slots.

use core::time::Duration;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidegate_net::Peer;
use tidegate_net::connections::{ConnectionSlot, ConnectionSlots, ListenerId};
use tidegate_net::tls::Tls;
use tidegate_policy::policy::ListenerRole;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::config::ServerConfig;
use crate::daemon::Daemon;
use crate::listener::connection_service::serve_accepted;
use crate::listener::listener_service::ListenerService;
use crate::listener::{AcceptedStream, Listener, Preambles};
use crate::records::log_interval::EveryTenSeconds;

/// How long accepting rests after the system had no file or memory for a connection.
const ACCEPT_REST: Duration = Duration::from_millis(50);

/// How often a full listener looks again for idle connections to close, while a new connection
/// waits for a place.
const EVICTION_INTERVAL: Duration = Duration::from_millis(100);

/// How many files the daemon opens beside connections of callers: those of the admin listener, the
/// store, the policy, the logs, and connections to Redis.
const OTHER_FILES: usize = 192;

/// How many connections callers may have: as many as the bound, and as the system's limit of open
/// files has room for. Each request of the reverse proxy takes a second file, for its upstream.
pub(crate) fn connections_max(config: &ServerConfig) -> usize {
    let bound = config.bounds.connections;
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let Some(files) = open_files_max(&limits) else { return bound };
    let room =
        files.saturating_sub(OTHER_FILES) / if config.has_listener(ListenerRole::Proxy) { 2 } else { 1 };
    let room = room.max(files / 4).max(1);
    if room >= bound {
        return bound;
    }
    tracing::warn!(
        "the limit of open files ({files}) has room for {room} of {bound} connections; raise it (LimitNOFILE= in systemd, \
         ulimit -n) or lower http.bounds.connections"
    );
    room
}

/// The soft limit of open files in the text of `/proc/self/limits`; `None` if the text has no such
/// row or says `unlimited`.
fn open_files_max(limits: &str) -> Option<usize> {
    let row = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    row.split_whitespace().next()?.parse().ok()
}

/// Accepts connections of one listener.
pub(crate) struct Acceptor {
    pub(crate) daemon: Arc<Daemon>,
    pub(crate) listener: Listener,
    pub(crate) serves: ListenerService,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) id: ListenerId,
    pub(crate) places: ConnectionSlots,
    /// The line that says that the listener is full.
    pub(crate) paused: EveryTenSeconds,
    /// The line that says that a connection could not be accepted.
    pub(crate) failed: EveryTenSeconds,
}

impl Acceptor {
    /// Accepts connections until `stop` is set.
    pub(crate) async fn run(self, mut stop: watch::Receiver<bool>) {
        let preambles = self.serves.proxy_protocol.then(|| Arc::new(Preambles::default()));
        loop {
            let accepted = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => return,
                accepted = self.listener.accept() => accepted,
            };
            let rest = match accepted {
                Ok(stream) => {
                    let place = tokio::select! {
                        biased;
                        _ = stop.wait_for(|stop| *stop) => return,
                        place = self.place() => place,
                    };
                    self.spawn(stream, place, preambles.clone());
                    continue;
                }
                Err(error) => {
                    if let Some(left_out) = self.failed.take() {
                        let listener = self.id.name;
                        tracing::warn!(%error, listener, left_out, "a connection could not be accepted");
                    }
                    tokio::time::sleep(ACCEPT_REST)
                }
            };
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return,
                () = rest => {}
            }
        }
    }

    /// A slot for the connection that was just accepted. While all slots are taken, idle
    /// connections are closed to free one.
    async fn place(&self) -> ConnectionSlot {
        if let Some(place) = self.places.try_take() {
            return place;
        }
        let shared = self.daemon.context.metrics.shared();
        shared.accept_pauses.fetch_add(1, Ordering::Relaxed);
        loop {
            let evicted =
                self.daemon.context.connections.evict(self.id, self.places.are_shared(), Instant::now());
            shared.connections_evicted.fetch_add(evicted.connections as u64, Ordering::Relaxed);
            if self.paused.take().is_some() {
                let max = self.places.max();
                let (peer, held) = evicted.largest.unzip();
                tracing::warn!(
                    listener = self.id.name,
                    max,
                    evicted = evicted.connections,
                    peer = peer.map(tracing::field::display),
                    held,
                    "connection limit reached; idle connections are closed to make room, first those of the peer with \
                     the most, and new ones wait in the kernel's queue"
                );
            }
            if let Ok(place) = tokio::time::timeout(EVICTION_INTERVAL, self.places.take()).await {
                return place;
            }
        }
    }

    /// Serves a connection in a task of its own.
    fn spawn(&self, mut stream: AcceptedStream, place: ConnectionSlot, preambles: Option<Arc<Preambles>>) {
        self.daemon.context.metrics.shared().connections_accepted.fetch_add(1, Ordering::Relaxed);
        let mut peer = Peer { address: stream.peer(), is_tls: self.tls.is_some(), is_named: true };
        let open = self.daemon.context.connections.accept(peer.address, self.id, place.is_shared);
        let (daemon, serves, tls) = (Arc::clone(&self.daemon), self.serves, self.tls.clone());
        tokio::spawn(async move {
            let _place = place;
            if let Some(preambles) = preambles {
                let is_trusted = daemon.proxy.state().trusts(peer.address);
                match preambles.read(&daemon.context, &mut stream, peer, is_trusted, &open.line).await {
                    Some(named) => peer = named,
                    None => return,
                }
            }
            match stream {
                AcceptedStream::Tcp(stream) => serve_accepted(daemon, serves, peer, stream, tls, open).await,
                AcceptedStream::Unix(stream) => serve_accepted(daemon, serves, peer, stream, tls, open).await,
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_of_open_files_is_read_and_none_is_no_limit() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max processes             93826                93826                processes \n\
                      Max open files            1024                 524288               files     \n";
        assert_eq!(open_files_max(limits), Some(1024));
        assert_eq!(open_files_max(&limits.replace("1024  ", "unlimited")), None);
        assert_eq!(open_files_max(""), None);
    }
}
