//! redis-cell: `CL.THROTTLE` by redis-cli and redis-py, and where the answers differ.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::Command;

use super::workshop::{Section, Workshop};
use crate::gateways::tools::{fetched_or_skip, find_or_skip};

/// The folder with the policy of the page, which is served.
fn workshop(page: &Section) -> Workshop {
    let mut workshop = Workshop::new(&[8080, 6380]);
    workshop.follow(&page.block("# resp.yaml"));
    workshop.follow(&page.block("serve resp.yaml"));
    workshop
}

/// The output of `redis-cli` for the command, from the port of the page.
fn cli(workshop: &Workshop, command: &str) -> String {
    workshop.run(&format!("redis-cli -p 6380 {command}")).trim_end().to_owned()
}

#[test]
fn redis_cli_prints_what_the_page_shows() {
    let Some(_) = find_or_skip("redis-cli", "redis_cli_prints_what_the_page_shows") else { return };
    let page = Section::of("## From redis-cell");
    let mut workshop = workshop(&page);
    workshop.follow(&page.block("CL.THROTTLE user123 15 30 60\n1)"));
    workshop.follow(&page.block("TG.CHECK"));
}

/// Differences of the table that show at the protocol: the cells of redis-cell and Tidegate, the
/// command, and the beginning of its answer.
const DIFFERENCES: &[(&str, &str, &str, &str)] = &[
    (
        "quantity -1",
        "`ERR quantity -1 is negative; use 0 or more`",
        "CL.THROTTLE k 15 30 60 -1",
        "(error) ERR quantity -1 is negative; use 0 or more",
    ),
    (
        "period above 31 days",
        "an error; write the limit into the policy",
        "CL.THROTTLE k 15 30 2678401",
        "(error) ERR period 2678401 is longer than 2678400 seconds (31 days); use a shorter one, or write the limit into the",
    ),
    ("`WATCH`, `EVAL`", "unknown commands", "WATCH k", "(error) ERR unknown command"),
    ("`WATCH`, `EVAL`", "unknown commands", "EVAL 'return 1' 0", "(error) ERR unknown command"),
    ("`DEL key`", "works", "DEL used", "(integer) 1"),
    ("`GET`, `TTL`, `KEYS`, `SCAN`", "unknown commands", "GET k", "(error) ERR unknown command"),
    ("`GET`, `TTL`, `KEYS`, `SCAN`", "unknown commands", "TTL k", "(error) ERR unknown command"),
    ("`GET`, `TTL`, `KEYS`, `SCAN`", "unknown commands", "KEYS '*'", "(error) ERR unknown command"),
    ("`GET`, `TTL`, `KEYS`, `SCAN`", "unknown commands", "SCAN 0", "(error) ERR unknown command"),
    (
        "`SELECT 1`",
        "`ERR DB index is out of range; use 0`",
        "SELECT 1",
        "(error) ERR DB index is out of range; use 0",
    ),
];

#[test]
fn the_commands_that_differ_differ_as_the_page_says() {
    let Some(_) = find_or_skip("redis-cli", "the_commands_that_differ_differ_as_the_page_says") else {
        return;
    };
    let page = Section::of("## From redis-cell");
    let rows = page.rows("| | redis-cell | Tidegate |");
    let workshop = workshop(&page);
    cli(&workshop, "CL.THROTTLE used 0 1 60");
    for (what, ours, command, answer) in DIFFERENCES {
        assert!(rows.iter().any(|row| row[0] == *what && row[2] == *ours), "no row | {what} | .. | {ours} |");
        let found = cli(&workshop, command);
        assert!(found.starts_with(answer), "{command}: {found}");
    }
    assert!(cli(&workshop, "CL.THROTTLE used 0 1 60").starts_with("1) (integer) 0"), "DEL forgets the key");
}

