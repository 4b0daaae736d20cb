//! Tokio's paused clock beside real sockets.
//!
//! In a test with `start_paused` the clock jumps to the next timer whenever the runtime waits, also
//! when it waits for a socket. So a time-out under test passes at once, on a fast machine and on a
//! slow one. A client that must not run into it acts within [`at_this_instant`].

use std::sync::mpsc;

use tidegate_test_support::PATIENCE;

/// Awaits `future` while the paused clock stands still, however long the machine takes; panics with
/// `what` if it never completes. No timer fires meanwhile, so `future` must not wait for one.
pub(crate) async fn at_this_instant<T>(what: &str, future: impl Future<Output = T>) -> T {
    let mut future = Box::pin(future);
    // While a blocking task runs, tokio does not advance a paused clock (`tokio::time::pause`).
    let (done, is_done) = mpsc::channel::<()>();
    let mut holding = tokio::task::spawn_blocking(move || {
        let _ = is_done.recv_timeout(PATIENCE);
    });
    let output = tokio::select! {
        output = &mut future => output,
        _ = &mut holding => panic!("waited in vain: {what}"),
    };
    drop(done);
    let _ = holding.await;
    output
}
