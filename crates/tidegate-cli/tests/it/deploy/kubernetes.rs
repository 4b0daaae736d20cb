//! The chart and the kustomizations: rendered by the libraries of Helm and kustomize, checked by
//! the strict schemas of Kubernetes, and asked at their probes.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use tidegate_test_support::manifests::{
    ask_kubernetes_tools, build_kustomizations, chart_request, complaints_request, documents_request,
    lint_request,
};
use tidegate_test_support::{RedisServer, TemporaryFile, TemporaryFolder};

use super::rendered_daemon::{REDIS_USER, RenderedDaemon};
use super::workload::{Rendering, text};
use super::{deploy, text as file_text};
use crate::command::run;
use crate::gateways::tools::{find_or_skip, skip};

const CHART: &str = "helm/tidegate";

/// Says that a test did not run because a set of packages is missing.
fn is_missing(set: &str, test: &str) {
    skip(test, &format!("{set} is not installed; `cargo xtask test` installs it"));
}

/// The value files that come with the chart.
fn value_files() -> Vec<PathBuf> {
    let folder = deploy(CHART).join("ci");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort_unstable();
    files
}

/// The chart rendered with each value file; `None` without Helm.
fn charts(test: &str) -> Option<Vec<Rendering>> {
    let files = value_files();
    let request =
        |path: &PathBuf| chart_request(&deploy(CHART), &fs::read_to_string(path).unwrap(), "tidegate");
    let answers = ask_kubernetes_tools(&files.iter().map(request).collect::<Vec<_>>());
    let Some(answers) = answers else {
        is_missing("kubernetes", test);
        return None;
    };
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    renderings(files.iter().map(name).zip(answers).collect(), test)
}

/// The base, both overlays, and the overlays with the component for Prometheus.
fn kustomizations(test: &str) -> Option<Vec<Rendering>> {
    let folder = TemporaryFolder::new();
    copy_folder(&deploy("kubernetes"), &folder.path().join("kubernetes"));
    let with_prometheus = folder.path().join("kubernetes/overlays/fleet");
    let file = with_prometheus.join("kustomization.yaml");
    let plain = fs::read_to_string(&file).unwrap();
    let changed = plain.replace("# components:", "components:");
    assert_ne!(changed, plain, "the overlay offers the component");
    fs::write(&file, changed).unwrap();
    let names = ["base", "overlays/single", "overlays/fleet"];
    let mut folders: Vec<_> = names.iter().map(|name| deploy("kubernetes").join(name)).collect();
    folders.push(with_prometheus);
    let folders: Vec<_> = folders.iter().map(PathBuf::as_path).collect();
    let Some(answers) = build_kustomizations(&folders) else {
        is_missing("kustomize", test);
        return None;
    };
    let names = names.into_iter().chain(["fleet with Prometheus"]).map(str::to_owned);
    renderings(names.zip(answers).collect(), test)
}

