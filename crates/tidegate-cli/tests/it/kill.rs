//! Killed at random moments under load: what callers were told is what the daemon still knows.
//!
//! Every client writes down what it was answered, and what it asked without getting an answer.
//! After each restart the repeatable operations without an answer (refunds, settlements) are
//! repeated, and the counters must lie between what was surely charged and that plus what may have
//! been.

use std::collections::VecDeque;
use std::io::Write;
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;
use tidegate_store::conformance::Random;
use tidegate_test_support::{PATIENCE, TemporaryFile, TemporaryFolder, holds_within};

use crate::process::{Daemon, try_answer};
use crate::seed::seed;

const LIMIT: u64 = 1_000_000_000;
const USERS: u64 = 3;
const CLIENTS: u64 = 6;

/// A life lasts until a random number of answers, less than this, has come: on a busy machine its
/// time alone may be too short for any.
const ANSWERS_AWAITED: u64 = 5;

/// One counter, as its callers know it.
#[derive(Default)]
struct Account {
    /// Units that were charged for sure and not given back.
    sure: i64,
    /// Units that may have been charged: asked for, and never answered.
    perhaps: i64,
    /// Refund keys that were answered, to be repeated in vain.
    refunded: VecDeque<(String, u64)>,
    /// Refunds without an answer.
    open_refunds: Vec<(String, u64)>,
    /// Permits with what they reserved.
    reserved: Vec<(String, u64)>,
    /// Settlements without an answer: permit, reserved, true cost.
    open_settlements: Vec<(String, u64, u64)>,
}

struct Client<'a> {
    stream: TcpStream,
    accounts: &'a [Mutex<Account>],
    draws: Random,
    number: &'a AtomicU64,
    answered: &'a AtomicU64,
}

