//! The image against its Dockerfile and the standard.

use super::*;
use crate::checkout;

fn dockerfile() -> String {
    let path = checkout::root().join("deploy/docker/Dockerfile");
    std::fs::read_to_string(path).unwrap().replace("\\\n", " ")
}

/// The words of an instruction of the last stage: a list in the exec form, otherwise the rest.
fn instruction(file: &str, name: &str) -> String {
    let (_, stage) = file.rsplit_once("\nFROM scratch").unwrap();
    let line = stage.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    line.unwrap_or_else(|| panic!("no {name}")).trim().to_owned()
}

/// The settings that differ between the image and a Dockerfile.
fn differences(file: &str) -> Vec<&'static str> {
    let settings = container_settings();
    let list = |text: &str| serde_json::from_str::<Value>(&text[text.find('[').unwrap()..]).unwrap();
    let health = instruction(file, "HEALTHCHECK");
    let command = list(&health);
    let span = |option: &str| {
        let word = health.split_whitespace().find_map(|word| word.strip_prefix(&format!("--{option}=")));
        word.and_then(|word| word.trim_end_matches('s').parse::<u64>().ok())
    };
    let nanos = |name: &str| settings["Healthcheck"][name].as_u64().map(|nanos| nanos / 1_000_000_000);
    let tested = settings["Healthcheck"]["Test"].as_array().unwrap();
    let ports = settings["ExposedPorts"].as_object().unwrap();
    let volumes = settings["Volumes"].as_object().unwrap();
    let same = [
        ("USER", settings["User"] == instruction(file, "USER")),
        ("WORKDIR", settings["WorkingDir"] == instruction(file, "WORKDIR")),
        ("STOPSIGNAL", settings["StopSignal"] == instruction(file, "STOPSIGNAL")),
        ("ENTRYPOINT", settings["Entrypoint"] == list(&instruction(file, "ENTRYPOINT"))),
        ("CMD", settings["Cmd"] == list(&instruction(file, "CMD"))),
        ("EXPOSE", ports.keys().eq([&format!("{}/tcp", instruction(file, "EXPOSE"))])),
        ("VOLUME", volumes.keys().eq(list(&instruction(file, "VOLUME")).as_array().unwrap())),
        ("HEALTHCHECK", tested[1..] == command.as_array().unwrap()[..]),
        ("HEALTHCHECK --interval", nanos("Interval") == span("interval")),
        ("HEALTHCHECK --timeout", nanos("Timeout") == span("timeout")),
        ("HEALTHCHECK --start-period", nanos("StartPeriod") == span("start-period")),
        ("HEALTHCHECK --retries", settings["Healthcheck"]["Retries"].as_u64() == span("retries")),
    ];
    same.into_iter().filter(|(_, is_same)| !is_same).map(|(name, _)| name).collect()
}

#[test]
fn the_image_has_the_settings_of_its_dockerfile() {
    let file = dockerfile();
    assert_eq!(differences(&file), [""; 0]);
    for (right, wrong, name) in [
        ("EXPOSE 8080", "EXPOSE 8081", "EXPOSE"),
        ("\"--peek\", \"health\"", "\"--peek\", \"healthy\"", "HEALTHCHECK"),
        ("USER 65532:65532", "USER 0:0", "USER"),
        ("--interval=10s", "--interval=60s", "HEALTHCHECK --interval"),
    ] {
        let changed = file.replace(right, wrong);
        assert_ne!(changed, file, "{right}");
        assert_eq!(differences(&changed), [name]);
    }
}

#[test]
fn each_blob_is_named_by_its_checksum_and_reached_from_the_index() {
    let identity = Identity { version: "0.1.0".to_owned(), commit: "abc".to_owned(), epoch: 0 };
    let mut tree = FileTree::default();
    tree.add_file(PROGRAM, "program", EXECUTABLE);
    let bytes = archive(&tree, "arm64", &identity).unwrap();
    assert_eq!(archive(&tree, "arm64", &identity).unwrap(), bytes, "twice the same");
    let mut files = std::collections::BTreeMap::new();
    for entry in tar::Archive::new(&*bytes).entries().unwrap() {
        let mut entry = entry.unwrap();
        let mut content = Vec::new();
        std::io::Read::read_to_end(&mut entry, &mut content).unwrap();
        files.insert(entry.path().unwrap().display().to_string(), content);
    }
    let json = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap();
    let blob = |described: &Value| {
        let digest = described["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
        let content = &files[&format!("blobs/sha256/{digest}")];
        assert_eq!(
            (sha256(content).as_str(), content.len()),
            (digest, described["size"].as_u64().unwrap() as usize)
        );
        content
    };
    assert_eq!(json(&files["oci-layout"])["imageLayoutVersion"], "1.0.0");
    let index = json(&files["index.json"]);
    let manifest = json(blob(&index["manifests"][0]));
    let config = json(blob(&manifest["config"]));
    blob(&manifest["layers"][0]);
    assert_eq!(
        (config["architecture"].as_str(), config["created"].as_str()),
        (Some("arm64"), Some("1970-01-01T00:00:00Z"))
    );
    assert_eq!(config["rootfs"]["diff_ids"][0], digest(&tree.tar(0).unwrap()));
}
