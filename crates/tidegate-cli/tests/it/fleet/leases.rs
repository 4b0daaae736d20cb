//! Members that share a limit by leases, as processes.

use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tidegate_test_support::{PATIENCE, TemporaryFile, holds_within, until};

use super::{ADA, body, get, is_ready, member, redis_or_skip, two_members};
use crate::command::run;
use crate::process::{Daemon, answer, post, send};

/// Asks one after the other over one connection.
struct Caller(TcpStream);

impl Caller {
    fn new(address: &str) -> Self {
        Self(TcpStream::connect(address).unwrap())
    }

    /// Whether Ada is admitted; the body if she is not.
    fn ask(&mut self) -> Result<(), Value> {
        let length = ADA.len();
        let request = format!("POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: {length}\r\n\r\n{ADA}");
        send(&mut self.0, &request);
        match answer(&mut self.0) {
            (200, _) => Ok(()),
            (429 | 503, text) => Err(body(&text)),
            other => panic!("{other:?}"),
        }
    }

    /// How many are admitted until one is refused.
    fn burst(&mut self) -> u64 {
        let mut admitted = 0;
        while self.ask().is_ok() {
            admitted += 1;
        }
        admitted
    }
}

/// The tokens that a member has in hand, by its own word.
fn leases_in_hand(address: &str) -> u64 {
    let said = leases(address);
    let members = said["members"].as_array().unwrap();
    members.iter().find(|one| one["id"] == said["member"]).unwrap()["tokens"].as_u64().unwrap()
}

fn leases(address: &str) -> Value {
    body(&get(address, "/v1/leases").1)
}

/// Nothing more comes if nothing has come for so long.
const SILENCE: Duration = Duration::from_secs(3);

/// Asks all until `enough` are admitted, or at least `least` and then nothing for [`SILENCE`].
fn use_up(callers: &mut [Caller], least: impl Fn() -> u64, enough: u64) -> u64 {
    let mut admitted = 0;
    while admitted < enough {
        let patience = if admitted < least() { PATIENCE } else { SILENCE };
        let before = admitted;
        let is_admitted = || {
            admitted += callers.iter_mut().map(Caller::burst).sum::<u64>();
            admitted > before
        };
        if !holds_within(patience, is_admitted) {
            break;
        }
    }
    admitted
}

const DAY: &str = "{ name: day, key: [user], fixed: { limit: 600, window: 24h }, consistency: leased }";

#[test]
fn a_quota_leased_by_three_members_is_used_to_the_last_unit_and_shown_meanwhile() {
    let name = "a_quota_leased_by_three_members_is_used_to_the_last_unit_and_shown_meanwhile";
    let Some(redis) = redis_or_skip(name) else { return };
    let members: Vec<_> = (0..3).map(|_| member(redis.port(), DAY)).collect();
    for (_, address, _) in &members {
        until("it is ready", || is_ready(address));
    }
    let mut callers: Vec<_> = members.iter().map(|(_, address, _)| Caller::new(address)).collect();
    assert!(callers[0].ask().is_ok());
    let first = members[0].1.as_str();
    until("all members are known", || leases(first)["count"] == 3);
    let said = leases(first);
    let me = said["members"].as_array().unwrap().iter().find(|one| one["id"] == said["member"]).unwrap();
    assert_eq!(
        (&me["leases"][0]["limit"], &me["leases"][0]["scope"]["user"]),
        (&"day".into(), &"ada".into())
    );
    assert_eq!(use_up(&mut callers, || 599, 600) + 1, 600);
    // No member admits one more.
    for caller in &mut callers {
        let refusal = caller.ask().unwrap_err();
        assert_eq!(refusal["reason"], "quota_exceeded", "{refusal}");
    }

    let at = format!("http://{first}");
    let (code, out, err) = run(&["leases", "--at", &at]);
    assert_eq!(code, 0, "{err}");
    assert!(out.starts_with("3 members share the store.") && out.contains("api/day user=ada"), "{out}");
    let (code, out, _) = run(&["leases", "--at", &at, "--json"]);
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &json["count"]), (0, &3.into()));
    let (code, out, _) = run(&["leases", "acknowledge", "--at", &at]);
    assert_eq!((code, out.as_str()), (0, "There is no loss to acknowledge.\n"));
}

