//! Callers that keep within their limits, and some that do not.
//!
//! Each caller sends first attempts at even intervals, whatever became of those before. A refused
//! caller retries every 100 ms until it is admitted or its next first attempt is due. A caller that
//! was refused at every attempt for two seconds retries once a second: by then the run has failed,
//! and ten thousand retries a second would measure this generator instead of the daemons.

use std::net::SocketAddr;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde::Serialize;
use tidegate_test_support::SplitMix64;
use tokio::time::{sleep_until, timeout, timeout_at};

use super::attempt::{CheckAttempt, CheckClient, CheckOutcome, check_body};
use super::figures::name_of;
use super::load::runtime;

const RETRY_AFTER_S: f64 = 0.1;
const PERSISTENT_FOR_S: f64 = 2.0;
const PERSISTENT_RETRY_AFTER_S: f64 = 1.0;
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// How a caller chooses its daemons, and whether it retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CallerHabit {
    /// Always the same daemon, while that accepts connections.
    Sticky,
    /// Any daemon, drawn for each request.
    Drawn,
    /// As drawn, for more than the limit, and without retries.
    Greedy,
    /// As drawn, without retries, to warm daemons up.
    Warm,
}

/// Callers of one kind, which names their limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct UserGroup {
    pub(super) kind: &'static str,
    pub(super) habit: CallerHabit,
    pub(super) users: f64,
    /// First attempts a second of each.
    pub(super) rate: f64,
}

/// One user.
#[derive(Debug)]
pub(super) struct FleetCaller {
    pub(super) group: UserGroup,
    phase_s: f64,
    body: Bytes,
}

#[derive(Clone, Debug, Default)]
struct CallerState {
    /// The daemon that it keeps to.
    member: Option<usize>,
    moved_at: Option<f64>,
    /// When the first attempt since the last admission was sent.
    refused_since: Option<f64>,
}

/// The state that changes while callers are at work.
#[derive(Debug)]
pub(super) struct CallerCounts {
    random: SplitMix64,
    members: Vec<SocketAddr>,
    /// Indexes of members that accept connections.
    alive: Vec<usize>,
    states: Vec<CallerState>,
    /// Attempts that no daemon accepted.
    pub(super) unsent: u64,
    /// Attempts that were sent again because their connection ended.
    pub(super) broken: u64,
    /// Callers that left a dead daemon.
    pub(super) moved: u64,
}

impl CallerCounts {
    /// When the daemon of a caller was found dead and another one took its place.
    pub(super) fn moved_at(&self, caller: usize) -> Option<f64> {
        self.states[caller].moved_at
    }

    /// The daemon for the next attempt of a caller; nothing if none accepts connections.
    fn choose(&mut self, caller: usize, now: f64) -> Option<(usize, SocketAddr)> {
        let state = &mut self.states[caller];
        let member = match state.member {
            _ if self.alive.is_empty() => {
                self.unsent += 1;
                return None;
            }
            Some(member) if self.alive.contains(&member) => member,
            own => {
                let drawn = *self.random.choose(&self.alive);
                if own.is_some() {
                    (state.member, state.moved_at) = (Some(drawn), Some(now));
                    self.moved += 1;
                }
                drawn
            }
        };
        Some((member, self.members[member]))
    }
}

/// All callers at work.
#[derive(Debug)]
pub(super) struct CallerLoad {
    pub(super) callers: Vec<FleetCaller>,
    client: CheckClient,
    counts: Mutex<CallerCounts>,
    begun: Instant,
    seconds: f64,
}

impl CallerLoad {
    /// The callers of `groups`, or the part `scale` of them, which send for `seconds` from `begun`.
    pub(super) fn new(
        groups: &[UserGroup],
        scale: f64,
        members: Vec<SocketAddr>,
        begun: Instant,
        seconds: f64,
    ) -> Arc<Self> {
        let mut random = SplitMix64::new(1);
        let mut next_member = (0..members.len()).cycle();
        let (mut callers, mut states) = (Vec::new(), Vec::new());
        for group in groups {
            let UserGroup { kind, habit, users, rate } = *group;
            for _ in 0..(users * scale).round().max(1.0) as usize {
                let user = format!("{kind}-{}-{}", name_of(habit), callers.len());
                let body = check_body(&format!("{{\"kind\":\"{kind}\",\"user\":\"{user}\"}}"));
                callers.push(FleetCaller { group: *group, phase_s: random.fraction() / rate, body });
                let member = if habit == CallerHabit::Sticky { next_member.next() } else { None };
                states.push(CallerState { member, ..CallerState::default() });
            }
        }
        let alive = (0..members.len()).collect();
        let counts = CallerCounts { random, members, alive, states, unsent: 0, broken: 0, moved: 0 };
        Arc::new(Self { callers, client: CheckClient::new(), counts: Mutex::new(counts), begun, seconds })
    }

    pub(super) fn counts(&self) -> MutexGuard<'_, CallerCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets callers use another daemon from now on.
    pub(super) fn add_member(&self, member: SocketAddr) {
        let mut counts = self.counts();
        let index = counts.members.len();
        counts.members.push(member);
        counts.alive.push(index);
    }

    /// Sends all requests, and returns when each is answered or a second old.
    pub(super) fn run(self: &Arc<Self>) -> std::io::Result<Vec<CheckAttempt>> {
        let runtime = runtime()?;
        let (sender, attempts) = channel();
        for index in 0..self.callers.len() {
            runtime.spawn(Arc::clone(self).send_all(index, sender.clone()));
        }
        drop(sender);
        Ok(attempts.iter().collect())
    }

