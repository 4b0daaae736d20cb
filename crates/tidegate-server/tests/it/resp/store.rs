//! Limits of an hour and more that arrive with the command, where a store keeps quotas.

use std::sync::Arc;
use std::time::Duration;

use tidegate_server::ManualClock;

use super::{Client, address, config, words};
use crate::world::{START, World, api, memory_store};

async fn world() -> (World, Client) {
    let clock = Arc::new(ManualClock::new(START));
    let store = memory_store(&clock);
    let world = World::asking([api()], config(), clock, store).await;
    let client = Client::connect(address(&world)).await;
    (world, client)
}

#[tokio::test]
async fn the_store_decides_quotas_and_answers_in_order_among_rates() {
    let (world, mut client) = world().await;
    let lines = [
        ("CL.THROTTLE q 1 1 3600", "[0, 2, 1, -1, 3600]"),
        ("CL.THROTTLE q 1 1 3600", "[0, 2, 0, -1, 7200]"),
        ("CL.THROTTLE r 1 1 60", "[0, 2, 1, -1, 60]"),
        ("CL.THROTTLE q 1 1 3600", "[1, 2, 0, 3600, 7200]"),
        ("CL.THROTTLE q 1 1 3600 3", "[1, 2, 0, -1, 7200]"),
        ("CL.THROTTLE q 1 1 3600 0", "[0, 2, 0, -1, 7200]"),
        ("TG.CHECK api account a", "[decision, admit, remaining, 9]"),
        ("DEL q r q", "2"),
        ("CL.THROTTLE q 1 1 3600 2", "[0, 2, 0, -1, 7200]"),
    ];
    client.send(lines.iter().flat_map(|(line, _)| words(line)).collect::<Vec<u8>>()).await;
    for (line, answer) in lines {
        assert_eq!(client.reply().await.to_string(), answer, "{line}");
    }
    world.clock.advance(Duration::from_hours(1));
    assert_eq!(client.ask("CL.THROTTLE q 1 1 3600").await, "[0, 2, 0, -1, 7200]");
}
