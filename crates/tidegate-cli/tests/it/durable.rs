//! Quotas of a policy that names no store: they are kept in files, or the daemon does not start.

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tidegate_test_support::TemporaryFolder;

use crate::command::tidegate;
use crate::process::{Daemon, post};

const QUOTA: &str = "\
listen: { http: 127.0.0.1:0 }
namespaces:
  api: { limits: [{ name: daily, calendar: { limit: 5, unit: year, zone: UTC } }] }
";

const RATE: &str = "\
listen: { http: 127.0.0.1:0 }
namespaces:
  api: { limits: [{ name: quick, rate: 100/m }] }
";

/// A user that owns nothing.
const NOBODY: u32 = 65534;

/// A folder in which the command is run.
struct Place(TemporaryFolder);

impl Place {
    fn new(policy: &str) -> Self {
        let place = Self(TemporaryFolder::new());
        place.write("policy.yaml", policy);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = tidegate();
        command.args(arguments).current_dir(self.0.path());
        command
    }

    fn serve(&self) -> Daemon {
        Daemon::spawn(self.command(&["serve", "--config", "policy.yaml"]))
    }

    /// Runs a command to its end; its exit code, and its standard output.
    fn run(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = self.command(arguments).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// The line about the store among those that a daemon prints when it has started.
fn store_line(daemon: &mut Daemon) -> String {
    daemon.read_until("/metrics");
    let line = daemon.printed.lines().find(|line| line.starts_with("  store "));
    line.unwrap_or_else(|| panic!("{}", daemon.printed)).to_owned()
}

/// Charges one unit; what is left.
fn charge(address: &str) -> u64 {
    let (status, text) = post(address, "/v1/check", r#"{"namespace":"api","attributes":{}}"#);
    assert_eq!(status, 200, "{text}");
    let body: Value = serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap();
    body["remaining"].as_u64().unwrap()
}

/// Starts a daemon that must not start; its standard error.
fn refused(mut command: Command) -> String {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut printed = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut printed).unwrap();
    if !printed.is_empty() {
        child.kill().unwrap();
        child.wait().unwrap();
        panic!("it has started: {printed}");
    }
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    let err = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(4), "{err}");
    err
}

#[test]
fn a_quota_without_a_store_is_kept_in_the_directory_it_is_started_in_and_outlives_kill() {
    let place = Place::new(QUOTA);
    let mut daemon = place.serve();
    let address = daemon.address();
    let line = store_line(&mut daemon);
    assert!(line.trim_end().ends_with(place.path("tidegate-data").to_str().unwrap()), "{line}");
    assert_eq!((charge(&address), charge(&address)), (4, 3));
    daemon.signal("KILL");
    daemon.end();
    let mut daemon = place.serve();
    assert_eq!(charge(&daemon.address()), 2, "what was charged before the kill counts");
    daemon.signal("TERM");
    let (code, err) = daemon.end();
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(place.names(), ["policy.yaml", "tidegate-data"]);
}

#[test]
fn rates_without_a_store_and_quotas_with_kind_memory_make_no_directory() {
    for policy in [RATE, &format!("store: {{ kind: memory }}\n{QUOTA}")] {
        let place = Place::new(policy);
        let mut daemon = place.serve();
        let address = daemon.address();
        assert!(store_line(&mut daemon).contains("memory"), "{}", daemon.printed);
        charge(&address);
        daemon.signal("TERM");
        assert_eq!(daemon.end().0, Some(0));
        assert_eq!(place.names(), ["policy.yaml"], "{policy}");
    }
}

#[test]
fn quotas_of_envoy_files_are_kept_as_well_also_without_any_namespace() {
    let shop = |unit: &str| {
        format!(
            "domain: shop\ndescriptors: [{{ key: user, rate_limit: {{ unit: {unit}, requests_per_unit: 2 }} }}]\n"
        )
    };
    let ask = |address: &str| {
        let hit = r#"{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"ada"}]}]}"#;
        post(address, "/json", hit).0
    };
    for unit in ["hour", "day", "week", "month", "year"] {
        let place = Place::new("listen: { http: 127.0.0.1:0 }\nenvoy_ratelimit: { path: ./limits }\n");
        fs::create_dir(place.path("limits")).unwrap();
        place.write("limits/shop.yaml", &shop(unit));
        let mut statuses = Vec::new();
        for _ in 0..3 {
            let mut daemon = place.serve();
            statuses.push(ask(&daemon.address()));
            daemon.signal("KILL");
            daemon.end();
        }
        // An hour may end meanwhile, and then the third is admitted.
        let is_over = if unit == "hour" { statuses[2] } else { 429 };
        assert_eq!(statuses, [200, 200, is_over], "{unit}");
        assert_eq!(place.names(), ["limits", "policy.yaml", "tidegate-data"], "{unit}");
    }
    let place = Place::new("listen: { http: 127.0.0.1:0 }\nenvoy_ratelimit: { path: ./limits }\n");
    fs::create_dir(place.path("limits")).unwrap();
    place.write("limits/shop.yaml", &shop("minute"));
    let mut daemon = place.serve();
    assert_eq!(ask(&daemon.address()), 200);
    assert_eq!(place.names(), ["limits", "policy.yaml"], "there is no quota");
}

#[test]
fn under_systemd_the_first_state_directory_is_used_and_one_of_before_goes_on() {
    let place = Place::new(QUOTA);
    let (first, second) = (place.path("first"), place.path("second"));
    let serve = || {
        let mut command = place.command(&["serve", "--config", "policy.yaml"]);
        command.env("STATE_DIRECTORY", format!("{}:{}", first.display(), second.display()));
        Daemon::spawn(command)
    };
    let left = |mut daemon: Daemon| {
        let left = charge(&daemon.address());
        daemon.signal("TERM");
        assert_eq!(daemon.end().0, Some(0));
        left
    };
    fs::create_dir(&first).unwrap();
    assert_eq!((left(serve()), left(serve())), (4, 3));
    assert_eq!(place.names(), ["first", "policy.yaml"]);
    assert!(first.join("counters.redb").is_file());
    // As it was kept before the variable was read.
    fs::rename(&first, place.path("tidegate-data")).unwrap();
    fs::create_dir(&first).unwrap();
    assert_eq!(left(serve()), 2);
    assert_eq!(fs::read_dir(&first).unwrap().count(), 0, "the store that is there goes on");
}

#[test]
fn a_second_daemon_in_the_same_directory_is_told_both_ways_out() {
    let place = Place::new(QUOTA);
    let mut first = place.serve();
    let address = first.address();
    let err = refused(place.command(&["serve", "--config", "policy.yaml"]));
    let line = err.lines().last().unwrap();
    assert!(
        line.starts_with(&format!(
            "tidegate: quotas are kept in {}, which process {} uses; ",
            place.path("tidegate-data").display(),
            first.process.id()
        )),
        "{line}"
    );
    for way in ["`store.path`", "`store: { kind: redis, urls: [..] }`", "`store: { kind: memory }`"] {
        assert!(line.contains(way), "{way}: {line}");
    }
    assert_eq!(charge(&address), 4, "the first is not disturbed");
}

/// The line that ends a start whose directory cannot be used names the directory, the cause and
/// what to do.
fn assert_unusable(err: &str, directory: &Path, cause: &str) {
    let line = err.lines().last().unwrap();
    let begin = format!("tidegate: quotas are kept in {}, which {cause}", directory.display());
    assert!(line.starts_with(&begin), "{line}");
    let end = "set `store.path` to another directory, or set `store: { kind: memory }`, with which a restart forgets quotas";
    assert!(line.ends_with(end), "{line}");
}

#[test]
fn a_directory_that_cannot_be_made_or_written_keeps_the_daemon_from_starting() {
    let place = Place::new(QUOTA);
    let serve = || place.command(&["serve", "--config", "policy.yaml"]);
    place.write("tidegate-data", "here first");
    assert_unusable(&refused(serve()), &place.path("tidegate-data"), "is not a directory; move it away, ");
    assert_eq!(fs::read(place.path("tidegate-data")).unwrap(), b"here first");
    let missing = place.path("missing");
    let mut command = serve();
    command.env("STATE_DIRECTORY", missing.join("state"));
    let cause = format!("cannot be made: {} is missing; create that directory, ", missing.display());
    assert_unusable(&refused(command), &missing.join("state"), &cause);
    // A directory of the kernel that takes no other, from root neither.
    let kernel = Path::new("/sys/tidegate-data");
    if kernel.parent().is_some_and(Path::is_dir) {
        let mut command = serve();
        command.env("STATE_DIRECTORY", kernel);
        assert_unusable(&refused(command), kernel, "cannot be made or written: ");
    } else {
        println!("skipped: a directory of the kernel: /sys is missing");
    }
}

#[test]
fn a_directory_of_another_user_keeps_the_daemon_from_starting() {
    const TEST: &str = "a_directory_of_another_user_keeps_the_daemon_from_starting";
    let place = Place::new(QUOTA);
    fs::set_permissions(place.0.path(), Permissions::from_mode(0o555)).unwrap();
    let mut serve = place.command(&["serve", "--config", "policy.yaml"]);
    if fs::write(place.path("probe"), "").is_ok() {
        // Root may write anywhere, so the daemon is started as another user.
        let mut probe = place.command(&["--version"]);
        if !probe.uid(NOBODY).gid(NOBODY).status().is_ok_and(|status| status.success()) {
            println!("skipped: {TEST}: the command cannot be run as user {NOBODY}");
            return;
        }
        fs::remove_file(place.path("probe")).unwrap();
        serve.uid(NOBODY).gid(NOBODY);
    }
    let err = refused(serve);
    let cause = "cannot be made or written: Permission denied (os error 13); make it writable for this user \
         (in a pod, by `fsGroup`), ";
    assert_unusable(&err, &place.path("tidegate-data"), cause);
    assert_eq!(place.names(), ["policy.yaml"]);
    fs::set_permissions(place.0.path(), Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn only_a_daemon_with_a_policy_of_its_own_makes_the_directory() {
    let place = Place::new(QUOTA);
    let (code, out) = place.run(&["validate", "policy.yaml"]);
    let expected =
        "policy.yaml: valid: 1 namespace, 1 limit\nquotas are kept in ./tidegate-data: api/daily\n";
    assert_eq!((code, out.as_str()), (Some(0), expected));
    let (code, out) = place.run(&["explain", "--config", "policy.yaml", "api", "user=ada"]);
    assert_eq!(code, Some(0), "{out}");
    let (code, out) = place.run(&["simulate", "fleet", "--members", "2", "--minutes", "1"]);
    assert!(code.is_some(), "{out}");
    assert_eq!(place.names(), ["policy.yaml"]);
    let mut daemon = Daemon::spawn(place.command(&["serve", "--listen", "127.0.0.1:0"]));
    let line = store_line(&mut daemon);
    assert!(line.contains("memory"), "{line}");
    daemon.signal("TERM");
    assert_eq!(daemon.end().0, Some(0));
    assert_eq!(place.names(), ["policy.yaml"]);
}

#[test]
fn validate_tells_which_store_keeps_which_limits() {
    let limits = "\
namespaces:
  api:
    limits:
      - { name: a, calendar: { limit: 5, unit: day, zone: UTC } }
      - { name: b, rate: 1/s }
      - { name: c, rate: 1/s, consistency: exact }
envoy_ratelimit: { path: shop.yaml }
";
    let shop = "domain: shop\ndescriptors:\n\
                - { key: m, rate_limit: { unit: minute, requests_per_unit: 2 } }\n\
                - { key: h, rate_limit: { unit: hour, requests_per_unit: 2 } }\n";
    for (store, expected) in [
        ("", "limits are kept in ./tidegate-data: api/a, api/c, shop.h\n"),
        ("store: { kind: embedded, path: d }\n", "limits are kept in d: api/a, api/c, shop.h\n"),
        ("store: { kind: memory }\n", "valid: 1 namespace, 3 limits, 1 domain, 2 limits, 1 warning\n"),
        (
            "store: { kind: redis, urls: [redis://h] }\n",
            "limits are kept in redis://h: api/a, api/b, api/c and 1 more\n",
        ),
    ] {
        let place = Place::new(&format!("{store}{limits}"));
        place.write("shop.yaml", shop);
        let (code, out) = place.run(&["validate", "policy.yaml"]);
        assert!(code == Some(0) && out.ends_with(expected), "{store}{out}");
    }
    let place = Place::new(limits);
    place.write("shop.yaml", shop);
    let (_, out) = place.run(&["validate", "--json", "policy.yaml"]);
    let verdict: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        verdict["store"],
        serde_json::json!({"kind": "embedded", "place": "./tidegate-data", "limits": ["api/a", "api/c", "shop.h"]})
    );
    let (_, out) = place.run(&["validate", "shop.yaml"]);
    assert!(out.ends_with("quotas are kept in ./tidegate-data: shop.h\n"), "{out}");
    assert_eq!(Place::new(RATE).run(&["validate", "policy.yaml"]).1.lines().count(), 1, "nothing is stored");
    assert_eq!(place.names(), ["policy.yaml", "shop.yaml"]);
}
