//! The image by buildah, from the last stage of the Dockerfile and the files of the image.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tidegate_test_support::TemporaryFolder;

use super::root::{RootFolder, files_of, needs, succeed, text};
use crate::attack::{AttackResult, Failure, require};

/// The Dockerfile that users build.
const DOCKERFILE: &str = include_str!("../../../../deploy/docker/Dockerfile");

/// The name of the image.
const NAME: &str = "tidegate:packages";

/// The settings that must be those of the image of `cargo xtask dist`.
const SETTINGS: [&str; 8] =
    ["User", "ExposedPorts", "Entrypoint", "Cmd", "Volumes", "WorkingDir", "StopSignal", "Healthcheck"];

/// Images and containers in a folder of their own.
#[derive(Debug)]
struct ImageStorage {
    folder: TemporaryFolder,
}

impl ImageStorage {
    /// Storage of a buildah that works here.
    fn new() -> Result<Self, Failure> {
        needs(&["buildah"])?;
        let storage = Self { folder: TemporaryFolder::new() };
        storage.folder.write("policy.json", r#"{ "default": [{ "type": "insecureAcceptAnything" }] }"#);
        succeed(storage.buildah().arg("images"))
            .map_err(|failure| Failure::Skipped(format!("buildah does not work here: {failure}")))?;
        Ok(storage)
    }

    fn buildah(&self) -> Command {
        let mut command = Command::new("buildah");
        command.arg("--root").arg(self.folder.join("root")).arg("--runroot").arg(self.folder.join("run"));
        // Works without a kernel module and in any file system.
        command.args(["--storage-driver", "vfs"]);
        command
    }

    /// Builds the folder's Dockerfile at the clock of 1970; the description of the image.
    fn build(&self, folder: &Path) -> Result<Value, Failure> {
        let mut build = self.buildah();
        build.args(["bud", "--quiet", "--isolation", "chroot", "--format", "docker", "--timestamp", "0"]);
        succeed(build.args(["--no-cache", "--tag", NAME]).arg(folder))?;
        let inspected = text(self.buildah().args(["inspect", "--type", "image", NAME]))?;
        serde_json::from_str(&inspected)
            .map_err(|error| Failure::Unfinished(format!("buildah inspect: {error}")))
    }
}

/// Builds the image twice and compares it with the one that `root` and `config` are of.
pub(super) fn same_image(root: &RootFolder, config: &Value) -> AttackResult {
    let storage = ImageStorage::new()?;
    let context = build_context(root)?;
    let (first, inspected) = (storage.build(context.path())?, storage.build(context.path())?);
    // The rest of a description has the id of the container that built it, which is drawn.
    let layers = |image: &Value| image["OCIv1"]["rootfs"]["diff_ids"].clone();
    let (one, other) = (layers(&first), layers(&inspected));
    require!(one.is_array() && one == other, "two builds have different layers: {one}, {other}")?;
    let (built, ours) = (&inspected["Docker"]["config"], &config["config"]);
    let differing: Vec<String> = SETTINGS
        .iter()
        .filter(|name| built[**name] != ours[**name])
        .map(|name| format!("{name}: {} here, {} there", ours[*name], built[*name]))
        .collect();
    require!(differing.is_empty(), "{}", differing.join("; "))?;
    let container = text(storage.buildah().args(["from", NAME]))?;
    let mounted = PathBuf::from(text(storage.buildah().args(["mount", container.trim()]))?.trim());
    let (built, ours) = (files_of(&mounted)?, files_of(root.path())?);
    require!(built == ours, "files are {built:?}, and in the image {ours:?}")?;
    for place in ["usr/bin/tidegate", "var/lib/tidegate", "etc/tidegate", "etc/tidegate/tidegate.yaml"] {
        let owner_and_mode = |root: &Path| {
            fs::metadata(root.join(place))
                .map(|data| (data.uid(), data.gid(), data.permissions().mode() & 0o7777))
        };
        let (built, ours) = (owner_and_mode(&mounted)?, owner_and_mode(root.path())?);
        require!(built == ours, "{place}: owner, group and mode are {built:?}, and in the image {ours:?}")?;
    }
    let created = inspected["Docker"]["created"].as_str().unwrap_or_default();
    require!(created.starts_with("1970-01-01"), "created {created}")?;
    Ok(format!("{} settings, {} files; twice the same at the clock of 1970", SETTINGS.len(), ours.len()))
}

/// The archive that `cargo xtask dist` wrote is an image to other programs.
pub(super) fn reads(archive: &Path) -> AttackResult {
    let storage = ImageStorage::new()?;
    let mut pull = storage.buildah();
    pull.args(["pull", "--quiet", "--signature-policy"]).arg(storage.folder.join("policy.json"));
    let id = text(pull.arg(format!("oci-archive:{}", archive.display())))?;
    let listed = text(storage.buildah().args(["images", "--no-trunc"]))?;
    require!(listed.contains(id.trim()), "{id} is not in {listed}")?;
    Ok(format!("image {}", id.trim()))
}

/// A folder with the last stage of the Dockerfile and everything that it copies, taken from `root`.
fn build_context(root: &RootFolder) -> Result<TemporaryFolder, Failure> {
    let whole = DOCKERFILE.replace("\\\n", " ");
    let stage = whole.rsplit_once("\nFROM scratch\n").map(|(_, stage)| stage);
    let stage = stage.ok_or_else(|| Failure::GotThrough("no stage `FROM scratch`".to_owned()))?;
    let context = TemporaryFolder::new();
    let mut lines = vec!["FROM scratch".to_owned()];
    for line in stage.lines() {
        let Some(copy) = line.strip_prefix("COPY ") else {
            lines.push(line.to_owned());
            continue;
        };
        let words: Vec<&str> = copy.split_whitespace().filter(|word| !word.starts_with("--from=")).collect();
        let [options @ .., source, place] = words.as_slice() else {
            return Err(Failure::GotThrough(format!("{line:?} copies nothing")));
        };
        let source = source.trim_start_matches('/');
        let target = context.join(source);
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder)?;
        }
        succeed(
            Command::new("cp").args(["--archive", "--no-target-directory"]).arg(root.join(place)).arg(target),
        )?;
        lines.push([&["COPY"], options, &[source, place]].concat().join(" "));
    }
    context.write("Dockerfile", lines.join("\n") + "\n");
    Ok(context)
}
