//! The checks of a release, on this checkout and with faults.

use super::*;
use crate::dist::DistOptions;

#[test]
fn this_checkout_could_be_released_but_for_its_changelog() {
    let is_command = |words: &[&str]| DistOptions::read(words).is_ok();
    assert_eq!(run(None, is_command), Ok(true));
}

#[test]
fn a_tag_that_differs_from_the_version_is_refused() {
    assert_eq!(tag_problems("v0.1.0", "0.1.0"), [""; 0]);
    for tag in ["0.1.0", "v0.1.1", "v0.1.0-rc1", ""] {
        let problems = tag_problems(tag, "0.1.0");
        assert!(problems[0].contains("use the tag v0.1.0"), "{problems:?}");
    }
}

#[test]
fn a_release_without_a_text_in_the_changelog_is_refused() {
    let log = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- a\n\n## [0.1.0] - 2026-01-01\n\n- b\n";
    assert_eq!(changelog_problems(log, "0.1.0", true), [""; 0]);
    assert_eq!(changelog_problems(log, "0.2.0", false), [""; 0]);
    assert!(changelog_problems(log, "0.2.0", true)[0].contains("`## [0.2.0]`"));
    let empty = "# Changelog\n\n## [0.2.0]\n\n### Added\n\n## [0.1.0]\n\n- b\n";
    assert_eq!(changelog_problems(empty, "0.2.0", true).len(), 1);
}

fn member(name: &str, is_published: bool, needs: &[&str]) -> Member {
    let dependencies: Vec<_> =
        needs.iter().map(|name| serde_json::json!({ "name": name, "kind": null })).collect();
    let publish = if is_published { serde_json::Value::Null } else { serde_json::json!([]) };
    let package = serde_json::json!({
        "name": name, "version": "0.1.0", "manifest_path": format!("/{name}/Cargo.toml"), "publish": publish,
        "dependencies": dependencies,
    });
    let metadata = serde_json::json!({ "packages": [package] });
    workspace::read(&metadata.to_string()).unwrap().remove(0)
}

#[test]
fn crates_are_published_behind_those_they_need() {
    let members =
        [member("cli", true, &["core", "other"]), member("core", true, &[]), member("xtask", false, &[])];
    assert_eq!(publish_order(&members), Ok(vec!["core".to_owned(), "cli".to_owned()]));
    let circle = [member("a", true, &["b"]), member("b", true, &["a"])];
    assert!(publish_order(&circle).unwrap_err().contains("a, b"));
    let private = [member("a", true, &["xtask"]), member("xtask", false, &[])];
    assert!(publish_order(&private).unwrap_err().contains("a needs xtask"));
    assert_eq!(version(&members), Ok("0.1.0".to_owned()));
}

#[test]
fn a_missing_notice_is_found() {
    let tree = "tidegate-cli v0.1.0 (/w/crates/tidegate-cli)\nbytes v1.2.3\nring v0.17.14 (*)\n";
    assert_eq!(unlisted(tree, "bytes 1.2.3: MIT\nring 0.17.14: ISC\n"), [""; 0]);
    let problems = unlisted(tree, "bytes 1.2.2: MIT\nring 0.17.14: ISC\n");
    assert_eq!(problems, ["bytes 1.2.3 is in the binary and not in the notices"]);
}
