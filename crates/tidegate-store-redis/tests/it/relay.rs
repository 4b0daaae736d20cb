//! A TCP relay before a server, which tests switch between the faults of a network and of a wrong
//! address.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// The treatment of connections by the relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Traffic {
    /// Pass bytes both ways to the server at this port.
    To(u16),
    /// Accept connections, read everything, and answer nothing.
    Silent,
    /// Answer every connection with these bytes, then close it.
    Answer(Vec<u8>),
    /// Answer every command with this line, and keep the connection.
    EachCommand(&'static str),
}

/// A relay on loopback; its listener closes with the runtime of the test.
#[derive(Debug)]
pub(crate) struct Relay {
    port: u16,
    traffic: watch::Sender<(Traffic, OldConnections)>,
    accepted: Arc<AtomicUsize>,
}

/// The fate of connections that were open when the traffic changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OldConnections {
    /// They are closed.
    Close,
    /// They stay open, and no byte passes any more: the peer is frozen or gone.
    Freeze,
}

impl Relay {
    pub(crate) async fn start(traffic: Traffic) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, receiver) = watch::channel((traffic, OldConnections::Close));
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&accepted);
        tokio::spawn(async move {
            // Frozen connections stay open until the test ends.
            let frozen = Arc::new(Mutex::new(Vec::new()));
            while let Ok((client, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(serve(client, receiver.clone(), Arc::clone(&frozen)));
            }
        });
        Self { port, traffic: sender, accepted }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// How many connections were made so far.
    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }

    pub(crate) fn switch(&self, traffic: Traffic, old: OldConnections) {
        self.traffic.send_replace((traffic, old));
    }
}

async fn serve(
    mut client: TcpStream,
    mut changes: watch::Receiver<(Traffic, OldConnections)>,
    frozen: Arc<Mutex<Vec<TcpStream>>>,
) {
    let (traffic, _) = changes.borrow_and_update().clone();
    tokio::select! {
        () = pass(&mut client, &traffic) => {}
        _ = changes.changed() => {
            if changes.borrow().1 == OldConnections::Freeze {
                frozen.lock().unwrap().push(client);
            }
        }
    }
}

async fn pass(client: &mut TcpStream, traffic: &Traffic) {
    match traffic {
        Traffic::To(port) => {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, *port));
            let Ok(mut server) = TcpStream::connect(address).await else { return };
            let _ = tokio::io::copy_bidirectional(client, &mut server).await;
        }
        Traffic::Silent => {
            let mut bytes = [0; 4096];
            while let Ok(1..) = client.read(&mut bytes).await {}
        }
        Traffic::Answer(bytes) => {
            let mut request = [0; 4096];
            let _ = client.read(&mut request).await;
            let _ = client.write_all(bytes).await;
        }
        Traffic::EachCommand(line) => {
            let mut bytes = vec![0; 1 << 16];
            while let Ok(length @ 1..) = client.read(&mut bytes).await {
                // Commands are arrays, and only their beginnings hold a star at the beginning of a
                // line.
                let is_start = |at: usize| bytes[at] == b'*' && (at == 0 || bytes[at - 1] == b'\n');
                let commands = (0..length).filter(|at| is_start(*at)).count();
                let answer = format!("{line}\r\n").repeat(commands);
                if client.write_all(answer.as_bytes()).await.is_err() {
                    return;
                }
            }
        }
    }
}
