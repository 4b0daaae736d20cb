//! The files of `deploy`: what they start starts, and what they name exists.

mod compose;
mod debian_package;
mod kubernetes;
mod mounted_files;
mod prometheus_rules;
mod rendered_daemon;
mod workload;

use std::path::{Path, PathBuf};

use tidegate_test_support::{TemporaryFile, TemporaryFolder};

use crate::command::{run, tidegate};
use crate::process::Daemon;

fn deploy(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name)
}

fn text(name: &str) -> String {
    std::fs::read_to_string(deploy(name)).unwrap()
}

/// The words of an instruction of a Dockerfile in its exec form, with instructions that go on in
/// the next line.
fn instruction(name: &str) -> Vec<String> {
    let file = text("docker/Dockerfile").replace("\\\n", " ");
    let line = file.lines().find(|line| line.trim_start().starts_with(name)).unwrap().to_owned();
    let list = &line[line.find('[').expect("the exec form, which starts no shell")..];
    serde_json::from_str(list).unwrap()
}

fn unit_setting(name: &str) -> String {
    let unit = text("systemd/tidegate.service");
    let line = unit.lines().find_map(|line| line.strip_prefix(&format!("{name}=")));
    line.unwrap_or_else(|| panic!("no {name}")).to_owned()
}

/// Each option exists in the help of its command.
fn known_options(command: &[String]) {
    let (_, help, _) = run(&[&command[0], "--help"]);
    for option in command.iter().filter(|word| word.starts_with("--")) {
        assert!(help.contains(option.as_str()), "{option} is no option of {}", command[0]);
    }
}

/// Starts a command of `deploy` with another configuration in the place of the one it names, and
/// ends it.
fn starts_and_ends(command: &[String], policy: &str) {
    known_options(command);
    assert_eq!(command[0], "serve");
    let file = TemporaryFile::new(policy);
    let mut arguments: Vec<&str> = command[1..].iter().map(String::as_str).collect();
    let at = arguments.iter().position(|word| *word == "--config").unwrap() + 1;
    arguments[at] = file.as_str();
    let mut daemon = Daemon::start(&arguments);
    let address = daemon.address();
    let health: Vec<String> = instruction("HEALTHCHECK").split_off(1);
    known_options(&health);
    let at = format!("http://{address}");
    let health: Vec<&str> =
        health.iter().map(|word| if word.starts_with("http://") { at.as_str() } else { word }).collect();
    assert_eq!(run(&health).0, 0, "the health check of a daemon that is well");
    daemon.signal("TERM");
    let (code, err) = daemon.end();
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(run(&health).0, 3, "and of one that is gone");
}

/// The policy of the image, with what a test may not use exchanged.
fn image_policy(folder: &TemporaryFolder) -> String {
    let store = folder.path().join("store");
    let policy = text("docker/tidegate.yaml");
    let changed = policy.replace("127.0.0.1:8080", "127.0.0.1:0");
    assert_ne!(changed, policy);
    let whole = changed.replace("/var/lib/tidegate/store", store.to_str().unwrap());
    assert_ne!(whole, changed);
    whole
}

#[test]
fn the_policy_of_the_image_is_valid_without_a_warning_and_keeps_quotas_on_the_volume() {
    let file = deploy("docker/tidegate.yaml");
    let (code, out, _) = run(&["validate", file.to_str().unwrap()]);
    assert_eq!((code, out.lines().count()), (0, 2), "{out}");
    assert!(out.ends_with("quotas are kept in /var/lib/tidegate/store: api/per-user-daily\n"), "{out}");
}

#[test]
fn the_command_of_the_image_starts_answers_its_health_check_and_ends_on_sigterm() {
    let folder = TemporaryFolder::new();
    let entry = instruction("ENTRYPOINT");
    assert_eq!(entry, ["/usr/bin/tidegate"]);
    starts_and_ends(&instruction("CMD [\"serve\""), &image_policy(&folder));
}

#[test]
fn the_command_of_the_unit_starts_and_ends_on_sigterm() {
    let folder = TemporaryFolder::new();
    let command: Vec<String> = unit_setting("ExecStart").split(' ').map(str::to_owned).collect();
    assert_eq!(command[0], "/usr/local/bin/tidegate");
    starts_and_ends(&command[1..], &image_policy(&folder));
    assert!(unit_setting("ExecReload").contains("-HUP $MAINPID"));
}

#[test]
fn what_must_not_be_missing_is_in_the_unit_and_in_the_image() {
    for (name, value) in [
        ("Type", "notify"),
        ("NotifyAccess", "main"),
        ("WatchdogSec", "30"),
        ("Restart", "on-failure"),
        ("DynamicUser", "yes"),
        ("StateDirectory", "tidegate"),
        ("ProtectSystem", "strict"),
        ("NoNewPrivileges", "yes"),
        ("ReadOnlyPaths", "/etc/tidegate"),
        ("CapabilityBoundingSet", ""),
    ] {
        assert_eq!(unit_setting(name), value, "{name}");
    }
    let image = text("docker/Dockerfile");
    for line in [
        "FROM scratch",
        "USER 65532:65532",
        "STOPSIGNAL SIGTERM",
        r#"VOLUME ["/var/lib/tidegate"]"#,
        // A policy without a store keeps quotas in the working directory.
        "WORKDIR /var/lib/tidegate",
    ] {
        assert!(image.lines().any(|other| other == line), "{line}");
    }
    for target in ["amd64) echo x86_64-unknown-linux-musl ", "arm64) echo aarch64-unknown-linux-musl "] {
        assert!(image.contains(target), "{target}");
    }
    // With a default, builders would not give the architecture that was asked for.
    assert!(image.lines().any(|line| line == "ARG TARGETARCH"));
    assert!(tidegate().arg("--version").output().unwrap().status.success());
}
