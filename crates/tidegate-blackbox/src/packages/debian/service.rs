//! The service of the package under a running systemd: installed, watched, replaced and removed.

use std::ops::RangeInclusive;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tidegate_test_support::{TemporaryFolder, holds_within};

use super::booted_debian::BootedDebian;
use super::debian_root::ScriptOutput;
use super::quota_load::{LoadCounts, QuotaLoad};
use super::{PACKAGE, repackaged};
use crate::attack::{AttackResult, Failure, RunContext, require};
use crate::findings::Findings;

/// How long callers charge before, between and after replacements.
const LOAD_SPAN: Duration = Duration::from_secs(2);

/// The quota that is charged, which no load uses up.
const QUOTA: u64 = 1_000_000_000;

/// The accounts that systemd gives to `DynamicUser=yes`.
const DYNAMIC_ACCOUNTS: RangeInclusive<u32> = 61184..=65519;

/// The packages, as the container has them.
struct PackageVersions {
    earlier: String,
    this: String,
    later: String,
    /// Whether the earlier one was made from another commit.
    is_of_another_commit: bool,
}

/// A step, which is one claim.
type Step = fn(&BootedDebian, &PackageVersions, &mut Findings) -> AttackResult;

/// Everything that needs systemd, in one container; each step leaves no package behind.
pub(crate) fn run(context: &RunContext, findings: &mut Findings) -> Result<(), Failure> {
    let package = context.artifact(PACKAGE)?;
    let container = BootedDebian::boot()?;
    let folder = TemporaryFolder::new();
    let bring = |path: &Path| Ok::<_, Failure>(container.bring(path)?.display().to_string());
    // Versions of their own: both commits may have the same one.
    let before = context.artifact_before(PACKAGE)?;
    let packages = PackageVersions {
        is_of_another_commit: before.is_some(),
        earlier: bring(&repackaged(before.as_ref().unwrap_or(&package), "0.0.1~before-1", folder.path())?)?,
        this: bring(&package)?,
        later: bring(&repackaged(&package, "999.0.0-1", folder.path())?)?,
    };
    let steps: [(&str, Step); 7] = [
        ("it is not started where policy-rc.d forbids it", not_started),
        ("it is installed where its port is taken, and says so", port_taken),
        ("it leaves a service alone that was installed by hand", over_one_by_hand),
        ("it answers as soon as apt has ended", installed),
        ("systemd shows reloads, and restarts a daemon that is stuck", watched),
        ("upgrade and downgrade under load lose and double no charge", replaced_under_load),
        ("an earlier package does not replace a later one by itself", not_over_a_newer_one),
    ];
    for (claim, step) in steps {
        let result = step(&container, &packages, findings);
        findings.claimed(claim, result);
        container.output("apt-get purge -y tidegate && systemctl reset-failed")?;
    }
    Ok(())
}

impl BootedDebian {
    fn install(&self, package: &str) -> Result<ScriptOutput, Failure> {
        self.sh(&format!("apt-get install -y -o Dpkg::Options::=--force-confold {package}"))
    }

    fn installed(&self, package: &str) -> Result<String, Failure> {
        let ran = self.install(package)?;
        require!(ran.is_success, "{}", ran.output)?;
        Ok(ran.output)
    }

    /// A property of the service, as `systemctl show` has it.
    fn property(&self, name: &str) -> Result<String, Failure> {
        let text = self.output(&format!("systemctl show --value --property={name} tidegate"))?;
        Ok(text.trim().to_owned())
    }

    fn eventually(&self, what: &str, holds: impl Fn() -> bool) -> Result<(), Failure> {
        if holds_within(Duration::from_secs(30), holds) {
            return Ok(());
        }
        let log = self.sh("systemctl status tidegate; journalctl --unit=tidegate --lines=20 --no-pager")?;
        Err(Failure::GotThrough(format!("not within 30 s: {what}\n{}", log.output)))
    }
}

