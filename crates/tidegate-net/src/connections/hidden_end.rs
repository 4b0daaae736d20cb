//! The end of a client's output that unread bytes hide.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use tokio::time::Sleep;

use super::activity::ConnectionActivity;

/// How often a connection looks for the end of its client's output while a request waits and unread
/// bytes lie before that end. Half of the 100 ms within which a client that left is out of the
/// queue.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// When the task of a connection looks at a client again whose request waits in line and whose end
/// wakes nobody ([`ConnectionActivity::is_unwatched`]).
#[derive(Debug, Default)]
pub struct HiddenEndLooks(Option<Pin<Box<Sleep>>>);

impl HiddenEndLooks {
    /// Ready when it is time to look; pending for good while the end would wake the task.
    pub fn poll_next(&mut self, line: &ConnectionActivity, cx: &mut Context<'_>) -> Poll<()> {
        if !line.is_unwatched() {
            return Poll::Pending;
        }
        let sleep = self.0.get_or_insert_with(|| Box::pin(tokio::time::sleep(LOOK_INTERVAL)));
        let looked = sleep.as_mut().poll(cx);
        if looked.is_ready() {
            self.0 = None;
        }
        looked
    }
}
