//! Lease renewal: sending to the store what leases ask, and bringing the answers back.
//!
//! A request that waits for a lease does not call the store. It leaves its ask in the engine's
//! outbox, and one batch carries the asks of many requests. Every batch ends, since a store call
//! has a deadline, so every waiting request goes on.

use core::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use tidegate_engine::LeaseBatch;
use tidegate_store::StoreError;
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;

use crate::driver::Driver;

impl Driver {
    /// Starts to send what leases ask of the store, if there is anything. To be called after each
    /// call of the engine that may leave an ask: `admit`, `resume`, and `tick` where it asks for
    /// it. Not needed where [`Driver::run_lease_renewal`] runs.
    ///
    /// Outside of a tokio runtime the asks fail, as if the store were away.
    #[inline]
    pub fn renew_leases(&self) {
        if self.has_renewal_place() {
            let asks = self.engine().take_lease_asks();
            asks.into_iter().for_each(|asks| self.start_renewal(asks, None));
        }
    }

    /// Sends what leases ask of the store, until the future is dropped. One at a time for each
    /// engine.
    pub async fn run_lease_renewal(&self) {
        loop {
            // Engines of later configurations have the same leases.
            let asks = poll_fn(|context| self.engine().poll_lease_asks(context)).await;
            for asks in asks {
                let place = Arc::clone(self.renewals()).acquire_owned().await;
                self.start_renewal(asks, place.ok());
            }
        }
    }

    /// Returns all leases of this member to the store, when the program ends; whether the store has
    /// all of them. A lease that is not returned ends by itself within a period.
    pub async fn return_leases(&self) -> bool {
        let engine = self.handle().engine();
        let mut is_away = false;
        for asks in engine.leave_leases(self.now()) {
            let Some(asks) = engine.answer_here(asks, self.now()) else { continue };
            let answer =
                if is_away { Err(StoreError::NotAsked) } else { self.call_store(asks.batch()).await };
            is_away = answer.is_err();
            engine.lease_answered(asks, answer, self.now());
        }
        !is_away
    }

    /// Whether another batch of asks may be in flight. If not, a renewal that ends looks for asks.
    #[inline]
    fn has_renewal_place(&self) -> bool {
        self.renewals().available_permits() > 0 || self.gets_renewal_place()
    }

    /// The second look when every place was taken.
    #[cold]
    fn gets_renewal_place(&self) -> bool {
        // Pairs with the fence at the end of a renewal: either this caller sees the place that was
        // given back, or the renewal sees the ask that this caller has left in the outbox.
        fence(Ordering::SeqCst);
        self.renewals().available_permits() > 0
    }

    /// Sends a batch of asks in the background, and brings its answer to the engine in force then.
    /// An engine that has the ledgers itself answers it at once.
    /// Without a place it takes one, and waits for it if threads that race have taken too many
    /// asks.
    fn start_renewal(&self, asks: LeaseBatch, place: Option<OwnedSemaphorePermit>) {
        let Some(mut asks) = self.engine().answer_here(asks, self.now()) else { return };
        if asks.asks() == 0 {
            // It has only undos and refunds, for whose answer no key waits.
            return self.undo(asks.batch().clone());
        }
        let Ok(runtime) = Handle::try_current() else {
            return self.engine().lease_answered(asks, Err(StoreError::NoRuntime), self.now());
        };
        let driver = self.clone();
        let place = place.or_else(|| Arc::clone(self.renewals()).try_acquire_owned().ok());
        runtime.spawn(async move {
            let place = match place {
                Some(place) => Ok(place),
                None => Arc::clone(driver.renewals()).acquire_owned().await,
            };
            let link = driver.link();
            let has_added = link.hooks.add_to_renewal(&mut asks);
            let answer = link.call(asks.batch()).await;
            if let (true, Ok(answer)) = (has_added, &answer) {
                link.hooks.renewal_answered(&answer.outcomes);
            }
            driver.engine().lease_answered(asks, answer, driver.now());
            drop(place);
            // Pairs with the fence where a caller finds no place.
            fence(Ordering::SeqCst);
            driver.renew_leases();
        });
    }
}
