//! The compose file: its schema, its policies, and the same topology as processes.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tidegate_test_support::manifests::{ask_kubernetes_tools, documents_request};
use tidegate_test_support::{RedisServer, TemporaryFile, TemporaryFolder, until};

use super::workload::{list, text as text_at};
use super::{deploy, known_options, text};
use crate::command::{run, tidegate};
use crate::gateways::exchange::send;
use crate::gateways::stand::{Gateway, exchange, free_address};
use crate::gateways::tools::{fetched_or_skip, skip};
use crate::process::Daemon;

const FILE: &str = "compose/compose.yaml";
const POLICY: &str = "compose/tidegate/tidegate.yaml";
const ENVOY: &str = "compose/envoy/envoy.yaml";

/// The names of the services that run the daemon.
const DAEMONS: [&str; 2] = ["tidegate-1", "tidegate-2"];

/// The complaints of the schema of compose files about a file; empty if it has none.
fn schema_complaints(file: &str, test: &str) -> Option<String> {
    let check = fetched_or_skip("kubernetes", "bin/check-jsonschema", test)?;
    let mut command = Command::new(check);
    command.args(["--builtin-schema", "vendor.compose-spec", "--verbose"]).arg(file);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(if output.status.success() { String::new() } else { said })
}

/// The parsed file, with the fields that services share in each of them.
fn parsed(test: &str) -> Option<Value> {
    let Some(answers) = ask_kubernetes_tools(&[documents_request(&text(FILE))]) else {
        skip(test, "kubernetes is not installed; `cargo xtask test` installs it");
        return None;
    };
    Some(answers[0]["documents"][0].clone())
}

