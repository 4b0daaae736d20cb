//! The objects that a chart or a kustomization renders, and what must hold among them.
//!
//! The schemas of Kubernetes see a key that does not exist. They do not see a port on which nobody
//! listens, a folder that is not mounted, or a grace period that ends before the drain.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

use crate::command::run;

/// The seconds beyond sleep and drain that the daemon may need to write what is open.
const CLOSE_SECONDS: u64 = 15;

/// The fields of the pod's and the container's security context that the profile `restricted`
/// and a read-only root ask for.
const RESTRICTED: &[(&str, Value)] = &[
    ("/securityContext/runAsNonRoot", Value::Bool(true)),
    ("/containers/0/securityContext/allowPrivilegeEscalation", Value::Bool(false)),
    ("/containers/0/securityContext/readOnlyRootFilesystem", Value::Bool(true)),
    ("/automountServiceAccountToken", Value::Bool(false)),
];

/// Rendered objects with one workload, and the policy of its `ConfigMap`.
#[derive(Clone, Debug)]
pub(super) struct Rendering {
    pub(super) name: String,
    pub(super) objects: Vec<Value>,
    /// The policy, parsed.
    pub(super) policy: Value,
}

/// A text at a JSON pointer; empty without one.
pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The elements at a JSON pointer; none if there is no list.
pub(super) fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn number(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
}