#[test]
fn a_member_that_stops_gives_its_leases_back_and_one_that_is_killed_is_missed() {
    let name = "a_member_that_stops_gives_its_leases_back_and_one_that_is_killed_is_missed";
    let Some(redis) = redis_or_skip(name) else { return };
    let (_stays, address, _file) = member(redis.port(), DAY);
    let (mut stops, stopping, _file2) = member(redis.port(), DAY);
    let (mut dies, dying, _file3) = member(redis.port(), DAY);
    for address in [&address, &stopping, &dying] {
        until("it is ready", || is_ready(address));
    }
    let (mut one, mut other, mut third) =
        (Caller::new(&address), Caller::new(&stopping), Caller::new(&dying));
    assert!(one.ask().is_ok() && other.ask().is_ok());
    until("all members are known", || leases(&address)["count"] == 3);
    let (mut before, mut asked, since) = (2, 0, Instant::now());
    until("the third has something in hand", || {
        // A hundred a second, also where a look takes long: a member with few requests is lent none
        // in advance.
        let due = (since.elapsed().as_millis() / 10).saturating_sub(asked).clamp(1, 8);
        for _ in 0..due {
            before += u64::from(third.ask().is_ok());
        }
        asked += due;
        leases_in_hand(&dying) > 2
    });
    let really = leases_in_hand(&dying);
    dies.process.kill();
    drop((other, third));
    stops.signal("TERM");
    assert_eq!(stops.end().0, Some(0));
    until("they are not counted any more", || leases(&address)["count"] == 1);
    assert_eq!(leases(&address)["gone"], 1);
    let metrics = get(&address, "/metrics").1;
    assert!(metrics.contains("\ntidegate_members_gone_total 1\n"), "{metrics}");
    // Short by what the dead one had in hand at most, which is less than 300, and never over. The
    // ledger reports the bound: the granted tokens that no member gave back.
    let gone_tokens = || leases(&address)["gone_tokens"].as_u64().unwrap();
    let least = || 600_u64.saturating_sub(before + gone_tokens().min(300));
    let admitted = before + use_up(std::slice::from_mut(&mut one), least, 600 - before - really);
    let gone = gone_tokens();
    assert!((really..300).contains(&gone) && gone > 2, "{gone} gone, {really} in hand");
    assert!((600 - gone..=600).contains(&admitted), "{admitted}, {gone} gone");
    let (_, said, _) = run(&["leases", "--at", &format!("http://{address}")]);
    assert!(said.contains(&format!("{gone} tokens of windows granted to members that are gone")), "{said}");
    let metrics = get(&address, "/metrics").1;
    assert!(metrics.contains(&format!("\ntidegate_members_gone_tokens {gone}\n")), "{metrics}");
}

#[test]
fn a_leased_rate_goes_on_without_the_store_and_a_quota_spends_what_it_has() {
    let name = "a_leased_rate_goes_on_without_the_store_and_a_quota_spends_what_it_has";
    let Some(mut redis) = redis_or_skip(name) else { return };
    let (_daemon, address, _file) =
        member(redis.port(), "{ name: rate, key: [user], rate: 1000/s, burst: 1000 }");
    let (_other, quota, _other_file) = member(redis.port(), DAY);
    until("both are ready", || is_ready(&address) && is_ready(&quota));
    let (mut rate, mut day) = (Caller::new(&address), Caller::new(&quota));
    // Its lease covers what it is asked for.
    for _ in 0..300 {
        let _ = rate.ask();
    }
    assert!(day.ask().is_ok());
    redis.kill();
    let started = Instant::now();
    let (mut asked, mut admitted) = (0, 0);
    while started.elapsed() < Duration::from_secs(2) || asked <= 100 {
        asked += 1;
        admitted += u64::from(rate.ask().is_ok());
        // Sleeps: a lease ends in real time, which the callers outlast at a moderate load.
        thread::sleep(Duration::from_millis(5));
    }
    assert!(admitted > 50 && admitted * 2 >= asked, "{admitted} of {asked} without the store");
    let spent = day.burst();
    assert!(spent < 599, "{spent}");
    let refusal = day.ask().unwrap_err();
    assert_eq!(refusal["reason"], "store_unavailable", "it is not the caller who is over: {refusal}");
    redis.start_again(&[]);
    until("it is lent again", || rate.ask().is_ok());
}

#[test]
fn members_divide_a_local_limit_and_take_over_what_another_leaves() {
    let name = "members_divide_a_local_limit_and_take_over_what_another_leaves";
    let Some(redis) = redis_or_skip(name) else { return };
    let limit = "{ name: each, key: [user], rate: 1/h, burst: 100, consistency: local, share: auto }";
    let [(_one, address, _file), (mut two, other, _other_file)] = two_members(redis.port(), limit);
    let part = |address: &str| {
        let peek = r#"{"namespace":"api","attributes":{"user":"ada"},"peek":true}"#;
        body(&post(address, "/v1/check", peek).1)["limits"][0]["limit"].as_u64()
    };
    until("each has a half", || part(&address) == Some(50) && part(&other) == Some(50));
    assert_eq!(Caller::new(&address).burst(), 50);
    two.signal("TERM");
    assert_eq!(two.end().0, Some(0));
    until("the other half comes back", || part(&address) == Some(100));
    assert_eq!(Caller::new(&address).burst(), 50, "what was used stays used");
}

#[test]
fn a_daemon_that_shares_no_store_says_so() {
    let file = TemporaryFile::new("listen: { http: 127.0.0.1:0 }\nnamespaces: { api: { limits: [] } }\n");
    let mut daemon = Daemon::start(&["--config", file.as_str()]);
    let at = format!("http://{}", daemon.address());
    let (code, _, err) = run(&["leases", "--at", &at]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("shares no store") && err.contains("kind: redis"), "{err}");
    let (code, _, err) = run(&["leases", "--at", "redis://127.0.0.1:1"]);
    assert!(code == 2 && err.contains("does not speak the HTTP API"), "{err}");
}
