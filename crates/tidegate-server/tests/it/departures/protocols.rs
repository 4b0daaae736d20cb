//! Callers over RESP, gRPC and TLS that leave.

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use rcgen::ExtendedKeyUsagePurpose;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use tidegate_policy::policy::Tls;
use tidegate_server::{ListenerRole, ServerConfig};
use tidegate_test_support::{TemporaryFolder, eventually};

use super::{Caller, Leave, WAYS, reset_window};
use crate::authority::Authority;
use crate::client::post;
use crate::world::{World, loopback};

fn config() -> ServerConfig {
    let mut config = loopback();
    config.listen(ListenerRole::Resp, "127.0.0.1:0".parse().unwrap());
    config
}

fn caller_of_resp(world: &World, command: &str) -> Caller {
    let mut caller = Caller::connect(world.handle.resp().unwrap().tcp().unwrap());
    caller.send(format!("{command}\r\n").as_bytes());
    caller
}

#[tokio::test]
async fn a_reply_over_resp_that_was_not_read_holds_nothing() {
    let world = World::queued(1, config()).await;
    for command in ["TG.CHECK jobs", "TG.CHECK api RELEASE", "MULTI\r\nTG.CHECK jobs\r\nEXEC"] {
        for how in WAYS {
            let caller = caller_of_resp(&world, command);
            world.until_kept(1, command).await;
            caller.until_answered().await;
            drop(caller.leave(how));
            world.until_kept(0, &format!("{command}, {how:?}")).await;
        }
        // All replies of a pipeline that were not read.
        let caller = caller_of_resp(&world, "PING\r\nTG.CHECK jobs\r\nTG.CHECK api RELEASE\r\nPING");
        world.until_kept(2, "both").await;
        drop(caller.leave(Leave::Close));
        world.until_kept(0, "a pipeline").await;
    }
}

#[tokio::test]
async fn a_reply_over_resp_that_was_read_is_its_callers() {
    let world = World::queued(1, config()).await;
    for how in WAYS {
        let mut caller = caller_of_resp(&world, "TG.CHECK jobs");
        let reply = caller.read().await;
        let permit = reply.rsplit("\r\n").nth(1).unwrap().to_owned();
        if how == Leave::Reset {
            caller.send(b"PING\r\n");
            caller.until_answered().await;
        }
        let left = caller.leave(how);
        reset_window().await;
        let mut other = caller_of_resp(&world, &format!("TG.RELEASE {permit}"));
        assert_eq!(other.read().await, "+OK\r\n", "{how:?}");
        drop(left);
    }
}

/// A daemon with TLS on its HTTP listener, and clients of it.
struct TlsWorld {
    world: World,
    client: Arc<ClientConfig>,
    _folder: TemporaryFolder,
}

impl TlsWorld {
    async fn start() -> Self {
        let (folder, authority) = (TemporaryFolder::new(), Authority::new());
        let issued = authority.issue(ExtendedKeyUsagePurpose::ServerAuth);
        let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        std::fs::write(&cert, issued.cert).unwrap();
        std::fs::write(&key, issued.key).unwrap();
        let mut config = loopback();
        let text = |path: &std::path::Path| path.to_str().unwrap().to_owned();
        config.listeners[0].tls = Some(Tls { cert: text(&cert), key: text(&key), client_ca: None });
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let client = builder.with_root_certificates(authority.roots()).with_no_client_auth();
        Self { world: World::queued(1, config).await, client: Arc::new(client), _folder: folder }
    }

    /// Sends a request; the handshake goes on in steps, as the daemon shares the thread.
    async fn send(&self, request: &str) -> StreamOwned<ClientConnection, std::net::TcpStream> {
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(Arc::clone(&self.client), name).unwrap();
        let mut stream = StreamOwned::new(connection, Caller::connect(self.world.address()).0);
        eventually("a handshake", async || {
            let _ = stream.conn.complete_io(&mut stream.sock);
            !stream.conn.is_handshaking()
        })
        .await;
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }
}

async fn read(stream: &mut StreamOwned<ClientConnection, std::net::TcpStream>) -> String {
    let mut text = String::new();
    eventually("an answer", async || {
        let mut buffer = [0; 4096];
        if let Ok(count) = stream.read(&mut buffer) {
            text.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
        text.contains("permit")
    })
    .await;
    text
}

#[tokio::test]
async fn an_answer_over_tls_that_was_not_read_holds_nothing() {
    let tls = TlsWorld::start().await;
    let world = &tls.world;
    for head in ["", "connection: close\r\n"] {
        for how in WAYS {
            let request = post("/v1/check", r#"{"namespace":"jobs"}"#);
            let request = request.replace("host: t\r\n", &format!("host: t\r\n{head}"));
            let stream = tls.send(&request).await;
            world.until_kept(1, head).await;
            let caller = Caller(stream.sock);
            caller.until_answered().await;
            drop(caller.leave(how));
            world.until_free("jobs", &format!("{head:?}, {how:?}")).await;
        }
    }
}

#[tokio::test]
async fn an_answer_over_tls_that_was_read_is_its_callers() {
    let tls = TlsWorld::start().await;
    let world = &tls.world;
    for head in ["", "connection: close\r\n"] {
        for is_polite in [true, false] {
            let request = post("/v1/check", r#"{"namespace":"jobs"}"#);
            let request = request.replace("host: t\r\n", &format!("host: t\r\n{head}"));
            let mut stream = tls.send(&request).await;
            read(&mut stream).await;
            if is_polite {
                stream.conn.send_close_notify();
                let _ = stream.conn.complete_io(&mut stream.sock);
            }
            drop(stream);
            reset_window().await;
            assert_eq!(world.kept(), 1, "{head:?}, polite: {is_polite}");
            world.clock.advance(Duration::from_hours(2));
            world.until_free("jobs", "its hold is over").await;
        }
    }
}
