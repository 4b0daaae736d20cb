//! The drain: commands that were sent before it are answered, even if the server had not read them.

use std::sync::Arc;
use std::time::Duration;

use tidegate_server::ManualClock;

use super::{Client, address, config, words};
use crate::store::{Slow, next};
use crate::world::{START, World, api};

/// While a connection waits for the store it reads nothing, so what comes meanwhile is unread when
/// the daemon is told to end.
#[tokio::test(start_paused = true)]
async fn commands_that_were_sent_but_not_read_when_the_daemon_was_told_to_end_are_answered() {
    let clock = Arc::new(ManualClock::new(START));
    let (store, mut was_asked, lets) = Slow::new(&clock);
    let mut config = config();
    config.bounds.store_timeout = Duration::from_mins(1);
    let world = World::asking([api()], config, clock, store).await;
    let mut client = Client::connect(address(&world)).await;
    client.send(words("CL.THROTTLE quota 1 1 3600")).await;
    next(&mut was_asked).await;
    // More than one read takes, and the last of it only begun.
    let later = words("CL.THROTTLE k 9999 1 60").repeat(1000);
    client.send([&later[..], b"*1\r\n$4\r\nPI"].concat()).await;
    let shutdown = tokio::spawn(world.handle.shutdown());
    // Afterwards every connection is told to end.
    // Sleeps: on tokio's paused clock, which moves on when all have done what they can.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!shutdown.is_finished());
    lets.add_permits(1);
    assert_eq!(client.reply().await.to_string(), "[0, 2, 1, -1, 3600]");
    for used in 1..=1000 {
        let reply = client.reply().await.to_string();
        assert!(reply.starts_with(&format!("[0, 10000, {}, ", 10_000 - used)), "{used}: {reply}");
    }
    assert!(client.is_ended().await, "what is not whole by then is not waited for");
    assert_eq!(shutdown.await.unwrap().cut_off, 0);
}
