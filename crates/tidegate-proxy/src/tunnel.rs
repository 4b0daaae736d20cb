//! Connections that have changed their protocol, such as to WebSocket: bytes pass both ways until
//! one side closes.

use core::future::poll_fn;
use core::sync::atomic::Ordering;
use core::task::Poll;
use core::time::Duration;
use std::sync::Arc;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tidegate_net::connections::{ConnectionActivity, ConnectionCommand, MonitoredStream};

use crate::proxy_context::ProxyContext;
use crate::request_context::RequestContext;
use crate::response_end::ResponseEnd;

/// Whether one more connection may change its protocol: at most as many as there may be
/// connections, besides those.
pub(super) fn has_room(proxy: &ProxyContext) -> bool {
    proxy.metrics.tunnels.load(Ordering::Relaxed) < proxy.bounds.connections
}

/// A tunnel that is counted.
struct TunnelGuard(Arc<ProxyContext>);

impl Drop for TunnelGuard {
    fn drop(&mut self) {
        self.0.metrics.tunnels.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Passes bytes on both ways in a task of its own, which keeps the holds of the request. It ends
/// when both sides have ended, when nothing has come from either for `idle`, when its feature
/// cancels it, or when the daemon has drained for as long as it may.
pub(super) fn open(
    proxy: &Arc<ProxyContext>,
    mut context: RequestContext,
    client: OnUpgrade,
    server: OnUpgrade,
    idle: Duration,
) {
    context.is_tunnel = true;
    proxy.metrics.tunnels.fetch_add(1, Ordering::Relaxed);
    let counted = TunnelGuard(Arc::clone(proxy));
    // The HTTP server has given up the connection, so the tunnel registers it again.
    let connection = proxy.connections.add();
    let line = Arc::clone(&connection.line);
    line.request_started();
    let mut cancellation = context.cancellation.take();
    tokio::spawn(async move {
        let _connection = connection;
        let _counted = counted;
        let ending = tokio::select! {
            ending = pass(client, server, &line) => ending,
            () = silence(&line, idle) => ResponseEnd::Late,
            () = closed(&line) => ResponseEnd::Abandoned,
            () = RequestContext::cancelled(&mut cancellation) => ResponseEnd::Cancelled,
        };
        context.end(ending);
    });
}

async fn pass(client: OnUpgrade, server: OnUpgrade, line: &Arc<ConnectionActivity>) -> ResponseEnd {
    let (Ok(client), Ok(server)) = tokio::join!(client, server) else { return ResponseEnd::Broken };
    let mut client = MonitoredStream::plain(TokioIo::new(client), Arc::clone(line));
    let mut server = MonitoredStream::plain(TokioIo::new(server), Arc::clone(line));
    match tokio::io::copy_bidirectional(&mut client, &mut server).await {
        Ok(_) => ResponseEnd::Whole,
        Err(_) => ResponseEnd::Broken,
    }
}

/// Returns when nothing has been read for `idle`; it may take a quarter longer.
async fn silence(line: &ConnectionActivity, idle: Duration) {
    let mut before = line.reads();
    let mut quiet = 0;
    loop {
        tokio::time::sleep(idle / 4).await;
        let now = line.reads();
        quiet = if now == before { quiet + 1 } else { 0 };
        before = now;
        if quiet > 4 {
            return;
        }
    }
}

/// Returns when the connection has been commanded to close.
async fn closed(line: &ConnectionActivity) {
    poll_fn(|cx| {
        // Registered each time: an order before the last one uses the waker up.
        match line.order(cx, &mut false) {
            ConnectionCommand::Close => Poll::Ready(()),
            ConnectionCommand::Serve | ConnectionCommand::Finish => Poll::Pending,
        }
    })
    .await;
}
