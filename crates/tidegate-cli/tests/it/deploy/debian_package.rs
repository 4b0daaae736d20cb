//! The Debian package, as far as it can be looked at without building it.

use std::path::Path;
use std::process::Command;

use tidegate_test_support::TemporaryFile;

use super::{deploy, text};
use crate::command::run;

fn manifest() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap()
}

#[test]
fn its_policy_is_valid_and_refuses_nobody() {
    let file = deploy("debian/tidegate.yaml");
    let (code, out, err) = run(&["validate", file.to_str().unwrap()]);
    assert_eq!(code, 0, "{out}{err}");
    let said = format!("{out}{err}");
    let warnings: Vec<&str> = said.lines().filter(|line| line.starts_with("warning: ")).collect();
    assert!(warnings.len() == 1 && warnings[0].contains("so nothing is refused"), "{said}");
    assert!(out.contains("1 namespace, 1 limit, 1 warning"), "{out}");
    // Without the line that its comment names, the limit is enforced.
    let enforced = text("debian/tidegate.yaml").replace("        mode: shadow\n", "");
    let file = TemporaryFile::new(&enforced);
    let (code, out, err) = run(&["validate", "--deny-warnings", file.as_str()]);
    assert_eq!(code, 0, "{out}{err}");
}

/// Files below `target/packaging` are generated when the package is built.
#[test]
fn every_file_of_the_package_that_is_not_generated_exists() {
    let manifest = manifest();
    let section = manifest.split_once("[package.metadata.deb]").unwrap().1;
    let paths =
        section.split('"').filter(|text| text.starts_with("../../") && !text.contains("target/packaging"));
    let mut count = 0;
    for path in paths {
        assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join(path).exists(), "{path}");
        count += 1;
    }
    assert!(count >= 6, "{count} paths");
    for file in ["postinst", "postrm"] {
        let script = text(&format!("debian/{file}"));
        assert!(script.starts_with("#!/bin/sh\n") && script.contains("\nset -e\n"), "{file}");
        assert!(script.contains("\n#DEBHELPER#\n"), "{file}: cargo-deb adds no line about the unit");
        let checked = Command::new("sh").arg("-n").arg(deploy(&format!("debian/{file}"))).status().unwrap();
        assert!(checked.success(), "{file}");
    }
}

#[test]
fn its_changelog_begins_with_the_version_of_the_crate() {
    let first = format!("tidegate ({}-1) ", env!("CARGO_PKG_VERSION"));
    assert!(text("debian/changelog").starts_with(&first), "deploy/debian/changelog lacks {first}");
}

/// The package replaces this one path when it is built; see `deploy/debian/README.md`.
#[test]
fn the_unit_names_the_binary_once() {
    assert_eq!(text("systemd/tidegate.service").matches("=/usr/local/bin/").count(), 1);
}
