//! Callers that charge a quota without a pause while its daemon is replaced, and count the answers.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::http1::{Http1Client, post};

/// How many callers there are.
const CALLERS: usize = 4;

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
        let callers = (0..CALLERS).map(|_| {
            let (is_over, socket, body) = (Arc::clone(&is_over), socket.to_owned(), body.to_owned());
            thread::spawn(move || call(&is_over, &socket, &body))
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

fn call(is_over: &AtomicBool, socket: &Path, body: &str) -> LoadCounts {
    let mut counts = LoadCounts::default();
    let mut answered = Instant::now();
    let mut connection = None;
    while !is_over.load(Ordering::Relaxed) {
        let Some(open) = connection.as_mut() else {
            connection = Http1Client::open_unix(socket).ok();
            if connection.is_none() {
                // Sleeps: the daemon is away, and announces nothing.
                thread::sleep(PAUSE);
            }
            continue;
        };
        let Ok(answer) = open.ask(post("/v1/check", body)) else {
            counts.unanswered += 1;
            connection = None;
            continue;
        };
        if answer.status == 200 {
            counts.admitted += 1;
        } else {
            counts.others.push(format!("{} {}", answer.status, answer.text()));
        }
        counts.longest_gap = counts.longest_gap.max(answered.elapsed());
        answered = Instant::now();
        if answer.closes() {
            connection = None;
        }
    }
    counts
}
