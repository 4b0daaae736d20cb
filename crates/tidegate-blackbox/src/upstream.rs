//! The service behind the reverse proxy: it records what reaches it, and may misbehave.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::http1::{Http1Connection, header_in};

/// The most requests that are recorded. Later ones are only answered.
const RECORDED_MAX: usize = 1024;

/// How long a service that is [`Manner::Slow`] takes for an answer.
pub const SLOW_ANSWER: Duration = Duration::from_secs(5);

/// A request that reached the service.
#[derive(Clone, Debug)]
pub struct Received {
    /// Its request line and header lines.
    pub head: String,
    /// Its body.
    pub body: Vec<u8>,
}

/// How the service behaves.
#[derive(Clone, Debug)]
pub enum Manner {
    /// It answers every request with 200.
    Plain,
    /// It agrees to every `Upgrade`, as a stock server that speaks HTTP/2 without TLS does.
    Upgrades,
    /// It closes the connection after about one answer in eight, without saying so before.
    ClosesAtTimes,
    /// It answers every request with 200 after [`SLOW_ANSWER`].
    Slow,
    /// It answers every request with 200 once a worker of this service has done its work.
    Works(Arc<Service>),
}

/// Workers that take a time for each request; what they cannot do yet waits.
#[derive(Debug)]
pub struct Service {
    free: Mutex<u32>,
    is_free: Condvar,
    work: Duration,
}

impl Service {
    /// So many workers, each of which takes `work` for a request.
    pub fn new(workers: u32, work: Duration) -> Arc<Self> {
        Arc::new(Self { free: Mutex::new(workers), is_free: Condvar::new(), work })
    }

    /// Waits for a worker, and for its work.
    pub fn work(&self) {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.is_free.wait_while(free, |free| *free == 0);
        *waited.unwrap_or_else(PoisonError::into_inner) -= 1;
        thread::sleep(self.work);
        *self.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.is_free.notify_one();
    }
}

/// A service. Its threads end with the process.
#[derive(Debug)]
pub struct Upstream {
    address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Upstream {
    /// Starts a service on a free port of loopback.
    pub fn start(manner: Manner) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let received = Arc::new(Mutex::new(Vec::new()));
        let recorded = Arc::clone(&received);
        let answered = Arc::new(AtomicU64::new(0));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (recorded, answered) = (Arc::clone(&recorded), Arc::clone(&answered));
                let manner = manner.clone();
                thread::spawn(move || serve(stream, &manner, &recorded, &answered));
            }
        });
        Ok(Self { address, received })
    }

    /// Its address as `http://HOST:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Forgets what has reached it, and returns that.
    pub fn take_received(&self) -> Vec<Received> {
        core::mem::take(&mut self.received.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Serves one connection to its end, which may come at any time.
fn serve(stream: TcpStream, manner: &Manner, received: &Mutex<Vec<Received>>, answered: &AtomicU64) {
    let _ = stream.set_nodelay(true);
    let mut connection = Http1Connection::over(stream);
    loop {
        let Ok(head) = connection.head() else { return };
        let Ok(body) = connection.body(&head) else { return };
        let upgrade = header_in(&head, "upgrade").map(str::to_owned);
        {
            let mut received = received.lock().unwrap_or_else(PoisonError::into_inner);
            if received.len() < RECORDED_MAX {
                received.push(Received { head, body });
            }
        }
        if let (Manner::Upgrades, Some(protocol)) = (manner, upgrade) {
            let agreed = format!(
                "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: {protocol}\r\n\r\n"
            );
            let _ = connection.send(agreed.as_bytes());
            return;
        }
        match manner {
            Manner::Slow => thread::sleep(SLOW_ANSWER),
            Manner::Works(service) => service.work(),
            Manner::Plain | Manner::Upgrades | Manner::ClosesAtTimes => {}
        }
        if connection.send(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok\n").is_err() {
            return;
        }
        // A counter that chooses connections; nothing is ordered by it.
        let closes = matches!(manner, Manner::ClosesAtTimes);
        if closes && answered.fetch_add(1, Ordering::Relaxed) % 8 == 7 {
            return;
        }
    }
}
