//! Callers that charge a quota without a pause while its daemon is replaced, and count the answers.

use std::io::{BufRead, BufReader, Read, Result, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How many callers there are.
const CALLERS: usize = 4;

/// How long a caller waits for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// How long a caller waits between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(2);

/// The answers of all callers.
#[derive(Clone, Debug, Default)]
pub(super) struct LoadCounts {
    /// Answers that admit.
    pub(super) admitted: u64,
    /// Other answers, with their bodies.
    pub(super) others: Vec<String>,
    /// Connections that ended without an answer to a request.
    pub(super) unanswered: u64,
    /// The longest time between two answers of a caller.
    pub(super) longest_gap: Duration,
}

/// Callers, each with one request at a time.
#[derive(Debug)]
pub(super) struct QuotaLoad {
    is_over: Arc<AtomicBool>,
    callers: Vec<JoinHandle<LoadCounts>>,
}

impl QuotaLoad {
    /// Begins to send `body` to the API at this Unix socket.
    pub(super) fn begin(socket: &Path, body: &str) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let request = format!(
            "POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let callers = (0..CALLERS).map(|_| {
            let (is_over, socket, request) = (Arc::clone(&is_over), socket.to_owned(), request.clone());
            thread::spawn(move || call(&is_over, &socket, request.as_bytes()))
        });
        Self { callers: callers.collect(), is_over }
    }

    /// Ends it, and returns the counts of all callers.
    pub(super) fn end(self) -> LoadCounts {
        // Relaxed: the flag orders nothing, and joining does.
        self.is_over.store(true, Ordering::Relaxed);
        let counts = self.callers.into_iter().map(|caller| caller.join().expect("a caller does not panic"));
        counts.fold(LoadCounts::default(), |sum, one| LoadCounts {
            admitted: sum.admitted + one.admitted,
            others: [sum.others, one.others].concat(),
            unanswered: sum.unanswered + one.unanswered,
            longest_gap: sum.longest_gap.max(one.longest_gap),
        })
    }
}

fn call(is_over: &AtomicBool, socket: &Path, request: &[u8]) -> LoadCounts {
    let mut counts = LoadCounts::default();
    let mut answered = Instant::now();
    let mut connection = None;
    while !is_over.load(Ordering::Relaxed) {
        let Some(open) = connection.as_mut() else {
            connection = connect(socket).ok();
            if connection.is_none() {
                // Sleeps: the daemon is away, and announces nothing.
                thread::sleep(PAUSE);
            }
            continue;
        };
        let Ok(CheckAnswer { status, body, closes }) = ask(open, request) else {
            counts.unanswered += 1;
            connection = None;
            continue;
        };
        if status == 200 {
            counts.admitted += 1;
        } else {
            counts.others.push(format!("{status} {body}"));
        }
        counts.longest_gap = counts.longest_gap.max(answered.elapsed());
        answered = Instant::now();
        if closes {
            connection = None;
        }
    }
    counts
}

fn connect(socket: &Path) -> Result<BufReader<UnixStream>> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    Ok(BufReader::new(stream))
}

/// An answer of the API.
struct CheckAnswer {
    status: u16,
    body: String,
    /// Whether the connection ends with it.
    closes: bool,
}

fn ask(connection: &mut BufReader<UnixStream>, request: &[u8]) -> Result<CheckAnswer> {
    connection.get_mut().write_all(request)?;
    let (mut status, mut length, mut closes) = (0, 0, false);
    loop {
        let mut line = String::new();
        if connection.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end();
        if status == 0 {
            status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(599);
        } else if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.parse().unwrap_or(0);
        } else if line == "connection: close" {
            closes = true;
        } else if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    connection.read_exact(&mut body)?;
    Ok(CheckAnswer { status, body: String::from_utf8_lossy(&body).into_owned(), closes })
}
