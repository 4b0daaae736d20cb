//! Waiting until work is to be cancelled because its feature was switched off.

use core::future::{Future, pending, poll_fn};
use core::pin::{Pin, pin};
use core::task::Poll;

use tidegate_engine::{CancellableWork, Permit};

use crate::driver::Driver;
use crate::timer;

/// A future that ends when work is to be cancelled, and never if it is not.
pub type Cancellation = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Driver {
    /// Wakes work that waits for its cancellation, if features have changed. Each tick does so;
    /// called by itself after a pin, it starts the grace of work no later than that.
    pub fn publish_feature_changes(&self) {
        self.handle().feature_cancels().publish(self.engine().feature_event_count());
    }

    /// A future that ends when the work of a permit is to be cancelled: its feature was switched
    /// off and has `on_disable: cancel`, and the grace is over. `None` for any other feature, whose
    /// work is finished.
    pub fn cancellation(&self, permit: &Permit) -> Option<(CancellableWork, Cancellation)> {
        let work = self.engine().cancellable_work(permit)?;
        Some((work.clone(), Box::pin(self.clone().until_cancelled(work))))
    }

    pub(crate) async fn until_cancelled(self, work: CancellableWork) {
        let mut news = self.handle().feature_cancels().subscribe();
        loop {
            news.mark_unchanged();
            let (at, now) = (self.engine().cancel_at(&work), self.now());
            if at.is_some_and(|at| at <= now) {
                return;
            }
            let grace = async {
                match at {
                    Some(at) => timer::sleep_until(self.time(), at).await,
                    None => pending().await,
                }
            };
            // The handle keeps the sender, so that this is no error.
            let changed = async { drop(news.changed().await) };
            first_of(grace, changed).await;
        }
    }
}

/// Ends with the first of two futures, without the procedural macros behind `tokio::select!`.
pub(crate) async fn first_of(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|context| match one.as_mut().poll(context) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending => other.as_mut().poll(context),
    })
    .await;
}
