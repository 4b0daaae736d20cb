//! Checks that the gate leaves out: the files in `deploy` by every version of Kubernetes, the
//! Prometheus operator's objects, and the chart as it is given away.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tidegate_test_support::fetched;

use super::rendered_chart::{ask, chart_folder, objects};
use crate::attack::{AttackResult, Failure, RunContext, require};
use crate::findings::Findings;

#[expect(clippy::unnecessary_wraps, reason = "the signature of a part")]
pub(super) fn run(context: &RunContext, findings: &mut Findings) -> Result<(), Failure> {
    findings.claimed("each value file fits the strict schemas of every version", fits_every_version());
    findings.claimed("each ServiceMonitor fits the model of the Prometheus operator", fits_the_operator());
    findings.claimed("the chart that is given away renders as the folder does", is_the_folder(context));
    Ok(())
}

/// The value files of the chart, with their texts.
fn value_files() -> Result<Vec<(PathBuf, String)>, Failure> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(chart_folder().join("ci"))? {
        let path = entry?.path();
        let text = std::fs::read_to_string(&path)?;
        files.push((path, text));
    }
    files.sort_unstable();
    require!(files.len() >= 10, "there are {} value files", files.len())?;
    Ok(files)
}

fn fits_every_version() -> AttackResult {
    let files = value_files()?;
    let mut requests = Vec::new();
    for (_, text) in &files {
        let objects = objects(&chart_folder(), text)?;
        requests.push(json!({ "do": "complaints", "objects": objects, "versions": "all" }));
    }
    let answers = ask(&requests)?;
    let found: Vec<String> = answers.iter().map(|answer| answer["complaints"].to_string()).collect();
    require!(found.iter().all(|text| text == "[]"), "{}", found.join("; "))?;
    // A fault, so that silence means something.
    let wrong = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "nam": "a" } });
    let answers = ask(&[json!({ "do": "complaints", "objects": [wrong], "versions": "all" })])?;
    let count = answers[0]["complaints"].as_array().map_or(0, Vec::len);
    require!(count >= 2, "a misspelt key is found in {count} versions")?;
    Ok(format!("{} value files in {count} versions", files.len()))
}

/// Reads objects as models, writes them again, and prints those that lost something on the way.
const OPERATOR: &str = "\
import json, sys
from cloudcoil.models.prometheus_operator import v1
for line in sys.stdin:
    value = json.loads(line)
    try:
        again = v1.ServiceMonitor.model_validate(value).model_dump(mode='json', by_alias=True, exclude_unset=True)
    except Exception as error:
        print(error)
        continue
    if again != value:
        print('lost:', json.dumps(value['spec']), json.dumps(again['spec']))
";

fn operator_complaints(monitors: &[Value]) -> AttackResult {
    let python = fetched("prometheus-operator", "bin/python").ok_or_else(|| {
        Failure::Skipped(
            "the models of the Prometheus operator are not installed; `cargo xtask test` does".into(),
        )
    })?;
    let folder = tidegate_test_support::TemporaryFolder::new();
    let lines: Vec<String> = monitors.iter().map(Value::to_string).collect();
    let input = std::fs::File::open(folder.write("monitors.json", &(lines.join("\n") + "\n")))?;
    let output = Command::new(python).args(["-c", OPERATOR]).stdin(input).output()?;
    require!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn fits_the_operator() -> AttackResult {
    let mut monitors = Vec::new();
    for (_, text) in value_files()? {
        monitors.extend(objects(&chart_folder(), &text)?.into_iter().filter(is_monitor));
    }
    require!(monitors.len() >= 2, "{} value files make a ServiceMonitor", monitors.len())?;
    let found = operator_complaints(&monitors)?;
    require!(found.is_empty(), "{found}")?;
    let mut wrong = monitors[0].clone();
    wrong["spec"]["endpoints"][0]["prt"] = "admin".into();
    require!(!operator_complaints(&[wrong])?.is_empty(), "a misspelt key is not found")?;
    Ok(format!("{} objects", monitors.len()))
}

fn is_monitor(object: &Value) -> bool {
    object["kind"] == "ServiceMonitor"
}

fn is_the_folder(context: &RunContext) -> AttackResult {
    let archive = context.artifact(".tgz")?;
    // The version of a chart from a tree with changes ends in `-dirty`.
    let compared = |chart: &Path| -> Result<String, Failure> {
        let objects = objects(chart, "{}")?;
        let version = &objects[0]["metadata"]["labels"]["app.kubernetes.io/version"];
        let version = version.as_str().unwrap_or_default().to_owned();
        Ok(Value::Array(objects).to_string().replace(&version, "VERSION"))
    };
    require!(compared(&archive)? == compared(&chart_folder())?, "{} differs", archive.display())?;
    Ok(archive.display().to_string())
}