/// Status and body, or nothing if the daemon is gone.
fn ask(stream: &mut TcpStream, path: &str, body: &str) -> Option<(u16, Value)> {
    let request = format!("POST {path} HTTP/1.1\r\nhost: t\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).ok()?;
    let (status, text) = try_answer(stream)?;
    let json = text.split_once("\r\n\r\n").and_then(|(_, body)| serde_json::from_str(body).ok());
    Some((status, json?))
}

fn attributes(user: usize) -> String {
    format!(r#""namespace":"api","attributes":{{"user":"u{user}"}}"#)
}

impl Client<'_> {
    /// Works until the daemon is gone.
    fn work(mut self) {
        loop {
            let user = self.draws.below(USERS) as usize;
            let goes_on = match self.draws.below(10) {
                0 => self.refund(user),
                1 => self.refund_again(user),
                2 => self.reserve(user),
                3 => self.settle(user),
                _ => self.check(user),
            };
            if goes_on.is_none() {
                return;
            }
            self.answered.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn check(&mut self, user: usize) -> Option<()> {
        let cost = 1 + self.draws.below(3);
        let body = format!("{{{},\"cost\":{cost}}}", attributes(user));
        let answer = ask(&mut self.stream, "/v1/check", &body);
        let mut account = self.accounts[user].lock().unwrap();
        match answer {
            Some((200, _)) => account.sure += cost.cast_signed(),
            Some((status, body)) => panic!("{status} {body}"),
            None => {
                account.perhaps += cost.cast_signed();
                return None;
            }
        }
        Some(())
    }

    /// Gives back less than is surely charged, under a new key.
    fn refund(&mut self, user: usize) -> Option<()> {
        let key = format!("r{}", self.number.fetch_add(1, Ordering::Relaxed));
        {
            let mut account = self.accounts[user].lock().unwrap();
            if account.sure < 100 {
                return Some(());
            }
            // Taken off before it is asked for: another client must not count on these units.
            account.sure -= 2;
            account.open_refunds.push((key.clone(), 2));
        }
        self.send_refund(user, &key, 2)?;
        let mut account = self.accounts[user].lock().unwrap();
        account.open_refunds.retain(|(open, _)| *open != key);
        account.refunded.push_back((key, 2));
        if account.refunded.len() > 50 {
            account.refunded.pop_front();
        }
        Some(())
    }

    fn send_refund(&mut self, user: usize, key: &str, cost: u64) -> Option<String> {
        let body = format!("{{{},\"cost\":{cost},\"refund_key\":\"{key}\"}}", attributes(user));
        let (status, json) = ask(&mut self.stream, "/v1/refund", &body)?;
        assert_eq!(status, 200, "{json}");
        Some(json["refund"].as_str().unwrap().to_owned())
    }

    /// Repeats a refund that was given: nothing more is given back, also when it was given before a
    /// crash.
    fn refund_again(&mut self, user: usize) -> Option<()> {
        let known = {
            let account = self.accounts[user].lock().unwrap();
            let some = self.draws.below(account.refunded.len().max(1) as u64) as usize;
            account.refunded.get(some).cloned()
        };
        let Some((key, cost)) = known else { return Some(()) };
        let refund = self.send_refund(user, &key, cost)?;
        assert_eq!(refund, "already_applied", "the refund {key} was given twice");
        Some(())
    }

    fn reserve(&mut self, user: usize) -> Option<()> {
        let body = format!("{{{},\"cost\":5,\"expires_ms\":86400000}}", attributes(user));
        let answer = ask(&mut self.stream, "/v1/reserve", &body);
        let mut account = self.accounts[user].lock().unwrap();
        match answer {
            Some((200, json)) => {
                account.sure += 5;
                account.reserved.push((json["permit"].as_str().unwrap().to_owned(), 5));
            }
            Some((status, body)) => panic!("{status} {body}"),
            None => {
                account.perhaps += 5;
                return None;
            }
        }
        Some(())
    }

    fn settle(&mut self, user: usize) -> Option<()> {
        let cost = self.draws.below(9);
        let permit = {
            let mut account = self.accounts[user].lock().unwrap();
            let Some((permit, reserved)) = account.reserved.pop() else { return Some(()) };
            account.open_settlements.push((permit.clone(), reserved, cost));
            permit
        };
        let settled = self.send_settle(&permit, cost)?;
        assert!(settled, "a permit that nobody settled was unknown");
        let mut account = self.accounts[user].lock().unwrap();
        account.open_settlements.retain(|(open, _, _)| *open != permit);
        account.sure += cost.cast_signed() - 5;
        Some(())
    }

    /// Whether it was still to be settled.
    fn send_settle(&mut self, permit: &str, cost: u64) -> Option<bool> {
        let body = format!("{{\"permit\":\"{permit}\",\"cost\":{cost}}}");
        let (status, json) = ask(&mut self.stream, "/v1/settle", &body)?;
        assert!(matches!(status, 200 | 404), "{status} {json}");
        Some(status == 200)
    }

    /// After a restart: repeats what had no answer, then compares the counter with the books.
    fn audit(&mut self, user: usize, round: u64) {
        let (refunds, settlements) = {
            let mut account = self.accounts[user].lock().unwrap();
            (core::mem::take(&mut account.open_refunds), core::mem::take(&mut account.open_settlements))
        };
        for (key, cost) in refunds {
            // Applied before the crash or now, but once: it was taken off the books when it was
            // asked for.
            self.send_refund(user, &key, cost).unwrap();
            let again = self.send_refund(user, &key, cost).unwrap();
            assert_eq!(again, "already_applied");
            self.accounts[user].lock().unwrap().refunded.push_back((key, cost));
        }
        for (permit, reserved, cost) in settlements {
            self.send_settle(&permit, cost).unwrap();
            assert!(!self.send_settle(&permit, cost).unwrap(), "permit {permit} was settled twice");
            self.accounts[user].lock().unwrap().sure += cost.cast_signed() - reserved.cast_signed();
        }
        let body = format!("{{{},\"peek\":true}}", attributes(user));
        let (status, json) = ask(&mut self.stream, "/v1/check", &body).unwrap();
        assert_eq!(status, 200, "{json}");
        let left: Vec<_> = json["limits"].as_array().unwrap().iter().map(|one| &one["remaining"]).collect();
        assert_eq!(left[0], left[1], "round {round}: the limits of one request were charged apart");
        let booked = LIMIT.cast_signed() - json["remaining"].as_i64().unwrap();
        let mut account = self.accounts[user].lock().unwrap();
        let (least, most) = (account.sure, account.sure + account.perhaps);
        assert!(
            (least..=most).contains(&booked),
            "round {round}, user {user}: {booked} units are used; between {least} and {most} were charged"
        );
        account.sure = booked;
        account.perhaps = 0;
    }
}

#[test]
fn killed_at_two_hundred_random_moments_no_charge_is_lost_or_doubled_and_no_refund_given_twice() {
    let seed = seed("TIDEGATE_KILL_SEED");
    let rounds = std::env::var("TIDEGATE_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(200);
    println!("TIDEGATE_KILL_SEED={seed} TIDEGATE_KILLS={rounds}");
    let folder = TemporaryFolder::new();
    let file = TemporaryFile::new(&format!(
        "listen: {{ http: 127.0.0.1:0 }}\nlog: {{ level: warn }}\nmemory: {{ keys: 1MiB }}\n\
         store: {{ kind: embedded, path: {}, durability: sync }}\n\
         namespaces: {{ api: {{ limits: [\
         {{ name: yearly, key: [user], calendar: {{ limit: {LIMIT}, unit: year, zone: UTC }} }}, \
         {{ name: running, key: [user], fixed: {{ limit: {LIMIT}, window: 365d }} }}] }} }}\n",
        folder.path().join("data").display()
    ));
    let accounts: Vec<Mutex<Account>> = (0..USERS).map(|_| Mutex::default()).collect();
    let (number, answered) = (AtomicU64::new(0), AtomicU64::new(0));
    let mut draws = Random::new(seed);
    for round in 0..=rounds {
        let mut daemon = Daemon::start(&["--config", file.as_str()]);
        let address = daemon.address();
        let client = |seed| Client {
            stream: TcpStream::connect(&address).unwrap(),
            accounts: &accounts,
            draws: Random::new(seed),
            number: &number,
            answered: &answered,
        };
        let mut auditor = client(0);
        (0..USERS as usize).for_each(|user| auditor.audit(user, round));
        if round == rounds {
            break;
        }
        let alive = Duration::from_micros(1_000 + draws.below(120_000));
        // Counters; the sum alone matters.
        let enough = answered.load(Ordering::Relaxed) + draws.below(ANSWERS_AWAITED);
        std::thread::scope(|scope| {
            for _ in 0..CLIENTS {
                let client = client(draws.next_u64());
                scope.spawn(|| client.work());
            }
            // Sleeps: the daemon lives for a random time before it is killed.
            std::thread::sleep(alive);
            let _ = holds_within(PATIENCE, || answered.load(Ordering::Relaxed) >= enough);
            // SIGKILL, by its id.
            daemon.process.kill();
        });
    }
    let answered = answered.load(Ordering::Relaxed);
    println!("{rounds} kills, {answered} answers between them");
    assert!(answered > rounds, "there was hardly any load: {answered} answers");
}