/// The integers in the replies to commands that are sent in one packet.
fn replies(workshop: &Workshop, commands: &[String]) -> Vec<Vec<i64>> {
    let mut stream = TcpStream::connect(workshop.address(6380)).unwrap();
    stream.write_all((commands.join("\r\n") + "\r\n").as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    let mut next = move || {
        let line = lines.next().unwrap();
        line.get(1..).unwrap().parse::<i64>().unwrap_or_else(|_| panic!("{line}"))
    };
    commands
        .iter()
        .map(|_| {
            let length = next();
            (0..length).map(|_| next()).collect()
        })
        .collect()
}

#[test]
fn more_than_a_thousand_a_second_are_limited_and_waits_below_a_millisecond_are_rounded_up() {
    let page = Section::of("## From redis-cell");
    let rows = page.rows("| | redis-cell | Tidegate |");
    for (what, ours) in [
        ("wait below a millisecond", "rounded up to 1 s; `TG.THROTTLE` reports milliseconds"),
        ("more than 1000 a second", "limited"),
    ] {
        assert!(rows.iter().any(|row| row[0] == what && row[2] == ours), "no row | {what} | .. | {ours} |");
    }
    let workshop = workshop(&page);
    // The third number is what is left, the fourth the wait: in seconds, or in milliseconds.
    for (command, waits) in [("CL.THROTTLE", 1), ("TG.THROTTLE", 1)] {
        let commands: Vec<_> = (0..40).map(|_| format!("{command} {command} 0 2000 1")).collect();
        let replies = replies(&workshop, &commands);
        assert_eq!(replies[0][..3], [0, 1, 0], "{command}: {replies:?}");
        let refused: Vec<_> = replies.iter().filter(|reply| reply[0] == 1).collect();
        assert!(!refused.is_empty(), "{command}: forty at once are more than 2000 a second: {replies:?}");
        assert!(refused.iter().all(|reply| reply[3] == waits), "{command}: {replies:?}");
    }
}

#[test]
fn a_transaction_of_redis_cli_is_answered_as_that_of_redis() {
    let Some(_) = find_or_skip("redis-cli", "a_transaction_of_redis_cli_is_answered_as_that_of_redis") else {
        return;
    };
    let page = Section::of("## From redis-cell");
    let rows = page.rows("| | redis-cell | Tidegate |");
    assert!(rows.iter().any(|row| row == &["`MULTI`, `EXEC`, `DISCARD`", "work", "work"]), "{rows:?}");
    let workshop = workshop(&page);
    let commands = "MULTI\nCL.THROTTLE t 1 1 60\nCL.THROTTLE t 1 1 60\nCL.THROTTLE t 1 1 60\nEXEC\n\
                    MULTI\nCL.THROTTLE other 0 1 60\nDISCARD\nCL.THROTTLE other 0 1 60\n";
    std::fs::write(workshop.file("commands"), commands).unwrap();
    let printed = workshop.run("sh -c 'redis-cli -p 6380 < commands'");
    let lines: Vec<&str> = printed.lines().collect();
    // Each decision is five lines, of which the first says whether it was refused.
    assert_eq!(lines[..4], ["OK", "QUEUED", "QUEUED", "QUEUED"], "{printed}");
    assert_eq!([lines[4], lines[9], lines[14]], ["0", "0", "1"], "{printed}");
    assert_eq!(lines[19..22], ["OK", "QUEUED", "OK"], "{printed}");
    assert_eq!((lines[22], lines.len()), ("0", 27), "what was discarded is not charged: {printed}");
}

#[test]
fn redis_py_sends_its_call_and_its_pipelines_unchanged() {
    let test = "redis_py_sends_its_call_and_its_pipelines_unchanged";
    let Some(python) = fetched_or_skip("python", "bin/python", test) else { return };
    let page = Section::of("## From redis-cell");
    page.assert_says(
        "redis-py puts `MULTI` and `EXEC` around a pipeline by default, and `pipeline(transaction=False)` leaves \
         them out; both work.",
    );
    let workshop = workshop(&page);
    let port = workshop.address(6380).rsplit(':').next().unwrap();
    let call = page.block("redis.Redis(port=6379)").text.replace("6379", port);
    let script = format!(
        "import redis\n\
         first = {call}\
         assert first[:4] == [0, 16, 15, -1], first\n\
         for transaction in (True, False):\n    \
             pipeline = redis.Redis(port={port}).pipeline(transaction=transaction)\n    \
             for _ in range(20):\n        \
                 pipeline.execute_command('CL.THROTTLE', f'by {{transaction}}', 15, 30, 60)\n    \
             replies = pipeline.execute()\n    \
             assert [reply[0] for reply in replies] == [0] * 16 + [1] * 4, replies\n"
    );
    let output = Command::new(python).args(["-B", "-c", &script]).output().unwrap();
    assert!(output.status.success(), "{script}\n{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn after_kill_9_hours_are_remembered_and_minutes_forgotten() {
    let test = "after_kill_9_hours_are_remembered_and_minutes_forgotten";
    let Some(_) = find_or_skip("redis-cli", test) else { return };
    let page = Section::of("## From redis-cell");
    page.assert_says(
        "periods of an hour or longer survive with a store, also `kill -9`; shorter ones are forgotten",
    );
    let mut workshop = workshop(&page);
    let refused = |workshop: &Workshop, period: u32| {
        let printed = cli(workshop, &format!("CL.THROTTLE key-of-{period} 0 1 {period}"));
        printed.lines().next() == Some("1) (integer) 1")
    };
    assert_eq!([3600, 3599].map(|period| refused(&workshop, period)), [false; 2]);
    assert_eq!([3600, 3599].map(|period| refused(&workshop, period)), [true; 2]);
    workshop.kill_first_daemon();
    workshop.serve("resp.yaml");
    assert_eq!([3600, 3599].map(|period| refused(&workshop, period)), [true, false]);
}
