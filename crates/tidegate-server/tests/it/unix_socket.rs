//! Unix sockets: served like TCP, removed at the end, and not taken from a running daemon.

use std::sync::Arc;

use tidegate_server::{Address, ListenError, Server, ServerConfig};
use tidegate_store::{MemoryConfig, MemoryStore};
use tidegate_test_support::TemporaryFolder;
use tokio::net::{UnixListener, UnixStream};

use crate::client::Client;
use crate::world::{START, World, api};

fn config(path: &std::path::Path) -> ServerConfig {
    ServerConfig::listening_on([Address::Unix(path.to_owned())])
}

async fn refused_to_start(path: &std::path::Path) -> ListenError {
    let world = World::api().await;
    let store = Arc::new(MemoryStore::new(MemoryConfig::new([1; 4]), || START));
    Server::start(config(path), Arc::clone(&world.engine), store, world.clock.clone()).await.unwrap_err()
}

#[tokio::test]
async fn a_unix_socket_serves_callers_and_operators_and_its_file_goes_with_it() {
    let folder = TemporaryFolder::new();
    let path = folder.join("daemon.sock");
    let world = World::with([api()], config(&path)).await;
    let mut client = Client::over(UnixStream::connect(&path).await.unwrap());
    let answer = client.post("/v1/check", r#"{"namespace":"api","attributes":{"user":"ada"}}"#).await;
    assert_eq!(answer.json()["remaining"], 2);
    assert_eq!(client.get("/metrics").await.status, 200);
    drop(client);
    world.handle.shutdown().await;
    assert!(!path.exists());
}

#[tokio::test]
async fn the_socket_of_a_process_that_is_gone_is_replaced() {
    let folder = TemporaryFolder::new();
    let path = folder.join("daemon.sock");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "left behind");
    let world = World::with([api()], config(&path)).await;
    assert!(UnixStream::connect(&path).await.is_ok());
    world.handle.shutdown().await;
}

#[tokio::test]
async fn the_socket_of_a_living_process_and_other_files_are_left_alone() {
    let folder = TemporaryFolder::new();
    let living = folder.join("living.sock");
    let _listener = UnixListener::bind(&living).unwrap();
    assert!(matches!(refused_to_start(&living).await, ListenError::InUse { .. }));
    let file = folder.write("file", "precious");
    assert!(matches!(refused_to_start(&file).await, ListenError::NotASocket { .. }));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
}
