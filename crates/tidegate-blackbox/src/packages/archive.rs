//! The archive in a root with Debian's base and nothing else.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::decisions::{self, first_minute};
use super::root::{RootFolder, succeed};
use super::served::{ServedDaemon, refusal_to_start};
use crate::attack::{AttackResult, Failure, RunContext, require};
use crate::findings::{Findings, Gate};
use crate::http1;

/// The archive, by the end of its name.
const ARCHIVE: &str = "-x86_64-unknown-linux-gnu.tar.gz";

/// The folder of the root into which a user downloads.
const DOWNLOADS: &str = "/root";

/// The place of the program after the archive was unpacked.
const PROGRAM: &str = "/opt/tidegate/tidegate";

/// The longest that everything but the download may take.
const MINUTE_S: f64 = 60.0;

pub(super) fn run(context: &RunContext, findings: &mut Findings) -> Result<(), Failure> {
    let archive = context.artifact(ARCHIVE)?;
    let sums = context.artifact("SHA256SUMS")?;
    let root = RootFolder::debian()?;
    let name = archive.file_name().unwrap_or_default().to_string_lossy().into_owned();
    fs::copy(&archive, root.join(&format!("{DOWNLOADS}/{name}")))?;
    fs::copy(&sums, root.join(&format!("{DOWNLOADS}/SHA256SUMS")))?;
    let began = Instant::now();
    findings.held("its checksum is verified", verify(&root)?.trim());
    findings.claimed("a changed archive is found", changed_archive(&root, &name));
    root.shell(&format!(
        "mkdir /opt/tidegate; tar --extract --gzip --strip-components=1 --directory /opt/tidegate --file {DOWNLOADS}/{name}"
    ))?;
    let facts = root.shell(&format!("{PROGRAM} --version --verbose"))?;
    findings.claimed("it says what it is", facts_of_build(&facts));
    let daemon = serve(&root)?;
    first_answer(&daemon, findings)?;
    findings.claimed("the first minute", first_minute(&daemon.printed, daemon.address("callers")?));
    findings.claimed("a refusal explains itself on the command line", refused_command(&root, &daemon));
    if let Some(mebibytes) = daemon.mebibytes() {
        findings.shown("memory after the first minute", mebibytes, "MiB", "");
    }
    findings.claimed("it ends on SIGTERM", daemon.end());
    let took = began.elapsed().as_secs_f64();
    findings.gated("verified, unpacked, served, refused, ended", took, "s", Gate::AtMost(MINUTE_S), "");
    findings.claimed("man pages and completions are usable", documents(&root));
    findings.claimed("notices name every crate of the bill of materials", notices(context, &root));
    findings.claimed("decisions are those of the table", decision_table(&root));
    findings.claimed("a folder of the store without permission", store_without_permission(&root));
    findings.claimed("a store on a read-only file system", store_on_read_only_folder(&root));
    Ok(())
}

fn verify(root: &RootFolder) -> Result<String, Failure> {
    root.shell(&format!("cd {DOWNLOADS}; sha256sum --check --ignore-missing SHA256SUMS"))
}

/// The check of checksums must be able to fail.
fn changed_archive(root: &RootFolder, name: &str) -> AttackResult {
    let changed = root.shell(&format!(
        "mkdir /changed; cp {DOWNLOADS}/SHA256SUMS /changed; cp {DOWNLOADS}/{name} /changed/{name}; printf x >> \
         /changed/{name}; cd /changed; ! sha256sum --check --ignore-missing SHA256SUMS 2>&1"
    ))?;
    require!(changed.contains("FAILED"), "a changed archive passed: {changed}")?;
    Ok("FAILED, as it should".to_owned())
}

fn facts_of_build(facts: &str) -> AttackResult {
    let fact = |name: &str| {
        let line = facts.lines().find_map(|line| line.strip_prefix(name));
        line.map(str::trim).unwrap_or_default().to_owned()
    };
    let (commit, features) = (fact("commit"), fact("features"));
    let is_whole = commit.len() >= 40
        && fact("profile") == "dist"
        && fact("target") == "x86_64-unknown-linux-gnu"
        && features.split(", ").any(|feature| feature == "full");
    require!(is_whole, "{facts}")?;
    Ok(facts.trim().replace('\n', "; "))
}

fn serve(root: &RootFolder) -> Result<ServedDaemon, Failure> {
    ServedDaemon::start(root.command(PROGRAM).args(["serve", "--listen", "127.0.0.1:0"]))
}

/// Measures the time to a first answer and the memory that the daemon has then.
fn first_answer(daemon: &ServedDaemon, findings: &mut Findings) -> Result<(), Failure> {
    let asked = Instant::now();
    let answer = http1::ask(daemon.address("callers")?, http1::get("/readyz"))?;
    let took = daemon.served_after + asked.elapsed();
    require!(answer.status == 200, "/readyz answered {}: {}", answer.status, answer.text())?;
    let within = Duration::from_secs(5);
    findings.timed("time from the start to a first answer", Ok::<_, &str>(took), within);
    if let Some(mebibytes) = daemon.mebibytes() {
        findings.shown("memory at the start", mebibytes, "MiB", "");
    }
    Ok(())
}

