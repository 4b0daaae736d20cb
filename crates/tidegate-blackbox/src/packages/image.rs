//! The image for containers: its layout, its files as a root of their own, and the same image by
//! buildah.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tidegate_test_support::TemporaryFolder;

use super::buildah;
use super::container::{FOREIGN_VOLUME, ImageContainer, OWN_VOLUME, READ_ONLY_VOLUME, bound};
use super::root::{RootFolder, files_of, needs, succeed, text};
use super::served::refusal_to_start;
use crate::attack::{AttackResult, Failure, RunContext, require};
use crate::findings::Findings;

/// The image, by the end of its name: that with musl, else the one with glibc in its place.
const IMAGES: [&str; 2] = ["-x86_64-unknown-linux-musl.oci.tar", "-x86_64-unknown-linux-gnu-static.oci.tar"];

/// How long its container may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// An image that was taken apart.
#[derive(Debug)]
struct UnpackedImage {
    // The layer is a file in it.
    _layout: TemporaryFolder,
    config: Value,
    layer: PathBuf,
}

pub(super) fn run(context: &RunContext, findings: &mut Findings) -> Result<(), Failure> {
    let archive = context.artifact(IMAGES[0]).or_else(|failure| match failure {
        Failure::Skipped(_) => context.artifact(IMAGES[1]),
        failure => Err(failure),
    })?;
    findings.held("the image that is tested", &archive.display().to_string());
    let image = UnpackedImage::of_archive(&archive)?;
    findings.held("each blob has its checksum", "index, manifest, configuration, layer");
    let root = image.root()?;
    findings.claimed("it has a static program, and no shell", contents(&root));
    match ImageContainer::start(&root, &image.config, OWN_VOLUME) {
        Ok(container) => {
            let took = container.until_healthy()?;
            findings.timed("time from the start to a first answer", Ok::<_, &str>(took), ANSWER_MAX);
            if let Some(mebibytes) = container.mebibytes() {
                findings.shown("memory at the start", mebibytes, "MiB", "");
            }
            findings.claimed("it answers as its user, read-only, without capabilities", refuses(&container));
            findings.claimed("it ends on SIGTERM", container.end());
        }
        Err(failure) => findings.claimed("it runs as a process in its own root", Err(failure)),
    }
    findings.claimed("what was used is kept on the volume", kept_on_volume(&root, &image.config));
    findings.claimed("a volume that its user may not write", foreign_volume(&root, &image.config));
    findings.claimed("a volume that is read-only", read_only_volume(&root, &image.config));
    findings
        .claimed("buildah builds the same from the Dockerfile", buildah::same_image(&root, &image.config));
    findings.claimed("buildah reads the archive", buildah::reads(&archive));
    Ok(())
}

impl UnpackedImage {
    /// Reads an archive and checks every checksum on the way.
    fn of_archive(archive: &Path) -> Result<Self, Failure> {
        needs(&["tar", "sha256sum"])?;
        let layout = TemporaryFolder::new();
        succeed(
            Command::new("tar")
                .arg("--extract")
                .arg("--directory")
                .arg(layout.path())
                .arg("--file")
                .arg(archive),
        )?;
        let index = json(&layout.join("index.json"))?;
        let manifest = json(&blob(&layout, &index["manifests"][0])?)?;
        let config = json(&blob(&layout, &manifest["config"])?)?;
        let layer = blob(&layout, &manifest["layers"][0])?;
        Ok(Self { _layout: layout, config, layer })
    }

    /// The files of the image as a root.
    fn root(&self) -> Result<RootFolder, Failure> {
        let root = RootFolder::empty()?;
        let mut unpack = Command::new("tar");
        unpack.args(["--extract", "--gzip", "--numeric-owner", "--same-owner", "--preserve-permissions"]);
        succeed(unpack.arg("--directory").arg(root.path()).arg("--file").arg(&self.layer))?;
        Ok(root)
    }
}

fn json(path: &Path) -> Result<Value, Failure> {
    serde_json::from_slice(&fs::read(path)?)
        .map_err(|error| Failure::GotThrough(format!("{}: {error}", path.display())))
}

/// The file that a descriptor names, whose checksum is the one in its name.
fn blob(layout: &TemporaryFolder, described: &Value) -> Result<PathBuf, Failure> {
    let digest = described["digest"].as_str().and_then(|digest| digest.strip_prefix("sha256:"));
    let digest = digest.ok_or_else(|| Failure::GotThrough(format!("no digest in {described}")))?;
    let path = layout.join("blobs/sha256").join(digest);
    let sum = text(Command::new("sha256sum").arg(&path))?;
    let size = fs::metadata(&path)?.len();
    require!(
        sum.starts_with(digest) && described["size"].as_u64() == Some(size),
        "{described} is {size} bytes with the checksum {sum}"
    )?;
    Ok(path)
}

