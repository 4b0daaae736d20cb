//! Unix sockets: served like TCP, removed at the end, and not taken from a running daemon.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tidegate_server::{Address, ListenError, Server, ServerConfig};
use tidegate_store::{MemoryConfig, MemoryStore};
use tokio::net::{UnixListener, UnixStream};

use crate::client::Client;
use crate::world::{START, World, api};

fn path() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("tidegate-it-{}-{number}.sock", std::process::id()))
}

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
    let path = path();
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
    let path = path();
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "left behind");
    let world = World::with([api()], config(&path)).await;
    assert!(UnixStream::connect(&path).await.is_ok());
    world.handle.shutdown().await;
}

#[tokio::test]
async fn the_socket_of_a_living_process_and_other_files_are_left_alone() {
    let living = path();
    let _listener = UnixListener::bind(&living).unwrap();
    assert!(matches!(refused_to_start(&living).await, ListenError::InUse { .. }));
    let file = path();
    std::fs::write(&file, "precious").unwrap();
    assert!(matches!(refused_to_start(&file).await, ListenError::NotASocket { .. }));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    std::fs::remove_file(file).unwrap();
    std::fs::remove_file(living).unwrap();
}
