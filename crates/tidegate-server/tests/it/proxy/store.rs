//! Limits that a store decides, for requests whose clients do not wait for it.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::algorithm::Concurrency;
use tidegate_core::limit::Consistency;
use tidegate_core::{Algorithm, Limit};
use tidegate_engine::NamespaceConfig;
use tidegate_server::{ListenerRole, ManualClock};

use super::upstream::well;
use super::{get, route, to};
use tidegate_server::ProxyConfig;

use crate::store::{Slow, next};
use crate::world::{START, World, fixed, loopback};

#[tokio::test]
async fn what_the_store_takes_for_a_client_that_has_left_is_given_back() {
    let one = Algorithm::Concurrency(Concurrency::new(1, Duration::from_secs(30)).unwrap());
    let limits = vec![
        Limit::new("one", one).key(["user"]).consistency(Consistency::Exact),
        fixed("few", 2, Duration::from_hours(1)).key(["user"]).consistency(Consistency::Exact),
    ];
    let namespace = NamespaceConfig::new("api", limits);
    let (server, seen) = well().await;
    let mut config = loopback();
    config.listen(ListenerRole::Proxy, "127.0.0.1:0".parse().unwrap());
    config.proxying = ProxyConfig::open(to(&[server], route("api"))).unwrap();
    config.bounds.store_timeout = Duration::from_mins(1);
    let clock = Arc::new(ManualClock::new(START));
    let (store, mut was_asked, lets) = Slow::new(&clock);
    let world = World::asking([namespace], config, clock, store).await;
    for _ in 0..5 {
        let mut client = world.proxied().await;
        client.send(get("/", "x-user: ada\r\n")).await;
        // Both limits are charged in the store, and the answer is still on its way.
        next(&mut was_asked).await;
        drop(client);
        // The server notices that the connection has ended: it sends the batch again, to learn what
        // was charged. The store answers after that.
        next(&mut was_asked).await;
        lets.add_permits(1);
        // It is asked to take them back.
        next(&mut was_asked).await;
        lets.add_permits(1);
    }
    assert_eq!(seen.lock().unwrap().len(), 0);
    lets.add_permits(1000);
    for _ in 0..2 {
        assert_eq!(world.through("/", "x-user: ada\r\n").await.status, 200, "nothing of them is left");
        // The answer to being told that it is over.
        next(&mut was_asked).await;
        next(&mut was_asked).await;
    }
    assert_eq!(world.through("/", "x-user: ada\r\n").await.json()["limit"], "few");
}
