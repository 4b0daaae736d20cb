//! Peers on a Unix socket, who have no address of their own.

use tidegate_server::{Address, ListenerRole};
use tidegate_test_support::TemporaryFolder;
use tokio::net::UnixStream;

use super::upstream::{Seen, well};
use super::{get, namespaces, route, to};
use tidegate_server::ProxyConfig;

use crate::client::{Answer, Client};
use crate::world::{World, loopback};

struct Socket {
    world: World,
    seen: Seen,
    folder: TemporaryFolder,
}

impl Socket {
    async fn open(trusts_unix: bool) -> Self {
        let (server, seen) = well().await;
        let folder = TemporaryFolder::new();
        let mut config = loopback();
        config.listen(ListenerRole::Proxy, Address::Unix(folder.path().join("proxy.sock")));
        let mut by_address = route("api");
        let user = ("user".to_owned(), "client_ip".parse().unwrap());
        by_address.attributes = vec![user];
        let mut proxy = to(&[server], by_address);
        // Loopback is trusted in both cases: a Unix socket is not loopback.
        proxy.trusted = vec!["127.0.0.0/8".parse().unwrap()];
        proxy.trusts_unix = trusts_unix;
        config.proxying = ProxyConfig::open(proxy).unwrap();
        Self { world: World::with(namespaces(), config).await, seen, folder }
    }

    async fn ask(&self, headers: &str) -> Answer {
        let stream = UnixStream::connect(self.folder.path().join("proxy.sock")).await.unwrap();
        let mut client = Client::over(stream);
        client.send(get("/", headers)).await;
        client.answer().await.unwrap()
    }
}

#[tokio::test]
async fn a_peer_on_a_unix_socket_that_is_trusted_is_believed_about_the_client() {
    let socket = Socket::open(true).await;
    for address in ["1.1.1.1", "2.2.2.2", "1.1.1.1, 127.0.0.5"] {
        let named = format!("x-forwarded-for: {address}\r\n");
        assert_eq!(socket.ask(&named).await.status, 200);
    }
    assert_eq!(socket.ask("x-forwarded-for: 1.1.1.1\r\n").await.status, 200);
    assert_eq!(socket.ask("x-forwarded-for: 1.1.1.1\r\n").await.status, 429, "the fourth from there");
    let seen = socket.seen.lock().unwrap();
    assert!(seen[0].contains("x-forwarded-for: 1.1.1.1\r\n"), "{}", seen[0]);
}

#[tokio::test]
async fn the_client_behind_a_unix_socket_that_is_not_trusted_is_nobody() {
    for (trusts_unix, headers) in [(false, "x-forwarded-for: 1.1.1.1\r\n"), (true, "")] {
        let socket = Socket::open(trusts_unix).await;
        // No limit by address applies to who has none, so far more than three are admitted.
        for _ in 0..10 {
            assert_eq!(socket.ask(headers).await.status, 200);
        }
        let first = socket.seen.lock().unwrap()[0].clone();
        assert!(!first.contains("x-forwarded-for"), "{first}");
        socket.world.handle.shutdown().await;
    }
}