    fn instant(&self, at: f64) -> tokio::time::Instant {
        (self.begun + Duration::from_secs_f64(at)).into()
    }

    /// Everything that a caller sends.
    async fn send_all(self: Arc<Self>, index: usize, sender: Sender<CheckAttempt>) {
        let FleetCaller { group: UserGroup { rate, .. }, phase_s, .. } = self.callers[index];
        for number in 0_u32.. {
            // From the number, not from the last instant: sums of periods drift.
            let mut due = phase_s + f64::from(number) / rate;
            let next = self.instant((phase_s + f64::from(number + 1) / rate).min(self.seconds));
            if due >= self.seconds {
                return;
            }
            sleep_until(self.instant(due)).await;
            // When the next attempt is due, the one under way goes on and is not retried.
            let _ = timeout_at(next, async {
                for number in 0.. {
                    let attempt = Arc::clone(&self).attempt(index, number, due, sender.clone());
                    let Ok(Some(retry_at)) = tokio::spawn(attempt).await else { return };
                    sleep_until(self.instant(retry_at)).await;
                    due = retry_at;
                }
            })
            .await;
        }
    }

    /// Sends an attempt. One whose connection broke is sent again and remains the same attempt. The
    /// value is when to retry it.
    async fn attempt(
        self: Arc<Self>,
        caller: usize,
        number: u32,
        due: f64,
        sender: Sender<CheckAttempt>,
    ) -> Option<f64> {
        let FleetCaller { group, body, .. } = &self.callers[caller];
        let now = || self.begun.elapsed().as_secs_f64();
        let asked = now();
        let mut member = 0;
        let answer = async {
            loop {
                let (index, address) = self.counts().choose(caller, now())?;
                member = index;
                match self.client.check(address, body.clone(), number).await {
                    Ok(outcome) => return Some(outcome),
                    Err(error) if error.is_connect() => self.counts().alive.retain(|one| *one != index),
                    Err(_) => self.counts().broken += 1,
                }
            }
        };
        let outcome = timeout(ANSWER_WITHIN, answer).await.unwrap_or(Some(CheckOutcome::NoAnswer))?;
        let answered = now();
        // The receiver outlives the runtime.
        let _ =
            sender.send(CheckAttempt { caller, member, number, late: asked - due, asked, answered, outcome });
        let refused_since = &mut self.counts().states[caller].refused_since;
        if outcome == CheckOutcome::Admitted {
            *refused_since = None;
            return None;
        }
        let is_persistent = answered - *refused_since.get_or_insert(asked) > PERSISTENT_FOR_S;
        let pause = if is_persistent { PERSISTENT_RETRY_AFTER_S } else { RETRY_AFTER_S };
        matches!(group.habit, CallerHabit::Sticky | CallerHabit::Drawn).then_some(answered.max(asked + pause))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use super::*;

    /// When the stub begins to admit.
    const ADMITS_AFTER_S: f64 = 1.2;

    /// Answers the requests of one connection.
    fn serve(stream: &TcpStream, begun: Instant) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        loop {
            let mut length = 0;
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line)? == 0 {
                    return Ok(());
                }
                if let Some(value) = line.to_lowercase().strip_prefix("content-length: ") {
                    length = value.trim().parse().unwrap();
                }
                if line == "\r\n" {
                    break;
                }
            }
            reader.read_exact(&mut vec![0; length])?;
            let answer = if begun.elapsed().as_secs_f64() > ADMITS_AFTER_S {
                "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
            } else {
                "HTTP/1.1 429 Too Many Requests\r\ncontent-length: 26\r\n\r\n{\"reason\":\"rate_exceeded\"}"
            };
            (&mut &*stream).write_all(answer.as_bytes())?;
        }
    }

    #[test]
    fn first_attempts_retries_and_the_change_of_daemon_come_as_they_should() {
        let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
        let gone = listen().local_addr().unwrap();
        let stub = listen();
        let members = vec![gone, stub.local_addr().unwrap()];
        let group = UserGroup { kind: "slow", habit: CallerHabit::Sticky, users: 2.0, rate: 2.0 };
        let begun = Instant::now();
        thread::spawn(move || {
            for stream in stub.incoming().map_while(Result::ok) {
                thread::spawn(move || serve(&stream, begun));
            }
        });
        let load = CallerLoad::new(&[group], 1.0, members, begun, 3.0);
        let attempts = load.run().unwrap();
        assert_eq!(load.counts().moved, 1);
        assert_eq!(load.counts().unsent, 0);
        for index in 0..2 {
            let own: Vec<_> = attempts.iter().filter(|one| one.caller == index).collect();
            let first: Vec<_> = own.iter().filter(|one| one.number == 0).collect();
            assert_eq!(first.len(), 6, "two first attempts a second for three seconds");
            assert!(own.iter().all(|one| one.late >= 0.0));
            for pair in own.windows(2).filter(|pair| pair[1].number > 0) {
                assert!(!pair[0].is_admitted() && pair[1].number == pair[0].number + 1);
                assert!(pair[1].asked - pair[0].asked >= RETRY_AFTER_S, "{pair:?}");
            }
            let late = own.iter().filter(|one| one.asked > ADMITS_AFTER_S + 0.05);
            assert!(late.clone().count() > 0 && late.into_iter().all(|one| one.is_admitted()));
            let most = own.iter().map(|one| one.number).max();
            // On a busy machine a retry may come too late for its place.
            assert!((1..=4).contains(&most.unwrap()), "the next first attempt ends the retries");
        }
    }
}