/// `tidegate check` in the root, where there is no other client.
fn refused_command(root: &RootFolder, daemon: &ServedDaemon) -> AttackResult {
    let at = daemon.address("callers")?;
    let script = format!(
        "for i in 1 2 3 4 5 6 7 8 9; do {PROGRAM} check --at http://{at} example user=grace || {{ echo exit $?; break; }}; done"
    );
    let printed = root.shell(&script)?;
    let explains =
        printed.contains("admitted") && printed.contains("exit 1") && printed.contains("come back");
    require!(explains, "{printed}")?;
    let last: Vec<&str> = printed.lines().rev().take(2).collect();
    Ok(last.into_iter().rev().collect::<Vec<_>>().join("; "))
}

/// Every file is there, each command has a page, and the shell reads its completions.
fn documents(root: &RootFolder) -> AttackResult {
    let script = format!(
        "cd /opt/tidegate; for file in LICENSE-APACHE LICENSE-MIT THIRD-PARTY-NOTICES CHANGELOG.md annotated.yaml \
         systemd/tidegate.service completions/_tidegate completions/tidegate.fish; do test -s $file; done; \
         bash -n completions/tidegate.bash; grep -q validate completions/_tidegate completions/tidegate.fish; \
         {PROGRAM} schema > /dev/null; {PROGRAM} --help"
    );
    let help = root.shell(&script)?;
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|line| !line.starts_with("Commands:"))
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next().filter(|word| !word.is_empty()))
        .filter(|command| *command != "help")
        .collect();
    let missing: Vec<&&str> = commands
        .iter()
        .filter(|command| !root.join(&format!("/opt/tidegate/man/tidegate-{command}.1")).is_file())
        .collect();
    require!(commands.len() > 10 && missing.is_empty(), "commands {commands:?}, without a page {missing:?}")?;
    Ok(format!("{} commands have a page", commands.len()))
}

/// Every crate of the bill of materials that is a part of the binary is in the notices.
fn notices(context: &RunContext, root: &RootFolder) -> AttackResult {
    let bill: Value = serde_json::from_slice(&fs::read(context.artifact(".cdx.json")?)?)
        .map_err(|error| Failure::GotThrough(format!("the bill of materials is no JSON: {error}")))?;
    let notices = fs::read_to_string(root.join("/opt/tidegate/THIRD-PARTY-NOTICES"))?;
    let components = bill["components"].as_array().cloned().unwrap_or_default();
    let of_others = components.iter().filter(|component| {
        component["purl"].as_str().is_some_and(|purl| !purl.contains("download_url=file"))
            && component["scope"] == "required"
    });
    let lines: Vec<String> = of_others
        .map(|component| {
            let text = |name: &str| component[name].as_str().unwrap_or_default();
            format!("{} {}: ", text("name"), text("version"))
        })
        .collect();
    let missing: Vec<&String> = lines.iter().filter(|line| !notices.contains(line.as_str())).collect();
    require!(lines.len() > 50 && missing.is_empty(), "of {} crates are missing {missing:?}", lines.len())?;
    Ok(format!("{} crates", lines.len()))
}

fn decision_table(root: &RootFolder) -> AttackResult {
    fs::write(root.join("/table.yaml"), decisions::POLICY)?;
    let daemon = ServedDaemon::start(root.command(PROGRAM).args(["serve", "--config", "/table.yaml"]))?;
    let result = decisions::table(daemon.address("callers")?, daemon.address("redis")?);
    daemon.end()?;
    result
}

/// The policy of a daemon that keeps its store in this folder.
fn stored_in(folder: &str) -> String {
    format!(
        "listen: {{ http: '127.0.0.1:0' }}\nstore: {{ kind: embedded, path: {folder} }}\n\
         namespaces: {{ api: {{ limits: [{{ name: a, key: [user], missing: group, rate: 5/d }}] }} }}\n"
    )
}

/// A daemon of an ordinary user cannot write where root has made the folder.
fn store_without_permission(root: &RootFolder) -> AttackResult {
    fs::write(root.join("/private.yaml"), stored_in("/private/store"))?;
    root.shell("mkdir -m 0700 /private")?;
    let mut command = root.command("/usr/bin/setpriv");
    command.args(["--reuid=65532", "--regid=65532", "--clear-groups", PROGRAM]);
    let (code, text) = refusal_to_start(command.args(["serve", "--config", "/private.yaml"]))?;
    require!(code == Some(4) && text.contains("/private"), "{code:?}: {text}")?;
    Ok(text)
}

/// The daemon may do everything, and the file system is read-only.
fn store_on_read_only_folder(root: &RootFolder) -> AttackResult {
    fs::write(root.join("/volume.yaml"), stored_in("/volume/store"))?;
    root.shell("mkdir /volume")?;
    // In mounts of its own, which end with the process.
    let mut command = std::process::Command::new("unshare");
    command.arg("--mount").args(["sh", "-e", "-c"]);
    command.arg(format!(
        "mount -t tmpfs -o ro none \"$1/volume\"; exec chroot \"$1\" {PROGRAM} serve --config /volume.yaml"
    ));
    command.arg("sh").arg(root.path());
    super::root::clean(&mut command);
    succeed(std::process::Command::new("unshare").args(["--mount", "true"]))
        .map_err(|failure| Failure::Skipped(format!("mounts of its own cannot be made: {failure}")))?;
    let (code, text) = refusal_to_start(&mut command)?;
    require!(code == Some(4) && text.contains("/volume"), "{code:?}: {text}")?;
    Ok(text)
}