fn copy_folder(from: &std::path::Path, to: &std::path::Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Answers as renderings, with their policies parsed.
fn renderings(answers: Vec<(String, Value)>, test: &str) -> Option<Vec<Rendering>> {
    let mut found: Vec<_> = answers
        .into_iter()
        .map(|(name, answer)| {
            assert_eq!(answer.get("error"), None, "{name}");
            let objects = answer["objects"].as_array().unwrap().clone();
            Rendering { name, objects, policy: Value::Null }
        })
        .collect();
    let requests: Vec<_> = found.iter().map(|rendering| documents_request(rendering.policy_text())).collect();
    let Some(answers) = ask_kubernetes_tools(&requests) else {
        is_missing("kubernetes", test);
        return None;
    };
    for (rendering, answer) in found.iter_mut().zip(answers) {
        assert_eq!(answer.get("error"), None, "{}", rendering.name);
        rendering.policy = answer["documents"][0].clone();
    }
    Some(found)
}

/// Both, or nothing and a line that says so.
fn all_renderings(test: &str) -> Option<Vec<Rendering>> {
    let mut all = charts(test)?;
    all.extend(kustomizations(test)?);
    Some(all)
}

/// The complaints of the strict schemas.
fn schema_complaints(renderings: &[Rendering]) -> Vec<String> {
    let requests: Vec<_> =
        renderings.iter().map(|rendering| complaints_request(&rendering.objects)).collect();
    let answers = ask_kubernetes_tools(&requests).unwrap();
    let lines = |answer: &Value| answer["complaints"].as_array().unwrap().clone();
    let lines = answers.iter().flat_map(lines);
    lines.map(|line| line.as_str().unwrap().to_owned()).collect()
}

#[test]
fn each_value_file_and_overlay_renders_objects_that_the_schemas_know_and_that_fit_together() {
    let test = "each_value_file_and_overlay_renders_objects_that_the_schemas_know_and_that_fit_together";
    let Some(renderings) = all_renderings(test) else { return };
    assert_eq!(renderings.len(), 14);
    for rendering in &renderings {
        assert!(rendering.objects.len() >= 4, "{}: {}", rendering.name, rendering.objects.len());
        assert_eq!(rendering.complaints(), Vec::<String>::new());
        let policy = TemporaryFile::new(rendering.policy_text());
        // A store in memory forgets quotas, which is a warning.
        let denied = (rendering.policy["store"]["kind"] != "memory").then_some("--deny-warnings");
        let arguments: Vec<_> = ["validate", policy.as_str()].into_iter().chain(denied).collect();
        let (code, out, err) = run(&arguments);
        assert_eq!(code, 0, "{}: {out}{err}", rendering.name);
    }
    assert_eq!(schema_complaints(&renderings), Vec::<String>::new());
    let lint = ask_kubernetes_tools(&[lint_request(&deploy(CHART))]).unwrap();
    assert_eq!(lint[0]["complaints"], json!([]));
}

/// Exchanges the value at a pointer of the workload.
fn planted(rendering: &Rendering, pointer: &str, value: Option<Value>) -> Rendering {
    let mut rendering = rendering.clone();
    let workload = |object: &&mut Value| ["Deployment", "StatefulSet"].contains(&text(object, "/kind"));
    let object = rendering.objects.iter_mut().find(workload).unwrap();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    match (value, object.pointer_mut(pointer)) {
        (Some(value), Some(place)) => *place = value,
        (Some(value), None) => object.pointer_mut(parent).unwrap()[key] = value,
        (None, _) => {
            object.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(key).unwrap();
        }
    }
    rendering
}

#[test]
fn a_fault_in_a_rendering_is_found() {
    let Some(renderings) = charts("a_fault_in_a_rendering_is_found") else { return };
    let fleet = renderings.iter().find(|rendering| rendering.name == "fleet-values.yaml").unwrap();
    let pod = "/spec/template/spec";
    let container = "/spec/template/spec/containers/0";
    for (pointer, value, complaint) in [
        (format!("{container}/ports/0/containerPort"), Some(json!(8081)), "the container has the ports"),
        (
            format!("{container}/readinessProbe/httpGet/port"),
            Some(json!("operators")),
            "readinessProbe asks port",
        ),
        (format!("{container}/livenessProbe/httpGet/scheme"), Some(json!("HTTPS")), "livenessProbe speaks"),
        (format!("{container}/volumeMounts/0/subPath"), Some(json!("tidegate.yaml")), "by subPath"),
        (format!("{container}/volumeMounts/1/mountPath"), Some(json!("/run/tokens")), "is in no folder"),
        (format!("{container}/lifecycle"), None, "no preStop"),
        (format!("{pod}/terminationGracePeriodSeconds"), Some(json!(45)), "the grace period, 45 s"),
        (format!("{container}/securityContext/readOnlyRootFilesystem"), Some(json!(false)), "readOnlyRoot"),
        (format!("{container}/args/1"), Some(json!("--policy")), "--policy is no option"),
        ("/spec/template/metadata/labels/app.kubernetes.io~1name".to_owned(), Some(json!("gate")), "selects"),
    ] {
        let found = planted(fleet, &pointer, value).complaints().join("\n");
        assert!(found.contains(complaint), "{pointer}: {found:?}");
    }
    // A misspelt key is found by the schemas alone.
    let misspelt = planted(fleet, &format!("{container}/readynessProbe"), Some(json!({})));
    let found = schema_complaints(&[misspelt]).join("\n");
    assert!(
        found.contains("Deployment tidegate") && found.contains("'readynessProbe' was unexpected"),
        "{found}"
    );
}

#[test]
fn probes_and_prometheus_are_answered_by_a_daemon_with_the_rendered_policy_and_wrong_ones_are_found() {
    let test =
        "probes_and_prometheus_are_answered_by_a_daemon_with_the_rendered_policy_and_wrong_ones_are_found";
    let Some(renderings) = all_renderings(test) else { return };
    if find_or_skip("curl", test).is_none() {
        return;
    }
    let Some(redis) = RedisServer::start(REDIS_USER) else { return tidegate_test_support::skip(test) };
    for rendering in &renderings {
        let daemon = RenderedDaemon::start(rendering, &redis);
        assert_eq!(daemon.complaints(rendering), Vec::<String>::new());
        if rendering.name != "fleet-values.yaml" {
            continue;
        }
        let probe = "/spec/template/spec/containers/0/readinessProbe/httpGet";
        for (key, value, complaint) in [
            ("path", json!("/ready"), "readinessProbe gets 404 from /ready"),
            ("port", json!("grpc"), "readinessProbe gets"),
            ("port", json!("operators"), "readinessProbe gets 0"),
        ] {
            let wrong = planted(rendering, &format!("{probe}/{key}"), Some(value));
            let found = daemon.complaints(&wrong).join("\n");
            assert!(found.contains(complaint), "{found:?}");
        }
        let mut wrong = rendering.clone();
        let monitor = wrong.objects.iter_mut().find(|object| object["kind"] == "ServiceMonitor").unwrap();
        monitor["spec"]["endpoints"][0]["authorization"]["credentials"]["key"] = json!("gateways");
        let found = daemon.complaints(&wrong).join("\n");
        assert!(found.contains("Prometheus gets 403"), "{found:?}");
    }
}

/// A rendering without what the two ways are meant to differ in.
///
/// | Helm | kustomize |
/// |---|---|
/// | writes the namespace of the release | `kubectl --namespace` gives it |
/// | labels of the chart: `helm.sh/chart`, `managed-by`, `version` | none |
/// | an annotation starts new pods when settings change that daemons do not follow | by hand |
/// | the policy in alphabetical order | with comments; compared parsed |
fn comparable(rendering: &Rendering) -> Vec<Value> {
    let mut objects = rendering.objects.clone();
    for object in &mut objects {
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.remove("namespace");
        let labels = metadata["labels"].as_object_mut().unwrap();
        for label in ["helm.sh/chart", "app.kubernetes.io/managed-by", "app.kubernetes.io/version"] {
            labels.remove(label);
        }
        if let Some(template) = object.pointer_mut("/spec/template/metadata") {
            template.as_object_mut().unwrap().remove("annotations");
        }
        if let Some(policy) = object.pointer_mut("/data/tidegate.yaml") {
            *policy = rendering.policy.clone();
        }
    }
    objects.sort_by_key(|object| format!("{} {}", text(object, "/kind"), text(object, "/metadata/name")));
    objects
}

#[test]
fn the_chart_and_the_kustomizations_give_the_same_objects() {
    let test = "the_chart_and_the_kustomizations_give_the_same_objects";
    let Some(renderings) = all_renderings(test) else { return };
    let of = |name: &str| comparable(renderings.iter().find(|rendering| rendering.name == name).unwrap());
    for (chart, kustomization) in [
        ("memory-values.yaml", "base"),
        ("single-values.yaml", "overlays/single"),
        ("fleet-values.yaml", "fleet with Prometheus"),
    ] {
        let (one, other) = (of(chart), of(kustomization));
        let names = |objects: &[Value]| -> Vec<String> {
            objects.iter().map(|of| format!("{} {}", text(of, "/kind"), text(of, "/metadata/name"))).collect()
        };
        assert_eq!(names(&one), names(&other), "{chart}");
        for (one, other) in one.iter().zip(&other) {
            assert_eq!(one, other, "{chart} and {kustomization}");
        }
    }
}

/// Values that the chart refuses, and what it must say.
const REFUSED: &[(&str, &[&str])] = &[
    ("replicas: 2", &["additional properties 'replicas' not allowed"]),
    ("listeners: { grpc: { prt: 1 } }", &["'/listeners/grpc'", "'prt' not allowed"]),
    (
        "authorization: { grants: [{ name: a, namespaces: [a], verb: [] }] }",
        &["grants/0", "'verb' not allowed"],
    ),
    ("listeners: { http: { port: 70000 } }", &["'/listeners/http/port'", "70,000"]),
    ("listeners: { http: { port: 8082 } }", &["listeners.admin.port: 8082", "listeners.http too"]),
    ("store: { kind: mongodb }", &["'/store/kind'", "'redis', 'embedded', 'memory'"]),
    ("store: { redis: { urls: ['redis://:pw@redis'] } }", &["'/store/redis/urls/0'"]),
    ("replicaCount: 0", &["replicaCount: 0", "use at least 1"]),
    ("replicaCount: 1.5", &["'/replicaCount'", "want integer"]),
    (
        "{ replicaCount: 2, store: { kind: embedded } }",
        &["replicaCount: 2", "store.kind embedded", "one daemon"],
    ),
    ("store: { kind: memory }", &["replicaCount: 3", "store.kind memory", "use replicaCount: 1"]),
    (
        "{ replicaCount: 1, store: { kind: embedded }, autoscaling: { enabled: true } }",
        &["autoscaling.enabled", "embedded", "use store.kind: redis"],
    ),
    ("autoscaling: { enabled: true, minReplicas: 9, maxReplicas: 2 }", &["minReplicas: 9", "maxReplicas, 2"]),
    ("termination: { drainSeconds: 30s }", &["'/termination/drainSeconds'", "want integer"]),
    ("termination: { preStopSeconds: 0 }", &["'/termination/preStopSeconds'", "want 1"]),
    ("policy: { listen: {} }", &["policy.listen", "use the values `listeners`"]),
    (
        "policy: { http: { bounds: { drain_timeout: 5s } } }",
        &["drain_timeout", "use termination.drainSeconds"],
    ),
    ("authorization: { existingSecret: '' }", &["the grant gateways has no token", "run `tidegate token`"]),
    ("authorization: { tokens: { gateways: 0123456789abcdef } }", &["tidegate-tokens has the tokens"]),
    ("serviceMonitor: { enabled: true, grant: prometheus }", &["prometheus is no grant", "metrics"]),
    ("listeners: { proxy: { enabled: true } }", &["no upstreams", "write `policy.proxy`"]),
    ("tls: { clientCertificates: true }", &["plain text", "tls.existingSecret"]),
];

#[test]
fn values_that_are_misspelt_or_lose_counts_are_refused_with_the_reason() {
    let requests: Vec<_> =
        REFUSED.iter().map(|(values, _)| chart_request(&deploy(CHART), values, "tidegate")).collect();
    let Some(answers) = ask_kubernetes_tools(&requests) else {
        return is_missing(
            "kubernetes",
            "values_that_are_misspelt_or_lose_counts_are_refused_with_the_reason",
        );
    };
    for ((values, parts), answer) in REFUSED.iter().zip(answers) {
        let error = text(&answer, "/error");
        for part in *parts {
            assert!(error.contains(part), "{values}: {part:?} is not in {error:?}");
        }
    }
}

/// Settings that running daemons follow change no pod. Others start new pods.
#[test]
fn a_changed_limit_starts_no_pods_and_a_changed_store_does() {
    let limits = "policy: { namespaces: { api: { limits: [{ name: all, rate: 5/s }] } } }";
    let values = ["{}", limits, "replicaCount: 4", "store: { redis: { urls: ['redis://other:6379'] } }"];
    let requests = values.map(|values| chart_request(&deploy(CHART), values, "tidegate"));
    let Some(answers) = ask_kubernetes_tools(&requests) else {
        return is_missing("kubernetes", "a_changed_limit_starts_no_pods_and_a_changed_store_does");
    };
    let templates: Vec<Value> = answers
        .into_iter()
        .map(|answer| {
            let objects = answer["objects"].as_array().unwrap().clone();
            let policy = Value::Null;
            Rendering { name: String::new(), objects, policy }.workload()["spec"]["template"].clone()
        })
        .collect();
    assert_eq!(templates[0], templates[1], "a limit");
    assert_eq!(templates[0], templates[2], "the number of daemons");
    assert_ne!(templates[0], templates[3], "the store");
}

#[test]
fn the_chart_and_the_base_name_the_version_of_the_workspace() {
    let version = env!("CARGO_PKG_VERSION");
    let chart = file_text("helm/tidegate/Chart.yaml");
    assert!(chart.contains(&format!("\nversion: {version}\nappVersion: \"{version}\"\n")), "{chart}");
    let base = file_text("kubernetes/base/deployment.yaml");
    assert!(base.contains(&format!("image: tidegate:{version}\n")), "{base}");
}
