//! A daemon that runs the policy of a rendered `ConfigMap`, and the probes that ask it.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use serde_json::Value;
use tidegate_test_support::{RedisServer, TemporaryFolder, until_some};

use super::workload::{Rendering, list, text};
use crate::command::tidegate;
use crate::gateways::stand::free_address;
use crate::process::Daemon;

/// The token in every file of tokens.
const TOKEN: &str = "a-token-of-a-test-0123456789";

/// A daemon under a rendered policy, with loopback, folders and a Redis of the test.
pub(super) struct RenderedDaemon {
    // Before the folder, so that the daemon does not outlive its files.
    _daemon: Daemon,
    _folder: TemporaryFolder,
    /// The address of each listener.
    addresses: BTreeMap<String, String>,
}

/// The arguments of a Redis that knows the user of a policy.
pub(super) const REDIS_USER: &[&str] = &["--user", "tidegate", "on", ">a-password", "~*", "&*", "+@all"];

impl RenderedDaemon {
    /// Starts it with the arguments of the container.
    pub(super) fn start(rendering: &Rendering, redis: &RedisServer) -> Self {
        let folder = TemporaryFolder::new();
        let mut policy = rendering.policy.clone();
        let mut addresses = BTreeMap::new();
        for (name, listener) in policy["listen"].as_object_mut().unwrap() {
            let address = free_address();
            listener["address"] = address.as_str().into();
            addresses.insert(name.clone(), address);
        }
        if policy["store"]["kind"] == "redis" {
            policy["store"]["urls"] = vec![redis.url()].into();
            policy["store"]["cluster"] = false.into();
        }
        let made = |path: &str| path.replace("/run/secrets", folder.path().join("secrets").to_str().unwrap());
        exchange_paths(&mut policy, &|path| {
            let path = made(path);
            path.replace("/var/lib/tidegate", folder.path().to_str().unwrap())
        });
        write_secrets(&rendering.policy, &made);
        let config = folder.write("tidegate.yaml", serde_json::to_string(&policy).unwrap());
        let arguments = list(rendering.container(), "/args").iter().map(|word| word.as_str().unwrap());
        let mut command = tidegate();
        command.current_dir(folder.path());
        command
            .args(arguments.map(|word| if word.starts_with('/') { config.to_str().unwrap() } else { word }));
        let mut daemon = Daemon::spawn(command);
        daemon.read_until("store ");
        Self { _daemon: daemon, _folder: folder, addresses }
    }

    /// The status of an answer to a GET; TLS is not verified, as the kubelet does not. A listener
    /// that does not exist has the status 0.
    fn status(&self, scheme: &str, listener: &str, path: &str, token: Option<&str>) -> u16 {
        let Some(address) = self.addresses.get(listener) else { return 0 };
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--insecure", "--output", "/dev/null", "--write-out", "%{http_code}"]);
        if let Some(token) = token {
            curl.arg("--header").arg(format!("Authorization: Bearer {token}"));
        }
        curl.arg(format!("{}://{address}{path}", scheme.to_lowercase()));
        String::from_utf8_lossy(&curl.output().unwrap().stdout).trim().parse().unwrap_or(0)
    }

    /// The probes, and the question of Prometheus, that are not answered with 200.
    pub(super) fn complaints(&self, rendering: &Rendering) -> Vec<String> {
        let ports = list(rendering.container(), "/ports");
        // A probe names a port of the container, and the policy the listener on that port.
        let listener = |name: &str| {
            let number = &ports.iter().find(|port| port["name"] == name)?["containerPort"];
            let number = number.as_u64()?;
            rendering.listeners().into_iter().find(|(_, port)| *port == number).map(|(name, _)| name)
        };
        let mut found = Vec::new();
        for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
            let get = &rendering.container()[probe]["httpGet"];
            let (scheme, path) = (text(get, "/scheme"), text(get, "/path"));
            let listener = listener(text(get, "/port")).unwrap_or_default();
            let ask = || self.status(scheme, &listener, path, None);
            // A member is ready as soon as it has reached the store.
            let is_well = ask() == 200 || (path == "/readyz" && becomes_ready(ask));
            if !is_well {
                found.push(format!("{}: {probe} gets {} from {path}", rendering.name, ask()));
            }
        }
        for monitor in rendering.of_kind("ServiceMonitor") {
            let endpoint = &monitor["spec"]["endpoints"][0];
            let (scheme, path) = (text(endpoint, "/scheme"), text(endpoint, "/path"));
            let port = text(endpoint, "/port");
            let token = text(endpoint, "/authorization/credentials/key");
            let status = self.status(scheme, port, path, Some(&format!("{TOKEN}-{token}")));
            if status != 200 {
                found.push(format!("{}: Prometheus gets {status} from {path}", rendering.name));
            }
        }
        found
    }
}

fn becomes_ready(ask: impl Fn() -> u16) -> bool {
    until_some("the daemon is ready", || (ask() != 503).then(&ask)) == 200
}

/// Exchanges each text that is an absolute path.
fn exchange_paths(value: &mut Value, exchange: &dyn Fn(&str) -> String) {
    match value {
        Value::String(text) if text.starts_with('/') => *text = exchange(text),
        Value::Array(values) => values.iter_mut().for_each(|value| exchange_paths(value, exchange)),
        Value::Object(members) => members.values_mut().for_each(|value| exchange_paths(value, exchange)),
        _ => {}
    }
}

/// Writes the files of the Secrets that the policy names.
fn write_secrets(policy: &Value, made: &dyn Fn(&str) -> String) {
    let write = |path: &str, text: &str| {
        let path = made(path);
        fs::create_dir_all(path.rsplit_once('/').unwrap().0).unwrap();
        fs::write(path, text).unwrap();
    };
    for grant in list(policy, "/authorization").iter().filter(|grant| grant.get("token_file").is_some()) {
        write(text(grant, "/token_file"), &format!("{TOKEN}-{}\n", text(grant, "/name")));
    }
    match text(policy, "/store/password_file") {
        "" => {}
        path => write(path, "a-password\n"),
    }
    if policy.pointer("/listen/http/tls").is_some() {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        write("/run/secrets/tls/tls.crt", &made.cert.pem());
        write("/run/secrets/tls/tls.key", &made.signing_key.serialize_pem());
        write("/run/secrets/tls/ca.crt", &made.cert.pem());
    }
}
