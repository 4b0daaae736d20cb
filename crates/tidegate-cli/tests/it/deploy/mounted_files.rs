//! The folders of a pod: a `ConfigMap` that the kubelet exchanges, and a volume that cannot be
//! written.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use tidegate_test_support::{MountedVolume, TemporaryFolder, until};

use super::text;
use crate::command::{run, tidegate};
use crate::gateways::stand::free_address;
use crate::gateways::tools::skip;
use crate::process::{Daemon, answer, post, send};

/// A policy of `deploy` on loopback and without tokens, with each first text exchanged for the
/// second.
fn local_policy(file: &str, exchanged: &[(&str, &str)]) -> String {
    let tokens = |line: &&str| line.contains("token_file") || *line == "authorization:";
    let lines: Vec<_> = text(file).lines().filter(|line| !tokens(line)).map(str::to_owned).collect();
    exchanged.iter().fold(lines.join("\n") + "\n", |policy, (from, to)| {
        assert!(policy.contains(from), "{policy}");
        policy.replace(from, to)
    })
}

/// The policy of the base, with operators at this address.
fn base_policy(admin: &str) -> String {
    let exchanged =
        [("0.0.0.0:8080", "127.0.0.1:0"), ("0.0.0.0:8081", "127.0.0.1:0"), ("0.0.0.0:8082", admin)];
    local_policy("kubernetes/base/tidegate.yaml", &exchanged)
}

/// Status and body of an answer to a GET.
fn get(address: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    send(&mut stream, &format!("GET {path} HTTP/1.1\r\nhost: t\r\n\r\n"));
    answer(&mut stream)
}

/// How many of three requests of a user are admitted.
fn admitted(address: &str, user: &str) -> usize {
    let body = format!(r#"{{"namespace":"api","attributes":{{"user":"{user}"}}}}"#);
    (0..3).filter(|_| post(address, "/v1/check", &body).0 == 200).count()
}

#[test]
fn a_config_map_that_the_kubelet_exchanges_is_in_force_without_a_restart_and_a_wrong_one_is_not() {
    let admin = free_address();
    let policy = base_policy(&admin);
    let changed = policy.replace("rate: 100/s, burst: 200", "rate: 1/h, burst: 1");
    assert_ne!(changed, policy);
    let mut mounted = MountedVolume::new("tidegate.yaml", &policy).unwrap();
    let mut daemon = Daemon::start(&["--config", mounted.path().to_str().unwrap(), "--log-format", "json"]);
    let address = daemon.address();
    daemon.read_until("operators");
    assert_eq!(admitted(&address, "ada"), 3);
    mounted.exchange(&changed).unwrap();
    let last = |part: &str| get(&admin, "/v1/limits").1.contains(part);
    until("the exchanged policy is in force", || last("\"version\":2"));
    assert_eq!(admitted(&address, "eve"), 1);
    // A misspelt key: the policy in force stays, says so, and the pod stays ready.
    mounted.exchange(&policy.replace("burst: 200", "brust: 200")).unwrap();
    until("the wrong policy is reported", || last("last_error"));
    let (_, limits) = get(&admin, "/v1/limits");
    assert!(limits.contains("brust") && limits.contains("\"version\":2"), "{limits}");
    assert_eq!((admitted(&address, "bob"), get(&admin, "/readyz").0), (1, 200));
    mounted.exchange(&policy).unwrap();
    until("a valid policy is in force again", || last("\"version\":3"));
    assert_eq!(admitted(&address, "kim"), 3);
    daemon.signal("TERM");
    let (code, log) = daemon.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("the policy in force stays") && log.contains("did you mean `burst`"), "{log}");
}

#[test]
fn a_wrong_policy_at_the_start_ends_the_pod_with_its_place_and_the_fix() {
    let policy = base_policy("127.0.0.1:0").replace("burst: 200", "brust: 200");
    let mounted = MountedVolume::new("tidegate.yaml", &policy).unwrap();
    let (code, out, err) =
        run(&["serve", "--config", mounted.path().to_str().unwrap(), "--log-format", "json"]);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    let place = format!("{}:", mounted.path().display());
    assert!(err.contains(&place) && err.contains("unknown key \"brust\"; did you mean `burst`?"), "{err}");
}

/// The policy of the overlay `single` with its store in a folder.
fn single_policy(volume: &Path) -> String {
    let exchanged = [
        ("/var/lib/tidegate", volume.to_str().unwrap()),
        ("0.0.0.0:8080", "127.0.0.1:0"),
        ("0.0.0.0:8081", "127.0.0.1:0"),
        ("0.0.0.0:8082", "127.0.0.1:0"),
    ];
    local_policy("kubernetes/overlays/single/tidegate.yaml", &exchanged)
}

#[test]
fn a_volume_that_is_read_only_or_of_another_user_is_named_with_the_fix() {
    let test = "a_volume_that_is_read_only_or_of_another_user_is_named_with_the_fix";
    let folder = TemporaryFolder::new();
    let volume = folder.join("volume");
    fs::create_dir(&volume).unwrap();
    let policy = folder.write("tidegate.yaml", single_policy(&volume));
    let daemon = tidegate().get_program().to_owned();
    // In a mount namespace of its own; `$1` is the volume.
    let script = "mount -t tmpfs -o ro none \"$1\" && shift && exec \"$@\"";
    let mut read_only = Command::new("unshare");
    read_only.args(["--map-root-user", "--mount", "sh", "-c", script, "sh"]).arg(&volume).arg(&daemon);
    // Root without the right to pass over permissions, as a pod is.
    let mut foreign = Command::new("setpriv");
    foreign.args(["--bounding-set", "-all", "--inh-caps", "-all"]).arg(&daemon);
    fs::set_permissions(&volume, std::os::unix::fs::PermissionsExt::from_mode(0o555)).unwrap();
    for (mut command, cause) in [
        (read_only, "Read-only file system (os error 30); mount that file system for writing"),
        (foreign, "Permission denied (os error 13); make it writable for this user (in a pod, by `fsGroup`)"),
    ] {
        let output = command.args(["serve", "--config"]).arg(&policy).output();
        let Ok(output) = output else {
            skip(test, &format!("{} is not installed", command.get_program().display()));
            continue;
        };
        let err = String::from_utf8_lossy(&output.stderr);
        if !err.contains("tidegate: ") {
            skip(test, &format!("this system does not allow it: {}", err.trim()));
            continue;
        }
        assert_eq!(output.status.code(), Some(4), "{err}");
        let place = format!("the store is kept in {}", volume.join("store").display());
        assert!(err.contains(&place) && err.contains(cause), "{err}");
    }
}