fn not_started(container: &BootedDebian, packages: &PackageVersions, _: &mut Findings) -> AttackResult {
    container
        .output("printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d; chmod +x /usr/sbin/policy-rc.d")?;
    container.installed(&packages.this)?;
    let state = container.property("ActiveState")?;
    container.output("rm /usr/sbin/policy-rc.d")?;
    require!(state == "inactive", "the service is {state}")?;
    container.output("systemctl start tidegate && tidegate check api user=ada")?;
    Ok("inactive, until systemctl start".to_owned())
}

fn port_taken(container: &BootedDebian, packages: &PackageVersions, _: &mut Findings) -> AttackResult {
    // Another program on the port: the daemon itself, outside of the service.
    container.installed(&packages.this)?;
    container.output("cp /usr/bin/tidegate /other && apt-get purge -y tidegate")?;
    container
        .output("systemd-run --unit=other --service-type=notify /other serve --listen 127.0.0.1:8080")?;
    let said = container.installed(&packages.this)?;
    let line = said.lines().find(|line| line.contains("Address already in use"));
    let line = line.ok_or_else(|| Failure::GotThrough(format!("apt does not say why: {said}")))?;
    require!(said.contains("listen.http") && said.contains("systemctl restart tidegate"), "no fix: {said}")?;
    container.output("sed -i 's/127.0.0.1:8080/127.0.0.1:8090/' /etc/tidegate/tidegate.yaml")?;
    container
        .output("systemctl restart tidegate && tidegate check --at http://127.0.0.1:8090 api user=ada")?;
    container.output("systemctl stop other; rm /other")?;
    Ok(line.to_owned())
}

/// As `deploy/systemd/README.md` installs it, with a policy of its own.
const BY_HAND: &str = "
    printf 'namespaces: { mine: { limits: [{ name: daily, calendar: { limit: 9, unit: day, zone: UTC } }] } }\\n' \
        > /etc/tidegate/tidegate.yaml
    sed 's|=/usr/bin/|=/usr/local/bin/|' /lib/systemd/system/tidegate.service > /tmp/unit
    cp /usr/bin/tidegate /usr/local/bin/tidegate
    cp /etc/tidegate/tidegate.yaml /tmp/policy
    apt-get purge -y tidegate
    mkdir -p /etc/tidegate
    cp /tmp/policy /etc/tidegate/tidegate.yaml
    cp /tmp/unit /etc/systemd/system/tidegate.service
    systemctl daemon-reload
    systemctl enable --now tidegate
    tidegate check mine
";

fn over_one_by_hand(container: &BootedDebian, packages: &PackageVersions, _: &mut Findings) -> AttackResult {
    container.installed(&packages.this)?;
    container.output(&format!("set -e; {BY_HAND}"))?;
    let process = container.property("MainPID")?;
    let said = container.installed(&packages.this)?;
    for word in ["rm /etc/systemd/system/tidegate.service", "/usr/local/bin/tidegate"] {
        require!(said.contains(word), "apt does not name {word}: {said}")?;
    }
    require!(container.property("MainPID")? == process, "the service was restarted")?;
    container.output("cmp /tmp/policy /etc/tidegate/tidegate.yaml")?;
    // As the message says.
    container
        .output("rm /etc/systemd/system/tidegate.service /usr/local/bin/tidegate; systemctl daemon-reload")?;
    let left = container.output("systemctl restart tidegate && tidegate check mine")?;
    require!(left.contains("7 of 9 left"), "the quota was lost: {left}")?;
    let started = container.output("readlink /proc/$(systemctl show --value -p MainPID tidegate)/exe")?;
    require!(started.trim() == "/usr/bin/tidegate", "{started}")?;
    Ok("left running, policy and quota kept after the change of the unit".to_owned())
}

