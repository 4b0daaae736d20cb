//! The watch for a reset after a connection has ended.
//!
//! A client that closes its socket ends its output, which ends the connection here. Its system
//! resets the connection only when it gets the answer: a round trip later, when the stream has been
//! dropped. So the socket stays open for the rest of [`RESET_WINDOW`], within the slot of its
//! connection, and is given up when the daemon wants the slot back.

use std::sync::Arc;

use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::RESET_WINDOW;
use crate::connections::ConnectionActivity;

impl ConnectionActivity {
    /// Waits for a reset of a connection whose stream has been dropped, as long as one concerns a
    /// delivery, and ends every delivery.
    pub async fn watch_reset(self: &Arc<Self>) {
        if !self.has_deliveries() {
            return;
        }
        let (socket, last) = {
            let mut guard = self.open_deliveries();
            let open = guard.get_or_insert_default();
            (open.socket.take(), open.last_watched(Instant::now()))
        };
        let mut is_reset = false;
        if let (Some(socket), Some(last)) = (socket, last)
            // Only its readiness is asked for, so that it may be a Unix socket too. An error: the
            // system has no room for another watch.
            && let Ok(socket) = TcpStream::from_std(socket.into())
        {
            is_reset = tokio::select! {
                ready = socket.ready(Interest::ERROR) => ready.is_ok(),
                () = tokio::time::sleep_until(last + RESET_WINDOW) => false,
                () = self.until_commanded() => false,
            };
        }
        self.end_written(is_reset);
    }
}
