//! Carrying to the store the asks of leases, and the undos of batches that were given up.

use std::future::poll_fn;
use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::daemon::Daemon;
use crate::undos::Undos;

/// How many batches are under way at once. While there are as many, asks gather, and go together.
const CARRIED_MAX: usize = 16;

/// Carries asks until the daemon ends.
///
/// Each batch goes by itself: one that is late holds up nobody else. Every batch comes to an end,
/// since the store is given a time.
pub(crate) async fn carry_leases(daemon: Arc<Daemon>) {
    let room = Arc::new(Semaphore::new(CARRIED_MAX));
    let undos = Undos::default();
    loop {
        // Engines of later configurations have the same leases.
        let asks = poll_fn(|context| daemon.in_force.load().engine.poll_lease_asks(context)).await;
        for mut asked in asks {
            if let (Some(shared), true) = (&daemon.shared, Undos::are_all_of(asked.batch())) {
                // No key waits for it, so nothing is brought back.
                undos.start(shared, asked.batch().clone());
                continue;
            }
            let rides = daemon.ride(&mut asked);
            let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
            let daemon = Arc::clone(&daemon);
            tokio::spawn(async move {
                let answer = daemon.ask(asked.batch()).await;
                if let (true, Ok(answer), Some(members)) = (rides, &answer, &daemon.members) {
                    members.heard(&answer.outcomes, daemon.clock.now());
                }
                daemon.in_force.load().engine.lease_answered(asked, answer, daemon.clock.now());
                drop(place);
            });
        }
    }
}
