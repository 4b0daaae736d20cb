//! The image for containers: one static file, its licences, the root certificates and a policy.
//!
//! An archive in the [OCI image layout](https://github.com/opencontainers/image-spec), which
//! `docker load`, `podman load` and `skopeo` read. It is written here rather than by a builder, so
//! that no daemon is needed and that equal files are an equal image. The settings are those of
//! `deploy/docker/Dockerfile`; a test compares them.

use std::path::Path;

use serde_json::{Value, json};

use super::checksum::sha256;
use super::file_tree::{EXECUTABLE, FileTree, READABLE, gzipped};
use super::identity::Identity;
use crate::checkout;

/// The user and the group that the daemon runs as. It has no name in the image.
pub(super) const USER: u32 = 65532;

/// The place of the program.
const PROGRAM: &str = "usr/bin/tidegate";

/// The place of the policy.
const POLICY: &str = "etc/tidegate/tidegate.yaml";

/// The folder of the store, a volume.
const STATE: &str = "var/lib/tidegate";

/// Licences and notices.
const DOCUMENTS: &str = "usr/share/doc/tidegate";

/// The root certificates, on the machine and in the image.
const CERTIFICATES: &str = "etc/ssl/certs/ca-certificates.crt";

/// The files of the image. The error names a file that is missing.
pub(super) fn files(program: Vec<u8>, notices: &str) -> Result<FileTree, String> {
    let root = checkout::root();
    let mut tree = FileTree::default();
    tree.add_folder_of(USER, STATE);
    tree.add_folder_of(USER, "etc/tidegate");
    tree.add_file(PROGRAM, program, EXECUTABLE);
    tree.add_copy(POLICY, &root.join("deploy/docker/tidegate.yaml"))?;
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        tree.add_copy(&format!("{DOCUMENTS}/{licence}"), &root.join(licence))?;
    }
    tree.add_file(&format!("{DOCUMENTS}/third-party-notices"), notices, READABLE);
    let certificates = Path::new("/").join(CERTIFICATES);
    tree.add_copy(CERTIFICATES, &certificates)
        .map_err(|error| format!("{error}; install root certificates, Debian's package ca-certificates"))?;
    Ok(tree)
}

/// The part of the configuration that containers are started with.
pub(super) fn container_settings() -> Value {
    json!({
        "User": format!("{USER}:{USER}"),
        "ExposedPorts": { "8080/tcp": {} },
        "Env": ["PATH=/usr/bin"],
        "Entrypoint": ["/usr/bin/tidegate"],
        "Cmd": ["serve", "--config", "/etc/tidegate/tidegate.yaml", "--log-format", "json"],
        "Volumes": { "/var/lib/tidegate": {} },
        "WorkingDir": "/var/lib/tidegate",
        "StopSignal": "SIGTERM",
        // Not a part of the standard: Docker reads it, others pass it over.
        "Healthcheck": {
            "Test": ["CMD", "/usr/bin/tidegate", "check", "--at", "http://127.0.0.1:8080", "--peek", "health"],
            "Interval": 10_000_000_000_u64,
            "Timeout": 6_000_000_000_u64,
            "StartPeriod": 5_000_000_000_u64,
            "Retries": 3,
        },
    })
}

/// The image of these files for `architecture`, as Docker calls it, in an archive.
pub(super) fn archive(tree: &FileTree, architecture: &str, identity: &Identity) -> Result<Vec<u8>, String> {
    let layer = tree.tar(identity.epoch)?;
    let compressed = gzipped(&layer)?;
    let created = identity.time()?;
    let mut settings = container_settings();
    settings["Labels"] = labels(identity);
    let config = text(&json!({
        "created": created,
        "architecture": architecture,
        "os": "linux",
        "config": settings,
        "rootfs": { "type": "layers", "diff_ids": [digest(&layer)] },
        "history": [{ "created": created, "created_by": "cargo xtask dist" }],
    }));
    let manifest = text(&json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": descriptor("application/vnd.oci.image.config.v1+json", &config),
        "layers": [descriptor("application/vnd.oci.image.layer.v1.tar+gzip", &compressed)],
        "annotations": labels(identity),
    }));
    let mut described = descriptor("application/vnd.oci.image.manifest.v1+json", &manifest);
    described["platform"] = json!({ "architecture": architecture, "os": "linux" });
    // The names under which `docker load` and `podman load` keep it.
    described["annotations"] = json!({
        "io.containerd.image.name": format!("docker.io/library/tidegate:{}", identity.version),
        "org.opencontainers.image.ref.name": identity.version,
    });
    let index = text(&json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [described],
    }));
    let mut layout = FileTree::default();
    layout.add_file("oci-layout", text(&json!({ "imageLayoutVersion": "1.0.0" })), READABLE);
    layout.add_file("index.json", index, READABLE);
    for blob in [config, manifest, compressed] {
        layout.add_file(&format!("blobs/sha256/{}", sha256(&blob)), blob, READABLE);
    }
    layout.tar(identity.epoch)
}

fn labels(identity: &Identity) -> Value {
    json!({
        "org.opencontainers.image.title": "tidegate",
        "org.opencontainers.image.description": "Admission control for multi-tenant services",
        "org.opencontainers.image.licenses": "Apache-2.0 OR MIT",
        "org.opencontainers.image.source": "https://github.com/tidegate/tidegate",
        "org.opencontainers.image.version": identity.version,
        "org.opencontainers.image.revision": identity.commit,
    })
}

fn descriptor(media_type: &str, blob: &[u8]) -> Value {
    json!({ "mediaType": media_type, "digest": digest(blob), "size": blob.len() })
}

fn digest(blob: &[u8]) -> String {
    format!("sha256:{}", sha256(blob))
}

fn text(value: &Value) -> Vec<u8> {
    serde_json::to_vec(value).expect("a value of JSON always serialises")
}

#[cfg(test)]
mod tests;
