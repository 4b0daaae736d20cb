//! The chart as Helm renders it: the timing of its pods, and their policy.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_test_support::manifests::{ask_kubernetes_tools, chart_request, documents_request};

use crate::attack::Failure;

/// The chart in the checkout.
pub(super) fn chart_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/helm/tidegate")
}

/// The answers of Helm and the schemas; the part is skipped where they are not installed.
pub(super) fn ask(requests: &[Value]) -> Result<Vec<Value>, Failure> {
    let answers = ask_kubernetes_tools(requests).ok_or_else(|| {
        Failure::Skipped(
            "the Python packages of Helm are not installed; `cargo xtask test` installs them".into(),
        )
    })?;
    match answers.iter().find_map(|answer| answer["error"].as_str()) {
        Some(error) => Err(Failure::Unfinished(error.to_owned())),
        None => Ok(answers),
    }
}

/// The objects of the chart with these values.
pub(super) fn objects(chart: &Path, values: &str) -> Result<Vec<Value>, Failure> {
    let answers = ask(&[chart_request(chart, values, "tidegate")])?;
    Ok(answers[0]["objects"].as_array().cloned().unwrap_or_default())
}

/// The timing of the rendered Deployment, and its policy.
#[derive(Clone, Debug)]
pub(super) struct RenderedFleet {
    pub(super) replicas: usize,
    /// The sleep before SIGTERM.
    pub(super) pre_stop: Duration,
    /// From the deletion of a pod to SIGKILL.
    pub(super) grace: Duration,
    pub(super) readiness_path: String,
    pub(super) readiness_period: Duration,
    policy: Value,
}

impl RenderedFleet {
    /// The chart as its values stand.
    pub(super) fn read() -> Result<Self, Failure> {
        let objects = objects(&chart_folder(), "{}")?;
        let of_kind = |kind: &str| {
            let found = objects.iter().find(|object| object["kind"] == kind);
            found.ok_or_else(|| Failure::GotThrough(format!("the chart renders no {kind}")))
        };
        let text = of_kind("ConfigMap")?["data"]["tidegate.yaml"].as_str().unwrap_or_default().to_owned();
        let policy = ask(&[documents_request(&text)])?[0]["documents"][0].clone();
        let spec = &of_kind("Deployment")?["spec"];
        let surge = &spec["strategy"]["rollingUpdate"];
        if surge["maxUnavailable"] != 0 || surge["maxSurge"] != 1 {
            return Err(Failure::GotThrough(format!("this part plays another strategy than {surge}")));
        }
        let pod = &spec["template"]["spec"];
        let container = &pod["containers"][0];
        let readiness = &container["readinessProbe"];
        Ok(Self {
            replicas: usize::try_from(number(&spec["replicas"], "replicas")?).unwrap_or(0),
            pre_stop: seconds(&container["lifecycle"]["preStop"]["sleep"]["seconds"], "preStop")?,
            grace: seconds(&pod["terminationGracePeriodSeconds"], "terminationGracePeriodSeconds")?,
            readiness_path: readiness["httpGet"]["path"].as_str().unwrap_or_default().to_owned(),
            readiness_period: seconds(&readiness["periodSeconds"], "readinessProbe")?,
            policy,
        })
    }

    /// The same without the sleep before SIGTERM.
    pub(super) fn without_pre_stop(self) -> Self {
        Self { pre_stop: Duration::ZERO, ..self }
    }

    /// The policy for a daemon of this machine: free ports of loopback, this Redis, and no tokens.
    /// A store that is slow because the machine is busy does not count as away.
    pub(super) fn policy(&self, redis: &str) -> String {
        let mut policy = self.policy.clone();
        policy["store"]["urls"] = json!([redis]);
        policy["store"]["deadline"] = "10s".into();
        if let Some(policy) = policy.as_object_mut() {
            policy.remove("authorization");
        }
        if let Some(listen) = policy["listen"].as_object_mut() {
            listen.values_mut().for_each(|listener| listener["address"] = "127.0.0.1:0".into());
        }
        policy.to_string()
    }
}

fn number(value: &Value, name: &str) -> Result<u64, Failure> {
    value.as_u64().ok_or_else(|| Failure::GotThrough(format!("the chart renders no number for {name}")))
}

fn seconds(value: &Value, name: &str) -> Result<Duration, Failure> {
    number(value, name).map(Duration::from_secs)
}
