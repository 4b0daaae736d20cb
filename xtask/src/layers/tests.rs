use super::rules::CRATES;
use super::*;

/// A crate as `cargo metadata --no-deps` prints it, with dependencies given as `(name, kind)`.
fn package(name: &str, publish: &str, dependencies: &[(&str, &str)]) -> String {
    let dependencies: Vec<String> =
        dependencies.iter().map(|(name, kind)| format!(r#"{{"name":"{name}","kind":{kind}}}"#)).collect();
    format!(
        r#"{{"name":"{name}","manifest_path":"/checkout/crates/{name}/Cargo.toml","publish":{publish},
            "description":"A crate","rust_version":"1.95","features":{{}},"dependencies":[{}]}}"#,
        dependencies.join(",")
    )
}

fn broken(packages: &[String]) -> Vec<String> {
    let metadata = format!(r#"{{"packages":[{}]}}"#, packages.join(","));
    broken_arrows(&workspace::read(&metadata).unwrap())
}

#[test]
fn this_workspace_keeps_its_layers() {
    let problems = problems().unwrap();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn arrows_of_the_table_are_allowed() {
    let problems = broken(&[
        package("tidegate-core", "null", &[("jiff", "null")]),
        package("tidegate-store", "null", &[("tidegate-core", "null")]),
        package("tidegate-store-redis", "null", &[("tidegate-store", "null"), ("redis", "null")]),
        package("tidegate-server", "null", &[("tidegate-store-redis", "null"), ("tokio", "null")]),
        package("tidegate-bench", "[]", &[("tidegate-server", "null")]),
        package("xtask", "[]", &[]),
    ]);
    assert_eq!(problems, [""; 0]);
}

#[test]
fn an_arrow_upwards_is_named_with_what_would_be_allowed() {
    let problems = broken(&[
        package("tidegate-core", "null", &[("tidegate-engine", "null")]),
        package("tidegate-engine", "null", &[("tidegate-core", "null")]),
        package("tidegate-capacity", "null", &[("tidegate-overload", "null")]),
        package("tidegate-overload", "null", &[]),
    ]);
    assert_eq!(
        problems,
        [
            "tidegate-core depends on tidegate-engine; it may depend on no other crate of the workspace",
            "tidegate-capacity depends on tidegate-overload; it may depend on tidegate-core",
        ]
    );
}

#[test]
fn a_build_dependency_is_an_arrow_and_a_dependency_of_tests_is_not() {
    let below = package("tidegate-engine", "null", &[]);
    let built = package("tidegate-core", "null", &[("tidegate-engine", r#""build""#)]);
    let tested = package("tidegate-core", "null", &[("tidegate-engine", r#""dev""#)]);
    assert_eq!(broken(&[built, below.clone()]).len(), 1);
    assert_eq!(broken(&[tested, below]), [""; 0]);
}

#[test]
fn one_backend_does_not_use_another() {
    let problems = broken(&[
        package("tidegate-store-redis", "null", &[("tidegate-store-redb", "null")]),
        package("tidegate-store-redb", "null", &[]),
    ]);
    assert_eq!(
        problems,
        [
            "tidegate-store-redis depends on tidegate-store-redb; it may depend on tidegate-core, tidegate-store"
        ]
    );
}

#[test]
fn nothing_depends_on_a_tool_of_the_project() {
    let tools = [package("xtask", "[]", &[]), package("tidegate-bench", "[]", &[("xtask", "null")])];
    assert_eq!(broken(&tools), ["tidegate-bench depends on xtask; it may depend on any"]);
}

#[test]
fn a_crate_of_no_layer_is_told_where_to_be_added() {
    let problems = broken(&[package("tidegate-new", "null", &[])]);
    assert_eq!(
        problems,
        ["tidegate-new is in no layer; add it to CRATES in xtask/src/layers/rules.rs and to ARCHITECTURE.md"]
    );
}

#[test]
fn tools_are_not_published_and_everything_else_is() {
    let problems = broken(&[package("xtask", "null", &[]), package("tidegate-wire", "[]", &[])]);
    assert_eq!(
        problems,
        [
            "xtask is never published; say `publish = false`",
            "tidegate-wire is part of the product; remove `publish = false`",
        ]
    );
}

#[test]
fn an_impure_package_is_found_at_any_depth_with_the_way_to_it() {
    let tree = "\
0 tidegate v0.1.0 (/checkout/crates/tidegate)
1 ahash v0.8.12
2 cfg-if v1.0.0
2 getrandom v0.3.1
3 libc v0.2.0
1 thiserror v2.0.0
2 tokio v1.0.0
";
    assert_eq!(
        reached_packages(tree, IMPURE_PACKAGES),
        ["getrandom: tidegate -> ahash -> getrandom", "tokio: tidegate -> thiserror -> tokio",]
    );
    let harmless = tree.replace("getrandom", "once_cell").replace("tokio", "syn");
    assert_eq!(reached_packages(&harmless, IMPURE_PACKAGES), [""; 0]);
}

#[test]
fn getrandom_does_not_count_below_ring_and_counts_below_others() {
    let tree = "0 tidegate-engine v0.1.0\n1 ring v0.17.14\n2 getrandom v0.2.17\n1 ahash v0.8.12\n";
    assert_eq!(reached_packages(tree, IMPURE_PACKAGES), [""; 0]);
    let other = format!("{tree}2 getrandom v0.3.0\n");
    assert_eq!(
        reached_packages(&other, IMPURE_PACKAGES),
        ["getrandom: tidegate-engine -> ahash -> getrandom"]
    );
}

#[test]
fn a_ban_that_a_pure_crate_lacks_is_named() {
    let model = "disallowed-types = [\n    { path = \"std::fs::File\", reason = \"no file\" },\n\
        { path = \"std::time::Instant\", reason = \"no clock\" },\n]";
    let own =
        "disallowed-types = [\n    { path = \"std::fs::File\" },\n# { path = \"std::time::Instant\" },\n]";
    assert_eq!(
        missing_bans("tidegate-wire", own, &bans_in(model)),
        ["tidegate-wire is pure, and its clippy.toml does not ban std::time::Instant; \
          copy crates/tidegate-core/clippy.toml"]
    );
    assert_eq!(missing_bans("tidegate-wire", "", &bans_in(model)).len(), 2);
    assert_eq!(missing_bans("tidegate-wire", model, &bans_in(model)), [""; 0]);
}

const MANIFEST: &str = "\
[package]
name = \"tidegate\"
version.workspace = true
edition.workspace = true
rust-version.workspace = true
license.workspace = true
repository.workspace = true
authors.workspace = true

[dependencies]
thiserror.workspace = true

[lints]
workspace = true
";

#[test]
fn what_a_manifest_does_not_inherit_is_named() {
    assert_eq!(not_inherited("tidegate-core", MANIFEST), [""; 0]);
    assert_eq!(
        not_inherited("tidegate-core", &MANIFEST.replace("license.workspace = true", "license = \"MIT\"")),
        ["tidegate-core: [package] in its Cargo.toml must say `license.workspace = true`"]
    );
    assert_eq!(
        not_inherited("tidegate-core", MANIFEST.split("[lints]").next().unwrap()),
        ["tidegate-core: [lints] in its Cargo.toml must say `workspace = true`"]
    );
    assert_eq!(
        not_inherited("tidegate-clock", MANIFEST.split("[lints]").next().unwrap()),
        [""; 0],
        "its lints are its own"
    );
    assert_eq!(
        not_inherited("tidegate-core", &MANIFEST.replace("[lints]", "[dev-dependencies]")),
        ["tidegate-core: [lints] in its Cargo.toml must say `workspace = true`"]
    );
}

#[test]
fn a_name_in_full_wins_over_a_beginning_and_no_rule_is_written_twice() {
    assert_eq!(rule_for("tidegate-store").unwrap().name, "tidegate-store");
    assert_eq!(rule_for("tidegate-store-redb").unwrap().name, "tidegate-store-*");
    for (position, rule) in CRATES.iter().enumerate() {
        assert!(CRATES[..position].iter().all(|earlier| earlier.name != rule.name), "{} twice", rule.name);
    }
}

#[test]
fn the_table_is_ordered_so_that_every_arrow_points_up_the_page() {
    for (position, rule) in CRATES.iter().enumerate() {
        for used in rule.may_use.iter().filter(|used| **used != ANY) {
            let above = &CRATES[..position];
            assert!(above.iter().any(|earlier| earlier.name == *used), "{} may use {used}", rule.name);
            let is_pure = |name: &str| CRATES.iter().any(|rule| rule.name == name && rule.kind == Kind::Pure);
            assert!(rule.kind != Kind::Pure || is_pure(used), "{} is pure and may use {used}", rule.name);
        }
    }
}