fn contents(root: &RootFolder) -> AttackResult {
    let files = files_of(root.path())?;
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    let expected = [
        "etc/ssl/certs/ca-certificates.crt",
        "etc/tidegate/tidegate.yaml",
        "usr/bin/tidegate",
        "usr/share/doc/tidegate/LICENSE-APACHE",
        "usr/share/doc/tidegate/LICENSE-MIT",
        "usr/share/doc/tidegate/third-party-notices",
    ];
    require!(names == expected, "{names:?}")?;
    let owner = fs::metadata(root.join("var/lib/tidegate"))?.uid();
    let mode = fs::metadata(root.join("usr/bin/tidegate"))?.permissions().mode() & 0o7777;
    require!((owner, mode) == (65532, 0o755), "the state is of user {owner}, the program has mode {mode:o}")?;
    let bytes: u64 = files.iter().map(|(_, bytes)| bytes).sum();
    Ok(format!("{} files, {:.1} MB", files.len(), bytes as f64 / 1e6))
}

/// A request that goes ahead, and a refusal that explains itself, by the program in the image.
fn refuses(container: &ImageContainer) -> AttackResult {
    let status = fs::read_to_string(format!("/proc/{}/status", container.id()))?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let (user, capabilities, privileges) = (field("Uid:"), field("CapEff:"), field("NoNewPrivs:"));
    let is_confined = user == ["65532"; 4] && capabilities == ["0000000000000000"] && privileges == ["1"];
    require!(is_confined, "user {user:?}, capabilities {capabilities:?}, no new privileges {privileges:?}")?;
    // The burst is full again after two seconds, and a busy machine may take as long for a call.
    let mut admitted = 0;
    let refusal = loop {
        let (code, text) = container.run(&["check", "--at", ADDRESS, "api", "user=ada", "--cost", "200"])?;
        match code {
            Some(0) if admitted < 20 => admitted += 1,
            Some(1) => break text,
            _ => return Err(Failure::GotThrough(format!("{admitted} admitted, then {code:?}: {text}"))),
        }
    };
    let explains = admitted > 0 && refusal.contains("per-user") && refusal.contains("come back");
    require!(explains, "{admitted} admitted, then {refusal}")?;
    Ok(refusal)
}

/// The address that the policy of the image names.
const ADDRESS: &str = "http://127.0.0.1:8080";

fn kept_on_volume(root: &RootFolder, config: &Value) -> AttackResult {
    let volume = TemporaryFolder::new();
    succeed(Command::new("chown").arg("65532:65532").arg(volume.path()))?;
    let left = |container: &ImageContainer| {
        let (code, text) = container.run(&["explain", "--at", ADDRESS, "api", "user=ada"])?;
        let line = text.lines().find(|line| line.contains("per-user-daily")).unwrap_or_default();
        require!(code == Some(0) && !line.is_empty(), "{code:?}: {text}")?;
        // Name, decision, used and left; behind them is a time.
        Ok::<_, Failure>(line.split_whitespace().take(4).collect::<Vec<_>>().join(" "))
    };
    let mut seen = Vec::new();
    for charge in ["20", "0"] {
        let container = ImageContainer::start(root, config, &bound(volume.path()))?;
        container.until_healthy()?;
        if charge != "0" {
            let (code, text) =
                container.run(&["check", "--at", ADDRESS, "api", "user=ada", "--cost", charge])?;
            require!(code == Some(0), "{text}")?;
        }
        seen.push(left(&container)?);
        container.end()?;
    }
    require!(seen[0] == seen[1] && seen[0].contains("99980"), "before {:?}, after {:?}", seen[0], seen[1])?;
    Ok(seen.remove(1))
}

fn foreign_volume(root: &RootFolder, config: &Value) -> AttackResult {
    does_not_start(root, config, FOREIGN_VOLUME)
}

fn read_only_volume(root: &RootFolder, config: &Value) -> AttackResult {
    does_not_start(root, config, READ_ONLY_VOLUME)
}

/// The container ends at once, and says which folder is wrong.
fn does_not_start(root: &RootFolder, config: &Value, volume: &str) -> AttackResult {
    let (code, text) = refusal_to_start(&mut ImageContainer::command(root, config, volume)?)?;
    require!(code == Some(4) && text.contains("/var/lib/tidegate"), "{code:?}: {text}")?;
    Ok(text)
}