/// The words of a list.
fn words(value: &Value, pointer: &str) -> Vec<String> {
    list(value, pointer).iter().map(|word| word.as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_compose_file_fits_its_schema_and_a_misspelt_key_does_not() {
    let test = "the_compose_file_fits_its_schema_and_a_misspelt_key_does_not";
    let Some(complaints) = schema_complaints(deploy(FILE).to_str().unwrap(), test) else { return };
    assert_eq!(complaints, "");
    let wrong = TemporaryFile::new(&text(FILE).replace("stop_grace_period", "stop_grace_time"));
    let complaints = schema_complaints(wrong.as_str(), test).unwrap();
    assert!(complaints.contains("stop_grace_time"), "{complaints}");
}

#[test]
fn the_policy_of_the_compose_file_is_valid_without_a_warning_and_envoy_accepts_its_file() {
    let test = "the_policy_of_the_compose_file_is_valid_without_a_warning_and_envoy_accepts_its_file";
    let (code, out, _) = run(&["validate", "--deny-warnings", deploy(POLICY).to_str().unwrap()]);
    assert_eq!(code, 0, "{out}");
    let Some(envoy) = fetched_or_skip("envoy", "lib/*/site-packages/envoy/_bin/envoy", test) else { return };
    let accepts = |file: &str| {
        let mut command = Command::new(&envoy);
        let output = command.args(["--mode", "validate", "-l", "error", "-c", file]).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (is_accepted, said) = accepts(deploy(ENVOY).to_str().unwrap());
    assert!(is_accepted, "{said}");
    let folder = TemporaryFolder::new();
    let wrong = folder.write("envoy.yaml", text(ENVOY).replace("lb_policy:", "lb_polcy:"));
    let (is_accepted, said) = accepts(wrong.to_str().unwrap());
    assert!(!is_accepted && said.contains("lb_polcy"), "{said}");
}

/// A service whose container has no rights, whose stop is longer than the drain, and whose files
/// and addresses exist.
fn complaints(compose: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for name in DAEMONS {
        let service = &compose["services"][name];
        let command = words(service, "/command");
        if command.get(1).map(String::as_str) != Some("--config") || !has_file(service, &command[2]) {
            found.push(format!("{name}: {command:?} names no mounted file"));
        }
        let health = words(service, "/healthcheck/test");
        if !health.contains(&"http://127.0.0.1:8080".to_owned()) {
            found.push(format!("{name}: the health check asks {health:?}"));
        }
        let grace = text_at(service, "/stop_grace_period").trim_end_matches('s').parse().unwrap_or(0);
        if grace < 45 {
            found.push(format!("{name}: stopped after {grace} s, in the drain of 30 s"));
        }
        if service["read_only"] != true || words(service, "/cap_drop") != ["ALL"] {
            found.push(format!("{name}: more rights than needed"));
        }
    }
    let envoy = &compose["services"]["envoy"];
    let file = words(envoy, "/command").pop().unwrap_or_default();
    if !has_file(envoy, &file) {
        found.push(format!("envoy: {file} is not mounted"));
    }
    for volume in words(envoy, "/ports") {
        let inside = volume.rsplit(':').next().unwrap_or_default().to_owned();
        if !text(ENVOY).contains(&format!("address: 0.0.0.0, port_value: {inside} }}")) {
            found.push(format!("envoy: nobody listens on {inside}"));
        }
    }
    found
}

/// Whether a path in the container is a file of a mounted folder.
fn has_file(service: &Value, path: &str) -> bool {
    words(service, "/volumes").iter().any(|volume| {
        let mut parts = volume.split(':');
        let (from, to) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let Some(rest) = path.strip_prefix(to) else { return false };
        deploy("compose").join(from).join(rest.trim_start_matches('/')).is_file()
    })
}

#[test]
fn the_services_mount_what_they_name_and_a_wrong_port_or_folder_is_found() {
    let test = "the_services_mount_what_they_name_and_a_wrong_port_or_folder_is_found";
    let Some(compose) = parsed(test) else { return };
    assert_eq!(complaints(&compose), Vec::<String>::new());
    for daemon in DAEMONS {
        known_options(&words(&compose["services"][daemon], "/command"));
        known_options(&words(&compose["services"][daemon], "/healthcheck/test")[2..]);
    }
    for (pointer, wrong, complaint) in [
        ("/services/tidegate-1/volumes/0", "./tidegat:/etc/tidegate:ro", "names no mounted file"),
        ("/services/tidegate-2/healthcheck/test/4", "http://127.0.0.1:8081", "the health check asks"),
        ("/services/tidegate-2/stop_grace_period", "30s", "stopped after 30 s"),
        ("/services/envoy/ports/0", "127.0.0.1:8000:80", "nobody listens on 80"),
        ("/services/envoy/volumes/0", "./envoy:/etc/envoi:ro", "is not mounted"),
    ] {
        let mut planted = compose.clone();
        *planted.pointer_mut(pointer).unwrap() = wrong.into();
        let found = complaints(&planted).join("\n");
        assert!(found.contains(complaint), "{pointer}: {found:?}");
    }
}

/// The topology of the compose file as processes on loopback.
struct Topology {
    // Before the folder, so that no process outlives its files.
    _envoy: Gateway,
    daemons: Vec<Daemon>,
    _redis: RedisServer,
    _folder: TemporaryFolder,
    /// Where callers come.
    public: String,
    /// Where the daemons answer operators.
    admin: Vec<String>,
}

impl Topology {
    fn start(compose: &Value, envoy: &Path) -> Option<Self> {
        let folder = TemporaryFolder::new();
        let arguments = words(&compose["services"]["redis"], "/command");
        let arguments: Vec<_> = arguments[1..].iter().map(String::as_str).collect();
        let redis = RedisServer::start(&arguments)?;
        let (public, app) = (free_address(), free_address());
        let (mut daemons, mut grpc, mut admin) = (Vec::new(), Vec::new(), Vec::new());
        for name in DAEMONS {
            let addresses = [free_address(), free_address(), free_address()];
            let mut policy = replaced(&text(POLICY), "redis://redis:6379", &redis.url());
            // However slow this machine is, nothing flows back while ten calls are made, and the
            // store does not count as away.
            policy = replaced(&policy, "rate: 5/m", "rate: 5/h");
            policy = replaced(&policy, "members: 2", "members: 2, deadline: 10s");
            let places = ["0.0.0.0:8080", "0.0.0.0:8081", "127.0.0.1:8082"];
            for (from, to) in places.iter().zip(&addresses) {
                policy = replaced(&policy, from, to);
            }
            let policy = folder.write(format!("{name}.yaml"), &policy);
            let mut command = tidegate();
            command.current_dir(folder.path());
            for word in words(&compose["services"][name], "/command") {
                command.arg(if word.starts_with('/') { policy.to_str().unwrap() } else { word.as_str() });
            }
            let mut daemon = Daemon::spawn(command);
            daemon.read_until("store ");
            let health = words(&compose["services"][name], "/healthcheck/test").split_off(2);
            let at = format!("http://{}", addresses[0]);
            let health: Vec<_> = health
                .iter()
                .map(|word| if word.starts_with("http://") { at.as_str() } else { word })
                .collect();
            assert_eq!(run(&health).0, 0, "the health check of {name}");
            daemons.push(daemon);
            let [_, of_grpc, of_admin] = addresses;
            grpc.push(of_grpc);
            admin.push(of_admin);
        }
        let config = exchange(&text(ENVOY), "127.0.0.1:3000", &app);
        let config = exchange(&config, "0.0.0.0:8000", &public);
        let config = DAEMONS
            .iter()
            .zip(&grpc)
            .fold(config, |config, (name, address)| exchange(&config, &format!("{name}:8081"), address));
        assert!(!config.contains("0.0.0.0") && !config.contains(": tidegate-"), "{config}");
        let config = config.replace(" timeout: 1s\n", " timeout: 15s\n").replace("0.25s", "15s");
        let file = folder.write("envoy.yaml", &config);
        let mut command = Command::new(envoy);
        command.arg("-c").arg(file).args(["--concurrency", "1", "--disable-hot-restart", "-l", "warning"]);
        let gateway = Gateway::start(&mut command, folder.path(), &public);
        Some(Self { _envoy: gateway, daemons, _redis: redis, _folder: folder, public, admin })
    }

    fn statuses(&self, key: &str, count: usize) -> Vec<u16> {
        let ask = |_| send(&self.public, "GET", "/", &[("X-Api-Key", key.as_bytes())], b"").status;
        (0..count).map(ask).collect()
    }

    /// Decisions that a daemon has taken for the namespace of callers.
    fn decisions(&self, daemon: usize) -> u64 {
        let answer = send(&self.admin[daemon], "GET", "/metrics", &[], b"");
        let page = answer.text().clone();
        let lines = page.lines().filter(|line| line.starts_with("tidegate_decisions_total{"));
        let lines = lines.filter(|line| line.contains("namespace=\"api\""));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }
}

fn replaced(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from} is not in {text}");
    text.replace(from, to)
}

#[test]
fn the_topology_of_the_compose_file_admits_five_of_ten_and_goes_on_when_a_daemon_ends() {
    let test = "the_topology_of_the_compose_file_admits_five_of_ten_and_goes_on_when_a_daemon_ends";
    let Some(envoy) = fetched_or_skip("envoy", "lib/*/site-packages/envoy/_bin/envoy", test) else { return };
    let Some(compose) = parsed(test) else { return };
    let Some(mut topology) = Topology::start(&compose, &envoy) else {
        return tidegate_test_support::skip(test);
    };
    // Envoy asks no daemon that its health check has not seen.
    until("both daemons are asked", || {
        topology.statuses("first", 2);
        topology.decisions(0) > 0 && topology.decisions(1) > 0
    });
    assert_eq!(topology.statuses("ada", 10), [200, 200, 200, 200, 200, 429, 429, 429, 429, 429]);
    let mut daemon = topology.daemons.remove(0);
    daemon.signal("TERM");
    assert_eq!(daemon.end().0, Some(0));
    // Envoy looks each second; until then half of the calls fail, as its file says.
    let mut attempts = 0..;
    until("Envoy asks the other daemon alone", || {
        let key = format!("caller-{}", attempts.next().unwrap_or(0));
        topology.statuses(&key, 4) == [200; 4]
    });
    assert_eq!(topology.statuses("eve", 6), [200, 200, 200, 200, 200, 429]);
}