impl Rendering {
    pub(super) fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.objects.iter().filter(move |object| text(object, "/kind") == kind)
    }

    pub(super) fn workload(&self) -> &Value {
        let mut found = ["Deployment", "StatefulSet"].into_iter().flat_map(|kind| self.of_kind(kind));
        let workload = found.next().unwrap_or_else(|| panic!("{}: no Deployment or StatefulSet", self.name));
        assert!(found.next().is_none(), "{}: two workloads", self.name);
        workload
    }

    /// The specification of the pods.
    pub(super) fn pod(&self) -> &Value {
        &self.workload()["spec"]["template"]["spec"]
    }

    pub(super) fn container(&self) -> &Value {
        &self.pod()["containers"][0]
    }

    /// The text of the policy.
    pub(super) fn policy_text(&self) -> &str {
        let mut texts = self.of_kind("ConfigMap").map(|map| text(map, "/data/tidegate.yaml"));
        texts.next().unwrap_or_else(|| panic!("{}: no ConfigMap", self.name))
    }

    /// The ports of the policy's listeners, by their names in the policy.
    pub(super) fn listeners(&self) -> BTreeMap<String, u64> {
        let listen = self.policy["listen"].as_object().unwrap();
        let port = |listener: &Value| text(listener, "/address").rsplit(':').next()?.parse().ok();
        listen.iter().filter_map(|(name, listener)| Some((name.clone(), port(listener)?))).collect()
    }

    /// Where the pods find volumes, by path.
    fn mounts(&self) -> BTreeMap<&str, &Value> {
        let mounts = list(self.container(), "/volumeMounts").iter();
        mounts.map(|mount| (text(mount, "/mountPath"), mount)).collect()
    }

    /// The volume of this name.
    fn volume(&self, name: &str) -> Option<&Value> {
        let claims = list(self.workload(), "/spec/volumeClaimTemplates").iter();
        let claims = claims.filter(|claim| text(claim, "/metadata/name") == name);
        let volumes = list(self.pod(), "/volumes").iter().filter(|volume| text(volume, "/name") == name);
        volumes.chain(claims).next()
    }

    /// Everything that does not fit together.
    pub(super) fn complaints(&self) -> Vec<String> {
        let mut found = Vec::new();
        self.complain_of_selectors(&mut found);
        self.complain_of_ports(&mut found);
        self.complain_of_files(&mut found);
        self.complain_of_the_end(&mut found);
        self.complain_of_rights(&mut found);
        found.iter().map(|complaint| format!("{}: {complaint}", self.name)).collect()
    }

    fn complain_of_selectors(&self, found: &mut Vec<String>) {
        let labels = &self.workload()["spec"]["template"]["metadata"]["labels"];
        let pointers = [
            ("Deployment", "/spec/selector/matchLabels"),
            ("StatefulSet", "/spec/selector/matchLabels"),
            ("Service", "/spec/selector"),
            ("PodDisruptionBudget", "/spec/selector/matchLabels"),
            ("NetworkPolicy", "/spec/podSelector/matchLabels"),
        ];
        for (kind, pointer) in pointers {
            for object in self.of_kind(kind) {
                let selector = object.pointer(pointer).cloned().unwrap_or_default();
                if !selects(&selector, labels) {
                    found.push(format!("{kind} selects {selector}, and pods have {labels}"));
                }
            }
        }
        let workload = self.workload();
        for scaler in self.of_kind("HorizontalPodAutoscaler") {
            let target = &scaler["spec"]["scaleTargetRef"];
            if target["kind"] != workload["kind"] || target["name"] != workload["metadata"]["name"] {
                found.push(format!("HorizontalPodAutoscaler scales {target}"));
            }
        }
        let headless = |name: &str| {
            let mut services = self.of_kind("Service");
            services.any(|service| {
                text(service, "/metadata/name") == name && text(service, "/spec/clusterIP") == "None"
            })
        };
        let service = text(workload, "/spec/serviceName");
        if text(workload, "/kind") == "StatefulSet" && !headless(service) {
            found.push(format!("no headless Service {service:?}"));
        }
        for monitor in self.of_kind("ServiceMonitor") {
            let selector = &monitor["spec"]["selector"]["matchLabels"];
            let selected: Vec<_> = self
                .of_kind("Service")
                .filter(|service| selects(selector, &service["metadata"]["labels"]))
                .collect();
            if selected.len() != 1 {
                found.push(format!("ServiceMonitor selects {} Services", selected.len()));
            }
            let port = text(monitor, "/spec/endpoints/0/port");
            let has_port =
                |service: &&Value| list(service, "/spec/ports").iter().any(|of| of["name"] == port);
            if !selected.iter().all(has_port) {
                found.push(format!("ServiceMonitor asks port {port:?}, which its Service lacks"));
            }
        }
    }

    fn complain_of_ports(&self, found: &mut Vec<String>) {
        let ports = list(self.container(), "/ports").iter();
        let ports: BTreeMap<_, _> =
            ports.map(|port| (text(port, "/name").to_owned(), number(port, "/containerPort"))).collect();
        let listeners = self.listeners();
        if ports != listeners {
            found.push(format!("the container has the ports {ports:?}, and the policy {listeners:?}"));
        }
        for service in self.of_kind("Service") {
            for port in list(service, "/spec/ports") {
                if !ports.contains_key(text(port, "/targetPort")) {
                    found.push(format!("a Service leads to port {}", port["targetPort"]));
                }
            }
        }
        for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
            let get = &self.container()[probe]["httpGet"];
            if !ports.contains_key(text(get, "/port")) {
                found.push(format!("{probe} asks port {}", get["port"]));
            }
            let is_tls = self.policy["listen"][text(get, "/port")].get("tls").is_some();
            if (text(get, "/scheme") == "HTTPS") != is_tls {
                found.push(format!("{probe} speaks {}", get["scheme"]));
            }
        }
        for policy in self.of_kind("NetworkPolicy") {
            let rules = list(policy, "/spec/ingress").iter();
            let open = rules.flat_map(|rule| list(rule, "/ports"));
            let open: BTreeSet<_> = open.map(|port| text(port, "/port").to_owned()).collect();
            let all: BTreeSet<String> = ports.keys().cloned().collect();
            if open != all {
                found.push(format!("NetworkPolicy lets callers to {open:?}"));
            }
        }
    }

    fn complain_of_files(&self, found: &mut Vec<String>) {
        let mounts = self.mounts();
        let arguments: Vec<_> = list(self.container(), "/args").iter().filter_map(Value::as_str).collect();
        let config = arguments.iter().skip_while(|word| **word != "--config").nth(1).unwrap_or(&"");
        let mut files = vec![(*config).to_owned()];
        files_in(&self.policy, &mut files);
        for file in files {
            let folder = Path::new(&file).parent().and_then(Path::to_str).unwrap_or_default();
            let key = file.rsplit('/').next().unwrap_or_default();
            let Some(mount) = mounts.get(folder) else {
                found.push(format!("{file} is in no folder that is mounted"));
                continue;
            };
            if mount.get("subPath").is_some() {
                found.push(format!("{folder} is mounted by subPath, which never changes"));
            }
            let Some(volume) = self.volume(text(mount, "/name")) else {
                found.push(format!("{folder}: no volume {}", mount["name"]));
                continue;
            };
            // Objects that are made by hand are not among the rendered ones.
            let (kind, name) = match text(volume, "/configMap/name") {
                "" => ("Secret", text(volume, "/secret/secretName")),
                name => ("ConfigMap", name),
            };
            let object = self.of_kind(kind).find(|object| text(object, "/metadata/name") == name);
            let has_key =
                |object: &Value| ["data", "stringData"].iter().any(|data| object[data].get(key).is_some());
            match object {
                Some(object) if !has_key(object) => found.push(format!("{kind} {name} has no key {key}")),
                None if kind == "ConfigMap" => found.push(format!("no ConfigMap {name}")),
                _ => {}
            }
        }
        for monitor in self.of_kind("ServiceMonitor") {
            let secret = &monitor["spec"]["endpoints"][0]["authorization"]["credentials"];
            let tokens = format!("/run/secrets/tidegate/{}", text(secret, "/key"));
            let mut grants = list(&self.policy, "/authorization").iter();
            if !grants.any(|grant| grant["token_file"] == tokens.as_str()) {
                found.push(format!("ServiceMonitor has the token {secret} of no grant"));
            }
        }
    }

    fn complain_of_the_end(&self, found: &mut Vec<String>) {
        let sleep = number(self.container(), "/lifecycle/preStop/sleep/seconds");
        let grace = number(self.pod(), "/terminationGracePeriodSeconds");
        let drain =
            text(&self.policy, "/http/bounds/drain_timeout").trim_end_matches('s').parse().unwrap_or(30);
        if sleep == 0 {
            found.push("no preStop: balancers send calls to a pod that drains".to_owned());
        }
        if grace < sleep + drain + CLOSE_SECONDS {
            found
                .push(format!("the grace period, {grace} s, ends before {sleep} s and a drain of {drain} s"));
        }
    }

    fn complain_of_rights(&self, found: &mut Vec<String>) {
        let pod = self.pod();
        for (pointer, wanted) in RESTRICTED {
            if pod.pointer(pointer) != Some(wanted) {
                found.push(format!("{pointer} is not {wanted}"));
            }
        }
        if pod.pointer("/containers/0/securityContext/capabilities/drop") != Some(&json!(["ALL"])) {
            found.push("capabilities are left".to_owned());
        }
        if text(pod, "/securityContext/seccompProfile/type") != "RuntimeDefault" {
            found.push("no seccomp profile".to_owned());
        }
        for bound in ["/requests/cpu", "/requests/memory", "/limits/memory"] {
            if self.container()["resources"].pointer(bound).is_none() {
                found.push(format!("resources: no {bound}"));
            }
        }
        let arguments = list(self.container(), "/args").iter().filter_map(Value::as_str);
        let (_, help, _) = run(&["serve", "--help"]);
        for option in arguments.filter(|word| word.starts_with("--")) {
            if !help.contains(option) {
                found.push(format!("{option} is no option of serve"));
            }
        }
    }
}

/// Whether labels have all that a selector names. An empty selector selects everything, which none
/// of the files means.
fn selects(selector: &Value, labels: &Value) -> bool {
    let Some(selector) = selector.as_object().filter(|selector| !selector.is_empty()) else { return false };
    selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}

/// Adds the absolute paths in a policy.
fn files_in(value: &Value, files: &mut Vec<String>) {
    match value {
        Value::String(text) if ["/run/", "/var/", "/etc/"].iter().any(|top| text.starts_with(top)) => {
            files.push(text.clone());
        }
        Value::Array(values) => values.iter().for_each(|value| files_in(value, files)),
        Value::Object(members) => members.values().for_each(|value| files_in(value, files)),
        _ => {}
    }
}