fn installed(container: &BootedDebian, packages: &PackageVersions, findings: &mut Findings) -> AttackResult {
    let began = Instant::now();
    container.installed(&packages.this)?;
    let apt = began.elapsed();
    // At once: the service is started when its listeners accept.
    let answer = container.output("tidegate check api user=ada")?;
    findings.shown("from apt install to the first answer", 1000.0 * began.elapsed().as_secs_f64(), "ms", "");
    findings.shown("of which apt", 1000.0 * apt.as_secs_f64(), "ms", "");
    let resident =
        container.output("grep VmRSS /proc/$(systemctl show --value -p MainPID tidegate)/status")?;
    let kibibytes: f64 =
        resident.split_whitespace().nth(1).and_then(|text| text.parse().ok()).unwrap_or(f64::NAN);
    findings.shown("memory at start", kibibytes / 1024.0, "MiB", "resident, of the service of the package");
    let status = container.property("StatusText")?;
    require!(status == "policy version 1 is in force; http on 127.0.0.1:8080", "STATUS={status}")?;
    // Only systemd knows the name of a dynamic account.
    let account = container.output("stat -c %u /proc/$(systemctl show --value -p MainPID tidegate)")?;
    let is_dynamic = account.trim().parse().is_ok_and(|id: u32| DYNAMIC_ACCOUNTS.contains(&id));
    require!(is_dynamic, "the account of the service has the number {account}")?;
    Ok(answer.trim().to_owned())
}

fn watched(container: &BootedDebian, packages: &PackageVersions, _: &mut Findings) -> AttackResult {
    container.installed(&packages.this)?;
    container.output("sed -i '/mode: shadow/d' /etc/tidegate/tidegate.yaml; systemctl reload tidegate")?;
    let status = |word: &str| container.property("StatusText").is_ok_and(|status| status.contains(word));
    container.eventually("STATUS shows version 2", || status("policy version 2 is in force; "))?;
    container.output("echo 'limit: {}' >> /etc/tidegate/tidegate.yaml; systemctl reload tidegate")?;
    container.eventually("STATUS shows the rejected policy", || status("rejected"))?;
    require!(
        container.property("ActiveState")? == "active",
        "the service is not active after a rejected reload"
    )?;
    container.output("sed -i '/^limit:/d' /etc/tidegate/tidegate.yaml")?;
    container.output(
        "mkdir -p /etc/systemd/system/tidegate.service.d
         printf '[Service]\\nWatchdogSec=1\\n' > /etc/systemd/system/tidegate.service.d/watchdog.conf
         systemctl daemon-reload && systemctl restart tidegate",
    )?;
    // Sleeps: systemd counts three spans of the watchdog in real time.
    thread::sleep(Duration::from_secs(3));
    require!(container.property("NRestarts")? == "0", "the watchdog ended a daemon that is well")?;
    container.output("kill -STOP $(systemctl show --value -p MainPID tidegate)")?;
    let restarts = || container.property("NRestarts").is_ok_and(|count| count == "1");
    container.eventually("a daemon that is stuck is restarted", restarts)?;
    container.eventually("the restarted daemon answers", || {
        container.sh("tidegate check api user=eve").is_ok_and(|ran| ran.is_success)
    })?;
    container.output("rm -r /etc/systemd/system/tidegate.service.d; systemctl daemon-reload")?;
    Ok("versions and a rejection in STATUS; restarted once after SIGSTOP".to_owned())
}

