//! Waking work that may have to be cancelled because its feature was switched off.
//!
//! The engine only says when work is to be cancelled. Work that waits for that sleeps until a
//! change of a feature is published, looks, and sleeps until its grace is over.

use core::future::{Future, pending};
use core::pin::Pin;
use std::sync::Arc;

use tidegate_engine::{CancellableWork, Permit};
use tokio::sync::watch;

use crate::driver::Driver;
use crate::timer;

/// A future that ends when work is to be cancelled, and never if it is not.
pub type Cancellation = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The number of changes of features that was published last. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct FeatureCancels(Arc<watch::Sender<u64>>);

impl Default for FeatureCancels {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

impl FeatureCancels {
    /// Wakes all that wait, if there were changes since the last call.
    pub(crate) fn publish(&self, changes: u64) {
        self.0.send_if_modified(|known| core::mem::replace(known, changes) != changes);
    }
}

impl Driver {
    /// Wakes work that waits for its cancellation, if features have changed. Each tick does so;
    /// called by itself after a pin, it starts the grace of work no later than that.
    pub fn publish_feature_changes(&self) {
        self.feature_cancels().publish(self.engine().feature_event_count());
    }

    /// A future that ends when the work of a permit is to be cancelled: its feature was switched
    /// off and has `on_disable: cancel`, and the grace is over. `None` for any other feature, whose
    /// work is finished.
    pub fn cancellation(&self, permit: &Permit) -> Option<(CancellableWork, Cancellation)> {
        let work = self.engine().cancellable_work(permit)?;
        Some((work.clone(), Box::pin(self.clone().until_cancelled(work))))
    }

    async fn until_cancelled(self, work: CancellableWork) {
        let mut news = self.feature_cancels().0.subscribe();
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
            tokio::select! {
                () = grace => {}
                // The driver keeps the sender.
                _ = news.changed() => {}
            }
        }
    }
}