fn replaced_under_load(
    container: &BootedDebian,
    packages: &PackageVersions,
    findings: &mut Findings,
) -> AttackResult {
    container.installed(&packages.earlier)?;
    let policy = format!(
        "listen: {{ http: unix:/run/tidegate/tidegate.sock }}\nnamespaces:\n  api:\n    limits:\n      \
         - {{ name: daily, calendar: {{ limit: {QUOTA}, unit: year, zone: UTC }} }}\n"
    );
    container.output(&format!(
        "printf '%s' '{policy}' > /etc/tidegate/tidegate.yaml; systemctl restart tidegate"
    ))?;
    let socket = container.outside("/run/tidegate/tidegate.sock");
    let load = QuotaLoad::begin(&socket, r#"{"namespace":"api","attributes":{}}"#);
    let replaced = replacements(container, packages);
    let LoadCounts { admitted, others, unanswered, longest_gap } = load.end();
    let commits = replaced?;
    let are_other = commits.windows(2).all(|two| two[0] != two[1] && two.iter().all(|one| one != "unknown"));
    require!(are_other || !packages.is_of_another_commit, "--before is of the same commit: {commits:?}")?;
    let commits = commits.join(", ");
    let used = QUOTA - left(container)?;
    let gap = 1000.0 * longest_gap.as_secs_f64();
    findings.shown("longest time without an answer", gap, "ms", "of one caller");
    // A disk that is slow while apt writes: the charge may have come too late for its answer.
    let (late, others): (Vec<String>, Vec<String>) =
        others.into_iter().partition(|answer| answer.contains("store_unavailable"));
    let late = late.len() as u64;
    let counts = format!(
        "{admitted} admitted, {used} used, {unanswered} unanswered, {late} too late in the store, other answers: {others:?}; by the programs of {commits}"
    );
    require!(admitted > 1000 && others.is_empty(), "{counts}")?;
    // A request without an answer may have been charged.
    let used_max = admitted + unanswered + late;
    require!((admitted..=used_max).contains(&used), "{counts}")?;
    let text = container.output("cat /etc/tidegate/tidegate.yaml")?;
    require!(text == policy, "the policy was changed:\n{text}")?;
    Ok(counts)
}

/// Upgrades, and goes back; the commits of the programs, in the order in which they served.
fn replacements(container: &BootedDebian, packages: &PackageVersions) -> Result<Vec<String>, Failure> {
    let mut commits = vec![commit(container)?];
    for package in [&packages.this, &packages.earlier, &packages.this] {
        // Sleeps: callers charge meanwhile.
        thread::sleep(LOAD_SPAN);
        let process = container.property("MainPID")?;
        container.installed(&format!("--allow-downgrades {package}"))?;
        require!(container.property("MainPID")? != process, "{package}: the daemon was not restarted")?;
        require!(container.property("Result")? == "success", "{package}: the daemon did not end well")?;
        commits.push(commit(container)?);
    }
    // Sleeps: callers charge meanwhile.
    thread::sleep(LOAD_SPAN);
    Ok(commits)
}

/// The commit of the program that is installed.
fn commit(container: &BootedDebian) -> Result<String, Failure> {
    let about = container.output("tidegate --version --verbose")?;
    let commit = about.lines().find_map(|line| line.trim().strip_prefix("commit"));
    Ok(commit.unwrap_or("unknown").trim_start_matches([':', ' ']).chars().take(8).collect())
}

/// The units that are left of the quota.
fn left(container: &BootedDebian) -> Result<u64, Failure> {
    let answer =
        container.output("tidegate check --peek --json --at unix:/run/tidegate/tidegate.sock api")?;
    let answer: Value =
        serde_json::from_str(&answer).map_err(|error| Failure::Unfinished(error.to_string()))?;
    answer["remaining"].as_u64().ok_or_else(|| Failure::GotThrough(format!("no remaining units: {answer}")))
}

fn not_over_a_newer_one(
    container: &BootedDebian,
    packages: &PackageVersions,
    _: &mut Findings,
) -> AttackResult {
    container.installed(&packages.later)?;
    let process = container.property("MainPID")?;
    let ScriptOutput { is_success, output } = container.install(&packages.this)?;
    require!(!is_success && output.contains("downgrade"), "{output}")?;
    require!(container.property("MainPID")? == process, "the service was restarted")?;
    container.output("tidegate check api user=ada")?;
    Ok("apt refuses without --allow-downgrades, and the service goes on".to_owned())
}
